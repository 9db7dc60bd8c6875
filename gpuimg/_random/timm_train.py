"""timm's training transform: what :func:`gpuimg.presets.timm_train` returns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._batch.batch import Batch, recording_of
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Exact
from .._ops.pixels import normalize
from .._ops.resize_crop import resize
from .._ops.timm_resize import central_corner, crop_or_pad, kept_ratio
from .color import color_jitter, random_grayscale
from .filters import random_gaussian_blur
from .geometry import random_horizontal_flip, random_resized_crop, random_vertical_flip
from .pixels import random_erasing
from .rng import Rng
from .timm_policies import timm_augment

# Contents of erased rectangles, by timm's mode.
_ERASED: dict[str, Any] = {"const": 0, "rand": "color", "pixel": "random"}
# Ranges of area and aspect ratio of a crop, or of a resize.
_RANGES: dict[str, Any] = {
    "rrc": ((0.08, 1.0), (3 / 4, 4 / 3)),
    "rkrc": ((0.8, 1.0), (0.9, 1 / 0.9)),
    "rkrr": ((0.8, 1.0), (0.9, 1 / 0.9)),
}


class Timm(NamedTuple):
    """Checked arguments of the transform."""

    size: tuple[int, int]
    interpolation: Any  # a name, or "random"
    mean: Any
    std: Any
    crop_mode: str
    scale: Any
    ratio: Any
    hflip: float
    vflip: float
    auto_augment: str | None
    color_jitter: dict[str, Any] | None
    color_jitter_prob: float
    grayscale_prob: float
    gaussian_blur_prob: float
    erasing_prob: float
    erased: Any  # a value of random_erasing
    erasing_count: int
    exact: Exact | None


def crop_of(mode: str | None, scale: Any, ratio: Any) -> tuple[str, Any, Any]:
    """Return the mode of the crop and its ranges."""
    mode = mode or "rrc"
    arguments.one_of(mode, "train_crop_mode", _RANGES)
    return mode, scale or _RANGES[mode][0], ratio or _RANGES[mode][1]


def jitter_of(strengths: Any) -> dict[str, Any] | None:
    """Return the arguments of color_jitter; one strength is for brightness, contrast and saturation."""
    if strengths is None:
        return None
    each = (strengths,) * 3 if arguments.is_single(strengths) else tuple(strengths)
    if len(each) not in (3, 4):
        raise ValueError(f"color_jitter must be one number, or 3 or 4 of them, not {strengths!r}")
    return dict(zip(("brightness", "contrast", "saturation", "hue"), each, strict=False))


def erased_of(mode: str) -> Any:
    """Return the content of erased rectangles."""
    arguments.one_of(mode, "re_mode", _ERASED)
    return _ERASED[mode]


def timm_training(timm: Timm, x: Recording, rng: Rng) -> Recording:
    """Crop, flip, augment, normalize and erase."""
    chosen = rng.choice(["bilinear", "bicubic"]) if timm.interpolation == "random" else timm.interpolation
    if timm.crop_mode == "rrc":
        x = random_resized_crop.record(x, timm.size, timm.scale, timm.ratio, chosen, exact=timm.exact, rng=rng)
    else:
        x = _resized_and_cropped(timm, x, chosen, rng)
    x = random_horizontal_flip.record(x, timm.hflip, rng=rng)
    x = random_vertical_flip.record(x, timm.vflip, rng=rng)
    if timm.auto_augment:
        fill = tuple(np.minimum(np.round(255.0 * np.array(timm.mean)), 255.0) / 255.0 / x.unit)
        x = recording_of(timm_augment(Batch(x), timm.auto_augment, timm.interpolation, fill, rng=rng))
    if timm.color_jitter is not None:
        x = color_jitter.record(x, **timm.color_jitter, p=timm.color_jitter_prob, rng=rng)
    if timm.grayscale_prob:
        x = random_grayscale.record(x, timm.grayscale_prob, rng=rng)
    if timm.gaussian_blur_prob:
        x = random_gaussian_blur.record(x, 23, (0.1, 2.0), timm.gaussian_blur_prob, rng=rng)
    x = normalize.record(x, timm.mean, timm.std)
    if timm.erasing_prob:
        ranges = (0.02, 1 / 3), (0.3, 1 / 0.3)
        x = random_erasing.record(x, timm.erasing_prob, *ranges, timm.erased, count=timm.erasing_count, rng=rng)
    return x


def _resized_and_cropped(timm: Timm, x: Recording, interpolation: Any, rng: Rng) -> Recording:
    """Resize to nearly the same aspect ratio, then crop at the center or at random, and reflect what is missing."""
    area = np.where(rng.bernoulli(0.5), rng.uniform(*timm.scale), 1.0)
    aspect = np.where(rng.bernoulli(0.5), rng.uniform(*np.log(timm.ratio)), 0.0)
    factor = np.exp(np.stack([-0.5 * aspect, 0.5 * aspect], 1)) / np.sqrt(area)[:, None]
    x = resize.record(x, kept_ratio(x.sizes, timm.size, factor=factor), interpolation, exact=timm.exact)
    corner = central_corner(x.sizes, timm.size)
    if timm.crop_mode == "rkrr":
        spare = x.sizes - np.array(timm.size)
        corner = (np.sign(spare) * np.floor(rng.units(2) * (np.abs(spare) + 1))).astype(np.int64)
    return crop_or_pad(x, corner, timm.size, "reflect")
