"""Random geometry: what is drawn, read back from the plan, and what becomes of the pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._random.geometry import resized_crop_boxes

from .. import references
from ..compare import GEOMETRY, assert_close, assert_same
from ..references import to_unit
from ..samples import image
from .distributions import COUNT, SMALLEST, assert_evenly_spread, assert_share, assert_uniform, chi_square, rng


def blanks(height: int, width: int, n: int = COUNT) -> NDArray[np.uint8]:
    """Many images that are only recorded on."""
    return np.zeros((n, height, width, 1), np.uint8)


def pictures(sizes: list[tuple[int, int]], dtype: str = "uint8", channels: int = 3) -> list[NDArray[Any]]:
    generator = np.random.default_rng(0)
    return [image(generator, height, width, channels, dtype) for height, width in sizes]


def matrices(x: gi.Batch) -> NDArray[np.float64]:
    """(N, 3, 3), from the result's pixels to the source's."""
    return recording_of(x).plan.grid.frames[0].matrix


def corners(x: gi.Batch) -> NDArray[np.int64]:
    """(N, 2), row and column of the source at the corner of the result."""
    return matrices(x)[:, 1::-1, 2].astype(np.int64)


def forward(x: gi.Batch, around: tuple[float, float]) -> NDArray[np.float64]:
    """(N, 2, 3): where a point goes, both counted from ``around``."""
    shift = np.eye(3)
    shift[:2, 2] = around
    moved: NDArray[np.float64] = (np.linalg.inv(shift) @ np.linalg.inv(matrices(x)) @ shift)[:, :2]
    return moved


# -- random_resized_crop -----------------------------------------------------------------------------------------------


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


RANGES = [
    ((0.08, 1.0), (3 / 4, 4 / 3)),
    ((0.9, 1.0), (0.5, 2.0)),
    ((0.2, 0.2), (1.0, 1.0)),
    ((1e-5, 0.3), (0.1, 10.0)),
    ((1.0, 1.0), (3.0, 4.0)),
]


@pytest.mark.parametrize(("scale", "ratio"), RANGES)
def test_resized_crop_boxes_are_those_of_the_loop(scale: tuple[float, float], ratio: tuple[float, float]) -> None:
    sizes = np.random.default_rng(0).integers(2, 90, (3000, 2))
    sizes[:3] = (10, 400), (400, 10), (2, 2)
    boxes = resized_crop_boxes(sizes, rng(1, 3000), scale, ratio)
    units = rng(1, 3000).units(22)
    expected = [
        resized_crop_box(height, width, unit, scale, ratio)
        for (height, width), unit in zip(sizes.tolist(), units, strict=True)
    ]
    np.testing.assert_array_equal(boxes, expected)


def test_resized_crop_falls_back_to_the_middle() -> None:
    sizes = np.array([(10, 100), (100, 10), (10, 11), (11, 100)])
    boxes = resized_crop_boxes(sizes, rng(2, 4), (1.0, 1.0), (3 / 4, 4 / 3))
    # Too wide: cut to 4:3; too tall: to 3:4; allowed, but no drawn aspect fits: the whole image.
    assert boxes[:2].tolist() == [[0, 43, 10, 13], [43, 0, 13, 10]]
    assert boxes[3].tolist() == [0, 42, 11, 15]
    whole = resized_crop_boxes(np.array([(10, 11)]), rng(2, 1), (1.0, 1.0), (1.2, 1.3))
    assert whole.tolist() == [[0, 0, 9, 11]]
    no_area = resized_crop_boxes(np.array([(10, 11)]), rng(2, 1), (0.0, 0.0), (3 / 4, 4 / 3))
    assert no_area.tolist() == [[0, 0, 10, 11]]


def test_resized_crop_follows_its_distributions() -> None:
    sizes = np.tile([600_000, 800_000], (COUNT, 1))  # so large that rounding does not show
    box = resized_crop_boxes(sizes, rng(3), (0.02, 0.4), (0.5, 1.5))
    top, left, height, width = box.T
    assert_uniform(height * width / (600_000 * 800_000), 0.02, 0.4)
    assert_uniform(np.log(width / height), math.log(0.5), math.log(1.5))
    # Positions are whole pixels: uniform once each is spread over the gap to the next.
    spread = np.random.default_rng(0).random((2, COUNT))
    assert_uniform((top + spread[0]) / (600_000 - height + 1), 0, 1)
    assert_uniform((left + spread[1]) / (800_000 - width + 1), 0, 1)
    assert abs(np.corrcoef(top / (600_000 - height), left / (800_000 - width))[0, 1]) < 0.04


def test_resized_crop_reaches_both_edges() -> None:
    sizes = np.tile([12, 9], (COUNT, 1))
    box = resized_crop_boxes(sizes, rng(4), (0.25, 0.25), (1.0, 1.0))
    assert np.all(box[:, 2:] == 5)
    assert_evenly_spread(box[:, 0], 0, 7)
    assert_evenly_spread(box[:, 1], 0, 4)


@pytest.mark.parametrize(
    ("interpolation", "antialias"), [("bilinear", True), ("bilinear", False), ("bicubic", True), ("nearest", True)]
)
def test_resized_crop_is_a_crop_then_a_resize(interpolation: str, antialias: bool) -> None:
    images = pictures([(40, 31), (17, 60), (33, 32), (5, 7), (64, 64)], "float32")
    x = gi.random_resized_crop(
        images, (16, 13), (0.1, 0.9), interpolation=interpolation, antialias=antialias, rng=rng(5, 5)
    )
    window = recording_of(x).plan.grid.window
    boxes = np.stack([window[:, 1], window[:, 0], window[:, 3] - window[:, 1], window[:, 2] - window[:, 0]], 1)
    sizes = np.array([picture.shape[:2] for picture in images])
    np.testing.assert_array_equal(boxes, resized_crop_boxes(sizes, rng(5, 5), (0.1, 0.9), (3 / 4, 4 / 3)))
    cut = [references.crop(to_unit(picture), t, k, h, w) for picture, (t, k, h, w) in zip(images, boxes, strict=True)]
    assert_close(x, [references.resize(picture, 16, 13, interpolation, antialias) for picture in cut], GEOMETRY)


def test_resized_crop_size() -> None:
    assert gi.random_resized_crop(blanks(20, 30, 2), 7, rng=0).sizes.tolist() == [[7, 7]] * 2
    assert gi.random_resized_crop(blanks(20, 30, 2), (7, 9), rng=0).sizes.tolist() == [[7, 9]] * 2
    for one in ([7], (7,)):
        assert gi.random_resized_crop(blanks(20, 30, 2), one, rng=0).sizes.tolist() == [[7, 7]] * 2
        assert gi.random_crop(blanks(20, 30, 2), one, rng=0).sizes.tolist() == [[7, 7]] * 2
        assert gi.random_crop(blanks(5, 5, 2), one, padding=[1], rng=0).sizes.tolist() == [[7, 7]] * 2


# -- random_crop -------------------------------------------------------------------------------------------------------


def test_crop_is_evenly_placed() -> None:
    x = gi.random_crop(blanks(12, 17), (5, 4), rng=rng(6))
    top, left = corners(x).T
    assert_evenly_spread(top, 0, 7)
    assert_evenly_spread(left, 0, 13)
    assert np.all(x.sizes == (5, 4))
    assert chi_square(np.bincount((top * 14 + left).astype(int), minlength=8 * 14)) > SMALLEST


def test_crop_of_a_padded_image() -> None:
    x = gi.random_crop(blanks(4, 6), 4, (1, 2, 3, 0), rng=rng(7))
    top, left = corners(x).T
    assert_evenly_spread(top, -2, 0)
    assert_evenly_spread(left, -1, 5)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_crop_pixels(dtype: str) -> None:
    images = pictures([(20, 30), (12, 9), (8, 8), (31, 33)], dtype)
    fill = 50 if dtype == "uint8" else 0.2
    x = gi.random_crop(images, (8, 7), padding=2, fill=fill, rng=8)
    expected = [
        references.crop(to_unit(picture), top, left, 8, 7, fill / (255 if dtype == "uint8" else 1))
        for picture, (top, left) in zip(images, corners(x).tolist(), strict=True)
    ]
    assert_close(x.compute("float32"), expected, 1e-6)


def test_crop_pads_what_is_missing_on_both_sides() -> None:
    images = pictures([(3, 20), (9, 9)])
    x = gi.random_crop(images, 8, pad_if_needed=True, padding_mode="edge", rng=rng(9, 2))
    padded = [references.pad(to_unit(images[0]), 0, 5, 0, 5, mode="edge"), to_unit(images[1])]
    top, left = (gi.Rng(9, indices=[0, 1]).units(2) * [[6, 13], [2, 2]]).astype(int).T
    expected = [
        picture[t : t + 8, k : k + 8] for picture, t, k in zip(padded, top.tolist(), left.tolist(), strict=True)
    ]
    assert_close(x.compute("float32"), expected, 1e-6)


def test_crop_of_the_whole_image_keeps_it() -> None:
    images = pictures([(9, 7), (9, 7)])
    assert_same(list(gi.random_crop(images, (9, 7), rng=0)), images)


# -- flips -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "axis"), [("random_horizontal_flip", 1), ("random_vertical_flip", 0)])
def test_flips(name: str, axis: int) -> None:
    flip = getattr(gi, name)
    for p in (0.1, 0.5):
        assert_share(matrices(flip(blanks(2, 2), p, rng=rng(10)))[:, 1 - axis, 1 - axis] == -1, p)
    assert_share(matrices(flip(blanks(2, 2), rng=rng(11)))[:, 1 - axis, 1 - axis] == -1, 0.5)
    images = pictures([(5, 7), (4, 1), (31, 33)])
    assert_same(list(flip(images, 1, rng=0)), [np.flip(picture, axis) for picture in images])
    assert_same(list(flip(images, 0, rng=0)), images)
    assert_same(list(flip(images, [1, 0, 1], rng=0)), [np.flip(images[0], axis), images[1], np.flip(images[2], axis)])


# -- rotations and affine maps -----------------------------------------------------------------------------------------


def angle(x: gi.Batch, around: tuple[float, float]) -> NDArray[np.float64]:
    """Degrees counter-clockwise, where y is down."""
    f = forward(x, around)
    return -np.rad2deg(np.arctan2(f[:, 1, 0], f[:, 0, 0]))


@pytest.mark.parametrize(("degrees", "low", "high"), [(30, -30, 30), ((-5, 170), -5, 170), ([20.0, 21.0], 20, 21)])
def test_rotation_angle(degrees: Any, low: float, high: float) -> None:
    assert_uniform(angle(gi.random_rotation(blanks(3, 5), degrees, rng=rng(12)), (2.5, 1.5)), low, high)


def test_rotation_is_rotate() -> None:
    images = pictures([(20, 30), (12, 9), (31, 31)])
    several: list[dict[str, Any]] = [
        {"interpolation": "bilinear", "fill": 9},
        {"expand": True},
        {"center": (3, 4), "interpolation": "bicubic"},
    ]
    for options in several:
        x = gi.random_rotation(images, (-70, 20), rng=rng(13, 3), **options)
        drawn = gi.Rng(13, indices=[0, 1, 2]).uniform(-70, 20)
        assert_same(list(x.compute()), list(gi.rotate(images, drawn, **options).compute()))


def test_rotation_by_nothing() -> None:
    images = pictures([(20, 30), (12, 9)])
    assert_same(list(gi.random_rotation(images, 0, rng=0)), images)


def test_affine_angle_is_clockwise() -> None:
    assert_uniform(-angle(gi.random_affine(blanks(3, 5), (10, 60), rng=rng(14)), (2.5, 1.5)), 10, 60)
    assert_uniform(-angle(gi.random_affine(blanks(3, 5), 25, rng=rng(15)), (2.5, 1.5)), -25, 25)


def test_affine_scale() -> None:
    x = gi.random_affine(blanks(3, 5), 180, scale=(0.5, 1.7), shear=20, rng=rng(16))
    assert_uniform(np.sqrt(np.linalg.det(forward(x, (0, 0))[:, :, :2])), 0.5, 1.7)


def test_affine_shear() -> None:
    for shear, low, high in ((15, -15, 15), ((-3, 40), -3, 40), ((-3, 40, 0, 0), -3, 40)):
        # Along x, a column of pixels leans: the second column of the map, along the first and against it.
        f = forward(gi.random_affine(blanks(3, 5), 90, shear=shear, rng=rng(17)), (0, 0))
        lean = -np.sum(f[:, :, 0] * f[:, :, 1], 1) / np.sum(f[:, :, 0] ** 2, 1)
        assert_uniform(np.rad2deg(np.arctan(lean)), low, high)
    f = forward(gi.random_affine(blanks(3, 5), 0, shear=(0, 0, -10, 35), rng=rng(18)), (0, 0))
    assert_uniform(-np.rad2deg(np.arctan(f[:, 1, 0] / f[:, 0, 0])), -10, 35)


def test_affine_shift() -> None:
    x = gi.random_affine(blanks(9, 20), 0, (0.2, 1 / 3), rng=rng(19))
    shift = np.round(forward(x, (10, 4.5))[:, :, 2], 9)
    np.testing.assert_array_equal(shift, np.round(shift))
    # Up to 4 and 3 pixels; the last of each is rounded to from one side only.
    for values, most in ((shift[:, 0], 4), (shift[:, 1], 3)):
        shares = [0.5, *[1.0] * (2 * most - 1), 0.5]
        assert chi_square(np.bincount((values + most).astype(int), minlength=2 * most + 1), shares) > SMALLEST


def test_affine_draws_are_independent() -> None:
    x = gi.random_affine(blanks(200, 200), 90, (0.5, 0.5), (0.5, 1.5), rng=rng(20))
    f = forward(x, (100, 100))
    turned = np.arctan2(f[:, 1, 0], f[:, 0, 0])
    size = np.sqrt(np.linalg.det(f[:, :, :2]))
    table = np.corrcoef([turned, size, f[:, 0, 2], f[:, 1, 2]])
    assert np.abs(table - np.eye(4)).max() < 5 / math.sqrt(COUNT)


def test_affine_pixels() -> None:
    images = pictures([(20, 30), (12, 9), (31, 31)], "float32")
    x = gi.random_affine(images, 40, (0.1, 0.2), (0.8, 1.2), (-9, 9, -4, 4), "bilinear", 0.3, (5, 6), rng=rng(21, 3))
    drawn = gi.Rng(21, indices=[0, 1, 2])
    turn = drawn.uniform(-40, 40)
    x_most, y_most = 0.1 * np.array([30, 9, 31]), 0.2 * np.array([20, 12, 31])
    shift = np.round([drawn.uniform(-x_most, x_most), drawn.uniform(-y_most, y_most)])
    factor, along_x, along_y = drawn.uniform(0.8, 1.2), drawn.uniform(-9, 9), drawn.uniform(-4, 4)
    expected = []
    for i, picture in enumerate(images):
        height, width = picture.shape[:2]
        places = references.affinity(
            height, width, turn[i], (shift[0, i], shift[1, i]), factor[i], (along_x[i], along_y[i]), (5, 6)
        )
        expected.append(references.sample(to_unit(picture), *places, "bilinear", 0.3))
    assert_close(x, expected, GEOMETRY)


# -- perspective -------------------------------------------------------------------------------------------------------


def moved_corners(x: gi.Batch, height: int, width: int) -> NDArray[np.float64]:
    """(N, 4, 2): where the corners of the image go."""
    start = np.array([(0, 0, 1), (width - 1, 0, 1), (width - 1, height - 1, 1), (0, height - 1, 1)], np.float64)
    moved = np.linalg.inv(matrices(x)) @ start.T
    points: NDArray[np.float64] = (moved[:, :2] / moved[:, 2:]).transpose(0, 2, 1)
    return points


def test_perspective_corners() -> None:
    # 15 // 2 = 7 and 24 // 2 = 12, of which 0.5 and 0.3: up to 3 pixels (x) and, rounded down, 3 (y).
    for scale, height, width, y, x in ((0.5, 15, 24, 3, 6), (0.3, 24, 15, 3, 2)):
        batch = gi.random_perspective(blanks(height, width), scale, 1.0, rng=rng(22))
        moved = moved_corners(batch, height, width)
        whole = np.round(moved)
        np.testing.assert_allclose(moved, whole, atol=1e-6)
        for k, (right, below) in enumerate([(0, 0), (1, 0), (1, 1), (0, 1)]):
            first_x, first_y = right * (width - 1 - x), below * (height - 1 - y)
            assert_evenly_spread(whole[:, k, 0], first_x, first_x + x)
            assert_evenly_spread(whole[:, k, 1], first_y, first_y + y)


def test_perspective_share() -> None:
    for p in (0.5, 0.2):
        x = gi.random_perspective(blanks(30, 30), 0.5, p, rng=rng(23))
        assert_share(np.any(matrices(x) != np.eye(3), (1, 2)), p)


def test_perspective_is_perspective() -> None:
    images = pictures([(20, 30), (12, 19), (31, 31)], "float32")
    x = gi.random_perspective(images, 0.6, [1, 0, 1], fill=0.3, rng=24)
    expected = []
    for i, picture in enumerate(images):
        height, width = picture.shape[:2]
        if i == 1:
            expected.append(to_unit(picture))
            continue
        start = [(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)]
        end = moved_corners(x, height, width)[i]
        places = references.perspective(height, width, start, np.round(end))
        expected.append(references.sample(to_unit(picture), *places, "bilinear", 0.3))
    assert_close(x, expected, GEOMETRY)


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (2, 2), (3, 3), (5, 4), (11, 11)])
def test_perspective_of_small_images_never_fails(size: tuple[int, int]) -> None:
    """Corners may meet or line up, which no perspective shows: such images stay as they are."""
    x = gi.random_perspective(blanks(*size), 1.0, 1.0, rng=rng(25))
    assert np.all(np.isfinite(matrices(x)))
    kept = np.all(matrices(x) == np.eye(3), (1, 2))
    assert kept.all() if min(size) == 1 else 0 < kept.sum() < COUNT


# -- random sizes ------------------------------------------------------------------------------------------------------


def test_random_resize_draws_the_shorter_side() -> None:
    x = gi.random_resize(np.zeros((COUNT, 6, 9, 1), np.uint8), 4, 11, rng=rng(26))
    assert_evenly_spread(x.sizes[:, 0], 4, 11)
    np.testing.assert_array_equal(x.sizes[:, 1], x.sizes[:, 0] * 9 // 6)
    assert_same(list(gi.random_resize(pictures([(9, 7)]), 5, 5, "nearest", rng=0)),
                list(gi.resize(pictures([(9, 7)]), 5, "nearest")))  # fmt: skip


def test_one_of_some_lengths_limited_by_the_longer_side() -> None:
    x = gi.random_short_side_resize(np.zeros((COUNT, 12, 8, 1), np.uint8), [4, 7, 9], 12, rng=rng(27))
    found, counts = np.unique(x.sizes, axis=0, return_counts=True)
    assert found.tolist() == [[6, 4], [10, 7], [12, 8]]
    assert chi_square(counts) > SMALLEST
    assert gi.random_short_side_resize(pictures([(30, 40)]), 15, rng=0).sizes.tolist() == [[15, 20]]
    # Exactly, where a product of floating-point numbers falls below: 49 * (1 / 49) < 1.
    assert gi.random_short_side_resize(np.zeros((1, 49, 49, 1), np.uint8), [1], rng=0).sizes.tolist() == [[1, 1]]


def test_scale_jitter_multiplies_what_fits() -> None:
    x = gi.scale_jitter(np.zeros((COUNT, 30, 40, 1), np.uint8), (300, 200), (0.5, 3.0), rng=rng(28))
    assert_uniform(x.sizes[:, 1] / 200 + np.random.default_rng(0).random(COUNT) / 200, 0.5, 3.01)
    np.testing.assert_allclose(x.sizes[:, 0], x.sizes[:, 1] * 0.75, atol=1)
    assert gi.scale_jitter(pictures([(30, 40)]), (60, 60), (0.5, 0.5), rng=0).sizes.tolist() == [[22, 30]]
    assert gi.scale_jitter(pictures([(30, 40)]), 1, (0.01, 0.01), rng=0).sizes.tolist() == [[1, 1]]


# -- all of them -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "options", "message"),
    [
        ("random_resized_crop", (8,), {"scale": (1.0, 0.1)}, r"scale must be \(low, high\) with 0 <= low <= high <= 1"),
        ("random_resized_crop", (8,), {"scale": (0.1, 1.5)}, r"scale must be .* <= 1, not \(0.1, 1.5\)"),
        ("random_resized_crop", (8,), {"scale": 0.5}, r"scale must be \(low, high\), not 0.5"),
        ("random_resized_crop", (8,), {"ratio": (2, 1)}, r"ratio must be \(low, high\) with 1e-06 <= low <= high, not"),
        ("random_resized_crop", (8,), {"ratio": (0, 1)}, "ratio must be"),
        ("random_resized_crop", (8,), {"ratio": (1, math.nan)}, "ratio must be"),
        ("random_resized_crop", (0,), {}, r"size must be a whole number from 1 to 16777216"),
        ("random_resized_crop", ((4, 0),), {}, r"size width must be a whole number from 1 to 16777216"),
        ("random_resized_crop", (8,), {"interpolation": "magic"}, "interpolation must be"),
        ("random_crop", (0,), {}, r"size must be a whole number from 1 to 16777216"),
        ("random_crop", ((4, -1),), {}, r"size width must be a whole number from 1 to 16777216"),
        ("random_crop", (10,), {}, r"image 0: its size \(9, 11\) is smaller than the crop of \(10, 10\); use padding"),
        ("random_crop", (8,), {"padding": (1, 2, 3)}, "padding must be one number"),
        ("random_crop", (8,), {"padding": 1, "padding_mode": "mirror"}, "padding_mode must be"),
        ("random_resize", (0, 5), {}, "min_size must be a whole number from 1 to 16777216, not 0"),
        ("random_resize", (6, 5), {}, "max_size must be a whole number from 6 to 16777216, not 5"),
        ("random_short_side_resize", ([],), {}, "min_size must be a whole number or a sequence of them, not an empty"),
        ("random_short_side_resize", ([4, 2.5],), {}, "min_size must be a whole number from 1 to 16777216, not 2.5"),
        ("random_short_side_resize", (4, 0), {}, "max_size must be a whole number"),
        ("scale_jitter", (0,), {}, "target_size must be a whole number from 1 to 16777216"),
        ("scale_jitter", (9, (2.0, 0.1)), {}, r"scale_range must be \(low, high\) with 1e-06 <= low <= high, not"),
        ("random_horizontal_flip", (1.01,), {}, r"p must be a number from 0 to 1, not 1.01"),
        ("random_horizontal_flip", ([0, -1, 0],), {}, r"p\[1\] must be a number from 0 to 1, not -1"),
        ("random_vertical_flip", ([0.5, 0.5],), {}, r"p must be one number, or an array of shape \(3,\)"),
        ("random_vertical_flip", (math.nan,), {}, r"p must be a number from 0 to 1, not nan"),
        ("random_rotation", (-1,), {}, r"degrees must be a number of at least 0, or \(low, high\), not -1"),
        ("random_rotation", (math.inf,), {}, r"degrees must be a number of at least 0, or \(low, high\), not inf"),
        ("random_rotation", ([30],), {}, r"degrees must be \(low, high\), not \[30\]"),
        ("random_rotation", ([[1, 2], [3, 4]],), {}, r"degrees must be \(low, high\) with low <= high"),
        ("random_rotation", ((5, -5),), {}, r"degrees must be \(low, high\) with low <= high, not \(5, -5\)"),
        ("random_rotation", ((1, 2, 3),), {}, r"degrees must be \(low, high\), not \(1, 2, 3\)"),
        ("random_affine", ((5, -5),), {}, r"degrees must be \(low, high\)"),
        ("random_affine", (0, (0.5, 1.1)), {}, r"translate y must be a number from 0 to 1, not 1.1"),
        ("random_affine", (0, 0.5), {}, r"translate must be \(x, y\), not 0.5"),
        ("random_affine", (0,), {"scale": (2, 1)}, "scale must be"),
        ("random_affine", (0,), {"scale": (0, 1)}, "scale must be"),
        ("random_affine", (0,), {"shear": -5}, "shear must be a number of at least 0"),
        ("random_affine", (0,), {"shear": (0, 1, 5, 1)}, "shear y must be"),
        ("random_affine", (0,), {"shear": (3, 1)}, "shear must be"),
        ("random_perspective", (1.5,), {}, "distortion_scale must be a number from 0 to 1, not 1.5"),
        ("random_perspective", (-0.5,), {}, "distortion_scale must be a number from 0 to 1, not -0.5"),
        ("random_perspective", (0.5, 2.0), {}, r"p must be a number from 0 to 1, not 2"),
    ],
)
def test_bad_arguments_are_refused(name: str, given: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(gi, name)(blanks(9, 11, 3), *given, **options, rng=0)


def test_a_crop_names_the_image_that_is_too_small() -> None:
    with pytest.raises(ValueError, match=r"image 2: its size \(7, 30\) is smaller than the crop of \(8, 8\)"):
        gi.random_crop(pictures([(20, 30), (8, 8), (7, 30)]), 8, rng=0)
