"""Stores of the CPU runtime: rows of float32 planes cast to the dtype and layout of the result.

All take the same arguments: planes, the number of pixels, the result, the first pixel, the pixels of a plane, channels,
whether to write past the caches, the pixels of a row, and the addresses of a PATCHES and of work space for three rows.
"""

from typing import Any

from ..cast import CONVERSIONS
from ..compiled import NativeFunction
from ..lang import from_dtype, types
from ..layout import FLOAT32, RESULTS, WRITTEN
from ..scalar import i64, loop, make_patch_number
from .intrinsics import (
    BYTES,
    FLOATS,
    LINE,
    address_of,
    array_at,
    as_elements,
    caller,
    copy,
    move_14,
    move_16,
    records_at,
    stream_line,
)
from .records import PATCHES

#: By the kind of result: a pointer to the stored values.
POINTERS = {kind: types.CPointer(from_dtype(stored)) for kind, stored in WRITTEN.items()}


@loop
def _stream(values, out):
    """Copy to an array past the caches, for results that will not be in the caches when they are read.

    Whole cache lines are written without being read first.
    """
    # Up to the first multiple of 64 bytes, then whole lines, then the rest; ``out`` is aligned to 4 bytes.
    lead = min(out.size, -(address_of(out) // 4) % LINE)
    whole = out.size - (out.size - lead) % LINE
    copy(values, out[:lead])
    for k in range(lead, whole, LINE):
        stream_line(values, out, k)
    copy(values[whole:], out[whole:])


def make_copy(kind: int) -> Any:
    """Return a loop ``(values, out, streamed)`` that copies elements of a kind; only float32 can be streamed."""

    @loop
    def copy_floats(values, out, streamed):
        if streamed and address_of(out) % 4 == 0:  # a user's ``out=`` may begin at any byte
            _stream(values, out)
        else:
            copy(values, out)

    @loop
    def copy_others(values, out, streamed):
        copy(values, out)

    return copy_floats if kind == FLOAT32 else copy_others


def _make_plane(kind: int) -> Any:
    convert = CONVERSIONS[kind]

    @loop
    def store_plane(row, out, streamed):
        for x in range(row.size):
            out[x] = convert(row[x])

    return make_copy(kind) if kind == FLOAT32 else store_plane


_patches_at = records_at(PATCHES)
patch_number = make_patch_number(i64)


def _make_patches(kind: int) -> Any:
    convert = CONVERSIONS[kind]

    @loop
    def cast_row(row, out):
        for x in range(row.size):
            out[x] = convert(row[x])

    @loop
    def as_they_are(row, room):
        return row

    @loop
    def as_stored(row, room):
        """Cast a whole row, in vectors, before its values are spread over patches."""
        cast_row(row, room)
        return room

    stored = as_they_are if kind == FLOAT32 else as_stored

    @loop
    def store_plane(row, across, side, merge, out, to, one):
        """Copy the row of one channel to the patches that it crosses."""
        for k in range(across):
            at = k * side
            count = min(side, row.size - at)
            place = to + patch_number(0, k, across, merge) * one.size
            for _ in range(one.repeats):
                if count == 14:
                    move_14(row, at, out, place)
                elif count == 16:
                    move_16(row, at, out, place)
                else:
                    copy(row[at : at + count], out[place : place + count])
                place += one.repeat

    @loop
    def store_pixels(r, g, b, across, side, merge, channels, out, to, one):
        """Copy the row of all channels to the patches that it crosses, channels interleaved."""
        for k in range(across):
            at = k * side
            place = to + patch_number(0, k, across, merge) * one.size
            for x in range(at, min(at + side, r.size)):
                out[place] = r[x]
                if channels == 3:
                    out[place + 1] = g[x]
                    out[place + 2] = b[x]
                place += one.column

    def store_patches(r_, g_, b_, n, out_, at, plane, channels, streamed, width, patches, work):
        """Store whole rows of ``width`` pixels."""
        one = _patches_at(patches, 1)[0]
        side, merge = one.width, one.merge
        across = (width + side - 1) // side
        down = (plane // width + one.height - 1) // one.height
        out = array_at(out_, down * across * one.size)
        room = array_at(as_elements(out_, work), 3 * width)
        for first in range(0, n, width):
            y = (at + first) // width
            top, inner = y // one.height, y % one.height
            # The row's place in the first patch that it crosses.
            to = patch_number(top, 0, across, merge) * one.size + inner * one.row
            r = stored(array_at(r_, n)[first : first + width], room[:width])
            if channels == 3:
                g = stored(array_at(g_, n)[first : first + width], room[width : 2 * width])
                b = stored(array_at(b_, n)[first : first + width], room[2 * width :])
            else:
                g, b = r, r
            if one.column != 1:
                store_pixels(r, g, b, across, side, merge, channels, out, to, one)
                continue
            store_plane(r, across, side, merge, out, to, one)
            if channels == 3:
                store_plane(g, across, side, merge, out, to + one.plane, one)
                store_plane(b, across, side, merge, out, to + 2 * one.plane, one)

    return store_patches


def _make_store(kind: int, form: str) -> Any:
    if form == "patches":
        return _make_patches(kind)
    convert = CONVERSIONS[kind]
    store_plane = _make_plane(kind)

    def store_planar(r_, g_, b_, n, out_, at, plane, channels, streamed, width, patches, work):
        """Store ``n`` pixels from pixel ``at`` on, one plane for each channel; ``plane`` is the pixels of a plane."""
        r, g, b = array_at(r_, n), array_at(g_, n), array_at(b_, n)
        out = array_at(out_, plane * channels)
        store_plane(r, out[at : at + n], streamed)
        if channels == 3:
            store_plane(g, out[plane + at : plane + at + n], streamed)
            store_plane(b, out[2 * plane + at : 2 * plane + at + n], streamed)

    def store_pixels(r_, g_, b_, n, out_, at, plane, channels, streamed, width, patches, work):
        """Store ``n`` pixels from pixel ``at`` on, channels interleaved."""
        r, g, b = array_at(r_, n), array_at(g_, n), array_at(b_, n)
        out = array_at(out_, plane * channels)
        if channels == 1:
            store_plane(r, out[at : at + n], streamed)
            return
        pixels = out[3 * at : 3 * (at + n)]
        for x in range(n):
            pixels[3 * x] = convert(r[x])
            pixels[3 * x + 1] = convert(g[x])
            pixels[3 * x + 2] = convert(b[x])

    return store_planar if form == "planes" else store_pixels


def _types(stored: Any) -> Any:
    return types.void(FLOATS, FLOATS, FLOATS, types.int64, stored, *(types.int64,) * 7)


#: Functions that store, by the kind of result and how pixels lie in it.
STORE_FUNCTIONS = {
    (kind, form): NativeFunction(f"store_{name}_{form}", _make_store(kind, form), _types(POINTERS[kind]))
    for kind, name in RESULTS.items()
    for form in ("planes", "pixels", "patches")
}
call_store = caller(_types(BYTES))  # or any other pointer
