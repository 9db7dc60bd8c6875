"""Weather: fog, rain, and shadows that something outside the image casts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Color, Floats, PerImage, Table, TablePerImage, Where
from ..kernels import ops
from .color import check_not_normalized
from .pixels import record_pattern

__all__ = ["fog", "rain", "shadow"]

_LEAST_CORNERS = 3


@of_images
def fog(
    recording: Recording,
    density: PerImage,
    scale: PerImage = 100.0,
    color: Color | None = None,
    *,
    seed: PerImage,
    where: Where | None = None,
) -> Recording:
    """Add patches of fog: mix images with a color, here more and there less.

    Black as the color gives the shadows of clouds.

    Parameters
    ----------
    density : float or (N,) float
        Mean share of the color, 0 to 1.
    scale : float or (N,) float
        Distance between thick and thin places in pixels, at least 1.
    color : number, tuple of C, (N,) or (N, C) array, optional
        Color of the fog, in the unit of the images. None is white.

    Notes
    -----
    ``x * (1 - s) + color * s`` with ``s = min(2 * density * field, 1)``. The field, 0 to 1 with a mean of 1/2, is a sum
    of four lattices of random numbers with smooth transitions, each of half the spacing and half the weight of the one
    before.

    References
    ----------
    K. Perlin: "An image synthesizer", SIGGRAPH 1985.

    Examples
    --------
    >>> y = gpuimg.fog(np.zeros((1, 500, 500, 1), np.float32), 0.3, scale=10, seed=1).array()
    >>> round(float(y.mean()), 2)
    0.3
    """
    check_not_normalized(recording, "fog")
    n = recording.image_count
    share = arguments.per_image(density, n, "density", low=0.0, high=1.0)
    spacing = arguments.per_image(scale, n, "scale", low=1.0)
    return record_pattern(recording, ops.FOG, where, share, 1.0 / spacing, *_light(recording, color).T, seed=seed)


def _light(recording: Recording, color: Color | None) -> Floats:
    """Return a color (N, 3) as shares of white, which is the default."""
    given: Any = 1.0 / recording.unit if color is None else color
    return arguments.color(given, recording.image_count, recording.channels, recording.unit, "color")


@of_images
def rain(
    recording: Recording,
    amount: PerImage = 0.3,
    length: PerImage = 20.0,
    width: PerImage = 1.0,
    angle: PerImage = 0.0,
    color: Color | None = None,
    opacity: PerImage = 0.7,
    *,
    seed: PerImage,
    where: Where | None = None,
) -> Recording:
    """Draw streaks of rain at random positions.

    Parameters
    ----------
    amount : float or (N,) float
        How much it rains, 0 to 1: the share of the cells of a lattice that have a streak, which covers a sixteenth.
    length, width : float or (N,) float
        Length and width of a streak in pixels, at least 1.
    angle : float or (N,) float
        Direction in degrees, -90 to 90: 0 falls straight down, and above 0 to the right.
    color : number, tuple of C, (N,) or (N, C) array, optional
        Color of streaks, in the unit of the images. None is white.
    opacity : float or (N,) float
        Share of the color in a streak, 0 to 1; the rest is the image.

    Notes
    -----
    Cells are eight times as wide as a streak and twice as long, and each has its own place for it.

    Examples
    --------
    >>> y = gpuimg.rain(np.zeros((1, 640, 640, 1), np.float32), 0.8, opacity=1.0, seed=1).array()
    >>> round(float(y.mean()) * 16, 1)
    0.8
    """
    check_not_normalized(recording, "rain")
    n = recording.image_count
    share, opaque = (
        arguments.per_image(value, n, name, low=0.0, high=1.0)
        for value, name in ((amount, "amount"), (opacity, "opacity"))
    )
    long, wide = (
        arguments.per_image(value, n, name, low=1.0) for value, name in ((length, "length"), (width, "width"))
    )
    turned = np.deg2rad(arguments.per_image(angle, n, "angle", low=-90.0, high=90.0))
    across, along = ops.STREAK_WIDTH / wide, ops.STREAK_LENGTH / long
    axes = np.cos(turned) * across, -np.sin(turned) * across, np.sin(turned) * along, np.cos(turned) * along
    return record_pattern(recording, ops.RAIN, where, share, *axes, opaque, *_light(recording, color).T, seed=seed)


@of_images
def shadow(
    recording: Recording, corners: Table | TablePerImage, factor: PerImage = 0.5, *, where: Where | None = None
) -> Recording:
    """Cast a shadow: darken, or lighten, what lies in a polygon.

    Parameters
    ----------
    corners : (K, 2) or (N, K, 2) array
        Corners (x, y) of the polygon in pixels, 3 to 6, for all images or for each. Where edges cross, it is filled by
        the even-odd rule.
    factor : float or (N,) float
        What the values inside are multiplied by, at least 0: below 1 darkens, above 1 lightens. Results are clamped.

    Examples
    --------
    >>> x = np.full((1, 1, 4, 1), 100, np.uint8)
    >>> gpuimg.shadow(x, [(1, 0), (3, 0), (3, 1), (1, 1)], 0.4).array().ravel().tolist()
    [100, 40, 40, 100]
    """
    check_not_normalized(recording, "shadow")
    n = recording.image_count
    given = arguments.finite(corners, "corners")
    each = arguments.for_each(given, n, 2)
    if each is None or each.shape[2] != 2 or not _LEAST_CORNERS <= each.shape[1] <= ops.MOST_CORNERS:
        shape = arguments.each_shape(n, "K, 2")
        raise ValueError(
            f"corners must have shape (K, 2) or {shape}, with K from {_LEAST_CORNERS} to {ops.MOST_CORNERS}, not "
            f"{given.shape}"
        )
    last = np.repeat(each[:, -1:], ops.MOST_CORNERS - each.shape[1], 1)  # edges without a length change nothing
    points = np.concatenate([each, last], 1).reshape(n, 2 * ops.MOST_CORNERS)
    gain = arguments.per_image(factor, n, "factor", low=0.0)
    return record_pattern(recording, ops.SHADOW, where, gain, *points.T)
