"""The interpreter against fractions rounded once, and threads in turn. JPEGs, bit for bit, are the test of integers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from .snippets import HANDED, RANDOM, evaluate, on_warps

_ALL = "0xffffffff"


# -- floats ------------------------------------------------------------------------------------------------------------

_TINY = 1e-40  # subnormal
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


@pytest.mark.parametrize("ftz", ["", ".ftz"])
@pytest.mark.parametrize(
    ("name", "exact"),
    [("add", Fraction.__add__), ("sub", Fraction.__sub__), ("mul", Fraction.__mul__),
     ("fma.rn", lambda a, b, c: a * b + c)],
)  # fmt: skip
def test_float_arithmetic_rounds_once(name: str, exact: Callable[..., Fraction], ftz: str) -> None:
    def flushed(x: float) -> float:
        return math.copysign(0.0, x) if ftz and abs(x) < 2.0**-126 else x

    columns = _grid(3 if name == "fma.rn" else 2)
    columns = [column[np.isfinite(columns).all(0)] for column in columns]
    if name == "fma.rn":  # halfway cases that rounding to float64 first gets wrong
        columns[0][:2], columns[1][:2], columns[2][:2] = 1 + 2.0**-12, [1 + 2.0**-12, -1 - 2.0**-12], 2.0**-80
    operands = ", ".join(f"{{{letter}}}" for letter in "abc"[: len(columns)])
    found = evaluate(f"{name}{ftz}.f32 {{d}}, {operands};", "float32", *columns)
    for row, value in zip(np.stack(columns, 1).tolist(), found.tolist(), strict=True):
        assert value == flushed(_nearest(exact(*(Fraction(flushed(x)) for x in row)))), (name, row)


def test_approximate_functions() -> None:
    x = np.array([0.25, 1.0, 2.0, 3.0, 10.0, 1e-30, 1e30], np.float32)
    small = np.array([-126.0, -1.5, 0.0, 0.3, 10.0, 127.0], np.float32)
    for name, a, exact in (("sqrt", x, np.sqrt), ("lg2", x, np.log2), ("ex2", small, np.exp2)):
        found = evaluate(f"{name}.approx.ftz.f32 {{d}}, {{a}};", "float32", a)
        np.testing.assert_allclose(found, exact(a.astype(np.float64)), rtol=2.0**-20, err_msg=name)
    a, b = np.array([[1.0, 10.0, -2.0, 1.0, -1.0, np.inf], [3.0, 4.0, 1e20, 2.0**127, 2.0**127, 2.0**127]], np.float32)
    found = evaluate("div.approx.ftz.f32 {d}, {a}, {b};", "float32", a, b)
    np.testing.assert_allclose(found[:3], a[:3] / b[:3], rtol=2.0**-22)
    np.testing.assert_array_equal(found[3:], [0.0, -0.0, np.nan])  # divisors too large for a reciprocal
    assert np.signbit(found[4])


def test_floats_of_nan_and_signed_zeros() -> None:
    nan = math.nan
    a, b = np.array([[0.0, -0.0, nan, 1.0, nan, 2.0], [-0.0, 0.0, 1.0, nan, nan, 3.0]], np.float32)
    for text, expected in (
        ("max.ftz.f32 {d}, {a}, {b};", [0.0, 0.0, 1.0, 1.0, nan, 3.0]),
        ("min.ftz.f32 {d}, {a}, {b};", [-0.0, -0.0, 1.0, 1.0, nan, 2.0]),
        ("neg.ftz.f32 {d}, {a};", -a), ("abs.ftz.f32 {d}, {a};", np.abs(a)),
    ):  # fmt: skip
        found, wanted = evaluate(text, "float32", *([a, b] if "{b}" in text else [a])), np.asarray(expected, np.float32)
        np.testing.assert_array_equal(found, wanted, err_msg=text)
        real = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[real]), np.signbit(wanted[real]), err_msg=text)
    a, b = np.array([[1.0, 2.0, nan, 0.0, 1e-40], [2.0, 2.0, 1.0, -0.0, 0.0]], np.float32)
    for name, bits in {
        "eq": "01011", "ne": "10000", "lt": "10000", "le": "11011", "gt": "00000", "ge": "01011", "equ": "01111",
        "neu": "10100", "ltu": "10100", "leu": "11111", "gtu": "00100", "geu": "01111",
    }.items():  # fmt: skip
        found = evaluate(f"setp.{name}.ftz.f32 %p1, {{a}}, {{b}}; selp.u32 {{d}}, 1, 0, %p1;", "uint32", a, b)
        assert "".join(map(str, found)) == bits, name


@pytest.mark.parametrize("kind", ["u16", "s32", "s64"])
def test_floats_become_integers_and_back(kind: str) -> None:
    (a,), limits = _grid(1), np.iinfo(kind.replace("s", "int").replace("u", "uint"))
    found = evaluate(f"cvt.rzi.ftz.{kind}.f32 {{d}}, {{a}};", limits.dtype, a)
    for x, value in zip(a.tolist(), found.tolist(), strict=True):
        if math.isnan(x):
            assert value == (limits.min if kind == "s64" else 0)
        else:
            assert value == max(min(int(max(min(x, 2.0**80), -(2.0**80))), limits.max), limits.min), x
    edges = (0, 1, 255, limits.min, limits.min + 1, limits.max, 2**24 + 1, 2**24 + 3, 2**62 + 2**38 + 1)
    values = [v for v in edges if limits.min <= v <= limits.max]
    found = evaluate(f"cvt.rn.f32.{kind} {{d}}, {{a}};", "float32", np.array(values, limits.dtype))
    assert found.tolist() == [_nearest(Fraction(v)) for v in values]


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


# -- barriers and warps ------------------------------------------------------------------------------------------------


def test_barriers_vote_without_ended_threads() -> None:
    body = """setp.lt.u32 %p4, %r20, 8; @%p4 bra end; setp.gt.u32 %p1, %r1, 4;
    bar.red.or.pred %p2, 0, %p1; selp.u32 %r2, 7, 5, %p2;"""
    values = np.concatenate([_words(40, 10), np.full(40, 9, np.uint32), np.zeros(40, np.uint32)])
    out = np.zeros_like(values)
    on_warps(f"{_IN} {body} {_OUT} end:", 3, 40, values, out)
    for row, result in zip(values.reshape(3, 40), out.reshape(3, 40), strict=True):
        assert result.tolist() == [0] * 8 + [7 if (row[8:] > 4).any() else 5] * 32


@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("mode", ["up", "down"])
def test_shuffles_within_segments(mode: str, width: int) -> None:
    """Compute lanes as the documentation of CUDA's ``__shfl_sync`` and its variants with a width."""
    control = 32 - width << 8 | (0 if mode == "up" else 31)
    for step in (0, 1, 3, width - 1):
        values = _words(64)
        body = f"shfl.sync.{mode}.b32 %r2|%p1, %r1, {step}, {control}, {_ALL}; selp.b32 %r3, 0, 1, %p1;"
        out = _mapped(f"{body} add.s32 %r2, %r2, %r3;", values, 1)
        for thread in range(64):
            other = thread % width + (step if mode == "down" else -step)
            found = 0 <= other < width
            expected = int(values[thread - thread % width + other]) if found else int(values[thread]) + 1
            assert out[thread] == expected % (1 << 32), (mode, width, step, thread)


