"""Memory of the CPU runtime: reused scratch memory of worker threads, and memory of results."""

import os
from collections import deque
from typing import Any, Final

import numpy as np

from .._checks.types import Ints
from .._data.images import ALIGNMENT
from ..kernels.cpu import records
from ..kernels.cpu.inputs import address_of_bytes, set_elements
from ..kernels.cpu.records import address_of
from ..kernels.jpeg.layout import HEADER, STATUS, TABLE, TABLES

# Results of at least _POOLED bytes come from a pool, which stores up to _SPARE blocks.
_POOLED = 1 << 20
_SPARE = 3


_NAMES: Final = records.NEEDS.names or ()
#: Dtypes of fields of records.SCRATCH other than uint8.
_DTYPES: Final[dict[str, Any]] = {
    **dict.fromkeys(("statistics", "positions", "planes", "floats"), np.float32), "ints": np.int32, "packed": np.uint32,
}  # fmt: skip
_EXACT: Final = _NAMES.index("exact")


_DECODING: Final = (records.THREAD.names or ()).index("decoding")
#: Words of a records.THREAD: nanoseconds spent decoding, and in all.
TIMES: Final = slice(_DECODING, _DECODING + 2)


#: Records of a file that is decoded without a batch, and its size as displayed.
SINGLE: Final = np.dtype(
    [
        ("image", records.IMAGE), ("header", HEADER), ("address", "<i8"), ("size", "<i8"), ("left", "<i8"),
        ("needs", records.NEEDS), ("status", STATUS), ("queue", records.QUEUE), ("shown_size", "<i8", 2),
    ],
    align=True,
)  # fmt: skip


class ThreadMemory:
    """Memory of one worker thread, grown as needed and reused by later calls."""

    def __init__(self) -> None:
        single = np.zeros(1, SINGLE)
        self.single = {name: single[name] for name in SINGLE.names or ()}
        self.single_words = single.view(np.int64)  # the same memory
        self.scratch = np.zeros(1, records.SCRATCH)
        self.thread = np.zeros(1, records.THREAD)
        self.words = self.thread.view(np.int64)  # the same memory: its first fields are words
        self._buffer_words = self.scratch.view(np.int64).reshape(-1, 2)  # addresses and elements
        self._reserved = np.zeros(len(_NAMES), np.int64)
        self._buffers: dict[str, np.ndarray[Any, Any]] = {}
        # Look-up tables of the JPEG decoder: they serve the next file too if its Huffman tables are the same.
        self._tables = np.zeros(TABLES, TABLE)
        self._buffer_words[-1] = address_of(self._tables), self._tables.size

    def flat(self, name: str, elements: int, dtype: Any) -> np.ndarray[Any, Any]:
        """Return a buffer of at least this many elements, contents undefined."""
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < elements or buffer.dtype != dtype:
            buffer = np.empty(max(elements, 1), dtype)
            self._buffers[name] = buffer
        return buffer

    def reserve(self, needs: Ints) -> None:
        """Prepare for a call; ``needs`` are the words of a records.NEEDS."""
        if set_elements(needs, self._reserved, self._buffer_words):
            for k in (needs > self._reserved).nonzero()[0].tolist():
                name = _NAMES[k]
                self._buffer_words[k, 0] = address_of(self.flat(name, int(needs[k]), _DTYPES.get(name, np.uint8)))
                self._reserved[k] = needs[k]
        if needs[_EXACT]:  # it says what the last image has left; freed memory may look like that
            self._buffers["exact"][: records.KEPT_BYTES + ALIGNMENT] = 0
        self.words[TIMES] = 0


class RunningThreads:
    """Number of threads of this process in native loops, over all batches."""

    def __init__(self) -> None:
        self._process = -1
        self._running = np.zeros(1, records.RUNNING)

    @property
    def running(self) -> Any:
        """(1,) records.RUNNING, updated by the loops; starts at 0 in a forked child, which has none of the threads."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._running = np.zeros(1, records.RUNNING)
        return self._running


class _PooledMemory:
    """Memory that returns to its pool when the last array in it is gone."""

    def __init__(self, pool: "Pool", memory: np.ndarray[Any, Any]) -> None:
        self._pool = pool
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._pool.give(self._memory)


class Pool:
    """Result memory that is reused once nothing refers to a result in it.

    New memory costs a page fault per 4 KB.
    """

    def __init__(self) -> None:
        self._spare: deque[np.ndarray[Any, Any]] = deque(maxlen=_SPARE)  # the oldest is dropped

    def take(self, size: int) -> Any:
        """Return ``size`` bytes, uninitialized and aligned for zero-copy hand-off."""
        if size < _POOLED:
            return _aligned(size)
        # Without a lock, which might stay locked in a forked child: each operation on the deque is atomic, and another
        # thread or a garbage collection may change it between two of them.
        memory = None
        for _ in range(len(self._spare)):
            try:
                spare = self._spare.popleft()
            except IndexError:
                break
            if size <= spare.size <= 2 * size:
                memory = spare
                break
            self._spare.append(spare)
        if memory is None:
            memory = _aligned(size)
        return np.asarray(_PooledMemory(self, memory))[:size]

    def give(self, memory: np.ndarray[Any, Any]) -> None:
        """Return memory to the pool."""
        self._spare.append(memory)


def _aligned(size: int) -> np.ndarray[Any, Any]:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -address_of_bytes(memory) % ALIGNMENT
    return memory[start : start + size]
