"""Laws of functions and of whole chains: what holds for any image and parameter, without knowing a single value."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._plan.compile import compile_plan

from ..compare import FORMULA, GEOMETRY, assert_close, assert_same
from . import chains, strategies

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


@given(strategies.sizes, st.integers(0, 255), strategies.sizes, strategies.angles, strategies.interpolations)
def test_a_constant_image_stays_constant(shape: Any, level: int, size: Any, angle: float, interpolation: str) -> None:
    x = np.full((1, *shape, 3), level, np.uint8)
    resized, turned = gi.resize(x, size, interpolation), gi.rotate(x, angle, interpolation, fill=None)
    for k, y in enumerate((
        resized, gi.resize(x, size, interpolation, antialias=False), gi.rotate(x, angle, interpolation, fill=level),
        turned, gi.pad(resized, 2, padding_mode="edge"),
        gi.adjust_hue(gi.adjust_contrast(gi.resize(x, size), 0.5), 0.3),
        gi.autocontrast(resized), gi.autocontrast(turned),
    )):  # fmt: skip
        array = y.array()
        assert np.all(np.abs(array.astype(int) - level) <= (k == 5))  # the gray weights sum to 0.9999
        assert np.all(array == array[0, 0, 0, 0])


seeds = st.integers(0, 2**64 - 1)
PLAIN = (
    "random_horizontal_flip", "random_rotation", "random_affine", "random_perspective", "color_jitter without contrast",
    "random_solarize", "random_posterize", "random_erasing", "random_grayscale",
)  # fmt: skip


def indices(n: int) -> st.SearchStrategy[list[int]]:
    """A sample index for each image, not in order."""
    return st.lists(st.integers(0, 2**63 - 1), min_size=n, max_size=n, unique=True)


def results(batch: gi.Batch, dtype: str | None = None) -> list[NDArray[Any]]:
    return list(batch.compute(dtype))


@given(st.data(), strategies.ragged(), seeds)
def test_a_batch_is_the_loop_in_any_order(data: st.DataObject, images: list[NDArray[Any]], seed: int) -> None:
    n = len(images)
    steps = data.draw(chains.chains(n, str(images[0].dtype)))
    samples = np.array(data.draw(indices(n)), np.uint64)

    def of(part: list[int]) -> list[NDArray[Any]]:
        x = chains.run(steps, [images[i] for i in part], gi.Rng(seed, epoch=1, indices=samples[part]), part)
        sizes = x.sizes.tolist()  # known before
        found = results(x)
        assert [list(image.shape) for image in found] == [[*size, x.channels] for size in sizes]
        return found

    before = [image.copy() for image in images]
    whole = of(list(range(n)))
    assert_same(of(list(range(n))), whole)
    assert_same(images, before)
    assert_same([of([i])[0] for i in range(n)], whole)
    order = data.draw(st.permutations(range(n)))
    assert_same(of(order), [whole[i] for i in order])
    several = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=4))
    assert_same(of(several), [whole[i] for i in several])


@given(st.data(), strategies.ragged(), seeds)
def test_results_stay_within_black_and_white(data: st.DataObject, images: list[NDArray[Any]], seed: int) -> None:
    n = len(images)
    steps = data.draw(chains.chains(n, str(images[0].dtype), bounded=True))
    for image in results(chains.run(steps, images, gi.Rng(seed, indices=np.arange(n))), "float32"):
        assert np.all(np.isfinite(image))
        # The weights of a filter add up to 1 within a rounding error or two, and white may be inverted.
        assert image.min() >= -2e-6
        assert image.max() <= 1.0 + 2e-6


@given(st.data(), strategies.ragged(dtype=st.just("float32")), seeds)
def test_fused_pointwise_chain_is_its_functions(data: st.DataObject, images: list[NDArray[Any]], seed: int) -> None:
    n = len(images)
    steps = data.draw(chains.pointwise_chains(n, "float32"))
    rng = gi.Rng(seed, indices=np.arange(n))
    fused = chains.run(steps, images, rng)
    assert_close(results(fused), results(chains.run(steps, images, rng, computed=True)), FORMULA)


@given(st.data(), strategies.ragged(dtype=st.just("float32")), seeds)
def test_one_geometric_function_is_as_alone(data: st.DataObject, images: list[NDArray[Any]], seed: int) -> None:
    n = len(images)
    geometric = data.draw(chains.geometric_steps(n, "float32"))
    steps = data.draw(chains.pointwise_chains(n, "float32"))
    rng = gi.Rng(seed, indices=np.arange(n))
    alone = chains.run([geometric], images, rng)
    # Of probability 0: recorded, and nothing else.
    after = gi.random_equalize(gi.random_invert(alone, 0, rng=rng), 0, rng=rng)
    assert_same(results(after), results(alone))
    fused, one_by_one = (chains.run([geometric, *steps], images, rng, computed=each) for each in (False, True))
    assert_close(results(fused), results(one_by_one), FORMULA)


@given(st.data(), strategies.ragged(), seeds)
def test_chain_of_plain_functions_is_one_pass(data: st.DataObject, images: list[NDArray[Any]], seed: int) -> None:
    rng = gi.Rng(seed, indices=np.arange(len(images)))
    x = gi.random_resized_crop(images, 9, rng=rng)
    for name in data.draw(st.lists(st.sampled_from(PLAIN), max_size=6)):
        x = (chains.GEOMETRY | chains.POINTWISE | chains.OTHERS)[name](x, rng)
    (plan,) = recording_of(x).segments
    (only,), *_ = compile_plan(plan)
    assert only.end_slot == 0  # without statistics
