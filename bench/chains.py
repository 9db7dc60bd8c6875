"""The chains of the benchmarks, with public functions only, so that every version of gpuimg can run them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

import gpuimg as gi

SIZE = 224

Preprocess = Callable[[gi.Batch, int], gi.Batch]  # of a batch and the index of its first image


def random_crops(sizes: NDArray[np.int64], rng: np.random.Generator) -> tuple[NDArray[np.int64], ...]:
    """Draw boxes as torchvision's RandomResizedCrop: area 0.08 to 1, aspect 3/4 to 4/3, clamped to the image."""
    n = len(sizes)
    height, width = sizes[:, 0], sizes[:, 1]
    area = rng.uniform(0.08, 1.0, n) * height * width
    ratio = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3), n))
    w = np.minimum(np.round(np.sqrt(area * ratio)), width).astype(np.int64)
    h = np.minimum(np.round(np.sqrt(area / ratio)), height).astype(np.int64)
    return rng.integers(0, height - h + 1), rng.integers(0, width - w + 1), h, w


def cropped(x: gi.Batch, rng: np.random.Generator) -> gi.Batch:
    """Apply a random crop, resize and flip."""
    top, left, height, width = random_crops(x.sizes, rng)
    x = gi.resized_crop(x, top, left, height, width, (SIZE, SIZE))
    return gi.horizontal_flip(x, where=rng.random(len(x)) < 0.5)


def train(x: gi.Batch, rng: np.random.Generator) -> gi.Batch:
    """Apply the usual preprocessing of ImageNet training."""
    return gi.normalize(cropped(x, rng), gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def train_rotate_color(x: gi.Batch, rng: np.random.Generator) -> gi.Batch:
    """Apply the same with rotation and color jitter."""
    n = len(x)
    x = gi.rotate(cropped(x, rng), rng.uniform(-180, 180, n))
    x = gi.adjust_brightness(x, rng.uniform(0.6, 1.4, n))
    x = gi.adjust_contrast(x, rng.uniform(0.6, 1.4, n))
    x = gi.adjust_saturation(x, rng.uniform(0.6, 1.4, n))
    x = gi.adjust_hue(x, rng.uniform(-0.1, 0.1, n))
    return gi.normalize(x, gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def evaluate(x: gi.Batch, rng: np.random.Generator) -> gi.Batch:
    """Apply the usual preprocessing of ImageNet evaluation."""
    return gi.normalize(gi.center_crop(gi.resize(x, 256), SIZE), gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def samples_of(x: gi.Batch, at: int) -> gi.Rng:
    """Return the generator of a batch whose first sample is ``at``."""
    return gi.Rng(0, indices=np.arange(at, at + len(x)))


def jittered(x: gi.Batch, at: int) -> gi.Batch:
    """Apply a random resized crop, rotation and color jitter."""
    rng = samples_of(x, at)
    x = gi.random_resized_crop(x, SIZE, rng=rng)
    x = gi.random_rotation(x, 180, rng=rng)
    x = gi.color_jitter(x, 0.4, 0.4, 0.4, 0.1, rng=rng)
    return gi.normalize(x, gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def rand_augmented(x: gi.Batch, at: int) -> gi.Batch:
    """Apply a random resized crop, flip and RandAugment."""
    rng = samples_of(x, at)
    x = gi.random_resized_crop(x, SIZE, rng=rng)
    x = gi.random_horizontal_flip(x, rng=rng)
    x = gi.rand_augment(x, 2, 9, rng=rng)
    return gi.normalize(x, gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def core() -> dict[str, Preprocess]:
    """Return the chains of bench_core."""
    rng = np.random.default_rng(0)

    def drawn(chain: Callable[[gi.Batch, np.random.Generator], gi.Batch], x: gi.Batch, at: int) -> gi.Batch:
        return chain(x, rng)

    chains = {"eval": evaluate, "train": train, "train+rotate+color": train_rotate_color}
    return {name: partial(drawn, chain) for name, chain in chains.items()}


#: The chains of bench_random.
RANDOM: dict[str, Preprocess] = {"crop+rotation+jitter": jittered, "rand_augment": rand_augmented}
