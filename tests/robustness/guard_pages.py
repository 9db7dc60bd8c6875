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
import random
import struct
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gpuimg._decoding import pillow, png, recoded
from gpuimg._decoding.jpeg import read_headers
from gpuimg._decoding.options import DecodeOptions
from gpuimg._decoding.recoded import recode_jpeg, stored_jpeg
from gpuimg.kernels.jpeg import layout as words

from ..decoding import recoded_oracle as oracle
from ..decoding.jpegs import Decoded, Decoder, Region, header_of, pillow_pixels, segment
from ..decoding.pngs import BUILDS, FILTERS, OPTIONS
from ..decoding.pngs import made as made_png
from ..decoding.progressive_jpegs import Table, baseline, picture
from ..decoding.progressive_jpegs import made as made_progressive
from . import formats
from .mutate import DHT, NUMBERS, SOI, Draw, bit_flips, changed, mutation, scan_damage, segments, splices, truncation
from .originals import originals

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

    def __init__(self, size: int, fill: Any, *, at_end: bool) -> None:
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
        if np.ndim(fill) == 0:
            self.bytes[:] = fill
        else:
            for at in range(0, size, len(fill)):  # numpy.resize makes copies of this size
                self.bytes[at : at + len(fill)] = fill[: size - at]

    def broken(self) -> str:
        return f"{np.count_nonzero(self._gap != _GAP)} bytes written beside it" if np.any(self._gap != _GAP) else ""


