"""Comparisons of results with references, within a tolerance, over many images at once; and the runs for a result."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._plan.plan import evolve
from gpuimg._runtimes.cpu import CpuRuntime

GEOMETRY = 0.01 / 255.0
FORMULA = 1e-5
HUE = 1e-4


def assert_close(results: Iterable[Any], expected: Iterable[NDArray[Any]], tolerance: float) -> None:
    for i, (result, image) in enumerate(zip(results, expected, strict=True)):
        assert result.shape == image.shape, f"image {i} is {result.shape}, not {image.shape}"
        worst = np.max(np.abs(result.astype(np.float64) - image))
        assert worst <= tolerance, f"image {i} of shape {image.shape} is off by {worst:.3g}"


def assert_bytes(results: Iterable[Any], expected: Iterable[NDArray[Any]], share: float = 0.005, most: int = 1) -> None:
    """Assert that uint8 values differ by at most ``most``, and that no more than a fraction ``share`` differs."""
    parts = []
    for i, (result, image) in enumerate(zip(results, expected, strict=True)):
        assert result.dtype == np.uint8
        assert result.shape == image.shape, f"image {i} is {result.shape}, not {image.shape}"
        parts.append(np.abs(result.astype(int) - image.astype(int)).ravel())
    differences = np.concatenate(parts)
    assert differences.max() <= most
    assert np.mean(differences > 0) <= share


def assert_nearest(results: Iterable[Any], expected: Iterable[NDArray[Any]], ties: Iterable[NDArray[np.bool_]]) -> None:
    """The same pixels everywhere but at ties, and of those no more than 0.1 % of all pixels."""
    different, pixels = 0, 0
    for i, (result, image, tie) in enumerate(zip(results, expected, ties, strict=True)):
        assert result.shape == image.shape, f"image {i} is {result.shape}, not {image.shape}"
        off = np.any(np.abs(result.astype(np.float64) - image) > 1e-6, axis=2)
        assert not np.any(off & ~tie), f"image {i} of shape {image.shape} has other pixels away from ties"
        different += int(off.sum())
        pixels += off.size
    assert different <= 0.001 * pixels


def assert_same(results: Sequence[Any], expected: Sequence[Any]) -> None:
    """The same bytes."""
    assert len(results) == len(expected)
    for i, (result, image) in enumerate(zip(results, expected, strict=True)):
        assert result.dtype == image.dtype
        np.testing.assert_array_equal(result, image, err_msg=f"image {i}")


class CountingRuntime(CpuRuntime):
    """The CPU, with the number of its runs."""

    runs = 0

    def run(self, *arguments: Any) -> Any:
        self.runs += 1
        return super().run(*arguments)


def counting(images: Any) -> tuple[gi.Batch, CountingRuntime]:
    """The same images, whose runs, and those of what is recorded on them, are counted."""
    runtime = CountingRuntime()
    return gi.Batch(evolve(recording_of(images), runtime=runtime)), runtime
