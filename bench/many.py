"""Ray Data with actors compared with the loader in one process, on this machine's cores.

    python -m bench.many [--rounds 3] [--count 4096] [--out bench/results/many.json]

The same photos, as files in the page cache, ``imagenet_train(224)``, float16, batches of 64. Ray's rate is measured
from the time when a quarter of the batches is computed, so that its actors have started, to the arrival of the last at
the consumer. ``start_s`` is the time in seconds from the call to the first batch. Runs take turns; ratios are those of
a round.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from bench import common, photos

ACTORS = (1, 2)


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
    """Return seconds per image, and seconds to the first batch."""
    import ray

    begin = time.time()
    rows = ray.data.from_items([{"id": k, "path": str(path)} for k, path in enumerate(paths)], override_num_blocks=32)
    pool, cores = ray.data.ActorPoolStrategy(size=actors), ray.cluster_resources()["CPU"] / actors
    made = rows.map_batches(Augment, batch_size=common.BATCH, compute=pool, num_cpus=cores)
    first, moments = 0.0, []
    for batch in made.iter_batches(batch_size=None, batch_format="numpy"):
        first = first or time.time()
        moments += batch["made"].tolist()
    end, moments = time.time(), sorted(moments)
    warm = moments[len(moments) // 4]
    return (end - warm) / max(1, sum(moment > warm for moment in moments)), first - begin


def measured(paths: list[Path], rounds: int) -> dict[str, Any]:
    train = gi.presets.imagenet_train()
    loader = gi.load(gi.file_list(paths), train, batch_size=common.BATCH, device="cpu", dtype="float16", layout="NCHW")
    seconds, starts = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for k in range(rounds + 1):
        begin = time.time()
        common.drain(loader)
        found = {"load": ((time.time() - begin) / len(paths), 0.0)}
        found |= {f"ray, {n}": by_ray(paths, n) for n in ACTORS[:: 1 if k % 2 else -1]}
        for name, (taken, start) in found.items() if k else ():  # the first round warms up
            seconds[name].append(taken)
            starts[name].append(start)
    result: dict[str, Any] = {}
    for name, several in seconds.items():
        of_load, spread = common.ratio(seconds["load"], several)
        result[name] = {"images_per_second": common.per_second(1, several), "of_load": of_load, "range": spread}
        result[name]["start_s"] = round(float(np.median(starts[name])), 1)
    return result


def main() -> None:
    parser = common.arguments(__doc__, "many.json", rounds=3)
    parser.add_argument("--count", type=int, default=4096, help="files of an epoch; of more than 512 some are the same")
    options = parser.parse_args()
    import ray

    files = photos.load_set("S", options.count)
    ray.init(logging_level="error", log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{k:05}.jpg" for k in range(options.count)]
        for k, path in enumerate(paths):
            path.write_bytes(files[k % len(files)])
        result = measured(paths, options.rounds)
    about = common.environment({"S": photos.summary_of_set("S", files)}, options.rounds)
    about["versions"]["ray"] = ray.__version__
    common.write({**about, "files": options.count, **result}, options.out)


if __name__ == "__main__":
    main()
