"""Random color, erasing and filters: what is drawn, read back from the plan, and what becomes of the pixels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg.kernels import layout, ops

from .. import references
from ..compare import FORMULA, assert_close, assert_same
from ..references import to_unit
from ..samples import image, kinds
from .distributions import (
    COUNT,
    SMALLEST,
    assert_evenly_spread,
    assert_share,
    assert_uniform,
    chi_square,
    kolmogorov_smirnov,
    rng,
    uniform,
)

SIZES = [(7, 9), (31, 32), (33, 31), (12, 40), (8, 8), (64, 7)]
JITTER = [ops.BRIGHTNESS.code, ops.CONTRAST.code, ops.SATURATION.code, ops.HUE.code]


def blanks(height: int = 2, width: int = 2, n: int = COUNT, channels: int = 3) -> NDArray[np.uint8]:
    """Many images that are only recorded on."""
    return np.zeros((n, height, width, channels), np.uint8)


def pictures(dtype: str = "uint8", channels: int = 3, repeats: int = 1) -> list[NDArray[Any]]:
    generator = np.random.default_rng(0)
    return [image(generator, height, width, channels, dtype) for height, width in SIZES * repeats]


def codes(x: gi.Batch) -> NDArray[np.int32]:
    """(N, entries): op codes."""
    return np.stack([entry.codes for entry in recording_of(x).plan.entries], 1)


def parameters(x: gi.Batch, k: int = 0) -> NDArray[np.float32]:
    """(N, entries): parameter ``k`` of each op."""
    return np.stack([entry.params[:, k] for entry in recording_of(x).plan.entries], 1)


# -- color_jitter ------------------------------------------------------------------------------------------------------


def test_jitter_order_is_uniform_over_all_24() -> None:
    drawn = codes(gi.color_jitter(blanks(n=24_000), 0.4, 0.4, 0.4, 0.1, rng=rng(1, 24_000)))
    np.testing.assert_array_equal(np.sort(drawn, 1), np.tile(np.sort(JITTER), (24_000, 1)))
    _, counts = np.unique(drawn @ np.array([4096, 256, 16, 1]), return_counts=True)
    assert len(counts) == 24
    assert chi_square(counts) > SMALLEST


@pytest.mark.parametrize(
    ("given", "ranges"),
    [
        ((0.4, 0.3, 0.2, 0.1), [(0.6, 1.4), (0.7, 1.3), (0.8, 1.2), (-0.1, 0.1)]),
        ((1.5, 3, 2, 0.5), [(0, 2.5), (0, 4), (0, 3), (-0.5, 0.5)]),
        (((0.2, 0.3), (2, 5), (0, 1), (0.1, 0.4)), [(0.2, 0.3), (2, 5), (0, 1), (0.1, 0.4)]),
    ],
)
def test_jitter_factors(given: Any, ranges: list[tuple[float, float]]) -> None:
    x = gi.color_jitter(blanks(), *given, rng=rng(2))
    drawn, values = codes(x), parameters(x)
    columns = []
    for code, (low, high) in zip(JITTER, ranges, strict=True):
        assert_uniform(values[drawn == code], low, high)
        columns.append(values[drawn == code])
    table = np.corrcoef([*columns, *drawn.T.astype(float)[:3]])[:4]
    table[:, :4] -= np.eye(4)
    assert np.abs(table).max() < 5 / math.sqrt(COUNT)


def test_jitter_leaves_out_what_changes_nothing() -> None:
    x = gi.color_jitter(blanks(n=50), None, 0, (1.0, 1.0), 0.2, rng=0)
    assert set(codes(x).ravel().tolist()) == {ops.SKIP.code, ops.HUE.code}
    assert np.all(np.sum(codes(x) == ops.HUE.code, 1) == 1)
    gray = gi.color_jitter(blanks(n=50, channels=1), 0.5, None, 0.5, 0.2, rng=0)
    assert set(codes(gray).ravel().tolist()) == {ops.SKIP.code, ops.BRIGHTNESS.code}
    images = pictures()
    assert_same(list(gi.color_jitter(images, rng=0)), images)


def jittered(picture: NDArray[Any], order: Any, factors: Any) -> NDArray[np.float64]:
    """torchvision's formulas in the drawn order, with the drawn factors."""
    steps: list[Callable[[Any, float], NDArray[np.float64]]] = [
        references.adjust_brightness,
        references.adjust_contrast,
        references.adjust_saturation,
        references.adjust_hue,
    ]
    x = to_unit(picture)
    for k in order:
        x = steps[k](x, float(factors[k]))
    return x


