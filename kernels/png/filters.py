"""The row filters of PNG, undone pixel by pixel: all bytes of a pixel are the lanes of one vector.

A byte is stored as its difference from a prediction, which depends on the pixels to the left, above, and above to the
left. So a pixel waits for the one to the left of it, 10 cycles for the Paeth filter. Four rows at a time, each a pixel
later than the one above it, take little longer than one.
"""

from typing import Any

import numpy as np

from ..cpu.intrinsics import I8, I16, I64, copy, emitted, load, splat, spread, store, vector
from ..jpeg.vectors import load_big
from ..lang import cgutils, ir, types
from ..scalar import loop, up

NONE, SUB, UP, AVERAGE, PAETH = range(5)
COUNT = 5

TOGETHER = 4  # rows

_LANES = {1: 2, 2: 2, 3: 4, 4: 4, 6: 8, 8: 8}  # bytes that are loaded, by those of a pixel
_WIDE = tuple(_LANES)[1:]
_EACH = 0x0101010101010101  # times a byte: eight of them


@loop
def predicted(kind, left, above, corner):
    """Return the prediction of a byte by a filter, from three int64."""
    if kind == NONE:
        return 0
    if kind == SUB:
        return left
    if kind == UP:
        return above
    if kind == AVERAGE:
        return (left + above) >> 1
    # The neighbor nearest to left + above - corner: by PNG, of equally near ones left before above before corner.
    far = 3 * corner - left - above
    low, high = min(left, above), max(left, above)
    if far <= low:
        return high
    return low if far >= high else corner


def _average(builder: Any, left: Any, above: Any) -> Any:
    return builder.lshr(builder.add(left, above), splat(I16, 1, left.type.count))


def _paeth(builder: Any, left: Any, above: Any, corner: Any) -> Any:
    """Emit the last part of :func:`predicted` for vectors of int16."""
    # What does not depend on the pixel to the left comes first: the chain of dependent steps is what takes time.
    rest = builder.add(builder.add(corner, corner), builder.sub(corner, above))
    far = builder.sub(rest, left)
    less = builder.icmp_signed("<", left, above)
    low, high = builder.select(less, left, above), builder.select(less, above, left)
    nearest = builder.select(builder.icmp_signed("<=", high, far), low, corner)
    return builder.select(builder.icmp_signed("<=", far, low), high, nearest)


def _sum(builder: Any, one: Any, other: Any) -> Any:
    """Emit the sum of bytes in int16 lanes, whose upper bytes are zeros."""
    # As sums of bytes: LLVM would narrow a sum of int16 that is cut off, and widen it again, which takes two cycles.
    kind = vector(I8, 2 * one.type.count)
    return builder.bitcast(builder.add(builder.bitcast(one, kind), builder.bitcast(other, kind)), one.type)


def _undo_row(
    builder: Any, kind: int, size: int, raw: Any, at: Any, rows: Any, above: Any, row: Any, count: Any
) -> None:
    """Emit code that undoes a filter in ``count`` pixels of ``size`` bytes from the left edge on."""
    lanes = _LANES[size]
    narrow, wide = vector(I8, lanes), vector(I16, lanes)

    def address(array, start, index):
        return array.at(builder.add(start, index), lanes)

    zero = ir.Constant(wide, None)
    left, corner = (cgutils.alloca_once_value(builder, zero) for _ in range(2))
    with cgutils.for_range(builder, count) as each:
        index = builder.mul(each.index, each.index.type(size))
        value = builder.load(left)
        if kind != SUB:
            over = builder.zext(load(builder, address(rows, above, index), narrow), wide)
            if kind == AVERAGE:
                value = _average(builder, value, over)
            else:
                value = _paeth(builder, value, over, builder.load(corner))
            builder.store(over, corner)
        stored = builder.zext(load(builder, address(raw, at, index), narrow), wide)
        value = _sum(builder, value, stored)
        store(builder, builder.trunc(value, narrow), address(rows, row, index))
        builder.store(value, left)


