"""Pipeline of a loader: readers, then batches that are recorded, decoded and computed.

Readers go ahead in the order of the epoch, independently of the batches. One thread at a time forms a batch of the
samples that were read; several batches are then computed concurrently. With ``on_error="skip"`` the samples of a batch
depend on the decoding of earlier ones, so these batches are computed one after another.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._batch.batch import Batch, recording_of, views_of
from .._batch.encoded import open_images
from .._batch.recording import Recording
from .._batch.result_spec import CLIP_LAYOUTS
from .._checks.types import Array, Ints, Mask
from .._data.images import Encoded, Pixels
from .._io.native_read import prepare
from .._random.rng import Rng, rng_of_views
from .._runtimes.attempt import Attempt
from .._runtimes.protocol import ResultMemory, Runtime, Timings
from .._threads.turn import Turn, Watch
from ..errors import DecodeError, Failure, ImageError
from .batches import Batches
from .prefetch import Prefetcher, Stopped, same
from .reading import ReadChunk, ReadJobs
from .samples import Sample, SampleNames, collate, described, ease, label_examples, reread, with_own
from .settings import Reading, Result, Schedule
from .sharding import Position

__all__ = ["LoadedBatch"]

_STAND_INS = 3  # labels of other samples that are tried in place of one


class LoadedBatch(NamedTuple):
    """One batch of a loader.

    Attributes
    ----------
    images : array or Batch
        (N, H, W, C) or (N, C, H, W), CuPy on a GPU and NumPy on the CPU, ready for the consumer's stream; for clips,
        in the requested layout. A :class:`gpuimg.Batch` without ``preprocess``, or if the images differ in size; it is
        typed as an array, so narrow it with ``isinstance(batch.images, gpuimg.Batch)``. If ``preprocess`` returns
        several versions of each sample, as with :meth:`Batch.take`, the first version of all samples comes first, then
        the second, and so on; ``labels``, ``indices`` and ``valid`` have one entry per sample. If ``preprocess``
        returns a dict, or the result of :meth:`Batch.padded`, :meth:`Batch.ragged` or :meth:`Batch.tokens`, that;
        batches in a dict are computed likewise, and its other values are passed on.
    labels : array or list
        int64 for integers, float64 for other numbers, stacked arrays for arrays of one shape, a list for all other
        types; None if no sample has a label. The label of a sample that could not be read is its own, if the source
        knows it without the file; else -1, NaN or zeros, in a list None, or empty where labels are lists or arrays of
        several lengths, such as boxes. If no sample of a batch
        could be read, the type is that of earlier batches or, without any, that of up to eight samples spread over the
        source; None if these cannot be read either.
    indices : (N,) int64
        The samples' indices in the source.
    valid : (N,) bool
        False for samples to be ignored: black images in place of bad ones under ``on_error="fill"``, and samples that
        are repeated to pad all ranks to the same number.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (30, 20)).save(file, "JPEG")
    >>> source = [(file.getvalue(), label) for label in range(6)]
    >>> batch = next(iter(gpuimg.load(source, lambda x, rng: gpuimg.resize(x, (8, 8)), batch_size=2)))
    >>> batch.images.shape, batch.labels.tolist(), batch.indices.tolist()
    ((2, 8, 8, 3), [0, 1], [0, 1])
    """

    images: Array  # or a Batch, see above
    labels: NDArray[Any] | Any  # of any type, see above
    indices: Ints
    valid: Mask

    @property
    def views(self) -> list[Any]:
        """The versions of the samples that ``preprocess`` returned, an array of N images for each."""
        return views_of(self.images, len(self.indices))


class OpenedBatch(NamedTuple):
    """Samples of a batch and their images, of which only the headers were read."""

    samples: list[Sample]
    images: Encoded | Pixels  # pixels from a cache
    timings: Timings


class Drawn:
    """Samples of a batch, and the position after it; under "skip" others take the places of the bad ones."""

    def __init__(self, number: int, samples: list[Sample], epoch: int, after: Position) -> None:
        self.number, self.samples, self.epoch, self.after = number, samples, epoch, after
        self.failures: list[Failure] = []  # of samples that were replaced
        self.replaced = 0  # of them
        self.given_up = set[int]()  # positions among the samples of files that a GPU's kernels did not decode


class Unfit(Exception):  # noqa: N818 - a signal within the pipeline
    """Samples of a batch were found to be what ``preprocess`` is not possible for: open the batch again."""


class FinishedBatch(NamedTuple):
    """A computed batch with its position, failures and timings."""

    batch: LoadedBatch
    epoch: int
    position: Position  # after this batch
    failures: list[Failure]
    runtime: Runtime
    event: Any  # recorded after the work on the batch
    seconds: dict[str, float]
    held: float  # seconds that recording waited for the GIL or a core
    left: dict[str, int]  # numbers of images and clips that GPU decoders left to the CPU


class Pipeline:
    """Threads of one loop over the data, from a position to the end of epoch ``last_epoch - 1``.

    They are started by ``batches.start()``.
    """

    def __init__(
        self, reading: Reading, schedule: Schedule, result: Result, memory: Sequence[ResultMemory],
        position: Position, last_epoch: int | None,
    ) -> None:  # fmt: skip
        self._reading, self._schedule, self._result = reading, schedule, result
        self._memory = memory
        self._start = position, last_epoch
        self._read: deque[Sample] = deque()
        self._lock = threading.Lock()
        self._stopped = False
        self._turn = Turn()
        self._waits = False  # for kernels that decode, once they have failed at a file
        self._labels: list[Any] | None = None  # of the last batch that had any
        self._reader: Prefetcher[ReadChunk] | None = None
        self._read_jobs = ReadJobs(reading, schedule)
        self.read_seconds = self.read_held = 0.0  # seconds, of chunks that were used
        self.read_waited = 0.0  # seconds, of readers that have ended
        _keep_freed_memory()
        prepare()
        devices = len(result.runtimes)
        self.batches = Prefetcher(self._jobs(), result.prefetch * devices, result.decoders * devices, "decode")

    # -- reading -----------------------------------------------------------------------------------------------

    def _start_reading(self, epochs: Iterator[tuple[Position, int]]) -> None:
        self._stop_reading()
        self._read.clear()
        jobs = self._read_jobs
        self._started(Prefetcher(jobs.of(epochs), jobs.ahead, self._reading.readers, "read", spare=True))

    def _started(self, reader: Prefetcher[Any]) -> Prefetcher[Any]:
        with self._lock:
            if self._stopped:
                raise Stopped
            self._reader = reader
            reader.start()
        return reader

    def _stop_reading(self) -> None:
        reader = self._reader
        if reader is None:
            return
        reader.signal()
        reader.join()
        with self._lock:
            if self._reader is reader:  # else another thread stopped it, too
                self._reader = None
                self.read_waited += reader.waited

    def _next_samples(self, count: int) -> list[Sample]:
        while len(self._read) < count:
            chunk = self._next_chunk()
            self._read.extend(chunk.samples if chunk.part is None else self._mixed(chunk))
        return [self._read.popleft() for _ in range(count)]

    def _next_chunk(self) -> ReadChunk:
        reader = self._reader
        if reader is None:
            raise Stopped
        chunk = reader.get()
        self.read_seconds += chunk.seconds
        self.read_held += chunk.held
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

    # -- batches -----------------------------------------------------------------------------------------------

    def _jobs(self) -> Iterator[Callable[[], Attempt[FinishedBatch]]]:
        """Yield jobs that compute batches; one thread at a time advances this iterator."""
        skips, most, numbers = self._reading.on_error == "skip", self._schedule.batch_size, count()
        if not skips:
            self._start_reading(self._schedule.epochs_from(*self._start))
        for position, left in self._schedule.epochs_from(*self._start):
            if skips:  # reads on past the samples of the epoch, for those that are left out
                self._start_reading(iter([(position, left)]))
            while left:
                size = min(most, left)
                listed = isinstance(self._schedule.order, Batches)
                samples = self._next_chunk().samples if listed else self._next_samples(size)
                after = replace(position, taken=position.taken + size, given=position.given + size)
                drawn = Drawn(next(numbers), samples, position.epoch, after)
                job: Callable[[], Attempt[FinishedBatch]] = partial(self._attempt, drawn)
                if skips:  # computed here, as the next batch begins after the samples that this one took
                    attempt = self._attempt(drawn)
                    attempt.result()
                    job = partial(same, attempt)
                    del attempt
                position, left = drawn.after, left - size
                del samples, drawn
                yield job
                del job

    def _attempt(self, drawn: Drawn) -> Attempt[FinishedBatch]:
        """Compute a batch; the loader waits for its kernels, unless these failed before."""
        attempt = Attempt(partial(self._made, drawn))
        if self._waits:
            attempt.result()
        return attempt

    def _made(self, drawn: Drawn) -> FinishedBatch:
        self._waits |= bool(drawn.given_up)
        while True:
            with self._turn:
                opened = self._open(drawn)
                if self._reread_failed(opened) or self._is_refused(opened, drawn):
                    continue
                try:
                    finished = self._run(opened, drawn)
                except Unfit:
                    continue
            if not self._reread_failed(opened) and not self._is_refused(opened, drawn):
                return finished._replace(failures=drawn.failures + _failures(opened))

    def _is_refused(self, opened: OpenedBatch, drawn: Drawn) -> bool:
        """Apply ``on_error``: raise failures, or replace their samples by the next ones; return True for the latter."""
        failures, on_error = _failures(opened), self._reading.on_error
        if failures and on_error == "raise":
            errors = [sample.error for sample in opened.samples if sample.error is not None]
            raise DecodeError(tuple(failures), len(opened.samples)) from (errors[0] if errors else None)
        bad = opened.images.failures
        if on_error != "skip" or not bad:
            return False
        drawn.failures += failures
        good = [sample for k, sample in enumerate(drawn.samples) if k not in bad]
        if not good and drawn.replaced > self._schedule.order.choices:
            raise DecodeError(tuple(drawn.failures), len(drawn.failures))  # no sample at all is good
        drawn.samples = good + self._next_samples(len(bad))
        drawn.replaced, drawn.given_up = drawn.replaced + len(bad), set()
        drawn.after = replace(drawn.after, taken=drawn.after.taken + len(bad))
        return True

    def _reread_failed(self, opened: OpenedBatch) -> bool:
        """Read failed samples again; return True if any has other bytes now, see :func:`reread`."""
        failed = [opened.samples[k] for k in opened.images.failures]
        return sum(reread(sample, self._reading.columns, self._reading.decode.max_bytes) for sample in failed) > 0

    def _open(self, drawn: Drawn) -> OpenedBatch:
        reading, samples = self._reading, drawn.samples
        data, names = [sample.data for sample in samples], SampleNames(samples)
        images: Encoded
        if reading.cache is not None:
            return OpenedBatch(samples, *reading.cache.open(samples))
        if reading.videos is not None:
            images = reading.videos.open(data, names, self._rng(samples, drawn.epoch), reading.decode)
        else:
            images = open_images(data, reading.decode, "fill", names)
            images = replace(images, given_up=drawn.given_up)
        images.record_failures({k: sample.reason for k, sample in enumerate(samples) if sample.error is not None})
        return OpenedBatch(samples, images, Timings())

    def _rng(self, samples: list[Sample], epoch: int) -> Rng:
        indices = [sample.index for sample in samples]
        return rng_of_views(self._schedule.seed, epoch, indices, [sample.copy for sample in samples])

    def _known_labels(self, samples: list[Sample]) -> list[Any]:
        """Return labels that show the label type: those of these samples or, if none could be read, of others."""
        known = [sample.label for sample in samples if sample.label is not None or not sample.lacks_label]
        if known:
            self._labels = known
        elif self._labels is None:
            self._labels = label_examples(self._reading.source, self._reading.columns)
        return self._labels or []

    @property
    def cached_count(self) -> int | None:
        """Number of samples in memory; None if none are to be."""
        cache = self._reading.cache
        return None if cache is None else cache.count

    def _run(self, opened: OpenedBatch, drawn: Drawn) -> FinishedBatch:
        result, (samples, files, timings), epoch = self._result, opened, drawn.epoch
        which = drawn.number % len(result.runtimes)
        runtime = result.runtimes[which]
        indices = np.array([sample.index for sample in samples], np.int64)
        known = self._known_labels(samples)
        labels = _labels_of(samples, known)
        with runtime.private_stream(result.decoders * len(result.runtimes)):
            source = Batch(Recording.start(runtime, files, timings=timings))
            images: Any = source
            try:
                with Watch() as watch:
                    if result.preprocess is not None:
                        images, labels = result.preprocess(images, self._rng(samples, epoch), labels)
                        labels = with_own(labels, samples)
                if isinstance(images, Batch):
                    images = self._computed(images, source, which)
                elif isinstance(images, Mapping):
                    images = {
                        key: self._computed(one, source, which) if isinstance(one, Batch) else one
                        for key, one in images.items()
                    }
            except Exception as error:
                if result.preprocess is None or not self._mark_unfit(error, source, samples, epoch, known):
                    raise
                raise Unfit from None
            event = runtime.record_event()
        valid = np.array([sample.real for sample in samples])
        valid[list(files.failures)] = False
        seconds = {"record": watch.seconds, "decode": timings.decode, "kernels": timings.kernels}
        batch = LoadedBatch(images, labels, indices, valid)
        if result.place is not None:
            batch = result.place(batch)
        return FinishedBatch(
            batch, epoch, drawn.after, [], runtime, event, seconds, watch.held,
            {name: getattr(timings, name) for name in ("unwritten", "jpegs_on_cpu", "clips_on_cpu")},
        )  # fmt: skip

    def _mark_unfit(self, error: Exception, source: Batch, samples: list[Sample], epoch: int, known: list[Any]) -> bool:
        """Mark the samples that ``preprocess`` is not possible for alone either; return True if there are any.

        Its error may have a position in a part of ``source``. One that is not about an image counts only for a sample
        without the label that others have. If all pass alone, a function of several images may not be possible for
        those that it names: it is for most of the batch without them. Else it fails for what a sample without an image
        has for a label, see :func:`ease`.
        """
        failed = recording_of(source).source.failures
        good = [k for k in range(len(samples)) if k not in failed]
        others = [samples[k].label for k in good if samples[k].label is not None]
        others = others or label_examples(self._reading.source, self._reading.columns)
        others = [label for label in others if label is not None][:_STAND_INS]
        no_label = {k for k in good if samples[k].label is None} if others else set()
        reasons: dict[int, str] = {}
        for k in good if no_label or isinstance(error, (ImageError, DecodeError)) else ():
            wrong = self._error_of([k], source, samples, epoch, known)
            if isinstance(wrong, ImageError):
                reasons[k] = wrong.reason
            elif isinstance(wrong, DecodeError) and wrong.failures:  # of a file that it opened
                reasons[k] = f"{wrong.failures[0].source}: {wrong.failures[0].reason}"
            elif wrong is not None and k in no_label:
                reasons[k] = f"it has no label: {described(wrong)}"
        rows, named, left = list(range(len(samples))), dict[int, str](), None if reasons else error
        while isinstance(left, ImageError) and left.index < len(rows) and 2 * len(rows) - 2 > len(samples):
            named[rows.pop(left.index)] = left.reason
            left = self._error_of(rows, source, samples, epoch, known)
        if left is None and named.keys().isdisjoint(failed):
            reasons |= named
        for k, reason in reasons.items():
            samples[k].data, samples[k].place, samples[k].error = b"", None, ImageError(0, reason)
        if reasons or not failed:
            return bool(reasons)
        return sum(ease(samples[k], others) for k in failed) > 0

    def _error_of(
        self, rows: list[int], source: Batch, samples: list[Sample], epoch: int, known: list[Any]
    ) -> Exception | None:
        """Return the error of ``preprocess``, and of its result, for some of the samples alone."""
        some = [samples[k] for k in rows]
        try:
            images, _ = self._result.preprocess(source.take(rows), self._rng(some, epoch), _labels_of(some, known))  # type: ignore[misc]
            for one in images.values() if isinstance(images, Mapping) else [images]:
                if isinstance(one, Batch):
                    one.compute()
        except Exception as error:
            return error
        return None

    def _computed(self, images: Batch, source: Batch, which: int) -> Any:
        """Return the pixels of the result of ``preprocess`` for a batch: an array, or a batch if the sizes differ."""
        result, given = self._result, recording_of(source)
        if images.frames != source.frames or not len(images) or recording_of(images).units % given.units:
            raise ValueError(f"preprocess was given {given.shown} and returned {recording_of(images).shown}")
        if (result.preprocess is None and result.layout not in CLIP_LAYOUTS) or not images.is_uniform:
            layout: Any = CLIP_LAYOUTS.get(result.layout, result.layout)
            return images.compute(result.dtype, layout)
        return images._array_in(self._memory[which].empty_for_results, result.dtype, result.layout)

    # -- end ---------------------------------------------------------------------------------------------------

    def reading(self) -> tuple[float, float, float]:
        """Return the seconds of reading, of waits for the GIL or a core in it, and of batches waiting for readers."""
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
    """Make the allocator reuse the memory of one batch's files for the next; called once per process.

    By default glibc returns the memory to the system when a batch is freed, and each new file causes page faults
    again. glibc keeps up to twice the size of the largest block freed so far, if that was below
    32 MiB. Other allocators are not affected.
    """
    np.empty((32 << 20) - (64 << 10), np.uint8)  # freed immediately; none of its pages is touched


def _labels_of(samples: list[Sample], known: list[Any]) -> Any:
    return collate([sample.label for sample in samples], [sample.lacks_label for sample in samples], known)


def _failures(opened: OpenedBatch) -> list[Failure]:
    """Return failures by index in the source, without padding, which would repeat samples."""
    found = sorted(opened.images.failures.items())
    return [f._replace(index=opened.samples[k].index) for k, f in found if opened.samples[k].real]
