"""Memory and streams of the CUDA runtime: per-thread state, pools for results, and ordering between streams."""

import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cupy
import numpy as np

from .._data.images import numpy_dtype
from .protocol import PER_THREAD_STREAM

_AT_MOST = 2  # blocks in a ring
_PLANS = 8  # blocks for plans, which are small: a batch may need several, and must not wait for an earlier batch


def with_room(size: int) -> int:
    """Return the size to allocate for memory that may grow: a quarter more, because batches differ in size."""
    return size + size // 4


class PerThread:
    """State of a thread, passed on to another thread when this one ends.

    A stream is reused because freed memory belongs to the stream's address, which a new stream could get before work on
    a destroyed one is done; a decoder because it is slow to create and must not be shared.
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


class ThreadResources:
    """Resources for a thread's work on a GPU: a stream, two arenas to decode into, and pinned memory for uploads."""

    def __init__(self) -> None:
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.arenas = Ring(self._arena)
        self.pinned = Ring(Pinned, _PLANS)
        self.encoder: Any = None  # of nvImageCodec, once it is used

    def _arena(self, size: int) -> Any:
        """Return memory that a decoder may write immediately."""
        with self.stream:
            memory = cupy.empty(size, cupy.uint8)
        # The pool may return memory that earlier work on this stream still uses, see gpuimg._runtimes.cuda.
        self.stream.synchronize()
        return memory


# -- reused memory -----------------------------------------------------------------------------------------------------


class _LastUse(cupy.cuda.Event):  # type: ignore[misc]
    """An event whose ``ptr`` is 0 once it is destroyed; CuPy keeps the handle, which the driver may give to another.

    A loop that is left early leaves a reference cycle, in which the collector may destroy it before a result returns.
    """

    def __del__(self) -> None:
        super().__del__()
        self.ptr = 0


class Block:
    """Memory, and an event after its last use."""

    def __init__(self, memory: Any, size: int) -> None:
        self.memory = memory
        self.size = size
        self.used = _LastUse(disable_timing=True)


class Ring:
    """At most ``most`` blocks of memory for one thread: work on one may still run while another is filled.

    ``make`` returns memory of a given size. A block is at most a quarter larger than the largest size requested.
    """

    def __init__(self, make: Callable[[int], Any], most: int = _AT_MOST) -> None:
        self._make = make
        self._spare: list[Block] = []  # in the order in which they were returned
        self._left = most  # blocks that may still be allocated

    def take(self, size: int) -> Block:
        """Return a block of at least this size that the GPU no longer uses: preferably one that needs no waiting."""
        block = self._idle(size) or self._waited_for(size)
        if block is None:
            room = with_room(size)
            block = Block(self._make(room), room)
            self._left -= 1
        return block

    def _idle(self, size: int) -> Block | None:
        large_enough = [block for block in self._spare if block.size >= size and block.used.done]
        block = min(large_enough, key=lambda block: block.size, default=None)
        if block is not None:
            self._spare.remove(block)
        return block

    def _waited_for(self, size: int) -> Block | None:
        """If no more may be allocated, wait for the block that is idle first; free it and return None if too small."""
        idle = [block for block in self._spare if block.used.done]
        if not idle and self._left:
            return None
        block = idle[0] if idle else next((block for block in self._spare if block.size >= size), self._spare[0])
        self._spare.remove(block)
        if not idle:
            block.used.synchronize()
        if block.size >= size:
            return block
        self._left += 1
        return None

    def give(self, block: Block) -> None:
        """Return a block whose event has been recorded to the ring."""
        self._spare.append(block)


class Pinned:
    """Pinned host memory, (N,) int32: copies from and to it run in stream order without blocking the host."""

    def __init__(self, words: int) -> None:
        self._memory = cupy.cuda.alloc_pinned_memory(4 * words)
        self.words = np.frombuffer(self._memory, np.int32, words)
        self.address = self.words.ctypes.data


def upload(parts: Sequence[Any], pinned: Ring, stream: Any) -> Any:
    """Concatenate arrays of any dtypes as int32 in one copy, on a stream that is the current one."""
    flat = [part.reshape(-1).view(np.int32) for part in parts]
    size = sum(map(len, flat))
    block = pinned.take(size)
    try:
        np.concatenate(flat, out=block.memory.words[:size])
        uploaded = cupy.empty(size, cupy.int32)
        uploaded.data.copy_from_host_async(block.memory.address, 4 * size)
        block.used.record(stream)
    finally:
        pinned.give(block)
    return uploaded


# -- results -----------------------------------------------------------------------------------------------------------


