"""Use Hugging Face's datasets in two ways: as the source of `gpuimg.load`, and with gpuimg as their transform.

python examples/hf_datasets.py [FOLDER]
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg

try:
    import datasets
except ImportError:
    sys.exit("this example needs datasets: pip install datasets")

SIZE = 64

train = gpuimg.presets.imagenet_train(SIZE)


def files(folder: Path) -> Any:
    """Return a data set of undecoded files. ``id`` is the index that each sample's draws depend on."""
    photos = [str(path) for path in sorted(folder.glob("*.jpg"))]
    found = datasets.Dataset.from_dict({"image": photos, "id": list(range(len(photos)))})
    return found.cast_column("image", datasets.Image(decode=False))


class Augment:
    """A function for ``with_transform`` that decodes and augments rows, differently in each epoch.

    A data set does not know the epoch, so the training code must set ``epoch`` before each. With transformers' Trainer
    (and ``remove_unused_columns=False``) that is a callback:

        class SetEpoch(transformers.TrainerCallback):
            def on_epoch_begin(self, args, state, control, **_):
                augment.epoch = round(state.epoch)

    This works with workers of a DataLoader that are started for each epoch, and not with persistent ones.
    """

    def __init__(self) -> None:
        self.epoch: int | None = None

    def __deepcopy__(self, memo: Any) -> Augment:
        return self  # data sets copy themselves with their transform: the copies share one epoch

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        if self.epoch is None:
            raise ValueError("set the epoch first: without it, every epoch would have the same crops")
        x = gpuimg.open_batch([image["bytes"] or image["path"] for image in rows["image"]])
        images = train(x, gpuimg.Rng(0, epoch=self.epoch, indices=rows["id"])).array("float16", "NCHW")
        return {"image": list(images), "id": rows["id"]}


def main() -> None:
    parser = argparse.ArgumentParser(description="Decode and augment a data set of Hugging Face.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "photos")
    dataset = files(parser.parse_args().folder)

    images: dict[int, Any] = {}
    for batch in gpuimg.load(dataset, train, batch_size=4, dtype="float16", layout="NCHW", label="id", shuffle=True):
        images.update(zip(batch.labels.tolist(), batch.images, strict=True))
    pixels = np.stack([images[k] for k in range(len(dataset))])
    print(f"{len(images)} photos by load, SHA-256 of the pixels {hashlib.sha256(pixels.tobytes()).hexdigest()}")

    # For a trainer that needs the data set itself. Nothing is decoded ahead in this case.
    augment = Augment()
    decoded = dataset.with_transform(augment)
    for epoch in range(2):
        augment.epoch = epoch
        pixels = np.stack([image for at in range(0, len(decoded), 4) for image in decoded[at : at + 4]["image"]])
        digest = hashlib.sha256(pixels.tobytes()).hexdigest()
        print(f"{len(pixels)} photos by with_transform in epoch {epoch}, SHA-256 of the pixels {digest}")


if __name__ == "__main__":
    main()
