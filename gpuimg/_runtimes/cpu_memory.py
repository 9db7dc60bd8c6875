"""Memory of the CPU runtime: reused scratch memory of threads, and memory of results."""

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
_SPARE = 5


_NAMES: Final = records.NEEDS.names or ()
#: Dtypes of fields of records.SCRATCH other than uint8.
_DTYPES: Final[dict[str, Any]] = {
    **dict.fromkeys(("statistics", "positions", "planes", "floats"), np.float32), "ints": np.int32, "packed": np.uint32,
}  # fmt: skip
_EXACT: Final = _NAMES.index("exact")


_DECODING: Final = (records.THREAD.names or ()).index("decoding")
_TIMES: Final = slice(_DECODING, _DECODING + 2)  # words of a records.THREAD: nanoseconds spent decoding, and in all


#: Records of a file that is decoded without a batch, and its size as displayed.
SINGLE: Final = np.dtype(
    [
        ("image", records.IMAGE), ("header", HEADER), ("address", "<i8"), ("size", "<i8"), ("left", "<i8"),
        ("needs", records.NEEDS), ("status", STATUS), ("job", records.JOB), ("shown_size", "<i8", 2),
    ],
    align=True,
)  # fmt: skip


class CallMemory:
    """Memory of the threads of one call, grown as needed and reused by later calls.

    Attributes
    ----------
    scratch : (T,) records.SCRATCH
    threads : (T,) records.THREAD
    words : (T, W) int64
        The same memory as ``threads``, whose first fields are words.
    """

    def __init__(self) -> None:
        single = np.zeros(1, SINGLE)
        self.single = {name: single[name] for name in SINGLE.names or ()}
        self.single_words = single.view(np.int64)  # the same memory
        self._buffers: dict[tuple[str, int], np.ndarray[Any, Any]] = {}
        # Look-up tables of the JPEG decoder: they serve the next file too if its Huffman tables are the same.
        self._tables: list[np.ndarray[Any, Any]] = []
        self.scratch, self._reserved = np.zeros(0, records.SCRATCH), np.zeros((0, len(_NAMES)), np.int64)
        self._add_threads(1)

    def _add_threads(self, count: int) -> None:
        more = count - len(self.scratch)
        self.scratch = np.concatenate([self.scratch, np.zeros(more, records.SCRATCH)])
        self._reserved = np.concatenate([self._reserved, np.zeros((more, len(_NAMES)), np.int64)])
        self._buffer_words = self.scratch.view(np.int64).reshape(count, -1, 2)  # addresses and elements
        self.threads = np.zeros(count, records.THREAD)
        self.words = self.threads.view(np.int64).reshape(count, -1)
        for words in self._buffer_words[count - more :]:
            self._tables.append(tables := np.zeros(TABLES, TABLE))
            words[-1] = address_of(tables), tables.size

    def flat(self, name: str, elements: int, dtype: Any, thread: int = 0) -> np.ndarray[Any, Any]:
        """Return a buffer of a thread, of at least this many elements, contents undefined."""
        buffer = self._buffers.get((name, thread))
        if buffer is None or buffer.size < elements or buffer.dtype != dtype:
            buffer = np.empty(max(elements, 1), dtype)
            self._buffers[name, thread] = buffer
        return buffer

    def reserve(self, needs: Ints, count: int = 1) -> None:
        """Prepare for a call on ``count`` threads; ``needs`` are the words of a records.NEEDS."""
        if count > len(self.scratch):
            self._add_threads(count)
        if set_elements(needs, self._reserved, self._buffer_words, count):
            for thread, k in np.argwhere(needs > self._reserved[:count]).tolist():
                name = _NAMES[k]
                buffer = self.flat(name, int(needs[k]), _DTYPES.get(name, np.uint8), thread)
                self._buffer_words[thread, k, 0], self._reserved[thread, k] = address_of(buffer), needs[k]
        if needs[_EXACT]:  # it says what the last image has left; freed memory may look like that
            for thread in range(count):
                self._buffers["exact", thread][: records.KEPT_BYTES + ALIGNMENT] = 0
        self.words[:, _TIMES] = 0

    def seconds(self) -> tuple[float, float]:
        """Return the seconds that threads have spent since then on decoding, and on anything else."""
        decoding, total = self.words[:, _TIMES].sum(0).tolist()
        return decoding / 1e9, (total - decoding) / 1e9


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
