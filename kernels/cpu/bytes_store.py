"""Stores of bytes: rows of an exact resize, normalized, cast and laid out as the result, without float planes between.

Planes and interleaved pixels are patches as large as the image. Short rows of a patch are joined first, so that the
loops that cast have long runs of values.
"""

from typing import Any, Final

import numpy as np

from .. import color
from ..cast import CONVERSIONS
from ..compiled import NativeFunction
from ..lang import from_dtype, types
from ..layout import RESULTS, SCALES, UINT8
from ..ops import LEVELS
from ..scalar import f32, loop
from .intrinsics import BYTES, address_of, array_at, as_elements, bytes_at, caller, copy, floats_at, move_16
from .records import STORED
from .store import POINTERS, make_copy, patch_number

_SHORT: Final = 192  # values: rows of a patch that are shorter are joined
_JOINED: Final = 32  # rows of a patch that are joined at most
_KEPT: Final = 12288  # bytes of rows that are stored at a time of others: they stay in the first-level cache
_VECTOR: Final = 16  # values; loops over whole vectors have no remainder
_SPACE: Final = 17  # bytes for a value of a run: its mean, two of its deviation, itself, and an element of any kind
_TABLE: Final = 4 * 3 * LEVELS  # bytes of the results of all levels of the channels
_ALIGNED: Final = 64  # values of a run: a multiple, so that elements are aligned
_UNIT: Final = SCALES["uint8"]


