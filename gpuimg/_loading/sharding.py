"""Which samples come when: the order of an epoch, a rank's share of it, and what of it was taken already.

An epoch is an order of all samples. What is left of it at some point is described by levels: at each level ``world``
ranks took turns (rank ``r`` has places ``r``, ``r + world``, ...) and each took a number of its places. A run that is
resumed with another number of ranks deals out what the levels before left over. So a position is a few numbers,
whatever the size of the data set, and no sample is lost or doubled when the number of ranks or the batch size change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .._checks.types import Ints, Mask

#: In place of the length of a source that has none.
ENDLESS = 1 << 62

_STREAM = np.uint64(int.from_bytes(hashlib.blake2b(b"shuffle", digest_size=8).digest(), "little"))

#: Places taken by each rank of one part of an epoch.
Level: TypeAlias = tuple[int, ...]


def shuffled(places: Any, n: int, seed: int, epoch: int) -> Ints:
    """Samples at the given places of a pseudo-random order of ``n`` samples; nothing of size ``n`` is made.

    Parameters
    ----------
    places : (M,) int
        From 0 to n - 1.
    n : int
    seed, epoch : int
        0 to 2**64 - 1; others give another order.

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
    """One rank's share of what is left of an epoch of ``n`` samples."""

    n: int
    levels: tuple[Level, ...]
    rank: int
    world: int

    @property
    def left(self) -> int:
        """Samples left for all ranks together."""
        left = self.n
        for taken in self.levels:
            left -= sum(min(count, _lane(left, rank, len(taken))) for rank, count in enumerate(taken))
        return left

    @property
    def first(self) -> int:
        """The first place of what is left, where all ranks took the same number at every level."""
        return self.n - self.left

    def count(self, batch_size: int, drop_last: bool) -> int:
        """Samples that this rank delivers, padding included: the same number for every rank."""
        if drop_last:
            return self.left // (self.world * batch_size) * batch_size
        return -(-self.left // self.world)

    def places(self, start: int, stop: int) -> tuple[Ints, Mask]:
        """Places in the epoch's order of the rank's samples ``start`` to ``stop - 1``, and which are not padding.

        Behind its last sample a share goes on with the epoch's first ones, as padding: the ranks with one each, and
        each with those behind its own, so that it comes to all samples where bad ones make it go on.
        """
        left = self.left
        k = np.arange(start, stop, dtype=np.int64) * self.world + self.rank
        real = k < left
        found = np.where(real, k, 0)
        for taken in reversed(self.levels):
            found = _place_before(found, taken)
        behind = k - left
        return np.where(real, found, (behind % self.world + behind // self.world) % self.n), real

    def after(self, taken: Level) -> tuple[Level, ...]:
        """Levels of the epoch once the ranks of this share's world took so many of their places."""
        if len(set(taken)) > 1:
            return (*self.levels, taken)
        # All ranks alike is a number of first places; those of several levels add up.
        first = min(taken[0] * len(taken), self.left)
        if self.levels and len(self.levels[-1]) == 1:
            return (*self.levels[:-1], (self.levels[-1][0] + first,))
        return (*self.levels, (first,))


@dataclass(frozen=True)
class Position:
    """Where one rank stands: ``taken`` places of its share of an epoch, of which ``given`` became samples."""

    epoch: int = 0
    levels: tuple[Level, ...] = ()
    taken: int = 0
    given: int = 0


def resumed(states: Sequence[Mapping[str, Any]], samples: int, rank: int, world: int) -> Position:
    """Where states of a loader (see :meth:`gpuimg.Loader.state_dict`), in the order of their ranks, leave one rank.

    Raises
    ------
    ValueError
        For states that do not belong together, or are too few.
    """
    first = states[0]
    for one in states:
        for name in ("seed", "epoch", "levels", "world"):
            if one[name] != first[name]:
                raise ValueError(f"the states do not belong together: {name} is {first[name]} and {one[name]}")
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


def _lane(n: int, rank: int, world: int) -> int:
    """How many of ``n`` places are the rank's."""
    return max(0, -(-(n - rank) // world))


def _place_before(k: Ints, taken: Level) -> Ints:
    """Places, before a level, of the ``k``-th ones that it left."""
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
