"""Order of the samples of an epoch, the share of each rank, and positions at which a run can be resumed.

An epoch is a permutation of all samples; a place is a position in it. The rest of an epoch is described by levels. At
each level, ``world`` ranks split the places that earlier levels left over: rank ``r`` has the places ``r``,
``r + world``, ... of these, and took a number of them. A run that is resumed with a different number of ranks starts
a new level. So a position is a few numbers, whatever the size of the data set, and no sample is lost or repeated if
the number of ranks or the batch size changes.

For example, 2 ranks have each taken 3 of 10 places, and 6 to 9 are left. After resuming with 3 ranks, rank 0 has the
places 6 and 9, rank 1 has 7, and rank 2 has 8.

If neighbors are read together, in order or shuffled by blocks, each rank takes a number of successive places (a run)
in place of one, so that blocks are not read by all ranks. Places that do not fill a run for each rank are divided into
one range for each. So are those that begun runs left over (the head), before the others: later runs begin where they
would have, and are read by one rank.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

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


#: Ranges of places: their starts, and how many places end with each.
Ranges: TypeAlias = tuple[Ints, Ints]


class Left(NamedTuple):
    """Number of places that are left, and of those in the head, after which no place was taken."""

    places: int
    head: int = 0  # also if a run is a single place


class Deal(NamedTuple):
    """How places that are left are dealt to ranks: the head in ranges, runs in turn, and what remains in ranges."""

    heads: Ints  # where the range of each rank begins, and that of the last ends
    rows: int  # runs for each rank
    rests: Ints


@dataclass(frozen=True)
class Share:
    """One rank's share of the rest of an epoch of ``n`` samples; ``run`` successive places are taken together."""

    n: int
    levels: tuple[Level, ...]
    rank: int
    world: int
    run: int = 1

    @cached_property
    def _left(self) -> tuple[Left, tuple[Ranges, ...]]:
        """What the levels left over, and the ranges of places that each of them left of those before it."""
        left, ranges = Left(self.n), []
        for taken in self.levels:
            found, left = _left_over(left, taken, self.run)
            ranges.append(found)
        return left, tuple(ranges)

    @cached_property
    def _deal(self) -> Deal:
        return _deal(self._left[0], self.world, self.run)

    @property
    def left(self) -> int:
        """Number of samples left for all ranks together."""
        return self._left[0].places

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
        found[real] = self._before(self._dealt(k[real]))
        found[~real] = (extra % self.world + extra // self.world) % self.n
        return found, real

    def end_of_run(self, k: int) -> int:
        """Return how many of the rank's samples come before the end of the run with sample ``k``."""
        own = int(self._deal.heads[self.rank + 1] - self._deal.heads[self.rank])
        return min(k // self.run * self.run + self.run, own) if k < own else k + self.run - (k - own) % self.run

    def _dealt(self, k: Ints) -> Ints:
        """Return the places of the rank's samples ``k``, counted among the places that are left."""
        if self.run == 1:  # the usual case: no division
            return k * self.world + self.rank
        (heads, rows, rests), run = self._deal, self.run
        own = heads[self.rank + 1] - heads[self.rank]
        j = k - own
        in_turn = heads[-1] + j // run * self.world * run + self.rank * run + j % run
        dealt: Ints = np.where(j < rows * run, in_turn, rests[self.rank] + j - rows * run)
        return np.where(j < 0, heads[self.rank] + k, dealt)

    def _before(self, k: Ints) -> Ints:
        """Map the ``k``-th places that are left to places of the epoch."""
        for starts, ends in reversed(self._left[1]):
            part = np.searchsorted(ends, k, side="right")
            k = starts[part] + k - np.append(0, ends)[part]
        return k

    def after(self, taken: Level) -> tuple[Level, ...]:
        """Return the levels of the epoch after each rank took ``taken[rank]`` of its places."""
        left, count, world = self.left, taken[0], len(taken)
        heads, rows, _ = _deal(self._left[0], world, self.run)
        own, rest = divmod(int(heads[-1]), world)
        whole_runs = not rest and own <= count <= own + rows * self.run and (count - own) % self.run == 0
        in_order = world == 1 or count * world >= left or whole_runs
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
    if state.get("version") not in (1, 2):
        raise ValueError(
            f"unknown version of a loader's state_dict: {state.get('version')!r}; this gpuimg knows 1 and 2"
        )
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
    if first["version"] == 1 and run > 1 and (first["levels"] or (not first.get("shuffle") and first["world"] > 1)):
        raise ValueError(
            "the state is of gpuimg 0.3, which divided what was left of an epoch in another way; load it with that "
            "version, and save again at the end of an epoch"
        )
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


def _deal(left: Left, world: int, run: int) -> Deal:
    rows = (left.places - left.head) // (world * run)
    begin = left.head + rows * world * run
    return Deal(_divided(0, left.head, world), rows, _divided(begin, left.places - begin, world, left.head % world))


def _divided(start: int, size: int, world: int, first: int = 0) -> Ints:
    """Divide places among ranks: where those of each begin, and those of the last end.

    If they cannot be divided evenly, rank ``first`` and those after it have one more.
    """
    sizes = size // world + ((np.arange(world) - first) % world < size % world)
    return start + np.append(0, np.cumsum(sizes))


def _left_over(left: Left, taken: Level, run: int) -> tuple[Ranges, Left]:
    """Return the ranges of places that a level left over: their starts, and how many places end with each."""
    world, count = len(taken), np.array(taken, np.int64)
    heads, rows, rests = _deal(left, world, run)  # a row is a run for each rank
    gone = np.clip(count, 0, np.diff(heads))
    starts, sizes = [heads[:-1] + gone], [np.diff(heads) - gone]
    count -= gone
    end = min(-(-int(count.max()) // run), rows)
    begun = np.arange(min(int(count.min()) // run, end), end)[:, None]
    gone = np.clip(count - begun * run, 0, run)
    starts.append((left.head + (begun * world + np.arange(world)) * run + gone).ravel())
    sizes.append((run - gone).ravel())
    untouched = left.head + end * world * run
    gone = np.clip(count - rows * run, 0, np.diff(rests))
    starts += [np.array([untouched]), rests[:-1] + gone]
    sizes += [np.array([rests[0] - untouched]), np.diff(rests) - gone]
    lengths = np.concatenate(sizes)
    ends = np.cumsum(lengths[lengths > 0])
    total = int(lengths.sum())
    tail = 0 if gone.any() else left.places - untouched
    return (np.concatenate(starts)[lengths > 0], ends), Left(total, total - tail if run > 1 else 0)


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
