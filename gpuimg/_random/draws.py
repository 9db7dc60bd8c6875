"""Helpers of the random functions: generators, and sides of random rectangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._batch.batch import Batch, recording_of
from .._checks.types import Floats, Ints
from .rng import Rng, as_rng

_TRIES = 10  # rectangles drawn to find one that fits into the image, as in torchvision
#: Numbers of a draw of a rectangle: two for each try, two for its position, and two that complete a block.
DRAWS = 2 * _TRIES + 4


def prepare(images: Any, rng: Any, name: str) -> tuple[Batch, Rng]:
    """Return the batch and the generator for a call of the function ``name``."""
    recording = recording_of(images)
    generator = as_rng(rng, len(recording), name, recording.frames)
    return images if isinstance(images, Batch) else Batch(recording), generator


def drawn_sides(areas: Floats, unit: Floats, scale: Floats, ratio: tuple[float, float], least: int, most: Ints) -> Ints:
    """Return the sides (N, 2) of random rectangles from ``least`` to ``most`` (N, 2); -1 where none of ten fits.

    ``areas`` (N,) are in square pixels, of which ``scale`` (1, 2) or (N, 2) has the fractions. A ratio above 1 makes
    the first side longer. ``unit`` (N, DRAWS) are numbers in [0, 1), of which the last four are for the caller.
    """
    from ..kernels.rectangles import fitting_sides  # imports Numba, which takes as long as all of gpuimg

    low, high = np.log(ratio)
    aspect = np.exp(low + (high - low) * unit[:, _TRIES : 2 * _TRIES])
    sides = np.empty((len(areas), 2), np.int64)
    fitting_sides(areas, unit, aspect, scale, least, most, sides)
    return sides
