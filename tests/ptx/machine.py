"""Runs the threads of some blocks: always those with the lowest block of instructions, until all wait or are gone.

Threads wait at barriers and where a warp meets (shuffles, votes) until all that take part are there; no kernel waits in
a loop for what another thread writes.
"""

from typing import Any

import numpy as np

from .memory import Memory
from .parse import Fault, Instruction
from .program import Block, Program, reads_and_writes
from .values import Array, Lanes, Values
from .warps import is_block_barrier, members_of

_WAITS = 1 << 30
_GONE = _WAITS + 1

Grid = tuple[int, int]


class Clock:
    """Counters of a launch over all its blocks."""

    def __init__(self, most: int) -> None:
        self.steps = 0
        self.most = most
        self.barriers: list[tuple[int, Array]] = []  # step, and blocks
        self.warp_barriers: list[tuple[int, Array]] = []  # step, and warps


class Machine:
    """Some blocks of a launch."""

    def __init__(
        self, program: Program, grid: Grid, size: int, first: int, count: int, memory: Memory, parameters: Array,
        clock: Clock, behind: tuple[int, int] | None,
    ) -> None:  # fmt: skip
        self._program = program
        self._columns, self._size = grid[0], size
        self.memory = memory
        self.parameters = parameters
        self._clock = clock
        self._behind = behind
        self._turns = 0
        self.first_thread = first * size
        n = count * size
        self._n = n
        self._of_block = np.repeat(np.arange(count), size)
        thread = np.tile(np.arange(size), count)
        warps = -(-size // 32)
        self.warps = count * warps
        self._first_warp = first * warps
        self._first_block = first
        self.warp = self._of_block * warps + thread // 32
        self.lane = thread % 32
        self.lane_bit = np.uint32(1) << self.lane.astype(np.uint32)
        self.living = np.zeros(self.warps, np.uint32)
        np.bitwise_or.at(self.living, self.warp, self.lane_bit)
        number = first + self._of_block
        self.special = {
            "%tid.x": thread, "%ctaid.x": number % grid[0], "%ctaid.y": number // grid[0],
            "%ntid.x": np.full(n, size), "%nctaid.x": np.full(n, grid[0]),
        }  # fmt: skip
        memory.share(program.shared, self._of_block)
        self._registers: list[Any] = [np.zeros(n, dtype) for dtype in program.dtypes]
        self._at = np.zeros(n, np.int64)  # number of each thread's block of instructions, or what it does else
        self._meets = np.zeros(n, np.int64)  # number of the block a waiting thread waits in

    # -- what steps ask ----------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Blocks of instructions that ran so far."""
        return self._clock.steps

    def who(self, thread: Any) -> str:
        """A thread in words."""
        return named(int(thread) + self.first_thread, self._columns, self._size)

    # -- running -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        blocks = self._program.blocks
        at = self._at
        while True:
            if self._behind is not None and self._run_one_warp(blocks, *self._behind):
                continue
            lowest = int(at.min())
            if lowest == _GONE:
                return
            if lowest == _WAITS:
                self._release(must=True)
                continue
            self._count(blocks[lowest], np.argmin(at))
            self._run_block(blocks[lowest], np.flatnonzero(at == lowest))

    def _run_one_warp(self, blocks: list[Block], late: int, turns: int) -> bool:
        """Run the first ready warp until it waits; return False if there is none.

        The one that is ``late`` is the last of them once it has had so many turns.
        """
        ready = np.flatnonzero(self._at < _WAITS)
        if len(ready) == 0:
            return False
        warps = self.warp[ready]
        if self._turns >= turns and np.any(warps != late):
            warps = warps[warps != late]
        self._turns += int(warps[0] == late)
        own = np.flatnonzero(self.warp == warps[0])
        while True:
            at = self._at[own]
            lowest = int(at.min())
            if lowest >= _WAITS:
                break
            self._count(blocks[lowest], own[0])
            self._run_block(blocks[lowest], own[at == lowest])
        self._release(must=False)
        return True

    def _count(self, block: Block, thread: Any) -> None:
        self._clock.steps += 1
        if self._clock.steps > self._clock.most:
            raise Fault(f"no end after {self._clock.most} rounds: {self.who(thread)} is at {block.first()}")

    def _run_block(self, block: Block, ids: Array) -> None:
        lanes = Lanes(self, ids)
        registers = self._registers
        every = len(ids) == self._n
        v: Values = [None] * len(registers)
        for number in block.taken:
            v[number] = registers[number] if every else registers[number][ids]
        if block.meet is not None:
            self._at[ids] = _WAITS
            self._meets[ids] = block.number
            return
        done = 0
        try:
            for done, step in enumerate(block.steps):  # noqa: B007 - the fault names the instruction
                step(v, lanes)
        except (Fault, TypeError) as fault:
            raise Fault(f"{block.instructions[done]}: {fault}") from fault
        for number in block.given:
            if every:
                registers[number] = v[number]
            else:
                registers[number][ids] = v[number]
        self._leave(block, ids, v)

    def _leave(self, block: Block, ids: Array, v: Values) -> None:
        """On to the next block, by the branch at the end."""
        i = block.end
        if i is None:
            self._at[ids] = block.number + 1
            return
        goes = ids
        if i.guard is not None:
            does = v[i.guard.number] == i.guard_is
            self._at[ids[~does]] = block.number + 1
            goes = ids[does]
            if len(goes) == 0:
                return
        if i.parts[0] == "bra":
            self._at[goes] = block.target
        else:
            self._at[goes] = _GONE
            np.bitwise_and.at(self.living, self.warp[goes], ~self.lane_bit[goes])

    # -- meetings ----------------------------------------------------------------------------------------------

    def _release(self, must: bool) -> None:
        """Let those go on whose meeting is complete."""
        waiting = np.flatnonzero(self._at == _WAITS)
        if len(waiting) == 0:
            return
        places = np.unique(self._meets[waiting]).tolist()
        for place in places:
            block = self._program.blocks[place]
            i = block.end
            assert i is not None
            here = waiting[self._meets[waiting] == place]
            if self._barrier(here, waiting) if is_block_barrier(i) else self._meeting(block, i, here):
                return
        if must:
            texts = [str(self._program.blocks[place].end) for place in places]
            raise Fault(f"{self.who(waiting[0])} waits for threads that never come; threads wait at: {texts}")

    def _barrier(self, here: Array, waiting: Array) -> bool:
        """The barrier of whole blocks, which stands at several places."""
        blocks = int(self._of_block[-1]) + 1
        living = np.bincount(self._of_block[self._at != _GONE], minlength=blocks)
        ends = {place: self._program.blocks[place].end for place in np.unique(self._meets[waiting]).tolist()}
        places = [place for place, end in ends.items() if end is not None and is_block_barrier(end)]
        same = waiting[np.isin(self._meets[waiting], places)]
        arrived = np.bincount(self._of_block[same], minlength=blocks)
        complete = (arrived == living) & (np.bincount(self._of_block[here], minlength=blocks) > 0)
        if not complete.any():
            return False
        free = same[complete[self._of_block[same]]]
        self._check_aligned(free)
        self._clock.steps += 1
        self._clock.barriers.append((self.steps, np.flatnonzero(complete) + self._first_block))
        for place in np.unique(self._meets[free]).tolist():
            block = self._program.blocks[place]
            self._together(block, free[self._meets[free] == place])
        return True

    def block_of(self, ids: Array) -> Array:
        """Number of each thread's block."""
        return self._of_block[ids]

    def _together(self, block: Block, ids: Array) -> None:
        """Execute an instruction of several threads for those that meet, and continue after it."""
        i, meet = block.end, block.meet
        assert i is not None
        assert meet is not None
        v = self._values(i, ids)
        meet(v, Lanes(self, ids))
        for number in reads_and_writes(i)[1]:
            self._registers[number] = self._registers[number].copy()
            self._registers[number][ids] = v[number]
        self._at[ids] = block.number + 1

    def _check_aligned(self, free: Array) -> None:
        """Raise if threads of a warp wait at different barriers."""
        order = np.argsort(self.warp[free], kind="stable")
        warps, places = self.warp[free][order], self._meets[free][order]
        apart = (warps[1:] == warps[:-1]) & (places[1:] != places[:-1])
        if apart.any():
            two = [str(self._program.blocks[places[np.flatnonzero(apart)[0] + k]].end) for k in (0, 1)]
            raise Fault(f"threads of one warp wait at different barriers: {two[0]} and {two[1]}")

    def _values(self, i: Instruction, ids: Array) -> Values:
        v: Values = [None] * len(self._registers)
        for number in reads_and_writes(i)[0]:
            v[number] = self._registers[number][ids]
        return v

    def _meeting(self, block: Block, i: Instruction, here: Array) -> bool:
        """Something that all threads of a warp do together."""
        members = self._program.env.read(i, members_of(i), "b32")(self._values(i, here), Lanes(self, here))
        if np.any(members != np.uint32(0xFFFFFFFF)):
            raise Fault(f"{i}: {self.who(here[0])} does not name all threads of its warp")
        warp = self.warp[here]
        arrived = np.zeros(self.warps, np.uint32)
        np.bitwise_or.at(arrived, warp, self.lane_bit[here])
        ids = here[(self.living[warp] & ~arrived[warp]) == 0]
        if len(ids) == 0:
            return False
        self._clock.steps += 1
        if i.parts[0] == "bar":
            self._clock.warp_barriers.append((self.steps, np.unique(self.warp[ids]) + self._first_warp))
        self._together(block, ids)
        return True


def named(thread: int, columns: int, size: int) -> str:
    """A thread of a launch in words."""
    number = thread // size
    return f"thread {thread % size} of block {(number % columns, number // columns)}"
