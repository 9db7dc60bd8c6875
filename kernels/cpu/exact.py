"""The CPU runtime's exact resize: a window of bytes to some rows and columns of its resized image, which it stores.

The pass along rows takes 16 rows at a time and turns them, so that a vector holds one byte of each of them and a tap is
one multiplication by a weight that all share; its sums, bytes again, are turned back into a ring of rows. The pass
along columns sums 64 bytes of such rows at a time. Only what the wanted part needs is computed. A few rows of the
result at a time are stored, see :mod:`.bytes_store`, while they are in the first-level cache.
"""

from typing import Any, Final

import numpy as np

from .. import exact
from ..compiled import NativeFunction
from ..exact import EXACT, TORCH
from ..lang import cgutils, from_dtype, types
from ..layout import RADIUS
from ..scalar import loop, up
from .bytes_store import band_of, call_store_bytes, most_rows
from .intrinsics import (
    BYTES,
    I8,
    I16,
    I32,
    I64,
    address_of,
    array_at,
    caller,
    doubles_in,
    emitted,
    fence,
    ints_in,
    load,
    longs_in,
    prefetch,
    shuffle,
    splat,
    spread,
    store,
    vector,
)
from .products import bytes_of, interleaved, joined, saturated, sums_of_pairs, transposed
from .records import KEPT_BYTES, STORED
from .vectors import LANES
from .weights import is_tall, lay_weights, most_taps, rounded

_ROWS: Final = LANES  # source rows that are turned at a time
_WIDE: Final = 64  # bytes that the pass along columns sums at a time, except for the last ones of a row
_PAIR: Final = 2 * _ROWS  # bytes of two neighboring pixels of all these rows, one channel
_TURNED: Final = 512  # pixels of 16 rows that are turned at a time, or as many as have taps of one pixel
_AHEAD: Final = 640  # bytes of a row from those that are turned to those that are fetched to a cache
_FETCHED: Final = 2560  # bytes of rows after whose end the next ones are fetched; in longer ones that gains nothing
_KEPT_WORDS: Final = 9  # int64 that say what taps of an axis are in the work space
_LOW_BITS: Final = 11  # of a weight of Pillow's; the others are 12 and a sign
_LOW_MASK: Final = (1 << _LOW_BITS) - 1


# -- vectors -----------------------------------------------------------------------------------------------------------

# Vectors are handled in lanes of 16 bytes, as x86's instructions do. Weights are int16, in pairs for two taps: those of
# Pillow, which are longer, are two such pairs, of their low bits and of the others.

_COLOR_PAIRS = [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11, 0, 0, 0, 0]  # bytes of 4 pixels


