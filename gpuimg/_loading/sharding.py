"""Order of the samples of an epoch, the share of each rank, and positions at which a run can be resumed.

An epoch is a permutation of all samples; a place is a position in it. The rest of an epoch is described by levels. At
each level, ``world`` ranks split the places that earlier levels left over: rank ``r`` has the places ``r``,
``r + world``, ... of these, and took a number of them. A run that is resumed with another number of ranks starts a new
level. So a position is a few numbers, whatever the size of the data set, and no sample is lost or repeated if the
number of ranks or the batch size changes.

For example, 2 ranks have each taken 3 of 10 places, and 6 to 9 are left. After resuming with 3 ranks, rank 0 has the
places 6 and 9, rank 1 has 7, and rank 2 has 8.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .._checks.types import Ints, Mask

#: Length of a source without a length.
ENDLESS = 1 << 62

_STREAM = np.uint64(int.from_bytes(hashlib.blake2b(b"shuffle", digest_size=8).digest(), "little"))

#: Number of places that each rank took at one level.
Level: TypeAlias = tuple[int, ...]


def shuffled(places: Any, n: int, seed: int, epoch: int) -> Ints:
    """Return the samples at some places of a pseudo-random permutation of ``n`` samples, in constant memory.

    Parameters
    ----------
    places : (M,) int
        From 0 to n - 1.
    n : int
        Number of samples.
    seed, epoch : int
        0 to 2**64 - 1; they select the permutation.

    Returns
    -------
    (M,) int64
    """
    from ..kernels import philox  # imports Numba, which takes as long as all of gpuimg

    given = np.ascontiguousarray(places, np.uint64)
    found = np.empty_like(given)
    philox.shuffle(np.uint64(seed), np.uint64(epoch), _STREAM, np.uint64(n), given, found)
    return found.astype(np.int64)


@dataclass(frozen=True)
class Share:
    """One rank's share of the rest of an epoch of ``n`` samples."""

    n: int
    levels: tuple[Level, ...]
    rank: int
    world: int

    @property
    def left(self) -> int:
        """Number of samples left for all ranks together."""
        left = self.n
        for taken in self.levels:
            left -= sum(min(count, _places_of(left, rank, len(taken))) for rank, count in enumerate(taken))
        return left

    @property
    def first(self) -> int:
        """The first place left, if all ranks took the same number at every level."""
        return self.n - self.left

    def count(self, batch_size: int, drop_last: bool) -> int:
        """Return the number of samples, padding included, that this and every other rank delivers."""
        if drop_last:
            return self.left // (self.world * batch_size) * batch_size
        return -(-self.left // self.world)

    def places(self, start: int, stop: int) -> tuple[Ints, Mask]:
        """Return the places of the rank's samples ``start`` to ``stop - 1``, and a mask that is False for padding.

        A share is continued after its last sample with padding from the start of the epoch: first one place for each
        rank, then the places after it, so that a rank that replaces bad samples reaches all samples in the end.
        """
        left = self.left
        k = np.arange(start, stop, dtype=np.int64) * self.world + self.rank
        real = k < left
        found = np.where(real, k, 0)
        for taken in reversed(self.levels):
            found = _place_before(found, taken)
        extra = k - left
        return np.where(real, found, (extra % self.world + extra // self.world) % self.n), real

    def after(self, taken: Level) -> tuple[Level, ...]:
        """Return the levels of the epoch after each rank took ``taken[rank]`` of its places."""
        if len(set(taken)) > 1:
            return (*self.levels, taken)
        # The same number for all ranks means the first places that were left. Such levels are merged into one.
        first = min(taken[0] * len(taken), self.left)
        if self.levels and len(self.levels[-1]) == 1:
            return (*self.levels[:-1], (self.levels[-1][0] + first,))
        return (*self.levels, (first,))


@dataclass(frozen=True)
class Position:
    """Position of one rank: ``taken`` places of its share of an epoch, of which ``given`` were delivered as samples."""

    epoch: int = 0
    levels: tuple[Level, ...] = ()
    taken: int = 0
    given: int = 0


def resumed(states: Sequence[Mapping[str, Any]], samples: int, rank: int, world: int) -> Position:
    """Return the position at which a rank resumes from states of :meth:`gpuimg.Loader.state_dict`, sorted by rank.

    Raises
    ------
    ValueError
        If the states were not saved together, or some ranks are missing.
    """
    first = states[0]
    for one in states:
        for name in ("seed", "epoch", "levels", "world"):
            if one[name] != first[name]:
                raise ValueError(f"the states were not saved together: {name} is {first[name]} and {one[name]}")
    ranks, before = [int(one["rank"]) for one in states], int(first["world"])
    if len(states) > 1 and ranks != list(range(before)):
        raise ValueError(f"these are states of ranks {ranks}, not of all {before}")
    epoch = int(first["epoch"])
    levels = tuple(tuple(int(count) for count in level) for level in first["levels"])
    if world == before and (rank in ranks or first["alike"]):
        own = states[ranks.index(rank)] if rank in ranks else first
        return Position(epoch, levels, int(own["taken"]), int(own["given"]))
    if len(states) < before and not first["alike"] and first["taken"]:
        raise ValueError(
            f'this state is that of rank {ranks[0]} of {before} under on_error="skip", where ranks advance at their '
            f"own pace; rank {rank} of {world} needs the states of all ranks, as a list"
        )
    taken = tuple(int(one["taken"]) for one in states) if len(states) > 1 else (int(first["taken"]),) * before
    return Position(epoch, Share(samples, levels, 0, before).after(taken) if any(taken) else levels)


def _places_of(n: int, rank: int, world: int) -> int:
    """Return how many of ``n`` places belong to the rank."""
    return max(0, -(-(n - rank) // world))


def _place_before(k: Ints, taken: Level) -> Ints:
    """Map the ``k``-th place that a level left over to its place before that level."""
    world = len(taken)
    order = np.argsort(taken, kind="stable")
    starts = np.sort(np.asarray(taken, np.int64))
    # Row j holds the j-th place of every rank. From row starts[i] on, i + 1 ranks have a place left in each.
    ends = np.cumsum(np.diff(starts) * np.arange(1, world))
    part = np.searchsorted(ends, k, side="right")
    within = k - np.append(0, ends)[part]
    row = starts[part] + within // (part + 1)
    ranks = np.empty_like(k)
    for i in np.unique(part):
        here = part == i
        ranks[here] = np.sort(order[: i + 1])[within[here] % (i + 1)]
    places: Ints = row * world + ranks
    return places
