"""One pass of an exact resize on a GPU, one thread a pixel; see :mod:`gpuimg.kernels.exact`."""

import numpy as np
from numba import cuda

from ..scalar import i32, scalar, u32, up, wide, word
from .exact_records import IN_PASS, PASS_WORDS


@scalar
def _byte(total, bits):
    return np.uint8(min(max(i32(total >> bits), i32(0)), i32(255)))


def exact_pass(source, channels, words, first, out):
    """Sum bytes along one axis (kernel function); ``blockIdx.y`` is the image, whose record is ``first`` further on."""
    record = i32(PASS_WORDS * i32(i32(cuda.blockIdx.y) + first))
    height, width = word(words, record, IN_PASS.height), word(words, record, IN_PASS.width)
    number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= height * width:
        return
    y = i32(u32(number) // u32(width))
    x = i32(number - y * width)
    stride, down = word(words, record, IN_PASS.stride), word(words, record, IN_PASS.down) == 1
    position = i32(word(words, record, IN_PASS.low) + (y if down else x))
    axis, positions = word(words, record, IN_PASS.taps), word(words, record, IN_PASS.positions)
    begin = i32(word(words, axis, position) - word(words, record, IN_PASS.origin))
    count = word(words, i32(axis + positions), position)
    weights = i32(i32(axis + positions + positions) + i32(position * word(words, record, IN_PASS.most)))
    step = stride if down else channels
    at = wide(words, record + IN_PASS.source) + np.int64(
        i32(i32(begin * step) + (i32(x * channels) if down else i32(y * stride)))
    )
    bits = word(words, record, IN_PASS.bits)
    half = i32(i32(1) << i32(bits - 1))
    r, g, b = half, half, half
    for t in range(count):
        weight = word(words, weights, t)
        r += i32(weight * i32(source[up(at)]))
        if channels == 3:
            g += i32(weight * i32(source[up(at + np.int64(1))]))
            b += i32(weight * i32(source[up(at + np.int64(2))]))
        at += np.int64(step)
    to = wide(words, record + IN_PASS.output) + np.int64(i32(number * channels))
    out[up(to)] = _byte(r, bits)
    if channels == 3:
        out[up(to + np.int64(1))] = _byte(g, bits)
        out[up(to + np.int64(2))] = _byte(b, bits)
