"""The parts of PNG, GIF and WebP files that affect the pixels of their first image.

Text, profiles and animations are omitted: Pillow would read, decompress and store them. Of a PNG's text only an
orientation is used, in XMP or in ImageMagick's form of EXIF, as by Pillow's ``ImageOps.exif_transpose``.
Formats: PNG, third edition (W3C, 2025); GIF89a (CompuServe, 1990); WebP container (RFC 9649).
"""

import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from . import exif
from .decoder import PillowHeader, RefusedError

_END = b"\0\0\0\0IEND\xaeB`\x82"
_GAP = b"\0\0\0\0gAPs" + zlib.crc32(b"gAPs").to_bytes(4, "big")  # in place of chunks between those of pixels
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}  # by color type
_PALETTE = 3
_TEXT = (b"tEXt", b"zTXt", b"iTXt")
_XMP, _RAW_EXIF = b"XML:com.adobe.xmp", b"Raw profile type exif"
_KEY = len(_RAW_EXIF)
_XMP_ORIENTATION = re.compile(rb'tiff:Orientation(?:="|>)([1-8])')
_MOST_TEXT = 1 << 20  # bytes
_GIF_BLOCK = re.compile(rb"[!,;]")
_WEBP_ALPHA = {b"VP8X": (20, 0x10), b"VP8L": (24, 0x10)}  # byte of the file, bit


# -- PNG ---------------------------------------------------------------------------------------------------------------


