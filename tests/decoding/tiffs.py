"""TIFF files of every build, written here: no library writes them all.

Format: TIFF 6.0; BigTIFF.
"""

import struct
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

SHORT, LONG, RATIONAL, LONG8 = 3, 4, 5, 16
_LETTERS = {SHORT: "H", LONG: "I", RATIONAL: "I", LONG8: "Q"}
_PLACES = {324, 325, 330}
_IN_HALVES = {258, 262, 274, 277, 284, 317, 320, 338, 339, 530}  # tags of 16-bit values


def tiff(
    blocks: Sequence[bytes], tags: dict[int, Any], *, order: str = "<", big: bool = False, tiled: bool = False
) -> bytes:
    """A file of these strips or tiles, already packed, with these tags."""
    return pages([(blocks, tags)], order=order, big=big, tiled=tiled)


def pages(
    images: Sequence[tuple[Sequence[bytes], dict[int, Any]]], *, order: str = "<", big: bool = False,
    tiled: bool = False, inner: bool = False,
) -> bytes:  # fmt: skip
    """A file of several images, each with its blocks and tags; ``inner``: all but the first are parts of it.

    Values of tags are integers, fractions, texts, or bytes of no type. Blocks of no bytes are not stored.
    """
    head, word = (16, "Q") if big else (8, "I")
    version = struct.pack(order + "HHH", 43, 8, 0) if big else struct.pack(order + "H", 42)
    body, tables = b"", []
    for blocks, tags in images:
        sizes = [len(block) for block in blocks]
        places = (head + len(body) + np.cumsum([0, *sizes])[:-1]).tolist()
        offsets, counts = (324, 325) if tiled else (273, 279)
        tables.append(
            {offsets: [place * (size > 0) for place, size in zip(places, sizes, strict=True)], counts: sizes} | tags
        )
        body += b"".join(blocks)
    at = head + len(body)
    first, starts = b"", list[int]()
    for k in reversed(range(len(tables))):  # those that others refer to first
        tags = tables[k] | ({330: starts[::-1]} if inner and k == 0 and starts else {})
        following = starts[-1] if starts and not inner else 0
        values, directory = _directory(tags, at, following, order=order, big=big)
        starts.append(at)
        first += directory + values
        at += len(directory) + len(values)
    mark = b"II" if order == "<" else b"MM"
    return mark + version + struct.pack(order + word, starts[-1]) + body + first


def _directory(tags: dict[int, Any], at: int, following: int, *, order: str, big: bool) -> tuple[bytes, bytes]:
    """The values that do not fit into a directory at this byte, and the directory."""
    word, inline = ("Q", 8) if big else ("I", 4)
    table, values = b"", b""
    at += (8 if big else 2) + len(tags) * (20 if big else 12) + inline
    for tag, given in sorted(tags.items()):
        if isinstance(given, (bytes, str)):
            kind, value = (7, given) if isinstance(given, bytes) else (2, given.encode() + b"\0")
            count = len(value)
        else:
            numbers = [given] if isinstance(given, int) else list(given)
            kind = SHORT if tag in _IN_HALVES else LONG if isinstance(numbers[0], int) else RATIONAL
            kind = LONG8 if big and tag in _PLACES else kind
            whole = numbers if kind != RATIONAL else [k for one in numbers for k in (round(one * 10**6), 10**6)]
            value, count = struct.pack(f"{order}{len(whole)}{_LETTERS[kind]}", *whole), len(numbers)
        if len(value) > inline:
            value, values = struct.pack(order + word, at + len(values)), values + value
        table += struct.pack(order + "HH" + word, tag, kind, count) + value.ljust(inline, b"\0")
    return values, struct.pack(order + ("Q" if big else "H"), len(tags)) + table + struct.pack(order + word, following)


def of_array(
    pixels: NDArray[Any], photometric: int, *, order: Literal["<", ">"] = "<", tile: tuple[int, int] | None = None,
    planar: bool = False, rows: int | None = None, pack: Any = bytes, tags: dict[int, Any] | None = None,
    big: bool = False, encode: Any = np.ndarray.tobytes,
) -> bytes:  # fmt: skip
    """A file of (H, W, C) pixels in strips of ``rows`` or tiles; ``pack`` makes the bytes of each, once encoded."""
    height, width, samples = pixels.shape
    pixels = pixels.astype(pixels.dtype.newbyteorder(order))
    planes = [pixels[..., k : k + 1] for k in range(samples)] if planar else [pixels]
    tile_h, tile_w = tile or (rows or height, width)
    blocks = []
    for plane in planes:
        for y in range(0, height, tile_h):
            for x in range(0, width, tile_w):
                block = plane[y : y + tile_h, x : x + tile_w]
                if tile:
                    missing = (0, tile_h - block.shape[0]), (0, tile_w - block.shape[1]), (0, 0)
                    block = np.pad(block, missing, mode="edge")
                blocks.append(pack(encode(block)))
    shape = {322: tile_w, 323: tile_h} if tile else {278: tile_h}
    header: dict[int, Any] = {
        256: width, 257: height, 258: [8 * pixels.dtype.itemsize] * samples, 259: 1, 262: photometric, 277: samples,
        284: 2 if planar else 1, **shape, **(tags or {}),
    }  # fmt: skip
    return tiff(blocks, header, order=order, tiled=tile is not None, big=big)
