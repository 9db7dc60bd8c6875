"""Loads, stores and atomics, as steps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from .ints import need
from .parse import SIZES, Group, Instruction, Name, Operand, Register
from .races import CONSTANT, FENCED, STRONG, WRITE
from .values import DTYPES, Array, Env, Lanes, Step, Values

_SPACES = ("global", "shared", "local", "const", "param", "shared_cta", "param_entry", "param_func")
_CACHES = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak", "volatile", "relaxed", "acquire", "release"}
_SCOPES = {"cta", "cluster", "gpu", "sys"}
_STRONG = {"volatile", "relaxed", "acquire", "release"}
_FENCED = {"acquire", "release", "acq_rel", "acquire_release"}


def _space(parts: list[str]) -> str:
    """Take the state space out of an opcode's parts."""
    found = next((p for p in parts if p in _SPACES), None)
    if found is None:
        return "generic"
    parts.remove(found)
    space = found.partition("_")[0]
    return "global" if space == "const" else space


def _moved(i: Instruction) -> tuple[str, int, str, int]:
    """Space, number of elements, type and flags of a load or a store."""
    parts = list(i.parts[1:])
    kind = parts.pop()
    space = _space(parts)
    count = next((int(p[1]) for p in parts if p in ("v2", "v4")), 1)
    words = [p for p in parts if p not in ("v2", "v4")]
    words = [w for w in words if not w.startswith(("L1_", "L2_"))]
    need(kind in DTYPES and kind != "pred" and all(w in _CACHES | _SCOPES for w in words))
    flags = STRONG if _STRONG & set(words) else 0
    flags |= FENCED if _FENCED & set(words) else 0
    flags |= CONSTANT if "nc" in words else 0
    return space, count, kind, flags


def _items(operand: Operand, count: int) -> tuple[Operand, ...]:
    items = operand.items if isinstance(operand, Group) else (operand,)
    need(len(items) == count)
    return items


def _load(i: Instruction, env: Env, unused: frozenset[int]) -> Step:
    space, count, kind, flags = _moved(i)
    need(len(i.operands) == 2)
    puts = [env.write(i, item, kind) for item in _items(i.operands[0], count)]
    address = env.address(i, i.operands[1])
    size, dtype = SIZES[kind], DTYPES[kind]
    if space == "param":
        return _load_parameter(i, env, kind)

    def step(v: Values, lanes: Lanes) -> None:
        found = lanes.machine.memory.load(i, space, lanes, address(v, lanes), size, count, flags)
        for put, values in zip(puts, found, strict=True):
            put(v, lanes, values.view(dtype))

    return step


def _load_parameter(i: Instruction, env: Env, kind: str) -> Step:
    (target,) = _items(i.operands[0], 1)
    put = env.write(i, target, kind)
    address = env.address(i, i.operands[1])
    size, dtype = SIZES[kind], DTYPES[kind]

    def step(v: Values, lanes: Lanes) -> None:
        at = int(address(v, lanes)[0])
        put(v, lanes, lanes.machine.parameters[at : at + size].view(dtype)[0])

    return step


def _store(i: Instruction, env: Env, unused: frozenset[int]) -> Step:
    space, count, kind, flags = _moved(i)
    need(len(i.operands) == 2 and space != "param")
    address = env.address(i, i.operands[0])
    reads = [env.read(i, item, kind) for item in _items(i.operands[1], count)]
    bits = DTYPES[f"u{8 * SIZES[kind]}"]

    def step(v: Values, lanes: Lanes) -> None:
        values = [read(v, lanes).view(bits) for read in reads]
        lanes.machine.memory.store(i, space, lanes, address(v, lanes), values, flags | WRITE)

    return step


# -- atomics -----------------------------------------------------------------------------------------------------------

_UFUNCS: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip
_COMBINED: dict[str, Callable[..., Any]] = {
    **_UFUNCS,
    "exch": lambda old, new: new,
    "cas": lambda old, expected, new: np.where(old == expected, new, old),
    "inc": lambda old, most: np.where(old >= most, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, most: np.where((old == 0) | (old > most), most, old - old.dtype.type(1)),
}
_KINDS = {
    "add": {"u32", "s32", "u64", "s64", "f32", "f64", "f16"},
    "min": {"u32", "s32", "u64", "s64"},
    "max": {"u32", "s32", "u64", "s64"},
    "and": {"b32", "b64"},
    "or": {"b32", "b64"},
    "xor": {"b32", "b64"},
    "exch": {"b32", "b64"},
    "cas": {"b16", "b32", "b64"},
    "inc": {"u32"},
    "dec": {"u32"},
}


def in_turn(words: Array, index: Array, values: list[Array], combine: Callable[..., Any]) -> Array:
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
        words[at] = combine(found, *(value[lanes] for value in values))
    return old


def _atomic(i: Instruction, env: Env, unused: frozenset[int]) -> Step:
    parts = [p for p in i.parts[1:] if p not in _SCOPES and p not in ("relaxed", "noftz") and p not in _FENCED]
    kind = parts.pop()
    space = _space(parts)
    (name,) = parts
    need(name in _COMBINED and kind in _KINDS[name])
    fenced = FENCED if _FENCED & set(i.parts) else 0
    returns = i.parts[0] == "atom"
    target = i.operands[0] if returns else Name("_")
    put = env.write(i, target, kind)
    silent = isinstance(target, Name) or (isinstance(target, Register) and target.number in unused)
    address = env.address(i, i.operands[returns])
    reads = [env.read(i, operand, kind) for operand in i.operands[1 + returns :]]
    need(len(reads) == (2 if name == "cas" else 1))
    combine, ufunc = _COMBINED[name], _UFUNCS.get(name)

    def step(v: Values, lanes: Lanes) -> None:
        values = [np.broadcast_to(read(v, lanes), lanes.n) for read in reads]

        def apply(words: Array, index: Array, chosen: Any) -> Any:
            own = values if chosen is None else [value[chosen] for value in values]
            if silent and ufunc is not None:
                ufunc.at(words, index, own[0])
                return None
            return in_turn(words, index, own, combine)

        put(v, lanes, lanes.machine.memory.update(i, space, lanes, address(v, lanes), DTYPES[kind], apply, fenced))

    return step


TRANSFERS: dict[str, Callable[[Instruction, Env, frozenset[int]], Step]] = {
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "atom": _atomic,
    "red": _atomic,
}
