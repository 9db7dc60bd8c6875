"""Turns: one thread at a time prepares a batch in Python, until its native call starts.

Only one thread runs Python code at a time anyway. Next to a busy Python loop, each thread waits one switch interval
(5 ms) to get the GIL back; two threads that prepare batches at the same time also wait for each other, and both of
their native calls start late.
"""

from __future__ import annotations

import threading
from typing import Self

# Seconds that a thread waits for its turn. Turns only improve speed, so waiting is bounded: the user's code, which
# prepares a batch, may take long, or wait for another thread's batch.
_PATIENCE = 0.05

_held = threading.local()


class Turn:
    """A context manager that threads enter to prepare a batch; the turn ends on exit or with :func:`end_turn`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        if self._lock.acquire(timeout=_PATIENCE):
            _held.lock = self._lock
        return self

    def __exit__(self, *_: object) -> None:
        end_turn()


def end_turn() -> None:
    """Let the next thread prepare its batch, if this thread holds the turn."""
    lock = getattr(_held, "lock", None)
    if lock is not None:
        _held.lock = None
        lock.release()
