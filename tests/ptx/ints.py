"""Integer arithmetic, logic and bit fields. Functions take and give arrays of one dtype, which wrap around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .fault import Fault
from .parse import SIZES
from .values import DTYPES, Form

_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


class UnknownError(Exception):
    """No such form of an opcode."""


def need(condition: bool) -> None:
    """Refuse a form that is not known."""
    if not condition:
        raise UnknownError


def _same(kind: str, count: int, function: Callable[..., Any]) -> Form:
    return Form(function, kind, (kind,) * count)


def _plain(count: int, function: Callable[..., Any]) -> Callable[[tuple[str, ...], str], Form]:
    def form(mods: tuple[str, ...], kind: str) -> Form:
        need(mods == () and kind in DTYPES and kind not in ("f16", "bf16", "f32", "f64"))
        return _same(kind, count, function)

    return form


# -- arithmetic --------------------------------------------------------------------------------------------------------


def saturated(values: Any, kind: str) -> Any:
    """Wider integers, confined to a type."""
    limits, own = np.iinfo(DTYPES[kind]), np.iinfo(values.dtype)
    return np.clip(values, max(limits.min, own.min), min(limits.max, own.max)).astype(DTYPES[kind])


def _sum(function: Any) -> Callable[[tuple[str, ...], str], Form]:
    def form(mods: tuple[str, ...], kind: str) -> Form:
        need(mods in ((), ("sat",)) and kind in INTEGERS)
        if not mods:
            return _same(kind, 2, function)
        need(kind == "s32")
        return _same(kind, 2, lambda a, b: saturated(function(a.astype(np.int64), b.astype(np.int64)), kind))

    return form


def _high_unsigned(a: Any, b: Any) -> Any:
    """High 64 bits of the product of uint64."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a1 * b0 + ((a0 * b0) >> _HALF)
    other = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _HALF) + (other >> _HALF)


def _high_signed(a: Any, b: Any) -> Any:
    x, y = a.view(np.uint64), b.view(np.uint64)
    zero = np.uint64(0)
    return (_high_unsigned(x, y) - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)).view(np.int64)


def high(kind: str) -> Callable[[Any, Any], Any]:
    """The high half of a product."""
    if kind == "u64":
        return _high_unsigned
    if kind == "s64":
        return _high_signed
    wide, bits, own = DTYPES[_WIDER[kind]], 8 * SIZES[kind], DTYPES[kind]
    return lambda a, b: ((a.astype(wide) * b.astype(wide)) >> wide(bits)).astype(own)


def _mul(mods: tuple[str, ...], kind: str) -> Form:
    need(mods in (("lo",), ("hi",), ("wide",)) and kind in INTEGERS[2:])
    if mods == ("lo",):
        return _same(kind, 2, np.multiply)
    if mods == ("hi",):
        return _same(kind, 2, high(kind))
    need(kind in _WIDER)
    wide = DTYPES[_WIDER[kind]]
    return Form(lambda a, b: a.astype(wide) * b.astype(wide), _WIDER[kind], (kind, kind))


def _mad(mods: tuple[str, ...], kind: str) -> Form:
    product = _mul(mods[:1], kind)
    need(mods[1:] == () or (mods == ("hi", "sat") and kind == "s32"))
    if mods[1:]:
        function = product.function
        return _same(kind, 3, lambda a, b, c: saturated(function(a, b).astype(np.int64) + c, kind))
    return Form(lambda a, b, c: product.function(a, b) + c, product.result, (kind, kind, product.result))


def _by_zero(b: Any) -> None:
    if np.any(b == 0):
        raise Fault("a division by zero, whose result is not defined")


def _quotient(a: Any, b: Any) -> Any:
    _by_zero(b)
    return (a - np.fmod(a, b)) // b


def _remainder(a: Any, b: Any) -> Any:
    _by_zero(b)
    return np.fmod(a, b)


# -- shifts and bits ---------------------------------------------------------------------------------------------------


