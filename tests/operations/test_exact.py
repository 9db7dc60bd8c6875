"""``exact=``: the bytes of Pillow's and of torch's resize, with the libraries themselves as the oracles."""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image, ImageOps

import gpuimg as gi

from ..libraries import cases, library
from ..samples import PHOTOS

NAMES = ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming")
FILTERS = {name: Image.Resampling[name.upper()] for name in NAMES}
RULE: Any = "pillow" if int(PIL.__version__.split(".")[0]) >= 13 else "pillow12"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

Pixels = NDArray[np.uint8]


def by_pillow(image: Pixels, size: tuple[int, int], interpolation: str) -> Pixels:
    """Pillow's resize of an (H, W, C) array to (height, width)."""
    picture = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
    return np.asarray(picture.resize(size[::-1], FILTERS[interpolation])).reshape(*size, image.shape[2])


def content(rng: np.random.Generator, height: int, width: int, channels: int) -> Pixels:
    """Noise, extremes (overshoot), neighbors a level apart (sums near halves), or a ramp."""
    shape = height, width, channels
    kind = rng.integers(4)
    if kind == 0:
        return rng.integers(0, 256, shape, dtype=np.uint8)
    if kind == 1:
        return (rng.integers(0, 2, shape) * 255).astype(np.uint8)
    if kind == 2:
        return (rng.integers(0, 255) + rng.integers(0, 2, shape)).astype(np.uint8)
    y, x, c = np.indices(shape)
    ramp: Pixels = ((x * rng.integers(1, 9) + y * rng.integers(1, 9) + c * 37) & 255).astype(np.uint8)
    return ramp


def side(rng: np.random.Generator, most: int = 700) -> int:
    """A length from 1 to ``most``, as often small as large."""
    return 1 if rng.integers(12) == 0 else round(float(np.exp(rng.uniform(0.0, np.log(most)))))


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("channels", [1, 3])
def test_bytes_of_pillow(interpolation: Any, channels: int) -> None:
    rng = np.random.default_rng()
    values = 0
    while values < 500_000:
        pictures = [content(rng, side(rng), side(rng), channels) for _ in range(8)]
        size = side(rng), side(rng)
        results = gi.resize(pictures, size, interpolation, exact=RULE).array()
        for picture, result in zip(pictures, results, strict=True):
            assert np.array_equal(result, by_pillow(picture, size, interpolation)), (picture.shape, size)
        values += results.size


@cases("torch", "interpolation", ["bilinear", "bicubic", "lanczos"])
@cases("torch", "channels", [1, 3, 4])
def test_bytes_of_torch(interpolation: Any, channels: int) -> None:
    rng = np.random.default_rng()
    torch = library("torch")
    resized = functools.partial(torch.nn.functional.interpolate, mode=interpolation, antialias=True)
    values = 0
    while values < 300_000:
        picture = content(rng, side(rng, 300), side(rng, 300), channels)
        size = side(rng, 300), side(rng, 300)
        try:
            expected = resized(torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1)))[None], size)
        except RuntimeError as error:
            if "INTERNAL ASSERT" not in str(error):  # a defect of torch's, for some shapes
                raise
            continue
        result = gi.resize([picture], size, interpolation, exact="torch").array()[0]
        assert np.array_equal(result, expected[0].numpy().transpose(1, 2, 0)), (picture.shape, size)
        values += result.size


def test_rgba_bytes_of_pillow() -> None:
    """Colors times alpha are resized, but where a side stays; with and without operations around."""
    rng = np.random.default_rng()
    for interpolation in set(FILTERS) - {"nearest"}:
        pictures = [content(rng, side(rng, 200), side(rng, 200), 4) for _ in range(8)]
        for picture in pictures[::2]:
            picture[:, :, 3] = rng.choice([0, 1, 128, 254, 255], picture.shape[:2])
        size = pictures[0].shape[0], pictures[0].shape[1]
        results = gi.resize(pictures, size, interpolation, exact=RULE).array()
        flipped = gi.horizontal_flip(gi.resize(gi.vertical_flip(pictures), size, interpolation, exact=RULE)).array()
        for picture, result, other in zip(pictures, results, flipped, strict=True):
            assert np.array_equal(result, by_pillow(picture, size, interpolation))
            assert np.array_equal(other, by_pillow(picture[::-1], size, interpolation)[:, ::-1])
    planes = gi.resize(gi.resize(pictures, (30, 20), exact=RULE), (20, 31), exact=RULE).array(layout="NCHW")
    for picture, result in zip(pictures, planes, strict=True):
        expected = by_pillow(by_pillow(picture, (30, 20), "bilinear"), (20, 31), "bilinear")
        assert np.array_equal(result, expected.transpose(2, 0, 1))


GOLDEN = json.loads(Path(__file__).with_name("pillow12.json").read_text())


