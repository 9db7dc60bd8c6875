"""Threads that share items, turns of those that prepare batches in Python, and work that is done again."""

import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuimg
from gpuimg._runtimes.attempt import Attempt, defer
from gpuimg._threads.helpers import SharedIterator, each_side_by_side
from gpuimg._threads.turn import Turn, end_turn

from ..watchdog import on_threads

pytestmark = pytest.mark.usefixtures("watched")


class Unlocked:
    """An iterator that gives two threads the same item, and drops another, when they are in it at a time.

    Under the GIL those of lists and ranges are safe, so that a missing lock would show in a free-threaded Python only.
    """

    def __init__(self, items: Iterable[Any]) -> None:
        self._items, self._at = list(items), 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._at += 1
        time.sleep(2e-4)  # the other threads' turn
        if self._at > len(self._items):
            raise StopIteration
        return self._items[self._at - 1]


def test_each_item_goes_to_one_thread() -> None:
    alone, worked = list[int](), list[int]()
    items = SharedIterator(Unlocked(range(200)))
    on_threads(lambda: alone.extend(items))
    each_side_by_side(worked.append, Unlocked(range(200)), 4)
    assert Counter(alone) == Counter(worked) == Counter(range(200))


def _entered(turn: Turn) -> tuple[threading.Thread, threading.Event]:
    """A thread that enters a turn and leaves it, and an event that is set once it has entered."""
    entered = threading.Event()

    def enter() -> None:
        with turn:
            entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    return thread, entered


def test_a_turn_ends_with_its_block_or_where_native_work_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuimg._threads.turn._PATIENCE", 60.0)
    turn = Turn()
    with turn:
        thread, entered = _entered(turn)
        assert not entered.wait(0.2)
    assert entered.wait(60)
    thread.join()
    with turn:
        thread, entered = _entered(turn)
        gpuimg.resize(np.zeros((1, 4, 4, 3), np.uint8), (2, 2)).array()
        assert entered.wait(60)
        thread.join()
        end_turn()  # has ended already


def test_nobody_waits_long_for_a_turn() -> None:
    turn = Turn()
    with turn:
        thread, entered = _entered(turn)
        assert entered.wait(60)
        thread.join()
        with turn:  # nor a thread that has it
            pass
    thread, entered = _entered(turn)
    assert entered.wait(60)
    thread.join()


def test_files_are_kept_only_while_kernels_run() -> None:
    def attempt(*pending: Any) -> Any:
        def work() -> None:
            assert files is not None
            for kernels in pending:
                defer(kernels)

        files = set[str]()
        return weakref.ref(files), Attempt(work)

    gone, _ = attempt()
    assert gone() is None
    kept, waiting = attempt(SimpleNamespace(repair=lambda: False))  # they may yet report an image
    assert kept() is not None
    assert waiting.result() is None
