"""Helpers of the random functions: generators, and random rectangles."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .._batch.recording import Recording
from .._checks.types import Floats, Ints
from .._data.images import rectangles
from .rng import Rng, as_rng

_TRIES = 10  # boxes drawn to find one that fits into the image, as in torchvision
_KEPT = 500  # elements on which NumPy's functions keep the GIL
_UNDIVIDED = np.ones(1, np.int64)


def rng_of(recording: Recording, rng: Rng | int, name: str) -> Rng:
    """Return the generator for the images, or clips, of a recording in a call of the function ``name``."""
    return as_rng(rng, len(recording), name, recording.frames)


def resized_crop_boxes(sizes: Ints, rng: Rng, scale: Floats, ratio: tuple[float, float]) -> Ints:
    """Draw boxes (N, 4), top left height width, distributed as in torchvision's ``RandomResizedCrop``; one draw."""
    boxes = random_boxes(sizes, rng, scale, ratio, wide=True)
    missed = boxes[:, 0] < 0
    if missed.any():
        boxes[missed] = _largest_boxes(sizes[missed], ratio)
    return boxes


def _largest_boxes(sizes: Ints, ratio: tuple[float, float]) -> Ints:
    """Return the centered boxes (N, 4) of images that are cropped to the nearest allowed ratio."""
    height, width = sizes.T
    whole = width / height
    narrow, wide = whole < ratio[0], whole > ratio[1]
    h = np.where(narrow, np.round(width / ratio[0]), height)
    w = np.where(wide & ~narrow, np.round(height * ratio[1]), width)
    box = np.clip(np.stack([h, w], 1), 1, sizes).astype(np.int64)
    return np.concatenate([(sizes - box) // 2, box], 1)


def random_boxes(
    sizes: Ints, rng: Rng, scale: Floats, ratio: tuple[float, float], *, wide: bool, shares: Ints = _UNDIVIDED
) -> Ints:
    """Draw boxes (N, 4) inside images, top left height width; -1 where none of ten tries fits; one draw.

    ``scale`` (1, 2) or (N, 2) is a range of fractions of the image's area, which ``shares`` (1,) or (N,) divides.
    ``ratio`` is of the width to the height, where a box may be as large as the image, or without ``wide`` of the height
    to the width, where it must be smaller.
    """
    unit = rng.units(2 * _TRIES + 4)  # the last two complete a block
    low, high = _logarithms(ratio)
    aspect = np.empty((len(sizes), _TRIES))
    for k in range(0, len(sizes), _KEPT // _TRIES):
        some = slice(k, k + _KEPT // _TRIES)
        aspect[some] = np.exp(low + (high - low) * unit[some, _TRIES : 2 * _TRIES])
    boxes = np.empty((len(sizes), 4), np.int64)
    rectangles().fitting_boxes(np.ascontiguousarray(sizes), shares, unit, aspect, scale, int(wide), boxes)
    return boxes


@lru_cache
def _logarithms(ratio: tuple[float, float]) -> tuple[float, float]:
    low, high = np.log(ratio).tolist()
    return low, high
