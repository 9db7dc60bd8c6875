"""Requirements for a batch with damaged files.

Every damaged file either has exactly the pixels that Pillow gives for it alone, or it is black and has a reason. The
intact files beside it are untouched, nothing reaches stderr but what the caller writes, no byte beside the memory of
results and scratch is written, and no thread, descriptor or memory leaks.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._batch.batch import Batch, recording_of
from gpuimg._batch.encoded import open_images
from gpuimg._batch.recording import Recording
from gpuimg._decoding.options import DecodeOptions
from gpuimg._plan.compile import compile_plan
from gpuimg._runtimes.cpu import CpuRuntime
from gpuimg._runtimes.cpu_memory import Scratch

from ..jpegs import Guarded, is_baseline, is_ours, jpeg_mode, pillow_pixels
from .mutate import APP1, EOI, SOS, Draw, kinds_of, mutation, segments
from .originals import originals

Pixels = NDArray[np.uint8]
Region = tuple[int, int, int, int]  # x0, y0, x1, y1

BATCH = 64
EVERY = 8  # one image in so many is intact
MAX_PIXELS = 1 << 22
SIZE = (24, 32)
SECONDS = 5.0  # that a batch may take, both ways

_FILLS = (0x55, 0xAA)  # what scratch and results hold before, by turns


class Finding(NamedTuple):
    """Something that must not be: which rule, where, and what was seen."""

    rule: str
    seed: int  # of the image, or the first one of the batch
    detail: str


@dataclass
class Report:
    """Outcomes of the damaged files of one or more batches."""

    findings: list[Finding] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)  # "kind | way | outcome"
    reasons: Counter[str] = field(default_factory=Counter)
    decoders: Counter[str] = field(default_factory=Counter)  # that files were for, by their headers
    slow: list[tuple[float, int, str]] = field(default_factory=list)  # seconds of a batch, seed, description
    seconds: float = 0.0  # in gpuimg

    def add(self, other: Report) -> None:
        """Count another report in."""
        self.findings += other.findings
        self.outcomes += other.outcomes
        self.reasons += other.reasons
        self.decoders += other.decoders
        self.slow = sorted(self.slow + other.slow, reverse=True)[:20]
        self.seconds += other.seconds


# -- the reference ------------------------------------------------------------------------------------------------


def turned(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Pixels as an EXIF orientation wants them seen (EXIF 2.32, tag 0x0112)."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels


class Expected(NamedTuple):
    """Return Pillow's pixels of a file with its orientation applied; None if it refuses the file."""

    pixels: Pixels | None
    why: str  # it was given less than the file, if so


def cut(data: bytes) -> bytes:
    """The file up to the end of its first scan, without EXIF.

    Pillow refuses a file for bytes after its pixels, or missing there, and for damaged EXIF.
    """
    pieces = segments(data)
    scan = next((k for k, piece in enumerate(pieces) if piece[:2] == bytes((0xFF, SOS))), len(pieces))
    kept = [piece for piece in pieces[: scan + 1] if piece[:2] != bytes((0xFF, APP1))]
    return b"".join(kept) + bytes((0xFF, EOI))


def _by_pillow(data: bytes, color: str) -> Pixels:
    if color == "gray" and jpeg_mode(data) not in ("L", "YCbCr", "RGB"):  # of CMYK there is no luma
        gray: Pixels = gi.rgb_to_grayscale([pillow_pixels(data)]).compute("uint8")[0]
        return gray
    return pillow_pixels(data, 1 if color == "gray" else 3)


