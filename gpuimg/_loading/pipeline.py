"""The stages between a source and its consumer: readers, then batches that are recorded, decoded and run.

Reading goes ahead sample by sample in the order of the epoch, whatever becomes of the samples. A batch is formed by one
thread at a time from what was read, and made beside the others. Where bad samples are skipped, which samples a batch
holds depends on those before it having been decoded: such batches are made one after another.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._batch.batch import Batch, recording_of
from .._batch.encoded import open_images
from .._batch.recording import Recording
from .._batch.result_spec import CLIP_LAYOUTS
from .._checks.types import Array, Ints, Mask
from .._data.images import Encoded, EncodedImages
from .._index.seek import Seek
from .._index.seek_index import SeekIndex
from .._io.native_read import FIRST_ROOM, ChunkReader, prepare
from .._random.rng import Rng
from .._runtimes.protocol import ResultMemory, Runtime
from .._threads.turn import Turn
from ..errors import DecodeError, Failure
from .prefetch import Prefetcher, Stopped
from .samples import Sample, SampleNames, collate, label_examples, name_videos, read_samples, renew
from .settings import Settings, is_remote
from .sharding import Position, Share, shuffled
from .waits import Watch
from .worker_split import Deal, Epoch

# Samples read by one job, of a batch that has them: enough to make the hand-over between threads cheap, few enough to
# be spread over all threads and not to keep each other's memory for long.
_LEAST_CHUNK, _MOST_CHUNK = 8, 32
# Behind URLs by their bytes: a few requests of some MiB outdo many small ones.
_REMOTE_BYTES = 4 << 20
_LEAST_REMOTE, _MOST_REMOTE = 4, 128


class LoadedBatch(NamedTuple):
    """One batch of a loader.

    Attributes
    ----------
    images : array or Batch
        (N, H, W, C) or (N, C, H, W), CuPy on a GPU and NumPy on the CPU, ready for the consumer's stream. A
        :class:`gpuimg.Batch` without ``preprocess``, or where the images differ in size; type checkers take it for
        an array, and learn better from ``isinstance(batch.images, gpuimg.Batch)``. Of clips as the layout says.
        Of several views of each sample, as ``preprocess`` makes them with :meth:`Batch.take`, the first of all samples
        come first, then the second, and so on; ``labels``, ``indices`` and ``valid`` are those of the samples.
    labels : array or list
        int64 for whole numbers, float64 for other numbers, stacked arrays for arrays of one shape, a list for
        everything else; None if no sample has one. The label of a sample that could not be read is -1, NaN, zeros or
        None. Where no sample of a batch could be read, the type is that of the batches before, or, before any, that of
        up to eight samples spread over the source; None where these cannot be read either.
    indices : (N,) int64
        The samples' indices in the source.
    valid : (N,) bool
        False for what is not to be counted: images that are black for want of pixels under ``on_error="fill"``, and
        samples that come a second time to give every rank the same number.
    """

    images: Array  # which a Batch is not: users whose images are none ask with isinstance
    labels: NDArray[Any] | Any  # whatever the source has, and arrays of what NumPy has types for
    indices: Ints
    valid: Mask


class Opened(NamedTuple):
    """Samples whose headers were read."""

    samples: list[Sample]
    images: Encoded


class Chunk(NamedTuple):
    """Samples that one job read."""

    samples: list[Sample]
    seconds: float  # of reading,
    held: float  # and of waiting for Python's lock or for a core


class Entries(NamedTuple):
    """What became of a batch's entries of a seek index."""

    used: int
    misfits: dict[str, str]  # why, by the samples' names


class Made(NamedTuple):
    """One batch, and what became known with it."""

    batch: LoadedBatch
    epoch: int
    position: Position  # after it
    failures: list[Failure]
    runtime: Runtime
    event: Any  # after the work on it
    seconds: dict[str, float]
    held: float  # of recording: waits for Python's lock or a core
    entries: Entries | None
    unwritten: int  # images that a decoder of a GPU did not write
    clips_on_cpu: int  # clips that a GPU does not decode


