"""Instructions that a thread runs by itself, as steps; a form that is not known is a fault that quotes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import convert, floats, ints
from .fault import Fault
from .ints import UnknownError, need
from .memory import LOCAL, SHARED
from .parse import SIZES, Group, Instruction, Literal, Name, Operand
from .transfers import TRANSFERS
from .values import DTYPES, Env, Form, Lanes, Read, Step, Values, step_of


def build(i: Instruction, env: Env, unused: frozenset[int]) -> Step:
    """The step of an instruction; ``unused`` registers are read by none."""
    try:
        name = i.parts[0]
        if name in TRANSFERS:
            return TRANSFERS[name](i, env, unused)
        if name in _SPECIAL:
            return _SPECIAL[name](i, env)
        return step_of(i, env, _form(i))
    except (UnknownError, ValueError, KeyError, IndexError) as error:
        raise Fault(f"{i}: this form of an instruction is not known") from error


def _form(i: Instruction) -> Form:
    name, mods, kind = i.parts[0], i.parts[1:-1], i.parts[-1]
    if name == "cvt":
        target, source = i.parts[-2:]
        mods = i.parts[1:-2]
        return convert.packed(mods, target) if target[-2:] == "x2" else convert.conversion(mods, target, source)
    if name == "dp4a":
        return ints.dot(i.parts[1:])
    if name == "prmt":
        return ints.FORMS[name](i.parts[2:], i.parts[1])
    table = floats.FORMS if kind in ("f16", "f32", "f64") else ints.FORMS
    need(name in table)
    return table[name](mods, kind)


# -- moves and choices -------------------------------------------------------------------------------------------------


def _mov(i: Instruction, env: Env) -> Step:
    need(len(i.parts) == 2 and len(i.operands) == 2)
    kind = i.parts[1]
    target, source = i.operands
    if isinstance(source, Group):
        return _pack(i, env, target, source, kind)
    if isinstance(target, Group):
        return _unpack(i, env, target, source, kind)
    get, put = env.read(i, source, kind), env.write(i, target, kind)
    # A copy: a register's array may be written in parts.
    return lambda v, lanes: put(v, lanes, get(v, lanes).copy())


def _parts(i: Instruction, group: Group, kind: str) -> tuple[str, Any, int]:
    """Type and dtype of a vector's elements, and their bits."""
    size = SIZES[kind] // len(group.items)
    return f"b{8 * size}", DTYPES[f"b{8 * SIZES[kind]}"], 8 * size


def _pack(i: Instruction, env: Env, target: Operand, source: Group, kind: str) -> Step:
    part, dtype, bits = _parts(i, source, kind)
    reads = [env.read(i, item, part) for item in source.items]
    put = env.write(i, target, kind)

    def step(v: Values, lanes: Lanes) -> None:
        total = dtype(0)
        for k, read in enumerate(reads):
            total = total | (read(v, lanes).astype(dtype) << dtype(bits * k))
        put(v, lanes, total)

    return step


def _unpack(i: Instruction, env: Env, target: Group, source: Operand, kind: str) -> Step:
    part, dtype, bits = _parts(i, target, kind)
    get = env.read(i, source, f"b{8 * SIZES[kind]}")
    puts = [env.write(i, item, part) for item in target.items]

    def step(v: Values, lanes: Lanes) -> None:
        whole = get(v, lanes)
        for k, put in enumerate(puts):
            put(v, lanes, (whole >> dtype(bits * k)).astype(DTYPES[part]))

    return step


def _selp(i: Instruction, env: Env) -> Step:
    need(len(i.parts) == 2)
    kind = i.parts[1]
    return step_of(i, env, Form(lambda a, b, c: np.where(c, a, b), kind, (kind, kind, "pred")))


def _slct(i: Instruction, env: Env) -> Step:
    ftz = i.parts[1] == "ftz"
    kind, by = i.parts[1 + ftz :]
    need(by in ("s32", "f32") and (by == "f32" or not ftz))
    return step_of(i, env, Form(lambda a, b, c: np.where(c >= 0, a, b), kind, (kind, kind, by)))


_JOINED: dict[str, Any] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _compared(i: Instruction, env: Env, parts: tuple[str, ...], kind: str) -> Callable[[Values, Lanes], Any]:
    """The comparison of ``set`` and ``setp``, with the predicate that it may be joined with."""
    name, rest = parts[0], list(parts[1:])
    join = _JOINED[rest.pop(0)] if rest and rest[0] in _JOINED else None
    need(rest in ([], ["ftz"]) and len(i.operands) == (3 if join is None else 4))
    compare = floats.comparison(name, kind, rest == ["ftz"])
    a, b = env.read(i, i.operands[1], kind), env.read(i, i.operands[2], kind)
    if join is None:
        return lambda v, lanes: compare(a(v, lanes), b(v, lanes))
    other = env.read(i, i.operands[3], "pred")
    return lambda v, lanes: join(compare(a(v, lanes), b(v, lanes)), other(v, lanes))


def _setp(i: Instruction, env: Env) -> Step:
    target = i.operands[0]
    compared = _compared(i, env, i.parts[1:-1], i.parts[-1])
    if not isinstance(target, Group):
        put = env.write(i, target, "pred")
        return lambda v, lanes: put(v, lanes, compared(v, lanes))
    need(len(i.operands) == 3)  # joined with a third, the second result is not just the opposite
    one, other = (env.write(i, item, "pred") for item in target.items)

    def step(v: Values, lanes: Lanes) -> None:
        result = compared(v, lanes)
        one(v, lanes, result)
        other(v, lanes, ~result)

    return step


