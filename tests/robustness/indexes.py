"""Damaged seek indexes, and entries built of damaged files: decoding with them gives the same pixels, maybe slower."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from gpuimg._index.entries import EntryMaker
from gpuimg._index.seek_index import SeekIndex
from gpuimg.kernels.jpeg import layout as words

from ..decoding import jpegs
from ..decoding.seek_oracle import checksum_of_entry
from .mutate import ANYWHERE, NUMBERS, Draw, bit_flips, changed, mutation
from .originals import jpeg, picture

_HEADER, _WORD = 56, 8  # bytes
_EVERY = 16  # where in a header it is
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
    """The table of the positions of entries."""
    return struct.unpack_from(f"<{len(files(0)) + 1}Q", data, _HEADER)


def _sealed(draw: Draw, data: bytes, _: bytes) -> bytes:
    """The size and the checksum that a header must have."""
    if len(data) >= _HEADER:
        head = data[:32] + struct.pack("<Q", len(data)) + data[40:52]
        data = head + struct.pack("<I", zlib.crc32(head)) + data[_HEADER:]
    return data


def _header_field(draw: Draw, data: bytes, other: bytes) -> bytes:
    """Samples, sizes, the checksum of names or the length of segments, in a valid header."""
    at = draw.pick((_EVERY, draw.between(24, 51)))
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
    """The index of other files."""
    return other


_KINDS = (*ANYWHERE, bit_flips, _table_word, _table_word, _header_field, _header_field, _sealed, _sealed, _another)


def _forged(draw: Draw, data: bytes) -> bytes:
    """Other numbers in entries that have their checksums, as in an attack: pixels may be wrong."""
    result = bytearray(data)
    (every,) = struct.unpack_from("<I", data, _EVERY)
    for begin, end in pairwise(word & (1 << 48) - 1 for word in _words(data)):
        if end - begin > 16 and draw.below(4):
            for _ in range(draw.pick((1, 2, 20))):
                number = draw.pick((draw.pick(NUMBERS) & (1 << 32) - 1, draw.below(1 << 32)))
                struct.pack_into("<I", result, draw.between(begin + 16, end - 4), number)
            struct.pack_into("<I", result, begin + 12, checksum_of_entry(bytes(result[begin:end]), every))
    return bytes(result)


def check(folder: Path) -> Callable[[int], Counter[str]]:
    """Return the check of an index, and of an entry of a damaged file."""
    decoder, path = jpegs.Decoder(), folder / "index"

    @cache
    def intact(seed: int, every: Any) -> bytes:
        gi.build_index([(one, 0) for one in files(seed)], folder / f"{seed} {every}", every=every)
        return (folder / f"{seed} {every}").read_bytes()

    def decoded(draw: Draw, data: bytes, entry: Any, every: int, right: bool) -> str:
        header = jpegs.header_of(data)
        if header["kind"] != words.BASELINE or entry is None:
            return "no entry" if entry is None else "not ours"
        region = draw.region(int(header["height"]), int(header["width"]))
        found = decoder(data, region, header=header, entry=entry, every=every)
        assert found.how == words.DONE, found[1:]
        assert not right or np.array_equal(found.pixels, decoder(data, region, header=header).pixels), region
        return _STATUS[found.entry]

    def checked(number: int) -> Counter[str]:
        draw = Draw(number)
        data, right = intact(0, draw.pick(("rows", 2, 8))), draw.below(6) > 0
        other = intact(100, draw.pick(("rows", 2, 8)))
        path.write_bytes(changed(draw, data, other, _KINDS)[0] if right else _forged(draw, data))
        counts = Counter({_built(decoder, Draw(~number), number): 1})
        try:
            index = SeekIndex(path)
        except ValueError:
            return counts + Counter(refused=1)
        entries = index.entries(range(-1, len(files(0)) + 1))[1:-1]
        for one, entry in zip(files(0), entries, strict=True):
            counts[decoded(draw, one, entry, index.every, right)] += 1
        return counts

    return checked


def _built(decoder: jpegs.Decoder, draw: Draw, number: int) -> str:
    """Build the entry of a damaged JPEG: there is one exactly if it decodes, and it is used then."""
    data, every = mutation(number)[0], draw.pick((0, 1, 3, 8))
    header = jpegs.header_of(data)
    if header["kind"] != words.BASELINE or int(header["height"]) * int(header["width"]) > 1 << 20:
        return "nothing built"
    built = EntryMaker(every)([data], ["file"], {})
    if header["restart"]:
        assert len(built.content) == 0 or built.texts
        return "nothing built: restart markers"
    whole = decoder(data, header=header)
    assert (whole.how == words.DONE) == (not built.texts), built.texts
    if built.texts:
        return "not built"
    x0, y0, x1, y1 = region = draw.region(int(header["height"]), int(header["width"]))
    entry = np.frombuffer(built.content, np.uint8).copy()
    found = decoder(data, region, header=header, entry=entry, every=every)
    assert (found.how, found.entry) == (words.DONE, words.USED), found[1:]
    assert np.array_equal(found.pixels, whole.pixels[y0:y1, x0:x1]), region
    return "built"
