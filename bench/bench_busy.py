"""A loader together with a loop that needs the GIL or a core itself, on one decoding thread.

    GPUIMG_NUM_THREADS=1 python -m bench.bench_busy [--rounds 5] [--out bench/results/busy.json]

- busy: a consumer that computes in pure Python for as long as the producer takes a batch; one that hashes, which keeps
  a core busy without the GIL; and one that sleeps. The files are bytes in memory, paths in a class folder (in the page
  cache), and tiny images in memory, whose batches take some 6 ms, about one switch interval. The wall time of both
  together over that of the longer one alone: 1.0 is perfect overlap, 2.0 none. On one core there can be none.
- machine: the producer's time with another busy process, over its time alone: the cost of sharing memory and a core's
  units on this machine.
- training: a small convolutional network trained on the CPU by one torch thread, from files in the page cache, alone
  (always the same batch), with ``gpuimg.load``, and with a ``DataLoader`` with one worker process whose transforms
  are Pillow's and NumPy's: the same recipe, random resized crop (as torchvision draws it), flip and normalization.

Round-robin, medians of the rounds, ratios of each round's neighbors.
"""

from __future__ import annotations

import os

os.environ.setdefault("GPUIMG_NUM_THREADS", "1")  # before any thread is started

import hashlib
import io
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from bench import photos
from bench.common import arguments, environment, per_second, ratio, write

BATCH = 64
SIZE = 224
TINY = 64, 160, 64  # tiny images: the batches of a loop, the images of a batch, and the size of the results
MEAN = np.array((0.485, 0.456, 0.406), np.float32) * 255
STD = np.array((0.229, 0.224, 0.225), np.float32) * 255
EPOCHS = 4  # of one measurement: the first batch is waited for in any case

Step = Callable[[], Any]


def loader(source: Any, epochs: int = EPOCHS, batch: int = BATCH, size: int = SIZE) -> gi.Loader:
    """Return the loader to measure."""
    preprocess = gi.presets.imagenet_train(size)
    return gi.load(
        source,
        preprocess,
        batch_size=batch,
        device="cpu",
        dtype="float32",
        layout="NCHW",
        epochs=epochs,
        drop_last=True,
    )


