"""``cvt``: from one type to another, with its roundings and its limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .floats import ROUNDINGS, flush, odd_sum, rounded
from .ints import INTEGERS, need, saturated
from .parse import SIZES
from .values import DTYPES, FLOATS, Form

_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _bf16_bits(x: Any, mode: str) -> Any:
    """float32 to bfloat16, by its bits."""
    bits = x.view(np.uint32)
    if mode == "rz":
        result = (bits >> np.uint32(16)).astype(np.uint16)
    else:
        half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        result = ((bits + half) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FFF), result)


def bf16_value(bits: Any) -> Any:
    """bfloat16 to float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _to_integer(target: str, source: str, mode: str) -> Callable[[Any], Any]:
    dtype = DTYPES[target]
    limits = np.iinfo(dtype)
    whole = _INTEGRAL[mode]
    # What NaN becomes: 0, but the sign bit alone where 64 bits are on either side.
    nan = dtype(0)
    if "64" in source or "64" in target:
        nan = np.array(1 << (8 * SIZES[target] - 1), np.uint64).astype(dtype)[()]
    low, above = float(limits.min), 2.0 * (int(limits.max) // 2 + 1)

    def function(x: Any) -> Any:
        value = whole(x.astype(np.float64))
        inside = (value >= low) & (value < above)
        made = np.where(inside, value, 0.0).astype(dtype)
        made = np.where(value >= above, limits.max, np.where(value < low, limits.min, made)).astype(dtype)
        return np.where(np.isnan(value), nan, made)

    return function


def _from_integer(target: str, mode: str) -> Callable[[Any], Any]:
    dtype = DTYPES[target]
    if mode == "rn":
        return lambda a: a.astype(dtype)

    def directed(a: Any) -> Any:
        # Exact in two float64: the upper bits, and the lowest 11.
        need(a.dtype.itemsize < 8 or target != "f64")
        low = a & a.dtype.type(0x7FF)
        high = (a - low).astype(np.float64)
        return rounded(odd_sum(high, low.astype(np.float64)), dtype, mode)

    return directed


def _between(target: str, source: str, mode: str) -> Callable[[Any], Any]:
    """One floating-point type to another."""
    if target == "bf16":
        need(source == "f32" and mode in ("rn", "rz"))
        return lambda a: _bf16_bits(a, mode)
    if source == "bf16":
        need(target == "f32" and mode == "")
        return bf16_value
    dtype = DTYPES[target]
    if mode in _INTEGRAL:
        need(target == source)
        return lambda a: _INTEGRAL[mode](a).astype(dtype)
    if SIZES[target] >= SIZES[source]:
        need(mode == "")
        return lambda a: a.astype(dtype)
    need(mode in ROUNDINGS)
    return lambda a: rounded(a, dtype, mode) if mode != "rn" else a.astype(dtype)


def conversion(mods: tuple[str, ...], target: str, source: str) -> Form:
    """The form of a ``cvt`` with these parts before its types."""
    need(target in DTYPES and source in DTYPES and len(set(mods)) == len(mods))
    mode = next((m for m in mods if m in ROUNDINGS or m in _INTEGRAL), "")
    ftz, sat, relu = "ftz" in mods, "sat" in mods, "relu" in mods
    need(len(mods) == bool(mode) + ftz + sat + relu and not (ftz and "f32" not in (target, source)))
    if target in INTEGERS and source in INTEGERS:
        need(mode == "" and not relu)
        dtype = DTYPES[target]
        return Form((lambda a: saturated(a, target)) if sat else (lambda a: a.astype(dtype)), target, (source,))
    need(target in (*INTEGERS, *FLOATS) and source in (*INTEGERS, *FLOATS))
    if target in INTEGERS:
        need(mode in _INTEGRAL and source != "bf16" and not relu)
        function = _to_integer(target, source, mode)
    elif source in INTEGERS:
        need(mode in ROUNDINGS and target != "bf16" and not relu)
        function = _from_integer(target, mode)
    else:
        function = _between(target, source, mode)
    return Form(_finished(function, target, source, ftz, sat, relu), target, (source,))


def _finished(
    function: Callable[[Any], Any], target: str, source: str, ftz: bool, sat: bool, relu: bool
) -> Callable[[Any], Any]:
    if not (ftz or sat or relu):
        return function

    def finished(a: Any) -> Any:
        result = function(flush(a) if ftz and source == "f32" else a)
        if ftz and target == "f32":
            result = flush(result)
        if sat and target in FLOATS:
            need(target != "bf16")
            result = np.where(np.isnan(result), 0, np.clip(result, 0, 1)).astype(DTYPES[target])
        if relu:
            need(target == "f16")
            result = np.where(result < 0, np.float16(0), result)
        return result

    return finished


def packed(mods: tuple[str, ...], target: str) -> Form:
    """``cvt.rn.f16x2.f32 d, a, b``: two values into one register, ``a`` into the upper half."""
    need(target in ("f16x2", "bf16x2"))
    one = conversion(mods, target[:-2], "f32").function

    def function(a: Any, b: Any) -> Any:
        upper = one(a).view(np.uint16).astype(np.uint32) << np.uint32(16)
        return upper | one(b).view(np.uint16).astype(np.uint32)

    return Form(function, "b32", ("f32", "f32"))
