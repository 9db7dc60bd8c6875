"""Random erasing, masks, noise and elastic deformation: draw, then call."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Color, Interpolation, Ints, Mask, PerImage, Range, Size
from .._ops import pixels
from .._ops.elastic import elastic
from .draws import random_boxes, rng_of
from .rng import Rng

__all__ = [
    "coarse_dropout", "random_elastic", "random_erasing", "random_gaussian_noise", "random_grid_mask",
    "random_salt_and_pepper", "random_shot_noise",
]  # fmt: skip

_MOST_HOLES = 64  # rectangles of an image: each is a step of its program


def seeds(rng: Rng) -> Ints:
    """Draw seeds (N,) of 48 bits for :func:`gpuimg.gaussian_noise`; one draw."""
    drawn: Ints = (rng.words(1)[:, 0] >> np.uint64(16)).astype(np.int64)
    return drawn


@of_images
def random_erasing(
    recording: Recording,
    p: PerImage = 0.5,
    scale: Range = (0.02, 0.33),
    ratio: Range = (0.3, 3.3),
    value: Color | Literal["random", "color"] = 0,
    *,
    count: int = 1,
    rng: Rng | int,
) -> Recording:
    """Hide a rectangle of random area, aspect ratio and position, with probability ``p``.

    Parameters
    ----------
    scale : (low, high)
        Range of the rectangle's area as a fraction of the image's, 0 to 1.
    ratio : (low, high)
        Range of the rectangle's height divided by its width, at least 1e-6; the logarithm is drawn uniformly.
    value : number, tuple of C, (N,) or (N, C) array, "random" or "color"
        Color of the rectangle, or noise, as in :func:`erase`. ``"color"`` draws one color for each rectangle, uniform
        from black to white, or after :func:`normalize` from a standard normal distribution.
    count : int
        Largest number of rectangles, 1 to 64: each image gets 1 to ``count``, which share the area between them.

    Notes
    -----
    If none of ten rectangles fits into the image, the image does not change, as in torchvision. timm's
    ``RandomErasing`` comes after :func:`normalize`, with ``scale=(0.02, 1 / 3)`` and ``ratio=(0.3, 1 / 0.3)``; its
    modes are 0 for "const", ``"color"`` for "rand" and ``"random"`` for "pixel".
    """
    rng = rng_of(recording, rng, "random_erasing")
    share = arguments.low_high(scale, "scale", low=0.0, high=1.0)
    aspect = arguments.low_high(ratio, "ratio", low=1e-6)
    most = arguments.whole_number(count, "count", 1, _MOST_HOLES)
    if isinstance(value, str):
        arguments.one_of(value, "value", ("random", "color"))
    where = rng.bernoulli(p)
    holes = rng.integers(1, most + 1) if most > 1 else np.ones(len(recording), np.int64)
    for k in range(most):
        recording = _with_hole(recording, share, aspect, value, holes, where & (k < holes), rng)
    return recording


def _with_hole(
    recording: Recording, share: tuple[float, float], aspect: tuple[float, float], value: Any, holes: Ints, where: Mask,
    rng: Rng,
) -> Recording:  # fmt: skip
    """Erase one of ``holes`` (N,) rectangles, which share an area drawn from ``share``."""
    boxes = random_boxes(recording.sizes, rng, np.array([share]), aspect, wide=False, shares=holes)
    where = where & (boxes[:, 0] >= 0)
    top, left, h, w = np.where(where, boxes.T, 0)
    if isinstance(value, str) and value == "color":
        color = [rng.normal() if recording.normalized else rng.uniform() for _ in range(recording.channels)]
        value = np.stack(color, 1) / recording.unit
    return pixels.erase.record(recording, top, left, h, w, value, seed=_seeds_for(value, rng), where=where)


def _seeds_for(value: Any, rng: Rng) -> Ints | None:
    """Draw seeds if the value is noise."""
    return seeds(rng) if isinstance(value, str) else None


@of_images
def coarse_dropout(
    recording: Recording,
    holes: float | Range = (1, 2),
    height: Range = (0.1, 0.2),
    width: Range = (0.1, 0.2),
    value: Color | Literal["random"] = 0,
    p: PerImage = 0.5,
    *,
    rng: Rng | int,
) -> Recording:
    """Hide several rectangles of random sizes at random positions, with probability ``p`` (Cutout).

    Parameters
    ----------
    holes : int or (low, high)
        Number of rectangles, 1 to 64, or the range to draw it from, both limits included.
    height, width : (low, high)
        Range of a rectangle's sides as fractions of the image's, 0 to 1; sides are at least one pixel.
    value : number, tuple of C, (N,) or (N, C) array or "random"
        Color of the rectangles, or noise, as in :func:`erase`.

    References
    ----------
    DeVries, Taylor: "Improved regularization of convolutional neural networks with cutout", arXiv:1708.04552, 2017;
    albumentations ``CoarseDropout``.

    Examples
    --------
    >>> y = gpuimg.coarse_dropout(np.full((1, 10, 10, 1), 9, np.uint8), 1, (0.5, 0.5), (0.2, 0.2), p=1.0, rng=0).array()
    >>> int((y == 0).sum())
    10
    """
    rng = rng_of(recording, rng, "coarse_dropout")
    few, most = arguments.whole_low_high(holes, "holes", 1, _MOST_HOLES)
    tall, wide = (arguments.low_high(v, name, low=0.0, high=1.0) for v, name in ((height, "height"), (width, "width")))
    if isinstance(value, str):
        arguments.one_of(value, "value", ("random",))
    where = rng.bernoulli(p)
    count = rng.integers(few, most + 1)
    for k in range(most):
        unit = rng.units(4)
        share = np.array([tall[0], wide[0]]) + np.array([tall[1] - tall[0], wide[1] - wide[0]]) * unit[:, :2]
        sides = np.clip(np.round(share * recording.sizes), 1, recording.sizes)
        top, left = np.floor(unit[:, 2:] * (recording.sizes - sides + 1)).T
        noise = _seeds_for(value, rng)
        recording = pixels.erase.record(
            recording, top, left, sides[:, 0], sides[:, 1], value, seed=noise, where=where & (k < count)
        )
    return recording


@of_images
def random_grid_mask(
    recording: Recording,
    cell: Range = (96.0, 224.0),
    share: PerImage = 0.4,
    degrees: Range = (0.0, 360.0),
    value: Color = 0,
    p: PerImage = 0.5,
    *,
    rng: Rng | int,
) -> Recording:
    """Apply GridMask with probability ``p``: hide squares of a grid of random cell size, angle and offset.

    Parameters
    ----------
    cell : (low, high)
        Range of the side of the cells in pixels, at least 1.
    share : float or (N,) float
        Side of the squares as a fraction of the cell's side, 0 to 1; 1 minus the paper's r.
    degrees : (low, high)
        Range of the grid's angle in degrees, counter-clockwise.
    value : number, tuple of C, or (N,) or (N, C) array
        Color of the squares, in the unit of the images.

    Notes
    -----
    The defaults are the paper's for ImageNet, except for the probability, which it raises from 0 to 0.8 in training.
    """
    rng = rng_of(recording, rng, "random_grid_mask")
    sides, turns = arguments.low_high(cell, "cell", low=1.0), arguments.low_high(degrees, "degrees")
    where = rng.bernoulli(p)
    side, angle = rng.uniform(*sides), rng.uniform(*turns)
    return pixels.grid_mask.record(recording, side, share, angle, rng.units(2), value, where=where)


@of_images
def random_gaussian_noise(
    recording: Recording,
    mean: PerImage = 0.0,
    sigma: float | Range = 0.1,
    clip: bool = True,
    p: PerImage = 1.0,
    *,
    rng: Rng | int,
) -> Recording:
    """Add Gaussian noise, such as a sensor's, with probability ``p``: separately for each pixel and channel.

    Parameters
    ----------
    mean : float or (N,) float
        Mean of the noise, for values in [0, 1], also for uint8 images.
    sigma : float or (low, high)
        Standard deviation of the noise, at least 0, likewise for values in [0, 1], or the range to draw it from.
    clip : bool
        Clamp the results to [0, 1]; pass False after :func:`normalize`.
    """
    rng = rng_of(recording, rng, "random_gaussian_noise")
    low, high = arguments.one_or_range(sigma, "sigma", low=0.0)
    where = rng.bernoulli(p)
    drawn = rng.uniform(low, high)
    return pixels.gaussian_noise.record(recording, mean, drawn, clip, seed=seeds(rng), where=where)


@of_images
def random_salt_and_pepper(
    recording: Recording,
    amount: float | Range = (0.01, 0.06),
    salt: PerImage = 0.5,
    per_channel: bool = False,
    p: PerImage = 0.5,
    *,
    rng: Rng | int,
) -> Recording:
    """Turn single pixels white or black, as errors of a sensor or of a transmission do, with probability ``p``.

    Parameters
    ----------
    amount : float or (low, high)
        Share of the pixels that change, 0 to 1, or the range to draw it from.
    salt : float or (N,) float
        Share of the changed pixels that are white, 0 to 1; 0 drops pixels.
    per_channel : bool
        Draw for each channel rather than for each pixel.
    """
    rng = rng_of(recording, rng, "random_salt_and_pepper")
    low, high = arguments.one_or_range(amount, "amount", low=0.0, high=1.0)
    where = rng.bernoulli(p)
    drawn = rng.uniform(low, high)
    return pixels.salt_and_pepper.record(recording, drawn, salt, per_channel, seed=seeds(rng), where=where)


@of_images
def random_shot_noise(
    recording: Recording, photons: float | Range = (50.0, 500.0), p: PerImage = 0.5, *, rng: Rng | int
) -> Recording:
    """Add the noise of dim light, with probability ``p``: each value becomes a Poisson number of photons.

    Parameters
    ----------
    photons : float or (low, high)
        Photons of a white pixel, 1 to 2**20, or the range to draw it from, uniformly in the logarithm.
    """
    rng = rng_of(recording, rng, "random_shot_noise")
    low, high = arguments.one_or_range(photons, "photons", low=1.0)
    where = rng.bernoulli(p)
    drawn = np.exp(rng.uniform(np.log(low), np.log(high)))
    return pixels.shot_noise.record(recording, np.clip(drawn, low, high), seed=seeds(rng), where=where)


@of_images
def random_elastic(
    recording: Recording,
    alpha: Size = 50.0,
    sigma: PerImage = 5.0,
    interpolation: Interpolation = "bilinear",
    fill: Color | None = 0,
    p: PerImage = 1.0,
    *,
    rng: Rng | int,
) -> Recording:
    """Deform images like rubber with probability ``p``: move every pixel by a smooth random displacement.

    Parameters
    ----------
    alpha : float or (x, y)
        Strength along both axes, at least 0, in the forms of :func:`elastic`; displacements are proportional to it.
    sigma : float or (N,) float
        Smoothness in pixels, at least 1: the standard deviation of the Gaussian that blurs the displacements. A larger
        sigma also makes displacements smaller.
    interpolation : {"bilinear", "nearest"}
        How values between pixels are computed; ``"nearest"`` mixes no values. A NumPy array (N,) has one for each
        image.
    fill : number, tuple of C, (N,) or (N, C) array or None
        Color around the image, in the unit of the images; None repeats the border.
    """
    rng = rng_of(recording, rng, "random_elastic")
    where = rng.bernoulli(p)
    return elastic.record(recording, alpha, sigma, interpolation, fill, seed=seeds(rng), where=where)