def golden_image(height: int, width: int, channels: int) -> Pixels:
    """An image by a formula: squares of whole numbers, whose last bytes look like noise."""
    k = np.arange(height * width * channels, dtype=np.uint64)
    values = (k * k * np.uint64(2654435761) >> np.uint64(13)) & np.uint64(255)
    return values.astype(np.uint8).reshape(height, width, channels)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: "-".join(map(str, case[:6])))
def test_bytes_of_pillow_before_13(case: list[Any]) -> None:
    height, width, channels, rows, columns, interpolation, digest = case
    picture = golden_image(height, width, channels)
    result = gi.resize([picture], (rows, columns), interpolation, exact="pillow12").array()[0]
    assert hashlib.sha256(result.tobytes()).hexdigest() == digest


@given(st.tuples(*[st.integers(1, 60)] * 4), st.sampled_from(sorted(FILTERS)), st.sampled_from([1, 3]), st.data())
def test_any_window_of_any_size(sizes: tuple[int, int, int, int], interpolation: Any, channels: int, data: Any) -> None:
    height, width, rows, columns = sizes
    picture = np.random.default_rng(height * 61 + width).integers(0, 256, (height, width, channels), dtype=np.uint8)
    y, x = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    h, w = data.draw(st.integers(1, height - y)), data.draw(st.integers(1, width - x))
    top, left = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    below, right = data.draw(st.integers(1, rows - top)), data.draw(st.integers(1, columns - left))
    batch = gi.resized_crop([picture], y, x, h, w, (rows, columns), interpolation, exact=RULE)
    result = gi.crop(batch, top, left, below, right).array()[0]
    expected = by_pillow(picture[y : y + h, x : x + w], (rows, columns), interpolation)
    assert np.array_equal(result, expected[top : top + below, left : left + right])


@pytest.mark.parametrize("rule", ["pillow12", "torch"])
def test_images_that_grow_between_passes(rule: Any) -> None:
    column = golden_image(30_000, 1, 3)
    with pytest.raises(ValueError, match=r"image 1: resized from 30000 x 1 to 1 x 30000 .* 30000 x 30000 pixels"):
        gi.resize([column[:9], column], np.array([[9, 9], [1, 30_000]]), exact=rule)
    result = gi.resize([column], (1, 30_000), exact="pillow").array()[0]
    assert RULE != "pillow" or np.array_equal(result, by_pillow(column, (1, 30_000), "bilinear"))


def test_narrow_images_do_not_grow_without_limit() -> None:
    with pytest.raises(ValueError, match=r"image 1: resized from 1 x 30000 to 224 x 6720000 .* to 524288 pixels"):
        gi.resize([golden_image(9, 9, 3), golden_image(1, 30_000, 3)], 224, exact=RULE)
    row = golden_image(1, 5, 3)
    assert np.array_equal(gi.resize([row], (1, 1 << 19), exact=RULE)[0], by_pillow(row, (1, 1 << 19), "bilinear"))
    long = np.zeros((1, 1, 600_000, 1), np.uint8)
    assert gi.resize(long, (1, 600_000), exact=RULE).array().shape == long.shape


@pytest.mark.parametrize("shape", [(1, 65_535), (65_535, 1), (30_000, 1), (2, 2), (1, 1), (20, 2500)])
@pytest.mark.parametrize("interpolation", FILTERS)
def test_extreme_shapes(shape: tuple[int, int], interpolation: Any) -> None:
    """With up to thousands of taps."""
    picture = golden_image(*shape, 3)
    for size in ((1, 1), (20, 2), (20, 3), (3, 700), (224, 224)):
        batch, resized = gi.resize([picture], size, interpolation, exact=RULE), by_pillow(picture, size, interpolation)
        assert np.array_equal(batch.array()[0], resized)
        assert np.array_equal(gi.crop(batch, 0, size[1] - 1, size[0], 1).array()[0], resized[:, -1:])


def test_normalization_by_any_deviation() -> None:
    """Quotients rounded once, also where products with the deviation's inverse would not be."""
    rng = np.random.default_rng()
    levels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1).repeat(3, 3)
    scaled = {"pillow": levels.astype(np.float32) / np.float32(255), "torch": levels.astype(np.float32)}
    deviations = [np.exp(rng.uniform(-9, 9, 3)) for _ in range(50)]
    for std in [STD, (1.0, 2.0, 0.5), (1e30, 1e35, 1e36), (1e-30, 1e-35, 1e-37), (1e36, 0.3, 0.3), *deviations]:
        mean, std = rng.uniform(0, 1, 3).astype(np.float32), np.array(std, np.float32)
        for rule, unit in (("pillow", np.float32(1)), ("torch", np.float32(255))):
            want = (scaled[rule] - mean * unit) / (std * unit)
            batch = gi.normalize(gi.resize(levels, (16, 16), exact=rule), mean.tolist(), std.tolist())  # type: ignore[arg-type]
            assert np.array_equal(batch.array(), want), (rule, mean, std)
            assert np.array_equal(batch.array(layout="NCHW"), want.transpose(0, 3, 1, 2)), (rule, mean, std)


