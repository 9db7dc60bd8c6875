"""The parts of PNG, GIF and WebP files that matter to the pixels of their first picture.

Text, profiles and animations are left out: they would be read, decompressed and kept.
Formats: PNG, third edition (W3C, 2025); GIF89a (CompuServe, 1990); WebP container (RFC 9649).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from . import exif
from .contents import Contents, RefusedError

_END = b"\0\0\0\0IEND\xaeB`\x82"
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # by color type
_PALETTE = 3
_GIF_BLOCK = re.compile(rb"[!,;]")
_WEBP_ALPHA = {b"VP8X": (20, 0x10), b"VP8L": (24, 0x10)}  # byte of the file, bit


# -- PNG ---------------------------------------------------------------------------------------------------------------


def png_contents(data: bytes, *, alpha: bool = False) -> Contents:
    """Read the chunks of a PNG file; transparency of one color or a palette is among the parts where ``alpha``.

    Raises
    ------
    ValueError
        With the reason, for what cannot be decoded.
    """
    view = memoryview(data)
    kept, orientation, channels = [view[:8]], 1, 0
    height = width = pixels = 0
    for name, start, stop in _chunks(view):
        if name == b"IHDR" and not channels:
            width, height, channels = _png_header(view[start:stop])
        elif name == b"eXIf":
            orientation = exif.orientation_in(view[start:stop])
            continue
        elif name == b"tRNS":
            channels += channels == 3 and data[25] == _PALETTE
            if not alpha:
                continue
        elif name not in (b"PLTE", b"IDAT"):
            continue
        if not channels:
            raise ValueError(f"its first chunk is {name!r}")
        pixels += name == b"IDAT"
        kept.append(view[start - 8 : stop + 4])
    if not pixels:
        raise ValueError("it has no pixels (chunk IDAT)")
    return Contents(height, width, channels, [*kept, _END], orientation, depth=data[24])


def _chunks(view: memoryview) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and end of the body of each chunk before the last one."""
    at = 8
    while at + 12 <= len(view):
        size, name = struct.unpack_from(">I4s", view, at)
        if not name.isalpha():
            raise ValueError(f"a chunk at byte {at} is named {name!r}")
        if at + 12 + size > len(view):
            raise ValueError(f"the data ends in chunk {name.decode()}")
        if name == b"IEND":
            return
        yield name, at + 8, at + 8 + size
        at += 12 + size
    raise ValueError("the data ends before the last chunk (IEND)")


def _png_header(body: memoryview) -> tuple[int, int, int]:
    if len(body) != 13:
        raise ValueError(f"it has {len(body)} bytes, not 13")
    width, height, _, color = struct.unpack_from(">IIBB", body)
    if color not in _PNG_CHANNELS:
        raise ValueError(f"color type {color}")
    return width, height, _PNG_CHANNELS[color]


# -- GIF ---------------------------------------------------------------------------------------------------------------


def gif_contents(data: bytes) -> Contents:
    """Read a GIF file up to its first picture, which is all of it that is decoded.

    Raises
    ------
    ValueError
        With the reason, for what cannot be decoded.
    """
    try:
        return _gif_contents(data)
    except (struct.error, IndexError):
        raise ValueError("the data ends in the first picture") from None


def _gif_contents(data: bytes) -> Contents:
    view = memoryview(data)
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + _color_table(flags)
    colors, transparent = view[10:at], b""
    while (kind := data[at := _next_block(data, at)]) == 0x21:  # an extension
        if data[at + 1] == 0xF9 and data[at + 2] == 4 and data[at + 3] & 1:
            # Only which color is transparent; how the picture is disposed of is of no matter.
            transparent = bytes((0x21, 0xF9, 4, 1, 0, 0, data[at + 6], 0))
        at = _behind_blocks(data, at + 2)
    if kind != 0x2C:
        raise ValueError("it has no picture")
    left, top, columns, rows, flags = struct.unpack_from("<HHHHB", data, at + 1)
    end = _behind_blocks(data, at + 11 + _color_table(flags))
    width, height = max(width, left + columns), max(height, top + rows)
    if max(width, height) > 0xFFFF:
        raise RefusedError(f"size {height} x {width}, more than a GIF file can say")
    screen = data[:6] + struct.pack("<HH", width, height)
    return Contents(height, width, 3 + (len(transparent) > 0), [screen, colors, transparent, view[at:end], b";"])


def _next_block(data: bytes, at: int) -> int:
    """Where an extension, a picture or the end begins; other bytes are skipped, as everybody does."""
    found = _GIF_BLOCK.search(data, at)
    if not found:
        raise IndexError
    return found.start()


def _color_table(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _behind_blocks(data: bytes, at: int) -> int:
    """Where a row of sub-blocks ends."""
    while size := data[at]:
        at += 1 + size
    return at + 1


# -- WebP --------------------------------------------------------------------------------------------------------------


def webp_contents(data: bytes) -> Contents:
    """Read the header of a WebP file.

    Raises
    ------
    ValueError
        With the reason, for what cannot be decoded.
    """
    if len(data) < 30:
        raise ValueError("the header is cut off")
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
    elif kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    elif kind == b"VP8 ":
        width, height = (int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    else:
        raise ValueError(f"its first chunk is {kind!r}")
    at, bit = _WEBP_ALPHA.get(kind, (0, 0))
    return Contents(height, width, 4 if data[at] & bit else 3, [data], _webp_orientation(memoryview(data)))


def _webp_orientation(view: memoryview) -> int:
    at = 12
    while at + 8 <= len(view):
        name, size = struct.unpack_from("<4sI", view, at)
        if name == b"EXIF":
            block = view[at + 8 : at + 8 + size]
            return exif.orientation_in(block[6:] if bytes(block[:6]) == b"Exif\0\0" else block)
        at += 8 + size + (size & 1)
    return 1
