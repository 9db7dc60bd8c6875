"""The CPU runtime's sampling: rows of the grid from rows of the source, vectorised by LLVM.

Two ways: two one-dimensional passes where x depends on the column only and y on the row only, and two-dimensional
taps for everything else. Positions and weights are the scalar functions the CUDA kernel calls too.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from . import sampling
from .layout import FILTER, GAUSSIAN, HEIGHT, MATRIX, STRIDE, SUPPORT, TAPS, WIDTH, WINDOW
from .scalar import FASTMATH, f32, i32, loop

u32 = np.uint32
up = np.uintp  # unsigned indices: no wrap-around check in the loop

# A load of four bytes may touch this many elements behind the last pixel.
SOURCE_SLACK = 3


@intrinsic
def load_bytes(typing_context, array, index):
    """Four consecutive bytes of a uint8 array as one little-endian uint32."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(32).as_pointer())
        value = builder.load(address)
        value.align = 1
        return value

    return types.uint32(array, index), generate


@intrinsic
def add_two_quads(typing_context, out, k, fresh, row, a, wa, b, wb):
    """``out[k:k + 4] = wa * row[a:a + 4] + wb * row[b:b + 4]``, added to what is there unless ``fresh``.

    Numba has LLVM's vectoriser of straight-line code turned off, and a pixel's channels are just that.
    """

    def generate(context, builder, signature, args):
        vector = ir.VectorType(ir.FloatType(), 4)
        kinds = dict(zip(("out", "k", "fresh", "row", "a", "wa", "b", "wb"), signature.args, strict=True))
        values = dict(zip(kinds, args, strict=True))

        def address(array, index):
            data = context.make_array(kinds[array])(context, builder, values[array]).data
            return builder.bitcast(builder.gep(data, [values[index]]), vector.as_pointer())

        def weighted(index, weight):
            pixel = builder.load(address("row", index))
            pixel.align = 4
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), values[weight], ir.IntType(32)(0))
            splat = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), 4), [0] * 4))
            return builder.fmul(pixel, splat, flags=("contract",))

        before = builder.load(address("out", "k"))
        before.align = 4
        start = builder.select(values["fresh"], ir.Constant(vector, [0.0] * 4), before)
        total = builder.fadd(weighted("a", "wa"), start, flags=("contract",))
        total = builder.fadd(weighted("b", "wb"), total, flags=("contract",))
        builder.store(total, address("out", "k")).align = 4
        return context.get_dummy_value()

    return types.none(out, k, types.boolean, row, a, wa, b, wb), generate


@intrinsic
def split_four_quads(typing_context, quads, k, r, g, b, x):
    """First three lanes of the four quads at ``k`` to ``r[x:x + 4]``, ``g[x:x + 4]`` and ``b[x:x + 4]``."""

    def generate(context, builder, signature, args):
        vector = ir.VectorType(ir.FloatType(), 4)

        def address(position, index, step=0):
            data = context.make_array(signature.args[position])(context, builder, args[position]).data
            at = builder.add(args[index], args[index].type(step))
            return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())

        def shuffle(one, other, lanes):
            return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), 4), lanes))

        rows = [builder.load(address(0, 1, 4 * step)) for step in range(4)]
        for row in rows:
            row.align = 4
        red_green_1, red_green_2 = (shuffle(rows[i], rows[i + 1], [0, 4, 1, 5]) for i in (0, 2))
        blue_1, blue_2 = (shuffle(rows[i], rows[i + 1], [2, 6, 3, 7]) for i in (0, 2))
        planes = (
            shuffle(red_green_1, red_green_2, [0, 1, 4, 5]),
            shuffle(red_green_1, red_green_2, [2, 3, 6, 7]),
            shuffle(blue_1, blue_2, [0, 1, 4, 5]),
        )
        for position, plane in zip((2, 3, 4), planes, strict=True):
            builder.store(plane, address(position, 5)).align = 4
        return context.get_dummy_value()

    return types.none(quads, k, r, g, b, x), generate


@loop
def copy(values, out):
    """Fill an array from the start of another; an assignment of slices would need an allocator."""
    for k in range(out.size):
        out[k] = values[k]


def _add_taps(source, channels, columns, rows, wx, wy, packed, r, g, b):
    """Add one tap of each pixel of a row; the overload is the code."""


@overload(_add_taps, jit_options={"fastmath": FASTMATH, "error_model": "numpy"})
def _add_taps_overload(source, channels, columns, rows, wx, wy, packed, r, g, b):
    """Bytes go through a row of packed pixels, so that all but the load vectorises (measured: 3x)."""

    def from_bytes(source, channels, columns, rows, wx, wy, packed, r, g, b):
        for x in range(r.size):
            packed[x] = load_bytes(source, columns[x] + rows[x])
        for x in range(r.size):
            weight = wx[x] * wy[x]
            pixel = packed[x]
            r[x] += weight * f32(i32(pixel & u32(255)))
            g[x] += weight * f32(i32((pixel >> u32(8)) & u32(255)))
            b[x] += weight * f32(i32((pixel >> u32(16)) & u32(255)))

    def from_floats(source, channels, columns, rows, wx, wy, packed, r, g, b):
        second = up(1 if channels == 3 else 0)
        for x in range(r.size):
            weight = wx[x] * wy[x]
            at = up(columns[x] + rows[x])
            r[x] += weight * source[at]
            g[x] += weight * source[at + second]
            b[x] += weight * source[at + second + second]

    return from_bytes if source.dtype == types.uint8 else from_floats


