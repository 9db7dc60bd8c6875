"""Several views of one image: the gain of decoding it once instead of once for each view.

    python -m bench.bench_views [--rounds 7] [--count 64] [--out bench/results/views.json]

Images/s (of files, not of views) of each chain with :meth:`gpuimg.Batch.take` over those with every file opened once
for each view, the same views in turn, medians of the rounds; also by the CPU time of all threads, for a machine that
has other work. Chains:

- crops: two random resized crops to 224 x 224 and eight to 96 x 96 of DINO's shares of the area, flipped, normalized;
- simclr: two views of ``gpuimg.presets.simclr``, with all its colors and blurs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import gpuimg as gi
from bench import common, photos

_SETS = ("S", "1280x960")
_BATCH = 32

Chain = Callable[[gi.Batch, gi.Rng], gi.Batch]


def crops(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    """Take two large and eight small crops of each image, all first views before all second ones and so on."""
    local = np.arange(len(x)) >= len(x) // 5
    side = np.where(local, 96, 224)
    share = np.where(local, 0.05, 0.4), np.where(local, 0.4, 1.0)
    x = gi.random_horizontal_flip(gi.random_resized_crop(x, (side, side), share, rng=rng), rng=rng)
    return gi.normalize(x, gi.IMAGENET_MEAN, gi.IMAGENET_STD)


_CHAINS: dict[str, tuple[Chain, int]] = {"crops": (crops, 10), "simclr": (gi.presets.simclr(), 2)}


def _run(files: list[bytes], chain: Chain, views: int, shared: bool) -> None:
    for at in range(0, len(files), _BATCH):
        batch = files[at : at + _BATCH]
        rows = np.tile(np.arange(len(batch)), views)
        if shared:
            x = gi.open_batch(batch, device="cpu").take(rows)
        else:
            x = gi.open_batch([batch[i] for i in rows], device="cpu")
        chain(x, gi.Rng(0, indices=np.arange(at, at + len(batch))).views(views)).arrays("float16", "NCHW")


def gain(files: list[bytes], name: str, rounds: int) -> dict[str, Any]:
    """Measure images/s of a chain both ways, in turn."""
    chain, views = _CHAINS[name]
    seconds, worked = common.interleaved(
        {shared: partial(_run, files, chain, views, shared) for shared in (False, True)}, rounds
    )
    of_each, of_each_range = common.ratio(seconds[False], seconds[True])
    cpu, cpu_range = common.ratio(worked[False], worked[True])
    return {
        "views": views,
        "images_per_second": common.per_second(len(files), seconds[True]),
        "images_per_second_decoding_each": common.per_second(len(files), seconds[False]),
        "of_decoding_each": of_each,
        "range": of_each_range,
        "by_cpu_time": cpu,
        "by_cpu_time_range": cpu_range,
    }


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "views.json")
    parser.add_argument("--count", type=int, default=64, help="photos of each set")
    options = parser.parse_args()
    sets = {name: photos.load_set(name, options.count) for name in _SETS}
    common.write(
        {
            **common.environment({n: photos.summary_of_set(n, f) for n, f in sets.items()}, options.rounds, _BATCH),
            "gain": {n: {name: gain(files, name, options.rounds) for name in _CHAINS} for n, files in sets.items()},
        },
        options.out,
    )


if __name__ == "__main__":
    main()
