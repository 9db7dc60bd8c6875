"""Random functions of whole images: draw, then call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Color, Ints, Mask, PaddingMode, PerImage, Range, Size
from .._ops import areas
from .._ops.remap import grid_distortion, optical_distortion, remap, thin_plate_spline
from ..kernels import prepass
from .draws import rng_of
from .rng import Rng

__all__ = [
    "random_box_blur", "random_clahe", "random_emboss", "random_grid_distortion", "random_median_blur",
    "random_morphology", "random_optical_distortion", "random_thin_plate_spline", "random_tone_curve",
]  # fmt: skip

_LEVELS = 256
_MIDDLE = 0.25, 0.75  # of a tone curve
_NO_POSITIONS = np.zeros((1, 1, 2), np.float32)


@of_images
def random_median_blur(
    recording: Recording, kernel_size: float | Range = (3, 7), p: PerImage = 0.5, *, rng: Rng | int
) -> Recording:
    """Remove specks by a median of random size, with probability ``p``, as albumentations' ``MedianBlur``.

    Parameters
    ----------
    kernel_size : int or (low, high)
        Side of the square in pixels, 3 to 7, or the range to draw odd numbers from, both limits included.
    """
    rng = rng_of(recording, rng, "random_median_blur")
    least, most = arguments.whole_low_high(kernel_size, "kernel_size", prepass.MEDIANS[0], prepass.MEDIANS[-1])
    where = rng.bernoulli(p)
    drawn = 2 * rng.integers((least - 1) // 2, (most - 1) // 2 + 1) + 1
    return areas.median_blur.record(recording, drawn, where=where)


@of_images
def random_box_blur(
    recording: Recording, kernel_size: float | Range = (3, 7), p: PerImage = 0.5, *, rng: Rng | int
) -> Recording:
    """Blur with the mean of a square of random size, with probability ``p``, as albumentations' ``Blur``.

    Parameters
    ----------
    kernel_size : int or (low, high)
        Side of the square in pixels, 1 to 31, or the range to draw it from, both limits included.
    """
    rng = rng_of(recording, rng, "random_box_blur")
    least, most = arguments.whole_low_high(kernel_size, "kernel_size", 1, prepass.MOST_WINDOW)
    where = rng.bernoulli(p)
    return areas.box_blur.record(recording, _sides(rng.integers(least, most + 1)), where=where)


def _sides(drawn: Ints) -> Ints:
    return np.stack([drawn, drawn], 1)


@of_images
def random_emboss(
    recording: Recording,
    alpha: float | Range = (0.2, 0.5),
    strength: float | Range = (0.2, 0.7),
    p: PerImage = 0.5,
    *,
    rng: Rng | int,
) -> Recording:
    """Make images look embossed, by a random strength, with probability ``p``, as albumentations' ``Emboss``.

    Parameters
    ----------
    alpha : float or (low, high)
        Share of the embossed image, 0 to 1, or the range to draw it from.
    strength : float or (low, high)
        Weight of the differences between neighbors, at least 0, or the range to draw it from.
    """
    rng = rng_of(recording, rng, "random_emboss")
    shares = arguments.one_or_range(alpha, "alpha", low=0.0, high=1.0)
    strengths = arguments.one_or_range(strength, "strength", low=0.0)
    where = rng.bernoulli(p)
    return areas.emboss.record(recording, rng.uniform(*shares), rng.uniform(*strengths), where=where)


@of_images
def random_morphology(
    recording: Recording,
    kind: Literal["erode", "dilate", "open", "close"] = "dilate",
    kernel_size: float | Range = (2, 5),
    shape: Literal["rectangle", "cross", "ellipse"] = "rectangle",
    p: PerImage = 0.5,
    *,
    rng: Rng | int,
) -> Recording:
    """Shrink or grow bright shapes with a window of random size, with probability ``p``.

    Parameters
    ----------
    kind : {"erode", "dilate", "open", "close"}
        Take the least value, the greatest, or one after the other, as in :func:`morphology`.
    kernel_size : int or (low, high)
        Side of the window in pixels, 1 to 31, or the range to draw it from, both limits included.
    shape : {"rectangle", "cross", "ellipse"}
        The pixels of the window that count, as in :func:`morphology`.
    """
    rng = rng_of(recording, rng, "random_morphology")
    least, most = arguments.whole_low_high(kernel_size, "kernel_size", 1, prepass.MOST_WINDOW)
    where = rng.bernoulli(p)
    return areas.morphology.record(recording, kind, _sides(rng.integers(least, most + 1)), shape, where=where)


@of_images
def random_clahe(
    recording: Recording, clip_limit: float | Range = (1.0, 4.0), tiles: Size = 8, p: PerImage = 0.5, *, rng: Rng | int
) -> Recording:
    """Bring out local contrast up to a random limit, with probability ``p``, as albumentations' ``CLAHE``.

    Parameters
    ----------
    clip_limit : float or (low, high)
        Limit as in :func:`clahe`, at least 0, or the range to draw it from.
    tiles : int, (x, y), or array of shape (N,) or (N, 2)
        Number of tiles along both axes, 1 to 64.
    """
    rng = rng_of(recording, rng, "random_clahe")
    low, high = arguments.one_or_range(clip_limit, "clip_limit", low=0.0)
    where = rng.bernoulli(p)
    return areas.clahe.record(recording, rng.uniform(low, high), tiles, where=where)


@of_images
def random_tone_curve(recording: Recording, scale: float = 0.1, p: PerImage = 0.5, *, rng: Rng | int) -> Recording:
    """Change brightness by a random curve, with probability ``p``, as albumentations' ``RandomToneCurve``.

    Parameters
    ----------
    scale : float
        Standard deviation of the curve's two middle points from the diagonal, 0 to 1, for values in [0, 1].

    Notes
    -----
    A Bézier curve from (0, 0) to (1, 1): ``3 * t * (1 - t)**2 * a + 3 * t**2 * (1 - t) * b + t**3`` replaces ``t``,
    with ``a`` and ``b`` normal around 1/4 and 3/4 and limited to [0, 1].
    """
    rng = rng_of(recording, rng, "random_tone_curve")
    deviation = arguments.number(scale, "scale", low=0.0, high=1.0)
    where = rng.bernoulli(p)
    a, b = (np.clip(middle + deviation * rng.normal(), 0.0, 1.0)[:, None] for middle in _MIDDLE)
    size = {"uint8": _LEVELS, "uint16": 1 << 16}.get(recording.dtype, _LEVELS)
    t = np.linspace(0.0, 1.0, size)
    curve = 3.0 * t * (1.0 - t) ** 2 * a + 3.0 * t**2 * (1.0 - t) * b + t**3
    return areas.lookup_table.record(recording, curve[:, :, None] / recording.unit, where=where)


def _distorted(
    recording: Recording, padding_mode: Any, fill: Color, where: Mask, make: Callable[..., Any], **drawn: Any
) -> Recording:
    """Sample the chosen images at the positions that ``make`` makes of sizes and of what is drawn for each image."""
    if not len(recording):  # which have the same size as before
        return recording
    made = iter(make(recording.sizes[where], **{name: one[where] for name, one in drawn.items()}))
    grids = [next(made) if chosen else _NO_POSITIONS for chosen in where.tolist()]
    return remap.record(recording, grids, "bilinear", padding_mode, fill, where=where)


@of_images
def random_grid_distortion(
    recording: Recording,
    steps: int = 5,
    limit: float = 0.3,
    padding_mode: PaddingMode = "constant",
    fill: Color = 0,
    p: PerImage = 0.5,
    *,
    rng: Rng | int,
) -> Recording:
    """Widen and narrow columns and rows of the image at random, with probability ``p``.

    Parameters
    ----------
    steps : int
        Number of columns and of rows, at least 1.
    limit : float
        What a column or row shows of the image is ``1 - limit`` to ``1 + limit`` times its share, 0 to 0.9.

    References
    ----------
    albumentations ``GridDistortion``, with ``normalized=True``.
    """
    rng = rng_of(recording, rng, "random_grid_distortion")
    count = arguments.whole_number(steps, "steps")
    most = arguments.number(limit, "limit", low=0.0, high=0.9)
    where = rng.bernoulli(p)
    x, y = (np.stack([rng.uniform(1.0 - most, 1.0 + most) for _ in range(count)], 1) for _ in range(2))
    return _distorted(recording, padding_mode, fill, where, grid_distortion, x_steps=x, y_steps=y)


@of_images
def random_optical_distortion(
    recording: Recording,
    k: float | Range = (-0.05, 0.05),
    padding_mode: PaddingMode = "constant",
    fill: Color = 0,
    p: PerImage = 0.5,
    *,
    rng: Rng | int,
) -> Recording:
    """Distort images as a lens does, by a random strength, with probability ``p``.

    Parameters
    ----------
    k : float or (low, high)
        Range of the strength, as in :func:`optical_distortion`; one number ``k`` stands for ``(-k, k)``.

    References
    ----------
    albumentations ``OpticalDistortion``.
    """
    rng = rng_of(recording, rng, "random_optical_distortion")
    low, high = arguments.symmetric(k, "k")
    where = rng.bernoulli(p)
    return _distorted(recording, padding_mode, fill, where, optical_distortion, k=rng.uniform(low, high))


@of_images
def random_thin_plate_spline(
    recording: Recording,
    scale: float = 0.1,
    points: int = 4,
    padding_mode: PaddingMode = "constant",
    fill: Color = 0,
    p: PerImage = 0.5,
    *,
    rng: Rng | int,
) -> Recording:
    """Move a lattice of points at random, and bend the image smoothly between them, with probability ``p``.

    Parameters
    ----------
    scale : float
        Standard deviation of the movements, as a fraction of the image's sides, 0 to 1.
    points : int
        Points along each axis, 2 to 16: more points bend smaller parts.

    References
    ----------
    Kornia and albumentations ``ThinPlateSpline``.
    """
    rng = rng_of(recording, rng, "random_thin_plate_spline")
    deviation = arguments.number(scale, "scale", low=0.0, high=1.0)
    count = arguments.whole_number(points, "points", 2, 16)
    where = rng.bernoulli(p)
    lattice = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, count)] * 2), -1).reshape(-1, 2)
    moves = np.stack([rng.normal() for _ in range(lattice.size)], 1).reshape(-1, *lattice.shape)
    make = partial(thin_plate_spline, points=lattice)
    return _distorted(recording, padding_mode, fill, where, make, moved=lattice + deviation * moves)
