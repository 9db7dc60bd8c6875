"""Loads, stores and atomics, as steps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from .parse import SIZES, Instruction, Register
from .values import DTYPES, Array, Env, Lanes, Step, Values, need


def _load(i: Instruction, env: Env, unused: frozenset[int]) -> Step:
    _, space, kind = i.parts
    need(space in ("global", "shared", "param") and kind != "pred" and len(i.operands) == 2)
    put, address = env.write(i, i.operands[0], kind), env.address(i, i.operands[1])
    size, dtype = SIZES[kind], DTYPES[kind]

    def parameter(v: Values, lanes: Lanes) -> None:
        at = int(address(v, lanes)[0])
        put(v, lanes, lanes.machine.parameters[at : at + size].view(dtype)[0])

    def step(v: Values, lanes: Lanes) -> None:
        put(v, lanes, lanes.machine.memory.load(i, space, lanes, address(v, lanes), size).view(dtype))

    return parameter if space == "param" else step


def _store(i: Instruction, env: Env, unused: frozenset[int]) -> Step:
    _, space, kind = i.parts
    need(space in ("global", "shared") and kind != "pred" and len(i.operands) == 2)
    address, read = env.address(i, i.operands[0]), env.read(i, i.operands[1], kind)
    bits = DTYPES[f"u{8 * SIZES[kind]}"]
    return lambda v, lanes: lanes.machine.memory.store(i, space, lanes, address(v, lanes), read(v, lanes).view(bits))


_COMBINED = {"add": np.add, "max": np.maximum}


def _in_turn(words: Array, index: Array, value: Array, combine: Any) -> Array:
    """Combine words with values one after another; return the earlier value of each."""
    order = np.argsort(index, kind="stable")
    where = index[order]
    first = np.flatnonzero(np.concatenate([[True], where[1:] != where[:-1]]))
    turn = np.arange(len(where)) - np.repeat(first, np.diff(np.append(first, len(where))))
    old = np.empty(len(index), words.dtype)
    by_turn = np.argsort(turn, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(turn))])
    for start, stop in pairwise(bounds.tolist()):
        lanes = order[by_turn[start:stop]]
        at = index[lanes]
        found = words[at]
        old[lanes] = found
        words[at] = combine(found, value[lanes])
    return old


def _atomic(i: Instruction, env: Env, unused: frozenset[int]) -> Step:
    _, space, name, kind = i.parts
    need(space in ("global", "shared") and kind in ("u32", "s32", "u64", "s64") and len(i.operands) == 3)
    target, combine = i.operands[0], _COMBINED[name]
    put, address, read = env.write(i, target, kind), env.address(i, i.operands[1]), env.read(i, i.operands[2], kind)
    silent = isinstance(target, Register) and target.number in unused

    def step(v: Values, lanes: Lanes) -> None:
        value = np.broadcast_to(read(v, lanes), lanes.n)

        def apply(words: Array, index: Array, chosen: Any) -> Any:
            own = value if chosen is None else value[chosen]
            return combine.at(words, index, own) if silent else _in_turn(words, index, own, combine)

        put(v, lanes, lanes.machine.memory.update(i, space, lanes, address(v, lanes), DTYPES[kind], apply))

    return step


TRANSFERS: dict[str, Callable[[Instruction, Env, frozenset[int]], Step]] = {
    "ld": _load,
    "st": _store,
    "atom": _atomic,
}
