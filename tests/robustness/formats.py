"""Damaged files of the formats that Pillow decodes, by number: each has its pixels or a reason, within its limits.

    python -m tests.robustness.formats 5000           # that many files of each format
    python -m tests.robustness.formats 5000 tiff png  # of these only

A child process decodes them, a few hundred at a time, and is restarted after a file that kills it. It finds what
took longer than SECONDS, more memory than the limits allow, what reached stderr or came as a warning, reasons without
words, and pixels that are not Pillow's.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from gpuimg._decoding import exif, pillow
from gpuimg._decoding.contents import BYTES_PER_IMAGE, BYTES_PER_PIXEL
from gpuimg._decoding.options import DecodeOptions

from ..tiffs import of_array
from .mutate import Draw, patched
from .originals import picture

SECONDS = 5.0
MAX_PIXELS = 1 << 22
CHUNK = 250
_SILENCE = 60.0  # seconds of a child that says nothing, after which it hangs
_FIELDS = (0, 1, 2, 3, 7, 8, 9, 16, 31, 32, 255, 256, 257, 4096, 32767, 32768, 65535, 1 << 20, 1 << 24, 1 << 31, -1)
_LEAK = 20_000  # KiB that a chunk may keep: caches


class Finding(NamedTuple):
    """Something that must not be."""

    format: str
    seed: int
    rule: str
    detail: str


# -- files -------------------------------------------------------------------------------------------------------------


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    """A file of an image."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


@lru_cache(maxsize=1)
def originals() -> dict[str, list[bytes]]:
    """Intact files of every format, several kinds of each."""
    color, gray, other = picture(61, 83, 1), picture(45, 52, 2).convert("L"), picture(40, 56, 3)
    clear, palette, black = color.copy(), color.quantize(50), gray.convert("1")
    clear.putalpha(gray.resize(color.size))
    deep = Image.fromarray(np.asarray(gray).astype(np.uint16) * 257)
    turn = Image.Exif()
    turn[0x0112] = 6
    tiles = of_array(np.asarray(color), 2, tile=(32, 16), tags={274: 6})
    packed = ("tiff_lzw", "tiff_adobe_deflate", "packbits", "lzma", "jpeg")
    return {
        "png": [
            *(encoded(image, "PNG") for image in (color, gray, clear, palette, black, deep)),
            encoded(color, "PNG", exif=turn), encoded(palette, "PNG", transparency=3),
        ],
        "webp": [
            encoded(color, "WEBP"), encoded(color, "WEBP", lossless=True), encoded(clear, "WEBP", exif=turn),
            encoded(color, "WEBP", save_all=True, append_images=[other.resize(color.size)]),
        ],
        "avif": [*(encoded(image, "AVIF") for image in (color, clear, gray)), encoded(other, "AVIF", exif=turn)],
        "gif": [
            encoded(palette, "GIF"), encoded(gray, "GIF"), encoded(palette, "GIF", transparency=5),
            encoded(palette, "GIF", save_all=True, append_images=[other.quantize(9)], comment=b"x" * 300),
        ],
        "tiff": [
            *(encoded(image, "TIFF") for image in (color, gray, clear, palette, black, deep, color.convert("CMYK"))),
            *(encoded(other, "TIFF", compression=name) for name in packed),
            encoded(color.convert("YCbCr"), "TIFF"), encoded(color.convert("LAB"), "TIFF"),
            tiles, encoded(other, "TIFF", big_tiff=True),
            encoded(black, "TIFF", compression="group4"),
            encoded(other, "TIFF", strip_size=1000, compression="tiff_lzw"),
        ],
        "bmp": [encoded(image, "BMP") for image in (color, gray, palette, black, clear)],
        "pnm": [
            *(encoded(image, "PPM") for image in (color, gray, black, deep)),
            b"P2\n# text\n4 3\n15\n" + b" ".join(b"%d" % k for k in range(12)), b"P5 8 8 1000\n" + bytes(range(128)),
            b"P6 4 4 15\n" + bytes(48), b"P3 2 2 255 1 2 3 4 5 6 7 8 9 10 11 12\n", b"P1 3 2\n1 0 1 0 1 0\n",
        ],
        "jpeg2k": [
            *(encoded(image, "JPEG2000") for image in (color, gray, clear, deep)),
            encoded(color, "JPEG2000", no_jp2=True), encoded(other, "JPEG2000", tile_size=(32, 32)),
            encoded(other, "JPEG2000", irreversible=True, quality_layers=[30, 10], precinct_size=(64, 64)),
        ],
        "jpeg": [
            encoded(color, "JPEG", progressive=True), encoded(gray, "JPEG", progressive=True),
            encoded(color.convert("CMYK"), "JPEG"), encoded(other, "JPEG", progressive=True, subsampling=0, exif=turn),
        ],
    }  # fmt: skip


