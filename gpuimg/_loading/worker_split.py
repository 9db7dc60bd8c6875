"""Which batches of a loop a loader makes: all of its rank's, or those of one of several workers, which take turns.

Workers deal out batches, not samples: the batches are those of a loader alone, as many and in the same order where one
asks the workers in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from .settings import Settings
from .sharding import Position


class Epoch(NamedTuple):
    """What a loop has of one epoch."""

    position: Position  # where the loop enters it
    left: int  # samples of the rank from there on
    first: int  # batches of the loop before it


class Deal:
    """The batches of a loop from a position to the epoch ``last``, all of them where that is None."""

    def __init__(self, settings: Settings, position: Position, last: int | None) -> None:
        self._settings = settings
        self._position = position
        self._last = last

    def epochs(self) -> Iterator[Epoch]:
        """The epochs of the loop."""
        first = 0
        for position in _epochs(self._position, self._last):
            epoch = Epoch(position, self._left(position), first)
            first += self._batches(epoch.left)
            yield epoch

    def own(self, epoch: Epoch) -> range:
        """Batches of an epoch that this loader makes, counted from where the loop enters it."""
        settings = self._settings
        first = (settings.worker - epoch.first) % settings.workers
        return range(first, self._batches(epoch.left), settings.workers)

    def size(self, epoch: Epoch, batch: int) -> int:
        """Samples of a batch."""
        return min(self._settings.batch_size, epoch.left - batch * self._settings.batch_size)

    def spans(self, epoch: Epoch) -> Iterator[tuple[int, int]]:
        """Places of the rank's share of an epoch that this loader's batches hold, from and to."""
        start, step = epoch.position.taken, self._settings.batch_size
        if self._settings.workers == 1:  # in one piece: readers take as much at a time as they like
            yield start, start + epoch.left
            return
        for batch in self.own(epoch):
            yield start + batch * step, start + batch * step + self.size(epoch, batch)

    def after(self, epoch: Epoch, batch: int) -> Position:
        """Where the consumer of a batch stands: behind it, and with several workers behind the whole turn."""
        workers = self._settings.workers
        batches = (epoch.first + batch) // workers * workers + workers - epoch.first
        position, left = epoch.position, epoch.left
        while batches > self._batches(left) and (self._last is None or position.epoch + 1 < self._last):
            batches -= self._batches(left)
            position = Position(position.epoch + 1)
            left = self._left(position)
        given = min(batches * self._settings.batch_size, left)
        return replace(position, taken=position.taken + given, given=position.given + given)

    def _batches(self, samples: int) -> int:
        return -(-samples // self._settings.batch_size)

    def _left(self, position: Position) -> int:
        settings = self._settings
        return settings.share(position.levels).count(settings.batch_size, settings.drop_last) - position.given


def _epochs(position: Position, last: int | None) -> Iterator[Position]:
    """A position, and the starts of the epochs behind it up to the one before ``last``."""
    yield position
    epochs = count(position.epoch + 1) if last is None else range(position.epoch + 1, last)
    for epoch in epochs:
        yield Position(epoch)
