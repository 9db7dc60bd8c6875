"""Random filters: draw, then call."""

from __future__ import annotations

import numpy as np

from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import PerImage, Range, Size
from .._ops import color, filters
from ..kernels import ops
from .draws import rng_of
from .rng import Rng

__all__ = ["random_gaussian_blur", "random_jpeg", "random_motion_blur", "random_sharpness", "three_augment"]


@of_images
def random_gaussian_blur(
    recording: Recording, kernel_size: Size, sigma: float | Range = (0.1, 2.0), p: PerImage = 1.0, *, rng: Rng | int
) -> Recording:
    """Blur with a Gaussian of random width, with probability ``p``, which removes noise and fine detail.

    Parameters
    ----------
    kernel_size : int, (x, y), or array of shape (N,) or (N, 2)
        Size of the filter in pixels, odd and below twice that of the image, as in :func:`gaussian_blur`.
    sigma : float or (low, high)
        Standard deviation in pixels, 1e-6 to 1e6, or the range to draw it from. A list or tuple of one is one number.
    """
    rng = rng_of(recording, rng, "random_gaussian_blur")
    sigma = arguments.unwrapped(sigma)
    if arguments.is_single(sigma):
        low = high = arguments.number(sigma, "sigma", low=1e-6, high=1e6)
    else:
        low, high = arguments.low_high(sigma, "sigma", low=1e-6, high=1e6)
    where = rng.bernoulli(p)
    return filters.gaussian_blur.record(recording, kernel_size, rng.uniform(low, high), where=where)


@of_images
def random_sharpness(
    recording: Recording, sharpness_factor: PerImage, p: PerImage = 0.5, *, rng: Rng | int
) -> Recording:
    """Sharpen or smooth with probability ``p``, as torchvision's ``RandomAdjustSharpness``.

    Parameters
    ----------
    sharpness_factor : float or (N,) float
        Factor, at least 0: 0 smooths the image, 1 keeps it, 2 sharpens it.
    """
    rng = rng_of(recording, rng, "random_sharpness")
    return filters.adjust_sharpness.record(recording, sharpness_factor, where=rng.bernoulli(p))


@of_images
def random_motion_blur(
    recording: Recording,
    length: float | Range = (3, 9),
    degrees: Range = (-90.0, 90.0),
    p: PerImage = 0.5,
    *,
    rng: Rng | int,
) -> Recording:
    """Blur along a line of random length and angle, as a moving camera does, with probability ``p``.

    Parameters
    ----------
    length : int or (low, high)
        Length of the line in pixels, 1 to 255, or the range to draw it from, both limits included.
    degrees : (low, high)
        Range of the angle in degrees from the x axis, counter-clockwise.
    """
    rng = rng_of(recording, rng, "random_motion_blur")
    shortest, longest = arguments.whole_low_high(length, "length", 1, ops.MOST_TAPS)
    turns = arguments.low_high(degrees, "degrees")
    where = rng.bernoulli(p)
    drawn = rng.integers(shortest, longest + 1)
    return filters.motion_blur.record(recording, drawn, rng.uniform(*turns), where=where)


@of_images
def random_jpeg(
    recording: Recording, quality: float | Range = (50, 100), p: PerImage = 1.0, *, rng: Rng | int
) -> Recording:
    """Make images look compressed: add the artifacts of JPEG at a random quality, with probability ``p``.

    Parameters
    ----------
    quality : int or (low, high)
        Quality as in libjpeg, 1 to 100, or the range to draw it from, both limits included.
    """
    rng = rng_of(recording, rng, "random_jpeg")
    low, high = arguments.whole_low_high(quality, "quality", 1, 100)
    where = rng.bernoulli(p)
    return filters.jpeg.record(recording, rng.integers(low, high + 1), where=where)


#: Pixels. 3-Augment blurs with standard deviations up to 2; the kernel covers three of them on each side.
BLUR_KERNEL = 13


@of_images
def three_augment(recording: Recording, *, rng: Rng | int) -> Recording:
    """Apply 3-Augment of DeiT III: convert to gray, solarize or blur, with equal probability.

    Sides must have at least 7 pixels, since the blur reflects the border.

    References
    ----------
    Touvron, Cord, Jégou: "DeiT III: Revenge of the ViT", ECCV 2022. Solarizes at half of white, and blurs with
    standard deviations of 0.1 to 2 pixels.
    """
    rng = rng_of(recording, rng, "three_augment")
    which = rng.choice(3)
    sigma = rng.uniform(0.1, 2.0)
    white = 1.0 / recording.unit
    recording = color.rgb_to_grayscale.record(recording, recording.channels, where=which == 0)
    recording = color.solarize.record(recording, np.ceil(white / 2.0) if white > 1.0 else 0.5, where=which == 1)
    return filters.gaussian_blur.record(recording, BLUR_KERNEL, sigma, where=which == 2)
