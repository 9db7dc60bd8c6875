"""Blur and sharpness against their formulas and other libraries, and the segments they end."""

from __future__ import annotations

import io
import math
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

import gpuimg as gi
from gpuimg._batch.batch import recording_of

from .. import references
from ..compare import FORMULA, GEOMETRY, assert_bytes, assert_close, assert_same
from ..references import to_bytes, to_unit
from ..samples import file_of, image, kinds

FLOAT = 2e-6  # a few roundings of float32 at 1

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
        with pytest.raises(ValueError, match=r"image 0: its size \(4, 9\) is too small: a kernel of .* of at least \("):
            gi.gaussian_blur(images, size, 2.0)


def test_an_image_that_is_not_blurred_may_be_of_any_size() -> None:
    small = pictures(sizes=[(1, 1), (9, 9)])
    assert_same(list(gi.gaussian_blur(small, 5, where=[False, True]))[:1], small[:1])
    with pytest.raises(ValueError, match=r"image 0: its size \(1, 1\) is too small: .* of at least \(3, 3\)"):
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


# -- motion ------------------------------------------------------------------------------------------------------------


@kinds
def test_motion_blur_is_its_formula(dtype: str, channels: int) -> None:
    generator = np.random.default_rng()
    images = pictures(dtype, channels, [*SIZES, (1, 9), (11, 1), (1, 1), (2, 3)] * 2)
    length, angle = generator.integers(1, 24, len(images)), generator.uniform(-360, 360, len(images))
    angle[:4], length[:4] = (0, 90, 45, 180), (3, 5, 7, 9)  # odd: even ones yield ties, which rounding decides
    x = gi.motion_blur(images, length, angle)
    expected = [references.motion_blur(to_unit(p), k, a) for p, k, a in zip(images, length, angle, strict=True)]
    assert_close(x.compute("float32"), expected, 4 * FORMULA)
    assert_bytes(x.compute("uint8"), map(to_bytes, expected))


@pytest.mark.parametrize(("length", "angle"), [(3, 0), (7, 90), (5, 180)])
def test_motion_along_rows_and_columns_is_opencvs_mean(length: int, angle: int) -> None:
    picture = pictures()[1]
    size = (1, length) if angle == 90 else (length, 1)
    expected = cv2.blur(picture, size, borderType=cv2.BORDER_REPLICATE)
    np.testing.assert_allclose(gi.motion_blur([picture], length, angle)[0], expected, atol=FLOAT)


def test_motion_starts_and_ends_a_segment() -> None:
    images = pictures(sizes=[(12, 15)] * 3)
    x = gi.horizontal_flip(gi.motion_blur(gi.resize(images, (20, 9)), 5, 30))
    assert len(recording_of(x).segments) == 3
    resized = [references.resize(to_unit(picture), 20, 9) for picture in images]
    assert_close(x, [references.motion_blur(picture, 5, 30)[:, ::-1] for picture in resized], GEOMETRY)
    chosen = gi.motion_blur(images, 9, 30, where=[True, False, True])
    assert_same([chosen[1]], [images[1]])
    # Two filters that read neighbors are two segments; statistics are of the results of the first one.
    twice = gi.adjust_sharpness(gi.motion_blur(images, 3), 2.0)
    assert_close(twice, gi.adjust_sharpness(list(gi.motion_blur(images, 3).compute()), 2.0), FLOAT)
    stretched = gi.autocontrast(gi.motion_blur(images, 9)).array()
    assert stretched.min() == 0.0
    assert stretched.max() == 1.0


@pytest.mark.parametrize("length", [0, 256, 2.5, -1, math.nan, "3"])
def test_bad_motions_are_refused(length: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"^length must be"):
        gi.motion_blur(np.zeros((2, 9, 9, 3), np.uint8), length)


# -- artefacts of JPEGs ------------------------------------------------------------------------------------------------


def as_jpeg(picture: NDArray[Any], quality: int) -> NDArray[Any]:
    """Compressed and decoded by libjpeg."""
    data = file_of(picture if picture.shape[2] == 3 else picture[..., 0], quality=quality)
    return np.asarray(Image.open(io.BytesIO(data))).reshape(picture.shape)


def smooth(height: int, width: int, channels: int) -> NDArray[Any]:
    """A picture with few frequencies, whose blocks keep some of them at any quality."""
    noise = np.random.default_rng().integers(0, 256, (3, 4, channels), np.uint8)
    large = cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.asarray(large).reshape(height, width, channels)


# With edges at each place of a block, and so narrow that libjpeg repeats their chroma.
CODED_SIZES = [
    (1, 1),
    (2, 4),
    (4, 5),
    (8, 8),
    (16, 16),
    (15, 17),
    (17, 33),
    (31, 7),
    (1, 40),
    (40, 1),
    (33, 24),
    (64, 50),
]


