"""Train a small torch network for one step; the tensor shares the memory of gpuimg's result, without a copy.

python examples/train_step.py [FOLDER]

The label of a photo is the first word of its name: cat.jpg and cat_portrait.jpg are both "cat".
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg

try:
    import torch
except ImportError:
    sys.exit('this example needs torch: pip install ".[torch]"')

SIZE = 64


def load(photos: list[Path], rng: np.random.Generator) -> Any:
    """Decode and augment photos to an (N, 3, SIZE, SIZE) float32 tensor."""
    n = len(photos)
    x = gpuimg.open_batch(photos)
    side = np.maximum((x.sizes.min(1) * rng.uniform(0.5, 1.0, n)).astype(int), 1)
    top, left = (rng.random((2, n)) * (x.sizes.T - side + 1)).astype(int)
    x = gpuimg.resized_crop(x, top, left, side, side, (SIZE, SIZE))
    x = gpuimg.horizontal_flip(x, where=rng.random(n) < 0.5)
    x = gpuimg.adjust_brightness(x, rng.uniform(0.8, 1.2, n))
    x = gpuimg.normalize(x, gpuimg.IMAGENET_MEAN, gpuimg.IMAGENET_STD)
    return gpuimg.to_torch(x, dtype="float32", layout="NCHW")


def main() -> None:
    parser = argparse.ArgumentParser(description="One training step of a small torch network.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "photos")
    photos = sorted(parser.parse_args().folder.glob("*.jpg"))
    if not photos:
        sys.exit("no .jpg files in that folder")
    names = [photo.stem.split("_")[0] for photo in photos]
    classes = sorted(set(names))

    torch.manual_seed(0)
    images = load(photos, np.random.default_rng(seed=0))
    labels = torch.tensor([classes.index(name) for name in names], device=images.device)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, len(classes)),
    ).to(images.device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    loss = torch.nn.functional.cross_entropy(network(images), labels)
    loss.backward()
    optimizer.step()
    after = torch.nn.functional.cross_entropy(network(images), labels)
    print(f"{len(photos)} photos, {len(classes)} classes, {tuple(images.shape)} on {images.device}")
    print(f"loss {loss.item():.3f} -> {after.item():.3f} after one step")


if __name__ == "__main__":
    main()
