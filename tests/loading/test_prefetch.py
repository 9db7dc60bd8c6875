"""Running a producer ahead: order, bounds, errors in their place, and threads that end."""

import gc
import threading
import time
import weakref
from collections import UserList
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import gpuimg as gi
from gpuimg._loading.prefetch import Prefetcher, stop
from tests.watchdog import on_threads, ours

pytestmark = pytest.mark.usefixtures("watched")


class Table(UserList[int]):
    """Items by index, which a function makes."""

    def __init__(self, n: int, item: Callable[[int], int]) -> None:
        super().__init__(range(n))
        self.item = item

    def __getitem__(self, k: Any) -> Any:
        return self.item(k)


def square(k: int, bad: tuple[int, ...] = ()) -> int:
    time.sleep(0.0005 * (k % 3))
    if k in bad:
        raise OSError(f"item {k}")
    return k * k


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("depth", [1, 7])
def test_same_items_in_the_same_order(depth: int, workers: int) -> None:
    for n in (0, 1, 2, 40):
        expected, table = [k * k for k in range(n)], Table(n, square)
        assert list(gi.prefetch(expected if workers == 1 else table, depth, workers=workers)) == expected


def test_workers_work_at_the_same_time() -> None:
    barrier = threading.Barrier(4)
    assert sorted(gi.prefetch(Table(8, lambda _: barrier.wait(10.0)), 4, workers=4)) == sorted([*range(4)] * 2)


def test_spare_threads_help_a_slow_one_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuimg._loading.prefetch._HURRY", 0.5)  # also on a busy machine

    def job(k: int) -> int:
        if k >= 4:  # these end only if four threads are in them
            barrier.wait(10.0)
        threads.setdefault(k, threading.current_thread().name)
        return k

    barrier = threading.Barrier(4)
    threads: dict[int, str] = {}
    ahead = Prefetcher((partial(job, k) for k in range(12)), 8, 4, "spare", spare=True)
    ahead.start()
    try:
        assert [ahead.get() for _ in range(12)] == list(range(12))
    finally:
        stop((ahead,))
    assert len({threads[k] for k in range(4)}) == 1
    assert len({threads[k] for k in range(4, 12)}) == 4


def test_runs_ahead_by_depth_and_no_more() -> None:
    made: list[int] = []
    fourth, closed = threading.Event(), threading.Event()

    def producer() -> Iterator[int]:
        try:
            for k in range(50):
                made.append(k)
                if k == 3:
                    fourth.set()
                yield k
        finally:
            closed.set()

    for k, item in enumerate(gi.prefetch(producer(), depth=3)):
        assert item == k
        assert fourth.wait(10.0)  # made while the consumer has the first one
        time.sleep(0.002)
        assert len(made) <= k + 1 + 3
        if k == 9:
            break
    assert ours() == []
    assert closed.is_set()


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_comes_in_its_place_and_ends_it(workers: int) -> None:
    table = Table(9, lambda k: square(k, bad=(4, 6)))
    ahead = gi.prefetch((table[k] for k in range(9)) if workers == 1 else table, 2, workers=workers)
    got: list[int] = []
    with pytest.raises(OSError, match="item 4"):
        got.extend(ahead)
    assert got == [0, 1, 4, 9]
    assert [next(ahead, None) for _ in range(3)] == [None] * 3
    assert ours() == []
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(gi.prefetch(Table(3, lambda _: next(iter([]))), 2, workers=2))


def test_closing_dropping_and_with() -> None:
    ahead = gi.prefetch(iter(range(100)))
    next(ahead)
    ahead.close()
    ahead.close()
    assert list(ahead) == []
    with gi.prefetch(iter(range(100))) as ahead:
        next(ahead)
    assert ours() == []
    dropped = gi.prefetch(iter(range(100)))
    next(dropped)
    del dropped
    gc.collect()
    assert ours() == []


def test_dropped_by_a_thread_that_another_waits_for() -> None:
    """As by a garbage collection there: that must not wait for them."""

    def item(k: int) -> int:
        requested.append(k)
        with lock:
            assert begin.wait(10.0)
            while len(requested) < 2:
                time.sleep(0.001)
            kept.clear()
        return k

    lock, begin, kept, requested = threading.Lock(), threading.Event(), list[Any](), list[int]()
    kept.append(gi.prefetch(Table(8, item), 2, workers=2))
    begin.set()
    while kept:
        time.sleep(0.001)
    assert lock.acquire(timeout=100.0)  # both have gone on,
    lock.release()  # maybe to the next item


def test_dropped_in_a_thread_it_leaves_no_dummy_thread() -> None:
    """``threading.enumerate`` would list one for ever."""
    before, ended = threading.enumerate(), threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from range(10**9)
        finally:
            ended.set()

    on_threads(lambda: next(gi.prefetch(items())), 1)
    assert ended.wait(100.0)
    assert [thread.name for thread in threading.enumerate() if thread not in before and "Dummy" in thread.name] == []


def test_items_are_not_kept_alive() -> None:
    class Item:
        pass

    def items() -> Iterator[Item]:
        for _ in range(200):
            item = Item()
            alive.add(item)
            yield item

    alive = weakref.WeakSet[Item]()
    for item in gi.prefetch(items(), depth=2):
        del item
        assert len(alive) <= 2 + 2  # ready, being made, and the one the generator holds
    gc.collect()
    assert not alive


@pytest.mark.parametrize(("options", "error"), [
    ({"depth": 0}, ValueError), ({"depth": 1.5}, ValueError), ({"workers": 0}, ValueError), ({"workers": 2}, TypeError),
])  # fmt: skip
def test_wrong_arguments(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"whole number|sequence"):
        gi.prefetch(iter([1]), **options)
