"""Filters: functions whose pixels depend on their neighbors.

Geometry or another filter after one of them starts a new pass, which reads float32 results of the one before.
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
    kernel_size : int, (x, y), or array of shape (N,) or (N, 2)
        Size of the filter in pixels, odd. A list or tuple of two is width and height, as in torchvision; each of
        them may be an (N,) array. Sizes that differ between images are a NumPy array: one number or (x, y) per image.
    sigma : float, (x, y), or array of shape (N,) or (N, 2), optional
        Standard deviation in pixels, at least 1e-6, in the same forms; ``0.15 * kernel_size + 0.35`` by default, as
        in torchvision.
    where : (N,) bool, optional
        The images to blur.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        For an even size, a sigma below 1e-6, a list or tuple of more than two numbers, or an image that is not
        larger than half the filter, since its border could not be reflected.

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
    sizes = _both_axes(kernel_size, n, "kernel_size", low=1, high=1 << 15, whole=True)
    if np.any(sizes % 2 == 0):
        raise ValueError(f"kernel_size must be odd, not {kernel_size!r}")
    sigmas = 0.15 * sizes + 0.35 if sigma is None else _both_axes(sigma, n, "sigma", low=1e-6, high=1e6)
    chosen = arguments.mask(where, n)
    small = np.any(sizes // 2 >= batch.sizes[:, ::-1], 1)
    if chosen is not None:
        small &= chosen
    if np.any(small):
        k = int(np.argmax(small))
        kernel = sizes[k].astype(np.int64)
        raise ValueError(
            f"image {k} of size {tuple(batch.sizes[k].tolist())} is too small: a kernel of {tuple(kernel.tolist())} "
            f"(x, y) reflects the border of images of at least {tuple((kernel[::-1] // 2 + 1).tolist())}"
        )
    return batch._recorded(batch._plan.with_blur(sigmas, sizes.astype(np.int64), chosen))


def _both_axes(value: Any, n: int, name: str, **limits: Any) -> Floats:
    """A list or tuple (x, y) for all images, or an array with one value or (x, y) for each, as (N, 2)."""
    if isinstance(value, (list, tuple)):
        if len(value) > 2:
            # Not (N,): a last batch of two images would read it as (x, y).
            raise ValueError(
                f"{name} as a list or tuple is (x, y), not {len(value)} values; to set one value per image, use a "
                f"NumPy array of shape ({n},)"
            )
        return arguments.both(value, n, name, ("x", "y"), **limits)
    array = arguments.numbers(value, name)
    if array.ndim == 2:
        return arguments.pair(array, n, name, ("x", "y"), **limits)
    if array.shape == (2,) and n != 2:
        raise ValueError(
            f"{name} as an array must have shape ({n},) or ({n}, 2), not (2,); write (x, y) as a list or tuple"
        )
    one = arguments.per_image(array, n, name, **limits)
    return np.stack([one, one], 1)


def adjust_sharpness(images: Any, sharpness_factor: Any, *, where: Any = None) -> Batch:
    """Blend each image with a smoothed copy of itself and clamp; the outermost pixels do not change.

    Parameters
    ----------
    images : Batch, list of arrays or array
    sharpness_factor : float or (N,) float
        At least 0: 0 smooths the image, 1 keeps it, 2 sharpens it.
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
