"""Floating-point arithmetic: rounding, subnormal numbers, NaN and signed zeros as the PTX manual says.

Approximate instructions are computed in float64 and rounded once, which is within their bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .ints import need
from .values import Form

ROUNDINGS = ("rn", "rz", "rm", "rp")
_TINY = np.finfo(np.float32).tiny
_ZERO = np.float32(0)
_KINDS = ("f16", "f32", "f64")


# -- rounding ----------------------------------------------------------------------------------------------------------


def flush(x: Any) -> Any:
    """float32 with subnormal numbers as zeros of their sign."""
    small = np.abs(x) < _TINY
    return np.where(small, np.copysign(_ZERO, x), x) if small.any() else x


def _odd(total: Any, error: Any) -> Any:
    """A float64 sum and what it lacks, rounded to odd: rounding that once more, to float32, is as exact."""
    bits = np.atleast_1d(total).view(np.int64)
    error = np.atleast_1d(error)
    change = (error != 0) & ((bits & 1) == 0) & np.isfinite(total) & np.isfinite(error)
    if not np.any(change):
        return total
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(change, bits + step, bits).view(np.float64).reshape(np.shape(total))


def odd_sum(a: Any, b: Any) -> Any:
    """Sum of two float64, rounded to odd."""
    total = a + b
    part = total - a
    return _odd(total, (a - (total - part)) + (b - part))


def rounded(x: Any, dtype: Any, mode: str) -> Any:
    """float64 to a smaller type, with one of the four roundings."""
    near = np.asarray(x).astype(dtype)
    if mode == "rn":
        return near
    back = near.astype(np.float64)
    if mode == "rz":
        wrong = np.abs(back) > np.abs(x)
        return np.where(wrong, np.nextafter(near, dtype(0)), near)
    if mode == "rm":
        return np.where(back > x, np.nextafter(near, dtype(-np.inf)), near)
    return np.where(back < x, np.nextafter(near, dtype(np.inf)), near)


def _wide(a: Any) -> Any:
    return a.astype(np.float64)


def _finished(function: Callable[..., Any], kind: str, mods: tuple[str, ...], count: int) -> Form:
    """A form with subnormal numbers flushed and the result confined to [0, 1] where it says so."""
    need(set(mods) <= {"ftz", "sat"} and kind in _KINDS and (kind == "f32" or mods == ()))
    ftz, sat = "ftz" in mods, "sat" in mods
    if not (ftz or sat):
        return Form(function, kind, (kind,) * count)

    def finished(*arguments: Any) -> Any:
        if ftz:
            arguments = tuple(flush(a) if a.ndim else a for a in arguments)  # no compiler writes such a constant
        result = function(*arguments)
        if ftz:
            result = flush(result)
        if sat:
            result = np.where(np.isnan(result), np.float32(0), np.clip(result, np.float32(0), np.float32(1)))
            result = result + np.float32(0)  # -0 is 0
        return result

    return Form(finished, kind, (kind,) * count)


def _split(mods: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The rounding, and the other parts."""
    rest = tuple(m for m in mods if m not in ROUNDINGS)
    modes = [m for m in mods if m in ROUNDINGS] or ["rn"]
    need(len(modes) == 1)
    return modes[0], rest


def _arithmetic(plain: Any, exact: Callable[..., Any], count: int) -> Callable[[tuple[str, ...], str], Form]:
    """A form from NumPy's operation and from one in float64 that is exact, or rounded to odd."""

    def form(mods: tuple[str, ...], kind: str) -> Form:
        mode, rest = _split(mods)
        if mode == "rn" and plain is not None:
            return _finished(plain, kind, rest, count)
        need(kind == "f32")
        return _finished(lambda *a: rounded(exact(*map(_wide, a)), np.float32, mode), kind, rest, count)

    return form


def _fma(mods: tuple[str, ...], kind: str) -> Form:
    mode, rest = _split(mods)
    need(kind == "f32")
    return _finished(lambda a, b, c: rounded(odd_sum(_wide(a) * _wide(b), _wide(c)), np.float32, mode), kind, rest, 3)


# -- approximations ----------------------------------------------------------------------------------------------------


def _of_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: function(*map(_wide, arguments)).astype(np.float32)


def _approximate_quotient(a: Any, b: Any) -> Any:
    """``a * (1 / b)``, where the reciprocal of a number above 2^126 is flushed."""
    result = (_wide(a) / _wide(b)).astype(np.float32)
    large = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
    if not np.any(large):
        return result
    return np.where(large, np.where(np.isinf(a), np.float32(np.nan), np.copysign(np.float32(0), result)), result)


