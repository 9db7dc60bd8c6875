"""Smooth random displacement of pixels on a GPU, one thread per pixel."""

import numpy as np
from numba import cuda

from ..displacement import density, displacement, place, share
from ..ops import ELASTIC
from ..scalar import f32, i32, scalar, u32, up, wide, word
from .elastic_records import IN_MOVED, MOVED_WORDS

_HALF = f32(0.5)
_ONE = f32(1.0)


_RED, _REPEAT, _NEAREST = (IN_MOVED.parameters + ELASTIC.at(name) for name in ("red", "repeat", "nearest"))


def elastic(source, channels, scale, ints, floats, out):
    """Sample the source at displaced positions (kernel function); ``blockIdx.y`` is the image."""
    record = i32(MOVED_WORDS * i32(cuda.blockIdx.y))
    height, width = word(ints, record, IN_MOVED.height), word(ints, record, IN_MOVED.width)
    number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= height * width:
        return
    begin = wide(ints, record + IN_MOVED.source)
    at = wide(ints, record + IN_MOVED.output) + np.int64(number) * np.int64(channels)
    if word(ints, record, IN_MOVED.moved) == 0:
        begin += np.int64(number) * np.int64(channels)
        for c in range(channels):
            out[up(at + np.int64(c))] = f32(source[up(begin + np.int64(c))]) * scale
        return
    row = i32(u32(number) // u32(width))
    p = i32(record + IN_MOVED.parameters)
    x, y = f32(i32(number - row * width)) + _HALF, f32(row) + _HALF
    dx, dy = displacement(
        x, y, word(floats, p, 0), word(floats, p, 1), density(word(floats, p, 2)), word(floats, p, 3),
        word(floats, p, 4), word(floats, p, 5), word(floats, p, 6)
    )  # fmt: skip
    repeat, nearest = word(floats, record, _REPEAT), word(floats, record, _NEAREST)
    left, across = place(x + dx, width, repeat, nearest)
    top, below = place(y + dy, height, repeat, nearest)
    x0, x1 = share(left, _ONE - across, width), share(i32(left + 1), across, width)
    y0, y1 = share(top, _ONE - below, height), share(i32(top + 1), below, height)
    column, other = min(max(left, i32(0)), i32(width - 1)), min(i32(left + 1), i32(width - 1))
    above, under = min(max(top, i32(0)), i32(height - 1)), min(i32(top + 1), i32(height - 1))
    rest = _ONE - (x0 + x1) * (y0 + y1)
    for c in range(channels):
        one = _value(source, begin, above, column, width, channels, c) * x0
        one += _value(source, begin, above, other, width, channels, c) * x1
        two = _value(source, begin, under, column, width, channels, c) * x0
        two += _value(source, begin, under, other, width, channels, c) * x1
        out[up(at + np.int64(c))] = (y0 * one + y1 * two) * scale + rest * word(floats, record, i32(_RED + c))


@scalar
def _value(source, begin, row, column, width, channels, c):
    pixel = np.int64(i32(i32(row * width) + column))
    return f32(source[up(begin + pixel * np.int64(channels) + np.int64(c))])
