"""Elastic deformation by a smooth random displacement of every pixel."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Color, Floats, Interpolation, Ints, PerImage, Size, Where
from .._plan.plan import Entry
from ..kernels import ops
from .pixels import checked_seeds, split_seeds

__all__ = ["elastic"]

# Offset of the lattice of nodes, in node spacings: ``seed * _PHASES`` modulo 1. The offset differs between seeds, so
# that nodes prefer no position in images. These constants cover the unit square evenly (Roberts, "The unreasonable
# effectiveness of quasirandom sequences", 2018).
_PHASES = np.array([0.7548776662466927, 0.5698402909980532])

# Tolerance of the iteration that moves points: pixels, plus a share of the largest coordinate, since the kernels
# compute in float32.
_EXACT, _ROUNDING = 1e-5, 5e-8
_MOST_ITERATIONS = 400


@of_images
def elastic(
    recording: Recording,
    alpha: Size = 50.0,
    sigma: PerImage = 5.0,
    interpolation: Interpolation = "bilinear",
    fill: Color | None = 0,
    *,
    seed: PerImage,
    where: Where | None = None,
) -> Recording:
    """Deform images like rubber: move every pixel by a smooth random displacement (elastic deformation).

    Parameters
    ----------
    alpha : float or (x, y)
        Strength along both axes, at least 0; displacements are proportional to it. In a tuple each may be (N,). A NumPy
        array of shape (N,) or (N, 2) has one number or both for each image.
    sigma : float or (N,) float
        Smoothness in pixels, at least 1: the standard deviation of the Gaussian that blurs the displacements. A larger
        sigma also makes displacements smaller.
    interpolation : {"bilinear", "nearest"}
        How values between pixels are computed. Bilinear is the default, as in torchvision; ``"nearest"`` mixes no
        values. A NumPy array (N,) has one for each image.
    fill : number, tuple of C, (N,) or (N, C) array or None
        Color around the image, in the unit of the images; None repeats the border.

    Notes
    -----
    Displacements are normal with a standard deviation of ``alpha / (4 * sqrt(3 * pi) * sigma)`` pixels, as are
    torchvision's for square images. torchvision blurs noise of every pixel with a Gaussian; here cubic B-splines with
    normal coefficients, at nodes with a spacing of ``sqrt(3) * sigma`` pixels, come close to that. The coefficients
    depend only on the seed and the node, so pixels are the same on every device up to rounding.

    :func:`transform_masks`, :func:`transform_boxes` and :func:`transform_points` follow the displacement; points are
    exact to 0.0001 pixels. An alpha above about ``4 * sigma**2`` may fold an image over itself: its boxes and points
    are then refused.

    References
    ----------
    Simard, Steinkraus, Platt: "Best practices for convolutional neural networks applied to visual document analysis",
    ICDAR 2003; torchvision ``ElasticTransform``.

    Examples
    --------
    >>> x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1) / 16
    >>> gpuimg.elastic(x, 0.0, seed=3).array()[0, 0].ravel().tolist()
    [0.0, 0.0625, 0.125, 0.1875]
    """
    recording = recording.new_segment()
    n = recording.image_count
    strength = arguments.both(alpha, n, "alpha", ("x", "y"), low=0.0)
    width = arguments.per_image(sigma, n, "sigma", low=1.0)
    nearest = arguments.filters(interpolation, n, _is_nearest)
    seeds = checked_seeds(seed, n)
    color = arguments.color(0 if fill is None else fill, n, recording.channels, recording.unit)
    nodes = strength / ops.elastic_scale(width)[:, None]
    params = (
        *split_seeds(seeds), 1.0 / (ops.NODE_SPACING * width), *np.mod(seeds[:, None] * _PHASES, 1.0).T, *nodes.T,
        *color.T, float(fill is None), nearest,
    )  # fmt: skip
    chosen = arguments.mask(where, n)
    return recording.with_plan(recording.plan.with_entry(ops.ELASTIC, params, where=chosen, sharpens=True))


def _is_nearest(interpolation: Any) -> bool:
    if interpolation not in ("bilinear", "nearest"):
        raise ValueError(f'interpolation must be "bilinear" or "nearest", not {interpolation!r}')
    return bool(interpolation == "nearest")


def displaced_points(entry: Entry, owner: Ints, points: Floats) -> Floats:
    """Return the positions of source points (M, P, 2) after a displacement; ``owner`` (M,) names their images.

    The displacement d maps a result's position p to the source position p + d(p). A fixed-point iteration inverts it;
    each step moves by half of the remaining distance. Raises ValueError for an image that is folded over itself.
    """
    from ..kernels.cpu.elastic import source_positions

    moved = entry.codes[owner] == ops.ELASTIC.code
    wanted = points[moved].reshape(-1, 2)
    images = np.repeat(owner[moved], points.shape[1])
    found, at = wanted.copy(), np.empty_like(wanted)
    exact = _EXACT + _ROUNDING * np.abs(wanted).max(initial=0.0)
    for _ in range(_MOST_ITERATIONS):
        source_positions(entry.params, images, found, at)
        off = wanted - at
        if np.abs(off).max(initial=0.0) <= exact:
            break
        found += 0.5 * off
    else:
        k = int(images[np.argmax(np.abs(off).max(1))])
        raise ValueError(
            f"boxes and points of image {k} have no unique position: its elastic displacement folds it over itself; "
            "use a smaller alpha or a larger sigma"
        )
    result = points.copy()
    result[moved] = found.reshape(-1, points.shape[1], 2)
    return result
