"""What the MCUs of a frame are made of, and how many there are."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..scalar import loop
from .layout import AC_TABLE, COMPONENTS, DC_TABLE, HEIGHT, SAMPLING, WIDTH

i64 = np.int64

MOST_BLOCKS: Final = 6  # of the largest MCU
FULL: Final = 8  # the scale of the image as it is, in eighths: pixels of a side of a block
PARTS_WORDS: Final = 1 + 3 * MOST_BLOCKS  # blocks of an MCU: their number, then component, DC table, AC table of each


@loop
def factors(header):
    """How many times finer than chroma luma is, across and down; also the blocks of luma in an MCU."""
    if header[COMPONENTS] == 1:
        return i64(1), i64(1)
    return header[SAMPLING] >> 4, header[SAMPLING] & 15


@loop
def chroma_side(header, scale):
    """Pixels of a side of a block of chroma where those of luma have ``scale``.

    They are twice as many where that makes upsampling needless, as in libjpeg.
    """
    across, down = factors(header)
    return 2 * scale if across == 2 and down == 2 and scale < FULL else scale


@loop
def scaled(size, scale):
    """A side of the image at a scale of so many eighths."""
    return (size * scale + FULL - 1) // FULL


@loop
def grid(header):
    """MCU rows, and MCUs of a row."""
    across, down = factors(header)
    return -(-header[HEIGHT] // (8 * down)), -(-header[WIDTH] // (8 * across))


@loop
def list_parts(header, parts):
    """Fill in which blocks an MCU has."""
    across, down = factors(header)
    blocks = 0
    for c in range(header[COMPONENTS]):
        for _ in range(across * down if c == 0 else 1):
            part = parts[1 + 3 * blocks :]
            part[0], part[1], part[2] = c, header[DC_TABLE + c], header[AC_TABLE + c]
            blocks += 1
    parts[0] = blocks


@loop
def _mcu_range(low, high, blocks, factor, side, count):
    """MCUs that pixels ``low`` to ``high`` along an axis need, with the neighbors of chroma that is upsampled."""
    if factor == 1:
        return low // (side * blocks), (high - 1) // (side * blocks) + 1
    first = max(((low + 1) >> 1) - 1, 0) // side
    end = (high >> 1) // side + 1
    return first, min(end, count)


@loop
def mcus_of(header, scale, region, rows, columns):
    """MCU columns, from and to, and rows, that a region needs."""
    across, down = factors(header)
    finer = chroma_side(header, scale) == scale
    first, end = _mcu_range(region[0], region[2], across, across if finer else i64(1), scale, columns)
    top, bottom = _mcu_range(region[1], region[3], down, down if finer else i64(1), scale, rows)
    return first, end, top, bottom