def test_votes() -> None:
    values = np.concatenate([_words(32, 9), np.full(32, 9, np.uint32), np.zeros(32, np.uint32), _words(7, 10)])
    warps = [values[start : start + 32] for start in (0, 32, 64, 96)]
    tests: dict[str, Callable[[Any], int]] = {
        f"vote.sync.ballot.b32 %r2, %p1, {_ALL};": lambda w: sum(int(v > 4) << k for k, v in enumerate(w)),
        f"vote.sync.any.pred %p2, %p1, {_ALL}; selp.u32 %r2, 1, 0, %p2;": lambda w: int((w > 4).any()),
    }
    for text, expected in tests.items():
        found = _mapped(f"setp.gt.u32 %p1, %r1, 4; {text}", values, 1)
        assert found.tolist() == [expected(w) for w in warps for _ in w], text


def test_half_a_warp_meets() -> None:
    body = """and.b32 %r3, %r20, 16; setp.eq.s32 %p1, %r3, 0; @%p1 bra low;
    shfl.sync.down.b32 %r2|%p2, %r1, 1, 31, 0xffff0000; bra done;
    low: shfl.sync.up.b32 %r2|%p2, %r1, 2, 0, 0x0000ffff; done:"""
    values, index = _words(32), np.arange(32)
    expected = np.where(index < 16, np.where(index < 2, index, index - 2), np.minimum(index + 1, 31))
    np.testing.assert_array_equal(_mapped(body, values, 1), values[expected])


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("name", "after"), [("add.u32", lambda old, v: (old + v) % (1 << 32)), ("max.s32", max)])
def test_atomics_take_turns(space: str, name: str, after: Callable[[int, int], int]) -> None:
    """Each thread finds what those before it left."""
    values, word, given = _words(64, 30), 12, np.full(1, 12, np.uint32)
    where = "%d22" if space == "global" else "box"
    begin = "" if space == "global" else "setp.ne.s32 %p1, %r20, 0; @%p1 bra on; st.shared.u32 [box], 12; on:"
    body = f"{_IN} {begin} bar.sync 0; atom.{space}.{name} %r2, [{where}], %r1; {_OUT}"
    out = np.zeros_like(values)
    on_warps(body, 1, 64, values, out, given, before=".shared .align 8 .b8 box[8];")
    for value, old in zip(values.tolist(), out.tolist(), strict=True):
        assert old == word
        word = after(word, value)
    assert space == "shared" or given[0] == word


def test_blocks_add_and_hand_over() -> None:
    """Sums whose result nothing reads; and one block that hands values to another between two fences."""
    values, out = _words(300, 100), np.zeros(2, np.uint64)
    body = f"{_IN} cvt.u64.u32 %d3, %r1; atom.global.add.u64 %d4, [%d21], %d3;"
    on_warps(f"{body} neg.s32 %r2, %r1; atom.global.max.s32 %r3, [%d21+8], %r1;", 3, 100, values, out)
    assert out.tolist() == [values.sum(), values.max()]
    out = np.zeros(128, np.uint32)
    on_warps(HANDED.format(fence="membar.gl;"), 2, 64, np.zeros(66, np.uint32), out)
    np.testing.assert_array_equal(out[64:], np.arange(64))
