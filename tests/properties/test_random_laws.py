"""Laws of whole chains, with random functions among them."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._plan.compile import compile_plan

from ..compare import FORMULA, assert_close, assert_same
from . import chains, strategies

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
    chain = [geometric, *steps]
    assert_close(
        results(chains.run(chain, images, rng)), results(chains.run(chain, images, rng, computed=True)), FORMULA
    )


@given(st.data(), strategies.ragged(), seeds)
def test_chain_of_plain_functions_is_one_pass(data: st.DataObject, images: list[NDArray[Any]], seed: int) -> None:
    rng = gi.Rng(seed, indices=np.arange(len(images)))
    x = gi.random_resized_crop(images, 9, rng=rng)
    for name in data.draw(st.lists(st.sampled_from(PLAIN), max_size=6)):
        x = (chains.GEOMETRY | chains.POINTWISE | chains.OTHERS)[name](x, rng)
    (plan,) = recording_of(x).segments
    (only,), *_ = compile_plan(plan)
    assert only.end_slot == 0  # without statistics
