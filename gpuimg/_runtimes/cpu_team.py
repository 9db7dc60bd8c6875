"""Workers: threads that help with the native loops of all calls of this process, see :mod:`gpuimg.kernels.cpu.team`.

They wait for jobs without the GIL, so that a call need not start threads, which takes longer than a small image.
"""

import _thread
import atexit
import os
import time
from contextlib import suppress
from typing import Final

import numpy as np

from .._threads.threads import threads
from ..kernels.cpu import batch
from ..kernels.cpu.records import OFFER, TEAM

# Nanoseconds without a job after which a worker ends; at once where native code has no clock.
_PATIENCE: Final = 1_000_000_000 if hasattr(time, "clock_gettime") else 0
_JOBS: Final = 32  # with workers at a time; the threads of other calls are alone
_MOST: Final = (TEAM.names or ()).index("most")
_END: Final = 1.0  # seconds that the end of the process waits for workers


class Team:
    """The threads of a process that compute images, over all batches.

    Attributes
    ----------
    records : (1,) TEAM
    offers : (N,) OFFER
    workers : list
        An item for each worker.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin without workers, as a forked child has none."""
        self.records, self.offers = np.zeros(1, TEAM), np.zeros(_JOBS, OFFER)
        self._words = self.records.view(np.int64)  # the same memory
        self.workers: list[None] = []  # operations of lists are atomic
        self._helpers: list[int] = []  # of each call that workers may help

    def begin_call(self, helpers: int) -> None:
        """Set the number of threads to that of now, and start workers if there are fewer than may help all calls."""
        self._words[_MOST] = most = threads()
        if not helpers:
            return
        self._helpers.append(helpers)
        while len(self.workers) < min(sum(self._helpers), most - 1):
            self.workers.append(None)
            try:
                _thread.start_new_thread(self._help, ())
            except RuntimeError:  # no more threads are allowed: the call takes longer
                self.workers.pop()
                return

    def end_call(self, helpers: int) -> None:
        """End a call; it does nothing for one that an interrupt has kept from beginning."""
        if helpers:
            with suppress(ValueError):
                self._helpers.remove(helpers)

    def _help(self) -> None:
        workers = self.workers
        try:
            batch.help_jobs(self.records, self.offers, np.zeros(2, np.int64), _PATIENCE)
        finally:
            workers.pop()

    def end(self) -> None:
        """End the workers, which must not outlive the memory of the team."""
        batch.end_help(self.records)
        late = time.monotonic() + _END
        while self.workers and time.monotonic() < late:
            time.sleep(1e-4)


team: Final = Team()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=team.begin)
atexit.register(team.end)
