"""Time that a thread worked, apart from time that it waited for Python's lock (the GIL) or for a core."""

from __future__ import annotations

import math
import time
from typing import Self

_BRIEF = 1e-3  # seconds that are not worth asking about
_NAP, _NAPS = 1e-4, 3
_PROMPT = 5e-4  # seconds in which a thread goes on whose lock and core are free: timers are late by some of that
_RELEASES = 4  # of the lock for a sample: a file is opened, looked at, read and closed


class Watch:
    """Measures a block of Python code on this thread.

    What the code did not compute it waited: for a disk or a network, or to go on. Nothing tells the two apart
    afterwards, so a thread that waited takes short naps: how long it needs to get on from them is what each of its
    calls that let go of the lock may have waited too.

    Parameters
    ----------
    samples : int
        That the code is about, each with a few such calls.

    Attributes
    ----------
    seconds : float
        Work, with waits for what is outside.
    held : float
        Waits for the lock or for a core.
    cpu : float
        Of this thread.
    """

    def __init__(self, samples: int) -> None:
        self._calls = _RELEASES * samples
        self.seconds = self.held = self.cpu = 0.0

    def __enter__(self) -> Self:
        self._start, self._cpu_start = time.perf_counter(), time.thread_time()
        return self

    def __exit__(self, *_: object) -> None:
        wall, self.cpu = time.perf_counter() - self._start, time.thread_time() - self._cpu_start
        waited = max(wall - self.cpu, 0.0)
        if waited > _BRIEF:
            self.held = min(waited, self._calls * _delay())
        self.seconds = wall - self.held


def _delay() -> float:
    """Seconds by which this thread goes on too late after a pause: the least of a few, as any may be late by chance."""
    least = math.inf
    for _ in range(_NAPS):
        start = time.perf_counter()
        time.sleep(_NAP)
        least = min(least, time.perf_counter() - start - _NAP)
        if least <= _PROMPT:
            return 0.0
    return least
