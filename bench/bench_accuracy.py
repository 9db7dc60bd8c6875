"""A network trained with gpuimg and with torchvision: validation accuracy after each epoch, by seed.

    python -m bench.bench_accuracy [--rounds 12] [--out bench/results/accuracy.json]

Eight classes: patches of 96 to 180 pixels of one photo of ``examples`` each, with noise, as JPEGs in folders. Both
pipelines do the same: random resized crop to 48, flip, jitter of brightness, contrast and saturation, normalization;
for validation resize and center crop. torchvision's is a ``DataLoader`` over an ``ImageFolder``, gpuimg's is
``gpuimg.torch.load``. The network has group normalization, since slow averages of batch normalization would say little
after few epochs. Each round has a seed: both networks start with the same weights, and loaders order and draw by it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

import gpuimg as gi
import gpuimg.torch
from bench import common
from bench.torchvision_import import import_torchvision

PHOTOS = Path(__file__).parents[1] / "examples" / "photos"
CLASSES = ("astronaut", "camera", "cat", "coffee", "deep_field", "galaxies", "retina", "rocket")
TRAIN, VALIDATE = 60, 30  # images of a class
SIZE, BATCH, EPOCHS = 48, 32, 8
JITTER, SCALE = 0.4, (0.35, 1.0)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]
Loaders = tuple[Batches, Batches]  # of training and of validation


def write_photos(folder: Path) -> None:
    """Write patches of each photo into class folders."""
    rng = np.random.default_rng(0)
    for name in CLASSES:
        photo = Image.open(PHOTOS / f"{name}.jpg").convert("RGB").resize((900, 600))
        for part, count in (("train", TRAIN), ("val", VALIDATE)):
            (folder / part / name).mkdir(parents=True)
            for k in range(count):
                side = int(rng.integers(96, 181))
                x, y = int(rng.integers(900 - side)), int(rng.integers(600 - side))
                patch = np.asarray(photo.crop((x, y, x + side, y + side)), np.float32)
                noisy = np.clip(patch + rng.normal(0, 16, patch.shape), 0, 255).astype(np.uint8)
                Image.fromarray(noisy).save(folder / part / name / f"{k:03}.jpg", quality=90)


def with_gpuimg(folder: Path, seed: int) -> Loaders:
    """Loaders of gpuimg."""

    def augment(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
        x = gi.random_resized_crop(x, SIZE, scale=SCALE, rng=rng)
        x = gi.random_horizontal_flip(x, rng=rng)
        x = gi.color_jitter(x, JITTER, JITTER, JITTER, rng=rng)
        return gi.normalize(x, MEAN, STD)

    def prepare(x: gi.Batch) -> gi.Batch:
        return gi.normalize(gi.center_crop(gi.resize(x, SIZE + 8), SIZE), MEAN, STD)

    options: dict[str, Any] = {"batch_size": BATCH, "layout": "NCHW", "dtype": "float32"}
    train = gpuimg.torch.load(gi.folder(folder / "train"), augment, shuffle=True, seed=seed, **options)
    validate = gpuimg.torch.load(gi.folder(folder / "val"), prepare, **options)
    return train, validate


def with_torchvision(folder: Path, seed: int) -> Loaders:
    """Loaders of PyTorch over torchvision's data set and transforms."""
    import_torchvision()
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    end = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    augment = [transforms.RandomResizedCrop(SIZE, SCALE), transforms.RandomHorizontalFlip()]
    augment.append(transforms.ColorJitter(JITTER, JITTER, JITTER))
    prepare = [transforms.Resize(SIZE + 8), transforms.CenterCrop(SIZE)]
    torch.manual_seed(seed)
    loader = torch.utils.data.DataLoader
    train = loader(ImageFolder(folder / "train", transforms.Compose(augment + end)), BATCH, shuffle=True)
    validate = loader(ImageFolder(folder / "val", transforms.Compose(prepare + end)), BATCH)
    return train, validate


def network(seed: int) -> nn.Module:
    """A convolutional network with the weights of a seed."""
    generator = torch.random.get_rng_state()
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, 2, 1), nn.GroupNorm(4, after), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, len(CLASSES)))
    torch.random.set_rng_state(generator)
    return model


def accuracies(loaders: Loaders, seed: int) -> list[float]:
    """Train a network; return its accuracy after each epoch."""
    model = network(seed)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    found = []
    for _ in range(EPOCHS):
        model.train()
        for images, labels in loaders[0]:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        model.eval()
        right = total = 0
        with torch.no_grad():
            for images, labels in loaders[1]:
                right += int((model(images).argmax(1) == labels).sum())
                total += len(labels)
        found.append(right / total)
    return found


def main() -> None:
    """Train, print, write."""
    parser = common.arguments(__doc__, "accuracy.json", rounds=12)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pipelines = {"gpuimg": with_gpuimg, "torchvision": with_torchvision}
    found: dict[str, list[list[float]]] = {name: [] for name in pipelines}
    with tempfile.TemporaryDirectory() as folder:
        write_photos(Path(folder))
        for seed in range(options.rounds):
            for name, pipeline in pipelines.items():
                found[name].append(accuracies(pipeline(Path(folder), seed), seed))
                print(seed, name, [round(one, 3) for one in found[name][-1]], flush=True)
    result: dict[str, Any] = {"seeds": options.rounds, "epochs": EPOCHS, "torch": torch.__version__, "accuracy": {}}
    for name, runs in found.items():
        result["accuracy"][name] = {
            "mean": np.mean(runs, 0).round(4).tolist(),
            "standard_deviation": np.std(runs, 0, ddof=1).round(4).tolist(),
        }
    common.write(result, options.out)


if __name__ == "__main__":
    main()
