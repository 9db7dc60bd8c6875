"""JPEG compression artefacts on a GPU: blocks are coded and decoded, then converted to pixels.

Both kernels read 32-bit words: the steps of luma and chroma at quality 50, then one record per image. Images of
quality 0 are copied.
"""

from typing import Final

import numpy as np
from numba import cuda, types

from .. import color
from ..jpeg.formulas import (
    CENTER,
    FORWARD_FIRST,
    FORWARD_SECOND,
    chroma_of,
    coded,
    forward,
    halved,
    inverse,
    limited,
    luma_of,
    mixed,
    rgb_of,
    second_nearest,
    step_of,
)
from ..jpeg.idct import FIRST, SECOND
from ..layout import SCALES
from ..scalar import f32, i32, scalar, u32, up, wide, word
from .artefact_records import CODED_WORDS, IN_CODED, SIDE, STEP_WORDS

_LUMA_BLOCKS: Final = 4
_BLOCKS: Final = 6
_LANES: Final = 8
_STRIDE: Final = 9  # of the rows in shared memory: columns then fall into different banks
_BLOCK: Final = 64
_UNIT = SCALES["uint8"]


@scalar
def _bytes_at(source, channels, scale, at):
    """Return a pixel's channels as bytes."""
    r = i32(color.store_byte(f32(source[up(at)]) * scale))
    if channels == 1:
        return r, r, r
    g = i32(color.store_byte(f32(source[up(at + np.int64(1))]) * scale))
    return r, g, i32(color.store_byte(f32(source[up(at + np.int64(2))]) * scale))


@scalar
def _at(start, y, x, width, channels):
    return start + np.int64(i32(i32(y * width) + x)) * np.int64(channels)