@kinds
def test_jitter_is_torchvisions_formulas_image_by_image(dtype: str, channels: int) -> None:
    images = pictures(dtype, channels, 20)
    n = len(images)
    x = gi.color_jitter(images, 0.6, 0.5, (0.2, 1.9), 0.4, rng=rng(3, n))
    drawn = rng(3, n)
    order = drawn.permutation(4)
    factors = np.stack([drawn.uniform(*r) for r in ((0.4, 1.6), (0.5, 1.5), (0.2, 1.9), (-0.4, 0.4))], 1)
    expected = [jittered(p, o, f.astype(np.float32)) for p, o, f in zip(images, order, factors, strict=True)]
    assert_close(x.compute("float32"), expected, FORMULA)
    assert x.launches == 2  # the mean of each image is taken once, wherever its contrast comes


def test_jitter_is_the_public_functions_one_at_a_time() -> None:
    images = pictures("float32", 3, 3)
    n = len(images)
    x = gi.color_jitter(images, 0.6, 0.5, 0.4, 0.3, rng=rng(4, n))
    functions = [gi.adjust_brightness, gi.adjust_contrast, gi.adjust_saturation, gi.adjust_hue]
    drawn, values = codes(x), parameters(x)
    for i, picture in enumerate(images):
        single: Any = [picture]
        for code, value in zip(drawn[i], values[i], strict=True):
            single = functions[JITTER.index(code)](single, value).compute()
        assert_close([x[i]], [single[0]], FORMULA)


@pytest.mark.parametrize("given", [(), (0.3, 0.5, 0.9), (0.0, 0.0, 1.0)])
def test_gains_of_hsv_are_ultralytics(given: tuple[float, ...]) -> None:
    x = gi.random_hsv(blanks(), *given, rng=rng(7))
    (entry,) = recording_of(x).plan.entries
    assert np.all(entry.codes == ops.HSV.code)
    for most, found, middle in zip(given or (0.015, 0.7, 0.4), entry.params.T, (0, 1, 1), strict=True):
        if most:
            assert_uniform(found, middle - most, middle + most)
        else:
            assert np.all(found == middle)


def test_images_with_hsv_are_ultralytics() -> None:
    """``RandomHSV`` of ultralytics 8.4 with OpenCV's bytes, whose hues are even degrees."""
    images = pictures("uint8", 3, 5)
    x = gi.random_hsv(images, 0.5, 0.7, 0.4, rng=rng(8, len(images)))
    away = []
    for picture, found, gains in zip(images, x, recording_of(x).plan.entries[0].params, strict=True):
        levels = np.arange(256, dtype=np.float64)
        tables = [
            (levels + gains[0] * 180) % 180,
            np.clip(levels * gains[1], 0, 255),
            np.clip(levels * gains[2], 0, 255),
        ]
        hsv = cv2.cvtColor(picture, cv2.COLOR_RGB2HSV)
        changed = np.stack([table.astype(np.uint8)[hsv[..., k]] for k, table in enumerate(tables)], 2)
        away.append(np.abs(cv2.cvtColor(changed, cv2.COLOR_HSV2RGB).astype(int) - found).ravel())
    assert np.concatenate(away).max() <= 14
    assert np.concatenate(away).mean() < 1.2


# -- what is done with a probability -----------------------------------------------------------------------------------