def _make_undo_row(kind: int) -> Any:
    whole = types.int64

    @emitted(types.none, None, whole, None, whole, whole, whole, whole)
    def undo(builder, raw, at, rows, above, row, count, size):
        for one in _WIDE:
            with builder.if_then(builder.icmp_signed("==", size, I64(one))):
                _undo_row(builder, kind, one, raw, at, rows, above, row, count)

    return undo


def _undo_rows(
    builder: Any, size: int, raw: Any, at: Any, line: Any, rows: Any, above: Any, outs: Any, count: Any
) -> None:
    """Emit code that undoes any filters of four rows, in pixels ``3 - r`` to ``count - r`` of row ``r``.

    ``at`` is the first byte of the first inflated row after its filter, ``line`` from one to the next; ``above`` and
    ``outs`` are the first bytes of the row above, and of the four.
    """
    lanes = _LANES[size]
    narrow, wide = vector(I8, lanes), vector(I16, lanes)

    def address(array, start, index):
        return array.at(builder.add(start, index), lanes)

    def pixel(start, x):
        return builder.zext(load(builder, address(rows, start, I64(x * size)), narrow), wide)

    def mask(filters, kind):
        return spread(builder, builder.sext(builder.icmp_unsigned("==", filters, I8(kind)), I16), lanes)

    zero = ir.Constant(wide, None)
    starts, masks, lefts, corners = [], [], [], []
    for r in range(TOGETHER):
        start = builder.add(at, builder.mul(line, I64(r)))
        starts.append(start)
        filters = load(builder, raw.at(builder.sub(start, I64(1)), 1), I8)
        masks.append([mask(filters, kind) for kind in (SUB, UP, AVERAGE, PAETH)])
        last = TOGETHER - 2 - r  # the pixel before the first one
        over = outs[r - 1] if r else above
        lefts.append(cgutils.alloca_once_value(builder, pixel(outs[r], last) if last >= 0 else zero))
        corners.append(cgutils.alloca_once_value(builder, pixel(over, last) if last >= 0 else zero))
    with cgutils.for_range(builder, builder.sub(count, I64(TOGETHER - 1))) as each:
        first = builder.mul(each.index, I64(size))
        index = builder.add(first, I64((TOGETHER - 1) * size))
        over = builder.zext(load(builder, address(rows, above, index), narrow), wide)
        for r in range(TOGETHER):
            index = builder.add(first, I64((TOGETHER - 1 - r) * size))
            left, corner = builder.load(lefts[r]), builder.load(corners[r])
            sub, up_, average, paeth = masks[r]
            value = builder.or_(
                builder.or_(
                    builder.and_(_paeth(builder, left, over, corner), paeth),
                    builder.and_(_average(builder, left, over), average),
                ),
                builder.or_(builder.and_(over, up_), builder.and_(left, sub)),
            )
            stored = builder.zext(load(builder, address(raw, starts[r], index), narrow), wide)
            value = _sum(builder, value, stored)
            store(builder, builder.trunc(value, narrow), address(rows, outs[r], index))
            builder.store(value, lefts[r])
            builder.store(over, corners[r])
            over = left  # of the row below: the pixel before, of this row


@emitted(types.none, None, types.int64, types.int64, None, *[types.int64] * 7)
def _four(builder, raw, at, line, rows, above, row0, row1, row2, row3, count, size):
    for one in _LANES:
        with builder.if_then(builder.icmp_signed("==", size, I64(one))):
            _undo_rows(builder, one, raw, at, line, rows, above, (row0, row1, row2, row3), count)


@loop
def _sub1(raw, at, rows, above, row, count):
    """Undo the Sub filter in pixels of one byte."""
    left = np.uint8(0)
    for k in range(count):
        left = np.uint8(left + raw[up(at) + up(k)])
        rows[up(row) + up(k)] = left


def _make_undo_bytes(kind: int) -> Any:
    """Return a loop that undoes a filter in pixels of one byte, which takes less than with vectors of one lane."""

    @loop
    def undo(raw, at, rows, above, row, count):
        left, corner = np.int64(0), np.int64(0)
        start = 0
        while start < count:
            stop = min(start + 8, count)
            # Areas of one value, of which masks are full: eight pixels in a few cycles.
            flat = stop - start == 8 and load_big(raw, up(at) + up(start)) == 0
            if flat and load_big(rows, up(above) + up(start)) == np.uint64(left) * np.uint64(_EACH):
                for k in range(8):
                    rows[up(row) + up(start + k)] = np.uint8(left)
                corner = left
            else:
                for k in range(start, stop):
                    over = np.int64(rows[up(above) + up(k)])
                    value = np.uint8(raw[up(at) + up(k)] + np.uint8(predicted(kind, left, over, corner)))
                    rows[up(row) + up(k)] = value
                    left, corner = np.int64(value), over
            start = stop

    return undo


