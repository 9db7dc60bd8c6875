"""Pipeline of a loader: readers, then batches that are recorded, decoded and computed.

Readers go ahead in the order of the epoch, independently of the batches. One thread at a time draws the samples of a
batch; several batches are then computed concurrently. With ``on_error="skip"`` the samples of a batch depend on the
decoding of earlier ones, so one thread computes these batches one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import count, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._batch.batch import Batch, recording_of, views_of
from .._batch.recording import Recording
from .._batch.result_spec import CLIP_LAYOUTS
from .._checks.types import Array, Ints, Mask
from .._data.images import Encoded, EncodedImages, Pixels
from .._io.native_read import prepare
from .._random.rng import Rng, rng_of_views
from .._runtimes.attempt import Attempt
from .._runtimes.protocol import ResultMemory, Runtime, Timings
from .._threads.turn import Turn, Watch
from ..errors import DecodeError, Failure, ImageError
from .opened import on_device, open_samples
from .prefetch import Prefetcher
from .reading import DrawnBatch, Reader
from .samples import Sample, SampleNames, collate, described, ease, label_examples, reasons_of, reread, with_own
from .settings import Result
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
        several lengths, such as boxes. If no sample of a batch could be read, the type is that of up to eight samples
        spread over the source or, if these cannot be read either, that of earlier batches; None without any.
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


class Unfit(Exception):  # noqa: N818 - a signal within the pipeline
    """Samples of a batch were found to be what ``preprocess`` is not possible for: open the batch again."""


class FinishedBatch(NamedTuple):
    """A computed batch with its position, failures and timings."""

    batch: LoadedBatch
    position: Position  # after this batch
    failures: list[Failure]
    runtime: Runtime
    event: Any  # recorded after the work on the batch
    record: Watch  # of ``preprocess``
    timings: Timings


class Pipeline:
    """Threads that compute the batches of one loop, started by ``batches.start()``, and those that read for them."""

    def __init__(self, reader: Reader, result: Result, memory: Sequence[ResultMemory]) -> None:
        self.reader, self.reading, self._seed = reader, reader.reading, reader.schedule.seed
        self._result, self._memory = result, memory
        self._turn = Turn()
        self._skips = self.reading.on_error == "skip"
        self._waits = False  # for kernels that decode, once they have failed at a file
        self._labels: list[Any] = []  # of the last batch that had any
        self._examples: list[Any] | None = None  # labels of the source, once they are needed
        _keep_freed_memory()
        prepare()
        devices = len(result.runtimes)
        workers = 1 if self._skips else result.decoders * devices
        self.batches = Prefetcher(self._jobs(), result.prefetch * devices, workers, "decode")

    def _jobs(self) -> Iterator[Callable[[], Attempt[FinishedBatch]]]:
        yield from map(partial, repeat(self._compute), count(), self.reader.batches())  # keeps no batch

    def _compute(self, number: int, drawn: DrawnBatch) -> Attempt[FinishedBatch]:
        """Compute a batch; the loader waits for its kernels, unless these failed before."""
        attempt = Attempt(partial(self._finished, number, drawn))
        if self._waits:
            attempt.result()
        return attempt

    def _finished(self, number: int, drawn: DrawnBatch) -> FinishedBatch:
        self._waits |= bool(drawn.given_up)
        while True:
            with self._turn:
                images, timings = self._open(drawn)
                if self._has_changed(drawn, images.failures):
                    continue
                run = partial(self._run, number, drawn, images, timings)
                try:  # samples are only replaced once the kernels have reported theirs, too
                    finished = Attempt(run).result() if self._skips else run()
                except Unfit:
                    continue
            if not self._has_changed(drawn, images.failures):
                return finished

    def _has_changed(self, drawn: DrawnBatch, failed: Mapping[int, Failure]) -> bool:
        """Apply ``on_error`` to failures; return True if samples were replaced, or have other bytes now."""
        reading, samples = self.reading, drawn.samples
        again = [reread(samples[k], reading.columns, reading.decode.max_bytes) for k in failed]
        if any(again) or not failed:
            return any(again)
        failures = _failures(samples, failed)
        if failures and reading.on_error == "raise":
            errors = [sample.error for sample in samples if sample.error is not None]
            raise DecodeError(tuple(failures), len(samples)) from (errors[0] if errors else None)
        if self._skips:
            drawn.failures += failures
            self.reader.replace_failed(drawn, failed)
        return self._skips

    def _open(self, drawn: DrawnBatch) -> tuple[Encoded | Pixels, Timings]:
        """Return the images of a batch, of which only the headers were read, or pixels from a cache."""
        reading, samples = self.reading, drawn.samples
        if reading.cache is not None:
            return reading.cache.open(samples, alike=self.reader.are_listed)
        if reading.videos is not None:
            data, names = [sample.data for sample in samples], SampleNames(samples)
            clips = reading.videos.open(data, names, self._rng(samples, drawn.after.epoch), reading.decode)
            clips.record_failures(reasons_of(samples))
            return clips, Timings()
        images = open_samples(samples, reading.decode, alike=self.reader.are_listed)
        if isinstance(images, EncodedImages):
            images = replace(images, given_up=drawn.given_up)
        return images, Timings()

    def _rng(self, samples: list[Sample], epoch: int) -> Rng:
        indices = [sample.index for sample in samples]
        return rng_of_views(self._seed, epoch, indices, [sample.copy for sample in samples])

    def _known_labels(self, samples: list[Sample]) -> list[Any]:
        """Return labels that show the label type: those of these samples or, if none could be read, of others."""
        known = [sample.label for sample in samples if sample.label is not None or not sample.lacks_label]
        if known:
            self._labels = known
            return known
        if self._examples is None:
            self._examples = label_examples(self.reading.source, self.reading.columns)
        return self._examples or self._labels  # which batches are earlier depends on the threads

    def _run(self, number: int, drawn: DrawnBatch, files: Encoded | Pixels, timings: Timings) -> FinishedBatch:
        result, samples, epoch = self._result, drawn.samples, drawn.after.epoch
        which = number % len(result.runtimes)
        runtime = result.runtimes[which]
        indices = np.array([sample.index for sample in samples], np.int64)
        known = self._known_labels(samples)
        labels = _labels_of(samples, known)
        with runtime.private_stream(result.decoders * len(result.runtimes)):
            source = Batch(Recording.start(runtime, on_device(files, runtime), timings=timings))
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
                if result.preprocess is None or not self._mark_unfit(error, source, drawn, known):
                    raise
                raise Unfit from None
            event = runtime.record_event()
        valid = np.array([sample.real for sample in samples])
        valid[list(files.failures)] = False
        batch = LoadedBatch(images, labels, indices, valid)
        if result.place is not None:
            batch = result.place(batch)
        failures = drawn.failures + _failures(samples, files.failures)
        return FinishedBatch(batch, drawn.after, failures, runtime, event, watch, timings)

    def _mark_unfit(self, error: Exception, source: Batch, drawn: DrawnBatch, known: list[Any]) -> bool:
        """Mark the samples that ``preprocess`` is not possible for alone either; return True if there are any.

        Its error may have a position in a part of ``source``. One that is not about an image counts only for a sample
        without the label that others have. If all pass alone, a function of several images may not be possible for
        those that it names: it is for most of the batch without them. Else it fails for what a sample without an image
        has for a label, see :func:`ease`.
        """
        samples, failed = drawn.samples, recording_of(source).source.failures
        good = [k for k in range(len(samples)) if k not in failed]
        others = [samples[k].label for k in good if samples[k].label is not None]
        others = others or label_examples(self.reading.source, self.reading.columns)
        others = [label for label in others if label is not None][:_STAND_INS]
        no_label = {k for k in good if samples[k].label is None} if others else set()
        reasons: dict[int, str] = {}
        for k in good if no_label or isinstance(error, (ImageError, DecodeError)) else ():
            wrong = self._error_of([k], source, drawn, known)
            if isinstance(wrong, ImageError):
                reasons[k] = wrong.reason
            elif isinstance(wrong, DecodeError) and wrong.failures:  # of a file that it opened
                reasons[k] = f"{wrong.failures[0].source}: {wrong.failures[0].reason}"
            elif wrong is not None and k in no_label:
                reasons[k] = f"it has no label: {described(wrong)}"
        rows, named, left = list(range(len(samples))), dict[int, str](), None if reasons else error
        while isinstance(left, ImageError) and left.index < len(rows) and 2 * len(rows) - 2 > len(samples):
            named[rows.pop(left.index)] = left.reason
            left = self._error_of(rows, source, drawn, known)
        if left is None and named.keys().isdisjoint(failed):
            reasons |= named
        for k, reason in reasons.items():
            samples[k].data, samples[k].place, samples[k].error = b"", None, ImageError(0, reason)
        if reasons or not failed:
            return bool(reasons)
        return sum(ease(samples[k], others) for k in failed) > 0

    def _error_of(self, rows: list[int], source: Batch, drawn: DrawnBatch, known: list[Any]) -> Exception | None:
        """Return the error of ``preprocess``, and of its result, for some of the samples alone."""
        some, epoch = [drawn.samples[k] for k in rows], drawn.after.epoch
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

    def stop(self) -> None:
        """End all threads."""
        self.batches.signal()
        self.reader.stop()
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


def _failures(samples: list[Sample], failed: Mapping[int, Failure]) -> list[Failure]:
    """Return failures by index in the source, without padding, which would repeat samples."""
    return [f._replace(index=samples[k].index) for k, f in sorted(failed.items()) if samples[k].real]
