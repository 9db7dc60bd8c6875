"""Headers of JPEG 2000 files and codestreams, and the memory that decoding their tiles and code blocks takes.

Format: JPEG 2000 (ITU-T T.800), annexes A (codestream) and I (JP2).
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from .box_parts import boxes
from .decoder import PillowHeader, RefusedError, check_memory

_CODESTREAM = b"\xff\x4f\xff\x51"
_SIZ, _COD, _COC, _SOT = 0x51, 0x52, 0x53, 0x90
_SIGNED = 0x80
_SRGB, _GRAY, _SYCC = 16, 17, 18
# Color spaces by the number of components: numbers of a color specification box, or what a profile says.
_ONE, _THREE = {None, _GRAY, _SRGB, b"GRAY", b"RGB "}, {None, _SRGB, _SYCC, b"RGB "}
_SPACES = {1: _ONE, 2: {None, _GRAY, b"GRAY"}, 3: _THREE, 4: _THREE - {_SYCC}}
# Bytes of a tile, a precinct and a code block with their lists, measured with OpenJPEG 2.5.
_TILE, _PRECINCT, _BLOCK = 8192, 512, 256
_WAVELET_PLANE = 4  # bytes per sample


def jpeg2k_contents(data: bytes) -> PillowHeader:
    """Read the header of a JPEG 2000 file."""
    start, header = (0, _Boxes()) if data[:4] == _CODESTREAM else _jp2_boxes(data)
    if data[start : start + 4] != _CODESTREAM:
        raise ValueError("no codestream")
    x1, y1, x0, y0, tile_w, tile_h, tile_x, tile_y, count = struct.unpack_from(">8IH", data, start + 8)
    height, width = y1 - y0, x1 - x0
    if height < 1 or width < 1:
        raise ValueError(f"size {height} x {width}")
    bits = _checked_bits(data, start, count)
    found = height, width, count, bits
    parts = [data]
    if header.size == (height, width, count, bits + 1):  # FFmpeg writes the bits, where one less belongs
        parts = [data[: header.bits_at], bytes([bits - 1]), data[header.bits_at + 1 :]]
    elif header.size is not None and header.size != found:
        raise ValueError(
            f"height, width, components and bits are {header.size} in its header, {found} in its codestream"
        )
    _check_colors(header, count, bits)
    if tile_x > x0 or tile_y > y0 or tile_x + tile_w <= x0 or tile_y + tile_h <= y0:
        raise ValueError(f"tiles of {tile_h} x {tile_w} at {tile_y}, {tile_x}")
    tiles = -(-(x1 - tile_x) // tile_w) * -(-(y1 - tile_y) // tile_h)
    # Refuse numbers of tiles, precincts and code blocks that no image of this size needs.
    check_memory(tiles * count * _TILE, height, width, f"{tiles} tiles")
    worst = 0
    for marker, body in _segments(data, start + 2):
        if marker == _COD:
            worst = max(worst, _cost(body[5:], height * width, bool(body[0] & 1)))
        elif marker == _COC:  # of one component, whose number comes first
            worst = max(worst, _cost(body[2:], height * width, bool(body[1] & 1)))
    check_memory(count * (worst + _WAVELET_PLANE * height * width), height, width, "small code blocks or precincts")
    usual = {1: (None, _GRAY), 3: (None, _SRGB)}.get(count, ())
    is_common = header.colors in usual and not (header.channels or header.has_palette) and bits in (8, 16)
    is_common = is_common and parts == [data] and (x0, y0, tile_x, tile_y) == (0, 0, 0, 0)
    return PillowHeader(height, width, count + 2 * header.has_palette, parts, depth=bits, is_common=is_common)


def _checked_bits(data: bytes, start: int, count: int) -> int:
    """Return the bits of the components; refuse what no decoder here is known to decode right."""
    if not 1 <= count <= 4:
        raise RefusedError(f"{count} components, not 1 to 4")
    sizes = {struct.unpack_from("BBB", data, start + 42 + 3 * k) for k in range(count)}
    (bits, *steps), *others = sizes
    if others:
        raise RefusedError("components of different sizes or bits are not supported")
    if steps != [1, 1]:
        raise RefusedError("subsampled components are not supported")
    if bits & _SIGNED:
        raise RefusedError("signed components are not supported")
    bits = int(bits) + 1
    if not 8 <= bits <= 16 or (bits > 8 and count == 2):
        raise RefusedError(
            f"{count} components of {bits} bits are not supported, only of 8 to 16, or of 8 with alpha for gray"
        )
    return bits


def _check_colors(header: "_Boxes", count: int, bits: int) -> None:
    """Refuse colors, palettes and orders of channels that Pillow would show as others."""
    if header.colors not in _SPACES[count]:
        raise RefusedError(f"{count} components in the color space {header.colors!r} are not supported")
    if header.colors == _SYCC and bits > 8:
        raise RefusedError(f"YCbCr of {bits} bits is not supported")
    if header.has_palette and (count, bits) != (1, 8):
        raise RefusedError(f"a palette for {count} components of {bits} bits is not supported")
    colors = 3 if header.has_palette or count > 2 else 1
    usual = {(k, 0, k + 1) for k in range(colors)} | {(colors, kind, 0) for kind in (0, 1)}
    if header.channels and not usual >= header.channels >= {(k, 0, k + 1) for k in range(colors)}:
        raise RefusedError("channels in an order of their own, or alpha that is premultiplied, are not supported")


def _cost(parameters: bytes, samples: int, precincts: bool) -> int:
    """Return the bytes of a component's lists of precincts and code blocks."""
    levels, width, height = parameters[:3]
    if levels > 32 or width > 8 or height > 8 or width + height > 8:
        raise ValueError(f"{levels} resolution levels, code blocks of 2^{width + 2} x 2^{height + 2}")
    sizes = parameters[5 : 6 + levels] if precincts else b"\xff" * (levels + 1)
    total = 0
    for level, size in enumerate(sizes):
        part = samples >> 2 * (levels - level)
        precinct = 1 << (size & 15) + (size >> 4)
        block = min(16 << width + height, max(precinct // 4, 1))
        total += part // precinct * _PRECINCT + part // block * _BLOCK
    return total


def _segments(data: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """Yield marker and body of each marker segment of the main header."""
    while True:
        first, marker, size = struct.unpack_from(">BBH", data, at)
        if marker == _SOT and first == 0xFF:
            return
        if first != 0xFF or size < 2:
            raise ValueError("its main header is damaged")
        yield marker, data[at + 4 : at + 2 + size]
        at += 2 + size


class _Boxes(NamedTuple):
    """What a JP2 header says."""

    size: tuple[int, int, int, int] | None = None  # height, width, components and their bits
    bits_at: int = 0  # the byte that has these
    colors: int | bytes | None = None  # number of a color space, or the name of a profile's
    has_palette: bool = False
    channels: frozenset[tuple[int, int, int]] = frozenset()  # number, kind and color


def _jp2_boxes(data: bytes) -> tuple[int, _Boxes]:
    """Return the codestream's offset, and what the header's boxes say."""
    found = _Boxes()
    for name, start, stop in boxes(data, 0, len(data)):
        if name == b"jp2c":
            return start, found
        if name != b"jp2h":
            continue
        for inner, at, end in boxes(data, start, stop):
            if inner == b"ihdr":
                height, width, count, bits = struct.unpack_from(">IIHB", data, at)
                found = found._replace(size=(height, width, count, bits + 1), bits_at=at + 10)
            elif inner == b"colr" and found.colors is None:
                method = data[at]
                (colors,) = struct.unpack_from(">I", data, at + 3) if method == 1 else (data[at + 19 : at + 23],)
                found = found._replace(colors=colors)
            elif inner == b"pclr":
                columns, sizes = data[at + 2], set(data[at + 3 : at + 3 + data[at + 2]])
                if columns != 3 or sizes != {7}:
                    raise RefusedError(f"a palette of {columns} columns, or not of 8 bits, is not supported")
                found = found._replace(has_palette=True)
            elif inner == b"cdef":
                channels = struct.iter_unpack(">3H", data[at + 2 : at + 2 + (end - at - 2) // 6 * 6])
                found = found._replace(channels=found.channels | set(channels))
    raise ValueError("no codestream")
