"""Operands as arrays: one value for each thread that runs, of the type that the instruction gives it.

A register holds bits, in an unsigned array; what they mean is told by each instruction.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .parse import SIZES, Address, Fault, Instruction, Operand, Register

Array = NDArray[Any]
Values = list[Any]  # by the numbers of the registers
Read = Callable[[Values, "Lanes"], Any]
Write = Callable[[Values, "Lanes", Any], None]
Step = Callable[[Values, "Lanes"], None]

DTYPES: dict[str, type[Any]] = {
    "u8": np.uint8, "b8": np.uint8, "u16": np.uint16, "s16": np.int16, "b16": np.uint16, "u32": np.uint32,
    "s32": np.int32, "b32": np.uint32, "f32": np.float32, "u64": np.uint64, "s64": np.int64, "b64": np.uint64,
    "pred": np.bool_,
}  # fmt: skip
_STORED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}


class UnknownError(Exception):
    """No such form of an opcode."""


def need(condition: bool) -> None:
    """Refuse a form that is not known."""
    if not condition:
        raise UnknownError


class Lanes(NamedTuple):
    """The threads that run an instruction, by their numbers in the machine."""

    machine: Any
    ids: Array

    @property
    def n(self) -> int:
        """Return the number of threads."""
        return len(self.ids)


def stored(kind: str) -> type[Any]:
    """dtype of a register's bits."""
    return np.bool_ if kind == "pred" else _STORED[SIZES[kind]]


def literal(text: str, kind: str) -> Any:
    """A constant of a type, of no dimension."""
    if text[:2] in ("0f", "0F"):
        value: Any = np.uint32(int(text[2:], 16)).view(np.float32)
        return value.view(np.uint32) if kind == "b32" else DTYPES[kind](value)
    number = int(text.rstrip("Uu"), 0)
    if kind == "pred":
        return np.bool_(number)
    if kind == "f32":
        raise ValueError(f"{text} is no constant of .{kind}")
    bits = np.array(number & (256 ** SIZES[kind] - 1), _STORED[SIZES[kind]])
    return bits.view(DTYPES[kind])[()]


@dataclass(frozen=True)
class Env:
    """The addresses of variables."""

    symbols: dict[str, int]

    def read(self, i: Instruction, operand: Operand, kind: str) -> Read:
        """Return a function that reads an operand as values of a type."""
        if isinstance(operand, Register):
            return self._register(i, operand, kind)
        if isinstance(operand, Address):
            raise Fault(f"{i}: operand {operand} is not known")
        if operand.startswith("%"):
            dtype = DTYPES[kind]
            return lambda v, lanes: lanes.machine.special[operand][lanes.ids].astype(dtype)
        constant = literal(str(self.symbols.get(operand, operand)), kind)
        return lambda v, lanes: constant

    def _register(self, i: Instruction, register: Register, kind: str) -> Read:
        number, dtype = register.number, DTYPES[kind]
        if (kind == "pred") != (register.kind == "pred") or SIZES[kind] > SIZES[register.kind]:
            raise Fault(f"{i}: {register.name} is .{register.kind}, not .{kind}")
        if stored(register.kind) is dtype:
            return lambda v, lanes: v[number]
        if SIZES[kind] == SIZES[register.kind]:
            return lambda v, lanes: v[number].view(dtype)
        bits = _STORED[SIZES[kind]]
        return lambda v, lanes: v[number].astype(bits).view(dtype)

    def write(self, i: Instruction, operand: Operand, kind: str) -> Write:
        """Return a function that writes values of a type to a register, extended by their sign or by zeros."""
        if not isinstance(operand, Register):
            raise Fault(f"{i}: a result for {operand}")
        number, size = operand.number, SIZES[operand.kind]
        if (kind == "pred") != (operand.kind == "pred") or SIZES[kind] > size:
            raise Fault(f"{i}: {operand.name} is .{operand.kind}, not .{kind}")
        bits: Any = stored(operand.kind)
        own = stored(kind)
        signed = _SIGNED[size] if kind[0] == "s" and SIZES[kind] < size else None

        def put(v: Values, lanes: Lanes, values: Any) -> None:
            if values.ndim == 0:
                values = np.full(lanes.n, values)
            if signed is not None:
                v[number] = values.astype(signed).view(bits)
            elif own is bits:
                v[number] = values.view(bits)
            else:
                v[number] = values.view(own).astype(bits)

        return put

    def address(self, i: Instruction, operand: Operand) -> Read:
        """Return a function that computes the addresses of a memory operand, as uint64."""
        if not isinstance(operand, Address):
            raise Fault(f"{i}: {operand} is no address")
        if isinstance(operand.base, Register):
            base = self._register(i, operand.base, "u64" if operand.base.kind[1:] == "64" else "u32")
            offset = np.array(operand.offset & (2**64 - 1), np.uint64)[()]
            if operand.offset == 0:
                return lambda v, lanes: base(v, lanes).astype(np.uint64, copy=False)
            return lambda v, lanes: base(v, lanes).astype(np.uint64, copy=False) + offset
        if operand.base not in self.symbols:
            raise Fault(f"{i}: {operand.base} is not declared")
        start = operand.offset + self.symbols[operand.base]
        return lambda v, lanes: np.full(lanes.n, start, np.uint64)


class Form(NamedTuple):
    """An instruction that computes: the function, and the types of its result and its arguments."""

    function: Callable[..., Any]
    result: str
    arguments: tuple[str, ...]


def step_of(i: Instruction, env: Env, form: Form) -> Step:
    """Return a step that computes one result from the operands after it."""
    if len(i.operands) != 1 + len(form.arguments):
        raise Fault(f"{i}: {len(i.operands)} operands, not {1 + len(form.arguments)}")
    put = env.write(i, i.operands[0], form.result)
    function = form.function
    reads = [env.read(i, operand, kind) for operand, kind in zip(i.operands[1:], form.arguments, strict=True)]
    if len(reads) == 1:
        (one,) = reads
        return lambda v, lanes: put(v, lanes, function(one(v, lanes)))
    if len(reads) == 2:
        one, two = reads
        return lambda v, lanes: put(v, lanes, function(one(v, lanes), two(v, lanes)))
    return lambda v, lanes: put(v, lanes, function(*[read(v, lanes) for read in reads]))
