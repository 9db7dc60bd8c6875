"""Use Hugging Face's datasets as the source of `gpuimg.load`, and of a torch data set for a Trainer.

python examples/hf_datasets.py [FOLDER]
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

try:
    import datasets

    import gpuimg.torch
except ImportError:
    sys.exit("this example needs datasets and torch: pip install datasets torch")

SIZE = 64

train = gpuimg.presets.imagenet_train(SIZE)


def files(folder: Path) -> Any:
    """Return a data set of undecoded files. ``id`` is the index that each sample's draws depend on."""
    photos = [str(path) for path in sorted(folder.glob("*.jpg"))]
    found = datasets.Dataset.from_dict({"image": photos, "id": list(range(len(photos)))})
    return found.cast_column("image", datasets.Image(decode=False))


def main() -> None:
    parser = argparse.ArgumentParser(description="Decode and augment a data set of Hugging Face.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "photos")
    dataset = files(parser.parse_args().folder)

    images: dict[int, Any] = {}
    for batch in gpuimg.load(dataset, train, batch_size=4, dtype="float16", layout="NCHW", label="id", shuffle=True):
        images.update(zip(batch.labels.tolist(), batch.images, strict=True))
    pixels = np.stack([images[k] for k in range(len(dataset))])
    print(f"{len(images)} photos by load, SHA-256 of the pixels {hashlib.sha256(pixels.tobytes()).hexdigest()}")

    # For a trainer that requires a data set, such as Trainer(train_dataset=decoded) of transformers. It counts epochs
    # itself, which a transform of with_transform cannot do. Nothing is decoded ahead in this case.
    decoded = gpuimg.torch.Dataset(dataset, train, keys=("pixel_values", "labels"), dtype="float16", label="id")
    for epoch in range(2):
        samples = [sample for at in range(0, len(decoded), 4) for sample in decoded.__getitems__(range(at, at + 4))]
        pixels = np.stack([sample["pixel_values"].numpy() for sample in samples])
        digest = hashlib.sha256(pixels.tobytes()).hexdigest()
        print(f"{len(pixels)} photos by the data set in epoch {epoch}, SHA-256 of the pixels {digest}")


if __name__ == "__main__":
    main()
