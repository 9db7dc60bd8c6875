"""Random color, erasing, noise and filters: each against public functions called with what the generator draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from ..compare import assert_same
from ..samples import image, pictures
from .distributions import rng

SIZES = [(7, 9), (31, 32), (33, 31), (12, 40), (8, 8), (64, 7)]


def seeds(draws: gi.Rng) -> NDArray[np.int64]:
    return (draws.words(1)[:, 0] >> np.uint64(16)).astype(np.int64)


Run = Callable[[Any, gi.Rng], gi.Batch]


def chosen(plain: Callable[..., gi.Batch], p: float = 0.5) -> Run:
    """A function of fixed parameters on the images that one Bernoulli draw chooses."""
    return lambda x, draws: plain(x, where=draws.bernoulli(p))


def hsv(hue: float, saturation: float, value: float, p: float = 1.0) -> Run:
    def run(x: Any, draws: gi.Rng) -> gi.Batch:
        turns, *gains = (draws.uniform(-most, most) for most in (hue, saturation, value))
        return gi.adjust_hsv(x, turns, *(1 + gain for gain in gains), where=draws.bernoulli(p))

    return run


def drawn_after(p: float, function: Callable[[Any, gi.Rng, Any], gi.Batch]) -> Run:
    """A function whose parameters are drawn after the choice of images."""
    return lambda x, draws: function(x, draws, draws.bernoulli(p))


def blur(low: float, high: float, p: float = 1.0, size: Any = 5) -> Run:
    return drawn_after(p, lambda x, draws, where: gi.gaussian_blur(x, size, draws.uniform(low, high), where=where))


def motion(x: Any, draws: gi.Rng) -> gi.Batch:
    where, length = draws.bernoulli(0.4), draws.integers(2, 7)
    return gi.motion_blur(x, length, draws.uniform(-30, 50), where=where)


def artefacts(low: int, high: int, p: float = 1.0) -> Run:
    return drawn_after(p, lambda x, draws, where: gi.jpeg(x, draws.integers(low, high + 1), where=where))


def noise(x: Any, draws: gi.Rng) -> gi.Batch:
    where, sigma = draws.bernoulli(0.3), draws.uniform(0.1, 0.4)
    return gi.gaussian_noise(x, 0.5, sigma, seed=seeds(draws), where=where)


def elastic(x: Any, draws: gi.Rng) -> gi.Batch:
    where = draws.bernoulli(0.5)
    return gi.elastic(x, 60, 4, seed=seeds(draws), where=where)


def grid(x: Any, draws: gi.Rng) -> gi.Batch:
    where, cell, angle = draws.bernoulli(0.6), draws.uniform(4, 9), draws.uniform(-20, 60)
    return gi.grid_mask(x, cell, 0.3, angle, draws.units(2), where=where)


permuted = drawn_after(0.75, lambda x, draws, where: gi.permute_channels(x, draws.permutation(3), where=where))


def dropout(value: Any) -> Callable[[Any, gi.Rng], gi.Batch]:
    """Two to five rectangles, of 0.2 to 0.5 of the height and 0.1 to 0.3 of the width."""

    def run(x: Any, draws: gi.Rng) -> gi.Batch:
        where, count = draws.bernoulli(0.8), draws.integers(2, 6)
        batch = gi.pad(x, 0)
        for k in range(5):
            unit = draws.units(4)
            sides = np.clip(np.round(([0.2, 0.1] + np.array([0.3, 0.2]) * unit[:, :2]) * batch.sizes), 1, batch.sizes)
            top, left = np.floor(unit[:, 2:] * (batch.sizes - sides + 1)).T
            seed = seeds(draws) if value == "random" else None
            batch = gi.erase(batch, top, left, sides[:, 0], sides[:, 1], value, seed=seed, where=where & (k < count))
        return batch

    return run


def jitter(*ranges: Any) -> Run:
    """Brightness, contrast, saturation and hue, each image in an order of its own."""

    def run(x: Any, draws: gi.Rng) -> gi.Batch:
        order, batch = draws.permutation(4), gi.pad(x, 0)
        factors = [draws.uniform(*(limits or (0, 0))) for limits in ranges]
        for place, k in itertools.product(range(4), range(4)):
            function = (gi.adjust_brightness, gi.adjust_contrast, gi.adjust_saturation, gi.adjust_hue)[k]
            batch = function(batch, factors[k], where=order[:, place] == k) if ranges[k] else batch
        return batch

    return run


def distorted(x: Any, draws: gi.Rng) -> gi.Batch:
    chance = [draws.bernoulli(0.5) for _ in range(4)]
    ranges = ((0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05))
    brightness, contrast, saturation, hue = (draws.uniform(*each) for each in ranges)
    before, mixed, order = draws.bernoulli(0.5), draws.bernoulli(0.5), draws.permutation(3)
    x = gi.adjust_brightness(x, brightness, where=chance[0])
    x = gi.adjust_contrast(x, contrast, where=chance[1] & before)
    x = gi.adjust_hue(gi.adjust_saturation(x, saturation, where=chance[2]), hue, where=chance[3])
    return gi.permute_channels(gi.adjust_contrast(x, contrast, where=chance[1] & ~before), order, where=mixed)


def one_of_three(x: Any, draws: gi.Rng) -> gi.Batch:
    which, sigma = draws.choice(3), draws.uniform(0.1, 2.0)
    x = gi.solarize(gi.rgb_to_grayscale(x, 3, where=which == 0), 128, where=which == 1)
    return gi.gaussian_blur(x, 13, sigma, where=which == 2)


# Of each image.
THRESHOLDS, BITS, FACTORS = [0, 50, 100, 150, 200, 255] * 20, [1, 2, 3, 4, 5, 6] * 20, [0, 0.5, 1, 2, 3, 4] * 20
# Arguments, and the same by public functions.
DRAWN: list[tuple[str, tuple[Any, ...], Callable[[Any, gi.Rng], gi.Batch]]] = [
    ("random_grayscale", (0.7,), chosen(lambda x, where: gi.rgb_to_grayscale(x, 3, where=where), 0.7)),
    ("random_invert", (), chosen(gi.invert)),
    ("random_solarize", (99,), chosen(lambda x, where: gi.solarize(x, 99, where=where))),
    ("random_solarize", (THRESHOLDS, 1), lambda x, _: gi.solarize(x, THRESHOLDS)),
    ("random_posterize", (3,), chosen(lambda x, where: gi.posterize(x, 3, where=where))),
    ("random_posterize", (BITS, 1), lambda x, _: gi.posterize(x, BITS)),
    ("random_autocontrast", (), chosen(gi.autocontrast)),
    ("random_equalize", (), chosen(gi.equalize)),
    ("random_sharpness", (2.0,), chosen(lambda x, where: gi.adjust_sharpness(x, 2.0, where=where))),
    ("random_sharpness", (FACTORS, 1), lambda x, _: gi.adjust_sharpness(x, FACTORS)),
    ("random_hsv", (0.3, 0.0, 1.0, 0.6), hsv(0.3, 0.0, 1.0, 0.6)),
    ("random_gaussian_blur", (5,), blur(0.1, 2.0)),
    ("random_gaussian_blur", (5, (0.3, 3), 0.5), blur(0.3, 3, 0.5)),
    ("random_gaussian_blur", ([3, 5], [1.3]), blur(1.3, 1.3, 1, (3, 5))),
    ("random_motion_blur", ((2, 6), (-30, 50), 0.4), motion),
    ("random_jpeg", ((20, 29), 0.3), artefacts(20, 29, 0.3)),
    ("random_jpeg", (30,), artefacts(30, 30)),
    ("random_gaussian_noise", (0.5, (0.1, 0.4), True, 0.3), noise),
    ("random_grid_mask", ((4, 9), 0.3, (-20, 60), 0, 0.6), grid),
    ("random_channel_permutation", (0.75,), permuted),
    ("coarse_dropout", ((2, 5), (0.2, 0.5), (0.1, 0.3), 9, 0.8), dropout(9)),
    ("coarse_dropout", ((2, 5), (0.2, 0.5), (0.1, 0.3), "random", 0.8), dropout("random")),
    ("random_elastic", (60, 4, "bilinear", 0, 0.5), elastic),
    ("color_jitter", (0.6, 0.5, (0.2, 1.9), 0.4), jitter((0.4, 1.6), (0.5, 1.5), (0.2, 1.9), (-0.4, 0.4))),
    ("color_jitter", (1.5, (2, 5), 2, (0.1, 0.4)), jitter((0, 2.5), (2, 5), (0, 3), (0.1, 0.4))),
    ("color_jitter", (None, 0, (1.0, 1.0), 0.2), jitter(None, None, None, (-0.2, 0.2))),
    ("random_photometric_distort", (), distorted),
    ("three_augment", (), one_of_three),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "expected"), DRAWN, ids=[f"{k} {row[0]}" for k, row in enumerate(DRAWN)])
def test_random_is_public_with_its_draws(name: str, given: Any, expected: Any) -> None:
    images = pictures(([(14, 17), (20, 16), (33, 18)] if name == "three_augment" else SIZES) * 20)
    x = getattr(gi, name)(images, *given, rng=rng(7, len(images)))
    assert_same(list(x.compute()), list(expected(images, rng(7, len(images))).compute()))


OPTIONAL = ["random_grayscale", "random_invert", "random_autocontrast", "random_equalize", "random_channel_permutation"]


@pytest.mark.parametrize("name", [*OPTIONAL, "random_erasing"])
def test_probabilities_of_none_all_and_each(name: str) -> None:
    images, function = pictures(SIZES), getattr(gi, name)
    assert_same(list(function(images, 0, rng=0)), images)
    where, whole = [True, False, False, True, True, False], list(function(images, 1, rng=0))
    expected = [whole[i] if use else images[i] for i, use in enumerate(where)]
    assert_same(list(function(images, np.array(where, float), rng=0)), expected)


def erased_box(height: int, width: int, unit: Any, scale: Any, ratio: Any) -> tuple[int, int, int, int] | None:
    """Top, left, height and width as torchvision draws them, for one image, from 22 numbers in [0, 1)."""
    for k in range(10):
        area = height * width * (scale[0] + (scale[1] - scale[0]) * float(unit[k]))
        low, high = math.log(ratio[0]), math.log(ratio[1])
        aspect = math.exp(low + (high - low) * float(unit[10 + k]))
        h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if h < height and w < width:
            return math.floor(unit[20] * (height - h + 1)), math.floor(unit[21] * (width - w + 1)), h, w
    return None


ERASING = [
    ((0.02, 0.33), (0.3, 3.3), 1, 7),
    ((0.5, 1.0), (0.2, 5.0), 1, (1, 2, 3)),
    ((0.1, 0.1), (1.0, 1.0), 1, "random"),
    ((0.06, 0.5), (0.5, 2.0), 3, "color"),
]


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(("scale", "ratio", "count", "value"), ERASING)
def test_erased_rectangles_are_those_drawn(scale: Any, ratio: Any, count: int, value: Any, normalized: bool) -> None:
    """Several share the area; a color is uniform, or normal after ``normalize``."""
    generator, n = np.random.default_rng(), 300
    images = [image(generator, h, w, 3, "float32") for h, w in generator.integers(1, 40, (n, 2)).tolist()]
    expected = x = gi.normalize(images, 0.5, 0.25) if normalized else gi.pad(images, 0)
    found = gi.random_erasing(x, 0.8, scale, ratio, value, count=count, rng=rng(8, n))
    draws = rng(8, n)
    where = draws.bernoulli(0.8)
    holes = draws.integers(1, count + 1) if count > 1 else np.ones(n, int)
    for k in range(count):
        units = draws.units(22)
        each = [tuple(limit / h for limit in scale) for h in holes.tolist()]
        boxes = [
            erased_box(p.shape[0], p.shape[1], unit, s, ratio) for p, unit, s in zip(images, units, each, strict=True)
        ]
        use = where & (k < holes) & [box is not None for box in boxes]
        v = value
        if value == "color":
            v = np.stack([draws.normal() if normalized else draws.uniform() for _ in range(3)], 1)
        seed = seeds(draws) if value == "random" else None
        sides = np.array([box or (0, 0, 0, 0) for box in boxes]).T
        expected = gi.erase(expected, sides[0], sides[1], sides[2], sides[3], v, seed=seed, where=use)
    assert_same(list(found.compute()), list(expected.compute()))