def flush(data: Any, *, at_end: bool) -> NDArray[np.uint8]:
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
    """Recoded file number ``seed``: a fifth are damaged anywhere, most others behind right checksums."""
    draw, data = Draw(seed), _intact(seed // 4)
    how = draw.below(5)
    return data if how == 0 else changed(draw, data)[0] if how == 1 else _forged(draw, data)


@lru_cache(maxsize=1)
def _intact(seed: int) -> bytes:
    """An intact recoded file, which takes as long to make as to check."""
    draw = Draw(seed)
    while True:
        with suppress(ValueError):
            return recode_jpeg(file(draw.word()), progressive=True)


def _forged(draw: Draw, data: bytes) -> bytes:
    """A file with one to three things changed, and right checksums."""
    parts = oracle.parts_of(data)
    shapes, codes = oracle.shapes_of(parts), oracle.codes_of(parts)
    cut, fields = False, list[tuple[int, int]]()
    for _ in range(draw.pick((1, 1, 1, 2, 3))):
        what, k = draw.below(10), draw.below(len(shapes))
        if what == 0:
            head = list(parts.head)
            head[draw.pick((5, 6, 7, 8))] = draw.pick((0, 1, 2, 3, 5, 11, 12, 200))
            parts = parts._replace(head=tuple(head))
        elif what == 1:
            parts = parts._replace(header=changed(draw, parts.header)[0])
        elif what == 2:  # H, S, R or the end of a segment
            place = draw.pick((12, 16, 16, 20, oracle.HEAD.size + len(parts.header) + 4 * k))
            fields.append((place, draw.pick((*NUMBERS, len(shapes) - 1, len(shapes) + 1, draw.below(1 << 14)))))
        elif what == 3:
            parts = parts.with_last(_last_part(draw, parts.last()))
        elif what == 4:
            cut = True
        elif what == 5:
            parts.segments[k] = changed(draw, parts.segments[k], draw.pick(parts.segments))[0]
        else:
            some = oracle.drawn(random.Random(draw.word()), draw.pick((0.1, 0.3, 0.45)), shapes[k], codes)
            parts.segments[k] = _segment(draw, *some[:2])
    data = parts.joined()
    for place, value in fields:
        data = oracle.resummed(data[:place] + (value & 0xFFFFFFFF).to_bytes(4, "little") + data[place + 4 :])
    return data[: draw.below(len(data))] if cut else data


def _segment(draw: Draw, streams: list[bytes], planes: bytes) -> bytes:
    """A segment; most have one stream that is too short or too long, other sizes, or other planes."""
    k, sizes = draw.below(4), list(map(len, streams))
    other = draw.pick((streams[k], streams[k][:-1], b"", streams[k] + draw.text(draw.between(1, 9))))
    what = draw.below(6)
    if what < 3:
        streams = [*streams[:k], other, *streams[k + 1 :]]
        sizes[k] = len(other)
    elif what == 3:  # bytes of a stream belong to the next one
        sizes[k], sizes[(k + 1) % 4] = len(other), max(sizes[(k + 1) % 4] + sizes[k] - len(other), 0)
    elif what == 4:
        planes = changed(draw, planes)[0]
    elif draw.below(4) == 0:
        sizes[k] = draw.below(1 << 16)
    return oracle.put_together(streams, planes, sizes)


def _last_part(draw: Draw, last: bytes) -> bytes:
    """A last part with other bytes, or with segments of another file as its tables and a scan of another size."""
    if draw.below(2):
        return changed(draw, last)[0]
    pieces, at = list[bytes](), 2
    for piece in segments(draw.pick(tuple(originals().values()))):
        if piece[1] != SOI and (piece[1] == DHT or draw.below(3)):
            piece = piece[: 2 + int.from_bytes(piece[2:4], "big")]  # of a scan, its header
            pieces.append((at if draw.below(20) else draw.below(400)).to_bytes(4, "little") + piece)
        at += len(piece)
    size = draw.pick((int.from_bytes(last[4:12], "little"), draw.below(1 << 16), draw.pick(NUMBERS) & (1 << 64) - 1))
    zeros = bytes(draw.pick((0, 0, 0, 1 << 21)))
    return oracle.LAST.pack(0, size, draw.below(2), len(pieces)) + b"".join(pieces) + last[-9:] + zeros


def _damaged(draw: Draw, data: bytes) -> bytes:
    if draw.below(2):
        for _ in range(draw.between(1, 2)):
            if len(data) > 32:
                data = draw.pick(_DAMAGES)(draw, data, data)
    return data


class Checker:
    def __init__(self, file: Callable[[int], bytes], folder: Path) -> None:
        self._file = file
        for name in ("4:2:0", "progressive"):  # compiles, and imports what Pillow needs, before memory is limited
            _reference(stored_jpeg(recode_jpeg(originals()[name], progressive=True)), 3, 8)
        self._decoders = [Decoder(poison, partial(Flush, at_end=at_end)) for poison, at_end in _POISONS.items()]

    def __call__(self, seed: int) -> str:
        """Return the outcome of a case; raise AssertionError if it is not allowed."""
        data, draw = self._file(seed), Draw(~seed)
        placed = [flush(data, at_end=at_end) for at_end in (True, False)]
        header, again = (read_headers([one]).records[0] for one in placed)
        assert header == again, "headers differ"
        width, height = int(header["width"]), int(header["height"])
        if header["kind"] not in (words.BASELINE, words.PROGRESSIVE, words.RECODED):
            assert not _is_taken(data), "refused, and not by the description of the format"
            return "not ours"
        if width * height > _MOST_PIXELS:
            return "too large"
        is_recoded = header["kind"] == words.RECODED
        if is_recoded:  # what other files left in scratch steers no pixel
            for k, decoder in enumerate(self._decoders):
                decoder.fill = np.frombuffer(Draw(seed + k).text(4099), np.uint8)
        channels = 3 if header["color"] == words.RGB else draw.pick((3, 3, 1))
        scale = draw.pick((8, 8, 8, 4, 2, 1))
        whole = self._twice(placed, header, None, channels, scale=scale)
        region = draw.region(*whole.pixels.shape[:2])
        part = self._twice(placed, header, region, channels, scale=scale)
        assert not is_recoded or (whole.how == words.DONE) == _is_taken(data), f"{whole.how}, unlike the description"
        baseline = header["kind"] == words.BASELINE
        ends = {whole.how} if baseline else {whole.how, part.how}
        restored = _restored(data) if is_recoded else data
        reference = _reference(restored, channels, scale) if words.DONE in ends else None
        for found, box in ((whole, (0, 0, *whole.pixels.shape[1::-1])), (part, region)):
            if found.how == words.DONE and reference is not None:
                assert np.array_equal(found.pixels, _cut(reference, box)), f"other pixels than Pillow's in {box}"
        if whole.how == words.DONE:
            assert np.array_equal(part.pixels, _cut(whole.pixels, region)), f"not the whole's pixels in {region}"
        return "as Pillow's" if reference is not None else "decoded" if whole.how == words.DONE else "damaged"

    def _twice(self, placed: list[Any], header: Any, region: Region | None, channels: int, **how: Any) -> Decoded:
        """The same at both ends of the pages, with other bytes in memory before."""
        one, other = (
            decoder(data, region, channels, header=header, **how)
            for decoder, data in zip(self._decoders, placed, strict=True)
        )
        assert one[1:] == other[1:], f"ends as {one[1:]} and {other[1:]} in {region}"
        if one.how == words.DONE:
            assert np.array_equal(one.pixels, other.pixels), f"pixels depend on what memory held before, in {region}"
        return one


def _cut(pixels: Any, region: Region) -> Any:
    x0, y0, x1, y1 = region
    return pixels[y0:y1, x0:x1]


def _is_taken(data: bytes) -> bool:
    """Whether a recoded file is as kernels/jpeg/RECODED.md describes it; its JPEG's header, as our decoder takes it."""
    try:
        header = oracle.parts_of(data).header
    except (AssertionError, struct.error):
        return False
    tables = b"".join(segment(DHT, bytes((k,)) + bytes(16)) for k in (0, 1, 2, 3, 16, 17, 18, 19))
    record = header_of(header[:2] + tables + header[2:])
    is_ours = record["kind"] == words.BASELINE and record["scan"] == len(header) + len(tables)
    return bool(is_ours) and oracle.is_taken(data)


class _Flushed:
    """NumPy, whose new arrays are flush against a page that cannot be touched."""

    def __init__(self, fill: int, *, at_end: bool) -> None:
        self._fill, self._at_end, self._made = fill, at_end, list[Flush]()

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: Any, dtype: Any, fill: int | None = None) -> Any:
        array = np.broadcast_to(np.zeros((), dtype), shape)
        self._made.append(Flush(array.nbytes, self._fill if fill is None else fill, at_end=self._at_end))
        return self._made[-1].bytes.view(dtype).reshape(array.shape)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        return self.empty(shape, dtype, 0)

    def frombuffer(self, data: Any, dtype: Any) -> Any:
        array = self.empty(len(data), np.uint8)
        array[:] = np.frombuffer(data, np.uint8)
        array.flags.writeable = False  # as NumPy's of bytes, so that no other loop is compiled
        return array.view(dtype)

    def check(self) -> None:
        assert not any(one.broken() for one in self._made), [one.broken() for one in self._made]


