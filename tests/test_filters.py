"""Blur and sharpness against their formulas and other libraries, and the stages they end."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

import gpuimg as gi

from . import references
from .compare import FORMULA, GEOMETRY, assert_bytes, assert_close, assert_same
from .references import to_bytes, to_unit
from .samples import KINDS, image

FLOAT = 2e-6  # a few roundings of float32 at 1
kinds = pytest.mark.parametrize(("dtype", "channels"), KINDS)

SIZES = [(7, 9), (31, 32), (33, 31), (12, 40), (8, 8), (64, 7)]


def pictures(dtype: str = "float32", channels: int = 3, sizes: Any = SIZES, seed: int = 0) -> list[NDArray[Any]]:
    generator = np.random.default_rng(seed)
    return [image(generator, height, width, channels, dtype) for height, width in sizes]


# -- blur --------------------------------------------------------------------------------------------------------------


@kinds
def test_blur_with_sizes_and_deviations_of_each_image(dtype: str, channels: int) -> None:
    generator = np.random.default_rng(1)
    images = pictures(dtype, channels, SIZES * 4)
    n = len(images)
    size = 2 * generator.integers(0, 4, n) + 1
    sigma = generator.uniform(0.1, 4, n)
    x = gi.gaussian_blur(images, size, sigma)
    expected = [
        references.gaussian_blur(to_unit(picture), (k, k), (s, s))
        for picture, k, s in zip(images, size.tolist(), sigma.tolist(), strict=True)
    ]
    assert_close(x.compute("float32"), expected, FORMULA)
    assert_bytes(x.compute("uint8"), map(to_bytes, expected))


def test_blur_with_other_values_for_x_and_y() -> None:
    images = pictures()
    n = len(images)
    x = gi.gaussian_blur(images, (5, 3), (0.7, 2.0))
    assert_close(x, [references.gaussian_blur(to_unit(picture), (5, 3), (0.7, 2.0)) for picture in images], FORMULA)
    sizes = np.array([(1, 7), (3, 5), (5, 1), (7, 3), (3, 3), (1, 9)])
    sigma = np.random.default_rng(2).uniform(0.2, 3, (n, 2))
    x = gi.gaussian_blur(images, (sizes[:, 0], sizes[:, 1]), (sigma[:, 0], sigma[:, 1]))
    expected = [
        references.gaussian_blur(to_unit(picture), (k[0], k[1]), (s[0], s[1]))
        for picture, k, s in zip(images, sizes.tolist(), sigma.tolist(), strict=True)
    ]
    assert_close(x, expected, FORMULA)


def test_a_list_of_two_is_width_and_height_for_any_number_of_images() -> None:
    # As in torchvision, whose gaussian_blur(x, [3, 1]) blurs along x only.
    x = np.zeros((3, 3, 5, 1), np.uint8)
    x[:, 1, 2] = 90
    along_x = [[0] * 5, [0, 30, 30, 30, 0], [0] * 5]
    for n in (1, 2, 3):
        for kernel in ([3, 1], (3, 1)):
            assert gi.gaussian_blur(x[:n], kernel, 1e3).array()[..., 0].tolist() == [along_x] * n
        narrow = gi.gaussian_blur(x[:n], 3, [1e3, 1e-3]).array()[..., 0]
        assert narrow.tolist() == [along_x] * n


def test_an_array_has_a_row_for_each_image() -> None:
    images = pictures()[:2]
    sizes, sigmas = np.array([(1, 7), (3, 5)]), np.array([(0.4, 2.0), (1.0, 0.7)])
    x = gi.gaussian_blur(images, sizes, sigmas)
    expected = [
        references.gaussian_blur(to_unit(picture), (k[0], k[1]), (s[0], s[1]))
        for picture, k, s in zip(images, sizes.tolist(), sigmas.tolist(), strict=True)
    ]
    assert_close(x, expected, FORMULA)
    # One number for each image, also where it is a batch of two.
    x = gi.gaussian_blur(images, np.array([3, 5]), np.array([0.5, 2.0]))
    expected = [
        references.gaussian_blur(to_unit(p), (k, k), (s, s)) for p, k, s in zip(images, (3, 5), (0.5, 2), strict=True)
    ]
    assert_close(x, expected, FORMULA)


def test_one_number_in_a_sequence_is_both_axes() -> None:
    images = pictures()
    expected = gi.gaussian_blur(images, 5, 2.0).compute()
    for size, sigma in (([5], (2.0,)), ((5,), [2.0]), (np.int64(5), np.float32(2))):
        assert_same(gi.gaussian_blur(images, size, sigma).compute(), list(expected))


@pytest.mark.parametrize("size", [1, 3, 7, 13])
def test_default_deviation(size: int) -> None:
    images = pictures(sizes=[(20, 31), (7, 7)] if size < 13 else [(20, 31)])
    sigma = 0.15 * size + 0.35
    expected = [references.gaussian_blur(to_unit(picture), (size, size), (sigma, sigma)) for picture in images]
    assert_close(gi.gaussian_blur(images, size), expected, FORMULA)


def test_default_deviation_of_a_literal_size() -> None:
    # A single bright pixel spreads as the weights do: 0.8 for a size of 3.
    x = np.zeros((1, 5, 5, 1), np.float32)
    x[0, 2, 2] = 1
    side = math.exp(-1 / (2 * 0.8**2))
    weights = np.array([0, side, 1, side, 0]) / (1 + 2 * side)
    np.testing.assert_allclose(gi.gaussian_blur(x, 3).array()[0, :, :, 0], np.outer(weights, weights), atol=1e-6)


@pytest.mark.parametrize(("size", "sigma"), [(3, 0.8), (5, 1.3), (7, 0.3), (13, 2.0)])
def test_blur_is_opencvs(size: int, sigma: float) -> None:
    images = pictures(sizes=[(31, 40), (14, 15)])
    expected = [cv2.GaussianBlur(p, (size, size), sigma, borderType=cv2.BORDER_REFLECT_101) for p in images]
    assert_close(gi.gaussian_blur(images, size, sigma), expected, FORMULA)


def test_blur_of_size_one_keeps_the_image() -> None:
    for dtype in ("uint8", "float32"):
        images = pictures(dtype, sizes=[(1, 1), (5, 7)])
        assert_same(list(gi.gaussian_blur(images, 1, 2.0)), images)


def test_blur_keeps_a_constant_image() -> None:
    x = np.full((2, 9, 7, 3), 200, np.uint8)
    np.testing.assert_array_equal(gi.gaussian_blur(x, [3, 5], np.array([0.5, 9])).array(), x)


def test_largest_blur_an_image_can_reflect() -> None:
    images = pictures(sizes=[(4, 9)])
    assert_close(
        gi.gaussian_blur(images, (17, 7), 2.0), [references.gaussian_blur(to_unit(images[0]), (17, 7), (2, 2))], FORMULA
    )
    for size in ((19, 7), (17, 9)):
        with pytest.raises(ValueError, match=r"image 0 of size \(4, 9\) is too small: a kernel of .* of at least \("):
            gi.gaussian_blur(images, size, 2.0)


def test_only_chosen_images_are_blurred() -> None:
    images = pictures()
    where = np.array([True, False, True, True, False, False])
    x = gi.gaussian_blur(images, 5, 1.5, where=where)
    every = gi.gaussian_blur(images, 5, 1.5)
    assert_same(list(x), [every[i] if chosen else images[i] for i, chosen in enumerate(where)])
    # An image that is not blurred may be of any size.
    small = pictures(sizes=[(1, 1), (9, 9)])
    assert_same(list(gi.gaussian_blur(small, 5, where=[False, True]))[:1], small[:1])
    with pytest.raises(ValueError, match=r"image 0 of size \(1, 1\) is too small: .* of at least \(3, 3\)"):
        gi.gaussian_blur(small, 5, where=[True, False])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((4,), "kernel_size must be odd, not 4"),
        ((np.array([3, 3, 3, 2, 3, 3]),), "kernel_size must be odd"),
        ((0,), "kernel_size must be a whole number from 1 to 32768, not 0"),
        ((-3,), "kernel_size must be a whole number from 1 to 32768, not -3"),
        ((3.5,), "kernel_size must be a whole number from 1 to 32768, not 3.5"),
        (([0],), "kernel_size must be a whole number from 1 to 32768, not 0"),
        (((3, 3, 3),), r"kernel_size as a list or tuple is \(x, y\), not 3 values; .* NumPy array of shape \(6,\)"),
        (([3] * 6,), r"kernel_size as a list or tuple is \(x, y\), not 6 values; .* NumPy array of shape \(6,\)"),
        (([[3, 5], [5, 7]],), r"kernel_size as a list must hold two numbers, .* NumPy array of shape \(6, 2\)"),
        (([],), r"kernel_size must be \(x, y\), not \[\]"),
        ((np.array([3, 5]),), r"kernel_size as an array .* \(6,\) or \(6, 2\), not \(2,\); write \(x, y\) as"),
        ((np.array([3, 5, 3]),), r"kernel_size must be one number, or an array of shape \(6,\) .* shape \(3,\)"),
        ((np.ones((2, 6)),), r"kernel_size as an array must have shape \(6, 2\), not \(2, 6\)"),
        ((3, 0), "sigma must be a number from 1e-06 to 1000000, not 0"),
        ((3, -1.0), "sigma must be a number from 1e-06 to 1000000, not -1"),
        ((3, (1.0, -1.0)), "sigma y must be a number from 1e-06 to 1000000, not -1"),
        ((3, math.nan), "sigma must be a number from 1e-06 to 1000000, not nan"),
        ((3, [0.5] * 6), r"sigma as a list or tuple is \(x, y\), not 6 values; .* NumPy array of shape \(6,\)"),
    ],
)
def test_bad_blurs_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gi.gaussian_blur(pictures(), *given)


# -- sharpness ---------------------------------------------------------------------------------------------------------


@kinds
def test_sharpness(dtype: str, channels: int) -> None:
    sizes = [*SIZES, (1, 1), (2, 9), (9, 2), (3, 3)]
    images = pictures(dtype, channels, sizes)
    factor = [0, 0.4, 1, 1.7, 3, 12, 2, 2, 2, 2]
    x = gi.adjust_sharpness(images, factor)
    expected = [references.adjust_sharpness(to_unit(picture), f) for picture, f in zip(images, factor, strict=True)]
    assert_close(x.compute("float32"), expected, FORMULA)
    assert_bytes(x.compute("uint8"), map(to_bytes, expected))


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0, 1.9])
def test_sharpness_is_pillows_within_rounding(factor: float) -> None:
    """Pillow rounds the smoothed image to bytes first, which counts (1 - factor) times, and truncates the result."""
    images = pictures("uint8", sizes=[(31, 40), (14, 15)])
    results = gi.adjust_sharpness(images, factor)
    for picture, result in zip(images, results, strict=True):
        pillow = np.asarray(ImageEnhance.Sharpness(Image.fromarray(picture)).enhance(factor))
        assert np.abs(pillow.astype(int) - result.astype(int)).max() <= math.ceil(0.5 * abs(1 - factor) + 0.5)


def test_sharpness_of_one_keeps_the_image() -> None:
    images = pictures("uint8")
    assert_same(list(gi.adjust_sharpness(images, 1)), images)


def test_only_chosen_images_are_sharpened() -> None:
    images = pictures()
    where = np.array([True, False, True, True, False, False])
    every = gi.adjust_sharpness(images, 3)
    x = gi.adjust_sharpness(images, 3, where=where)
    assert_same(list(x), [every[i] if chosen else images[i] for i, chosen in enumerate(where)])


@pytest.mark.parametrize("factor", [-0.1, math.nan, math.inf, [1, 2]])
def test_bad_factors_are_refused(factor: Any) -> None:
    with pytest.raises(ValueError, match="sharpness_factor must be"):
        gi.adjust_sharpness(pictures(), factor)


# -- stages ------------------------------------------------------------------------------------------------------------


def one_by_one(images: Any, steps: Any) -> gi.Batch:
    for step in steps:
        images = step(images).compute("float32")
    result: gi.Batch = images
    return result


CHAINS: dict[str, tuple[int, Any]] = {
    "blur": (1, [lambda x: gi.gaussian_blur(x, 5, 1.2)]),
    "blur, then color": (
        1,
        [lambda x: gi.gaussian_blur(x, 5, 1.2), lambda x: gi.adjust_hue(x, 0.2), lambda x: gi.invert(x)],
    ),
    "blur, then resize": (2, [lambda x: gi.gaussian_blur(x, 5, 1.2), lambda x: gi.resize(x, (20, 11))]),
    "resize, then blur": (2, [lambda x: gi.resize(x, (20, 11)), lambda x: gi.gaussian_blur(x, 5, 1.2)]),
    "color, then blur": (2, [lambda x: gi.adjust_brightness(x, 1.5), lambda x: gi.gaussian_blur(x, 5, 1.2)]),
    "two blurs": (2, [lambda x: gi.gaussian_blur(x, 5, 1.2), lambda x: gi.gaussian_blur(x, 3, 0.5)]),
    "blur, then flip": (2, [lambda x: gi.gaussian_blur(x, 5, 1.2), gi.horizontal_flip]),
    "blur, then pad": (2, [lambda x: gi.gaussian_blur(x, 5, 1.2), lambda x: gi.pad(x, 3, 0.5)]),
    "sharpness": (1, [lambda x: gi.adjust_sharpness(x, 2.5)]),
    "sharpness among color": (
        1,
        [
            lambda x: gi.adjust_brightness(x, 1.5),
            lambda x: gi.adjust_sharpness(x, 2.5),
            lambda x: gi.adjust_saturation(x, 0.3),
        ],
    ),
    "sharpness after geometry": (
        1,
        [lambda x: gi.crop(x, 0, 1, 6, 6), gi.vertical_flip, lambda x: gi.adjust_sharpness(x, 2.5)],
    ),
    "sharpness after a rotation": (
        1,
        [lambda x: gi.rotate(x, 20, "bilinear", fill=0.4), lambda x: gi.adjust_sharpness(x, 2.5)],
    ),
    "sharpness, then geometry": (
        2,
        [lambda x: gi.adjust_sharpness(x, 2.5), lambda x: gi.rotate(x, 20, "bilinear", fill=0.4)],
    ),
    "sharpness, then a crop": (2, [lambda x: gi.adjust_sharpness(x, 2.5), lambda x: gi.crop(x, 1, 1, 4, 4)]),
    "two sharpnesses": (2, [lambda x: gi.adjust_sharpness(x, 2.5), lambda x: gi.adjust_sharpness(x, 0.3)]),
    "two sharpnesses with color between": (
        2,
        [
            lambda x: gi.adjust_sharpness(x, 2.5),
            lambda x: gi.adjust_brightness(x, 0.6),
            lambda x: gi.adjust_sharpness(x, 0.3),
        ],
    ),
    "sharpness of a blurred image": (
        1,
        [lambda x: gi.gaussian_blur(x, 5, 1.2), lambda x: gi.adjust_sharpness(x, 2.5)],
    ),
    "blur of a sharpened image": (2, [lambda x: gi.adjust_sharpness(x, 2.5), lambda x: gi.gaussian_blur(x, 5, 1.2)]),
    "contrast of a sharpened image": (
        2,
        [lambda x: gi.adjust_sharpness(x, 2.5), lambda x: gi.adjust_contrast(x, 0.5)],
    ),
    "sharpness after contrast": (2, [lambda x: gi.adjust_contrast(x, 0.5), lambda x: gi.adjust_sharpness(x, 2.5)]),
    "contrast of a blurred image": (2, [lambda x: gi.gaussian_blur(x, 5, 1.2), lambda x: gi.adjust_contrast(x, 0.5)]),
    "painted over": (
        1,
        [
            lambda x: gi.gaussian_blur(x, 5, 1.2),
            lambda x: gi.erase(x, 1, 2, 3, 3, 0.7),
            lambda x: gi.adjust_sharpness(x, 2.5),
        ],
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_its_functions_one_at_a_time(name: str) -> None:
    launches, steps = CHAINS[name]
    images = pictures()
    chain: Any = images
    for step in steps:
        chain = step(chain)
    assert_close(chain.compute("float32"), list(one_by_one(images, steps)), FLOAT * 5)
    assert chain.launches == launches


def test_a_resize_after_a_blur_samples_float_values() -> None:
    images = pictures("uint8")
    x = gi.resize(gi.gaussian_blur(images, 5, 1.2), (20, 11))
    expected = [references.resize(references.gaussian_blur(to_unit(p), (5, 5), (1.2, 1.2)), 20, 11) for p in images]
    assert_close(x.compute("float32"), expected, GEOMETRY)
    assert_bytes(x.compute("uint8"), map(to_bytes, expected))


def test_a_chosen_blur_leaves_the_others_to_the_next_stage() -> None:
    images = pictures()
    where = [True, False, False, True, False, True]
    x = gi.resize(gi.gaussian_blur(images, 5, 1.2, where=where), (20, 11))
    every, none = gi.resize(gi.gaussian_blur(images, 5, 1.2), (20, 11)), gi.resize(images, (20, 11))
    assert_close(x, [every[i] if chosen else none[i] for i, chosen in enumerate(where)], FLOAT)


def test_a_batch_is_the_loop_over_its_images() -> None:
    images = pictures("uint8")
    factor = [0, 0.5, 1, 2, 3, 4]
    size = np.array([3, 5, 7, 3, 5, 7])
    sigma = np.array([0.2, 0.5, 1, 2, 3, 4])

    def chain(part: slice) -> list[NDArray[Any]]:
        x = gi.gaussian_blur(images[part], size[part], sigma[part])
        x = gi.rotate(gi.adjust_sharpness(x, factor[part]), 10, "bilinear")
        return list(gi.adjust_sharpness(x, factor[part]).compute("float32"))

    whole = chain(slice(None))
    for i in range(6):
        assert_same(chain(slice(i, i + 1)), whole[i : i + 1])
    assert_same(chain(slice(0, 2)) + chain(slice(2, 6)), whole)