def expected(data: bytes, color: str) -> Expected:
    """Compare with Pillow's pixels under the orientation that gpuimg reads: damaged EXIF allows several."""
    for file, why in ((data, ""), (cut(data), "Pillow refuses the bytes after the scan, or EXIF")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of damaged EXIF; no other thread runs
                stored = _by_pillow(file, color)
        except Exception:  # Pillow raises what comes
            continue
        return Expected(turned(stored, gi.image_info(data, max_pixels=MAX_PIXELS).orientation), why)
    return Expected(None, "")


# -- memory that tells ------------------------------------------------------------------------------------------------


class _GuardedScratch(Scratch):
    """Scratch of exactly the requested size, between guards, and never the same twice."""

    def __init__(self, runtime: GuardedRuntime) -> None:
        super().__init__()
        self._runtime = runtime
        self.tables = runtime.guarded(self.tables.nbytes, 0).view(self.tables.dtype)  # at first zeros

    def flat(self, name: str, elements: int, dtype: Any) -> NDArray[Any]:
        """As that of the base class."""
        kind = np.dtype(dtype)
        return self._runtime.guarded(max(elements, 1) * kind.itemsize).view(kind)


class GuardedRuntime(CpuRuntime):
    """The CPU runtime, all of whose memory lies between guards and holds something odd at first."""

    def __init__(self) -> None:
        super().__init__()
        self.fill = _FILLS[0]
        self._guarded: list[Guarded] = []

    def guarded(self, size: int, fill: int | None = None) -> Pixels:
        """Return memory of a number of bytes."""
        made = Guarded(size, self.fill if fill is None else fill)
        self._guarded.append(made)
        return made.bytes

    def empty(self, elements: int, dtype: str) -> Any:
        """As that of the base class."""
        kind = np.dtype(dtype)
        return self.guarded(elements * kind.itemsize).view(kind)

    take = empty

    def _take(self) -> Scratch:
        return _GuardedScratch(self)

    def broken(self) -> list[str]:
        """Return the writes outside the memory handed out since the last call, and start again."""
        found = [broken for one in self._guarded if (broken := one.broken())]
        self._guarded.clear()
        self._spare.clear()
        self.fill = _FILLS[self.fill == _FILLS[0]]
        return found


# -- the process --------------------------------------------------------------------------------------------------


@contextmanager
def stderr_to(descriptor: int) -> Iterator[None]:
    """Lead file descriptor 2 elsewhere."""
    saved = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def descriptors() -> int:
    """Open file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


def memory() -> int:
    """Resident memory in KiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


class _Malloc(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keep",
        )
    )


def _mallinfo() -> Callable[[], Any]:
    try:
        function = ctypes.CDLL("libc.so.6").mallinfo2
    except (OSError, AttributeError):  # another libc, or glibc before 2.33
        return _Malloc
    function.restype = _Malloc
    return function


_MALLINFO = _mallinfo()


def allocated() -> int:
    """Bytes that malloc has given and not got back; 0 where it does not tell."""
    info = _MALLINFO()
    return int(info.uordblks + info.hblkhd)


def compile_all() -> None:
    """Check a few files, in color and in gray, so that nothing is compiled later."""
    checker = Checker()
    for first in (0, 3 * (BATCH - EVERY)):
        checker.check(range(first, first + EVERY))
    checker.close()