def png_contents(data: bytes) -> PillowHeader:
    """Read the chunks of a PNG file; whether irregular ones after the first pixels are damage is left to Pillow."""
    view = memoryview(data)
    parts, channels = [view[:8]], 0
    block: bytes | memoryview | None = None
    texts: dict[bytes, bytes] = {}
    key: tuple[int, ...] = ()
    height = width = pixels = end = last = 0
    try:
        for name, start, stop in _chunks(view):
            before, end = end, stop + 4
            if name == b"IHDR" and not channels:
                if stop - start != 13:
                    raise ValueError(f"chunk IHDR has {stop - start} bytes, not 13")
                width, height, _, color = struct.unpack_from(">IIBB", view, start)
                if color not in _PNG_CHANNELS:
                    raise ValueError(f"color type {color}")
                channels = _PNG_CHANNELS[color]
            elif name == b"eXIf":
                block = view[start:stop]
                continue
            elif name in _TEXT:
                _add_text(texts, name, view[start:stop])
                continue
            elif name == b"tRNS":
                channels += channels == 3 and data[25] == _PALETTE
                if data[25] in (0, 2):  # one color that is transparent
                    key = struct.unpack(f">{(stop - start) // 2}H", view[start : start + (stop - start) // 2 * 2])
            elif name not in (b"PLTE", b"IDAT"):
                continue
            if not channels:
                raise ValueError(f"its first chunk is {name!r}")
            if name == b"IDAT" and pixels and before != last:  # Pillow's pixels end there
                parts.append(memoryview(_GAP))
            if name == b"IDAT":
                pixels, last = pixels + 1, end
            parts.append(view[start - 8 : end])
        parts.append(memoryview(_END))
    except ValueError:
        if not pixels or data[end + 4 : end + 8] == b"IDAT":
            raise
        parts.append(view[end:])
    if not pixels:
        raise ValueError("it has no pixels (chunk IDAT)")
    return PillowHeader(height, width, channels, parts, _png_orientation(block, texts), depth=data[24], layout=key)


def _add_text(texts: dict[bytes, bytes], name: bytes, body: memoryview) -> None:
    """Add the text of a chunk if it may have an orientation."""
    key, _, text = bytes(body[: _KEY + 1]).partition(b"\0")
    if key not in (_XMP, _RAW_EXIF):
        return
    text = bytes(body[len(key) + 1 :])
    compressed = name == b"zTXt"
    if name == b"iTXt":
        flag, method, text = text[:1], text[1:2], text[2:].split(b"\0", 2)[-1]
        compressed = flag != b"\0"
        if compressed and method != b"\0":
            return
    elif compressed:
        text = text[1:]
    if compressed:
        try:
            text = zlib.decompressobj().decompress(text, _MOST_TEXT)
        except zlib.error:
            return
    texts[key] = text


def _png_orientation(block: bytes | memoryview | None, texts: dict[bytes, bytes]) -> int:
    """Return the orientation of EXIF or, if it has none, of XMP."""
    if block is None and _RAW_EXIF in texts:  # lines with the name and the length, then hexadecimal digits
        with suppress(ValueError):
            block = bytes.fromhex(b"".join(texts[_RAW_EXIF].split(b"\n")[3:]).decode("latin-1"))
    if block is not None:
        block = bytes(block).removeprefix(b"Exif\0\0")
        if _XMP not in texts or exif.has_orientation(block):
            return exif.orientation_in(block)
    found = _XMP_ORIENTATION.search(texts.get(_XMP, b""))
    return int(found[1]) if found else 1


def _chunks(view: memoryview) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, start and end of the body of each chunk before IEND."""
    at = 8
    while at + 12 <= len(view):
        size, name = struct.unpack_from(">I4s", view, at)
        if not name.isalpha():
            raise ValueError(f"a chunk at byte {at} has the name {name!r}")
        if at + 12 + size > len(view):
            raise ValueError(f"the data ends in chunk {name.decode()}")
        if name == b"IEND":
            return
        yield name, at + 8, at + 8 + size
        at += 12 + size
    raise ValueError("the data ends before the last chunk (IEND)")


# -- GIF ---------------------------------------------------------------------------------------------------------------


@contextmanager
def _truncated() -> Iterator[None]:
    try:
        yield
    except (struct.error, IndexError):
        raise ValueError("the data ends in the first image") from None


class GifImage(NamedTuple):
    """The place of an image on a screen that it does not cover, and the color around it, which is transparent."""

    left: int
    top: int
    width: int
    height: int
    background: bytes


@_truncated()
def gif_contents(data: bytes) -> PillowHeader:
    """Read a GIF file up to its first image, the only one that is decoded."""
    view = memoryview(data)
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + _color_table(flags)
    colors, transparent = view[10:at], b""
    while (kind := data[at := _next_block(data, at)]) == 0x21:  # an extension
        if data[at + 1] == 0xF9 and data[at + 2] == 4 and data[at + 3] & 1:
            # Only the index of the transparent color matters; the disposal method does not.
            transparent = bytes((0x21, 0xF9, 4, 1, 0, 0, data[at + 6], 0))
        at = _end_of_blocks(data, at + 2)
    if kind != 0x2C:
        raise ValueError("GIF without an image")
    left, top, columns, rows, flags = struct.unpack_from("<HHHHB", data, at + 1)
    is_part = (left, top) != (0, 0) or columns < width or rows < height
    width, height = max(width, left + columns), max(height, top + rows)
    if max(width, height) > 0xFFFF:
        raise RefusedError(f"size {height} x {width}, over GIF's limit of 65535")
    # Pillow shows the first color of the palette outside of a first image that does not cover the screen.
    screen = data[:6] + struct.pack("<HH", *((columns, rows) if is_part else (width, height)))
    background = bytes(colors[3 + 3 * colors[1] :][:3]).ljust(3, b"\0")

    def parts() -> Iterator[bytes | memoryview]:
        yield from (screen, colors, transparent)
        with _truncated():
            yield b",\0\0\0\0" if is_part else view[at : at + 5]
            yield view[at + 5 : _end_of_blocks(data, at + 11 + _color_table(flags))]
        yield b";"

    layout = GifImage(left, top, columns, rows, background) if is_part else None
    return PillowHeader(height, width, 3 + (len(transparent) > 0 or is_part), parts(), layout=layout)


def _next_block(data: bytes, at: int) -> int:
    """Return the offset of the next extension, image or trailer; other bytes are skipped, as all decoders do."""
    found = _GIF_BLOCK.search(data, at)
    if not found:
        raise IndexError
    return found.start()


def _color_table(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _end_of_blocks(data: bytes, at: int) -> int:
    """Return the offset after a sequence of sub-blocks."""
    while size := data[at]:
        # Most blocks are full: their sizes, 256 bytes apart, are looked at together.
        sizes = data[at : at + (1 << 16) : 1 << 8] if size == 0xFF else b""
        at += (len(sizes) - len(sizes.lstrip(b"\xff"))) << 8 or 1 + size
    return at + 1


# -- WebP --------------------------------------------------------------------------------------------------------------


def webp_contents(data: bytes) -> PillowHeader:
    """Read the header of a WebP file."""
    if len(data) < 30:
        raise ValueError("the header is truncated")
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
    return PillowHeader(height, width, 4 if data[at] & bit else 3, [data], _webp_orientation(memoryview(data)))


def _webp_orientation(view: memoryview) -> int:
    at = 12
    while at + 8 <= len(view):
        name, size = struct.unpack_from("<4sI", view, at)
        if name == b"EXIF":
            block = view[at + 8 : at + 8 + size]
            return exif.orientation_in(block[6:] if bytes(block[:6]) == b"Exif\0\0" else block)
        at += 8 + size + (size & 1)
    return 1
