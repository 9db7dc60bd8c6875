"""Laws of the loader: whatever fails, wherever it is left and however it goes on, each sample comes once."""

import time
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

import gpuimg as gi
from gpuimg._loading.order import order_of
from tests.data_sets import CORRUPT, Altered, Source, cpu
from tests.watchdog import no_hang, ours

THREADS = {"readers": st.integers(1, 8), "decoders": st.integers(1, 8), "prefetch": st.integers(1, 4)}
options = st.fixed_dictionaries({"batch_size": st.integers(1, 9), **THREADS})
shuffles = st.sampled_from([False, True, gi.Blocks(3, 7)])


def tiny(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    """Little work, so that the threads meet often."""
    return gi.resize(x, (2, 2))


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """The kernels, before any test: a thread that still compiles them outlives the patience of a stop."""
    with cpu(Source(1), tiny) as loader:
        list(loader)


class Restless(Source):
    """A source whose reads take their time, some longer than others."""

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        time.sleep((i * 7919 % 5) * 1e-4)
        return super().__getitem__(i)


class LoaderMachine(RuleBasedStateMachine):
    """A run over several epochs that is left and resumed again and again."""

    @initialize(
        n=st.integers(1, 30), bad=st.sets(st.integers(0, 29)), corrupt=st.sets(st.integers(0, 29)),
        policy=st.sampled_from(["raise", "skip", "fill"]), seed=st.integers(0, 5), shuffle=shuffles, first=options,
    )  # fmt: skip
    def begin(
        self, n: int, bad: set[int], corrupt: set[int], policy: str, seed: int, shuffle: Any, first: dict[str, int]
    ) -> None:
        """Some samples are bad, but not all."""
        failing = ([], []) if policy == "raise" else (bad - {seed % n}, corrupt - {seed % n})
        self.source = Restless(n, *failing)
        self.fixed: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "on_error": policy, "epochs": None}
        self.loader = cpu(self.source, tiny, **self.fixed, **first)
        self.running: Any = iter(self.loader)
        self.seen: dict[int, list[int]] = {}
        self.epoch, self.batch_size = 0, first["batch_size"]

    def expected(self, epoch: int) -> list[int]:
        n = len(self.source)
        order = order_of(n, self.fixed["shuffle"], None, None, 1).at(np.arange(n), self.fixed["seed"], epoch)[0]
        return [int(i) for i in order if i not in self.source.bad]

    def took(self, batch: gi.LoadedBatch) -> None:
        """Valid samples are the next ones."""
        seen = self.seen.setdefault(self.epoch, [])
        seen += batch.indices[batch.valid].tolist()
        assert seen == self.expected(self.epoch)[: len(seen)]
        assert batch.labels is None or (batch.labels[batch.valid] == batch.indices[batch.valid]).all()
        self.epoch = self.loader.state_dict()["epoch"]

    @rule(count=st.integers(1, 6))
    def go_on(self, count: int) -> None:
        for _ in range(count):
            self.took(next(self.running))

    @rule(then=options)
    def resume(self, then: dict[str, int]) -> None:
        """End, and go on with other threads and another batch size."""
        state = self.loader.state_dict()
        self.loader.close()
        assert ours() == []
        if self.fixed["on_error"] == "skip":  # a rank's padding at the end depends on its batches' size
            then = {**then, "batch_size": self.batch_size}
        self.loader = cpu(self.source, tiny, **self.fixed, **then)
        self.loader.load_state_dict(state)
        self.running = iter(self.loader)

    @rule()
    def drop(self) -> None:
        """Let go of the iterator without a word, and start again where it was."""
        state = self.loader.state_dict()
        del self.running
        assert ours() == []
        self.loader.load_state_dict(state)
        self.running = iter(self.loader)

    @precondition(lambda self: hasattr(self, "seen"))
    @invariant()
    def complete(self) -> None:
        """An epoch that is over has given all its good samples."""
        for epoch in self.seen:
            if epoch < self.epoch:
                assert self.seen[epoch] == self.expected(epoch)

    def teardown(self) -> None:
        if hasattr(self, "loader"):
            self.loader.close()
        assert ours() == []


def test_a_run_that_is_left_and_resumed() -> None:
    with no_hang(300.0):
        limits = settings(deadline=None, stateful_step_count=12, max_examples=60)
        run_machine(LoaderMachine, settings=limits)


@pytest.mark.usefixtures("watched")
@settings(max_examples=40)
@given(
    n=st.integers(1, 40), bad=st.sets(st.integers(0, 39), max_size=12), at=st.integers(0, 6), worlds=st.tuples(
        st.integers(1, 4), st.integers(1, 4)), first=options, then=options, seed=st.integers(0, 3),
    policy=st.sampled_from(["skip", "fill"]), shuffle=shuffles,
)  # fmt: skip
def test_ranks_that_become_more_or_fewer(
    n: int, bad: set[int], at: int, worlds: tuple[int, int], first: dict[str, int], then: dict[str, int], seed: int,
    policy: str, shuffle: Any,
) -> None:  # fmt: skip
    """All ranks stop after as many batches, another number of them goes on: each good sample of the epoch once."""
    source = Source(n, bad - {seed % n})
    fixed: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "on_error": policy}
    seen: list[int] = []
    states = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for rank in range(worlds[0]):
            loader = cpu(source, tiny, shard=(rank, worlds[0]), **fixed, **first)
            for _, batch in zip(range(at), loader, strict=False):
                seen += batch.indices[batch.valid].tolist()
            states.append(loader.state_dict())
            loader.close()
        assert len({state["epoch"] for state in states}) == 1
        if states[0]["epoch"] == 0:
            batches = set()
            for rank in range(worlds[1]):
                loader = cpu(source, tiny, shard=(rank, worlds[1]), **fixed, **then)
                loader.load_state_dict(states)
                # Where nothing was left (a slower rank only had padding to come) the next epoch begins.
                rest = list(loader) if loader.state_dict()["epoch"] == 0 else []
                batches.add(len(rest))
                seen += [int(i) for batch in rest for i in batch.indices[batch.valid]]
            assert len(batches) == 1
    assert sorted(seen) == sorted(set(range(n)) - source.bad)


@pytest.mark.usefixtures("watched")
@settings(max_examples=40)
@given(at=st.integers(0, 11), stage=st.sampled_from(["read", "decode", "preprocess", "consumer"]), threads=options)
def test_failure_comes_in_its_place(at: int, stage: str, threads: dict[str, int]) -> None:
    """Batches before a failure are returned, none after it, and all threads end."""
    n, size = 60, threads["batch_size"]
    bad = min(at * size + size // 2, n - 1)

    def sample(data: bytes, i: int) -> tuple[bytes, int]:
        if stage == "read" and i == bad:
            raise MemoryError("read")
        return CORRUPT if stage == "decode" and i == bad else data, i

    def preprocess(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
        if stage == "preprocess" and bad in rng.indices:
            raise RuntimeError("preprocess")
        return tiny(x, rng)

    def consume() -> None:
        for batch in cpu(Altered(n, sample), preprocess, **threads):
            if stage == "consumer" and bad in batch.indices:
                raise RuntimeError("consumer")
            got.extend(batch.indices.tolist())

    got: list[int] = []
    with pytest.raises((gi.DecodeError, RuntimeError)):
        consume()
    assert got == list(range(bad // size * size))
    assert ours() == []
