"""Batches of sources without a length: blocks of samples, split among the ranks."""

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np

from .._checks.text import counted
from .._io.native_read import ChunkReader
from .order import Blocks
from .prefetch import Prefetcher
from .reading import DrawnBatch, ReadChunk, Reader
from .samples import Sample, with_data
from .sharding import ENDLESS, Position

_AHEAD = 2  # batches read ahead
Item: TypeAlias = tuple[int, Any]  # place in the stream, and the item from there
Pending: TypeAlias = tuple[list[Item], int, Position]  # items of a batch; padding, at their end; the position after it


class StreamReader(Reader):
    """Reader of a source whose epochs end where its iterator does."""

    def batches(self) -> Iterator[DrawnBatch]:
        """Return the batches of the loop as they were read."""
        jobs = (partial(self._read_items, *pending) for pending in self._pending())
        self._begin(Prefetcher(jobs, _AHEAD, min(self.reading.readers, _AHEAD), "read"))
        yield from iter(self._next_batch, None)  # keeps no batch

    def _next_batch(self) -> DrawnBatch:
        chunk = self._next_chunk()
        return DrawnBatch(chunk.samples, chunk.after)

    def _read_items(self, items: list[Item], padding: int, after: Position) -> ReadChunk:
        source, schedule = self.reading.source, self.schedule
        rank, world = (schedule.rank, schedule.world) if source.sharded else (0, 1)
        real = len(items) - padding
        samples = [Sample(source, place * world + rank, k < real) for k, (place, _) in enumerate(items)]
        reader = ChunkReader(max_bytes=self.reading.decode.max_bytes)
        with_data(samples, [item for _, item in items], self.reading.columns, reader)
        return ReadChunk(samples, reader.seconds, 0.0, after=after)

    def _pending(self) -> Iterator[Pending]:
        for position, _ in self.schedule.epochs_from(*self._start):
            yield from self._epoch(position)

    def _epoch(self, position: Position) -> Iterator[Pending]:
        """Yield the rank's batches of the rest of an epoch; a block is read ahead to detect the last batch."""
        source, schedule, (_, world) = self.reading.source, self.schedule, self._split
        items = source.begin(schedule.rank, schedule.world)
        if schedule.order.shuffle:
            items = shuffled_within(items, source.buffer, schedule.seed, position.epoch)
        else:
            items = enumerate(items)
        first = list(islice(items, world))  # used as padding of the last batch
        before = schedule.share(position.epoch, position.levels).first + position.taken * world
        rest = islice(chain(first, items), before, None)
        given = position.given
        block = list(islice(rest, world * schedule.batch_size))
        if not first or (not before and self._dropped(block)):
            left_out = f"drop_last leaves no full batch of {counted(len(block), 'sample')}"
            raise ValueError(f"{source!r}: {left_out if first else 'it yielded no samples'}")
        while block and not self._dropped(block):
            following = list(islice(rest, world * schedule.batch_size))
            own, padding = self._own(block, first)
            given += len(own)
            over = not following or self._dropped(following)
            after = Position(position.epoch, position.levels, given, ENDLESS if over else given)
            yield own, padding, after
            block = following

    def _dropped(self, block: list[Item]) -> bool:
        return self.schedule.drop_last and len(block) < self.schedule.batch_size * self._split[1]

    @property
    def _split(self) -> tuple[int, int]:
        """Rank and number of the ranks that take turns at the items; a sharded stream has the rank's own."""
        return (0, 1) if self.reading.source.sharded else (self.schedule.rank, self.schedule.world)

    def _own(self, block: list[Item], first: list[Item]) -> tuple[list[Item], int]:
        """Return the rank's items of a block, as many as any other rank has, and how many of them are padding."""
        rank, world = self._split
        own = block[rank::world]
        padding = -(-len(block) // world) - len(own)
        extra = (len(own) * world + rank - len(block)) % world
        return own + [first[extra % len(first)]] * padding, padding


def shuffled_within(items: Iterator[Any], buffer: int, seed: int, epoch: int) -> Iterator[Item]:
    """Yield items with their places, shuffled: the next one is drawn from a buffer of ``buffer`` items."""
    draws = np.random.Philox(key=np.array([seed, epoch], np.uint64))  # NumPy guarantees the numbers of this generator
    buffered: list[Item] = []

    def drawn() -> Item:
        chosen = int(draws.random_raw()) * len(buffered) >> 64  # 64 random bits scaled to the buffer
        buffered[chosen], buffered[-1] = buffered[-1], buffered[chosen]
        return buffered.pop()

    for item in enumerate(items):
        buffered.append(item)
        if len(buffered) >= buffer:
            yield drawn()
    while buffered:
        yield drawn()


def check_stream(
    batches: Any, shuffle: Any, on_error: str, max_failures: Any, clips: Any, choice: tuple[Any, Any, Any]
) -> None:
    """Reject options that need a length or an index."""
    if batches is not None:
        raise ValueError("batches needs a source with a length, not a stream, whose samples have no indices")
    if isinstance(shuffle, Blocks):
        raise ValueError("shuffle=Blocks needs a source with a length; a stream is shuffled within its buffer by True")
    if on_error == "skip":
        raise ValueError(
            'on_error="skip" needs a source with a length; with a stream use "fill" and ignore samples not valid'
        )
    if isinstance(max_failures, (float, np.floating)):
        raise ValueError("max_failures must be a whole number for a stream, as its length is unknown")
    if clips is not None:
        raise ValueError("clips need a source with a length, not a stream")
    indices, weights, repeats = choice
    if indices is not None or weights is not None or repeats != 1:
        raise ValueError("indices, weights and repeats need a source with a length, not a stream")
