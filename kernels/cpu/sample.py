"""The CPU runtime's sampling: rows of the grid from rows of the source, vectorized by LLVM.

There are two one-dimensional passes where x depends on the column only and y on the row only (separable), and
two-dimensional taps for everything else: in patches (:mod:`.patches`) for short filters, gathered one by one for
others. Positions and weights are computed by the scalar functions that the CUDA kernels call, too.

The tap table of an axis has a row for each tap, with an element for each position: its weight, and its offset in the
source. Offsets of x are counted in elements of a row, those of y in elements from row to row.
"""

import numpy as np

from .. import sampling
from ..compiled import NativeFunction
from ..lang import types
from ..layout import BOX, GAUSSIAN, HAMMING, LANCZOS, NEAREST
from ..scalar import f32, i32, loop, up
from .intrinsics import (
    FLOATS,
    INTS,
    LINE,
    SOURCES,
    TURNED,
    UINTS,
    address_of,
    array_at,
    bytes_at,
    caller,
    copy,
    floats_of,
    ints_of,
    load_bytes,
    sum_turned_color,
    sum_turned_gray,
    turn,
    uints_of,
)  # fmt: skip
from .patches import SAMPLE, by_source, patches_space, plane_rows, project_row

u32 = np.uint32

# Elements of a row that the vertical pass computes before they are turned: enough for the processor to fetch the rows
# of the source ahead, and whole vectors, since loops over these have no remainder.
_CHUNK = 1024
_VECTOR = 16


# -- taps --------------------------------------------------------------------------------------------------------------


def _lay_taps(positions_, n, support, filter, low, high, step, taps, scale, weights_, offsets_, total_):
    """Compute weights and element offsets of the taps of every position along one axis.

    ``weights`` and ``offsets`` hold ``taps`` rows of ``n``; the weights of a position add up to ``scale``; ``step`` is
    the number of elements from a pixel of the axis to the next. ``positions`` are overwritten.
    """
    positions, total = array_at(positions_, n), array_at(total_, n)
    weights, offsets = array_at(weights_, n * taps), array_at(offsets_, n * taps)
    low_f = f32(low)
    high_f = f32(high)
    if filter > GAUSSIAN:  # mirrored borders: nearest-neighbor at the mirrored position, which is inside
        for x in range(n):
            positions[x] = sampling.folded(positions[x], filter, low_f, high_f)
        filter = i32(NEAREST)
    inverse = f32(1.0) / support
    reach = sampling.reach(filter, support, taps)
    for x in range(n):
        positions[x] = sampling.tap_center(positions[x], filter, low_f, high_f)
        total[x] = f32(0.0)
    # Tap by tap, with the loop over positions inside, which vectorizes.
    for t in range(taps):
        weight = weights[t * n : (t + 1) * n]
        offset = offsets[t * n : (t + 1) * n]
        step_t = f32(t)
        if filter == GAUSSIAN:  # in a separate loop, since its exponential does not vectorize
            for x in range(n):
                tap = sampling.first_tap(positions[x], reach) + step_t
                weight[x] = sampling.gaussian_weight(tap, positions[x], inverse)
        elif filter == BOX or filter == HAMMING or filter == LANCZOS:
            for x in range(n):
                tap = sampling.first_tap(positions[x], reach) + step_t
                weight[x] = sampling.rare_weight(tap, positions[x], inverse, filter)
                weight[x] = weight[x] if tap >= low_f and tap < high_f else f32(0.0)
        else:
            for x in range(n):
                tap = sampling.first_tap(positions[x], reach) + step_t
                weight[x] = sampling.tap_weight(tap, positions[x], inverse, filter, low_f, high_f)
        for x in range(n):
            tap = sampling.first_tap(positions[x], reach) + step_t
            total[x] += weight[x]
            offset[x] = sampling.tap_index(tap, filter, low_f, high_f) * step
    # Taps outside the window weigh nothing, so the others are divided by their sum.
    for x in range(n):
        total[x] = scale / total[x]
    for t in range(taps):
        weight = weights[t * n : (t + 1) * n]
        for x in range(n):
            weight[x] *= total[x]


_LAY_TAPS = types.void(
    FLOATS, types.int64, types.float32, types.int32, types.int32, types.int32, types.int32, types.int32, types.float32,
    FLOATS, INTS, FLOATS,
)  # fmt: skip
LAY_TAPS_FUNCTION = NativeFunction("lay_taps", _lay_taps, _LAY_TAPS)
call_lay_taps = caller(_LAY_TAPS)


