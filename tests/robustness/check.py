"""What has to hold for a batch with damaged files in it.

Every damaged file either has exactly the pixels nvImageCodec gives for it alone, or it is black and has a reason. The
intact files beside it are untouched, nothing reaches stderr but what the caller writes, and no thread, descriptor or
memory is left behind.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._decoding import exif, nvimgcodec
from gpuimg._plan.compile import compile_plan

from .mutate import Draw, kinds_of, mutation
from .originals import originals

Pixels = NDArray[np.uint8]
Region = tuple[int, int, int, int]  # x0, y0, x1, y1

BATCH = 64
EVERY = 8  # one image in so many is intact
MAX_PIXELS = 1 << 22
SIZE = (24, 32)

# Behind each image of the reference there is memory of this many bytes, so that writing past its end is seen.
_GUARD = 1 << 18
_FILL = 0xA5
_LOSS = 2048  # bytes; less is what caches grow by


class Finding(NamedTuple):
    """Something that must not be: which rule, where, and what was seen."""

    rule: str
    seed: int  # of the image, or the first one of the batch
    detail: str


@dataclass
class Report:
    """What became of the damaged files of one or more batches."""

    findings: list[Finding] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)  # "kind | way | outcome"
    reasons: Counter[str] = field(default_factory=Counter)
    overran: list[int] = field(default_factory=list)  # seeds with which nvImageCodec alone wrote past an image
    leaked: Counter[int] = field(default_factory=Counter)  # bytes a decode that nvImageCodec alone loses, by seed
    lost: int = 0  # bytes lost in this process by that
    slow: list[tuple[float, int, str]] = field(default_factory=list)  # seconds alone, seed, description
    seconds: float = 0.0  # in gpuimg

    def add(self, other: Report) -> None:
        """Count another report in."""
        self.findings += other.findings
        self.outcomes += other.outcomes
        self.reasons += other.reasons
        self.overran += other.overran
        self.leaked += other.leaked
        self.lost += other.lost
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


def stored_region(region: Region, orientation: int, height: int, width: int) -> Region:
    """Where a region of the turned image lies in the file's own ``height`` x ``width``."""
    x0, y0, x1, y1 = region
    rows = turned(np.broadcast_to(np.arange(height)[:, None], (height, width)), orientation)[y0:y1, x0:x1]
    columns = turned(np.broadcast_to(np.arange(width), (height, width)), orientation)[y0:y1, x0:x1]
    rows, columns = rows[:: len(rows) - 1 or 1, :: rows.shape[1] - 1 or 1], columns[:: len(columns) - 1 or 1]
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


class Alone:
    """nvImageCodec by itself: one file, one decoder, memory in which overruns are seen."""

    def __init__(self) -> None:
        self._decoder = nvimgcodec.cpu_decoder()
        self._memory = np.empty(3 * MAX_PIXELS + _GUARD, np.uint8)
        self.forget()

    def forget(self) -> None:
        """Begin with another file."""
        self.overruns = 0
        self.seconds = 0.0
        self.lost: list[int] = []  # bytes, by decode

    def _decode(self, data: bytes, color: str, region: Region | None, orient: bool) -> Pixels | None:
        start, before = time.perf_counter(), allocated()
        out = self._attempt(data, color, region, orient)
        lost = allocated() - before
        self.lost.append(lost if lost > _LOSS else 0)
        self.seconds += time.perf_counter() - start
        return None if out is None else out.copy()

    def _attempt(self, data: bytes, color: str, region: Region | None, orient: bool) -> Pixels | None:
        library = nvimgcodec.library()
        spec = library.ColorSpec.GRAY if color == "gray" else library.ColorSpec.SRGB
        params = library.DecodeParams(apply_exif_orientation=orient, color_spec=spec)
        try:
            stream = library.CodeStream(data)
            height, width = stream.height, stream.width
            if orient and exif.swaps_sides(exif.orientation(data)):
                height, width = width, height
            if region is not None:
                x0, y0, x1, y1 = region
                stream = stream.get_sub_code_stream(region=library.Region(y0, x0, y1, x1))
                height, width = y1 - y0, x1 - x0
            channels = 1 if color == "gray" else 3
            size = height * width * channels
            memory = self._memory[: size + _GUARD]
            memory[:] = _FILL
            out = memory[:size].reshape(height, width, channels)
            image = self._decoder.decode(stream, image=library.as_image(out), params=params)
        except (RuntimeError, ValueError, MemoryError):
            return None
        if not (memory[size:] == _FILL).all():
            self.overruns += 1
            return None
        return out if image is not None and (image.height, image.width) == (height, width) else None

    def pixels(self, data: bytes, color: str, region: Region | None = None, *, apply: bool = False) -> Pixels | None:
        """What the file shows, or a region of that; None if it does not decode.

        It is turned here by the orientation gpuimg reads. To have nvImageCodec ``apply`` the one it reads is not safe
        for a damaged file: where its header parser and OpenCV read different ones, it writes past the image, farther
        than can be guarded.
        """
        if apply:
            return self._decode(data, color, region, orient=True)
        orientation = exif.orientation(data)
        if region is not None and orientation != 1:
            stream = nvimgcodec.library().CodeStream(data)
            region = stored_region(region, orientation, stream.height, stream.width)
        pixels = self._decode(data, color, region, orient=False)
        return None if pixels is None else turned(pixels, orientation)


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


