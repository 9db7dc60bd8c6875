"""The CPU runtime's exact resize: a window of bytes to some rows and columns of its resized image, as bytes.

The pass along rows takes 16 rows at a time and turns them, so that a vector holds one byte of each of them and a tap is
one multiplication by a weight that all share; its sums, bytes again, are turned back into a ring of rows. The pass
along columns sums 64 bytes of such rows at a time. Only what the wanted part needs is computed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .. import exact
from ..lang import cgutils, intrinsic, ir, types
from ..scalar import loop
from .intrinsics import Place, copy, doubles_in, ints_in, longs_in, pointer, shuffle, spread
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
    def sum_columns(typing_context, columns, first, weights, at, taps, bits, out, to):
        """One pixel of 16 rows, ``channels`` vectors from ``out[to]``, of the taps from column ``first`` on."""

        def generate(context, builder, signature, args):
            place = context, builder, signature, args
            columns, out = Place(*place, 0), Place(*place, 6)
            _, first, _, at, taps, bits, _, to = args
            wide = ir.VectorType(_I32, _ROWS)
            sums = [cgutils.alloca_once_value(builder, _half(builder, bits, _ROWS)) for _ in range(channels)]
            with cgutils.for_range(builder, taps) as each:
                weight = spread(builder, _element(*place, 2, builder.add(at, each.index)), _ROWS)
                pixel = builder.mul(builder.add(first, each.index), _I64(_ROWS * channels))
                for c, total in enumerate(sums):
                    value = builder.zext(columns.load(builder.add(pixel, _I64(_ROWS * c))), wide)
                    builder.store(builder.add(builder.load(total), builder.mul(value, weight)), total)
            for c, total in enumerate(sums):
                out.store(_bytes_of_sums(builder, builder.load(total), bits, _ROWS), builder.add(to, _I64(_ROWS * c)))
            return context.get_dummy_value()

        whole = types.int64
        return types.none(columns, whole, weights, whole, whole, types.int32, out, whole), generate

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
def _resize_rows(source, channels, starts, rows, x_axis, x0, x1, scratch, out, to):
    """Pixels ``x0`` to ``x1`` of up to 16 rows that begin at ``starts``, to ``out`` at ``to[r]``.

    Reads up to 15 bytes after the last pixel that has a tap, and writes whole vectors.
    """
    first, count, weights, most, bits = x_axis
    columns, sums, begins = scratch
    left = first[x0]
    right = first[x1 - 1] + count[x1 - 1]
    for r in range(_ROWS):
        begins[r] = starts[min(r, rows - 1)] + left * channels
    for at in range(0, (right - left) * channels, _ROWS):
        _turn_columns(source, begins, at, columns, at * _ROWS)
    for x in range(x0, x1):
        pixel, row, taps = np.int64(first[x] - left), np.int64(x * most), np.int64(count[x])
        place = np.int64((x - x0) * channels * _ROWS)
        if channels == 3:
            _sum_color_columns(columns, pixel, weights, row, taps, np.int32(bits), sums, place)
        else:
            _sum_gray_columns(columns, pixel, weights, row, taps, np.int32(bits), sums, place)
    for at in range(0, (x1 - x0) * channels, _ROWS):
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
def _along_rows_first(source, corner, stride, channels, part, x_axis, y_axis, scratch, to, starts, ring, depth, out):
    """Rows through the pass along rows into a ring, from there one by one through the pass along columns."""
    x0, y0, x1, y1 = part
    line = ring.size // (depth + 1)
    size = (x1 - x0) * channels
    first, count = y_axis[0], y_axis[1]
    done, stop = first[y0], first[y1 - 1] + count[y1 - 1]
    for y in range(y0, y1):
        while done < first[y] + count[y]:
            rows = min(_ROWS, stop - done)
            for r in range(_ROWS):
                starts[r] = corner + (done + min(r, rows - 1)) * stride
                to[r] = ((done + r) % depth if r < rows else depth) * line  # the line after the ring is never read
            _resize_rows(source, channels, starts, rows, x_axis, x0, x1, scratch, ring, to)
            done += rows
        for t in range(count[y]):
            starts[t] = (first[y] + t) % depth * line
        _resize_column(ring, starts, 0, size, y_axis, y, out, (y - y0) * size)


@loop
def _along_columns_first(source, corner, stride, channels, part, x_axis, y_axis, scratch, to, starts, ring, out):
    """16 rows of the result at a time through the pass along columns, then through the one along rows."""
    x0, y0, x1, y1 = part
    left, right = x_axis[0][x0], x_axis[0][x1 - 1] + x_axis[1][x1 - 1]
    size, skipped = (right - left) * channels, left * channels
    line, out_line = padded(size), padded((x1 - x0) * channels)
    resized = ring[_ROWS * line + _ROWS :]
    for top in range(y0, y1, _ROWS):
        rows = min(_ROWS, y1 - top)
        for r in range(rows):
            y = top + r
            for t in range(y_axis[1][y]):
                starts[t] = corner + (y_axis[0][y] + t) * stride
            _resize_column(source, starts, skipped, size, y_axis, y, ring, r * line)
        for r in range(_ROWS):
            starts[r] = r * line - skipped
            to[r] = min(r, rows) * out_line
        _resize_rows(ring, channels, starts, rows, x_axis, x0, x1, scratch, resized, to)
        for r in range(rows):
            at = (top + r - y0) * (x1 - x0) * channels
            copy(resized[to[r] :], out[at : at + (x1 - x0) * channels])


@loop
def _take_axis(memory, at, size, out, kind, rule, most):
    """The taps of an axis, laid in the work space from byte ``at`` on; and where its rest begins."""
    first, count = ints_in(memory, at, out), ints_in(memory, at + 4 * out, out)
    weights = ints_in(memory, at + 8 * out, out * most)
    at += _axis_space(out, most) - 8 * most
    real = doubles_in(memory, at, most)
    bits = lay_weights(size, out, REACHES[kind], kind, rule, most, first, count, weights, real)
    return (first, count, weights, most, bits), at + 8 * most


@loop
def resize_exactly(source, stride, channels, one, memory, out):
    """Resize a window of bytes.

    Parameters
    ----------
    source : uint8
        The pixels that have taps, and what lies between; up to 15 elements after the last of them are read.
    stride : int
        Bytes from one row to the next.
    channels : int
        1 or 3, interleaved.
    one : EXACT
    memory : uint8
        Work space, see :func:`exact_space`.
    out : uint8
        The part of the result, and SOURCE_SLACK bytes that may be written after it.
    """
    x0, y0, x1, y1 = one.part[0], one.part[1], one.part[2], one.part[3]
    if x0 >= x1 or y0 >= y1:
        return
    width, height = one.window[2] - one.window[0], one.window[3] - one.window[1]
    corner = one.window[1] * stride + one.window[0] * channels  # negative where what is left out is never read
    most_x = most_taps(width, one.width, REACHES[one.filter])
    most_y = most_taps(height, one.height, REACHES[one.filter])
    x_axis, at = _take_axis(memory, 0, width, one.width, one.filter, one.rule, most_x)
    y_axis, at = _take_axis(memory, at, height, one.height, one.filter, one.rule, most_y)
    to, begins = longs_in(memory, at, _ROWS), longs_in(memory, at + 8 * _ROWS, _ROWS)
    at += 16 * _ROWS
    starts = longs_in(memory, at, max(_ROWS, most_y))
    at += 8 * max(_ROWS, most_y)
    columns = memory[at : at + _ROWS * padded(width * channels)]
    at += columns.size
    sums = memory[at : at + _ROWS * padded((x1 - x0) * channels)]
    at += sums.size
    scratch = columns, sums, begins
    part = x0, y0, x1, y1
    if is_tall(one.rule, width, height, one.width, one.height):
        _along_columns_first(
            source, corner, stride, channels, part, x_axis, y_axis, scratch, to, starts, memory[at:], out
        )
    else:
        depth = most_y + _ROWS
        ring = memory[at : at + (depth + 1) * padded((x1 - x0) * channels)]
        _along_rows_first(
            source, corner, stride, channels, part, x_axis, y_axis, scratch, to, starts, ring, depth, out
        )  # fmt: skip


# -- memory ------------------------------------------------------------------------------------------------------------


def _axis_space_(out: Any, most: Any) -> Any:
    """Bytes of the taps of an axis, a multiple of 8."""
    return 8 * out + 4 * (out * most + out * most % 2) + 8 * most


def _padded(size: Any) -> Any:
    """Bytes from one row of a work space to the next: whole vectors of both kinds fit."""
    return (size + _ROWS + _WIDE - 1) // _WIDE * _WIDE


_axis_space, padded = loop(_axis_space_), loop(_padded)


def exact_space(images: Any, channels: int) -> Any:
    """Bytes of work space, (N,), of (N,) EXACT."""
    x0, y0, x1, y1 = images["window"].T
    width, height, reach = x1 - x0, y1 - y0, REACHES[images["filter"]]
    most_x, most_y = exact.most_taps(width, images["width"], reach), exact.most_taps(height, images["height"], reach)
    wide = _padded((images["part"][:, 2] - images["part"][:, 0]) * channels)
    source = _padded(width * channels)
    tall = exact.is_tall(images["rule"], width, height, images["width"], images["height"])
    ring = np.where(tall, _ROWS * source + _ROWS + (_ROWS + 1) * wide, (most_y + _ROWS + 1) * wide)
    axes = _axis_space_(images["width"], most_x) + _axis_space_(images["height"], most_y)
    return axes + 16 * _ROWS + 8 * np.maximum(_ROWS, most_y) + _ROWS * (source + wide) + ring
