"""Changes of pixel values other than color adjustments: erasing, noise, normalizing, user functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from .._batch.batch import Batch, Images, recording_of
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Color, Floats, Ints, Pair, PerImage, Where
from ..kernels import ops

#: Mean of ImageNet's training images, for values in [0, 1] (red, green, blue).
IMAGENET_MEAN = (0.485, 0.456, 0.406)
#: Standard deviation of ImageNet's training images, for values in [0, 1] (red, green, blue).
IMAGENET_STD = (0.229, 0.224, 0.225)


_BOUNDLESS = 1e30  # further than any pixel or value, within float32
_MOST_SEED = ops.SEED_WORD**2 - 1


def erase(
    images: Images,
    i: PerImage,
    j: PerImage,
    h: PerImage,
    w: PerImage,
    v: Color | Literal["random"] = 0,
    *,
    seed: PerImage | None = None,
    where: Where | None = None,
) -> Batch:
    """Paint a rectangle, or fill it with noise.

    Parameters
    ----------
    images : Batch, list of arrays or array
    i, j : int or (N,) int
        First row and column of the rectangle, in pixels.
    h, w : int or (N,) int
        Height and width, at least 0; parts outside the image are left out.
    v : number, (C,), (N,), (N, C) or "random"
        Color, 0 to 255 for uint8 and 0 to 1 for float32. After :func:`normalize` it is painted unchanged. ``"random"``
        gives each pixel and channel a value of its own: from black to white with equal probability, as in the paper,
        and after :func:`normalize` normal of mean 0 and standard deviation 1, as in torchvision.
    seed : int or (N,) int, optional
        Of the noise for ``"random"``, as for :func:`gaussian_noise`.
    where : (N,) bool, optional
        The images to change.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        For a negative size, numbers that are not whole, shapes that do not fit the batch, or ``"random"`` without a
        seed.

    References
    ----------
    Zhong, Zheng, Kang, Li, Yang: "Random erasing data augmentation", AAAI 2020.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> gpuimg.erase(np.full((1, 1, 3, 1), 9, np.uint8), 0, 1, 1, 1).array().ravel().tolist()
    [9, 0, 9]
    """
    batch = recording_of(images)
    n = batch.image_count
    top, left = arguments.integers(i, n, "i"), arguments.integers(j, n, "j")
    height, width = arguments.integers(h, n, "h", low=0), arguments.integers(w, n, "w", low=0)
    rectangle = (left, top, left + width, top + height)
    if isinstance(v, str):
        if v != "random" or seed is None:
            raise ValueError(f'v must be a color, or "random" with a seed, not {v!r}')
        spread = (0.0, 1.0, 0.0, 0.0) if batch.normalized else (0.0, 1.0, 0.0, 1.0)
        return _with_noise(batch, rectangle, seed, spread, (-_BOUNDLESS, _BOUNDLESS), where)
    plan, frame = batch.plan.with_frame()
    color = arguments.color(v, n, plan.channels, batch.unit, "v")
    return Batch(batch.with_plan(plan.with_paint(rectangle, color, frame, inside=True, where=arguments.mask(where, n))))


def _with_noise(
    batch: Recording, rectangle: Any, seed: Any, spread: tuple[Any, Any, float, float], limits: Any, where: Any
) -> Batch:
    """Record noise in a rectangle; ``spread`` is its mean, scale, share of the image kept, and 1 if it is uniform."""
    n = batch.image_count
    plan, frame = batch.plan.with_frame()
    params = (*rectangle, *seed_words(checked_seeds(seed, n)), *spread, float(batch.channels == 3), *limits)
    return Batch(batch.with_plan(plan.with_entry(ops.NOISE, params, where=arguments.mask(where, n), frame=frame)))


def checked_seeds(seed: Any, n: int) -> Ints:
    """Seeds (N,) of noise."""
    return arguments.per_image(seed, n, "seed", low=0, high=_MOST_SEED, whole=True).astype(np.int64)


def seed_words(seeds: Ints) -> tuple[Ints, Ints]:
    """Both words of seeds, as programs hold them."""
    high, low = np.divmod(seeds, ops.SEED_WORD)
    return high, low


def gaussian_noise(
    images: Images,
    mean: PerImage = 0.0,
    sigma: PerImage = 0.1,
    clip: bool = True,
    *,
    seed: PerImage,
    where: Where | None = None,
) -> Batch:
    """Add normal noise, drawn anew for each pixel and channel.

    Parameters
    ----------
    images : Batch, list of arrays or array
    mean : float or (N,) float
        For values in [0, 1], also for uint8 images.
    sigma : float or (N,) float
        Standard deviation, at least 0, likewise.
    clip : bool
        Limit the results to [0, 1]; say False after :func:`normalize`.
    seed : int or (N,) int
        0 to 2**48 - 1. Noise depends on the seed of its image and the place of the pixel, and on nothing else: images
        of one seed have the same noise. :func:`random_gaussian_noise` draws seeds.
    where : (N,) bool, optional
        The images to change.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        For a negative sigma, a seed out of range, NaN, or shapes that do not fit the batch.

    Notes
    -----
    The same on CPU and GPU up to rounding. Noise reaches 5.8 standard deviations. torchvision truncates the noise of
    uint8 images to whole levels; here the result is rounded once, when it is stored. Geometry afterwards starts a new
    pass, so that the noise is resampled with the image.

    References
    ----------
    Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox4x32-10, keyed by the seed
    and counted by column and row); Box, Muller: "A note on the generation of random normal deviates", 1958.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> y = gpuimg.gaussian_noise(np.full((2, 50, 50, 3), 128, np.uint8), sigma=[0.0, 0.1], seed=7).array("float32")
    >>> [round(float(image.std()), 2) for image in y]
    [0.0, 0.1]
    """
    batch = recording_of(images)
    n = batch.image_count
    means = arguments.per_image(mean, n, "mean")
    sigmas = arguments.per_image(sigma, n, "sigma", low=0.0)
    everywhere = (-_BOUNDLESS, -_BOUNDLESS, _BOUNDLESS, _BOUNDLESS)
    limits = (0.0, 1.0) if arguments.flag(clip, "clip") else (-_BOUNDLESS, _BOUNDLESS)
    return _with_noise(batch, everywhere, seed, (means, sigmas, 1.0, 0.0), limits, where)


def grid_mask(
    images: Images,
    cell: PerImage,
    share: PerImage,
    angle: PerImage = 0.0,
    offset: Pair = (0.0, 0.0),
    value: Color = 0,
    *,
    where: Where | None = None,
) -> Batch:
    """Paint a square in each cell of a grid.

    Parameters
    ----------
    images : Batch, list of arrays or array
    cell : float or (N,) float
        Side of the cells in pixels, at least 1.
    share : float or (N,) float
        Side of the squares as a share of the cell's, 0 to 1.
    angle : float or (N,) float
        Degrees by which the grid is turned about the top left corner of the image, counter-clockwise.
    offset : (x, y)
        How far the grid is shifted along its axes, in cells; each may be (N,).
    value : number, (C,), (N,) or (N, C)
        Color of the squares, as in :func:`erase`.
    where : (N,) bool, optional
        The images to change.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        For a cell below 1 pixel, a share outside 0 to 1, NaN, or shapes that do not fit the batch.

    References
    ----------
    Chen, Liu, Zhao, Jia: "GridMask data augmentation", arXiv:2001.04086, 2020; ``share`` is its 1 - r.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> gpuimg.grid_mask(np.full((1, 4, 4, 1), 9, np.uint8), 2, 0.5).array()[0, :, :, 0].tolist()
    [[0, 9, 0, 9], [9, 9, 9, 9], [0, 9, 0, 9], [9, 9, 9, 9]]
    """
    batch = recording_of(images)
    n = batch.image_count
    side = arguments.per_image(cell, n, "cell", low=1.0)
    shares = arguments.per_image(share, n, "share", low=0.0, high=1.0)
    turned = np.deg2rad(arguments.per_image(angle, n, "angle"))
    shift = arguments.pair(offset, n, "offset", ("x", "y"))
    plan, frame = batch.plan.with_frame()
    color = arguments.color(value, n, plan.channels, batch.unit, "value")
    params = (np.cos(turned) / side, -np.sin(turned) / side, *-shift.T, shares, *color.T)
    return Batch(batch.with_plan(plan.with_entry(ops.GRID, params, where=arguments.mask(where, n), frame=frame)))


def normalize(images: Images, mean: PerImage, std: PerImage, *, where: Where | None = None) -> Batch:
    """Subtract a mean and divide by a standard deviation, for each channel; the result is floating point.

    Parameters
    ----------
    images : Batch, list of arrays or array
    mean, std : number or (C,)
        For values in [0, 1], also for uint8 images: :data:`IMAGENET_MEAN` and :data:`IMAGENET_STD`. One number, or a
        list, tuple or array of one, is for all channels.
    where : (N,) bool, optional
        The images to change.

    Returns
    -------
    Batch
        Its default dtype is float32.

    Raises
    ------
    ValueError
        For a standard deviation of 0, NaN, or a shape that does not fit the channels.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> gpuimg.normalize(np.full((1, 1, 1, 1), 255, np.uint8), 0.5, 0.25).array().ravel().tolist()
    [2.0]
    """
    batch = recording_of(images)
    channels = batch.channels
    means, stds = (_per_channel(v, channels, name) for v, name in ((mean, "mean"), (std, "std")))
    if np.any(stds <= 0.0):
        raise ValueError(f"std must be above 0, not {std!r}")
    three = means.repeat(3 // channels), stds.repeat(3 // channels)
    chosen = arguments.mask(where, batch.image_count)
    plan = batch.plan.with_entry(ops.NORMALIZE, (*(1.0 / three[1]), *(-three[0] / three[1])), where=chosen)
    return Batch(batch.with_plan(plan.as_normalized()))


def _per_channel(value: Any, channels: int, name: str) -> Floats:
    array = arguments.numbers(value, name)
    return arguments.per_image(array[0] if array.shape == (1,) else array, channels, name, each="channel")


def pointwise(
    images: Images, function: Callable[..., Any], value: PerImage = 0.0, *, where: Where | None = None
) -> Batch:
    """Run your own Numba function on every pixel, fused with everything else, on CPU and GPU.

    Parameters
    ----------
    images : Batch, list of arrays or array
    function : numba.njit function
        ``(r, g, b, y, x, value) -> (r, g, b)``, all float32: color in [0, 1], row and column at this point of the
        chain, and the image's ``value``. A one-channel image passes its value as r, g and b, and keeps the first
        result. Results are not clamped. Write constants as ``np.float32``: float64 is slow on a GPU.
    value : float or (N,) float
        Passed to the function.
    where : (N,) bool, optional
        The images to change.

    Returns
    -------
    Batch

    Raises
    ------
    TypeError
        If the function is not compiled with ``numba.njit``, or does not take six arguments.

    Examples
    --------
    >>> import gpuimg, numba, numpy as np
    >>> @numba.njit
    ... def dim(r, g, b, y, x, value):
    ...     return r * value, g * value, b * value
    >>> gpuimg.pointwise(np.full((1, 1, 1, 3), 100, np.uint8), dim, 0.5).array().ravel().tolist()
    [50, 50, 50]
    """
    batch = recording_of(images)
    n = batch.image_count
    if not hasattr(function, "py_func"):
        raise TypeError(f"function must be compiled with numba.njit, not {type(function).__name__}")
    if function.py_func.__code__.co_argcount != 6:
        raise TypeError("function must take six arguments: (r, g, b, y, x, value)")
    values = arguments.per_image(value, n, "value")
    plan, frame = batch.plan.with_frame()
    if batch.channels == 1:
        from ..kernels import user  # imports Numba, which takes as long as all of gpuimg

        function = user.gray_formula(function)
    plan, index = plan.with_function(function)
    plan = plan.with_entry(ops.POINTWISE, (index, values), where=arguments.mask(where, n), frame=frame)
    return Batch(batch.with_plan(plan))
