"""Separating the time a thread worked from the time it waited for the GIL or a core."""

from __future__ import annotations

import math
import time
from typing import Self

_BRIEF = 1e-3  # seconds of waiting that are not examined
_NAP, _NAPS = 1e-4, 3  # seconds of a sleep, and number of sleeps
_PROMPT = 5e-4  # seconds within which a thread resumes if GIL and core are free; timers alone may be late by part of it
_RELEASES = 4  # releases of the GIL per sample: open, fstat, read and close of its file


class Watch:
    """Measures a block of Python code on this thread.

    Time without computation was spent on waiting: for a disk or a network, or for the GIL or a core after a call that
    released the GIL. The two cannot be distinguished afterwards. So a thread that waited sleeps briefly: the delay
    until it resumes is an estimate of the wait after each of its calls that released the GIL: a few for each of
    ``samples``.
    """

    def __init__(self, samples: int) -> None:
        self._calls = _RELEASES * samples
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
            self.held = min(waited, self._calls * _delay())
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