def _shift(left: bool) -> Callable[[tuple[str, ...], str], Form]:
    def form(mods: tuple[str, ...], kind: str) -> Form:
        need(mods == () and (kind in ("b16", "b32", "b64") or (not left and kind in INTEGERS[2:])))
        dtype, width = DTYPES[kind], 8 * SIZES[kind]
        most, zero = np.uint32(width - 1), dtype(0)

        def function(a: Any, b: Any) -> Any:
            amount = np.minimum(b, most).astype(dtype)
            if left:
                return np.where(b > most, zero, a << amount)
            return a >> amount if kind[0] == "s" else np.where(b > most, zero, a >> amount)

        return Form(function, kind, (kind, "u32"))

    return form


def _funnel(mods: tuple[str, ...], kind: str) -> Form:
    need(len(mods) == 2 and mods[0] in "lr" and mods[1] in ("clamp", "wrap") and kind == "b32")
    left, wrap = mods[0] == "l", mods[1] == "wrap"

    def function(a: Any, b: Any, c: Any) -> Any:
        amount = (c & np.uint32(31) if wrap else np.minimum(c, np.uint32(32))).astype(np.uint64)
        both = (b.astype(np.uint64) << _HALF) | a
        return ((both << amount) >> _HALF if left else both >> amount).astype(np.uint32)

    return Form(function, kind, ("b32", "b32", "u32"))


def _ones(count: Any, width: int) -> Any:
    """So many low bits set, as uint64."""
    count = np.minimum(count, width).astype(np.uint64)
    return np.where(count == 64, ~np.uint64(0), (np.uint64(1) << (count & np.uint64(63))) - np.uint64(1))


def _field(mods: tuple[str, ...], kind: str) -> Form:
    need(mods == () and kind in ("u32", "s32", "u64", "s64"))
    width, dtype = 8 * SIZES[kind], DTYPES[kind]
    unsigned = np.uint32 if width == 32 else np.uint64

    def function(a: Any, b: Any, c: Any) -> Any:
        position, length = (b & np.uint32(255)).astype(np.int64), (c & np.uint32(255)).astype(np.int64)
        bits = a.view(unsigned).astype(np.uint64)
        inside = np.where(position < width, bits >> np.minimum(position, 63).astype(np.uint64), np.uint64(0))
        mask = _ones(np.minimum(length, np.maximum(width - position, 0)), width)
        found = inside & mask
        if kind[0] == "s":
            sign = np.minimum(position + length - 1, width - 1)
            negative = (length > 0) & ((bits >> np.maximum(sign, 0).astype(np.uint64)) & np.uint64(1)).astype(bool)
            found = np.where(negative, found | ~mask, found)
        return found.astype(unsigned).view(dtype)

    return Form(function, kind, (kind, "u32", "u32"))


def _insert(mods: tuple[str, ...], kind: str) -> Form:
    need(mods == () and kind in ("b32", "b64"))
    width, dtype = 8 * SIZES[kind], DTYPES[kind]

    def function(a: Any, b: Any, c: Any, d: Any) -> Any:
        position, length = (c & np.uint32(255)).astype(np.int64), (d & np.uint32(255)).astype(np.int64)
        amount = np.minimum(position, 63).astype(np.uint64)
        mask = np.where(position < width, _ones(length, width) << amount, np.uint64(0))
        return ((b.astype(np.uint64) & ~mask) | ((a.astype(np.uint64) << amount) & mask)).astype(dtype)

    return Form(function, kind, (kind, kind, "u32", "u32"))


def _permute(mods: tuple[str, ...], kind: str) -> Form:
    need(kind == "b32" and mods == ())

    def function(a: Any, b: Any, c: Any) -> Any:
        both = (b.astype(np.uint64) << _HALF) | a
        result: Any = np.uint32(0)
        for k in range(4):
            selector = (c >> np.uint32(4 * k)) & np.uint32(15)
            byte = (both >> ((selector & np.uint32(7)) * np.uint32(8)).astype(np.uint64)).astype(np.uint8)
            sign = np.where(byte >= 128, np.uint8(255), np.uint8(0))
            byte = np.where(selector >= 8, sign, byte)
            result = result | (byte.astype(np.uint32) << np.uint32(8 * k))
        return result

    return Form(function, kind, (kind,) * 3)


