"""Damaged seek indexes: decoding with them gives the same pixels, maybe slower; `guard_pages` has forged entries."""

import struct
import zlib
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from gpuimg._index.seek_index import SeekIndex
from gpuimg.kernels.jpeg import layout as words

from ..decoding import jpegs
from .mutate import ANYWHERE, NUMBERS, Draw, bit_flips, changed
from .originals import jpeg, picture

_HEADER, _WORD = 56, 8  # bytes
_STATUS = ("unused", "used", "other size", "other file", "damaged", "mismatch")


@cache
def files(seed: int) -> list[bytes]:
    """A data set: the sizes and the ways of encoding are the same for every seed."""
    return [
        jpeg(picture(64, 96, seed), subsampling=2),
        jpeg(picture(61, 83, seed + 1), subsampling=2, optimize=True),
        jpeg(picture(48, 56, seed + 2), subsampling=0),
        jpeg(picture(56, 80, seed + 3).convert("L")),
        jpeg(picture(50, 64, seed + 4), subsampling=1),
        jpeg(picture(40, 40, seed + 5), progressive=True),
        b"no image",
    ]


def _words(data: bytes) -> tuple[int, ...]:
    return struct.unpack_from(f"<{len(files(0)) + 1}Q", data, _HEADER)


def _sealed(draw: Draw, data: bytes, _: bytes) -> bytes:
    """The size and the checksum that a header must have."""
    if len(data) >= _HEADER:
        head = data[:32] + struct.pack("<Q", len(data)) + data[40:52]
        data = head + struct.pack("<I", zlib.crc32(head)) + data[_HEADER:]
    return data


def _header_field(draw: Draw, data: bytes, other: bytes) -> bytes:
    """Samples, sizes or the checksum of names, in a valid header."""
    at = draw.between(24, 51)
    number = draw.pick((0, 1, 2, 3, 5, 7, 9, 1 << 16, (1 << 32) - 1, draw.below(1 << 32)))
    return _sealed(draw, data[:at] + struct.pack("<I", number) + data[at + 4 :], other)


def _table_word(draw: Draw, data: bytes, _: bytes) -> bytes:
    """Another number in the table, its kind kept or not; or two exchanged."""
    if len(data) < _HEADER + _WORD * (len(files(0)) + 1):  # cut by the change before
        return data
    found = list(_words(data))
    one, other = draw.below(len(found)), draw.below(len(found))
    number = draw.pick((*NUMBERS, draw.below(len(data)), len(data), draw.word()))
    kept = found[one] >> 48 << 48 | number & (1 << 48) - 1
    found[one], found[other] = draw.pick(((found[other], found[one]), (number, found[other]), (kept, found[other])))
    return data[:_HEADER] + struct.pack(f"<{len(found)}Q", *found) + data[_HEADER + _WORD * len(found) :]


def _another(draw: Draw, data: bytes, other: bytes) -> bytes:
    return other


_KINDS = (*ANYWHERE, bit_flips, _table_word, _table_word, _header_field, _header_field, _sealed, _sealed, _another)


def check(folder: Path) -> Callable[[int], Counter[str]]:
    decoder, path = jpegs.Decoder(), folder / "index"

    @cache
    def intact(seed: int) -> bytes:
        gi.build_index([(one, 0) for one in files(seed)], folder / str(seed))
        return (folder / str(seed)).read_bytes()

    def decoded(draw: Draw, data: bytes, entry: Any) -> str:
        header = jpegs.header_of(data)
        if header["kind"] != words.BASELINE or entry is None:
            return "no entry" if entry is None else "not ours"
        region = draw.region(int(header["height"]), int(header["width"]))
        found = decoder(data, region, header=header, entry=entry)
        assert found.how == words.DONE, found[1:]
        assert np.array_equal(found.pixels, decoder(data, region, header=header).pixels), region
        return _STATUS[found.entry]

    def checked(number: int) -> Counter[str]:
        draw = Draw(number)
        path.write_bytes(changed(draw, intact(0), intact(100), _KINDS)[0])
        try:
            index = SeekIndex(path)
        except ValueError:
            return Counter(refused=1)
        entries = index.entries(range(-1, len(files(0)) + 1))[1:-1]
        return Counter(decoded(draw, one, entry) for one, entry in zip(files(0), entries, strict=True))

    return checked