class Pipeline:
    """The threads of one pass over the data, from a position to the end of an epoch."""

    def __init__(
        self, settings: Settings, memory: Sequence[ResultMemory], position: Position, last_epoch: int | None
    ) -> None:
        self._settings = settings
        self._memory = memory
        self._start = position, last_epoch
        self._deal = Deal(settings, position, last_epoch)
        self._read: deque[Sample] = deque()
        self._lock = threading.Lock()
        self._stopped = False
        self._turn = Turn()
        self._labels: list[Any] | None = None  # of the last batch that has any
        self._reader: Prefetcher[Chunk] | None = None
        self._bytes = _REMOTE_BYTES // _MOST_CHUNK  # of a sample, as those read last had it
        chunk = min(max(2 * settings.batch_size // settings.readers, _LEAST_CHUNK), _MOST_CHUNK)
        self._chunk = min(chunk, settings.batch_size)
        self._room = FIRST_ROOM  # for the files of a chunk, as those read last had it
        self.read_seconds = self.read_held = 0.0  # of chunks that were used
        self.read_waited = 0.0  # of readers that are gone
        _keep_freed_memory()
        prepare()
        devices = len(settings.runtimes)
        self.batches = Prefetcher(self._jobs(), settings.prefetch * devices, settings.decoders * devices, "decode")

    # -- reading -----------------------------------------------------------------------------------------------

    def _reading(self, epochs: Iterator[Epoch]) -> Iterator[Callable[[], Chunk]]:
        """Jobs that read: all samples of some epochs, or those of one and then its padding for ever."""
        settings, chunk, remote = self._settings, self._chunk, is_remote(self._settings.source)
        for epoch in epochs:
            read = partial(self._read_samples, settings.share(epoch.position.levels), epoch.position.epoch)
            for start, stop in self._deal.spans(epoch):
                at = start
                while at < stop:
                    end = min(at + (self._remote_chunk() if remote else chunk), stop)
                    yield partial(read, at, end)
                    at = end
            if settings.on_error == "skip":
                for at in count(epoch.position.taken + epoch.left, chunk):
                    yield partial(read, at, at + chunk)

    def _remote_chunk(self) -> int:
        """Samples of a job where those that lie side by side are one request."""
        return min(max(_REMOTE_BYTES // max(self._bytes, 1), _LEAST_REMOTE), _MOST_REMOTE)

    def _read_samples(self, share: Share, epoch: int, start: int, stop: int) -> Chunk:
        settings = self._settings
        begin, cpu = time.perf_counter(), time.thread_time()
        places, real = share.places(start, stop)
        indices = shuffled(places, share.n, settings.seed, epoch) if settings.shuffle else places
        if settings.videos is not None:
            samples = name_videos(
                settings.source, indices.tolist(), real.tolist(), settings.columns, settings.options.max_bytes
            )
            return Chunk(samples, time.perf_counter() - begin, 0.0)
        reader = ChunkReader(self._room, settings.options.max_bytes)
        samples = read_samples(settings.source, indices.tolist(), real.tolist(), settings.columns, reader)
        if isinstance(settings.index, SeekIndex):
            entries = settings.index.read(indices, reader)
            for sample, address, size in zip(samples, entries.addresses.tolist(), entries.sizes.tolist(), strict=True):
                sample.entry, sample.memory = (address, size), entries.memory
        self._room = reader.room
        if is_remote(settings.source):
            self._bytes = sum(len(sample.data) for sample in samples) // len(samples)
        seconds = time.perf_counter() - begin
        worked = reader.seconds + (time.thread_time() - cpu) - reader.cpu
        return Chunk(samples, min(worked, seconds), max(seconds - worked, 0.0))

    def _start_reading(self, epochs: Iterator[Epoch]) -> None:
        settings = self._settings
        self._stop_reading()
        self._read.clear()
        chunks = max(-(-2 * settings.batch_size // self._chunk), settings.readers) + 1
        reader = Prefetcher(self._reading(epochs), chunks, settings.readers, "read", spare=True)
        with self._lock:
            self._reader = reader
            stopped = self._stopped
        if stopped:
            self._stop_reading()
            raise Stopped

    def _stop_reading(self) -> None:
        with self._lock:
            reader, self._reader = self._reader, None
        if reader is not None:
            reader.signal()
            reader.join()
            self.read_waited += reader.waited

    def _next_sample(self) -> Sample:
        if not self._read:
            reader = self._reader
            if reader is None:
                raise Stopped
            chunk = reader.get()
            self._read.extend(chunk.samples)
            self.read_seconds += chunk.seconds
            self.read_held += chunk.held
        return self._read.popleft()

    # -- batches -----------------------------------------------------------------------------------------------

    def _jobs(self) -> Iterator[Callable[[], Made]]:
        """Jobs that make batches; drawn by one thread at a time."""
        if self._settings.on_error == "skip":
            yield from self._refilling()
            return
        self._start_reading(self._deal.epochs())
        numbers = count()
        for epoch in self._deal.epochs():
            for batch in self._deal.own(epoch):
                samples = [self._next_sample() for _ in range(self._deal.size(epoch, batch))]
                yield partial(self._make, next(numbers), samples, epoch.position.epoch, self._deal.after(epoch, batch))
                del samples

    def _refilling(self) -> Iterator[Callable[[], Made]]:
        """As :meth:`_jobs`, where samples that are skipped make room for those behind them."""
        numbers = count()
        for epoch in self._deal.epochs():
            self._start_reading(iter([epoch]))
            position = epoch.position
            for batch in self._deal.own(epoch):
                made = self._refilled(next(numbers), self._deal.size(epoch, batch), position)
                position = made.position
                if self._settings.workers > 1:  # whose places are no single range
                    made = made._replace(position=self._deal.after(epoch, batch))
                yield partial(_same, made)
                del made

    def _make(self, number: int, samples: list[Sample], epoch: int, after: Position) -> Made:
        """A batch of these samples and no others."""
        raises = self._settings.on_error == "raise"
        while True:
            with self._turn:
                opened = self._open(samples, epoch)
                if self._renewed(opened):
                    continue
                if raises:
                    _raise(opened)
                made = self._run(number, opened, epoch, after)
            if not self._renewed(opened):
                break
        if raises:
            _raise(opened)
        return made

    def _refilled(self, number: int, size: int, position: Position) -> Made:
        """A batch of the next good samples."""
        good: list[Sample] = []
        failures: list[Failure] = []
        taken = position.taken
        while True:
            while len(good) < size:
                good.append(self._next_sample())
                taken += 1
            opened = self._open(good, position.epoch)
            if not opened.images.failures:
                after = replace(position, taken=taken, given=position.given + size)
                made = self._run(number, opened, position.epoch, after)
                if not opened.images.failures:
                    return made._replace(failures=failures)
            if self._renewed(opened):
                continue
            failures += _failures(opened)
            good = [sample for k, sample in enumerate(good) if k not in opened.images.failures]
            if not good and taken - position.taken > self._settings.samples + size:
                raise DecodeError(tuple(failures), len(failures))  # there is no good sample at all

    def _renewed(self, opened: Opened) -> bool:
        """Whether failed samples have other bytes now that they were read again, see :func:`renew`."""
        settings, failed = self._settings, [opened.samples[k] for k in opened.images.failures]
        return sum(renew(sample, settings.columns, settings.options.max_bytes) for sample in failed) > 0

    def _open(self, samples: list[Sample], epoch: int) -> Opened:
        settings = self._settings
        data, names = [sample.data for sample in samples], SampleNames(samples)
        images: Encoded
        if settings.videos is not None:
            rng = Rng(settings.seed, epoch=epoch, indices=[sample.index for sample in samples])
            images = settings.videos.open(data, names, rng, settings.options)
        else:
            images = open_images(data, settings.options, "fill", names)
            images = replace(images, seek=self._seek(samples, images))
        images.record_failures({k: sample.reason for k, sample in enumerate(samples) if sample.error is not None})
        return Opened(samples, images)

    def _known_labels(self, samples: list[Sample]) -> list[Any]:
        """Labels that show the type of these samples' labels: their own, or where none could be read, others."""
        known = [sample.label for sample in samples if sample.error is None or sample.label is not None]
        if known:
            self._labels = known
        elif self._labels is None:
            self._labels = label_examples(self._settings.source, self._settings.columns)
        return self._labels or []

    def _seek(self, samples: list[Sample], images: EncodedImages) -> Seek | None:
        """Entries of a seek index for the samples."""
        index = self._settings.index
        if isinstance(index, SeekIndex):
            addresses, sizes = np.array([sample.entry for sample in samples], np.int64).T
            memory = [sample.memory for sample in samples]
            return Seek.of(addresses, sizes, memory, index.every, index.path, warns=False)
        if index is not None:
            return index.seek(np.array([sample.index for sample in samples], np.int64), images.headers)
        return None

    def _run(self, number: int, opened: Opened, epoch: int, after: Position) -> Made:
        settings = self._settings
        samples, files = opened
        which = number % len(settings.runtimes)
        runtime = settings.runtimes[which]
        indices = np.array([sample.index for sample in samples], np.int64)
        missing = [sample.error is not None for sample in samples]
        labels: Any = collate([sample.label for sample in samples], missing, self._known_labels(samples))
        with runtime.private_stream(settings.decoders * len(settings.runtimes)):
            source = Batch(Recording(runtime, files))
            images: Any = source
            with Watch(len(samples)) as watch:
                if settings.preprocess is not None:
                    rng = Rng(settings.seed, epoch=epoch, indices=indices)
                    images, labels = settings.preprocess(images, rng, labels)
            if images.frames != files.frames or not len(images) or recording_of(images).units % len(samples):
                raise ValueError(
                    f"preprocess was given {recording_of(source).shown} and returned {recording_of(images).shown}"
                )
            if (settings.preprocess is None and settings.layout not in CLIP_LAYOUTS) or not images.is_uniform:
                images = images.compute(settings.dtype, CLIP_LAYOUTS.get(settings.layout, settings.layout))
            else:
                images = images._array_in(self._memory[which].take, settings.dtype, settings.layout)
            event = runtime.record_event()
        bad = np.array([k in files.failures for k in range(len(samples))])
        valid = np.array([sample.real for sample in samples]) & ~bad
        timings = recording_of(source).timings
        seconds = {"record": watch.seconds, "decode": timings.decode, "kernels": timings.kernels}
        batch = LoadedBatch(images, labels, indices, valid)
        return Made(
            batch, epoch, after, _failures(opened), runtime, event, seconds, watch.held, _entries(files),
            timings.unwritten, timings.clips_on_cpu,
        )  # fmt: skip

    # -- ending ------------------------------------------------------------------------------------------------

    def reading(self) -> tuple[float, float, float]:
        """Seconds that readers read, that they were held up, and that forming batches waited for them."""
        reader = self._reader
        return self.read_seconds, self.read_held, self.read_waited + (reader.waited if reader is not None else 0.0)

    def stop(self) -> None:
        """End all threads."""
        with self._lock:
            self._stopped = True
        self.batches.signal()
        self._stop_reading()
        self.batches.join()


@cache
def _keep_freed_memory() -> None:
    """Once: let the allocator keep the memory of one batch's files for those of the next.

    glibc gives it back to the system when a batch is dropped, and each file then faults it in again: 4 % of the time of
    an image. It keeps up to twice the largest block it has seen freed, of those below 32 MiB; other allocators are
    not affected.
    """
    np.empty((32 << 20) - (64 << 10), np.uint8)  # freed at once; no page of it is touched


def _same(made: Made) -> Made:
    return made


def _entries(images: Encoded) -> Entries | None:
    seek = images.seek
    return None if seek is None else Entries(seek.used, {images.names[k]: why for k, why in seek.misfits().items()})


def _failures(opened: Opened) -> list[Failure]:
    """Failures by index in the source; padding would name a sample twice."""
    found = sorted(opened.images.failures.items())
    return [f._replace(index=opened.samples[k].index) for k, f in found if opened.samples[k].real]


def _raise(opened: Opened) -> None:
    failures = _failures(opened)
    if failures:
        errors = [sample.error for sample in opened.samples if sample.error is not None]
        raise DecodeError(tuple(failures), len(opened.samples)) from (errors[0] if errors else None)
