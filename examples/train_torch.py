"""Train a small torch network with gpuimg's loader, stop in the middle of an epoch, and resume at the exact sample.

python examples/train_torch.py [FOLDER]

The label of a photo is the first word of its name. Under torchrun every process loads its own share.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import gpuimg

try:
    import torch
except ImportError:
    sys.exit('this example needs torch: pip install ".[torch]"')

SIZE = 64
EPOCHS = 12
STOP_AFTER = 13  # batches


def make_loader(folder: Path) -> tuple[gpuimg.Loader, int]:
    """Return a loader for the photos of a folder, and the number of their classes."""
    photos = sorted(folder.glob("*.jpg"))
    if not photos:
        sys.exit("no .jpg files in that folder")
    names = [photo.stem.split("_")[0] for photo in photos]
    classes = sorted(set(names))
    source = gpuimg.file_list(photos, [classes.index(name) for name in names])
    train = gpuimg.presets.imagenet_train(SIZE)
    return gpuimg.load(source, train, batch_size=4, layout="NCHW", shuffle=True, epochs=EPOCHS), len(classes)


def train_on(batch: gpuimg.LoadedBatch, network: Any, optimizer: Any) -> float:
    """Take one training step; the images are in the loader's memory, nothing is copied."""
    images = torch.from_dlpack(batch.images)
    labels = torch.from_numpy(batch.labels).to(images.device)
    loss = torch.nn.functional.cross_entropy(network.to(images.device)(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small torch network, stop, and resume.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "photos")
    folder = parser.parse_args().folder
    loader, classes = make_loader(folder)

    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, classes),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    losses = []
    for batch in loader:
        losses.append(train_on(batch, network, optimizer))
        if len(losses) == STOP_AFTER:
            break  # the loader's threads end here
    checkpoint = {"network": network.state_dict(), "loader": loader.state_dict()}

    loader, _ = make_loader(folder)  # as after a restart
    loader.load_state_dict(checkpoint["loader"])
    network.load_state_dict(checkpoint["network"])
    losses += [train_on(batch, network, optimizer) for batch in loader]
    print(f"{len(losses)} batches, stopped and resumed after {STOP_AFTER}")
    print(f"loss {sum(losses[:6]) / 6:.3f} -> {sum(losses[-6:]) / 6:.3f}")


if __name__ == "__main__":
    main()
