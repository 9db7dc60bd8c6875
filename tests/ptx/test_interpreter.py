"""Instructions against plain Python: integers without limits, fractions rounded once, and threads one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from .launch import Buffer, pointer, run
from .snippets import HANDED, HEAD, INTS, RANDOM, buffers, evaluate, kernel, on_warps, with_pointers

_KINDS = ["u16", "s16", "u32", "s32", "u64", "s64"]
_ALL = "0xffffffff"


# -- integers ----------------------------------------------------------------------------------------------------------


def _bits(kind: str) -> int:
    return int(kind[1:])


def _wrapped(value: int, kind: str) -> int:
    """An integer as a type holds it."""
    value &= (1 << _bits(kind)) - 1
    return value - (1 << _bits(kind)) if kind[0] == "s" and value >> (_bits(kind) - 1) else value


def _limits(kind: str) -> tuple[int, int]:
    bits = _bits(kind)
    return (0, (1 << bits) - 1) if kind[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _interesting(kind: str) -> list[int]:
    """Edges of a type, and some others."""
    bits = _bits(kind)
    edges = [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, *((1 << bits - k) - 1 for k in (0, 1)), 1 << bits - 1, 0xA5 << bits - 9]
    return sorted({_wrapped(edge, kind) for edge in [*edges, *map(int, RANDOM.integers(0, 1 << 62, 4))]})


def _check(text: str, result: str, kinds: str, expected: Callable[..., int], allowed: Any = None) -> None:
    """A result for combinations of interesting values, at most a block of them."""
    rows = [row for row in itertools.product(*map(_interesting, kinds.split())) if allowed is None or allowed(*row)]
    rows = [rows[k] for k in RANDOM.permutation(len(rows))[:1024]]
    columns = [np.array([row[k] for row in rows], INTS[kind]) for k, kind in enumerate(kinds.split())]
    found = evaluate(text, np.dtype(INTS[result]).name, *columns).tolist()
    for row, value in zip(rows, found, strict=True):
        assert value == _wrapped(expected(*row), result), (text, row)


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("kind", _KINDS)
def test_integer_arithmetic_wraps_around(kind: str) -> None:
    bits, two = _bits(kind), f"{kind} {kind}"
    for name, function in {
        "add": int.__add__, "sub": int.__sub__, "mul.lo": int.__mul__, "mul.hi": lambda a, b: a * b >> bits,
        "min": min, "max": max, "div": _quotient, "rem": lambda a, b: a - b * _quotient(a, b),
    }.items():  # fmt: skip
        allowed = (lambda a, b: b != 0) if name in ("div", "rem") else None
        _check(f"{name}.{kind} {{d}}, {{a}}, {{b}};", kind, two, function, allowed)
    _check(f"mad.lo.{kind} {{d}}, {{a}}, {{b}}, {{a}};", kind, two, lambda a, b: a * b + a)
    _check(f"mad.hi.{kind} {{d}}, {{a}}, {{b}}, {{b}};", kind, two, lambda a, b: (a * b >> bits) + b)
    if kind[0] == "s":
        _check(f"abs.{kind} {{d}}, {{a}};", kind, kind, abs)
        _check(f"neg.{kind} {{d}}, {{a}};", kind, kind, int.__neg__)
    if bits < 64:
        wide = f"{kind[0]}{2 * bits}"
        _check(f"mul.wide.{kind} {{d}}, {{a}}, {{b}};", wide, two, int.__mul__)
        _check(f"mad.wide.{kind} {{d}}, {{a}}, {{b}}, {{c}};", wide, f"{two} {wide}", lambda a, b, c: a * b + c)


def test_carries_and_saturation() -> None:
    high = 1 << 64
    text = "add.cc.u64 %d2, {a}, {b}; addc.u64 {d}, {b}, {a};"
    _check(text, "u64", "u64 u64", lambda a, b: ((a + (b << 64)) + (b + (a << 64))) // high)
    text = "sub.cc.u64 %d2, {a}, {b}; subc.u64 {d}, {b}, {a};"
    _check(text, "u64", "u64 u64", lambda a, b: ((a + (b << 64)) - (b + (a << 64))) // high)
    text = "mad.lo.cc.u32 %r2, {a}, {b}, {c}; madc.hi.u32 {d}, {a}, {b}, 0;"
    _check(text, "u32", "u32 u32 u32", lambda a, b, c: (a * b + c) >> 32)
    low, most = _limits("s32")
    _check("add.sat.s32 {d}, {a}, {b};", "s32", "s32 s32", lambda a, b: max(min(a + b, most), low))


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic_and_shifts(bits: int) -> None:
    b, u, s = (f"{sign}{bits}" for sign in "bus")
    for name, function in (("and", int.__and__), ("or", int.__or__), ("xor", int.__xor__)):
        _check(f"{name}.{b} {{d}}, {{a}}, {{b}};", b, f"{b} {b}", function)
    _check(f"not.{b} {{d}}, {{a}};", b, b, int.__invert__)
    _check(f"shl.{b} {{d}}, {{a}}, {{b}};", b, f"{b} u32", lambda a, n: a << min(n, 64))
    for kind in (u, s):
        _check(f"shr.{kind} {{d}}, {{a}}, {{b}};", kind, f"{kind} u32", lambda a, n: a >> min(n, 64))


def test_logic_of_three_and_funnel_shifts() -> None:
    for table in (0x80, 0x96, 0xCA, int(RANDOM.integers(256))):

        def expected(a: int, b: int, c: int, table: int = table) -> int:
            columns = (((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1) for k in range(32))
            return sum((table >> column & 1) << k for k, column in enumerate(columns))

        _check(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};", "b32", "b32 b32 b32", expected)
    amounts: dict[str, Callable[[int], int]] = {"wrap": lambda c: c & 31, "clamp": lambda c: min(c, 32)}
    for mode, amount in amounts.items():
        left, right = (f"shf.{way}.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};" for way in "lr")
        _check(left, "b32", "b32 b32 u32", lambda a, b, c: (b << 32 | a) << amount(c) >> 32)  # noqa: B023
        _check(right, "b32", "b32 b32 u32", lambda a, b, c: (b << 32 | a) >> amount(c))  # noqa: B023


@pytest.mark.parametrize("bits", [32, 64])
def test_fields_and_counts_of_bits(bits: int) -> None:
    b, most = f"b{bits}", bits - 1

    def taken(a: int, at: int, length: int, signed: bool = False) -> int:
        at, length = at & 255, length & 255
        sign = a >> min(at + length - 1, most) & 1 if signed and length else 0
        return sum((a >> at + k & 1 if k < length and at + k <= most else sign) << k for k in range(bits))

    def put(a: int, b: int, at: int, length: int) -> int:
        field = ((1 << (length & 255)) - 1) << (at & 255)
        return b & ~field | a << (at & 255) & field

    _check(f"bfe.u{bits} {{d}}, {{a}}, {{b}}, {{c}};", f"u{bits}", f"u{bits} u32 u32", taken)
    _check(
        f"bfe.s{bits} {{d}}, {{a}}, {{b}}, {{c}};", f"s{bits}", f"s{bits} u32 u32", lambda a, b, c: taken(a, b, c, True)
    )
    _check(f"bfi.{b} {{d}}, {{a}}, {{b}}, {{c}}, {{e}};", b, f"{b} {b} u32 u32", put)
    _check(f"popc.{b} {{d}}, {{a}};", "u32", b, int.bit_count)
    _check(f"clz.{b} {{d}}, {{a}};", "u32", b, lambda a: bits - a.bit_length())
    _check(f"brev.{b} {{d}}, {{a}};", b, b, lambda a: int(f"{a:0{bits}b}"[::-1], 2))
    _check(f"bfind.u{bits} {{d}}, {{a}};", "u32", f"u{bits}", lambda a: a.bit_length() - 1)
    _check(f"bfind.s{bits} {{d}}, {{a}};", "u32", f"s{bits}", lambda a: (a if a >= 0 else ~a).bit_length() - 1)


def test_bytes_are_permuted() -> None:
    def expected(a: int, b: int, c: int) -> int:
        both, selectors = (b << 32 | a).to_bytes(8, "little"), [c >> 4 * k & 15 for k in range(4)]
        return int.from_bytes(bytes(255 * (both[s & 7] >> 7) if s & 8 else both[s & 7] for s in selectors), "little")

    _check("prmt.b32 {d}, {a}, {b}, {c};", "b32", "b32 b32 b32", expected)
    text = "mov.b64 {{%r1, %r2}}, {a}; mov.b64 {d}, {{%r2, %r1}};"
    _check(text, "b64", "b64", lambda a: (a << 32 | a >> 32) & (2**64 - 1))


def test_dot_products() -> None:
    def part(a: int, k: int, kind: str) -> int:
        return _wrapped(a >> 8 * k, f"{kind[0]}8")

    for one, other in itertools.product(("u32", "s32"), repeat=2):
        result = "s32" if "s32" in (one, other) else "u32"

        def four(a: int, b: int, c: int, one: str = one, other: str = other) -> int:
            return c + sum(part(a, k, one) * part(b, k, other) for k in range(4))

        _check(f"dp4a.{one}.{other} {{d}}, {{a}}, {{b}}, {{c}};", result, f"b32 b32 {result}", four)


@pytest.mark.parametrize("kind", ["u16", "s32", "u64", "s64"])
def test_comparisons_and_predicates(kind: str) -> None:
    names = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
    for name, test in (names | ({"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"} if kind[0] == "u" else {})).items():
        chosen = f"setp.{name}.{kind} %p1, {{a}}, {{b}}; selp.{kind} {{d}}, {{a}}, {{b}}, %p1;"
        _check(chosen, kind, f"{kind} {kind}", lambda a, b: a if getattr(a, f"__{test}__")(b) else b)  # noqa: B023
    text = "setp.lt.s32 %p1|%p2, {a}, {b}; setp.eq.and.s32 %p3, {a}, 0, !%p2; @%p3 mov.u32 {d}, 7;"
    text += "@!%p1 mov.u32 {d}, {b};"
    _check(text, "u32", "s32 s32", lambda a, b: b if a >= b else 7 if a == 0 else 0)
    _check("set.lt.u32.s32 {d}, {a}, {b};", "u32", "s32 s32", lambda a, b: -int(a < b))
    _check("slct.s32.s32 {d}, {a}, {b}, {c};", "s32", "s32 s32 s32", lambda a, b, c: a if c >= 0 else b)


@pytest.mark.parametrize("target", ["u8", "s8", *_KINDS])
def test_integers_are_converted(target: str) -> None:
    out, (low, high) = target if _bits(target) > 8 else f"{target[0]}16", _limits(target)
    for source in _KINDS:
        _check(f"cvt.{target}.{source} {{d}}, {{a}};", out, source, lambda a: _wrapped(a, target))
        _check(f"cvt.sat.{target}.{source} {{d}}, {{a}};", out, source, lambda a: max(min(a, high), low))
    _check("cvt.s32.s8 {d}, {a};", "s32", "b32", lambda a: _wrapped(a, "s8"))


# -- floats ------------------------------------------------------------------------------------------------------------

_TINY = np.float32(1e-40)  # subnormal
_FLOATS = np.array(
    [0.0, -0.0, 1.0, -1.0, 1.5, 2.5, -2.5, 0.5, 3.0, 1e-38, _TINY, -_TINY, 1e38, 3.4e38, -3.4e38, 1 / 3, 255.5, 2.0**31,
     2.0**24 + 2, 1 + 2.0**-23, 1 - 2.0**-24, np.inf, -np.inf, np.nan, 65504.0, 65520.0, 2.0**63, 1e-45],
    np.float32,
)  # fmt: skip


def _grid(count: int) -> list[Any]:
    random = (RANDOM.standard_normal(6) * 10.0 ** RANDOM.integers(-20, 20, 6)).astype(np.float32)
    rows = list(itertools.product(np.concatenate([_FLOATS, random]).tolist(), repeat=count))
    chosen = RANDOM.permutation(len(rows))[:1024]
    return [np.array([rows[k][column] for k in chosen], np.float32) for column in range(count)]


def _nearest(exact: Fraction) -> float:
    """A fraction rounded once to float32."""
    if exact == 0:
        return 0.0
    exponent = abs(exact.numerator).bit_length() - exact.denominator.bit_length()
    exponent = max(exponent - (abs(exact) < Fraction(2) ** exponent), -126)
    unit = Fraction(2) ** (exponent - 23)
    value = round(exact / unit) * unit
    return math.copysign(math.inf, value) if abs(value) >= Fraction(2) ** 128 else float(value)


def _same(text: str, expected: Any, *columns: Any, dtype: str = "float32") -> None:
    """Equal values and signs, and NaN where that is expected."""
    found = evaluate(text, dtype, *columns)
    np.testing.assert_array_equal(found, np.asarray(expected, dtype), err_msg=text)
    real = ~np.isnan(found)
    np.testing.assert_array_equal(np.signbit(found[real]), np.signbit(np.asarray(expected, dtype)[real]), err_msg=text)


@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_float_arithmetic_rounds_once(ftz: str) -> None:
    def flushed(x: float) -> float:
        return math.copysign(0.0, x) if ftz and abs(x) < 2.0**-126 else x

    operations: dict[str, Callable[..., Fraction]] = {
        "add": Fraction.__add__, "sub": Fraction.__sub__, "mul": Fraction.__mul__, "fma.rn": lambda a, b, c: a * b + c
    }  # fmt: skip
    for name, operation in operations.items():
        columns = _grid(3 if name == "fma.rn" else 2)
        columns = [column[np.isfinite(columns).all(0)] for column in columns]
        if name == "fma.rn":  # halfway cases that rounding to float64 first gets wrong
            columns[0][:2], columns[1][:2], columns[2][:2] = 1 + 2.0**-12, [1 + 2.0**-12, -1 - 2.0**-12], 2.0**-80
        operands = ", ".join("{" + letter + "}" for letter in "abc"[: len(columns)])
        found = evaluate(f"{name}{ftz}.f32 {{d}}, {operands};", "float32", *columns)
        for row, value in zip(np.stack(columns, 1).tolist(), found.tolist(), strict=True):
            assert value == flushed(_nearest(operation(*(Fraction(flushed(x)) for x in row)))), (name, row)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_roundings_bound_the_sum(mode: str) -> None:
    a, b = _grid(2)
    some = (np.abs(a) < 1e30) & (np.abs(b) < 1e30)
    a, b = a[some], b[some]
    found = evaluate(f"add.{mode}.f32 {{d}}, {{a}}, {{b}};", "float32", a, b)
    for x, y, value in zip(a.tolist(), b.tolist(), found, strict=True):
        exact, here = Fraction(x) + Fraction(y), Fraction(float(value))
        low, high = (Fraction(float(np.nextafter(value, np.float32(end)))) for end in (-np.inf, np.inf))
        upwards = mode == "rp" or (mode == "rz" and exact < 0)
        assert here >= exact > low if upwards else here <= exact < high, (mode, x, y, value)


def test_quotients_and_functions() -> None:
    a, b = _grid(2)
    with np.errstate(all="ignore"):
        _same("div.rn.f32 {d}, {a}, {b};", a / b, a, b)
    x = np.array([0.25, 1.0, 2.0, 3.0, 10.0, 1e-30, 1e30], np.float32)
    functions: dict[str, Callable[[Any], Any]] = {
        "rcp.approx.ftz": np.reciprocal, "sqrt.approx.ftz": np.sqrt, "rsqrt.approx.ftz": lambda x: x**-0.5,
        "lg2.approx.ftz": np.log2, "sin.approx.ftz": np.sin, "cos.approx.ftz": np.cos, "tanh.approx": np.tanh,
        "sqrt.rn": np.sqrt, "rcp.rn": np.reciprocal, "ex2.approx.ftz": lambda x: np.float64(2) ** x,
    }  # fmt: skip
    for name, function in functions.items():
        x = np.array([-126.0, -1.5, 0.0, 0.3, 10.0, 127.0], np.float32) if name.startswith("ex2") else x
        found = evaluate(f"{name}.f32 {{d}}, {{a}};", "float32", x)
        np.testing.assert_allclose(found, function(x.astype(np.float64)), rtol=2.0**-20, err_msg=name)
    # Divisors too large for a reciprocal.
    _same(
        "div.approx.f32 {d}, {a}, {b};", [0.0, -0.0, math.nan], np.float32([1, -1, np.inf]), np.float32([2.0**127] * 3)
    )


def test_floats_of_nan_and_signed_zeros() -> None:
    nan = math.nan
    a, b = np.array([[0.0, -0.0, nan, 1.0, nan, 2.0], [-0.0, 0.0, 1.0, nan, nan, 3.0]], np.float32)
    _same("max.f32 {d}, {a}, {b};", [0.0, 0.0, 1.0, 1.0, nan, 3.0], a, b)
    _same("min.f32 {d}, {a}, {b};", [-0.0, -0.0, 1.0, 1.0, nan, 2.0], a, b)
    _same("max.NaN.f32 {d}, {a}, {b};", [0.0, 0.0, nan, nan, nan, 3.0], a, b)
    _same("neg.f32 {d}, {a};", -a, a)
    _same("abs.f32 {d}, {a};", np.abs(a), a)
    _same("add.sat.f32 {d}, {a}, {a};", np.float32([0.4, 1, 0, 0]), np.float32([0.2, 3.0, -1.0, nan]))
    a, b = np.array([[1.0, 2.0, nan, 0.0, 1e-40], [2.0, 2.0, 1.0, -0.0, 0.0]], np.float32)
    expected = {
        "eq": "01011", "ne": "10000", "lt": "10000", "le": "11011", "gt": "00000", "ge": "01011", "equ": "01111",
        "neu": "10100", "ltu": "10100", "leu": "11111", "gtu": "00100", "geu": "01111", "num": "11011", "nan": "00100",
    }  # fmt: skip
    for name, bits in expected.items():
        found = evaluate(f"setp.{name}.ftz.f32 %p1, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, %p1;", "uint32", a, b)
        assert "".join(map(str, found)) == bits, name


@pytest.mark.parametrize("kind", _KINDS)
def test_floats_become_integers_and_back(kind: str) -> None:
    (a,), (low, high) = _grid(1), _limits(kind)
    for mode, function in (("rni", round), ("rzi", math.trunc), ("rmi", math.floor), ("rpi", math.ceil)):
        found = evaluate(f"cvt.{mode}.{kind}.f32 {{d}}, {{a}};", np.dtype(INTS[kind]).name, a)
        for x, value in zip(a.tolist(), found.tolist(), strict=True):
            if math.isnan(x):
                assert value == (_wrapped(1 << 63, kind) if _bits(kind) == 64 else 0)
            else:
                assert value == (max(min(function(x), high), low) if math.isfinite(x) else high if x > 0 else low)
    values = [v for v in (*_interesting(kind), 2**24 + 1, 2**24 + 3, 2**62 + 2**38 + 1) if low <= v <= high]
    found = evaluate(f"cvt.rn.f32.{kind} {{d}}, {{a}};", "float32", np.array(values, INTS[kind]))
    assert found.tolist() == [_nearest(Fraction(v)) for v in values]


def test_other_precisions_and_constants() -> None:
    (a,) = _grid(1)
    with np.errstate(all="ignore"):
        half = a.astype(np.float16)
    np.testing.assert_array_equal(evaluate("cvt.rn.f16.f32 {d}, {a};", "float16", a), half)
    np.testing.assert_array_equal(evaluate("cvt.f32.f16 {d}, {a};", "float32", half), half.astype(np.float32))
    both = evaluate("cvt.rn.f16x2.f32 {d}, {a}, {b};", "uint32", a, a[::-1].copy()).view(np.float16).reshape(-1, 2)
    np.testing.assert_array_equal(both, np.stack([half[::-1], half], 1))
    a = np.array([-1.5, -0.5, 0.5, 1.5, 2.5, 0.2, _TINY], np.float32)
    for mode, function in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        _same(f"cvt.{mode}.f32.f32 {{d}}, {{a}};", function(a), a)
    _same("cvt.ftz.f32.f32 {d}, {a};", np.where(a == _TINY, 0, a), a)
    one = np.zeros(1, np.uint32)
    for text, dtype, value in (
        ("f32 {d}, 0f3FC00000", "float32", 1.5), ("f64 {d}, 0d3FF8000000000000", "float64", 1.5),
        ("u32 {d}, 0xFFFFFFFFU", "uint32", 0xFFFFFFFF), ("u32 {d}, WARP_SZ", "uint32", 32),
    ):  # fmt: skip
        assert evaluate(f"mov.{text};", dtype, one)[0] == value


# -- threads and branches ----------------------------------------------------------------------------------------------

_IN = "add.s64 %d1, %d20, %d18; ld.global.u32 %r1, [%d1];"
_OUT = "add.s64 %d2, %d21, %d18; st.global.u32 [%d2], %r2;"


def _words(n: int, high: int = 1 << 32) -> Any:
    return RANDOM.integers(0, high, n, np.uint64).astype(np.uint32)


def _mapped(body: str, values: Any, blocks: int, before: str = "") -> Any:
    """What each thread makes of the value %r1: %r2."""
    out = np.zeros(len(values), np.uint32)
    on_warps(f"{_IN} {body} {_OUT}", blocks, len(values) // blocks, values.copy(), out, before=before)
    return out


def test_threads_know_their_place() -> None:
    places = [f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
    reads = "".join(f"mov.u32 %r2, %{name}; st.global.u32 [%d2+{4 * k}], %r2;" for k, name in enumerate(places))
    body = """
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 %r5, %ctaid.z;
    mad.lo.u32 %r4, %r5, 3, %r4; mad.lo.u32 %r3, %r4, 2, %r3;
    mov.u32 %r6, %tid.x; mov.u32 %r7, %tid.y; mov.u32 %r8, %tid.z;
    mad.lo.u32 %r7, %r8, 2, %r7; mad.lo.u32 %r6, %r7, 5, %r6; mad.lo.u32 %r3, %r3, 30, %r6;
    mul.wide.u32 %d1, %r3, 48; add.s64 %d2, %d20, %d1;
    """
    grid, block, out = (2, 3, 2), (5, 2, 3), np.full((12, 30, 12), -1, np.int32)
    run(with_pointers(1, body + reads), grid, block, buffers(out))
    for row, (cz, cy, cx, tz, ty, tx) in zip(out.reshape(-1, 12).tolist(), np.ndindex(2, 3, 2, 3, 2, 5), strict=True):
        assert row == [tx, ty, tz, *block, cx, cy, cz, *grid]
    lane = np.arange(40) % 32
    for name, expected in {"laneid": lane, "lanemask_lt": (1 << lane) - 1, "lanemask_ge": 2**32 - (1 << lane)}.items():
        np.testing.assert_array_equal(_mapped(f"mov.u32 %r2, %{name};", _words(40), 1), expected)


def test_branches_loops_and_calls() -> None:
    """The steps of Collatz's sequence; a table; a function that returns at two places."""
    collatz = """mov.u32 %r2, 0;
    again: setp.eq.u32 %p1, %r1, 1; @%p1 bra done;
    and.b32 %r3, %r1, 1; setp.eq.b32 %p2, %r3, 0; @%p2 bra even;
    mad.lo.u32 %r1, %r1, 3, 1; bra.uni next;
    even: shr.u32 %r1, %r1, 1;
    next: add.u32 %r2, %r2, 1; bra again;
    done:"""

    def steps(value: int) -> int:
        return 0 if value == 1 else 1 + steps(3 * value + 1 if value % 2 else value // 2)

    start = _words(96, 500) + np.uint32(1)
    assert _mapped(collatz, start, 2).tolist() == list(map(steps, start.tolist()))
    table = """and.b32 %r1, %r1, 3; mov.u32 %r2, 9; places: .branchtargets none, ten, twenty, ten;
    brx.idx %r1, places; ten: mov.u32 %r2, 10; bra none; twenty: mov.u32 %r2, 20; none:"""
    np.testing.assert_array_equal(_mapped(table, start, 2), np.array([9, 10, 20, 10])[start & 3])
    before = """
    .func (.param .b32 back) twice(.param .b32 given) {
        .reg .b32 %r<4>; .reg .pred %p<2>; ld.param.u32 %r1, [given]; setp.gt.u32 %p1, %r1, 100; @%p1 bra large;
        add.u32 %r2, %r1, %r1; st.param.b32 [back+0], %r2; ret;
        large: mov.u32 %r3, 1; st.param.b32 [back], %r3; ret;
    }"""
    call = """{ .param .b32 p_in; st.param.b32 [p_in+0], %r1; .param .b32 p_out; call.uni (p_out), twice, (p_in);
    ld.param.b32 %r2, [p_out+0]; }"""
    np.testing.assert_array_equal(_mapped(call, start, 2, before), np.where(start > 100, 1, 2 * start))


# -- barriers and warps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 31, 100])
def test_a_block_turns_its_values_around(threads: int) -> None:
    body = """mov.u64 %d3, box; mul.wide.u32 %d4, %r20, 4; add.s64 %d5, %d3, %d4; st.shared.u32 [%d5], %r1; bar.sync 0;
    sub.u32 %r4, %r23, %r20; mul.wide.u32 %d6, %r4, 4; add.s64 %d7, %d3, %d6; ld.shared.u32 %r2, [%d7-4];"""
    values = _words(3 * threads)
    found = _mapped(body, values, 3, ".shared .align 4 .b8 box[400];")
    np.testing.assert_array_equal(found.reshape(3, -1), values.reshape(3, -1)[:, ::-1])


def test_barriers_count_and_skip_ended_threads() -> None:
    body = """setp.lt.u32 %p4, %r20, 8; @%p4 ret; setp.gt.u32 %p1, %r1, 4; bar.red.popc.u32 %r2, 0, %p1;
    barrier.cta.red.and.pred %p2, 0, !%p1; @%p2 add.u32 %r2, %r2, 1000;"""
    values = np.concatenate([_words(40, 10), np.full(40, 9, np.uint32), np.zeros(40, np.uint32)])
    for row, result in zip(values.reshape(3, 40), _mapped(body, values, 3).reshape(3, 40), strict=True):
        high = row[8:] > 4
        assert result.tolist() == [0] * 8 + [int(high.sum()) + 1000 * (not high.any())] * 32


@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles_within_segments(mode: str, width: int) -> None:
    """Compute lanes as the documentation of CUDA's ``__shfl_sync`` and its variants with a width."""
    control = 32 - width << 8 | (0 if mode == "up" else 31)
    for step in (0, 1, 3, width - 1):
        values = _words(64)
        body = f"shfl.sync.{mode}.b32 %r2|%p1, %r1, {step}, {control}, {_ALL}; @!%p1 add.u32 %r2, %r2, 1;"
        out = _mapped(body, values, 1)
        for thread in range(64):
            own = thread % width
            other = {"up": own - step, "down": own + step, "bfly": own ^ step, "idx": step}[mode]
            found = 0 <= other < width
            expected = int(values[thread - own + other]) if found else int(values[thread]) + 1
            assert out[thread] == expected % (1 << 32), (mode, width, step, thread)


def test_votes_matches_and_reductions() -> None:
    values = np.concatenate([_words(32, 9), np.full(32, 9, np.uint32), np.zeros(32, np.uint32), _words(7, 10)])
    warps = [values[start : start + 32] for start in (0, 32, 64, 96)]
    prefix = "setp.gt.u32 %p1, %r1, 4;"
    tests: dict[str, Callable[[Any], int]] = {
        "vote.sync.ballot.b32 %r2, %p1": lambda w: sum(int(v > 4) << k for k, v in enumerate(w)),
        "vote.sync.all.pred %p2, %p1": lambda w: int((w > 4).all()),
        "vote.sync.any.pred %p2, %p1": lambda w: int((w > 4).any()),
        "match.all.sync.b32 %r2|%p2, %r1": lambda w: int((w == w[0]).all()),
        "redux.sync.add.u32 %r2, %r1": lambda w: int(w.sum()),
        "redux.sync.max.s32 %r2, %r1": lambda w: int(w.max()),
        "redux.sync.xor.b32 %r2, %r1": lambda w: int(np.bitwise_xor.reduce(w)),
    }
    for text, expected in tests.items():
        body = f"{prefix} {text}, {_ALL};" + (" selp.u32 %r2, 1, 0, %p2;" if "%p2" in text else "")
        assert _mapped(body, values, 1).tolist() == [expected(w) for w in warps for _ in w], text
    same = [sum(int(v == one) << k for k, v in enumerate(w)) for w in warps for one in w]
    assert _mapped(f"match.any.sync.b32 %r2, %r1, {_ALL};", values, 1).tolist() == same


def test_half_a_warp_meets() -> None:
    body = """and.b32 %r3, %r20, 16; setp.eq.u32 %p1, %r3, 0; @%p1 bra low;
    shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffff0000; activemask.b32 %r4; xor.b32 %r2, %r2, %r4; bra done;
    low: shfl.sync.bfly.b32 %r2, %r1, 2, 31, 0x0000ffff; activemask.b32 %r4; xor.b32 %r2, %r2, %r4; done:"""
    values, index = _words(32), np.arange(32)
    masks = np.where(index < 16, 0x0000FFFF, 0xFFFF0000)
    np.testing.assert_array_equal(_mapped(body, values, 1), values[np.where(index < 16, index ^ 2, index ^ 1)] ^ masks)


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["u8", "s8", *_KINDS])
def test_loads_and_stores_of_every_width(kind: str) -> None:
    size = _bits(kind) // 8
    values = RANDOM.integers(0, 256, 16 * size, np.uint8).view({"u": "uint", "s": "int"}[kind[0]] + kind[1:])
    wide, back = np.zeros(16, np.int64 if kind[0] == "s" else np.uint64), np.zeros_like(values)
    body = f"""
    mad.lo.s64 %d1, %d19, {size}, %d20; mad.lo.s64 %d2, %d19, 8, %d21; mad.lo.s64 %d3, %d19, {size}, %d22;
    ld.global.nc.{kind} %d4, [%d1]; st.global.u64 [%d2], %d4; st.global.b{8 * size} [%d3], %d4;"""
    run(with_pointers(3, body), 1, 16, buffers(values, wide, back))
    np.testing.assert_array_equal(wide, values)
    np.testing.assert_array_equal(back, values)


