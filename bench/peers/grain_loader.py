"""Grain with Pillow: the index-based data set of its guide, on threads."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, ClassVar

import grain
import numpy as np
from PIL import Image, ImageEnhance

from bench.peers import base
from bench.peers.base import Epoch, Peer

_BILINEAR = Image.Resampling.BILINEAR  # antialiased when making smaller


def _decoded(data: bytes) -> Any:
    return Image.open(io.BytesIO(data)).convert("RGB")


def _evaluated(data: bytes) -> Any:
    image = _decoded(data)
    shorter = min(image.size)
    image = image.resize(tuple(int(base.SHORTER * side / shorter) for side in image.size), _BILINEAR)
    left, top = (round((side - base.SIZE) / 2) for side in image.size)
    return base.normalized(np.asarray(image.crop((left, top, left + base.SIZE, top + base.SIZE))))


def _cropped(data: bytes, rng: np.random.Generator) -> Any:
    image = _decoded(data)
    top, left, height, width = base.random_box(rng, image.height, image.width)
    image = image.resize((base.SIZE, base.SIZE), _BILINEAR, box=(left, top, left + width, top + height))
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else image


def _trained(data: bytes, rng: np.random.Generator) -> Any:
    return base.normalized(np.asarray(_cropped(data, rng)))


def _colored(data: bytes, rng: np.random.Generator) -> Any:
    image = _cropped(data, rng).rotate(rng.uniform(-base.ANGLE, base.ANGLE), _BILINEAR)
    for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        image = enhance(image).enhance(rng.uniform(1 - base.JITTER, 1 + base.JITTER))
    hue, saturation, value = image.convert("HSV").split()
    turned = np.asarray(hue) + np.uint8(int(rng.uniform(-base.HUE, base.HUE) * 255) % 256)
    image = Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")
    return base.normalized(np.asarray(image))


class Grain(Peer):
    """Grain with Pillow's functions, because it has none for images."""

    name = "Grain + Pillow"
    distributions = ("grain", "pillow")
    lacks: ClassVar[dict[str, str]] = {"randaugment": "neither Grain nor Pillow has it"}
    # Every iterator starts its worker processes again, which would cost seconds in each round; or they run
    # ahead through an endless one, into the rounds of the others.
    notes = "threads, not worker processes; Pillow resizes, rotates and enhances"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Create a data set; each epoch is a new iterator over it."""
        dataset = grain.MapDataset.source(files).seed(0)
        if work == "decode":
            dataset = dataset.map(lambda data: np.asarray(_decoded(data)))
        elif work == "eval":
            dataset = dataset.map(_evaluated)
        else:
            random: Callable[..., Any] = _trained if work == "train" else _colored
            dataset = dataset.random_map(random)
        ahead = grain.ReadOptions(num_threads=self.threads, prefetch_buffer_size=2 * self.batch)
        batched = dataset.to_iter_dataset(ahead).batch(self.batch, batch_fn=list if work == "decode" else np.stack)
        return lambda: iter(batched)
