"""Awkward images, and how close results are to the CPU's."""

from typing import Any

import numpy as np

from .device import Launches

RANDOM = np.random.default_rng()
SIZES = [(1, 1), (1, 9), (11, 1), (13, 7), (9, 33)]
_NEAR = 1e-4


def images_of(source: str, channels: int = 3, sizes: Any = SIZES) -> list[Any]:
    images = [RANDOM.integers(0, 256, (*size, channels), np.uint8) for size in sizes]
    return images if source == "uint8" else [(image / 255).astype(np.float32) for image in images]


def on_device(launches: Launches, images: list[Any]) -> list[Any]:
    return [launches.gpu.cupy.asarray(image) for image in images]


# -- how close ---------------------------------------------------------------------------------------------------------


def stored(exact: Any, dtype: Any) -> Any:
    """Values in units of 1 as a result of a dtype holds them, in float32."""
    if dtype == np.uint8:
        return np.rint(np.clip(exact, 0, 1) * np.float32(255))
    return exact.astype(dtype).astype(np.float32)


def assert_close(found: Any, exact: Any) -> None:
    """Results of a kernel are those of the CPU, which are given in float32.

    float32 is within 1e-4 of 1. Other dtypes hold what a number as near as that is rounded to: they differ from the
    CPU's only where that is on the border between two values.
    """
    assert found.shape == exact.shape
    if found.dtype == np.float32:
        np.testing.assert_allclose(found, exact, rtol=0, atol=_NEAR, equal_nan=False)
        return
    low, high = (stored(exact + np.float32(shift), found.dtype) for shift in (-_NEAR, _NEAR))
    wrong = ~((low <= found.astype(np.float32)) & (found.astype(np.float32) <= high))
    assert not wrong.any(), f"{found[wrong][:9]} of {exact[wrong][:9]}; {wrong.mean():.2%} of all"


def assert_few_apart(found: list[Any], expected: list[Any], exact: list[Any]) -> None:
    """Bytes are the CPU's, and one more or less for at most 0.1 % of its values, which are given in float32 too.

    Each value counts once: of an image that is one pixel wide a whole row has it.
    """
    values, one, other = (np.concatenate([part.ravel() for part in parts]) for parts in (exact, found, expected))
    difference = np.abs(one.astype(np.int32) - other)
    apart, count = len(np.unique(values[difference > 0])), len(np.unique(values))
    assert difference.max() <= 1
    assert apart <= 0.001 * count, f"{apart} of {count} values"
