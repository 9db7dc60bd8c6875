"""The beginning of JPEG files: markers, and segments of metadata, in the order of Pillow and libjpeg.

Formats: JFIF (T.871); Exif 2.32, 4.7.2; ICC.1, annex B.4.
"""

import struct

_MOST = 65533  # bytes of a segment, without its marker and length
_SOI, _JFIF = b"\xff\xd8", b"JFIF\0\1\1\0\0\1\0\1\0\0"  # of version 1.1, square pixels, no thumbnail
_ICC = b"ICC_PROFILE\0"
_APP0, _APP1, _APP2 = 0xE0, 0xE1, 0xE2
_PIECE = _MOST - len(_ICC) - 2  # bytes of a profile in a segment


def beginning(exif: bytes | None, icc: bytes | None) -> bytes:
    """Return the first bytes of a JPEG file, with metadata."""
    return b"".join((_SOI, _segment(_APP0, _JFIF), metadata(exif, icc)))


def metadata(exif: bytes | None, icc: bytes | None) -> bytes:
    """Return segments with EXIF data, which has its prefix, and an ICC profile."""
    if exif and len(exif) > _MOST:
        raise ValueError(f"exif has {len(exif):,} bytes, and a JPEG has room for {_MOST:,}: drop its thumbnail")
    pieces = [icc[at : at + _PIECE] for at in range(0, len(icc), _PIECE)] if icc else []
    if len(pieces) > 255:
        raise ValueError(f"icc has {len(icc or b''):,} bytes, and a JPEG has room for {255 * _PIECE:,}")
    segments = [_segment(_APP1, exif)] if exif else []
    segments += [_segment(_APP2, _ICC + bytes((k + 1, len(pieces))) + piece) for k, piece in enumerate(pieces)]
    return b"".join(segments)


def _segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body
