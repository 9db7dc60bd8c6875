"""Preparing a data set: its cost compared with its parts, the gain of a second thread, and the gain of training.

    python -m bench.bench_prepare [--rounds 7] [--count 512] [--out bench/results/prepare.json]

For each set of photos, shrunk to a shorter side and encoded with quality 90:

- parts: milliseconds of CPU per image on one thread for decoding whole images, resizing decoded ones and encoding
  resized ones, each separately, and for :func:`gpuimg.prepare` with files, which also reads, writes and updates its
  manifest; ``of_parts`` is the sum of the first three over the last;
- threads: seconds on one thread over those on two, meaningful only on a machine without other work. On any machine,
  the CPU time of two threads over that of one, and the number of cores that the two use while they do not wait for
  one (Linux, ``/proc/thread-self/schedstat``): the second over the first is the gain of two threads;
- training: images/s of ``presets.imagenet_train()`` before and after, and bytes.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from bench import common, photos
from gpuimg._batch.batch import Batch
from gpuimg._batch.encoded import open_images
from gpuimg._batch.recording import Recording
from gpuimg._decoding.options import DecodeOptions
from gpuimg._loading.in_order import InOrder
from gpuimg._prepare.encode import encoded
from gpuimg._prepare.images import FILTER
from gpuimg._prepare.options import checked_options
from gpuimg._runtimes.cpu import CpuRuntime

_SETS = {"S": (512, 256), "1280x960": (192, 512)}  # photos, and the shorter side of results
_AT_A_TIME = 4

Seconds = dict[str, list[float]]  # of each round, by work


class Waits:
    """The number of cores that the threads of a call use of those available; the rest is waiting for each other."""

    def __init__(self) -> None:
        self._threads: list[tuple[float, float, float]] = []  # seconds, on a core, waiting for a core

    def cores(self, prepare: Callable[[], Any]) -> float:
        """Measure one call on two threads."""
        self._threads.clear()
        work, kept = InOrder._work, self._threads

        def watched(self: InOrder[Any]) -> None:
            start, before = time.perf_counter(), _schedule()
            work(self)
            after = _schedule()
            kept.append((time.perf_counter() - start, after[0] - before[0], after[1] - before[1]))

        InOrder._work = watched  # type: ignore[method-assign]
        try:
            prepare()
        finally:
            InOrder._work = work  # type: ignore[method-assign]
        seconds, working, waiting = np.sum(kept, 0)
        return float(len(kept) * working / (seconds - waiting))


def _schedule() -> tuple[float, float]:
    """Return the seconds that this thread ran on a core, and that it waited for one."""
    on, waited, _ = Path("/proc/thread-self/schedstat").read_text().split()
    return 1e-9 * int(on), 1e-9 * int(waited)


class Parts:
    """The three parts of the work, on a few images at a time so that memory is reused."""

    def __init__(self, files: list[bytes], side: int) -> None:
        runtime = CpuRuntime(1)
        self._options = checked_options(side, None, None, None, "none", "jpeg", False, DecodeOptions(), 0)
        parts = [files[at : at + _AT_A_TIME] for at in range(0, len(files), _AT_A_TIME)]
        self._opened = [partial(_opened, runtime, part) for part in parts]
        self._decoded = [opened().compute("uint8") for opened in self._opened]
        self._small = [self._resized(batch) for batch in self._decoded]

    def _resized(self, batch: Batch) -> Batch:
        sizes = self._options.sizes(batch.sizes)
        fresh = batch.take(range(len(batch)))  # a batch runs once
        return gi.resize(fresh, sizes, FILTER, where=np.any(sizes != batch.sizes, 1)).compute("uint8")

    def decode(self) -> None:
        """Decode whole images."""
        for opened in self._opened:
            opened().compute("uint8")

    def resize(self) -> None:
        """Resize decoded images."""
        for batch in self._decoded:
            self._resized(batch)

    def encode(self) -> None:
        """Encode resized images."""
        for batch in self._small:
            for image in batch:
                encoded(image, "JPEG", "4:2:0", self._options)


def _opened(runtime: CpuRuntime, files: list[bytes]) -> Batch:
    return Batch(Recording(runtime, open_images(files, DecodeOptions(), "raise")))


def measured(files: list[bytes], side: int, rounds: int) -> dict[str, Any]:
    """Measure all of a set."""
    parts = Parts(files, side)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        photos.write_classes(files, root / "in")
        source = gi.folder(root / "in")

        numbers = itertools.count()

        def prepare(threads: int, measure: bool = False) -> gi.PrepareReport:
            # In another folder than the last run: ext4 does not reuse the inodes of deleted files for some seconds,
            # and skipping them takes up to half of the time, with the folder locked.
            out = root / f"out{next(numbers)}"
            return gi.prepare(source, out, short_side=side, threads=threads, measure=measure)

        works: dict[str, Callable[[], Any]] = {
            "decode": parts.decode, "resize": parts.resize, "encode": parts.encode,
            "prepare": lambda: prepare(1), "prepare on 2 threads": lambda: prepare(2),
        }  # fmt: skip
        wall, cpu = common.interleaved(works, rounds)
        waits = Waits()
        cores = [waits.cores(lambda: prepare(2)) for _ in range(rounds)]
        return _result(wall, cpu, cores, len(files), prepare(2, measure=True))


def _result(wall: Seconds, cpu: Seconds, cores: list[float], images: int, report: gi.PrepareReport) -> dict[str, Any]:
    added = [sum(several) for several in zip(*(cpu[name] for name in ("decode", "resize", "encode")), strict=True)]
    of_parts, of_parts_range = common.ratio(added, cpu["prepare"])
    threads, threads_range = common.ratio(wall["prepare"], wall["prepare on 2 threads"])
    assert report.train is not None
    return {
        "milliseconds_of_cpu": {name: round(1e3 * float(np.median(one)) / images, 3) for name, one in cpu.items()},
        "of_parts": of_parts,
        "of_parts_range": of_parts_range,
        "two_threads": threads,
        "two_threads_range": threads_range,
        "two_threads_cpu": common.ratio(cpu["prepare on 2 threads"], cpu["prepare"])[0],
        "two_threads_cores": round(float(np.median(cores)), 3),
        "two_threads_cores_range": [round(min(cores), 3), round(max(cores), 3)],
        "images_per_second_on_2_threads": common.per_second(images, wall["prepare on 2 threads"]),
        "bytes": [report.source_bytes, report.bytes],
        "train": [report.train.before, report.train.after],
    }


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "prepare.json")
    parser.add_argument("--count", type=int, help="photos of each set (default: 512 and 192)")
    options = parser.parse_args()
    sets = {name: photos.load_set(name, options.count or count) for name, (count, _) in _SETS.items()}
    common.write(
        {
            **common.environment({n: photos.summary_of_set(n, f) for n, f in sets.items()}, options.rounds, 0),
            "short_side": {name: side for name, (_, side) in _SETS.items()},
            "sets": {name: measured(files, _SETS[name][1], options.rounds) for name, files in sets.items()},
        },
        options.out,
    )


if __name__ == "__main__":
    main()
