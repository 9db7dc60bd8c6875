"""Laws: what holds for any image and any parameter, without knowing a single value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpuimg as gi

from ..compare import GEOMETRY, assert_same
from . import strategies

FLOAT = 2e-6  # a few roundings of float32 at 1
# A float32 position between 32 and 64 is rounded by up to 2e-6 pixels, in each of two images and along both axes;
# a cubic between 0 and 1 has slopes of up to 1.5.
POSITIONS = 2 * 2 * 2e-6 * 1.5


def results(batch: gi.Batch, dtype: str | None = None) -> list[NDArray[Any]]:
    return list(batch.compute(dtype))


# -- identities --------------------------------------------------------------------------------------------------------


@given(strategies.arrays(), strategies.interpolations, st.booleans())
def test_resize_to_its_own_size(x: NDArray[Any], interpolation: str, antialias: bool) -> None:
    np.testing.assert_array_equal(gi.resize(x, x.shape[1:3], interpolation, antialias=antialias).array(), x)


@given(strategies.arrays())
def test_neutral_color(x: NDArray[Any]) -> None:
    for y in (
        gi.adjust_brightness(x, 1),
        gi.adjust_contrast(x, 1),
        gi.adjust_saturation(x, 1),
        gi.erase(x, 0, 0, 0, 0),
    ):
        np.testing.assert_array_equal(y.array(), x)
    np.testing.assert_allclose(
        gi.adjust_hue(x, 0).array("float32"), gi.invert(gi.invert(x)).array("float32"), atol=FLOAT
    )
    np.testing.assert_array_equal(gi.normalize(x, 0, 1).array("float32"), gi.adjust_brightness(x, 1).array("float32"))


@given(strategies.arrays())
def test_its_own_inverse(x: NDArray[Any]) -> None:
    np.testing.assert_array_equal(gi.horizontal_flip(gi.horizontal_flip(x)).array(), x)
    np.testing.assert_array_equal(gi.vertical_flip(gi.vertical_flip(x)).array(), x)
    np.testing.assert_allclose(gi.invert(gi.invert(x)).array("float32"), gi.pad(x, 0).array("float32"), atol=FLOAT)
    for image, twice in zip(x, results(gi.rotate(gi.rotate(x, 90, expand=True), -90, expand=True)), strict=True):
        np.testing.assert_array_equal(twice, image)


@given(strategies.arrays(), st.tuples(*[st.integers(0, 6)] * 4), st.booleans())
def test_a_crop_undoes_a_border(x: NDArray[Any], sides: tuple[int, int, int, int], edge: bool) -> None:
    padded = gi.pad(x, sides, 1, "edge" if edge else "constant")
    np.testing.assert_array_equal(gi.crop(padded, sides[1], sides[0], *x.shape[1:3]).array(), x)
    np.testing.assert_array_equal(gi.pad(padded, [-side for side in sides]).array(), x)


# -- symmetries --------------------------------------------------------------------------------------------------------


@given(strategies.arrays(), strategies.sides, strategies.sides, strategies.filters, st.booleans())
def test_resize_commutes_with_flips_and_transposition(
    x: NDArray[Any], height: int, width: int, interpolation: str, antialias: bool
) -> None:
    def resized(images: Any, size: tuple[int, int]) -> NDArray[Any]:
        array: NDArray[Any] = gi.resize(images, size, interpolation, antialias=antialias).array("float32")
        return array

    y = resized(x, (height, width))
    np.testing.assert_allclose(resized(x[:, :, ::-1], (height, width)), y[:, :, ::-1], atol=POSITIONS)
    np.testing.assert_allclose(resized(x[:, ::-1], (height, width)), y[:, ::-1], atol=POSITIONS)
    np.testing.assert_allclose(resized(gi.horizontal_flip(x), (height, width)), y[:, :, ::-1], atol=POSITIONS)
    np.testing.assert_allclose(resized(x.swapaxes(1, 2), (width, height)), y.swapaxes(1, 2), atol=POSITIONS)


@given(strategies.arrays(channels=st.just(3)), strategies.sides, strategies.sides, strategies.angles)
def test_geometry_commutes_with_channel_permutation(x: NDArray[Any], height: int, width: int, angle: float) -> None:
    changes: list[Callable[[Any], gi.Batch]] = [
        lambda y: gi.resize(y, (height, width)),
        lambda y: gi.rotate(y, angle, "bilinear", fill=0.5),
    ]
    for change in changes:
        np.testing.assert_array_equal(change(x[..., [2, 0, 1]]).array(), change(x).array()[..., [2, 0, 1]])


@given(strategies.arrays(), strategies.angles, strategies.filters)
def test_rotating_the_mirror_image(x: NDArray[Any], angle: float, interpolation: str) -> None:
    one = gi.rotate(np.flip(x, 2), angle, interpolation, fill=0.25).array("float32")
    other = gi.rotate(x, -angle, interpolation, fill=0.25).array("float32")[:, :, ::-1]
    np.testing.assert_allclose(one, other, atol=GEOMETRY)


@given(strategies.arrays(), st.integers(-8, 8), strategies.interpolations, st.booleans())
def test_quarter_turns(x: NDArray[Any], quarters: int, interpolation: str, expand: bool) -> None:
    """Those that change the size expand the image, or are of a square."""
    if quarters % 2 and not expand:
        x = x[:, : x.shape[2], : x.shape[1]]
    turned = np.rot90(x, quarters, (1, 2))
    np.testing.assert_array_equal(gi.rotate(x, 90 * quarters, interpolation, expand=expand).array(), turned)
    if not expand:
        np.testing.assert_array_equal(gi.affine(x, -90 * quarters, (0, 0), 1, 0, interpolation).array(), turned)


@given(strategies.arrays(), strategies.angles, strategies.filters)
def test_affine_and_rotate_turn_opposite_ways(x: NDArray[Any], angle: float, interpolation: str) -> None:
    one = gi.affine(x, angle, (0, 0), 1, 0, interpolation).array("float32")
    np.testing.assert_allclose(one, gi.rotate(x, -angle, interpolation).array("float32"), atol=GEOMETRY)


@given(strategies.arrays(), strategies.angles, strategies.angles, strategies.filters)
def test_turns_add_up(x: NDArray[Any], one: float, other: float, interpolation: str) -> None:
    twice = gi.rotate(gi.rotate(x, one, interpolation, fill=None), other, interpolation, fill=None)
    once = gi.rotate(x, one + other, interpolation, fill=None)
    np.testing.assert_allclose(twice.array("float32"), once.array("float32"), atol=GEOMETRY)


# -- bounds ------------------------------------------------------------------------------------------------------------


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
    for k, y in enumerate(
        (
            gi.resize(x, (new_height, new_width), interpolation),
            gi.resize(x, (new_height, new_width), interpolation, antialias=False),
            gi.rotate(x, angle, interpolation, fill=level),
            gi.rotate(x, angle, interpolation, fill=None),
            gi.pad(gi.resize(x, (new_height, new_width), interpolation), 2, padding_mode="edge"),
            gi.adjust_hue(gi.adjust_contrast(gi.resize(x, (new_height, new_width)), 0.5), 0.3),
            gi.autocontrast(gi.resize(x, (new_height, new_width), interpolation)),
            gi.autocontrast(gi.rotate(x, angle, interpolation, fill=None)),
        )
    ):
        array = y.array()
        assert np.all(np.abs(array.astype(int) - level) <= (k == 5))  # the gray weights sum to 0.9999
        assert np.all(array == array[0, 0, 0, 0])


@given(strategies.arrays(), strategies.factors, st.floats(-0.5, 0.5))
def test_color_stays_in_range(x: NDArray[Any], factor: float, shift: float) -> None:
    for y in (
        gi.adjust_brightness(x, factor),
        gi.adjust_contrast(x, factor),
        gi.adjust_saturation(x, factor),
        gi.adjust_hue(x, shift),
        gi.autocontrast(x),
        gi.equalize(x),
        gi.posterize(x, 3),
        gi.solarize(x, 0.5),
    ):
        array = y.array("float32")
        assert array.min() >= 0.0
        assert array.max() <= 1.0


# -- linearity ---------------------------------------------------------------------------------------------------------


@given(
    strategies.arrays(dtype=st.just("float32")), strategies.sides, strategies.sides, strategies.filters, st.booleans()
)
def test_resize_is_linear(x: NDArray[Any], height: int, width: int, interpolation: str, antialias: bool) -> None:
    def resized(images: NDArray[Any]) -> NDArray[Any]:
        array: NDArray[Any] = gi.resize(images, (height, width), interpolation, antialias=antialias).array()
        return array

    np.testing.assert_allclose(resized(2 * x + 3), 2 * resized(x) + 3, atol=10 * FLOAT)


@given(strategies.arrays(dtype=st.just("float32")), strategies.angles, strategies.filters)
def test_rotate_is_linear_in_image_and_fill(x: NDArray[Any], angle: float, interpolation: str) -> None:
    one = gi.rotate(2 * x + 3, angle, interpolation, fill=5).array()
    np.testing.assert_allclose(one, 2 * gi.rotate(x, angle, interpolation, fill=1).array() + 3, atol=10 * FLOAT)


# -- batches -----------------------------------------------------------------------------------------------------------


@given(st.data(), strategies.ragged())
def test_where_chooses_images(data: st.DataObject, images: list[NDArray[Any]]) -> None:
    (first, each), (second, more) = data.draw(strategies.drawn_pairs(len(images), str(images[0].dtype)))
    where = np.array(data.draw(st.lists(st.booleans(), min_size=len(images), max_size=len(images))))
    if second.function is gi.rgb_to_grayscale:  # where= needs the number of channels unchanged
        second = second._replace(fixed={"num_output_channels": first.run(images, each).channels})
    before = first.run(images, each)
    chosen = results(second.run(before, more), "float32")
    kept = results(before, "float32")
    some = results(second.run(before, more, where=where), "float32")
    assert_same(some, [chosen[i] if where[i] else kept[i] for i in range(len(images))])
