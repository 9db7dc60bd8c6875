"""Helpers of the random functions: generators, checked ranges, sides of random rectangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._batch.batch import Batch, recording_of
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Floats
from .rng import Rng, as_rng

TRIES = 10  # rectangles drawn to find one that fits into the image, as in torchvision


def limits(value: Any, name: str, *, low: float = -np.inf, high: float = np.inf) -> tuple[float, float]:
    """Return a checked (low, high) range."""
    if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, str) or len(value) != 2:
        raise ValueError(f"{name} must be (low, high), not {value!r}")
    array = arguments.numbers(value, name)
    first, last = array.tolist()
    if array.ndim != 1 or not (low <= first <= last <= high and -np.inf < first and last < np.inf):
        above = f"{arguments.shown(low)} <= " if low > -np.inf else ""
        below = f" <= {arguments.shown(high)}" if high < np.inf else ""
        raise ValueError(f"{name} must be (low, high) with {above}low <= high{below}, not {value!r}")
    return first, last


def limits_of_each(value: Any, n: int, name: str, *, low: float, high: float) -> tuple[Any, Any]:
    """Return a checked (low, high) range; limits of which one was (N,) as (N, 1) arrays, others as numbers."""
    if isinstance(value, tuple) and len(value) == 2 and not all(map(arguments.is_single, value)):
        each = arguments.pair(value, n, name, ("low", "high"), low=low, high=high)
        reversed_ = each[:, 0] > each[:, 1]
        if np.any(reversed_):
            k = int(np.argmax(reversed_))
            raise ValueError(
                f"{name} must be (low, high) with low <= high, not {tuple(each[k].tolist())} for image {k}"
            )
        return each[:, :1], each[:, 1:]
    return limits(value, name, low=low, high=high)


def whole_limits(value: Any, name: str, low: int, high: int) -> tuple[int, int]:
    """Return a checked range of whole numbers, both limits included; one number stands for both."""
    few, most = (value, value) if arguments.is_single(value) else limits(value, name)
    first = arguments.whole_number(_whole(few), name, low, high)
    return first, arguments.whole_number(_whole(most), name, first, high)


def _whole(value: Any) -> Any:
    """Convert a float without fraction to an int."""
    return int(value) if isinstance(value, float) and value == round(value) else value


def symmetric(value: Any, name: str) -> tuple[float, float]:
    """Return a checked (low, high) range; one number ``f`` stands for (-f, f)."""
    if not arguments.is_single(value):
        return limits(value, name)
    number = one_number(value, name)
    return -number, number


def one_number(value: Any, name: str) -> float:
    """Return a single number of at least 0 that stands for a range."""
    number = float(arguments.numbers(value, name))
    if not 0.0 <= number < np.inf:
        raise ValueError(f"{name} must be a number of at least 0, or (low, high), not {value!r}")
    return number


def beta_parameter(value: Any, name: str) -> float:
    """Return the parameter of a symmetric beta distribution, at least 1e-6: draws of smaller ones underflow float64."""
    number = arguments.numbers(value, name)
    if number.ndim or not 1e-6 <= number < np.inf:
        raise ValueError(f"{name} must be one number of at least 1e-06, not {value!r}")
    return float(number)


def prepare(images: Any, rng: Any, name: str) -> tuple[Batch, Rng]:
    """Return the batch and the generator for a call of the function ``name``."""
    recording, generator = recording_for(images, rng, name)
    return images if isinstance(images, Batch) else Batch(recording), generator


def recording_for(images: Any, rng: Any, name: str) -> tuple[Recording, Rng]:
    """Return the recording to extend and the generator for a call of the function ``name``."""
    recording = recording_of(images)
    return recording, as_rng(rng, len(recording), name, recording.frames)


def drawn_sides(area: Any, unit: Floats, scale: tuple[Any, Any], ratio: tuple[float, float]) -> tuple[Floats, Floats]:
    """Return the sides (N, TRIES) of random rectangles; the first side is the one that a ratio above 1 makes longer.

    ``area`` is (N, 1) and in square pixels; the limits of ``scale`` are scalars or (N, 1).
    """
    target = area * (scale[0] + (scale[1] - scale[0]) * unit[:, :TRIES])
    logs = np.log(ratio)
    aspect = np.exp(logs[0] + (logs[1] - logs[0]) * unit[:, TRIES : 2 * TRIES])
    return np.round(np.sqrt(target * aspect)), np.round(np.sqrt(target / aspect))
