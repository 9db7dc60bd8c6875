"""Pixels that a grid takes over as they are: a part of the source, mirrored or not, without taps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import NativeFunction
from ..lang import types
from ..scalar import f32, loop
from .intrinsics import BYTES, FLOATS, SOURCES, array_at, bytes_at, caller, copy, floats_of, record_at
from .sample import SAMPLE


@loop
def _split_pixels(source, at, step, scale, r, g, b):
    """A row of pixels by channel; ``step`` elements lead from one to the next."""
    if step == 3:  # known here, so that LLVM makes vectors of it
        for x in range(r.size):
            k = at + 3 * x
            r[x], g[x], b[x] = scale * f32(source[k]), scale * f32(source[k + 1]), scale * f32(source[k + 2])
    else:
        for x in range(r.size):
            k = at + step * x
            r[x], g[x], b[x] = scale * f32(source[k]), scale * f32(source[k + 1]), scale * f32(source[k + 2])


def _take_pixels(source_, size, channels, at, step, scale, r_, g_, b_, n):
    """A row of pixels from element ``at`` on, in steps of one pixel to the right or to the left."""
    source, r, g, b = array_at(source_, size), array_at(r_, n), array_at(g_, n), array_at(b_, n)
    if channels == 3:
        _split_pixels(source, at, step, scale, r, g, b)
        return
    for x in range(n):
        r[x] = scale * f32(source[at + step * x])
    copy(r, g)
    copy(r, b)


def _types(source: Any) -> Any:
    whole = types.int64
    return types.void(source, whole, whole, whole, whole, types.float32, FLOATS, FLOATS, FLOATS, whole)


TAKE_PIXELS_FUNCTIONS = {
    name: NativeFunction(f"take_pixels_{name}", _take_pixels, _types(kind)) for name, kind in SOURCES.items()
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