def _make_store(kind: int) -> Any:
    convert = CONVERSIONS[kind]
    copy_run = make_copy(kind)
    is_bytes = kind == UINT8

    @loop
    def lay_normal(one, channels, normal, table):
        """Means of the channels in turn, inverses of the deviations and what these lack.

        Where divisions by the deviations give another result for a byte, the first inverse is 0, and the table has the
        results of all bytes of each channel.
        """
        means, inverses, rests = normal
        same = True
        for c in range(channels):
            mean, inverse, rest = f32(0.0), _UNIT, f32(0.0)
            if one.divisor != f32(0.0):
                mean = one.mean[c]
                inverse, rest = color.inverse_of(one.std[c])
                for byte in range(LEVELS):
                    quotient = color.normalize_byte(f32(byte), mean, one.std[c], one.divisor)
                    product = color.scale_byte(f32(byte), mean, inverse, rest, one.divisor)
                    same &= f32(quotient).view(np.uint32) == f32(product).view(np.uint32)
            for k in range(c, channels if one.column == 1 else means.size, channels):
                means[k], inverses[k], rests[k] = mean, inverse, rest
        if same:
            return
        inverses[0] = f32(0.0)
        for c in range(channels):
            for byte in range(LEVELS):
                quotient = color.normalize_byte(f32(byte), one.mean[c], one.std[c], one.divisor)
                table[c * LEVELS + byte] = convert(quotient)

    @loop
    def cast_plane(values, mean, inverse, rest, divisor, out):
        for k in range(out.size):
            out[k] = convert(color.scale_byte(f32(values[k]), mean, inverse, rest, divisor))

    @loop
    def cast_pixels(values, means, inverses, rests, divisor, out):
        for k in range(out.size):
            out[k] = convert(color.scale_byte(f32(values[k]), means[k], inverses[k], rests[k], divisor))

    @loop
    def look_up(values, c, end, table, out):
        """The results of channels ``c`` to ``end`` in turn."""
        here = c
        for k in range(out.size):
            out[k] = table[here * LEVELS + values[k]]
            here = here + 1 if here + 1 < end else c

    @loop
    def cast(values, one, c, normal, table, out):
        """Cast values of channel ``c``, or of all."""
        means, inverses, rests = normal
        if is_bytes and one.divisor == f32(0.0):
            copy(values, out)
        elif inverses[0] == f32(0.0):
            look_up(values, c, c + one.column, table, out)
        elif one.column == 1:
            cast_plane(values, means[c], inverses[c], rests[c], one.divisor, out)
        else:
            cast_pixels(values, means, inverses, rests, one.divisor, out)

    @loop
    def put(values, line, rows, n, one, c, normal, table, room, out, place, streamed, loose):
        """Cast rows of ``n`` values, ``line`` bytes from one to the next, and store them as often as they are repeated.

        If ``loose``, up to 15 elements more are overwritten.
        """
        whole = (n + _VECTOR - 1) // _VECTOR * _VECTOR
        directly = (whole == n or loose) and not streamed
        for r in range(rows):
            to = out[place : place + whole] if directly else room[:whole]
            cast(values[r * line :], one, c, normal, table, to)
            for k in range(1 if directly else 0, one.repeats):
                at = place + k * one.repeat
                copy_run(to[:n], out[at : at + n], streamed)
            place += one.row

    def store_bytes(lines_, line, plane, top, rows, width, height, channels, out_, one, work_, streamed):
        """Store rows of the result from row ``top`` on, which lie in one row of patches.

        ``line`` bytes lead from one to the next; ``plane`` from a channel to the next, or they are interleaved, as in
        the result.
        """
        each, merge = one.column, one.merge  # values of a pixel that lie side by side; patches that do
        lines, out = array_at(lines_, rows * line), array_at(out_, one.elements)
        most = (one.work - _TABLE) // _SPACE
        work = address_of(array_at(work_, 1))
        normal = floats_at(work, most), floats_at(work + 4 * most, most), floats_at(work + 8 * most, most)
        joined, room = bytes_at(work + 12 * most, most), array_at(as_elements(out_, work + 13 * most), most)
        table = array_at(as_elements(out_, work + _SPACE * most), channels * LEVELS)
        if top == 0:
            lay_normal(one, channels, normal, table)
        across = (width + one.width - 1) // one.width
        begin, inner = top // one.height, top % one.height
        to = patch_number(begin, 0, across, merge) * one.size + inner * one.row
        # Whole patches are put in the room, those that are merged side by side, and from there to the result.
        patches = one.row < _SHORT and rows * one.row * one.repeats * (channels // each) == one.size
        for k in range(across):
            first = k * one.width
            n = each * min(one.width, width - first)
            place = to + patch_number(0, k, across, merge) * one.size
            for c in range(channels // each):
                at = c * plane + each * first
                if n == one.row and n < _SHORT:
                    for r in range(rows):
                        for x in range(0, n, _VECTOR):  # the next row overwrites what is too much
                            move_16(lines, r * line + at + x, joined, r * n + x)
                    if patches:
                        start = k % merge * one.size + c * one.plane
                        put(joined, 0, 1, rows * n, one, c, normal, table, room, room, start, False, True)
                    else:
                        start = place + c * one.plane
                        put(joined, 0, 1, rows * n, one, c, normal, table, room, out, start, streamed, False)
                else:
                    start = place + c * one.plane
                    put(lines[at:], line, rows, n, one, c, normal, table, room, out, start, streamed, False)
            if patches and k % merge == merge - 1:
                start = place - (merge - 1) * one.size
                copy_run(room[: merge * one.size], out[start : start + merge * one.size], streamed)

    return store_bytes


def _types(stored: Any) -> Any:
    whole = types.int64
    return types.void(BYTES, *(whole,) * 7, stored, from_dtype(STORED), BYTES, whole)


#: Functions that store bytes, by the kind of result.
STORE_BYTES_FUNCTIONS = {
    kind: NativeFunction(f"store_bytes_{name}", _make_store(kind), _types(POINTERS[kind]))
    for kind, name in RESULTS.items()
}
call_store_bytes = caller(_types(BYTES))  # or any other pointer


# -- memory ------------------------------------------------------------------------------------------------------------


def _band_of(height: Any, line: Any) -> Any:
    """Rows of ``line`` bytes that are stored together at most, of patches of this height."""
    # Few rows of each plane in turn are slower to write past the caches.
    return height if height <= _JOINED else max(min(_KEPT // line, _JOINED), 4)


band_of = loop(_band_of)


def most_rows(stored: Any) -> Any:
    """Rows that are stored together at most, (N,), of (N,) STORED."""
    return np.minimum(stored["height"], _JOINED)


def store_space(stored: Any, width: Any) -> Any:
    """Bytes of work space, (N,), to store results (N,) pixels wide as (N,) STORED."""
    n = stored["column"] * np.minimum(width, stored["width"])
    values = n * np.where(n < _SHORT, most_rows(stored), 1)  # of a run
    whole = (stored["row"] < _SHORT) & (stored["height"] <= _JOINED)  # patches
    values = np.where(whole, np.maximum(values, stored["merge"] * stored["size"]), values)
    return _SPACE * (-(-(values + _VECTOR) // _ALIGNED) * _ALIGNED) + _TABLE