class Checker:
    """Runs batches of damaged files with intact ones among them, and checks every rule."""

    def __init__(self, phase: Callable[[str], None] | None = None) -> None:
        self._phase = phase or (lambda _: None)  # told what runs next: "gpuimg" or "nvImageCodec alone"
        self._alone = Alone()
        self._intact = list(originals().values())
        self._crops = [_middle(*gi.image_info(data)[:2]) for data in self._intact]
        self._whole: dict[str, list[Pixels]] = {}
        self._cropped: dict[str, list[Pixels]] = {}
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (see close)
        self._nothing = os.open(os.devnull, os.O_WRONLY)
        with stderr_to(self._nothing):
            for color in ("rgb", "gray"):
                one = [gi.decode_batch([data], device="cpu", color=color) for data in self._intact]
                self._whole[color] = [np.array(x[0]) for x in one]
                self._cropped[color] = [
                    np.array(_cropped(gi.open_batch([data], device="cpu", color=color), [crop])[0])
                    for data, crop in zip(self._intact, self._crops, strict=True)
                ]

    def close(self) -> None:
        """Give the descriptors back."""
        self._said.close()
        os.close(self._nothing)

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
        self._phase("nvImageCodec alone")
        with stderr_to(self._nothing):
            self._judge(batch, report)
        return report

    def _run(self, batch: _Batch, report: Report) -> None:
        """Both ways through gpuimg, with stderr led to a file."""
        crops: list[Region] = []
        self._said.truncate(0)
        self._said.seek(0)
        start = time.perf_counter()
        try:
            with stderr_to(self._said.fileno()):
                os.write(2, b"one\n")
                whole = gi.decode_batch(
                    batch.sources, device="cpu", color=batch.color, on_error="fill", max_pixels=MAX_PIXELS
                )
                os.write(2, b"two\n")
                opened = gi.open_batch(
                    batch.sources, device="cpu", color=batch.color, on_error="fill", max_pixels=MAX_PIXELS
                )
                for slot, (height, width) in zip(batch.slots, opened.sizes, strict=True):
                    seed = batch.seeds[slot] if slot >= 0 else 0
                    crops.append(_drawn(seed, int(height), int(width)) if slot >= 0 else self._crops[-1 - slot])
                cropped = _cropped(opened, crops)
                results = cropped.array()
                os.write(2, b"three\n")
        except Exception as error:
            report.findings.append(Finding("exception", batch.seeds[0], f"{type(error).__name__}: {error}"))
            return
        finally:
            report.seconds += time.perf_counter() - start
        batch.whole, batch.cropped, batch.crops, batch.results = whole, cropped, crops, results
        self._said.seek(0)
        said = self._said.read()
        if said != b"one\ntwo\nthree\n":
            extra = sorted(set(said.decode(errors="replace").splitlines()) - {"one", "two", "three"})
            report.findings.append(Finding("stderr", batch.seeds[0], "; ".join(extra) or f"lines are lost: {said!r}"))

    def _judge(self, batch: _Batch, report: Report) -> None:
        if batch.whole is None:
            return
        regions = [_region(row) for row in compile_plan(batch.cropped._segments[0])[1]]
        canvases: dict[int, Pixels] = {}
        for i, slot in enumerate(batch.slots):
            if slot < 0:
                self._judge_intact(batch, i, -1 - slot, report)
                continue
            seed, (data, words) = batch.seeds[slot], batch.damaged[slot]
            self._alone.forget()
            whole = self._judge_whole(batch, i, seed, data, report)
            report.outcomes[f"{batch.kind(i)} | whole | {whole}"] += 1
            crop = self._judge_crop(batch, i, seed, data, regions[i], report)
            if isinstance(crop, str):
                report.outcomes[f"{batch.kind(i)} | crop | {crop}"] += 1
            else:
                canvases[i] = crop
            self._account(batch, i, seed, report)
            report.slow.append((round(self._alone.seconds, 4), seed, words))
        self._judge_crops(batch, canvases, report)
        report.slow = sorted(report.slow, reverse=True)[:20]

    def _account(self, batch: _Batch, i: int, seed: int, report: Report) -> None:
        """What nvImageCodec alone does wrong, which gpuimg cannot help."""
        if self._alone.overruns:
            report.overran.append(seed)
        lost = self._alone.lost
        if not any(lost):
            return
        report.leaked[seed] = max(lost)
        refused = sum(x.status[i] != "ok" for x in (batch.whole, batch.cropped))  # those are decoded twice
        report.lost += 2 * sum(lost) + lost[0] * refused

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

    def _judge_whole(self, batch: _Batch, i: int, seed: int, data: bytes, report: Report) -> str:
        status, pixels = batch.whole.status[i], batch.whole[i]
        if status != "ok":
            return self._judge_refused(seed, "whole", status, i in batch.whole.errors, pixels, data, batch, report)
        expected = self._alone.pixels(data, batch.color)
        if expected is not None and np.array_equal(pixels, expected):
            return "decoded"
        difference = "nvImageCodec alone refuses it" if expected is None else _difference(pixels, expected)
        report.findings.append(Finding("pixels", seed, f"whole: {difference}"))
        return "wrong pixels"

    def _judge_refused(
        self, seed: int, way: str, status: str, named: bool, pixels: Pixels, data: bytes, batch: _Batch, report: Report
    ) -> str:
        if not status or not status.strip() or not named:
            report.findings.append(Finding("reason", seed, f"{way}: status {status!r}, in errors: {named}"))
        if pixels.any():
            report.findings.append(Finding("black", seed, f"{way}: {int(pixels.max())} in a refused image"))
        report.reasons[re.sub(r"0x[0-9a-f]+|\d+|b'.*'", "#", status)[:100]] += 1
        try:  # what gpuimg refuses for its header is not safe to decode
            gi.image_info(data, max_pixels=MAX_PIXELS)
        except ValueError:
            return "refused for its header"
        if way == "whole" and self._alone.pixels(data, batch.color) is not None:
            return "refused, though nvImageCodec alone decodes it"
        return "refused"

    def _judge_crop(
        self, batch: _Batch, i: int, seed: int, data: bytes, region: Region, report: Report
    ) -> str | Pixels:
        """The outcome; or the image to crop, of which only the region is there."""
        status = batch.cropped.status[i]
        if status != "ok":
            named = i in batch.cropped.errors
            return self._judge_refused(seed, "crop", status, named, batch.results[i], data, batch, report)
        height, width = (int(v) for v in batch.whole.sizes[i])
        x0, y0, x1, y1 = region
        pixels = self._alone.pixels(data, batch.color, None if region == (0, 0, width, height) else region)
        if pixels is None:
            report.findings.append(Finding("pixels", seed, f"crop: nvImageCodec alone refuses the region {region}"))
            return "wrong pixels"
        canvas: Pixels = np.zeros((height, width, pixels.shape[2]), np.uint8)
        canvas[y0:y1, x0:x1] = pixels
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
                report.findings.append(Finding("pixels", seed, "crop: not what the region shows alone"))
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
        """What was done to image ``i``."""
        kinds = kinds_of(self.damaged[self.slots[i]][1])
        return kinds[0] if len(kinds) == 1 else "several"


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
