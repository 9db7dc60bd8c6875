"""The kernels that decode baseline JPEGs on a GPU, as loops for the CPU: many files, against the CPU's decoder.

The device functions are the kernels' own; what runs between barriers here is a loop over the threads.
``test_gpu_jpegs.py`` shows that the interpreted kernels, which are too slow for many files, find the same segments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._data.images import EncodedImages, Pixels, offsets_of, whole_regions
from gpuimg._plan.scale import FULL
from gpuimg._runtimes.cpu import CpuRuntime
from gpuimg._runtimes.draft import decoded_sizes
from gpuimg._runtimes.jpeg_upload import SPAN, Upload
from gpuimg.kernels.cuda import jpeg_codes, jpeg_find, jpeg_huffman, jpeg_pixels, jpeg_reduced
from gpuimg.kernels.jpeg import formulas, idct, layout, upload
from gpuimg.kernels.scalar import LOOP, i32, word

from ..decoding.jpegs import OPTIONS, QUALITIES, SAMPLINGS, encoded, noise
from .mutate import mutation
from .originals import picture

BATCH = 25
SCALES = (4, 2, 1)  # eighths of an image's size
GIVEN_UP = upload.MOST_ROUNDS + 1  # rounds of a search that is given up

_PARTS, _OWN, _BITS, _NONE = upload.PARTS, upload.PARTS - 1, jpeg_find.LOOKED_UP, jpeg_find.NONE
_HUFFMAN_BITS = layout.BITS

# -- the kernels -------------------------------------------------------------------------------------------------------


@numba.njit(**LOOP)
def _fill_short(codes: Any, fast: Any) -> None:
    for k in range(fast.size):
        table = i32(k >> _BITS)
        if (codes[upload.USED] >> table) & 1:
            bits = np.uint32(k << (32 - _BITS))
            fast[k] = jpeg_find.short_entry(jpeg_codes.entry_of(codes, table, bits, i32(1), _BITS), table)


@numba.njit(**LOOP)
def find(words: Any, scan: Any, part: Any, firsts: Any, sums: Any, fast: Any) -> int:
    """Search a scan; return the rounds that its parts took, more than ``MOST_ROUNDS`` if it was given up.

    Negative if there are too few blocks. ``part`` (PARTS, 10) holds for each part the bit and the state that it begins
    with, those it ends with, and what :func:`jpeg_find.decode_part` returns; the other arrays are scratch, too.
    """
    begin, found = word(words, scan, upload.SCAN_WORD), word(words, scan, upload.FOUND)
    codes = words[words[scan + upload.SCAN_SET] :][: upload.SET_WORDS]
    fast[:] = 0
    _fill_short(codes, fast)
    end, span = word(words, scan, upload.SCAN_END), word(words, scan, upload.SPAN)
    skip, count = word(words, scan, upload.SCAN_SKIP), word(words, scan, upload.SCAN_COUNT)
    wanted = i32(skip + word(words, scan, upload.SCAN_BLOCKS))
    block, image = word(words, scan, upload.SCAN_BLOCK), word(words, scan, upload.SCAN_IMAGE)
    o = i32(0)
    for k in range(count):
        at = i32(found + k * upload.SEGMENT_WORDS)
        jpeg_find.set_segment(words, at, begin, o, o, o, o, o, block, o, image, o, o, o)
    last_bit, last_state, begun = i32(0), i32(0), i32(0)
    sums[:] = 0
    base, most = 0, 0
    while base * span < end and begun < wanted:
        for t in range(_PARTS):
            part[t] = 0
            part[t, 0] = part[t, 2] = (base + t) * span
            part[t, 4] = _NONE
        part[0, 0], part[0, 1], part[0, 2], part[0, 3] = last_bit, last_state, last_bit, last_state
        alive, rounds = True, 0
        for t in range(_PARTS):
            firsts[t] = part[t, 0] < min((base + t + 1) * span, end)
        while alive:
            for t in range(_PARTS):
                if firsts[t]:
                    stop = i32(min((base + t + 1) * span, end))
                    n, bit0, state0, d0, d1, d2, bit, state = jpeg_find.decode_part(
                        words, codes, fast, begin, i32(part[t, 0]), i32(part[t, 1]), stop
                    )
                    part[t, 2], part[t, 3] = bit, state
                    part[t, 4], part[t, 5], part[t, 6] = bit0, state0, n
                    part[t, 7], part[t, 8], part[t, 9] = d0, d1, d2
            alive = False
            for t in range(_PARTS):
                firsts[t] = 0
                if t > 0 and (base + t) * span < end:
                    firsts[t] = part[t - 1, 2] != part[t, 0] or part[t - 1, 3] != part[t, 1]
                    part[t, 0], part[t, 1] = part[t - 1, 2], part[t - 1, 3]
                    alive = alive or firsts[t] != 0
            if alive:
                rounds += 1
                if rounds > upload.MOST_ROUNDS:
                    return rounds
        most = max(most, rounds)
        last_bit, last_state = i32(part[_OWN - 1, 2]), i32(part[_OWN - 1, 3])
        for t in range(_OWN):
            n = i32(part[t, 6])
            low, high = max(begun, skip), min(i32(begun + n), wanted)
            before = sums[0], sums[1], sums[2]
            for c in range(3):
                sums[c] += i32(part[t, 7 + c])
            if low < high and base + t < count:
                other = t + 1
                while other < _PARTS and part[other, 4] == _NONE:
                    other += 1
                follows = other < _PARTS
                stop = i32(part[other, 4]) if follows else end
                slack = i32(0) if follows and high == begun + n else end
                jpeg_find.set_segment(
                    words, i32(found + (base + t) * upload.SEGMENT_WORDS), begin, i32(part[t, 4]), stop, slack,
                    i32(part[t, 5]), i32(low - begun), i32(block + low - skip), i32(high - low), image,
                    jpeg_find.packed(before[0], before[1]), jpeg_find.packed(before[2], sums[0]),
                    jpeg_find.packed(sums[1], sums[2]),
                )  # fmt: skip
            begun = i32(begun + n)
        base += _OWN
    return most if begun >= wanted else -1


@numba.njit(**LOOP)
def huffman(words: Any, groups: int, n: int, coefficients: Any, status: Any, fast: Any) -> None:
    """Decode the segments of groups."""
    for g in range(n):
        group = groups + g * upload.GROUP_WORDS
        codes = words[words[group + upload.GROUP_SET] :][: upload.SET_WORDS]
        fast[:] = 0
        for k in range(fast.size):
            table = i32(k >> _HUFFMAN_BITS)
            if (codes[upload.USED] >> table) & 1:
                bits = np.uint32(k << (32 - _HUFFMAN_BITS))
                fast[k] = jpeg_codes.entry_of(codes, table, bits, i32(1), _HUFFMAN_BITS)
        for t in range(words[group + upload.GROUP_COUNT]):
            segment = i32(words[group + upload.GROUP_FIRST] + t * upload.SEGMENT_WORDS)
            if not jpeg_huffman.decode_segment(words, segment, codes, fast, coefficients):
                image = words[segment + upload.SEGMENT_IMAGE]
                status[image] = max(status[image], 1)


@numba.njit(**LOOP)
def _byte(value: Any) -> Any:
    return np.uint8(formulas.limited(value, -128, 127) + 128)


@numba.njit(**LOOP)
def _transformed(v: Any, others: Any, at: int, stride: int, as_bytes: Any) -> None:
    """Write the 8 x 8 samples of a dequantized block from byte ``at`` on."""
    for x in range(8):
        if others == 0:
            v[x] = i32(formulas.short(i32(v[x] << 2)) >> 2)
        column = formulas.inverse(
            v[x], v[8 + x], v[16 + x], v[24 + x], v[32 + x], v[40 + x], v[48 + x], v[56 + x], idct.FIRST
        )
        for y, one in enumerate(column):
            v[8 * y + x] = formulas.limited(one, -32768, 32767)
    for y in range(8):
        row = v[8 * y : 8 * y + 8]
        line = formulas.inverse(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], idct.SECOND)
        for x, one in enumerate(line):
            as_bytes[at + y * stride + x] = _byte(one)


@numba.njit(**LOOP)
def _half(v: Any, others: Any, at: int, stride: int, as_bytes: Any) -> None:
    for x in range(8):
        if others == 0:
            v[x] = i32(formulas.short(i32(v[x] << 2)) >> 2)
        column = formulas.inverse_half(
            v[x], v[8 + x], v[16 + x], v[24 + x], v[40 + x], v[48 + x], v[56 + x], formulas.HALF_FIRST
        )
        for y, one in enumerate(column):
            v[8 * y + x] = formulas.limited(one, -32768, 32767)
    for y in range(4):
        row = v[8 * y : 8 * y + 8]
        line = formulas.inverse_half(row[0], row[1], row[2], row[3], row[5], row[6], row[7], formulas.HALF_SECOND)
        for x, one in enumerate(line):
            as_bytes[at + y * stride + x] = _byte(one)


@numba.njit(**LOOP)
def _quarter(v: Any, at: int, stride: int, as_bytes: Any) -> None:
    for x in range(8):
        column = formulas.inverse_quarter(v[x], v[8 + x], v[24 + x], v[40 + x], v[56 + x], formulas.QUARTER_FIRST)
        for y, one in enumerate(column):
            v[8 * y + x] = formulas.limited(one, -32768, 32767) if x else one
    for y in range(2):
        row = v[8 * y : 8 * y + 8]
        line = formulas.inverse_quarter(row[0], row[1], row[3], row[5], row[7], formulas.QUARTER_SECOND)
        for x, one in enumerate(line):
            as_bytes[at + y * stride + x] = _byte(one)


@numba.njit(**LOOP)
def pixels(words: Any, images: int, n: int, coefficients: Any, planes: Any, as_bytes: Any, channels: int, out: Any,
           v: Any) -> None:  # fmt: skip
    """Transform the blocks of images, and write their pixels."""
    for k in range(n):
        record = i32(images + k * upload.IMAGE_WORDS)
        color = word(words, record, upload.COLOR)
        for block in range(max(word(words, record, upload.WHOLE), word(words, record, upload.REDUCED))):
            component, column, row = jpeg_pixels.place_of_block(words, record, i32(block))
            side, begin, stride = jpeg_pixels.plane_of(words, record, component)
            at = begin + side * (row * stride + column)
            if component and color == layout.GRAY:
                continue
            start = (word(words, record, upload.FIRST_BLOCK) + block) * 64
            others = i32(0)
            for z in range(64):
                step = word(words, record, upload.STEPS + 64 * component + z)
                value, to = i32(coefficients[start + z]), i32(step >> upload.PLACE_SHIFT)
                others |= value if to >= 8 and (side == 8 or to >> 3 != 4) else i32(0)
                v[to] = formulas.short(i32(value * i32(step & 0xFFFF)))
            if side == 8:
                _transformed(v, others, at, stride, as_bytes)
            elif side == 4:
                _half(v, others, at, stride, as_bytes)
            elif side == 2:
                _quarter(v, at, stride, as_bytes)
            else:
                step = word(words, record, upload.STEPS + 64 * component)
                mean = _byte(formulas.inverse_eighth(i32(coefficients[start]), step))
                wide, high = jpeg_reduced.copies(words, record, component, column, row)
                to_x, to_y = jpeg_reduced.place_of_sample(words, record, component, column, row)
                for y in range(high):
                    as_bytes[begin + (to_y + y) * stride + to_x :][:wide] = mean
        x0, y0, x1, y1 = words[record + upload.REGION : record + upload.REGION + 4]
        for number in range(((x1 + 1) // 2 - x0 // 2) * ((y1 + 1) // 2 - y0 // 2)):
            jpeg_pixels.write_quad(words, record, as_bytes, channels, out, i32(number))


def scaled(files: list[bytes], scale: int, color: str = "rgb") -> EncodedImages:
    """A batch whose baseline JPEGs a runtime is to decode at a scale if a pixel is left of either side."""
    images = recording_of(gi.open_batch(files, device="cpu", on_error="fill", color=color)).source
    assert isinstance(images, EncodedImages)
    reduced = (images.sizes.min(1) * scale >= FULL) & (images.headers.records["kind"] == layout.BASELINE)
    return replace(images, scales=np.where(reduced, scale, FULL))


class Decoded:
    """Files as the kernels decode them.

    Attributes
    ----------
    uploaded : Upload
    words, status : arrays as on a GPU
    rounds : dict of int to int
        Rounds of each image that was searched; negative if it has too few blocks.
    values : list of arrays
    """

    def __init__(
        self, files: list[bytes], regions: Any = None, span: int = SPAN, color: str = "rgb", scale: int = FULL
    ) -> None:
        images = scaled(files, scale, color)
        channels, sizes = images.channels, decoded_sizes(images)
        offsets, size = offsets_of(sizes, channels)[:2]
        flat = np.zeros(size, np.uint8)
        wanted = whole_regions(sizes) if regions is None else regions
        self.uploaded = Upload(images, Pixels(flat, offsets, sizes, channels), wanted, span=span)
        self.words = np.zeros(self.uploaded.words_on_gpu, np.int32)
        self.uploaded.write(self.words[: self.uploaded.words])
        self.status = np.zeros(len(files), np.int32)
        self.rounds: dict[int, int] = {}
        for part in self.uploaded.parts:
            coefficients = np.zeros(int(part["blocks"]) * upload.COEFFICIENTS, np.int16)
            planes = np.zeros(int(part["blocks"]) * upload.SAMPLES // 4, np.int32)
            given = self.words, coefficients, planes, planes.view(np.uint8), flat, self.status
            for name, grid, arguments in self.uploaded.launches(part, *given):
                if name == "find":
                    self._find(int(arguments[1]), grid[0])
                elif name == "huffman":
                    fast = np.zeros(upload.SLOTS << _HUFFMAN_BITS, np.int32)
                    huffman(self.words, int(arguments[1]), grid[0], coefficients, self.status, fast)
                elif name == "colors":
                    pixels(self.words, int(arguments[1]), grid[1], coefficients, planes, planes.view(np.uint8),
                           channels, flat, np.zeros(64, np.int32))  # fmt: skip
        self.values = [
            flat[offset : offset + height * width * channels].reshape(height, width, channels)
            for offset, (height, width) in zip(offsets.tolist(), sizes.tolist(), strict=True)
        ]

    def _find(self, at: int, n: int) -> None:
        part, firsts = np.zeros((_PARTS, 10), np.int64), np.zeros(_PARTS, np.int64)
        fast = np.zeros(upload.SLOTS << _BITS, np.uint16)
        for k in range(n):
            scan = at + k * upload.SCAN_WORDS
            image = int(self.words[scan + upload.SCAN_IMAGE])
            self.rounds[image] = found = find(self.words, scan, part, firsts, np.zeros(3, np.int32), fast)
            if not 0 <= found < GIVEN_UP:
                self.status[image] = upload.UNSYNCHRONIZED


# -- against the CPU's decoder -----------------------------------------------------------------------------------------


def compared(
    files: list[bytes], span: int = SPAN, color: str = "rgb", regions: Any = None, scale: int = FULL
) -> Counter[str]:
    """Count how files ended; those that the kernels decode must have the CPU's pixels."""
    ours = Decoded(files, regions, span, color, scale)
    exact, outcome = CpuRuntime().decode(scaled(files, scale, color))
    counts: Counter[str] = Counter()
    taken, searched = set(ours.uploaded.taken), ours.rounds
    for i in range(len(files)):
        if i not in taken:
            counts["not for these kernels"] += 1
        elif ours.status[i]:
            given_up = searched.get(i, 0) >= GIVEN_UP
            counts["not synchronized: the CPU decodes it" if given_up else "reported: the CPU decodes it"] += 1
        else:
            box = slice(None), slice(None)
            if regions is not None:
                x0, y0, x1, y1 = regions[i].tolist()
                box = slice(y0, y1), slice(x0, x1)
            same = i not in outcome.failures and i not in exact.failures
            same = same and np.array_equal(ours.values[i][box], exact.view(i)[box])
            counts["the CPU's pixels" if same else "WRONG"] += 1
        if i in searched:
            counts[f"rounds: {max(searched[i], 0):2}"] += 1
    return counts


