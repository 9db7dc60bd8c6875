"""Each kind of instruction against plain Python: integers without limits, fractions rounded once, threads in turn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from .launch import Buffer, pointer, run
from .snippets import HANDED, HEAD, RANDOM, buffers, evaluate, kernel, on_warps, with_pointers

_ALL = "0xffffffff"


# -- integers ----------------------------------------------------------------------------------------------------------


def _dtype(kind: str) -> Any:
    return np.dtype(("int" if kind[0] == "s" else "uint") + kind[1:])


def _wrapped(value: int, kind: str) -> int:
    """An integer as a type holds it."""
    bits = int(kind[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def _interesting(kind: str) -> list[int]:
    """Edges of a type, and some others."""
    bits = int(kind[1:])
    edges = [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, *((1 << bits - k) - 1 for k in (0, 1)), 1 << bits - 1, 0xA5 << bits - 9]
    return sorted({_wrapped(edge, kind) for edge in [*edges, *map(int, RANDOM.integers(0, 1 << 62, 4))]})


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _inserted(a: int, b: int, at: int, length: int) -> int:
    field = ((1 << (length & 255)) - 1) << (at & 255)
    return b & ~field | a << (at & 255) & field


def _permuted(a: int, b: int, c: int) -> int:
    both, selectors = (b << 32 | a).to_bytes(8, "little"), [c >> 4 * k & 15 for k in range(4)]
    return int.from_bytes(bytes(255 * (both[s & 7] >> 7) if s & 8 else both[s & 7] for s in selectors), "little")


def _identity(a: int) -> int:
    return a


_CHOICE = "setp.{} %p1, {{a}}, {{b}}; selp.{} {{d}}, {{a}}, {{b}}, %p1;"
_INTEGERS: list[tuple[str, str, str, Callable[..., int]]] = [  # instruction, its result, its operands, in Python
    ("add.s32", "s32", "s32 s32", int.__add__), ("add.s64", "s64", "s64 s64", int.__add__),
    ("sub.s64", "s64", "s64 s64", int.__sub__), ("mul.lo.s32", "s32", "s32 s32", int.__mul__),
    ("mul.hi.s64", "s64", "s64 s64", lambda a, b: a * b >> 64), ("mul.wide.s32", "s64", "s32 s32", int.__mul__),
    ("mul.wide.u32", "u64", "u32 u32", int.__mul__), ("mul.wide.u16", "u32", "u16 u16", int.__mul__),
    ("mad.lo.s32", "s32", "s32 s32 s32", lambda a, b, c: a * b + c),
    ("div.u32", "u32", "u32 u32", _quotient), ("div.s64", "s64", "s64 s64", _quotient),
    ("div.u64", "u64", "u64 u64", _quotient), ("min.s32", "s32", "s32 s32", min), ("max.s32", "s32", "s32 s32", max),
    ("abs.s32", "s32", "s32", abs), ("neg.s32", "s32", "s32", int.__neg__),
    ("and.b64", "u64", "u64 u64", int.__and__), ("or.b16", "u16", "u16 u16", int.__or__),
    ("xor.b32", "u32", "u32 u32", int.__xor__), ("not.b32", "u32", "u32", int.__invert__),
    ("shl.b32", "u32", "u32 u32", lambda a, n: a << min(n, 64)),
    ("shl.b64", "u64", "u64 u32", lambda a, n: a << min(n, 64)),
    ("shr.u32", "u32", "u32 u32", lambda a, n: a >> min(n, 64)),
    ("shr.s64", "s64", "s64 u32", lambda a, n: a >> min(n, 64)),
    ("bfi.b32", "u32", "u32 u32 u32 u32", _inserted), ("bfi.b64", "u64", "u64 u64 u32 u32", _inserted),
    ("prmt.b32", "u32", "u32 u32 u32", _permuted),
    ("cvt.s64.s32", "s64", "s32", _identity), ("cvt.u64.u16", "u64", "u16", _identity),
    ("cvt.s32.s16", "s32", "s16", _identity), ("cvt.u16.u64", "u16", "u64", _identity),
    ("cvt.u32.u64", "u32", "u64", _identity), ("mov.u64", "u64", "u64", _identity),
    (_CHOICE.format("lt.s32", "b32"), "s32", "s32 s32", min), (_CHOICE.format("gt.u32", "u32"), "u32", "u32 u32", max),
    (_CHOICE.format("le.s64", "s64"), "s64", "s64 s64", min), (_CHOICE.format("ge.s64", "b64"), "s64", "s64 s64", max),
    (_CHOICE.format("ne.s16", "u16"), "s16", "s16 s16", lambda a, b: a),
    (_CHOICE.format("eq.b32", "b32"), "u32", "u32 u32", lambda a, b: b),
    ("setp.lt.s32 %p1, {a}, {b}; setp.eq.s32 %p2, {a}, 0; not.pred %p1, %p1; and.pred %p3, %p1, %p2; "
     "or.pred %p3, %p3, %p1; selp.b32 {d}, -2, 0xFFFFFFFFU, %p3;", "s32", "s32 s32", lambda a, b: -2 + (a < b)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "result", "kinds", "expected"), _INTEGERS, ids=[row[0][:20] for row in _INTEGERS])
def test_integers_wrap_around(name: str, result: str, kinds: str, expected: Callable[..., int]) -> None:
    """On all combinations of interesting values, at most a block of them; none divides by zero."""
    sources = kinds.split()
    rows = list(itertools.product(*map(_interesting, sources)))
    rows = [rows[k] for k in RANDOM.permutation(len(rows))[:1024] if not (name.startswith("div") and rows[k][1] == 0)]
    columns = [np.array([row[k] for row in rows], _dtype(kind)) for k, kind in enumerate(sources)]
    operands = ", ".join(f"{{{letter}}}" for letter in "abce"[: len(sources)])
    found = evaluate(name if ";" in name else f"{name} {{d}}, {operands};", _dtype(result), *columns).tolist()
    for row, value in zip(rows, found, strict=True):
        assert value == _wrapped(expected(*row), result), (name, row)


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
    (a,), limits = _grid(1), np.iinfo(_dtype(kind))
    found = evaluate(f"cvt.rzi.ftz.{kind}.f32 {{d}}, {{a}};", _dtype(kind), a)
    for x, value in zip(a.tolist(), found.tolist(), strict=True):
        if math.isnan(x):
            assert value == (limits.min if kind == "s64" else 0)
        else:
            assert value == max(min(int(max(min(x, 2.0**80), -(2.0**80))), limits.max), limits.min), x
    edges = (*_interesting(kind), 2**24 + 1, 2**24 + 3, 2**62 + 2**38 + 1)
    values = [v for v in edges if limits.min <= v <= limits.max]
    found = evaluate(f"cvt.rn.f32.{kind} {{d}}, {{a}};", "float32", np.array(values, _dtype(kind)))
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


def test_threads_know_their_place() -> None:
    body = """mov.u32 %r3, %ctaid.y; mov.u32 %r4, %nctaid.x; mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ntid.x;
    mad.lo.s32 %r7, %r3, %r4, %r5; mad.lo.s32 %r7, %r7, %r6, %r20; mul.wide.u32 %d1, %r7, 20; add.s64 %d2, %d20, %d1;
    st.global.u32 [%d2], %r20; st.global.u32 [%d2+4], %r6; st.global.u32 [%d2+8], %r5; st.global.u32 [%d2+12], %r3;
    st.global.u32 [%d2+16], %r4;"""
    out = np.full((6, 5, 5), -1, np.int32)
    run(with_pointers(1, body), (2, 3), 5, buffers(out))
    for row, (y, x, thread) in zip(out.reshape(-1, 5).tolist(), np.ndindex(3, 2, 5), strict=True):
        assert row == [thread, 5, x, y, 2]


def test_branches_and_loops() -> None:
    """The steps of Collatz's sequence."""
    collatz = """mov.u32 %r2, 0;
    again: setp.eq.s32 %p1, %r1, 1; @%p1 bra done;
    and.b32 %r3, %r1, 1; setp.eq.b32 %p2, %r3, 0; @!%p2 bra odd;
    shr.u32 %r1, %r1, 1; bra.uni next;
    odd: mad.lo.s32 %r1, %r1, 3, 1;
    next: add.s32 %r2, %r2, 1; bra again;
    done:"""

    def steps(value: int) -> int:
        return 0 if value == 1 else 1 + steps(3 * value + 1 if value % 2 else value // 2)

    start = _words(96, 500) + np.uint32(1)
    assert _mapped(collatz, start, 2).tolist() == list(map(steps, start.tolist()))


# -- barriers and warps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 31, 100])
def test_a_block_turns_its_values_around(threads: int) -> None:
    body = """mov.u32 %r9, box; mul.wide.u32 %d4, %r20, 4; mov.u64 %d3, box; add.s64 %d5, %d3, %d4;
    st.shared.u32 [%d5], %r1; bar.sync 0; sub.s32 %r4, %r23, %r20; shl.b32 %r4, %r4, 2; add.s32 %r4, %r9, %r4;
    ld.shared.u32 %r2, [%r4-4];"""
    values = _words(3 * threads)
    found = _mapped(body, values, 3, ".shared .align 4 .b8 box[400];")
    np.testing.assert_array_equal(found.reshape(3, -1), values.reshape(3, -1)[:, ::-1])


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


@pytest.mark.parametrize("kind", ["u8", "s16", "u16", "s32", "u64"])
def test_loads_and_stores_of_every_width(kind: str) -> None:
    size = int(kind[1:]) // 8
    values = RANDOM.integers(0, 256, 16 * size, np.uint8).view(_dtype(kind))
    wide, back = np.zeros(16, np.int64 if kind[0] == "s" else np.uint64), np.zeros_like(values)
    body = f"""
    mad.lo.s64 %d1, %d19, {size}, %d20; mad.lo.s64 %d2, %d19, 8, %d21; mad.lo.s64 %d3, %d19, {size}, %d22;
    ld.global.{kind} %d4, [%d1]; st.global.u64 [%d2], %d4; st.global.u{8 * size} [%d3], %d4;"""
    run(with_pointers(3, body), 1, 16, buffers(values, wide, back))
    np.testing.assert_array_equal(wide, values)
    np.testing.assert_array_equal(back, values)


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


def test_parameters_of_every_size() -> None:
    """Of the one of two kernels that is named."""
    parameters = ".param .u8 a, .param .u16 b, .param .f32 c, .param .align 8 .b8 d[12], .param .u64 e, .param .u64 p0"
    body = """ld.param.u8 %r1, [a]; ld.param.u16 %r2, [b]; ld.param.f32 %f1, [c]; ld.param.u32 %r3, [d+8];
    ld.param.u64 %d2, [e]; ld.param.u64 %d1, [p0]; mov.f32 %f2, 0f3FC00000; add.f32 %f1, %f1, %f2;
    st.global.u32 [%d1], %r1; st.global.u32 [%d1+4], %r2; st.global.f32 [%d1+8], %f1; st.global.u32 [%d1+12], %r3;
    st.global.u64 [%d1+16], %d2; ret;"""
    text = kernel("", "ret;", name="other") + kernel(parameters, body).removeprefix(HEAD)
    out, structure = np.zeros(6, np.uint32), np.arange(12, dtype=np.uint8).tobytes()
    given = [np.uint8(200), np.uint16(1000), np.float32(1.5), structure, -1, Buffer(out, pack=pointer)]
    run(text, 1, 1, given, name="f")
    assert out.tolist() == [200, 1000, 0x40400000, 0x0B0A0908, 0xFFFFFFFF, 0xFFFFFFFF]
