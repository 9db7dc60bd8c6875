"""Tests of distributions: p values, written out so that the tests need no SciPy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpuimg as gi

#: Draws of a test, and the p value below which it fails; seeds are fixed, so a test that passes keeps passing.
COUNT = 12_000
SMALLEST = 0.001


def rng(seed: int = 1, n: int = COUNT) -> gi.Rng:
    """The generator of samples 0 to n - 1."""
    return gi.Rng(seed, indices=np.arange(n))


def kolmogorov_smirnov(sample: Any, cdf: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
    """The p value of a sample from a continuous distribution (asymptotic, with Stephens's correction of 1970)."""
    values = np.sort(np.asarray(sample, np.float64).ravel())
    n = len(values)
    expected = cdf(values)
    steps = np.arange(n + 1) / n
    return _p_value(max(float(np.max(steps[1:] - expected)), float(np.max(expected - steps[:-1]))), n)


def same_distribution(one: Any, other: Any) -> float:
    """The p value of two samples being from one distribution; of a discrete distribution it is larger."""
    first, second = np.sort(np.asarray(one, np.float64)), np.sort(np.asarray(other, np.float64))
    both = np.concatenate([first, second])
    shares = [np.searchsorted(sample, both, side="right") / len(sample) for sample in (first, second)]
    return _p_value(float(np.max(np.abs(shares[0] - shares[1]))), len(first) * len(second) / len(both))


def _p_value(distance: float, n: float) -> float:
    root = math.sqrt(n)
    x = (root + 0.12 + 0.11 / root) * distance
    if x < 0.2:  # the series does not converge there, and the p value is 1 to twelve digits
        return 1.0
    return min(max(2.0 * sum((-1.0) ** (k - 1) * math.exp(-2.0 * (k * x) ** 2) for k in range(1, 101)), 0.0), 1.0)


def chi_square(counts: Any, shares: Any = None) -> float:
    """The p value of counts; their expected shares are equal by default."""
    observed = np.asarray(counts, np.float64).ravel()
    n = len(observed)
    share = np.full(n, 1.0 / n) if shares is None else np.asarray(shares, np.float64)
    expected = share / share.sum() * observed.sum()
    half = float(np.sum((observed - expected) ** 2 / expected)) / 2.0
    # The regularised upper incomplete gamma function of a = (n - 1) / 2, from that of 1/2 or 1 upwards.
    a, p = (0.5, math.erfc(math.sqrt(half))) if n % 2 == 0 else (1.0, math.exp(-half))
    while a < (n - 1) / 2 - 0.25:
        p += math.exp(a * math.log(half) - half - math.lgamma(a + 1.0)) if half else 0.0
        a += 1.0
    return p


def uniform(low: float, high: float) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Distribution function of the uniform distribution."""
    return lambda x: np.clip((x - low) / (high - low), 0.0, 1.0)


def assert_uniform(sample: Any, low: float, high: float) -> None:
    """The sample is from [low, high], spread evenly."""
    values = np.asarray(sample, np.float64)
    slack = 1e-5 * max(abs(low), abs(high))  # of what was recovered from float32
    assert values.min() >= low - slack
    assert values.max() <= high + slack
    assert kolmogorov_smirnov(values, uniform(low, high)) > SMALLEST


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
    """The description of each image."""
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
