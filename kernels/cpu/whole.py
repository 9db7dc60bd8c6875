"""Pixels that a grid takes over as they are: a part of the source, mirrored or not, without taps."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..compiled import NativeFunction
from ..lang import intrinsic, ir, types
from ..scalar import f32, loop
from .intrinsics import (
    BYTES,
    FLOATS,
    SOURCES,
    Place,
    array_at,
    bytes_at,
    caller,
    copy,
    floats_of,
    pointer,
    record_at,
    shuffle,
    spread,
)
from .sample import SAMPLE

_PIXELS: Final = 16  # of color that are split at a time


# Written out: LLVM's own vectors for this loop take six times as long.
def _make_split(order: Any) -> Any:
    @intrinsic
    def split(typing_context, source, at, scale, r, g, b, x):
        """Store 16 color pixels from byte ``at`` on, in ``order``, times ``scale``, from element ``x`` of planes on."""

        def generate(context, builder, signature, args):
            kinds = signature.args
            pixels = Place(context, builder, signature, args, 0).load(args[1], 3 * _PIXELS)
            floats = ir.VectorType(ir.FloatType(), _PIXELS)
            factor = spread(builder, args[2], _PIXELS)
            for c in range(3):
                plane = shuffle(builder, pixels, pixels, [3 * k + c for k in order])
                values = builder.uitofp(plane, floats)
                to = pointer(context, builder, kinds[3 + c], args[3 + c], args[6], floats)
                builder.store(builder.fmul(values, factor), to).align = 4
            return context.get_dummy_value()

        return types.none(source, types.int64, types.float32, r, g, b, types.int64), generate

    return split


_split_forwards, _split_backwards = _make_split(range(_PIXELS)), _make_split(range(_PIXELS - 1, -1, -1))


@loop
def _split_bytes(source, at, step, scale, r, g, b):
    """A row of color pixels by channel; the first is at ``at``, and the next 3 bytes after or before it."""
    whole = r.size // _PIXELS * _PIXELS
    for x in range(0, whole, _PIXELS):
        if step > 0:
            _split_forwards(source, at + 3 * x, scale, r, g, b, x)
        else:
            _split_backwards(source, at - 3 * (x + _PIXELS - 1), scale, r, g, b, x)
    _split_pixels(source, at + step * whole, step, scale, r[whole:], g[whole:], b[whole:])


@loop
def _split_pixels(source, at, step, scale, r, g, b):
    """A row of pixels by channel; ``step`` elements lead from one to the next."""
    for x in range(r.size):
        k = at + step * x
        r[x], g[x], b[x] = scale * f32(source[k]), scale * f32(source[k + 1]), scale * f32(source[k + 2])


def _make_take_pixels(split: Any) -> Any:
    def take_pixels(source_, size, channels, at, step, scale, r_, g_, b_, n):
        """A row of pixels from element ``at`` on, in steps of one pixel to the right or to the left."""
        source, r, g, b = array_at(source_, size), array_at(r_, n), array_at(g_, n), array_at(b_, n)
        if channels == 3:
            split(source, at, step, scale, r, g, b)
            return
        for x in range(n):
            r[x] = scale * f32(source[at + step * x])
        copy(r, g)
        copy(r, b)

    return take_pixels


_TAKE_PIXELS = {"uint8": _make_take_pixels(_split_bytes), "float32": _make_take_pixels(_split_pixels)}


def _types(source: Any) -> Any:
    whole = types.int64
    return types.void(source, whole, whole, whole, whole, types.float32, FLOATS, FLOATS, FLOATS, whole)


TAKE_PIXELS_FUNCTIONS = {
    name: NativeFunction(f"take_pixels_{name}", _TAKE_PIXELS[name], _types(kind)) for name, kind in SOURCES.items()
}
_call_take_pixels = caller(_types(BYTES))  # or any other pointer


def _whole(calls_, source_, record_, y0, y1, scratch_):
    """Rows ``y0`` to ``y1`` of a grid whose pixels are the source's, row for row and column for column."""
    calls, source, record, scratch = record_at(calls_), record_at(source_), record_at(record_), record_at(scratch_)
    values, channels = bytes_at(source.address, source.elements), source.channels  # bytes or any other elements
    planes = floats_of(scratch.planes)
    plane = planes.size // 3
    height, width, m = record.height, record.width, record.matrix
    # Centers of pixels lie at halves, which are cut off.
    first = np.int64(m[2] - m[0] * (f32(width - 1) * f32(0.5)))
    step = channels if m[0] > f32(0.0) else -channels
    for y in range(y0, y1):
        line = np.int64(m[4] * (f32(y) - f32(height - 1) * f32(0.5)) + m[5])
        at = (y - y0) * width
        _call_take_pixels(
            calls.take_pixels, (values, source.elements, channels, line * record.stride + first * channels, step,
            source.scale, planes[at : at + width], planes[plane + at : plane + at + width],
            planes[2 * plane + at : 2 * plane + at + width], width)
        )  # fmt: skip


WHOLE_FUNCTION = NativeFunction("whole", _whole, SAMPLE)