# Arguments, op code, default probability, and the function that is called.
OPTIONAL: dict[str, tuple[tuple[Any, ...], int, float, Callable[[Any, Any], gi.Batch]]] = {
    "random_grayscale": ((), ops.GRAYSCALE.code, 0.1, lambda x, where: gi.rgb_to_grayscale(x, 3, where=where)),
    "random_invert": ((), ops.INVERT.code, 0.5, lambda x, where: gi.invert(x, where=where)),
    "random_solarize": ((99,), ops.SOLARIZE.code, 0.5, lambda x, where: gi.solarize(x, 99, where=where)),
    "random_posterize": ((3,), ops.POSTERIZE.code, 0.5, lambda x, where: gi.posterize(x, 3, where=where)),
    "random_autocontrast": ((), ops.AUTOCONTRAST.code, 0.5, lambda x, where: gi.autocontrast(x, where=where)),
    "random_equalize": ((), ops.EQUALIZE.code, 0.5, lambda x, where: gi.equalize(x, where=where)),
    "random_sharpness": ((2.0,), ops.SHARPNESS.code, 0.5, lambda x, where: gi.adjust_sharpness(x, 2.0, where=where)),
}
optional = pytest.mark.parametrize("name", OPTIONAL)


@optional
def test_probabilities_of_none_and_all(name: str) -> None:
    given, _, _, plain = OPTIONAL[name]
    function = getattr(gi, name)
    images = pictures()
    assert_same(list(function(images, *given, 0, rng=0)), images)
    assert_same(list(function(images, *given, 1, rng=0)), list(plain(images, None)))
    where = np.array([True, False, False, True, True, False])
    assert_same(list(function(images, *given, where.astype(float), rng=0)), list(plain(images, where)))


@optional
def test_the_draw_is_one_bernoulli(name: str) -> None:
    """For the default probability and others, the op is recorded for exactly the images drawn."""
    given, code, usual, plain = OPTIONAL[name]
    function = getattr(gi, name)
    for p in (usual, 0.03, 0.7):
        recorded = codes(function(blanks(), *given, *([] if p == usual else [p]), rng=rng(6)))
        assert recorded[:, 0].tolist() == np.where(rng(6).bernoulli(p), code, ops.SKIP.code).tolist()
    images = pictures(repeats=3)
    where = rng(7, len(images)).bernoulli(0.5)
    assert 0 < where.sum() < len(images)
    assert_same(list(function(images, *given, 0.5, rng=rng(7, len(images)))), list(plain(images, where)))


def test_parameters_of_each_image() -> None:
    images = pictures()
    threshold, bits, factor = [0, 50, 100, 150, 200, 255], [1, 2, 3, 4, 5, 6], [0, 0.5, 1, 2, 3, 4]
    assert_same(list(gi.random_solarize(images, threshold, 1, rng=0)), list(gi.solarize(images, threshold)))
    assert_same(list(gi.random_posterize(images, bits, 1, rng=0)), list(gi.posterize(images, bits)))
    assert_same(list(gi.random_sharpness(images, factor, 1, rng=0)), list(gi.adjust_sharpness(images, factor)))


def test_gray_images_stay_gray() -> None:
    images = pictures(channels=1)
    x = gi.random_grayscale(images, 1, rng=0)
    assert x.channels == 1
    assert_same(list(x), images)


# -- random_erasing ----------------------------------------------------------------------------------------------------


