"""CLAHE on a CPU: histograms of tiles become tables, and each pixel mixes what the tables of four tiles say of it."""

from typing import Any, Final

import numpy as np

from ..borders import folded
from ..contrast import LEVELS, limited_count, luma, make_rounded, recolored
from ..prepass import REFLECT
from ..scalar import divided, f32, i32, i64, loop, multiplied
from .intrinsics import address_of, bytes_at, floats_at, ints_at
from .prepass import SLACK, area_function, make_copy, take_bytes

#: Histograms of a tile, which are added: levels that occur several times in a row are then counted without a wait.
_COUNTERS: Final = 4

_table_level, _cell_of, _mixed = make_rounded(multiplied, divided)


@loop
def _count_tile(image, height, width, top, left, tall, wide, counts):
    """Count the levels of a tile, which may reach past the image."""
    for k in range(_COUNTERS * LEVELS):
        counts[k] = 0
    inside = max(min(width - left, wide), i64(0))
    for y in range(top, top + tall):
        row = image[i64(folded(i32(y), i32(height), REFLECT)) * width :]
        here = row[left : left + inside]
        whole = inside // _COUNTERS * _COUNTERS
        for x in range(0, whole, _COUNTERS):
            for k in range(_COUNTERS):
                counts[k * LEVELS + i64(here[x + k])] += 1
        for x in range(whole, wide):
            counts[i64(row[i64(folded(i32(left + x), i32(width), REFLECT))])] += 1
    for k in range(1, _COUNTERS):
        for level in range(LEVELS):
            counts[level] += counts[k * LEVELS + level]


@loop
def _fill_table(counts, area, limit, table):
    """Fill a tile's table from its histogram; what is above the limit is spread over all levels."""
    excess, total = i32(0), i32(0)
    for level in range(LEVELS):
        excess += max(counts[level] - limit, i32(0))
    for level in range(LEVELS):
        total += limited_count(counts[level], limit, excess, i32(level))
        table[level] = np.uint8(_table_level(total, area))


@loop
def _lay_positions(size, side, cells, shares):
    """Find the cell of each position along an axis, and its shares of the tiles before and after its center."""
    for k in range(size):
        cell, share = _cell_of(i32(k), i32(side))
        cells[k] = cell * LEVELS
        shares[k], shares[size + k] = f32(1.0) - share, share


@loop
def _lay_quads(tables, rows, columns, cell, quads):
    """Lay what the tables of the four tiles around say of each level, a byte each, for a row of cells."""
    above, below = max(cell - 1, i64(0)) * columns, min(cell, rows - 1) * columns
    for column in range(columns + 1):
        left, right = max(column - 1, i64(0)), min(i64(column), columns - 1)
        a, b = tables[(above + left) * LEVELS :], tables[(above + right) * LEVELS :]
        c, d = tables[(below + left) * LEVELS :], tables[(below + right) * LEVELS :]
        to = quads[column * LEVELS : (column + 1) * LEVELS]
        for k in range(LEVELS):
            to[k] = i32(a[k]) | i32(b[k]) << 8 | i32(c[k]) << 16 | i32(d[k]) << 24


@loop
def _mix_row(row, quads, cells, shares, first_y, second_y, out):
    n = row.size
    first, second = shares[:n], shares[n : 2 * n]
    for x in range(n):
        quad = quads[cells[x] + i32(row[x])]
        a, b, c, d = quad & 255, quad >> 8 & 255, quad >> 16 & 255, quad >> 24 & 255
        out[x] = np.uint8(_mixed(a, b, c, d, first[x], second[x], first_y, second_y))


@loop
def _luma_row(pixels, out):
    for x in range(out.size):
        out[x] = np.uint8(luma(i32(pixels[3 * x]), i32(pixels[3 * x + 1]), i32(pixels[3 * x + 2])))


@loop
def _recolor_row(pixels, before, after, out):
    for x in range(before.size):
        r, g, b = recolored(i32(pixels[3 * x]), i32(pixels[3 * x + 2]), i32(before[x]), i32(after[x]))
        out[3 * x], out[3 * x + 1], out[3 * x + 2] = np.uint8(r), np.uint8(g), np.uint8(b)


def _parts_(height: Any, width: Any, rows: Any, columns: Any) -> Any:
    """Bytes of the parts of the work space, multiples of 64."""
    sizes = (
        height * width,  # luma
        4 * width,  # two rows: of pixels, or of the result's luma
        rows * columns * LEVELS,  # tables
        4 * _COUNTERS * LEVELS,  # counts of a tile
        4 * LEVELS * (columns + 1),  # tables of a row of cells
        4 * (height + width),  # cells of rows and columns
        8 * (height + width),  # their shares
    )
    return [(size + SLACK - 1) // SLACK * SLACK for size in sizes]


def space(areas: Any, channels: int) -> Any:
    """Bytes of work space, (N,), of (N,) AREA."""
    return sum(_parts_(*(areas[name].astype(np.int64) for name in ("height", "width", "rows", "columns"))))


@loop
def _padded(size):
    return (size + SLACK - 1) // SLACK * SLACK


@loop
def _clahe(source, stride, channels, area, work, out):
    height, width, rows, columns = i64(area.height), i64(area.width), i64(area.rows), i64(area.columns)
    tall, wide = i64(area.side[0]), i64(area.side[1])
    at = address_of(work)
    image = bytes_at(at, height * width)
    at += _padded(height * width)
    pixels, line = bytes_at(at, 3 * width), bytes_at(at + 3 * width, width)
    at += _padded(4 * width)
    tables = bytes_at(at, rows * columns * LEVELS)
    at += tables.size
    counts = ints_at(at, _COUNTERS * LEVELS)
    at += 4 * counts.size
    quads = ints_at(at, (columns + 1) * LEVELS)
    at += 4 * quads.size
    cells = ints_at(at, height + width)
    at += _padded(4 * cells.size)
    shares = floats_at(at, 2 * (height + width))
    for y in range(height):
        row = image[y * width : (y + 1) * width]
        if channels == 1:
            take_bytes(source, y * stride, width, row, i64(0))
        else:
            take_bytes(source, y * stride, 3 * width, pixels, i64(0))
            _luma_row(pixels, row)
    for tile in range(rows * columns):
        top, left = tile // columns * tall, tile % columns * wide
        _count_tile(image, height, width, top, left, tall, wide, counts)
        _fill_table(counts, i32(tall * wide), area.limit, tables[tile * LEVELS : (tile + 1) * LEVELS])
    row_cells, row_shares = cells[width:], shares[2 * width :]
    _lay_positions(width, wide, cells, shares)
    _lay_positions(height, tall, row_cells, row_shares)
    last = i64(-1)
    for y in range(height):
        if row_cells[y] != last:
            last = i64(row_cells[y])
            _lay_quads(tables, rows, columns, last // LEVELS, quads)
        row = image[y * width : (y + 1) * width]
        first, second = row_shares[y], row_shares[height + y]
        if channels == 1:
            _mix_row(row, quads, cells, shares, first, second, out[y * width : (y + 1) * width])
        else:
            _mix_row(row, quads, cells, shares, first, second, line)
            take_bytes(source, y * stride, 3 * width, pixels, i64(0))
            _recolor_row(pixels, row, line, out[3 * y * width : 3 * (y + 1) * width])


clahe = area_function("clahe", _clahe, make_copy(take_bytes), "uint8")
