"""EXIF orientations (EXIF 2.32, CIPA DC-008), and turning images accordingly."""

import struct
from typing import Any

import numpy as np

from .._checks.types import Ints, Mask

_ORIENTATION = 0x0112  # tag
# By orientation, from 0: True if sides are exchanged; and if rows and columns are then reversed.
_SWAPPED = np.array([False, False, False, False, False, True, True, True, True])
_ROWS = np.array([False, False, False, True, True, False, False, True, True])
_COLUMNS = np.array([False, False, True, True, False, False, True, True, False])


def orientation_in(block: bytes | memoryview) -> int:
    """Return the orientation 1 to 8 of an EXIF block, which is a TIFF file; 1 if it has none or cannot be read."""
    from ..kernels.jpeg import headers  # imports Numba: only when it is used

    return int(headers.read_orientation(np.frombuffer(block, np.uint8)))


def has_orientation(block: bytes) -> bool:
    """Return True if the first directory of an EXIF block has an orientation, of any value."""
    order = {b"II": "<", b"MM": ">"}.get(block[:2])
    if order is None or len(block) < 8:
        return False
    (start,) = struct.unpack_from(order + "I", block, 4)
    if start + 2 > len(block):
        return False
    (count,) = struct.unpack_from(order + "H", block, start)
    entries = range(start + 2, min(start + 2 + 12 * count, len(block) - 1), 12)
    return any(struct.unpack_from(order + "H", block, at) == (_ORIENTATION,) for at in entries)


def swaps_sides(orientation: int) -> bool:
    """Return True if an orientation exchanges height and width."""
    return bool(_SWAPPED[orientation])


def turns(values: Ints) -> tuple[Mask, Mask, Mask]:
    """Return masks of orientations that exchange sides, and that then reverse rows and columns."""
    return _SWAPPED[values], _ROWS[values], _COLUMNS[values]


def turned(pixels: Any, value: int) -> Any:
    """Return stored pixels (H, W, C) as an orientation displays them; a view."""
    if _SWAPPED[value]:
        pixels = pixels.swapaxes(0, 1)
    if _ROWS[value]:
        pixels = pixels[::-1]
    if _COLUMNS[value]:
        pixels = pixels[:, ::-1]
    return pixels


def stored_shape(shape: tuple[int, int, int], value: int) -> tuple[int, int, int]:
    """Return the stored shape of an image that an orientation displays in this shape."""
    height, width, channels = shape
    return (width, height, channels) if _SWAPPED[value] else shape


def stored_regions(regions: Ints, sizes: Ints, orientations: Ints) -> Ints:
    """Return the regions x0, y0, x1, y1 in the files of regions (N, 4) of images displayed in (N, 2) sizes."""
    if (orientations <= 1).all():  # most batches
        return np.ascontiguousarray(regions)
    swapped, rows, columns = turns(orientations)
    x0, y0, x1, y1 = regions.T
    height, width = sizes.T
    across = np.where(columns, (width - x1, width - x0), (x0, x1))
    down = np.where(rows, (height - y1, height - y0), (y0, y1))
    (left, right), (top, bottom) = np.where(swapped, (down, across), (across, down))
    return np.stack([left, top, right, bottom], 1)
