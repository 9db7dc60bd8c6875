"""Numba's CUDA simulator, with threads that take turns.

Numba's own starts a thread for each of a block's and polls them: 256 that want Python's lock at once, of which each
wakes every few milliseconds to ask for it. Beside other work on the machine a block of theirs took minutes. Here one
thread runs at a time, from a barrier to the next, and hands over to the thread after it.

Imported in a process of the simulator, this takes the place of Numba's way.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numba.cuda.simulator import kernel as simulator


class _Turns:
    """Whose turn it is, among the threads of a block that have not ended."""

    def __init__(self, threads: int) -> None:
        self._turns = [threading.Semaphore(0) for _ in range(threads)]
        self._running = list(range(threads))

    def begin(self) -> None:
        self._turns[0].release()

    def wait(self, thread: int) -> None:
        self._turns[thread].acquire()

    def barrier(self, thread: int) -> None:
        """Let all others come to a barrier, or to their end, first."""
        after = self._running[(self._running.index(thread) + 1) % len(self._running)]
        self._turns[after].release()
        self.wait(thread)

    def end(self, thread: int) -> None:
        place = self._running.index(thread)
        del self._running[place]
        if self._running:
            self._turns[self._running[place % len(self._running)]].release()


def _run(block: Any, grid_point: tuple[int, ...], *arguments: Any) -> None:
    """What a block of threads does; an error in one of them is raised when all have ended."""
    points = list(np.ndindex(*block._block_dim))
    turns = _Turns(len(points))

    def work(thread: int) -> None:
        turns.wait(thread)
        try:
            block._f(*arguments)
        finally:
            turns.end(thread)

    threads = []
    for k, point in enumerate(points):
        thread = simulator.BlockThread(lambda k=k: work(k), block, grid_point, point, False)
        thread.syncthreads = lambda k=k: turns.barrier(k)
        thread.start()
        threads.append(thread)
    turns.begin()
    for thread in threads:
        thread.join()
    for thread in threads:
        if thread.exception:
            raise thread.exception[0].with_traceback(thread.exception[1])


simulator.BlockManager.run = _run
