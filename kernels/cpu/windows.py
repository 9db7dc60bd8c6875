"""Filters of a window on a CPU: medians, least and greatest values, weighted sums.

As many rows of the image as the window has lie in a ring, with the border on both sides. A row of the result is
computed from all of them, by loops over values of all channels: neighbors in a row are ``channels`` elements apart.
"""

from typing import Any, Final

import numpy as np

from ..lang import cgutils, ir, types
from ..prepass import FEW, GREATEST, LIMITED, MEDIANS, MOST_WINDOW, RECTANGLE, SEPARABLE
from ..scalar import clamp, f32, i64, loop, up
from .intrinsics import (
    F32,
    I8,
    address_of,
    bytes_at,
    copy,
    emitted,
    floats_at,
    load,
    longs_at,
    plus_product,
    rounded_bytes,
    splat,
    spread,
    store,
    vector,
)
from .prepass import area_function, as_byte, as_float, make_copy, make_take_row, take_bytes, take_levels, take_units

_WIDE: Final = 64  # bytes of a vector

#: Elements of a row that are computed together; buffers have as many more than a row.
BLOCK: Final = 128

_LAYERS: Final = 5  # of a row: the extremes of 1, 2, 4, 8 and 16 pixels
_MOST_PLACES: Final = MOST_WINDOW * MOST_WINDOW


# -- sorting networks --------------------------------------------------------------------------------------------------


def network(n: int) -> list[tuple[int, int]]:
    """Comparators that sort ``n`` values: Batcher's odd-even merge sort, without those that reach past the end."""
    pairs, size = [], 1
    while size < n:
        step = size
        while step:
            for first in range(step % size, n - step, 2 * step):
                for k in range(first, min(first + step, n - step)):
                    if k // (2 * size) == (k + step) // (2 * size):
                        pairs.append((k, k + step))
            step //= 2
        size *= 2
    return pairs


def _lesser(builder: Any, a: Any, b: Any) -> Any:
    if a.type.element == F32:
        return builder.fcmp_ordered("<", a, b)
    return builder.icmp_unsigned("<", a, b)


def _ordered(builder: Any, values: list[Any]) -> list[Any]:
    values = [*values]
    for a, b in network(len(values)):
        less = _lesser(builder, values[a], values[b])
        low, high = builder.select(less, values[a], values[b]), builder.select(less, values[b], values[a])
        values[a], values[b] = low, high
    return values


def _make_median(kind: Any, size: int) -> Any:
    """Return a loop that fills a row of ``n`` values with the medians of windows of ``size`` x ``size``."""
    lanes = _WIDE // (1 if kind is I8 else 4)
    whole, middle = vector(kind, lanes), size * size // 2
    u = types.uintp

    def row_at(builder, ring, starts, x, y):
        place = builder.add(starts.element(ir.Constant(x.type, y)), x)
        return load(builder, ring.at(place, lanes), whole)

    @emitted(types.none, None, None, u, u, None, u)
    def direct(builder, ring, starts, x, channels, out, to):
        """All nine values, sorted by columns, which need no memory between."""
        columns = []
        for k in range(size):
            at = builder.add(x, builder.mul(channels, ir.Constant(x.type, k)))
            columns.append(_ordered(builder, [row_at(builder, ring, starts, at, y) for y in range(size)]))
        store(builder, _middle(builder, [list(row) for row in zip(*columns, strict=True)], middle), out.at(to, lanes))

    @emitted(types.none, None, None, u, None, u)
    def sort_column(builder, ring, starts, x, columns, step):
        for y, value in enumerate(_ordered(builder, [row_at(builder, ring, starts, x, y) for y in range(size)])):
            at = builder.add(x, builder.mul(step, ir.Constant(x.type, y)))
            store(builder, value, columns.at(at, lanes))

    @emitted(types.none, None, u, u, u, None, u)
    def choose(builder, columns, x, step, channels, out, to):
        table = []
        for y in range(size):
            start = builder.add(x, builder.mul(step, ir.Constant(x.type, y)))
            places = [builder.add(start, builder.mul(channels, ir.Constant(x.type, k))) for k in range(size)]
            table.append([load(builder, columns.at(one, lanes), whole) for one in places])
        store(builder, _middle(builder, table, middle), out.at(to, lanes))

    @loop
    def small(ring, starts, channels, n, columns, step, out, to):
        for x in range(0, n, lanes):
            direct(ring, starts, up(x), up(channels), out, up(to + x))

    @loop
    def large(ring, starts, channels, n, columns, step, out, to):
        for x in range(0, n + (size - 1) * channels, lanes):
            sort_column(ring, starts, up(x), columns, up(step))
        for x in range(0, n, lanes):
            choose(columns, up(x), up(step), up(channels), out, up(to + x))

    return small if size == 3 else large


