"""Memory of the CPU runtime: what its worker threads use again, and that of results."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import numpy as np

from .. import codec
from ..pixels import ALIGNMENT

# Results of at least so many bytes come from a pool that keeps so many blocks.
_POOLED = 1 << 20
_SPARE = 3


class Scratch:
    """Memory of one worker thread, grown as needed and used again, and its decoder."""

    def __init__(self) -> None:
        self._buffers: dict[str, np.ndarray[Any, Any]] = {}
        self._decoder: Any = None
        self.decoding = 0.0  # seconds, in the call at hand

    def flat(self, name: str, elements: int, dtype: Any) -> np.ndarray[Any, Any]:
        """At least this many elements, contents undefined."""
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < elements or buffer.dtype != dtype:
            buffer = np.empty(max(elements, 1), dtype)
            self._buffers[name] = buffer
        return buffer

    @property
    def decoder(self) -> Any:
        """nvImageCodec decoders must not be shared by threads; one is kept with each scratch."""
        if self._decoder is None:
            self._decoder = codec.cpu_decoder()
        return self._decoder


class _Loan:
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
            memory = next((spare for spare in self._spare if size <= spare.size <= 2 * size), None)
            if memory is None:
                memory = _aligned(size)
            else:
                # Not `remove`, which would compare the arrays' contents.
                others = [spare for spare in self._spare if spare is not memory]
                self._spare.clear()
                self._spare.extend(others)
        return np.asarray(_Loan(self, memory))[:size]

    def give(self, memory: np.ndarray[Any, Any]) -> None:
        """Take memory back; without the lock, as this may run inside ``take``, in a garbage collection."""
        self._spare.append(memory)


def _aligned(size: int) -> np.ndarray[Any, Any]:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]
