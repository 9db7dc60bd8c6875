"""JPEG blocks to pixels on a GPU: the inverse DCT, eight threads a block, and colors, a thread a pixel.

What is read is laid out in :mod:`gpuimg.kernels.jpeg.upload`. Pixels are those of the CPU's decoder, bit for bit.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, types

from ..jpeg.idct import EVEN2, EVEN3, FIRST, ODD0, ODD1, ODD2, ODD3, SCALE_BITS, SECOND, SUM3, SUM4
from ..jpeg.layout import GRAY, YCBCR
from ..jpeg.upload import (
    ACROSS,
    BIASES,
    BLOCKS,
    BLOCKS_AT_ONCE,
    COLOR,
    COLUMNS,
    DOWN,
    FIRST_BLOCK,
    HEIGHT,
    IMAGE_WORDS,
    LANES,
    LEFT,
    OUT,
    PER,
    PIXELS_AT_ONCE,
    PLACE_SHIFT,
    PLANE_WORDS,
    REGION,
    ROWS,
    STEP_X,
    STEP_Y,
    STEPS,
    TOP,
    WIDTH,
)
from ..scalar import i32, scalar, up, word
from .jpeg_huffman import short
from .kernel import Kernel
from .sample import u32, wide

# 65536 times what chroma adds to red, green and blue.
_RED, _GREEN_B, _GREEN_R, _BLUE = i32(91881), i32(-22554), i32(-46802), i32(116130)
_HALF = i32(32768)


# -- inverse DCT -------------------------------------------------------------------------------------------------------


@scalar
def _sum(one, other, factors):
    return i32(i32(one * i32(factors[0])) + i32(other * i32(factors[1])))


@scalar
def _transformed(v0, v1, v2, v3, v4, v5, v6, v7, bits):
    """The one-dimensional transform, with the terms and the wraps of the CPU's."""
    even2, even3 = _sum(v2, v6, EVEN2), _sum(v2, v6, EVEN3)
    even0 = i32(short(i32(v0 + v4)) << SCALE_BITS)
    even1 = i32(short(i32(v0 - v4)) << SCALE_BITS)
    s0, s1, s2, s3 = i32(even0 + even3), i32(even1 + even2), i32(even1 - even2), i32(even0 - even3)
    z3, z4 = short(i32(v7 + v3)), short(i32(v5 + v1))
    z3, z4 = _sum(z3, z4, SUM3), _sum(z3, z4, SUM4)
    o0, o1 = i32(_sum(v7, v1, ODD0) + z4), i32(_sum(v5, v3, ODD1) + z3)
    o2, o3 = i32(_sum(v5, v3, ODD2) + z4), i32(_sum(v7, v1, ODD3) + z3)
    half = i32(1 << (bits - 1))
    s0, s1, s2, s3 = i32(s0 + half), i32(s1 + half), i32(s2 + half), i32(s3 + half)
    return (
        i32(i32(s0 + o0) >> bits), i32(i32(s1 + o1) >> bits), i32(i32(s2 + o2) >> bits), i32(i32(s3 + o3) >> bits),
        i32(i32(s3 - o3) >> bits), i32(i32(s2 - o2) >> bits), i32(i32(s1 - o1) >> bits), i32(i32(s0 - o0) >> bits),
    )  # fmt: skip


@scalar
def _limited(x, low, high):
    return min(max(x, i32(low)), i32(high))


@scalar
def _bytes(a, b, c, d):
    """Four bytes as a word, of numbers around zero."""
    a, b, c, d = _limited(a, -128, 127), _limited(b, -128, 127), _limited(c, -128, 127), _limited(d, -128, 127)
    low = u32(u32(a & i32(255)) | u32(u32(b & i32(255)) << u32(8)))
    high = u32(u32(c & i32(255)) | u32(u32(d & i32(255)) << u32(8)))
    return i32(u32(u32(low | u32(high << u32(16))) ^ u32(0x80808080)))