def mutation(form: str, seed: int) -> tuple[bytes, str]:
    """Damaged file number ``seed`` of a format, and what was done to it."""
    draw = Draw(seed * 16 + list(originals()).index(form))
    files = originals()[form]
    which = draw.below(len(files))
    data, words = files[which], [f"{form} {which}"]
    for _ in range(draw.pick((1, 1, 1, 2, 3))):
        name, change = draw.pick(CHANGES)
        data = change(draw, data)
        words.append(name)
    if form == "png" and draw.below(3):
        data = with_checksums(data)
    return data, "; ".join(words)


def _place(draw: Draw, data: bytes) -> int:
    """Anywhere, the header more often."""
    return draw.below(draw.pick((len(data), min(len(data), 200), min(len(data), 600))))


def _flip(draw: Draw, data: bytes) -> bytes:
    result = bytearray(data)
    for _ in range(draw.pick((1, 1, 2, 5, 40))):
        result[_place(draw, data)] ^= 1 << draw.below(8)
    return bytes(result)


def _field(draw: Draw, data: bytes) -> bytes:
    size, order = draw.pick((1, 2, 4)), draw.pick(("big", "little"))
    value = draw.pick(_FIELDS) & ((1 << 8 * size) - 1)
    return patched(data, _place(draw, data), value.to_bytes(size, order))  # type: ignore[arg-type]  # one of two words


def _cut(draw: Draw, data: bytes) -> bytes:
    return data[: draw.between(min(12, len(data)), len(data))]


def _drop(draw: Draw, data: bytes) -> bytes:
    at = _place(draw, data)
    return data[:at] + data[at + draw.between(1, 60) :]


def _insert(draw: Draw, data: bytes) -> bytes:
    at = _place(draw, data)
    return data[:at] + draw.text(draw.between(1, 60)) + data[at:]


def _run(draw: Draw, data: bytes) -> bytes:
    size = draw.between(2, 200)
    return patched(data, _place(draw, data), draw.pick((bytes(size), b"\xff" * size, draw.text(size))))


def _repeat(draw: Draw, data: bytes) -> bytes:
    at, size = _place(draw, data), draw.between(4, 300)
    return data[: at + size] + data[at:]


CHANGES: tuple[tuple[str, Callable[[Draw, bytes], bytes]], ...] = (
    ("flip", _flip), ("flip", _flip), ("field", _field), ("field", _field), ("field", _field), ("cut", _cut),
    ("drop", _drop), ("insert", _insert), ("run", _run), ("repeat", _repeat),
)  # fmt: skip