def code_blocks(source, channels, scale, words, planes):
    """Code and decode tiles of 16 x 16 pixels (kernel function); ``blockIdx.y`` is the image."""
    work = cuda.shared.array((_BLOCKS, _LANES, _STRIDE), types.int32)
    record = i32(STEP_WORDS + CODED_WORDS * i32(cuda.blockIdx.y))
    height, width = word(words, record, IN_CODED.height), word(words, record, IN_CODED.width)
    quality = word(words, record, IN_CODED.quality)
    columns = i32(u32(width + (SIDE - 1)) // u32(SIDE))
    number = i32(cuda.blockIdx.x)
    row = i32(u32(number) // u32(columns))
    top, left = i32(row * SIDE), i32(i32(number - row * columns) * SIDE)
    if quality == 0 or top >= height:
        return
    thread = i32(cuda.threadIdx.x)
    slot, x = i32(thread >> 3), i32(thread & 7)
    start = wide(words, record + IN_CODED.source)
    # Four pixels: for luma, the image's last row is repeated; for chroma, the last row of chroma is.
    quad = i32(top + 2 * slot)
    last = i32((height - 1) >> 1)
    pair = i32(2 * min(i32(quad >> 1), last))
    column = i32(left + 2 * x)
    sums_b, sums_r = i32(0), i32(0)
    for k in range(4):
        down, across = i32(k >> 1), i32(k & 1)
        at_x = min(i32(column + across), i32(width - 1))
        r, g, b = _bytes_at(
            source, channels, scale, _at(start, min(i32(quad + down), i32(height - 1)), at_x, width, channels)
        )
        block = i32(2 * (slot >> 2) + (x >> 2))
        work[block, i32(2 * (slot & 3) + down), i32(2 * (x & 3) + across)] = i32(luma_of(r, g, b) - CENTER)
        if channels == 3:
            r, g, b = _bytes_at(
                source, channels, scale, _at(start, min(i32(pair + down), i32(height - 1)), at_x, width, channels)
            )
            cb, cr = chroma_of(r, g, b)
            sums_b, sums_r = i32(sums_b + cb), i32(sums_r + cr)
    half_x = i32(column >> 1)
    work[_LUMA_BLOCKS, slot, x] = i32(halved(sums_b, i32(0), i32(0), i32(0), half_x) - CENTER)
    work[_LUMA_BLOCKS + 1, slot, x] = i32(halved(sums_r, i32(0), i32(0), i32(0), half_x) - CENTER)
    cuda.syncthreads()
    coding = slot < _BLOCKS
    if coding:
        v0, v1, v2, v3, v4, v5, v6, v7 = forward(
            work[slot, x, 0], work[slot, x, 1], work[slot, x, 2], work[slot, x, 3], work[slot, x, 4], work[slot, x, 5],
            work[slot, x, 6], work[slot, x, 7], FORWARD_FIRST
        )  # fmt: skip
        # No barrier needed: each thread writes only where it alone has read.
        work[slot, x, 0], work[slot, x, 1], work[slot, x, 2], work[slot, x, 3] = v0, v1, v2, v3
        work[slot, x, 4], work[slot, x, 5], work[slot, x, 6], work[slot, x, 7] = v4, v5, v6, v7
    cuda.syncthreads()
    if coding:
        base = i32(0) if slot < _LUMA_BLOCKS else i32(_BLOCK)
        v0, v1, v2, v3, v4, v5, v6, v7 = forward(
            work[slot, 0, x], work[slot, 1, x], work[slot, 2, x], work[slot, 3, x], work[slot, 4, x], work[slot, 5, x],
            work[slot, 6, x], work[slot, 7, x], FORWARD_SECOND
        )  # fmt: skip
        base = i32(base + x)
        v0, v1, v2, v3, v4, v5, v6, v7 = inverse(
            coded(v0, step_of(words[up(base)], quality)), coded(v1, step_of(words[up(base + 8)], quality)),
            coded(v2, step_of(words[up(base + 16)], quality)), coded(v3, step_of(words[up(base + 24)], quality)),
            coded(v4, step_of(words[up(base + 32)], quality)), coded(v5, step_of(words[up(base + 40)], quality)),
            coded(v6, step_of(words[up(base + 48)], quality)), coded(v7, step_of(words[up(base + 56)], quality)), FIRST
        )  # fmt: skip
        work[slot, 0, x], work[slot, 1, x], work[slot, 2, x], work[slot, 3, x] = v0, v1, v2, v3
        work[slot, 4, x], work[slot, 5, x], work[slot, 6, x], work[slot, 7, x] = v4, v5, v6, v7
    cuda.syncthreads()
    if coding and (channels == 3 or slot < _LUMA_BLOCKS):
        v0, v1, v2, v3, v4, v5, v6, v7 = inverse(
            work[slot, x, 0], work[slot, x, 1], work[slot, x, 2], work[slot, x, 3], work[slot, x, 4], work[slot, x, 5],
            work[slot, x, 6], work[slot, x, 7], SECOND
        )  # fmt: skip
        _store_row(planes, wide(words, record + IN_CODED.planes), slot, top, left, x, height, width,
                   v0, v1, v2, v3, v4, v5, v6, v7)  # fmt: skip


@scalar
def _store_row(planes, begin, slot, top, left, line, height, width, v0, v1, v2, v3, v4, v5, v6, v7):
    """Store one row of a decoded block, except the part outside the image."""
    if slot < _LUMA_BLOCKS:
        y, x = i32(top + 8 * (slot >> 1) + line), i32(left + 8 * (slot & 1))
    else:
        begin += np.int64(i32(height * width))
        y, x = i32((top >> 1) + line), i32(left >> 1)
        height, width = i32((height + 1) >> 1), i32((width + 1) >> 1)
        begin += np.int64(i32(i32(slot - _LUMA_BLOCKS) * i32(height * width)))
    if y < height:
        at, room = begin + np.int64(i32(y * width + x)), i32(width - x)
        _store(planes, at, 0, room, v0)
        _store(planes, at, 1, room, v1)
        _store(planes, at, 2, room, v2)
        _store(planes, at, 3, room, v3)
        _store(planes, at, 4, room, v4)
        _store(planes, at, 5, room, v5)
        _store(planes, at, 6, room, v6)
        _store(planes, at, 7, room, v7)


@scalar
def _store(planes, at, k, room, value):
    if k < room:
        planes[up(at + np.int64(k))] = np.uint8(limited(i32(value + CENTER), 0, 255))


@scalar
def _chroma(planes, near, far, column, neighbor, bias):
    return mixed(
        i32(planes[up(near + np.int64(column))]), i32(planes[up(far + np.int64(column))]),
        i32(planes[up(near + np.int64(neighbor))]), i32(planes[up(far + np.int64(neighbor))]), bias
    )  # fmt: skip


def code_pixels(source, channels, scale, words, planes, out):
    """Convert luma and chroma to pixels (kernel function): one thread per pixel, ``blockIdx.y`` is the image."""
    record = i32(STEP_WORDS + CODED_WORDS * i32(cuda.blockIdx.y))
    height, width = word(words, record, IN_CODED.height), word(words, record, IN_CODED.width)
    number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= height * width:
        return
    pixel = np.int64(number) * np.int64(channels)
    at = wide(words, record + IN_CODED.output) + pixel
    if word(words, record, IN_CODED.quality) == 0:
        start = wide(words, record + IN_CODED.source) + pixel
        for c in range(channels):
            out[up(at + np.int64(c))] = f32(source[up(start + np.int64(c))]) * scale
        return
    begin = wide(words, record + IN_CODED.planes)
    luma = i32(planes[up(begin + np.int64(number))])
    if channels == 1:
        out[up(at)] = f32(luma) * _UNIT
        return
    y = i32(u32(number) // u32(width))
    x = i32(number - y * width)
    half_height, half_width = i32((height + 1) >> 1), i32((width + 1) >> 1)
    column = i32(x >> 1)
    neighbor, far_row = column, i32(y >> 1)
    if half_width > 2:  # libjpeg replicates the chroma of narrower images instead
        neighbor, far_row = second_nearest(x, i32(half_width - 1)), second_nearest(y, i32(half_height - 1))
    bias = i32(8 - (x & 1))
    begin += np.int64(i32(height * width))
    near = begin + np.int64(i32(i32(y >> 1) * half_width))
    far = begin + np.int64(i32(far_row * half_width))
    plane = np.int64(i32(half_height * half_width))
    cb = _chroma(planes, near, far, column, neighbor, bias)
    cr = _chroma(planes, near + plane, far + plane, column, neighbor, bias)
    red, green, blue = rgb_of(luma, cb, cr)
    out[up(at)] = f32(red) * _UNIT
    out[up(at + np.int64(1))] = f32(green) * _UNIT
    out[up(at + np.int64(2))] = f32(blue) * _UNIT
