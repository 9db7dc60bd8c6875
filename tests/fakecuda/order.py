"""The order of operations on a device that runs as late as it may, and a check of accesses that are too early.

Every operation of a stream follows those enqueued there before, those before an event the stream waited for, and those
the host had waited for when it was enqueued. Nothing else is ordered: an operation that was not waited for may run at
any time. The host is one sequence, in the order of the calls as they were made.

A hardware JPEG decoder writes its destination when it is *called*, whatever its stream still has to do before.
"""

import threading
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Stream = tuple[int, int]  # device, and the address with the number of streams that had it before above it
_GENERATION = 32  # bits
Clock = dict[Stream, int]  # how many operations of each stream are done
Range = tuple[int, int]  # addresses, the end excluded


@dataclass(frozen=True)
class Op:
    """One operation, or one call of the host that matters: its ``kind`` and details."""

    number: int
    kind: str
    stream: Stream | None
    thread: str
    told: dict[str, Any]

    def __str__(self) -> str:
        where = "" if self.stream is None else f" on stream {self.stream[1]:#x} of device {self.stream[0]}"
        return f"#{self.number} {self.kind} {self.told.get('name', '')}{where} [{self.thread}]"


@dataclass(frozen=True)
class Access:
    low: int
    high: int
    writes: bool
    stream: Stream
    count: int  # of the stream's clock
    op: Op
    file: object  # what a decoder writes there


@dataclass
class Chunk:
    """One piece of a device's memory, as ``cudaMalloc`` gives it, whoever has it at the moment."""

    low: int
    content: NDArray[np.uint8]
    device: int
    written: NDArray[np.bool_]
    accesses: list[Access] = field(default_factory=list)


_ALIGNMENT = 512  # of addresses
_NEVER_WRITTEN, _FREED = 0xA5, 0xDD  # bytes


def span_of(low: int, shape: Sequence[int], strides: Sequence[int], itemsize: int) -> Range:
    """Addresses of an array's elements, the first of which is at ``low``."""
    if 0 in shape:
        return low, low
    reach = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    return low + sum(min(step, 0) for step in reach), low + sum(max(step, 0) for step in reach) + itemsize


def joined(clock: Clock, other: Clock) -> None:
    """Let a clock know what another one knows."""
    for stream, count in other.items():
        clock[stream] = max(clock.get(stream, 0), count)


