"""Decode and augment in actors of Ray Data, on one machine or a cluster. The pixels do not depend on their number.

python examples/ray_data.py [--actors 1 2 4]
"""

import argparse
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg

try:
    import ray
except ImportError:
    sys.exit('this example needs Ray: pip install "ray[data]"')

SIZE = 64


class Augment:
    """An actor that turns rows with ``path`` and ``id`` into pixels."""

    def __init__(self, seed: int, epoch: int) -> None:
        # Ray reserves cores for an actor, but does not limit it to them.
        cores = ray.get_runtime_context().get_assigned_resources().get("CPU", 1)
        os.environ["GPUIMG_NUM_THREADS"] = str(max(int(cores), 1))
        self.seed, self.epoch = seed, epoch
        self.train = gpuimg.presets.imagenet_train(SIZE)

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        """Decode and augment a batch, which Ray passes as columns."""
        x = gpuimg.open_batch(list(rows["path"]), on_error="fill")
        rng = gpuimg.Rng(self.seed, epoch=self.epoch, indices=rows["id"])  # the same draws on every actor
        images = self.train(x, rng).array("float16", "NCHW")  # on a GPU append .get(): Ray moves host memory
        return {"id": rows["id"], "image": images, "valid": np.array(x.status) == "ok"}


def batches(photos: list[Path], actors: int) -> Any:
    """Return an epoch computed by a number of actors, which divide the cores among them."""
    rows = ray.data.from_items([{"id": k, "path": str(photo)} for k, photo in enumerate(photos)])
    made = rows.map_batches(
        Augment,
        fn_constructor_args=(0, 0),
        batch_size=4,
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=ray.cluster_resources()["CPU"] / actors,
    )
    return made.iter_batches(batch_size=4, batch_format="numpy")


def main() -> None:
    parser = argparse.ArgumentParser(description="Decode and augment with Ray Data.")
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    photos = sorted(Path(__file__).resolve().parent.glob("photos/*.jpg"))

    ray.init()
    for actors in options.actors:
        images: dict[int, Any] = {}
        for batch in batches(photos, actors):  # your training loop
            images.update(zip(batch["id"].tolist(), batch["image"], strict=True))
        pixels = np.stack([images[k] for k in range(len(photos))]).tobytes()
        print(f"{len(images)} photos by {actors} actors, SHA-256 of the pixels {hashlib.sha256(pixels).hexdigest()}")


if __name__ == "__main__":
    main()
