"""A kernel cut into blocks that run without a branch, each instruction a step over all threads that are there."""

from dataclasses import dataclass, field
from functools import lru_cache

from .memory import Layout
from .opcodes import build
from .parse import Address, Fault, Instruction, Kernel, Operand, Register, parse
from .values import Env, Step, stored
from .warps import MEETINGS, Meeting, meeting

_BRANCHES = {"bra", "ret"}


@dataclass
class Block:
    """Instructions from one label or branch to the next."""

    number: int
    instructions: list[Instruction] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    end: Instruction | None = None  # a branch or a meeting; None: on to the next block
    meet: Meeting | None = None  # what those that meet do
    target: int = -1  # number of the block that a branch goes to
    taken: tuple[int, ...] = ()  # registers that are read before they are written
    given: tuple[int, ...] = ()  # registers that are written, and read in some block

    def first(self) -> Instruction | None:
        return self.instructions[0] if self.instructions else self.end


@dataclass
class Program:
    kernel: Kernel
    blocks: list[Block]
    dtypes: list[type]  # of the registers' bits
    offsets: list[int]  # of the parameters
    parameter_bytes: int
    shared: Layout
    env: Env


def _registers_of(operand: Operand) -> list[int]:
    base = operand.base if isinstance(operand, Address) else operand
    return [base.number] if isinstance(base, Register) else []


def reads_and_writes(i: Instruction) -> tuple[list[int], list[int]]:
    name = i.parts[0]
    none = name in ("st", "membar", *_BRANCHES) or (name == "bar" and "red" not in i.parts)
    results = 0 if none else 2 if name == "shfl" else 1
    writes = [number for operand in i.operands[:results] for number in _registers_of(operand)]
    reads = [number for operand in i.operands[results:] for number in _registers_of(operand)]
    return reads + ([] if i.guard is None else [i.guard.number]), writes


def _cut(kernel: Kernel) -> tuple[list[Block], dict[str, int]]:
    """The blocks of a kernel, and the block of each label."""
    at_label: dict[int, list[str]] = {}
    for label, number in kernel.labels.items():
        at_label.setdefault(number, []).append(label)
    blocks, starts = [Block(0)], {}
    for number, i in enumerate(kernel.instructions):
        if i.guard is not None and i.parts[0] not in _BRANCHES:
            raise Fault(f"{i}: a guard of anything but a branch is not known")
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


def _target(i: Instruction | None, starts: dict[str, int]) -> int:
    if i is None or i.parts[0] != "bra":
        return -1
    name = i.operands[-1]
    if not isinstance(name, str) or name not in starts:
        raise Fault(f"{i}: there is no such label")
    return starts[name]


def _flow(blocks: list[Block]) -> frozenset[int]:
    """Find the registers that each block reads and writes; return those that nothing reads."""
    exposed: set[int] = set()
    everything: set[int] = set()
    written: list[list[int]] = []
    for block in blocks:
        seen: dict[int, None] = {}
        taken: dict[int, None] = {}
        for i in [*block.instructions, *([] if block.end is None else [block.end])]:
            reads, writes = reads_and_writes(i)
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


@lru_cache(maxsize=64)
def program(text: str) -> Program:
    """Read the kernel of a module and make it ready."""
    kernel = parse(text)
    symbols: dict[str, int] = {}
    offsets, size = _parameters(kernel, symbols)
    shared = Layout([one for one in kernel.variables if one.space == "shared"])
    env = Env(symbols | shared.places)
    blocks, starts = _cut(kernel)
    unused = _flow(blocks)
    for block in blocks:
        block.steps = [build(i, env, unused) for i in block.instructions]
        block.target = _target(block.end, starts)
        if block.end is not None and block.end.parts[0] in MEETINGS:
            block.meet = meeting(block.end, env)
    return Program(kernel, blocks, [stored(r.kind) for r in kernel.registers], offsets, size, shared, env)
