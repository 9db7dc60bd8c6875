"""Boxes of JP2, AVIF and HEIC files, and what those of AVIF say of the decoded picture.

Formats: ISO base media files (ISO/IEC 14496-12); HEIF (ISO/IEC 23008-12); AVIF 1.1 (AOMedia).
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from .decoder import RefusedError

_AS_IT_IS = (1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
_TRANSFORMATIONS = (b"clap", b"irot", b"imir")  # in the order of MIAF (ISO/IEC 23000-22), 7.3.6.7


class Picture(NamedTuple):
    """The primary image of an AVIF file: its region of what is decoded, if not all, and bits per value."""

    crop: tuple[int, int, int, int] | None = None  # y0, x0, y1, x1
    depth: int = 8


def boxes(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, start and end of the contents of each box."""
    while at + 8 <= end:
        size, name = struct.unpack_from(">I4s", data, at)
        start = at + 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", data, start)
            start += 8
        stop = at + size if size else end
        if stop < start:
            raise ValueError(f"box of length {size}")
        yield name, start, min(stop, end)
        at = stop


def avif_picture(data: bytes, height: int, width: int) -> Picture:
    """Return what the boxes say of the picture that libavif decodes to ``height`` x ``width``."""
    properties: list[tuple[bytes, int, int]] = []
    primary, links = None, dict[int, list[int]]()
    top = list(boxes(data, 0, len(data)))
    if data[8:12] == b"avis":
        _check_track(b"".join(data[start:end] for name, start, end in top if name == b"moov"))
    for name, start, end in _nested(data, top):
        if name == b"pitm":
            (primary,) = struct.unpack_from(">I" if data[start] else ">H", data, start + 4)
        elif name == b"ipma":
            links |= _links(data, start)
        elif name == b"ipco":
            properties = list(boxes(data, start, end))
    depth = max(
        (8 + (2 + (data[at + 2] >> 4 & 2)) * (data[at + 2] >> 6 & 1) for n, at, _ in properties if n == b"av1C"),
        default=8,
    )
    mine = [properties[k - 1] for k in links.get(primary or 0, ()) if 0 < k <= len(properties)]
    turns = [_TRANSFORMATIONS.index(name) for name, *_ in mine if name in _TRANSFORMATIONS]
    if turns != sorted(set(turns)):
        raise RefusedError("rotation, mirroring and cropping in an order of their own are not supported")
    crop = next((_crop(data, start, height, width) for name, start, _ in mine if name == b"clap"), None)
    return Picture(crop, depth)


def _nested(data: bytes, found: list[tuple[bytes, int, int]]) -> Iterator[tuple[bytes, int, int]]:
    for name, start, end in found:
        yield name, start, end
        if name in (b"meta", b"iprp"):
            yield from _nested(data, list(boxes(data, start + 4 * (name == b"meta"), end)))


def _links(data: bytes, at: int) -> dict[int, list[int]]:
    """Return the numbers of the properties of each item."""
    version, flags = data[at], data[at + 3]
    (count,) = struct.unpack_from(">I", data, at + 4)
    at, found = at + 8, dict[int, list[int]]()
    for _ in range(count):
        (item,) = struct.unpack_from(">I" if version else ">H", data, at)
        at += 4 if version else 2
        number, at = data[at], at + 1
        step = 2 if flags & 1 else 1
        values = struct.unpack_from(f">{number}{'H' if step == 2 else 'B'}", data, at)
        at += step * number
        found[item] = [value & (0x7FFF if step == 2 else 0x7F) for value in values]
    return found


def _crop(data: bytes, at: int, height: int, width: int) -> tuple[int, int, int, int]:
    """Return the clean aperture: a size and the offset of its center from the image's, as fractions."""
    numbers = struct.unpack_from(">IIIIiIiI", data, at)
    (w, h, x, y), below = numbers[::2], numbers[1::2]
    if 0 in below or w % below[0] or h % below[1]:
        raise RefusedError("a clean aperture with fractions of pixels is not supported")
    w, h = w // below[0], h // below[1]
    sides = []
    for side, inner, offset, scale in ((height, h, y, below[3]), (width, w, x, below[2])):
        start, rest = divmod((side - inner) * scale + 2 * offset, 2 * scale)
        if rest or start < 0 or inner < 1 or start + inner > side:
            raise RefusedError("a clean aperture with fractions of pixels, or outside the image, is not supported")
        sides.append((start, start + inner))
    (y0, y1), (x0, x1) = sides
    return y0, x0, y1, x1


def _check_track(movie: bytes) -> None:
    """Refuse image sequences whose track is cropped or turned: libavif decodes it, and ignores that."""
    at = movie.find(b"tkhd")
    turned = at >= 0 and struct.unpack_from(">9i", movie, at + (56 if movie[at + 4] else 44)) != _AS_IT_IS
    if turned or b"clap" in movie:
        raise RefusedError("an image sequence that is cropped, rotated or mirrored is not supported")
