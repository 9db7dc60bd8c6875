"""Color against published formulas, other libraries, and examples that pin the conventions."""

from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from .. import references
from ..compare import FORMULA, assert_close, assert_same
from ..references import to_unit
from ..samples import PER_KIND, kinds, pictures_of


def pixel(*values: float, dtype: str = "uint8") -> NDArray[Any]:
    return np.array(values, dtype).reshape(1, 1, 1, -1)


def row(*values: float, dtype: str = "uint8") -> NDArray[Any]:
    return np.array(values, dtype).reshape(1, 1, -1, 1)


def values(batch: gi.Batch, dtype: str | None = None) -> list[Any]:
    result: list[Any] = batch.array(dtype).ravel().tolist()
    return result


@kinds
def test_posterize(dtype: str, channels: int) -> None:
    pictures = pictures_of(rng := np.random.default_rng(), dtype, channels)
    bits = rng.integers(0, 9, PER_KIND)
    x = gi.posterize(pictures, bits)
    if dtype == "uint8":
        masked = [p & np.uint8(256 - (1 << (8 - b))) for p, b in zip(pictures, bits, strict=True)]
        assert_same(x.compute("uint8"), masked)
        assert_close(x.compute("float32"), map(to_unit, masked), FORMULA)
    else:
        expected = [references.posterize(to_unit(p), b) for p, b in zip(pictures, bits, strict=True)]
        assert_close(x.compute("float32"), expected, FORMULA)


def test_mean_above_1() -> None:
    """Of float images, of normalized ones, and where a function of the user has changed them."""

    @numba.njit
    def to_levels(r: float, g: float, b: float, y: float, x: float, value: float) -> tuple[float, float, float]:
        return r * value, g * value, b * value

    levels = np.full((2, 4, 4, 3), 200, np.float32)
    pixels = levels.astype(np.uint8)
    for x in (levels, gi.normalize(pixels, 0, 1 / 255), gi.pointwise(pixels, to_levels, 255.0)):
        np.testing.assert_allclose(gi.normalize(x, 100.0, 50.0).array(), 2.0, rtol=1e-5)


@numba.njit
def mix(r: Any, g: Any, b: Any, y: Any, x: Any, value: Any) -> Any:
    return g * value, b + y * np.float32(0.01), r * r - x * np.float32(0.01)


RED, BROWN, UNIT = pixel(255, 0, 0), pixel(200, 100, 50), row(0.25, 0.5, dtype="float32")
FLAT = np.stack([np.full((2, 2), 9), [[50, 100], [150, 100]], [[0, 255], [1, 2]]], 2).astype(np.uint8)[None]


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (gi.adjust_hue(RED, 1 / 3), [0, 255, 0]),
        (gi.adjust_hue(RED, -1 / 3), [0, 0, 255]),
        (gi.adjust_hue(RED, 1 / 12), [255, 128, 0]),
        (gi.adjust_hsv(pixel(200, 100, 100), 0, 9, 1), [200, 0, 0]),
        (gi.adjust_hsv(BROWN, 0, 1, 9), [255, 128, 64]),
        (gi.adjust_hsv(BROWN, 1.0), [200, 100, 50]),
        (gi.adjust_hsv(row(10, 200), 0.3, 0, 1.5), [15, 255]),
        (gi.adjust_contrast(row(40, 80), 2), [20, 100]),
        (gi.adjust_contrast(RED, 0), [76, 76, 76]),  # 0.2989 of 255
        (gi.adjust_hue(pixel(7, 7, 7), 0.3), [7, 7, 7]),
        (gi.resize(gi.erase(row(200, 200, 200), 1, 0, 0, 3), (1, 1)), [200]),  # of no rows
        (gi.autocontrast(FLAT), [9, 0, 0, 9, 128, 255, 9, 255, 1, 9, 128, 2]),
        (gi.equalize(row(10, 20, 30)), [10, 20, 30]),  # a step of 0: Pillow's rule
        (gi.equalize(row(*([10] * 255 + [20]))), [0] * 255 + [255]),
        (gi.posterize(row(0.49, 0.5, 1.0, dtype="float32"), 1), [0.0, 0.5, 0.5]),
        (gi.posterize(row(255), [0]), [0]),
        (gi.solarize(row(99, 100, 101), 100), [99, 155, 154]),
        (gi.solarize(row(0, 255), 255), [0, 0]),
        (gi.solarize(UNIT, 0.25), [0.75, 0.5]),
        (gi.solarize(gi.adjust_brightness(UNIT, 2), 1), [0.5, 0.0]),
        (gi.solarize_add(UNIT, 0.25, 0.5), [0.5, 0.5]),
        (gi.solarize_add(row(99, 100, 101), 10, 100), [109, 100, 101]),
        (gi.solarize_add(row(0, 127, 128), 200, 128), [200, 255, 128]),
        (gi.normalize(pixel(0, 255, 255), (0, 0.5, 1), (1, 0.5, 2)), [0.0, 1.0, 0.0]),
        (gi.normalize(pixel(0, 255, 255), [0.5], np.array([0.25])), [-2.0, 2.0, 2.0]),
        # A value that is painted is in the unit of what it is painted over.
        (gi.erase(gi.normalize(RED, gi.IMAGENET_MEAN, gi.IMAGENET_STD), 0, 0, 1, 1, (0, -1, 2)), [0.0, -1.0, 2.0]),
    ],
)
def test_colors_by_hand(batch: gi.Batch, expected: list[float]) -> None:
    assert values(batch) == expected


