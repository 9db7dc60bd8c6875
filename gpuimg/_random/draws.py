"""What random functions have in common: their generator, ranges that users give, and rectangles drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._batch.batch import Batch, as_batch
from .._checks.types import Floats
from .rng import Rng, as_rng

TRIES = 10  # of fitting a rectangle into an image, as torchvision


def limits(value: Any, name: str, *, low: float = -np.inf, high: float = np.inf) -> tuple[float, float]:
    """A (low, high) range given by the user.

    Raises
    ------
    ValueError
        For reversed or out-of-range limits, NaN, or another length.
    """
    if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, str) or len(value) != 2:
        raise ValueError(f"{name} must be (low, high), not {value!r}")
    first, last = float(value[0]), float(value[1])
    if not (low <= first <= last <= high and np.isfinite(last)):
        allowed = f" in [{low:g}, {high:g}]" if np.isfinite(low) or np.isfinite(high) else ""
        raise ValueError(f"{name} must be (low, high) with low <= high{allowed}, not {value!r}")
    return first, last


def symmetric(value: Any, name: str) -> tuple[float, float]:
    """A range given as (low, high), or as one number for (-number, number)."""
    if np.ndim(value) == 0:
        number = float(value)
        if not number >= 0.0:
            raise ValueError(f"{name} must be at least 0, or (low, high), not {value!r}")
        return -number, number
    return limits(value, name)


def prepare(images: Any, rng: Any, name: str) -> tuple[Batch, Rng]:
    """The batch and the generator of a call to the function ``name``."""
    batch = as_batch(images)
    return batch, as_rng(rng, len(batch), name)


def drawn_sides(
    area: Any, unit: Floats, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Sides (N, TRIES) of rectangles of a share of ``area`` (N, 1) and of a ratio, from ``unit`` draws (N, 2 TRIES...).

    The first side is the longer one where the ratio is above 1.
    """
    target = area * (scale[0] + (scale[1] - scale[0]) * unit[:, :TRIES])
    logs = np.log(ratio)
    aspect = np.exp(logs[0] + (logs[1] - logs[0]) * unit[:, TRIES : 2 * TRIES])
    return np.round(np.sqrt(target * aspect)), np.round(np.sqrt(target / aspect))
