"""Instructions of a whole warp or block: shuffles, votes and barriers, for all warps at once."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .parse import Fault, Instruction, Operand
from .values import Array, Env, Lanes, UnknownError, Values, need

Meeting = Callable[[Values, Lanes], None]


def _by_lane(lanes: Lanes, values: Any) -> Array:
    """Values by warp and lane, zero where no thread is."""
    machine = lanes.machine
    values = np.broadcast_to(values, lanes.n)
    grid = np.zeros((machine.warps, 32), values.dtype)
    grid[machine.warp[lanes.ids], machine.lane[lanes.ids]] = values
    return grid


def _shuffle(i: Instruction, env: Env) -> Meeting:
    _, sync, mode, kind = i.parts
    need(sync == "sync" and mode in ("up", "down", "idx") and kind == "b32")
    put, put_inside = env.write(i, i.operands[0], "b32"), env.write(i, i.operands[1], "pred")
    a, b, c = (env.read(i, operand, "b32") for operand in i.operands[2:5])

    def meet(v: Values, lanes: Lanes) -> None:
        values, step = a(v, lanes), np.broadcast_to(b(v, lanes), lanes.n).astype(np.int64) & 31
        control = np.broadcast_to(c(v, lanes), lanes.n).astype(np.int64)
        segment, clamp = control >> 8 & 31, control & 31
        lane = lanes.machine.lane[lanes.ids].astype(np.int64)
        most = (lane & segment) | (clamp & ~segment)
        other = (lane & segment) | (step & ~segment) if mode == "idx" else lane - step if mode == "up" else lane + step
        inside = other >= most if mode == "up" else other <= most
        other = np.where(inside, other, lane)
        warp = lanes.machine.warp[lanes.ids]
        there = _by_lane(lanes, True)[warp, other]
        if not there.all():
            one = int(np.flatnonzero(~there)[0])
            raise Fault(f"{i}: {lanes.machine.who(lanes.ids[one])} reads from lane {other[one]}, which is not there")
        put(v, lanes, _by_lane(lanes, values)[warp, other])
        put_inside(v, lanes, inside)

    return meet


def _vote(i: Instruction, env: Env) -> Meeting:
    mode, kind = i.parts[2:]
    need(i.parts[1] == "sync" and (mode, kind) in (("any", "pred"), ("ballot", "b32")))
    put, read = env.write(i, i.operands[0], kind), env.read(i, i.operands[1], "pred")

    def meet(v: Values, lanes: Lanes) -> None:
        bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
        said = np.bitwise_or.reduce(np.where(_by_lane(lanes, read(v, lanes)), bits, np.uint32(0)), axis=1)
        ballot = said[lanes.machine.warp[lanes.ids]]
        put(v, lanes, ballot if mode == "ballot" else ballot != 0)

    return meet


def is_block_barrier(i: Instruction) -> bool:
    """Return True if an instruction is a barrier of a whole block."""
    return i.parts[0] == "bar" and i.parts[1] != "warp"


def _barrier(i: Instruction, env: Env) -> Meeting:
    """``bar.sync`` and ``bar.warp.sync``, and ``bar.red`` that joins a predicate of the whole block; number 0 alone."""
    if i.parts[1:] in (("sync",), ("warp", "sync")):
        need(len(i.operands) == 1 and (i.parts[1] == "warp" or i.operands[0] == "0"))
        return lambda v, lanes: None
    need(i.parts[1:] == ("red", "or", "pred") and len(i.operands) == 3 and i.operands[1] == "0")
    put, read = env.write(i, i.operands[0], "pred"), env.read(i, i.operands[2], "pred")

    def meet(v: Values, lanes: Lanes) -> None:
        block = lanes.machine.block_of(lanes.ids)
        put(v, lanes, (np.bincount(block, np.broadcast_to(read(v, lanes), lanes.n)) > 0)[block])

    return meet


MEETINGS: dict[str, Callable[[Instruction, Env], Meeting]] = {"shfl": _shuffle, "vote": _vote, "bar": _barrier}


def members_of(i: Instruction) -> Operand:
    """The operand that names who meets."""
    return i.operands[{"shfl": 5, "vote": 2, "bar": 0}[i.parts[0]]]


def meeting(i: Instruction, env: Env) -> Meeting:
    """Return the function for the threads that meet at an instruction."""
    try:
        members_of(i)
        return MEETINGS[i.parts[0]](i, env)
    except (UnknownError, KeyError, ValueError, IndexError) as error:
        raise Fault(f"{i}: this form of an instruction is not known") from error