def rectangles(x: gi.Batch) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Return the painted images (N,), and the rectangles (N, 4), left, top, right, bottom."""
    (entry,) = recording_of(x).plan.entries
    return entry.codes == ops.PAINT.code, entry.params[:, ops.RECTANGLE]


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


@pytest.mark.parametrize(
    ("scale", "ratio"), [((0.02, 0.33), (0.3, 3.3)), ((0.5, 1.0), (0.2, 5.0)), ((0.1, 0.1), (1.0, 1.0))]
)
def test_erased_rectangles_are_those_of_the_loop(scale: Any, ratio: Any) -> None:
    generator = np.random.default_rng(0)
    images = [np.zeros((*size, 1), np.uint8) for size in generator.integers(1, 60, (2000, 2)).tolist()]
    painted, box = rectangles(gi.random_erasing(images, 0.8, scale, ratio, rng=rng(8, 2000)))
    drawn = rng(8, 2000)
    where, units = drawn.bernoulli(0.8), drawn.units(22)
    for i, picture in enumerate(images):
        expected = erased_box(picture.shape[0], picture.shape[1], units[i], scale, ratio) if where[i] else None
        assert painted[i] == (expected is not None)
        if expected:
            top, left, h, w = expected
            assert box[i].tolist() == [left, top, left + w, top + h]


def test_erasing_follows_its_distributions() -> None:
    # Large enough that whole pixels do not show; every first try fits.
    images = np.zeros((COUNT, 90, 90, 1), np.uint8)
    painted, box = rectangles(gi.random_erasing(images, 0.6, (0.05, 0.3), (0.5, 2.0), rng=rng(9)))
    assert_share(painted, 0.6)
    left, top, right, bottom = box[painted].astype(np.float64).T
    height, width = bottom - top, right - left
    spread = np.random.default_rng(0).random((4, len(left)))
    # A side is a rounded number: spread over what is rounded to it.
    h, w = height + spread[0] - 0.5, width + spread[1] - 0.5
    assert kolmogorov_smirnov(h * w / 8100, uniform(0.05, 0.3)) > SMALLEST
    assert kolmogorov_smirnov(np.log(h / w), uniform(math.log(0.5), math.log(2))) > SMALLEST
    assert_uniform((top + spread[2]) / (90 - height + 1), 0, 1)
    assert_uniform((left + spread[3]) / (90 - width + 1), 0, 1)


def test_erasing_places() -> None:
    _, box = rectangles(gi.random_erasing(np.zeros((COUNT, 12, 10, 1), np.uint8), 1, (0.3, 0.3), (1, 1), rng=rng(10)))
    assert np.all(box[:, 2:] - box[:, :2] == 6)
    assert_evenly_spread(box[:, 0], 0, 4)
    assert_evenly_spread(box[:, 1], 0, 6)


def test_erasing_pixels() -> None:
    images = pictures(repeats=2)
    n = len(images)
    color = np.random.default_rng(1).integers(0, 256, (n, 3))
    x = gi.random_erasing(images, 0.7, value=color, rng=rng(11, n))
    painted, box = rectangles(x)
    assert 0 < painted.sum() < n
    expected = []
    for i, picture in enumerate(images):
        left, top, right, bottom = box[i].astype(int).tolist()
        height, width = bottom - top, right - left
        expected.append(references.erase(picture, top, left, height, width, color[i]) if painted[i] else picture)
    assert_same(list(x), expected)


def test_erasing_where_nothing_fits_keeps_the_image() -> None:
    images = pictures()
    assert_same(list(gi.random_erasing(images, 1, (1.0, 1.0), rng=0)), images)
    assert_same(list(gi.random_erasing(images, 0, rng=0)), images)


def holes_of(x: gi.Batch) -> NDArray[np.float64]:
    """Share of the area of each erased rectangle (count, N); 0 where there is none."""
    boxes = [
        np.where((entry.codes == ops.PAINT.code)[:, None], entry.params[:, ops.RECTANGLE], 0.0)
        for entry in recording_of(x).plan.entries
        if np.any(entry.codes == ops.PAINT.code)
    ]
    each = np.array(boxes, np.float64)
    height, width = x.sizes.T
    shares: NDArray[np.float64] = (each[..., 2] - each[..., 0]) * (each[..., 3] - each[..., 1]) / (height * width)
    return shares


def test_several_rectangles_share_the_area() -> None:
    x = gi.random_erasing(np.zeros((COUNT, 300, 300, 1), np.uint8), 0.8, (0.06, 0.24), (1, 1), count=3, rng=rng(12))
    shares = holes_of(x)
    number = np.sum(shares > 0, 0)
    assert_share(number > 0, 0.8)
    assert_evenly_spread(number[number > 0], 1, 3)
    for k in (1, 2, 3):
        # A side is a rounded number: spread over what is rounded to it.
        side = np.sqrt(shares[0, number == k]) * 300
        side += np.random.default_rng(k).uniform(-0.5, 0.5, len(side))
        assert kolmogorov_smirnov(side**2 * k / 300**2, uniform(0.06, 0.24)) > SMALLEST
    several = number > 1
    assert abs(np.corrcoef(shares[:2, several] * number[several])[0, 1]) < 0.06


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_each_rectangle_has_a_random_color(dtype: str) -> None:
    images = np.zeros((COUNT, 8, 8, 3), dtype)
    for x, normal in ((gi.pad(images, 0), False), (gi.normalize(images, 0.0, 1.0), True)):
        erased = gi.random_erasing(x, 1.0, (0.1, 0.2), (1, 1), "color", count=2, rng=rng(13))
        colors = [
            entry.params[entry.codes == ops.PAINT.code][:, ops.COLOR]
            for entry in recording_of(erased).plan.entries
            if np.any(entry.codes == ops.PAINT.code)
        ]
        for color in colors:
            for channel in color.T:
                if normal:
                    cdf = lambda v: np.array([0.5 * math.erfc(-one / math.sqrt(2.0)) for one in v])  # noqa: E731
                    assert kolmogorov_smirnov(channel, cdf) > SMALLEST
                else:
                    assert_uniform(channel, 0.0, 1.0)
            assert abs(np.corrcoef(color.T)[0, 1]) < 0.06
        second = [entry.codes == ops.PAINT.code for entry in recording_of(erased).plan.entries][-1]
        assert abs(np.corrcoef(colors[0][second][:, 0], colors[1][:, 0])[0, 1]) < 0.06


def test_erased_colors_as_pixels() -> None:
    x = gi.random_erasing(
        np.full((40, 12, 12, 3), 7, np.uint8), 1.0, (0.3, 0.4), (1, 1), "color", rng=rng(14, 40)
    ).array()
    for picture in x:
        inside = picture[np.any(picture != 7, 2)]
        assert len(np.unique(inside, axis=0)) == 1
    assert len(np.unique(x.reshape(-1, 3), axis=0)) > 30


# -- random_gaussian_blur ----------------------------------------------------------------------------------------------


def deviations(x: gi.Batch) -> NDArray[np.float64]:
    return recording_of(x).plan.grid.frames[0].support


def test_blur_draws() -> None:
    for sigma, low, high in (((0.1, 2.0), 0.1, 2.0), ((1.5, 7.0), 1.5, 7.0)):
        x = gi.random_gaussian_blur(blanks(9, 9), 5, sigma, rng=rng(12))
        assert_uniform(deviations(x)[:, 0], low, high)
        np.testing.assert_array_equal(deviations(x)[:, 0], deviations(x)[:, 1])
        assert np.all(recording_of(x).plan.grid.filter == layout.GAUSSIAN)
    x = gi.random_gaussian_blur(blanks(9, 9), 5, rng=rng(13), p=0.3)
    chosen = recording_of(x).plan.grid.filter == layout.GAUSSIAN
    assert_share(chosen, 0.3)
    assert_uniform(deviations(x)[chosen, 0], 0.1, 2.0)


def test_blur_is_gaussian_blur() -> None:
    images = pictures()
    drawn = rng(14, 6)
    where, sigma = drawn.bernoulli(0.5), drawn.uniform(0.3, 3)
    x = gi.random_gaussian_blur(images, 5, (0.3, 3), 0.5, rng=rng(14, 6))
    assert 0 < where.sum() < 6
    assert_same(list(x), list(gi.gaussian_blur(images, 5, sigma, where=where)))
    assert_same(list(gi.random_gaussian_blur(images, 5, p=0, rng=0)), images)


def test_one_sigma_is_used_for_every_image() -> None:
    """As torchvision's GaussianBlur; and a list of two sizes is width and height, also for two images."""
    images = pictures()[:2]
    for sigma in (1.3, [1.3], (1.3,), (1.3, 1.3)):
        x = gi.random_gaussian_blur(images, [3, 5], sigma, rng=0)
        assert_same(list(x), list(gi.gaussian_blur(images, (3, 5), 1.3)))


