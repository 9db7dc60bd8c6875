"""The loader together with a loop that needs the GIL, a core, or neither.

    GPUIMG_NUM_THREADS=1 python -m bench.loader [--rounds 5] [--out bench/results/load.json]

For each batch of photos for imagenet_train(224) a consumer computes in pure Python ("busy") or in torch, without the
GIL ("torch"), for as long as the loader takes, or it sleeps for 1.5 times as long ("slow"), as if it waited for a GPU.
"small" is "busy" with images of 96x64 for imagenet_train(32). The wall time of both together over that of the longer
one alone: 1.0 is perfect overlap, 2.0 none. On one core there can be none. Medians of the rounds.
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

EPOCHS = 4  # of one measurement: the first batch is waited for in any case


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


def multiply() -> Callable[[int], None]:
    """Return a function that computes on one core without the GIL, as many times as it is told."""
    import torch

    torch.set_num_threads(1)
    one = torch.ones(192, 192)

    def steps(number: int) -> None:
        for _ in range(number):
            torch.mm(one, one)

    return steps


def together(batches: gi.Loader, compute: Callable[[int], object], per_second: float, rounds: int) -> dict[str, Any]:
    """Return the wall time of the loader and a consumer together over that of the longer one alone.

    ``per_second`` are the steps of ``compute`` in a second, 0 for as many as it takes.
    """
    multiples: list[float] = []
    for k in range(rounds + 1):
        alone = wall(batches, lambda batch: None)
        trial = 1000
        while not per_second and (took := wall(range(1), lambda _, trial=trial: compute(trial))) < 0.05:
            trial *= 2
        steps = int(alone / len(batches) * (per_second or trial / took))
        consumer = wall(range(len(batches)), lambda batch, steps=steps: compute(steps))
        both = wall(batches, lambda batch, steps=steps: compute(steps))
        if k:  # the first round warms up
            multiples.append(both / max(alone, consumer))
    return {
        "wall_of_longer": round(float(np.median(multiples)), 3),
        "range": [round(min(multiples), 3), round(max(multiples), 3)],
    }


def main() -> None:
    options = common.arguments(__doc__, "load.json", count=True).parse_args()
    files = photos.load_set("S", options.count)
    large, little = (
        loader([(data, 0) for data in own], size, epochs=EPOCHS, drop_last=True)
        for own, size in ((files, 224), (small(files), 32))
    )
    consumers: dict[str, tuple[gi.Loader, Callable[[int], object], float]] = {
        "busy": (large, spin, 0), "torch": (large, multiply(), 0),
        "slow": (large, lambda microseconds: time.sleep(1e-6 * microseconds), 1.5e6), "small": (little, spin, 0),
    }  # fmt: skip
    found = {name: together(*one, options.rounds) for name, one in consumers.items()}
    common.write(common.environment(photos.summary_of_set("S", files), options.rounds) | found, options.out)


if __name__ == "__main__":
    main()
