"""Order of the samples of an epoch, the share of each rank, and positions at which a run can be resumed.

An epoch is a permutation of all samples; a place is a position in it. The rest of an epoch is described by levels. At
each level, ``world`` ranks split the places that earlier levels left over: rank ``r`` has the places ``r``,
``r + world``, ... of these, and took a number of them. A run that is resumed with a different number of ranks starts
a new level. So a position is a few numbers, whatever the size of the data set, and no sample is lost or repeated if
the number of ranks or the batch size changes.

For example, 2 ranks have each taken 3 of 10 places, and 6 to 9 are left. After resuming with 3 ranks, rank 0 has the
places 6 and 9, rank 1 has 7, and rank 2 has 8.

If the samples are shuffled by blocks, each rank takes a number of successive places (a run) in place of one, so that
blocks are not read by all ranks. Places that do not fill a run for each rank are divided into one range for each.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from .._checks.arguments import whole_number
from .._checks.types import Ints, Mask

#: Length of a source without a length.
ENDLESS = 1 << 62

#: Number of places that each rank took at one level.
Level: TypeAlias = tuple[int, ...]


def stream_of(purpose: str) -> np.uint64:
    """Return the number of a stream of random numbers, for :func:`shuffled`."""
    return np.uint64(int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "little"))


_STREAM = stream_of("shuffle")


def shuffled(places: Any, n: int, seed: int, epoch: int, stream: np.uint64 = _STREAM) -> Ints:
    """Return the samples at some places of a pseudo-random permutation of ``n`` samples, in constant memory.

    ``seed``, ``epoch`` and ``stream`` select the permutation.
    """
    from ..kernels import philox  # imports Numba: only when it is used

    given = np.ascontiguousarray(places, np.uint64)
    found = np.empty_like(given)
    philox.shuffle(np.uint64(seed), np.uint64(epoch), stream, np.uint64(n), given, found)
    return found.astype(np.int64)


@dataclass(frozen=True)
class Share:
    """One rank's share of the rest of an epoch of ``n`` samples; ``run`` successive places are taken together."""

    n: int
    levels: tuple[Level, ...]
    rank: int
    world: int
    run: int = 1

    @property
    def left(self) -> int:
        """Number of samples left for all ranks together."""
        left = self.n
        for taken in self.levels:
            left -= _count(left, taken)
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
        k = np.arange(start, stop, dtype=np.int64)
        found = k * self.world + self.rank
        real = found < left
        extra = found[~real] - left
        found[real] = _before(self.n, self.levels, self.run, self._dealt(k[real], left))
        found[~real] = (extra % self.world + extra // self.world) % self.n
        return found, real

    def _dealt(self, k: Ints, left: int) -> Ints:
        """Return the places of the rank's samples ``k``, counted among the places that are left."""
        if self.run == 1:  # the usual case: no division
            return k * self.world + self.rank
        row = self.world * self.run
        whole, first = left // row * self.run, _first_of_rest(left, self.world, self.run)[self.rank]
        dealt: Ints = np.where(k < whole, k // self.run * row + self.rank * self.run + k % self.run, first + k - whole)
        return dealt

    def after(self, taken: Level) -> tuple[Level, ...]:
        """Return the levels of the epoch after each rank took ``taken[rank]`` of its places."""
        left, count, world = self.left, taken[0], len(taken)
        whole = left // (world * self.run) * self.run
        in_order = world == 1 or count * world >= left or (count <= whole and count % self.run == 0)
        if len(set(taken)) > 1 or not in_order:
            return (*self.levels, taken)
        # The first places that were left, in order. Such levels are merged into one.
        first = min(count * world, left)
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


def checked_states(state: Any) -> list[dict[str, Any]]:
    """Return states of :meth:`gpuimg.Loader.state_dict`, one or a list of them, sorted by rank; refuse others."""
    states = [state] if isinstance(state, Mapping) else state
    if not isinstance(states, (list, tuple)) or not states or not all(isinstance(one, Mapping) for one in states):
        raise TypeError(f"state must be a dict of Loader.state_dict, or a list of them, not {state!r}")
    return sorted(map(_checked, states), key=lambda one: one["rank"])


def _checked(state: Mapping[str, Any]) -> dict[str, Any]:
    if state.get("version") != 1:
        raise ValueError(f"unknown version of a loader's state_dict: {state.get('version')!r}; this gpuimg knows 1")
    found = dict(state)
    for name, low in {"seed": 0, "epoch": 0, "world": 1, "rank": 0, "taken": 0, "given": 0}.items():
        found[name] = whole_number(state.get(name), f"{name!r} of the state", low, (1 << 64) - 1)
    levels = state.get("levels")
    if not isinstance(levels, (list, tuple)) or not all(isinstance(one, (list, tuple)) and one for one in levels):
        raise ValueError(f"'levels' of the state must be a list of lists, not {levels!r}")
    found["levels"] = tuple(tuple(whole_number(count, "'levels' of the state", 0) for count in one) for one in levels)
    if state.get("alike") not in (True, False):
        raise ValueError(f"'alike' of the state must be True or False, not {state.get('alike')!r}")
    return found


def resumed(states: Sequence[Mapping[str, Any]], samples: int, rank: int, world: int, run: int = 1) -> Position:
    """Return the position at which a rank resumes from the result of :func:`checked_states`."""
    first = states[0]
    for one in states:
        for name in ("seed", "epoch", "levels", "world"):
            if one[name] != first[name]:
                raise ValueError(f"the states were not saved together: {name} is {first[name]} and {one[name]}")
    ranks, before = [one["rank"] for one in states], first["world"]
    if len(states) > 1 and ranks != list(range(before)):
        raise ValueError(f"these are states of ranks {ranks}, not of all {before}")
    epoch, levels = first["epoch"], first["levels"]
    if world == before and (rank in ranks or first["alike"]):
        own = states[ranks.index(rank)] if rank in ranks else first
        return Position(epoch, levels, own["taken"], own["given"])
    if len(states) < before and not first["alike"] and first["taken"]:
        raise ValueError(
            f'this state is that of rank {ranks[0]} of {before} under on_error="skip", where ranks advance at their '
            f"own pace; rank {rank} of {world} needs the states of all ranks, as a list"
        )
    taken = tuple(one["taken"] for one in states) if len(states) > 1 else (first["taken"],) * before
    return Position(epoch, Share(samples, levels, 0, before, run).after(taken) if any(taken) else levels)


def _count(left: int, taken: Level) -> int:
    """Return how many places all ranks took of those that were left."""
    return sum(min(count, max(0, -(-(left - rank) // len(taken)))) for rank, count in enumerate(taken))


def _first_of_rest(left: int, world: int, run: int) -> Ints:
    """Return for each rank the first of its places that do not fill a run for each rank; and the end of the last."""
    rest = left % (world * run)
    ranks = np.arange(world + 1)
    first: Ints = left - rest + ranks * (rest // world) + np.minimum(ranks, rest % world)
    return first


def _before(n: int, levels: tuple[Level, ...], run: int, k: Ints) -> Ints:
    """Map the ``k``-th places that some levels of an epoch left over to places of the epoch."""
    lefts = [n]
    for taken in levels[:-1]:
        lefts.append(lefts[-1] - _count(lefts[-1], taken))
    for left, taken in reversed(list(zip(lefts, levels, strict=False))):
        starts, ends = _ranges_left(left, taken, run)
        part = np.searchsorted(ends, k, side="right")
        k = starts[part] + k - np.append(0, ends)[part]
    return k


@lru_cache(64)
def _ranges_left(left: int, taken: Level, run: int) -> tuple[Ints, Ints]:
    """Return the ranges of places that a level left over: their starts, and how many places end with each."""
    world, count = len(taken), np.array(taken, np.int64)
    rows = left // (world * run)  # each of a run for each rank
    begun = np.arange(min(int(count.min()) // run, rows), min(int(count.max()) // run + 1, rows))[:, None]
    gone = np.clip(count - begun * run, 0, run)
    starts = [((begun * world + np.arange(world)) * run + gone).ravel()]
    sizes = [(run - gone).ravel()]
    untouched = int(begun[-1, 0] + 1 if begun.size else rows) * world * run
    rest = _first_of_rest(left, world, run)
    gone = np.clip(count - rows * run, 0, np.diff(rest))
    starts += [np.array([untouched]), rest[:-1] + gone]
    sizes += [np.array([rest[0] - untouched]), np.diff(rest) - gone]
    lengths = np.concatenate(sizes)
    return np.concatenate(starts)[lengths > 0], np.cumsum(lengths[lengths > 0])


# (rank, world size) by launcher: torchrun and Accelerate; a Slurm job step; Open MPI; MPICH and Intel MPI. Outside a
# step, in an sbatch script, SLURM_NTASKS counts tasks that are not peers of this process.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def as_shard(shard: Any) -> tuple[int, int]:
    """Return rank and world size for the ``shard`` argument: a pair, or "auto"."""
    if isinstance(shard, str) and shard == "auto":
        return _shard_of_launcher()
    if isinstance(shard, (str, bytes)) or not isinstance(shard, (Sequence, np.ndarray)) or len(shard) != 2:
        raise ValueError(f'shard must be (rank, world) or "auto", not {shard!r}')
    return _rank_and_world(shard[0], shard[1], "the rank of shard", "the world size of shard")


def _shard_of_launcher() -> tuple[int, int]:
    """Return rank and world size of the first launcher that sets both; (0, 1) without one."""
    for rank, world in _LAUNCHERS:
        if rank in os.environ and world in os.environ:
            return _rank_and_world(_number(rank), _number(world), rank, world)
    if os.environ.get("WORLD_SIZE", "1") != "1":  # Lightning's launcher: every process would have all samples
        raise ValueError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but RANK, the number of this process, is not set: "
            "pass shard=(rank, world), in Lightning shard=(trainer.global_rank, trainer.world_size)"
        )
    return 0, 1


def _number(variable: str) -> Any:
    text = os.environ[variable]
    return int(text) if text.strip().isdecimal() else text


def _rank_and_world(rank: Any, world: Any, rank_name: str, world_name: str) -> tuple[int, int]:
    size = whole_number(world, world_name)
    return whole_number(rank, rank_name, 0, size - 1), size
