"""Ray Data with actors compared with the loader in one process, on this machine's cores.

    python -m bench.bench_many [--rounds 5] [--count 8192] [--out bench/results/many.json]

The same photos, as files in the page cache, ``imagenet_train(224)``, float16, batches of 64. Ray's rate is measured
warm, from the time when a quarter of the batches is computed to the arrival of the last at the consumer: its actors
have then started and loaded their kernels. ``start_s`` is the time in seconds from the call to the first batch. The
loader's rate is that of a whole loop. Round-robin; ratios are those of a round.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from bench import common, photos

ACTORS = (1, 2)
_PHOTOS = 512

train = gi.presets.imagenet_train()


class Augment:
    """An actor that computes batches and records the time of each."""

    def __init__(self) -> None:
        import ray

        cores = ray.get_runtime_context().get_assigned_resources()["CPU"]
        os.environ["GPUIMG_NUM_THREADS"] = str(max(int(cores), 1))
        self.train = gi.presets.imagenet_train()

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Process a batch, which Ray passes as columns."""
        x = self.train(gi.open_batch(list(rows["path"])), gi.Rng(0, indices=rows["id"]))
        images = x.array("float16", "NCHW")
        return {"id": rows["id"], "image": images, "made": np.full(len(images), time.time())}


def by_ray(paths: list[Path], actors: int) -> tuple[float, float]:
    """Measure images/s, and seconds to the first batch."""
    import ray

    begin = time.time()
    rows = ray.data.from_items([{"id": k, "path": str(path)} for k, path in enumerate(paths)], override_num_blocks=32)
    made = rows.map_batches(
        Augment,
        batch_size=common.BATCH,
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=ray.cluster_resources()["CPU"] / actors,
    )
    first, moments = 0.0, []
    for batch in made.iter_batches(batch_size=None, batch_format="numpy"):
        first = first or time.time()
        moments += batch["made"].tolist()
    end = time.time()
    moments.sort()
    warm = moments[len(moments) // 4]
    return sum(moment > warm for moment in moments) / (end - warm), first - begin


def by_loader(loader: gi.Loader, images: int) -> float:
    """Measure images/s of a loop."""
    begin = time.time()
    for _ in loader:
        pass
    return images / (time.time() - begin)


def measured(paths: list[Path], rounds: int) -> dict[str, Any]:
    """Measure all rates, their ratios, and Ray's time to start."""
    loader = gi.load(gi.file_list(paths), train, batch_size=common.BATCH, device="cpu", dtype="float16", layout="NCHW")
    rates: dict[str, list[float]] = {"load": [], **{f"ray, {n}": [] for n in ACTORS}}
    starts: dict[str, list[float]] = {f"ray, {n}": [] for n in ACTORS}
    for k in range(rounds + 1):
        taken = {"load": by_loader(loader, len(paths))}
        begun = {}
        for n in ACTORS[:: 1 if k % 2 else -1]:
            taken[f"ray, {n}"], begun[f"ray, {n}"] = by_ray(paths, n)
        if k:  # the first round warms up
            for name, rate in taken.items():
                rates[name].append(rate)
            for name, seconds in begun.items():
                starts[name].append(seconds)
    result: dict[str, Any] = {}
    for name, several in rates.items():
        of_load, spread = common.ratio(several, rates["load"])  # of rates, so that 1 is as fast
        result[name] = {"images_per_second": round(float(np.median(several))), "of_load": of_load, "range": spread}
        if name in starts:
            result[name]["start_s"] = round(float(np.median(starts[name])), 1)
    return result


def main() -> None:
    """Measure, print, and write the result."""
    parser = common.arguments(__doc__, "many.json", rounds=5)
    parser.add_argument("--count", type=int, default=8192, help="files of an epoch; of more than 512 some are the same")
    options = parser.parse_args()
    import ray

    files = photos.load_set("S", min(options.count, _PHOTOS))
    ray.init(logging_level="error", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{k:05}.jpg" for k in range(options.count)]
        for k, path in enumerate(paths):
            path.write_bytes(files[k % len(files)])
        result = measured(paths, options.rounds)
    said = common.environment({"S": photos.summary_of_set("S", files)}, options.rounds)
    said["versions"]["ray"] = ray.__version__
    common.write({**said, "files": options.count, "work": "imagenet_train(224), float16, NCHW", **result}, options.out)


if __name__ == "__main__":
    main()
