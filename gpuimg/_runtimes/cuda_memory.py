"""Memory and streams of the CUDA runtime: what a thread owns, results that come back, and the order of streams."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cupy
import numpy as np

from .._data.images import numpy_dtype
from .protocol import PER_THREAD_STREAM

_AT_MOST = 2  # blocks of a ring


def with_room(size: int) -> int:
    """Size of memory for what is to grow: batches differ, and each new largest one would take the place of the last."""
    return size + size // 4


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


class Lane:
    """What a thread's work on a GPU needs: a stream, two arenas to decode into, and pinned memory to upload from."""

    def __init__(self) -> None:
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.arenas = Ring(self._arena)
        self.pinned = Ring(Pinned)

    def _arena(self, size: int) -> Any:
        """Memory that a decoder may write at once."""
        with self.stream:
            memory = cupy.empty(size, cupy.uint8)
        # The pool gives memory that work of this stream may still use, see gpuimg._runtimes.cuda.
        self.stream.synchronize()
        return memory


# -- memory that is used again and again -------------------------------------------------------------------------------


class Block:
    """Memory, and the event after its last use."""

    def __init__(self, memory: Any, size: int) -> None:
        self.memory = memory
        self.size = size
        self.used = cupy.cuda.Event(disable_timing=True)


class Ring:
    """Two blocks of memory, for one thread: what was done with one may still go on while the other is filled.

    Parameters
    ----------
    make : function
        Gives memory of a size.

    Notes
    -----
    A block is at most a quarter larger than the largest that was asked for.
    """

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._make = make
        self._spare: list[Block] = []  # in the order in which they were given back
        self._left = _AT_MOST  # blocks that may still be made

    def take(self, size: int) -> Block:
        """A block of at least this size that the GPU does not use any more: an idle one rather than one to wait for."""
        block = self._idle(size) or self._waited_for(size)
        if block is None:
            room = with_room(size)
            block = Block(self._make(room), room)
            self._left -= 1
        return block

    def _idle(self, size: int) -> Block | None:
        fitting = [block for block in self._spare if block.size >= size and block.used.done]
        block = min(fitting, key=lambda block: block.size, default=None)
        if block is not None:
            self._spare.remove(block)
        return block

    def _waited_for(self, size: int) -> Block | None:
        """Where no more may be made, the one that will be idle first; none, where it is too small and makes room."""
        idle = [block for block in self._spare if block.used.done]
        if not idle and self._left:
            return None
        block = idle[0] if idle else next((block for block in self._spare if block.size >= size), self._spare[0])
        self._spare.remove(block)
        block.used.synchronize()
        if block.size >= size:
            return block
        self._left += 1
        return None

    def give(self, block: Block) -> None:
        """Take a block back, whose event was recorded."""
        self._spare.append(block)


class Pinned:
    """Pinned memory of the host: copies from and to it are made in the order of their stream, while the host goes on.

    Attributes
    ----------
    words : (N,) int32
    address : int
    """

    def __init__(self, words: int) -> None:
        self._memory = cupy.cuda.alloc_pinned_memory(4 * words)
        self.words = np.frombuffer(self._memory, np.int32, words)
        self.address = self.words.ctypes.data


def upload(parts: Sequence[Any], lane: Lane) -> Any:
    """Arrays of any dtypes as one of int32, one behind the other, in one copy on the lane's stream, the current one."""
    words = [part.reshape(-1).view(np.int32) for part in parts]
    size = sum(map(len, words))
    block = lane.pinned.take(size)
    try:
        np.concatenate(words, out=block.memory.words[:size])
        uploaded = cupy.empty(size, cupy.int32)
        uploaded.data.copy_from_host_async(block.memory.address, 4 * size)
        block.used.record(lane.stream)
    finally:
        lane.pinned.give(block)
    return uploaded


# -- results -----------------------------------------------------------------------------------------------------------


class PooledResult:
    """Result memory that goes back to its pool when the last array in it is gone.

    ``stream`` is the one whose work on it is the last: that it is written on, from when it is handed over its reader's.
    """

    def __init__(self, pool: PooledResults, block: Block, stream: Stream, *, in_use: bool) -> None:
        self._pool = pool
        self._block = block
        self._in_use = in_use
        self.stream = stream

    def order(self, stream: int) -> None:
        """Let a stream, which is to write it, wait for its last reader."""
        if self._in_use:
            wait(stream, self._block.used)
            self._in_use = False

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():
            self._pool.give(self._block, None if self._in_use else self.stream.address)


