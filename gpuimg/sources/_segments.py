"""Segmentations of COCO annotations, stored compactly and decoded to masks."""

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks.types import Ints, Mask

# Outlines are followed in fifths of a pixel, as in pycocotools.
_STEPS = 5
_FARTHEST = 1e5  # pixels of a coordinate: above the size of any image
_LEAST = 6  # numbers of a polygon: three points


class Segments:
    """Polygons and run lengths of annotations, in the order in which they were added."""

    def __init__(self) -> None:
        self._found = array("d")
        self._part_ends = array("q", [0])  # of each polygon, or of the runs of a mask
        self._ends = array("q", [0])  # of the parts of each annotation
        self._runs = array("b")  # 1 for annotations with run lengths
        self._numbers: NDArray[np.int32] = np.zeros(0, np.int32)

    def add(self, numbers: Ints | list[list[float]] | None) -> None:
        """Add the :func:`numbers_of` an annotation."""
        parts: list[Any] = [numbers] if isinstance(numbers, np.ndarray) else numbers or []
        for part in parts:
            self._found.extend(part)
            self._part_ends.append(len(self._found))
        self._ends.append(len(self._part_ends) - 1)
        self._runs.append(isinstance(numbers, np.ndarray))

    def pack(self) -> None:
        """Convert the numbers that were added: 4 bytes for each."""
        found = np.array(self._found)
        parts = np.repeat(np.array(self._runs), np.diff(np.array(self._ends)))
        runs = np.repeat(parts, np.diff(np.array(self._part_ends)))
        # pycocotools rounds outlines to fifths of a pixel, towards 0.
        self._numbers = np.where(runs, found, np.trunc(found * _STEPS + 0.5)).astype(np.int32)
        del self._found

    def mask(self, k: int, height: int, width: int) -> Mask:
        """Return the mask (H, W) of annotation ``k``: the union of its polygons, or its runs."""
        result = np.zeros((width, height), np.bool_)  # down the columns, as run lengths are
        for part in range(self._ends[k], self._ends[k + 1]):
            numbers = self._numbers[self._part_ends[part] : self._part_ends[part + 1]]
            runs = numbers if self._runs[k] else _outline(numbers.reshape(-1, 2).astype(np.int64), height, width)
            result |= np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(width, height)
        return result.T


def numbers_of(segmentation: Any, size: tuple[int, int], name: str) -> Ints | list[list[float]] | None:
    """Return the run lengths of a checked segmentation, or its polygons; ``size`` is the image's width and height."""
    if segmentation is None or isinstance(segmentation, dict):
        return segmentation if segmentation is None else _counts(segmentation, size, name)
    if not isinstance(segmentation, list) or not all(isinstance(polygon, list) for polygon in segmentation):
        raise ValueError(f"{name}: segmentation must be a list of polygons or an object with counts")
    for polygon in segmentation:
        if len(polygon) < _LEAST or len(polygon) % 2:
            raise ValueError(f"{name}: a polygon must have x and y of at least 3 points, not {polygon}")
        if not all(isinstance(value, (int, float)) and -_FARTHEST <= value <= _FARTHEST for value in polygon):  # no NaN
            raise ValueError(f"{name}: a polygon must hold numbers within {_FARTHEST:g} pixels, not {polygon}")
    return segmentation


def _counts(segmentation: dict[str, Any], size: tuple[int, int], name: str) -> Any:
    """Return the checked run lengths of an object with ``counts``, a list or a string, and ``size``."""
    width, height = size
    if segmentation.get("size") != [height, width]:
        raise ValueError(f"{name}: segmentation size must be {[height, width]}, not {segmentation.get('size')}")
    counts = segmentation.get("counts")
    if isinstance(counts, str):
        runs = _decoded(counts)
    else:
        whole = isinstance(counts, list) and all(type(count) is int and count <= width * height for count in counts)
        runs = np.array(counts, np.int64) if whole else None
    if runs is None or runs.ndim != 1 or np.any(runs < 0) or runs.sum() != width * height:
        raise ValueError(f"{name}: segmentation counts must be run lengths of {width * height} pixels")
    return runs


def _decoded(text: str) -> Ints | None:
    """Decode run lengths from a string: numbers of 5 bits a character, lowest first, each less the one two before."""
    codes = np.frombuffer(text.encode("latin-1", "replace"), np.uint8).astype(np.int64) - 48
    last = codes & 32 == 0
    if not len(codes) or not last[-1] or codes.min() < 0 or codes.max() > 63:
        return None
    ends = np.flatnonzero(last)
    starts = np.concatenate([[0], ends[:-1] + 1])
    length = ends - starts + 1
    if length.max() > 12:
        return None
    place = np.arange(len(codes)) - np.repeat(starts, length)
    runs: Ints = np.add.reduceat((codes & 31) << 5 * place, starts)
    runs -= (codes[ends] & 16 != 0) * (1 << 5 * length)  # the sign
    for start in (1, 2):
        runs[start::2] = np.cumsum(runs[start::2])
    return runs


def _outline(points: Ints, height: int, width: int) -> Ints:
    """Return the run lengths, down the columns, of the pixels inside a polygon (P, 2) in fifths of a pixel.

    Follows ``rleFrPoly`` of pycocotools: each step of the outline across the middle of a column of pixels begins or
    ends a run there.
    """
    start, stop = points, np.roll(points, -1, 0)
    span = np.abs(stop - start)
    steps = span.max(1)
    flat = span[:, 0] >= span[:, 1]  # longer in x than in y
    major = np.where(flat, 0, 1)
    k = np.arange(len(points))
    flipped = start[k, major] > stop[k, major]
    low, high = np.where(flipped[:, None], stop, start), np.where(flipped[:, None], start, stop)
    slope = (high - low)[k, 1 - major] / np.maximum(steps, 1)
    edge = np.repeat(k, steps + 1)
    at = np.arange(len(edge)) - np.repeat(np.cumsum(steps + 1) - steps - 1, steps + 1)
    at = np.where(flipped[edge], steps[edge] - at, at)
    along = low[k, major][edge] + at
    across = np.trunc(low[k, 1 - major][edge] + slope[edge] * at + 0.5).astype(np.int64)
    x, y = np.where(flat[edge], along, across), np.where(flat[edge], across, along)
    moved = x[1:] != x[:-1]
    column = np.where(x[1:] < x[:-1], x[1:], x[1:] - 1)[moved] - _STEPS // 2
    row = -((_STEPS // 2 - np.minimum(y[1:], y[:-1])[moved]) // _STEPS)  # rounded up
    inside = (column % _STEPS == 0) & (column >= 0) & (column <= (width - 1) * _STEPS)
    changes = np.sort(column[inside] // _STEPS * height + np.clip(row[inside], 0, height))
    found: Ints = np.diff(changes, prepend=0, append=height * width)
    return found