def _div(mods: tuple[str, ...], kind: str) -> Form:
    if mods[:1] in (("approx",), ("full",)):
        need(kind == "f32")
        function = _approximate_quotient if mods[0] == "approx" else _of_float64(np.divide)
        return _finished(function, kind, mods[1:], 2)
    need(mods[:1] == ("rn",))
    return _finished(np.divide, kind, mods[1:], 2)


def _function(exact: Callable[[Any], Any], precise: bool) -> Callable[[tuple[str, ...], str], Form]:
    """``rcp``, ``sqrt`` and others: ``.approx``, and with a rounding where there is a precise one."""

    def form(mods: tuple[str, ...], kind: str) -> Form:
        need(mods != ())
        if mods[0] == "approx":
            need(kind == "f32")
            return _finished(_of_float64(exact), kind, mods[1:], 1)
        need(precise and mods[0] == "rn")
        # To round a quotient or a root of float32 to float64 first does not change the float32.
        return _finished(exact if kind == "f64" else _of_float64(exact), kind, mods[1:], 1)

    return form


# -- what keeps bits ---------------------------------------------------------------------------------------------------


def _extreme(largest: bool) -> Callable[[tuple[str, ...], str], Form]:
    """``min`` and ``max``: a number rather than a NaN, and -0 is less than +0."""

    def form(mods: tuple[str, ...], kind: str) -> Form:
        need(kind in ("f32", "f64"))
        keep = "NaN" in mods
        unsigned = np.uint32 if kind == "f32" else np.uint64
        pick, join = (np.fmax, np.bitwise_and) if largest else (np.fmin, np.bitwise_or)

        def function(a: Any, b: Any) -> Any:
            equal = a == b
            result = pick(a, b)
            if np.any(equal):
                result = np.where(equal, join(a.view(unsigned), b.view(unsigned)).view(result.dtype), result)
            return np.where(np.isnan(a) | np.isnan(b), result.dtype.type(np.nan), result) if keep else result

        return _finished(function, kind, tuple(m for m in mods if m != "NaN"), 2)

    return form


def _sign(function: Callable[[Any], Any]) -> Callable[[tuple[str, ...], str], Form]:
    return lambda mods, kind: _finished(function, kind, mods, 1)


FORMS: dict[str, Callable[[tuple[str, ...], str], Form]] = {
    "add": _arithmetic(np.add, odd_sum, 2),
    "sub": _arithmetic(np.subtract, lambda a, b: odd_sum(a, -b), 2),
    "mul": _arithmetic(np.multiply, np.multiply, 2),
    "fma": _fma,
    "mad": _fma,
    "div": _div,
    "rcp": _function(np.reciprocal, True),
    "sqrt": _function(np.sqrt, True),
    "rsqrt": _function(lambda a: 1.0 / np.sqrt(a), False),
    "ex2": _function(np.exp2, False),
    "lg2": _function(np.log2, False),
    "sin": _function(np.sin, False),
    "cos": _function(np.cos, False),
    "tanh": _function(np.tanh, False),
    "abs": _sign(np.abs),
    "neg": _sign(np.negative),
    "min": _extreme(False),
    "max": _extreme(True),
}


# -- comparisons -------------------------------------------------------------------------------------------------------

_ORDERED: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def comparison(name: str, kind: str, ftz: bool) -> Callable[[Any, Any], Any]:
    """``setp``'s comparisons; those of numbers are false where one is none, those that end with u are true."""
    if kind not in ("f32", "f64", "f16"):
        need(not ftz)
        if name in _UNSIGNED:
            need(kind[0] == "u")
            name = _UNSIGNED[name]
        need(name in _ORDERED and (kind[0] != "b" or name in ("eq", "ne")))
        ordered: Callable[[Any, Any], Any] = _ORDERED[name]
        return ordered
    compare = _float_comparison(name)
    if not ftz:
        return compare
    need(kind == "f32")
    return lambda a, b: compare(flush(a), flush(b))


def _float_comparison(name: str) -> Callable[[Any, Any], Any]:
    if name in ("num", "nan"):
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == (name == "nan")
    bare = name[:2]
    need(bare in _ORDERED and name in (bare, bare + "u"))
    function = _ORDERED[bare]
    if name == "ne":
        return lambda a, b: (a != b) & ~(np.isnan(a) | np.isnan(b))
    if name in _ORDERED or name == "neu":
        return lambda a, b: function(a, b)
    return lambda a, b: function(a, b) | np.isnan(a) | np.isnan(b)