def tiny_images() -> list[tuple[bytes, int]]:
    """Return JPEGs of 96x64, of smooth random content."""
    batches, batch, _ = TINY
    rng, files = np.random.default_rng(), []
    for i in range(batches * batch // EPOCHS):
        file = io.BytesIO()
        coarse = rng.integers(0, 256, (8, 12, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((96, 64), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
        files.append((file.getvalue(), i % 4))
    return files


def wall(batches: Iterable[Any], step: Step) -> float:
    """Return the seconds of a loop."""
    start = time.perf_counter()
    for _ in batches:
        step()
    return time.perf_counter() - start


# -- consumers that are busy, or asleep --------------------------------------------------------------------------------


def spin(steps: int) -> int:
    """Compute in pure Python, which holds the GIL except for its switches."""
    value = 0
    for k in range(steps):
        value = (value * 31 + k) & 0xFFFF
    return value


def spin_rate() -> float:
    """Return the steps of :func:`spin` per second on this machine now."""
    start = time.perf_counter()
    spin(1_000_000)
    return 1_000_000 / (time.perf_counter() - start)


def hash_for(seconds: float) -> None:
    """Keep a core busy without the GIL."""
    block, end = bytes(1 << 18), time.perf_counter() + seconds
    while time.perf_counter() < end:
        hashlib.sha256(block).digest()


def busy(loaders: dict[str, tuple[gi.Loader, int]], rounds: int) -> dict[str, Any]:
    """Return the wall time together over the longer of the two alone, by loader (with its batch size) and consumer."""
    names = [(source, kind) for source in loaders for kind in ("busy", "hashing", "sleeping")]
    multiples: dict[tuple[str, str], list[float]] = {name: [] for name in names}
    producers: dict[tuple[str, str], list[float]] = {name: [] for name in names}
    limits: dict[tuple[str, str], list[str]] = {name: [] for name in names}
    for k in range(rounds + 1):
        for source, kind in names:
            batches, _ = loaders[source]
            alone = wall(batches, lambda: None)
            seconds = alone / len(batches)
            steps = int(seconds * spin_rate())
            steps_of: dict[str, Step] = {
                "busy": partial(spin, steps), "hashing": partial(hash_for, seconds),
                "sleeping": partial(time.sleep, seconds),
            }  # fmt: skip
            step = steps_of[kind]
            consumer = wall(range(len(batches)), step)
            together = wall(batches, step)
            if k:  # the first round warms up
                multiples[source, kind].append(together / max(alone, consumer))
                producers[source, kind].append(alone)
                limits[source, kind].append(batches.stats()["limit"])
    return {
        f"{source}, {kind} consumer": {
            "producer_images_per_second": per_second(
                len(loaders[source][0]) * loaders[source][1], producers[source, kind]
            ),
            "wall_of_longer": round(float(np.median(multiples[source, kind])), 3),
            "range": [round(min(multiples[source, kind]), 3), round(max(multiples[source, kind]), 3)],
            "limits": sorted(set(limits[source, kind])),
        }
        for source, kind in names
    }


def machine(source: Any, rounds: int) -> dict[str, Any]:
    """Return the producer's wall time with a busy process over its wall time without."""
    batches = loader(source)
    multiples = []
    for _ in range(rounds):
        alone = wall(batches, lambda: None)
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
            shared = wall(batches, lambda: None)
            other.kill()
        multiples.append(shared / alone)
    spread = [round(min(multiples), 3), round(max(multiples), 3)]
    return {"wall_with_a_busy_process": round(float(np.median(multiples)), 3), "range": spread}


# -- training ----------------------------------------------------------------------------------------------------------


class Training:
    """A small network, one step a batch, on one torch thread."""

    def __init__(self) -> None:
        import torch

        torch.manual_seed(0)
        torch.set_num_threads(1)
        nn = torch.nn
        self.torch = torch
        self.network = nn.Sequential(
            nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4),
        )  # fmt: skip
        self.optimiser = torch.optim.SGD(self.network.parameters(), 0.01)

    def step(self, images: Any, labels: Any) -> None:
        """Run one batch forward and backward."""
        self.optimiser.zero_grad()
        self.torch.nn.functional.cross_entropy(self.network(images), labels).backward()
        self.optimiser.step()

    def alone(self, batches: int) -> float:
        """Return the seconds of a number of steps on one batch in memory."""
        images = self.torch.randn(BATCH, 3, SIZE, SIZE)
        labels = self.torch.arange(BATCH) % 4
        return wall(range(batches), lambda: self.step(images, labels))

    def with_loader(self, batches: Iterable[tuple[Any, Any]]) -> float:
        """Return the seconds of a loop over batches of tensors."""
        start = time.perf_counter()
        for images, labels in batches:
            self.step(images, labels)
        return time.perf_counter() - start


def tensors(batches: gi.Loader, torch: Any) -> Iterable[tuple[Any, Any]]:
    """Yield the loader's batches as tensors, without a copy."""
    for batch in batches:
        yield torch.from_numpy(batch.images), torch.from_numpy(batch.labels)


class Photos:
    """The data set of a worker process: Pillow decodes, crops and resizes, NumPy normalizes."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.rglob("*.jpg"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[NDArray[np.float32], int]:
        rng = np.random.default_rng()
        with Image.open(self.paths[i]) as file:
            width, height = file.size
            area, aspect = width * height * rng.uniform(0.08, 1.0), np.exp(rng.uniform(-1.0, 1.0) * np.log(4 / 3))
            w, h = min(np.sqrt(area * aspect), width), min(np.sqrt(area / aspect), height)
            x, y = rng.uniform(0, width - w), rng.uniform(0, height - h)
            image = file.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR, (x, y, x + w, y + h))
        pixels = np.asarray(image, np.float32)[:, :: rng.choice((1, -1))]
        return np.ascontiguousarray(((pixels - MEAN) / STD).transpose(2, 0, 1)), i % 4


def worker_process(folder: Path, torch: Any) -> Any:
    """Return a ``DataLoader`` with one persistent worker process."""
    return torch.utils.data.DataLoader(
        Photos(folder), BATCH, shuffle=False, num_workers=1, persistent_workers=True, drop_last=True
    )


def training(folder: Path, rounds: int) -> dict[str, Any]:
    """Return the seconds of an epoch of training with each loader, and of the training alone."""
    work = Training()
    ours = loader(gi.folder(folder), 1)
    theirs = worker_process(folder, work.torch)
    count = len(ours)
    runs: dict[str, Callable[[], float]] = {
        "training alone": lambda: work.alone(count),
        "gpuimg alone": lambda: wall(ours, lambda: None),
        "gpuimg": lambda: work.with_loader(tensors(ours, work.torch)),
        "DataLoader alone": lambda: wall(theirs, lambda: None),
        "DataLoader": lambda: work.with_loader(theirs),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    limits: set[str] = set()
    for k in range(rounds + 1):
        for name, run in runs.items():
            taken = run()
            if name == "gpuimg":
                limits.add(ours.stats()["limit"])
            if k:
                seconds[name].append(taken)
    result: dict[str, Any] = {"batches": count, "limits": sorted(limits)}
    for name, times in seconds.items():
        middle, spread = ratio(seconds["DataLoader"], times)
        result[name] = {
            "images_per_second": per_second(count * BATCH, times), "of_dataloader": middle, "range": spread,
        }  # fmt: skip
    return result


def main() -> None:
    """Measure, print, and write the result."""
    options = arguments(__doc__, "busy.json", rounds=5).parse_args()
    files = photos.load()
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, of the worker's fork
        folder = Path(name)
        photos.write_classes(files, folder)
        in_memory = [(data, i) for i, data in enumerate(files)]
        loaders = {
            "bytes": (loader(in_memory), BATCH),
            "files": (loader(gi.folder(folder)), BATCH),
            "tiny": (loader(tiny_images(), EPOCHS, *TINY[1:]), TINY[1]),
        }
        write(
            {
                **environment(photos.summary(files), options.rounds),
                "busy": busy(loaders, options.rounds),
                "machine": machine(in_memory, options.rounds),
                "training": training(folder, options.rounds),
            },
            options.out,
        )


if __name__ == "__main__":
    main()
