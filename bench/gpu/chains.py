"""Chains of preprocessing that the parts measure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpuimg as gi

SIZE = 224
DTYPE, LAYOUT = "float16", "NCHW"


def _rotate_color(x: Any, rng: Any) -> gi.Batch:
    x = gi.random_horizontal_flip(gi.random_resized_crop(x, SIZE, rng=rng), rng=rng)
    x = gi.random_rotation(x, 180.0, "bilinear", rng=rng)
    x = gi.color_jitter(x, 0.4, 0.4, 0.4, 0.1, rng=rng)
    return gi.normalize(x, gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def _rand_augment(x: Any, rng: Any) -> gi.Batch:
    x = gi.random_horizontal_flip(gi.random_resized_crop(x, SIZE, rng=rng), rng=rng)
    x = gi.rand_augment(x, 2, 9, rng=rng)
    return gi.normalize(x, gi.IMAGENET_MEAN, gi.IMAGENET_STD)


CHAINS: dict[str, Callable[[Any, Any], gi.Batch]] = {
    "train": gi.presets.imagenet_train(SIZE),
    "train+rotate+color": _rotate_color,
    "randaugment": _rand_augment,
}
