"""A decoder of baseline JPEG files on the CPU: the pixels of libjpeg-turbo (islow, fancy upsampling), bit for bit.

Formats: JPEG (ITU-T T.81), JFIF (T.871), EXIF 2.32 (CIPA DC-008).
"""

from .decode import DECODE_PIECE, TABLE_WORDS, TOLD_WORDS, call_decode, work_bytes
from .headers import read_headers, read_orientation
from .layout import DONE, HEADER_WORDS

__all__ = [
    "DECODE_PIECE", "DONE", "HEADER_WORDS", "TABLE_WORDS", "TOLD_WORDS", "call_decode", "read_headers",
    "read_orientation", "work_bytes",
]  # fmt: skip
