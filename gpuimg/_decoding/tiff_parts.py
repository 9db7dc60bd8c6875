"""The first directory of a TIFF file, reduced to the tags that affect its pixels.

Pillow warns of damaged tags that do not affect the image, and it depends on their versions whether Pillow or libtiff
applies the orientation. So Pillow receives a file with the tags it needs and no orientation.
Formats: TIFF 6.0; BigTIFF.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from .decoder import PillowHeader, RefusedError, check_memory

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER = 256, 257, 258, 259, 262, 266
_OFFSETS, _ORIENTATION, _SAMPLES, _ROWS, _COUNTS, _PLANAR, _PREDICTOR = 273, 274, 277, 278, 279, 284, 317
_TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_COUNTS, _EXTRA, _FORMAT = 322, 323, 324, 325, 338, 339
_PALETTE = 3
_RAW = 1
_KEPT = {
    _WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER, _OFFSETS, _SAMPLES, _ROWS, _COUNTS, _PLANAR,
    _PREDICTOR, _TILE_WIDTH, _TILE_HEIGHT, _TILE_OFFSETS, _TILE_COUNTS, _EXTRA, _FORMAT,
    292, 293,  # options of the fax compressions
    320, 347, 529, 530, 531, 532,  # palette, JPEG tables, YCbCr coefficients, sampling, position, reference
    *range(512, 522),  # old JPEG
}  # fmt: skip
_READ = {*_KEPT, _ORIENTATION}
_SINGLE = {_WIDTH, _HEIGHT, _COMPRESSION, _PHOTOMETRIC, _FILL_ORDER, _SAMPLES, _ROWS, _PLANAR, _PREDICTOR,
           _TILE_WIDTH, _TILE_HEIGHT}  # fmt: skip
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_WHOLE = {1: "B", 3: "H", 4: "I", 16: "Q"}
_LONG = 4
_HEAD = 8  # bytes of the file header, before the data it points to
_MOST_SAMPLES = 8
_LEAST_TILE = 16


class _Entry(NamedTuple):
    kind: int
    length: int
    value: bytes | memoryview


class _Directory(NamedTuple):
    order: str
    entries: dict[int, _Entry]

    def numbers(self, tag: int, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """Return the integers of a tag."""
        entry = self.entries.get(tag)
        if entry is None:
            return default
        if entry.kind not in _WHOLE:
            raise ValueError(f"tag {tag} is of type {entry.kind}")
        return struct.unpack(f"{self.order}{entry.length}{_WHOLE[entry.kind]}", entry.value)

    def number(self, tag: int, default: int) -> int:
        """Return the integer of a tag that holds only one."""
        found = self.numbers(tag, (default,))
        if len(found) != 1:
            raise ValueError(f"tag {tag} has {len(found)} values, not 1")
        return found[0]


def tiff_contents(data: bytes) -> PillowHeader:
    """Read the first directory of a TIFF file."""
    try:
        directory = _read(data)
    except struct.error:
        raise ValueError("the header is truncated or damaged: no directory at the offset it gives") from None
    height, width = directory.number(_HEIGHT, 0), directory.number(_WIDTH, 0)
    for tag in _SINGLE & directory.entries.keys():
        directory.number(tag, 0)
    bits = directory.numbers(_BITS, (1,))
    _check_samples(directory, bits)
    _check_blocks(directory, len(data), height, width, max(bits))
    orientation = directory.entries.get(_ORIENTATION)
    turn = directory.number(_ORIENTATION, 1) if orientation and orientation.kind in _WHOLE else 1
    channels = directory.number(_SAMPLES, 1)
    if directory.number(_PHOTOMETRIC, 0) == _PALETTE:
        channels += 2
    turn = turn if 1 <= turn <= 8 else 1
    return PillowHeader(height, width, channels, _parts(directory, data), turn, bits=max(bits), depth=max(bits))


def _read(data: bytes) -> _Directory:
    order = "<" if data[:2] == b"II" else ">"
    (magic,) = struct.unpack_from(order + "H", data, 2)
    big = magic == 43
    (at,) = struct.unpack_from(order + ("Q" if big else "I"), data, 8 if big else 4)
    (count,) = struct.unpack_from(order + ("Q" if big else "H"), data, at)
    at += 8 if big else 2
    entries: dict[int, _Entry] = {}
    view = memoryview(data)
    step, inline, pointer = (20, 8, "Q") if big else (12, 4, "I")
    if count * step > len(data):
        raise ValueError(f"the directory has {count} tags")
    for start in range(at, at + count * step, step):
        tag, kind, values = struct.unpack_from(order + "HH" + pointer, data, start)
        if tag not in _READ or tag in entries or kind not in _SIZES:
            continue
        size, place = values * _SIZES[kind], start + step - inline
        if size > inline:
            (place,) = struct.unpack_from(order + pointer, data, place)
        if place + size > len(data) or values == 0:
            raise ValueError(f"tag {tag} has {values} values at byte {place}, outside the file")
        entries[tag] = _Entry(kind, values, view[place : place + size])
    return _Directory(order, entries)


def _check_samples(directory: _Directory, bits: tuple[int, ...]) -> None:
    samples, form = directory.number(_SAMPLES, 1), max(directory.numbers(_FORMAT, (1,)))
    if not 1 <= samples <= _MOST_SAMPLES or len(bits) > _MOST_SAMPLES:
        raise RefusedError(f"{samples} samples per pixel, not 1 to {_MOST_SAMPLES}")
    if form == 3:
        raise RefusedError(
            f"floating-point samples ({max(bits)} bits) are not supported, only integers of 1 to 16 bits"
        )
    if max(bits) > 16:
        raise RefusedError(f"samples of {max(bits)} bits are not supported, only of 1 to 16")
    if form == 2 and max(bits) > 8:
        raise RefusedError(f"signed samples of {max(bits)} bits are not supported")


def _check_blocks(directory: _Directory, end: int, height: int, width: int, bits: int) -> None:
    """Refuse strips or tiles whose size or number does not fit the image, or that extend past the end of the file."""
    if height < 1 or width < 1:
        raise ValueError(f"size {height} x {width}")
    tiled = _TILE_OFFSETS in directory.entries and _OFFSETS not in directory.entries
    samples = directory.number(_SAMPLES, 1)
    planes = samples if directory.number(_PLANAR, 1) == 2 else 1
    rows, columns = min(directory.number(_ROWS, height), height), width
    if tiled:
        rows, columns = directory.number(_TILE_HEIGHT, 0), directory.number(_TILE_WIDTH, 0)
    if rows < 1 or (tiled and min(rows, columns) < _LEAST_TILE):
        raise ValueError(f"{'tiles' if tiled else 'strips'} of {rows} x {columns}")
    needed = 2 * rows * ((columns * samples // planes * bits + 7) // 8)
    check_memory(needed, height, width, f"{'a tile' if tiled else 'a strip'} of {rows} x {columns}")
    wanted = -(-height // rows) * -(-width // columns) * planes
    offsets = directory.numbers(_TILE_OFFSETS if tiled else _OFFSETS)
    counts = directory.numbers(_TILE_COUNTS if tiled else _COUNTS)
    if len(offsets) < wanted:
        raise ValueError(f"{len(offsets)} strips or tiles of {wanted}")
    if any(offset + count > end for offset, count in zip(offsets, counts, strict=False)):
        raise ValueError("the data ends before its last strip or tile")


# -- the file passed to Pillow -----------------------------------------------------------------------------------------


def _parts(directory: _Directory, data: bytes) -> Iterator[bytes | memoryview]:
    """Yield a file with the directory; if strips are compressed, with all bytes of the original, for libtiff."""
    entries = {tag: _wide(directory, tag, entry) for tag, entry in directory.entries.items() if tag in _KEPT}
    at = _HEAD if directory.number(_COMPRESSION, _RAW) == _RAW else len(data)
    yield (b"II" if directory.order == "<" else b"MM") + struct.pack(directory.order + "HI", 42, at)
    yield memoryview(data)[_HEAD:at]
    yield _written(directory, entries, at)


def _wide(directory: _Directory, tag: int, entry: _Entry) -> _Entry:
    """Convert the 64-bit integers of BigTIFF to 32 bits; Pillow receives a classic TIFF file."""
    if entry.kind != 16:
        return entry
    numbers = directory.numbers(tag)
    if max(numbers) >= 1 << 32:
        raise ValueError(f"tag {tag} is {max(numbers)}")
    return _Entry(_LONG, entry.length, struct.pack(f"{directory.order}{len(numbers)}I", *numbers))


def _written(directory: _Directory, entries: dict[int, _Entry], at: int) -> bytes:
    """Return a directory for byte ``at`` of a file, followed by the values that do not fit into it."""
    order = directory.order
    table = struct.pack(order + "H", len(entries))
    values_at = at + len(table) + len(entries) * 12 + 4
    values = b""
    for tag, entry in sorted(entries.items()):
        value = bytes(entry.value)
        if len(value) > 4:
            place = struct.pack(order + "I", values_at + len(values))
            values += value + bytes(len(value) & 1)
        else:
            place = value.ljust(4, b"\0")
        table += struct.pack(order + "HHI", tag, entry.kind, entry.length) + place
    return table + bytes(4) + values
