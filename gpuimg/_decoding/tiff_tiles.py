"""Tiles of TIFF files, such as slides and satellite images, as image files of their own.

A JPEG tile is an abbreviated file: with the tables of its directory, and a marker that names its color space, it is a
baseline JPEG. As in libtiff and OpenSlide the tag names the color space, whatever the segments of the tile say. Tiles
of JPEG 2000, WebP and JPEG XL are files as they are; any other becomes a TIFF file of one tile.
Formats: TIFF 6.0, its technical note 2 (JPEG tables), and Aperio's and Adobe's compressions.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .chunked_parts import webp_contents
from .decoder import PillowHeader, RefusedError
from .jpeg2k_parts import jpeg2k_contents
from .jxl_parts import jxl_contents
from .tiff_directories import (
    HEAD,
    WHOLE,
    Directory,
    Form,
    Read,
    Tag,
    directories,
    form_of,
    integers,
    with_values,
    written,
)
from .tiff_parts import tiff_contents

_KIND, _WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _DESCRIPTION = 254, 256, 257, 258, 259, 262, 270
_SAMPLES, _PLANAR, _TILE_WIDTH, _TILE_HEIGHT, _OFFSETS, _COUNTS, _TABLES = 277, 284, 322, 323, 324, 325, 347
_XMP, _NDPI = 700, 65420
# Of a tile: fill order, predictor, palette, extra samples, format, ink set, and what YCbCr means.
_OF_PIXELS = {_BITS, _COMPRESSION, _PHOTOMETRIC, 266, _SAMPLES, 317, 320, 332, 338, 339, _TABLES, *range(529, 533)}
_SMALL = {_KIND, _WIDTH, _HEIGHT, _TILE_WIDTH, _TILE_HEIGHT}
_WANTED = {*_OF_PIXELS, *_SMALL, _PLANAR, _DESCRIPTION, _OFFSETS, _COUNTS, _XMP, _NDPI}
_JPEG, _WEBP, _JPEG2K, _APERIO_YCBCR, _JXL = 7, 50001, (34712, 33003, 33005), 33003, (50002, 52546)
_RGB, _YCBCR = 2, 6
_MASK = 4  # of the kind of a directory: a mask of transparency
_ALIKE = 0.01  # relative difference of the aspect ratios of levels, by rounding
_MOST_TILES, _MOST_PIXELS, _MOST_SEGMENTS = 1 << 26, 1 << 24, 1000
_MOST_TEXT, _MOST_BYTES = 1 << 24, 1 << 20  # of a description, and of tags that a tile needs
_SIDE = 16  # of which tile sides are multiples
_START, _END = b"\xff\xd8", b"\xff\xd9"
_SCAN, _FRAMES = 0xDA, {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_DROPPED = {*range(0xE0, 0xF0), 0xFE}  # of applications, and comments: nothing that libtiff takes notice of
_ADOBE = {_RGB: b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0", _YCBCR: b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\1"}
_JP2 = b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 \0\0\0\0jp2 \0\0\0\x2djp2h\0\0\0\x16ihdr"
_CODESTREAM, _SYCC = b"\xff\x4f\xff\x51", b"\0\0\0\x0fcolr\1\0\0\0\0\0\x12"

#: Kinds of slides whose tiles do not lie as in a TIFF file, or are in none, by tag and text in its first directory.
_OTHERS = (
    (_NDPI, b"", "Hamamatsu NDPI", "OpenSlide"),
    (_XMP, b"iScan", "Ventana BIF", "OpenSlide"),
    (_DESCRIPTION, b"leica-microsystems", "Leica SCN", "OpenSlide"),
    (_DESCRIPTION, b"OverlapsXY", "Trestle", "OpenSlide"),
)
_OTHER_FILES = (
    (128, b"DICM", "DICOM", "wsidicom"),
    (0, b"ZISRAWFILE", "Zeiss CZI", "pylibCZIrw"),
)


class Grid(NamedTuple):
    """A tiled image of a file: its size and that of its tiles, and its tags."""

    height: int
    width: int
    tile_height: int
    tile_width: int
    tags: dict[int, Tag]

    @property
    def columns(self) -> int:
        """Columns of tiles."""
        return -(-self.width // self.tile_width)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        return -(-self.height // self.tile_height), self.columns


class Pyramid(NamedTuple):
    """The tiled images of a file that show the same, the largest first."""

    form: Form
    grids: tuple[Grid, ...]
    description: str


class Stored(NamedTuple):
    """How the tiles of an image are stored, row by row: offsets and sizes in bytes, 0 for one that is not."""

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    bits: int
    file_of: Callable[[memoryview], bytes]  # makes a file of the bytes of a tile, or raises ValueError with the reason


def read_pyramid(read: Read, end: int) -> Pyramid:
    """Read the directories of a file of ``end`` bytes; raise ValueError for a file that is none, or of another kind."""
    head = bytes(read(0, HEAD))
    for at, mark, name, reader in _OTHER_FILES:
        if bytes(read(at, len(mark))) == mark:
            raise RefusedError(f"{name} is not supported; {reader} reads it")
    if head[:2] not in (b"II", b"MM") or head[2:4] not in (b"*\0", b"\0*", b"+\0", b"\0+"):
        hint = "; of a JPEG, gpuimg.crop decodes regions" if head[:2] == b"\xff\xd8" else ""
        raise ValueError(f"not a TIFF file (starts with {head!r}){hint}")
    try:
        form = form_of(read)
        found, description = [], ""
        for k, tags in enumerate(directories(read, end, form, _WANTED)):
            if k == 0:
                description = _checked_kind(read, tags)
            if (grid := _grid(read, form, tags)) is not None:
                found.append(grid)
    except struct.error:
        raise ValueError("a directory is truncated or damaged") from None
    if not found:
        raise RefusedError("no tiled image in it, only strips; gpuimg.open_batch decodes it as a whole")
    largest = max(found, key=lambda grid: grid.height * grid.width)
    levels: dict[tuple[int, int], Grid] = {}
    for grid in found:  # of one size the first: others are channels or focal planes
        across, down = grid.width * largest.height, grid.height * largest.width
        if abs(across - down) <= max(_ALIKE * down, largest.height + largest.width):
            levels.setdefault((grid.height, grid.width), grid)
    ordered = sorted(levels.values(), key=lambda grid: -grid.height * grid.width)
    return Pyramid(form, tuple(ordered), description)


def _checked_kind(read: Read, tags: dict[int, Tag]) -> str:
    """Return the description of a file, by its first directory; refuse kinds whose tiles do not lie side by side."""
    most = {_DESCRIPTION: _MOST_TEXT, _XMP: _MOST_BYTES, _NDPI: _MOST_BYTES}
    texts = {tag: bytes(read(tags[tag].place, min(tags[tag].size, most[tag]))) for tag in most if tag in tags}
    for tag, mark, name, reader in _OTHERS:
        if mark in texts.get(tag, b"") and tag in texts:
            raise RefusedError(f"{name} is not supported; {reader} reads it")
    return texts.get(_DESCRIPTION, b"").rstrip(b"\0").decode("utf-8", "replace")


def _grid(read: Read, form: Form, tags: dict[int, Tag]) -> Grid | None:
    """Return the tiled image of a directory; None if it has none, or a mask of one."""
    if _OFFSETS not in tags or _COUNTS not in tags:
        return None
    small = _values(read, form, tags, _SMALL)
    kind = small.number(_KIND, 0)
    height, width = small.number(_HEIGHT, 0), small.number(_WIDTH, 0)
    if kind & _MASK:
        return None
    grid = Grid(height, width, small.number(_TILE_HEIGHT, 0), small.number(_TILE_WIDTH, 0), tags)
    what = f"{grid.height} x {grid.width} in tiles of {grid.tile_height} x {grid.tile_width}"
    if min(grid[:4]) < 1 or grid.tile_height % _SIDE or grid.tile_width % _SIDE:
        raise ValueError(what)
    rows, columns = grid.shape
    if grid.tile_height * grid.tile_width > _MOST_PIXELS or rows * columns > _MOST_TILES:
        raise RefusedError(f"{what}: over the limit of {_MOST_PIXELS} pixels a tile, or of {_MOST_TILES} tiles")
    if min(tags[_OFFSETS].length, tags[_COUNTS].length) < rows * columns:
        raise ValueError(f"{what} has offsets of {tags[_OFFSETS].length} and sizes of {tags[_COUNTS].length} tiles")
    return grid


def _values(read: Read, form: Form, tags: dict[int, Tag], wanted: set[int]) -> Directory:
    """Read the values of some tags, none of which has many."""
    found = {tag: one for tag, one in tags.items() if tag in wanted}
    for tag, one in found.items():
        if one.size > _MOST_BYTES:
            raise ValueError(f"tag {tag} has {one.length} values")
    return with_values(read, form, found)


def stored_tiles(read: Read, end: int, form: Form, grid: Grid) -> Stored:
    """Read where the tiles of an image are; refuse what no decoder here takes."""
    directory = _values(read, form, grid.tags, {*_OF_PIXELS, _PLANAR})
    file_of = _maker(directory, grid)
    count = grid.shape[0] * grid.shape[1]
    found = []
    for tag in (_OFFSETS, _COUNTS):
        one = grid.tags[tag]
        if one.kind not in WHOLE:
            raise ValueError(f"tag {tag} is of type {one.kind}")
        dtype = np.dtype(f"{form.order}{WHOLE[one.kind]}")
        found.append(np.frombuffer(read(one.place, count * dtype.itemsize), dtype))
    offsets, sizes = (numbers.astype(np.int64) for numbers in found)  # those of 2^63 and more become negative
    outside = (offsets < 0) | (sizes < 0) | (sizes > end) | (offsets > end - sizes)
    if outside.any():
        tile = int(outside.argmax())
        raise ValueError(f"tile {tile} has {sizes[tile]} bytes at byte {offsets[tile]}, of a file of {end}")
    return Stored(offsets, sizes, directory.numbers(_BITS, (1,))[0], file_of)


def _maker(directory: Directory, grid: Grid) -> Callable[[memoryview], bytes]:
    compression, samples = directory.number(_COMPRESSION, 1), directory.number(_SAMPLES, 1)
    photometric, bits = directory.number(_PHOTOMETRIC, 0), directory.numbers(_BITS, (1,))
    if directory.number(_PLANAR, 1) != 1 and samples > 1:
        raise RefusedError("tiles of each sample by itself (planar configuration 2) are not supported")
    size = grid.tile_height, grid.tile_width
    if compression == _JPEG and (samples, photometric) in ((1, 1), (3, _RGB), (3, _YCBCR)) and set(bits) == {8}:
        tables = directory.entries.get(_TABLES)
        return _OfJpegs(size, samples, _jpeg_head(photometric, b"" if tables is None else bytes(tables.value)))
    if compression in (_WEBP, *_JXL):
        return _Checked(size, samples, webp_contents if compression == _WEBP else jxl_contents)
    if compression in _JPEG2K:
        if not 8 <= bits[0] <= 16 or (photometric == _YCBCR and compression != _APERIO_YCBCR):
            what = f"{bits[0]} bits{' of YCbCr' * (photometric == _YCBCR)}"
            raise RefusedError(f"tiles of {what} with JPEG 2000 compression of type {compression} are not supported")
        is_ycbcr = compression == _APERIO_YCBCR and samples == 3
        return _Checked(size, samples, jpeg2k_contents, _jp2_head(*size, samples, bits[0]) if is_ycbcr else b"")
    order, entries = directory.order, {tag: one for tag, one in directory.entries.items() if tag in _OF_PIXELS}
    numbers = {_WIDTH: size[1], _HEIGHT: size[0], _TILE_WIDTH: size[1], _TILE_HEIGHT: size[0], _OFFSETS: 0, _COUNTS: 0}
    entries |= {tag: integers(order, number) for tag, number in numbers.items()}
    entries[_OFFSETS] = integers(order, HEAD + len(written(order, entries, HEAD)))
    mark = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, HEAD)
    head = mark + written(order, entries, HEAD)
    tiff_contents(head)  # refuses what is not supported
    return _OfOthers(head, HEAD + 2 + 12 * sorted(entries).index(_COUNTS) + 8, order)


class _OfJpegs:
    """Makes JPEG files."""

    def __init__(self, size: tuple[int, int], samples: int, head: bytes) -> None:
        self._size, self._samples, self._head = size, samples, head
        self._usual = b"\0", b""  # what came before the scan of the last tile, and what replaces it

    def __call__(self, tile: memoryview) -> bytes:
        before, head = self._usual
        if bytes(tile[: len(before)]) != before:  # those of one writer begin alike
            before, head = self._usual = self._replaced(bytes(tile))
        return b"".join((head, tile[len(before) :]))

    def _replaced(self, tile: bytes) -> tuple[bytes, bytes]:
        """Return what precedes the data of a tile's scan, and what precedes them in its file."""
        if tile[:2] != _START:
            raise ValueError(f"not a JPEG (starts with {tile[:4]!r})")
        parts, frame, end = [self._head], None, 0
        for marker, segment, stop in _segments(tile, 2):
            end = stop
            if marker in _FRAMES:
                height, width, samples = struct.unpack(">HHB", segment[5:10].ljust(5, b"\0"))
                frame = height, width, samples
                if frame != (*self._size, self._samples):
                    raise ValueError(
                        f"its JPEG has {samples} components of {height} x {width}, but its directory {self._samples} "
                        f"of {self._size[0]} x {self._size[1]}"
                    )
            if marker not in _DROPPED:
                parts.append(segment)
            if marker == _SCAN:
                break
        else:
            raise ValueError("its JPEG has no scan")
        if frame is None:
            raise ValueError("its JPEG has no frame header")
        return tile[:end], b"".join(parts)


