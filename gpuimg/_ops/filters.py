"""Filters: functions whose pixels depend on their neighbours.

Geometry after one of them, or another one, starts a new stage: the results so far are kept in float32 and sampled
from there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._batch.batch import Batch, as_batch
from .._checks import arguments
from .._checks.types import Floats


def gaussian_blur(images: Any, kernel_size: Any, sigma: Any = None, *, where: Any = None) -> Batch:
    """Blur with a Gaussian; the border is reflected.

    Parameters
    ----------
    images : Batch, list of arrays or array
    kernel_size : int, (N,) int or (x, y)
        Size of the filter in pixels, odd; a tuple gives both axes.
    sigma : float, (N,) float or (x, y), optional
        Standard deviation in pixels, above 0; ``0.15 * kernel_size + 0.35`` by default, as torchvision's.
    where : (N,) bool, optional
        The images to blur.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        For an even size, a sigma that is not above 0, or an image too small to reflect at its border.

    References
    ----------
    torchvision ``transforms/v2/functional/_misc.py``, ``gaussian_blur_image``.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.array([0, 0, 90, 0, 0], np.uint8).reshape(1, 1, 5, 1)
    >>> gpuimg.gaussian_blur(x, (3, 1), 1000.0).array().ravel().tolist()
    [0, 30, 30, 30, 0]
    """
    batch = as_batch(images)._new_segment()
    n = len(batch)
    sizes = _both(kernel_size, n, "kernel_size", low=1, high=1 << 15, whole=True)
    if np.any(sizes % 2 == 0):
        raise ValueError(f"kernel_size must be odd, not {kernel_size!r}")
    sigmas = 0.15 * sizes + 0.35 if sigma is None else _both(sigma, n, "sigma", low=1e-6, high=1e6)
    chosen = arguments.mask(where, n)
    small = np.any(sizes // 2 >= batch.sizes[:, ::-1], 1)
    if chosen is not None:
        small &= chosen
    if np.any(small):
        k = int(np.argmax(small))
        raise ValueError(
            f"image {k} of size {tuple(batch.sizes[k].tolist())} is too small to reflect at its border under a filter "
            f"of {tuple(int(v) for v in sizes[k])} (x, y)"
        )
    return batch._recorded(batch._plan.with_blur(sigmas, sizes.astype(np.int64), chosen))


def _both(value: Any, n: int, name: str, **limits: Any) -> Floats:
    """A value for both axes, or a tuple of two, as (N, 2)."""
    both = value if isinstance(value, tuple) else (value, value)
    return arguments.pair(both, n, name, ("x", "y"), **limits)


def adjust_sharpness(images: Any, sharpness_factor: Any, *, where: Any = None) -> Batch:
    """Mix each image with a smoothed copy of itself, and clamp; the outermost pixels stay as they are.

    Parameters
    ----------
    images : Batch, list of arrays or array
    sharpness_factor : float or (N,) float
        At least 0: 0 is smoothed, 1 keeps the image, 2 sharpens it.
    where : (N,) bool, optional
        The images to change.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        For a negative factor, NaN, or a shape that does not fit the batch.

    References
    ----------
    torchvision ``transforms/v2/functional/_color.py``, ``adjust_sharpness_image``; Pillow ``ImageEnhance.Sharpness``.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.zeros((1, 3, 3, 1), np.uint8)
    >>> x[0, 1, 1] = 130
    >>> gpuimg.adjust_sharpness(x, 0).array()[0, :, :, 0].tolist()
    [[0, 0, 0], [0, 50, 0], [0, 0, 0]]
    """
    batch = as_batch(images)
    factor = arguments.per_image(sharpness_factor, len(batch), "sharpness_factor", low=0.0)
    if batch._plan.sharpens:
        batch = batch._new_segment()
    return batch._recorded(batch._plan.with_sharpness(factor, arguments.mask(where, len(batch))))
