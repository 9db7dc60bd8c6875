"""Stores of the CPU runtime: rows of float32 planes cast to the dtype and layout of the result.

All take the same arguments: planes, the number of pixels, the result, the first pixel, the pixels of a plane, channels,
whether to write past the caches, the pixels of a row, and the address of a PATCHES.
"""

from __future__ import annotations

from typing import Any

from .. import cast, color
from ..compiled import NativeFunction
from ..lang import types
from ..layout import BFLOAT16, FLOAT16, FLOAT32, UINT8
from ..scalar import loop, scalar
from .intrinsics import BYTES, FLOATS, LINE, address_of, array_at, caller, copy, records_at, stream_line
from .records import PATCHES


@scalar
def _as_float32(x):
    return x


# Kinds of result: name, function from a float32 to the stored value, and the type of that.
_KINDS = {
    FLOAT32: ("float32", _as_float32, types.float32),
    UINT8: ("uint8", color.store_byte, types.uint8),
    FLOAT16: ("float16", cast.float16_bits, types.uint16),
    BFLOAT16: ("bfloat16", cast.bfloat16_bits, types.uint16),
}
BYTES_OF = {FLOAT32: 4, UINT8: 1, FLOAT16: 2, BFLOAT16: 2}


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


def _make_plane(kind: int) -> Any:
    _, convert, _ = _KINDS[kind]

    @loop
    def store_plane(row, out, streamed):
        """Cast one channel of some rows to consecutive elements; only float32 can be streamed."""
        for x in range(row.size):
            out[x] = convert(row[x])

    @loop
    def store_floats(row, out, streamed):
        if streamed and address_of(out) % 4 == 0:  # a user's ``out=`` may begin at any byte
            _stream(row, out)
        else:
            copy(row, out)

    return store_floats if kind == FLOAT32 else store_plane


_patches_at = records_at(PATCHES)


def _make_patches(convert: Any) -> Any:
    @loop
    def store_run(row, at, n, out, to):
        """Cast ``n`` values to consecutive elements; for the usual patches a number that LLVM knows here."""
        if n == 14:
            for x in range(14):
                out[to + x] = convert(row[at + x])
        elif n == 16:
            for x in range(16):
                out[to + x] = convert(row[at + x])
        else:
            for x in range(n):
                out[to + x] = convert(row[at + x])

    @loop
    def store_plane(row, at, n, out, to, one):
        for k in range(one.repeats):
            store_run(row, at, n, out, to + k * one.repeat)

    def store_patches(r_, g_, b_, n, out_, at, plane, channels, streamed, width, patches):
        """Store whole rows of ``width`` pixels, each in the patches that it crosses."""
        one = _patches_at(patches, 1)[0]
        r, g, b = array_at(r_, n), array_at(g_, n), array_at(b_, n)
        across = (width + one.width - 1) // one.width
        down = (plane // width + one.height - 1) // one.height
        out = array_at(out_, down * across * one.size)
        merge = one.merge
        for first in range(0, n, width):
            y = (at + first) // width
            top, inner = y // one.height, y % one.height
            # The first patch of the row in its block, and of the block's row of blocks.
            row = (top // merge * across * merge + top % merge * merge) * one.size + inner * one.row
            for k in range(across):
                x = first + k * one.width
                count = min(one.width, first + width - x)
                to = row + (k // merge * merge * merge + k % merge) * one.size
                if one.column == 1:
                    store_plane(r, x, count, out, to, one)
                    if channels == 3:
                        store_plane(g, x, count, out, to + one.plane, one)
                        store_plane(b, x, count, out, to + 2 * one.plane, one)
                else:
                    for i in range(count):
                        place = to + i * one.column
                        out[place] = convert(r[x + i])
                        if channels == 3:
                            out[place + 1] = convert(g[x + i])
                            out[place + 2] = convert(b[x + i])

    return store_patches


def _make_store(kind: int, form: str) -> Any:
    _, convert, _ = _KINDS[kind]
    store_plane = _make_plane(kind)

    def store_planar(r_, g_, b_, n, out_, at, plane, channels, streamed, width, patches):
        """Store ``n`` pixels from pixel ``at`` on, one plane for each channel; ``plane`` is the pixels of a plane."""
        r, g, b = array_at(r_, n), array_at(g_, n), array_at(b_, n)
        out = array_at(out_, plane * channels)
        store_plane(r, out[at : at + n], streamed)
        if channels == 3:
            store_plane(g, out[plane + at : plane + at + n], streamed)
            store_plane(b, out[2 * plane + at : 2 * plane + at + n], streamed)

    def store_pixels(r_, g_, b_, n, out_, at, plane, channels, streamed, width, patches):
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

    return {"planes": store_planar, "pixels": store_pixels, "patches": _make_patches(convert)}[form]


def _types(stored: Any) -> Any:
    return types.void(FLOATS, FLOATS, FLOATS, types.int64, stored, *(types.int64,) * 6)


#: Functions that store, by the kind of result and how pixels lie in it.
STORE_FUNCTIONS = {
    (kind, form): NativeFunction(f"store_{name}_{form}", _make_store(kind, form), _types(types.CPointer(stored)))
    for kind, (name, _, stored) in _KINDS.items()
    for form in ("planes", "pixels", "patches")
}
call_store = caller(_types(BYTES))  # or any other pointer
