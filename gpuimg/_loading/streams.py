"""Batches of sources without a length: blocks of samples, split among the ranks."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, count, islice
from typing import Any, NamedTuple

import numpy as np

from .._checks.text import counted
from .._io.native_read import ChunkReader
from .._runtimes.attempt import Attempt
from .order import Blocks
from .pipeline import Drawn, FinishedBatch, Pipeline
from .prefetch import Prefetcher
from .samples import Sample, with_data
from .sharding import ENDLESS, Position

_AHEAD = 2  # batches read ahead
Item = tuple[int, Any]  # place in the stream, and the item from there


class PendingBatch(NamedTuple):
    """A batch whose files are to be read."""

    items: list[Item]
    padding: int  # number of padding items, at the end
    epoch: int
    after: Position


class StreamPipeline(Pipeline):
    """Pipeline of a source whose epochs end where its iterator does."""

    def _jobs(self) -> Iterator[Callable[[], Attempt[FinishedBatch]]]:
        jobs = (partial(self._read_batch, pending) for pending in self._pending())
        reader = self._started(Prefetcher(jobs, _AHEAD, min(self._reading.readers, _AHEAD), "read"))
        for number in count():
            try:
                samples, pending = reader.get()
            except StopIteration:
                return
            yield partial(self._attempt, Drawn(number, samples, pending.epoch, pending.after))
            del samples

    def _read_batch(self, pending: PendingBatch) -> tuple[list[Sample], PendingBatch]:
        real = len(pending.items) - pending.padding
        rank, world = (self._schedule.rank, self._schedule.world) if self._reading.source.sharded else (0, 1)
        samples = [
            Sample(self._reading.source, place * world + rank, k < real) for k, (place, _) in enumerate(pending.items)
        ]
        reader = ChunkReader(max_bytes=self._reading.decode.max_bytes)
        with_data(samples, [item for _, item in pending.items], self._reading.columns, reader)
        with self._lock:  # readers add concurrently
            self.read_seconds += reader.seconds
        return samples, pending

    # -- blocks of a stream ----------------------------------------------------------------------------------------

    def _pending(self) -> Iterator[PendingBatch]:
        position, last = self._start
        while last is None or position.epoch < last:
            yield from self._epoch(position)
            position = Position(position.epoch + 1)

    def _epoch(self, position: Position) -> Iterator[PendingBatch]:
        """Yield the rank's batches of the rest of an epoch; a block is read ahead to detect the last batch."""
        source, schedule = self._reading.source, self._schedule
        world = 1 if source.sharded else schedule.world
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
            items_, padding = self._own(block, first)
            given += len(items_)
            over = not following or self._dropped(following)
            after = Position(position.epoch, position.levels, given, ENDLESS if over else given)
            yield PendingBatch(items_, padding, position.epoch, after)
            block = following

    def _dropped(self, block: list[Item]) -> bool:
        whole = self._schedule.batch_size * (1 if self._reading.source.sharded else self._schedule.world)
        return self._schedule.drop_last and len(block) < whole

    def _own(self, block: list[Item], first: list[Item]) -> tuple[list[Item], int]:
        """Return the rank's items of a block, as many as any other rank has, and how many of them are padding."""
        rank, world = (0, 1) if self._reading.source.sharded else (self._schedule.rank, self._schedule.world)
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
