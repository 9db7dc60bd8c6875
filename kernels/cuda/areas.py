"""Ops on whole images on a GPU, one thread per pixel: windows, CLAHE, positions and tables.

Records and formulas are those of the CPU's loops, whose sums have the same order. Values are levels where an op works
on bytes, and the image's own where it does not.
"""

import numpy as np
from numba import cuda, types

from .. import color, ops
from ..borders import folded
from ..contrast import LEVELS, limited_count, luma, make_rounded, recolored
from ..layout import SCALES
from ..prepass import AREA_WORDS, FURTHEST, GREATEST, IN_AREA, LIMITED, NEAREST_PIXEL, REFLECT, SEPARABLE
from ..scalar import clamp, confine, f32, floor, i32, i64, scalar, u32, up, wide, word
from .program import divided
from .statistics import from_key, key_of

_UNIT = SCALES["uint8"]
_SIGN = u32(0x80000000)
_MEDIAN, _MORPHOLOGY, _WEIGHTED, _CLAHE, _REMAP = (
    op.code for op in (ops.MEDIAN, ops.MORPHOLOGY, ops.WEIGHTED, ops.CLAHE, ops.REMAP)
)


@scalar
def _product(x, y):
    return cuda.fma(x, y, f32(0.0))  # is not fused with what follows


_table_level, _cell_of, _mixed = make_rounded(_product, divided)


@scalar
def _value(source, scale, at, on_bytes):
    value = f32(source[up(at)]) * scale
    return color.store_byte(value) if on_bytes else value


@scalar
def _at(source, scale, ints, floats, record, channels, x, y, c, on_bytes):
    """Return a value of a pixel, which may be outside the image."""
    border, width = word(ints, record, IN_AREA.border), word(ints, record, IN_AREA.width)
    column, row = folded(x, width, border), folded(y, word(ints, record, IN_AREA.height), border)
    if column < 0 or row < 0:
        return word(floats, record, i32(IN_AREA.fill + c))
    at = wide(ints, record + IN_AREA.source) + i64(i32(row * width + column)) * i64(channels) + i64(c)
    return _value(source, scale, at, on_bytes)


@scalar
def _median(source, scale, ints, floats, record, channels, x, y, c, on_bytes):
    """Find the median bit by bit, from the highest on: that many values are below it."""
    rows, columns = word(ints, record, IN_AREA.rows), word(ints, record, IN_AREA.columns)
    top, left = i32(y - (rows >> 1)), i32(x - (columns >> 1))
    middle, found, bit = i32(i32(rows * columns) >> 1), u32(0), i32(7 if on_bytes else 31)
    while bit >= 0:
        wanted, below = found | u32(u32(1) << u32(bit)), i32(0)
        for k in range(rows):
            for j in range(columns):
                value = _at(source, scale, ints, floats, record, channels, i32(left + j), i32(top + k), c, on_bytes)
                key = u32(i32(value)) if on_bytes else u32(key_of(value)) ^ _SIGN
                below += 1 if key < wanted else 0
        found = wanted if below <= middle else found
        bit = i32(bit - 1)
    return f32(found) if on_bytes else from_key(i32(found ^ _SIGN))


@scalar
def _extreme(source, scale, ints, floats, operand, record, channels, x, y, c, on_bytes):
    begin, greatest = wide(ints, record + IN_AREA.values), word(ints, record, IN_AREA.option) & GREATEST
    rows, columns = word(ints, record, IN_AREA.rows), word(ints, record, IN_AREA.columns)
    top, left = i32(y - (rows >> 1)), i32(x - (columns >> 1))
    total = f32(-np.inf) if greatest else f32(np.inf)
    for k in range(rows):
        first, last = i32(operand[up(begin + i64(2 * k))]), i32(operand[up(begin + i64(2 * k + 1))])
        for j in range(first, last + 1):
            value = _at(source, scale, ints, floats, record, channels, i32(left + j), i32(top + k), c, on_bytes)
            total = max(total, value) if greatest else min(total, value)
    return total


