"""JPEG blocks to pixels on a GPU: the inverse DCT, eight threads per block, and colors, one thread per pixel.

:mod:`gpuimg.kernels.jpeg.upload` defines the input's layout. Pixels equal those of the CPU's decoder, bit for bit.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, types

from ..jpeg.formulas import inverse, limited, mixed, rgb_of, second_nearest, short
from ..jpeg.idct import FIRST, SECOND
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
from .sample import u32, wide

# -- inverse DCT -------------------------------------------------------------------------------------------------------


@scalar
def _bytes(a, b, c, d):
    """Pack four values around zero as bytes of a 32-bit word, limited and shifted to 0-255."""
    a, b, c, d = limited(a, -128, 127), limited(b, -128, 127), limited(c, -128, 127), limited(d, -128, 127)
    low = u32(u32(a & i32(255)) | u32(u32(b & i32(255)) << u32(8)))
    high = u32(u32(c & i32(255)) | u32(u32(d & i32(255)) << u32(8)))
    return i32(u32(u32(low | u32(high << u32(16))) ^ u32(0x80808080)))


@scalar
def _place_in_plane(words, record, block):
    """Return a block's component, its first word in the planes, and the words per row of its plane."""
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
    """Transform blocks of coefficients to planes of bytes in words (kernel function); ``blockIdx.y`` is the image.

    ``images`` is the word offset of the launch's images. Eight threads per block: first its columns, then its rows.
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
        for y in range(8):  # the eight threads read consecutive elements
            k = i32(8 * y + x)
            step = word(words, steps, k)
            value = i32(coefficients[up(start + k)])
            at = i32(step >> PLACE_SHIFT)
            if at >= 8:
                others = i32(others | value)
            work[slot, at >> 3, at & 7] = short(i32(value * i32(step & 0xFFFF)))
    else:  # these threads must reach the barriers too, and must not read undefined values
        for y in range(8):
            work[slot, y, x] = i32(0)
    held[slot, x] = others
    cuda.syncthreads()
    v0 = work[slot, 0, x]
    # If all other rows are zero, libjpeg-turbo multiplies the first one by four in 16 bits.
    wrapped = i32(short(i32(v0 << 2)) >> 2)
    if wrapped != v0:
        for lane in range(LANES):
            others = i32(others | held[slot, lane])
        v0 = wrapped if others == 0 else v0
    o0, o1, o2, o3, o4, o5, o6, o7 = inverse(
        v0, work[slot, 1, x], work[slot, 2, x], work[slot, 3, x], work[slot, 4, x], work[slot, 5, x],
        work[slot, 6, x], work[slot, 7, x], FIRST,
    )  # fmt: skip
    # No barrier needed: each thread writes only where it alone has read.
    work[slot, 0, x] = limited(o0, -32768, 32767)
    work[slot, 1, x] = limited(o1, -32768, 32767)
    work[slot, 2, x] = limited(o2, -32768, 32767)
    work[slot, 3, x] = limited(o3, -32768, 32767)
    work[slot, 4, x] = limited(o4, -32768, 32767)
    work[slot, 5, x] = limited(o5, -32768, 32767)
    work[slot, 6, x] = limited(o6, -32768, 32767)
    work[slot, 7, x] = limited(o7, -32768, 32767)
    cuda.syncthreads()
    o0, o1, o2, o3, o4, o5, o6, o7 = inverse(
        work[slot, x, 0], work[slot, x, 1], work[slot, x, 2], work[slot, x, 3], work[slot, x, 4], work[slot, x, 5],
        work[slot, x, 6], work[slot, x, 7], SECOND,
    )  # fmt: skip
    if wanted:
        at = i32(place + x * stride)
        planes[up(at)] = _bytes(o0, o1, o2, o3)
        planes[up(at + 1)] = _bytes(o4, o5, o6, o7)


# -- colors ------------------------------------------------------------------------------------------------------------


@scalar
def _chroma(planes, near, far, column, neighbor, bias):
    """Return the chroma of a pixel, interpolated from two rows and columns."""
    return mixed(
        i32(planes[up(near + column)]), i32(planes[up(far + column)]), i32(planes[up(near + neighbor)]),
        i32(planes[up(far + neighbor)]), bias
    )  # fmt: skip


def colors(words, images, planes, channels, out):
    """Write the pixels of the images' regions, turned, to the batch (kernel function); ``blockIdx.y`` is the image.

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
    near, far, column, neighbor = y, y, x, x
    if down == 2:
        near = i32(y >> 1)
        far = second_nearest(y, i32((word(words, record, HEIGHT) - 1) >> 1))
    if across == 2:
        column = i32(x >> 1)
        neighbor = second_nearest(x, i32((word(words, record, WIDTH) - 1) >> 1))
    left, top = i32(left // across), i32(top // down)
    bias = i32(word(words, record, BIASES) >> i32(8 * (y & 1) + 4 * (x & 1))) & i32(15)
    size = i32(i32(8 * stride) * word(words, record, ROWS))  # bytes of a chroma plane
    begin = i32(begin + size * i32(across * down) - left)
    near, far = i32(begin + i32(near - top) * stride), i32(begin + i32(far - top) * stride)
    cb = _chroma(planes, near, far, column, neighbor, bias)
    cr = _chroma(planes, i32(near + size), i32(far + size), column, neighbor, bias)
    red, green, blue = rgb_of(luma, cb, cr) if color == YCBCR else (luma, cb, cr)
    out[up(at)] = np.uint8(red)
    out[up(at + np.int64(1))] = np.uint8(green)
    out[up(at + np.int64(2))] = np.uint8(blue)