class Order:
    """The log, and what was found wrong while it was written; memory that is still allocated stays from another."""

    def __init__(self, before: "Order | None" = None) -> None:
        self.lock = threading.RLock()
        self.log: list[Op] = []
        self.problems: list[str] = []
        self.errors: list[BaseException] = []
        self._host: Clock = {}
        self._streams: dict[Stream, Clock] = {}
        self._chunks: dict[int, Chunk] = {} if before is None else before._chunks
        self._lows: list[int] = sorted(self._chunks)
        self._freed: list[Chunk] = []  # which a late access must still find poisoned
        for chunk in self._chunks.values():
            chunk.accesses.clear()
        self._generations: dict[int, int] = {}
        self._late: list[tuple[Stream, int, Callable[[], None]]] = []
        self.downloads: dict[int, Clock] = {}  # the last one to each address of the host's memory
        self.damaged: set[int] = set()
        self.fast = False  # whether all that was enqueued is done when the host asks, instead of as late as it may be

    def note(self, kind: str, stream: Stream | None = None, **told: Any) -> Op:
        with self.lock:
            op = Op(len(self.log), kind, stream, threading.current_thread().name, told)
            self.log.append(op)
            return op

    def of(self, *kinds: str) -> list[Op]:
        return [op for op in self.log if op.kind in kinds]

    def found(self, problem: str) -> None:
        self.problems.append(problem)

    def fail(self, problem: str, error: BaseException) -> None:
        """A call of CUDA's raises an exception, which cannot pass through CuPy."""
        self.found(problem)
        self.errors.append(error)

    def stream_at(self, device: int, address: int) -> Stream:
        """The stream that has an address now; 1 is another name of the null stream, cudaStreamLegacy."""
        address = 0 if address == 1 else address
        return device, address | self._generations.get(address, 0) << _GENERATION

    def end_stream(self, address: int) -> None:
        """Leave an address to the next stream, which knows nothing of what is still to be done on this one."""
        self._generations[address] = self._generations.get(address, 0) + 1

    def new_chunk(self, size: int, device: int = 0) -> int:
        with self.lock:
            room = np.full(size + _ALIGNMENT, _NEVER_WRITTEN, np.uint8)
            skipped = -room.ctypes.data % _ALIGNMENT
            low = room.ctypes.data + skipped
            self._chunks[low] = Chunk(low, room[skipped : skipped + size], device, np.zeros(size, np.bool_))
            insort(self._lows, low)
            return low

    def free_chunk(self, low: int) -> None:
        with self.lock:
            chunk = self._chunks.pop(low)
            self._lows.remove(low)
            chunk.content[:] = _FREED
            self._freed.append(chunk)

    def device_of(self, address: int) -> int | None:
        chunk = self._chunk_at(address)
        return None if chunk is None else chunk.device

    def allocated(self, device: int) -> int:
        return sum(chunk.content.size for chunk in list(self._chunks.values()) if chunk.device == device)

    def content(self, low: int, high: int) -> NDArray[np.uint8]:
        return self._part(low, high, "content", np.uint8)

    def written(self, low: int, high: int) -> NDArray[np.bool_]:
        return self._part(low, high, "written", np.bool_)

    def _part(self, low: int, high: int, what: str, dtype: Any) -> NDArray[Any]:
        if high <= low:
            return np.empty(0, dtype)
        chunk = self._chunk(low)
        whole: NDArray[Any] = getattr(chunk, what)
        return whole[low - chunk.low : high - chunk.low]

    def forget(self, low: int, high: int) -> None:
        """Memory that was allocated: nothing in it means anything, but what touched it before may still do so."""
        self.written(low, high)[:] = False

    def poison(self, low: int, high: int) -> None:
        self.forget(low, high)
        self.content(low, high)[:] = _NEVER_WRITTEN

    def _chunk_at(self, address: int) -> Chunk | None:
        with self.lock:
            k = bisect_right(self._lows, address) - 1
            chunk = self._chunks[self._lows[k]] if k >= 0 else None
            return chunk if chunk is not None and address < chunk.low + chunk.content.size else None

    def _chunk(self, address: int) -> Chunk:
        chunk = self._chunk_at(address)
        if chunk is None:
            raise MemoryError(f"{address:#x} is in no memory of a device that is allocated")
        return chunk

    def enqueue(
        self, stream: Stream, kind: str, *, reads: Iterable[Range] = (), perhaps: Iterable[Range] = (),
        seen: Iterable[Range] = (), writes: Iterable[Range] = (), file: object = None, **told: Any,
    ) -> Op:  # fmt: skip
        """Put an operation on a stream.

        ``perhaps`` is read where it was written, and ``seen``, which are parts of it, must have been; ``file`` is what
        a decoder writes.
        """
        with self.lock:
            reads, writes = list(reads), list(writes)
            op = self.note(kind, stream, writes=writes, **told)
            clock = self._streams.setdefault(stream, {})
            joined(clock, self._host)
            clock[stream] = count = clock.get(stream, 0) + 1
            for low, high in [*reads, *seen]:
                if not self.written(low, high).all():
                    self.found(f"{op} reads what nobody wrote")
            for low, high in [*reads, *perhaps]:
                self._touch(Access(low, high, False, stream, count, op, None), clock)
            for low, high in writes:
                self._touch(Access(low, high, True, stream, count, op, file), clock)
                self.written(low, high)[:] = True
            return op

    def _touch(self, access: Access, clock: Clock) -> None:
        if access.high <= access.low:
            return
        stream = access.stream
        chunk = self._chunk(access.low)
        if access.high > chunk.low + chunk.content.size:
            self.found(f"{access.op} touches memory behind its array's end")
        kept = []
        for earlier in chunk.accesses:
            apart = earlier.high <= access.low or access.high <= earlier.low
            if not apart and earlier.op is not access.op and (access.writes or earlier.writes):
                self._check(access, earlier, clock)
            # The last writer stands for all before it, and a stream's last reader for its readers before.
            covered = access.low <= earlier.low and earlier.high <= access.high
            if not (covered and (access.writes or (earlier.stream == stream and not earlier.writes))):
                kept.append(earlier)
        chunk.accesses = [*kept, access]

    def _check(self, access: Access, earlier: Access, clock: Clock) -> None:
        by_host = self._host.get(earlier.stream, 0) >= earlier.count
        what = f"{access.op} {'writes' if access.writes else 'reads'} what {earlier.op} "
        what += "writes" if earlier.writes else "reads"
        if access.file is not None:
            # The same file into the same place again, after a failure, does no harm.
            if not by_host and access.file is not earlier.file:
                self.found(f"{what}: the host did not wait for that")
        elif not by_host and clock.get(earlier.stream, 0) < earlier.count:
            self.found(f"{what}: nothing puts them in order")

    def when_done(self, stream: Stream, action: Callable[[], None]) -> None:
        """Do something of the host's memory when the host knows that all on a stream is done, which is the latest."""
        with self.lock:
            self._late.append((stream, self._streams[stream][stream], action))

    def record(self, stream: Stream) -> tuple[Op, Clock]:
        with self.lock:
            clock = self._streams.setdefault(stream, {})
            joined(clock, self._host)
            return self.note("record", stream), dict(clock)

    def stream_waits(self, stream: Stream, recorded: Op | None, clock: Clock) -> None:
        with self.lock:
            self.note("stream wait", stream, recorded=recorded)
            joined(self._streams.setdefault(stream, {}), clock)

    def host_waits(self, name: str, clock: Clock, recorded: Op | None = None) -> None:
        """The host waits for an event, a stream or a device; ``pending`` are streams it had to wait for."""
        with self.lock:
            pending = {stream for stream, count in clock.items() if self._host.get(stream, 0) < count}
            self.note("host wait", name=name, recorded=recorded, pending=pending)
            self.host_knows(clock)

    def host_knows(self, clock: Clock) -> None:
        """Let the host know that all of a clock is done."""
        joined(self._host, clock)
        late, self._late = self._late, []
        for stream, count, action in late:
            if self._host.get(stream, 0) >= count:
                action()
            else:
                self._late.append((stream, count, action))

    def clock_of(self, streams: Iterable[Stream] | None = None, device: int | None = None) -> Clock:
        """Return all operations on some streams, or on those of a device."""
        with self.lock:
            chosen = [s for s in self._streams if s[0] == device] if streams is None else list(streams)
            clock: Clock = {}
            for stream in chosen:
                joined(clock, self._streams.get(stream, {}))
            return clock

    def is_done(self, clock: Clock) -> bool:
        """Return True if the host knows that all of a clock is done; nothing else is certain on a late device."""
        with self.lock:
            if self.fast:
                self.host_knows(clock)
            return all(self._host.get(stream, 0) >= count for stream, count in clock.items())
