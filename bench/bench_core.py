"""The main job against bare decoding: same photos, same threads, same run.

    python -m bench.bench_core [--rounds 7] [--out bench/results/core.json]

- floor: nvImageCodec decodes every photo whole, into memory used again, one decoder a thread;
- eval: resize the shorter side to 256, crop 224, normalise;
- train: decode + crop of random size + antialiased resize to 224 + flip + normalise, NCHW float32;
- train+rotate+colour: the same with a rotation by any angle and brightness, contrast, saturation and hue.

Everything writes into memory that is used again. Medians of the rounds; the ratio is that of each round's neighbours.
Also: Python time of the recording alone, and peak memory over 100 batches.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpuimg as gi
from bench import photos
from gpuimg import codec
from gpuimg.runtimes.cpu import threads

BATCH = 64
SIZE = 224
RECORDED = 256  # images of the recording measurement


class Floor:
    """nvImageCodec alone: whole images, one decoder and one buffer a thread."""

    def __init__(self, count: int) -> None:
        self.library = codec.library()
        self.decoders = [codec.cpu_decoder() for _ in range(count)]
        self.buffers = [np.zeros(photos.SIZE[0] * photos.SIZE[1] * 3, np.uint8) for _ in range(count)]

    def __call__(self, files: list[bytes]) -> None:
        """Decode a batch."""

        def work(k: int) -> None:
            buffer = self.buffers[k]
            for data in files[k :: len(self.decoders)]:
                stream = self.library.CodeStream(data)
                height, width = stream.height, stream.width
                target = self.library.as_image(buffer[: height * width * 3].reshape(height, width, 3))
                if self.decoders[k].decode(stream, image=target) is None:
                    raise RuntimeError("a photo did not decode")

        with ThreadPoolExecutor(len(self.decoders)) as pool:
            list(pool.map(work, range(len(self.decoders))))


def random_crops(sizes: NDArray[np.int64], rng: np.random.Generator) -> tuple[NDArray[np.int64], ...]:
    """Boxes as of torchvision's RandomResizedCrop: area 0.08 to 1, aspect 3/4 to 4/3, cut to the image."""
    n = len(sizes)
    height, width = sizes[:, 0], sizes[:, 1]
    area = rng.uniform(0.08, 1.0, n) * height * width
    ratio = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3), n))
    w = np.minimum(np.round(np.sqrt(area * ratio)), width).astype(np.int64)
    h = np.minimum(np.round(np.sqrt(area / ratio)), height).astype(np.int64)
    return rng.integers(0, height - h + 1), rng.integers(0, width - w + 1), h, w


def cropped(x: gi.Batch, rng: np.random.Generator) -> gi.Batch:
    """Random crop, resize and flip."""
    top, left, height, width = random_crops(x.sizes, rng)
    x = gi.resized_crop(x, top, left, height, width, (SIZE, SIZE))
    return gi.horizontal_flip(x, where=rng.random(len(x)) < 0.5)


