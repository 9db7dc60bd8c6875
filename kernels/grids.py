"""Grids of a plan as kernels read them: matrices from their centers, the source pixels that they read, their records.

Each function takes the arrays of :class:`gpuimg._plan.plan.Grid` for all images of a batch, C-contiguous: ``sizes``
(N, 2), ``supports`` (N, 2), ``filters`` (N,) and ``windows`` (N, 4).
"""

import numpy as np

from .compiled import cached_jit
from .layout import GATHERED, GAUSSIAN, NEAREST, OVERSHOOTS, RADIUS, RECORD, SEPARABLE, SMOOTHNESS, WHOLE
from .ops import INSTRUCTION_HEADER
from .scalar import f32, f64, strict

_HORIZON = 1e-6  # depth below which a perspective view has no bounding box
_MARGIN = 2.0  # source pixels read around the filter's reach
_ROUNDING = 1e-4  # of a filter's width in taps
_BEYOND = 2**63 - 1  # the largest int64: right of and below every pixel


@strict
def _center(matrix, height, width, out):
    for k in range(3):
        out[k, 0], out[k, 1] = matrix[k, 0], matrix[k, 1]
        out[k, 2] = matrix[k, 2] + (matrix[k, 0] * (width / 2.0) + matrix[k, 1] * (height / 2.0))
    depth = out[2, 2]
    if depth != 0.0:
        for k in range(3):
            for column in range(3):
                out[k, column] /= depth


@cached_jit("none(float64[:, :, ::1], int64[:, ::1], float64[:, :, ::1])", nogil=False)
def center(matrices, sizes, out):
    """Fill ``out`` (N, 3, 3) with matrices for positions relative to the grids' centers.

    Smaller numbers lose less in float32.
    """
    for i in range(len(sizes)):
        _center(matrices[i], f64(sizes[i, 0]), f64(sizes[i, 1]), out[i])


@strict
def _bounds(matrix, k, x, y):
    """Return the smallest and largest source position along an axis of a grid of half sizes ``x`` and ``y``."""
    if matrix[2, 0] == 0.0 and matrix[2, 1] == 0.0 and matrix[2, 2] != 0.0:
        spread = abs(matrix[k, 0]) * x + abs(matrix[k, 1]) * y
        return matrix[k, 2] - spread, matrix[k, 2] + spread
    low, high = np.inf, -np.inf
    for corner in range(4):
        at_x, at_y = x if corner & 1 else -x, y if corner & 2 else -y
        depth = matrix[2, 0] * at_x + matrix[2, 1] * at_y + matrix[2, 2]
        if depth <= _HORIZON:
            return -np.inf, np.inf
        at = (matrix[k, 0] * at_x + matrix[k, 1] * at_y + matrix[k, 2]) / depth
        low, high = min(low, at), max(high, at)
    return low, high


@strict
def _is_whole(matrix):
    """Return whether a matrix maps pixels to pixels: flips, quarter turns and shifts."""
    for k in range(2):
        x, y, shift = abs(matrix[k, 0]), abs(matrix[k, 1]), matrix[k, 2]
        if not ((x == 0.0 and y == 1.0) or (x == 1.0 and y == 0.0)) or shift != np.rint(shift):
            return False
    return matrix[2, 0] == 0.0 and matrix[2, 1] == 0.0 and matrix[2, 2] == 1.0


@cached_jit(
    "none(int64[:, ::1], int64[:, ::1], int64[:, ::1], float64[:, :, ::1], int64[:, ::1], int64[:, ::1], "
    "float64[:, :, ::1])",
    nogil=False,
)
def narrow(corners, new, sizes, matrices, windows, narrowed, shifts):
    """Fill ``narrowed`` (N, 4) with the windows of grids from which rectangles are cut, and ``shifts`` (N, 3, 3).

    A window stays as it is where pixels of the grid are not whole source pixels. ``corners`` and ``new`` (N, 2) are the
    rows and columns of the rectangles, which may extend beyond the grid. ``matrices`` lead to the source, and shifts
    from the rectangles to the grid.
    """
    for i in range(len(sizes)):
        matrix, before, window = matrices[i], windows[i], narrowed[i]
        shifts[i] = 0.0
        shifts[i, 0, 0] = shifts[i, 1, 1] = shifts[i, 2, 2] = 1.0
        shifts[i, 0, 2], shifts[i, 1, 2] = f64(corners[i, 1]), f64(corners[i, 0])
        for k in range(4):
            window[k] = before[k]
        if not _is_whole(matrix):
            continue
        for k in range(2):
            ends = (np.inf, -np.inf)
            for side in range(2):
                at = matrix[k, 2]
                for axis in range(2):
                    size, corner = sizes[i, 1 - axis], corners[i, 1 - axis]
                    first = min(max(corner, 0), size - 1)
                    place = max(min(corner + new[i, 1 - axis], size), first + 1) if side else first
                    at += matrix[k, axis] * f64(place)
                ends = min(ends[0], at), max(ends[1], at)
            # A crop entirely outside its image is only fill; its window still needs one pixel.
            low = min(np.int64(max(ends[0], f64(before[k]))), before[k + 2] - 1)
            window[k], window[k + 2] = low, max(np.int64(min(ends[1], f64(before[k + 2]))), low + 1)


