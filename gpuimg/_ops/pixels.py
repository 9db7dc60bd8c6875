"""Pixel functions other than color adjustments: erasing, noise, masks, normalization, user functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Color, Ints, Pair, PerImage, Where
from ..kernels import exact, ops
from .color import check_not_normalized, check_unit_range

__all__ = [
    "IMAGENET_MEAN", "IMAGENET_STD", "erase", "gaussian_noise", "grid_mask", "normalize", "pointwise",
    "salt_and_pepper", "shot_noise",
]  # fmt: skip

#: Mean of ImageNet's training images, for values in [0, 1] (red, green, blue).
IMAGENET_MEAN = (0.485, 0.456, 0.406)
#: Standard deviation of ImageNet's training images, for values in [0, 1] (red, green, blue).
IMAGENET_STD = (0.229, 0.224, 0.225)
#: Mean and standard deviation of CLIP's training images, for values in [0, 1].
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)

_OF_PIXEL = 5  # parameters of a user's function before its values: r, g, b, y, x
_BOUNDLESS = 1e30  # beyond any pixel position or value, within the range of float32
_MOST_SEED = ops.SEED_WORD**2 - 1


@of_images
def erase(
    recording: Recording,
    i: PerImage,
    j: PerImage,
    h: PerImage,
    w: PerImage,
    v: Color | Literal["random"] = 0,
    *,
    seed: PerImage | None = None,
    where: Where | None = None,
) -> Recording:
    """Hide a rectangle of each image behind a color or noise (random erasing, cutout).

    Parameters
    ----------
    i, j : int or (N,) int
        First row and column of the rectangle, in pixels; may be negative.
    h, w : int or (N,) int
        Height and width in pixels, at least 0; parts outside the image are ignored.
    v : number, tuple of C, (N,) or (N, C) array or "random"
        Color, in the unit of the images; after :func:`normalize` it is painted unchanged. ``"random"`` draws a separate
        value for each pixel and channel: uniform from black to white, as in the paper, or after :func:`normalize` from
        a standard normal distribution, as in torchvision.
    seed : int or (N,) int, optional
        Seed of the noise, 0 to 2**48 - 1, as in :func:`gaussian_noise`. ``"random"`` needs it; colors ignore it.

    References
    ----------
    Zhong, Zheng, Kang, Li, Yang: "Random erasing data augmentation", AAAI 2020.

    Examples
    --------
    >>> gpuimg.erase(np.full((1, 1, 3, 1), 9, np.uint8), 0, 1, 1, 1).array().ravel().tolist()
    [9, 0, 9]
    """
    n = recording.image_count
    top, left = arguments.integers(i, n, "i"), arguments.integers(j, n, "j")
    height, width = arguments.integers(h, n, "h", low=0), arguments.integers(w, n, "w", low=0)
    rectangle = (left, top, left + width, top + height)
    if isinstance(v, str):
        if v != "random" or seed is None:
            raise ValueError(f'v must be a color, or "random" with a seed, not {v!r}')
        spread = (0.0, 1.0, 0.0, 0.0) if recording.normalized else (0.0, 1.0, 0.0, 1.0)
        return _with_noise(recording, rectangle, seed, spread, (-_BOUNDLESS, _BOUNDLESS), where)
    plan, here = recording.plan.with_origin()
    color = arguments.color(v, n, plan.channels, recording.unit, "v")
    return recording.with_plan(plan.with_paint(rectangle, color, here, inside=True, where=arguments.mask(where, n)))


def _with_noise(
    recording: Recording, rectangle: Any, seed: Any, spread: tuple[Any, Any, float, float], limits: Any, where: Any
) -> Recording:
    """Record noise in a rectangle.

    ``spread`` is the mean and scale of the noise, the weight of the image under it, and 1 for uniform noise, else 0.
    """
    seeds = split_seeds(checked_seeds(seed, recording.image_count))
    return record_pattern(
        recording, ops.NOISE, where, *rectangle, *seeds, *spread, float(recording.channels == 3), *limits
    )


def checked_seeds(seed: Any, n: int) -> Ints:
    """Return seeds (N,) of noise, checked."""
    return arguments.per_image(seed, n, "seed", low=0, high=_MOST_SEED, whole=True).astype(np.int64)


def split_seeds(seeds: Ints) -> tuple[Ints, Ints]:
    """Split seeds into their high and low 24 bits: programs hold float32, which is exact up to 2**24."""
    high, low = np.divmod(seeds, ops.SEED_WORD)
    return high, low


@of_images
def gaussian_noise(
    recording: Recording,
    mean: PerImage = 0.0,
    sigma: PerImage = 0.1,
    clip: bool = True,
    *,
    seed: PerImage,
    where: Where | None = None,
) -> Recording:
    """Add Gaussian noise, such as a sensor's, drawn separately for each pixel and channel.

    Parameters
    ----------
    mean : float or (N,) float
        Mean of the noise, for values in [0, 1], also for uint8 images.
    sigma : float or (N,) float
        Standard deviation of the noise, at least 0, likewise for values in [0, 1].
    clip : bool
        Clamp the results to [0, 1]; pass False after :func:`normalize`.

    Notes
    -----
    Noise is the same on CPU and GPU up to rounding, and reaches 5.8 standard deviations. torchvision truncates the
    noise of uint8 images to whole levels; here the result is rounded once, when it is stored. Later geometry starts a
    new pass, so that the noise is resampled with the image.

    References
    ----------
    Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox4x32-10, keyed by the seed
    and counted by column and row); Box, Muller: "A note on the generation of random normal deviates", 1958.

    Examples
    --------
    >>> y = gpuimg.gaussian_noise(np.full((2, 50, 50, 3), 128, np.uint8), sigma=[0.0, 0.1], seed=7).array("float32")
    >>> [round(float(image.std()), 2) for image in y]
    [0.0, 0.1]
    """
    n = recording.image_count
    means = arguments.per_image(mean, n, "mean")
    sigmas = arguments.per_image(sigma, n, "sigma", low=0.0)
    everywhere = (-_BOUNDLESS, -_BOUNDLESS, _BOUNDLESS, _BOUNDLESS)
    limits = (0.0, 1.0) if arguments.flag(clip, "clip") else (-_BOUNDLESS, _BOUNDLESS)
    return _with_noise(recording, everywhere, seed, (means, sigmas, 1.0, 0.0), limits, where)


@of_images
def salt_and_pepper(
    recording: Recording,
    amount: PerImage = 0.02,
    salt: PerImage = 0.5,
    per_channel: bool = False,
    *,
    seed: PerImage,
    where: Where | None = None,
) -> Recording:
    """Turn single pixels white or black, as errors of a sensor or of a transmission do.

    Parameters
    ----------
    amount : float or (N,) float
        Probability that a pixel changes, 0 to 1.
    salt : float or (N,) float
        Share of the changed pixels that are white, 0 to 1; 0 drops pixels.
    per_channel : bool
        Draw for each channel rather than for each pixel.

    Examples
    --------
    >>> y = gpuimg.salt_and_pepper(np.full((1, 100, 100, 1), 9, np.uint8), 0.2, 0.25, seed=1).array()
    >>> [round(float((y == level).mean()), 2) for level in (0, 9, 255)]
    [0.15, 0.8, 0.05]
    """
    check_not_normalized(recording, "salt_and_pepper")
    n = recording.image_count
    share = arguments.per_image(amount, n, "amount", low=0.0, high=1.0)
    white = arguments.per_image(salt, n, "salt", low=0.0, high=1.0)
    colored = arguments.flag(per_channel, "per_channel") and recording.channels == 3
    return record_pattern(recording, ops.SALT_AND_PEPPER, where, share * white, share, colored, seed=seed)


def record_pattern(recording: Recording, op: ops.Op, where: Any, *params: Any, seed: Any = None) -> Recording:
    """Record an op that depends on positions, with a seed as its first parameters if there is one."""
    n = recording.image_count
    plan, here = recording.plan.with_origin()
    given = params if seed is None else (*split_seeds(checked_seeds(seed, n)), *params)
    return recording.with_plan(plan.with_entry(op, given, where=arguments.mask(where, n), origin=here))


@of_images
def shot_noise(
    recording: Recording, photons: PerImage = 100.0, *, seed: PerImage, where: Where | None = None
) -> Recording:
    """Add the noise of dim light: replace each value by a Poisson number of photons with it as the mean.

    Parameters
    ----------
    photons : float or (N,) float
        Photons of a white pixel, 1 to 2**20: fewer are more noise.

    Notes
    -----
    ``poisson(x * photons) / photons`` for x in [0, 1], drawn separately for each pixel and channel, and clamped. Its
    variance is ``x / photons``. For noise of linear light, call :func:`adjust_gamma` with 2.2 before and 1 / 2.2 after:
    all three are one pass. DALI's ``noise.shot`` has 255 / photons as its factor for uint8.

    References
    ----------
    Giles: "Algorithm 955: approximation of the inverse Poisson cumulative distribution function", ACM Transactions on
    Mathematical Software 42, 2016.

    Examples
    --------
    >>> y = gpuimg.shot_noise(np.full((1, 99, 99, 3), 0.5, np.float32), 200, seed=1).array()
    >>> round(float(y.mean()), 3), round(float(y.var() * 200), 2)
    (0.5, 0.5)
    """
    check_not_normalized(recording, "shot_noise")
    white = arguments.per_image(photons, recording.image_count, "photons", low=1.0, high=2.0**20)
    return record_pattern(recording, ops.SHOT_NOISE, where, white, recording.channels == 3, seed=seed)


@of_images
def grid_mask(
    recording: Recording,
    cell: PerImage,
    share: PerImage,
    angle: PerImage = 0.0,
    offset: Pair = (0.0, 0.0),
    value: Color = 0,
    *,
    where: Where | None = None,
) -> Recording:
    """Hide a square in each cell of a grid, so that no part of an object is always visible (GridMask).

    Parameters
    ----------
    cell : float or (N,) float
        Side of the cells in pixels, at least 1.
    share : float or (N,) float
        Side of the squares as a fraction of the cell's side, 0 to 1.
    angle : float or (N,) float
        Rotation of the grid about the top left corner of the image, in degrees, counter-clockwise.
    offset : (x, y)
        Shift of the grid along its axes, in cells; each may be (N,).
    value : number, tuple of C, or (N,) or (N, C) array
        Color of the squares, in the unit of the images.

    References
    ----------
    Chen, Liu, Zhao, Jia: "GridMask data augmentation", arXiv:2001.04086, 2020; ``share`` is its 1 - r.

    Examples
    --------
    >>> gpuimg.grid_mask(np.full((1, 4, 4, 1), 9, np.uint8), 2, 0.5).array()[0, :, :, 0].tolist()
    [[0, 9, 0, 9], [9, 9, 9, 9], [0, 9, 0, 9], [9, 9, 9, 9]]
    """
    n = recording.image_count
    side = arguments.per_image(cell, n, "cell", low=1.0)
    shares = arguments.per_image(share, n, "share", low=0.0, high=1.0)
    turned = np.deg2rad(arguments.per_image(angle, n, "angle"))
    shift = arguments.pair(offset, n, "offset", ("x", "y"))
    color = arguments.color(value, n, recording.channels, recording.unit, "value")
    axes = np.cos(turned) / side, -np.sin(turned) / side
    return record_pattern(recording, ops.GRID, where, *axes, *-shift.T, shares, *color.T)


@of_images
def normalize(recording: Recording, mean: PerImage, std: PerImage, *, where: Where | None = None) -> Recording:
    """Normalize each channel for a network: subtract a mean and divide by a standard deviation.

    Parameters
    ----------
    mean, std : number or (C,)
        Mean and standard deviation, above 0, for values in [0, 1], also for uint8 images: see :data:`IMAGENET_MEAN` and
        :data:`IMAGENET_STD`. One number, or a list, tuple or array of one, applies to all channels.

    Returns
    -------
    Batch
        Results are floating point, float32 by default.

    Examples
    --------
    >>> gpuimg.normalize(np.full((1, 1, 1, 1), 255, np.uint8), 0.5, 0.25).array().ravel().tolist()
    [2.0]
    """
    plan = recording.plan
    is_plain = type(mean) is type(std) is tuple and {*map(type, mean), *map(type, std)} == {float}
    find: Any = _known_normalization if is_plain else _normalization  # other values may be changed after the call
    largest, op, params = find(mean, std, plan.channels, plan.of_exact if plan.holds_bytes else None)
    if largest <= 1.0:
        check_unit_range(recording)
    elif plan.of_bytes:
        scaled = plan.normalized or any(one.functions for one in recording.segments)  # values may exceed 1
        if not scaled:
            raise ValueError(
                f"mean and std are for values in [0, 1], also for uint8 images: divide by 255, not {mean!r}"
            )
    return recording.with_plan(plan.normalized_by(op, params, arguments.mask(where, recording.image_count)))


def _normalization(mean: Any, std: Any, channels: int, rule: int | None) -> tuple[float, ops.Op, tuple[float, ...]]:
    """Return the largest mean, and an op that normalizes with its parameters; ``rule`` is that of an exact resize.

    Bytes of an exact resize are normalized as by its library, which knows the parameters in float32. torchvision scales
    pixels to [0, 1] before; Hugging Face's processors scale mean and deviation to pixels.
    """
    means, stds = _per_channel(mean, channels, "mean"), _per_channel(std, channels, "std")
    if min(stds) <= 0.0:
        raise ValueError(f"std must be above 0, not {std!r}")
    largest, means, stds = max(means), means * (3 // channels), stds * (3 // channels)
    if rule is None:
        params = *(1.0 / d for d in stds), *(-m / d for m, d in zip(means, stds, strict=True))
        return largest, ops.NORMALIZE, params
    known, divisor = np.array(means + stds, np.float32), 255.0
    if rule == exact.TORCH:
        known, divisor = known * np.float32(divisor), 1.0
    return largest, ops.NORMALIZE_BYTES, (*known.tolist(), divisor)


_known_normalization = lru_cache(64)(_normalization)


def _per_channel(value: Any, channels: int, name: str) -> list[float]:
    one_or_more = value[0] if np.shape(value) == (1,) else value
    numbers: list[float] = arguments.per_image(one_or_more, channels, name, each="channel").tolist()
    return numbers


@of_images
def pointwise(
    recording: Recording,
    /,
    function: Callable[..., Any],
    *values: PerImage,
    where: Where | None = None,
    **named: PerImage,
) -> Recording:
    """Apply your own Numba function to every pixel, in the pass of the other functions, on CPU and GPU.

    Parameters
    ----------
    function : numba.njit function
        ``(r, g, b, y, x, *values) -> (r, g, b)``, all float32: color in [0, 1], row and column of the image that the
        earlier functions of the chain produce, and any number of the image's own values. One-channel images pass their
        value as r, g and b and use the first result. Results are not clamped. Write constants as ``np.float32``:
        float64 is slow on a GPU. A division by zero gives an infinity or NaN. Any exception is an
        :class:`ImageError` when the batch runs on the CPU; on a GPU it is not noticed, and the pixel is undefined.
    *values : float or (N,) float
        Values to pass to the function after ``x``, each finite.
    **named : float or (N,) float
        Values by the names that the function has for them.

    Examples
    --------
    >>> import gpuimg, numba, numpy as np
    >>> @numba.njit
    ... def faded(r, g, b, y, x, factor, offset):
    ...     return r * factor + offset, g * factor + offset, b * factor + offset
    >>> images = np.full((2, 1, 1, 1), 100, np.uint8)
    >>> gpuimg.pointwise(images, faded, [0.5, 0.8], offset=0.2).array().ravel().tolist()
    [101, 131]
    """
    n = recording.image_count
    if not hasattr(function, "py_func"):
        raise TypeError(f"function must be compiled with numba.njit, not {type(function).__name__}")
    signature = inspect.signature(function.py_func)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if len(signature.parameters) < _OF_PIXEL or kinds != {inspect.Parameter.POSITIONAL_OR_KEYWORD}:
        raise TypeError(f"function must take (r, g, b, y, x) and then its values, not {signature}")
    try:
        bound = signature.bind(*(None,) * _OF_PIXEL, *values, **named)
    except TypeError as error:
        raise TypeError(f"the values do not fit function({', '.join(signature.parameters)}): {error}") from None
    bound.apply_defaults()
    given = list(bound.arguments.items())[_OF_PIXEL:]
    numbers = [arguments.per_image(value, n, name) for name, value in given]
    plan, here = recording.plan.with_origin()
    if recording.channels == 1:
        from ..kernels import user  # imports Numba: only when it is used

        function = user.gray_formula(function)
    plan, index = plan.with_function(function)
    plan = plan.with_entry(ops.POINTWISE, (index, *numbers), where=arguments.mask(where, n), origin=here)
    return recording.with_plan(plan)
