"""The gate in front of the JPEG decoders: their headers must follow each other in a way that all of them read alike.

Format: JPEG (ITU-T T.81, annex B).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

# Start of frame: all but the tables of Huffman and arithmetic coding, and one that is reserved.
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_START_OF_SCAN = 0xDA
_SEGMENT: Callable[[Any, int], tuple[int, int, int]] = struct.Struct(">BBH").unpack_from  # 255, marker, size
_SIZE: Callable[[Any, int], tuple[int, int]] = struct.Struct(">HH").unpack_from  # height, width


def jpeg_headers(data: Any) -> tuple[tuple[int, int], memoryview]:
    """Height and width in the frame header of a JPEG, as stored, and its first EXIF block.

    Raises
    ------
    ValueError
        For a file whose headers do not follow each other without gaps, or that has not exactly one frame header.
        Decoders skip stray markers and gaps in different ways: one would find another size than the other, and run
        over memory.
    """
    frame = None
    block = memoryview(b"")
    at = 2
    try:
        while True:
            first, marker, size = _SEGMENT(data, at)
            if first == marker == 0xFF:  # fill byte
                at += 1
                continue
            if first != 0xFF or marker < 0xC0 or 0xD0 <= marker <= 0xD9 or size < 2:
                raise ValueError("the header is damaged")
            if marker == _START_OF_SCAN:
                break
            if marker in _FRAMES:
                if frame:
                    raise ValueError("the header is damaged: it has two frames")
                frame = _SIZE(data, at + 5)
            elif marker == 0xE1 and not block and bytes(data[at + 4 : at + 10]) == b"Exif\0\0":
                block = memoryview(data)[at + 10 : at + 2 + size]
            at += 2 + size
    except struct.error:
        raise ValueError("the header is cut off or damaged") from None
    if not frame:
        raise ValueError("the header is damaged: it has no frame")
    return frame, block
