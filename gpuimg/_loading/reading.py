"""Read jobs of a loader: which samples are read together, and in which order."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks.types import Ints, Mask
from .._io.native_read import FIRST_ROOM, ChunkReader
from ..sources._table import is_remote
from .batches import Batches, Lists
from .order import Blocks, Order, neighbors
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


class BufferPart(NamedTuple):
    """Part of the samples of a buffer, read together as they are neighbors in the source."""

    places: Ints  # in the rank's share
    indices: Ints
    real: Mask
    copies: NDArray[np.uint64] | None
    last: bool  # of its buffer


class ReadJobs:
    """Read jobs of one loop; any thread runs them."""

    def __init__(self, reading: Reading, schedule: Schedule) -> None:
        self._reading, self._schedule = reading, schedule
        self._bytes = _REMOTE_BYTES // _MOST_CHUNK  # mean size of a sample in the chunk read last
        self._room = FIRST_ROOM  # bytes for the files of a chunk, from the chunk read last
        chunk = min(max(2 * schedule.batch_size // reading.readers, _LEAST_CHUNK), _MOST_CHUNK)
        self._chunk = min(chunk, schedule.batch_size)
        shuffle = schedule.order.shuffle
        self._buffer = 0  # samples that are read together, in the order of the source
        if isinstance(shuffle, Blocks):
            self._buffer, self._chunk = shuffle.run, max(shuffle.samples, _MOST_CHUNK)

    @property
    def ahead(self) -> int:
        """Number of jobs whose results are ready or in progress."""
        # Batches begin when a whole buffer was read; the next one is read meanwhile.
        samples = self._buffer or 2 * self._schedule.batch_size
        return max(-(-samples // self._chunk), self._reading.readers) + 1

    def of(self, epochs: Iterator[tuple[Position, int]]) -> Iterator[Callable[[], ReadChunk]]:
        """Yield the jobs of all samples of some epochs, see :meth:`Schedule.epochs_from`."""
        remote, run, order = is_remote(self._reading.source), self._buffer, self._schedule.order
        for position, left in epochs:
            share, epoch = self._schedule.share(position.epoch, position.levels), position.epoch
            for start, stop in self._spans(position.taken, left):
                at = start
                while at < stop:
                    if isinstance(order, Batches):
                        end = at + 1
                        yield partial(self._read_batch, order.of(epoch), share, at)
                    elif run:
                        end = min(at // run * run + run, stop)
                        for part in self._parts(order, share, epoch, at, end):
                            yield partial(self._read_at, part.indices, part.real, part.copies, part)
                    else:
                        # For URLs by size, as neighboring samples share a request.
                        most = min(max(_REMOTE_BYTES // max(self._bytes, 1), _LEAST_REMOTE), _MOST_REMOTE)
                        end = min(at + (most if remote else self._chunk), stop)
                        yield partial(self._read_samples, order, share, epoch, at, end)
                    at = end

    def _spans(self, start: int, left: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of the rank's share that are read; under "skip" also endless padding of the one epoch."""
        yield start, start + left
        if self._reading.on_error == "skip":
            for at in count(start + left, self._chunk):
                yield at, at + self._chunk

    def _parts(self, order: Order, share: Share, epoch: int, start: int, stop: int) -> Iterator[BufferPart]:
        """Yield the samples of a buffer in the order of the source, in parts."""
        places, real = share.places(start, stop)
        indices, copies = order.at(places, self._schedule.seed, epoch)
        left = stop - start
        for part in neighbors(indices, self._chunk):
            left -= len(part)
            numbers = None if copies is None else copies[part]
            yield BufferPart(start + part, indices[part], real[part], numbers, last=not left)

    def _read_batch(self, lists: Lists, share: Share, number: int) -> ReadChunk:
        places, real = share.places(number, number + 1)
        span = slice(*lists.offsets[int(places[0]) :][:2].tolist())
        indices, copies = lists.indices[span], lists.copies
        return self._read_at(indices, np.repeat(real, len(indices)), None if copies is None else copies[span])

    def _read_samples(self, order: Order, share: Share, epoch: int, start: int, stop: int) -> ReadChunk:
        places, real = share.places(start, stop)
        indices, copies = order.at(places, self._schedule.seed, epoch)
        return self._read_at(indices, real, copies)

    def _read_at(
        self, indices: Ints, real: Mask, copies: NDArray[np.uint64] | None, part: BufferPart | None = None
    ) -> ReadChunk:
        reading, chosen = self._reading, (indices.tolist(), real.tolist())
        begin, cpu = time.perf_counter(), time.thread_time()
        if reading.videos is not None:
            samples = name_videos(reading.source, *chosen, reading.columns, reading.decode.max_bytes)
            return ReadChunk(_numbered(samples, copies), time.perf_counter() - begin, 0.0, part)
        reader = ChunkReader(self._room, reading.decode.max_bytes)
        samples = self._read_or_cached(*chosen, reader)
        self._room = reader.room
        if is_remote(reading.source):
            self._bytes = sum(len(sample.data) for sample in samples) // len(samples)
        seconds = time.perf_counter() - begin
        worked = reader.seconds + (time.thread_time() - cpu) - reader.cpu
        return ReadChunk(_numbered(samples, copies), min(worked, seconds), max(seconds - worked, 0.0), part)

    def _read_or_cached(self, indices: list[int], reals: list[bool], reader: ChunkReader) -> list[Sample]:
        source, columns, cache = self._reading.source, self._reading.columns, self._reading.cache
        if cache is None:
            return read_samples(source, indices, reals, columns, reader)
        heads = [cache.head(index) for index in indices]
        left = [k for k, head in enumerate(heads) if head is None]
        read = iter(read_samples(source, [indices[k] for k in left], [reals[k] for k in left], columns, reader))
        return [
            next(read) if head is None else Sample(source, index, real, label=head[1], place=head[0])
            for index, real, head in zip(indices, reals, heads, strict=True)
        ]


def _numbered(samples: list[Sample], copies: NDArray[np.uint64] | None) -> list[Sample]:
    if copies is not None:
        for sample, copy in zip(samples, copies.tolist(), strict=True):
            sample.copy = copy
    return samples
