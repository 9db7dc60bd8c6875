"""Batches of sources without a length: whole blocks of what comes, of which each rank has its turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np

from .._checks.text import counted
from .._io.native_read import ChunkReader
from ..sources.stream import Stream
from .pipeline import Made, Pipeline
from .prefetch import Prefetcher, Stopped
from .samples import Sample, finished
from .sharding import ENDLESS, Position

_AHEAD = 2  # batches that are read ahead
Item = tuple[int, Any]  # place in the stream, and what it gave


class Coming(NamedTuple):
    """A batch that is to be read."""

    items: list[Item]
    padding: int  # of them, at the end
    epoch: int
    after: Position


class StreamPipeline(Pipeline):
    """As :class:`Pipeline`, where only going on tells where an epoch ends."""

    def _jobs(self) -> Iterator[Callable[[], Made]]:
        with self._lock:
            if self._stopped:
                raise Stopped
            jobs = (partial(self._read_batch, coming) for coming in self._coming())
            reader = Prefetcher(jobs, _AHEAD, min(self._settings.readers, _AHEAD), "read")
            self._reader = reader  # type: ignore[assignment]
        for number in count():
            try:
                samples, coming = reader.get()
            except StopIteration:
                return
            yield partial(self._make, number, samples, coming.epoch, coming.after)
            del samples

    def _read_batch(self, coming: Coming) -> tuple[list[Sample], Coming]:
        settings, real = self._settings, len(coming.items) - coming.padding
        rank, world = (settings.rank, settings.world) if settings.source.sharded else (0, 1)
        samples = [Sample(settings.source, place * world + rank, k < real) for k, (place, _) in enumerate(coming.items)]
        reader = ChunkReader(max_bytes=settings.options.max_bytes)
        finished(samples, [item for _, item in coming.items], settings.columns, reader)
        self.read_seconds += reader.seconds
        return samples, coming

    # -- blocks of a stream ----------------------------------------------------------------------------------------

    def _coming(self) -> Iterator[Coming]:
        position, last = self._start
        while last is None or position.epoch < last:
            yield from self._epoch(position)
            position = Position(position.epoch + 1)

    def _epoch(self, position: Position) -> Iterator[Coming]:
        """The rank's batches of what is left of an epoch; which is the last one shows when the next block is there."""
        settings, source = self._settings, self._settings.source
        world = 1 if source.sharded else settings.world
        items = source.begin(settings.rank, settings.world)
        if settings.shuffle:
            items = shuffled_within(items, source.buffer, settings.seed, position.epoch)
        else:
            items = enumerate(items)
        first = list(islice(items, world))  # padding, if it comes to that
        before = settings.share(position.levels).first + position.taken * world
        rest = islice(_chained(first, items), before, None)
        given = position.given
        block = list(islice(rest, world * settings.batch_size))
        if not first or (not before and self._dropped(block)):
            why = f"drop_last leaves nothing of {counted(len(block), 'sample')}" if first else "it gave no samples"
            raise ValueError(f"{source!r}: {why}")
        while block and not self._dropped(block):
            following = list(islice(rest, world * settings.batch_size))
            items_, padding = self._own(block, first)
            given += len(items_)
            over = not following or self._dropped(following)
            after = Position(position.epoch, position.levels, given, ENDLESS if over else given)
            yield Coming(items_, padding, position.epoch, after)
            block = following

    def _dropped(self, block: list[Item]) -> bool:
        settings = self._settings
        whole = settings.batch_size * (1 if settings.source.sharded else settings.world)
        return settings.drop_last and len(block) < whole

    def _own(self, block: list[Item], first: list[Item]) -> tuple[list[Item], int]:
        """The rank's turns of a block, as many as those of any other, and how many of them are padding."""
        settings = self._settings
        rank, world = (0, 1) if settings.source.sharded else (settings.rank, settings.world)
        own = block[rank::world]
        padding = -(-len(block) // world) - len(own)
        behind = (len(own) * world + rank - len(block)) % world
        return own + [first[behind % len(first)]] * padding, padding


def _chained(first: list[Item], rest: Iterator[Item]) -> Iterator[Item]:
    yield from first
    yield from rest


def shuffled_within(items: Iterator[Any], buffer: int, seed: int, epoch: int) -> Iterator[Item]:
    """Items with their places in a random order, which depends on seed and epoch: one of ``buffer`` comes next."""
    draws = np.random.Philox(key=np.array([seed, epoch], np.uint64))  # whose numbers are NumPy's promise
    held: list[Item] = []

    def drawn() -> Item:
        chosen = int(draws.random_raw()) * len(held) >> 64
        held[chosen], held[-1] = held[-1], held[chosen]
        return held.pop()

    for item in enumerate(items):
        held.append(item)
        if len(held) >= buffer:
            yield drawn()
    while held:
        yield drawn()


def check_stream(source: Stream, on_error: str, max_failures: Any, index: Any, clips: Any) -> None:
    """Refuse what needs a length or numbers.

    Raises
    ------
    ValueError
        Saying what, and what to do instead.
    """
    if on_error == "skip":
        raise ValueError(
            'on_error="skip" needs a source with a length; with a stream use "fill", and leave out what is not valid'
        )
    if isinstance(max_failures, (float, np.floating)):
        raise ValueError("max_failures must be a whole number for a stream, whose length nobody knows")
    if index is not None or clips is not None:
        raise ValueError("index and clips need a source with a length, not a stream")
