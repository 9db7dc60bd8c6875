"""Items that several threads share: each goes to one thread, with or without the GIL.

Under the GIL, iterators of lists and ranges are safe, so that a missing lock would show in a free-threaded Python only.
Here the items are those of the worst that such a Python may do.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from gpuimg._threads.team import SharedIterator, each_side_by_side

from ..watchdog import on_threads

pytestmark = pytest.mark.usefixtures("watched")


class Unlocked:
    """An iterator that gives two threads the same item, and drops another, when they are in it at a time."""

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
    alone, unlocked, worked = list[int](), list[int](), list[int]()
    items, bare = SharedIterator(Unlocked(range(200))), Unlocked(range(200))
    on_threads(lambda: alone.extend(items))
    each_side_by_side(worked.append, Unlocked(range(200)), 4)
    on_threads(lambda: unlocked.extend(bare))
    assert Counter(alone) == Counter(worked) == Counter(range(200))
    assert Counter(unlocked) != Counter(range(200))  # so that the others could fail
