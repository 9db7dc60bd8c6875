"""What the MCUs of a frame are made of, and how many there are."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..scalar import loop
from .layout import AC_TABLE, COMPONENTS, DC_TABLE, HEIGHT, SAMPLING, WIDTH

i64 = np.int64

MOST_BLOCKS: Final = 6  # of the largest MCU
PARTS_WORDS: Final = 1 + 3 * MOST_BLOCKS  # blocks of an MCU: their number, then component, DC table, AC table of each


@loop
def factors(header):
    """How many times finer than chroma luma is, across and down; also the blocks of luma in an MCU."""
    if header[COMPONENTS] == 1:
        return i64(1), i64(1)
    return header[SAMPLING] >> 4, header[SAMPLING] & 15


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
def mcu_range(low, high, factor, count):
    """MCUs that pixels ``low`` to ``high`` along an axis need, with the neighbors of chroma that is upsampled."""
    if factor == 1:
        return low >> 3, (high + 7) >> 3
    first = max(((low + 1) >> 1) - 1, 0) >> 3
    end = ((high >> 1) >> 3) + 1
    return first, min(end, count)
