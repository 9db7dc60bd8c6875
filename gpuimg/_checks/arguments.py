"""Checking what users pass: a clear word at the call, with what was given and what is allowed."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._checks.types import Floats, Ints, Mask
from ..kernels import layout


def per_image(
    value: Any,
    n: int,
    name: str,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    whole: bool = False,
    each: str = "image",
) -> Floats:
    """A scalar or (N,) parameter as (N,) float64, finite and within ``[low, high]``."""
    array = numbers(value, name)
    if array.ndim > 1 or (array.ndim == 1 and array.shape != (n,)):
        raise ValueError(f"{name} must be a scalar or have shape ({n},), one for each {each}, not {array.shape}")
    bad = ~np.isfinite(array) | (array < low) | (array > high)
    if whole:
        bad |= array != np.round(array)
    if bad.any():
        where = f"{name}[{int(np.argmax(bad))}]" if array.ndim else name
        kind = "a whole number" if whole else "a finite number"
        limits = "" if low == -np.inf and high == np.inf else f" in [{low:g}, {high:g}]"
        raise ValueError(f"{where} must be {kind}{limits}, not {float(array[bad][0] if array.ndim else array)!r}")
    return array if array.ndim else np.full(n, array)  # not broadcast_to, which takes as long as all of the above


def whole_number(value: Any, name: str, low: int = 1, high: int | None = None) -> int:
    """One whole number within ``[low, high]``: an int, or an integer of NumPy."""
    try:
        number = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < low or (high is not None and number > high):
        limits = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} must be a whole number {limits}, not {value!r}")
    return number


def numbers(value: Any, name: str) -> Floats:
    """What a user passed as float64."""
    if hasattr(value, "__cuda_array_interface__"):
        raise TypeError(f"{name} must be on the host (a number or a NumPy array), not an array on a GPU")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be a number or an array of numbers, not {value!r}") from error
    if array.dtype.kind not in "iufb":
        raise TypeError(f"{name} must be a number or an array of numbers, not {value!r}")
    return array.astype(np.float64)


def finite(value: Any, name: str) -> Floats:
    """What a user passed as float64, none of it infinite or NaN."""
    array = numbers(value, name)
    bad = array[~np.isfinite(array)]
    if bad.size:
        raise ValueError(f"{name} must be finite, not {float(bad.flat[0])!r}")
    return array


def is_single(value: Any) -> bool:
    """Whether this is one number rather than a sequence of them, whose parts may differ in length."""
    return isinstance(value, (str, bytes)) or (not isinstance(value, Sequence) and np.ndim(value) == 0)


def pair(value: Any, n: int, name: str, parts: tuple[str, str], **limits: Any) -> Floats:
    """Two parameters, each scalar or (N,), or one (N, 2) array, as (N, 2) float64."""
    if isinstance(value, np.ndarray) and value.ndim == 2:
        if value.shape != (n, 2):
            raise ValueError(f"{name} as an array must have shape ({n}, 2), not {value.shape}")
        value = (value[:, 0], value[:, 1])
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)) or len(value) != 2:
        raise ValueError(f"{name} must be ({parts[0]}, {parts[1]}), not {value!r}")
    return np.stack([per_image(v, n, f"{name} {part}", **limits) for v, part in zip(value, parts, strict=True)], 1)


def mask(where: Any, n: int) -> Mask | None:
    """``where=`` as (N,) bool; None where it takes in every image."""
    if where is None:
        return None
    array = np.asarray(where)
    if array.dtype != np.bool_:
        raise TypeError(f"where must be boolean, not {array.dtype}")
    if array.shape not in ((), (n,)):
        raise ValueError(f"where must have shape ({n},), one for each image, not {array.shape}")
    return None if array.all() else np.broadcast_to(array, (n,))


def sizes(size: Any, n: int, name: str = "size") -> Ints:
    """``(height, width)``, each scalar or (N,), as (N, 2) int64 of at least 1."""
    return pair(size, n, name, ("height", "width"), low=1, high=layout.EXACT, whole=True).astype(np.int64)


def integers(value: Any, n: int, name: str, *, low: int = -layout.EXACT, high: int = layout.EXACT) -> Ints:
    """A whole-number parameter, scalar or (N,), as (N,) int64."""
    return per_image(value, n, name, low=low, high=high, whole=True).astype(np.int64)


def color(value: Any, n: int, channels: int, unit: float, name: str = "fill") -> Floats:
    """A color as (N, 3) in units of 1: a number, one number an image (N,), a channel (C,), or (N, C)."""
    array = finite(value, name)
    if array.ndim == 1 and array.shape == (channels,) and channels != 1:
        array = array[None, :]
    elif array.ndim == 1 and array.shape in ((n,), (1,)):
        array = array[:, None]
    if array.ndim == 2 and array.shape[0] in (1, n) and array.shape[1] in (1, channels):
        return np.broadcast_to(array * unit, (n, 3))
    if array.ndim == 0:
        return np.full((n, 3), float(array) * unit)
    raise ValueError(
        f"{name} must be a number, ({channels},) for the channels, ({n},) for the images or ({n}, {channels}), "
        f"not of shape {array.shape}"
    )


_FILTERS = {"nearest": layout.NEAREST, "bilinear": layout.LINEAR, "bicubic": layout.CUBIC_CLAMPED}


def interpolation(value: Any, *, antialias: bool = False) -> int:
    """An interpolation's name as the filter of the kernels; torchvision's enum members are taken too."""
    name = getattr(value, "value", value)
    if name == "nearest-exact":
        name = "nearest"
    if not isinstance(name, str) or name not in _FILTERS:
        raise ValueError(f'interpolation must be "nearest", "bilinear" or "bicubic", not {value!r}')
    if name == "bicubic" and antialias:
        return layout.CUBIC_RENORMALISED
    return _FILTERS[name]
