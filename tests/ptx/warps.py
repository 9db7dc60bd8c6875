"""Instructions of a whole warp: shuffles, votes, matches and reductions, for all warps at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .fault import Fault
from .ints import UnknownError, need
from .parse import Group, Instruction, Operand
from .values import DTYPES, Array, Env, Lanes, Values

Meeting = Callable[[Values, Lanes, Array], None]  # with each lane's members


def table(lanes: Lanes, values: Any, neutral: Any) -> Array:
    """Values by warp and lane, with a neutral one where no thread is."""
    machine = lanes.machine
    values = np.broadcast_to(values, lanes.n)
    grid = np.full((machine.warps, 32), neutral, values.dtype)
    grid[machine.warp[lanes.ids], machine.lane[lanes.ids]] = values
    return grid


def _members(mask: Array) -> Array:
    """(n, 32): which lanes each mask names."""
    named: Array = (mask[:, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1) != 0
    return named


def _shuffle(i: Instruction, env: Env) -> Meeting:
    need(len(i.parts) == 4 and i.parts[1] == "sync" and i.parts[3] == "b32")
    mode = i.parts[2]
    need(mode in ("idx", "up", "down", "bfly"))
    target = i.operands[0]
    outs = target.items if isinstance(target, Group) else (target,)
    put = env.write(i, outs[0], "b32")
    found = env.write(i, outs[1], "pred") if len(outs) == 2 else None
    a, b, c = (env.read(i, operand, "b32") for operand in i.operands[1:4])

    def meet(v: Values, lanes: Lanes, members: Array) -> None:
        values, step = a(v, lanes), np.broadcast_to(b(v, lanes), lanes.n).astype(np.int64) & 31
        control = np.broadcast_to(c(v, lanes), lanes.n).astype(np.int64)
        segment, clamp = control >> 8 & 31, control & 31
        lane = lanes.machine.lane[lanes.ids].astype(np.int64)
        most = (lane & segment) | (clamp & ~segment)
        least = lane & segment
        if mode == "up":
            other = lane - step
            inside = other >= most
        else:
            other = {"down": lane + step, "bfly": lane ^ step, "idx": least | (step & ~segment)}[mode]
            inside = other <= most
        other = np.where(inside, other, lane)
        warp = lanes.machine.warp[lanes.ids]
        here = table(lanes, np.ones(lanes.n, np.bool_), False)[warp, other]
        named = (members >> other.astype(np.uint32)) & np.uint32(1) != 0
        if not (here & named).all():
            one = int(np.flatnonzero(~(here & named))[0])
            raise Fault(f"{i}: {lanes.machine.who(lanes.ids[one])} reads from lane {other[one]}, which is not there")
        put(v, lanes, table(lanes, values, 0)[warp, other])
        if found is not None:
            found(v, lanes, inside)

    return meet


def _vote(i: Instruction, env: Env) -> Meeting:
    need(i.parts[1] == "sync")
    mode, kind = i.parts[2:]
    need((mode, kind) in (("all", "pred"), ("any", "pred"), ("uni", "pred"), ("ballot", "b32")))
    put = env.write(i, i.operands[0], kind)
    read = env.read(i, i.operands[1], "pred")

    def meet(v: Values, lanes: Lanes, members: Array) -> None:
        machine = lanes.machine
        said = table(lanes, read(v, lanes), False)
        bits = np.bitwise_or.reduce(
            np.where(said, np.uint32(1) << np.arange(32, dtype=np.uint32), np.uint32(0)), axis=1
        )
        ballot = bits[machine.warp[lanes.ids]] & members
        if mode == "ballot":
            put(v, lanes, ballot)
            return
        there = members & machine.living[machine.warp[lanes.ids]]
        yes, no = ballot == there, ballot == 0
        put(v, lanes, {"all": yes, "any": ~no, "uni": yes | no}[mode])

    return meet


def _match(i: Instruction, env: Env) -> Meeting:
    need(i.parts[2] == "sync" and i.parts[1] in ("any", "all"))
    kind = i.parts[3]
    target = i.operands[0]
    outs = target.items if isinstance(target, Group) else (target,)
    put = env.write(i, outs[0], "b32")
    found = env.write(i, outs[1], "pred") if len(outs) == 2 else None
    read = env.read(i, i.operands[1], kind)

    def meet(v: Values, lanes: Lanes, members: Array) -> None:
        machine = lanes.machine
        values = np.broadcast_to(read(v, lanes), lanes.n)
        warp = machine.warp[lanes.ids]
        there = members & machine.living[warp]
        same = (table(lanes, values, 0)[warp] == values[:, None]) & _members(there)
        bits = np.bitwise_or.reduce(
            np.where(same, np.uint32(1) << np.arange(32, dtype=np.uint32), np.uint32(0)), axis=1
        )
        if i.parts[1] == "all":
            bits = np.where(bits == there, there, np.uint32(0))
        put(v, lanes, bits)
        if found is not None:
            found(v, lanes, bits != 0)

    return meet


_REDUCED: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


def _reduce(i: Instruction, env: Env) -> Meeting:
    need(i.parts[1] == "sync" and len(i.parts) == 4)
    name, kind = i.parts[2:]
    need(kind in (("b32",) if name in ("and", "or", "xor") else ("u32", "s32")))
    put = env.write(i, i.operands[0], kind)
    read = env.read(i, i.operands[1], kind)
    limits = np.iinfo(DTYPES[kind])
    neutral = {"min": limits.max, "max": limits.min, "and": limits.max}.get(name, 0)

    def meet(v: Values, lanes: Lanes, members: Array) -> None:
        values = table(lanes, read(v, lanes), neutral)[lanes.machine.warp[lanes.ids]]
        values = np.where(_members(members), values, DTYPES[kind](neutral))
        put(v, lanes, _REDUCED[name].reduce(values, axis=1, dtype=DTYPES[kind]))

    return meet


def is_block_barrier(i: Instruction) -> bool:
    """Return True if an instruction is a barrier of a whole block."""
    return i.parts[0] in ("bar", "barrier") and i.parts[1] != "warp"


def _block_barrier(i: Instruction, env: Env) -> Meeting:
    """``bar.sync``, and ``bar.red`` that reduces a predicate of the whole block."""
    parts = [p for p in i.parts[1:] if p not in ("cta", "aligned")]
    if parts == ["sync"]:
        need(len(i.operands) in (1, 2))
        return lambda v, lanes, members: None
    need(parts in (["red", "popc", "u32"], ["red", "and", "pred"], ["red", "or", "pred"]) and len(i.operands) in (3, 4))
    put, read = env.write(i, i.operands[0], parts[2]), env.read(i, i.operands[-1], "pred")

    def meet(v: Values, lanes: Lanes, members: Array) -> None:
        block = lanes.machine.block_of(lanes.ids)
        said = np.broadcast_to(read(v, lanes), lanes.n)
        yes, all_of = np.bincount(block, said).astype(np.uint32)[block], np.bincount(block)[block]
        put(v, lanes, {"popc": yes, "and": yes == all_of, "or": yes > 0}[parts[1]])

    return meet


def _barrier(i: Instruction, env: Env) -> Meeting:
    if is_block_barrier(i):
        return _block_barrier(i, env)
    need(i.parts == ("bar", "warp", "sync") and len(i.operands) == 1)
    return lambda v, lanes, members: None


_MEETINGS: dict[str, Callable[[Instruction, Env], Meeting]] = {
    "shfl": _shuffle,
    "vote": _vote,
    "match": _match,
    "redux": _reduce,
    "bar": _barrier,
    "barrier": _barrier,
}
_MEMBERS = {"shfl": 4, "vote": 2, "match": 2, "redux": 2, "bar": 0}  # the operand that names them


def members_of(i: Instruction) -> Operand:
    """The operand that names who meets."""
    return i.operands[_MEMBERS[i.parts[0]]]


def meeting(i: Instruction, env: Env) -> Meeting:
    """Return the function for the threads that meet at an instruction."""
    try:
        if not is_block_barrier(i):
            members_of(i)
        return _MEETINGS[i.parts[0]](i, env)
    except (UnknownError, KeyError, ValueError, IndexError) as error:
        raise Fault(f"{i}: this form of an instruction is not known") from error
