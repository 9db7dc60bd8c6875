"""TIFF files of every build, written here: no library writes them all.

Format: TIFF 6.0; BigTIFF.
"""

import struct
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

SHORT, LONG, RATIONAL = 3, 4, 5
_LETTERS = {SHORT: "H", LONG: "I", RATIONAL: "I"}
_IN_HALVES = {258, 262, 274, 277, 284, 317, 320, 338, 339, 530}  # tags of 16-bit values


def tiff(
    blocks: Sequence[bytes], tags: dict[int, int | Sequence[int]], *, order: str = "<", big: bool = False,
    tiled: bool = False,
) -> bytes:  # fmt: skip
    """A file of these strips or tiles, already packed, with these tags."""
    head, word = (16, "Q") if big else (8, "I")
    places = np.cumsum([head, *map(len, blocks)]).tolist()
    offsets, counts = (324, 325) if tiled else (273, 279)
    tags = {**tags, offsets: places[:-1], counts: [len(block) for block in blocks]}
    table, values, inline = b"", b"", 8 if big else 4
    at = places[-1] + (8 if big else 2) + len(tags) * (20 if big else 12) + inline
    for tag, given in sorted(tags.items()):
        numbers = [given] if isinstance(given, int) else list(given)
        kind = SHORT if tag in _IN_HALVES else LONG if isinstance(numbers[0], int) else RATIONAL
        whole = numbers if kind != RATIONAL else [k for one in numbers for k in (round(one * 10**6), 10**6)]
        value = struct.pack(f"{order}{len(whole)}{_LETTERS[kind]}", *whole)
        if len(value) > inline:
            value, values = struct.pack(order + word, at + len(values)), values + value
        table += struct.pack(order + "HH" + word, tag, kind, len(numbers)) + value.ljust(inline, b"\0")
    mark = b"II" if order == "<" else b"MM"
    first = struct.pack(order + ("HHHQ" if big else "HI"), *((43, 8, 0) if big else (42,)), places[-1])
    count = struct.pack(order + ("Q" if big else "H"), len(tags))
    return mark + first + b"".join(blocks) + count + table + bytes(inline) + values


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
