"""Workers that take turns at the batches of a loader: together they are that loader."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

import gpuimg as gi
from tests.data_sets import Source, cpu, valid_indices

pytestmark = pytest.mark.usefixtures("watched")


def small(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    return gi.adjust_brightness(gi.resize(x, (4, 4)), rng.uniform(0.2, 0.9))  # of each sample and epoch


def loader(n: int, **options: Any) -> gi.Loader:
    return cpu(Source(n), small, **{"batch_size": 4, "shuffle": True, **options})


def content(batch: gi.LoadedBatch) -> tuple[Any, ...]:
    return batch.indices.tolist(), batch.valid.tolist(), batch.images.tobytes()


def in_turn(workers: list[Any]) -> list[tuple[Any, ...]]:
    """The batches of several loops, one of each in turn, as torch's ``DataLoader`` asks for them."""
    loops, found = [iter(worker) for worker in workers], []
    while loops:
        for loop in list(loops):
            batch = next(loop, None)
            if batch is None:
                loops.remove(loop)
            else:
                found.append(content(batch))
    return found


@pytest.mark.parametrize("workers", [2, 3, 7])
@pytest.mark.parametrize("options", [
    {}, {"epochs": 3}, {"drop_last": True, "epochs": 2}, {"shard": (1, 3), "epochs": 2}, {"batch_size": 64},
    {"batch_size": 1, "decoders": 2, "readers": 3}, {"batch_size": 11}, {"batch_size": 64, "drop_last": True},
])  # fmt: skip
def test_workers_together_give_the_batches_of_one(workers: int, options: dict[str, Any]) -> None:
    whole = loader(37, **options)
    split = [loader(37, **options)._for_worker(worker, workers) for worker in range(workers)]
    for _ in range(2):  # the next loop is the next epochs
        expected = [content(batch) for batch in whole]
        assert in_turn(split) == expected
        assert sum(map(len, split)) == len(whole) == len(expected)
        assert {worker.epoch for worker in split} == {whole.epoch}


def test_endless_workers() -> None:
    whole = [content(batch) for batch in islice(loader(10, epochs=None), 12)]
    split = [loader(10, epochs=None)._for_worker(worker, 2) for worker in range(2)]
    pairs = [[content(next(worker)) for worker in split] for _ in range(6)]
    for worker in split:
        worker.close()
    assert [one for pair in pairs for one in pair] == whole


def test_a_loop_that_is_left_early() -> None:
    split = [loader(37)._for_worker(worker, 2) for worker in range(2)]
    for worker in split:
        next(iter(worker))
    later = loader(37)
    list(later)
    assert in_turn(split) == [content(batch) for batch in later]


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("epochs", [1, 2])
def test_each_worker_goes_on_from_its_own_state(at: int, epochs: int) -> None:
    options = {"epochs": epochs, "batch_size": 3}
    expected = [content(batch) for batch in loader(20, **options)]
    split = [loader(20, **options)._for_worker(worker, 3) for worker in range(3)]
    # The first workers are a turn ahead of the others, as when a training loop stops between them.
    given = [at + (worker < 2) for worker in range(3)]
    for worker, number in zip(split, given, strict=True):
        for _ in islice(worker, number):
            pass
    fresh = []
    for k, worker in enumerate(split):
        one = loader(20, **options)
        one.load_state_dict(worker.state_dict())
        fresh.append(one._for_worker(k, 3))
        worker.close()
    for k, worker in enumerate(fresh):
        if rest := expected[k::3][given[k] :]:  # else it is at its end, or at the next epochs
            assert [content(batch) for batch in worker] == rest


@pytest.mark.parametrize("at", [1, 4, 6])
def test_workers_go_on_from_the_state_of_a_loader(at: int) -> None:
    one = loader(37, epochs=2)
    for _ in islice(one, at):
        pass
    state = one.state_dict()
    whole = loader(37, epochs=2)
    whole.load_state_dict(state)
    split = []
    for worker in range(3):
        other = loader(37, epochs=2)
        other.load_state_dict(state)
        split.append(other._for_worker(worker, 3))
    assert in_turn(split) == [content(batch) for batch in whole]


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_that_skip(workers: int) -> None:
    """As many batches, every good sample once, bad ones never; each worker makes up for its own."""
    source = Source(40, (3, 17, 30), (5, 8, 39))
    split = [
        cpu(source, small, shuffle=True, batch_size=4, on_error="skip")._for_worker(worker, workers)
        for worker in range(workers)
    ]
    seen, batches = [], 0
    for worker in split:
        with pytest.warns(RuntimeWarning, match=r"could not be decoded and (was|were) left out"):
            found = list(worker)
        assert {len(batch.indices) for batch in found} == {4}
        seen += valid_indices(found)
        batches += len(found)
        with pytest.raises(RuntimeError, match=r'several DataLoader workers .* on_error="fill"'):
            worker.state_dict()
    assert batches == 10
    assert sorted(seen) == sorted(set(range(40)) - source.bad)


def test_failures_allowed_are_of_a_workers_own_samples() -> None:
    source = Source(40, range(0, 40, 4))  # a quarter, all of them of the first worker where batches are of one
    one, other = (
        cpu(source, small, batch_size=1, on_error="fill", max_failures=0.5)._for_worker(worker, 2)
        for worker in range(2)
    )
    with pytest.warns(RuntimeWarning, match="10 samples"):
        assert len(list(one)) == 20
    assert len(list(other)) == 20
    with pytest.raises(gi.DecodeError):
        list(cpu(source, small, batch_size=1, on_error="fill", max_failures=0.4)._for_worker(0, 2))
