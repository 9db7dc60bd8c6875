"""Reading ahead of a loop: which samples are read together, in which order, and the samples of each batch."""

import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks.types import Ints, Mask
from .._io.native_read import FIRST_ROOM, ChunkReader
from ..errors import DecodeError, Failure
from ..sources._table import is_remote, retries_of
from .batches import Batches
from .order import Blocks, neighbors
from .prefetch import Prefetcher, Stopped
from .samples import Sample, name_videos, read_samples
from .settings import Reading, Schedule
from .sharding import Position, Share

# Samples per read job: enough to amortize the switch between threads, few enough to occupy all threads and to
# release memory early, as the samples of a job share a buffer.
_LEAST_CHUNK, _MOST_CHUNK = 8, 32
# For URLs the size of a job is in bytes: each request waits for an answer.
_REMOTE_BYTES = 4 << 20
_LEAST_REMOTE, _MOST_REMOTE = 4, 128


class ReadChunk(NamedTuple):
    """Samples that one read job returned."""

    samples: list[Sample]
    seconds: float  # of reading
    held: float  # seconds of waiting for the GIL or a core
    part: "BufferPart | None" = None
    after: Position = Position()  # for a stream, whose chunks are batches
    ends: bool = True  # its batch, if that is listed


class BufferPart(NamedTuple):
    """Part of the samples of a buffer, read together as they are neighbors in the source."""

    places: Ints  # in the rank's share
    indices: Ints
    real: Mask
    copies: NDArray[np.uint64] | None
    last: bool  # of its buffer


@dataclass
class DrawnBatch:
    """Samples of a batch, and the position after it; under "skip" other samples take the places of those that fail."""

    samples: list[Sample]
    after: Position
    failures: list[Failure] = field(default_factory=list)  # of samples that were replaced
    replaced: int = 0  # number of them, with padding
    given_up: set[int] = field(default_factory=set)  # positions of files that a GPU's kernels did not decode


