"""Laws: what holds for any image and any parameter, without knowing a single value."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpuimg as gi

from ..compare import GEOMETRY
from . import strategies

FLOAT = 2e-6  # a few roundings of float32 at 1


@given(strategies.arrays(), strategies.interpolations, st.booleans())
def test_resize_to_its_own_size(x: NDArray[Any], interpolation: str, antialias: bool) -> None:
    np.testing.assert_array_equal(gi.resize(x, x.shape[1:3], interpolation, antialias=antialias).array(), x)


@given(strategies.arrays())
def test_neutral_color(x: NDArray[Any]) -> None:
    colors = gi.adjust_brightness(x, 1), gi.adjust_contrast(x, 1), gi.adjust_saturation(x, 1)
    for y in (*colors, gi.erase(x, 0, 0, 0, 0)):
        np.testing.assert_array_equal(y.array(), x)
    for y in (gi.adjust_hue(x, 0), gi.invert(gi.invert(x))):
        np.testing.assert_allclose(y.array("float32"), gi.pad(x, 0).array("float32"), atol=FLOAT)
    np.testing.assert_array_equal(gi.normalize(x, 0, 1).array("float32"), gi.adjust_brightness(x, 1).array("float32"))


@given(strategies.arrays(), st.tuples(*[st.integers(0, 6)] * 4), st.booleans())
def test_a_crop_undoes_a_border(x: NDArray[Any], sides: tuple[int, int, int, int], edge: bool) -> None:
    padded = gi.pad(x, sides, 1, "edge" if edge else "constant")
    np.testing.assert_array_equal(gi.crop(padded, sides[1], sides[0], *x.shape[1:3]).array(), x)
    np.testing.assert_array_equal(gi.pad(padded, [-side for side in sides]).array(), x)


@given(strategies.arrays(), st.integers(-8, 8), strategies.interpolations, st.booleans())
def test_quarter_turns(x: NDArray[Any], quarters: int, interpolation: str, expand: bool) -> None:
    """Those that change the size expand the image, or are of a square."""
    if quarters % 2 and not expand:
        x = x[:, : x.shape[2], : x.shape[1]]
    turned = np.rot90(x, quarters, (1, 2))
    np.testing.assert_array_equal(gi.rotate(x, 90 * quarters, interpolation, expand=expand).array(), turned)
    if not expand:
        np.testing.assert_array_equal(gi.affine(x, -90 * quarters, (0, 0), 1, 0, interpolation).array(), turned)


@given(strategies.arrays(), strategies.angles, strategies.angles, strategies.filters)
def test_turns_add_up(x: NDArray[Any], one: float, other: float, interpolation: str) -> None:
    twice = gi.rotate(gi.rotate(x, one, interpolation, fill=None), other, interpolation, fill=None)
    once = gi.rotate(x, one + other, interpolation, fill=None)
    np.testing.assert_allclose(twice.array("float32"), once.array("float32"), atol=GEOMETRY)


@given(strategies.arrays(), strategies.sides, strategies.sides, strategies.angles)
def test_bilinear_results_lie_within_the_image(x: NDArray[Any], height: int, width: int, angle: float) -> None:
    low, high = x.min((1, 2, 3), keepdims=True), x.max((1, 2, 3), keepdims=True)
    for y in (gi.resize(x, (height, width)), gi.rotate(x, angle, "bilinear", fill=None)):
        array = y.array()
        slack = 0 if x.dtype == np.uint8 else FLOAT
        assert np.all(array >= low - slack)
        assert np.all(array <= high + slack)


@given(strategies.sides, strategies.sides, st.integers(0, 255), strategies.sides, strategies.sides, strategies.angles,
       strategies.interpolations)  # fmt: skip
def test_a_constant_image_stays_constant(
    height: int, width: int, level: int, new_height: int, new_width: int, angle: float, interpolation: str
) -> None:
    x = np.full((1, height, width, 3), level, np.uint8)
    size = new_height, new_width
    resized, turned = gi.resize(x, size, interpolation), gi.rotate(x, angle, interpolation, fill=None)
    for k, y in enumerate((
        resized, gi.resize(x, size, interpolation, antialias=False), gi.rotate(x, angle, interpolation, fill=level),
        turned, gi.pad(resized, 2, padding_mode="edge"),
        gi.adjust_hue(gi.adjust_contrast(gi.resize(x, size), 0.5), 0.3), gi.autocontrast(resized),
        gi.autocontrast(turned),
    )):  # fmt: skip
        array = y.array()
        assert np.all(np.abs(array.astype(int) - level) <= (k == 5))  # the gray weights sum to 0.9999
        assert np.all(array == array[0, 0, 0, 0])
