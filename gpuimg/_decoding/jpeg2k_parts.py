"""Headers of JPEG 2000 files and codestreams, and the memory that decoding their tiles and code blocks takes.

Format: JPEG 2000 (ITU-T T.800), annexes A (codestream) and I (JP2).
"""

import struct
from collections.abc import Iterator

from .decoder import PillowHeader, RefusedError, check_memory

_CODESTREAM = b"\xff\x4f\xff\x51"
_SIZ, _COD, _COC, _SOT = 0x51, 0x52, 0x53, 0x90
# Bytes of a tile, a precinct and a code block with their lists, measured with OpenJPEG 2.5.
_TILE, _PRECINCT, _BLOCK = 8192, 512, 256
_WAVELET_PLANE = 4  # bytes per sample


def jpeg2k_contents(data: bytes) -> PillowHeader:
    """Read the header of a JPEG 2000 file."""
    start, header = (0, None) if data[:4] == _CODESTREAM else _jp2_boxes(data)
    if data[start : start + 4] != _CODESTREAM:
        raise ValueError("no codestream")
    x1, y1, x0, y0, tile_w, tile_h, tile_x, tile_y, count = struct.unpack_from(">8IH", data, start + 8)
    height, width = y1 - y0, x1 - x0
    if height < 1 or width < 1:
        raise ValueError(f"size {height} x {width}")
    if header is not None and header != (height, width, count):
        found = height, width, count
        raise ValueError(f"height, width and components are {header} in its header, {found} in its codestream")
    if not 1 <= count <= 4:
        raise RefusedError(f"{count} components, not 1 to 4")
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
    return PillowHeader(height, width, count, [data])


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


def _jp2_boxes(data: bytes) -> tuple[int, tuple[int, int, int] | None]:
    """Return the codestream's offset, and height, width and components of the image header."""
    header = None
    for name, start, stop in _boxes(data, 0, len(data)):
        if name == b"jp2c":
            return start, header
        if name == b"jp2h":
            for inner, at, _ in _boxes(data, start, stop):
                if inner == b"ihdr":
                    height, width, count = struct.unpack_from(">IIH", data, at)
                    header = height, width, count
    raise ValueError("no codestream")


def _boxes(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    while at + 8 <= end:
        size, name = struct.unpack_from(">I4s", data, at)
        start = at + 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", data, start)
            start += 8
        stop = at + size if size else end
        if stop < start:
            raise ValueError(f"JP2 box of length {size}")
        yield name, start, min(stop, end)
        at = stop
