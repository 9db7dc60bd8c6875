"""Stores of bytes: rows of an exact resize, normalized, cast and laid out as the result, without float planes between.

Planes and interleaved pixels are patches as large as the image. Short rows of a patch are joined first, so that the
loops that cast have long runs of values.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .. import color
from ..compiled import NativeFunction
from ..lang import types
from ..layout import SCALES, UINT8
from ..scalar import f32, loop
from .intrinsics import (
    BYTES,
    address_of,
    array_at,
    as_elements,
    bytes_at,
    caller,
    copy,
    floats_at,
    move_run,
    record_at,
    record_pointer,
)
from .records import STORED
from .store import KINDS, make_copy

_SHORT: Final = 192  # values: rows of a patch that are shorter are joined
_JOINED: Final = 32  # rows of a patch that are joined at most
_FEW: Final = 4  # rows that are stored at a time of others: they stay in the first-level cache
_VECTOR: Final = 16  # values; loops over whole vectors have no remainder
_SPACE: Final = 13  # bytes for a value of a run: its mean, its deviation, itself, and an element of any kind
_ALIGNED: Final = 64  # values of a run: a multiple, so that elements are aligned
_UNIT: Final = SCALES["uint8"]


def _make_store(kind: int) -> Any:
    _, convert, _ = KINDS[kind]
    copy_run = make_copy(kind)

    @loop
    def cast_values(values, out):
        for k in range(out.size):
            out[k] = convert(_UNIT * f32(values[k]))

    cast_bytes = copy if kind == UINT8 else cast_values

    @loop
    def cast_plane(values, mean, std, divisor, out):
        for k in range(out.size):
            out[k] = convert(color.normalize_byte(f32(values[k]), mean, std, divisor))

    @loop
    def cast_pixels(values, means, stds, divisor, out):
        for k in range(out.size):
            out[k] = convert(color.normalize_byte(f32(values[k]), means[k], stds[k], divisor))

    @loop
    def cast(values, one, c, means, stds, out):
        """Cast values of channel ``c``, or of all."""
        if one.divisor == f32(0.0):
            cast_bytes(values, out)
        elif one.column == 1:
            cast_plane(values, one.mean[c], one.std[c], one.divisor, out)
        else:
            cast_pixels(values, means, stds, one.divisor, out)

    @loop
    def put(values, n, one, c, means, stds, room, out, place, streamed):
        """Cast ``n`` values, and store them as often as they are repeated."""
        whole = (n + _VECTOR - 1) // _VECTOR * _VECTOR
        directly = whole == n and not streamed
        to = out[place : place + n] if directly else room[:whole]
        cast(values, one, c, means, stds, to)
        for k in range(1 if directly else 0, one.repeats):
            at = place + k * one.repeat
            copy_run(to[:n], out[at : at + n], streamed)

    @loop
    def put_in_room(values, n, one, c, means, stds, room, place):
        """As :func:`put`; up to 15 elements more are overwritten."""
        whole = (n + _VECTOR - 1) // _VECTOR * _VECTOR
        to = room[place : place + whole]
        cast(values, one, c, means, stds, to)
        for k in range(1, one.repeats):
            at = place + k * one.repeat
            copy(to, room[at : at + whole])

    def store_bytes(lines_, line, plane, top, rows, width, height, channels, out_, one_, work_, streamed):
        """Store rows of the result from row ``top`` on, which lie in one row of patches.

        ``line`` bytes lead from one to the next; ``plane`` from a channel to the next, or they are interleaved, as in
        the result.
        """
        one = record_at(one_)
        each, merge = one.column, one.merge  # values of a pixel that lie side by side; patches that do
        lines, out = array_at(lines_, rows * line), array_at(out_, one.elements)
        most = one.work // _SPACE
        work = address_of(array_at(work_, 1))
        means, stds = floats_at(work, most), floats_at(work + 4 * most, most)
        joined, room = bytes_at(work + 8 * most, most), array_at(as_elements(out_, work + 9 * most), most)
        if top == 0 and each != 1:
            for k in range(most):
                means[k], stds[k] = one.mean[k % each], one.std[k % each]
        across = (width + one.width - 1) // one.width
        begin, inner = top // one.height, top % one.height
        to = (begin // merge * across * merge + begin % merge * merge) * one.size + inner * one.row
        # Whole patches are put in the room, those that are merged side by side, and from there to the result.
        patches = one.row < _SHORT and rows * one.row * one.repeats * (channels // each) == one.size
        for k in range(across):
            first = k * one.width
            n = each * min(one.width, width - first)
            place = to + (k // merge * merge * merge + k % merge) * one.size
            for c in range(channels // each):
                at = c * plane + each * first
                if n == one.row and n < _SHORT:
                    for r in range(rows):
                        for x in range(0, n, _VECTOR):  # the next row overwrites what is too much
                            move_run(lines, r * line + at + x, joined, r * n + x, _VECTOR)
                    if patches:
                        start = k % merge * one.size + c * one.plane
                        put_in_room(joined, rows * n, one, c, means, stds, room, start)
                    else:
                        put(joined, rows * n, one, c, means, stds, room, out, place + c * one.plane, streamed)
                else:
                    for r in range(rows):
                        start = place + c * one.plane + r * one.row
                        put(lines[r * line + at :], n, one, c, means, stds, room, out, start, streamed)
            if patches and k % merge == merge - 1:
                start = place - (merge - 1) * one.size
                copy_run(room[: merge * one.size], out[start : start + merge * one.size], streamed)

    return store_bytes


def _types(stored: Any) -> Any:
    whole = types.int64
    return types.void(BYTES, *(whole,) * 7, stored, record_pointer(STORED), BYTES, whole)


#: Functions that store bytes, by the kind of result.
STORE_BYTES_FUNCTIONS = {
    kind: NativeFunction(f"store_bytes_{name}", _make_store(kind), _types(types.CPointer(stored)))
    for kind, (name, _, stored) in KINDS.items()
}
call_store_bytes = caller(_types(BYTES))  # or any other pointer


# -- memory ------------------------------------------------------------------------------------------------------------


def _band_of(height: Any) -> Any:
    """Rows that are stored together at most, of patches of this height."""
    return height if height <= _JOINED else _FEW


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
    return _SPACE * (-(-(values + _VECTOR) // _ALIGNED) * _ALIGNED)
