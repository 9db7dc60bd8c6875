"""Ops of a program on a CPU: each is a loop over a row of pixels, or over the whole grid, built from the op table.

The loop over operations is outside and the loop over pixels inside, so that LLVM vectorizes each formula. The formulas
are the scalar functions that the CUDA kernels call, too.
"""

from typing import Any

import numpy as np

from .. import color, statistics
from ..compiled import NativeFunction
from ..kept import kept
from ..lang import njit, types
from ..native import with_numba
from ..ops import (
    CHANNELS,
    ELASTIC,
    HISTOGRAM,
    JPEG,
    LEVELS,
    MATRIX_WIDTH,
    MEAN,
    MOST_TAPS,
    MOTION,
    OPS,
    RANGE,
    SHARPNESS,
    SLOT,
    STATISTICS_WORDS,
    Op,
)  # fmt: skip
from ..program import PIXEL_OPS, formula_of, values_of
from ..scalar import clamp, confine, f32, floor, i32, loop
from ..user import count
from .artefacts import compress
from .elastic import elastic
from .intrinsics import FLOATS, INTS, array_at, caller, copy
from .patches import project_row

# -- rows --------------------------------------------------------------------------------------------------------------

_ROW = types.void(FLOATS, FLOATS, types.int64, types.int64, FLOATS, FLOATS, FLOATS, FLOATS, FLOATS, types.int64)
call_row = caller(_ROW)


def _make_row(op: Op, functions: tuple[Any, ...] = ()) -> Any:
    """Return a loop that applies an op to a row of pixels, whose positions in its coordinates are computed first."""
    read, apply = values_of(op, functions), formula_of(op, functions)
    width = op.width + max(map(count, functions), default=0)

    positioned, has_statistic = op.coordinates, op.statistic is not None

    def row(params_, statistics_, y, height, r_, g_, b_, xs_, ys_, n):
        params = array_at(params_, width)
        tables = array_at(statistics_, (i32(params[SLOT]) + 1) * STATISTICS_WORDS if has_statistic else 0)
        r, g, b = array_at(r_, n), array_at(g_, n), array_at(b_, n)
        xs, ys = array_at(xs_, n), array_at(ys_, n)
        if positioned:
            project_row(params[:MATRIX_WIDTH], y, 0, height, n, xs, ys)
        values = read(params, 0, tables, 0)
        for x in range(n):
            r[x], g[x], b[x] = apply(r[x], g[x], b[x], xs[x], ys[x], values)

    if not functions:
        return row
    run, function = njit(error_model="numpy")(row), op.offset

    def user_row(params_, statistics_, y, height, r_, g_, b_, xs_, ys_, n):
        try:
            run(params_, statistics_, y, height, r_, g_, b_, xs_, ys_, n)
        except Exception:  # the program says so: then no function runs any more, and the host finds it
            array_at(params_, width)[function] = f32(np.nan)

    return user_row


#: The loops of ops over a row, by their codes; those of users' functions are made for each plan.
ROW_FUNCTIONS = {op.code: NativeFunction(f"row_{op.name}", _make_row(op), _ROW) for op in PIXEL_OPS if not op.user}


def user_row(code: int, functions: tuple[Any, ...]) -> int:
    """Address of the loop of an op that calls these functions of the user's, which may do anything."""
    return int(with_numba("cpu.program").compile_user_row(code, functions).address)


@kept
def compile_user_row(code: int, functions: tuple[Any, ...]) -> NativeFunction:
    """As :func:`user_row`, with the formulas of this instance of the package."""
    op = OPS[code]
    return NativeFunction(f"row_{op.name}", _make_row(op, functions), _ROW, users=True)


# -- whole grids -------------------------------------------------------------------------------------------------------

_GRID = types.void(FLOATS, FLOATS, FLOATS, FLOATS, FLOATS, types.int64, types.int64, FLOATS, INTS)
call_grid = caller(_GRID)


def _mean(params_, statistics_, r_, g_, b_, height, width, work, counts):
    """Write the mean gray of the grid to its slot."""
    n = height * width
    params = array_at(params_, SLOT + 1)
    r, g, b = array_at(r_, n), array_at(g_, n), array_at(b_, n)
    slot = i32(params[SLOT]) * STATISTICS_WORDS
    words = array_at(statistics_, slot + STATISTICS_WORDS)
    channels = i32(params[CHANNELS])
    total = np.int64(0)
    for k in range(n):
        total += statistics.to_fixed(color.gray_of(r[k], g[k], b[k], channels))
    words[slot] = statistics.mean_of(total, n)


def _range(params_, statistics_, r_, g_, b_, height, width, work, counts):
    """Write the low end and gain of each channel to their slot."""
    n = height * width
    params = array_at(params_, SLOT + 1)
    slot = i32(params[SLOT]) * STATISTICS_WORDS
    words = array_at(statistics_, slot + STATISTICS_WORDS)
    for c in range(3):
        plane = array_at(r_ if c == 0 else g_ if c == 1 else b_, n)
        low = plane[0]
        high = plane[0]
        for k in range(n):
            low = min(low, plane[k])
            high = max(high, plane[k])
        low, gain = statistics.stretch_of(low, high)
        words[slot + 2 * c] = low
        words[slot + 2 * c + 1] = gain


