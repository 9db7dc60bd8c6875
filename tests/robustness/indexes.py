"""Damaged seek indexes by number, and what may become of one: nothing, but for speed.

An index that opens gives entries that the decoder sees through: pixels with one are those without.

    python -m tests.robustness.indexes 20000
"""

from __future__ import annotations

import struct
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np

import gpuimg as gi
from gpuimg._index.entries import EntryMaker
from gpuimg._index.seek_index import SeekIndex
from gpuimg.kernels.jpeg import layout as words

from .. import jpegs
from ..seek_oracle import checksum_of_entry
from .mutate import Draw, mutation
from .originals import jpeg, picture

_HEADER = 56
_WORD = 8
_EVERY = 16  # where in a header it is
_FIELDS = range(24, 52)  # samples, sizes and the checksum of names
_EVERIES = ("rows", 2, 8)
_NUMBERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 47, (1 << 48) - 1, (1 << 64) - 1)

#: What a kind does: index and that of another data set -> damaged index. The law of pixels holds for those of the first
#: list; in the second the checksums of entries are computed again, as in an attack.
Kind: TypeAlias = "Callable[[Draw, bytearray, bytes], bytearray]"


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


@cache
def index_of(seed: int, every: int | str) -> bytes:
    """The index of such a data set."""
    with tempfile.TemporaryDirectory() as folder:
        gi.build_index([(one, 0) for one in files(seed)], Path(folder) / "index", every=every)
        return (Path(folder) / "index").read_bytes()


# -- damage ------------------------------------------------------------------------------------------------------------


def _flip(draw: Draw, data: bytearray, first: int, stop: int) -> bytearray:
    for _ in range(draw.pick((1, 1, 2, draw.between(1, 60)))):
        at = draw.between(first, max(stop - 1, first))
        if at < len(data):
            data[at] ^= 1 << draw.below(8)
    return data


def _sealed(data: bytearray) -> bytearray:
    """With the checksum that its header must have."""
    if len(data) >= _HEADER:
        struct.pack_into("<I", data, 52, zlib.crc32(data[:52]))
    return data


def _table() -> int:
    """Offset of the first entry."""
    return _HEADER + _WORD * (len(files(0)) + 1)


def flips(draw: Draw, data: bytearray, _: bytes) -> bytearray:
    return _flip(draw, data, 0, len(data))


def flips_in_the_table(draw: Draw, data: bytearray, _: bytes) -> bytearray:
    return _flip(draw, data, _HEADER, _table())


def flips_in_entries(draw: Draw, data: bytearray, _: bytes) -> bytearray:
    return _flip(draw, data, _table(), len(data))


def flips_in_the_header(draw: Draw, data: bytearray, _: bytes) -> bytearray:
    return _sealed(_flip(draw, data, _FIELDS.start, _FIELDS.stop))


def a_word(draw: Draw, data: bytearray, _: bytes) -> bytearray:
    """Another number in the table, its kind kept or not."""
    at = _HEADER + _WORD * draw.below(len(files(0)) + 1)
    number = draw.pick((*_NUMBERS, draw.below(len(data)), len(data), draw.word()))
    kept = draw.below(2) * struct.unpack_from("<Q", data, at)[0] >> 48 << 48 if len(data) >= at + _WORD else 0
    if len(data) >= at + _WORD:
        struct.pack_into("<Q", data, at, (kept | number) & (1 << 64) - 1)
    return data


def swapped_words(draw: Draw, data: bytearray, _: bytes) -> bytearray:
    one, other = (_HEADER + _WORD * draw.below(len(files(0)) + 1) for _ in range(2))
    data[one : one + _WORD], data[other : other + _WORD] = data[other : other + _WORD], data[one : one + _WORD]
    return data


def swapped_parts(draw: Draw, data: bytearray, _: bytes) -> bytearray:
    size = draw.between(1, 200)
    one, other = (draw.between(_HEADER, max(len(data) - size, _HEADER)) for _ in range(2))
    data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]
    return data


def cut(draw: Draw, data: bytearray, _: bytes) -> bytearray:
    return data[: draw.below(len(data) + 1)]


def cut_and_said_so(draw: Draw, data: bytearray, _: bytes) -> bytearray:
    data = data[: draw.below(len(data) + 1)]
    if len(data) >= _HEADER:
        struct.pack_into("<Q", data, 32, len(data))
    return _sealed(data)


def moved(draw: Draw, data: bytearray, _: bytes) -> bytearray:
    """Bytes put in or left out, with the size that the header then needs."""
    at, size = draw.between(_HEADER, len(data)), draw.pick((1, 2, 8, draw.between(1, 300)))
    data[at : at + draw.below(2) * size] = draw.text(draw.below(2) * size)
    if len(data) >= _HEADER:
        struct.pack_into("<Q", data, 32, len(data))
    return _sealed(data)


def another_data_set(draw: Draw, data: bytearray, other: bytes) -> bytearray:
    return bytearray(other)


def part_of_another(draw: Draw, data: bytearray, other: bytes) -> bytearray:
    at = draw.between(_HEADER, min(len(data), len(other)))
    size = draw.between(1, 2000)
    data[at : at + size] = other[at : at + size]
    struct.pack_into("<Q", data, 32, len(data))
    return _sealed(data)


