"""Pixels that a grid takes over as they are: a part of the source, mirrored or not, without taps."""

from typing import Any, Final

import numpy as np

from ..compiled import NativeFunction
from ..lang import types
from ..scalar import f32, loop
from .intrinsics import (
    F32,
    FLOATS,
    I8,
    array_at,
    bytes_at,
    copy,
    emitted,
    floats_of,
    load,
    shuffle,
    spread,
    store,
    vector,
)
from .patches import SAMPLE, by_source

_PIXELS: Final = 16  # of color that are split at a time


# Written out as one shuffle for each channel, in place of LLVM's own vectors for this loop.
def _make_split(order: Any) -> Any:
    @emitted(types.none, None, types.int64, types.float32, None, None, None, types.int64)
    def split(builder, source, at, scale, r, g, b, x):
        """Store 16 color pixels from byte ``at`` on, in ``order``, times ``scale``, from element ``x`` of planes on."""
        pixels = load(builder, source.at(at, 3 * _PIXELS), vector(I8, 3 * _PIXELS))
        factor = spread(builder, scale, _PIXELS)
        for c, out in enumerate((r, g, b)):
            plane = shuffle(builder, pixels, pixels, [3 * k + c for k in order])
            values = builder.uitofp(plane, vector(F32, _PIXELS))
            store(builder, builder.fmul(values, factor), out.at(x, _PIXELS))

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


TAKE_PIXELS_FUNCTIONS, _call_take_pixels = by_source(
    "take_pixels", {"uint8": _make_take_pixels(_split_bytes), "float32": _make_take_pixels(_split_pixels)},
    *[types.int64] * 4, types.float32, FLOATS, FLOATS, FLOATS, types.int64,
)  # fmt: skip


def _whole(calls, source, record, y0, y1, scratch):
    """Rows ``y0`` to ``y1`` of a grid whose pixels are the source's, row for row and column for column."""
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
