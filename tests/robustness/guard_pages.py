"""Our decoders with all their memory flush against pages that cannot be touched, over made and damaged files by number.

    python -m tests.robustness "guard pages" "guard recoded" "guard pngs" --number 20000

A case is a file, made of a grammar of JPEG or one of :mod:`.mutate`, a region of it, a scale and colors. Those that are
made are baseline or progressive. A file is decoded twice, once with all memory flush against the page behind it and
once against the page in front of it, which holds other bytes before. Reading or writing outside ends the child process,
which has said what it was at; reading what nothing has written gives other pixels the second time. Where Pillow decodes
the file too, its pixels are the reference.
"""

import ctypes
import mmap
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuimg._decoding.jpeg import read_headers
from gpuimg._decoding.recoded import is_recoded, recode_jpeg, stored_jpeg
from gpuimg.kernels.jpeg import layout as words

from ..decoding.jpegs import Decoded, Decoder, Region, entries_of, pillow_pixels
from ..decoding.progressive_jpegs import Table, baseline, picture
from ..decoding.progressive_jpegs import made as made_progressive
from ..decoding.recoded_oracle import parts_of
from ..decoding.seek_oracle import checksum_of_entry
from .mutate import Draw, bit_flips, changed, mutation, scan_damage, splices, truncation

_PAGE = mmap.PAGESIZE
_GAP = 0xA5  # what memory beside a block, in the pages that it begins or ends in, holds
_POISONS = {0x55: True, 0xAA: False}  # what memory holds before, and whether it is flush at its end
_MOST_PIXELS = 1 << 18
_DAMAGES = (bit_flips, *(scan_damage,) * 4, *(splices,) * 3, *(truncation,) * 3)
_libc = ctypes.CDLL(None, use_errno=True)


