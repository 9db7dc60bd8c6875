"""Pillow and NumPy in threads, the usual program without a library for loading."""

import io
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance

from bench.peers import base
from bench.peers.base import Epoch, Peer

_BILINEAR = Image.Resampling.BILINEAR  # antialiased when making smaller


def decoded(data: bytes) -> Any:
    return Image.open(io.BytesIO(data)).convert("RGB")


def evaluated(data: bytes) -> Any:
    image = decoded(data)
    shorter = min(image.size)
    image = image.resize(tuple(int(base.SHORTER * side / shorter) for side in image.size), _BILINEAR)
    left, top = (round((side - base.SIZE) / 2) for side in image.size)
    return base.normalized(np.asarray(image.crop((left, top, left + base.SIZE, top + base.SIZE))))


def _cropped(data: bytes, rng: np.random.Generator) -> Any:
    image = decoded(data)
    top, left, height, width = base.random_box(rng, image.height, image.width)
    image = image.resize((base.SIZE, base.SIZE), _BILINEAR, box=(left, top, left + width, top + height))
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else image


def trained(data: bytes, rng: np.random.Generator) -> Any:
    return base.normalized(np.asarray(_cropped(data, rng)))


def colored(data: bytes, rng: np.random.Generator) -> Any:
    image = _cropped(data, rng).rotate(rng.uniform(-base.ANGLE, base.ANGLE), _BILINEAR)
    for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        image = enhance(image).enhance(rng.uniform(1 - base.JITTER, 1 + base.JITTER))
    hue, saturation, value = image.convert("HSV").split()
    turned = np.asarray(hue) + np.uint8(int(rng.uniform(-base.HUE, base.HUE) * 255) % 256)
    image = Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")
    return base.normalized(np.asarray(image))


PLAIN = {"decode": lambda data: np.asarray(decoded(data)), "eval": evaluated}
RANDOM = {"train": trained, "train+rotate+color": colored}


class Pillow(Peer):
    """Pillow in a pool of threads, a batch at a time."""

    name = "Pillow"
    distributions = ("pillow", "numpy")
    notes = "in a pool of threads; normalized with NumPy"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        return base.in_threads(self, work, files, PLAIN, RANDOM)
