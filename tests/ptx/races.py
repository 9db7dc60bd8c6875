"""Two threads that touch one word without order between them.

Accesses are written down while a kernel runs and compared when it has ended. Threads of a block are ordered by its
barriers, those of a warp also by its own barriers of all lanes, and blocks by nothing. Two accesses of one word by two
threads, one of them a write, are a race if nothing orders them, unless both are atomic.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .fault import Fault
from .parse import Instruction

WRITE, ATOMIC = 1, 2

Ints = NDArray[np.int64]


class _Accesses(NamedTuple):
    """Accesses of one size, side by side."""

    words: Ints
    threads: Ints
    steps: Ints
    flags: Ints
    where: Ints  # number of the instruction

    def part(self, index: Any) -> _Accesses:
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
        """The instruction of an access."""
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


class _Groups:
    """Accesses sorted by a key, and what holds of those with the same one."""

    def __init__(self, all_of: _Accesses, key: Ints, owners: Ints) -> None:
        order = np.lexsort((all_of.steps, key))
        self.all = all_of.part(order)
        self.owners = owners[order]
        sorted_key = key[order]
        self.starts = np.flatnonzero(np.concatenate([[True], sorted_key[1:] != sorted_key[:-1]]))
        self.number = np.cumsum(np.concatenate([[False], sorted_key[1:] != sorted_key[:-1]]))

    def _several(self, chosen: Any) -> Any:
        """Groups in which the chosen accesses are of more than one owner."""
        high = np.where(chosen, self.owners, -1)
        low = np.where(chosen, self.owners, np.iinfo(np.int64).max)
        return np.maximum.reduceat(high, self.starts) > np.minimum.reduceat(low, self.starts)

    def racing(self) -> Any:
        """Return the groups with two accesses of different owners that need an order."""
        flags = self.all.flags
        writes, atomic = (flags & WRITE) != 0, (flags & ATOMIC) != 0
        anyone = np.ones(len(flags), np.bool_)
        plain = np.logical_or.reduceat(writes & ~atomic, self.starts) & self._several(anyone)
        changed, looked = writes & atomic, ~writes & ~atomic
        both = np.logical_or.reduceat(changed, self.starts) & np.logical_or.reduceat(looked, self.starts)
        return plain | (both & self._several(changed | looked))

    def members(self, groups: Any) -> Any:
        """Return the accesses in these groups."""
        return groups[self.number]

    def pair(self, group: int) -> tuple[_Accesses, _Accesses]:
        """Two accesses of a racing group that need an order."""
        stop = int(self.starts[group + 1]) if group + 1 < len(self.starts) else len(self.owners)
        flags = self.all.flags
        one, other = next(
            (one, other)
            for one, other in combinations(range(int(self.starts[group]), stop), 2)
            if self.owners[one] != self.owners[other]
            and (flags[one] | flags[other]) & WRITE
            and not flags[one] & flags[other] & ATOMIC
        )
        return self.all.part(one), self.all.part(other)


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


def check(name: str, log: Log, order: Order, shared: bool) -> None:
    """Raise the first race in a region."""
    if not log.written:
        return
    accesses, size = log.accesses()
    blocks = order.block_of(accesses.threads)
    epochs = _epochs(blocks, accesses.steps, order.blocks)
    groups = _Groups(accesses, _joined(accesses.words, epochs), accesses.threads)
    racing = groups.racing()
    if racing.any():
        _check_warps(name, log, groups, racing, order, size)
    if not shared:
        _check_blocks(name, log, _Groups(accesses, accesses.words, blocks), order, size)


def _joined(words: Ints, epochs: Ints) -> Ints:
    return words * (int(epochs.max()) + 1) + epochs


def _check_warps(name: str, log: Log, groups: _Groups, racing: Any, order: Order, size: int) -> None:
    """Races between the barriers of a block, unless those of a warp order them."""
    rest = groups.all.part(groups.members(racing))
    warps = order.warp_of(rest.threads)
    # A group of threads of one warp is cut at that warp's barriers; any other is not.
    number = groups.number[groups.members(racing)]
    lowest, highest = (np.full(int(number.max()) + 1, fill) for fill in (np.iinfo(np.int64).max, -1))
    np.minimum.at(lowest, number, warps)
    np.maximum.at(highest, number, warps)
    own = (lowest == highest)[number]
    epochs = np.where(own, _epochs(warps, rest.steps, order.warps), 0)
    cut = _Groups(rest, _joined(number, epochs), rest.threads)
    found = np.flatnonzero(cut.racing())
    if len(found):
        _tell(name, log, *cut.pair(int(found[0])), order, size, len(found), "no barrier between")


def _check_blocks(name: str, log: Log, groups: _Groups, order: Order, size: int) -> None:
    """Races between blocks."""
    racing = np.flatnonzero(groups.racing())
    if len(racing):
        _tell(name, log, *groups.pair(int(racing[0])), order, size, len(racing), "no order between blocks")


def _tell(name: str, log: Log, a: Any, b: Any, order: Order, size: int, count: int, why: str) -> None:
    did = [
        f"{order.who(int(x.threads))} {'writes' if x.flags & WRITE else 'reads'}"
        f"{' (atomic)' if x.flags & ATOMIC else ''} at {log.instruction(int(x.where))}"
        for x in (a, b)
    ]
    raise Fault(f"race at byte {int(a.words) * size} of {name}: {did[0]}; {did[1]}; {why}; {count} such words")