def test_vectors() -> None:
    body = """
    mad.lo.s64 %d1, %d19, 16, %d20; mad.lo.s64 %d2, %d19, 16, %d21;
    ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1]; st.global.v2.u32 [%d2], {%r4, %r3};
    st.global.v2.u32 [%d2+8], {%r2, %r1};"""
    values, out = _words(32), np.zeros(32, np.uint32)
    run(with_pointers(2, body), 1, 8, buffers(values, out))
    np.testing.assert_array_equal(out.reshape(8, 4), values.reshape(8, 4)[:, ::-1])


def test_constant_local_and_dynamic_shared_memory() -> None:
    before = """.const .align 4 .u32 lut[4] = {1, 22, 333, 0xffffffff}; .global .align 1 .b8 bytes[3] = {7, 8, 9};
    .extern .shared .align 16 .b8 box[];"""
    body = f""".local .align 8 .b8 depot[16]; mul.wide.u32 %d18, %r20, 4; {_IN}
    and.b32 %r1, %r1, 3; mul.wide.u32 %d3, %r1, 4; mov.u64 %d4, lut; add.s64 %d4, %d4, %d3; ld.const.u32 %r2, [%d4];
    ld.global.u8 %r3, [bytes+1]; add.u32 %r2, %r2, %r3;
    mov.u64 %d3, depot; cvta.local.u64 %d4, %d3; st.local.u32 [%d3+8], %r2; ld.u32 %r2, [%d4+8];
    mov.u64 %d3, box; cvta.shared.u64 %d3, %d3; add.s64 %d5, %d3, %d18; st.u32 [%d5], %r2; ld.u32 %r2, [%d5];
    isspacep.shared %p1, %d5; @!%p1 mov.u32 %r2, 0; {_OUT}"""
    values, out = _words(32), np.zeros(32, np.uint32)
    run(with_pointers(2, body, before), 1, 32, buffers(values, out), dynamic_shared=128)
    np.testing.assert_array_equal(out, np.array([9, 30, 341, 7], np.uint32)[values & 3])


