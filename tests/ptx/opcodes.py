"""Instructions that a thread runs by itself, as steps; a form that is not known is a fault that quotes it.

What our kernels use is known, in single precision. Subnormal numbers, which become zeros, NaN and signed zeros are
treated as the PTX manual says. Approximate instructions are computed in float64 and rounded once, which is within
their bounds.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from .parse import SIZES, Fault, Instruction, Register
from .values import DTYPES, Array, Env, Form, Lanes, Step, UnknownError, Values, need, step_of

_INTEGERS = ("u8", "u16", "s16", "u32", "s32", "u64", "s64")
_BITS = ("b16", "b32", "b64")
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def build(i: Instruction, env: Env, unused: frozenset[int]) -> Step:
    """The step of an instruction; ``unused`` registers are read by none."""
    try:
        if i.parts[0] in _TRANSFERS:
            return _TRANSFERS[i.parts[0]](i, env, unused)
        if i.parts == ("membar", "gl"):  # what blocks exchange are atomics, which are in order
            return lambda v, lanes: None
        return step_of(i, env, form_of(i.parts))
    except (UnknownError, ValueError, KeyError, IndexError) as error:
        raise Fault(f"{i}: this form of an instruction is not known") from error


def form_of(parts: tuple[str, ...]) -> Form:
    """What an instruction computes, by the parts of its name."""
    name, kind, ftz = ".".join(part for part in parts[:-1] if part != "ftz"), parts[-1], "ftz" in parts
    if name.startswith("cvt."):
        return _conversion(name, parts[-2], kind, ftz)
    if name.startswith("setp."):
        return _comparison(parts[1], kind, ftz)
    if kind == "f32" and ftz and name in _FLOAT:
        count, function = _FLOAT[name]
        return Form(_flushing(function), kind, (kind,) * count)
    need(not ftz)
    if name in _INTEGER and kind in _INTEGERS:
        count, function = _INTEGER[name]
        return Form(function, kind, (kind,) * count)
    if name in _LOGIC and kind in (*_BITS, "pred"):
        count, function = _LOGIC[name]
        return Form(function, kind, (kind,) * count)
    return _OTHERS[name](kind)


# -- loads, stores and atomics -----------------------------------------------------------------------------------------


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


_TRANSFERS: dict[str, Callable[[Instruction, Env, frozenset[int]], Step]] = {"ld": _load, "st": _store, "atom": _atomic}


# -- integers, in arrays of one dtype, which wrap around ---------------------------------------------------------------


def _remainder(a: Any, b: Any) -> Any:
    if np.any(b == 0):
        raise Fault("a division by zero, whose result is not defined")
    return np.fmod(a, b)


def _quotient(a: Any, b: Any) -> Any:
    return (a - _remainder(a, b)) // b


_INTEGER: dict[str, tuple[int, Callable[..., Any]]] = {
    "add": (2, np.add),
    "sub": (2, np.subtract),
    "mul.lo": (2, np.multiply),
    "mad.lo": (3, lambda a, b, c: a * b + c),
    "div": (2, _quotient),
    "rem": (2, _remainder),
    "min": (2, np.minimum),
    "max": (2, np.maximum),
    "abs": (1, np.abs),
    "neg": (1, np.negative),
}
_LOGIC: dict[str, tuple[int, Callable[..., Any]]] = {
    "and": (2, np.bitwise_and),
    "or": (2, np.bitwise_or),
    "xor": (2, np.bitwise_xor),
    "not": (1, np.invert),
}


def _high(kind: str) -> Form:
    """The high 64 bits of a product of signed numbers."""
    need(kind == "s64")

    def function(a: Any, b: Any) -> Any:
        x, y, zero = a.view(np.uint64), b.view(np.uint64), np.uint64(0)
        x0, x1, y0, y1 = x & _LOW, x >> _HALF, y & _LOW, y >> _HALF
        middle = x1 * y0 + ((x0 * y0) >> _HALF)
        unsigned = x1 * y1 + (middle >> _HALF) + ((x0 * y1 + (middle & _LOW)) >> _HALF)
        return (unsigned - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)).view(np.int64)

    return Form(function, kind, (kind, kind))


def _wide(kind: str) -> Form:
    wide = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}[kind]
    dtype = DTYPES[wide]
    return Form(lambda a, b: a.astype(dtype) * b.astype(dtype), wide, (kind, kind))


def _shift(left: bool) -> Callable[[str], Form]:
    def form(kind: str) -> Form:
        need(kind in _BITS or (not left and kind in _INTEGERS[1:]))
        dtype, most = DTYPES[kind], np.uint32(8 * SIZES[kind] - 1)

        def function(a: Any, b: Any) -> Any:
            amount = np.minimum(b, most).astype(dtype)
            shifted = a << amount if left else a >> amount
            return shifted if kind[0] == "s" else np.where(b > most, dtype(0), shifted)

        return Form(function, kind, (kind, "u32"))

    return form


def _insert(kind: str) -> Form:
    """``bfi``: a field of bits put into others."""
    need(kind in ("b32", "b64"))
    width, dtype = 8 * SIZES[kind], DTYPES[kind]

    def function(a: Any, b: Any, c: Any, d: Any) -> Any:
        position, length = (c & np.uint32(255)).astype(np.int64), (d & np.uint32(255)).astype(np.int64)
        amount, count = np.minimum(position, 63).astype(np.uint64), np.minimum(length, width).astype(np.uint64)
        ones = np.where(count == 64, ~np.uint64(0), (np.uint64(1) << (count & np.uint64(63))) - np.uint64(1))
        mask = np.where(position < width, ones << amount, np.uint64(0))
        return ((b.astype(np.uint64) & ~mask) | ((a.astype(np.uint64) << amount) & mask)).astype(dtype)

    return Form(function, kind, (kind, kind, "u32", "u32"))


def _permute(kind: str) -> Form:
    """``prmt``: four bytes of two words, or what their signs are."""
    need(kind == "b32")

    def function(a: Any, b: Any, c: Any) -> Any:
        both = (b.astype(np.uint64) << _HALF) | a
        result: Any = np.uint32(0)
        for k in range(4):
            selector = (c >> np.uint32(4 * k)) & np.uint32(15)
            byte = (both >> ((selector & np.uint32(7)) * np.uint32(8)).astype(np.uint64)).astype(np.uint8)
            byte = np.where(selector >= 8, np.where(byte >= 128, np.uint8(255), np.uint8(0)), byte)
            result = result | (byte.astype(np.uint32) << np.uint32(8 * k))
        return result

    return Form(function, kind, (kind,) * 3)


def _copy(kind: str) -> Form:
    """``mov`` and ``cvta.to.global``: a copy, since a register's array may be written in parts."""
    return Form(lambda a: a.copy(), kind, (kind,))