# -- two passes --------------------------------------------------------------------------------------------------------


def _mix_rows(source_, size, base, offsets_, weights_, y, height, taps, least, out_, out_size):
    """Compute the weighted sum of source rows, channels interleaved: the vertical pass, four rows at a time.

    At least ``least`` elements of ``out`` are filled, all of them where the source has as many.
    """
    source, out = array_at(source_, size), array_at(out_, out_size)
    offsets, weights = array_at(offsets_, height * taps), array_at(weights_, height * taps)
    for t in range(0, taps, 4):
        # Past the last tap its row is repeated with weight 0, so that the loops below always have four rows.
        last = taps - 1
        a0 = base + offsets[t * height + y]
        a1 = base + offsets[min(t + 1, last) * height + y]
        a2 = base + offsets[min(t + 2, last) * height + y]
        a3 = base + offsets[min(t + 3, last) * height + y]
        w0 = weights[t * height + y]
        w1 = weights[(t + 1) * height + y] if t + 1 < taps else f32(0.0)
        w2 = weights[(t + 2) * height + y] if t + 2 < taps else f32(0.0)
        w3 = weights[(t + 3) * height + y] if t + 3 < taps else f32(0.0)
        # All of ``out``, which is whole vectors, where the source may be read so far: a remainder takes as long as all
        # vectors before it.
        n = out.size if max(a0, a1, a2, a3) + out.size <= source.size else least
        s0 = source[a0 : a0 + n]
        s1 = source[a1 : a1 + n]
        s2 = source[a2 : a2 + n]
        s3 = source[a3 : a3 + n]
        # The first four taps assign, the others add; bilinear and nearest filters have two or fewer.
        if t == 0 and taps <= 2:
            for k in range(n):
                out[k] = w0 * f32(s0[k]) + w1 * f32(s1[k])
        elif t == 0 and taps == 3:
            for k in range(n):
                out[k] = w0 * f32(s0[k]) + w1 * f32(s1[k]) + w2 * f32(s2[k])
        elif t == 0:
            for k in range(n):
                out[k] = w0 * f32(s0[k]) + w1 * f32(s1[k]) + w2 * f32(s2[k]) + w3 * f32(s3[k])
        else:
            for k in range(n):
                out[k] += w0 * f32(s0[k]) + w1 * f32(s1[k]) + w2 * f32(s2[k]) + w3 * f32(s3[k])


MIX_ROWS_FUNCTIONS, _call_mix_rows = by_source(
    "mix_rows", dict.fromkeys(SOURCES, _mix_rows), types.int64, types.int64, INTS, FLOATS, *[types.int64] * 4, FLOATS,
    types.int64,
)  # fmt: skip


@loop
def _mix_turned(calls, source, first, elements, offsets, weights, y, height, taps, mixed, turned):
    """Compute the vertical pass of TURNED rows from ``y`` on: of each source element, one value for every row.

    ``first`` is the first element of a row that is needed. Rows after the last one of the grid are those of the last.
    """
    values = bytes_at(source.address, source.elements)  # bytes or any other elements
    for at in range(0, elements, _CHUNK):
        size = min(_CHUNK, elements - at)
        whole = (size + _VECTOR - 1) // _VECTOR * _VECTOR
        for j in range(TURNED):
            _call_mix_rows(
                calls.mix_rows, (values, source.elements, first + at, offsets, weights, min(y + j, height - 1), height,
                taps, size, mixed[j * _CHUNK :], whole)
            )  # fmt: skip
        for k in range(0, size, TURNED):
            turn(mixed, up(k), up(_CHUNK), turned, up(TURNED * (at + k)), up(TURNED))


@loop
def _mix_columns(turned, channels, first, offsets, weights, x0, x1, width, taps, out):
    """Compute the horizontal pass of columns ``x0`` to ``x1`` of a grid, each of TURNED rows."""
    for x in range(x0, x1):
        k = up(TURNED * channels * (x - x0))
        if channels == 3:
            sum_turned_color(turned, up(first), offsets, weights, up(x), up(width), up(taps), out, k)
        else:
            sum_turned_gray(turned, up(first), offsets, weights, up(x), up(width), up(taps), out, k)