def train(x: gi.Batch, rng: np.random.Generator) -> gi.Batch:
    """The usual preprocessing of ImageNet training."""
    return gi.normalize(cropped(x, rng), gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def train_rotate_colour(x: gi.Batch, rng: np.random.Generator) -> gi.Batch:
    """The same with rotation and colour jitter."""
    n = len(x)
    x = gi.rotate(cropped(x, rng), rng.uniform(-180, 180, n))
    x = gi.adjust_brightness(x, rng.uniform(0.6, 1.4, n))
    x = gi.adjust_contrast(x, rng.uniform(0.6, 1.4, n))
    x = gi.adjust_saturation(x, rng.uniform(0.6, 1.4, n))
    x = gi.adjust_hue(x, rng.uniform(-0.1, 0.1, n))
    return gi.normalize(x, gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def evaluate(x: gi.Batch, rng: np.random.Generator) -> gi.Batch:
    """The usual preprocessing of ImageNet evaluation."""
    return gi.normalize(gi.center_crop(gi.resize(x, 256), SIZE), gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def check(files: list[bytes]) -> None:
    """The fast path gives what a plain NumPy computation gives."""
    x = gi.open_batch(files[:4], device="cpu")
    whole = gi.decode_batch(files[:4], device="cpu")
    first = gi.crop(x, 10, 20, SIZE, SIZE).array("float32")
    expected = np.stack([image[10 : 10 + SIZE, 20 : 20 + SIZE] for image in whole]) / np.float32(255)
    if not np.allclose(first, expected, atol=1e-6):
        raise RuntimeError("the outputs are wrong; no timing of them is worth anything")


Preprocess = Callable[[gi.Batch, int], gi.Batch]  # of a batch and the index of its first image


def throughput(files: list[bytes], rounds: int, chains: dict[str, Preprocess]) -> dict[str, Any]:
    """Images/s of the floor and of each chain after decoding, and its ratio to the floor, round-robin."""
    out = np.zeros((BATCH, 3, SIZE, SIZE), np.float32)
    floor = Floor(threads())

    def run(name: str, at: int) -> None:
        batch = files[at : at + BATCH]
        if name == "floor":
            floor(batch)
        else:
            chains[name](gi.open_batch(batch, device="cpu"), at).array("float32", "NCHW", out=out)

    names = ["floor", *chains]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for k in range(rounds + 1):
        for name in names:
            start = time.perf_counter()
            for at in range(0, len(files), BATCH):
                run(name, at)
            if k:  # the first round warms up
                seconds[name].append(time.perf_counter() - start)
    ratios = {name: np.array(seconds["floor"]) / np.array(seconds[name]) for name in names}
    return {
        name: {
            "images_per_second": round(len(files) / float(np.median(seconds[name]))),
            "ratio_to_floor": round(float(np.median(ratios[name])), 3),
            "ratio_range": [round(float(ratios[name].min()), 3), round(float(ratios[name].max()), 3)],
        }
        for name in names
    }


def recording(files: list[bytes], repeats: int = 30) -> dict[str, float]:
    """Microseconds of Python an image: reading headers, and recording the chain and compiling its plan."""
    batch = files[:RECORDED]
    rng = np.random.default_rng(0)
    opened = gi.open_batch(batch, device="cpu")
    taken: dict[str, list[float]] = {"headers": [], "record": [], "compile": []}
    for _ in range(repeats):
        start = time.perf_counter()
        gi.open_batch(batch, device="cpu")
        read = time.perf_counter()
        recorded = train_rotate_colour(opened, rng)
        done = time.perf_counter()
        recorded.plan.compile()
        taken["headers"].append(read - start)
        taken["record"].append(done - read)
        taken["compile"].append(time.perf_counter() - done)
    return {name: round(float(np.median(values)) / len(batch) * 1e6, 2) for name, values in taken.items()}


def memory(files: list[bytes], batches: int = 100) -> dict[str, float]:
    """Peak memory in MiB after a few batches and after many: equal, if nothing leaks."""
    rng = np.random.default_rng(0)

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def run(count: int) -> None:
        for k in range(count):
            at = k * BATCH % (len(files) - BATCH + 1)
            train_rotate_colour(gi.open_batch(files[at : at + BATCH], device="cpu"), rng).array("float32", "NCHW")

    run(10)
    early = peak()
    run(batches)
    return {
        "peak_mib_after_10_batches": round(early, 1),
        f"peak_mib_after_{10 + batches}_batches": round(peak(), 1),
        "threads_left": threading.active_count() - 1,
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _chains() -> dict[str, Preprocess]:
    rng = np.random.default_rng(0)
    return {
        "eval": lambda x, at: evaluate(x, rng),
        "train": lambda x, at: train(x, rng),
        "train+rotate+colour": lambda x, at: train_rotate_colour(x, rng),
    }


def environment(files: list[bytes], rounds: int) -> dict[str, Any]:
    """What was measured, on what."""
    return {
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "threads": threads()},
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("gpuimg", "numpy", "numba")},
            "nvimgcodec": codec.library().__version__,
        },
        "photos": photos.summary(files),
        "batch": BATCH,
        "rounds": rounds,
    }


def write(result: dict[str, Any], path: Path) -> None:
    """Print a result and keep it."""
    text = json.dumps(result, indent=1)
    print(text)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def arguments(description: str | None, name: str) -> argparse.Namespace:
    """Command line of a benchmark: ``--rounds`` and ``--out``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / name)
    return parser.parse_args()


def main() -> None:
    """Measure, print, and write the result."""
    options = arguments(__doc__, "core.json")
    files = photos.load()
    check(files)
    write(
        {
            **environment(files, options.rounds),
            "throughput": throughput(files, options.rounds, _chains()),
            "recording_us_per_image": recording(files),
            "memory": memory(files),
        },
        options.out,
    )


if __name__ == "__main__":
    main()
