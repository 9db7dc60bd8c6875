"""Headers of PNM and BMP files, which store pixels uncompressed.

Formats: netpbm's pbm, pgm and ppm; BMP with headers of 12 bytes (OS/2) and of 40 and more (Windows).
"""

import re
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .decoder import PillowHeader, RefusedError

_SPACE = rb"(?:\s|#[^\r\n]*+[\r\n])++"
_PNM = re.compile(
    rb"P(?:[14]%(s)s(\d{1,9})%(s)s(\d{1,9})|[2356]%(s)s(\d{1,9})%(s)s(\d{1,9})%(s)s(\d{1,9}))(\s)" % {b"s": _SPACE}
)
# Larger images are refused: Pillow unpacks run lengths in a Python loop over all pixels.
MAX_RLE_PIXELS = 1 << 24
_RLE = (1, 2)


def pnm_contents(data: bytes) -> PillowHeader:
    """Read the header of a PNM file, which may contain comments."""
    found = _PNM.match(data)
    if not found:
        raise ValueError("the header is truncated or damaged")
    kind = data[1] - ord("0")
    numbers = [int(number) for number in found.groups()[:5] if number is not None]
    width, height, white = numbers if len(numbers) == 3 else (*numbers, 1)
    if not 1 <= white <= 0xFFFF:
        raise ValueError(f"the largest value is {white}")
    channels = 3 if kind in (3, 6) else 1
    row = (width + 7) // 8 if kind == 4 else width * channels * (1 + (white > 0xFF))
    if kind > 3 and len(data) - found.end() < row * height:
        raise ValueError(f"the data ends in row {(len(data) - found.end()) // max(row, 1)} of {height}")
    header = b"P%d %s\n" % (kind, b" ".join(b"%d" % number for number in numbers))
    return PillowHeader(height, width, channels, [header, memoryview(data)[found.end() :]])


def pnm_pixels(contents: PillowHeader) -> NDArray[np.uint8] | None:
    """Return the pixels of a binary gray or color file; None for other files.

    Pillow scales values to a maximum of 255 in a Python loop. Values above the maximum are white. 16-bit gray is scaled
    to 65535 and reduced to its upper byte, as Pillow does.
    """
    header, body = contents.parts
    kind, *numbers = bytes(header).split()
    if kind not in (b"P5", b"P6"):
        return None
    white, shape = int(numbers[2]), (contents.height, contents.width, contents.channels)
    values: NDArray[Any] = np.frombuffer(body, ">u2" if white > 0xFF else "u1", int(np.prod(shape)))
    if white == 0xFF:
        return values.reshape(shape)
    top = 0xFFFF if white > 0xFF and contents.channels == 1 else 0xFF
    table = np.rint(np.arange(white + 1) / white * top).astype(np.uint16) >> (8 if top > 0xFF else 0)
    pixels: NDArray[np.uint8] = table.astype(np.uint8)[np.minimum(values, white)].reshape(shape)
    return pixels


def bmp_rows(data: bytes) -> tuple[int, int, int, int] | None:
    """Return height, width, and the places of the first row and from it to the next; None if not 24 bits per pixel."""
    start, size, width, height, _, bits, packing = struct.unpack_from("<IIiiHHI", data.ljust(34, b"\0"), 10)
    rows, stride = abs(height), (3 * width + 3) // 4 * 4
    if size < 40 or bits != 24 or packing or min(width, rows) < 1 or len(data) < start + stride * rows:
        return None
    return (rows, width, start, stride) if height < 0 else (rows, width, start + (rows - 1) * stride, -stride)


def bmp_pixels(data: bytes) -> NDArray[np.uint8] | None:
    """Return the pixels of a file of 24 bits per pixel; None for other files, and for one that is truncated."""
    found = bmp_rows(data)
    if found is None:
        return None
    from ..kernels.gray import colors_of_rows  # imports Numba, which takes as long as all of gpuimg

    height, width, first, step = found
    pixels = np.empty((height, width, 3), np.uint8)
    colors_of_rows(np.frombuffer(data, np.uint8), first, step, pixels.reshape(height, -1))
    return pixels


def check_bmp(data: bytes) -> None:
    """Refuse a BMP whose size or packing takes long to determine."""
    try:
        (size,) = struct.unpack_from("<I", data, 14)
        if size < 40:
            return
        width, height, packing = struct.unpack_from("<ii4xI", data, 18)
    except struct.error:
        raise ValueError("the header is truncated") from None
    if packing in _RLE and abs(width * height) > MAX_RLE_PIXELS:
        raise RefusedError(f"{abs(width * height)} run-length encoded pixels, over the limit of {MAX_RLE_PIXELS}")
