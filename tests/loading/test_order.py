"""The order of an epoch: a permutation that is never held, blocks of neighbors, its shards, and positions in it."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuimg as gi
from gpuimg._loading.order import order_of
from gpuimg._loading.sharding import Share, resumed, shuffled
from tests.data_sets import Source, cpu
from tests.random.distributions import chi_square

pytestmark = pytest.mark.usefixtures("watched")

ENDS = np.array([0, 1, 2**44, -1])  # places of an epoch


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_every_sample_comes_once(seed: int) -> None:
    """In the same order whatever the pieces; of far more samples than memory, too."""
    for n in (*range(1, 11), 31, 32, 33, 100, 1023, 4096, 10007):
        whole = shuffled(np.arange(n), n, seed, epoch=3)
        assert sorted(whole.tolist()) == list(range(n))
        pieces = [shuffled(np.arange(at, min(at + 37, n)), n, seed, 3) for at in range(0, n, 37)]
        np.testing.assert_array_equal(np.concatenate(pieces), whole)
        np.testing.assert_array_equal(shuffled(np.arange(n)[::-1], n, seed, 3), whole[::-1])
    n = 2**45 + 12345
    for found in (shuffled(ENDS % n, n, seed, 0), gi.Blocks(32).order(ENDS % n, n, seed, 0)):
        assert len(set(found.tolist())) == 4
        assert 0 <= found.min() <= found.max() < n


@pytest.mark.parametrize("options", [
    {"shuffle": True}, {"shuffle": gi.Blocks(2, 4)}, {"shuffle": True, "repeats": 3}, {"indices": [2**32 + 7, 2**31]},
    {"batches": [[2**32 + 7, 2**31]], "batch_size": None},
])  # fmt: skip
def test_samples_beyond_32_bits(options: dict[str, Any]) -> None:
    """Their numbers arrive whole, at a source that has them as labels."""
    batch = next(iter(cpu(Source(2**33 + 5), **{"batch_size": 2, **options})))
    assert batch.indices.max() >= 2**31
    assert batch.labels.tolist() == batch.indices.tolist()


def test_another_seed_or_epoch_is_another_order() -> None:
    orders = [tuple(shuffled(np.arange(50), 50, seed, epoch)) for seed in range(10) for epoch in range(10)]
    assert len(set(orders)) == 100


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_orders_are_equally_likely(n: int) -> None:
    counts = dict.fromkeys(itertools.permutations(range(n)), 0)
    for seed in range(100 * math.factorial(n)):
        counts[tuple(shuffled(np.arange(n), n, seed, 0).tolist())] += 1
    assert chi_square(list(counts.values())) > 1e-3


def test_places_are_independent_of_samples() -> None:
    """The place of a sample is uniform, and neighbors do not stay neighbors."""
    n = 1 << 16
    order = shuffled(np.arange(n), n, 11, 0)
    counts = np.histogram2d(np.arange(n), order, bins=16, range=[[0, n], [0, n]])[0].ravel()
    assert chi_square(counts) > 1e-3
    assert np.mean(np.abs(np.diff(order)) == 1) < 1e-3


Levels = tuple[tuple[int, ...], ...]


def dealt(left: list[int], head: int, world: int, run: int) -> list[list[int]]:
    """Places of each rank: an even part of the head, runs in turn, and of the rest as many as to be even again."""
    ranks = [part.tolist() for part in np.array_split(np.array(left[:head], int), world)]
    left = left[head:]
    while len(left) >= world * run:
        for rank in ranks:
            rank += left[:run]
            left = left[run:]
    more = Counter((head + k) % world for k in range(len(left)))
    for number, rank in enumerate(ranks):
        rank += left[: more[number]]
        left = left[more[number] :]
    return ranks


def left_of(n: int, levels: Levels, run: int = 1) -> tuple[list[int], int]:
    """Places that levels leave, one rank at a time; and how many of them come before the first row left whole."""
    left, head = list(range(n)), 0
    for taken in levels:
        world = len(taken)
        ranks = dealt(left, head, world, run)
        gone = {place for rank, count in zip(ranks, taken, strict=True) for place in rank[:count]}
        last = max((k for k, place in enumerate(left) if place in gone), default=-1)
        rows = [head + row for row in range(0, len(left) - head + 1, world * run)]
        whole = next((row for row in rows if row > last), len(left))
        head = sum(place not in gone for place in left[:whole]) if run > 1 else 0
        left = [place for place in left if place not in gone]
    return left, head


level_of = st.lists(st.integers(0, 12), min_size=1, max_size=5).map(tuple)
levels_of = st.lists(level_of, max_size=3).map(tuple)


@given(n=st.integers(1, 60), levels=levels_of, world=st.integers(1, 6), run=st.integers(1, 12))
def test_shares_are_what_is_left(n: int, levels: Levels, world: int, run: int) -> None:
    """All ranks together have each sample that is left once, and padding from the epoch's beginning."""
    expected, head = left_of(n, levels, run)
    shares = [Share(n, levels, rank, world, run) for rank in range(world)]
    assert {share.left for share in shares} == {len(expected)}
    assert {share.count(4, drop_last=True) for share in shares} == {len(expected) // (4 * world) * 4}
    counts = {share.count(4, drop_last=False) for share in shares}
    assert counts == {math.ceil(len(expected) / world)}
    found = [share.places(0, max(counts)) for share in shares]
    assert [places[real].tolist() for places, real in found] == dealt(expected, head, world, run)
    padding = [int(place) for places, real in found for place in places[~real]]
    assert padding == [k % n for k in range(len(padding))]


@given(n=st.integers(1, 60), levels=levels_of, taken=level_of, world=st.integers(1, 6), run=st.integers(1, 12))
def test_ranks_resume_with_what_is_left(n: int, levels: Levels, taken: tuple[int, ...], world: int, run: int) -> None:
    """Every sample once, with as many ranks or others, also where some ranks have taken none."""
    common = {"version": 2, "seed": 0, "epoch": 0, "levels": levels, "world": len(taken), "alike": False}
    states = [common | {"rank": rank, "taken": count, "given": count} for rank, count in enumerate(taken)]
    found: list[int] = []
    for rank in range(world):
        position = resumed(states, n, rank, world, run)
        places, real = Share(n, position.levels, rank, world, run).places(0, n)
        found += places[real][position.taken :].tolist()
    assert sorted(found) == left_of(n, (*levels, taken), run)[0]


@given(n=st.integers(1, 30), world=st.integers(1, 6), rank=st.integers(0, 5))
def test_padding_without_end_comes_to_all_samples(n: int, world: int, rank: int) -> None:
    """A rank without good samples in its share finds the good ones elsewhere."""
    share = Share(n, (), rank % world, world)
    places, real = share.places(0, 2 * n + 1)
    assert set(places[~real].tolist()) == set(range(n))


def test_equal_ranks_are_one_number() -> None:
    """A run that is resumed again and again keeps a short state."""
    levels: Levels = ()
    for world in (2, 3, 4, 2):
        levels = Share(1000, levels, 0, world).after((5,) * world)
    assert levels == ((55,),)
    assert Share(1000, ((55,),), 0, 3, 5).after((10, 10, 10)) == ((85,),)
    assert Share(1000, ((55,),), 0, 3, 4).after((10, 10, 10)) == ((55,), (10, 10, 10))


# -- blocks of neighbors -----------------------------------------------------------------------------------------------


def whole(blocks: gi.Blocks, n: int, epoch: int = 0, seed: int = 0) -> list[int]:
    """Samples of an epoch."""
    order: list[int] = blocks.order(np.arange(n), n, seed, epoch).tolist()
    return order


def ranges(samples: list[int], n: int) -> int:
    """Number of ranges of neighbors that samples of a ring are in."""
    there = set(samples)
    return len(there) if len(there) < 2 else sum((i + 1) % n not in there for i in there) or 1


@given(
    n=st.integers(1, 300), samples=st.integers(1, 40), more=st.integers(0, 100), seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 100), pieces=st.integers(1, 50),
)  # fmt: skip
def test_an_epoch_is_in_few_ranges(n: int, samples: int, more: int, seed: int, epoch: int, pieces: int) -> None:
    """Each buffer holds whole blocks; the order is the same in any pieces."""
    blocks = gi.Blocks(samples, samples + more)
    order = whole(blocks, n, epoch, seed)
    assert sorted(order) == list(range(n))
    for at in range(0, n, blocks.run):
        window = order[at : at + blocks.run]
        assert ranges(window, n) <= -(-len(window) // samples)
    parts = [blocks.order(np.arange(at, min(at + pieces, n)), n, seed, epoch) for at in range(0, n, pieces)]
    assert np.concatenate(parts).tolist() == order
    assert blocks.order(np.arange(n)[::-1], n, seed, epoch).tolist() == order[::-1]


def test_each_epoch_has_other_blocks_in_another_order() -> None:
    blocks = gi.Blocks(8, 32)
    together: Counter[frozenset[int]] = Counter()
    for epoch in range(20):
        order = whole(blocks, 512, epoch)
        for at in range(0, 512, 32):
            together[frozenset(order[at : at + 32])] += 1
    assert max(together.values()) == 1
    assert len({tuple(whole(blocks, 512, 0, seed)) for seed in range(20)}) == 20


def test_buffers_are_mixed_independently() -> None:
    places = gi.Blocks(5, 20).order(np.arange(200), 200, 0, 0).reshape(10, 20) % 5
    assert len(np.unique(places, axis=0)) == 10


@pytest.mark.parametrize("world", [1, 5])
def test_a_buffer_is_read_by_one_rank(world: int) -> None:
    """Each rank reads few ranges, whatever the number of ranks, while there are buffers for all."""
    n, blocks = 4096, gi.Blocks(16, 128)
    order = order_of(n, blocks, None, None, 1)
    full = n // (world * 128) * 128
    for rank in range(world):
        places, _ = Share(n, (), rank, world, order.run).places(0, full)
        found = order.at(places, 0, 0)[0].tolist()
        assert sum(ranges(found[at : at + 128], n) for at in range(0, full, 128)) <= full // 16


def windows(share: Share, first: int, stop: int) -> list[list[int]]:
    """Places that a rank reads together, from its sample ``first`` to ``stop - 1``."""
    found = []
    while first < stop:
        end = min(share.end_of_run(first), stop)
        places, real = share.places(first, end)
        found.append(places[real].tolist())
        first = end
    return found


@given(n=st.integers(1, 3000), run=st.integers(2, 50), worlds=st.lists(st.integers(1, 9), min_size=1, max_size=4),
       taken=st.lists(st.integers(0, 400), min_size=4, max_size=4))  # fmt: skip
def test_buffers_are_read_once_after_ranks_have_changed(n: int, run: int, worlds: list[int], taken: list[int]) -> None:
    """A buffer is divided only if it was begun, or is one of the last ones; no rank reads more than one at a time."""
    levels: Levels = ()
    read: list[list[int]] = []
    for k, (world, count) in enumerate(zip(worlds, taken, strict=False)):
        shares = [Share(n, levels, rank, world, run) for rank in range(world)]
        stop = n if k == len(worlds) - 1 else count
        read += [window for share in shares for window in windows(share, 0, stop) if window]
        levels = shares[0].after((stop,) * world)
    assert sorted(place for window in read for place in window) == list(range(n))
    assert max(map(len, read)) <= run
    parts = sum(len({place // run for place in window}) for window in read)
    assert parts <= -(-n // run) + 3 * sum(worlds)


def test_neighbors_are_together_in_order() -> None:
    """On several ranks, too."""
    order = order_of(1000, False, None, None, 1)
    assert order.run == 32
    for rank in range(3):
        share = Share(1000, (), rank, 3, order.run)
        assert {ranges(window, 1000) for window in windows(share, 0, share.count(1, drop_last=True))} == {1}
    assert order_of(1000, True, None, None, 1).run == order_of(1000, False, None, np.ones(1000), 1).run == 1


def test_blocks_are_of_the_chosen_samples() -> None:
    """In the order of the source."""
    chosen = np.random.default_rng().permutation(100)[:50]
    found = order_of(100, gi.Blocks(5, 5), chosen, None, 1).at(np.arange(50), 0, 0)[0]
    ring = sorted(chosen.tolist())
    assert {ranges([ring.index(i) for i in found[at : at + 5]], 50) for at in range(0, 50, 5)} == {1}


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda: gi.Blocks(0), ValueError, "samples must be"), (lambda: gi.Blocks(2.5), ValueError, "samples must be"),
    (lambda: gi.Blocks(8, buffer=7), ValueError, "buffer must be .* at least 8"),
    (lambda: cpu(Source(2), shuffle=gi.Blocks(4), weights=[1, 1]), ValueError, "reads neighbors .* use shuffle=True"),
    (lambda: cpu(Source(9), shuffle=gi.Blocks(4), repeats=2), ValueError, "reads neighbors .* use shuffle=True"),
    (lambda: cpu(Source(9), shuffle=4), TypeError, "shuffle must be True or False"),
    (lambda: cpu(gi.iterable([]), shuffle=gi.Blocks(4)), ValueError, "shuffle=Blocks needs a source with a length"),
])  # fmt: skip
def test_wrong_blocks(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
