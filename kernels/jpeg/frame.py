"""The geometry of a JPEG: the blocks of an MCU, the grid of MCUs, and those of them that a region needs."""

from typing import Final

import numpy as np

from ..scalar import loop

i64 = np.int64

MOST_BLOCKS: Final = 6  # of the largest MCU, that of 4:2:0
FULL: Final = 8  # the scale of the image at full size, in eighths: pixels of a side of a block

#: The blocks of an MCU, in the order of the file: the component and the Huffman tables of each.
MCU: Final = np.dtype(
    [
        ("blocks", "<i8"),  # their number, 1 to MOST_BLOCKS; the lists below have as many
        ("component", "<i8", MOST_BLOCKS),  # 0 to 2
        ("dc_table", "<i8", MOST_BLOCKS),  # 0 to 3, among the TABLES of a thread
        ("ac_table", "<i8", MOST_BLOCKS),  # 4 to 7
    ],
    align=True,
)


@loop
def factors(header):
    """Return the subsampling of chroma, across and down, each 1 or 2; also the blocks of luma in an MCU."""
    if header.components == 1:  # an MCU of one component is a block, whatever its factors are
        return i64(1), i64(1)
    return header.sampling[0] >> 4, header.sampling[0] & 15


@loop
def blocks_of_mcu(header):
    """Return the number of blocks in an MCU, of an image of 1 or 3 components."""
    across, down = factors(header)
    return across * down + header.components - 1


@loop
def chroma_side(header, scale):
    """Return the side in pixels of a decoded block of chroma, where that of luma is ``scale``."""
    # As libjpeg: a reduced image of 4:2:0 gets chroma from blocks of twice the side, which then needs no upsampling.
    across, down = factors(header)
    return 2 * scale if across == 2 and down == 2 and scale < FULL else scale


@loop
def scaled(size, scale):
    """Return a side of the image at a scale in eighths, rounded up."""
    return (size * scale + FULL - 1) // FULL


@loop
def grid(header):
    """Return the number of MCU rows, and of MCUs in a row."""
    across, down = factors(header)
    return -(-header.height // (8 * down)), -(-header.width // (8 * across))


@loop
def list_blocks(header, mcu):
    """Fill in the blocks of an MCU: those of luma, row by row, then one of each other component."""
    across, down = factors(header)
    blocks = 0
    for c in range(header.components):
        for _ in range(across * down if c == 0 else 1):
            mcu.component[blocks] = c
            mcu.dc_table[blocks], mcu.ac_table[blocks] = header.dc_table[c], header.ac_table[c]
            blocks += 1
    mcu.blocks = blocks


@loop
def _mcu_range(low, high, blocks, factor, side, count):
    """Return the MCUs, first and end, that pixels ``low`` to ``high`` along an axis need.

    ``blocks`` are those of luma in an MCU, ``factor`` is by how much chroma is upsampled, ``side`` the pixels of a
    block.
    """
    if factor == 1:
        return low // (side * blocks), (high - 1) // (side * blocks) + 1
    # Pixel x lies between chroma samples (x - 1) >> 1 and (x + 1) >> 1: the one it is in, and its nearer neighbor. Of
    # the first pixel the left one counts, of the last pixel, high - 1, the right one.
    first = max(((low + 1) >> 1) - 1, 0) // side
    end = (high >> 1) // side + 1
    return first, min(end, count)


@loop
def mcus_of(header, scale, region, rows, columns):
    """Return the MCU columns, first and end, and MCU rows, first and end, that a region needs."""
    across, down = factors(header)
    # Where chroma blocks come out larger than luma's, nothing is upsampled and no neighbor is needed.
    finer = chroma_side(header, scale) == scale
    first, end = _mcu_range(region[0], region[2], across, across if finer else i64(1), scale, columns)
    top, bottom = _mcu_range(region[1], region[3], down, down if finer else i64(1), scale, rows)
    return first, end, top, bottom


@loop
def region_bytes(region, channels):
    """Return the bytes of a decoded region."""
    return (region[2] - region[0]) * (region[3] - region[1]) * channels
