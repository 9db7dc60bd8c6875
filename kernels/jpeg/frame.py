"""The geometry of a JPEG: the blocks of an MCU, the grid of MCUs, and those of them that a region needs."""

from typing import Final

import numpy as np

from ..scalar import loop
from .layout import MOST_BLOCKS

i64 = np.int64

FULL: Final = 8  # the scale of the image at full size, in eighths: pixels of a side of a block
_NARROWEST = 5  # columns from which on libjpeg interpolates between columns of chroma

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
def set_frame(header):
    """Fill in what follows from the size and the sampling factors of an image of 1 or 3 components."""
    per = 0
    for c in range(header.components):
        factors = header.sampling[c] if header.components > 1 else 0x11  # then they have no effect
        across, down = factors >> 4, factors & 15
        header.across[c], header.down[c], header.first_block[c] = across, down, per
        per += across * down
    header.per = per
    # Luma has the largest factors, chroma's are 1.
    header.rows = -(-header.height // (8 * header.down[0]))
    header.columns = -(-header.width // (8 * header.across[0]))


@loop
def chroma_side(header, scale):
    """Return the side in pixels of a decoded block of chroma, where that of luma is ``scale``."""
    # As libjpeg: a reduced image of 4:2:0 gets chroma from blocks of twice the side, which then needs no upsampling.
    return scale * min(header.across[0], header.down[0], FULL // scale)


@loop
def chroma_factors(header, scale):
    """Return the columns and rows of luma for one of chroma in the planes of a decoded image."""
    larger = chroma_side(header, scale) // scale
    return header.across[0] // larger, header.down[0] // larger


@loop
def is_too_narrow(header, scale):
    """Return whether chroma has so few columns that libjpeg repeats them rather than interpolates between them."""
    return chroma_factors(header, scale)[0] > 1 and scaled(header.width, scale) < _NARROWEST


@loop
def scaled(size, scale):
    """Return a side of the image at a scale in eighths, rounded up."""
    return (size * scale + FULL - 1) // FULL


@loop
def list_blocks(header, mcu):
    """Fill in the blocks of an MCU: those of luma, row by row, then one of each other component."""
    mcu.blocks = header.per
    for c in range(header.components):
        for block in range(header.first_block[c], header.first_block[c] + header.across[c] * header.down[c]):
            mcu.component[block] = c
            mcu.dc_table[block], mcu.ac_table[block] = header.dc_table[c], header.ac_table[c]


@loop
def _mcu_range(low, high, blocks, factor, side, count):
    """Return the MCUs, first and end, that pixels ``low`` to ``high`` along an axis need.

    ``blocks`` are those of luma in an MCU, ``factor`` is by how much chroma is upsampled, ``side`` the pixels of a
    block.
    """
    if factor != 2:  # nothing is interpolated
        return low // (side * blocks), (high - 1) // (side * blocks) + 1
    # Pixel x lies between chroma samples (x - 1) >> 1 and (x + 1) >> 1: the one it is in, and its nearer neighbor. Of
    # the first pixel the left one counts, of the last pixel, high - 1, the right one.
    first = max(((low + 1) >> 1) - 1, 0) // side
    end = (high >> 1) // side + 1
    return first, min(end, count)


@loop
def mcus_of(header, scale, region):
    """Return the MCU columns, first and end, and MCU rows, first and end, that a region needs."""
    wide, high = chroma_factors(header, scale)
    first, end = _mcu_range(region[0], region[2], header.across[0], wide, scale, header.columns)
    top, bottom = _mcu_range(region[1], region[3], header.down[0], high, scale, header.rows)
    return first, end, top, bottom


@loop
def region_bytes(region, channels):
    """Return the bytes of a decoded region."""
    return (region[2] - region[0]) * (region[3] - region[1]) * channels
