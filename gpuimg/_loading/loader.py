"""``Loader``: its position, the loops over it, and their statistics."""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Self, TypeVar

from .._checks.arguments import whole_number
from .._checks.text import counted
from .._runtimes.protocol import ResultMemory
from ..errors import DecodeError, Failure
from ..sources.stream import Stream
from .batches import Batches
from .order import Blocks
from .pipeline import FinishedBatch, LoadedBatch, Pipeline
from .prefetch import Ending, Stopped
from .reading import Reader
from .settings import Reading, Result, Schedule
from .sharding import Position, checked_states, resumed
from .stats import Stats, progress_bar
from .streams import StreamReader

__all__ = ["Loader"]

_Kind = TypeVar("_Kind", bound="Loader")

_LISTED = 20  # failures listed in the warning at the end of a loop
_STORED = 10_000  # failures that a loader stores, so that an endless one does not fill the memory


class Loader:
    """Iterable of batches, returned by :func:`gpuimg.load`; each ``for`` loop goes through ``epochs`` epochs.

    A ``for`` loop begins with the epoch after the last complete loop. After a loop that was left early it begins with
    the next epoch, and after :meth:`load_state_dict` at the position of that state. The loader is also an iterator
    (``next(loader)``; a loop then continues from there) and a context manager that ends the threads. A loop ends the
    one before: continuing that raises a RuntimeError.

    Attributes
    ----------
    failures : list of Failure
        Samples that could not be read or decoded, by index in the source: the last 10,000 of the batches delivered so
        far. :meth:`stats` counts all failures of a loop.
    shard : (int, int)
        Rank and world size.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (30, 20)).save(file, "JPEG")
    >>> source = [(file.getvalue(), label) for label in range(6)]
    >>> loader = gpuimg.load(source, lambda x, rng: gpuimg.resize(x, (8, 8)), batch_size=2)
    >>> [batch.labels.tolist() for batch in loader]
    [[0, 1], [2, 3], [4, 5]]
    """

    def __init__(self, reading: Reading, schedule: Schedule, result: Result, progress: bool) -> None:
        self._reading, self._schedule, self._result = reading, schedule, result
        self._of_stream = isinstance(reading.source, Stream)
        self._most: int | None = None  # failures of an epoch
        self._progress_bar = progress_bar() if progress else None
        self._process = -1  # id of the process that the memory below belongs to
        self._memory: list[ResultMemory] = []
        self._position = Position()
        self._inside = False  # the position is within a loop that has delivered a batch
        self._last: int | None = None  # the epoch after the last one of the current loop
        self._requested: int | None = None  # the epoch of the next loop, by set_epoch during a loop
        self._loop: weakref.ref[_Loop] | None = None
        self._own: _Loop | None = None  # for next(loader)
        self._stats = Stats()
        self.failures: list[Failure] = []
        self.shard = schedule.rank, schedule.world

    def __len__(self) -> int:
        """Number of batches of a complete loop; a function as ``batches`` is taken to return as many for each epoch."""
        if self._schedule.epochs is None:
            raise TypeError("an endless loader has no length")
        if self._of_stream:
            raise TypeError("the loader of a stream has no length")
        return self._schedule.epochs * -(-self._schedule.count() // self._schedule.batch_size)

    @property
    def source(self) -> Any:
        """The source of the samples."""
        return self._reading.source

    @property
    def devices(self) -> list[str]:
        """Names of the devices that compute the batches."""
        return [runtime.name for runtime in self._result.runtimes]

    @property
    def samples(self) -> int:
        """Number of samples of an epoch that this rank delivers, including padding.

        With a function as ``batches`` it may depend on the epoch: it is that of the epoch for which it was called last.
        """
        if self._of_stream:
            raise TypeError("the loader of a stream has no length")
        return self._schedule.images()

    def __repr__(self) -> str:
        schedule = self._schedule
        of = repr(self.source) if self._of_stream else counted(schedule.order.choices, "sample")
        size = "listed batches" if isinstance(schedule.order, Batches) else f"batches of {schedule.batch_size}"
        return (
            f"<gpuimg.Loader of {of}, {size} on {', '.join(self.devices)}, "
            f"rank {schedule.rank} of {schedule.world}, epoch {self.epoch}>"
        )

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, counted from 0."""
        return self._reached().epoch

    def __iter__(self) -> Iterator[LoadedBatch]:
        return self._begin(lambda: self) if self._own is None else self

    def _begin(self, owner: Callable[[], Loader | None]) -> _Loop:
        torch_data = sys.modules.get("torch.utils.data")
        if torch_data is not None and torch_data.get_worker_info() is not None:
            raise RuntimeError(
                "a loader gains nothing in worker processes of a DataLoader, which would all yield the same samples: "
                "use gpuimg.load or gpuimg.torch.load alone, whose threads read and decode ahead, with num_workers=0 "
                "in a DataLoader around gpuimg.torch.IterableDataset; or gpuimg.torch.Dataset, whose single samples "
                "workers may decode"
            )
        running = self._loop() if self._loop is not None else None
        if running is not None:
            running.was_replaced = True
        self.close()
        if self._requested is not None:
            self.set_epoch(self._requested)
        if self._inside:
            self._position = Position(self._last_epoch() or self._position.epoch + 1)
            self._inside = False
        start, last = self._reached(), self._last_epoch()
        self._last = last
        most = self._reading.max_failures
        self._most = most if most is None or isinstance(most, int) else int(most * self._schedule.images(start.epoch))
        bar = None if self._progress_bar is None else self._progress_bar(total=self._total(start, last))
        if self._process != os.getpid():  # after a fork, a lock of the parent's memory pool may stay locked
            self._process = os.getpid()
            memory, stream = self._result.memory, self._result.stream
            self._memory = [memory or runtime.result_memory(stream) for runtime in self._result.runtimes]
        reader = (StreamReader if self._of_stream else Reader)(self._reading, self._schedule, start, last)
        pipeline = Pipeline(reader, self._result, self._memory)
        self._stats = Stats(pipeline)
        running = _Loop(owner, pipeline, bar)
        self._loop = weakref.ref(running)
        try:
            pipeline.batches.start()
        except BaseException:  # Ctrl-C, or no thread is left
            running.close()
            raise
        return running

    def __next__(self) -> LoadedBatch:
        if self._own is None:
            self._own = self._begin(weakref.ref(self))  # a weak reference: deleting the loader must end the threads
        return next(self._own)

    def _total(self, start: Position, last: int | None) -> int | None:
        """Return the number of images of a loop, if it is known."""
        if last is None or self._of_stream:
            return None
        rest = self._schedule.images(start.epoch, start.levels, start.given)
        return rest + (last - start.epoch - 1) * self._schedule.images(start.epoch)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Loader cannot be pickled or copied, nor passed to worker processes, as its loop has threads; use "
            "num_workers=0 in a DataLoader around it, and to resume pickle loader.state_dict() and pass it to "
            "load_state_dict() of another loader, created with gpuimg.load for the same source"
        )

    def close(self) -> None:
        """End the threads of a running loop; its iterator is then exhausted."""
        running = self._loop() if self._loop is not None else None
        if running is not None:
            running.close()
        self._loop = self._own = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- position ----------------------------------------------------------------------------------------------

    def _reached(self) -> Position:
        """Return the position, normalized to the start of the next epoch at the end of an epoch."""
        at = self._position
        if at == Position(at.epoch):  # has not begun, so that a function need not list its batches yet
            return at
        complete = at.given >= self._schedule.count(at.epoch, at.levels)
        return Position(at.epoch + 1) if complete else at

    def _last_epoch(self) -> int | None:
        """Return the epoch after the last one of a loop that begins or is at this position; None: endless."""
        if self._schedule.epochs is None:
            return None
        epoch = self._position.epoch if self._inside else self._reached().epoch
        return (epoch // self._schedule.epochs + 1) * self._schedule.epochs

    def set_epoch(self, epoch: int) -> None:
        """Begin the next loop with this epoch, for trainers that count the epochs. A running loop is not affected.

        Loops begin with successive epochs by themselves, so this is needed only to repeat or leave out epochs. A
        position of :meth:`load_state_dict` within the epoch remains valid: the next loop begins there.

        Parameters
        ----------
        epoch : int
            Epoch number, counted from 0.
        """
        epoch = whole_number(epoch, "epoch", 0)
        running = self._loop is not None and self._loop() is not None
        self._requested = epoch if running else None
        if not running and (self._inside or self.epoch != epoch):
            self._position, self._inside = Position(epoch), False

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last delivered batch, as plain numbers for any file format.

        Returns
        -------
        dict
            State for :meth:`load_state_dict` of a loader of the same source, with any batch size, number of ranks,
            threads and devices. Under ``on_error="skip"`` ranks advance at different speeds: store the state of each.
        """
        at, schedule = self._reached(), self._schedule
        return {
            "version": 2, **self._identity(at.epoch if at != Position(at.epoch) else None), "seed": schedule.seed,
            "epoch": at.epoch, "levels": [list(level) for level in at.levels], "rank": schedule.rank,
            "world": schedule.world, "taken": at.taken, "given": at.given, "alike": self._reading.on_error != "skip",
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Resume at the position of a state, exact to the sample; the next loop begins there, with the state's seed.

        Parameters
        ----------
        state : dict or list of dict
            Result of :meth:`state_dict`. A list of the states of all ranks, if they were saved under
            ``on_error="skip"`` with a different number of ranks.

        Raises
        ------
        ValueError
            For a state of a different source or order, a damaged one, or states that were not saved together.
        TypeError
            For anything but a dict or a list of dicts.
        """
        states, schedule = checked_states(state), self._schedule
        epoch = states[0]["epoch"] if any(one["taken"] or one["levels"] for one in states) else None
        identity = self._identity(epoch)
        for one in states:
            for name, mine in identity.items():
                if name == "order" and one.get(name) != mine:
                    raise ValueError(
                        "the state was taken with other indices, weights, repeats or batches than this loader has"
                    )
                if one.get(name) != mine:
                    raise ValueError(f"the state was taken with {name}={one.get(name)}, but this loader has {mine}")
            if self._of_stream and self.source.sharded and one["world"] != schedule.world:
                raise ValueError(
                    f"the state is of {one['world']} ranks with a stream each, but this loader's are {schedule.world}"
                )
        places = 0 if epoch is None else schedule.order.places(epoch)
        position = resumed(states, places, schedule.rank, schedule.world, schedule.order.run)
        self.close()
        self._schedule = replace(schedule, seed=states[0]["seed"])
        self._position = position
        self._inside = False
        self._requested = None

    def _identity(self, epoch: int | None) -> dict[str, Any]:
        """Return what must be equal when a state is loaded: source and order; ``epoch`` is one that has begun."""
        order = self._schedule.order
        shuffle = order.shuffle
        found = {"shuffle": repr(shuffle) if isinstance(shuffle, Blocks) else shuffle}
        if self._of_stream:
            return {"samples": None, "buffer": self.source.buffer if shuffle else None, **found}
        return {"samples": len(self.source), "order": order.digest(epoch), **found}

    # -- statistics --------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Return timings and counts of the current loop, or of the last one.

        Returns
        -------
        dict
            ``images``, ``failures``
                Number of images, and of samples that could not be read or decoded.
            ``seconds``, ``images_per_second``
                Time since the first batch was requested, and the rate.
            ``read``, ``record``, ``decode``, ``kernels``
                For each part of the pipeline, the ``seconds`` of all its threads together; ``record`` is Python code
                and headers. ``read`` and ``record`` also have ``held``: seconds in which their threads were runnable,
                but other threads held the GIL or all cores, in ``record`` of any wait. ``read`` also has ``waited``:
                seconds in which batches waited for it.
            ``ready``
                Mean number of batches that were ready when one was requested.
            ``consumer``
                ``seconds`` that it was busy, and that it ``waited``.
            ``cores``
                Mean number of cores that this process kept busy.
            ``cached``
                With ``cache``: the number of samples in memory.
            ``retries``
                If there were any: the ``count`` of requests to remote storage that were repeated, and the seconds that
                threads ``waited`` before, or for a lower rate of requests.
            ``unwritten``
                If there were any: images that a GPU decoder reported as decoded but had not written. The CPU decoded
                them.
            ``jpegs_on_cpu``
                If there were any: JPEGs that the GPU's kernels gave up, because they are damaged, or so regular that
                decoding cannot start within them, and those that nvImageCodec failed at. The CPU decoded them.
            ``clips_on_cpu``
                If there were any: clips of videos that the GPU does not decode. The CPU decoded them.
            ``limit``
                What the consumer waited for, as follows.

            ``"read"``, ``"record"``, ``"decode"`` or ``"kernels"``
                That part of the pipeline: use more ``readers`` for slow storage, more cores for the others.
            ``"python"``
                The GIL, held by the Python code of the loop or of another thread.
            ``"cores"``
                A core: loop and loader together need more than there are.
            ``"consumer"``
                Nothing: the loop itself takes the time.
        """
        return self._stats.summary()

    def _deliver(self, finished: FinishedBatch) -> LoadedBatch:
        finished.runtime.wait_event(finished.event, self._result.stream)
        self._position = finished.position
        self._inside = True
        if isinstance(self._schedule.order, Batches):
            self._schedule.order.keep(finished.position.epoch)
        self.failures += finished.failures
        del self.failures[:-_STORED]
        failed = self._stats.add(finished)
        if self._most is not None and failed > self._most:
            total = self._stats.images if self._of_stream else self._schedule.order.choices
            error = DecodeError(tuple(self.failures[-failed:]), total)
            error.add_note(f"these are more than max_failures allows: {self._most} in an epoch")
            raise error
        return finished.batch

    def _closed(self, running: _Loop) -> None:
        self._stats.freeze()
        if self._own is running:
            self._own = None
        if self._loop is not None and self._loop() is running:
            self._loop = None

    def _ended(self) -> None:
        """Finish a complete loop: set the position, and warn of failures."""
        # Lightning creates the iterator of an epoch before it sets that epoch: this does not request it again.
        if self._last is not None and self._requested in range(self._last - (self._schedule.epochs or 0), self._last):
            self._requested = None
        self._position = self._reached() if self._last is None else Position(self._last)
        self._inside = False
        if self._stats.failed:
            failed = self._stats.failed
            listed = self.failures[-failed:][:_LISTED]
            lines = [f"sample {failure.index} ({failure.source}): {failure.reason}" for failure in listed]
            if failed > _LISTED:
                lines.append(f"and {failed - _LISTED:,} more, see Loader.failures")
            what = "left out" if self._reading.on_error == "skip" else "black and not valid"
            were = "was" if failed == 1 else "were"
            message = f"{counted(failed, 'sample')} could not be decoded and {were} {what}:\n  " + "\n  ".join(lines)
            warnings.warn(message, RuntimeWarning, stacklevel=3)


def changed(loader: Loader, kind: type[_Kind], **result: Any) -> _Kind:
    """Return a loader of a derived class at the same position, with other fields of :class:`Result`."""
    progress = loader._progress_bar is not None
    other = kind(loader._reading, loader._schedule, replace(loader._result, **result), progress)
    other._position, other._inside = loader._position, loader._inside
    return other


class _Loop(Iterator[LoadedBatch]):
    """One loop over a loader. The threads refer only to the pipeline, so that deleting this ends them."""

    def __init__(self, owner: Callable[[], Loader | None], pipeline: Pipeline, bar: Any) -> None:
        self._owner = owner
        self._batches = pipeline.batches
        self._bar = bar
        self.was_replaced = False  # by another loop over the same loader
        self._end = Ending(self, partial(_stop, pipeline, bar))

    def __next__(self) -> LoadedBatch:
        loader = self._owner()
        if loader is None:
            raise StopIteration
        try:
            finished = self._batches.get().result()
            batch = loader._deliver(finished)
        except Stopped:
            if self.was_replaced:  # the end would look like that of the samples
                raise RuntimeError(
                    "this loop was ended by another one over the same loader; two loops at a time need two loaders"
                ) from None
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
            self._bar.update(len(finished.batch.indices))
        return batch

    def close(self) -> None:
        """End the threads."""
        loader = self._owner()
        if loader is not None:
            loader._closed(self)
        self._end()


def _stop(pipeline: Pipeline, bar: Any) -> None:
    if pipeline.batches.is_from_parent:  # threads and bar belong to the parent process
        return
    pipeline.stop()
    if bar is not None:
        bar.close()