@loop
def _lay_taps(positions, support, filter, low, high, step, taps, scale, weights, offsets, total):
    """Weights and element offsets of the taps of every position along one axis.

    ``weights`` and ``offsets`` hold ``taps`` rows of ``positions.size``; the weights of a position add up to ``scale``.
    """
    n = positions.size
    low_f = f32(low)
    high_f = f32(high)
    inverse = f32(1.0) / support
    reach = sampling.reach(filter, support, taps)
    for x in range(n):
        positions[x] = sampling.tap_centre(positions[x], filter, low_f, high_f)
        total[x] = f32(0.0)
    for t in range(taps):
        weight = weights[t * n : (t + 1) * n]
        offset = offsets[t * n : (t + 1) * n]
        step_t = f32(t)
        if filter == GAUSSIAN:
            for x in range(n):
                tap = sampling.first_tap(positions[x], reach) + step_t
                weight[x] = sampling.gaussian_weight(tap, positions[x], inverse)
        else:
            for x in range(n):
                tap = sampling.first_tap(positions[x], reach) + step_t
                weight[x] = sampling.tap_weight(tap, positions[x], inverse, filter, low_f, high_f)
        for x in range(n):
            tap = sampling.first_tap(positions[x], reach) + step_t
            total[x] += weight[x]
            offset[x] = sampling.tap_index(tap, filter, low_f, high_f) * step
    for x in range(n):
        total[x] = scale / total[x]
    for t in range(taps):
        weight = weights[t * n : (t + 1) * n]
        for x in range(n):
            weight[x] *= total[x]


@loop
def _mix_rows(source, base, offsets, weights, y, height, taps, out):
    """Weighted sum of source rows, interleaved: the vertical pass, four rows at a time."""
    n = out.size
    for t in range(0, taps, 4):
        last = taps - 1
        a0 = base + offsets[t * height + y]
        a1 = base + offsets[min(t + 1, last) * height + y]
        a2 = base + offsets[min(t + 2, last) * height + y]
        a3 = base + offsets[min(t + 3, last) * height + y]
        w0 = weights[t * height + y]
        w1 = weights[(t + 1) * height + y] if t + 1 < taps else f32(0.0)
        w2 = weights[(t + 2) * height + y] if t + 2 < taps else f32(0.0)
        w3 = weights[(t + 3) * height + y] if t + 3 < taps else f32(0.0)
        s0 = source[a0 : a0 + n]
        s1 = source[a1 : a1 + n]
        s2 = source[a2 : a2 + n]
        s3 = source[a3 : a3 + n]
        if t == 0 and taps <= 2:
            for k in range(n):
                out[k] = w0 * f32(s0[k]) + w1 * f32(s1[k])
        elif t == 0:
            for k in range(n):
                out[k] = w0 * f32(s0[k]) + w1 * f32(s1[k]) + w2 * f32(s2[k]) + w3 * f32(s3[k])
        else:
            for k in range(n):
                out[k] += w0 * f32(s0[k]) + w1 * f32(s1[k]) + w2 * f32(s2[k]) + w3 * f32(s3[k])


@loop
def _mix_columns(row, first, offsets, weights, taps, quads, r, g, b):
    """Weighted sum of the pixels of an interleaved row: the horizontal pass, two taps at a time."""
    width = r.size
    for t in range(0, taps, 2):
        # An odd last tap is paired with itself, at weight zero.
        u = min(t + 1, taps - 1)
        paired = f32(1.0) if t + 1 < taps else f32(0.0)
        offset_t = offsets[t * width : (t + 1) * width]
        offset_u = offsets[u * width : (u + 1) * width]
        weight_t = weights[t * width : (t + 1) * width]
        weight_u = weights[u * width : (u + 1) * width]
        if t == 0:
            for x in range(width):
                at, beside = up(offset_t[x] - first), up(offset_u[x] - first)
                add_two_quads(quads, up(4 * x), True, row, at, weight_t[x], beside, weight_u[x] * paired)
        else:
            for x in range(width):
                at, beside = up(offset_t[x] - first), up(offset_u[x] - first)
                add_two_quads(quads, up(4 * x), False, row, at, weight_t[x], beside, weight_u[x] * paired)
    whole = width - width % 4
    for x in range(0, whole, 4):
        split_four_quads(quads, up(4 * x), r, g, b, up(x))
    for x in range(whole, width):
        k = up(4 * x)
        r[x] = quads[k]
        g[x] = quads[k + up(1)]
        b[x] = quads[k + up(2)]


