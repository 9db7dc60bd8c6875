"""The main job against bare decoding: same photos, same threads, same run.

    python -m bench.bench_core [--rounds 7] [--out bench/results/core.json]

- floor: nvImageCodec decodes every whole photo into reused memory, with one decoder for each thread;
- eval: resize the shorter side to 256, crop 224, normalize;
- train: decode + crop of random size + antialiased resize to 224 + flip + normalize, NCHW float32;
- train+rotate+color: the same with a rotation by any angle and brightness, contrast, saturation and hue.

Everything writes into reused memory. Medians of the rounds; the ratio is that of each round's neighbors.
Also: Python time of the recording alone, and peak memory over 100 batches.
"""

from __future__ import annotations

import resource
import threading
import time
from functools import partial
from typing import Any

import numpy as np

import gpuimg as gi
from bench import chains as work
from bench import common, photos
from bench.chains import SIZE, Preprocess
from bench.common import BATCH
from gpuimg._batch.batch import recording_of
from gpuimg._plan.compile import compile_plan
from gpuimg._threads.threads import threads

RECORDED = 256  # images of the recording measurement


def check(files: list[bytes]) -> None:
    """Check the fast path against a plain NumPy computation."""
    x = gi.open_batch(files[:4], device="cpu")
    whole = gi.decode_batch(files[:4], device="cpu")
    first = gi.crop(x, 10, 20, SIZE, SIZE).array("float32")
    expected = np.stack([image[10 : 10 + SIZE, 20 : 20 + SIZE] for image in whole]) / np.float32(255)
    if not np.allclose(first, expected, atol=1e-6):
        raise RuntimeError("the outputs are wrong; no timing of them is worth anything")


def throughput(files: list[bytes], rounds: int, chains: dict[str, Preprocess]) -> dict[str, Any]:
    """Measure images/s of the floor and of each chain with decoding, and its ratio to the floor, round-robin."""
    out = np.zeros((BATCH, 3, SIZE, SIZE), np.float32)
    floor = common.Floor(threads())

    def run(name: str) -> None:
        for at in range(0, len(files), BATCH):
            batch = files[at : at + BATCH]
            if name == "floor":
                floor(batch)
            else:
                chains[name](gi.open_batch(batch, device="cpu"), at).array("float32", "NCHW", out=out)

    seconds, _ = common.interleaved({name: partial(run, name) for name in ("floor", *chains)}, rounds)
    result = {}
    for name, taken in seconds.items():
        ratio, ratio_range = common.ratio(seconds["floor"], taken)
        rate = common.per_second(len(files), taken)
        result[name] = {"images_per_second": rate, "ratio_to_floor": ratio, "ratio_range": ratio_range}
    return result


def recording(files: list[bytes], repeats: int = 30) -> dict[str, float]:
    """Measure microseconds of Python per image: reading headers, recording the chain and compiling its plan."""
    batch = files[:RECORDED]
    rng = np.random.default_rng(0)
    opened = gi.open_batch(batch, device="cpu")
    taken: dict[str, list[float]] = {"headers": [], "record": [], "compile": []}
    for _ in range(repeats):
        start = time.perf_counter()
        gi.open_batch(batch, device="cpu")
        read = time.perf_counter()
        recorded = work.train_rotate_color(opened, rng)
        done = time.perf_counter()
        compile_plan(recording_of(recorded).plan)
        taken["headers"].append(read - start)
        taken["record"].append(done - read)
        taken["compile"].append(time.perf_counter() - done)
    return {name: round(float(np.median(values)) / len(batch) * 1e6, 2) for name, values in taken.items()}


def memory(files: list[bytes], batches: int = 100) -> dict[str, float]:
    """Measure peak memory in MiB after a few batches and after many: equal if nothing leaks."""
    rng = np.random.default_rng(0)

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def run(count: int) -> None:
        for k in range(count):
            at = k * BATCH % (len(files) - BATCH + 1)
            work.train_rotate_color(gi.open_batch(files[at : at + BATCH], device="cpu"), rng).array("float32", "NCHW")

    run(10)
    early = peak()
    run(batches)
    return {
        "peak_mib_after_10_batches": round(early, 1),
        f"peak_mib_after_{10 + batches}_batches": round(peak(), 1),
        "threads_left": threading.active_count() - 1,
    }


def main() -> None:
    """Measure, print, and write the result."""
    options = common.arguments(__doc__, "core.json").parse_args()
    files = photos.load()
    check(files)
    common.write(
        {
            **common.environment(photos.summary(files), options.rounds),
            "throughput": throughput(files, options.rounds, work.core()),
            "recording_us_per_image": recording(files),
            "memory": memory(files),
        },
        options.out,
    )


if __name__ == "__main__":
    main()