@loop
def _turn_back(summed, channels, planes, at, width, rows, columns):
    """Store sums of ``columns`` pixels of ``rows`` rows to the planes, where row by row begins at ``at``."""
    plane = planes.size // 3
    step = TURNED * channels
    for c in range(channels):
        if rows == TURNED and columns == TURNED:
            turn(summed, up(TURNED * c), up(step), planes, up(c * plane + at), up(width))
        else:
            for j in range(rows):
                for x in range(columns):
                    planes[c * plane + at + j * width + x] = summed[x * step + TURNED * c + j]


@loop
def work_space(height, width, nx, ny, columns):
    """Return the elements of ``floats`` and ``ints`` for a grid, its taps and source columns."""
    # The parts are those of _work_space and _separable, or of _gathered, or of sample_patches.
    taps = height * ny + width * nx
    rows = TURNED * (3 * (columns + TURNED) + _CHUNK) + 3 * TURNED * TURNED + LINE
    for_separable = taps + height + width + max(width, height) + rows
    for_gathered = max((3 + nx + ny) * width, patches_space(nx, ny))
    return max(for_separable, for_gathered), max(taps, (nx + ny) * width)


@loop
def _work_space(floats, ints, height, width, nx, ny):
    """Divide the work space: positions, weights, offsets of y, then of x; rows, sums; where its rest begins."""
    taps_y, taps_x = height * ny, width * nx
    ys = floats[:height]
    wy = floats[height : height + taps_y]
    end = height + taps_y
    xs = floats[end : end + width]
    wx = floats[end + width : end + width + taps_x]
    end += width + taps_x
    total = floats[end : end + max(width, height)]
    end += max(width, height)
    end += -(address_of(floats) // 4 + end) % LINE
    mixed = floats[end : end + TURNED * _CHUNK]
    end += TURNED * _CHUNK
    summed = floats[end : end + 3 * TURNED * TURNED]
    return ys, wy, ints[:taps_y], xs, wx, ints[taps_y : taps_y + taps_x], total, mixed, summed, end + summed.size


# Like _gathered, one function: its parts share the work space, and would each take a dozen arguments.
def _separable(calls, source, record, y0, y1, scratch):
    """Sample rows ``y0`` to ``y1`` of a separable grid by two one-dimensional passes.

    The call for row 0 computes the tap tables; later calls for the same grid find them in the scratch.
    """
    channels = source.channels
    planes, floats, ints = floats_of(scratch.planes), floats_of(scratch.floats), ints_of(scratch.ints)
    height, width = record.height, record.width
    nx, ny = record.taps[0], record.taps[1]
    # Of each axis: s positions, w weights, o offsets.
    ys, wy, oy, xs, wx, ox, total, mixed, summed, end = _work_space(floats, ints, height, width, nx, ny)
    if y0 == 0:
        # Of the matrix, x needs the column's factor and the shift, y the row's; the others have no effect.
        m, support, filter = record.matrix, record.support, record.filter
        for y in range(height):
            v = f32(y) - f32(height - 1) * f32(0.5)
            ys[y] = m[4] * v + m[5]
        for x in range(width):
            u = f32(x) - f32(width - 1) * f32(0.5)
            xs[x] = m[0] * u + m[2]
        x_low, y_low, x_high, y_high = record.window[0], record.window[1], record.window[2], record.window[3]
        call_lay_taps(
            calls.lay_taps, (ys, ys.size, support[1], filter, y_low, y_high, record.stride, ny, source.scale, wy, oy,
            total)
        )  # fmt: skip
        call_lay_taps(
            calls.lay_taps,
            (xs, xs.size, support[0], filter, x_low, x_high, TURNED * channels, nx, f32(1.0), wx, ox, total),
        )
    # Only source columns that have a tap are mixed. Offsets of x are those of turned rows: TURNED values an element.
    first = ox[0]
    last = ox[0]
    for k in range(width * nx):
        first = min(first, ox[k])
        last = max(last, ox[k])
    elements = (last - first) // TURNED + channels
    turned = floats[end : end + TURNED * (elements + TURNED)]
    for y in range(y0, y1, TURNED):
        rows = min(TURNED, y1 - y)
        _mix_turned(calls, source, first // TURNED, elements, oy, wy, y, height, ny, mixed, turned)
        for x in range(0, width, TURNED):
            columns = min(TURNED, width - x)
            _mix_columns(turned, channels, first, ox, wx, x, x + columns, width, nx, summed)
            _turn_back(summed, channels, planes, (y - y0) * width + x, width, rows, columns)
        if channels == 1:
            r, g, b = plane_rows(planes, (y - y0) * width, rows * width)
            copy(r, g)
            copy(r, b)


SEPARABLE_FUNCTION = NativeFunction("separable", _separable, SAMPLE)


# -- two-dimensional taps ----------------------------------------------------------------------------------------------


def _add_byte_taps(source_, size, channels, columns_, rows_, wx_, wy_, packed_, r_, g_, b_, n):
    """Add one tap of each pixel of a row, as packed pixels: all but the load vectorizes."""
    source, packed = array_at(source_, size), array_at(packed_, n)
    columns, rows, wx, wy = array_at(columns_, n), array_at(rows_, n), array_at(wx_, n), array_at(wy_, n)
    r, g, b = array_at(r_, n), array_at(g_, n), array_at(b_, n)
    for x in range(n):
        packed[x] = load_bytes(source, columns[x] + rows[x])
    for x in range(n):
        weight = wx[x] * wy[x]
        pixel = packed[x]
        r[x] += weight * f32(i32(pixel & u32(255)))
        g[x] += weight * f32(i32((pixel >> u32(8)) & u32(255)))
        b[x] += weight * f32(i32((pixel >> u32(16)) & u32(255)))


def _add_float_taps(source_, size, channels, columns_, rows_, wx_, wy_, packed, r_, g_, b_, n):
    source = array_at(source_, size)
    columns, rows, wx, wy = array_at(columns_, n), array_at(rows_, n), array_at(wx_, n), array_at(wy_, n)
    r, g, b = array_at(r_, n), array_at(g_, n), array_at(b_, n)
    second = up(1 if channels == 3 else 0)  # elements from a channel to the next
    for x in range(n):
        weight = wx[x] * wy[x]
        at = up(columns[x] + rows[x])
        r[x] += weight * source[at]
        g[x] += weight * source[at + second]
        b[x] += weight * source[at + second + second]


ADD_TAPS_FUNCTIONS, _call_add_taps = by_source(
    "add_taps", {"uint8": _add_byte_taps, "float32": _add_float_taps}, types.int64, types.int64, INTS, INTS, FLOATS,
    FLOATS, UINTS, FLOATS, FLOATS, FLOATS, types.int64,
)  # fmt: skip


def _gathered(calls, source, record, y0, y1, scratch):
    """Sample rows ``y0`` to ``y1`` of any grid by two-dimensional taps, one tap of a row of pixels at a time."""
    pixels, channels = bytes_at(source.address, source.elements), source.channels  # bytes or any other elements
    planes, floats, ints = floats_of(scratch.planes), floats_of(scratch.floats), ints_of(scratch.ints)
    packed = uints_of(scratch.packed)
    height, width = record.height, record.width
    nx, ny = record.taps[0], record.taps[1]
    # For every column of a row: its position, and tap tables of both axes, as both coordinates vary along the row.
    xs, ys, total = floats[:width], floats[width : 2 * width], floats[2 * width : 3 * width]
    wx = floats[3 * width : (3 + nx) * width]
    wy = floats[(3 + nx) * width : (3 + nx + ny) * width]
    ox, oy = ints[: width * nx], ints[width * nx : width * (nx + ny)]
    support, filter = record.support, record.filter
    x_low, y_low, x_high, y_high = record.window[0], record.window[1], record.window[2], record.window[3]
    for y in range(y0, y1):
        project_row(record.matrix[:], y, 0, height, width, xs, ys)
        call_lay_taps(
            calls.lay_taps, (xs, xs.size, support[0], filter, x_low, x_high, channels, nx, f32(1.0), wx, ox, total)
        )
        call_lay_taps(
            calls.lay_taps, (ys, ys.size, support[1], filter, y_low, y_high, record.stride, ny, source.scale, wy, oy,
            total)
        )  # fmt: skip
        r, g, b = plane_rows(planes, (y - y0) * width, width)
        for x in range(width):
            r[x] = f32(0.0)
            g[x] = f32(0.0)
            b[x] = f32(0.0)
        # One tap of all pixels of the row at a time: there the weights of both axes are multiplied, and offsets added.
        for j in range(ny):
            for i in range(nx):
                cx = slice(i * width, (i + 1) * width)
                cy = slice(j * width, (j + 1) * width)
                _call_add_taps(
                    calls.add_taps, (pixels, source.elements, channels, ox[cx], oy[cy], wx[cx], wy[cy], packed, r, g, b,
                    width)
                )  # fmt: skip
        if channels == 1:
            copy(r, g)
            copy(r, b)


GATHERED_FUNCTION = NativeFunction("gathered", _gathered, SAMPLE)