def _middle(builder: Any, table: list[list[Any]], middle: int) -> Any:
    """Return the median of a square whose columns are sorted; LLVM leaves out comparisons that it does not need.

    Its rows are sorted, which leaves columns sorted. A value with more than half of all values not below it, or not
    above it, by its place alone, is not the median.
    """
    size = len(table)
    table = [_ordered(builder, row) for row in table]
    left, low = [], 0
    for y in range(size):
        for x in range(size):
            if (size - y) * (size - x) > middle + 1:
                low += 1
            elif (y + 1) * (x + 1) <= middle + 1:
                left.append(table[y][x])
    return _ordered(builder, left)[middle - low]


# -- sums and extremes -------------------------------------------------------------------------------------------------


def _make_gather(kind: Any, first: float, take: Any, finish: Any = None) -> Any:
    """Return a loop that combines rows of values, which begin at ``places``, to one: least, greatest or weighted sum.

    ``take(builder, total, weight, value)`` emits the formula, in vectors, from ``first`` on. Values stay in registers
    until those of all rows are taken: :data:`BLOCK` at a time, so that as many may be read and written too many.
    ``finish`` emits what makes the elements that are stored of them.
    """
    lanes = _WIDE // (1 if kind is I8 else 4)
    whole, u = vector(kind, lanes), types.uintp

    @emitted(types.none, None, None, None, u, u, None, u)
    def block(builder, values, places, weights, count, x, out, to):
        parts = range(0, BLOCK, lanes)
        totals = [cgutils.alloca_once_value(builder, splat(kind, first, lanes)) for _ in parts]
        with cgutils.for_range(builder, count) as k:
            at = builder.add(places.element(k.index), x)
            weight = spread(builder, weights.element(k.index), lanes) if kind is F32 else None
            for part, total in zip(parts, totals, strict=True):
                value = load(builder, values.at(builder.add(at, ir.Constant(at.type, part)), lanes), whole)
                builder.store(take(builder, builder.load(total), weight, value), total)
        for part, total in zip(parts, totals, strict=True):
            value = builder.load(total) if finish is None else finish(builder, builder.load(total))
            store(builder, value, out.at(builder.add(to, ir.Constant(to.type, part)), lanes))

    @loop
    def gather(values, places, weights, count, n, out, to):
        for x in range(0, n, BLOCK):
            block(values, places, weights, up(count), up(x), out, up(to + x))

    return gather


def _take_least(builder, total, weight, value):
    return builder.select(_lesser(builder, value, total), value, total)


def _take_most(builder, total, weight, value):
    return builder.select(_lesser(builder, total, value), value, total)


def _add_weighted(builder, total, weight, value):
    return plus_product(builder, total, weight, value)


def _as_bytes(builder, value):
    """Limit levels to those of bytes, and round them."""
    low, high = (splat(F32, level, value.type.count) for level in (0.0, 255.0))
    value = builder.select(builder.fcmp_ordered(">", value, low), value, low)
    return rounded_bytes(builder, builder.select(builder.fcmp_ordered("<", value, high), value, high))


_add_rows = _make_gather(F32, 0.0, _add_weighted)
_add_rows_to_bytes = _make_gather(F32, 0.0, _add_weighted, _as_bytes)


# -- rows of an image --------------------------------------------------------------------------------------------------

_HEAD: Final = 12 * _MOST_PLACES + (-12 * _MOST_PLACES) % BLOCK  # bytes of places and weights


def _step_(width: Any, columns: Any, channels: Any) -> Any:
    """Elements from a row of a work space to the next: whole blocks, and one more."""
    return ((width + columns - 1) * channels + 2 * BLOCK - 1) // BLOCK * BLOCK


_step = loop(_step_)


