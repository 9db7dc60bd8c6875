"""Memory of the CPU runtime: what its worker threads use again, and that of results."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any

import numpy as np

from ..kernels.cpu.records import RUNNING
from ..kernels.jpeg.layout import TABLE, TABLES
from .images import ALIGNMENT

# Results of at least so many bytes come from a pool that keeps so many blocks.
_POOLED = 1 << 20
_SPARE = 3


class Scratch:
    """Memory of one worker thread, grown as needed and used again."""

    def __init__(self) -> None:
        # Of the JPEG decoder: its look-up tables serve the next file too, if it has the same.
        self.tables = np.zeros(TABLES, TABLE)
        self._buffers: dict[str, np.ndarray[Any, Any]] = {}
        self._addresses = {"tables": self.tables.ctypes.data}  # asking an array each time takes a microsecond

    def flat(self, name: str, elements: int, dtype: Any) -> np.ndarray[Any, Any]:
        """At least this many elements, contents undefined."""
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < elements or buffer.dtype != dtype:
            buffer = np.empty(max(elements, 1), dtype)
            self._buffers[name], self._addresses[name] = buffer, buffer.ctypes.data
        return buffer

    def address(self, name: str) -> int:
        """Where memory lies; another place once :meth:`flat` has grown it."""
        return self._addresses[name]


class Places:
    """How many threads of this process are in native loops, whatever batches they work on."""

    def __init__(self) -> None:
        self._process = -1
        self._running = np.zeros(1, RUNNING)

    @property
    def running(self) -> Any:
        """(1,) RUNNING that the loops count in; a forked child, which has none of the threads, begins at 0."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._running = np.zeros(1, RUNNING)
        return self._running


class _PooledMemory:
    """Memory that goes back to its pool when the last array in it is gone."""

    def __init__(self, pool: Pool, memory: np.ndarray[Any, Any]) -> None:
        self._pool = pool
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._pool.give(self._memory)


class Pool:
    """Result memory that is used again once nothing refers to a result in it.

    Fresh memory costs a page fault each 4 KB: a fifth of the time of plain decoding.
    """

    def __init__(self) -> None:
        self._spare: deque[np.ndarray[Any, Any]] = deque(maxlen=_SPARE)  # the oldest is dropped
        self._lock = threading.Lock()

    def take(self, size: int) -> Any:
        """So many bytes, uninitialised and aligned for zero-copy hand-off."""
        if size < _POOLED:
            return _aligned(size)
        with self._lock:
            spares = list(self._spare)  # in one step: `give` may append at any moment
            memory = next((spare for spare in spares if size <= spare.size <= 2 * size), None)
            if memory is None:
                memory = _aligned(size)
            else:
                # Not `remove`, which would compare the arrays' contents. What is given meanwhile is let go.
                self._spare.clear()
                self._spare.extend(spare for spare in spares if spare is not memory)
        return np.asarray(_PooledMemory(self, memory))[:size]

    def give(self, memory: np.ndarray[Any, Any]) -> None:
        """Take memory back; without the lock, as this may run inside ``take``, in a garbage collection."""
        self._spare.append(memory)


def _aligned(size: int) -> np.ndarray[Any, Any]:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]
