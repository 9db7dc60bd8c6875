"""Filters: functions in which a pixel depends on its neighbors.

Geometry or another filter after a filter starts a new pass, which reads the float32 results of the previous pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Floats, PerImage, Size, Where
from ..errors import ImageError
from ..kernels import ops
from .color import check_not_normalized

__all__ = ["adjust_sharpness", "gaussian_blur", "jpeg", "motion_blur"]


@of_images
def gaussian_blur(
    recording: Recording, kernel_size: Size, sigma: Size | None = None, *, where: Where | None = None
) -> Recording:
    """Blur with a Gaussian filter, which removes noise and fine detail.

    Parameters
    ----------
    kernel_size : int, (x, y), or array of shape (N,) or (N, 2)
        Size of the filter in pixels, odd and below twice that of the image, whose border is reflected. A list or tuple
        of two is width and height, as in torchvision; each may be an (N,) array. To set sizes for each image, pass a
        NumPy array with one number or (x, y) per image.
    sigma : float, (x, y), or array of shape (N,) or (N, 2), optional
        Standard deviation in pixels, 1e-6 to 1e6, in the same forms. None is ``0.15 * kernel_size + 0.35``, as in
        torchvision.

    References
    ----------
    torchvision ``transforms/v2/functional/_misc.py``, ``gaussian_blur_image``.

    Examples
    --------
    >>> x = np.array([0, 0, 90, 0, 0], np.uint8).reshape(1, 1, 5, 1)
    >>> gpuimg.gaussian_blur(x, (3, 1), 1000.0).array().ravel().tolist()
    [0, 30, 30, 30, 0]
    """
    recording = recording.new_segment()
    n = recording.image_count
    sizes = both_axes(kernel_size, n, "kernel_size", low=1, high=1 << 15, whole=True)
    if np.any(sizes % 2 == 0):
        raise ValueError(f"kernel_size must be odd, not {kernel_size!r}")
    sigmas = 0.15 * sizes + 0.35 if sigma is None else both_axes(sigma, n, "sigma", low=1e-6, high=1e6)
    chosen = arguments.mask(where, n)
    small = np.any(sizes // 2 >= recording.sizes[:, ::-1], 1)
    if chosen is not None:
        small &= chosen
    if (k := recording.refused(small)) is not None:
        kernel = sizes[k].astype(np.int64)
        raise ImageError(
            k,
            f"its size {tuple(recording.sizes[k].tolist())} is too small: a kernel of {tuple(kernel.tolist())} (x, y) "
            f"reflects the border of images of at least {tuple((kernel[::-1] // 2 + 1).tolist())}",
        )
    if np.any(small):
        chosen = ~small if chosen is None else chosen & ~small
    return recording.with_plan(recording.plan.with_blur(sigmas, sizes.astype(np.int64), chosen))


@of_images
def motion_blur(
    recording: Recording, length: PerImage, angle: PerImage = 0.0, *, where: Where | None = None
) -> Recording:
    """Blur along a line, as a moving camera does.

    The border is repeated.

    Parameters
    ----------
    length : int or (N,) int
        Length of the line in pixels, 1 to 255; 1 keeps the image.
    angle : float or (N,) float
        Direction of the line in degrees from the x axis, counter-clockwise.

    Notes
    -----
    Each result is the mean of ``length`` points at a spacing of one pixel, centered on the pixel. Points between pixels
    are interpolated bilinearly, so that a small change of the angle changes the result by little.

    Examples
    --------
    >>> x = np.array([0, 0, 90, 0, 0], np.uint8).reshape(1, 1, 5, 1)
    >>> gpuimg.motion_blur(x, 3).array().ravel().tolist()
    [0, 30, 30, 30, 0]
    """
    recording = recording.new_segment()
    n = recording.image_count
    taps = arguments.per_image(length, n, "length", low=1, high=ops.MOST_TAPS, whole=True)
    turned = np.deg2rad(arguments.per_image(angle, n, "angle"))
    step = np.stack([np.cos(turned), -np.sin(turned)], 1)
    return recording.with_plan(recording.plan.with_motion(taps, step, arguments.mask(where, n)))


@of_images
def jpeg(recording: Recording, quality: PerImage, *, where: Where | None = None) -> Recording:
    """Make images look compressed: add the artifacts of JPEG compression at a given quality.

    Values are rounded to bytes first; normalized images are refused.

    Parameters
    ----------
    quality : int or (N,) int
        Quality as in libjpeg, 1 to 100: the lower, the stronger the artifacts.

    Notes
    -----
    Computed with 8 x 8 blocks, chroma of half the height and width (4:2:0), the standard tables and libjpeg's integer
    transforms. For uint8 images the pixels equal those of Pillow and of torchvision's ``jpeg``. No file is created.

    References
    ----------
    ITU-T T.81; T.871 (JFIF); libjpeg's jfdctint.c, jcdctmgr.c, jidctint.c, jdsample.c.

    Examples
    --------
    >>> x = np.array([0, 0, 0, 255, 0, 0, 0, 0], np.uint8).reshape(1, 1, 8, 1)
    >>> gpuimg.jpeg(x, 20).array().ravel().tolist()
    [5, 0, 12, 244, 5, 0, 5, 0]
    """
    check_not_normalized(recording, "jpeg")
    recording = recording.new_segment()
    n = recording.image_count
    given = arguments.per_image(quality, n, "quality", low=1, high=100, whole=True)
    params, chosen = (given, float(recording.channels == 3)), arguments.mask(where, n)
    return recording.with_plan(recording.plan.with_entry(ops.JPEG, params, where=chosen, sharpens=True))


def both_axes(value: Any, n: int, name: str, **limits: Any) -> Floats:
    """Return (N, 2) values from a list or tuple (x, y), or an array with one value or (x, y) for each image."""
    if isinstance(value, (list, tuple)) and len(value) > 2:
        raise ValueError(
            f"{name} as a list or tuple is (x, y), not {len(value)} values; to set one value per image, use a "
            f"NumPy array of shape {arguments.shapes(n)}"
        )
    return arguments.both(value, n, name, ("x", "y"), **limits)


@of_images
def adjust_sharpness(recording: Recording, sharpness_factor: PerImage, *, where: Where | None = None) -> Recording:
    """Sharpen or smooth: blend each image with a smoothed copy, and clamp.

    The outermost pixels do not change.

    Parameters
    ----------
    sharpness_factor : float or (N,) float
        Factor, at least 0: 0 smooths the image, 1 keeps it, 2 sharpens it.

    References
    ----------
    torchvision ``transforms/v2/functional/_color.py``, ``adjust_sharpness_image``; Pillow ``ImageEnhance.Sharpness``.

    Examples
    --------
    >>> x = np.zeros((1, 3, 3, 1), np.uint8)
    >>> x[0, 1, 1] = 130
    >>> gpuimg.adjust_sharpness(x, 0).array()[0, :, :, 0].tolist()
    [[0, 0, 0], [0, 50, 0], [0, 0, 0]]
    """
    factor = arguments.per_image(sharpness_factor, recording.image_count, "sharpness_factor", low=0.0)
    if recording.plan.sharpens:
        recording = recording.new_segment()
    chosen = arguments.mask(where, recording.image_count)
    return recording.with_plan(recording.plan.with_entry(ops.SHARPNESS, (factor,), where=chosen, sharpens=True))
