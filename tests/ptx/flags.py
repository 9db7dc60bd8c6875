"""Order between blocks: a thread passes a fence and writes a flag; another one reads the flag and passes a fence.

As fences are SC fences, a fence counts for a flag that another thread of the block writes after a barrier, and
likewise for one that another thread has read in front of a barrier.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from .machine import Clock
from .memory import Region
from .races import ATOMIC

_NEVER = 1 << 62
_Flag = tuple[tuple[int, int], int, int]  # region and word, thread, step


class Flags:
    """Find accesses of a launch that flags order: directly, not through a third block."""

    def __init__(self, clock: Clock, regions: list[Region], block_size: int) -> None:
        self._size = block_size
        self._clock = clock
        self._regions = [r for r in regions if r.log.written]
        self._flags: dict[int, list[_Flag]] | None = None  # by block

    def ordered(self, one: int, at: int, other: int, then: int) -> bool:
        """Return True if thread ``one`` at step ``at`` is ordered with ``other`` at step ``then``, either way."""
        if at > then:
            one, at, other, then = other, then, one, at
        if self._flags is None:
            self._flags = self._find()
        gives: dict[tuple[int, int], int] = {}
        for word, thread, step in self._flags.get(one // self._size, []):
            if self._is_given(one, at, thread, step):
                gives[word] = min(step, gives.get(word, _NEVER))
        return any(
            gives.get(word, _NEVER) < step and self._is_taken(other, then, thread, step)
            for word, thread, step in self._flags.get(other // self._size, [])
        )

    def _is_given(self, one: int, at: int, thread: int, step: int) -> bool:
        """Return True if a fence lies between an access and a flag that a thread of the block writes."""
        own = self._next(self._fences.get(one, []), at)
        if own <= (step if one == thread else self._barrier_before(one, step)):
            return True
        return at < self._barrier_before(one, self._last(self._fences.get(thread, []), step))

    def _is_taken(self, other: int, then: int, thread: int, step: int) -> bool:
        own = self._last(self._fences.get(other, []), then)
        if own >= (step if other == thread else self._barrier_after(other, step)):
            return True
        return then > self._barrier_after(other, self._next(self._fences.get(thread, []), step))

    @staticmethod
    def _next(steps: list[int], after: int) -> int:
        k = bisect_left(steps, after)
        return steps[k] if k < len(steps) else _NEVER

    @staticmethod
    def _last(steps: list[int], before: int) -> int:
        k = bisect_right(steps, before)
        return steps[k - 1] if k else -1

    def _barrier_before(self, thread: int, step: int) -> int:
        return self._last(self._barriers.get(thread // self._size, []), step)

    def _barrier_after(self, thread: int, step: int) -> int:
        return self._next(self._barriers.get(thread // self._size, []), step)

    def _find(self) -> dict[int, list[_Flag]]:
        """Find fences and barriers, and return the atomic accesses, which are the flags: each may write."""
        self._fences = _by_owner(self._clock.fences)
        self._barriers = _by_owner(self._clock.barriers)
        flags: dict[int, list[_Flag]] = {}
        for number, region in enumerate(self._regions):
            accesses, _ = region.log.accesses()
            atomic = accesses.part((accesses.flags & ATOMIC) != 0)
            for word, thread, step in zip(*(column.tolist() for column in atomic[:3]), strict=True):
                flags.setdefault(thread // self._size, []).append(((number, word), thread, step))
        return flags


def _by_owner(events: list[tuple[int, Any]]) -> dict[int, list[int]]:
    """Steps of the events of each owner, ascending."""
    found: dict[int, list[int]] = {}
    for step, owners in events:
        for owner in owners.tolist():
            found.setdefault(owner, []).append(step)
    return found
