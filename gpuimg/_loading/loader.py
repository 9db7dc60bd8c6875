"""Feeding a training loop: batches read, decoded and augmented ahead of their consumer."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from .._batch.opening import check_options
from .._checks.arguments import whole_number
from .._checks.words import counted
from .._decoding.decoder import MAX_PIXELS
from .._random.rng import Rng
from .._runtimes.protocol import ResultMemory
from ..errors import DecodeError, Failure
from .pipeline import LoadedBatch, Made, Pipeline
from .prefetch import Stopped
from .ranks import as_shard
from .settings import (
    Settings,
    adapted,
    check_source,
    check_words,
    failure_limit,
    runtimes_for,
    stream_address,
)
from .sharding import Position, Share, resumed
from .stats import Stats, progress_bar

_LISTED = 20  # failures in the warning at the end
_KEPT = 10_000  # failures that a loader remembers: an endless one would fill the memory with them


def load(
    source: Any,
    preprocess: Any = None,
    *,
    batch_size: int,
    device: str | None = None,
    devices: Sequence[str] | None = None,
    dtype: Any = None,
    layout: str = "NHWC",
    shuffle: bool = False,
    seed: int = 0,
    epochs: int | None = 1,
    drop_last: bool = False,
    prefetch: int = 2,
    readers: int = 4,
    decoders: int | None = None,
    shard: tuple[int, int] | str = "auto",
    on_error: str = "raise",
    max_failures: float | None = None,
    progress: bool = False,
    stream: Any = None,
    color: str = "rgb",
    max_pixels: int = MAX_PIXELS,
) -> Loader:
    """Read, decode and augment batches ahead of the loop that consumes them.

    Parameters
    ----------
    source : object with ``len`` and ``source[i]``
        ``source[i]`` gives ``(file bytes or path, label)``, or a mapping with ``"image"`` as of Hugging Face's
        ``datasets``; it is called on several threads. :func:`folder`, :func:`tar` and others make sources.
    preprocess : function, optional
        ``(batch, rng) -> Batch``, as those of :mod:`gpuimg.presets`, where ``rng`` is the :class:`Rng` of the batch's
        samples. With a third parameter it is given the batch's labels too, and returns ``(images, labels)``. It is
        called on several threads.
    batch_size : int
        Images of a batch of one rank.
    device : str, optional
        As in :func:`open_batch`.
    devices : sequence of str, optional
        Several devices, in turn: batch ``k`` is made by device ``k % len(devices)``.
    dtype, layout
        As in :meth:`Batch.array`.
    shuffle : bool
        Each epoch has another order, which depends on ``seed`` and the epoch alone.
    seed : int
        Of the order and of ``rng``, 0 to 2**64 - 1.
    epochs : int or None
        Epochs of one ``for`` loop over the loader; the next loop goes on with the epoch after. None: endless.
    drop_last : bool
        Leave out what does not fill a batch on every rank. Otherwise the last batch of an epoch is smaller, and
        samples from the epoch's beginning, not ``valid``, give every rank the same number.
    prefetch : int
        Batches ready or in the making ahead of the consumer, for each device. With those the consumer holds, and twice
        ``batch_size`` files, they bound the memory.
    readers : int
        Threads that read from the source, all but one only where one does not keep up. More of them for storage that
        answers late, as over a network.
    decoders : int, optional
        Batches that are made at a time, for each device. By default 1 on the CPU, where one uses all cores
        (``GPUIMG_NUM_THREADS``), and 2 on a GPU.
    shard : (rank, world) or "auto"
        This process's share: every rank gets the same number of batches and, but for the padding above, no sample is
        on two of them. ``"auto"``: as the launcher's environment variables say (``RANK`` and ``WORLD_SIZE``, Slurm's
        in a job step, Open MPI's, MPICH's), else all.
    on_error : {"raise", "skip", "fill"}
        For samples that cannot be read or decoded. ``"raise"``: a :class:`DecodeError` in place of the batch.
        ``"skip"``: the next sample takes the place, so that batches stay full (at the end of an epoch with samples of
        its beginning, not ``valid``); batches are then made one after another. ``"fill"``: a black image, not
        ``valid``.
    max_failures : int or float, optional
        Under ``"skip"`` and ``"fill"``: more failures in one epoch than this number, or than this fraction of the
        rank's samples, raise a :class:`DecodeError`.
    progress : bool
        Show a progress bar (needs tqdm) with images/s and what limits them.
    stream : int or stream, optional
        The consumer's CUDA stream, by default CuPy's current one: a batch is ready for work enqueued there.
    color, max_pixels
        As in :func:`open_batch`.

    Returns
    -------
    Loader
        Iterate over it for :class:`LoadedBatch`.

    Raises
    ------
    ValueError, TypeError
        For arguments out of range, at the call; for what ``preprocess`` or the source give back, in the loop.
    DecodeError
        In the loop, naming index, source and reason.
    ImportError
        For ``progress`` without tqdm.
    RuntimeError
        In the loop, where a forked child goes on with an iterator of its parent: a new loop in the child works.

    Notes
    -----
    A sample's pixels depend on the seed, the epoch, and its index alone: not on the number of threads, ranks or
    devices, nor, unless ``preprocess`` mixes images, on the batch size. Memory of a batch is used again once
    nothing refers to it, tensors made of it included. Threads end with the loop, with an exception in it, and with
    :meth:`Loader.close`.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (40, 30)).save(file, "JPEG")
    >>> source = [(file.getvalue(), label) for label in range(5)]
    >>> train = gpuimg.presets.imagenet_train(8)
    >>> for batch in gpuimg.load(source, train, batch_size=2, shuffle=True, device="cpu"):
    ...     print(batch.images.shape, batch.labels.shape)
    (2, 8, 8, 3) (2,)
    (2, 8, 8, 3) (2,)
    (1, 8, 8, 3) (1,)
    """
    check_source(source)
    batch_size = whole_number(batch_size, "batch_size")
    prefetch, readers = whole_number(prefetch, "prefetch"), whole_number(readers, "readers")
    decoders = None if decoders is None else whole_number(decoders, "decoders")
    epochs = None if epochs is None else whole_number(epochs, "epochs")
    check_words(layout, dtype, on_error)
    check_options(color, max_pixels)
    runtimes = runtimes_for(device, devices)
    if decoders is None:
        decoders = 1 if all(runtime.on_host for runtime in runtimes) else 2
    rank, world = as_shard(shard)
    Rng(seed, indices=[])  # checks the seed
    if drop_last and epochs is None and len(source) < world * batch_size:
        raise ValueError(
            f"drop_last leaves nothing of {len(source)} samples in batches of {batch_size} on {world} ranks"
        )
    return Loader(
        Settings(
            source, adapted(preprocess), batch_size, runtimes, dtype, layout, bool(shuffle), int(seed),
            bool(drop_last), prefetch, readers, decoders, rank, world, on_error, stream_address(stream), color,
            max_pixels,
        ),
        epochs, max_failures, bool(progress),
    )  # fmt: skip


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
        self._most = failure_limit(max_failures, settings.share().count(settings.batch_size, settings.drop_last))
        self._progress_bar = progress_bar() if progress else None
        self._process = -1  # the memory below is this process's
        self._memory: list[ResultMemory] = []
        self._position = Position()
        self._inside = False  # a loop began at an earlier position than the one reached
        self._loop: weakref.ref[_Loop] | None = None
        self._own: _Loop | None = None  # for next(loader)
        self._stats = Stats()
        self.failures: list[Failure] = []
        self.shard = settings.rank, settings.world

    def __len__(self) -> int:
        """Batches of a whole loop."""
        if self._epochs is None:
            raise TypeError("an endless loader has no length")
        return self._epochs * self._batches(self._settings.share())

    def _batches(self, share: Share) -> int:
        settings = self._settings
        return -(-share.count(settings.batch_size, settings.drop_last) // settings.batch_size)

    def __repr__(self) -> str:
        settings = self._settings
        devices = ", ".join(runtime.name for runtime in settings.runtimes)
        return (
            f"<gpuimg.Loader of {counted(settings.samples, 'sample')}, batches of {settings.batch_size} on {devices}, "
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
        bar = None if self._progress_bar is None else self._progress_bar(**self._bar(start, last))
        if self._process != os.getpid():  # in a forked child a thread of the parent's may have held the pool's lock
            self._process = os.getpid()
            self._memory = [runtime.result_memory(self._settings.stream) for runtime in self._settings.runtimes]
        pipeline = Pipeline(self._settings, self._memory, start, last)
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
        total = None if last is None else rest + (last - start.epoch - 1) * whole
        return {"total": total, "unit": "image", "unit_scale": True, "dynamic_ncols": True}

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
        """
        at, settings = self._reached(), self._settings
        return {
            "version": 1, "samples": settings.samples, "shuffle": settings.shuffle, "seed": settings.seed,
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
            for name, mine in (("samples", settings.samples), ("shuffle", settings.shuffle)):
                if one[name] != mine:
                    raise ValueError(f"the state was taken with {name}={one[name]}, but this loader has {mine}")
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
            with the ``seconds`` of all their threads together; ``ready``, the batches that were ready on average when
            one was asked for; ``consumer`` with the ``seconds`` it was busy and ``waited``; and ``limit``: ``"read"``,
            ``"record"``, ``"decode"``, ``"kernels"`` or ``"consumer"``.
        """
        return self._stats.summary()

    def _deliver(self, made: Made) -> LoadedBatch:
        made.runtime.wait_event(made.event, self._settings.stream)
        self._position = made.position
        self._inside = True
        self.failures += made.failures
        del self.failures[:-_KEPT]
        failed = self._stats.add(made)
        if self._most is not None and failed > self._most:
            error = DecodeError(tuple(self.failures[-failed:]), self._settings.samples)
            error.add_note(f"these are more than max_failures allows: {self._most} in an epoch")
            raise error
        return made.batch

    def _closed(self, running: _Loop) -> None:
        self._stats.freeze()
        if self._own is running:
            self._own = None

    def _ended(self) -> None:
        """A loop came to its end."""
        self._position = self._reached()
        self._inside = False
        if self._stats.failed:
            failed = self._stats.failed
            listed = self.failures[-failed:][:_LISTED]
            lines = [f"sample {failure.index} ({failure.source}): {failure.reason}" for failure in listed]
            if failed > _LISTED:
                lines.append(f"and {failed - _LISTED:,} more, see Loader.failures")
            what = "left out" if self._settings.on_error == "skip" else "black and not valid"
            message = f"{failed:,} samples could not be decoded and were {what}:\n  " + "\n  ".join(lines)
            warnings.warn(message, RuntimeWarning, stacklevel=3)


class _Loop(Iterator[LoadedBatch]):
    """One loop over a loader. The threads know the pipeline only, so that dropping this ends them."""

    def __init__(self, owner: Callable[[], Loader | None], pipeline: Pipeline, bar: Any) -> None:
        self._owner = owner
        self._batches = pipeline.batches
        self._bar = bar
        self._stop = weakref.finalize(self, _stop, pipeline, bar)

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
        self._stop()


def _stop(pipeline: Pipeline, bar: Any) -> None:
    if pipeline.batches.is_from_parent:  # neither the threads nor the bar are this process's
        return
    pipeline.stop()
    if bar is not None:
        bar.close()