@numba.njit
def only_first(r: Any, g: Any, b: Any, y: Any, x: Any, value: Any) -> Any:
    return r * value, np.float32(0.0), np.float32(9.0)


@numba.njit
def swap(r: Any, g: Any, b: Any, y: Any, x: Any, value: Any) -> Any:
    return b, r, g


@numba.njit
def invert(r: Any, g: Any, b: Any, y: Any, x: Any) -> Any:
    return np.float32(1.0) - r, np.float32(1.0) - g, np.float32(1.0) - b


@numba.njit
def many(r: Any, g: Any, b: Any, y: Any, x: Any, a: Any, c: Any, d: Any, e: Any, f: Any, h: Any, red: Any = 2.0) -> Any:
    return r * a + c, g * d + e, b * f + h * red


@kinds
def test_pointwise_with_any_number_of_values(dtype: str, channels: int) -> None:
    """Functions of no, one and seven values in one pass, of which some images skip some."""
    pictures = pictures_of(rng := np.random.default_rng(), dtype, channels)
    a, c, d, e, f, h = rng.uniform(-1, 1, (6, PER_KIND))
    chosen = rng.random(PER_KIND) < 0.5
    expected = []
    for k, image in enumerate(pictures):
        r, g, b = np.moveaxis(np.broadcast_to(to_unit(image), (*image.shape[:2], 3)), 2, 0)
        if chosen[k]:
            r, g, b = r * a[k] + c[k], g * d[k] + e[k], b * 0.25 + h[k] * 2.0
            g, b = (g, b) if channels == 3 else (r, r)
        expected.append(np.stack([1 - g * f[k], 1 - b - np.mgrid[: r.shape[0], : r.shape[1]][0] * 0.01], 2))
    x = gi.pointwise(pictures, many, a, c, d, e=e, h=h, f=0.25, where=chosen)
    found = gi.pointwise(gi.pointwise(x, mix, f), invert).compute("float32")
    assert_close(*([image[..., : min(2, channels)] for image in batch] for batch in (found, expected)), 1e-5)
    assert f"pointwise many, a {a[0]:.4g}"[:20] in gi.describe(gi.pointwise(pictures, many, a, c, d, e, 1, 2), 0)
    assert ", red 2" in gi.describe(gi.pointwise(pictures, many, a, c, d, e, 1, 2), 0)


def test_pointwise_keeps_the_first_value_of_one_channel() -> None:
    x = row(100, 200)
    assert values(gi.pointwise(x, only_first, 0.5)) == [50, 100]
    # What follows has it three times again.
    assert values(gi.pointwise(gi.pointwise(x, only_first, 0.5), swap, 0)) == [50, 100]
    assert values(gi.rgb_to_grayscale(gi.pointwise(x, only_first, 0.5), 3)) == [50, 50, 50, 100, 100, 100]
    assert values(gi.pointwise(row(255), only_first, -2), "float32") == [-2.0]  # is not cut
    assert values(gi.pointwise(row(255), only_first, -2)) == [0]


@numba.njit
def picked(r: Any, g: Any, b: Any, y: Any, x: Any, divisor: Any) -> Any:
    return (r / divisor, g, b)[int(g * 7.0)], g, b


@pytest.mark.parametrize("chain", [
    lambda x, **by: gi.pointwise(x, picked, **by), lambda x, **by: gi.autocontrast(gi.pointwise(x, picked, **by)),
    lambda x, **by: gi.pointwise(gi.gaussian_blur(gi.resize(x, (9, 9)), 3, 1.0), picked, **by),
])  # fmt: skip
@pytest.mark.parametrize("channels", [1, 3])
def test_pointwise_functions_that_raise(chain: Any, channels: int, capfd: pytest.CaptureFixture[str]) -> None:
    images = np.full((3, 5, 6, channels), 0.1, np.float32)
    chain(images, divisor=2.0).array("float32")
    images[2] = 0.9
    for _ in range(2):
        with pytest.raises(gi.ImageError, match="image 2: a function passed to pointwise raised an exception"):
            chain(images, divisor=2.0).array("float32")
    found = gi.pointwise(images[:2], picked, [0.0, 0.5]).array("float32")[:, 0, 0, 0]
    np.testing.assert_allclose(found, [np.inf, 0.2])
    assert capfd.readouterr().err == ""


def test_nan_stays_where_it_is_and_is_no_index() -> None:
    x = np.full((1, 8, 8, 3), 0.5, np.float32)
    x[0, 2, 3] = np.nan
    for y in (gi.invert(x), gi.adjust_brightness(x, 1.5), gi.autocontrast(x), gi.adjust_contrast(x, 0.5)):
        assert np.isnan(y.array()[0, 2, 3]).all()
    assert np.argwhere(np.isnan(gi.invert(x).array()[..., 0])).tolist() == [[0, 2, 3]]
    x[0, 4:] = np.nan
    assert np.unique(gi.equalize(x).array()).size == 2
    assert gi.invert(x).array("uint8")[0, 0, 0].tolist() == [128, 128, 128]
