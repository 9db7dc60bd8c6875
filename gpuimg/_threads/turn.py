"""Waits for the GIL: turns, which make them fewer, and the seconds that they take.

One thread at a time prepares a batch in Python, until its native call starts.

Only one thread runs Python code at a time anyway. Next to a busy Python loop, each thread waits one switch interval
(5 ms) to get the GIL back; two threads that prepare batches at the same time also wait for each other, and both of
their native calls start late.
"""

import math
import threading
import time
from typing import Any, Self

import numpy as np

# Seconds that a thread waits for its turn. Turns only improve speed, so waiting is bounded: the user's code, which
# prepares a batch, may take long, or wait for another thread's batch.
_PATIENCE = 0.05

_BRIEF = 1e-3  # seconds of waiting that are not examined
_NAP, _NAPS = 1e-4, 3  # seconds of a sleep, and number of sleeps
_PROMPT = 5e-4  # seconds within which a thread resumes if GIL and core are free; timers alone may be late by part of it
_RELEASES = 4  # releases of the GIL per sample: open, fstat, read and close of its file

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


def zeros(dtype: Any, *shape: int) -> Any:
    """Return an array of zeros. ``np.zeros`` releases the GIL from 1 KiB on, for which another thread may wait."""
    return np.ndarray(shape, dtype, bytearray(math.prod(shape) * np.dtype(dtype).itemsize))


class Watch:
    """Measures a block of Python code on this thread.

    Time without computation was spent on waiting: for a disk or a network, or for the GIL or a core after a call that
    released the GIL. The two cannot be distinguished afterwards. So a thread that waited sleeps briefly: the delay
    until it resumes is an estimate of the wait after each of its calls that released the GIL: a few for each of
    ``samples``. Without ``samples``, which are read, all waits were for the GIL or a core.
    """

    def __init__(self, samples: int | None = None) -> None:
        self._calls = None if samples is None else _RELEASES * samples
        self.seconds = 0.0  # work, including waits for disks and networks
        self.held = 0.0  # estimated waits for the GIL or a core
        self.cpu = 0.0  # seconds of this thread

    def __enter__(self) -> Self:
        self._start, self._cpu_start = time.perf_counter(), time.thread_time()
        return self

    def __exit__(self, *_: object) -> None:
        wall, self.cpu = time.perf_counter() - self._start, time.thread_time() - self._cpu_start
        waited = max(wall - self.cpu, 0.0)
        if waited > _BRIEF:
            self.held = waited if self._calls is None else min(waited, self._calls * _delay())
        self.seconds = wall - self.held


def _delay() -> float:
    """Return the seconds by which this thread resumes late after a sleep: the least of a few sleeps."""
    least = math.inf
    for _ in range(_NAPS):
        start = time.perf_counter()
        time.sleep(_NAP)
        least = min(least, time.perf_counter() - start - _NAP)
        if least <= _PROMPT:
            return 0.0
    return least
