"""Schedule of the batches of a loop, and its split among the workers of a ``DataLoader``.

Batches are split, not samples: worker ``w`` of ``n`` makes the batches ``w, w + n, ...`` of its rank. A consumer that
takes one batch from each worker in turn gets the batches of a loader without workers, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from .settings import Settings
from .sharding import Position


class Epoch(NamedTuple):
    """The part of an epoch that a loop goes through."""

    position: Position  # at which the loop enters the epoch
    left: int  # samples of the rank from there on
    first: int  # number of batches of the loop in earlier epochs


class BatchSchedule:
    """Batches of a loop, from a position to the epoch before ``last``; endless if that is None."""

    def __init__(self, settings: Settings, position: Position, last: int | None) -> None:
        self._settings = settings
        self._position = position
        self._last = last

    def epochs(self) -> Iterator[Epoch]:
        """Yield the epochs of the loop."""
        first = 0
        for position in _epochs(self._position, self._last):
            epoch = Epoch(position, self._left(position), first)
            first += self._batches(epoch.left)
            yield epoch

    def own(self, epoch: Epoch) -> range:
        """Return the batches of an epoch that this worker makes, numbered from where the loop enters the epoch."""
        settings = self._settings
        first = (settings.worker - epoch.first) % settings.workers
        return range(first, self._batches(epoch.left), settings.workers)

    def size(self, epoch: Epoch, batch: int) -> int:
        """Return the number of samples of a batch."""
        return min(self._settings.batch_size, epoch.left - batch * self._settings.batch_size)

    def spans(self, epoch: Epoch) -> Iterator[tuple[int, int]]:
        """Yield ranges (start, stop) of places in the rank's share of an epoch that this worker reads."""
        start, step = epoch.position.taken, self._settings.batch_size
        if self._settings.workers == 1:  # a single range, which readers split into chunks of any size
            yield start, start + epoch.left
            return
        for batch in self.own(epoch):
            yield start + batch * step, start + batch * step + self.size(epoch, batch)

    def after(self, epoch: Epoch, batch: int) -> Position:
        """Return the position after a batch: with several workers, after the current batches of all of them."""
        workers = self._settings.workers
        # Batches of this epoch, rounded up to a whole turn of the workers since the loop began.
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
    """Yield a position, then the starts of the following epochs up to the one before ``last``."""
    yield position
    epochs = count(position.epoch + 1) if last is None else range(position.epoch + 1, last)
    for epoch in epochs:
        yield Position(epoch)