def made(number: int) -> bytes:
    """A file of any sampling, size, quality and kind of content; every 250th is large."""
    random = np.random.default_rng([28, number])
    sampling = SAMPLINGS[number % len(SAMPLINGS)]
    height, width = (int(2 ** random.uniform(0, 9)) for _ in range(2))
    if number % 10 == 0:
        height, width = (int(side) for side in random.integers(1, 18, 2))
    if number % 250 == 1:
        height, width = 2000, 3000
    image = noise(height, width, number) if number % 5 == 0 else picture(height, width, number % 50)
    quality = int(random.choice(QUALITIES))
    options = OPTIONS[int(random.integers(len(OPTIONS)))] if sampling != "4:4:0" else {}
    return encoded(image, sampling, quality=quality, **options)


def periodic(number: int) -> bytes:
    """Stripes, chess boards and flat images: their blocks look alike from wrong bits, too."""
    random = np.random.default_rng([29, number])
    y, x = np.mgrid[: int(random.integers(64, 800)), : int(random.integers(64, 800))]
    period = int(random.integers(1, 17))
    value = (x // period % 2, y // period % 2, (x // period + y // period) % 2, 0 * x)[number % 4] * 200 + 27
    image = Image.fromarray(value.astype(np.uint8)).convert("RGB")
    return encoded(image, ("4:2:0", "4:4:4", "gray")[number % 3], quality=int(random.choice(QUALITIES)))


def damaged(seed: int) -> bytes:
    """A file of the mutations; every other one of a larger file that is damaged in its scan."""
    if seed % 2:
        return mutation(seed)[0]
    random = np.random.default_rng([30, seed])
    data = bytearray(encoded(picture(130, 170, seed % 12), SAMPLINGS[seed % 6], quality=90))
    for at in random.integers(len(data) // 3, len(data) - 2, int(random.choice((1, 2, 20)))).tolist():
        data[at] = int(random.integers(255))
    return bytes(data)


def regions_of(files: list[bytes], seed: int, scale: int = FULL) -> NDArray[np.int64]:
    """A random region of each image."""
    random, sizes = np.random.default_rng([31, seed]), decoded_sizes(scaled(files, scale))
    start = random.integers(0, sizes)
    stop = random.integers(start, sizes) + 1
    return np.concatenate([start[:, ::-1], stop[:, ::-1]], axis=1)


def check(folder: Path) -> Callable[[int], Counter[str]]:
    """Return the check of some files, made, periodic or damaged, in parts of a size; also of regions at a scale."""

    def checked(number: int) -> Counter[str]:
        kind, span = (damaged, made, made, periodic)[number % 4], (SPAN, 256)[number // 4 % 2]
        files, scale = list[bytes](), (FULL, *SCALES)[number // 8 % 4]
        for k in range(BATCH):
            with suppress(OSError):  # Pillow's encoder fails at a few
                files.append(kind(number * BATCH + k))
        counts = compared(files, span)
        if kind is made:
            counts += compared(files, span, regions=regions_of(files, number, scale), scale=scale)
        assert not counts["WRONG"], counts
        return counts

    return checked
