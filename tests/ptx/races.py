"""Two threads that touch one word without order between them.

Accesses are written down while a kernel runs and compared when it has ended. Threads of a block are ordered by its
barriers, those of a warp also by its own barriers of all lanes, and blocks by nothing. Two accesses of one word by two
threads, one of them a write, are a race if nothing orders them, unless both are atomic.
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .parse import Fault, Instruction

WRITE, ATOMIC = 1, 2

Ints = NDArray[np.int64]


class _Accesses(NamedTuple):
    """Accesses of one size, side by side."""

    words: Ints
    threads: Ints
    steps: Ints
    flags: Ints
    where: Ints  # number of the instruction

    def part(self, index: Any) -> "_Accesses":
        return _Accesses(*(column[index] for column in self))


class Log:
    """Accesses of one region."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int, Any, Any, int]] = []
        self._instructions: list[Instruction] = []
        self._numbers: dict[int, int] = {}
        self.written = False

    def add(self, step: int, i: Instruction, flags: int, threads: Any, offsets: Any, size: int) -> None:
        """Write one access of some threads down."""
        number = self._numbers.get(id(i))
        if number is None:
            number = self._numbers[id(i)] = len(self._instructions)
            self._instructions.append(i)
        self.written = self.written or bool(flags & WRITE)
        self._entries.append((step, number, flags, threads, offsets, size))

    def instruction(self, number: int) -> Instruction:
        return self._instructions[number]

    def accesses(self) -> tuple[_Accesses, int]:
        """Split all accesses into words of the smallest size among them; return them and the size."""
        size = min(entry[5] for entry in self._entries)
        columns: list[list[Any]] = [[], [], [], [], []]
        for step, number, flags, threads, offsets, own in self._entries:
            for k in range(own // size):
                n = len(offsets)
                parts = (offsets // size + k, threads, np.full(n, step), np.full(n, flags), np.full(n, number))
                for column, part in zip(columns, parts, strict=True):
                    column.append(part)
        return _Accesses(*(np.concatenate(column).astype(np.int64) for column in columns)), size


def _racing(accesses: _Accesses, key: Ints, owners: Ints) -> NDArray[np.bool_]:
    """Return the accesses in groups, those with one key, in which two of different owners need an order."""
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    writes, atomic = ((accesses.flags & flag) != 0 for flag in (WRITE, ATOMIC))

    def any_is(chosen: Any) -> Any:
        return np.logical_or.reduceat(chosen[order], starts)

    def of_several(chosen: Any) -> Any:
        high = np.maximum.reduceat(np.where(chosen, owners, -1)[order], starts)
        return high > np.minimum.reduceat(np.where(chosen, owners, np.iinfo(np.int64).max)[order], starts)

    plain = any_is(writes & ~atomic) & of_several(np.ones(len(key), np.bool_))
    changed, looked = writes & atomic, ~writes & ~atomic
    found = plain | (any_is(changed) & any_is(looked) & of_several(changed | looked))
    racing = np.empty(len(key), np.bool_)
    racing[order] = np.repeat(found, np.diff(starts, append=len(key)))
    return racing


class Order(NamedTuple):
    """The order in a launch: barriers of blocks and of warps, as ``owner << 40 | step``, sorted."""

    block_of: Callable[[Ints], Ints]
    warp_of: Callable[[Ints], Ints]
    blocks: Ints
    warps: Ints
    who: Callable[[int], str]


def _epochs(owners: Ints, steps: Ints, releases: Ints) -> Ints:
    """A number for each time between two barriers of an owner."""
    return np.searchsorted(releases, owners << 40 | steps, side="left") + owners


def _joined(key: Ints, other: Ints) -> Ints:
    return key * (int(other.max()) + 1) + other


def check(name: str, log: Log, order: Order, shared: bool) -> None:
    """Raise the first race in a region."""
    if not log.written:
        return
    accesses, size = log.accesses()

    def refuse(some: _Accesses, key: Ints, owners: Ints, why: str) -> None:
        racing = _racing(some, key, owners)
        if racing.any():
            group = key == key[racing].min()
            _tell(name, log, some.part(group), owners[group], order, size, f"{why}; {len(set(key[racing]))} such words")

    blocks = order.block_of(accesses.threads)
    key = _joined(accesses.words, _epochs(blocks, accesses.steps, order.blocks))
    racing = _racing(accesses, key, accesses.threads)
    if racing.any():  # unless barriers of warps order them
        rest, key = accesses.part(racing), np.unique(key[racing], return_inverse=True)[1]
        warps = order.warp_of(rest.threads)
        refuse(rest, key, warps, "no barrier between")
        refuse(rest, _joined(key, _epochs(warps, rest.steps, order.warps)), rest.threads, "no barrier between")
    if not shared:
        refuse(accesses, accesses.words, blocks, "no order between blocks")


def _tell(name: str, log: Log, group: _Accesses, owners: Ints, order: Order, size: int, why: str) -> None:
    """Name two accesses of a group that race."""
    flags = group.flags
    two = next(
        pair
        for pair in combinations(np.argsort(group.steps, kind="stable").tolist(), 2)
        if owners[pair[0]] != owners[pair[1]]
        and (flags[pair[0]] | flags[pair[1]]) & WRITE
        and not flags[pair[0]] & flags[pair[1]] & ATOMIC
    )
    did = [
        f"{order.who(int(group.threads[k]))} {'writes' if flags[k] & WRITE else 'reads'}"
        f"{' (atomic)' if flags[k] & ATOMIC else ''} at {log.instruction(int(group.where[k]))}"
        for k in two
    ]
    raise Fault(f"race at byte {int(group.words[0]) * size} of {name}: {did[0]}; {did[1]}; {why}")
