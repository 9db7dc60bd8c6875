"""Random geometry: each function against a public one, or a formula, with what the generator draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from .. import references
from ..compare import GEOMETRY, assert_close, assert_same
from ..references import to_unit
from ..samples import pictures
from .distributions import COUNT, SMALLEST, assert_evenly_spread, assert_uniform, chi_square, rng


def resized_crop_box(
    height: int, width: int, unit: NDArray[np.float64], scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[int, int, int, int]:
    """Top, left, height and width as torchvision draws them, for one image, from 22 numbers in [0, 1)."""
    for k in range(10):
        area = height * width * (scale[0] + (scale[1] - scale[0]) * float(unit[k]))
        low, high = math.log(ratio[0]), math.log(ratio[1])
        aspect = math.exp(low + (high - low) * float(unit[10 + k]))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return math.floor(unit[20] * (height - h + 1)), math.floor(unit[21] * (width - w + 1)), h, w
    if width / height < ratio[0]:
        w, h = width, round(width / ratio[0])
    elif width / height > ratio[1]:
        w, h = round(height * ratio[1]), height
    else:
        w, h = width, height
    return (height - h) // 2, (width - w) // 2, h, w


def boxes_of(x: gi.Batch) -> Any:
    """Top, left, height and width of the parts that a batch of crops shows: where points of its images are."""
    first, one = gi.transform_points(x, np.tile([(0.0, 0.0), (1.0, 1.0)], (len(x), 1, 1))).transpose(1, 0, 2)
    return np.rint(np.hstack([-first / (one - first), x.sizes[:, ::-1] / (one - first)])[:, [1, 0, 3, 2]]).astype(int)


#: The last ones fall back to the middle, or to the whole image: too wide, too tall, no drawn aspect fits, no area.
RANGES = [
    ((0.08, 1.0), (3 / 4, 4 / 3)), ((0.9, 1.0), (0.5, 2.0)), ((0.2, 0.2), (1.0, 1.0)), ((1e-5, 0.3), (0.1, 10.0)),
    ((1.0, 1.0), (3.0, 4.0)), ((1.0, 1.0), (3 / 4, 4 / 3)), ((1.0, 1.0), (1.2, 1.3)), ((0.0, 0.0), (3 / 4, 4 / 3)),
]  # fmt: skip


@pytest.mark.parametrize(("scale", "ratio"), RANGES)
def test_resized_crop_boxes_are_those_of_the_loop(scale: tuple[float, float], ratio: tuple[float, float]) -> None:
    sizes = np.random.default_rng().integers(2, 90, (1000, 2))
    sizes[:4] = (10, 400), (400, 10), (2, 2), (10, 11)
    x = gi.random_resized_crop([np.zeros((*size, 1), np.uint8) for size in sizes], 8, scale, ratio, rng=rng(1, 1000))
    each = zip(sizes.tolist(), rng(1, 1000).units(22), strict=True)
    np.testing.assert_array_equal(boxes_of(x), [resized_crop_box(*size, unit, scale, ratio) for size, unit in each])


@pytest.mark.parametrize(
    ("interpolation", "antialias"), [("bilinear", True), ("bilinear", False), ("bicubic", True), ("nearest", True)]
)
def test_resized_crop_is_a_crop_then_a_resize(interpolation: str, antialias: bool) -> None:
    images = pictures([(40, 31), (17, 60), (33, 32), (5, 7), (64, 64)], "float32")
    options: dict[str, Any] = {"interpolation": interpolation, "antialias": antialias}
    x = gi.random_resized_crop(images, (16, 13), (0.1, 0.9), **options, rng=rng(5, 5))
    each = zip(images, rng(5, 5).units(22), strict=True)
    boxes = [resized_crop_box(*p.shape[:2], unit, (0.1, 0.9), (3 / 4, 4 / 3)) for p, unit in each]
    cut = [references.crop(to_unit(picture), *box) for picture, box in zip(images, boxes, strict=True)]
    assert_close(x, [references.resize(picture, 16, 13, interpolation, antialias) for picture in cut], GEOMETRY)


def cropped(size: Any, padding: Any = None, **options: Any) -> Callable[[Any, gi.Rng], gi.Batch]:
    def run(x: Any, draws: gi.Rng) -> gi.Batch:
        x = gi.pad(x, padding or 0, **options)
        corner = np.floor(draws.units(2) * (x.sizes - size + 1))
        return gi.crop(x, corner[:, 0], corner[:, 1], *size)

    return run


def rotated(low: float, high: float, **options: Any) -> Callable[[Any, gi.Rng], gi.Batch]:
    return lambda x, draws: gi.rotate(x, draws.uniform(low, high), **options)


def turned(degrees: Any, translate: Any, scale: Any, *shears: Any, **options: Any) -> Callable[[Any, gi.Rng], gi.Batch]:
    def run(x: Any, draws: gi.Rng) -> gi.Batch:
        most = gi.pad(x, 0).sizes[:, ::-1] * translate
        turn = draws.uniform(*degrees)
        shift = np.round([draws.uniform(-most[:, k], most[:, k]) for k in (0, 1)]).T
        factor, *shear = (draws.uniform(*limits) for limits in (scale, *shears))
        return gi.affine(x, turn, shift, factor, np.stack(shear, 1), "bilinear", **options)

    return run


def tilted(scale: float, p: float) -> Callable[[Any, gi.Rng], gi.Batch]:
    """Each corner moves inwards, by up to ``scale`` of half the side, rounded down twice."""

    def run(x: Any, draws: gi.Rng) -> gi.Batch:
        where, last = draws.bernoulli(p), gi.pad(x, 0).sizes[:, None, ::-1] - 1
        start = np.array([(0, 0), (1, 0), (1, 1), (0, 1)]) * last
        most = np.floor(scale * ((last + 1) // 2))
        end = np.where(start > 0, start - most, 0) + np.floor(draws.units(8).reshape(-1, 4, 2) * (most + 1))
        return gi.perspective(x, start, end, where=where)

    return run


DRAWN: list[tuple[str, tuple[Any, ...], dict[str, Any], Callable[[Any, gi.Rng], gi.Batch]]] = [
    ("random_crop", ((8, 7),), {}, cropped((8, 7))),
    ("random_crop", (8,), {"padding": (1, 2, 3, 0), "fill": 50}, cropped((8, 8), (1, 2, 3, 0), fill=50)),
    ("random_horizontal_flip", (0.1,), {}, lambda x, draws: gi.horizontal_flip(x, where=draws.bernoulli(0.1))),
    ("random_vertical_flip", (), {}, lambda x, draws: gi.vertical_flip(x, where=draws.bernoulli(0.5))),
    ("random_rotation", (30,), {}, rotated(-30, 30)),
    ("random_rotation", ([20.0, 70.0],), {"expand": True}, rotated(20, 70, expand=True)),
    ("random_rotation", ((-70, 20),), {"interpolation": "bilinear", "fill": 9},
     rotated(-70, 20, interpolation="bilinear", fill=9)),
    ("random_rotation", ((-5, 170),), {"center": (3, 4), "interpolation": "bicubic"},
     rotated(-5, 170, center=(3, 4), interpolation="bicubic")),
    ("random_affine", (40, (0.1, 0.2), (0.8, 1.2), (-9, 9, -4, 4), "bilinear", 9, (5, 6)), {},
     turned((-40, 40), (0.1, 0.2), (0.8, 1.2), (-9, 9), (-4, 4), fill=9, center=(5, 6))),
    ("random_affine", ((10, 60), (0.5, 1 / 3)), {"shear": 15, "interpolation": "bilinear"},
     turned((10, 60), (0.5, 1 / 3), (1, 1), (-15, 15), (0, 0))),
    ("random_affine", (0,), {"scale": (0.5, 1.7), "shear": (-3, 40), "interpolation": "bilinear"},
     turned((0, 0), (0, 0), (0.5, 1.7), (-3, 40), (0, 0))),
    ("random_perspective", (0.3, 0.7), {}, tilted(0.3, 0.7)),
    ("random_perspective", (0.6,), {}, tilted(0.6, 0.5)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "options", "expected"), DRAWN)
def test_random_is_public_with_its_draws(name: str, given: Any, options: Any, expected: Any) -> None:
    images = pictures([(20, 30), (12, 9), (8, 8), (31, 33)] * 10)
    x = getattr(gi, name)(images, *given, **options, rng=rng(13, 40))
    assert_same(list(x.compute()), list(expected(images, rng(13, 40)).compute()))


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


def test_random_resize_draws_the_shorter_side() -> None:
    x = gi.random_resize(np.zeros((COUNT, 6, 9, 1), np.uint8), 4, 11, rng=rng(26))
    assert_evenly_spread(x.sizes[:, 0], 4, 11)
    np.testing.assert_array_equal(x.sizes[:, 1], x.sizes[:, 0] * 9 // 6)


def test_short_sides_limited_by_the_longer() -> None:
    x = gi.random_short_side_resize(np.zeros((COUNT, 12, 8, 1), np.uint8), [4, 7, 9], 12, rng=rng(27))
    found, counts = np.unique(x.sizes, axis=0, return_counts=True)
    assert found.tolist() == [[6, 4], [10, 7], [12, 8]]
    assert chi_square(counts) > SMALLEST
    # Exactly, where a product of floating-point numbers falls below: 49 * (1 / 49) < 1.
    assert gi.random_short_side_resize(np.zeros((1, 49, 49, 1), np.uint8), [1], rng=0).sizes.tolist() == [[1, 1]]


def test_scale_jitter_multiplies_what_fits() -> None:
    x = gi.scale_jitter(np.zeros((COUNT, 30, 40, 1), np.uint8), (300, 200), (0.5, 3.0), rng=rng(28))
    assert_uniform(x.sizes[:, 1] / 200 + np.random.default_rng(0).random(COUNT) / 200, 0.5, 3.01)
    np.testing.assert_allclose(x.sizes[:, 0], x.sizes[:, 1] * 0.75, atol=1)
    assert gi.scale_jitter(pictures([(30, 40)]), (60, 60), (0.5, 0.5), rng=0).sizes.tolist() == [[22, 30]]
    assert gi.scale_jitter(pictures([(30, 40)]), 1, (0.01, 0.01), rng=0).sizes.tolist() == [[1, 1]]
