"""Shuffling by blocks of neighbors: the order, its shares, and how often storage is read."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuimg as gi
from gpuimg._loading.order import order_of
from tests.data_sets import Source, cpu, valid_indices
from tests.random.distributions import chi_square

pytestmark = pytest.mark.usefixtures("watched")


def whole(blocks: gi.Blocks, n: int, epoch: int = 0, seed: int = 0) -> list[int]:
    """Samples of an epoch."""
    order: list[int] = blocks.order(np.arange(n), n, seed, epoch).tolist()
    return order


def ranges(samples: list[int], n: int) -> int:
    """Number of ranges of neighbors that samples of a ring are in."""
    there = set(samples)
    return len(there) if len(there) < 2 else sum((i + 1) % n not in there for i in there) or 1


# -- the order ---------------------------------------------------------------------------------------------------------


@given(
    n=st.integers(1, 300), samples=st.integers(1, 40), more=st.integers(0, 100), seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 100), pieces=st.integers(1, 50),
)  # fmt: skip
def test_an_epoch_has_each_sample_once_in_few_ranges(
    n: int, samples: int, more: int, seed: int, epoch: int, pieces: int
) -> None:
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


def test_places_do_not_depend_on_samples() -> None:
    n, blocks = 1 << 12, gi.Blocks(16, 256)
    counts = np.zeros((16, 16))
    for epoch in range(16):
        counts += np.histogram2d(np.arange(n), whole(blocks, n, epoch), bins=16, range=[[0, n], [0, n]])[0]
    # Samples come by blocks, so a bin holds 1/16 as many independent draws as samples.
    assert chi_square((counts / 16).ravel().tolist()) > 1e-3


def test_buffers_are_mixed_independently() -> None:
    places = gi.Blocks(5, 20).order(np.arange(200), 200, 0, 0).reshape(10, 20) % 5
    assert len(np.unique(places, axis=0)) == 10


def test_neighbors_are_mixed_within_a_buffer() -> None:
    n, blocks = 1 << 12, gi.Blocks(16, 1024)
    order = np.array(whole(blocks, n))
    place = np.empty(n, int)
    place[order] = np.arange(n)
    apart = np.abs(np.diff(place))
    near = apart < 1024
    assert near.mean() > 0.9  # of one block
    # The distance of two of 1024 places without order is 1024 / 3 in the mean.
    assert abs(apart[near].mean() - 1024 / 3) < 20


def test_the_order_takes_no_memory() -> None:
    n = 2**45 + 12345
    found = gi.Blocks(32).order(np.array([0, 1, n // 2, n - 1]), n, 0, 0)
    assert len(set(found.tolist())) == 4
    assert found.min() >= 0
    assert found.max() < n


# -- ranks and loads ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [1, 2, 5, 8])
def test_a_buffer_is_read_by_one_rank(world: int) -> None:
    """Each rank reads few ranges, whatever the number of ranks, while there are buffers for all."""
    n, blocks = 4096, gi.Blocks(16, 128)
    order = order_of(n, blocks, None, None, 1)
    from gpuimg._loading.sharding import Share

    full = n // (world * 128) * 128
    for rank in range(world):
        places, _ = Share(n, (), rank, world, order.run).places(0, full)
        found = order.at(places, 0, 0)[0].tolist()
        assert sum(ranges(found[at : at + 128], n) for at in range(0, full, 128)) <= full // 16


class Counted(Source):
    """A source that counts how often each sample is read."""

    def __init__(self, n: int, **options: Any) -> None:
        super().__init__(n, **options)
        self.reads: Counter[int] = Counter()

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        self.reads[i] += 1
        return super().__getitem__(i)


def tiny(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    return gi.resize(x, (2, 2))


@pytest.mark.parametrize("readers", [1, 4])
def test_batches_come_in_the_order_and_each_sample_is_read_once(readers: int) -> None:
    source, blocks = Counted(100), gi.Blocks(5, 20)
    loader = cpu(source, tiny, shuffle=blocks, epochs=2, readers=readers)
    found = valid_indices(loader)
    assert found == whole(blocks, 100, 0) + whole(blocks, 100, 1)
    assert set(source.reads.values()) == {2}


def test_blocks_are_of_the_chosen_samples_in_the_order_of_the_source() -> None:
    chosen = np.random.default_rng(0).permutation(100)[:50]
    order = order_of(100, gi.Blocks(5, 5), chosen, None, 1)
    found = order.at(np.arange(50), 0, 0)[0]
    ring = sorted(chosen.tolist())
    for at in range(0, 50, 5):
        assert ranges([ring.index(i) for i in found[at : at + 5]], 50) == 1


def test_bad_samples_among_neighbors() -> None:
    source = Counted(60, unreadable=(3, 17), corrupt=(30,))
    with pytest.warns(RuntimeWarning, match="3 samples"):
        skipped = valid_indices(cpu(source, tiny, shuffle=gi.Blocks(4, 12), on_error="skip"))
    assert sorted(skipped) == sorted(set(range(60)) - source.bad)


@pytest.mark.parametrize(("options", "message"), [
    ({"samples": 0}, "samples must be"), ({"samples": 8, "buffer": 7}, "buffer must be .* at least 8"),
    ({"samples": 2.5}, "samples must be"),
])  # fmt: skip
def test_wrong_numbers(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gi.Blocks(**options)


@pytest.mark.parametrize("options", [{"weights": [1.0] * 9}, {"repeats": 2}])
def test_single_samples_from_anywhere_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"shuffle=Blocks reads neighbors .* use shuffle=True"):
        cpu(Source(9), tiny, shuffle=gi.Blocks(4), **options)
    with pytest.raises(TypeError, match="shuffle must be True or False"):
        cpu(Source(9), tiny, shuffle=4)
    stream = gi.iterable(lambda: iter([]))
    with pytest.raises(ValueError, match="shuffle=Blocks needs a source with a length"):
        cpu(stream, tiny, shuffle=gi.Blocks(4))


def test_a_state_of_another_shuffle_is_refused() -> None:
    state = cpu(Source(9), tiny, shuffle=gi.Blocks(4, 8)).state_dict()
    assert state["shuffle"] == "Blocks(samples=4, buffer=8)"
    for shuffle in (True, gi.Blocks(4, 9)):
        with pytest.raises(ValueError, match="the state was taken with shuffle=Blocks"):
            cpu(Source(9), tiny, shuffle=shuffle).load_state_dict(state)