class PooledResults:
    """Memory for results that is used again after the last work on it.

    There are never more blocks than results were alive at one time. Where a result needs a larger one than is there,
    all that are spare are let go once nothing reads them, and the new one has room for a quarter more.
    """

    def __init__(self, device: Any, thread: threading.local) -> None:
        self._device = device
        self._thread = thread
        self._spare: list[Block] = []
        self._leaving: list[Block] = []  # too small for what came after them
        self._lock = threading.Lock()

    def take(self, elements: int, dtype: str) -> Any:
        """An uninitialised flat array for the current stream's kernels.

        They must come after what :meth:`PooledResult.order` has that stream wait for: the host does not wait, and what
        comes to the stream before them need not either.
        """
        return self._take(elements, dtype, None)

    def take_for_decoder(self, elements: int, dtype: str, reader: Stream) -> Any:
        """An uninitialised flat array that a decoder may write at once, and that is read on a stream."""
        return self._take(elements, dtype, reader)

    def _take(self, elements: int, dtype: str, reader: Stream | None) -> Any:
        kind = numpy_dtype(dtype)
        block = self._block(elements * kind.itemsize, fresh=reader is not None)
        in_use = not block.used.done
        if in_use and reader is not None:
            block.used.synchronize()
            in_use = False
        result = PooledResult(self, block, reader or current(), in_use=in_use)
        results = getattr(self._thread, "results", None)
        if results is not None:
            results.append(weakref.ref(result))
        owned = cupy.cuda.UnownedMemory(block.memory.data.ptr, block.size, result, self._device.id)
        return cupy.ndarray((elements,), kind, cupy.cuda.MemoryPointer(owned, 0))

    def _block(self, size: int, *, fresh: bool) -> Block:
        """Spare memory, idle rather than in use; or new, of the current stream, ``fresh`` if it has no work on it."""
        with self._lock:
            spare = self._spare
            fitting = [k for k, block in enumerate(spare) if block.size >= size]
            best = min(fitting, key=lambda k: (not spare[k].used.done, spare[k].size), default=None)
            if best is not None:
                return spare.pop(best)
            grows = bool(spare)
            self._leaving += [spare.pop() for _ in range(len(spare))]
            # Not before: CuPy's pool may give them to streams that know nothing of their readers.
            self._leaving = [block for block in self._leaving if not block.used.done]
        room = with_room(size) if grows else size
        block = Block(cupy.empty(room, cupy.uint8), room)
        if fresh:
            cupy.cuda.get_current_stream().synchronize()
        return block

    def give(self, block: Block, stream: int | None) -> None:
        """Take memory back, whose last work is on a stream; None where none has come to it since it was taken."""
        try:
            with self._device:
                if stream is not None:
                    self._record(block, stream)
        except Exception:  # nobody hears of it in a destructor: a GPU that cannot even be waited for loses the memory
            return
        self._spare.append(block)  # without the lock: this may run inside `take`, in a garbage collection

    def _record(self, block: Block, stream: int) -> None:
        """The end of what a stream holds, or of all, if it is gone or is not known on this thread."""
        if stream != PER_THREAD_STREAM:
            try:
                cupy.cuda.runtime.eventRecord(block.used.ptr, stream)
                return
            except Exception:  # whatever CUDA has to say of a stream that is gone
                pass
        self._device.synchronize()

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


class Stream(NamedTuple):
    """A stream of somebody else's, and what keeps it from being destroyed, if that is known."""

    address: int
    owner: Any = None


def current() -> Stream:
    """CuPy's current stream."""
    stream = cupy.cuda.get_current_stream()
    return Stream(int(stream.ptr), stream)


def recorded(stream: int) -> Any:
    """An event at the end of what a stream holds."""
    event = cupy.cuda.Event(disable_timing=True)
    cupy.cuda.runtime.eventRecord(event.ptr, stream)
    return event


def follow(stream: int, other: int) -> None:
    """What comes to a stream from now on waits for what another holds."""
    if stream != other:
        wait(stream, recorded(other))


def wait(stream: int, event: Any) -> None:
    """What comes to a stream from now on waits for an event."""
    cupy.cuda.runtime.streamWaitEvent(stream, event.ptr)
