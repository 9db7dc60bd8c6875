"""Checks of the peers' outputs against gpuimg's, before anything is timed."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.peers.base import MEAN, SIZE, STD

DETERMINISTIC = ("decode", "eval")
_MEAN = np.array(MEAN, np.float32)[:, None, None]
_STD = np.array(STD, np.float32)[:, None, None]
_SLACK = 2.0  # levels that results may lie outside 0 to 255: rounding, and interpolation in other color spaces


def levels(images: Any) -> Any:
    """Return normalized results as levels, 0 to 255."""
    return (images * _STD + _MEAN) * 255


def difference(work: str, results: Any, ours: Any) -> dict[str, float]:
    """Return the mean absolute difference to gpuimg's results in levels, and the share of values within 2 levels.

    Raises
    ------
    ValueError
        If there are other images, or of other sizes.
    """
    if len(results) != len(ours):
        raise ValueError(f"{len(results)} images instead of {len(ours)}")
    differences = []
    for one, other in zip(results, ours, strict=True):
        if one.shape != other.shape:
            raise ValueError(f"an image of shape {one.shape} instead of {other.shape}")
        if work == "decode":
            differences.append(np.abs(one.astype(np.int16) - other.astype(np.int16)).ravel())
        else:
            differences.append(np.abs(levels(one) - levels(other)).ravel())
    every = np.concatenate(differences)
    return {
        "mean_difference_in_levels": round(float(every.mean()), 3),
        "within_2_levels": round(float((every <= 2).mean()), 4),
    }


def plausible(results: Any, count: int) -> dict[str, float]:
    """Return mean and spread of random results in levels.

    Raises
    ------
    ValueError
        For another shape or dtype, or values that no image has.
    """
    if results.shape != (count, 3, SIZE, SIZE) or results.dtype != np.float32:
        raise ValueError(f"{results.dtype} of shape {results.shape} instead of float32 {(count, 3, SIZE, SIZE)}")
    values = levels(results)
    if not np.isfinite(values).all():
        raise ValueError("not all values are finite")
    low, high = float(values.min()), float(values.max())
    if low < -_SLACK or high > 255 + _SLACK:
        raise ValueError(f"values from {low:.1f} to {high:.1f} instead of 0 to 255")
    return {"mean_level": round(float(values.mean()), 1), "standard_deviation": round(float(values.std()), 1)}
