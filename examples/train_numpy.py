"""Train a linear classifier with nothing but gpuimg and NumPy.

python examples/train_numpy.py [FOLDER]

The label of a photo is the first word of its name: cat.jpg and cat_portrait.jpg are both "cat".
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg

SIZE = 16
EPOCHS = 20
RATE = 0.003


def labelled(folder: Path) -> tuple[Any, list[str]]:
    """Return the photos of a folder as a source, and the names of their classes."""
    photos = sorted(folder.glob("*.jpg"))
    if not photos:
        sys.exit("no .jpg files in that folder")
    names = [photo.stem.split("_")[0] for photo in photos]
    classes = sorted(set(names))
    return gpuimg.file_list(photos, [classes.index(name) for name in names]), classes


def preprocess(x: gpuimg.Batch, rng: gpuimg.Rng) -> gpuimg.Batch:
    """Apply a mild augmentation."""
    x = gpuimg.random_resized_crop(x, SIZE, (0.7, 1.0), rng=rng)
    x = gpuimg.random_horizontal_flip(x, rng=rng)
    return gpuimg.normalize(x, gpuimg.IMAGENET_MEAN, gpuimg.IMAGENET_STD)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a linear classifier in NumPy.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "photos")
    source, classes = labelled(parser.parse_args().folder)
    weights = np.zeros((SIZE * SIZE * 3, len(classes)), np.float32)

    loader = gpuimg.load(source, preprocess, batch_size=6, device="cpu", shuffle=True, epochs=EPOCHS)
    losses = []
    for batch in loader:
        pixels = batch.images.reshape(len(batch.images), -1)
        scores = pixels @ weights
        chances = np.exp(scores - scores.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        rows = np.arange(len(batch.labels))
        losses.append(float(-np.log(chances[rows, batch.labels]).mean()))
        chances[rows, batch.labels] -= 1.0
        weights -= RATE * pixels.T @ chances / len(rows)
    per_epoch = len(losses) // EPOCHS
    print(f"{len(source)} photos, {len(classes)} classes, {EPOCHS} epochs, {len(losses)} batches")
    print(f"loss {np.mean(losses[:per_epoch]):.3f} -> {np.mean(losses[-per_epoch:]):.3f}")
    print(f"{loader.stats()['images_per_second']:.0f} images/s, limited by {loader.stats()['limit']}")


if __name__ == "__main__":
    main()
