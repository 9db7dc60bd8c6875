"""Random weather: draw, then call."""

from __future__ import annotations

import numpy as np

from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Color, PerImage, Range
from .._ops import color as colors
from .._ops import weather
from .draws import rng_of
from .pixels import seeds
from .rng import Rng

__all__ = ["random_fog", "random_rain", "random_shadow"]

_MOST_SHADOWS = 16
_CORNERS = 5


@of_images
def random_fog(
    recording: Recording,
    density: float | Range = (0.2, 0.6),
    scale: float | Range = (0.2, 0.6),
    color: Color | None = None,
    p: PerImage = 0.5,
    *,
    rng: Rng | int,
) -> Recording:
    """Add patches of fog of random density, with probability ``p``.

    Black as the color gives the shadows of clouds.

    Parameters
    ----------
    density : float or (low, high)
        Mean share of the color, 0 to 1, or the range to draw it from.
    scale : float or (low, high)
        Distance between thick and thin places, as a fraction of the image's longer side, 0 to 1, or the range to draw
        it from.
    color : number, tuple of C, (N,) or (N, C) array, optional
        Color of the fog, in the unit of the images. None is white.
    """
    rng = rng_of(recording, rng, "random_fog")
    shares = arguments.one_or_range(density, "density", low=0.0, high=1.0)
    scales = arguments.one_or_range(scale, "scale", low=0.0, high=1.0)
    where = rng.bernoulli(p)
    share, spacing = rng.uniform(*shares), np.maximum(rng.uniform(*scales) * recording.sizes.max(1), 1.0)
    return weather.fog.record(recording, share, spacing, color, seed=seeds(rng), where=where)


@of_images
def random_rain(
    recording: Recording,
    amount: float | Range = (0.2, 0.6),
    length: float | Range = (10.0, 30.0),
    width: float | Range = 1.0,
    degrees: float | Range = (-20.0, 20.0),
    color: Color | None = None,
    opacity: float | Range = (0.4, 0.8),
    brightness: float | Range = (0.7, 0.9),
    p: PerImage = 0.5,
    *,
    rng: Rng | int,
) -> Recording:
    """Darken the image and draw streaks of rain, with probability ``p``.

    Parameters
    ----------
    amount : float or (low, high)
        How much it rains, 0 to 1, as in :func:`rain`, or the range to draw it from.
    length, width : float or (low, high)
        Length and width of a streak in pixels, at least 1, or the ranges to draw them from.
    degrees : float or (low, high)
        Direction in degrees, -90 to 90, or the range to draw it from: 0 falls straight down, and above 0 to the right.
    color : number, tuple of C, (N,) or (N, C) array, optional
        Color of streaks, in the unit of the images. None is white.
    opacity : float or (low, high)
        Share of the color in a streak, 0 to 1, or the range to draw it from.
    brightness : float or (low, high)
        Factor of the image under the streaks, at least 0, or the range to draw it from.
    """
    rng = rng_of(recording, rng, "random_rain")
    ranges = (
        arguments.one_or_range(amount, "amount", low=0.0, high=1.0), arguments.one_or_range(length, "length", low=1.0),
        arguments.one_or_range(width, "width", low=1.0),
        arguments.one_or_range(degrees, "degrees", low=-90.0, high=90.0),
        arguments.one_or_range(opacity, "opacity", low=0.0, high=1.0),
        arguments.one_or_range(brightness, "brightness", low=0.0),
    )  # fmt: skip
    where = rng.bernoulli(p)
    share, long, wide, angle, opaque, factor = (rng.uniform(*each) for each in ranges)
    darker = colors.adjust_brightness.record(recording, factor, where=where)
    return weather.rain.record(darker, share, long, wide, angle, color, opaque, seed=seeds(rng), where=where)


@of_images
def random_shadow(
    recording: Recording,
    factor: float | Range = (0.3, 0.7),
    count: float | Range = (1, 2),
    region: tuple[float, float, float, float] = (0.0, 0.5, 1.0, 1.0),
    p: PerImage = 0.5,
    *,
    rng: Rng | int,
) -> Recording:
    """Cast shadows of random shapes, with probability ``p``, as albumentations' ``RandomShadow``.

    Parameters
    ----------
    factor : float or (low, high)
        What values in a shadow are multiplied by, at least 0, or the range to draw it from, for each shadow.
    count : int or (low, high)
        Number of shadows, 1 to 16, or the range to draw it from, both limits included.
    region : (x0, y0, x1, y1)
        Rectangle in which the five corners of each shadow lie, as fractions of the image's width and height.
    """
    rng = rng_of(recording, rng, "random_shadow")
    low, high = arguments.one_or_range(factor, "factor", low=0.0)
    few, most = arguments.whole_low_high(count, "count", 1, _MOST_SHADOWS)
    box = arguments.finite(region, "region")
    if box.shape != (4,) or np.any(box[:2] > box[2:]):
        raise ValueError(f"region must be (x0, y0, x1, y1) with x0 <= x1 and y0 <= y1, not {region!r}")
    where = rng.bernoulli(p)
    drawn = rng.integers(few, most + 1)
    for k in range(most):
        unit = rng.units(2 * _CORNERS).reshape(-1, _CORNERS, 2)
        corners = (box[:2] + (box[2:] - box[:2]) * unit) * recording.sizes[:, None, ::-1]
        recording = weather.shadow.record(recording, corners, rng.uniform(low, high), where=where & (k < drawn))
    return recording
