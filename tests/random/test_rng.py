"""Random numbers: NumPy's bits, the stated distributions, and the same draw in whatever batch."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import gpuimg as gi
from gpuimg._random.rng import as_rng, rng_of_rows

from .distributions import (
    COUNT,
    SMALLEST,
    assert_evenly_spread,
    assert_share,
    assert_uniform,
    chi_square,
    kolmogorov_smirnov,
    rng,
)  # fmt: skip

LARGEST = (1 << 64) - 1


def generator(seed: int, epoch: int, draw: int, index: int, stream: int = 0, block: int = 0) -> np.random.Philox:
    """NumPy's generator where it is about to give this block; it counts up before each."""
    counter = block | draw << 64 | index << 128 | stream << 192
    return np.random.Philox(counter=(counter - 1) % (1 << 256), key=seed | epoch << 64)


@pytest.mark.parametrize("seed", [0, 1, 0x0123456789ABCDEF, LARGEST])
@pytest.mark.parametrize("epoch", [0, 3, LARGEST])
def test_words_are_numpys(seed: int, epoch: int) -> None:
    indices = np.array([0, 1, 2, 1000, (1 << 32) + 5, LARGEST], np.uint64)
    x = gi.Rng(seed, epoch=epoch, indices=indices)
    for draw in range(3):
        words = x.words(11)
        assert words.dtype == np.uint64
        for i, index in enumerate(indices.tolist()):
            np.testing.assert_array_equal(words[i], generator(seed, epoch, draw, index).random_raw(11))


def test_streams_do_not_change_between_versions() -> None:
    for stream, expected in (
        (lambda x: x, [0x63E44E2E2AF2DD5F, 0xBC5AA0DDC68169C2]),
        (lambda x: x.split("flip"), [0x48B158B27DBE9D61, 0x704516986363961]),
        (lambda x: x.split("a").split("b"), [0xD44B8577217C8BCE, 0x2FFF743C4D170760]),
        (lambda x: x.fork(), [0x81588E462863C44C, 0xC1531767D32BF2AC]),
    ):
        assert stream(gi.Rng(7, epoch=1, indices=[3])).words(2)[0].tolist() == expected