def _set(i: Instruction, env: Env) -> Step:
    target, source = i.parts[-2:]
    compared = _compared(i, env, i.parts[1:-2], source)
    put = env.write(i, i.operands[0], target)
    need(target in ("u32", "s32", "f32"))
    dtype = DTYPES[target]
    yes = dtype(1.0) if target == "f32" else np.uint32(0xFFFFFFFF).view(dtype)
    return lambda v, lanes: put(v, lanes, np.where(compared(v, lanes), yes, dtype(0)))


# -- addresses ---------------------------------------------------------------------------------------------------------

_WINDOW = {"global": 0, "const": 0, "param": 0, "shared": SHARED, "shared_cta": SHARED, "local": LOCAL}


def _cvta(i: Instruction, env: Env) -> Step:
    back = i.parts[1] == "to"
    space, kind = i.parts[1 + back :]
    need(kind == "u64")
    base = np.uint64(_WINDOW[space])

    def function(a: Any) -> Any:
        return a - base if back else a + base

    return step_of(i, env, Form(function, kind, (kind,)))


def _isspacep(i: Instruction, env: Env) -> Step:
    base = _WINDOW[i.parts[1]]
    high = {0: SHARED, SHARED: LOCAL, LOCAL: 2 * LOCAL}[base]
    return step_of(i, env, Form(lambda a: (a >= base) & (a < high), "pred", ("u64",)))


# -- carries -----------------------------------------------------------------------------------------------------------


def _with_carry(i: Instruction, env: Env) -> Step:
    """``add.cc``, ``addc`` and their like, in Python's integers where 64 bits do not hold the sum."""
    kind = i.parts[-1]
    need(kind in ("u32", "s32", "u64", "s64", "b32", "b64"))
    name = i.parts[0].removesuffix("c")
    takes, gives = i.parts[0].endswith("c"), "cc" in i.parts
    need(i.parts[1:-1] in {("cc",), ()} if name != "mad" else i.parts[1:-1] in {(p, *c) for p in _HALVES for c in _CC})
    bits, number = 8 * SIZES[kind], env.carry
    dtype = DTYPES[f"u{bits}"]
    put = env.write(i, i.operands[0], f"u{bits}")
    reads = [env.read(i, operand, kind if name == "mad" else f"u{bits}") for operand in i.operands[1:]]
    product = (np.multiply if i.parts[1] == "lo" else ints.high(kind)) if name == "mad" else None

    def step(v: Values, lanes: Lanes) -> None:
        values = [np.broadcast_to(read(v, lanes), lanes.n) for read in reads]
        if product is not None:
            values = [product(values[0], values[1]).view(dtype), values[2].view(dtype)]
        a, b = values
        carry = v[number].astype(dtype) if takes else dtype(0)
        if name == "sub":
            result = a - b - carry
            out = (a < b) | ((a == b) & (carry != 0))
        else:
            part = a + b
            result = part + carry
            out = (part < a) | (result < part)
        put(v, lanes, result)
        if gives:
            v[number] = out

    return step


_HALVES = ("lo", "hi")
_CC: tuple[tuple[str, ...], ...] = ((), ("cc",))


def _add_like(i: Instruction, env: Env) -> Step:
    return _with_carry(i, env) if "cc" in i.parts else step_of(i, env, _form(i))


# -- others ------------------------------------------------------------------------------------------------------------


def _activemask(i: Instruction, env: Env) -> Step:
    put = env.write(i, i.operands[0], "b32")

    def step(v: Values, lanes: Lanes) -> None:
        masks = np.zeros(lanes.machine.warps, np.uint32)
        np.bitwise_or.at(masks, lanes.machine.warp[lanes.ids], lanes.machine.lane_bit[lanes.ids])
        put(v, lanes, masks[lanes.machine.warp[lanes.ids]])

    return step


def _fence(i: Instruction, env: Env) -> Step:
    need(set(i.parts[1:]) <= {"gl", "sys", "cta", "gpu", "sc", "acq_rel", "cluster"})
    wide = (i.parts[0] == "membar" and "cta" not in i.parts) or "gpu" in i.parts or "sys" in i.parts
    return lambda v, lanes: lanes.machine.fenced(lanes.ids) if wide else None


def _nothing(i: Instruction, env: Env) -> Step:
    return lambda v, lanes: None


def _trap(i: Instruction, env: Env) -> Step:
    def step(v: Values, lanes: Lanes) -> None:
        raise Fault(f"{lanes.machine.who(lanes.ids[0])} gives up")

    return step


_SPECIAL: dict[str, Callable[[Instruction, Env], Step]] = {
    "mov": _mov,
    "selp": _selp,
    "slct": _slct,
    "setp": _setp,
    "set": _set,
    "cvta": _cvta,
    "isspacep": _isspacep,
    "add": _add_like,
    "sub": _add_like,
    "mad": _add_like,
    "addc": _with_carry,
    "subc": _with_carry,
    "madc": _with_carry,
    "activemask": _activemask,
    "membar": _fence,
    "fence": _fence,
    "nanosleep": _nothing,
    "prefetch": _nothing,
    "prefetchu": _nothing,
    "trap": _trap,
}

__all__ = ["Literal", "Name", "Read", "build"]
