"""Stores of the CPU runtime: rows of float32 planes cast to the dtype and layout of the result."""

from __future__ import annotations

from typing import Any

from .. import cast, color
from ..compiled import NativeFunction
from ..lang import types
from ..layout import BFLOAT16, FLOAT16, FLOAT32, UINT8
from ..scalar import loop, scalar
from .intrinsics import BYTES, FLOATS, LINE, address_of, array_at, caller, copy, stream_line


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


def _make_store(kind: int, planar: bool) -> Any:
    _, convert, _ = _KINDS[kind]
    store_plane = _make_plane(kind)

    def store_planar(r_, g_, b_, n, out_, at, plane, channels, streamed):
        """Store ``n`` pixels from pixel ``at`` on, one plane for each channel; ``plane`` is the pixels of a plane."""
        r, g, b = array_at(r_, n), array_at(g_, n), array_at(b_, n)
        out = array_at(out_, plane * channels)
        store_plane(r, out[at : at + n], streamed)
        if channels == 3:
            store_plane(g, out[plane + at : plane + at + n], streamed)
            store_plane(b, out[2 * plane + at : 2 * plane + at + n], streamed)

    def store_pixels(r_, g_, b_, n, out_, at, plane, channels, streamed):
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

    return store_planar if planar else store_pixels


def _types(stored: Any) -> Any:
    return types.void(FLOATS, FLOATS, FLOATS, types.int64, stored, types.int64, types.int64, types.int64, types.int64)


#: Functions that store, by the kind of result and whether each channel is a plane.
STORE_FUNCTIONS = {
    (kind, planar): NativeFunction(
        f"store_{name}_{'planes' if planar else 'pixels'}", _make_store(kind, planar), _types(types.CPointer(stored))
    )
    for kind, (name, _, stored) in _KINDS.items()
    for planar in (False, True)
}
call_store = caller(_types(BYTES))  # or any other pointer