_ATOMICS: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda old, v: (old + v) % (1 << 32), "max.u32": max, "min.u32": min, "and.b32": int.__and__,
    "or.b32": int.__or__, "xor.b32": int.__xor__, "exch.b32": lambda old, v: v,
    "inc.u32": lambda old, v: 0 if old >= v else old + 1,
    "dec.u32": lambda old, v: v if old == 0 or old > v else old - 1,
}  # fmt: skip


@pytest.mark.parametrize("name", _ATOMICS)
def test_atomics_take_turns(name: str) -> None:
    """Each thread finds what those before it left."""
    for space in ("global", "shared"):
        body = f"""mov.u64 %d3, box; mov.u32 %r5, 12; setp.eq.u32 %p1, %r20, 0; @%p1 st.{space}.u32 [%d3], %r5;
        bar.sync 0; atom.{space}.{name} %r2, [%d3], %r1;"""
        values, word = _words(64, 30), 12
        found = _mapped(body, values, 1, f".{space} .align 8 .b8 box[8];")
        for value, old in zip(values.tolist(), found.tolist(), strict=True):
            assert old == word
            word = _ATOMICS[name](word, value)


def test_atomics_between_blocks() -> None:
    """Sums without a result; a lock; and one block that hands values to another behind fences."""
    values, out = _words(300, 100), np.zeros(2, np.uint32)
    body = f"{_IN} red.global.add.u32 [%d21], %r1; cvt.rn.f32.u32 %f1, %r1; red.global.add.f32 [%d21+4], %f1;"
    on_warps(body, 3, 100, values, out)
    assert (out[0], out[1:].view(np.float32)[0]) == (values.sum(), values.sum())
    lock = """
    again: atom.acquire.gpu.global.cas.b32 %r2, [%d20], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra again;
    ld.volatile.global.u32 %r3, [%d20+4]; add.u32 %r3, %r3, 1; st.volatile.global.u32 [%d20+4], %r3; membar.gl;
    atom.release.gpu.global.exch.b32 %r4, [%d20], 0;"""
    out = np.zeros(2, np.uint32)
    run(with_pointers(1, lock), 2, 5, buffers(out))
    assert out.tolist() == [0, 10]
    out = np.zeros(128, np.uint32)
    on_warps(HANDED.format(fence="membar.gl;"), 2, 64, np.zeros(66, np.uint32), out)
    np.testing.assert_array_equal(out[64:], np.arange(64))