class Reader:
    """Threads of one loop that read samples, from a position to the end of epoch ``last_epoch - 1``."""

    def __init__(self, reading: Reading, schedule: Schedule, position: Position, last_epoch: int | None) -> None:
        self.reading, self.schedule = reading, schedule
        self._start = position, last_epoch
        self._position = position  # after the samples that were drawn
        self._read: deque[Sample] = deque()
        self._lock = threading.Lock()
        self._stopped = False
        self._chunks: Prefetcher[ReadChunk] | None = None
        self._seconds = self._held = 0.0  # of chunks that were used
        self._retries = retries_of(reading.source)
        self._before = (0, 0.0) if self._retries is None else (self._retries.count, self._retries.waited)
        self._waited = 0.0  # seconds that batches waited for threads that have ended
        self._bytes = _REMOTE_BYTES // _MOST_CHUNK  # mean size of a sample in the chunk read last
        self._room = FIRST_ROOM  # bytes for the files of a chunk, from the chunk read last
        self._chunk = self._chunk_of(schedule.batch_size)
        self.are_listed = isinstance(schedule.order, Batches)
        shuffle = schedule.order.shuffle
        self._buffer = 0  # samples that are read together, in the order of the source
        if isinstance(shuffle, Blocks):
            self._buffer, self._chunk = shuffle.run, max(shuffle.samples, _MOST_CHUNK)

    def _chunk_of(self, batch: int) -> int:
        """Return the samples of a read job, for batches of this many."""
        return min(max(2 * batch // self.reading.readers, _LEAST_CHUNK), _MOST_CHUNK, batch)

    def batches(self) -> Iterator[DrawnBatch]:
        """Draw the batches of the loop; under "skip" the next one only after the one before was computed."""
        skips, most = self.reading.on_error == "skip", self.schedule.batch_size
        if not skips:
            self._read_epochs(self.schedule.epochs_from(*self._start))
        for start, left in self.schedule.epochs_from(*self._start):
            if skips:  # reads on past the samples of the epoch, for those that are left out
                self._read_epochs([(start, left)])
            self._position = start
            for at in range(0, left, most):
                size = min(most, left - at)
                self._position = replace(self._position, given=self._position.given + size)
                yield DrawnBatch(self._drawn(size), self._position)

    def replace_failed(self, batch: DrawnBatch, failed: Container[int]) -> None:
        """Draw the next samples in place of some of a batch, unless no sample at all is good."""
        good = [sample for k, sample in enumerate(batch.samples) if k not in failed]
        if not good and batch.replaced > self.schedule.order.choices:
            raise DecodeError(tuple(batch.failures), len(batch.failures))
        bad = len(batch.samples) - len(good)
        batch.samples, batch.replaced, batch.given_up = good + self._drawn(bad), batch.replaced + bad, set()
        batch.after = self._position

    def _drawn(self, places: int) -> list[Sample]:
        """Return the samples at the next places."""
        self._position = replace(self._position, taken=self._position.taken + places)
        if self.are_listed:
            parts = [self._next_chunk()]
            while not parts[-1].ends:
                parts.append(self._next_chunk())
            return [sample for part in parts for sample in part.samples]
        while len(self._read) < places:
            chunk = self._next_chunk()
            self._read.extend(chunk.samples if chunk.part is None else self._mixed(chunk))
        return [self._read.popleft() for _ in range(places)]

    def _next_chunk(self) -> ReadChunk:
        chunks = self._chunks
        if chunks is None:
            raise Stopped
        chunk = chunks.get()
        self._seconds += chunk.seconds
        self._held += chunk.held
        return chunk

    def _mixed(self, chunk: ReadChunk) -> list[Sample]:
        """Return all samples of a buffer in the order of the epoch; ``chunk`` is its first part."""
        found: dict[int, Sample] = {}
        while chunk.part is not None:
            found.update(zip(chunk.part.places.tolist(), chunk.samples, strict=True))
            if chunk.part.last:
                break
            chunk = self._next_chunk()
        return [found[place] for place in sorted(found)]

    # -- threads -----------------------------------------------------------------------------------------------

    def _read_epochs(self, epochs: Iterable[tuple[Position, int]]) -> None:
        self._end()
        self._read.clear()
        # Batches begin when a whole buffer was read; the next one is read meanwhile.
        samples, readers = self._buffer or 2 * self.schedule.batch_size, self.reading.readers
        chunks = 2 * readers if self.are_listed else max(-(-samples // self._chunk), readers)
        self._begin(Prefetcher(self._jobs(epochs), chunks + 1, readers, "read", spare=True))

    def _begin(self, chunks: Prefetcher[ReadChunk]) -> None:
        with self._lock:
            if self._stopped:
                raise Stopped
            self._chunks = chunks
            chunks.start()

    def _end(self) -> None:
        chunks = self._chunks
        if chunks is None:
            return
        chunks.signal()
        chunks.join()
        with self._lock:
            if self._chunks is chunks:  # else another thread ended it, too
                self._chunks = None
                self._waited += chunks.waited

    def stop(self) -> None:
        """End all threads."""
        with self._lock:
            self._stopped = True
        self._end()

    def retries(self) -> dict[str, dict[str, float]]:
        """Return the repeated requests of the loop, and the seconds that threads waited for them, if there were any."""
        if self._retries is None or self._retries.count == self._before[0]:
            return {}
        count, waited = self._before
        return {"retries": {"count": self._retries.count - count, "waited": self._retries.waited - waited}}

    def times(self) -> dict[str, float]:
        """Return the seconds of reading, of waits for the GIL or a core in it, and of batches waiting for it."""
        chunks = self._chunks
        waited = self._waited + (0.0 if chunks is None else chunks.waited)
        return {"seconds": self._seconds, "held": self._held, "waited": waited}

    # -- jobs --------------------------------------------------------------------------------------------------

    def _jobs(self, epochs: Iterable[tuple[Position, int]]) -> Iterator[Callable[[], ReadChunk]]:
        """Yield jobs that read all samples of some epochs, see :meth:`Schedule.epochs_from`; any thread runs them."""
        run, most = self._buffer, self._chunk
        for position, left in epochs:
            share, epoch = self.schedule.share(position.epoch, position.levels), position.epoch
            for start, stop in self._spans(position.taken, left):
                at = start
                while at < stop:
                    if self.are_listed:
                        end = at + 1
                        yield from self._parts_of_batch(share, epoch, at)
                    elif run:
                        end = min(share.end_of_run(at), stop)
                        for part in self._parts(share, epoch, at, end):
                            yield partial(self._read_at, part.indices, part.real, part.copies, part)
                    else:
                        if is_remote(self.reading.source):
                            # By size, as neighboring samples share a request.
                            most = min(max(_REMOTE_BYTES // max(self._bytes, 1), _LEAST_REMOTE), _MOST_REMOTE)
                        whole = most - self.schedule.order.run  # runs of neighbors are not divided if they fit
                        end = min(at + most if whole < 0 else share.end_of_run(at + whole), stop)
                        yield partial(self._read_places, share, epoch, at, end)
                    at = end

    def _spans(self, start: int, left: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of the rank's share that are read; under "skip" also endless padding of the one epoch."""
        yield start, start + left
        if self.reading.on_error == "skip":
            for at in count(start + left, self._chunk):
                yield at, at + self._chunk

    def _chosen(self, share: Share, epoch: int, start: int, stop: int) -> tuple[Ints, Mask, NDArray[np.uint64] | None]:
        """Return the samples at some places, False for padding, and the number of each copy."""
        places, real = share.places(start, stop)
        indices, copies = self.schedule.order.at(places, self.schedule.seed, epoch)
        return indices, np.broadcast_to(real, len(indices)), copies  # a place of listed batches has several samples

    def _parts(self, share: Share, epoch: int, start: int, stop: int) -> Iterator[BufferPart]:
        """Yield the samples of a buffer in the order of the source, in parts."""
        indices, real, copies = self._chosen(share, epoch, start, stop)
        left = stop - start
        for part in neighbors(indices, self._chunk):
            left -= len(part)
            numbers = None if copies is None else copies[part]
            yield BufferPart(start + part, indices[part], real[part], numbers, last=not left)

    def _parts_of_batch(self, share: Share, epoch: int, at: int) -> Iterator[Callable[[], ReadChunk]]:
        """Yield jobs that read a listed batch."""
        indices, real, copies = self._chosen(share, epoch, at, at + 1)
        most = self._chunk_of(len(indices))
        for k in range(0, len(indices), most):
            some = slice(k, k + most)
            numbers = None if copies is None else copies[some]
            yield partial(self._read_at, indices[some], real[some], numbers, ends=k + most >= len(indices))

    def _read_places(self, share: Share, epoch: int, start: int, stop: int) -> ReadChunk:
        return self._read_at(*self._chosen(share, epoch, start, stop))

    def _read_at(
        self, indices: Ints, real: Mask, copies: NDArray[np.uint64] | None, part: BufferPart | None = None,
        ends: bool = True,
    ) -> ReadChunk:  # fmt: skip
        reading, chosen = self.reading, (indices.tolist(), real.tolist())
        begin, cpu = time.perf_counter(), time.thread_time()
        if reading.videos is not None:
            samples = name_videos(reading.source, *chosen, reading.columns, reading.decode.max_bytes)
            worked = seconds = time.perf_counter() - begin
        else:
            reader = ChunkReader(self._room, reading.decode.max_bytes)
            samples = self._read_or_cached(*chosen, reader)
            self._room = reader.room
            if is_remote(reading.source):
                self._bytes = sum(len(sample.data) for sample in samples) // len(samples)
            seconds = time.perf_counter() - begin
            worked = reader.seconds + (time.thread_time() - cpu) - reader.cpu
        for sample, copy in zip(samples, [] if copies is None else copies.tolist(), strict=False):
            sample.copy = copy
        return ReadChunk(samples, min(worked, seconds), max(seconds - worked, 0.0), part, ends=ends)

    def _read_or_cached(self, indices: list[int], reals: list[bool], reader: ChunkReader) -> list[Sample]:
        source, columns, cache = self.reading.source, self.reading.columns, self.reading.cache
        if cache is None:
            return read_samples(source, indices, reals, columns, reader)
        heads = [cache.head(index) for index in indices]
        left = [k for k, head in enumerate(heads) if head is None]
        read = iter(read_samples(source, [indices[k] for k in left], [reals[k] for k in left], columns, reader))
        return [
            next(read)
            if head is None
            else Sample(source, index, real, path=head.path, label=head.label, place=head.place)
            for index, real, head in zip(indices, reals, heads, strict=True)
        ]
