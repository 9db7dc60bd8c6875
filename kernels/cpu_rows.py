"""The CPU runtime's sampling: rows of the grid from rows of the source, vectorised by LLVM.

Two ways: two one-dimensional passes where x depends on the column only and y on the row only, and two-dimensional
taps for everything else. Positions and weights are the scalar functions the CUDA kernel calls too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from . import sampling
from .layout import FILTER, GAUSSIAN, HEIGHT, MATRIX, STRIDE, SUPPORT, TAPS, WIDTH, WINDOW
from .scalar import FASTMATH, f32, i32, loop

u32 = np.uint32
up = np.uintp  # unsigned indices: no wrap-around check in the loop

# The horizontal pass takes so many rows at a time: they share its weights and offsets. A block is one pixel of each of
# them, as quads: its channels and a lane that nobody uses.
_ROWS = 4
_BLOCK = 4 * _ROWS

_VECTOR = 16  # float32 of the widest vectors: loops over whole ones have no remainder

# Elements behind a row: what a quad reads there, and up to a whole vector.
_TAIL = 3 + _VECTOR - 1

# A load of four bytes may touch this many elements behind the last pixel.
SOURCE_SLACK = 3


def pointer(context, builder, kind, array, index=None, target=None):
    """Address of an array or of an element, as that of another type if given."""
    address = context.make_array(kind)(context, builder, array).data
    if index is not None:
        address = builder.gep(address, [index])
    return address if target is None else builder.bitcast(address, target.as_pointer())


_QUAD = ir.VectorType(ir.FloatType(), 4)


@intrinsic
def load_bytes(typing_context, array, index):
    """Four consecutive bytes of a uint8 array as one little-endian uint32."""

    def generate(context, builder, signature, args):
        value = builder.load(pointer(context, builder, signature.args[0], args[0], args[1], ir.IntType(32)))
        value.align = 1
        return value

    return types.uint32(array, index), generate


@intrinsic
def move_quad(typing_context, row, k, quads, at):
    """``quads[at:at + 4] = row[k:k + 4]``."""

    def generate(context, builder, signature, args):
        quad = builder.load(pointer(context, builder, signature.args[0], args[0], args[1], _QUAD))
        quad.align = 4
        builder.store(quad, pointer(context, builder, signature.args[2], args[2], args[3], _QUAD)).align = 4
        return context.get_dummy_value()

    return types.none(row, k, quads, at), generate


@intrinsic
def sum_blocks(typing_context, blocks, first, offsets, weights, x, step, taps, out, k):
    """``out[k:k + 16]`` as the weighted sum of ``taps`` blocks; theirs are the entries at ``x``, ``x + step``, ...

    Numba has LLVM's vectoriser of straight-line code turned off, and a block is just that.
    """

    def generate(context, builder, signature, args):
        kinds = signature.args
        blocks, first, offsets, weights, x, step, taps, out, k = args
        vector = ir.VectorType(ir.FloatType(), _BLOCK)
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), _BLOCK), [0] * _BLOCK)
        total = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * _BLOCK))
        at = cgutils.alloca_once_value(builder, x)
        with cgutils.for_range(builder, taps):
            here = builder.load(at)
            offset = builder.load(pointer(context, builder, kinds[2], offsets, here))
            weight = builder.load(pointer(context, builder, kinds[3], weights, here))
            start = builder.sub(builder.sext(offset, first.type), first)
            block = builder.load(pointer(context, builder, kinds[0], blocks, start, vector))
            block.align = 4
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), weight, ir.IntType(32)(0))
            weighted = builder.fmul(block, builder.shuffle_vector(one, one, lanes), flags=("contract",))
            builder.store(builder.fadd(weighted, builder.load(total), flags=("contract",)), total)
            builder.store(builder.add(here, step), at)
        builder.store(builder.load(total), pointer(context, builder, kinds[7], out, k, vector)).align = 4
        return context.get_dummy_value()

    return types.none(blocks, first, offsets, weights, x, step, taps, out, k), generate


@intrinsic
def split_four_quads(typing_context, blocks, k, r, g, b, x):
    """First three lanes of the quads at ``k`` in four blocks to ``r[x:x + 4]``, ``g[x:x + 4]`` and ``b[x:x + 4]``."""

    def generate(context, builder, signature, args):
        def address(position, index, step=0):
            at = builder.add(args[index], args[index].type(step))
            return pointer(context, builder, signature.args[position], args[position], at, _QUAD)

        def shuffle(one, other, lanes):
            return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), 4), lanes))

        rows = [builder.load(address(0, 1, _BLOCK * step)) for step in range(4)]
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

    return types.none(blocks, k, r, g, b, x), generate


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
def _mix_rows(source, base, offsets, weights, y, height, taps, least, out):
    """Weighted sum of source rows, interleaved: the vertical pass, four rows at a time.

    ``out`` is filled up to ``least`` elements at least.
    """
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
        # Whole vectors where there is something to read: a remainder takes as long as all before it.
        n = out.size if max(a0, a1, a2, a3) + out.size <= source.size else least
        s0 = source[a0 : a0 + n]
        s1 = source[a1 : a1 + n]
        s2 = source[a2 : a2 + n]
        s3 = source[a3 : a3 + n]
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


@loop
def _spread(row, channels, pixels, j, blocks):
    """One interleaved row as row ``j`` of the blocks; reads up to three elements behind its last pixel."""
    for p in range(pixels):
        move_quad(row, up(p * channels), blocks, up(_BLOCK * p + 4 * j))


@loop
def _mix_columns(blocks, first, offsets, weights, width, taps, out):
    """Weighted sums of blocks: the horizontal pass."""
    for x in range(width):
        sum_blocks(blocks, up(first), offsets, weights, up(x), up(width), up(taps), out, up(_BLOCK * x))


@loop
def _split(blocks, j, r, g, b):
    """Row ``j`` of the blocks, by channel."""
    width = r.size
    whole = width - width % 4
    for x in range(0, whole, 4):
        split_four_quads(blocks, up(_BLOCK * x + 4 * j), r, g, b, up(x))
    for x in range(whole, width):
        k = up(_BLOCK * x + 4 * j)
        r[x] = blocks[k]
        g[x] = blocks[k + up(1)]
        b[x] = blocks[k + up(2)]


def work_space(height: Any, width: Any, nx: Any, ny: Any, columns: Any) -> tuple[Any, Any]:
    """Elements of ``floats`` and ``ints`` for a grid, its taps and so many columns of the source; all may be arrays."""
    taps = height * ny + width * nx
    rows = 3 * columns + _TAIL + _BLOCK * (columns + width)
    for_separable = taps + height + width + np.maximum(width, height) + rows
    return np.maximum(for_separable, (3 + nx + ny) * width), np.maximum(taps, (nx + ny) * width)


@loop
def separable(source, channels, scale, record, words, y0, y1, planes, floats, ints):
    """Rows ``y0`` to ``y1`` of a grid whose x depends on the column only: two one-dimensional passes.

    The tap tables of the first rows stay in ``floats`` and ``ints`` for those after them.
    """
    height = record[HEIGHT]
    width = record[WIDTH]
    filter = record[FILTER]
    nx = record[TAPS]
    ny = record[TAPS + 1]
    # Work space: tap tables of both axes, one interleaved source row, blocks of the source and of the result.
    ys = floats[:height]
    wy = floats[height : height * (ny + 1)]
    end = height * (ny + 1)
    xs = floats[end : end + width]
    wx = floats[end + width : end + width * (nx + 1)]
    end += width * (nx + 1)
    total = floats[end : end + max(width, height)]
    end += max(width, height)
    summed = floats[end : end + _BLOCK * width]
    end += _BLOCK * width
    oy = ints[: height * ny]
    ox = ints[height * ny : height * ny + width * nx]
    if y0 == 0:
        for y in range(height):
            v = f32(y) - f32(height - 1) * f32(0.5)
            ys[y] = words[MATRIX + 4] * v + words[MATRIX + 5]
        for x in range(width):
            u = f32(x) - f32(width - 1) * f32(0.5)
            xs[x] = words[MATRIX] * u + words[MATRIX + 2]
        x_low, y_low, x_high, y_high = record[WINDOW], record[WINDOW + 1], record[WINDOW + 2], record[WINDOW + 3]
        _lay_taps(ys, words[SUPPORT + 1], filter, y_low, y_high, record[STRIDE], ny, scale, wy, oy, total[:height])
        _lay_taps(xs, words[SUPPORT], filter, x_low, x_high, _BLOCK, nx, f32(1.0), wx, ox, total[:width])
    first = ox[0]
    last = ox[0]
    for k in range(width * nx):
        first = min(first, ox[k])
        last = max(last, ox[k])
    start = first // _BLOCK * channels
    pixels = (last - first) // _BLOCK + 1
    least = pixels * channels
    mixed = floats[end : end + (least + _TAIL) // _VECTOR * _VECTOR]
    end += mixed.size
    blocks = floats[end : end + _BLOCK * pixels]
    mixed[least:] = f32(0.0)  # read into lanes nobody uses; garbage there may be slow to multiply
    for y in range(y0, y1, _ROWS):
        rows = min(_ROWS, y1 - y)
        for j in range(rows):
            _mix_rows(source, start, oy, wy, y + j, height, ny, least, mixed)
            _spread(mixed, channels, pixels, j, blocks)
        _mix_columns(blocks, first, ox, wx, width, nx, summed)
        for j in range(rows):
            at = (y + j - y0) * width
            r = planes[0, at : at + width]
            g = planes[1, at : at + width]
            b = planes[2, at : at + width]
            _split(summed, j, r, g, b)
            if channels == 1:
                copy(r, g)
                copy(r, b)
    return y1 - y0


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
