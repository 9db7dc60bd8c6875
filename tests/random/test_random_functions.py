"""Random functions: each against public ones, or a formula, with what the generator draws."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from .. import references
from ..compare import assert_same
from ..samples import image, pictures
from .distributions import COUNT, rng

SIZES = [(8, 9), (31, 32), (33, 31), (12, 40), (8, 8), (64, 7)]
Run = Callable[[Any, gi.Rng], gi.Batch]


# -- crops and erased rectangles ---------------------------------------------------------------------------------------


def tries(area: int, unit: Any, scale: Any, ratio: Any) -> Iterator[tuple[int, int]]:
    """The sides of ten rectangles as torchvision draws them, for one image: first that which ``ratio`` divides."""
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for k in range(10):
        part = area * (scale[0] + (scale[1] - scale[0]) * float(unit[k]))
        aspect = math.exp(low + (high - low) * float(unit[10 + k]))
        yield round(math.sqrt(part * aspect)), round(math.sqrt(part / aspect))


def placed(height: int, width: int, unit: Any, h: int, w: int) -> tuple[int, int, int, int]:
    return math.floor(unit[20] * (height - h + 1)), math.floor(unit[21] * (width - w + 1)), h, w


def resized_crop_box(height: int, width: int, unit: Any, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
    """Top, left, height and width as torchvision draws them, for one image, from 22 numbers in [0, 1)."""
    for w, h in tries(height * width, unit, scale, ratio):
        if 0 < w <= width and 0 < h <= height:
            return placed(height, width, unit, h, w)
    if width / height < ratio[0]:
        w, h = width, round(width / ratio[0])
    elif width / height > ratio[1]:
        w, h = round(height * ratio[1]), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w


#: The last ones fall back to the middle, or to the whole image: too wide, too tall, no drawn aspect fits, no area.
RANGES = [
    ((0.08, 1.0), (3 / 4, 4 / 3)), ((0.9, 1.0), (0.5, 2.0)), ((0.2, 0.2), (1.0, 1.0)), ((1e-5, 0.3), (0.1, 10.0)),
    ((1.0, 1.0), (3.0, 4.0)), ((1.0, 1.0), (3 / 4, 4 / 3)), ((1.0, 1.0), (1.2, 1.3)), ((0.0, 0.0), (3 / 4, 4 / 3)),
]  # fmt: skip


def seeds(draws: gi.Rng) -> NDArray[np.int64]:
    return (draws.words(1)[:, 0] >> np.uint64(16)).astype(np.int64)


def erased_box(height: int, width: int, unit: Any, scale: Any, ratio: Any) -> tuple[int, int, int, int] | None:
    """Top, left, height and width as torchvision draws them, for one image, from 22 numbers in [0, 1)."""
    fitting = (box for box in tries(height * width, unit, scale, ratio) if box[0] < height and box[1] < width)
    return next((placed(height, width, unit, *box) for box in fitting), None)


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


# -- all others ------------------------------------------------------------------------------------------------------


def cropped(size: Any, padding: Any = None, **options: Any) -> Run:
    def run(x: Any, draws: gi.Rng) -> gi.Batch:
        x = gi.pad(x, padding or 0, **options)
        corner = np.floor(draws.units(2) * (x.sizes - size + 1))
        return gi.crop(x, corner[:, 0], corner[:, 1], *size)

    return run


def rotated(low: float, high: float, **options: Any) -> Run:
    return lambda x, draws: gi.rotate(x, draws.uniform(low, high), **options)


def turned(degrees: Any, translate: Any, scale: Any, *shears: Any, **options: Any) -> Run:
    def run(x: Any, draws: gi.Rng) -> gi.Batch:
        most = gi.pad(x, 0).sizes[:, ::-1] * translate
        turn = draws.uniform(*degrees)
        shift = np.round([draws.uniform(-most[:, k], most[:, k]) for k in (0, 1)]).T
        factor, *shear = (draws.uniform(*limits) for limits in (scale, *shears))
        return gi.affine(x, turn, shift, factor, np.stack(shear, 1), "bilinear", **options)

    return run


def tilted(scale: float, p: float) -> Run:
    """Each corner moves inwards, by up to ``scale`` of half the side, rounded down twice."""

    def run(x: Any, draws: gi.Rng) -> gi.Batch:
        where, last = draws.bernoulli(p), gi.pad(x, 0).sizes[:, None, ::-1] - 1
        start = np.array([(0, 0), (1, 0), (1, 1), (0, 1)]) * last
        most = np.floor(scale * ((last + 1) // 2))
        end = np.where(start > 0, start - most, 0) + np.floor(draws.units(8).reshape(-1, 4, 2) * (most + 1))
        return gi.perspective(x, start, end, where=where)

    return run


def hsv(hue: float, saturation: float, value: float, p: float = 1.0) -> Run:
    def run(x: Any, draws: gi.Rng) -> gi.Batch:
        turns, *gains = (draws.uniform(-most, most) for most in (hue, saturation, value))
        return gi.adjust_hsv(x, turns, *(1 + gain for gain in gains), where=draws.bernoulli(p))

    return run


def drawn_after(p: float, function: Callable[[Any, gi.Rng, Any], gi.Batch]) -> Run:
    """A function whose parameters are drawn after the choice of images."""
    return lambda x, draws: function(x, draws, draws.bernoulli(p))


def chosen(plain: Callable[..., gi.Batch], p: float = 0.5) -> Run:
    """A function of fixed parameters on the images that one Bernoulli draw chooses."""
    return drawn_after(p, lambda x, _, where: plain(x, where=where))


def blur(low: float, high: float, p: float = 1.0, size: Any = 5) -> Run:
    return drawn_after(p, lambda x, draws, where: gi.gaussian_blur(x, size, draws.uniform(low, high), where=where))


def artefacts(low: int, high: int, p: float = 1.0) -> Run:
    return drawn_after(p, lambda x, draws, where: gi.jpeg(x, draws.integers(low, high + 1), where=where))


motion = drawn_after(
    0.4, lambda x, draws, where: gi.motion_blur(x, draws.integers(2, 7), draws.uniform(-30, 50), where=where)
)
noise = drawn_after(
    0.3, lambda x, draws, where: gi.gaussian_noise(x, 0.5, draws.uniform(0.1, 0.4), seed=seeds(draws), where=where)
)
elastic = drawn_after(0.5, lambda x, draws, where: gi.elastic(x, 60, 4, seed=seeds(draws), where=where))
grid = drawn_after(0.6, lambda x, draws, where: gi.grid_mask(
    x, draws.uniform(4, 9), 0.3, draws.uniform(-20, 60), draws.units(2), where=where
))  # fmt: skip
permuted = drawn_after(0.75, lambda x, draws, where: gi.permute_channels(x, draws.permutation(3), where=where))


def rainy(x: Any, draws: gi.Rng) -> gi.Batch:
    where = draws.bernoulli(0.6)
    ranges = ((0.2, 1), (3, 9), (2, 2), (-30, 50), (1, 1), (0.4, 0.6))
    amount, length, width, angle, opacity, brightness = (draws.uniform(*each) for each in ranges)
    x = gi.adjust_brightness(x, brightness, where=where)
    return gi.rain(x, amount, length, width, angle, 200, opacity, seed=seeds(draws), where=where)


def shady(x: Any, draws: gi.Rng) -> gi.Batch:
    where, count, batch = draws.bernoulli(0.6), draws.integers(1, 4), gi.pad(x, 0)
    for k in range(3):
        corners = (draws.units(10).reshape(-1, 5, 2) * [0.7, 0.8] + [0.1, 0.2]) * batch.sizes[:, None, ::-1]
        batch = gi.shadow(batch, corners, draws.uniform(0.2, 0.6), where=where & (k < count))
    return batch


def toned(x: Any, draws: gi.Rng) -> gi.Batch:
    """Through points at the ends, and near a quarter and three quarters."""
    where, t = draws.bernoulli(0.6), np.arange(256)[None] / 255
    a, b = (np.clip(middle + 0.2 * draws.normal(), 0, 1)[:, None] for middle in (0.25, 0.75))
    curves = 3 * t * (1 - t) ** 2 * a + 3 * t**2 * (1 - t) * b + t**3
    return gi.lookup_table(x, curves[..., None] * 255, where=where)


def dropout(value: Any) -> Run:
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


def cropped_and_resized(scale: Any, ratio: Any = (3 / 4, 4 / 3), **options: Any) -> Run:
    def run(x: Any, draws: gi.Rng) -> gi.Batch:
        each = zip(x, draws.units(22), strict=True)
        boxes = [resized_crop_box(*picture.shape[:2], unit, scale, ratio) for picture, unit in each]
        return gi.resized_crop(x, *np.array(boxes).T, (16, 13), **options)

    return run


def rescaled(x: Any, draws: gi.Rng) -> gi.Batch:
    """By a multiple of what fits 300 x 200."""
    sizes = gi.pad(x, 0).sizes
    multiple = draws.uniform(0.01, 3.0) * np.min([300, 200] / sizes, 1)
    return gi.resize(x, np.maximum(np.floor(sizes * multiple[:, None]), 1).astype(int))


def short_sided_by(x: Any, lengths: Any, most: int | None) -> gi.Batch:
    each = zip(gi.pad(x, 0).sizes.tolist(), lengths.tolist(), strict=True)
    return gi.resize(x, np.array([references.short_side(*size, length, most) for size, length in each]))


# Of each image.
THRESHOLDS, BITS, FACTORS = [0, 50, 100, 150, 200, 255] * 20, [1, 2, 3, 4, 5, 6] * 20, [0, 0.5, 1, 2, 3, 4] * 20
#: Arguments, and the same by public functions.
DRAWN: list[tuple[str, tuple[Any, ...] | dict[str, Any], Run]] = [
    ("random_crop", ((8, 7),), cropped((8, 7))),
    ("random_crop", {"size": 8, "padding": (1, 2, 3, 0), "fill": 50}, cropped((8, 8), (1, 2, 3, 0), fill=50)),
    *(("random_resized_crop", ((16, 13), *ranges), cropped_and_resized(*ranges)) for ranges in RANGES),
    ("random_resized_crop", {"size": (16, 13), "scale": (0.1, 0.9), "interpolation": "bicubic", "antialias": False},
     cropped_and_resized((0.1, 0.9), interpolation="bicubic", antialias=False)),
    ("random_resize", (4, 11), lambda x, draws: short_sided_by(x, draws.integers(4, 12), None)),
    ("random_short_side_resize", ([4, 7, 9], 12), lambda x, draws: short_sided_by(x, draws.choice([4, 7, 9]), 12)),
    ("scale_jitter", ((300, 200), (0.01, 3.0)), rescaled),
    ("random_horizontal_flip", (0.1,), chosen(gi.horizontal_flip, 0.1)),
    ("random_vertical_flip", (), chosen(gi.vertical_flip)),
    ("random_rotation", (30,), rotated(-30, 30)),
    ("random_rotation", {"degrees": [20.0, 70.0], "expand": True}, rotated(20, 70, expand=True)),
    ("random_rotation", {"degrees": (-70, 20), "interpolation": "bilinear", "fill": 9},
     rotated(-70, 20, interpolation="bilinear", fill=9)),
    ("random_rotation", {"degrees": (-5, 170), "center": (3, 4), "interpolation": "bicubic"},
     rotated(-5, 170, center=(3, 4), interpolation="bicubic")),
    ("random_affine", (40, (0.1, 0.2), (0.8, 1.2), (-9, 9, -4, 4), "bilinear", 9, (5, 6)),
     turned((-40, 40), (0.1, 0.2), (0.8, 1.2), (-9, 9), (-4, 4), fill=9, center=(5, 6))),
    ("random_affine", {"degrees": (10, 60), "translate": (0.5, 1 / 3), "shear": 15, "interpolation": "bilinear"},
     turned((10, 60), (0.5, 1 / 3), (1, 1), (-15, 15), (0, 0))),
    ("random_affine", {"degrees": 0, "scale": (0.5, 1.7), "shear": (-3, 40), "interpolation": "bilinear"},
     turned((0, 0), (0, 0), (0.5, 1.7), (-3, 40), (0, 0))),
    ("random_perspective", (0.3, 0.7), tilted(0.3, 0.7)),
    ("random_perspective", (0.6,), tilted(0.6, 0.5)),
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
    ("random_channel_dropout", (2, 9, 0.6), drawn_after(0.6, lambda x, draws, where: gi.channel_dropout(
        x, draws.permutation(3) < 2, 9, where=where))),
    ("random_rgb_shift", ((0.1, 0.2, 0), 0.6), drawn_after(0.6, lambda x, draws, where: gi.rgb_shift(
        x, np.stack([draws.uniform(-a, a) * 255 for a in (0.1, 0.2, 0)], 1), where=where))),
    ("random_salt_and_pepper", ((0.1, 0.3), 0.2, True, 0.6), drawn_after(0.6, lambda x, draws, where: (
        gi.salt_and_pepper(x, draws.uniform(0.1, 0.3), 0.2, True, seed=seeds(draws), where=where)))),
    ("random_shot_noise", ((5, 80), 0.6), drawn_after(0.6, lambda x, draws, where: gi.shot_noise(
        x, np.exp(draws.uniform(math.log(5), math.log(80))), seed=seeds(draws), where=where))),
    ("random_fog", (0.3, (0.1, 0.9), 40, 0.6), drawn_after(0.6, lambda x, draws, where: gi.fog(
        x, draws.uniform(0.3, 0.3), np.maximum(draws.uniform(0.1, 0.9) * gi.pad(x, 0).sizes.max(1), 1), 40,
        seed=seeds(draws), where=where))),
    ("random_rain", ((0.2, 1), (3, 9), 2, (-30, 50), 200, 1, (0.4, 0.6), 0.6), rainy),
    ("random_shadow", ((0.2, 0.6), (1, 3), (0.1, 0.2, 0.8, 1), 0.6), shady),
    ("random_emboss", ((0.1, 0.9), 0.7, 0.6), drawn_after(0.6, lambda x, draws, where: gi.emboss(
        x, draws.uniform(0.1, 0.9), draws.uniform(0.7, 0.7), where=where))),
    ("random_median_blur", ((3, 5), 0.6), drawn_after(0.6, lambda x, draws, where: gi.median_blur(
        x, 2 * draws.integers(1, 3) + 1, where=where))),
    ("random_box_blur", ((2, 5), 0.6), drawn_after(0.6, lambda x, draws, where: gi.box_blur(
        x, draws.integers(2, 6), where=where))),
    ("random_morphology", ("close", (2, 5), "cross", 0.6), drawn_after(0.6, lambda x, draws, where: gi.morphology(
        x, "close", draws.integers(2, 6), "cross", where=where))),
    ("random_clahe", (2.5, (3, 2), 0.6), drawn_after(0.6, lambda x, draws, where: gi.clahe(
        x, draws.uniform(2.5, 2.5), (3, 2), where=where))),
    ("random_tone_curve", (0.2, 0.6), toned),
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
    images = pictures(SIZES * 20)
    positional, named = ((), given) if isinstance(given, dict) else (given, {})
    x = getattr(gi, name)(images, *positional, **named, rng=rng(7, 120))
    assert_same(list(x.compute()), list(expected(images, rng(7, 120)).compute()))


@pytest.mark.parametrize("name", [
    "random_grayscale", "random_invert", "random_autocontrast", "random_equalize", "random_channel_permutation",
    "random_erasing",
])  # fmt: skip
def test_probabilities_of_none_all_and_each(name: str) -> None:
    images, function = pictures(SIZES), getattr(gi, name)
    assert_same(list(function(images, 0, rng=0)), images)
    where, whole = [True, False, False, True, True, False], list(function(images, 1, rng=0))
    expected = [whole[i] if use else images[i] for i, use in enumerate(where)]
    assert_same(list(function(images, np.array(where, float), rng=0)), expected)


def test_crop_pads_what_is_missing_on_both_sides() -> None:
    images = pictures([(3, 20), (9, 9)])
    x = gi.random_crop(images, 8, pad_if_needed=True, padding_mode="edge", rng=rng(9, 2))
    padded = [np.pad(images[0], ((5, 5), (0, 0), (0, 0)), mode="edge"), images[1]]
    corners = (gi.Rng(9, indices=[0, 1]).units(2) * [[6, 13], [2, 2]]).astype(int).tolist()
    assert_same(list(x), [p[top : top + 8, left : left + 8] for p, (top, left) in zip(padded, corners, strict=True)])


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (2, 2), (3, 3), (5, 4), (11, 11)])
def test_perspective_of_small_images_never_fails(size: tuple[int, int]) -> None:
    """Corners may meet or line up, which no perspective shows: such images stay as they are."""
    picture = np.random.default_rng().random((*size, 1), np.float32) + 1
    found = gi.random_perspective(np.tile(picture, (COUNT, 1, 1, 1)), 1.0, 1.0, rng=rng(25)).array()
    assert np.all(np.isfinite(found))
    kept = np.all(found == picture, (1, 2, 3))
    assert kept.all() if min(size) == 1 else 0 < kept.sum() < COUNT
