"""Sampling with two-dimensional taps, bilinear or nearest-neighbor, a row of taps in one load.

The patch of a pixel is the rectangle of source pixels around its position that has its taps. A load holds the pixels of
several taps, whose channels lie side by side; its lanes are summed over the rows of the patch with the weights in y,
then weighted in x by lane, and only at the end summed by channel. So a tap costs a fraction of a vector, and its
weights in x are never written to memory.
"""

from collections.abc import Mapping
from typing import Any

from .. import sampling
from ..compiled import NativeFunction
from ..lang import from_dtype, types
from ..layout import NEAREST, RECORD
from ..scalar import confine, f32, i32, loop, scalar, up
from .intrinsics import BYTES, FLOATS, INTS, SOURCES, array_at, bytes_at, caller, copy, floats_of, ints_of
from .records import CALLS, SCRATCH, SOURCE
from .vectors import LANES, PIXELS, make_sum_four_patches

# Distance of lanes that have no tap, in units of the filter: farther than any tap, so that they weigh nothing.
_NOWHERE = f32(1e9)

_COLORS_A_LOAD = LANES // 3  # taps of color that a load holds whole
_HALF = LANES // 2  # lanes of the loads of small patches


def by_source(name: str, loops: Mapping[str, Any], *types_: Any) -> tuple[dict[str, NativeFunction], Any]:
    """Return a native function for each dtype of a source, its first argument, and an intrinsic that calls them."""
    functions = {
        dtype: NativeFunction(f"{name}_{dtype}", loops[dtype], types.void(kind, *types_))
        for dtype, kind in SOURCES.items()
    }
    return functions, caller(types.void(BYTES, *types_))  # or any other pointer


#: The type of the ways to sample rows of a grid into the planes. Arguments: calls, source, record of the grid,
#: first row and the one after the last, scratch.
SAMPLE = types.void(
    from_dtype(CALLS), from_dtype(SOURCE), from_dtype(RECORD), types.int64, types.int64, from_dtype(SCRATCH)
)


@scalar
def _inverse(filter, support):
    """Return units of the filter per source pixel; 0 for "nearest", whose one tap always has weight 1."""
    return f32(0.0) if filter == NEAREST else f32(1.0) / support


@loop
def project_row(m, y, x0, height, width, xs, ys):
    """Compute the coordinates that matrix ``m`` maps the pixels of row ``y`` of a grid to, from column ``x0`` on."""
    # Matrices count from the grid's center, so that float32 is most precise where the image is.
    v = f32(y) - f32(height - 1) * f32(0.5)
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8]
    left = f32(width - 1) * f32(0.5)
    for x in range(xs.size):
        u = f32(x0 + x) - left
        xs[x] = sampling.project(m0, m1, m2, m6, m7, m8, u, v)
        ys[x] = sampling.project(m3, m4, m5, m6, m7, m8, u, v)


@loop
def plane_rows(planes, at, width):
    """Return ``width`` pixels of the grid in each plane, from element ``at`` on."""
    plane = planes.size // 3
    return (
        planes[at : at + width], planes[plane + at : plane + at + width],
        planes[2 * plane + at : 2 * plane + at + width],
    )  # fmt: skip


@loop
def _lay_axis(positions, filter, support, low, high, taps, starts, distances, total):
    """Compute the first pixel of each position's taps, its distance in units of the filter, and the sum of weights.

    Patches are moved into the window as a whole, so that they need no clamping: taps that they gain there are too far
    away to have a weight.
    """
    inverse = _inverse(filter, support)
    reach = sampling.reach(filter, support, taps)
    low_f, high_f = f32(low), f32(high)
    last = f32(high - taps)
    for x in range(positions.size):
        center = sampling.tap_center(positions[x], filter, low_f, high_f)
        start = confine(sampling.first_tap(center, reach), low_f, last)
        starts[x] = i32(start)
        distances[x] = (start + f32(0.5) - center) * inverse
        total[x] = f32(0.0)
    for t in range(taps):
        step = f32(t) * inverse
        for x in range(positions.size):
            total[x] += sampling.triangle(distances[x] + step)