@strict
def _move(matrix, local, support, scale, moved, stretched):
    for row in range(3):
        for k in range(3):
            moved[row, k] = matrix[row, 0] * local[0, k] + matrix[row, 1] * local[1, k] + matrix[row, 2] * local[2, k]
    for k in range(2):
        stretched[k] = support[k]
        if scale.size:
            x, y = matrix[k, 0] * max(scale[0, 0], 1.0), matrix[k, 1] * max(scale[0, 1], 1.0)
            stretched[k] = max(support[k], np.sqrt(x * x + y * y))


@cached_jit(
    "none(float64[:, :, ::1], float64[:, :, ::1], float64[:, ::1], float64[:, ::1], float64[:, :, ::1], "
    "float64[:, ::1])",
    nogil=False,
)
def move(matrices, locals_, supports, scales, moved, stretched):
    """Fill ``moved`` (N, 3, 3) with matrices of new grids, which ``locals_`` lead to the current ones, and supports.

    ``stretched`` (N, 2) are the supports of a filter that pixels of the new grid widen by ``scales`` (N, 2), x and y;
    without scales they are the current ones. The support is the length of one filter unit along each axis of the grid
    that ``matrices`` lead to.
    """
    for i in range(len(moved)):
        _move(matrices[i], locals_[i], supports[i], scales[i : i + 1], moved[i], stretched[i])


@cached_jit("none(int64[::1], int64[::1], int64[::1])", nogil=False)
def smoothest(before, filters, chosen):
    """Fill ``chosen`` (N,) with the smoother one of two filters, ``before`` where none is."""
    for i in range(len(chosen)):
        chosen[i] = filters[i] if SMOOTHNESS[before[i]] < SMOOTHNESS[filters[i]] else before[i]


@cached_jit("none(int64[:, ::1], int64[:, ::1], float64[:, :, ::1], float64[:, ::1])", nogil=False)
def resize(sizes, new, matrices, scales):
    """Fill ``matrices`` (N, 3, 3) and ``scales`` (N, 2), x and y, of grids of new sizes (N, 2)."""
    for i in range(len(new)):
        matrices[i] = 0.0
        for k in range(2):
            scales[i, k] = matrices[i, k, k] = sizes[i, 1 - k] / new[i, 1 - k]
        matrices[i, 2, 2] = 1.0


@strict
def _widen(size, matrix, support, filter_, window, region):
    for k in range(2):
        low, high = _bounds(matrix, k, f64(size[1] - 1) / 2.0, f64(size[0] - 1) / 2.0)
        reach = RADIUS[filter_] * (1.0 if filter_ == NEAREST else support[k]) + _MARGIN
        if filter_ > GAUSSIAN:  # mirrored: reads anywhere
            reach = np.inf
        # Clip before the cast: infinities and far-away views must not overflow.
        first = np.int64(np.floor(min(max(low - reach, f64(window[k])), f64(window[k + 2] - 1))))
        last = np.int64(np.ceil(min(max(high + reach, f64(first + 1)), f64(window[k + 2]))))
        region[k], region[k + 2] = min(region[k], first), max(region[k + 2], last)


@cached_jit(
    "none(int64[:, ::1], float64[:, :, ::1], float64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int64[:, ::1])",
    nogil=False,
)
def widen(sizes, matrices, supports, filters, windows, used, regions):
    """Widen ``regions`` (N, 4), x0, y0, x1, y1, by the source pixels that grids read.

    ``matrices`` are those of :func:`center`. Images whose ``used`` (N,) is 0 are left out.
    """
    for i in range(len(sizes)):
        if used[i] > 0:
            _widen(sizes[i], matrices[i], supports[i], filters[i], windows[i], regions[i])


