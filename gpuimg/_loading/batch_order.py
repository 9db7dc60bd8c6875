"""Order of an epoch of batches whose samples belong to one group, computed for any batch of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks.types import Ints
from .order import Order
from .sharding import shuffled, stream_of

_BATCHES, _WITHIN = stream_of("shuffle batches"), stream_of("shuffle within a group")


class Groups(NamedTuple):
    """Groups of samples, whose batches are of one group each."""

    group: NDArray[np.int32]  # (N,) of each sample
    most: Ints  # (G,): samples of a batch of each group
    targets: NDArray[np.int32]  # (N, 2): height and width to which each sample is resized


class BatchSamples(NamedTuple):
    """Samples of a batch."""

    indices: Ints
    copies: NDArray[np.uint64] | None  # number of each copy; None if all are the first ones
    targets: NDArray[np.int32]  # (M, 2)


class BatchOrder:
    """Order of batches. Each place of an epoch is a batch; an epoch has the same number of them whatever the order.

    Samples are shuffled within their group, and batches among each other. With ``drop_last`` there are only batches
    with as many samples as their group allows; the others are left out, other ones in each epoch.
    """

    run = 1  # places that a rank takes together

    def __init__(
        self, samples: Order, groups: Groups, drop_last: bool, target_sizes: Callable[[Ints], NDArray[np.int32]]
    ) -> None:
        """Build the order of batches from a plain order of samples, without weights and repeats."""
        self.target_sizes = target_sizes
        self.shuffle = samples.shuffle
        self._samples, self._targets, self._most = samples, groups.targets, groups.most
        self._members = np.argsort(groups.group, kind="stable").astype(np.int32)  # samples, sorted by group
        self._sizes = np.bincount(groups.group, minlength=len(groups.most))
        self._starts = np.cumsum(self._sizes) - self._sizes
        batches = self._sizes // self._most if drop_last else -(-self._sizes // self._most)
        self._ends = np.cumsum(batches)  # number of batches up to each group
        self.choices = int(self._ends[-1])  # number of places
        self.samples = len(groups.group)
        numbers = np.arange(self.choices)
        group, first = self._located(numbers)
        self._listed = numbers[np.argsort(self._members[self._starts[group] + first], kind="stable")]

    def _located(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return the groups of batches, and the position of their first samples in these."""
        group = np.searchsorted(self._ends, numbers, side="right")
        return group, (numbers - np.append(0, self._ends)[group]) * self._most[group]

    def _numbers(self, places: Ints, seed: int, epoch: int) -> Ints:
        return shuffled(places, self.choices, seed, epoch, _BATCHES) if self.shuffle else self._listed[places]

    def lengths(self, places: Ints, seed: int, epoch: int) -> Ints:
        """Return the numbers of samples of the batches at some places."""
        group, first = self._located(self._numbers(places, seed, epoch))
        lengths: Ints = np.minimum(self._most[group], self._sizes[group] - first)
        return lengths

    def at(self, place: int, seed: int, epoch: int) -> BatchSamples:
        """Return the batch at a place."""
        groups, firsts = self._located(self._numbers(np.array([place]), seed, epoch))
        group, first = int(groups[0]), int(firsts[0])
        size = int(self._sizes[group])
        k = np.arange(first, min(first + int(self._most[group]), size))
        if self.shuffle:
            k = shuffled(k, size, seed, epoch, _WITHIN + np.uint64(group))
        chosen = self._members[self._starts[group] + k].astype(np.int64)
        copies = None if self._samples.copies is None else self._samples.copies[chosen]
        return BatchSamples(self._samples.indices_of(chosen), copies, self._targets[chosen])

    def digest(self) -> str:
        """Return a digest of the batches, whatever the seed."""
        found = hashlib.blake2b(f"{self.choices} {self._samples.digest()}".encode(), digest_size=16)
        for part in (self._members, self._sizes, self._most):
            found.update(part.tobytes())
        return found.hexdigest()