def _make_turn_pairs(channels: int) -> Any:
    @emitted(types.none, None, None, types.int64, None, types.int64)
    def turn_pairs(builder, source, starts, at, out, to):
        """Pixels from ``starts[r] + at`` of 16 rows as pairs from ``out[to]``, each of two pixels' bytes of all rows.

        Of color 4 pixels, else 16.
        """

        def bytes_of_row(r):
            return load(builder, source.at(builder.add(starts.element(I64(r)), at), _ROWS), vector(I8, _ROWS))

        rows = []
        for r in range(_ROWS // 2):
            row = joined(builder, [bytes_of_row(r), bytes_of_row(r + _ROWS // 2)])
            if channels == 3:
                row = shuffle(builder, row, row, [first + k for first in (0, _ROWS) for k in _COLOR_PAIRS])
            rows.append(builder.bitcast(row, vector(I16, _ROWS)))
        for k, pair in enumerate(transposed(builder, rows, _ROWS // 2)[: 6 if channels == 3 else 8]):
            store(builder, pair, out.at(builder.add(to, I64(_PAIR * k)), _PAIR))

    return turn_pairs


_turn_gray, _turn_color = _make_turn_pairs(1), _make_turn_pairs(3)


@emitted(types.none, None, types.int64, None, None, types.int64)
def _turn_rows(builder, columns, at, out, starts, to):
    """The reverse: 32 vectors from ``columns[at]``, each a byte of 16 rows, as 32 bytes at ``starts[r] + to``."""

    def column(k):
        return load(builder, columns.at(builder.add(at, I64(_ROWS * k)), _ROWS), vector(I8, _ROWS))

    vectors = [joined(builder, [column(k), column(k + _ROWS)]) for k in range(_ROWS)]
    for r, row in enumerate(transposed(builder, vectors, _ROWS)):
        store(builder, row, out.at(builder.add(starts.element(I64(r)), to), _PAIR))


class _Sums:
    """Variables for sums of products with the parts of weights; LLVM makes them registers."""

    def __init__(self, builder: Any, n: int, parts: int, bits: Any) -> None:
        self._builder, self._n, self._bits = builder, n, bits
        half = spread(builder, builder.shl(I32(1), builder.sub(bits, I32(1))), n)  # of what a sum is divided by
        starts = (splat(I32, 0, n) if k else half for k in range(parts))
        self._parts = [cgutils.alloca_once_value(builder, start) for start in starts]

    def add(self, context: Any, values: Any, weights: list[Any]) -> None:
        """Add products of bytes, widened to 16 bits, and a pair of weights, or of two parts of weights."""
        builder = self._builder
        for total, weight in zip(self._parts, weights, strict=True):
            pairs = builder.bitcast(spread(builder, weight, self._n), values.type)
            builder.store(builder.add(builder.load(total), sums_of_pairs(context, builder, values, pairs)), total)

    def total(self) -> Any:
        """Return whole numbers."""
        builder = self._builder
        total, *high = (builder.load(one) for one in self._parts)
        for one in high:
            total = builder.add(total, builder.shl(one, spread(builder, I32(_LOW_BITS), self._n)))
        return builder.ashr(total, spread(builder, self._bits, self._n))


def _words(builder: Any, weights: Any, at: Any, pair: Any, parts: int) -> list[Any]:
    word = builder.add(at, builder.mul(pair, I64(parts)))
    return [weights.element(builder.add(word, I64(k))) for k in range(parts)]


_whole = types.int64


def _make_sum_columns(channels: int, parts: int) -> Any:
    @emitted(types.none, None, _whole, None, _whole, _whole, types.int32, None, _whole, _whole)
    def sum_columns(builder, columns, first, weights, at, pairs, bits, out, to, step):
        """One pixel of 16 rows, of pairs from number ``first`` on; ``step`` bytes lead from a channel to the next."""
        sums = [_Sums(builder, _ROWS, parts, bits) for _ in range(channels)]
        with cgutils.for_range(builder, pairs) as each:
            words = _words(builder, weights, at, each.index, parts)
            pair = builder.mul(builder.add(first, each.index), I64(_PAIR * channels))
            for c, one in enumerate(sums):
                value = load(builder, columns.at(builder.add(pair, I64(_PAIR * c)), _PAIR), vector(I8, _PAIR))
                one.add(columns.context, builder.zext(value, vector(I16, _PAIR)), words)
        results = [one.total() for one in sums]
        if channels == 1:
            store(builder, saturated(builder, results[0]), out.at(to, _ROWS))
            return
        # All channels at once: x86's instructions that narrow one vector take longer.
        lanes = bytes_of(columns.context, builder, [*results, results[-1]])
        for c in range(channels):
            value = shuffle(builder, lanes, lanes, [_ROWS * k + 4 * c + i for k in range(4) for i in range(4)])
            store(builder, value, out.at(builder.add(to, builder.mul(step, I64(c))), _ROWS))

    return sum_columns


_sum_gray_columns, _sum_color_columns = _make_sum_columns(1, 1), _make_sum_columns(3, 1)
_sum_gray_columns_in_parts, _sum_color_columns_in_parts = _make_sum_columns(1, 2), _make_sum_columns(3, 2)


def _make_sum_rows(n: int, parts: int) -> Any:
    @emitted(types.none, None, None, _whole, None, _whole, _whole, types.int32, None, _whole)
    def sum_rows(builder, source, starts, x, weights, at, pairs, bits, out, to):
        """``out[to:to + n]``: the weighted sum of the bytes at ``starts[t] + x`` of rows, an even number of them."""

        def row(number):
            return load(builder, source.at(builder.add(starts.element(number), x), n), vector(I8, n))

        quarters = [_Sums(builder, n // 4, parts, bits) for _ in range(4)]
        with cgutils.for_range(builder, pairs) as each:
            words, first = _words(builder, weights, at, each.index, parts), builder.mul(each.index, I64(2))
            halves = interleaved(builder, row(first), row(builder.add(first, I64(1))), _ROWS)
            widened = [one for half in halves for one in interleaved(builder, half, splat(I8, 0, n), _ROWS)]
            for value, one in zip(widened, quarters, strict=True):
                one.add(source.context, builder.bitcast(value, vector(I16, n // 2)), words)
        store(builder, bytes_of(source.context, builder, [one.total() for one in quarters]), out.at(to, n))

    return sum_rows


_sum_wide_rows, _sum_rows = _make_sum_rows(_WIDE, 1), _make_sum_rows(_ROWS, 1)
_sum_wide_rows_in_parts, _sum_rows_in_parts = _make_sum_rows(_WIDE, 2), _make_sum_rows(_ROWS, 2)


# -- passes ------------------------------------------------------------------------------------------------------------


@loop
def _resize_rows(source, channels, starts, rows, following, x_axis, x0, x1, scratch, form, out, to):
    """Pixels ``x0`` to ``x1`` of up to 16 rows that begin at ``starts``, to ``out`` at ``to[r]``.

    Reads up to 15 bytes after the last pixel that has a tap, and writes whole vectors. ``following``: bytes from a row
    to the one that is read next. ``form``: bytes from a pixel to the next, from a channel to the next, of a line; and
    whether the first pixel is the last of the line.
    """
    first, count, weights, row, parts, bits, pairs = x_axis
    columns, sums, begins = scratch
    across, plane, size, mirrored = form
    step = np.int64(plane * _ROWS)
    end = first[x1 - 1] + count[x1 - 1]
    read = (end - first[x0]) * channels
    wrapped = following - read if read <= _FETCHED else 0
    x = x0
    while x < x1:
        # As many pixels as stay in the first-level cache.
        left = first[x] // 2 * 2
        stop, right = x1, end
        if end - left > _TURNED:
            stop, right = x + 1, first[x] + count[x]
            while stop < x1 and first[stop] + count[stop] - left <= _TURNED:
                right = first[stop] + count[stop]
                stop += 1
        for r in range(_ROWS):
            begins[r] = starts[min(r, rows - 1)] + left * channels
        if channels == 3:
            for start in range(0, right - left, _ROWS):
                ahead = start * 3 + _AHEAD
                ahead += wrapped if left * 3 + ahead >= end * 3 else 0
                for r in range(_ROWS):
                    prefetch(source, begins[r] + ahead)
                for k in range(start, min(start + _ROWS, right - left), 4):
                    _turn_color(source, begins, k * 3, columns, k * 3 * _ROWS)
        else:
            for k in range(0, right - left, _ROWS):
                _turn_gray(source, begins, k, columns, k * _ROWS)
        for k in range(x, stop):
            pair, at = (first[k] - left) // 2, k * row
            place = (x1 - 1 - k if mirrored else k - x0) * across * _ROWS
            if channels == 3 and parts == 1:
                _sum_color_columns(columns, pair, weights, at, pairs, bits, sums, place, step)
            elif channels == 3:
                _sum_color_columns_in_parts(columns, pair, weights, at, pairs, bits, sums, place, step)
            elif parts == 1:
                _sum_gray_columns(columns, pair, weights, at, pairs, bits, sums, place, step)
            else:
                _sum_gray_columns_in_parts(columns, pair, weights, at, pairs, bits, sums, place, step)
        x = stop
    for k in range(0, size, _PAIR):
        _turn_rows(sums, k * _ROWS, out, to, k)


@loop
def _resize_column(source, starts, x, size, y_axis, y, out, to):
    """Bytes ``x`` to ``x + size`` of row ``y``, of rows that begin at ``starts``; reads and writes up to 15 more."""
    _, count, weights, row, parts, bits, _ = y_axis
    at, pairs = y * row, (count[y] + 1) // 2
    starts[count[y]] = starts[count[y] - 1]  # of weight 0, where a pair lacks its second row
    whole = size // _WIDE * _WIDE
    if parts == 1:
        for k in range(0, whole, _WIDE):
            _sum_wide_rows(source, starts, x + k, weights, at, pairs, bits, out, to + k)
        for k in range(whole, size, _ROWS):
            _sum_rows(source, starts, x + k, weights, at, pairs, bits, out, to + k)
        return
    for k in range(0, whole, _WIDE):
        _sum_wide_rows_in_parts(source, starts, x + k, weights, at, pairs, bits, out, to + k)
    for k in range(whole, size, _ROWS):
        _sum_rows_in_parts(source, starts, x + k, weights, at, pairs, bits, out, to + k)


@loop
def _along_rows_first(
    source, corner, stride, channels, part, x_axis, y_axis, scratch, to, starts, ring, depth, form, sink
):
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
                _resize_rows(source, channels, starts, turned, _ROWS * stride, x_axis, x0, x1, scratch, form, ring, to)
                done += turned
            at = first[y] % depth
            for t in range(count[y]):
                starts[t] = (at + t if at + t < depth else at + t - depth) * line
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
        _resize_rows(ring, channels, starts, rows, 0, x_axis, x0, x1, scratch, form, lines, to)
        call_store_bytes(
            address, (lines, out_line, form[1], top - y0, rows, x1 - x0, y1 - y0, channels, out, one, work, streamed)
        )  # fmt: skip
        top += rows


@loop
def _rows_stored(one, top, left, most):
    """Rows of the result that are stored together: of one row of patches."""
    return min(left, most, one.height - top % one.height)


@loop
def _take_axis(memory, axis, at, size, out, kind, rule, most, low, high, even):
    """The taps of an axis, laid in the work space from byte ``at`` on; and where its rest begins.

    Those of the image before stay where it had the same: the start of the work space says what lies there.

    Of each position the first pixel and the number of taps; words, in which each position has a ``row`` of pairs of
    weights, in one or two parts; their bits after the point, and the number of pairs that no position has more of.
    Only positions ``low`` to ``high`` have pairs, the first pixel of a pair even if ``even``.
    """
    first, count = ints_in(memory, at, out), ints_in(memory, at + 4 * out, out)
    at += 8 * out
    row = 2 * (most // 2 + 1)
    pairs = ints_in(memory, at, out * row)
    at += 4 * out * row
    real, total = doubles_in(memory, at, out * most), doubles_in(memory, at + 8 * out * most, out)
    at += 8 * out * (most + 1)
    weights = ints_in(memory, at, out * (most + 3))  # a row of zeros precedes those of the taps, and two follow
    at += _whole_longs(4 * out * (most + 3))
    parts = 1 if rule == TORCH else 2
    kept = longs_in(memory, axis * 8 * _KEPT_WORDS, _KEPT_WORDS)
    wanted = at, size, out, kind, rule, low, high
    changed = 0
    for k, word in enumerate(wanted):
        changed += kept[k] != word
        kept[k] = word
    if changed == 0:
        return (first, count, pairs, row, parts, kept[len(wanted)], kept[len(wanted) + 1]), at
    bits = lay_weights(size, RADIUS[kind], kind, rule, first, count, real, total)
    unit = np.float64(1 << bits)
    for x in range(out):
        weights[x] = weights[(most + 1) * out + x] = weights[(most + 2) * out + x] = 0
    for k in range(out * most):
        weights[out + k] = rounded(real[k] * unit)
    longest = np.int64(0)
    for x in range(low, high):
        longest = max(longest, (first[x] % 2 + count[x] + 1) // 2)
    for pair in range(most // 2 + 1):
        for x in range(low, high):
            place, start = up(x * row + pair * parts), up(2 * pair * out + x)
            before, one, after = weights[start], weights[start + up(out)], weights[start + up(2 * out)]
            shifted = even and first[up(x)] % 2 != 0  # by a weight of 0
            left, right = before if shifted else one, one if shifted else after
            if parts == 1:
                pairs[place] = (left & 0xFFFF) | right << 16
            else:
                pairs[place] = (left & _LOW_MASK) | (right & _LOW_MASK) << 16
                pairs[place + up(1)] = (left >> _LOW_BITS & 0xFFFF) | (right >> _LOW_BITS) << 16
    kept[len(wanted)], kept[len(wanted) + 1] = bits, longest
    return (first, count, pairs, row, parts, bits, longest), at


def _resize_exactly(source_, elements, stride, channels, one, memory_, size, out, stored, address, streamed):
    """Resize a window of bytes, and store the part of the result that is wanted.

    ``source`` has the pixels that have taps, and what lies between; up to 15 elements after the last of them are read.
    ``memory`` is work space, see :func:`exact_space`; ``address`` is that of the loop that stores to ``out``.
    """
    source, memory = array_at(source_, elements), array_at(memory_, size)
    x0, y0, x1, y1 = one.part[0], one.part[1], one.part[2], one.part[3]
    if x0 >= x1 or y0 >= y1:
        return
    width, height = one.window[2] - one.window[0], one.window[3] - one.window[1]
    corner = one.window[1] * stride + one.window[0] * channels  # negative where what is left out is never read
    most_x = most_taps(width, one.width, RADIUS[one.filter])
    most_y = most_taps(height, one.height, RADIUS[one.filter])
    memory = memory[-address_of(memory) % _WIDE :]
    x_axis, at = _take_axis(
        memory, 0, KEPT_BYTES + stored.work, width, one.width, one.filter, one.rule, most_x, x0, x1, True
    )
    y_axis, at = _take_axis(memory, 1, at, height, one.height, one.filter, one.rule, most_y, y0, y1, False)
    to, begins = longs_in(memory, at, _ROWS), longs_in(memory, at + 8 * _ROWS, _ROWS)
    at += 16 * _ROWS
    starts = longs_in(memory, at, max(_ROWS, most_y + 1))
    at += 8 * max(_ROWS, most_y + 1)
    at += -at % _WIDE  # vectors that cross no cache lines are loaded faster
    columns = memory[at : at + _ROWS * padded(_turned(width, most_x) * channels)]
    at += columns.size
    columns_out = x1 - x0
    across, plane, line = line_of(columns_out, channels, stored.column)
    sums = memory[at : at + _ROWS * padded(line)]
    at += sums.size
    scratch = columns, sums, begins
    part = x0, y0, x1, y1
    form = across, plane, line, stored.mirrored != 0
    band = band_of(stored.height, padded(line))
    tall = is_tall(one.rule, width, height, one.width, one.height)
    lines = memory[at : at + (_ROWS + 1 if tall else band) * padded(line)]
    at += lines.size
    sink = lines, band, stored, address, out, memory[KEPT_BYTES:], streamed
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
    BYTES, types.int64, types.int64, types.int64, from_dtype(EXACT), BYTES, types.int64, BYTES, from_dtype(STORED),
    types.int64, types.int64,
)  # fmt: skip
RESIZE_FUNCTION = NativeFunction("resize_exactly", _resize_exactly, _RESIZE)
call_resize = caller(_RESIZE)


# -- memory ------------------------------------------------------------------------------------------------------------


def _axis_space_(out: Any, most: Any) -> Any:
    """Bytes of the taps of an axis: their pixels, pairs of weights, weights in float64, sums of these, and rounded."""
    return 8 * out * (1 + most // 2 + 1 + most + 1) + _whole_longs_(4 * out * (most + 3))


def _whole_longs_(size: Any) -> Any:
    return (size + 7) // 8 * 8


def _padded(size: Any) -> Any:
    """Bytes from one row of a work space to the next: whole vectors of all kinds fit."""
    return (size + _PAIR + _WIDE - 1) // _WIDE * _WIDE


def _line_of(width: Any, channels: Any, column: Any) -> tuple[Any, Any, Any]:
    """Bytes from a pixel of a row to the next, from a channel to the next, and of a row, whose channels are stored so.

    Where ``column`` elements lead from a pixel of the result to the next: interleaved as there, or one after the other.
    """
    whole = (width + _ROWS - 1) // _ROWS * _ROWS
    if column == 1:
        return 1, whole, whole * channels
    return channels, 1, width * channels


def _turned_(width: Any, most: Any) -> Any:
    """Pixels that are turned at a time at most, and as many more as have taps of weight 0."""
    return np.minimum(width, np.maximum(_TURNED, most)) + most + 4


_whole_longs, padded, line_of, _turned = loop(_whole_longs_), loop(_padded), loop(_line_of), loop(_turned_)


def exact_space(images: Any, stored: Any, channels: int) -> Any:
    """Bytes of work space, (N,), of (N,) EXACT and STORED."""
    x0, y0, x1, y1 = images["window"].T
    width, height, reach = x1 - x0, y1 - y0, RADIUS[images["filter"]]
    most_x, most_y = exact.most_taps(width, images["width"], reach), exact.most_taps(height, images["height"], reach)
    columns = images["part"][:, 2] - images["part"][:, 0]
    # The longer of the two kinds of lines.
    wide = _padded((columns + _ROWS - 1) // _ROWS * _ROWS * channels)
    source, turned = _padded(width * channels), _ROWS * _padded(_turned_(width, most_x) * channels)
    tall = exact.is_tall(images["rule"], width, height, images["width"], images["height"])
    lines = np.where(tall, _ROWS + 1, most_rows(stored))
    ring = np.where(tall, _ROWS * source + _ROWS, (most_y + _ROWS + 1) * wide)
    axes = _axis_space_(images["width"], most_x) + _axis_space_(images["height"], most_y)
    rows = 16 * _ROWS + 8 * np.maximum(_ROWS, most_y + 1)
    return KEPT_BYTES + stored["work"] + axes + rows + turned + (_ROWS + lines) * wide + ring + 2 * _WIDE