def test_whole_pixels_are_moved_after_it() -> None:
    picture = golden_image(50, 70, 3)
    batch = gi.resize([picture], (31, 41), "bicubic", exact=RULE)
    resized = by_pillow(picture, (31, 41), "bicubic")
    assert np.array_equal(gi.horizontal_flip(batch).array()[0], resized[:, ::-1])
    assert np.array_equal(gi.vertical_flip(batch).array()[0], resized[::-1])
    assert np.array_equal(gi.rotate(batch, 90, expand=True).array()[0], np.rot90(resized))
    padded = gi.pad(batch, (1, 2, 3, 4), fill=114).array()[0]
    assert np.array_equal(padded, np.pad(resized, ((2, 4), (1, 3), (0, 0)), constant_values=114))
    flipped_before = gi.resize(gi.horizontal_flip([picture]), (31, 41), "bicubic", exact=RULE).array()[0]
    assert np.array_equal(flipped_before, by_pillow(picture[:, ::-1], (31, 41), "bicubic"))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("rule", ["pillow", "torch"])
def test_the_store_of_bytes(dtype: Any, channels: int, rule: Any) -> None:
    """Parts, mirrored or not, of sizes that are no multiples of vectors; all layouts and dtypes."""
    rng = np.random.default_rng(channels)
    for rows, columns in ((5, 3), (16, 16), (40, 64), (33, 47), (70, 201)):
        images = rng.integers(0, 256, (3, rows + 9, columns + 7, channels), np.uint8)
        resized = gi.crop(gi.resize(images, (rows + 3, columns + 5), exact=rule), 2, 1, rows, columns)
        x = gi.horizontal_flip(resized, where=[True, False, True])
        bytes_ = np.asarray(resized.array())
        bytes_ = np.stack([bytes_[0, :, ::-1], bytes_[1], bytes_[2, :, ::-1]])
        mean, std = (np.array(value[:channels], np.float32) for value in (MEAN, STD))
        unit = bytes_.astype(np.float32)
        if rule == "torch":
            normal = (unit - mean * np.float32(255)) / (std * np.float32(255))
        else:
            normal = (unit / np.float32(255) - mean) / std
        some = gi.normalize(x, mean.tolist(), std.tolist(), where=[True, True, False])
        scaled = unit * np.float32(1 / 255)
        want = np.concatenate([normal[:2], scaled[2:]]).astype(np.dtype(x.compute(dtype).dtype))
        assert np.array_equal(x.array(), bytes_)
        assert np.array_equal(x.array(layout="NCHW"), bytes_.transpose(0, 3, 1, 2))
        assert np.array_equal(some.array(dtype), want)
        assert np.array_equal(some.array(dtype, "NCHW"), want.transpose(0, 3, 1, 2))


def test_what_comes_before_is_rounded_to_bytes() -> None:
    pictures = [golden_image(60, 80, 3), golden_image(33, 21, 3)]
    before = gi.adjust_brightness(gi.rotate(pictures, [17, 35], "bilinear"), 0.7)
    fused = gi.resize(before, (25, 30), "bicubic", exact=RULE).array()
    for result, rotated in zip(fused, before.compute(), strict=True):
        assert np.array_equal(result, by_pillow(np.asarray(rotated), (25, 30), "bicubic"))


def test_only_some_images_and_views_of_one() -> None:
    picture = golden_image(60, 80, 3)
    small, same = gi.resize([picture, picture], (30, 40), "bicubic", exact=RULE, where=[True, False]).compute()
    assert np.array_equal(small, by_pillow(picture, (30, 40), "bicubic"))
    assert np.array_equal(same, picture)
    sizes, photo = [(30, 40), (224, 100), (50, 50)], ImageOps.exif_transpose(Image.open(PHOTOS[0])).convert("RGB")
    views = gi.resize(gi.open_batch([PHOTOS[0]]).take([0, 0, 0]), np.array(sizes), exact=RULE).compute()
    for view, size in zip(views, sizes, strict=True):
        assert np.array_equal(view, by_pillow(np.asarray(photo), size, "bilinear"))


def test_targets_go_as_in_a_plain_resize() -> None:
    masks = (np.indices((60, 80)).sum(0) // 9 % 2).astype(np.uint8)[None]
    boxes = np.array([[[5.0, 6.0, 50.0, 40.0]]])
    x, y = (gi.resized_crop([golden_image(60, 80, 3)], 4, 8, 40, 60, (30, 40), exact=exact) for exact in (RULE, None))
    x, y = gi.horizontal_flip(x), gi.horizontal_flip(y)
    np.testing.assert_array_equal(gi.transform_masks(x, masks), gi.transform_masks(y, masks))
    np.testing.assert_allclose(gi.transform_boxes(x, boxes)[0], gi.transform_boxes(y, boxes)[0], rtol=0, atol=1e-9)
