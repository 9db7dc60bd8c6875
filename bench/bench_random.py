"""Random augmentation against bare decoding: same photos, same threads, same run.

    python -m bench.bench_random [--rounds 7] [--out bench/results/random.json]

- floor: nvImageCodec decodes every photo whole (see bench_core);
- crop+rotation+jitter: decode, random resized crop to 224, random rotation, color jitter, normalize;
- rand_augment: decode, random resized crop to 224, flip, RandAugment(2, 9), normalize.

Also: Python time of recording a RandAugment batch of 256, and the launches it takes.
"""

from __future__ import annotations

import time

import numpy as np

import gpuimg as gi
from bench import bench_core, chains, common, photos
from gpuimg._batch.batch import recording_of
from gpuimg._plan.compile import compile_plan

RECORDED = 256


def recording(files: list[bytes], repeats: int = 30) -> dict[str, float]:
    """Measure microseconds of Python per image to record RandAugment and compile its plan, and count its launches."""
    opened = gi.open_batch(files[:RECORDED], device="cpu")
    x = gi.resize(opened, (chains.SIZE, chains.SIZE))
    taken: dict[str, list[float]] = {"record": [], "compile": []}
    for _ in range(repeats):
        start = time.perf_counter()
        recorded = gi.rand_augment(x, 2, 9, rng=chains.samples_of(x, 0))
        done = time.perf_counter()
        for plan in recording_of(recorded).segments:
            compile_plan(plan)
        taken["record"].append(done - start)
        taken["compile"].append(time.perf_counter() - done)
    recorded.array("uint8")
    us = {name: round(float(np.median(values)) / len(opened) * 1e6, 2) for name, values in taken.items()}
    return {**us, "launches": recorded.launches}


def main() -> None:
    """Measure, print, and write the result."""
    options = common.arguments(__doc__, "random.json").parse_args()
    files = photos.load()
    common.write(
        {
            **common.environment(photos.summary(files), options.rounds),
            "throughput": bench_core.throughput(files, options.rounds, chains.RANDOM),
            "rand_augment_256_us_per_image": recording(files),
        },
        options.out,
    )


if __name__ == "__main__":
    main()