@loop
def _weigh_rows(distances, rows, inverse, scale, total_x, total_y, weights):
    """Compute the weights of each pixel's rows, such that those of all its taps add up to ``scale``."""
    # Both axes are normalized here, in the weights of rows: those in x stay as the filter has them.
    n = distances.size
    for x in range(n):
        total_x[x] = scale / (total_x[x] * total_y[x])
    for t in range(rows):
        step = f32(t) * inverse
        weight = weights[t * n : (t + 1) * n]
        for x in range(n):
            weight[x] = sampling.triangle(distances[x] + step) * total_x[x]


@loop
def _lay_steps(steps, taps, channels, inverse):
    """Compute the distance of each lane's tap from the first tap, for all loads of a row; _NOWHERE without a tap."""
    for k in range(steps.size):
        lane = k % LANES
        tap = k if channels == 1 else k // LANES * _COLORS_A_LOAD + lane // 3
        unused = tap >= taps or (channels == 3 and lane == LANES - 1)
        steps[k] = _NOWHERE if unused else f32(tap) * inverse


@loop
def _sum_patch(source, channels, stride, rows, columns, inverse, starts, distances, weights, x, r, g, b):
    """Sum the patch of one pixel tap by tap, where a load would leave the source."""
    n = r.size
    at = starts[x]
    distance = distances[x]
    second = 1 if channels == 3 else 0  # elements from a channel to the next; 0 reads gray three times
    red, green, blue = f32(0.0), f32(0.0), f32(0.0)
    for j in range(rows):
        for i in range(columns):
            weight = weights[j * n + x] * sampling.triangle(distance + f32(i) * inverse)
            k = up(at + j * stride + i * channels)
            red += weight * f32(source[k])
            green += weight * f32(source[k + up(second)])
            blue += weight * f32(source[k + up(2 * second)])
    r[x], g[x], b[x] = red, green, blue


@loop
def _last(starts, x):
    return max(max(starts[x], starts[x + up(1)]), max(starts[x + up(2)], starts[x + up(3)]))


def _make_row(channels: int, lanes: int) -> Any:
    sum_four_patches = make_sum_four_patches(channels, lanes)

    @loop
    def sum_row(source, end, stride, rows, loads, starts, distances, weights, steps, r, g, b):
        """Sum the patches of a row of pixels, four pixels at a time; the last four overlap those before.

        Fours with a patch that begins after element ``end`` are left out. Returns whether there were none.
        """
        n = r.size
        complete = n >= PIXELS
        for block in range(0, n if complete else 0, PIXELS):
            x = up(min(block, n - PIXELS))
            if _last(starts, x) <= end:
                sum_four_patches(source, starts, stride, rows, loads, weights, n, distances, steps, x, r, g, b)
            else:
                complete = False
        return complete

    return sum_row


_sum_color_row, _sum_small_color_row = _make_row(3, LANES), _make_row(3, _HALF)
_sum_gray_row, _sum_small_gray_row = _make_row(1, LANES), _make_row(1, _HALF)