def _histogram(params_, statistics_, r_, g_, b_, height, width, work, counts_):
    """Write the equalizing table of each channel to their slot."""
    n = height * width
    params = array_at(params_, SLOT + 1)
    counts = array_at(counts_, LEVELS)
    slot = i32(params[SLOT]) * STATISTICS_WORDS
    words = array_at(statistics_, slot + STATISTICS_WORDS)
    for c in range(3):
        plane = array_at(r_ if c == 0 else g_ if c == 1 else b_, n)
        for level in range(LEVELS):
            counts[level] = 0
        for k in range(n):
            counts[color.to_byte(plane[k])] += 1
        last = i32(0)  # pixels of the brightest level that occurs, which Pillow leaves out of the total
        for level in range(LEVELS):
            if counts[level] > 0:
                last = counts[level]
        step = statistics.equalize_step(i32(n), last)
        below = i32(0)  # pixels darker than the level
        for level in range(LEVELS):
            words[slot + LEVELS * c + level] = statistics.equalize_level(level, below, step)
            below += counts[level]


@loop
def _sharpen(factor, plane, height, width, work):
    """Mix every pixel of a plane that has eight neighbors with its smoothed self, in place."""
    # The row above and this one as they were before they were changed: two rows, rather than a copy of the plane.
    above = work[:width]
    present = work[width : 2 * width]
    copy(plane, above)
    for y in range(1, height - 1):
        row = plane[y * width : (y + 1) * width]
        below = plane[(y + 1) * width : (y + 2) * width]
        copy(row, present)
        for x in range(1, width - 1):
            around = above[x - 1] + above[x] + above[x + 1] + present[x - 1] + present[x + 1]
            around += below[x - 1] + below[x] + below[x + 1]
            row[x] = color.sharpen(present[x], around, factor)
        copy(present, above)


def _sharpness(params_, statistics_, r_, g_, b_, height, width, work_, counts):
    """Sharpen, or blur, the three planes of the grid."""
    n = height * width
    factor = array_at(params_, 1)[0]
    work = array_at(work_, 2 * width)
    _sharpen(factor, array_at(r_, n), height, width, work)
    _sharpen(factor, array_at(g_, n), height, width, work)
    _sharpen(factor, array_at(b_, n), height, width, work)


@loop
def _add_shifted(source, left, weight, other, out):
    """Add ``weight`` times a row shifted by ``left`` columns, and ``other`` times the column after; ends repeat."""
    width = out.size
    # Columns before ``start`` read left of the row, those from ``stop`` on right of it. Between them nothing is
    # clamped, so that loop vectorizes.
    start = min(max(-left, 0), width)
    stop = max(min(width - 1 - left, width), start)
    first, last = source[0], source[width - 1]
    for x in range(start):
        out[x] += (weight + other) * first if x + left + 1 <= 0 else weight * first + other * source[x + left + 1]
    n = stop - start
    here, following, to = source[start + left :], source[start + left + 1 :], out[start:]
    for x in range(n):
        to[x] += weight * here[x] + other * following[x]
    for x in range(stop, width):
        out[x] += (weight + other) * last


@loop
def _move(taps, step_x, step_y, plane, height, width, before):
    """Average a plane along a line through each pixel, in place; points between pixels are interpolated.

    The line has ``taps`` points, ``step_x`` and ``step_y`` pixels from one to the next.
    """
    # Point by point rather than pixel by pixel: each adds the whole plane, shifted by the same distance.
    copy(plane, before)
    for k in range(height * width):
        plane[k] = f32(0.0)
    share = f32(1.0) / f32(taps)
    for k in range(taps):
        t = f32(k) - f32(taps - 1) * f32(0.5)  # the line's middle is at the pixel
        x = clamp(t * step_x, f32(-width), f32(width))  # beyond, all pixels are those of the border
        y = clamp(t * step_y, f32(-height), f32(height))
        left, top = floor(x), floor(y)
        across, down = x - left, y - top
        for row in range(height):
            out = plane[row * width : (row + 1) * width]
            for j in range(2):
                part = (down if j == 1 else f32(1.0) - down) * share
                at = min(max(row + np.int64(top) + j, 0), height - 1) * width
                if part > f32(0.0):
                    source = before[at : at + width]
                    _add_shifted(source, np.int64(left), part * (f32(1.0) - across), part * across, out)


def _motion(params_, statistics_, r_, g_, b_, height, width, work_, counts):
    """Blur the three planes of the grid along lines."""
    n = height * width
    params = array_at(params_, 3)
    work = array_at(work_, n)
    taps = np.int64(confine(params[0], f32(1.0), f32(MOST_TAPS)))
    _move(taps, params[1], params[2], array_at(r_, n), height, width, work)
    _move(taps, params[1], params[2], array_at(g_, n), height, width, work)
    _move(taps, params[1], params[2], array_at(b_, n), height, width, work)


_STATISTICS = {MEAN: _mean, RANGE: _range, HISTOGRAM: _histogram}
_NEIGHBORS = {SHARPNESS: _sharpness, MOTION: _motion, JPEG: compress, ELASTIC: elastic}

#: The loops of ops over the whole grid, by their codes: they fill the op's statistics slot, or change the grid.
GRID_FUNCTIONS = {
    op.code: NativeFunction(f"grid_{op.name}", _STATISTICS[op.statistic] if op.statistic else _NEIGHBORS[op], _GRID)
    for op in OPS
    if op.neighbors or op.statistic
}