class Checker:
    """Runs batches of damaged files with intact ones among them, and checks every rule."""

    def __init__(self, phase: Callable[[str], None] | None = None) -> None:
        self._phase = phase or (lambda _: None)  # told what runs next: "gpuimg" or "Pillow"
        self._runtime = GuardedRuntime()
        self._intact = list(originals().values())
        self._crops = [_middle(*gi.image_info(data)[:2]) for data in self._intact]
        self._whole: dict[str, list[Pixels]] = {}
        self._cropped: dict[str, list[Pixels]] = {}
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (see close)
        for color in ("rgb", "gray"):
            self._whole[color] = [_shown(data, color) for data in self._intact]
            crops = zip(self._whole[color], self._crops, strict=True)
            self._cropped[color] = [np.array(_cropped([pixels], [crop])[0]) for pixels, crop in crops]

    def close(self) -> None:
        """Give the descriptor back."""
        self._said.close()

    def check(self, seeds: Sequence[int]) -> Report:
        """Check one batch: these mutations, and an intact file for every seven of them."""
        if not seeds:
            return Report()
        damaged = [mutation(seed) for seed in seeds]
        sources: list[bytes] = []
        slots: list[int] = []  # which mutation; -1 - k is original k
        for i, (data, _) in enumerate(damaged):
            if i % (EVERY - 1) == EVERY // 2:
                slots.append(-1 - (seeds[i] // (EVERY - 1)) % len(self._intact))
                sources.append(self._intact[-1 - slots[-1]])
            slots.append(i)
            sources.append(data)
        slots.append(-1 - seeds[0] % len(self._intact))
        sources.append(self._intact[-1 - slots[-1]])
        color = "gray" if seeds[0] // (BATCH - EVERY) % 4 == 3 else "rgb"
        batch = _Batch(list(seeds), damaged, sources, slots, color)
        report = Report()
        before = descriptors(), threading.active_count()
        self._phase("gpuimg")
        self._run(batch, report)
        after = descriptors(), threading.active_count()
        for name, old, new in zip(("descriptors", "threads"), before, after, strict=True):
            if new > old:
                report.findings.append(Finding(name, seeds[0], f"{old} before, {new} after"))
        report.findings += [Finding("memory", seeds[0], broken) for broken in self._runtime.broken()]
        report.slow = [(round(report.seconds, 4), seeds[0], "a batch")]
        if report.seconds > SECONDS:
            report.findings.append(Finding("slow", seeds[0], f"{report.seconds:.1f} s for the batch"))
        self._phase("Pillow")
        self._judge(batch, report)
        return report

    def _opened(self, batch: _Batch) -> Any:
        opened = open_images(batch.sources, DecodeOptions(batch.color, max_pixels=MAX_PIXELS), "fill")
        return Batch(Recording(self._runtime, opened))

    def _run(self, batch: _Batch, report: Report) -> None:
        """Both ways through gpuimg, with stderr led to a file."""
        crops: list[Region] = []
        self._said.truncate(0)
        self._said.seek(0)
        start = time.perf_counter()
        try:
            with stderr_to(self._said.fileno()):
                whole = self._opened(batch)
                whole.compute("uint8") if whole.is_uniform else whole[0]
                opened = self._opened(batch)
                for slot, (height, width) in zip(batch.slots, opened.sizes, strict=True):
                    seed = batch.seeds[slot] if slot >= 0 else 0
                    crops.append(_drawn(seed, int(height), int(width)) if slot >= 0 else self._crops[-1 - slot])
                cropped = _cropped(opened, crops)
                results = cropped.array()
        except Exception as error:
            report.findings.append(Finding("exception", batch.seeds[0], f"{type(error).__name__}: {error}"))
            return
        finally:
            report.seconds += time.perf_counter() - start
        batch.whole, batch.cropped, batch.crops, batch.results = whole, cropped, crops, results
        self._said.seek(0)
        said = self._said.read()
        if said:
            lines = sorted(set(said.decode(errors="replace").splitlines()))
            report.findings.append(Finding("stderr", batch.seeds[0], "; ".join(lines)))

    def _judge(self, batch: _Batch, report: Report) -> None:
        if batch.whole is None:
            return
        regions = [_region(row) for row in compile_plan(recording_of(batch.cropped).segments[0])[1]]
        canvases: dict[int, Pixels] = {}
        for i, slot in enumerate(batch.slots):
            if slot < 0:
                self._judge_intact(batch, i, -1 - slot, report)
                continue
            seed, (data, _) = batch.seeds[slot], batch.damaged[slot]
            by_pillow = expected(data, batch.color) if self._is_opened(data) else Expected(None, "")
            if by_pillow.pixels is None and batch.whole.status[i] == "ok" and not is_baseline(data):
                # gpuimg gives Pillow's decoder the parts of the file that matter; its reader stumbles over the others.
                by_pillow = Expected(batch.whole[i], "Pillow refuses its header")
            whole = self._judge_whole(batch, i, seed, by_pillow, report)
            report.outcomes[f"{batch.kind(i)} | whole | {whole}"] += 1
            report.decoders["ours" if is_ours(data) else "Pillow"] += 1
            crop = self._judge_crop(batch, i, seed, by_pillow, regions[i], report)
            if isinstance(crop, str):
                report.outcomes[f"{batch.kind(i)} | crop | {crop}"] += 1
            else:
                canvases[i] = crop
        self._judge_crops(batch, canvases, report)

    @staticmethod
    def _is_opened(data: bytes) -> bool:
        try:
            gi.image_info(data, max_pixels=MAX_PIXELS)
        except ValueError:
            return False
        return True

    def _judge_intact(self, batch: _Batch, i: int, k: int, report: Report) -> None:
        for way, got, expected, status in (
            ("whole", batch.whole[i], self._whole[batch.color][k], batch.whole.status[i]),
            ("crop", batch.results[i], self._cropped[batch.color][k], batch.cropped.status[i]),
        ):
            if status != "ok" or not np.array_equal(got, expected):
                detail = (
                    f"{way}: image {i} of the batch, intact, {_difference(got, expected)}; its status is {status!r}"
                )
                report.findings.append(Finding("neighbour", batch.seeds[0], detail))

    def _judge_whole(self, batch: _Batch, i: int, seed: int, by_pillow: Expected, report: Report) -> str:
        status, pixels = batch.whole.status[i], batch.whole[i]
        if status != "ok":
            named = i in batch.whole.errors
            return self._judge_refused(seed, "whole", status, named, pixels, by_pillow, report)
        if by_pillow.pixels is not None and np.array_equal(pixels, by_pillow.pixels):
            return f"decoded, though {by_pillow.why}" if by_pillow.why else "decoded"
        difference = "Pillow refuses it" if by_pillow.pixels is None else _difference(pixels, by_pillow.pixels)
        report.findings.append(Finding("pixels", seed, f"whole: {difference}"))
        return "wrong pixels"

    @staticmethod
    def _judge_refused(
        seed: int, way: str, status: str, named: bool, pixels: Pixels, by_pillow: Expected, report: Report
    ) -> str:
        if not status or not status.strip() or not named:
            report.findings.append(Finding("reason", seed, f"{way}: status {status!r}, in errors: {named}"))
        if pixels.any():
            report.findings.append(Finding("black", seed, f"{way}: {int(pixels.max())} in a refused image"))
        report.reasons[re.sub(r"0x[0-9a-f]+|\d+|b'.*'", "#", status)[:100]] += 1
        if by_pillow.pixels is not None and not by_pillow.why:
            return "refused, though Pillow decodes it"
        return "refused"

    def _judge_crop(
        self, batch: _Batch, i: int, seed: int, by_pillow: Expected, region: Region, report: Report
    ) -> str | Pixels:
        """The outcome; or the image to crop, of which only the region is there."""
        status = batch.cropped.status[i]
        if status != "ok":
            named = i in batch.cropped.errors
            return self._judge_refused(seed, "crop", status, named, batch.results[i], by_pillow, report)
        height, width = (int(v) for v in batch.whole.sizes[i])
        if by_pillow.pixels is None or by_pillow.pixels.shape[:2] != (height, width):
            report.findings.append(Finding("pixels", seed, f"crop: Pillow refuses it, the region is {region}"))
            return "wrong pixels"
        x0, y0, x1, y1 = region
        canvas: Pixels = np.zeros((height, width, by_pillow.pixels.shape[2]), np.uint8)
        canvas[y0:y1, x0:x1] = by_pillow.pixels[y0:y1, x0:x1]
        return canvas

    def _judge_crops(self, batch: _Batch, canvases: dict[int, Pixels], report: Report) -> None:
        """Crop the references with gpuimg, as arrays, and compare."""
        if not canvases:
            return
        expected = _cropped(list(canvases.values()), [batch.crops[i] for i in canvases]).array()
        for i, pixels in zip(canvases, expected, strict=True):
            outcome = "decoded" if batch.whole.status[i] == "ok" else "decoded, though the whole is refused"
            if not np.array_equal(batch.results[i], pixels):
                seed = batch.seeds[batch.slots[i]]
                report.findings.append(Finding("pixels", seed, "crop: not what the region shows in the whole"))
                outcome = "wrong pixels"
            report.outcomes[f"{batch.kind(i)} | crop | {outcome}"] += 1


@dataclass
class _Batch:
    seeds: list[int]
    damaged: list[tuple[bytes, str]]
    sources: list[bytes]
    slots: list[int]
    color: str
    whole: Any = None
    cropped: Any = None
    crops: list[Region] = field(default_factory=list)  # top, left, height, width
    results: Any = None

    def kind(self, i: int) -> str:
        """Return the mutation of image ``i``."""
        kinds = kinds_of(self.damaged[self.slots[i]][1])
        return kinds[0] if len(kinds) == 1 else "several"


def _shown(data: bytes, color: str) -> Pixels:
    found = expected(data, color).pixels
    if found is None:
        raise ValueError("Pillow refuses an intact file")
    return found


def _region(row: Any) -> Region:
    x0, y0, x1, y1 = (int(v) for v in row)
    return x0, y0, x1, y1


def _middle(height: int, width: int) -> Region:
    return height // 5, width // 5, height * 3 // 5, width * 3 // 5


def _drawn(seed: int, height: int, width: int) -> Region:
    """A crop of the image, all of it for one in four."""
    draw = Draw(~seed)
    if draw.below(4) == 0:
        return 0, 0, height, width
    tall, wide = draw.between(1, height), draw.between(1, width)
    return draw.between(0, height - tall), draw.between(0, width - wide), tall, wide


def _cropped(x: gi.Batch | list[Pixels], crops: Sequence[Region]) -> gi.Batch:
    top, left, height, width = (list(column) for column in zip(*crops, strict=True))
    return gi.resized_crop(x, top, left, height, width, SIZE)


def _difference(got: Pixels, expected: Pixels) -> str:
    if got.shape != expected.shape:
        return f"is {got.shape} and not {expected.shape}"
    return f"differs in {np.count_nonzero(got != expected)} of {got.size} values"
