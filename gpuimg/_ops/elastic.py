"""Elastic deformation: every pixel moved by a smooth random displacement."""

from __future__ import annotations

import numpy as np

from .._batch.batch import Batch, Images, recording_of
from .._checks import arguments
from .._checks.types import Color, Floats, Interpolation, Ints, PerImage, Size, Where
from .._plan.plan import Entry
from ..kernels import ops
from .pixels import checked_seeds, seed_words

_INTERPOLATIONS = ("bilinear", "nearest")

# The lattice of nodes lies at another place for each seed, so that no place of images is special: multiples of these,
# modulo 1, cover a square evenly (Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018).
_PHASES = np.array([0.7548776662466927, 0.5698402909980532])

# Pixels by which the place of a point may be wrong; more in large images, since the kernels' numbers are float32.
_EXACT, _ROUNDING = 1e-5, 5e-8
_TURNS = 400  # of the iteration for it


def elastic(
    images: Images,
    alpha: Size = 50.0,
    sigma: PerImage = 5.0,
    interpolation: Interpolation = "bilinear",
    fill: Color | None = 0,
    *,
    seed: PerImage,
    where: Where | None = None,
) -> Batch:
    """Move every pixel by a smooth random displacement.

    Parameters
    ----------
    images : Batch, list of arrays or array
    alpha : float or (x, y)
        Strength, at least 0, along both axes; each may be (N,), an (N, 2) array has both for each image.
    sigma : float or (N,) float
        Smoothness in pixels: the standard deviation of the Gaussian that noise would be blurred by; at least 1. A
        larger one also makes displacements smaller.
    interpolation : {"bilinear", "nearest"}
    fill : number, (C,), (N,), (N, C) or None
        Color around the image; None repeats the border.
    seed : int or (N,) int
        0 to 2**48 - 1: images of one seed are moved alike. :func:`random_elastic` draws seeds.
    where : (N,) bool, optional
        The images to deform.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        For a negative alpha, a sigma below 1, a seed out of range, NaN, or shapes that do not fit the batch.

    Notes
    -----
    Displacements are normal, of standard deviation ``alpha / (4 * sqrt(3 * pi) * sigma)`` pixels: torchvision's for
    square images. They are cubic B-splines over normal numbers at nodes ``sqrt(3) * sigma`` pixels apart, rather than
    noise of every pixel under a Gaussian, which these come close to. The numbers depend on the seed and their node
    alone, so that pixels are the same on every device up to rounding.

    Masks, boxes and points follow: :func:`transform_masks` and so on. Points are within 0.0001 pixels of where the
    displacement has them; boxes and points of an image that it folds over itself, with an alpha of more than some 4
    times the square of sigma, are refused.

    References
    ----------
    Simard, Steinkraus, Platt: "Best practices for convolutional neural networks applied to visual document analysis",
    ICDAR 2003; torchvision ``ElasticTransform``.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1) / 16
    >>> gpuimg.elastic(x, 0.0, seed=3).array()[0, 0].ravel().tolist()
    [0.0, 0.0625, 0.125, 0.1875]
    """
    batch = recording_of(images).new_segment()
    n = batch.image_count
    strength = arguments.both(alpha, n, "alpha", ("x", "y"), low=0.0)
    width = arguments.per_image(sigma, n, "sigma", low=1.0)
    if interpolation not in _INTERPOLATIONS:
        raise ValueError(f'interpolation must be "bilinear" or "nearest", not {interpolation!r}')
    seeds = checked_seeds(seed, n)
    color = arguments.color(0 if fill is None else fill, n, batch.channels, batch.unit)
    nodes = strength / ops.elastic_scale(width)[:, None]
    params = (
        *seed_words(seeds), 1.0 / (ops.NODE_SPACING * width), *np.mod(seeds[:, None] * _PHASES, 1.0).T, *nodes.T,
        *color.T, float(fill is None), float(interpolation == "nearest"),
    )  # fmt: skip
    return Batch(batch.with_plan(batch.plan.with_displacement(params, arguments.mask(where, n))))


def displaced_points(entry: Entry, owner: Ints, points: Floats) -> Floats:
    """Where points (M, P, 2) of the sources of images come to lie.

    Results lie at p where p + d(p) is a point, which is solved for by halving the distance, turn by turn.

    Raises
    ------
    ValueError
        For an image that is folded over itself, where a point has no one place.
    """
    from ..kernels.cpu.elastic import source_positions

    moved = entry.codes[owner] == ops.ELASTIC.code
    wanted = points[moved].reshape(-1, 2)
    images = np.repeat(owner[moved], points.shape[1])
    found, at = wanted.copy(), np.empty_like(wanted)
    exact = _EXACT + _ROUNDING * np.abs(wanted).max(initial=0.0)
    for _ in range(_TURNS):
        source_positions(entry.params, images, found, at)
        off = wanted - at
        if np.abs(off).max(initial=0.0) <= exact:
            break
        found += 0.5 * off
    else:
        k = int(images[np.argmax(np.abs(off).max(1))])
        raise ValueError(
            f"boxes and points of image {k} have no one place: its elastic displacement folds it over itself; use a "
            "smaller alpha or a larger sigma"
        )
    result = points.copy()
    result[moved] = found.reshape(-1, points.shape[1], 2)
    return result