@strict
def _fill(size, matrix, support, filter_, window, kernel, region, record):
    record.height, record.width, record.filter = size[0], size[1], filter_
    mixed = matrix[0, 1] != 0.0 or matrix[1, 0] != 0.0 or matrix[2, 0] != 0.0 or matrix[2, 1] != 0.0
    whole = filter_ == NEAREST and matrix[2, 2] == 1.0  # shows pixels of its window as they are
    for k in range(2):
        corner, count = region[k], size[1 - k]
        record.window[k] = max(window[k], corner) - corner
        record.window[k + 2] = min(window[k + 2], region[k + 2]) - corner
        for column in range(3):
            record.matrix[3 * k + column] = matrix[k, column] - f64(corner) * matrix[2, column]
        low = matrix[k, 2] - f64(count - 1) / 2.0 - 0.5
        inside = low >= f64(window[k]) and low + f64(count) <= f64(window[k + 2])
        whole = whole and inside and abs(matrix[k, k]) == 1.0 and low == np.rint(low)
        record.support[k] = 1.0 if filter_ == NEAREST else support[k]
        taps = np.ceil(2.0 * RADIUS[filter_] * f64(f32(record.support[k])) - _ROUNDING)
        record.taps[k] = np.int64(max(taps, 1.0))
    for column in range(3):
        record.matrix[6 + column] = matrix[2, column]
    if filter_ == GAUSSIAN and len(kernel):
        record.taps[0], record.taps[1] = kernel[0, 0], kernel[0, 1]
    record.way = GATHERED if mixed else WHOLE if whole else SEPARABLE


@cached_jit(
    "none(int64[:, ::1], float64[:, :, ::1], float64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], "
    "int64[:, ::1], RECORD[::1])",
    nogil=False,
    RECORD=RECORD,
)
def fill_records(sizes, matrices, supports, filters, windows, kernels, regions, records):
    """Fill records, except for the fields that runtimes fill, with positions relative to the corners of ``regions``.

    ``matrices`` are those of :func:`center`; ``kernels`` (N, 2) are the taps of images whose filter is GAUSSIAN, empty
    where there are none.
    """
    for i in range(len(sizes)):
        _fill(sizes[i], matrices[i], supports[i], filters[i], windows[i], kernels[i : i + 1], regions[i], records[i])


@cached_jit(
    "int64(int64[:, ::1], float64[:, :, ::1], float64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], "
    "float64[:, ::1], int64[:, ::1], RECORD[::1])",
    nogil=False,
    RECORD=RECORD,
)
def describe_grids(sizes, matrices, supports, filters, windows, kernels, centered, regions, records):
    """Fill ``regions`` (N, 4) with what grids read, and their records: :func:`center`, :func:`widen`, fill_records.

    ``matrices`` are from the grids' corners; ``centered`` (3, 3) is scratch. Returns how many filters may overshoot.
    """
    overshoots = 0
    for i in range(len(sizes)):
        size, region = sizes[i], regions[i]
        region[0], region[1], region[2], region[3] = _BEYOND, _BEYOND, 0, 0
        _center(matrices[i], f64(size[0]), f64(size[1]), centered)
        _widen(size, centered, supports[i], filters[i], windows[i], region)
        _fill(size, centered, supports[i], filters[i], windows[i], kernels[i : i + 1], region, records[i])
        overshoots += OVERSHOOTS[filters[i]]
    return overshoots


@cached_jit("none(int32[::1], float32[:, ::1], int64, float32[:, ::1], uint8[::1])", nogil=False)
def write_instructions(codes, params, at, programs, used):
    """Write an instruction of each image at word ``at`` of ``programs`` (N, L): its code, its words, its parameters.

    Sets ``used`` (len(OPS),) of the ``codes`` (N,).
    """
    for i in range(len(codes)):
        used[codes[i]] = 1
        program = programs[i, at:]
        program[0], program[1] = codes[i], INSTRUCTION_HEADER + params.shape[1]
        for k in range(params.shape[1]):
            program[INSTRUCTION_HEADER + k] = params[i, k]
