"""JPEG blocks to samples at half, quarter and eighth size on a GPU, for images that are decoded at a reduced scale.

As in :mod:`.jpeg_pixels`, eight threads per block. Blocks of full size, chroma of 4:2:0 at half scale, are left to that
kernel. Samples equal those of the CPU's decoder, bit for bit.
"""

import numpy as np
from numba import cuda, types

from ..jpeg.formulas import (
    CENTER,
    HALF_FIRST,
    HALF_SECOND,
    QUARTER_FIRST,
    QUARTER_SECOND,
    divided,
    inverse_eighth,
    inverse_half,
    inverse_quarter,
    limited,
    short,
)
from ..jpeg.frame import FULL
from ..jpeg.layout import GRAY
from ..jpeg.upload import BLOCKS_AT_ONCE, IMAGE_WORDS, IN_IMAGE, LANE_BITS, LANES
from ..scalar import i32, scalar, u32, up, word
from .jpeg_pixels import BLOCK, ROW, dequantized, eighth, of_block, place_of_block, plane_of

_WORK = BLOCKS_AT_ONCE * BLOCK


@scalar
def place_of_sample(words, record, component, column, row):
    """Return the place in its plane of a block of a single sample, and how often it is repeated across and down.

    Chroma is, which is not interpolated, and the last ones of planes of odd size, as pixels come in quads.
    """
    across, down = word(words, record, IN_IMAGE.across), word(words, record, IN_IMAGE.down)
    wide, high = (i32(1), i32(1)) if component == 0 else (across, down)
    to_x, to_y = i32(column * wide), i32(row * high)
    width, height = i32(word(words, record, IN_IMAGE.columns) * across), i32(word(words, record, IN_IMAGE.rows) * down)
    if width & 1 and column == width - 1:
        wide = i32(2)
    if height & 1 and row == height - 1:
        high = i32(2)
    return to_x, to_y, wide, high


@scalar
def _store(planes, at, value):
    planes[up(at)] = np.uint8(i32(limited(value, -CENTER, CENTER - 1) + CENTER))


def reduced_dct(words, images, coefficients, planes):
    """Transform blocks of coefficients to planes of bytes (kernel function); ``blockIdx.y`` is the image.

    Arguments and threads as of :func:`.jpeg_pixels.inverse_dct`, except for ``planes``, which are bytes here.
    """
    work = cuda.shared.array(_WORK, types.int32)
    record = i32(images + IMAGE_WORDS * i32(cuda.blockIdx.y))
    thread = i32(cuda.threadIdx.x)
    slot, x = i32(thread >> LANE_BITS), thread & i32(LANES - 1)
    first = i32(i32(cuda.blockIdx.x) * BLOCKS_AT_ONCE)
    blocks = word(words, record, IN_IMAGE.reduced)
    if first >= blocks:
        return
    block = i32(first + slot)
    component, block_column, block_row = place_of_block(words, record, min(block, i32(blocks - 1)))
    side, plane, stride = plane_of(words, record, component)
    wanted = block < blocks and side < FULL and (component == 0 or word(words, record, IN_IMAGE.color) != GRAY)
    begin = up(u32(slot * BLOCK))
    column, row = begin + up(u32(x)), begin + up(u32(x * ROW))
    # The eight threads read consecutive elements, and write to each other's columns.
    start = i32(i32(word(words, record, IN_IMAGE.first_block) + block) << 6)
    c = eighth(coefficients, i32(start + x), wanted)
    steps = i32(record + IN_IMAGE.steps + 64 * component)
    others = i32(0)
    for y in range(8):
        at, value = dequantized(words, steps, i32(8 * y + x), c[y])
        if at >= 8 and at >> 3 != 4:  # that row does not contribute to half size
            others = i32(others | c[y])
        work[begin + up(u32(at + (at >> 3)))] = value  # every element has one
    others = of_block(others != 0, thread)  # with coefficients outside rows 0 and 4
    cuda.syncwarp()
    v0 = work[column]
    if side == 4:
        # If all other rows are zero, libjpeg-turbo multiplies the first one by four in 16 bits.
        if others == 0:
            v0 = i32(short(i32(v0 << 2)) >> 2)
        o0, o1, o2, o3 = inverse_half(
            v0, work[column + up(ROW)], work[column + up(2 * ROW)], work[column + up(3 * ROW)],
            work[column + up(5 * ROW)], work[column + up(6 * ROW)], work[column + up(7 * ROW)], HALF_FIRST,
        )  # fmt: skip
        work[column] = limited(o0, -32768, 32767)
        work[column + up(ROW)] = limited(o1, -32768, 32767)
        work[column + up(2 * ROW)] = limited(o2, -32768, 32767)
        work[column + up(3 * ROW)] = limited(o3, -32768, 32767)
    elif side == 2:
        o0, o1 = inverse_quarter(
            v0, work[column + up(ROW)], work[column + up(3 * ROW)], work[column + up(5 * ROW)],
            work[column + up(7 * ROW)], QUARTER_FIRST,
        )  # fmt: skip
        # libjpeg-turbo keeps all bits of the first column.
        work[column] = limited(o0, -32768, 32767) if x > 0 else o0
        work[column + up(ROW)] = limited(o1, -32768, 32767) if x > 0 else o1
    cuda.syncwarp()
    if not wanted:
        return
    at = i32(plane + i32(i32(side * block_row) + x) * stride + side * block_column)
    if side == 4 and x < 4:
        o0, o1, o2, o3 = inverse_half(
            work[row], work[row + up(1)], work[row + up(2)], work[row + up(3)], work[row + up(5)], work[row + up(6)],
            work[row + up(7)], HALF_SECOND,
        )  # fmt: skip
        _store(planes, at, o0)
        _store(planes, i32(at + 1), o1)
        _store(planes, i32(at + 2), o2)
        _store(planes, i32(at + 3), o3)
    elif side == 2 and x < 2:
        o0, o1 = inverse_quarter(
            work[row], work[row + up(1)], work[row + up(3)], work[row + up(5)], work[row + up(7)], QUARTER_SECOND
        )
        _store(planes, at, o0)
        _store(planes, i32(at + 1), o1)
    elif side == 1:  # a thread for each copy
        to_x, to_y, wide, high = place_of_sample(words, record, component, block_column, block_row)
        dy, dx = divided(x, wide)
        if dy < high:
            value = inverse_eighth(i32(coefficients[up(start)]), word(words, steps, 0))
            _store(planes, i32(plane + i32(to_y + dy) * stride + to_x + dx), value)