class PooledResult:
    """Result memory that returns to its pool when the last array in it is gone.

    ``stream`` has the last work on it: the stream that writes it and, after hand-off, its reader's.
    """

    def __init__(self, pool: "PooledResults", block: Block, stream: "Stream", *, in_use: bool) -> None:
        self._pool = pool
        self._block = block
        self._in_use = in_use
        self.stream = stream

    def order(self, stream: int) -> None:
        """Make a stream that will write the memory wait for its last reader."""
        if self._in_use:
            wait(stream, self._block.used)
            self._in_use = False

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():
            self._pool.give(self._block, None if self._in_use else self.stream.address)


class PooledResults:
    """Memory for results that is reused after the last work on it.

    There are never more blocks than results that were alive at the same time. If a result needs a larger block than any
    spare one, all spare blocks are freed once nothing reads them, and the new block has room for a quarter more.
    """

    def __init__(self, device: Any, thread: threading.local) -> None:
        self._device = device
        self._thread = thread
        self._blocks: set[Block] = set()  # all, spare or not, so that no collector destroys their events
        self._spare: list[Block] = []
        self._leaving: list[Block] = []  # to be freed: too small for later results
        self._lock = threading.Lock()

    def empty_for_results(self, elements: int, dtype: str, reader: "Stream | None" = None) -> Any:
        """Return an uninitialized flat array for the current stream's kernels.

        They must run after :meth:`PooledResult.order` has made that stream wait: the host does not wait, and earlier
        work on the stream need not wait either. With a ``reader``, the stream that reads the array, a decoder may write
        it immediately.
        """
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
        """Return spare memory, preferably idle, or new memory; ``fresh``: without pending work on the stream."""
        with self._lock:
            spare = self._spare
            large_enough = [k for k, block in enumerate(spare) if block.size >= size]
            best = min(large_enough, key=lambda k: (not spare[k].used.done, spare[k].size), default=None)
            if best is not None:
                return spare.pop(best)
            grows = bool(spare)
            self._leaving += [spare.pop() for _ in range(len(spare))]
            # Not earlier: CuPy's pool may give them to streams that do not wait for their readers.
            idle = {block for block in self._leaving if block.used.done}
            self._leaving = [block for block in self._leaving if block not in idle]
            self._blocks -= idle
        room = with_room(size) if grows else size
        block = Block(cupy.empty(room, cupy.uint8), room)
        with self._lock:
            self._blocks.add(block)
        if fresh:
            cupy.cuda.get_current_stream().synchronize()
        return block

    def give(self, block: Block, stream: int | None) -> None:
        """Return memory to the pool; ``stream`` has its last work, None if no work was enqueued since it was taken."""
        try:
            with self._device:
                if not block.used.ptr:  # destroyed with the pool, which nobody uses any more
                    self._device.synchronize()
                    return
                if stream is not None:
                    self._record(block, stream)
        except Exception:  # in a destructor nobody can handle it: if the GPU cannot even be waited for, drop the memory
            self._blocks.discard(block)
            return
        self._spare.append(block)  # without the lock: a garbage collection inside `empty_for_results` may call this

    def _record(self, block: Block, stream: int) -> None:
        """Record the end of a stream's work; wait for the device if the stream is destroyed or means another here."""
        if stream != PER_THREAD_STREAM:
            try:
                cupy.cuda.runtime.eventRecord(block.used.ptr, stream)
                return
            except Exception:  # any CUDA error for a destroyed stream
                pass
        self._device.synchronize()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # Not by the events: in a reference cycle they may be gone already, and results may be returned only now.
        if not is_finalizing():
            self._device.synchronize()


def copy_to_device(host: Any, target: Any) -> None:
    """Copy an array in the order of CuPy's current stream; ``host`` may be freed when this returns.

    CUDA stages pageable memory before the call returns. Pinned memory would have to stay alive until the copy is done.
    """
    target.set(host)


class Event(NamedTuple):
    """An event after the work of a private stream so far, and the results written on that stream."""

    event: Any
    results: list[weakref.ref[PooledResult]]


# Streams of other libraries are identified by address: CuPy's object for external streams is deprecated.


class Stream(NamedTuple):
    """A stream by its address, and the object that keeps it alive, if known."""

    address: int
    owner: Any = None


def current() -> Stream:
    """Return CuPy's current stream."""
    stream = cupy.cuda.get_current_stream()
    return Stream(int(stream.ptr), stream)


def event_after(stream: int) -> Any:
    """Record and return an event after the work of a stream so far."""
    event = cupy.cuda.Event(disable_timing=True)
    cupy.cuda.runtime.eventRecord(event.ptr, stream)
    return event


def follow(stream: int, other: int) -> None:
    """Make later work of a stream wait for the present work of another."""
    if stream != other:
        wait(stream, event_after(other))


def wait(stream: int, event: Any) -> None:
    """Make later work of a stream wait for an event."""
    cupy.cuda.runtime.streamWaitEvent(stream, event.ptr)
