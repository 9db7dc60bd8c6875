"""Tests of distributions, and draws that descriptions have."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import gpuimg as gi

#: Draws of a test, and the p value below which it fails; seeds are fixed, so a test that passes keeps passing.
COUNT = 12_000
SMALLEST = 0.001


def rng(seed: int = 1, n: int = COUNT) -> gi.Rng:
    """The generator of samples 0 to n - 1."""
    return gi.Rng(seed, indices=np.arange(n))


def kolmogorov_smirnov(sample: Any, cdf: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
    """The p value of a sample from a continuous distribution."""
    return float(stats.kstest(np.ravel(sample), cdf).pvalue)


def same_distribution(one: Any, other: Any) -> float:
    """The p value of two samples being from one distribution; of a discrete distribution it is larger."""
    return float(stats.ks_2samp(one, other, method="asymp").pvalue)


def chi_square(counts: Any, shares: Any = None) -> float:
    """The p value of counts; their expected shares are equal by default."""
    observed = np.ravel(counts)
    expected = None if shares is None else np.asarray(shares) / np.sum(shares) * observed.sum()
    return float(stats.chisquare(observed, expected).pvalue)


def assert_uniform(sample: Any, low: float, high: float) -> None:
    """The sample is from [low, high], spread evenly."""
    values = np.asarray(sample, np.float64)
    slack = 1e-5 * max(abs(low), abs(high))  # of what was recovered from float32
    assert values.min() >= low - slack
    assert values.max() <= high + slack
    assert kolmogorov_smirnov(values, stats.uniform(low, high - low).cdf) > SMALLEST


def assert_share(chosen: Any, p: float) -> None:
    """A share ``p`` of the sample is chosen."""
    mask = np.asarray(chosen)
    assert mask.dtype == np.bool_
    assert chi_square([mask.sum(), (~mask).sum()], [p, 1.0 - p]) > SMALLEST


def assert_evenly_spread(sample: Any, low: int, high: int) -> None:
    """Whole numbers from low to high, each as often."""
    values = np.asarray(sample)
    assert values.min() >= low
    assert values.max() <= high
    assert np.all(values == np.round(values))
    assert chi_square(np.bincount((values - low).astype(np.int64), minlength=high - low + 1)) > SMALLEST


def descriptions(batch: gi.Batch) -> list[str]:
    return [gi.describe(batch, i) for i in range(len(batch))]


def has(texts: list[str], pattern: str) -> NDArray[np.bool_]:
    """(N,): images whose description has a line that begins with a pattern."""
    return np.array([re.search(f"^{pattern}", text, re.MULTILINE) is not None for text in texts])


def numbers(texts: list[str], pattern: str) -> NDArray[np.float64]:
    """(M, K): the groups of a pattern, of each place in the descriptions that has it."""
    return np.array([found.groups() for text in texts for found in re.finditer(pattern, text)], np.float64)


def shares_of(x: gi.Batch, pixels: int) -> NDArray[np.float64]:
    """Shares of the source's pixels that crops show; those of mirrored ones are negative."""
    moved = gi.transform_points(x, np.tile([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)], (len(x), 1, 1)))
    return np.asarray(x.sizes.prod(1) / np.linalg.det(moved[:, 1:] - moved[:, :1]) / pixels)
