"""EXIF orientation of a JPEG, PNG, WebP or TIFF file, read from its bytes, and turning images by it.

nvImageCodec would turn the pixels, but its parser and the decoder that it falls back to for turned images may read
different orientations in a damaged file, and then it writes past the image.
Formats: EXIF 2.32 (CIPA DC-008), TIFF 6.0, PNG (eXIf chunk), WebP (EXIF chunk), JPEG (ITU-T T.81, annex B).
"""

from __future__ import annotations

import struct
from typing import Any

from .jpeg_headers import jpeg_headers

_ORIENTATION_TAG = 0x0112
_SHORT = 3


def orientation(data: Any) -> int:
    """Orientation 1 to 8 of file bytes (anything indexable as bytes); 1 where there is none or it cannot be read."""
    try:
        block = _exif_block(data)
    except (struct.error, IndexError, ValueError):
        return 1
    return orientation_in(block)


def orientation_in(block: memoryview) -> int:
    """Orientation 1 to 8 of an EXIF block, which is a TIFF file; 1 where there is none or it cannot be read."""
    if not block:
        return 1
    try:
        value = _tiff_orientation(block)
    except (struct.error, IndexError):
        return 1
    return value if 1 <= value <= 8 else 1


def swaps_sides(value: int) -> bool:
    """Whether an orientation exchanges height and width."""
    return value >= 5


def turned(pixels: Any, value: int) -> Any:
    """Stored pixels (H, W, C) as an orientation shows them; a view."""
    if value >= 5:
        pixels = pixels.swapaxes(0, 1)
    if value in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if value in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels


def stored(region: tuple[int, int, int, int], value: int, height: int, width: int) -> tuple[int, int, int, int]:
    """Where the part (x0, y0, x1, y1) of a turned ``height`` x ``width`` image lies in the file."""
    x0, y0, x1, y1 = region
    if value in (2, 3, 6, 7):
        x0, x1 = width - x1, width - x0
    if value in (3, 4, 7, 8):
        y0, y1 = height - y1, height - y0
    return (y0, x0, y1, x1) if value >= 5 else (x0, y0, x1, y1)


def stored_shape(shape: tuple[int, int, int], value: int) -> tuple[int, int, int]:
    """Shape in the file of an image that an orientation shows in this shape."""
    height, width, channels = shape
    return (width, height, channels) if swaps_sides(value) else shape


def _exif_block(data: Any) -> memoryview:
    head = bytes(data[:16])
    if head[:2] == b"\xff\xd8":
        return jpeg_headers(data)[1]
    view = memoryview(data)
    if head[:4] in (b"II*\0", b"MM\0*"):
        return view
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return _chunk(view, 8, b"eXIf", ">", name_first=False)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _without_prefix(_chunk(view, 12, b"EXIF", "<", name_first=True))
    return view[:0]


def _chunk(data: memoryview, at: int, name: bytes, order: str, *, name_first: bool) -> memoryview:
    """Body of the first chunk of that name in a PNG (size, name, body, crc) or RIFF (name, size, body) file."""
    while at + 8 <= len(data):
        (size,) = struct.unpack_from(order + "I", data, at + (4 if name_first else 0))
        found = data[at : at + 4] if name_first else data[at + 4 : at + 8]
        if found == name:
            return data[at + 8 : at + 8 + size]
        at += 8 + size + (size & 1 if name_first else 4)
    return data[:0]


def _without_prefix(block: memoryview) -> memoryview:
    return block[6:] if bytes(block[:6]) == b"Exif\0\0" else block


def _tiff_orientation(block: memoryview) -> int:
    if len(block) < 8:
        return 1
    order = "<" if bytes(block[:2]) == b"II" else ">"
    (directory,) = struct.unpack_from(order + "I", block, 4)
    (count,) = struct.unpack_from(order + "H", block, directory)
    for k in range(count):
        tag, kind = struct.unpack_from(order + "HH", block, directory + 2 + 12 * k)
        if tag == _ORIENTATION_TAG and kind == _SHORT:
            (value,) = struct.unpack_from(order + "H", block, directory + 10 + 12 * k)
            return int(value)
    return 1
