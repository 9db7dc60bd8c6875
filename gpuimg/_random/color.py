"""Random color functions: draw, then call. Defaults are those of ``torchvision.transforms.v2``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import PerImage, Range
from .._ops import color
from ..kernels import ops
from .draws import rng_of
from .rng import Rng

__all__ = [
    "color_jitter", "random_autocontrast", "random_channel_dropout", "random_channel_permutation", "random_equalize",
    "random_grayscale", "random_hsv", "random_invert", "random_photometric_distort", "random_posterize",
    "random_rgb_shift", "random_solarize",
]  # fmt: skip

# color_jitter's ops, in the order of torchvision's permutation.
_JITTER = np.array([op.code for op in (ops.BRIGHTNESS, ops.CONTRAST, ops.SATURATION, ops.HUE)], np.int32)


@of_images
def color_jitter(
    recording: Recording,
    brightness: float | Range | None = None,
    contrast: float | Range | None = None,
    saturation: float | Range | None = None,
    hue: float | Range | None = None,
    p: PerImage = 1.0,
    *,
    rng: Rng | int,
) -> Recording:
    """Vary brightness, contrast, saturation and hue at random, in a random order for each image.

    Parameters
    ----------
    brightness, contrast, saturation : float or (low, high), optional
        Range of the factor, at least 0; one number ``f`` stands for ``(max(0, 1 - f), 1 + f)``. None changes nothing.
    hue : float or (low, high), optional
        Range of the hue factor, -0.5 to 0.5 of a full turn; one number ``f`` stands for ``(-f, f)``. None changes
        nothing.

    Notes
    -----
    torchvision draws one order and one set of factors for a whole batch; here they are drawn for each image.

    Examples
    --------
    >>> gpuimg.color_jitter(np.zeros((2, 8, 8, 3), np.uint8), 0.4, 0.4, 0.4, 0.1, rng=0).array().shape
    (2, 8, 8, 3)
    """
    rng = rng_of(recording, rng, "color_jitter")
    each = np.arange(len(recording))
    ranges = [
        _range(brightness, "brightness"),
        _range(contrast, "contrast"),
        _range(saturation, "saturation"),
        _range(hue, "hue", 0.0, -0.5, 0.5),
    ]
    order = rng.permutation(4)
    factors = np.stack([rng.uniform(*(r or (0.0, 0.0))) for r in ranges], 1)
    where = rng.bernoulli(p)
    used = np.array([r is not None for r in ranges])
    used[2:] &= recording.channels == 3
    plan = recording.plan
    for k in range(4):
        op = order[:, k]
        codes = np.where(used[op], _JITTER[op], np.int32(ops.SKIP.code))
        plan = plan.with_entry(codes, (factors[each, op],), where=where)
    return recording.with_plan(plan)


def _range(
    value: Any, name: str, middle: float = 1.0, low: float = 0.0, high: float = np.inf
) -> tuple[float, float] | None:
    """Return the checked range of a factor about ``middle``, 1 or 0; None if it changes nothing."""
    if value is None:
        return None
    if arguments.is_single(value):
        number = arguments.number(value, name, low=0.0)
        value = (max(0.0, 1.0 - number), 1.0 + number) if middle else (-number, number)
    first, last = arguments.low_high(value, name, low=low, high=high)
    return None if first == last == middle else (first, last)


@of_images
def random_photometric_distort(
    recording: Recording,
    brightness: Range = (0.875, 1.125),
    contrast: Range = (0.5, 1.5),
    saturation: Range = (0.5, 1.5),
    hue: Range = (-0.05, 0.05),
    p: PerImage = 0.5,
    *,
    rng: Rng | int,
) -> Recording:
    """Distort brightness, contrast, saturation, hue and channel order, each with probability ``p``, as SSD does.

    Parameters
    ----------
    brightness, contrast, saturation : (low, high)
        Range of the factor, at least 0.
    hue : (low, high)
        Range of the hue factor, -0.5 to 0.5 of a full turn.
    p : float or (N,) float
        Probability of each change of an image, 0 to 1.

    Notes
    -----
    Contrast changes before or after saturation and hue, with equal probability; channels are permuted last.

    References
    ----------
    Liu et al.: "SSD: Single shot multibox detector", ECCV 2016; torchvision ``RandomPhotometricDistort``.
    """
    rng = rng_of(recording, rng, "random_photometric_distort")
    ranges = [
        arguments.low_high(brightness, "brightness", low=0.0),
        arguments.low_high(contrast, "contrast", low=0.0),
        arguments.low_high(saturation, "saturation", low=0.0),
        arguments.low_high(hue, "hue", low=-0.5, high=0.5),
    ]
    chosen = [rng.bernoulli(p) for _ in ranges]
    amounts = [rng.uniform(*each) for each in ranges]
    first = rng.bernoulli(0.5)
    recording = color.adjust_brightness.record(recording, amounts[0], where=chosen[0])
    recording = color.adjust_contrast.record(recording, amounts[1], where=chosen[1] & first)
    recording = color.adjust_saturation.record(recording, amounts[2], where=chosen[2])
    recording = color.adjust_hue.record(recording, amounts[3], where=chosen[3])
    recording = color.adjust_contrast.record(recording, amounts[1], where=chosen[1] & ~first)
    mixed = rng.bernoulli(p)
    return color.permute_channels.record(recording, rng.permutation(recording.channels), where=mixed)


@of_images
def random_hsv(
    recording: Recording,
    hue: float = 0.015,
    saturation: float = 0.7,
    value: float = 0.4,
    p: PerImage = 1.0,
    *,
    rng: Rng | int,
) -> Recording:
    """Rotate hue, and multiply saturation and value, at random in HSV, as YOLO does.

    Parameters
    ----------
    hue, saturation, value : float
        Largest changes, 0 to 1: hues turn by up to ``hue`` of a full turn either way, and the factors are from
        ``1 - f`` to ``1 + f``. ultralytics' ``hsv_h``, ``hsv_s`` and ``hsv_v``, with its defaults.

    Notes
    -----
    HSV is computed in floating point. ultralytics rounds it to bytes, hues to 2 degrees: its images differ by up to 12
    levels of uint8, and by less than 1 on average.

    References
    ----------
    ultralytics 8.4 ``data/augment.py``, ``RandomHSV``.
    """
    rng = rng_of(recording, rng, "random_hsv")
    gains = []
    for most, name in ((hue, "hue"), (saturation, "saturation"), (value, "value")):
        number = arguments.number(most, name, low=0.0, high=1.0)
        gains.append(rng.uniform(-number, number))
    where = rng.bernoulli(p)
    return color.adjust_hsv.record(recording, gains[0], 1.0 + gains[1], 1.0 + gains[2], where=where)


@of_images
def random_channel_permutation(recording: Recording, p: PerImage = 1.0, *, rng: Rng | int) -> Recording:
    """Permute the channels at random with probability ``p``; all orders are equally likely."""
    rng = rng_of(recording, rng, "random_channel_permutation")
    where = rng.bernoulli(p)
    return color.permute_channels.record(recording, rng.permutation(recording.channels), where=where)


@of_images
def random_channel_dropout(
    recording: Recording, count: int = 1, fill: PerImage = 0.0, p: PerImage = 0.5, *, rng: Rng | int
) -> Recording:
    """Fill some channels with a value, with probability ``p``, as albumentations' ``ChannelDropout``.

    Parameters
    ----------
    count : int
        How many channels to fill, 1 to C.
    fill : float or (N,) float
        Value of these channels, 0 to white, in the unit of the images.
    """
    rng = rng_of(recording, rng, "random_channel_dropout")
    most = arguments.whole_number(count, "count", 1, recording.channels)
    where = rng.bernoulli(p)
    dropped = rng.permutation(recording.channels) < most
    return color.channel_dropout.record(recording, dropped, fill, where=where)


@of_images
def random_rgb_shift(
    recording: Recording, limit: float | tuple[float, float, float] = 0.08, p: PerImage = 0.5, *, rng: Rng | int
) -> Recording:
    """Tint images: add a random constant to each channel, with probability ``p``, as albumentations' ``RGBShift``.

    Parameters
    ----------
    limit : float or (red, green, blue)
        Largest change either way, 0 to 1, for values in [0, 1], also for uint8 images. One number is for all channels.
    """
    rng = rng_of(recording, rng, "random_rgb_shift")
    most = arguments.color(limit, 1, recording.channels, 1.0, "limit")[0]
    if most.min() < 0.0 or most.max() > 1.0:
        raise ValueError(f"limit must be from 0 to 1, not {limit!r}")
    where = rng.bernoulli(p)
    shift = np.stack([rng.uniform(-one, one) for one in most[: recording.channels]], 1)
    return color.rgb_shift.record(recording, shift / recording.unit, where=where)


@of_images
def random_grayscale(recording: Recording, p: PerImage = 0.1, *, rng: Rng | int) -> Recording:
    """Convert images to gray with probability ``p``, keeping their number of channels."""
    rng = rng_of(recording, rng, "random_grayscale")
    return color.rgb_to_grayscale.record(recording, recording.channels, where=rng.bernoulli(p))


@of_images
def random_invert(recording: Recording, p: PerImage = 0.5, *, rng: Rng | int) -> Recording:
    """Make negatives with probability ``p``: subtract each value from white."""
    return color.invert.record(recording, where=rng_of(recording, rng, "random_invert").bernoulli(p))


@of_images
def random_solarize(recording: Recording, threshold: PerImage, p: PerImage = 0.5, *, rng: Rng | int) -> Recording:
    """Invert bright values only, those at or above a threshold, with probability ``p``.

    Parameters
    ----------
    threshold : float or (N,) float
        Least value that is inverted, 0 to white, in the unit of the images.

    Examples
    --------
    >>> gpuimg.random_solarize(np.full((1, 1, 1, 1), 200, np.uint8), 128, 1.0, rng=0).array().ravel().tolist()
    [55]
    """
    return color.solarize.record(recording, threshold, where=rng_of(recording, rng, "random_solarize").bernoulli(p))


@of_images
def random_posterize(recording: Recording, bits: PerImage, p: PerImage = 0.5, *, rng: Rng | int) -> Recording:
    """Reduce images to few levels per channel, with probability ``p``: keep only the high bits of each value.

    Parameters
    ----------
    bits : int or (N,) int
        Number of high bits to keep, 0 to 8: 1 keeps 2 levels, 8 keeps 256.

    Examples
    --------
    >>> gpuimg.random_posterize(np.full((1, 1, 1, 1), 255, np.uint8), 4, 1.0, rng=0).array().ravel().tolist()
    [240]
    """
    return color.posterize.record(recording, bits, where=rng_of(recording, rng, "random_posterize").bernoulli(p))


@of_images
def random_autocontrast(recording: Recording, p: PerImage = 0.5, *, rng: Rng | int) -> Recording:
    """Stretch each channel to the full range, from black to white, with probability ``p``."""
    return color.autocontrast.record(recording, where=rng_of(recording, rng, "random_autocontrast").bernoulli(p))


@of_images
def random_equalize(recording: Recording, p: PerImage = 0.5, *, rng: Rng | int) -> Recording:
    """Spread the values of each channel evenly over the range, with probability ``p``: equalize its histogram."""
    return color.equalize.record(recording, where=rng_of(recording, rng, "random_equalize").bernoulli(p))