_average1, _paeth1 = (_make_undo_bytes(kind) for kind in (AVERAGE, PAETH))
_sub, _average_pixels, _paeth_pixels = (_make_undo_row(kind) for kind in (SUB, AVERAGE, PAETH))


@loop
def _undo_pixels(kind, raw, at, rows, above, row, count, size):
    """Undo a filter that needs the pixel to the left."""
    if kind == SUB and size == 1:
        _sub1(raw, at, rows, above, row, count)
    elif kind == SUB:
        _sub(raw, at, rows, above, row, count, size)
    elif kind == AVERAGE and size == 1:
        _average1(raw, at, rows, above, row, count)
    elif kind == AVERAGE:
        _average_pixels(raw, at, rows, above, row, count, size)
    elif size == 1:
        _paeth1(raw, at, rows, above, row, count)
    else:
        _paeth_pixels(raw, at, rows, above, row, count, size)


@loop
def _undo_bytes(kind, raw, at, rows, above, row, start, stop, size):
    """Undo a filter in the bytes ``start`` to ``stop`` of a row, one by one."""
    for k in range(start, stop):
        left, corner = np.int64(0), np.int64(0)
        if k >= size:
            left, corner = np.int64(rows[row + k - size]), np.int64(rows[above + k - size])
        rows[row + k] = raw[at + k] + np.uint8(predicted(kind, left, np.int64(rows[above + k]), corner))


@loop
def _whole_pixels(used, size):
    """Return the pixels of which vectors reach no byte after the row."""
    more = 2 if size == 6 else size & 1
    return (used - more) // size


@loop
def undo_filter(raw, at, rows, above, row, used, size):
    """Undo the filter of a row of ``used`` bytes in pixels of ``size`` bytes, the filter's number ``raw[at]`` first.

    The row above is at ``above`` of ``rows``, zeros for the first one, and the row at ``row`` is filled. Up to 2 bytes
    more are written, and read of the row above.
    """
    kind = raw[up(at)]
    at += 1
    if kind == NONE:
        copy(raw[at : at + used], rows[row : row + used])
    elif kind == UP:
        for k in range(used):
            rows[up(row) + up(k)] = raw[up(at) + up(k)] + rows[up(above) + up(k)]
    else:
        whole = _whole_pixels(used, size)
        _undo_pixels(kind, raw, at, rows, above, row, whole, size)
        _undo_bytes(kind, raw, at, rows, above, row, whole * size, used, size)


@loop
def undo_four(raw, at, line, rows, above, row0, row1, row2, row3, used, size):
    """Undo the filters of four rows as :func:`undo_filter`; ``line`` is from a row to the next of ``raw``."""
    whole = _whole_pixels(used, size)
    k0, k1, k2, k3 = raw[at], raw[at + line], raw[at + 2 * line], raw[at + 3 * line]
    at += 1
    at1, at2, at3 = at + line, at + 2 * line, at + 3 * line
    _undo_bytes(k0, raw, at, rows, above, row0, 0, 3 * size, size)
    _undo_bytes(k1, raw, at1, rows, row0, row1, 0, 2 * size, size)
    _undo_bytes(k2, raw, at2, rows, row1, row2, 0, size, size)
    _four(raw, at, line, rows, above, row0, row1, row2, row3, whole, size)
    _undo_bytes(k0, raw, at, rows, above, row0, whole * size, used, size)
    _undo_bytes(k1, raw, at1, rows, row0, row1, (whole - 1) * size, used, size)
    _undo_bytes(k2, raw, at2, rows, row1, row2, (whole - 2) * size, used, size)
    _undo_bytes(k3, raw, at3, rows, row2, row3, (whole - 3) * size, used, size)