def test_parameters_of_every_size() -> None:
    """Of the one of two kernels that is asked for."""
    parameters = ".param .u8 a, .param .u16 b, .param .f32 c, .param .align 8 .b8 d[12], .param .u64 e, .param .u64 p0"
    body = """ld.param.u8 %r1, [a]; ld.param.u16 %r2, [b]; ld.param.f32 %f1, [c]; ld.param.u32 %r3, [d+8];
    ld.param.u64 %d2, [e]; ld.param.u64 %d1, [p0]; st.global.u32 [%d1], %r1; st.global.u32 [%d1+4], %r2;
    st.global.f32 [%d1+8], %f1; st.global.u32 [%d1+12], %r3; st.global.u64 [%d1+16], %d2; ret;"""
    text = kernel("", "ret;", name="other") + kernel(parameters, body).removeprefix(HEAD)
    out, structure = np.zeros(6, np.uint32), np.arange(12, dtype=np.uint8).tobytes()
    given = [np.uint8(200), np.uint16(1000), np.float32(1.5), structure, -1, Buffer(out, pack=pointer)]
    run(text, 1, 1, given, name="f")
    assert out.tolist() == [200, 1000, 0x3FC00000, 0x0B0A0908, 0xFFFFFFFF, 0xFFFFFFFF]