def _restored(data: bytes) -> bytes:
    """The JPEG of a recoded file, the same in any memory; empty if it has none."""
    found = []
    for fill, at_end in ((0xA5, True), (0, False)):
        vars(recoded)["np"] = memory = _Flushed(fill, at_end=at_end)
        try:
            found.append(stored_jpeg(data))
        except ValueError as error:
            if "memory" in str(error):
                raise
            found.append(b"")
        memory.check()
    vars(recoded)["np"] = np
    assert found[0] == found[1], "restored to two files"
    return found[0]


def _reference(data: bytes, channels: int, scale: int) -> Any:
    """Pillow's pixels; None where it refuses the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damaged EXIF
        try:
            return pillow_pixels(data, channels, scale)
        except (OSError, SyntaxError, ValueError):
            return None


def png_file(seed: int) -> bytes:
    """File number ``seed``: a third is of :mod:`.formats`, the others are of any build, half of them damaged."""
    draw = Draw(seed)
    if draw.below(3) == 0:
        return formats.mutation("png", seed)[0]
    filters = [draw.pick(FILTERS) for _ in range(draw.between(1, 6))]
    size = draw.between(1, 60), draw.between(1, 60)
    (color, depth), part = draw.pick(BUILDS), draw.between(1, draw.pick((400, 3000)))
    clear = draw.text(draw.below((1 << depth) + 1)) if color == "palette" else b""
    data = made_png(np.random.default_rng(seed), *size, color, depth, filters, part=part, transparency=clear)
    if draw.below(2):
        data = changed(draw, data)[0]
        if draw.below(3):
            data = formats.with_checksums(data)
    return data


def _png_pixels(data: bytes, options: DecodeOptions, region: Any, fill: int, at_end: bool) -> NDArray[np.uint8] | None:
    """The pixels of a region; None where the decoder leaves the file to Pillow."""
    memory = _Flushed(fill, at_end=at_end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(png, "np", memory)
        part, out = png.part_of(data, options, region), None
        if part is not None:
            out = memory.empty(part.shape, np.uint8)
            part.write(out.reshape(-1))
    memory.check()
    return out


def _png(seed: int) -> str:
    data, draw = png_file(seed), Draw(~seed)
    try:
        header = pillow.read_header(data, _MOST_PIXELS)
    except ValueError:
        return "refused by its header"
    if header.codec != "png":
        return "no PNG"
    options = draw.pick(OPTIONS)
    x0, y0 = draw.below(header.width), draw.below(header.height)
    region = np.array([x0, y0, draw.between(x0 + 1, header.width), draw.between(y0 + 1, header.height)])
    whole = [_png_pixels(data, options, None, *how) for how in _POISONS.items()]
    part = [_png_pixels(data, options, region, *how) for how in _POISONS.items()]
    for one, other in (whole, part):
        assert (one is None) == (other is None), "left to Pillow or not"
        assert one is None or np.array_equal(one, other), "pixels depend on what memory held before"
    try:
        reference = pillow.decode(data, header, options)
    except ValueError:
        assert whole[0] is None, "decoded what Pillow refuses"
        return "refused"
    if whole[0] is not None:
        assert np.array_equal(whole[0], reference), "other pixels than Pillow's"
        assert part[0] is not None, "the whole, but not a region"
    if part[0] is not None:
        x0, y0, x1, y1 = region.tolist()
        assert np.array_equal(part[0], reference[y0:y1, x0:x1]), f"other pixels than Pillow's in {region}"
    return "as Pillow's" if whole[0] is not None else "left to Pillow"


check, check_recoded = partial(Checker, file), partial(Checker, recoded_file)


def check_pngs(folder: Path) -> Callable[[int], str]:
    return _png