def test_uniform() -> None:
    assert_uniform(rng().uniform(), 0, 1)
    assert_uniform(rng(2).uniform(-3, 5), -3, 5)
    assert rng(2).uniform(4, 4).tolist() == [4] * COUNT
    expected = [np.random.Generator(generator(3, 2, 0, index)).random() for index in (4, 9)]
    assert gi.Rng(3, epoch=2, indices=[4, 9]).uniform().tolist() == expected
    for column in rng(3, COUNT // 6).units(6).T:
        assert_uniform(column, 0, 1)


@pytest.mark.parametrize(("name", "given", "distribution"), [
    ("normal", (), stats.norm), ("normal", (2, 3), stats.norm(2, 3)),
    *(("gamma", (shape,), stats.gamma(shape)) for shape in (0.1, 0.5, 3.0, 300.0)),
    *(("beta", shapes, stats.beta(*shapes)) for shapes in ((0.5, 0.5), (3.0, 1.0))),
])  # fmt: skip
def test_continuous_draws(name: str, given: Any, distribution: Any) -> None:
    assert kolmogorov_smirnov(getattr(rng(19), name)(*given), distribution.cdf) > SMALLEST


def test_beta_of_tiny_parameters() -> None:
    # The gamma draws of tiny parameters are below the smallest float64: one or the other.
    values = rng(11).beta(1e-4, 1e-4)
    assert_share(values > 0.5, 0.5)
    assert np.mean((values < 0.01) | (values > 0.99)) > 0.99


def test_integers_and_bernoulli() -> None:
    assert_evenly_spread(rng(12).integers(-3, 8), -3, 7)
    assert rng(12).integers(4, 5).tolist() == [4] * COUNT
    assert rng(12).integers(0, 10).dtype == np.int64
    for p in (0.05, 0.5, 0.9):
        assert_share(rng(13).bernoulli(p), p)
    assert rng(13).bernoulli(0).any() < rng(13).bernoulli(1).all()


def test_choice() -> None:
    assert_evenly_spread(rng(14).choice(7), 0, 6)
    drawn = rng(14).choice(["a", "b", "c"], [0.2, 0, 0.8])
    assert set(drawn) == {"a", "c"}
    assert_share(drawn == "c", 0.8)
    assert rng(14).choice([0.25]).tolist() == [0.25] * COUNT


def test_permutation() -> None:
    orders = rng(15, 24_000).permutation(4)
    np.testing.assert_array_equal(np.sort(orders, 1), np.tile(np.arange(4), (24_000, 1)))
    _, counts = np.unique(orders @ [64, 16, 4, 1], return_counts=True)
    assert len(counts) == 24
    assert chi_square(counts) > SMALLEST


DRAWS: list[Callable[[gi.Rng], NDArray[Any]]] = [
    lambda x: x.uniform(-1, 1),
    lambda x: x.normal(1, 2),
    lambda x: x.gamma(0.3),
    lambda x: x.beta(0.5, 2),
    lambda x: x.integers(0, 1000),
    lambda x: x.bernoulli(0.3),
    lambda x: x.choice(50),
    lambda x: x.permutation(9),
    lambda x: x.units(5),
    lambda x: x.words(9),
    lambda x: x.split("name").uniform(),
    lambda x: x.fork().uniform(),
]


def test_a_draw_does_not_depend_on_the_batch() -> None:
    indices = np.array([3, 1, 4, 15, 9, 2, 6, 5, 35, 8])
    for part in (slice(0, 1), slice(3, 7), slice(None, None, -1), [9, 0, 0, 4]):
        whole, some = gi.Rng(21, epoch=2, indices=indices), gi.Rng(21, epoch=2, indices=indices[part])
        for draw in DRAWS:
            np.testing.assert_array_equal(draw(some), draw(whole)[part])


def test_a_parameter_for_each_sample() -> None:
    n = 400
    low, high = np.linspace(-5, 5, n), np.linspace(-4, 9, n)
    np.testing.assert_array_equal(
        rng(22, n).uniform(low, high), [gi.Rng(22, indices=[i]).uniform(low[i], high[i])[0] for i in range(n)]
    )
    whole = rng(22, n).integers(np.arange(n), np.arange(n) + 3) - np.arange(n)
    assert set(whole.tolist()) == {0, 1, 2}
    p = np.arange(n) % 2
    np.testing.assert_array_equal(rng(22, n).bernoulli(p), p == 1)
    np.testing.assert_array_equal(rng(22, n).normal(low, 0), low)
    small = rng(22, n).gamma(np.where(p, 1e-3, 1e3))
    assert np.all((small < 100) == (p == 1))


def test_draws_count_as_one() -> None:
    """A beta is two draws; a stream of a name takes none of this one's."""
    for draw, count in zip(DRAWS, (1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 0, 1), strict=True):
        x, expected = rng(23, 5), rng(23, 5)
        draw(x)
        for _ in range(count):
            expected.uniform()
        np.testing.assert_array_equal(x.uniform(), expected.uniform())


def test_streams_are_of_their_names_only() -> None:
    x = rng(24, 50)
    early = x.split("color").uniform()
    first = x.fork().uniform()
    np.testing.assert_array_equal(x.split("color").uniform(), early)
    seen = [early, rng(24, 50).uniform(), first, x.fork().uniform()]
    seen += [rng(24, 50).split(name).uniform() for name in ("geometry", "", "colors", "Color", "ab", "a")]
    seen += [rng(24, 50).split(one).split(other).uniform() for one, other in ("ab", "ba")]
    assert len(np.unique(seen)) == 50 * len(seen)
    np.testing.assert_array_equal(rng(24, 50).fork().uniform(), first)


def test_draws_of_views() -> None:
    """Philox with the view in the upper half of the first word of the counter."""
    rng = gi.Rng(3, epoch=5, indices=[9, 4]).views(3)
    rng.uniform()
    drawn = rng.words(1).reshape(3, 2)
    for view in range(3):
        for k, index in enumerate((9, 4)):
            assert drawn[view, k] == generator(3, 5, 1, index, block=view << 32).random_raw()


def test_views_of_views_differ() -> None:
    rng = gi.Rng(1, indices=np.arange(50)).split("stream")
    views = rng.views(4).views(3)
    assert len(views) == len(np.unique(views.words(1))) == 600
    np.testing.assert_array_equal(rng.views(4).uniform()[:50], rng.uniform())
    np.testing.assert_array_equal(rng.views(4).split("b").uniform()[:50], rng.split("b").uniform())
    one = gi.Rng(1, indices=[7]).split("stream").views(4).words(2)
    np.testing.assert_array_equal(rng.views(4).words(2)[7::50], one)


@pytest.mark.parametrize("clips", [False, True])
def test_rows_draw_what_their_samples_draw(clips: bool) -> None:
    """In another order, and some twice; of views, after some draws, in a stream, and for the frames of clips."""
    rng, frames = gi.Rng(3, epoch=1, indices=[5, 9]).split("one").views(2), 3 if clips else 1
    batch = as_rng(rng, 4 * frames, "", frames if clips else None)
    batch.uniform()
    rows = np.array([3, 0, 0, 2])
    some = rng_of_rows(batch, rows)
    expected = batch.uniform().reshape(4, frames)[rows]
    np.testing.assert_array_equal(some.uniform(), expected.ravel())
    np.testing.assert_array_equal(some.fork().normal(), batch.fork().normal().reshape(4, frames)[rows].ravel())
    assert len(np.unique(expected)) == 3


def test_a_copy_goes_on_where_the_original_was() -> None:
    x = gi.Rng(26, epoch=4, indices=[5, 6]).split("a")
    x.uniform()
    copies = [pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)]
    expected = x.uniform()
    for other in copies:
        np.testing.assert_array_equal(other.uniform(), expected)
        assert (other.seed, other.epoch, other.indices.tolist()) == (26, 4, [5, 6])
    assert repr(x) == "<gpuimg.Rng seed 26, epoch 4, 2 samples>"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: gi.Rng(1 << 64, indices=[0]), "seed must be a whole number from 0 to 18446744073709551615, not 184"),
        (lambda x: gi.Rng(1.0, indices=[0]), "seed must be a whole number .*, not 1.0"),  # type: ignore[arg-type]
        (lambda x: gi.Rng(0, indices=[0.0, 1.0]), "indices must be one-dimensional integers, not float64"),
        (lambda x: gi.Rng(0, indices=[4, -2]), "indices must be at least 0, not -2"),
        (lambda x: x.uniform([0, 3, 0], 1), "high must be at least low, not 1 and 3 for sample 1"),
        (lambda x: x.normal(0, -1), "std must be a number of at least 0, not -1"),
        (lambda x: x.beta(1, [1, -1, 1]), r"b\[1\] must be a number of at least 1e-06, not -1"),
        (lambda x: x.integers(3, 3), "high must be above low, not 3 and 3 for sample 0"),
        (lambda x: x.choice(0), "options must be a number of at least 1 or a sequence of options, not 0"),
        (lambda x: x.choice(2, [0.5, 0.6]), r"p must be 2 probabilities that add up to 1, not \[0.5, 0.6\]"),
        (lambda x: x.split(3), "name must be a string, not int"),
    ],
)
def test_bad_draws_are_refused(call: Callable[[gi.Rng], Any], message: str) -> None:
    x = rng(0, 3)
    with pytest.raises((TypeError, ValueError), match=message):
        call(x)
    np.testing.assert_array_equal(x.uniform(), rng(0, 3).uniform(), "a refused draw is none")
