"""Memory and streams of the CUDA runtime: what a thread owns, results that come back, and the order of streams."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import cupy

from .images import numpy_dtype


class PerThread:
    """What a thread has for itself, left to another thread when this one ends.

    A stream, because memory that was given back belongs to the stream's address, which a new stream may have before the
    work on one that is gone is done; a decoder, because it takes long to make and must not be shared.
    """

    def __init__(self, spare: list[Any], make: Callable[[], Any]) -> None:
        self._spare = spare
        try:
            self.value = spare.pop()
        except IndexError:
            self.value = make()

    def __del__(self) -> None:
        if hasattr(self, "value"):
            self._spare.append(self.value)


class PooledResult:
    """Result memory that goes back to its pool when the last array in it is gone.

    ``stream`` is the one whose work on it is the last: that it is written on, from when it is handed over its reader's.
    """

    def __init__(self, pool: PooledResults, memory: Any) -> None:
        self._pool = pool
        self.memory = memory
        self.stream = address(None)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():
            self._pool.give(self.memory, self.stream)


class PooledResults:
    """Memory for results of private streams, used again once the *host* has waited for the last work on it."""

    def __init__(self, device: Any, thread: threading.local) -> None:
        self._device = device
        self._thread = thread
        self._spare: list[tuple[Any, Any]] = []
        self._lock = threading.Lock()

    def take(self, elements: int, dtype: str) -> Any:
        """An uninitialised flat array; a decoder may write to it at once."""
        kind = numpy_dtype(dtype)
        size = elements * kind.itemsize
        with self._lock:
            spare = self._spare
            fitting = [k for k, (memory, _) in enumerate(spare) if memory.size >= size]
            best = min(fitting, key=lambda k: (not spare[k][1].done, spare[k][0].size), default=None)
            # Too small ones are given back rather than kept beside the larger one.
            taken = [spare.pop() for _ in range(len(spare))] if best is None else [spare.pop(best)]
        for _, used in taken:  # not under the lock: a reader may take its time
            used.synchronize()
        if best is None:
            taken.clear()
            memory = cupy.empty(size, cupy.uint8)
            cupy.cuda.get_current_stream().synchronize()
        else:
            memory = taken[0][0]
        result = PooledResult(self, memory)
        self._thread.results.append(weakref.ref(result))
        owned = cupy.cuda.UnownedMemory(memory.data.ptr, size, result, self._device.id)
        return cupy.ndarray((elements,), kind, cupy.cuda.MemoryPointer(owned, 0))

    def give(self, memory: Any, stream: int) -> None:
        """Take memory back, whose last work is on a stream."""
        with self._device:
            used = recorded(stream)
        self._spare.append((memory, used))  # without the lock: this may run inside `take`, in a garbage collection

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # Not by the events: of a cycle they may be gone already, and results may come back only now.
        if not is_finalizing():
            self._device.synchronize()


def copy_to_device(host: Any, target: Any) -> None:
    """Copy an array in the order of CuPy's current stream; ``host`` may go when this returns.

    CUDA stages pageable memory before the call returns. Pinned memory would have to be kept until the copy is done.
    """
    target.set(host)


class Event(NamedTuple):
    """The end of what a private stream holds, and the results that were made on it."""

    event: Any
    results: list[weakref.ref[PooledResult]]


# Streams of others are known by their address: CuPy's object for them is deprecated.


def address(stream: int | None) -> int:
    """A stream's address; that of CuPy's current one for None."""
    return int(cupy.cuda.get_current_stream().ptr) if stream is None else stream


def recorded(stream: int) -> Any:
    """An event at the end of what a stream holds."""
    event = cupy.cuda.Event(disable_timing=True)
    cupy.cuda.runtime.eventRecord(event.ptr, stream)
    return event


def wait(stream: int, event: Any) -> None:
    """What comes to a stream from now on waits for an event."""
    cupy.cuda.runtime.streamWaitEvent(stream, event.ptr)