def with_checksums(data: bytes) -> bytes:
    """A PNG with the right checksum in every chunk that is whole."""
    result, at = bytearray(data), 8
    while at + 12 <= len(data):
        end = at + 8 + int.from_bytes(data[at : at + 4], "big")
        if end + 4 > len(data):
            break
        result[end : end + 4] = zlib.crc32(data[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(result)


# -- one file ----------------------------------------------------------------------------------------------------------


def theirs(data: bytes, orientation: int) -> NDArray[np.uint8] | None:
    """Pixels by the public way through Pillow, None where it refuses or does not read a damaged orientation."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(data))
            if image.size[0] * image.size[1] > MAX_PIXELS:
                return None
            if image.format != "TIFF" and image.getexif().get(0x0112, 1) != orientation:
                return None
            image = ImageOps.exif_transpose(image)
            if image.mode.startswith("I") or image.mode == "F":
                return None
            return np.asarray(image.convert("RGB"))
    except Exception:
        return None


def peak() -> int:
    """Most memory since :func:`forget_peak`, in KiB."""
    return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0])


def forget_peak() -> None:
    """Begin to measure :func:`peak`."""
    Path("/proc/self/clear_refs").write_text("5")


def resident() -> int:
    """Resident memory in KiB, without what malloc keeps for later."""
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def check(form: str, seed: int) -> tuple[str, list[Finding]]:
    """Decode one damaged file: how it ended, and what was wrong with that."""
    data, words = mutation(form, seed)
    found: list[tuple[str, str]] = []
    forget_peak()
    before, start = peak(), time.perf_counter()
    pixels, size, turn, outcome = None, 0, 1, "decoded"
    with warnings.catch_warnings(record=True) as warned:  # this process has one thread
        warnings.simplefilter("always")
        try:
            header = pillow.read_header(data, MAX_PIXELS)
            size = header.height * header.width
            pixels = pillow.decode(data, header, DecodeOptions())
            turn = header.orientation
            pixels = exif.turned(pixels, turn)
        except ValueError as error:
            outcome = "refused"
            if len(str(error)) < 8 or re.search(r"0x[0-9a-f]{6}|Error\(|\n", str(error)):
                found.append(("words", str(error)))
        except Exception as error:
            found.append(("exception", f"{type(error).__name__}: {error}"))
    seconds, memory = time.perf_counter() - start, (peak() - before) * 1024
    if warned:
        found.append(("warning", str(warned[0].message)))
    if seconds > SECONDS:
        found.append(("time", f"{seconds:.1f} s"))
    if memory > BYTES_PER_PIXEL * size + BYTES_PER_IMAGE:
        found.append(("memory", f"{memory >> 20} MiB for {size} pixels"))
    expected = None if pixels is None else theirs(data, turn)
    if pixels is not None and expected is not None and not np.array_equal(pixels, expected):
        found.append(("pixels", f"{pixels.shape} and {expected.shape}"))
    return outcome, [Finding(form, seed, rule, f"{detail} ({words})") for rule, detail in found]


# -- many --------------------------------------------------------------------------------------------------------------


def _child(form: str, first: int, stop: int) -> None:
    """Check some files, saying on stdout how far it is."""
    exif.orientation_in(bytes(8))  # imports Numba, which is no memory of a file
    for seed in range(20):
        check(form, seed)
    before = resident()
    for seed in range(first, stop):
        said = os.fstat(2).st_size
        outcome, findings = check(form, seed)
        if os.fstat(2).st_size > said:
            findings.append(Finding(form, seed, "stderr", f"{os.fstat(2).st_size - said} bytes"))
        print(json.dumps([seed, outcome, findings]), flush=True)
    grown = resident() - before
    if grown > _LEAK:
        print(json.dumps([stop - 1, "", [Finding(form, first, "leak", f"{grown} KiB in {stop - first}")]]), flush=True)


def run(form: str, first: int, stop: int) -> Iterator[tuple[str, list[Finding]]]:
    """Check files in children; one that dies is a finding."""
    while first < stop:
        last = min(first + CHUNK, stop)
        command = [sys.executable, "-m", "tests.robustness.formats", "--child", form, str(first), str(last)]
        with tempfile.TemporaryFile() as words:
            try:
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=words, timeout=_SILENCE * 10)
                lines, code = done.stdout.splitlines(), done.returncode
            except subprocess.TimeoutExpired as error:
                lines, code = (error.stdout or b"").splitlines(), -9
        for line in lines:
            seed, outcome, findings = json.loads(line)
            yield outcome, [Finding(*finding) for finding in findings]
            first = seed + 1
        if code:
            yield "died", [Finding(form, first, "died", f"exit status {code} ({mutation(form, first)[1]})")]
            first += 1


def main() -> int:
    """Check a number of files of each format, or of those named; return 1 if there are findings."""
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return 0
    count, forms = int(sys.argv[1]), sys.argv[2:] or list(originals())
    failed = 0
    for form in forms:
        outcomes: Counter[str] = Counter()
        for outcome, findings in run(form, 0, count):
            outcomes[outcome] += 1
            failed += len(findings)
            for finding in findings:
                print(*finding, flush=True)
        print(form, dict(outcomes), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
