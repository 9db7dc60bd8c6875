"""Awkward images, chains over them that the tests of kernels share, and how close results are to the CPU's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg.kernels import cuda as kernels
from gpuimg.kernels import ops

from .device import Launches

Chain = Callable[[Any], gi.Batch]

RANDOM = np.random.default_rng()
SIZES = [(1, 1), (1, 9), (11, 1), (13, 7), (9, 33)]
_NEAR = 1e-4


def images_of(source: str, channels: int = 3, sizes: Any = SIZES) -> list[Any]:
    """Random images of a dtype."""
    images = [RANDOM.integers(0, 256, (*size, channels), np.uint8) for size in sizes]
    return images if source == "uint8" else [(image / 255).astype(np.float32) for image in images]


def on_device(launches: Launches, images: list[Any]) -> list[Any]:
    """The same in the fake's memory."""
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


# -- chains ------------------------------------------------------------------------------------------------------------


def shrunk(x: Any) -> gi.Batch:
    """A filter that mirrors nothing, and colors."""
    return gi.horizontal_flip(gi.adjust_saturation(gi.resize(x, (15, 17), "bicubic"), 1.7))


def measured(x: Any) -> gi.Batch:
    """Means and ranges, over two grids."""
    x = gi.adjust_contrast(gi.resize(x, (12, 11)), 0.6)
    x = gi.autocontrast(gi.rotate(x, 20, "bilinear"), where=np.arange(len(x)) % 2 == 0)
    return gi.adjust_contrast(x, 1.4)


def equalized(x: Any) -> gi.Batch:
    """Histograms, of two blocks of threads.

    Of values that the images hold: an interpolated one may lie so close to the border of two levels that CPU and GPU,
    1e-6 apart, count it on either side, and then all pixels of a level differ by 1/255.
    """
    return gi.equalize(gi.resize(x, (33, 34), "nearest"), where=np.arange(len(x)) % 3 > 0)


# For images of one size, because earlier resizing would be resampled in a separate pass.


def mirrored(x: Any) -> gi.Batch:
    """Pad with mirrored pixels by more than the image, change colors by the rare formulas, and permute the channels.

    The threshold is no value that HSV makes of bytes: CPU and GPU, 1e-6 apart, could be on either side of one.
    """
    x = gi.pad(x, (9, 2, 0, 7), padding_mode="reflect", where=np.arange(len(x)) >= 0)
    x = gi.adjust_hsv(x, np.linspace(-1.0, 1.0, len(x)), np.linspace(0.0, 3.0, len(x)), 1.2)
    x = gi.solarize_add(x, 0.3, 0.61803)
    return gi.permute_channels(x, (1, 2, 0) if x.channels == 3 else (0,))


def moved(x: Any) -> gi.Batch:
    """Averaged along lines."""
    return gi.adjust_saturation(gi.motion_blur(x, np.arange(len(x)) * 3 + 1, np.arange(len(x)) * 77.0), 1.3)


def contrasted(x: Any) -> gi.Batch:
    """Ranges and means."""
    return gi.adjust_contrast(gi.autocontrast(x), 1.4)


# -- statistics of many blocks -----------------------------------------------------------------------------------------


def use_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics of bytes in blocks of two warps, so that a small image has many."""
    made = kernels.statistics_kernel((), "uint8", ops.PLAIN)
    monkeypatch.setattr(kernels.Kernel, "all", [])
    smaller = kernels.Kernel(made.name, made.code, made.arguments, 64)
    smaller.bounds = made.bounds  # the same code
    monkeypatch.setattr(kernels, "statistics_kernel", lambda *_: smaller)