class Flush:
    """Memory of this many bytes, holding ``fill``, that ends where a page begins that cannot be touched.

    Where not ``at_end``, it begins where such a page ends. It lies at any address, which x86 and Arm take.
    """

    def __init__(self, size: int, fill: int, *, at_end: bool) -> None:
        room = -(-max(size, 1) // _PAGE) * _PAGE
        self._memory = mmap.mmap(-1, room + 2 * _PAGE)
        self._all: NDArray[np.uint8] = np.frombuffer(self._memory, np.uint8)
        for at in (0, _PAGE + room):
            if _libc.mprotect(ctypes.c_void_p(self._all.ctypes.data + at), _PAGE, 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        self._start = _PAGE + (room - size if at_end else 0)
        self._gap = self._all[_PAGE : self._start] if at_end else self._all[self._start + size : _PAGE + room]
        self._gap[:] = _GAP
        self.bytes: NDArray[np.uint8] = self._all[self._start : self._start + size]
        self.bytes[:] = fill

    def broken(self) -> str:
        """Return a description of writes outside it, or an empty string."""
        return f"{np.count_nonzero(self._gap != _GAP)} bytes written beside it" if np.any(self._gap != _GAP) else ""


def flush(data: Any, *, at_end: bool) -> NDArray[np.uint8]:
    """A copy of bytes flush against such a page."""
    memory = Flush(len(data), 0, at_end=at_end)
    memory.bytes[:] = np.frombuffer(bytes(data), np.uint8)
    return memory.bytes


def _table(draw: Draw, used: Mapping[int, int], of_ac: bool) -> Table:
    """A table with codes of random lengths, not all of which are in use."""
    more = [draw.below(16) << 4 | draw.between(1, 10) if of_ac else draw.below(12) for _ in range(draw.below(20))]
    left = list(dict.fromkeys([*used, *more])) or [0]
    for k in range(len(left) - 1, 0, -1):
        other = draw.below(k + 1)
        left[k], left[other] = left[other], left[k]
    greedy = draw.between(1, 4)
    codes: dict[int, tuple[int, int]] = {}
    counts, free, code = [], 1, 0
    for length in range(1, 17):
        free, code = 2 * free, 2 * code
        most = min(free - 1, len(left))  # the code of all ones stays free
        take = most if length == 16 else draw.below(most + 1) if draw.below(4) < greedy else 0
        codes |= {symbol: (code + k, length) for k, symbol in enumerate(left[:take])}
        left, free, code = left[take:], free - take, code + take
        counts.append(take)
    return (bytes(counts) + bytes(codes), codes) if used.keys() <= codes.keys() else _table(draw, used, of_ac)


def made(draw: Draw) -> bytes:
    """A baseline file of random size, sampling, tables, restart intervals and coefficients."""
    most = 300 if draw.below(10) == 0 else 60  # a few scans are longer than what is cleaned of stuffing at a time
    count = draw.pick((*(1,) * 4, *(3,) * 14, 2, 4))
    factors = [draw.pick((*(0x11, 0x21, 0x22, 0x12) * 4, 0x41, 0x14, 0x13)), *[0x11] * (count - 1)]
    if draw.below(20) == 0:
        factors[-1] = draw.between(1, 4) << 4 | draw.between(1, 4)
    wide = draw.below(4) == 0
    top = draw.pick((300, 65535) if wide else (2, 20, 255))
    steps = [draw.between(1, top).to_bytes(1 + wide, "big") for _ in range(64)]
    image = picture(np.random.default_rng(draw.word()), draw.between(1, most), draw.between(1, most), factors)
    return baseline(
        image, draw.pick((0, 0, 0, 1, 2, 3, 7, 100)), draw.pick((0xC0, 0xC0, 0xC1)),
        steps=bytes((wide << 4,)) + b"".join(steps), coding=partial(_table, draw),
    )  # fmt: skip


def file(seed: int) -> bytes:
    """File number ``seed``: two thirds are made, of which half are damaged; a third is of :mod:`.mutate`.

    A third of those that are made are progressive.
    """
    draw = Draw(seed)
    if draw.below(3) == 0:
        return mutation(seed)[0]
    return _damaged(draw, made(draw) if draw.below(3) else made_progressive(np.random.default_rng(seed)))


def recoded_file(seed: int) -> bytes:
    """Recoded file number ``seed``: a third are damaged anywhere, and a third behind right checksums."""
    draw, data = Draw(seed), b""
    while not data:
        with suppress(ValueError):
            data = recode_jpeg(file(draw.word()), progressive=True)
    how = draw.below(3)
    if how == 0:
        return data
    if how == 1:
        return changed(draw, data)[0]
    parts = parts_of(data)
    for _ in range(draw.between(1, 4)):
        what = draw.below(8)
        if what == 0:
            head = list(parts.head)
            head[draw.pick((5, 6, 7, 8))] = draw.pick((0, 1, 2, 3, 5, 11, 12, 200))
            parts = parts._replace(head=tuple(head))
        elif what == 1:
            parts = parts._replace(header=changed(draw, parts.header)[0])
        else:
            k = draw.below(len(parts.segments))
            parts.segments[k] = changed(draw, parts.segments[k], draw.pick(parts.segments))[0]
    return parts.joined()


def _damaged(draw: Draw, data: bytes) -> bytes:
    """Every second file with one or two things done to it."""
    if draw.below(2):
        for _ in range(draw.between(1, 2)):
            if len(data) > 32:
                data = draw.pick(_DAMAGES)(draw, data, data)
    return data


class Checker:
    def __init__(self, file: Callable[[int], bytes], folder: Path) -> None:
        self._file = file
        self._decoders = [
            Decoder(poison, partial(Flush, at_end=at_end))
            for poison, at_end in zip(_POISONS, (True, False), strict=True)
        ]

    def __call__(self, seed: int) -> str:
        """Return the outcome of a case; raise AssertionError if it is not allowed."""
        data, draw = self._file(seed), Draw(~seed)
        placed = [flush(data, at_end=at_end) for at_end in (True, False)]
        header, again = (read_headers([one]).records[0] for one in placed)
        assert header == again, "headers differ"
        width, height = int(header["width"]), int(header["height"])
        if header["kind"] not in (words.BASELINE, words.PROGRESSIVE, words.RECODED):
            return "not ours"
        if width * height > _MOST_PIXELS:
            return "too large"
        channels = 3 if header["color"] == words.RGB else draw.pick((3, 3, 1))
        scale = draw.pick((8, 8, 8, 4, 2, 1))
        whole = self._twice(placed, header, None, channels, scale=scale)
        region = draw.region(*whole.pixels.shape[:2])
        part = self._twice(placed, header, region, channels, scale=scale)
        baseline = header["kind"] == words.BASELINE
        ends = {whole.how} if baseline else {whole.how, part.how}
        reference = _reference(data, channels, scale) if words.DONE in ends else None
        for found, box in ((whole, (0, 0, *whole.pixels.shape[1::-1])), (part, region)):
            if found.how == words.DONE and reference is not None:
                assert np.array_equal(found.pixels, _cut(reference, box)), f"other pixels than Pillow's in {box}"
        if whole.how == words.DONE:
            assert np.array_equal(part.pixels, _cut(whole.pixels, region)), f"not the whole's pixels in {region}"
        if baseline and not header["restart"]:
            self._with_entries(draw, placed, header, whole, channels, scale)
        return "as Pillow's" if reference is not None else "decoded" if whole.how == words.DONE else "damaged"

    def _twice(self, placed: list[Any], header: Any, region: Region | None, channels: int, **how: Any) -> Decoded:
        """The same at both ends of the pages, with other bytes in memory before."""
        entries = how.pop("entries", (None, None))
        one, other = (
            decoder(data, region, channels, header=header, entry=entry, **how)
            for decoder, data, entry in zip(self._decoders, placed, entries, strict=True)
        )
        assert one[1:] == other[1:], f"ends as {one[1:]} and {other[1:]} in {region}"
        if one.how == words.DONE:
            assert np.array_equal(one.pixels, other.pixels), f"pixels depend on what memory held before, in {region}"
        return one

    def _with_entries(
        self, draw: Draw, placed: list[Any], header: Any, whole: Decoded, channels: int, scale: int
    ) -> None:
        """Only a file that decodes has an entry. Parts with it, and with a forged one, which may give wrong pixels."""
        (built,) = entries_of([placed[0].tobytes()])
        assert (built.size > 0) == (whole.how == words.DONE), f"an entry of {built.size} bytes"
        if not built.size:
            return
        forged = built.copy()
        for _ in range(draw.between(1, 4)):
            forged[draw.between(16, forged.size - 1)] = draw.below(256)
        forged[12:16].view("<u4")[0] = checksum_of_entry(forged.tobytes())
        for kind, entry in (("built", built), ("forged", forged)):
            entries = [flush(entry, at_end=at_end) for at_end in (True, False)]
            region = draw.region(*whole.pixels.shape[:2])
            found = self._twice(placed, header, region, channels, scale=scale, entries=entries)
            if kind == "built":
                assert (found.how, found.entry) == (words.DONE, words.USED), f"built entry: {found[1:]}"
                assert np.array_equal(found.pixels, _cut(whole.pixels, region)), f"built entry: {region}"


def _cut(pixels: Any, region: Region) -> Any:
    x0, y0, x1, y1 = region
    return pixels[y0:y1, x0:x1]


def _reference(data: bytes, channels: int, scale: int) -> Any:
    """Pillow's pixels; None where it refuses the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damaged EXIF
        try:
            return pillow_pixels(stored_jpeg(data) if is_recoded(data) else data, channels, scale)
        except (OSError, SyntaxError, ValueError):
            return None


check, check_recoded = partial(Checker, file), partial(Checker, recoded_file)