def _sum_patches(
    source_, size, channels, stride, rows, columns, inverse, starts_, distances_, weights_, steps_, loads, r_, g_, b_, n
):  # fmt: skip
    """Sum the patches of a row of pixels: vectors where loads stay within the source, else tap by tap."""
    source, starts, distances = array_at(source_, size), array_at(starts_, n), array_at(distances_, n)
    weights, steps = array_at(weights_, rows * n), array_at(steps_, loads * LANES)
    r, g, b = array_at(r_, n), array_at(g_, n), array_at(b_, n)
    lanes = _HALF if columns * channels <= _HALF else LANES
    # The last element at which a patch may begin so that none of its loads, which are whole vectors, leaves the source.
    # Negative, and so before every patch, where the source is too small.
    end = size - (rows - 1) * stride - (loads - 1) * (lanes // channels * channels) - lanes
    if channels == 3 and lanes == _HALF:
        complete = _sum_small_color_row(
            source, end, stride, rows, loads, starts, distances, weights, steps, r, g, b
        )  # fmt: skip
    elif channels == 3:
        complete = _sum_color_row(source, end, stride, rows, loads, starts, distances, weights, steps, r, g, b)
    elif lanes == _HALF:
        complete = _sum_small_gray_row(source, end, stride, rows, loads, starts, distances, weights, steps, r, g, b)
    else:
        complete = _sum_gray_row(source, end, stride, rows, loads, starts, distances, weights, steps, r, g, b)
    if not complete:  # the blocks of four whose loads would leave the source
        for block in range(0, n, PIXELS):
            first = max(min(block, n - PIXELS), 0)
            if n < PIXELS or _last(starts, up(first)) > end:
                for x in range(first, min(first + PIXELS, n)):
                    _sum_patch(source, channels, stride, rows, columns, inverse, starts, distances, weights, x, r, g, b)
    if channels == 1:
        copy(r, g)
        copy(r, b)


SUM_PATCHES_FUNCTIONS, _call_sum_patches = by_source(
    "sum_patches", dict.fromkeys(SOURCES, _sum_patches), *[types.int64] * 5, types.float32, INTS, FLOATS, FLOATS,
    FLOATS, types.int64, FLOATS, FLOATS, FLOATS, types.int64,
)  # fmt: skip

# Columns taken at a time, so that the tables of a row stay in the first-level cache. Narrower tiles, whose patches
# share more cache lines, lose more by their short loops.
_TILE = 256


@loop
def patches_space(nx, ny):
    """Return the elements of ``floats`` that ``nx`` by ``ny`` taps need."""
    return (6 + ny) * _TILE + (nx // _COLORS_A_LOAD + 1) * LANES


def _patched(calls, source, record, y0, y1, scratch):
    """Sample rows ``y0`` to ``y1`` of a bilinear or a nearest-neighbor grid."""
    planes, floats, ints = floats_of(scratch.planes), floats_of(scratch.floats), ints_of(scratch.ints)
    pixels, channels = bytes_at(source.address, source.elements), source.channels  # bytes or any other elements
    height, width, stride = record.height, record.width, record.stride
    x_low, y_low, x_high, y_high = record.window[0], record.window[1], record.window[2], record.window[3]
    columns, rows = min(record.taps[0], x_high - x_low), min(record.taps[1], y_high - y_low)  # of a patch
    n = min(width, _TILE)
    # For every column of a tile: positions, distances of the first tap, sums of weights, weights of the patch's rows.
    xs, ys, left, below = floats[:n], floats[n : 2 * n], floats[2 * n : 3 * n], floats[3 * n : 4 * n]
    total_x, total_y, weights = floats[4 * n : 5 * n], floats[5 * n : 6 * n], floats[6 * n : (6 + rows) * n]
    end = (6 + rows) * n
    loads = (columns - 1) // (LANES if channels == 1 else _COLORS_A_LOAD) + 1
    steps = floats[end : end + loads * LANES]
    starts, lines = ints[:n], ints[n : 2 * n]
    filter, support_x, support_y = record.filter, record.support[0], record.support[1]
    inverse_x, inverse_y = _inverse(filter, support_x), _inverse(filter, support_y)
    m = record.matrix[:]
    _lay_steps(steps, columns, channels, inverse_x)
    for tile in range(0, width, n):
        x0 = min(tile, width - n)  # the last tile overlaps the one before: all are of one width
        for y in range(y0, y1):
            project_row(m, y, x0, height, width, xs, ys)
            _lay_axis(xs, filter, support_x, x_low, x_high, columns, starts, left, total_x)
            _lay_axis(ys, filter, support_y, y_low, y_high, rows, lines, below, total_y)
            _weigh_rows(below, rows, inverse_y, source.scale, total_x, total_y, weights)
            for x in range(n):  # from pixels to elements
                starts[x] = lines[x] * stride + starts[x] * channels
            r, g, b = plane_rows(planes, (y - y0) * width + x0, n)
            _call_sum_patches(
                calls.sum_patches, (pixels, source.elements, channels, stride, rows, columns, inverse_x, starts, left,
                weights, steps, loads, r, g, b, n)
            )  # fmt: skip


PATCHED_FUNCTION = NativeFunction("patched", _patched, SAMPLE)