def entries_sealed(draw: Draw, data: bytearray, other: bytes) -> bytearray:
    """Other numbers in entries that have their checksums."""
    (every,) = struct.unpack_from("<I", data, _EVERY)
    places = [word & (1 << 48) - 1 for word in struct.unpack_from(f"<{len(files(0)) + 1}Q", data, _HEADER)]
    for begin, end in pairwise(places):
        if end - begin > 16 and draw.below(4):
            for _ in range(draw.pick((1, 2, 20))):
                at = draw.between(begin + 16, end - 4)
                struct.pack_into(
                    "<I", data, at, draw.pick(_NUMBERS) & (1 << 32) - 1 if draw.below(2) else draw.below(1 << 32)
                )
            struct.pack_into("<I", data, begin + 12, checksum_of_entry(bytes(data[begin:end]), every))
    return data


def another_every(draw: Draw, data: bytearray, _: bytes) -> bytearray:
    struct.pack_into("<I", data, _EVERY, draw.pick((0, 1, 2, 3, 5, 7, 9, 1 << 16, (1 << 32) - 1)))
    return _sealed(data)


KINDS: Sequence[Kind] = (
    flips, flips_in_the_table, flips_in_entries, flips_in_the_header, a_word, swapped_words, swapped_parts, cut,
    cut_and_said_so, moved, another_data_set, part_of_another, another_every,
)  # fmt: skip
SEALED: Sequence[Kind] = (entries_sealed,)


def damaged(seed: int) -> tuple[bytes, str, bool]:
    """Index ``seed``, what was done to it, and whether pixels must be right."""
    draw = Draw(seed)
    every = draw.pick(_EVERIES)
    data = bytearray(index_of(0, every))
    kinds = [draw.pick(KINDS) for _ in range(draw.pick((1, 1, 2)))]
    harmful = draw.below(6) == 0
    if harmful:
        kinds = [draw.pick(SEALED)]
    for kind in kinds:
        if len(data) > _table():
            data = kind(draw, data, index_of(100, draw.pick(_EVERIES)))
    return bytes(data), " and ".join(kind.__name__ for kind in kinds), not harmful


# -- what becomes of it ------------------------------------------------------------------------------------------------


def outcomes(first: int, stop: int) -> Iterator[tuple[int, str]]:
    """Open damaged indexes and decode with their entries; return the outcome of each entry.

    Raises
    ------
    AssertionError
        For pixels that are not those without an index.
    """
    decoder = jpegs.Decoder()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, stop):
            data, what, right = damaged(seed)
            path = Path(folder, "index")
            path.write_bytes(data)
            try:
                index = SeekIndex(path)
            except ValueError:
                yield seed, "refused"
                continue
            entries = index.entries(range(-1, len(files(0)) + 1))[1:-1]
            for one, entry in zip(files(0), entries, strict=True):
                yield seed, _decoded(decoder, Draw(~seed), one, entry, index.every, f"{seed}: {what}", right)


def _decoded(decoder: jpegs.Decoder, draw: Draw, data: bytes, entry: object, every: int, name: str, right: bool) -> str:
    header = jpegs.header_of(data)
    if header["kind"] != words.BASELINE:
        return "not ours"
    if entry is None:
        return "none"
    height, width = int(header["height"]), int(header["width"])
    x0, y0 = draw.below(width), draw.below(height)
    region = x0, y0, draw.between(x0 + 1, width), draw.between(y0 + 1, height)
    found = decoder(data, region, header=header, entry=entry, every=every)
    assert found.how == words.DONE, name
    if right:
        wanted = decoder(data, region, header=header)
        np.testing.assert_array_equal(found.pixels, wanted.pixels, err_msg=name)
    return ("unused", "used", "other size", "other file", "damaged", "mismatch")[found.entry]


def built_of_damaged_files(first: int, stop: int) -> int:
    """Build entries of damaged JPEG files and decode with them; return their number.

    Raises
    ------
    AssertionError
        Where an entry was built of a file that does not decode, or none of one that does, or for other pixels.
    """
    decoder, count = jpegs.Decoder(), 0
    for seed in range(first, stop):
        draw = Draw(~seed)
        data = mutation(seed)[0]
        header = jpegs.header_of(data)
        height, width = int(header["height"]), int(header["width"])
        if header["kind"] != words.BASELINE or height * width > 1 << 20:
            continue
        every = draw.pick((0, 1, 3, 8))
        built = EntryMaker(every)([data], ["file"], {})
        if header["restart"]:
            assert len(built.content) == 0 or built.texts, seed
            continue
        whole = decoder(data, header=header)
        assert (whole.how == words.DONE) == (not built.texts), (seed, built.texts)
        if not built.texts:
            entry = np.frombuffer(built.content, np.uint8).copy()
            x0, y0 = draw.below(width), draw.below(height)
            x1, y1 = draw.between(x0 + 1, width), draw.between(y0 + 1, height)
            pixels = whole.pixels[y0:y1, x0:x1].copy()
            found = decoder(data, (x0, y0, x1, y1), header=header, entry=entry, every=every)
            assert (found.how, found.entry) == (words.DONE, 1), seed
            np.testing.assert_array_equal(found.pixels, pixels, err_msg=str(seed))
            count += 1
    return count


if __name__ == "__main__":
    number = int(sys.argv[1])
    print(Counter(outcome for _, outcome in outcomes(0, number)))
    print(built_of_damaged_files(0, number), "entries of damaged files")