def test_motion_draws_lengths_and_angles() -> None:
    x = gi.random_motion_blur(blanks(9, 9), (2, 6), (-30, 50), 0.4, rng=rng(17))
    (entry,) = recording_of(x).plan.entries
    chosen = entry.codes == ops.MOTION.code
    assert_share(chosen, 0.4)
    taps, along, down = entry.params[chosen].T.astype(float)
    assert_evenly_spread(taps, 2, 6)
    assert_uniform(np.rad2deg(np.arctan2(-down, along)), -30, 50)


def test_artefacts_draw_qualities() -> None:
    x = gi.random_jpeg(blanks(9, 9), (20, 29), 0.3, rng=rng(18))
    (entry,) = recording_of(x).plan.entries
    chosen = entry.codes == ops.JPEG.code
    assert_share(chosen, 0.3)
    assert_evenly_spread(entry.params[chosen, 0].astype(float), 20, 29)
    assert_same(list(gi.random_jpeg(pictures(), 30, rng=1)), list(gi.jpeg(pictures(), 30)))


# -- three_augment -----------------------------------------------------------------------------------------------------


def test_three_augment_is_one_of_three_for_each_image() -> None:
    x = gi.three_augment(blanks(13, 13), rng=rng(15))
    color, blurred = recording_of(x).segments
    gray, solarized = (entry.codes != ops.SKIP.code for entry in color.entries)
    filtered = blurred.grid.filter == layout.GAUSSIAN
    assert np.all(gray.astype(int) + solarized + filtered == 1)
    assert chi_square([gray.sum(), solarized.sum(), filtered.sum()]) > SMALLEST
    assert_uniform(blurred.grid.frames[0].support[filtered, 0], 0.1, 2.0)
    np.testing.assert_array_equal(blurred.grid.kernel, 13)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_three_augment_pixels(dtype: str) -> None:
    generator = np.random.default_rng(2)
    images = [image(generator, 13 + i, 30 - i, 3, dtype) for i in range(12)]
    x = gi.three_augment(images, rng=rng(16, 12))
    drawn = rng(16, 12)
    which, sigma = drawn.choice(3), drawn.uniform(0.1, 2.0)
    assert set(which.tolist()) == {0, 1, 2}
    half = 128 if dtype == "uint8" else 0.5
    every = [gi.rgb_to_grayscale(images, 3), gi.solarize(images, half), gi.gaussian_blur(images, 13, sigma)]
    assert_close(x.compute("float32"), [every[k].compute("float32")[i] for i, k in enumerate(which)], 1e-6)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("color_jitter", (-0.1,), r"brightness must be a number of at least 0, or \(low, high\), not -0.1"),
        ("color_jitter", ((1.2, 0.8),), r"brightness must be \(low, high\) with 0 <= low <= high, not"),
        ("color_jitter", (math.nan,), "brightness must be"),
        ("color_jitter", (None, (-0.5, 1)), r"contrast must be \(low, high\)"),
        ("color_jitter", (None, None, (1, 2, 3)), r"saturation must be \(low, high\), not \(1, 2, 3\)"),
        ("color_jitter", (None, None, None, 0.6), r"hue must be \(low, high\) with -0.5 <= low <= high <= 0.5"),
        ("color_jitter", (None, None, None, (0.2, -0.2)), "hue must be"),
        ("color_jitter", (None, None, None, -0.1), r"hue must be a number of at least 0, or \(low, high\), not -0.1"),
        ("color_jitter", (None, None, None, [0.1]), r"hue must be \(low, high\), not \[0.1\]"),
        ("random_hsv", (1.5,), r"hue must be a number from 0 to 1, not 1.5"),
        ("random_hsv", (0, 0, -1), r"value must be a number from 0 to 1, not -1"),
        ("random_grayscale", (1.5,), r"p must be a number from 0 to 1, not 1.5"),
        ("random_invert", (-0.5,), r"p must be a number from 0 to 1, not -0.5"),
        ("random_invert", ([0.5, 1.5, 0],), r"p\[1\] must be a number from 0 to 1, not 1.5"),
        ("random_solarize", (256,), r"threshold must be a number from 0 to 255, not 256"),
        ("random_solarize", (10, 2.0), r"p must be a number from 0 to 1, not 2"),
        ("random_posterize", (9,), r"bits must be a whole number from 0 to 8, not 9"),
        ("random_posterize", (2.5,), r"bits must be a whole number"),
        ("random_autocontrast", (math.nan,), "p must be a number from 0 to 1, not"),
        ("random_equalize", ([0.5],), r"p must be one number, or an array of shape \(3,\)"),
        ("random_sharpness", (-1,), "sharpness_factor must be a number of at least 0, not -1"),
        ("random_sharpness", (2, 7), "p must be a number from 0 to 1, not"),
        ("random_erasing", (2,), "p must be a number from 0 to 1, not"),
        ("random_erasing", (0.5, (0.4, 0.1)), r"scale must be \(low, high\) with 0 <= low <= high <= 1"),
        ("random_erasing", (0.5, (0.4, 1.1)), "scale must be"),
        ("random_erasing", (0.5, (0.1, 0.4), (3, 1)), "ratio must be"),
        ("random_erasing", (0.5, (0.1, 0.4), (0, 1)), "ratio must be"),
        ("random_erasing", (0.5, (0.1, 0.4), (1, 2), (1, 2)), "v must be one number"),
        ("random_erasing", (0.5, (0.1, 0.4), (1, 2), "noise"), "value must be one of 'random', 'color', not 'noise'"),
        ("coarse_dropout", (1, (0.1, 0.2), (0.1, 0.2), "color"), "value must be one of 'random', not 'color'"),
        ("random_channel_permutation", (-1,), "p must be a number from 0 to 1, not -1"),
        ("coarse_dropout", (0,), "holes must be a whole number from 1 to 64, not 0"),
        ("coarse_dropout", ((3, 2),), r"holes must be \(low, high\) with low <= high, not"),
        ("coarse_dropout", ((1, 65),), "holes must be a whole number from 1 to 64, not 65"),
        ("coarse_dropout", (1.5,), "holes must be a whole number from 1 to 64, not 1.5"),
        ("coarse_dropout", (1, (0.2, 0.1)), r"height must be \(low, high\) with 0 <= low <= high <= 1"),
        ("coarse_dropout", (1, (0, 1), (0, 2)), "width must be"),
        ("random_grid_mask", ((0.5, 3),), r"cell must be \(low, high\) with 1 <= low <= high"),
        ("random_grid_mask", ((2, 3), 1.5), "share must be a number from 0 to 1, not 1.5"),
        ("random_grid_mask", ((2, 3), 0.5, 30), r"degrees must be \(low, high\), not 30"),
        ("random_gaussian_noise", (0, (0.2, 0.1)), r"sigma must be \(low, high\) with 0 <= low <= high, not"),
        ("random_gaussian_noise", (0, -0.1), r"sigma must be a number of at least 0, or \(low, high\), not -0.1"),
        ("random_gaussian_noise", (math.nan,), "mean must be a finite number, not nan"),
        ("random_motion_blur", (0,), "length must be a whole number from 1 to 255, not 0"),
        ("random_motion_blur", ((5, 3),), r"length must be \(low, high\) with low <= high, not"),
        ("random_motion_blur", ((3, 256),), "length must be a whole number from 3 to 255, not 256"),
        ("random_motion_blur", (3, 45), r"degrees must be \(low, high\), not 45"),
        ("random_gaussian_blur", (4,), "kernel_size must be odd, not 4"),
        ("random_gaussian_blur", (0,), "kernel_size must be a whole number"),
        ("random_gaussian_blur", ([3, 3, 3],), r"kernel_size as a list or tuple is \(x, y\), not 3 values"),
        (
            "random_gaussian_blur",
            (3, (2.0, 0.1)),
            r"sigma must be .* with 1e-06 <= low <= high <= 1000000, not",
        ),
        ("random_gaussian_blur", (3, 0.0), "sigma must be a number from 1e-06 to 1000000, not 0"),
        ("random_gaussian_blur", (3, [1.0, 2.0, 3.0]), r"sigma must be \(low, high\), not \[1.0, 2.0, 3.0\]"),
        ("random_gaussian_blur", (3, (0.0, 1.0)), r"sigma must be"),
        ("random_gaussian_blur", (3, (0.1, 1.0), 1.5), "p must be a number from 0 to 1, not"),
        ("random_gaussian_blur", (21,), r"image 0: its size \(9, 9\) is too small: a kernel of"),
    ],
)
def test_bad_arguments_are_refused(name: str, given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(gi, name)(blanks(9, 9, 3), *given, rng=0)


def test_three_augment_names_the_image_that_is_too_small() -> None:
    images = [*pictures()[1:3], np.zeros((6, 30, 3), np.uint8)]
    seeds = [seed for seed in range(20) if rng(seed, 3).choice(3)[2] == 2]
    with pytest.raises(ValueError, match=r"image 2: its size \(6, 30\) is too small: a kernel of"):
        gi.three_augment(images, rng=rng(seeds[0], 3))
