"""The loader: where it stands, and the loops over it."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Self

from .._checks.text import counted
from .._index.seek import misfit_warning
from .._runtimes.protocol import ResultMemory
from ..errors import DecodeError, Failure
from .pipeline import LoadedBatch, Made, Pipeline
from .prefetch import Ending, Stopped
from .settings import Settings, failure_limit
from .sharding import Position, resumed
from .stats import Stats, progress_bar
from .streams import StreamPipeline

_LISTED = 20  # failures in the warning at the end
_KEPT = 10_000  # failures that a loader remembers: an endless one would fill the memory with them


class Loader:
    """What :func:`gpuimg.load` gives: iterate over it, once for each run of ``epochs`` epochs.

    A ``for`` loop begins where the last complete one ended; after a loop that was left early, with the epoch after
    it; after :meth:`load_state_dict`, where that state was taken. Also an iterator (``next``, and a loop goes on from
    there) and a context manager.

    Attributes
    ----------
    failures : list of Failure
        Samples that could not be read or decoded, by index in the source, of the batches given so far: the last
        10,000. :meth:`stats` counts all of a loop.
    shard : (rank, world)
    """

    def __init__(self, settings: Settings, epochs: int | None, max_failures: float | None, progress: bool) -> None:
        self._settings = settings
        self._epochs = epochs
        self._max_failures = max_failures
        if settings.of_stream and settings.workers > 1:
            raise ValueError(
                "a stream is gone over by one worker, not by several of a DataLoader: use num_workers=0 or 1; the "
                "loader has threads"
            )
        samples = settings.share().count(settings.batch_size, settings.drop_last) // settings.workers
        self._most = failure_limit(max_failures, samples)
        self._progress_bar = progress_bar() if progress else None
        self._process = -1  # the memory below is this process's
        self._memory: list[ResultMemory] = []
        self._position = Position()
        self._inside = False  # a loop began at an earlier position than the one reached
        self._last: int | None = None  # the epoch behind the loop at hand
        self._loop: weakref.ref[_Loop] | None = None
        self._own: _Loop | None = None  # for next(loader)
        self._stats = Stats()
        self._warned = False  # of entries that do not fit their files
        self.failures: list[Failure] = []
        self.shard = settings.rank, settings.world

    def __len__(self) -> int:
        """Batches of a whole loop."""
        if self._epochs is None:
            raise TypeError("an endless loader has no length")
        settings = self._settings
        if settings.of_stream:
            raise TypeError("the loader of a stream has no length")
        epoch = -(-settings.share().count(settings.batch_size, settings.drop_last) // settings.batch_size)
        return len(range(settings.worker, self._epochs * epoch, settings.workers))

    def _dealt(self, worker: int, workers: int) -> Loader:
        """A loader at the same position that makes every so many batches, those of one of several workers."""
        settings = replace(self._settings, worker=worker, workers=workers)
        dealt = Loader(settings, self._epochs, self._max_failures, progress=False)
        dealt._position, dealt._inside = self._position, self._inside
        return dealt

    def __repr__(self) -> str:
        settings = self._settings
        devices = ", ".join(runtime.name for runtime in settings.runtimes)
        of = repr(settings.source) if settings.of_stream else counted(settings.samples, "sample")
        return (
            f"<gpuimg.Loader of {of}, batches of {settings.batch_size} on {devices}, "
            f"rank {settings.rank} of {settings.world}, epoch {self.epoch}>"
        )

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, counted from 0."""
        return self._reached().epoch

    def __iter__(self) -> Iterator[LoadedBatch]:
        return self._begin(lambda: self) if self._own is None else self

    def _begin(self, owner: Callable[[], Loader | None]) -> _Loop:
        self.close()
        if self._inside:
            self._position = Position(self._last_epoch() or self._position.epoch + 1)
            self._inside = False
        start, last = self._reached(), self._last_epoch()
        self._last = last
        bar = None if self._progress_bar is None else self._progress_bar(**self._bar(start, last))
        if self._process != os.getpid():  # in a forked child a thread of the parent's may have held the pool's lock
            self._process = os.getpid()
            self._memory = [runtime.result_memory(self._settings.stream) for runtime in self._settings.runtimes]
        kind = StreamPipeline if self._settings.of_stream else Pipeline
        pipeline = kind(self._settings, self._memory, start, last)
        self._stats = Stats(pipeline)
        running = _Loop(owner, pipeline, bar)
        self._loop = weakref.ref(running)
        return running

    def __next__(self) -> LoadedBatch:
        if self._own is None:
            self._own = self._begin(weakref.ref(self))  # no cycle: dropping the loader must end the threads
        return next(self._own)

    def _bar(self, start: Position, last: int | None) -> dict[str, Any]:
        """Options of the progress bar."""
        settings = self._settings
        whole = settings.share().count(settings.batch_size, settings.drop_last)
        rest = settings.share(start.levels).count(settings.batch_size, settings.drop_last) - start.given
        total = None if last is None or settings.of_stream else rest + (last - start.epoch - 1) * whole
        return {"total": total, "unit": "image", "unit_scale": True, "dynamic_ncols": True}

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Loader can be neither pickled nor copied: its loop has threads; pickle loader.state_dict(), and give "
            "that to load_state_dict() of another loader, made with gpuimg.load of the same source"
        )

    def close(self) -> None:
        """End the threads of a loop that is going on; its iterator is then at its end."""
        running = self._loop() if self._loop is not None else None
        if running is not None:
            running.close()
        self._loop = self._own = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- where it stands ---------------------------------------------------------------------------------------

    def _reached(self) -> Position:
        """The position, at the next epoch's beginning rather than at an epoch's end."""
        at = self._position
        settings = self._settings
        complete = at.given >= settings.share(at.levels).count(settings.batch_size, settings.drop_last)
        return Position(at.epoch + 1) if complete else at

    def _last_epoch(self) -> int | None:
        """The epoch behind the last one of a loop that begins or is at this position."""
        if self._epochs is None:
            return None
        epoch = self._position.epoch if self._inside else self._reached().epoch
        return (epoch // self._epochs + 1) * self._epochs

    def state_dict(self) -> dict[str, Any]:
        """Where the consumer stands: behind the last batch it was given. Plain numbers, for any file format.

        Returns
        -------
        dict
            For :meth:`load_state_dict` of a loader of the same source, with any batch size, number of ranks, threads
            and devices. Under ``on_error="skip"`` ranks advance at their own pace: keep the state of each.

        Raises
        ------
        RuntimeError
            In one of several workers of a ``DataLoader`` under ``on_error="skip"``.
        """
        if self._settings.workers > 1 and self._settings.on_error == "skip":
            raise RuntimeError(
                'under on_error="skip" several DataLoader workers have no common position; use one worker, whose '
                'loader has threads, or on_error="fill"'
            )
        at, settings = self._reached(), self._settings
        return {
            "version": 1, **_identity(settings), "shuffle": settings.shuffle, "seed": settings.seed,
            "epoch": at.epoch, "levels": [list(level) for level in at.levels], "rank": settings.rank,
            "world": settings.world, "taken": at.taken, "given": at.given, "alike": settings.on_error != "skip",
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Go on where a state was taken, exact to the sample; the next loop begins there.

        Parameters
        ----------
        state : dict or list of dict
            Of :meth:`state_dict`. A list of the states of all ranks, where they were taken under ``on_error="skip"``
            by another number of ranks.

        Raises
        ------
        ValueError
            For a state of another source or order, or states that do not belong together.
        """
        states = [state] if isinstance(state, Mapping) else sorted(state, key=lambda one: int(one["rank"]))
        settings = self._settings
        for one in states:
            if one.get("version") != 1:
                raise ValueError(
                    f"unknown version of a loader's state_dict: {one.get('version')!r}; this gpuimg knows 1"
                )
            for name, mine in {**_identity(settings), "shuffle": settings.shuffle}.items():
                if one.get(name) != mine:
                    raise ValueError(f"the state was taken with {name}={one.get(name)}, but this loader has {mine}")
            if settings.of_stream and settings.source.sharded and int(one["world"]) != settings.world:
                raise ValueError(
                    f"the state is of {one['world']} ranks with a stream each, but this loader's are {settings.world}"
                )
        position = resumed(states, settings.samples, settings.rank, settings.world)
        self.close()
        self._settings = replace(settings, seed=int(states[0]["seed"]))
        self._position = position
        self._inside = False

    # -- how it goes -------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Time and queue depth of each stage of the loop at hand, or of the last one.

        Returns
        -------
        dict
            ``images``; ``failures``, the samples that could not be read or decoded; ``seconds``, since the first batch
            was asked for; ``images_per_second``; ``read``, ``record`` (Python and headers), ``decode`` and ``kernels``
            with the ``seconds`` of all their threads together; in ``read`` and ``record`` besides ``held``, the seconds
            that their threads stood ready and could not go on, because other threads held Python's lock (the GIL) or
            all cores, and in ``read`` how long it was ``waited`` for; ``ready``, the batches that were ready on average
            when one was asked for; ``consumer`` with the ``seconds`` it was busy and ``waited``; ``cores``, how many
            this process kept busy on average; with a seek index ``index``: how many entries were ``used``, and how
            many were ``misfits``, which do not fit their files; where there were any ``unwritten``, the images that a
            GPU's decoder reported as decoded, but had not written, so that the CPU decoded them; ``clips_on_cpu``,
            where there were any clips of videos that a GPU does not decode, so that the CPU did; and ``limit``, what
            the consumer waited for:

            ``"read"``, ``"record"``, ``"decode"`` or ``"kernels"``
                That stage's own work: more ``readers`` for slow storage, more cores for the others.
            ``"python"``
                Python's lock, which the loop's own Python code, or another thread's, holds.
            ``"cores"``
                A core: the loop and the loader together want more than there are.
            ``"consumer"``
                Nothing: the loop itself takes the time.
        """
        return self._stats.summary()

    def _deliver(self, made: Made) -> LoadedBatch:
        made.runtime.wait_event(made.event, self._settings.stream)
        self._position = made.position
        self._inside = True
        self.failures += made.failures
        del self.failures[:-_KEPT]
        failed = self._stats.add(made)
        self._warn_of_misfits(made)
        if self._most is not None and failed > self._most:
            total = self._stats.images if self._settings.of_stream else self._settings.samples
            error = DecodeError(tuple(self.failures[-failed:]), total)
            error.add_note(f"these are more than max_failures allows: {self._most} in an epoch")
            raise error
        return made.batch

    def _warn_of_misfits(self, made: Made) -> None:
        """Once: that entries of the seek index do not fit their files."""
        index = self._settings.index
        if index is not None and made.entries is not None and made.entries.misfits and not self._warned:
            self._warned = True
            text = misfit_warning(str(index.path), made.entries.misfits)
            warnings.warn(f"{text}\nLoader.stats() counts those of later batches", RuntimeWarning, stacklevel=4)

    def _closed(self, running: _Loop) -> None:
        self._stats.freeze()
        if self._own is running:
            self._own = None

    def _ended(self) -> None:
        """A loop came to its end."""
        self._position = self._reached() if self._last is None else Position(self._last)
        self._inside = False
        if self._stats.failed:
            failed = self._stats.failed
            listed = self.failures[-failed:][:_LISTED]
            lines = [f"sample {failure.index} ({failure.source}): {failure.reason}" for failure in listed]
            if failed > _LISTED:
                lines.append(f"and {failed - _LISTED:,} more, see Loader.failures")
            what = "left out" if self._settings.on_error == "skip" else "black and not valid"
            were = "was" if failed == 1 else "were"
            message = f"{counted(failed, 'sample')} could not be decoded and {were} {what}:\n  " + "\n  ".join(lines)
            warnings.warn(message, RuntimeWarning, stacklevel=3)


def _identity(settings: Settings) -> dict[str, Any]:
    """What of the source must be the same where a state is loaded."""
    if not settings.of_stream:
        return {"samples": settings.samples}
    return {"samples": None, "buffer": settings.source.buffer if settings.shuffle else None}


class _Loop(Iterator[LoadedBatch]):
    """One loop over a loader. The threads know the pipeline only, so that dropping this ends them."""

    def __init__(self, owner: Callable[[], Loader | None], pipeline: Pipeline, bar: Any) -> None:
        self._owner = owner
        self._batches = pipeline.batches
        self._bar = bar
        self._end = Ending(self, partial(_stop, pipeline, bar))

    def __next__(self) -> LoadedBatch:
        loader = self._owner()
        if loader is None:
            raise StopIteration
        try:
            batch = loader._deliver(self._batches.get())
        except Stopped:
            raise StopIteration from None
        except StopIteration:
            self.close()
            loader._ended()
            raise
        except BaseException:
            self.close()
            raise
        if self._bar is not None:
            self._bar.set_postfix_str(f"limited by {loader.stats()['limit']}", refresh=False)
            self._bar.update(len(batch.indices))
        return batch

    def close(self) -> None:
        """End the threads."""
        loader = self._owner()
        if loader is not None:
            loader._closed(self)
        self._end()


def _stop(pipeline: Pipeline, bar: Any) -> None:
    if pipeline.batches.is_from_parent:  # neither the threads nor the bar are this process's
        return
    pipeline.stop()
    if bar is not None:
        bar.close()
