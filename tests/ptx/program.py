"""A kernel cut into blocks that run without a branch, each instruction a step over all threads that are there."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from .fault import Fault
from .inline import inlined
from .memory import Layout
from .opcodes import build
from .parse import Address, Group, Instruction, Kernel, Module, Name, Negated, Operand, Register, Variable, parse
from .values import Array, Env, Lanes, Step, Values, stored
from .warps import Meeting, meeting

# What ends a block: branches, and what needs the other threads.
_BRANCHES = {"bra", "brx", "ret", "exit"}
MEETINGS = {"bar", "barrier", "shfl", "vote", "match", "redux"}
_STORES = {"st", "red", "membar", "fence", "trap", "prefetch", "prefetchu", "nanosleep", *_BRANCHES}


@dataclass
class Block:
    """Instructions from one label or branch to the next."""

    number: int
    instructions: list[Instruction] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    end: Instruction | None = None  # a branch or a meeting; None: on to the next block
    meet: Meeting | None = None  # what those that meet do, where it is no barrier
    targets: tuple[int, ...] = ()  # numbers of the blocks a branch goes to
    taken: tuple[int, ...] = ()  # registers that are read before they are written
    given: tuple[int, ...] = ()  # registers that are written, and read in some block

    def first(self) -> Instruction | None:
        """The instruction it begins with."""
        return self.instructions[0] if self.instructions else self.end


@dataclass
class Program:
    """A kernel that can run."""

    kernel: Kernel
    blocks: list[Block]
    dtypes: list[type]  # of the registers' bits
    symbols: dict[str, int]
    offsets: list[int]  # of the parameters
    parameter_bytes: int
    constants: list[Variable]  # variables in global memory
    shared: list[Variable]
    local: Layout
    carry: int
    env: Env


def registers_of(operand: Operand) -> list[int]:
    """Registers that an operand names."""
    if isinstance(operand, Register):
        return [operand.number]
    if isinstance(operand, Negated):
        return [operand.register.number]
    if isinstance(operand, Address):
        return registers_of(operand.base) if isinstance(operand.base, Register) else []
    if isinstance(operand, Group):
        return [number for item in operand.items for number in registers_of(item)]
    return []


def reads_and_writes(i: Instruction, carry: int) -> tuple[list[int], list[int]]:
    """Registers an instruction reads, and those it writes."""
    name = i.parts[0]
    results = 0 if name in _STORES or (name in ("bar", "barrier") and "red" not in i.parts) else 1
    writes = [number for operand in i.operands[:results] for number in registers_of(operand)]
    reads = [number for operand in i.operands[results:] for number in registers_of(operand)]
    if i.guard is not None:
        reads = [*reads, i.guard.number, *writes]  # what is not run leaves what was there
    if name in ("addc", "subc", "madc"):
        reads.append(carry)
    if "cc" in i.parts:
        writes.append(carry)
    return reads, writes


def _guarded(i: Instruction, step: Step, carry: int) -> Step:
    """A step that runs only where its guard says so."""
    if i.guard is None:
        return step
    guard, expected = i.guard.number, i.guard_is
    reads, writes = reads_and_writes(i, carry)

    def guarded(v: Values, lanes: Lanes) -> None:
        chosen = np.flatnonzero(v[guard] == expected)
        if len(chosen) == 0:
            return
        if len(chosen) == len(lanes.ids):
            step(v, lanes)
            return
        some: Values = [None] * len(v)
        for number in reads:
            some[number] = v[number][chosen]
        step(some, Lanes(lanes.machine, lanes.ids[chosen]))
        for number in writes:
            v[number] = v[number].copy()
            v[number][chosen] = some[number]

    return guarded


def _cut(kernel: Kernel) -> tuple[list[Block], dict[str, int]]:
    """The blocks of a kernel, and the block of each label."""
    at_label: dict[int, list[str]] = {}
    for label, number in kernel.labels.items():
        at_label.setdefault(number, []).append(label)
    blocks, starts = [Block(0)], {}
    for number, i in enumerate(kernel.instructions):
        meets = i.parts[0] in MEETINGS
        if blocks[-1].instructions and (number in at_label or meets):
            blocks.append(Block(len(blocks)))
        for label in at_label.get(number, []):
            starts[label] = len(blocks) - 1
        if meets or i.parts[0] in _BRANCHES:
            blocks[-1].end = i
            blocks.append(Block(len(blocks)))
        else:
            blocks[-1].instructions.append(i)
    for label in at_label.get(len(kernel.instructions), []):
        starts[label] = len(blocks) - 1
    return blocks, starts


def _targets(i: Instruction | None, kernel: Kernel, starts: dict[str, int]) -> tuple[int, ...]:
    if i is None or i.parts[0] not in ("bra", "brx"):
        return ()
    name = i.operands[-1]
    labels = []
    if isinstance(name, Name):
        labels = [name.text] if i.parts[0] == "bra" else kernel.tables.get(name.text, [])
    if not labels or any(label not in starts for label in labels):
        raise Fault(f"{i}: there is no such label")
    return tuple(starts[label] for label in labels)


def _flow(blocks: list[Block], carry: int) -> frozenset[int]:
    """Find the registers that each block reads and writes; return those that nothing reads."""
    exposed: set[int] = set()
    everything: set[int] = set()
    written: list[list[int]] = []
    for block in blocks:
        seen: dict[int, None] = {}
        taken: dict[int, None] = {}
        for i in [*block.instructions, *([] if block.end is None else [block.end])]:
            reads, writes = reads_and_writes(i, carry)
            everything.update(reads)
            taken.update((number, None) for number in reads if number not in seen)
            seen.update((number, None) for number in writes)
        block.taken = tuple(taken)
        exposed.update(taken)
        written.append(list(seen))
    for block, numbers in zip(blocks, written, strict=True):
        block.given = tuple(number for number in numbers if number in exposed)
    return frozenset(number for numbers in written for number in numbers if number not in everything)


def _parameters(kernel: Kernel, symbols: dict[str, int]) -> tuple[list[int], int]:
    """Return the offsets of the parameters, each aligned to its size."""
    offsets, end = [], 0
    for parameter in kernel.parameters:
        start = -(-end // parameter.align) * parameter.align
        symbols[parameter.name] = start
        offsets.append(start)
        end = start + parameter.size
    return offsets, end


CONSTANTS = 1 << 12  # slots of the global memory in front of those of a module's own variables


def program(text: str, name: str | None = None) -> Program:
    """Read a kernel and make it ready; the only one of its module where no name is given."""
    return _program(text, name)


@lru_cache(maxsize=64)
def _program(text: str, name: str | None) -> Program:
    module = parse(text)
    if name is None and len(module.kernels) != 1:
        raise Fault(f"the module holds the kernels {', '.join(module.kernels)}: name one of them")
    if name is not None and name not in module.kernels:
        raise Fault(f"the module holds the kernels {', '.join(module.kernels)}, not {name}")
    return _ready(module, module.kernels[name or next(iter(module.kernels))])


def _ready(module: Module, kernel: Kernel) -> Program:
    kernel = inlined(kernel, module.functions)
    variables = [*module.variables, *kernel.variables]
    symbols: dict[str, int] = {}
    offsets, size = _parameters(kernel, symbols)
    constants = [one for one in variables if one.space in ("global", "const")]
    shared = [one for one in variables if one.space == "shared"]
    local = Layout([one for one in variables if one.space == "local"])
    symbols |= local.places | Layout(shared).places
    symbols |= {one.name: (CONSTANTS + k) << 36 for k, one in enumerate(constants)}
    carry = len(kernel.registers)
    env = Env(symbols, {one.name: one.space for one in variables}, carry)
    blocks, starts = _cut(kernel)
    unused = _flow(blocks, carry)
    for block in blocks:
        block.steps = [_guarded(i, build(i, env, unused), carry) for i in block.instructions]
        block.targets = _targets(block.end, kernel, starts)
        if block.end is not None and block.end.parts[0] in MEETINGS:
            block.meet = meeting(block.end, env)
    dtypes = [*(stored(register.kind) for register in kernel.registers), np.bool_]
    return Program(kernel, blocks, dtypes, symbols, offsets, size, constants, shared, local, carry, env)


__all__ = ["CONSTANTS", "MEETINGS", "Array", "Block", "Program", "program"]