@scalar
def _place_in_plane(words, record, block):
    """Component of a block of an image, the word where it begins in the planes, and the words of its plane's row."""
    per = word(words, record, PER)
    mcu = i32(block // per)
    j = i32(block - mcu * per)
    columns = word(words, record, COLUMNS)
    row = i32(mcu // columns)
    column = i32(mcu - row * columns)
    across, down = word(words, record, ACROSS), word(words, record, DOWN)
    luma = i32(across * down)
    begin = i32(word(words, record, FIRST_BLOCK) * PLANE_WORDS)
    component = i32(0)
    width = i32(columns * across)  # blocks of the plane's row
    if j < luma:
        line = i32(j // across)
        column = i32(column * across + (j - line * across))
        row = i32(row * down + line)
    else:
        component = i32(j - luma + 1)
        width = columns
        mcus = i32(columns * word(words, record, ROWS))
        begin = i32(begin + i32(mcus * (luma + component - 1)) * PLANE_WORDS)
    stride = i32(2 * width)
    return component, i32(begin + i32(8 * row * stride) + 2 * column), stride


def inverse_dct(words, images, coefficients, planes):
    """Kernel function: blocks of coefficients to planes of bytes, as words of four; ``blockIdx.y`` is the image.

    ``images`` is the word at which the launch's images begin. Eight threads a block: its columns, then its rows.
    """
    work = cuda.shared.array((BLOCKS_AT_ONCE, LANES, 9), types.int32)
    held = cuda.shared.array((BLOCKS_AT_ONCE, LANES), types.int32)
    record = i32(images + IMAGE_WORDS * i32(cuda.blockIdx.y))
    thread = i32(cuda.threadIdx.x)
    slot, x = i32(thread // LANES), i32(thread % LANES)
    first = i32(i32(cuda.blockIdx.x) * BLOCKS_AT_ONCE)
    blocks = word(words, record, BLOCKS)
    if first >= blocks:
        return
    block = i32(first + slot)
    component, place, stride = _place_in_plane(words, record, min(block, i32(blocks - 1)))
    wanted = block < blocks and (component == 0 or word(words, record, COLOR) != GRAY)
    others = i32(0)
    if wanted:
        start = i32(i32(word(words, record, FIRST_BLOCK) + block) << 6)
        steps = i32(record + STEPS + 64 * component)
        for y in range(8):  # the eight threads read side by side
            k = i32(8 * y + x)
            step = word(words, steps, k)
            value = i32(coefficients[up(start + k)])
            at = i32(step >> PLACE_SHIFT)
            if at >= 8:
                others = i32(others | value)
            work[slot, at >> 3, at & 7] = short(i32(value * i32(step & 0xFFFF)))
    else:  # these go on to the barriers with the others, and nothing that they read is to be undefined
        for y in range(8):
            work[slot, y, x] = i32(0)
    held[slot, x] = others
    cuda.syncthreads()
    v0 = work[slot, 0, x]
    # Where no other row holds anything, libjpeg-turbo multiplies the first one by four in 16 bits.
    wrapped = i32(short(i32(v0 << 2)) >> 2)
    if wrapped != v0:
        for lane in range(LANES):
            others = i32(others | held[slot, lane])
        v0 = wrapped if others == 0 else v0
    o0, o1, o2, o3, o4, o5, o6, o7 = _transformed(
        v0, work[slot, 1, x], work[slot, 2, x], work[slot, 3, x], work[slot, 4, x], work[slot, 5, x],
        work[slot, 6, x], work[slot, 7, x], FIRST,
    )  # fmt: skip
    # Without a barrier: each thread writes where it alone has read.
    work[slot, 0, x] = _limited(o0, -32768, 32767)
    work[slot, 1, x] = _limited(o1, -32768, 32767)
    work[slot, 2, x] = _limited(o2, -32768, 32767)
    work[slot, 3, x] = _limited(o3, -32768, 32767)
    work[slot, 4, x] = _limited(o4, -32768, 32767)
    work[slot, 5, x] = _limited(o5, -32768, 32767)
    work[slot, 6, x] = _limited(o6, -32768, 32767)
    work[slot, 7, x] = _limited(o7, -32768, 32767)
    cuda.syncthreads()
    o0, o1, o2, o3, o4, o5, o6, o7 = _transformed(
        work[slot, x, 0], work[slot, x, 1], work[slot, x, 2], work[slot, x, 3], work[slot, x, 4], work[slot, x, 5],
        work[slot, x, 6], work[slot, x, 7], SECOND,
    )  # fmt: skip
    if wanted:
        at = i32(place + x * stride)
        planes[up(at)] = _bytes(o0, o1, o2, o3)
        planes[up(at + 1)] = _bytes(o4, o5, o6, o7)


INVERSE_DCT = Kernel(
    "inverse_dct", inverse_dct, types.void(types.int32[::1], types.int32, types.int16[::1], types.int32[::1]),
    LANES * BLOCKS_AT_ONCE,
)  # fmt: skip


# -- colors ------------------------------------------------------------------------------------------------------------


@scalar
def _chroma(planes, near, far, column, beside, bias):
    """Chroma of a pixel: 3/4 of the nearer and 1/4 of the farther row and column, rounded."""
    here = i32(3 * i32(planes[up(near + column)]) + i32(planes[up(far + column)]))
    there = i32(3 * i32(planes[up(near + beside)]) + i32(planes[up(far + beside)]))
    return i32(i32(3 * here + there + bias) >> 4)


@scalar
def _byte(x):
    return np.uint8(_limited(x, 0, 255))


@scalar
def _neighbor(x, odd, most):
    """The chroma row or column that is second nearest."""
    return _limited(i32(x + 1) if odd else i32(x - 1), 0, most)


def colors(words, images, planes, channels, out):
    """Kernel function: pixels of the images' regions, turned, at their places; ``blockIdx.y`` is the image.

    References: libjpeg's jdsample.c and jdcolor.c.
    """
    record = i32(images + IMAGE_WORDS * i32(cuda.blockIdx.y))
    x0, y0 = word(words, record, REGION), word(words, record, REGION + 1)
    width = i32(word(words, record, REGION + 2) - x0)
    number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= width * i32(word(words, record, REGION + 3) - y0):
        return
    row = i32(number // width)
    x, y = i32(x0 + i32(number - row * width)), i32(y0 + row)
    across, down = word(words, record, ACROSS), word(words, record, DOWN)
    left, top = word(words, record, LEFT), word(words, record, TOP)
    stride = i32(8 * word(words, record, COLUMNS))
    begin = i32(word(words, record, FIRST_BLOCK) * (4 * PLANE_WORDS))
    luma = i32(planes[up(begin + i32(y - top) * (stride * across) + i32(x - left))])
    at = (
        wide(words, record + OUT)
        + np.int64(i32(x)) * np.int64(word(words, record, STEP_X))
        + np.int64(i32(y)) * np.int64(word(words, record, STEP_Y))
    )
    color = word(words, record, COLOR)
    if color == GRAY:
        out[up(at)] = np.uint8(luma)
        if channels == 3:
            out[up(at + np.int64(1))] = np.uint8(luma)
            out[up(at + np.int64(2))] = np.uint8(luma)
        return
    near, far, column, beside = y, y, x, x
    if down == 2:
        near = i32(y >> 1)
        far = _neighbor(near, y & 1, i32((word(words, record, HEIGHT) - 1) >> 1))
    if across == 2:
        column = i32(x >> 1)
        beside = _neighbor(column, x & 1, i32((word(words, record, WIDTH) - 1) >> 1))
    left, top = i32(left // across), i32(top // down)
    bias = i32(word(words, record, BIASES) >> i32(8 * (y & 1) + 4 * (x & 1))) & i32(15)
    size = i32(i32(8 * stride) * word(words, record, ROWS))  # of a plane of chroma
    begin = i32(begin + size * i32(across * down) - left)
    near, far = i32(begin + i32(near - top) * stride), i32(begin + i32(far - top) * stride)
    cb = _chroma(planes, near, far, column, beside, bias)
    cr = _chroma(planes, i32(near + size), i32(far + size), column, beside, bias)
    if color == YCBCR:
        cb, cr = i32(cb - 128), i32(cr - 128)
        red = i32(luma + i32(i32(_RED * cr + _HALF) >> 16))
        blue = i32(luma + i32(i32(_BLUE * cb + _HALF) >> 16))
        green = i32(luma + i32(i32(_GREEN_B * cb + _GREEN_R * cr + _HALF) >> 16))
    else:
        red, green, blue = luma, cb, cr
    out[up(at)] = _byte(red)
    out[up(at + np.int64(1))] = _byte(green)
    out[up(at + np.int64(2))] = _byte(blue)


COLORS = Kernel(
    "colors", colors, types.void(types.int32[::1], types.int32, types.uint8[::1], types.int32, types.uint8[::1]),
    PIXELS_AT_ONCE,
)  # fmt: skip
