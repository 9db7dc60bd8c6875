"""EXIF orientation of a JPEG, PNG, WebP or TIFF file, read from its bytes.

nvImageCodec turns pixels by the orientation but does not tell it, so sizes after it are worked out here.
Formats: EXIF 2.32 (CIPA DC-008), TIFF 6.0, PNG (eXIf chunk), WebP (EXIF chunk).
"""

from __future__ import annotations

import struct
from typing import Any

_ORIENTATION_TAG = 0x0112
_SHORT = 3


def orientation(data: Any) -> int:
    """Orientation 1 to 8 of file bytes (anything indexable as bytes); 1 where there is none or it cannot be read."""
    try:
        value = _tiff_orientation(_exif_block(data))
    except (struct.error, IndexError):
        return 1
    return value if 1 <= value <= 8 else 1


def swaps_sides(value: int) -> bool:
    """Whether an orientation exchanges height and width."""
    return value >= 5


def _exif_block(data: Any) -> memoryview:
    head = bytes(data[:16])
    if head[:2] == b"\xff\xd8":
        return _jpeg_block(data)
    view = memoryview(data)
    if head[:4] in (b"II*\0", b"MM\0*"):
        return view
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return _chunk(view, 8, b"eXIf", ">", name_first=False)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _without_prefix(_chunk(view, 12, b"EXIF", "<", name_first=True))
    return view[:0]


def _jpeg_block(data: Any) -> memoryview:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xDA:  # start of scan: no more headers
            break
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        if 0xD0 <= marker <= 0xD9 or marker == 0x01:  # markers without a length
            at += 2
            continue
        size = int(data[at + 2]) << 8 | int(data[at + 3])
        if marker == 0xE1 and bytes(data[at + 4 : at + 10]) == b"Exif\0\0":
            return memoryview(data)[at + 10 : at + 2 + size]
        at += 2 + size
    return memoryview(b"")


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
