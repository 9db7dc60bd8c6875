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
from gpuimg._loading.sharding import Share
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


def test_batches_come_in_order_and_samples_are_read_once() -> None:
    blocks, source = gi.Blocks(5, 20), Source(100)
    found = valid_indices(cpu(source, lambda x: gi.resize(x, (2, 2)), shuffle=blocks, epochs=2))
    assert found == whole(blocks, 100, 0) + whole(blocks, 100, 1)
    assert set(source.reads.values()) == {2}


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
def test_wrong_arguments(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
