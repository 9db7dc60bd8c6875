"""JPEG blocks to pixels on a GPU: the inverse DCT, eight threads per block, and colors, a thread for two by two pixels.

:mod:`gpuimg.kernels.jpeg.upload` defines the input's layout. Pixels equal those of the CPU's decoder, bit for bit.
"""

import numpy as np
from numba import cuda, types

from ..jpeg.formulas import divided, inverse, limited, mixed, rgb_of, short
from ..jpeg.frame import FULL
from ..jpeg.idct import FIRST, SECOND
from ..jpeg.layout import GRAY, YCBCR
from ..jpeg.upload import (
    BLOCKS_AT_ONCE,
    IMAGE_WORDS,
    IN_IMAGE,
    IN_PLANE,
    LANE_BITS,
    LANES,
    PLACE_SHIFT,
    PLANE_WORDS,
    QUADS_AT_ONCE,
)
from ..scalar import i32, scalar, u32, up, wide, word


@scalar
def quotient(x, y):
    """Return the quotient of non-negative numbers, ``y`` not zero: a division of 32 bits."""
    return i32(u32(x) // u32(max(y, i32(1))))  # which Numba need not check for zero


ALL = 0xFFFFFFFF  # threads of a warp
ROW = 9  # elements from a row of a block to the next: neither rows nor columns have bank conflicts
BLOCK = LANES * ROW
_BLOCKS = BLOCKS_AT_ONCE * BLOCK


# -- inverse DCT -------------------------------------------------------------------------------------------------------


@scalar
def _bytes(a, b, c, d):
    """Pack four values around zero as bytes of a 32-bit word, limited and shifted to 0-255."""
    a, b, c, d = limited(a, -128, 127), limited(b, -128, 127), limited(c, -128, 127), limited(d, -128, 127)
    low = u32(u32(a & i32(255)) | u32(u32(b & i32(255)) << u32(8)))
    high = u32(u32(c & i32(255)) | u32(u32(d & i32(255)) << u32(8)))
    return i32(u32(u32(low | u32(high << u32(16))) ^ u32(0x80808080)))


@scalar
def place_of_block(words, record, block):
    """Return a block's component, and its column and row among the blocks of its plane."""
    per = word(words, record, IN_IMAGE.per)
    mcu = quotient(block, per)
    j = i32(block - mcu * per)
    columns = word(words, record, IN_IMAGE.columns)
    row = quotient(mcu, columns)
    column = i32(mcu - row * columns)
    across, down = word(words, record, IN_IMAGE.across), word(words, record, IN_IMAGE.down)
    luma = i32(across * down)
    component = i32(0)
    if j < luma:
        line, left = divided(j, across)
        column, row = i32(column * across + left), i32(row * down + line)
    else:
        component = i32(j - luma + 1)
    return component, column, row


@scalar
def plane_of(words, record, component):
    """Return the side of a component's blocks, the first byte of its plane, and the bytes per row."""
    plane = i32(record + IN_IMAGE.planes + PLANE_WORDS * component)
    return word(words, plane, IN_PLANE.side), word(words, plane, IN_PLANE.begin), word(words, plane, IN_PLANE.stride)


@scalar
def eighth(coefficients, start, wanted):
    """Return every eighth coefficient of a block from an index on; zeros where it is not wanted."""
    at = up(start)
    if wanted:
        return (
            i32(coefficients[at]), i32(coefficients[at + up(8)]), i32(coefficients[at + up(16)]),
            i32(coefficients[at + up(24)]), i32(coefficients[at + up(32)]), i32(coefficients[at + up(40)]),
            i32(coefficients[at + up(48)]), i32(coefficients[at + up(56)]),
        )  # fmt: skip
    none = i32(0)
    return none, none, none, none, none, none, none, none


@scalar
def dequantized(words, steps, k, value):
    """Return the place in the block of the coefficient with zigzag index ``k``, and its value times its step."""
    step = word(words, steps, k)
    return i32(step >> PLACE_SHIFT), short(i32(value * i32(step & 0xFFFF)))


@scalar
def of_block(is_one, thread):
    """Return a mask of the threads of this thread's block of coefficients for which a condition holds."""
    return i32(u32(u32(cuda.ballot_sync(ALL, is_one)) >> u32(thread & i32(24))) & u32(0xFF))


@scalar
def _inverse(v0, v1, v2, v3, v4, v5, v6, v7, bits):
    """Return the inverse transform; half of it if for the warp the upper half of its frequencies is zero."""
    if cuda.any_sync(ALL, i32(v4 | v5 | v6 | v7) != 0):
        return inverse(v0, v1, v2, v3, v4, v5, v6, v7, bits)
    none = i32(0)
    return inverse(v0, v1, v2, v3, none, none, none, none, bits)


def inverse_dct(words, images, coefficients, planes):
    """Transform blocks of coefficients to planes of bytes in words (kernel function); ``blockIdx.y`` is the image.

    ``images`` is the word offset of the launch's images. Eight threads per block: first its columns, then its rows.
    They are of one warp, which waits for no other one.
    """
    work = cuda.shared.array(_BLOCKS, types.int32)
    record = i32(images + IMAGE_WORDS * i32(cuda.blockIdx.y))
    thread = i32(cuda.threadIdx.x)
    slot, x = i32(thread >> LANE_BITS), thread & i32(LANES - 1)
    first = i32(i32(cuda.blockIdx.x) * BLOCKS_AT_ONCE)
    blocks = word(words, record, IN_IMAGE.whole)
    if first >= blocks:
        return
    block = i32(first + slot)
    component, block_column, block_row = place_of_block(words, record, min(block, i32(blocks - 1)))
    side, plane, stride = plane_of(words, record, component)
    # The threads of others take part with zeros.
    wanted = block < blocks and side == FULL and (component == 0 or word(words, record, IN_IMAGE.color) != GRAY)
    begin = up(u32(slot * BLOCK))
    column, row = begin + up(u32(x)), begin + up(u32(x * ROW))
    for y in range(8):
        work[column + up(ROW * y)] = i32(0)
    # The eight threads read consecutive elements, and write to each other's columns.
    start = i32(i32(i32(word(words, record, IN_IMAGE.first_block) + block) << 6) + x)
    c = eighth(coefficients, start, wanted)
    steps = i32(record + IN_IMAGE.steps + 64 * component)
    others = i32(0)
    cuda.syncwarp()
    for y in range(4):
        at, value = dequantized(words, steps, i32(8 * y + x), c[y])
        if at >= 8:
            others = i32(others | c[y])
        work[begin + up(u32(at + (at >> 3)))] = value
    far = i32(c[4] | c[5] | c[6] | c[7])
    if cuda.any_sync(ALL, far != 0):  # rare in photos
        others = i32(others | far)  # the first row has indices up to 28
        for y in range(4, 8):
            at, value = dequantized(words, steps, i32(8 * y + x), c[y])
            work[begin + up(u32(at + (at >> 3)))] = value
    others = of_block(others != 0, thread)  # with coefficients outside row 0
    cuda.syncwarp()
    v0 = work[column]
    # If all other rows are zero, libjpeg-turbo multiplies the first one by four in 16 bits.
    if others == 0:
        v0 = i32(short(i32(v0 << 2)) >> 2)
    o0, o1, o2, o3, o4, o5, o6, o7 = _inverse(
        v0, work[column + up(ROW)], work[column + up(2 * ROW)], work[column + up(3 * ROW)],
        work[column + up(4 * ROW)], work[column + up(5 * ROW)], work[column + up(6 * ROW)],
        work[column + up(7 * ROW)], FIRST,
    )  # fmt: skip
    # No thread has read or writes this column but this one.
    work[column] = limited(o0, -32768, 32767)
    work[column + up(ROW)] = limited(o1, -32768, 32767)
    work[column + up(2 * ROW)] = limited(o2, -32768, 32767)
    work[column + up(3 * ROW)] = limited(o3, -32768, 32767)
    work[column + up(4 * ROW)] = limited(o4, -32768, 32767)
    work[column + up(5 * ROW)] = limited(o5, -32768, 32767)
    work[column + up(6 * ROW)] = limited(o6, -32768, 32767)
    work[column + up(7 * ROW)] = limited(o7, -32768, 32767)
    cuda.syncwarp()
    o0, o1, o2, o3, o4, o5, o6, o7 = _inverse(
        work[row], work[row + up(1)], work[row + up(2)], work[row + up(3)], work[row + up(4)], work[row + up(5)],
        work[row + up(6)], work[row + up(7)], SECOND,
    )  # fmt: skip
    if wanted:
        at = i32(i32(plane + i32(i32(8 * block_row) + x) * stride + 8 * block_column) >> 2)
        planes[up(at)] = _bytes(o0, o1, o2, o3)
        planes[up(at + 1)] = _bytes(o4, o5, o6, o7)


# -- colors ------------------------------------------------------------------------------------------------------------


_BLUE, _RED = IN_IMAGE.planes + PLANE_WORDS, IN_IMAGE.planes + 2 * PLANE_WORDS


@scalar
def _pair(planes, at, size):
    """Return Cb, and Cr in the upper half: sums stay below 16 bits, so that one operation is done on both."""
    return i32(i32(planes[at]) | i32(i32(planes[at + size]) << 16))


@scalar
def _three(planes, at, size, is_first, is_last):
    """Return the samples before, at and after a column of chroma, where it is not the first or the last one.

    ``at`` is the column after it, or that column if it is the last one.
    """
    at, size = up(u32(at)), up(u32(size))
    before, here, after = _pair(planes, at - up(2), size), _pair(planes, at - up(1), size), _pair(planes, at, size)
    if is_last:
        before, here = here, after
    return here if is_first else before, here, after


@scalar
def _colored(luma, chroma):
    """Return the color of a pixel."""
    return rgb_of(luma, chroma & i32(255), i32(chroma >> 16))


@scalar
def _split(luma, chroma):
    """Return the values of a pixel that needs no conversion."""
    return luma, chroma & i32(255), i32(chroma >> 16)


@scalar
def _store(out, at, channels, pixel):
    """Write a pixel."""
    out[up(at)] = np.uint8(pixel[0])
    if channels == 3:
        out[up(at + np.int64(1))] = np.uint8(pixel[1])
        out[up(at + np.int64(2))] = np.uint8(pixel[2])


def colors(words, images, planes, channels, out):
    """Write the pixels of the images' regions, turned, to the batch (kernel function); ``blockIdx.y`` is the image.

    References: libjpeg's jdsample.c and jdcolor.c.
    """
    record = i32(images + IMAGE_WORDS * i32(cuda.blockIdx.y))
    # A quad of 2 x 2 pixels, in row-major order, of which those inside the region are written.
    number = i32(i32(cuda.blockIdx.x) * QUADS_AT_ONCE + i32(cuda.threadIdx.x))
    x0, y0 = word(words, record, IN_IMAGE.region), word(words, record, IN_IMAGE.region + 1)
    x1, y1 = word(words, record, IN_IMAGE.region + 2), word(words, record, IN_IMAGE.region + 3)
    x, y = x0 & ~i32(1), y0 & ~i32(1)
    quads = i32(i32(x1 - x + 1) >> 1)  # of a line
    line = quotient(number, quads)
    y = i32(y + 2 * line)
    if y >= y1:
        return
    x = i32(x + 2 * i32(number - line * quads))
    # Planes have rows and columns for whole quads.
    width = word(words, record, IN_IMAGE.planes + IN_PLANE.stride)
    at = i32(word(words, record, IN_IMAGE.planes + IN_PLANE.begin) + y * width + x)
    upper, lower = up(u32(at)), up(u32(at + width))
    l00, l01 = i32(planes[upper]), i32(planes[upper + up(1)])
    l10, l11 = i32(planes[lower]), i32(planes[lower + up(1)])
    color = word(words, record, IN_IMAGE.color)
    if color == GRAY:
        p00, p01, p10, p11 = (l00, l00, l00), (l01, l01, l01), (l10, l10, l10), (l11, l11, l11)
    else:
        begin, stride = word(words, record, _BLUE + IN_PLANE.begin), word(words, record, _BLUE + IN_PLANE.stride)
        size = i32(word(words, record, _RED + IN_PLANE.begin) - begin)
        across, down = word(words, record, IN_IMAGE.factors), word(words, record, IN_IMAGE.factors + 1)
        column, row = x, y
        # Of a halved axis the sample that the quad is in, with its neighbors up to the ends of the window or the image;
        # of others the first one twice, and the second one. Pixels of the region need nothing beyond the window.
        above, first = row, True
        if across == 2:
            column = i32(column >> 1)
            first = column == 0
        if down == 2:
            row = i32(row >> 1)
            above = max(i32(row - 1), i32(0))
        after = min(i32(column + 1), word(words, record, IN_IMAGE.last_column))
        below = min(i32(row + 1), word(words, record, IN_IMAGE.last_row))
        last = after == column
        begin = i32(begin + after)
        s00, s01, s02 = _three(planes, i32(begin + above * stride), size, first, last)
        s10, s11, s12 = _three(planes, i32(begin + row * stride), size, first, last)
        s20, s21, s22 = _three(planes, i32(begin + below * stride), size, first, last)
        # The samples that odd rows and columns are in.
        b0, b1, b2 = (s10, s11, s12) if down == 2 else (s20, s21, s22)
        t, a, u, b = (s11, s01, b1, s21) if across == 2 else (s12, s02, b2, s22)
        v00 = mixed(s11, s01, s10, s00, word(words, record, IN_IMAGE.biases))
        v01 = mixed(t, a, s12, s02, word(words, record, IN_IMAGE.biases + 1))
        v10 = mixed(b1, s21, b0, s20, word(words, record, IN_IMAGE.biases + 2))
        v11 = mixed(u, b, b2, s22, word(words, record, IN_IMAGE.biases + 3))
        if color == YCBCR:
            p00, p01, p10, p11 = _colored(l00, v00), _colored(l01, v01), _colored(l10, v10), _colored(l11, v11)
        else:
            p00, p01, p10, p11 = _split(l00, v00), _split(l01, v01), _split(l10, v10), _split(l11, v11)
    step_x, step_y = np.int64(word(words, record, IN_IMAGE.step_x)), np.int64(word(words, record, IN_IMAGE.step_y))
    place = wide(words, record + IN_IMAGE.out) + np.int64(x) * step_x + np.int64(y) * step_y
    if y >= y0 and x >= x0:
        _store(out, place, channels, p00)
    if y >= y0 and x + 1 < x1:
        _store(out, place + step_x, channels, p01)
    place += step_y
    if y + 1 < y1 and x >= x0:
        _store(out, place, channels, p10)
    if y + 1 < y1 and x + 1 < x1:
        _store(out, place + step_x, channels, p11)
