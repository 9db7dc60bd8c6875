"""Floating-point instructions against fractions, rounded once, and the manual's words on NaN and signed zeros."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from .snippets import INTS, RANDOM, bits_of, evaluate, interesting, wrapped

_TINY = np.float32(1e-40)  # subnormal
_FLOATS = np.array(
    [0.0, -0.0, 1.0, -1.0, 1.5, 2.5, -2.5, 0.5, 3.0, 1e-38, _TINY, -_TINY, 1e38, 3.4e38, -3.4e38, 1 / 3, 255.5, 2.0**31,
     2.0**24 + 2, 1 + 2.0**-23, 1 - 2.0**-24, np.inf, -np.inf, np.nan, 65504.0, 65520.0, 2.0**63, 1e-45],
    np.float32,
)  # fmt: skip


def _grid(count: int) -> list[Any]:
    random = (RANDOM.standard_normal(6) * 10.0 ** RANDOM.integers(-20, 20, 6)).astype(np.float32)
    values = np.concatenate([_FLOATS, random])
    rows = list(itertools.product(values.tolist(), repeat=count))
    chosen = RANDOM.permutation(len(rows))[:1024]
    return [np.array([rows[k][column] for k in chosen], np.float32) for column in range(count)]


def _nearest(exact: Fraction) -> float:
    """A fraction rounded once to float32."""
    if exact == 0:
        return 0.0
    exponent = max(
        math.floor(math.log2(abs(exact))) if abs(exact) < 10**30 else abs(exact).__floor__().bit_length() - 1, -126
    )
    while abs(exact) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while exponent > -126 and abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - 23)
    value = round(exact / unit) * unit
    return math.copysign(math.inf, value) if abs(value) >= Fraction(2) ** 128 else float(value)


def _flushed(x: float) -> float:
    return math.copysign(0.0, x) if abs(x) < 2.0**-126 else x


def _same(found: Any, expected: Any, text: str, *columns: Any) -> None:
    for k, (one, other) in enumerate(zip(found.tolist(), expected, strict=True)):
        told = text, [column[k] for column in columns], one, other
        if math.isnan(other):
            assert math.isnan(one), told
        else:
            assert one == other, told
            assert math.copysign(1, one) == math.copysign(1, other) or other != 0, told


@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_float_arithmetic_rounds_once(ftz: str) -> None:
    flushed = _flushed if ftz else float
    for name, operation in (("add", Fraction.__add__), ("sub", Fraction.__sub__), ("mul", Fraction.__mul__)):
        a, b = _grid(2)
        found = evaluate(f"{name}{ftz}.f32 {{d}}, {{a}}, {{b}};", "float32", a, b)
        for x, y, value in zip(a.tolist(), b.tolist(), found.tolist(), strict=True):
            if math.isfinite(x) and math.isfinite(y):
                exact = operation(Fraction(flushed(x)), Fraction(flushed(y)))
                assert value == flushed(_nearest(exact)), (name, x, y)
    a, b, c = _grid(3)
    found = evaluate(f"fma.rn{ftz}.f32 {{d}}, {{a}}, {{b}}, {{c}};", "float32", a, b, c)
    for x, y, z, value in zip(a.tolist(), b.tolist(), c.tolist(), found.tolist(), strict=True):
        if all(map(math.isfinite, (x, y, z))):
            assert value == flushed(_nearest(Fraction(flushed(x)) * Fraction(flushed(y)) + Fraction(flushed(z)))), (
                x,
                y,
                z,
            )


def test_a_fused_product_is_not_rounded_before_the_sum() -> None:
    """Halfway cases that rounding to float64 first gets wrong."""
    a = np.array([1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60, 1 + 2.0**-23], np.float32)
    b = np.array([1 + 2.0**-12, -(1 + 2.0**-12), 2.0**-60, 1 - 2.0**-24], np.float32)
    c = np.array([2.0**-80, -(2.0**-80), 1 + 2.0**-23, 2.0**-120], np.float32)
    found = evaluate("fma.rn.f32 {d}, {a}, {b}, {c};", "float32", a, b, c)
    expected = [
        _nearest(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))) for x, y, z in zip(a, b, c, strict=True)
    ]
    _same(found, expected, "fma", a, b, c)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_roundings_bound_the_sum(mode: str) -> None:
    a, b = (column[np.abs(column) < 1e30] for column in _grid(2))
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    found = evaluate(f"add.{mode}.f32 {{d}}, {{a}}, {{b}};", "float32", a, b)
    for x, y, value in zip(a.tolist(), b.tolist(), found, strict=True):
        exact = Fraction(x) + Fraction(y)
        low, high = (
            Fraction(float(np.nextafter(value, -np.float32(np.inf)))),
            Fraction(float(np.nextafter(value, np.float32(np.inf)))),
        )
        upwards = mode == "rp" or (mode == "rz" and exact < 0)
        here = Fraction(float(value))
        assert here >= exact > low if upwards else here <= exact < high, (mode, x, y, value)


def test_quotients_and_functions() -> None:
    a, b = _grid(2)
    with np.errstate(all="ignore"):
        _same(evaluate("div.rn.f32 {d}, {a}, {b};", "float32", a, b), (a / b).tolist(), "div", a, b)
        found = evaluate("div.approx.ftz.f32 {d}, {a}, {b};", "float32", a, b).astype(np.float64)
        ordinary = np.isfinite(a) & np.isfinite(b) & (np.abs(a) > 1e-37) & (np.abs(b) > 1e-37) & (np.abs(b) <= 2.0**126)
        exact = a[ordinary].astype(np.float64) / b[ordinary]
        usual = (np.abs(exact) > 1e-37) & (np.abs(exact) < 3e38)
        np.testing.assert_allclose(found[ordinary][usual], exact[usual], rtol=2.0**-22)
        x = np.array([0.25, 1.0, 2.0, 3.0, 10.0, 1e-30, 1e30], np.float32)
        for name, function in (
            ("rcp.approx.ftz", lambda x: 1 / x), ("sqrt.approx.ftz", np.sqrt), ("rsqrt.approx.ftz", lambda x: x**-0.5),
            ("lg2.approx.ftz", np.log2), ("sin.approx.ftz", np.sin), ("cos.approx.ftz", np.cos),
            ("tanh.approx", np.tanh),
            ("sqrt.rn", np.sqrt), ("rcp.rn", lambda x: 1 / x),
        ):  # fmt: skip
            found = evaluate(f"{name}.f32 {{d}}, {{a}};", "float32", x)
            np.testing.assert_allclose(found, function(x.astype(np.float64)), rtol=2.0**-20, err_msg=name)
        x = np.array([-126.0, -1.5, 0.0, 0.3, 10.0, 127.0], np.float32)
        np.testing.assert_allclose(evaluate("ex2.approx.ftz.f32 {d}, {a};", "float32", x), 2.0**x, rtol=2.0**-20)


def test_divisors_too_large_for_a_reciprocal() -> None:
    a = np.array([1.0, -1.0, np.inf], np.float32)
    found = evaluate("div.approx.f32 {d}, {a}, {b};", "float32", a, np.full(3, 2.0**127, np.float32))
    _same(found, [0.0, -0.0, math.nan], "div.approx", a)


def test_extremes_and_signs() -> None:
    a = np.array([0.0, -0.0, np.nan, 1.0, np.nan, 2.0], np.float32)
    b = np.array([-0.0, 0.0, 1.0, np.nan, np.nan, 3.0], np.float32)
    _same(evaluate("max.f32 {d}, {a}, {b};", "float32", a, b), [0.0, 0.0, 1.0, 1.0, math.nan, 3.0], "max", a, b)
    _same(evaluate("min.f32 {d}, {a}, {b};", "float32", a, b), [-0.0, -0.0, 1.0, 1.0, math.nan, 2.0], "min", a, b)
    found = evaluate("max.NaN.f32 {d}, {a}, {b};", "float32", a, b)
    _same(found, [0.0, 0.0, math.nan, math.nan, math.nan, 3.0], "max.NaN", a, b)
    _same(evaluate("neg.f32 {d}, {a};", "float32", a), [-0.0, 0.0, math.nan, -1.0, math.nan, -2.0], "neg", a)
    _same(evaluate("abs.f32 {d}, {a};", "float32", a), [0.0, 0.0, math.nan, 1.0, math.nan, 2.0], "abs", a)
    found = evaluate(
        "copysign.f32 {d}, {a}, {b};", "float32", np.array([-0.0, 1.0], np.float32), np.array([5.0, -6.0], np.float32)
    )
    _same(found, [-5.0, 6.0], "copysign")
    found = evaluate("add.sat.f32 {d}, {a}, {a};", "float32", np.array([0.2, 3.0, -1.0, np.nan], np.float32))
    _same(found, [float(np.float32(0.4)), 1.0, 0.0, 0.0], "add.sat")


def test_comparisons_with_nan() -> None:
    a = np.array([1.0, 2.0, np.nan, 0.0, 1e-40], np.float32)
    b = np.array([2.0, 2.0, 1.0, -0.0, 0.0], np.float32)
    expected = {
        "eq": "01011", "ne": "10000", "lt": "10000", "le": "11011", "gt": "00000", "ge": "01011",
        "equ": "01111", "neu": "10100", "ltu": "10100", "leu": "11111", "gtu": "00100", "geu": "01111",
        "num": "11011", "nan": "00100",
    }  # fmt: skip
    for name, bits in expected.items():
        found = evaluate(f"setp.{name}.ftz.f32 %p1, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, %p1;", "uint32", a, b)
        assert "".join(map(str, found)) == bits, name
    assert evaluate("setp.gt.f32 %p1, {a}, {b}; selp.u32 {d}, 1, 0, %p1;", "uint32", a, b).tolist() == [0, 0, 0, 0, 1]
    for name, bits in {"finite": "11011", "notanumber": "00100", "subnormal": "00001", "normal": "11000"}.items():
        found = evaluate(f"testp.{name}.f32 %p1, {{a}}; selp.u32 {{d}}, 1, 0, %p1;", "uint32", a)
        assert "".join(map(str, found)) == bits, name


def _to_integer(x: float, kind: str, mode: Callable[[float], Any]) -> int:
    bits = bits_of(kind)
    low, high = (0, (1 << bits) - 1) if kind[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    if math.isnan(x):
        return wrapped(1 << 63, kind) if bits == 64 else 0
    if math.isinf(x):
        return high if x > 0 else low
    return max(min(int(mode(x)), high), low)


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_floats_become_integers_within_their_limits(kind: str) -> None:
    (a,) = _grid(1)
    for mode, function in (("rni", round), ("rzi", math.trunc), ("rmi", math.floor), ("rpi", math.ceil)):
        found = evaluate(f"cvt.{mode}.{kind}.f32 {{d}}, {{a}};", np.dtype(INTS[kind]).name, a)
        assert found.tolist() == [_to_integer(x, kind, function) for x in a.tolist()], (mode, a)


@pytest.mark.parametrize("kind", ["u16", "s32", "u32", "u64", "s64"])
def test_integers_become_floats(kind: str) -> None:
    values = [
        v
        for v in [*interesting(kind), 2**24 + 1, 2**24 + 3, 2**31 - 1, 2**62 + 2**38 + 1]
        if v < 1 << bits_of(kind) - 1
    ]
    a = np.array(values, INTS[kind])
    found = evaluate(f"cvt.rn.f32.{kind} {{d}}, {{a}};", "float32", a)
    assert found.tolist() == [_nearest(Fraction(v)) for v in values]
    for mode in ("rz", "rm", "rp"):
        found = evaluate(f"cvt.{mode}.f32.{kind} {{d}}, {{a}};", "float32", a).tolist()
        for v, value in zip(values, found, strict=True):
            upwards = mode == "rp" or (mode == "rz" and v < 0)
            assert Fraction(value) >= v if upwards else Fraction(value) <= v
            assert abs(Fraction(value) - v) <= abs(v) * Fraction(1, 1 << 23)


def test_half_precision() -> None:
    (a,) = _grid(1)
    with np.errstate(all="ignore"):
        found = evaluate("cvt.rn.f16.f32 {d}, {a};", "float16", a)
        np.testing.assert_array_equal(found, a.astype(np.float16))
        back = evaluate("cvt.f32.f16 {d}, {a};", "float32", found)
        np.testing.assert_array_equal(back, found.astype(np.float32))
        b = a[::-1].copy()
        both = evaluate("cvt.rn.f16x2.f32 {d}, {a}, {b};", "uint32", a, b).view(np.float16).reshape(-1, 2)
        np.testing.assert_array_equal(both, np.stack([b, a], 1).astype(np.float16))


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    (a,) = _grid(1)
    a = a[~np.isnan(a)]
    found = evaluate("cvt.rn.bf16.f32 {d}, {a};", "uint16", a).view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found, a.astype(ml_dtypes.bfloat16))


def test_rounding_to_whole_floats_and_saturation() -> None:
    a = np.array([-1.5, -0.5, 0.5, 1.5, 2.5, 0.2], np.float32)
    for mode, function in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        _same(evaluate(f"cvt.{mode}.f32.f32 {{d}}, {{a}};", "float32", a), function(a).tolist(), mode, a)
    _same(evaluate("cvt.sat.f32.f32 {d}, {a};", "float32", a), np.clip(a, 0, 1).tolist(), "sat", a)
    found = evaluate("cvt.ftz.f32.f32 {d}, {a};", "float32", np.array([_TINY, 1.0], np.float32))
    _same(found, [0.0, 1.0], "ftz")


def test_constants() -> None:
    one = np.zeros(1, np.uint32)
    assert evaluate("mov.f32 {d}, 0f3FC00000;", "float32", one)[0] == 1.5
    assert evaluate("mov.f64 {d}, 0d3FF8000000000000;", "float64", one)[0] == 1.5
    assert evaluate("mov.u32 {d}, 0xFFFFFFFFU;", "uint32", one)[0] == 0xFFFFFFFF
    assert evaluate("mov.b32 {d}, 0f3F800000;", "uint32", one)[0] == 0x3F800000
    assert evaluate("mov.u32 {d}, WARP_SZ;", "uint32", one)[0] == 32
