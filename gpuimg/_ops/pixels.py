"""Changes of pixel values other than color adjustments: erasing, normalizing, user functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._batch.batch import Batch, as_batch
from .._checks import arguments
from .._checks.types import Floats
from ..kernels import ops

#: Mean of ImageNet's training images, for values in [0, 1] (red, green, blue).
IMAGENET_MEAN = (0.485, 0.456, 0.406)
#: Standard deviation of ImageNet's training images, for values in [0, 1] (red, green, blue).
IMAGENET_STD = (0.229, 0.224, 0.225)


def erase(images: Any, i: Any, j: Any, h: Any, w: Any, v: Any = 0, *, where: Any = None) -> Batch:
    """Paint a rectangle.

    Parameters
    ----------
    images : Batch, list of arrays or array
    i, j : int or (N,) int
        First row and column of the rectangle, in pixels.
    h, w : int or (N,) int
        Height and width, at least 0; parts outside the image are left out.
    v : number, (C,), (N,) or (N, C)
        Color, 0 to 255 for uint8 and 0 to 1 for float32. After :func:`normalize` it is painted unchanged.
    where : (N,) bool, optional
        The images to change.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError
        For a negative size, numbers that are not whole, or shapes that do not fit the batch.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> gpuimg.erase(np.full((1, 1, 3, 1), 9, np.uint8), 0, 1, 1, 1).array().ravel().tolist()
    [9, 0, 9]
    """
    batch = as_batch(images)
    n = len(batch)
    top, left = arguments.integers(i, n, "i"), arguments.integers(j, n, "j")
    height, width = arguments.integers(h, n, "h", low=0), arguments.integers(w, n, "w", low=0)
    plan, frame = batch._plan.with_frame()
    color = arguments.color(v, n, plan.channels, batch._unit, "v")
    rectangle = (left, top, left + width, top + height)
    return batch._recorded(plan.with_paint(rectangle, color, frame, inside=True, where=arguments.mask(where, n)))


def normalize(images: Any, mean: Any, std: Any, *, where: Any = None) -> Batch:
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
    batch = as_batch(images)
    channels = batch.channels
    means, stds = (_per_channel(v, channels, name) for v, name in ((mean, "mean"), (std, "std")))
    if np.any(stds <= 0.0):
        raise ValueError(f"std must be above 0, not {std!r}")
    three = means.repeat(3 // channels), stds.repeat(3 // channels)
    chosen = arguments.mask(where, len(batch))
    plan = batch._plan.with_entry(ops.NORMALIZE, (*(1.0 / three[1]), *(-three[0] / three[1])), where=chosen)
    return batch._recorded(plan.as_normalized())


def _per_channel(value: Any, channels: int, name: str) -> Floats:
    array = arguments.numbers(value, name)
    return arguments.per_image(array[0] if array.shape == (1,) else array, channels, name, each="channel")


def pointwise(images: Any, function: Any, value: Any = 0.0, *, where: Any = None) -> Batch:
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
    batch = as_batch(images)
    n = len(batch)
    if not hasattr(function, "py_func"):
        raise TypeError(f"function must be compiled with numba.njit, not {type(function).__name__}")
    if function.py_func.__code__.co_argcount != 6:
        raise TypeError("function must take six arguments: (r, g, b, y, x, value)")
    values = arguments.per_image(value, n, "value")
    plan, frame = batch._plan.with_frame()
    if batch.channels == 1:
        from ..kernels import user  # imports Numba, which takes as long as all of gpuimg

        function = user.first_kept(function)
    plan, index = plan.with_function(function)
    return batch._recorded(plan.with_entry(ops.POINTWISE, (index, values), where=arguments.mask(where, n), frame=frame))
