"""Boxes and points: a table of numbers for each image of a batch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import arguments
from .._checks.types import Floats, Ints, Mask
from ..errors import ImageError


@dataclass(frozen=True)
class Rows:
    """The rows of all images, M in total, passed as an (N, K, D) array or a list of N arrays (K, D)."""

    flat: Floats  # (M, D)
    owner: Ints  # (M,), the image of each row
    counts: Ints | None  # (N,), rows of each image; None for an (N, K, D) array
    shape: tuple[int, ...]  # (N, K, D) of an array
    dtype: np.dtype[Any]  # of results: float32 or float64

    def like(self, values: NDArray[Any]) -> Any:
        """Return values (M, ...) in the form in which the rows were passed."""
        if self.counts is None:
            return values.reshape(*self.shape[:2], *values.shape[1:])
        return self._split(values, self.counts)

    def select(self, values: NDArray[Any], valid: Mask) -> list[NDArray[Any]]:
        """Return the values (M, ...) of valid rows, as one array for each image."""
        n = self.shape[0] if self.counts is None else len(self.counts)
        return self._split(values[valid], np.bincount(self.owner[valid], minlength=n))

    @staticmethod
    def _split(values: NDArray[Any], counts: Ints) -> list[NDArray[Any]]:
        ends = np.cumsum(counts).tolist()
        return [values[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]


def rows_of(value: Any, n: int, width: int, name: str) -> Rows:
    """Check boxes or points: finite, with ``width`` numbers each, for ``n`` images."""
    rule = f"{name} must be an (N, K, {width}) array or a list of (K, {width}) arrays"
    if isinstance(value, (list, tuple)):
        parts = [_numbers(part, f"{name}[{i}]") for i, part in enumerate(value)]
        parts = [part.reshape(0, width) if part.size == 0 else part for part in parts]
        for i, part in enumerate(parts):
            if part.ndim != 2 or part.shape[1] != width:
                raise ValueError(f"{rule}; {name}[{i}] has shape {part.shape}")
        counts = np.array([len(part) for part in parts], np.int64)
        array = np.concatenate([np.zeros((0, width), np.float32), *parts])
        shape = array.shape
    else:
        array = _numbers(value, name)
        if array.ndim != 3 or array.shape[2] != width:
            raise ValueError(f"{rule}, not of shape {array.shape}")
        shape = array.shape
        counts = np.full(len(array), shape[1], np.int64)
        array = array.reshape(-1, width)
    if len(counts) != n:
        raise ValueError(f"got {name} for {len(counts)} images, but the batch has {n}")
    owner = np.repeat(np.arange(n), counts)
    bad = ~np.all(np.isfinite(array), 1)
    if np.any(bad):
        k = int(np.argmax(bad))
        raise ImageError(int(owner[k]), f"{name} must be finite, not {array[k].tolist()}")
    ragged = isinstance(value, (list, tuple))
    dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
    return Rows(array.astype(np.float64), owner, counts if ragged else None, shape, dtype)


def _numbers(value: Any, name: str) -> NDArray[Any]:
    array = arguments.numbers(value, name)
    return array.astype(np.float32) if np.asarray(value).dtype == np.float32 else array