def _make_windows(layers: int, view: Any, out_view: Any, enter: Any, combine: Any) -> Any:
    """Return a loop over an image, which keeps as many rows as the window has.

    ``enter`` fills the layers of a new row, with the border, and ``combine`` makes a row of the result of all.
    """

    @loop
    def windows(source, stride, channels, area, work, out):
        height, rows, columns = i64(area.height), i64(area.rows), i64(area.columns)
        n, step, start = i64(area.width) * channels, _step(i64(area.width), columns, channels), address_of(work)
        operand = floats_at(area.values, i64(area.count))
        places, weights = longs_at(start, _MOST_PLACES), floats_at(start + 8 * _MOST_PLACES, _MOST_PLACES)
        line, ring = out_view(start + _HEAD, step), view(start + _HEAD + 4 * step, (layers + 1) * rows * step)
        scratch = step, operand, places, weights, ring[layers * rows * step :]
        for y in range(height + rows - 1):
            enter(source, stride, channels, area, y - rows // 2, scratch, ring, y % rows * layers * step)
            if y < rows - 1:
                continue
            to = (y - rows + 1) * n
            if to + n + BLOCK <= out.size:  # what is written past the end of the row is written later
                combine(area, channels, n, scratch, ring, y + 1, out, to)
            else:
                combine(area, channels, n, scratch, ring, y + 1, line, i64(0))
                copy(line[:n], out[to : to + n])

    return windows


def _make_enter_plain(take_row: Any) -> Any:
    """Return a loop that takes a row into the ring as it is."""

    @loop
    def enter(source, stride, channels, area, y, scratch, ring, at):
        before = i64(area.columns) // 2
        take_row(source, stride, channels, area, y, before, i64(area.columns) - 1 - before, ring, at)

    return enter


def space(areas: Any, channels: int, *, itemsize: int, layers: int = _LAYERS) -> Any:
    """Bytes of work space, (N,), of (N,) AREA."""
    rows, step = areas["rows"].astype(np.int64), _step_(areas["width"].astype(np.int64), areas["columns"], channels)
    return _HEAD + (4 + (layers + 1) * rows * itemsize) * step


# -- medians -----------------------------------------------------------------------------------------------------------


def _make_medians(kind: Any) -> Any:
    three, five, seven = (_make_median(kind, size) for size in MEDIANS)

    @loop
    def combine(area, channels, n, scratch, ring, first, out, to):
        step, _, starts, _, columns = scratch
        rows = i64(area.rows)
        for k in range(rows):
            starts[k] = (first + k) % rows * step
        if rows == 3:
            three(ring, starts, channels, n, columns, step, out, to)
        elif rows == 5:
            five(ring, starts, channels, n, columns, step, out, to)
        else:
            seven(ring, starts, channels, n, columns, step, out, to)

    return combine


def _make_median_function(kind: str, take: Any, cast: Any, view: Any, lane: Any) -> Any:
    windows = _make_windows(1, view, view, _make_enter_plain(make_take_row(take, cast)), _make_medians(lane))
    return area_function(f"median_{kind}", windows, make_copy(take), kind)


median_bytes = _make_median_function("uint8", take_bytes, as_byte, bytes_at, I8)
median_floats = _make_median_function("float32", take_units, as_float, floats_at, F32)


# -- morphology --------------------------------------------------------------------------------------------------------


def _make_enter_extremes(take_row: Any, gather: Any) -> Any:
    """Return a loop that takes a row and fills its layers: the extremes of 1, 2, 4, ... pixels from each on.

    For a rectangle, the layers have the extremes of as many pixels as the window has columns, of 1, 2, 4, ... rows up
    to this one. Those of the first rows are of no use, and are not used.
    """

    @loop
    def enter(source, stride, channels, area, y, scratch, ring, at):
        step, _, places, weights, _ = scratch
        columns, n = i64(area.columns), (i64(area.width) + i64(area.columns) - 1) * channels
        before = columns // 2
        take_row(source, stride, channels, area, y, before, columns - 1 - before, ring, at)
        if area.option & FEW:
            if area.option & RECTANGLE:
                for k in range(columns):
                    places[k] = at + k * channels
                gather(ring, places, weights, columns, n, ring, at)
            return
        layer, reach = at, i64(1)
        while 2 * reach <= columns:
            places[0], places[1] = layer, layer + reach * channels
            layer, reach = layer + step, 2 * reach
            gather(ring, places, weights, i64(2), n, ring, layer)
        if area.option & RECTANGLE == 0:
            return
        places[0], places[1] = layer, layer + (columns - reach) * channels
        gather(ring, places, weights, i64(2), n, ring, at)
        rows, layer, reach = i64(area.rows), i64(0), i64(1)
        slot = at // (_LAYERS * step)
        while 2 * reach <= rows:
            places[0] = at + layer * step
            places[1] = (slot + rows - reach) % rows * _LAYERS * step + layer * step
            layer, reach = layer + 1, 2 * reach
            gather(ring, places, weights, i64(2), n, ring, at + layer * step)

    return enter


def _make_combine_extremes(gather: Any) -> Any:
    @loop
    def combine(area, channels, n, scratch, ring, first, out, to):
        step, spans, places, weights, _ = scratch
        rows, count, reach, layer = i64(area.rows), i64(0), i64(1), i64(0)
        if area.option & FEW:
            for k in range(rows):
                row = (first + k) % rows * _LAYERS * step
                left, right = i64(spans[2 * k]), i64(spans[2 * k + 1])
                for x in range(left, left + 1 if area.option & RECTANGLE else right + 1):
                    places[count] = row + x * channels
                    count += 1
            gather(ring, places, weights, count, n, out, to)
            return
        if area.option & RECTANGLE:
            while 2 * reach <= rows:
                layer, reach = layer + 1, 2 * reach
            places[0] = (first + rows - 1) % rows * _LAYERS * step + layer * step
            places[1] = (first + reach - 1) % rows * _LAYERS * step + layer * step
            gather(ring, places, weights, i64(2), n, out, to)
            return
        for k in range(rows):
            row = (first + k) % rows * _LAYERS * step
            left, right = i64(spans[2 * k]), i64(spans[2 * k + 1])
            if left <= right:
                reach = i64(1)
                while 2 * reach <= right + 1 - left:
                    row, reach = row + step, 2 * reach
                places[count] = row + left * channels
                count += 1
                if reach < right + 1 - left:
                    places[count] = row + (right + 1 - reach) * channels
                    count += 1
        gather(ring, places, weights, count, n, out, to)

    return combine


def _make_morphology(kind: str) -> Any:
    """Return the loop of both the least and the greatest values."""
    take, cast, view = (take_bytes, as_byte, bytes_at) if kind == "uint8" else (take_units, as_float, floats_at)
    take_row = make_take_row(take, cast)
    lane, low, high = (I8, 0, 255) if kind == "uint8" else (F32, -np.inf, np.inf)
    gathers = _make_gather(lane, high, _take_least), _make_gather(lane, low, _take_most)
    least, most = (
        _make_windows(_LAYERS, view, view, _make_enter_extremes(take_row, one), _make_combine_extremes(one))
        for one in gathers
    )

    @loop
    def run(source, stride, channels, area, work, out):
        if area.option & GREATEST:
            most(source, stride, channels, area, work, out)
        else:
            least(source, stride, channels, area, work, out)

    return area_function(f"morphology_{kind}", run, make_copy(take), kind)


morphology_bytes, morphology_floats = _make_morphology("uint8"), _make_morphology("float32")


# -- weighted sums -----------------------------------------------------------------------------------------------------


def _make_enter_weighted(take_row: Any) -> Any:
    """Return a loop that takes a row, of a separable filter its sums along the row."""

    @loop
    def enter(source, stride, channels, area, y, scratch, ring, at):
        _, operand, places, weights, spare = scratch
        columns = i64(area.columns)
        before = columns // 2
        if area.option & SEPARABLE:
            take_row(source, stride, channels, area, y, before, columns - 1 - before, spare, i64(0))
            for k in range(columns):
                places[k], weights[k] = k * channels, operand[k]
            _add_rows(spare, places, weights, columns, i64(area.width) * channels, ring, at)
        else:
            take_row(source, stride, channels, area, y, before, columns - 1 - before, ring, at)

    return enter


def _make_weigh(gather: Any, limits: bool) -> Any:
    """Return a loop that makes a row of the weighted rows in the window, or of its pixels that have a weight."""

    @loop
    def combine(area, channels, n, scratch, ring, first, out, to):
        step, operand, places, weights, _ = scratch
        rows, count = i64(area.rows), i64(area.rows)
        if area.option & SEPARABLE:
            for k in range(rows):
                places[k], weights[k] = (first + k) % rows * step, operand[i64(area.columns) + k]
        else:
            count = i64(area.count) // 3
            for k in range(count):
                row, column = i64(operand[3 * k]), i64(operand[3 * k + 1])
                places[k], weights[k] = (first + row) % rows * step + column * channels, operand[3 * k + 2]
        gather(ring, places, weights, count, n, out, to)
        if limits and area.option & LIMITED:
            for k in range(n):
                out[to + k] = clamp(out[to + k], f32(0.0), f32(1.0))

    return combine


def _make_weighted(kind: str, take: Any, view: Any, combine: Any, copy_image: Any) -> Any:
    enter = _make_enter_weighted(make_take_row(take, as_float))
    return area_function(f"weighted_{kind}", _make_windows(1, floats_at, view, enter, combine), copy_image, kind)


weighted_bytes = _make_weighted(
    "uint8", take_levels, bytes_at, _make_weigh(_add_rows_to_bytes, False), make_copy(take_bytes)
)
weighted_floats = _make_weighted("float32", take_units, floats_at, _make_weigh(_add_rows, True), make_copy(take_units))
