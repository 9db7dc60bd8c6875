"""Random augmentation against bare decoding: same photos, same threads, same run.

    python -m bench.bench_random [--rounds 7] [--out bench/results/random.json]

- floor: nvImageCodec decodes every photo whole (see bench_core);
- crop+rotation+jitter: decode, random resized crop to 224, random rotation, color jitter, normalise;
- rand_augment: decode, random resized crop to 224, flip, RandAugment(2, 9), normalise.

Also: Python time of recording a RandAugment batch of 256, and the launches it takes.
"""

from __future__ import annotations

import time

import numpy as np

import gpuimg as gi
from bench import bench_core, common, photos
from bench.common import SIZE
from gpuimg._plan.compile import compile_plan

RECORDED = 256


def _rng(x: gi.Batch, at: int) -> gi.Rng:
    return gi.Rng(0, indices=np.arange(at, at + len(x)))


def jittered(x: gi.Batch, at: int) -> gi.Batch:
    """Random resized crop, rotation, color jitter."""
    rng = _rng(x, at)
    x = gi.random_resized_crop(x, SIZE, rng=rng)
    x = gi.random_rotation(x, 180, rng=rng)
    x = gi.color_jitter(x, 0.4, 0.4, 0.4, 0.1, rng=rng)
    return gi.normalize(x, gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def rand_augmented(x: gi.Batch, at: int) -> gi.Batch:
    """Random resized crop, flip, RandAugment."""
    rng = _rng(x, at)
    x = gi.random_resized_crop(x, SIZE, rng=rng)
    x = gi.random_horizontal_flip(x, rng=rng)
    x = gi.rand_augment(x, 2, 9, rng=rng)
    return gi.normalize(x, gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def recording(files: list[bytes], repeats: int = 30) -> dict[str, float]:
    """Microseconds of Python an image to record RandAugment alone, and to compile its plan; and its launches."""
    opened = gi.open_batch(files[:RECORDED], device="cpu")
    x = gi.resize(opened, (SIZE, SIZE))
    taken: dict[str, list[float]] = {"record": [], "compile": []}
    for _ in range(repeats):
        start = time.perf_counter()
        recorded = gi.rand_augment(x, 2, 9, rng=_rng(x, 0))
        done = time.perf_counter()
        for plan in recorded._segments:
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
    chains: dict[str, bench_core.Preprocess] = {"crop+rotation+jitter": jittered, "rand_augment": rand_augmented}
    common.write(
        {
            **common.environment(photos.summary(files), options.rounds),
            "throughput": bench_core.throughput(files, options.rounds, chains),
            "rand_augment_256_us_per_image": recording(files),
        },
        options.out,
    )


if __name__ == "__main__":
    main()