def _logic(mods: tuple[str, ...], kind: str) -> Form:
    need(mods == () and kind == "b32")

    def function(a: Any, b: Any, c: Any, table: Any) -> Any:
        result = np.uint32(0)
        for k in range(8):
            if int(table) >> k & 1:
                result = result | (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
        return result

    return Form(function, kind, (kind,) * 4)


def _smeared(a: Any, width: int) -> Any:
    """All bits below the highest one set."""
    for amount in (1, 2, 4, 8, 16, 32):
        if amount < width:
            a = a | (a >> a.dtype.type(amount))
    return a


def _count(function: Callable[[Any, int], Any]) -> Callable[[tuple[str, ...], str], Form]:
    def form(mods: tuple[str, ...], kind: str) -> Form:
        need(mods == () and kind in ("b32", "b64"))
        return Form(lambda a: function(a, 8 * SIZES[kind]).astype(np.uint32), "u32", (kind,))

    return form


def _reversed(mods: tuple[str, ...], kind: str) -> Form:
    need(mods == () and kind in ("b32", "b64"))
    dtype, width = DTYPES[kind], 8 * SIZES[kind]

    def function(a: Any) -> Any:
        result = dtype(0)
        for k in range(width):
            result = result | ((a >> dtype(k)) & dtype(1)) << dtype(width - 1 - k)
        return result

    return _same(kind, 1, function)


def _find(mods: tuple[str, ...], kind: str) -> Form:
    need(mods == () and kind in ("u32", "s32", "u64", "s64"))
    width = 8 * SIZES[kind]
    unsigned = np.uint32 if width == 32 else np.uint64

    def function(a: Any) -> Any:
        bits = (np.where(a < 0, ~a, a) if kind[0] == "s" else a).view(unsigned)
        return np.bitwise_count(_smeared(bits, width)).astype(np.uint32) - np.uint32(1)

    return Form(function, "u32", (kind,))


def dot(parts: tuple[str, ...]) -> Form:
    """``dp4a``, whose last two parts are types."""
    one, other = parts
    need({one, other} <= {"u32", "s32"})
    result = "s32" if "s32" in (one, other) else "u32"

    def byte(a: Any, k: int, kind: str) -> Any:
        return (a >> np.uint32(8 * k)).astype(DTYPES[kind[0] + "8"]).astype(np.int32)

    def function(a: Any, b: Any, c: Any) -> Any:
        total = c.view(np.int32)
        for k in range(4):
            total = total + byte(a, k, one) * byte(b, k, other)
        return total.view(DTYPES[result])

    return Form(function, result, ("b32", "b32", result))


def _bits(count: int, function: Any) -> Callable[[tuple[str, ...], str], Form]:
    def form(mods: tuple[str, ...], kind: str) -> Form:
        need(mods == () and kind in ("pred", "b16", "b32", "b64"))
        return _same(kind, count, function)

    return form


FORMS: dict[str, Callable[[tuple[str, ...], str], Form]] = {
    "add": _sum(np.add),
    "sub": _sum(np.subtract),
    "mul": _mul,
    "mad": _mad,
    "div": _plain(2, _quotient),
    "rem": _plain(2, _remainder),
    "abs": _plain(1, np.abs),
    "neg": _plain(1, np.negative),
    "min": _plain(2, np.minimum),
    "max": _plain(2, np.maximum),
    "and": _bits(2, np.bitwise_and),
    "or": _bits(2, np.bitwise_or),
    "xor": _bits(2, np.bitwise_xor),
    "not": _bits(1, np.invert),
    "lop3": _logic,
    "shl": _shift(True),
    "shr": _shift(False),
    "shf": _funnel,
    "bfe": _field,
    "bfi": _insert,
    "prmt": _permute,
    "popc": _count(lambda a, width: np.bitwise_count(a)),
    "clz": _count(lambda a, width: width - np.bitwise_count(_smeared(a, width)).astype(np.uint32)),
    "brev": _reversed,
    "bfind": _find,
}