def _count(kind: str) -> Form:
    need(kind in ("b32", "b64"))
    return Form(lambda a: np.bitwise_count(a).astype(np.uint32), "u32", (kind,))


_OTHERS: dict[str, Callable[[str], Form]] = {
    "popc": _count,
    "mul.hi": _high,
    "mul.wide": _wide,
    "shl": _shift(True),
    "shr": _shift(False),
    "bfi": _insert,
    "prmt": _permute,
    "mov": _copy,
    "cvta.to.global": _copy,
    "selp": lambda kind: Form(lambda a, b, c: np.where(c, a, b), kind, (kind, kind, "pred")),
}


# -- floats ------------------------------------------------------------------------------------------------------------

_TINY, _ZERO = np.finfo(np.float32).tiny, np.float32(0)


def _flush(x: Any) -> Any:
    """float32 with subnormal numbers as zeros of their sign."""
    small = np.abs(x) < _TINY
    return np.where(small, np.copysign(_ZERO, x), x) if small.any() else x


def _flushing(function: Callable[..., Any]) -> Callable[..., Any]:
    def flushed(*arguments: Any) -> Any:
        return _flush(function(*(_flush(a) if a.ndim else a for a in arguments)))  # no compiler writes such a constant

    return flushed


def _double(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: function(*(a.astype(np.float64) for a in arguments)).astype(np.float32)


def _fma(a: Any, b: Any, c: Any) -> Any:
    """Of an exact product: a float64 sum that is rounded to odd, whose rounding to float32 is that of the exact sum."""
    product = a * b
    total = product + c
    part = total - product
    error = np.atleast_1d((product - (total - part)) + (c - part))
    bits = np.atleast_1d(total).view(np.int64)
    change = (error != 0) & ((bits & 1) == 0) & np.isfinite(total) & np.isfinite(error)
    if not np.any(change):
        return total
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(change, bits + step, bits).view(np.float64).reshape(np.shape(total))


def _approximate_quotient(a: Any, b: Any) -> Any:
    """``a * (1 / b)``, where the reciprocal of a number above 2^126 is flushed."""
    result = (a.astype(np.float64) / b.astype(np.float64)).astype(np.float32)
    large = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
    if not np.any(large):
        return result
    return np.where(large, np.where(np.isinf(a), np.float32(np.nan), np.copysign(_ZERO, result)), result)


def _extreme(pick: Any, join: Any) -> Callable[..., Any]:
    """``min`` and ``max``: a number rather than a NaN, and -0 is less than +0."""

    def function(a: Any, b: Any) -> Any:
        equal, result = a == b, pick(a, b)
        if not np.any(equal):
            return result
        return np.where(equal, join(a.view(np.uint32), b.view(np.uint32)).view(np.float32), result)

    return function


_FLOAT: dict[str, tuple[int, Callable[..., Any]]] = {
    "add": (2, np.add),
    "sub": (2, np.subtract),
    "mul": (2, np.multiply),
    "fma.rn": (3, _double(_fma)),
    "min": (2, _extreme(np.fmin, np.bitwise_or)),
    "max": (2, _extreme(np.fmax, np.bitwise_and)),
    "abs": (1, np.abs),
    "neg": (1, np.negative),
    "div.approx": (2, _approximate_quotient),
    "sqrt.approx": (1, _double(np.sqrt)),
    "ex2.approx": (1, _double(np.exp2)),
    "lg2.approx": (1, _double(np.log2)),
}


# -- comparisons and conversions ---------------------------------------------------------------------------------------

_COMPARED: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


def _comparison(name: str, kind: str, ftz: bool) -> Form:
    """``setp``: comparisons of floats are false where one is NaN; those that end with u are true."""
    if kind != "f32":
        need(not ftz and (kind in _INTEGERS or (kind in _BITS and name in ("eq", "ne"))))
        return Form(_COMPARED[name], "pred", (kind, kind))
    function, unordered = _COMPARED[name[:2]], name[2:] == "u"
    need(ftz and name[2:] in ("", "u") and name != "ne")  # of NaN, NumPy's != is true

    def compare(a: Any, b: Any) -> Any:
        a, b = _flush(a), _flush(b)
        return function(a, b) | np.isnan(a) | np.isnan(b) if unordered else function(a, b)

    return Form(compare, "pred", (kind, kind))


def _conversion(name: str, target: str, source: str, ftz: bool) -> Form:
    mode, dtype = name.removeprefix("cvt.").removesuffix(target), DTYPES[target]
    if target in _INTEGERS and source in _INTEGERS:
        need(mode == "" and not ftz)
        return Form(lambda a: a.astype(dtype), target, (source,))
    if target == "f32":
        need(mode == "rn." and source in _INTEGERS)
        return Form(lambda a: a.astype(dtype), target, (source,))
    need(mode == "rzi." and target in _INTEGERS and source == "f32")
    limits = np.iinfo(dtype)
    low, above = float(limits.min), 2.0 * (int(limits.max) // 2 + 1)
    # What NaN becomes: 0, but the sign bit alone of 64 bits.
    nan = np.array(1 << 63, np.uint64).astype(dtype)[()] if SIZES[target] == 8 else dtype(0)

    def function(a: Any) -> Any:  # flushed or not: subnormal numbers become 0
        value = np.trunc(a.astype(np.float64))
        inside = (value >= low) & (value < above)
        made = np.where(inside, value, 0.0).astype(dtype)
        made = np.where(value >= above, limits.max, np.where(value < low, limits.min, made)).astype(dtype)
        return np.where(np.isnan(value), nan, made)

    return Form(function, target, (source,))