@scalar
def _sum(source, scale, ints, floats, operand, record, channels, x, y, c, on_bytes):
    begin, separable = wide(ints, record + IN_AREA.values), word(ints, record, IN_AREA.option) & SEPARABLE
    rows, columns = word(ints, record, IN_AREA.rows), word(ints, record, IN_AREA.columns)
    top, left = i32(y - (rows >> 1)), i32(x - (columns >> 1))
    total = f32(0.0)
    if separable:
        for k in range(rows):
            line = f32(0.0)
            for j in range(columns):
                value = _at(source, scale, ints, floats, record, channels, i32(left + j), i32(top + k), c, on_bytes)
                line = cuda.fma(operand[up(begin + i64(j))], value, line)
            total = cuda.fma(operand[up(begin + i64(columns + k))], line, total)
    else:
        for n in range(i32(u32(word(ints, record, IN_AREA.count)) // u32(3))):
            at = begin + i64(3 * n)
            row, column = i32(top + i32(operand[up(at)])), i32(left + i32(operand[up(at + i64(1))]))
            value = _at(source, scale, ints, floats, record, channels, column, row, c, on_bytes)
            total = cuda.fma(operand[up(at + i64(2))], value, total)
    return total


@scalar
def _sampled(source, scale, ints, floats, record, channels, px, py, c, on_bytes):
    x, y = confine(px, f32(-FURTHEST), f32(FURTHEST)), confine(py, f32(-FURTHEST), f32(FURTHEST))
    if word(ints, record, IN_AREA.option) & NEAREST_PIXEL:
        column, row = i32(color.round_half_even(x)), i32(color.round_half_even(y))
        return _at(source, scale, ints, floats, record, channels, column, row, c, on_bytes)
    left, top = floor(x), floor(y)
    column, row = i32(left), i32(top)
    a = _at(source, scale, ints, floats, record, channels, column, row, c, on_bytes)
    b = _at(source, scale, ints, floats, record, channels, i32(column + 1), row, c, on_bytes)
    above = cuda.fma(x - left, b - a, a)
    a = _at(source, scale, ints, floats, record, channels, column, i32(row + 1), c, on_bytes)
    b = _at(source, scale, ints, floats, record, channels, i32(column + 1), i32(row + 1), c, on_bytes)
    below = cuda.fma(x - left, b - a, a)
    return cuda.fma(y - top, below - above, above)


@scalar
def _looked_up(value, ints, operand, record, c, on_bytes):
    begin, size = wide(ints, record + IN_AREA.values), word(ints, record, IN_AREA.columns)
    if word(ints, record, IN_AREA.count) > size:
        begin += i64(i32(c * size))
    if not on_bytes:
        value = color.round_half_even(confine(value, f32(0.0), f32(1.0)) * f32(size - 1))
    return operand[up(begin + i64(i32(value)))]


def change(source, channels, scale, ints, floats, operand, tables, out, op, on_bytes):
    """Compute an op other than CLAHE's tables (kernel function); ``blockIdx.y`` is the image."""
    record = i32(AREA_WORDS * i32(cuda.blockIdx.y))
    width, number = word(ints, record, IN_AREA.out_width), i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= word(ints, record, IN_AREA.out_height) * width:
        return
    begin, pixel = wide(ints, record + IN_AREA.source), i64(number) * i64(channels)
    at = wide(ints, record + IN_AREA.output) + pixel
    if word(ints, record, IN_AREA.applies) == 0:
        for k in range(channels):
            out[up(at + i64(k))] = f32(source[up(begin + pixel + i64(k))]) * scale
        return
    y = i32(u32(number) // u32(width))
    x = i32(number - y * width)
    if op == _CLAHE:
        _contrast(source, channels, scale, ints, record, tables, x, y, begin + pixel, out, at)
        return
    px, py = f32(0.0), f32(0.0)
    if op == _REMAP:
        place = wide(ints, record + IN_AREA.values) + i64(2 * number)
        px, py = operand[up(place)], operand[up(place + i64(1))]
    for k in range(channels):
        c = i32(k)
        if op == _MEDIAN:
            value = _median(source, scale, ints, floats, record, channels, x, y, c, on_bytes)
        elif op == _MORPHOLOGY:
            value = _extreme(source, scale, ints, floats, operand, record, channels, x, y, c, on_bytes)
        elif op == _WEIGHTED:
            value = _sum(source, scale, ints, floats, operand, record, channels, x, y, c, on_bytes)
            if word(ints, record, IN_AREA.option) & LIMITED:
                value = clamp(value, f32(0.0), f32(255.0) if on_bytes else f32(1.0))
        elif op == _REMAP:
            value = _sampled(source, scale, ints, floats, record, channels, px, py, c, on_bytes)
        else:
            value = _value(source, scale, begin + pixel + i64(c), on_bytes)
            value = _looked_up(value, ints, operand, record, c, on_bytes)
        if on_bytes:
            value = color.round_half_even(min(max(value, f32(0.0)), f32(255.0))) * _UNIT
        out[up(at + i64(c))] = value


# -- CLAHE -------------------------------------------------------------------------------------------------------------


@scalar
def _gray(source, channels, scale, at):
    r = i32(color.store_byte(f32(source[up(at)]) * scale))
    if channels == 1:
        return r
    g = i32(color.store_byte(f32(source[up(at + i64(1))]) * scale))
    return luma(r, g, i32(color.store_byte(f32(source[up(at + i64(2))]) * scale)))


def lay_tables(source, channels, scale, ints, tables):
    """Fill the tables of CLAHE (kernel function): a block for a tile, ``blockIdx.y`` is the image."""
    counts = cuda.shared.array(LEVELS, types.int32)
    record, tile, thread = i32(AREA_WORDS * i32(cuda.blockIdx.y)), i32(cuda.blockIdx.x), i32(cuda.threadIdx.x)
    columns = word(ints, record, IN_AREA.columns)
    if word(ints, record, IN_AREA.applies) == 0 or tile >= word(ints, record, IN_AREA.rows) * columns:
        return
    for k in range(thread, LEVELS, cuda.blockDim.x):
        counts[k] = 0
    cuda.syncthreads()
    tall, wide_ = word(ints, record, IN_AREA.side), word(ints, record, i32(IN_AREA.side + 1))
    height, width = word(ints, record, IN_AREA.height), word(ints, record, IN_AREA.width)
    row = i32(u32(tile) // u32(columns))
    top, left = i32(row * tall), i32(i32(tile - row * columns) * wide_)
    begin, area = wide(ints, record + IN_AREA.source), i32(tall * wide_)
    for k in range(thread, area, cuda.blockDim.x):
        line = i32(u32(k) // u32(wide_))
        y, x = folded(i32(top + line), height, REFLECT), folded(i32(left + k - line * wide_), width, REFLECT)
        level = _gray(source, channels, scale, begin + i64(i32(y * width + x)) * i64(channels))
        cuda.atomic.add(counts, level, 1)
    cuda.syncthreads()
    if thread == 0:
        limit, excess, total = word(ints, record, IN_AREA.limit), i32(0), i32(0)
        for k in range(LEVELS):
            excess += max(counts[k] - limit, 0)
        at = wide(ints, record + IN_AREA.values) + i64(tile * LEVELS)
        for k in range(LEVELS):
            total += limited_count(counts[k], limit, excess, i32(k))
            tables[up(at + i64(k))] = np.uint8(_table_level(total, area))


@scalar
def _contrast(source, channels, scale, ints, record, tables, x, y, begin, out, at):
    rows, columns = word(ints, record, IN_AREA.rows), word(ints, record, IN_AREA.columns)
    row, second_y = _cell_of(y, word(ints, record, IN_AREA.side))
    column, second_x = _cell_of(x, word(ints, record, i32(IN_AREA.side + 1)))
    above, below = i32(max(i32(row - 1), 0) * columns), i32(min(row, i32(rows - 1)) * columns)
    left, right = max(i32(column - 1), i32(0)), min(i32(column), i32(columns - 1))
    before = _gray(source, channels, scale, begin)
    place = wide(ints, record + IN_AREA.values) + i64(before)
    top_left, top_right = i64(i32(above + left) * LEVELS), i64(i32(above + right) * LEVELS)
    low_left, low_right = i64(i32(below + left) * LEVELS), i64(i32(below + right) * LEVELS)
    after = _mixed(
        tables[up(place + top_left)], tables[up(place + top_right)], tables[up(place + low_left)],
        tables[up(place + low_right)],
        f32(1.0) - second_x, second_x, f32(1.0) - second_y, second_y
    )  # fmt: skip
    if channels == 1:
        out[up(at)] = f32(after) * _UNIT
        return
    r = i32(color.store_byte(f32(source[up(begin)]) * scale))
    b = i32(color.store_byte(f32(source[up(begin + i64(2))]) * scale))
    r, g, b = recolored(r, b, before, after)
    out[up(at)], out[up(at + i64(1))], out[up(at + i64(2))] = f32(r) * _UNIT, f32(g) * _UNIT, f32(b) * _UNIT