@dataclass(frozen=True)
class _Checked:
    """Passes on tiles that are files, behind ``head`` if they are codestreams of JPEG 2000."""

    size: tuple[int, int]
    samples: int
    contents: Callable[[bytes], PillowHeader]
    head: bytes = b""

    def __call__(self, tile: memoryview) -> bytes:
        data = bytes(tile)
        try:
            header = self.contents(data)
        except (struct.error, IndexError):
            raise ValueError("its header is truncated") from None
        if (header.height, header.width) != self.size or header.channels < self.samples or header.orientation != 1:
            raise ValueError(
                f"its header gives {header.channels} channels of {header.height} x {header.width} and orientation "
                f"{header.orientation}, but its directory {self.samples} of {self.size[0]} x {self.size[1]}"
            )
        return self.head + data if self.head and data[:4] == _CODESTREAM else data


@dataclass(frozen=True)
class _OfOthers:
    """Makes TIFF files of one tile."""

    head: bytes
    at: int  # where the number of bytes of the tile belongs
    order: str

    def __call__(self, tile: memoryview) -> bytes:
        size = struct.pack(self.order + "I", len(tile))
        return b"".join([self.head[: self.at], size, self.head[self.at + 4 :], tile])


def _jpeg_head(photometric: int, tables: bytes) -> bytes:
    """Return the start of a JPEG file: the marker of its color space and the tables of its directory."""
    kept = b""
    if tables:
        if tables[:2] != _START or tables[-2:] != _END:
            raise ValueError("its JPEG tables have no start or no end")
        for marker, segment, _ in _segments(tables[:-2], 2):
            if marker in _FRAMES or marker == _SCAN:
                raise ValueError("its JPEG tables hold an image")
            kept += segment if marker not in _DROPPED else b""
    return _START + _ADOBE.get(photometric, b"") + kept


def _segments(data: bytes, at: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield marker, bytes and end of each segment, up to the header of a scan or the end."""
    for _ in range(_MOST_SEGMENTS):
        if at >= len(data):
            return
        if data[at : at + 2] == b"\xff\xff":  # a fill byte
            at += 1
            continue
        stop = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if data[at] != 0xFF or not at + 4 <= stop <= len(data):
            raise ValueError("its JPEG segments do not follow each other")
        yield data[at + 1], data[at:stop], stop
        at = stop
    raise ValueError(f"over {_MOST_SEGMENTS} JPEG segments and fill bytes")


def _jp2_head(height: int, width: int, samples: int, bits: int) -> bytes:
    """Return what precedes a codestream of YCbCr in a JP2 file."""
    return _JP2 + struct.pack(">IIHBBBB", height, width, samples, bits - 1, 7, 0, 0) + _SYCC + b"\0\0\0\0jp2c"