@pytest.mark.parametrize("channels", [1, 3])
def test_artefacts_are_libjpegs(channels: int) -> None:
    """Pixel for pixel."""
    generator = np.random.default_rng()
    images = [
        part for size in CODED_SIZES for part in (image(generator, *size, channels, "uint8"), smooth(*size, channels))
    ]
    for quality in (np.full(len(images), 1), generator.integers(1, 101, len(images)), np.full(len(images), 100)):
        expected = [as_jpeg(picture, int(q)) for picture, q in zip(images, quality, strict=True)]
        assert_same(list(gi.jpeg(images, quality)), expected)
        floats = [to_unit(picture).astype(np.float32) + generator.uniform(-0.4, 0.4) / 255 for picture in images]
        assert_close(gi.jpeg(floats, quality), [to_unit(picture) for picture in expected], FLOAT)


def test_artefacts_start_and_end_a_segment() -> None:
    images = pictures("uint8", sizes=[(40, 33)] * 3)
    x = gi.autocontrast(gi.jpeg(gi.horizontal_flip(images), 40, where=[True, False, True]))
    flipped = [picture[:, ::-1] for picture in images]
    coded = [as_jpeg(flipped[0], 40), flipped[1], as_jpeg(flipped[2], 40)]
    assert (len(recording_of(x).segments), x.launches) == (2, 0)
    assert_same(list(x), list(gi.autocontrast(coded)))
    assert x.launches == 5  # of the flip, of its blocks and colors, of a statistic and of the result
    assert len(recording_of(gi.resize(gi.jpeg(images, 40), 20)).segments) == 2
    again = gi.jpeg(gi.jpeg(images, 20), [30, 90, 50])
    assert_same(list(again), [as_jpeg(as_jpeg(p, 20), q) for p, q in zip(images, (30, 90, 50), strict=True)])
    gray = gi.rgb_to_grayscale(gi.jpeg(images, 5))
    assert_same(list(gray), list(gi.rgb_to_grayscale([as_jpeg(picture, 5) for picture in images])))
    assert "jpeg: quality 40" in gi.describe(x, 2)
    assert "jpeg" not in gi.describe(x, 1)


def test_a_small_batch_alongside_a_large_one_has_room_for_its_chroma() -> None:
    """Narrow images need more memory for whole blocks of chroma than they have pixels."""
    images = pictures("uint8", sizes=[(61, 1), (1, 61), (300, 1)])
    assert_same(list(gi.jpeg(images, 30)), [as_jpeg(picture, 30) for picture in images])


@pytest.mark.parametrize("quality", [0, 101, 2.5, -1, math.nan, "3"])
def test_bad_qualities_are_refused(quality: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"^quality must be"):
        gi.jpeg(np.zeros((2, 9, 9, 3), np.uint8), quality)


def test_artefacts_of_what_is_no_picture_are_refused() -> None:
    with pytest.raises(ValueError, match="jpeg must come before normalize"):
        gi.jpeg(gi.normalize(np.zeros((2, 9, 9, 3), np.uint8), 0.5, 0.5), 50)
    with pytest.raises(ValueError, match="jpeg is for images of 1 or 3 channels, and these have 4"):
        gi.jpeg(np.zeros((2, 9, 9, 4), np.uint8), 50)


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


@pytest.mark.parametrize("factor", [-0.1, math.nan, math.inf, [1, 2]])
def test_bad_factors_are_refused(factor: Any) -> None:
    with pytest.raises(ValueError, match="sharpness_factor must be"):
        gi.adjust_sharpness(pictures(), factor)


# -- segments ----------------------------------------------------------------------------------------------------------


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
    "sharpness of a blurred image": (1, [lambda x: gi.gaussian_blur(x, 5, 1.2), lambda x: gi.adjust_sharpness(x, 2.5)]),
    "blur of a sharpened image": (2, [lambda x: gi.adjust_sharpness(x, 2.5), lambda x: gi.gaussian_blur(x, 5, 1.2)]),
    "contrast of a sharpened image": (2, [lambda x: gi.adjust_sharpness(x, 2.5), lambda x: gi.adjust_contrast(x, 0.5)]),
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


def test_a_chosen_blur_leaves_the_others_to_the_next_segment() -> None:
    images = pictures()
    where = [True, False, False, True, False, True]
    x = gi.resize(gi.gaussian_blur(images, 5, 1.2, where=where), (20, 11))
    every, none = gi.resize(gi.gaussian_blur(images, 5, 1.2), (20, 11)), gi.resize(images, (20, 11))
    assert_close(x, [every[i] if chosen else none[i] for i, chosen in enumerate(where)], FLOAT)
