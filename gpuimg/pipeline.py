"""The stages between a source and its consumer: readers, then batches that are recorded, decoded and run.

Reading goes ahead sample by sample in the order of the epoch, whatever becomes of the samples. A batch is formed by one
thread at a time from what was read, and made beside the others. Where bad samples are skipped, which samples a batch
holds depends on those before it having been decoded: such batches are made one after another.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from .ahead import Ahead, Stopped
from .batch import Batch, as_batch
from .decode import open_files
from .errors import DecodeError, Failure
from .mixing import Mix
from .order import Level, Position, Share, shuffled
from .pixels import Files
from .plan import Ints, Mask
from .rng import Rng
from .runtimes import Runtime, Slots
from .samples import Names, Sample, collate, read_sample
from .stderr import quiet

# Samples read by one job: enough to make the threads' hand-over cheap, few enough to spread over all of them.
_CHUNK = 8

Preprocess = Callable[[Batch, Rng, Any], tuple[Any, Any]]  # (batch, rng, labels) -> (images, labels)


class LoadedBatch(NamedTuple):
    """One batch of a loader.

    Attributes
    ----------
    images : array or Batch
        (N, H, W, C) or (N, C, H, W), CuPy on a GPU and NumPy on the CPU, ready for the consumer's stream. A
        :class:`gpuimg.Batch` without ``preprocess``, or where the images differ in size.
    labels : array or list
        int64 for whole numbers, float64 for other numbers, stacked arrays for arrays of one shape, a list for
        everything else; None if no sample has one. The label of a sample that could not be read is -1, NaN, zeros or
        None.
    indices : (N,) int64
        The samples' indices in the source.
    valid : (N,) bool
        False for what is not to be counted: images that are black for want of pixels under ``on_error="fill"``, and
        samples that come a second time to give every rank the same number.
    """

    images: Any
    labels: Any
    indices: Ints
    valid: Mask


@dataclass(frozen=True)
class Settings:
    """What a loader does; checked by :func:`gpuimg.load`."""

    source: Any
    preprocess: Preprocess | None
    batch_size: int
    runtimes: Sequence[Runtime]
    dtype: Any
    layout: str
    shuffle: bool
    seed: int
    drop_last: bool
    prefetch: int
    readers: int
    decoders: int
    rank: int
    world: int
    on_error: str
    stream: int | None
    color: str
    max_pixels: int
    samples: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", len(self.source))

    def share(self, levels: tuple[Level, ...] = ()) -> Share:
        """The share of this rank of what is left of an epoch."""
        return Share(self.samples, levels, self.rank, self.world)


class Opened(NamedTuple):
    """Samples whose headers were read."""

    samples: list[Sample]
    files: Files


class Made(NamedTuple):
    """One batch, and what became known with it."""

    batch: LoadedBatch
    position: Position  # after it
    failures: list[Failure]
    runtime: Runtime
    mark: Any
    seconds: dict[str, float]


class Pipeline:
    """The threads of one pass over the data, from a position to the end of an epoch."""

    def __init__(self, settings: Settings, slots: Sequence[Slots], position: Position, last_epoch: int | None) -> None:
        self._settings = settings
        self._slots = slots
        self._epochs = partial(_epochs, position, last_epoch)
        self._read: deque[Sample] = deque()
        self._lock = threading.Lock()
        self._stopped = False
        self._reader: Ahead[list[Sample]] | None = None
        self.read_seconds = 0.0  # of readers that are gone
        self.read_waited = 0.0
        self._quiet = ExitStack()
        self._quiet.enter_context(quiet())  # for the whole pass: turning it on and off for each batch costs 0.2 ms
        _keep_freed_memory()
        devices = len(settings.runtimes)
        self.batches = Ahead(self._jobs(), settings.prefetch * devices, settings.decoders * devices, "decode")

    # -- reading -----------------------------------------------------------------------------------------------

    def _reading(self, positions: Iterator[Position]) -> Iterator[Callable[[], list[Sample]]]:
        """Jobs that read: all samples of some epochs, or those of one and then its padding for ever."""
        settings = self._settings
        chunk = min(_CHUNK, settings.batch_size)
        for position in positions:
            share = settings.share(position.levels)
            stop = position.taken + share.count(settings.batch_size, settings.drop_last) - position.given
            for start in count(position.taken, chunk):
                if settings.on_error != "skip":
                    if start >= stop:
                        break
                    yield partial(self._read_samples, share, position.epoch, start, min(start + chunk, stop))
                else:
                    yield partial(self._read_samples, share, position.epoch, start, start + chunk)

    def _read_samples(self, share: Share, epoch: int, start: int, stop: int) -> list[Sample]:
        settings = self._settings
        places, real = share.places(start, stop)
        indices = shuffled(places, share.n, settings.seed, epoch) if settings.shuffle else places
        return [read_sample(settings.source, int(i), bool(r)) for i, r in zip(indices, real, strict=True)]

    def _start_reading(self, positions: Iterator[Position]) -> None:
        settings = self._settings
        self._stop_reading()
        self._read.clear()
        chunks = -(-2 * settings.batch_size // min(_CHUNK, settings.batch_size)) + settings.readers
        with self._lock:
            if self._stopped:
                raise Stopped
            self._reader = Ahead(self._reading(positions), chunks, settings.readers, "read", spare=True)

    def _stop_reading(self) -> None:
        with self._lock:
            reader, self._reader = self._reader, None
        if reader is not None:
            reader.signal()
            reader.join()
            self.read_seconds += reader.busy
            self.read_waited += reader.waited

    def _next_sample(self) -> Sample:
        if not self._read:
            reader = self._reader
            if reader is None:
                raise Stopped
            self._read.extend(reader.get())
        return self._read.popleft()

    # -- batches -----------------------------------------------------------------------------------------------

    def _jobs(self) -> Iterator[Callable[[], Made]]:
        """Jobs that make batches; drawn by one thread at a time."""
        settings = self._settings
        numbers = count()
        skips = settings.on_error == "skip"
        if not skips:
            self._start_reading(self._epochs())
        for position in self._epochs():
            if skips:
                self._start_reading(iter([position]))
            total = settings.share(position.levels).count(settings.batch_size, settings.drop_last)
            while position.given < total:
                size = min(settings.batch_size, total - position.given)
                number = next(numbers)
                if skips:
                    made = self._refilled(number, size, position)
                    position = made.position
                    yield partial(_same, made)
                    del made
                else:
                    samples = [self._next_sample() for _ in range(size)]
                    position = replace(position, taken=position.taken + size, given=position.given + size)
                    yield partial(self._make, number, samples, position)
                    del samples

    def _make(self, number: int, samples: list[Sample], position: Position) -> Made:
        """A batch of these samples and no others."""
        raises = self._settings.on_error == "raise"
        opened = self._open(samples)
        if raises:
            _raise(opened)
        made = self._run(number, opened, position)
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
            opened = self._open(good)
            if not opened.files.failures:
                made = self._run(number, opened, replace(position, taken=taken, given=position.given + size))
                if not opened.files.failures:
                    return made._replace(failures=failures)
            failures += _failures(opened)
            good = [sample for k, sample in enumerate(good) if k not in opened.files.failures]
            if not good and taken - position.taken > self._settings.samples + size:
                raise DecodeError(tuple(failures), len(failures))  # there is no good sample at all

    def _open(self, samples: list[Sample]) -> Opened:
        settings = self._settings
        data = [sample.data for sample in samples]
        files = open_files(data, settings.color, "fill", settings.max_pixels, Names(samples))
        for k, sample in enumerate(samples):
            if sample.error is not None:
                files.failures[k] = Failure(k, sample.name, sample.reason)
        return Opened(samples, files)

    def _run(self, number: int, opened: Opened, position: Position) -> Made:
        settings = self._settings
        samples, files = opened
        lane = number % len(settings.runtimes)
        runtime = settings.runtimes[lane]
        indices = np.array([sample.index for sample in samples], np.int64)
        labels: Any = collate([sample.label for sample in samples], [sample.error is not None for sample in samples])
        begin = time.perf_counter()
        with runtime.lane():
            images: Any = Batch(runtime, files)
            if settings.preprocess is not None:
                rng = Rng(settings.seed, epoch=position.epoch, indices=indices)
                images, labels = settings.preprocess(images, rng, labels)
                images = as_batch(images)
                if len(images) != len(samples):
                    raise ValueError(f"preprocess was given {len(samples)} images and returned {len(images)}")
            recorded = time.perf_counter()
            if settings.preprocess is None or not images.is_uniform:
                images = images.compute(settings.dtype, settings.layout)
            else:
                images = images.array_in(self._slots[lane].take, settings.dtype, settings.layout)
            mark = runtime.mark()
        bad = np.array([k in files.failures for k in range(len(samples))])
        valid = np.array([sample.real for sample in samples]) & ~bad
        seconds = {"record": recorded - begin, "decode": files.spent.decode, "kernels": files.spent.kernels}
        batch = LoadedBatch(images, labels, indices, valid)
        return Made(batch, position, _failures(opened), runtime, mark, seconds)

    # -- ending ------------------------------------------------------------------------------------------------

    def reading(self) -> tuple[float, float]:
        """Seconds that readers read and that forming batches waited for them."""
        reader = self._reader
        more = (reader.busy, reader.waited) if reader is not None else (0.0, 0.0)
        return self.read_seconds + more[0], self.read_waited + more[1]

    def stop(self) -> None:
        """End all threads."""
        with self._lock:
            self._stopped = True
        self.batches.signal()
        self._stop_reading()
        self.batches.join()
        self._quiet.close()


@cache
def _keep_freed_memory() -> None:
    """Once: let the allocator keep the memory of one batch's files for those of the next.

    glibc gives it back to the system when a batch is dropped, and each file then faults it in again: 4 % of the time of
    an image. It keeps up to twice the largest block it has seen freed, of those below 32 MiB; other allocators are
    not affected.
    """
    np.empty((32 << 20) - (64 << 10), np.uint8)  # freed at once; no page of it is touched


def _epochs(position: Position, last: int | None) -> Iterator[Position]:
    """A position, and the starts of the epochs behind it up to the one before ``last``."""
    yield position
    epochs = count(position.epoch + 1) if last is None else range(position.epoch + 1, last)
    for epoch in epochs:
        yield Position(epoch)


def _same(made: Made) -> Made:
    return made


def _failures(opened: Opened) -> list[Failure]:
    """Failures by index in the source; padding would name a sample twice."""
    found = sorted(opened.files.failures.items())
    return [Failure(opened.samples[k].index, f.source, f.reason) for k, f in found if opened.samples[k].real]


def _raise(opened: Opened) -> None:
    failures = _failures(opened)
    if failures:
        errors = [sample.error for sample in opened.samples if sample.error is not None]
        raise DecodeError(tuple(failures), len(opened.samples)) from (errors[0] if errors else None)


def adapted(preprocess: Any) -> Preprocess | None:
    """A user's function as ``(batch, rng, labels) -> (images, labels)``."""
    if preprocess is None:
        return None
    if not callable(preprocess):
        raise TypeError(f"preprocess must be a function (batch, rng) -> Batch, not {type(preprocess).__name__}")
    least, most = _arity(preprocess)

    def called(x: Batch, rng: Rng, labels: Any) -> tuple[Any, Any]:
        given = preprocess(x, rng, labels) if least >= 3 else preprocess(x, rng) if most >= 2 else preprocess(x)
        if least < 3:
            given = given, labels
        if not isinstance(given, tuple) or isinstance(given, Mix) or len(given) != 2:
            raise TypeError(
                "preprocess with three parameters (batch, rng, labels) must return (images, labels), not "
                f"{type(given).__name__}"
            )
        if isinstance(given[0], Mix):
            raise TypeError(
                "preprocess returned a Mix, whose labels would be lost: take labels as a third parameter and return "
                "(mix.images, mix.labels(labels, num_classes))"
            )
        if given[0] is None:
            raise TypeError("preprocess returned None instead of a Batch; is a return missing?")
        return given

    return called


def _arity(function: Any) -> tuple[int, int]:
    """How many arguments a function needs, and takes, by position."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # not known for some built-in functions
        return 2, 2
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in positional)
    endless = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return least, 2 if endless else len(positional)
