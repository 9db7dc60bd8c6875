"""The CPU runtime's exact resize: a window of bytes to some rows and columns of its resized image, which it stores.

The pass along rows takes 16 rows at a time and turns them, so that a vector holds one byte of each of them and a tap is
one multiplication by a weight that all share; its sums, bytes again, are turned back into a ring of rows. The pass
along columns sums 64 bytes of such rows at a time. Only what the wanted part needs is computed. A few rows of the
result at a time are stored, see :mod:`.bytes_store`, while they are in the first-level cache.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .. import exact
from ..compiled import NativeFunction
from ..exact import EXACT
from ..lang import cgutils, intrinsic, ir, types
from ..scalar import loop
from .bytes_store import band_of, call_store_bytes, most_rows
from .intrinsics import (
    BYTES,
    Place,
    array_at,
    caller,
    doubles_in,
    fence,
    ints_in,
    longs_in,
    pointer,
    record_at,
    record_pointer,
    shuffle,
    spread,
)
from .records import STORED
from .vectors import LANES
from .weights import REACHES, is_tall, lay_weights, most_taps

_ROWS: Final = LANES  # source rows that are turned at a time
_WIDE: Final = 64  # bytes that the pass along columns sums at a time, but for the last ones of a row

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)


# -- vectors -----------------------------------------------------------------------------------------------------------


def _bytes_of_sums(builder: Any, total: Any, bits: Any, n: int) -> Any:
    """Bytes of ``n`` fixed-point sums, to which a half was added."""
    kind = ir.VectorType(_I32, n)
    value = builder.ashr(total, spread(builder, bits, n))
    zero, top = ir.Constant(kind, [0] * n), ir.Constant(kind, [255] * n)
    value = builder.select(builder.icmp_signed(">", value, zero), value, zero)
    value = builder.select(builder.icmp_signed("<", value, top), value, top)
    return builder.trunc(value, ir.VectorType(_I8, n))


def _half(builder: Any, bits: Any, n: int) -> Any:
    """Half of what a sum is divided by, in every lane."""
    return spread(builder, builder.shl(_I32(1), builder.sub(bits, _I32(1))), n)


def _turn(builder: Any, rows: list[Any]) -> list[Any]:
    """Exchange rows and columns of 16 x 16 bytes, in four rounds of interleaving."""
    low = [k // 2 + _ROWS * (k % 2) for k in range(_ROWS)]
    high = [_ROWS // 2 + k for k in low]
    for _ in range(4):
        rows = [shuffle(builder, rows[i // 2], rows[i // 2 + 8], high if i % 2 else low) for i in range(_ROWS)]
    return rows


def _element(context: Any, builder: Any, signature: Any, values: Any, position: int, index: Any) -> Any:
    return builder.load(pointer(context, builder, signature.args[position], values[position], index))


@intrinsic
def _turn_columns(typing_context, source, starts, at, out, to):
    """16 bytes from ``starts[r] + at`` of 16 rows as 16 vectors from ``out[to]``, each a byte of all rows."""

    def generate(context, builder, signature, args):
        place = context, builder, signature, args
        source, out = Place(*place, 0), Place(*place, 3)
        rows = []
        for r in range(_ROWS):
            start = _element(*place, 1, _I64(r))
            rows.append(source.load(builder.add(start, args[2])))
        for k, column in enumerate(_turn(builder, rows)):
            out.store(column, builder.add(args[4], _I64(_ROWS * k)))
        return context.get_dummy_value()

    return types.none(source, starts, types.int64, out, types.int64), generate


@intrinsic
def _turn_rows(typing_context, columns, at, out, starts, to):
    """The reverse: 16 vectors from ``columns[at]`` as 16 bytes at ``starts[r] + to`` of each row."""

    def generate(context, builder, signature, args):
        place = context, builder, signature, args
        columns, out = Place(*place, 0), Place(*place, 2)
        vectors = [columns.load(builder.add(args[1], _I64(_ROWS * k))) for k in range(_ROWS)]
        for r, row in enumerate(_turn(builder, vectors)):
            start = _element(*place, 3, _I64(r))
            out.store(row, builder.add(start, args[4]))
        return context.get_dummy_value()

    return types.none(columns, types.int64, out, starts, types.int64), generate


def _make_sum_columns(channels: int) -> Any:
    @intrinsic
    def sum_columns(typing_context, columns, first, weights, at, taps, bits, out, to, step):
        """One pixel of 16 rows, a vector for each channel ``step`` bytes apart, of the taps from column ``first`` on."""

        def generate(context, builder, signature, args):
            place = context, builder, signature, args
            columns, out = Place(*place, 0), Place(*place, 6)
            _, first, _, at, taps, bits, _, to, step = args
            wide = ir.VectorType(_I32, _ROWS)
            sums = [cgutils.alloca_once_value(builder, _half(builder, bits, _ROWS)) for _ in range(channels)]
            with cgutils.for_range(builder, taps) as each:
                weight = spread(builder, _element(*place, 2, builder.add(at, each.index)), _ROWS)
                pixel = builder.mul(builder.add(first, each.index), _I64(_ROWS * channels))
                for c, total in enumerate(sums):
                    value = builder.zext(columns.load(builder.add(pixel, _I64(_ROWS * c))), wide)
                    builder.store(builder.add(builder.load(total), builder.mul(value, weight)), total)
            for c, total in enumerate(sums):
                place_of = builder.add(to, builder.mul(step, _I64(c)))
                out.store(_bytes_of_sums(builder, builder.load(total), bits, _ROWS), place_of)
            return context.get_dummy_value()

        whole = types.int64
        return types.none(columns, whole, weights, whole, whole, types.int32, out, whole, whole), generate

    return sum_columns


_sum_gray_columns, _sum_color_columns = _make_sum_columns(1), _make_sum_columns(3)


def _make_sum_rows(n: int) -> Any:
    @intrinsic
    def sum_rows(typing_context, source, starts, x, weights, at, taps, bits, out, to):
        """``out[to:to + n]``: the weighted sum of the bytes at ``starts[t] + x`` of rows."""

        def generate(context, builder, signature, args):
            place = context, builder, signature, args
            source, out = Place(*place, 0), Place(*place, 7)
            _, _, x, _, at, taps, bits, _, to = args
            total = cgutils.alloca_once_value(builder, _half(builder, bits, n))
            with cgutils.for_range(builder, taps) as each:
                weight = spread(builder, _element(*place, 3, builder.add(at, each.index)), n)
                start = _element(*place, 1, each.index)
                value = builder.zext(source.load(builder.add(start, x), n), ir.VectorType(_I32, n))
                builder.store(builder.add(builder.load(total), builder.mul(value, weight)), total)
            out.store(_bytes_of_sums(builder, builder.load(total), bits, n), to)
            return context.get_dummy_value()

        whole = types.int64
        return types.none(source, starts, whole, weights, whole, whole, types.int32, out, whole), generate

    return sum_rows


_sum_wide_rows, _sum_rows = _make_sum_rows(_WIDE), _make_sum_rows(_ROWS)


# -- passes ------------------------------------------------------------------------------------------------------------


@loop
def _resize_rows(source, channels, starts, rows, x_axis, x0, x1, scratch, form, out, to):
    """Pixels ``x0`` to ``x1`` of up to 16 rows that begin at ``starts``, to ``out`` at ``to[r]``.

    Reads up to 15 bytes after the last pixel that has a tap, and writes whole vectors. ``form``: bytes from a pixel to
    the next, from a channel to the next, of a line; and whether the first pixel is the last of the line.
    """
    first, count, weights, most, bits = x_axis
    columns, sums, begins = scratch
    across, plane, size, mirrored = form
    left = first[x0]
    right = first[x1 - 1] + count[x1 - 1]
    for r in range(_ROWS):
        begins[r] = starts[min(r, rows - 1)] + left * channels
    for at in range(0, (right - left) * channels, _ROWS):
        _turn_columns(source, begins, at, columns, at * _ROWS)
    step = np.int64(plane * _ROWS)
    for x in range(x0, x1):
        pixel, row, taps = np.int64(first[x] - left), np.int64(x * most), np.int64(count[x])
        place = np.int64((x1 - 1 - x if mirrored else x - x0) * across * _ROWS)
        if channels == 3:
            _sum_color_columns(columns, pixel, weights, row, taps, np.int32(bits), sums, place, step)
        else:
            _sum_gray_columns(columns, pixel, weights, row, taps, np.int32(bits), sums, place, step)
    for at in range(0, size, _ROWS):
        _turn_rows(sums, at * _ROWS, out, to, at)


@loop
def _resize_column(source, starts, x, size, y_axis, y, out, to):
    """Bytes ``x`` to ``x + size`` of row ``y``, of rows that begin at ``starts``; reads and writes up to 15 more."""
    _, count, weights, most, bits = y_axis
    at, taps = np.int64(y * most), np.int64(count[y])
    whole = size // _WIDE * _WIDE
    for k in range(0, whole, _WIDE):
        _sum_wide_rows(source, starts, np.int64(x + k), weights, at, taps, np.int32(bits), out, np.int64(to + k))
    for k in range(whole, size, _ROWS):
        _sum_rows(source, starts, np.int64(x + k), weights, at, taps, np.int32(bits), out, np.int64(to + k))


@loop
def _along_rows_first(source, corner, stride, channels, part, x_axis, y_axis, scratch, to, starts, ring, depth, form, sink):
    """Rows through the pass along rows into a ring, from there one by one through the pass along columns."""
    x0, y0, x1, y1 = part
    line = ring.size // (depth + 1)
    size = form[2]
    first, count = y_axis[0], y_axis[1]
    done, stop = first[y0], first[y1 - 1] + count[y1 - 1]
    lines, band, one, address, out, work, streamed = sink
    top = y0
    while top < y1:
        rows = _rows_stored(one, top - y0, y1 - top, band)
        for y in range(top, top + rows):
            while done < first[y] + count[y]:
                turned = min(_ROWS, stop - done)
                for r in range(_ROWS):
                    starts[r] = corner + (done + min(r, turned - 1)) * stride
                    # The line after the ring is never read.
                    to[r] = ((done + r) % depth if r < turned else depth) * line
                _resize_rows(source, channels, starts, turned, x_axis, x0, x1, scratch, form, ring, to)
                done += turned
            for t in range(count[y]):
                starts[t] = (first[y] + t) % depth * line
            _resize_column(ring, starts, 0, size, y_axis, y, lines, (y - top) * line)
        call_store_bytes(
            address, (lines, line, form[1], top - y0, rows, x1 - x0, y1 - y0, channels, out, one, work, streamed)
        )  # fmt: skip
        top += rows


@loop
def _along_columns_first(source, corner, stride, channels, part, x_axis, y_axis, scratch, to, starts, ring, form, sink):
    """Up to 16 rows of the result at a time through the pass along columns, then through the one along rows."""
    x0, y0, x1, y1 = part
    left, right = x_axis[0][x0], x_axis[0][x1 - 1] + x_axis[1][x1 - 1]
    size, skipped = (right - left) * channels, left * channels
    line, out_line = padded(size), padded(form[2])
    lines, _, one, address, out, work, streamed = sink
    top = y0
    while top < y1:
        rows = _rows_stored(one, top - y0, y1 - top, _ROWS)
        for r in range(rows):
            y = top + r
            for t in range(y_axis[1][y]):
                starts[t] = corner + (y_axis[0][y] + t) * stride
            _resize_column(source, starts, skipped, size, y_axis, y, ring, r * line)
        for r in range(_ROWS):
            starts[r] = r * line - skipped
            to[r] = min(r, rows) * out_line
        _resize_rows(ring, channels, starts, rows, x_axis, x0, x1, scratch, form, lines, to)
        call_store_bytes(
            address, (lines, out_line, form[1], top - y0, rows, x1 - x0, y1 - y0, channels, out, one, work, streamed)
        )  # fmt: skip
        top += rows


@loop
def _rows_stored(one, top, left, most):
    """Rows of the result that are stored together: of one row of patches."""
    return min(left, most, one.height - top % one.height)


@loop
def _take_axis(memory, at, size, out, kind, rule, most):
    """The taps of an axis, laid in the work space from byte ``at`` on; and where its rest begins."""
    first, count = ints_in(memory, at, out), ints_in(memory, at + 4 * out, out)
    weights = ints_in(memory, at + 8 * out, out * most)
    at += _axis_space(out, most) - 8 * most
    real = doubles_in(memory, at, most)
    bits = lay_weights(size, out, REACHES[kind], kind, rule, most, first, count, weights, real)
    return (first, count, weights, most, bits), at + 8 * most


def _resize_exactly(source_, elements, stride, channels, one_, memory_, size, out, stored_, address, streamed):
    """Resize a window of bytes, and store the part of the result that is wanted.

    Parameters
    ----------
    source, elements : pointer, int
        The pixels that have taps, and what lies between; up to 15 elements after the last of them are read.
    stride : int
        Bytes from one row to the next.
    channels : int
        1 or 3, interleaved.
    one : EXACT
    memory, size : pointer, int
        Work space, see :func:`exact_space`.
    out : pointer
        The result, of the kind that the store writes.
    stored : STORED
    address, streamed : int
        Of the loop that stores, and whether past the caches.
    """
    source, memory, one, stored = array_at(source_, elements), array_at(memory_, size), record_at(one_), record_at(stored_)
    x0, y0, x1, y1 = one.part[0], one.part[1], one.part[2], one.part[3]
    if x0 >= x1 or y0 >= y1:
        return
    width, height = one.window[2] - one.window[0], one.window[3] - one.window[1]
    corner = one.window[1] * stride + one.window[0] * channels  # negative where what is left out is never read
    most_x = most_taps(width, one.width, REACHES[one.filter])
    most_y = most_taps(height, one.height, REACHES[one.filter])
    x_axis, at = _take_axis(memory, stored.work, width, one.width, one.filter, one.rule, most_x)
    y_axis, at = _take_axis(memory, at, height, one.height, one.filter, one.rule, most_y)
    to, begins = longs_in(memory, at, _ROWS), longs_in(memory, at + 8 * _ROWS, _ROWS)
    at += 16 * _ROWS
    starts = longs_in(memory, at, max(_ROWS, most_y))
    at += 8 * max(_ROWS, most_y)
    columns = memory[at : at + _ROWS * padded(width * channels)]
    at += columns.size
    columns_out = x1 - x0
    across, plane, line = line_of(columns_out, channels, stored.column)
    sums = memory[at : at + _ROWS * padded(line)]
    at += sums.size
    scratch = columns, sums, begins
    part = x0, y0, x1, y1
    form = across, plane, line, stored.mirrored != 0
    band = band_of(stored.height)
    tall = is_tall(one.rule, width, height, one.width, one.height)
    lines = memory[at : at + (_ROWS + 1 if tall else band) * padded(line)]
    at += lines.size
    sink = lines, band, stored, address, out, memory, streamed
    if tall:
        _along_columns_first(
            source, corner, stride, channels, part, x_axis, y_axis, scratch, to, starts, memory[at:], form, sink
        )
    else:
        depth = most_y + _ROWS
        ring = memory[at : at + (depth + 1) * padded(line)]
        _along_rows_first(
            source, corner, stride, channels, part, x_axis, y_axis, scratch, to, starts, ring, depth, form, sink
        )
    if streamed:
        fence()  # stores past the caches are not ordered otherwise, and another thread reads the result


_RESIZE = types.void(
    BYTES, types.int64, types.int64, types.int64, record_pointer(EXACT), BYTES, types.int64, BYTES,
    record_pointer(STORED), types.int64, types.int64,
)  # fmt: skip
RESIZE_FUNCTION = NativeFunction("resize_exactly", _resize_exactly, _RESIZE)
call_resize = caller(_RESIZE)


# -- memory ------------------------------------------------------------------------------------------------------------


def _axis_space_(out: Any, most: Any) -> Any:
    """Bytes of the taps of an axis, a multiple of 8."""
    return 8 * out + 4 * (out * most + out * most % 2) + 8 * most


def _padded(size: Any) -> Any:
    """Bytes from one row of a work space to the next: whole vectors of both kinds fit."""
    return (size + _ROWS + _WIDE - 1) // _WIDE * _WIDE


def _line_of(width: Any, channels: Any, column: Any) -> tuple[Any, Any, Any]:
    """Bytes from a pixel of a row to the next, from a channel to the next, and of a row, whose channels are stored so.

    Where ``column`` elements lead from a pixel of the result to the next: interleaved as there, or one after the other.
    """
    whole = (width + _ROWS - 1) // _ROWS * _ROWS
    if column == 1:
        return 1, whole, whole * channels
    return channels, 1, width * channels


_axis_space, padded, line_of = loop(_axis_space_), loop(_padded), loop(_line_of)


def exact_space(images: Any, stored: Any, channels: int) -> Any:
    """Bytes of work space, (N,), of (N,) EXACT and STORED."""
    x0, y0, x1, y1 = images["window"].T
    width, height, reach = x1 - x0, y1 - y0, REACHES[images["filter"]]
    most_x, most_y = exact.most_taps(width, images["width"], reach), exact.most_taps(height, images["height"], reach)
    columns = images["part"][:, 2] - images["part"][:, 0]
    # The longer of the two kinds of lines.
    wide = _padded((columns + _ROWS - 1) // _ROWS * _ROWS * channels)
    source = _padded(width * channels)
    tall = exact.is_tall(images["rule"], width, height, images["width"], images["height"])
    lines = np.where(tall, _ROWS + 1, most_rows(stored))
    ring = np.where(tall, _ROWS * source + _ROWS, (most_y + _ROWS + 1) * wide)
    axes = _axis_space_(images["width"], most_x) + _axis_space_(images["height"], most_y)
    return (
        axes + 16 * _ROWS + 8 * np.maximum(_ROWS, most_y) + _ROWS * (source + wide) + lines * wide + ring + stored["work"]
    )
