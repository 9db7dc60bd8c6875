"""The samples of an epoch: listed, repeated or drawn by weight; on several ranks, and after resuming."""

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._loading.order import order_of
from tests.data_sets import FILES, Source, assert_states_differ, cpu, resumed
from tests.random.distributions import chi_square

pytestmark = pytest.mark.usefixtures("watched")


def small(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    """Pixels that tell the sample and its draws."""
    return gi.adjust_brightness(gi.resize(x, (2, 2)), rng.uniform(0.2, 0.9))


def loader(n: int = 30, **options: Any) -> gi.Loader:
    return cpu(Source(n), small, **{"batch_size": 4, **options})


def drawn(loop: Any) -> list[tuple[int, bytes]]:
    return [(int(b.indices[k]), b.images[k].tobytes()) for b in loop for k in np.flatnonzero(b.valid)]


WEIGHTS = np.arange(30) % 5
LISTED = [7, 3, 3, 29, 0, 3, 11, 12, 13, 14, 7]
ORDERS: list[dict[str, Any]] = [
    {"shuffle": True}, {"indices": LISTED}, {"indices": LISTED, "shuffle": True}, {"repeats": 3, "shuffle": True},
    {"weights": WEIGHTS}, {"weights": [1.0, 0.0, 2.0] * 4, "indices": [5, 6, 5] * 4},
    {"indices": [1, 1, 2, 3, 5, 8, 13], "repeats": 2, "shuffle": True}, {"shuffle": gi.Blocks(4, 10)},
    {"shuffle": gi.Blocks(3, 3), "indices": LISTED},
]  # fmt: skip


def test_indices_are_the_samples_in_their_order() -> None:
    chosen = np.random.default_rng(0).permutation(30)[:13]
    expected = dict(drawn(loader()))
    found = drawn(loader(indices=chosen))
    assert found == [(int(i), expected[int(i)]) for i in chosen]
    assert len(loader(indices=chosen)) == 4
    mask = np.isin(np.arange(30), chosen)
    assert [i for i, _ in drawn(loader(indices=mask))] == sorted(chosen.tolist())
    shuffled = [drawn(loop) for loop in [loader(indices=chosen, shuffle=True)] * 2]
    assert [sorted(i for i, _ in epoch) for epoch in shuffled] == [sorted(chosen.tolist())] * 2
    assert shuffled[0] != shuffled[1]


def test_repeated_copies_have_different_numbers() -> None:
    order = order_of(5, True, [3, 3, 1], None, 2)
    samples, copies = order.at(np.arange(6), 0, 0)  # of which an epoch takes three
    assert copies is not None
    assert sorted(zip(samples.tolist(), copies.tolist(), strict=True)) == [(1, 0), (1, 1), *((3, k) for k in range(4))]


def test_copies_of_a_sample_have_other_draws() -> None:
    """The first has those of the sample by itself, the others those of views."""
    found = drawn(loader(indices=[4, 4, 9, 4]))
    x = gi.open_batch([FILES[4]] * 3, device="cpu")
    views = small(x, gi.Rng(0, indices=[4]).views(3)).array()
    assert [pixels for i, pixels in found if i == 4] == [view.tobytes() for view in views]
    assert len({pixels for _, pixels in found}) == 4


@pytest.mark.parametrize("repeats", [2, 4])
def test_repeats_are_those_of_deit(repeats: int) -> None:
    """As its RASampler: as many samples as the source, each several times in succession, and on different ranks."""
    found = drawn(loader(shuffle=True, seed=4, repeats=repeats))
    order = [i for i, _ in drawn(loader(shuffle=True, seed=4))]
    assert [i for i, _ in found] == np.repeat(order, repeats)[:30].tolist()
    assert len(set(found)) == 30
    ranks = [drawn(loader(shuffle=True, seed=4, repeats=repeats, shard=(r, repeats))) for r in range(repeats)]
    assert [[i for i, _ in rank] for rank in ranks] == [order[: len(rank)] for rank in ranks]
    assert sorted(one for rank in ranks for one in rank) == sorted(found)


def test_a_million_draws_are_in_proportion_to_their_weights() -> None:
    weights = np.random.default_rng(1).uniform(0, 1, 200) ** 3
    weights[::7] = 0
    n = 1_000_000
    order = order_of(200, False, None, weights, 1)
    found = np.concatenate([order.at(np.arange(at, at + 1000), 5, at)[0] for at in range(0, n, 1000)])
    counts = np.bincount(found, minlength=200)
    assert (counts[weights == 0] == 0).all()
    kept = weights > 0
    assert chi_square(counts[kept].tolist(), (weights[kept] / weights.sum() * n).tolist()) > 1e-3


def test_every_draw_by_weight_has_its_own_crop_and_epoch() -> None:
    loop = loader(weights=[0, 1] + [0] * 28)
    found = [drawn(loop), drawn(loop)]
    assert {i for epoch in found for i, _ in epoch} == {1}
    assert len({pixels for epoch in found for _, pixels in epoch}) > 50  # of 60; brightness has 256 levels


def test_classes_are_equally_likely() -> None:
    labels = [0] * 1000 + [1] * 10 + [2] * 90
    weights = gi.class_weights(labels)
    found = order_of(1100, False, None, weights, 1).at(np.arange(30_000), 0, 0)[0]
    assert chi_square(np.bincount(np.array(labels)[found]).tolist()) > 1e-3
    np.testing.assert_array_equal(gi.class_weights(list("aab")), [0.5, 0.5, 1.0])
    for wrong in ([], [[1, 2]], [1.5]):
        with pytest.raises(ValueError, match="labels must be one integer or string"):
            gi.class_weights(wrong)


@pytest.mark.parametrize("options", ORDERS)
def test_resume_again_and_again_has_each_draw_once(options: dict[str, Any]) -> None:
    found = resumed(lambda **others: loader(**options, **others), drawn)
    assert Counter(found) == Counter(drawn(loader(**options, epochs=2)))


def test_states_of_another_choice_are_refused() -> None:
    states = assert_states_differ([partial(loader, **one) for one in ({}, *ORDERS)], "the state was taken with")
    old = {name: value for name, value in states[0].items() if name != "order"}
    loader().load_state_dict(old)


@pytest.mark.parametrize(("options", "message"), [
    ({"indices": []}, "at least one"), ({"indices": [30]}, "indices has 30, but the source has samples 0 to 29"),
    ({"indices": [-1]}, "indices has -1"), ({"indices": [[1]]}, "one-dimensional"), ({"indices": [1.0]}, "integers"),
    ({"indices": [True, False]}, r"\(30,\) booleans"), ({"weights": [1.0]}, "one number for each of 30 samples"),
    ({"weights": [1.0], "indices": [1, 2]}, "one number for each of 2 samples"), ({"weights": [0] * 30}, "not all 0"),
    ({"weights": [-1] + [1] * 29}, "at least 0"), ({"weights": [np.nan] + [1] * 29}, "finite"),
    ({"weights": [1e308] * 30}, "a finite sum"),
    ({"repeats": 0, "shuffle": True}, "repeats must be a whole number"), ({"repeats": 2}, "repeats needs shuffle=True"),
    ({"repeats": 2, "shuffle": True, "weights": WEIGHTS}, "not both"),
])  # fmt: skip
def test_wrong_choices_are_refused_at_the_call(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loader(**options)