@loop
def separable(source, channels, scale, record, words, y0, y1, planes, floats, ints):
    """Rows ``y0`` to ``y1`` of a grid whose x depends on the column only: two one-dimensional passes."""
    height = record[HEIGHT]
    width = record[WIDTH]
    filter = record[FILTER]
    nx = record[TAPS]
    ny = record[TAPS + 1]
    rows = y1 - y0
    # Work space: tap tables of both axes, one interleaved source row, one row of quads.
    ys = floats[:height]
    wy = floats[height : height * (ny + 1)]
    end = height * (ny + 1)
    xs = floats[end : end + width]
    wx = floats[end + width : end + width * (nx + 1)]
    end += width * (nx + 1)
    total = floats[end : end + max(width, height)]
    end += max(width, height)
    quads = floats[end : end + 4 * width]
    end += 4 * width
    oy = ints[: height * ny]
    ox = ints[height * ny : height * ny + width * nx]
    for y in range(height):
        v = f32(y) - f32(height - 1) * f32(0.5)
        ys[y] = words[MATRIX + 4] * v + words[MATRIX + 5]
    for x in range(width):
        u = f32(x) - f32(width - 1) * f32(0.5)
        xs[x] = words[MATRIX] * u + words[MATRIX + 2]
    x_low, y_low, x_high, y_high = record[WINDOW], record[WINDOW + 1], record[WINDOW + 2], record[WINDOW + 3]
    _lay_taps(ys, words[SUPPORT + 1], filter, y_low, y_high, record[STRIDE], ny, scale, wy, oy, total[:height])
    _lay_taps(xs, words[SUPPORT], filter, x_low, x_high, channels, nx, f32(1.0), wx, ox, total[:width])
    first = ox[0]
    last = ox[0]
    for k in range(width * nx):
        first = min(first, ox[k])
        last = max(last, ox[k])
    mixed = floats[end : end + last - first + channels]
    padded = floats[end : end + last - first + 4]
    padded[last - first + channels :] = f32(0.0)  # read into lanes nobody uses; garbage there may be slow to multiply
    for y in range(y0, y1):
        _mix_rows(source, first, oy, wy, y, height, ny, mixed)
        at = (y - y0) * width
        r = planes[0, at : at + width]
        g = planes[1, at : at + width]
        b = planes[2, at : at + width]
        _mix_columns(padded, first, ox, wx, nx, quads, r, g, b)
        if channels == 1:
            copy(r, g)
            copy(r, b)
    return rows


@loop
def gathered(source, channels, scale, record, words, y0, y1, planes, floats, ints, packed):
    """Rows ``y0`` to ``y1`` of any grid: two-dimensional taps, a row of pixels at a time."""
    height = record[HEIGHT]
    width = record[WIDTH]
    filter = record[FILTER]
    nx = record[TAPS]
    ny = record[TAPS + 1]
    xs = floats[:width]
    ys = floats[width : 2 * width]
    total = floats[2 * width : 3 * width]
    wx = floats[3 * width : (3 + nx) * width]
    wy = floats[(3 + nx) * width : (3 + nx + ny) * width]
    ox = ints[: width * nx]
    oy = ints[width * nx : width * (nx + ny)]
    m = words[MATRIX : MATRIX + 9]
    x_low, y_low, x_high, y_high = record[WINDOW], record[WINDOW + 1], record[WINDOW + 2], record[WINDOW + 3]
    for y in range(y0, y1):
        project_row(m, y, height, width, xs, ys)
        _lay_taps(xs, words[SUPPORT], filter, x_low, x_high, channels, nx, f32(1.0), wx, ox, total)
        _lay_taps(ys, words[SUPPORT + 1], filter, y_low, y_high, record[STRIDE], ny, scale, wy, oy, total)
        at = (y - y0) * width
        r = planes[0, at : at + width]
        g = planes[1, at : at + width]
        b = planes[2, at : at + width]
        for x in range(width):
            r[x] = f32(0.0)
            g[x] = f32(0.0)
            b[x] = f32(0.0)
        for j in range(ny):
            for i in range(nx):
                cx = slice(i * width, (i + 1) * width)
                cy = slice(j * width, (j + 1) * width)
                _add_taps(source, channels, ox[cx], oy[cy], wx[cx], wy[cy], packed[:width], r, g, b)
        if channels == 1:
            copy(r, g)
            copy(r, b)


@loop
def project_row(m, y, height, width, xs, ys):
    """Coordinates, in the frame ``m`` leads to, of the pixels of row ``y`` of a grid."""
    v = f32(y) - f32(height - 1) * f32(0.5)
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8]
    left = f32(width - 1) * f32(0.5)
    for x in range(width):
        u = f32(x) - left
        xs[x] = sampling.project(m0, m1, m2, m6, m7, m8, u, v)
        ys[x] = sampling.project(m3, m4, m5, m6, m7, m8, u, v)
