"""The loader together with a loop that needs the GIL or the core itself.

    GPUIMG_NUM_THREADS=1 python -m bench.loader [--rounds 5] [--out bench/results/load.json]

A consumer computes in pure Python for as long as the loader takes for a batch: of photos for imagenet_train(224)
("busy"), and of images of 96x64 for imagenet_train(32) ("small"). The wall time of both together over that
of the longer one alone: 1.0 is perfect overlap, 2.0 none. On one core there can be none. Medians of the rounds.
"""

import io
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from PIL import Image

import gpuimg as gi
from bench import common, photos
from bench.common import BATCH
from bench.photos import encoded

EPOCHS = 4  # of one measurement of a busy loop: the first batch is waited for in any case


def loader(source: Any, size: int = 224, **options: Any) -> gi.Loader:
    train = gi.presets.imagenet_train(size)
    return gi.load(source, train, batch_size=BATCH, device="cpu", dtype="float32", layout="NCHW", **options)


def small(files: list[bytes]) -> list[bytes]:
    return [encoded(Image.open(io.BytesIO(data)).convert("RGB").resize((96, 64)), "JPEG") for data in files]


def wall(batches: Iterable[Any], step: Callable[..., object]) -> float:
    start = time.perf_counter()
    for batch in batches:
        step(batch)
    return time.perf_counter() - start


def spin(steps: int) -> None:
    """Compute in pure Python, which holds the GIL except for its switches."""
    value = 0
    for k in range(steps):
        value = (value * 31 + k) & 0xFFFF


def busy(batches: gi.Loader, rounds: int) -> dict[str, Any]:
    """Return the wall time of the loader and a busy consumer together over that of the longer one alone."""
    multiples: list[float] = []
    for k in range(rounds + 1):
        alone = wall(batches, lambda batch: None)
        steps = int(alone / len(batches) * 1e6 / wall(range(1), lambda _: spin(1_000_000)))
        consumer = wall(range(len(batches)), lambda batch, steps=steps: spin(steps))
        together = wall(batches, lambda batch, steps=steps: spin(steps))
        if k:  # the first round warms up
            multiples.append(together / max(alone, consumer))
    return {
        "wall_of_longer": round(float(np.median(multiples)), 3),
        "range": [round(min(multiples), 3), round(max(multiples), 3)],
    }


def main() -> None:
    options = common.arguments(__doc__, "load.json", count=True).parse_args()
    files = photos.load_set("S", options.count)
    found = {
        name: busy(loader([(data, 0) for data in own], size, epochs=EPOCHS, drop_last=True), options.rounds)
        for name, own, size in (("busy", files, 224), ("small", small(files), 32))
    }
    common.write(common.environment(photos.summary_of_set("S", files), options.rounds) | found, options.out)


if __name__ == "__main__":
    main()
