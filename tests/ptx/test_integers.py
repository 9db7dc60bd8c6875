"""Integer instructions against plain Python: integers without limits, and bits one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from .fault import Fault
from .launch import run
from .snippets import INTS, RANDOM, bits_of, evaluate, interesting, kernel, wrapped


def _rows(*kinds: str) -> list[tuple[int, ...]]:
    """Combinations of interesting values, at most a block of them."""
    rows = list(itertools.product(*map(interesting, kinds)))
    chosen = RANDOM.permutation(len(rows))[:1024]
    return [rows[k] for k in chosen]


def _check(text: str, result: str, kinds: Iterable[str], expected: Callable[..., int], rows: Any = None) -> None:
    kinds = tuple(kinds)
    rows = rows or _rows(*kinds)
    columns = [np.array([row[k] for row in rows], INTS[kind]) for k, kind in enumerate(kinds)]
    found = evaluate(text, np.dtype(INTS[result]).name, *columns).tolist()
    for row, value in zip(rows, found, strict=True):
        assert value == wrapped(expected(*row), result), (text, row)


# -- integers ----------------------------------------------------------------------------------------------------------


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_arithmetic_wraps_around(kind: str) -> None:
    two = (kind, kind)
    _check(f"add.{kind} {{d}}, {{a}}, {{b}};", kind, two, lambda a, b: a + b)
    _check(f"sub.{kind} {{d}}, {{a}}, {{b}};", kind, two, lambda a, b: a - b)
    _check(f"mul.lo.{kind} {{d}}, {{a}}, {{b}};", kind, two, lambda a, b: a * b)
    _check(f"mul.hi.{kind} {{d}}, {{a}}, {{b}};", kind, two, lambda a, b: a * b >> bits_of(kind))
    _check(f"min.{kind} {{d}}, {{a}}, {{b}};", kind, two, min)
    _check(f"max.{kind} {{d}}, {{a}}, {{b}};", kind, two, max)
    some = [row for row in _rows(*two) if row[1] != 0]
    _check(f"div.{kind} {{d}}, {{a}}, {{b}};", kind, two, _truncated, some)
    _check(f"rem.{kind} {{d}}, {{a}}, {{b}};", kind, two, lambda a, b: a - b * _truncated(a, b), some)
    _check(f"mad.lo.{kind} {{d}}, {{a}}, {{b}}, {{a}};", kind, two, lambda a, b: a * b + a)
    _check(f"mad.hi.{kind} {{d}}, {{a}}, {{b}}, {{b}};", kind, two, lambda a, b: (a * b >> bits_of(kind)) + b)
    _check(f"sad.{kind} {{d}}, {{a}}, {{b}}, {{a}};", kind, two, lambda a, b: a + abs(a - b))
    if kind[0] == "s":
        _check(f"abs.{kind} {{d}}, {{a}};", kind, (kind,), abs)
        _check(f"neg.{kind} {{d}}, {{a}};", kind, (kind,), lambda a: -a)


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32"])
def test_wide_products(kind: str) -> None:
    wide = f"{kind[0]}{2 * bits_of(kind)}"
    _check(f"mul.wide.{kind} {{d}}, {{a}}, {{b}};", wide, (kind, kind), lambda a, b: a * b)
    _check(f"mad.wide.{kind} {{d}}, {{a}}, {{b}}, {{c}};", wide, (kind, kind, wide), lambda a, b, c: a * b + c)


def test_products_of_24_bits() -> None:
    def low(a: int, kind: str) -> int:
        a &= 0xFFFFFF
        return a - (1 << 24) if kind == "s32" and a >> 23 else a

    for kind in ("u32", "s32"):
        for half, shift in (("lo", 0), ("hi", 16)):
            text = f"mul24.{half}.{kind} {{d}}, {{a}}, {{b}};"
            _check(text, kind, (kind, kind), lambda a, b: low(a, kind) * low(b, kind) >> shift)  # noqa: B023
        text = f"mad24.lo.{kind} {{d}}, {{a}}, {{b}}, {{c}};"
        _check(text, kind, (kind,) * 3, lambda a, b, c: low(a, kind) * low(b, kind) + c)  # noqa: B023


def test_saturated_sums() -> None:
    def held(value: int) -> int:
        return max(min(value, 2**31 - 1), -(2**31))

    _check("add.sat.s32 {d}, {a}, {b};", "s32", ("s32", "s32"), lambda a, b: held(a + b))
    _check("sub.sat.s32 {d}, {a}, {b};", "s32", ("s32", "s32"), lambda a, b: held(a - b))


def test_carries_chain_to_128_bits() -> None:
    low, high = ("u64", "u64"), 1 << 64
    text = "add.cc.u64 %d2, {a}, {b}; addc.u64 {d}, {b}, {a};"
    _check(text, "u64", low, lambda a, b: ((a + (b << 64)) + (b + (a << 64))) // high)
    text = "sub.cc.u64 %d2, {a}, {b}; subc.u64 {d}, {b}, {a};"
    _check(text, "u64", low, lambda a, b: ((a + (b << 64)) - (b + (a << 64))) // high)
    text = "mad.lo.cc.u32 %r2, {a}, {b}, {c}; madc.hi.u32 {d}, {a}, {b}, 0;"
    _check(text, "u32", ("u32",) * 3, lambda a, b, c: (a * b + c) >> 32)
    text = "add.cc.u32 %r2, {a}, {b}; addc.cc.u32 %r3, {a}, {b}; addc.u32 {d}, 0, 0;"
    _check(text, "u32", ("u32",) * 2, lambda a, b: (a + (a << 32) + b + (b << 32)) >> 64)


@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
def test_logic(kind: str) -> None:
    for name, function in (("and", int.__and__), ("or", int.__or__), ("xor", int.__xor__)):
        _check(f"{name}.{kind} {{d}}, {{a}}, {{b}};", kind, (kind, kind), function)
    _check(f"not.{kind} {{d}}, {{a}};", kind, (kind,), lambda a: ~a)
    _check(f"cnot.{kind} {{d}}, {{a}};", kind, (kind,), lambda a: int(a == 0))


def test_any_logic_of_three() -> None:
    for table in (0x80, 0xFE, 0x96, 0xCA, 0x1B, int(RANDOM.integers(256))):

        def expected(a: int, b: int, c: int, table: int = table) -> int:
            columns = (((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1) for k in range(32))
            return sum((table >> column & 1) << k for k, column in enumerate(columns))

        _check(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};", "b32", ("b32",) * 3, expected)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_end_at_the_width(bits: int) -> None:
    amounts = (f"b{bits}", "u32")
    _check(f"shl.b{bits} {{d}}, {{a}}, {{b}};", f"b{bits}", amounts, lambda a, b: a << min(b, 64))
    _check(f"shr.u{bits} {{d}}, {{a}}, {{b}};", f"u{bits}", (f"u{bits}", "u32"), lambda a, b: a >> min(b, 64))
    _check(f"shr.s{bits} {{d}}, {{a}}, {{b}};", f"s{bits}", (f"s{bits}", "u32"), lambda a, b: a >> min(b, 64))


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shifts(mode: str) -> None:
    kinds = ("b32", "b32", "u32")

    def amount(c: int) -> int:
        return c & 31 if mode == "wrap" else min(c, 32)

    left, right = (f"shf.{way}.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};" for way in "lr")
    _check(left, "b32", kinds, lambda a, b, c: (b << 32 | a) << amount(c) >> 32)
    _check(right, "b32", kinds, lambda a, b, c: (b << 32 | a) >> amount(c))


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_fields_are_taken(kind: str) -> None:
    def expected(a: int, b: int, c: int) -> int:
        most, position, length = bits_of(kind) - 1, b & 255, c & 255
        sign = 0 if kind[0] == "u" or length == 0 else a >> min(position + length - 1, most) & 1
        return sum(
            (a >> position + k & 1 if k < length and position + k <= most else sign) << k for k in range(most + 1)
        )

    _check(f"bfe.{kind} {{d}}, {{a}}, {{b}}, {{c}};", kind, (kind, "u32", "u32"), expected)


@pytest.mark.parametrize("kind", ["b32", "b64"])
def test_bit_fields_are_put(kind: str) -> None:
    def expected(a: int, b: int, c: int, d: int) -> int:
        most, position, length = bits_of(kind) - 1, c & 255, d & 255
        result = b
        for k in range(length):
            if position + k <= most:
                result = result & ~(1 << position + k) | (a >> k & 1) << position + k
        return result

    _check(f"bfi.{kind} {{d}}, {{a}}, {{b}}, {{c}}, {{e}};", kind, (kind, kind, "u32", "u32"), expected)


def test_bytes_are_permuted() -> None:
    def expected(a: int, b: int, c: int) -> int:
        both = (b << 32 | a).to_bytes(8, "little")
        result = []
        for k in range(4):
            selector = c >> 4 * k & 15
            byte = both[selector & 7]
            result.append((255 if byte >= 128 else 0) if selector & 8 else byte)
        return int.from_bytes(bytes(result), "little")

    rows = [(*map(int, RANDOM.integers(0, 1 << 32, 2)), int(c)) for c in RANDOM.integers(0, 1 << 16, 512)]
    _check("prmt.b32 {d}, {a}, {b}, {c};", "b32", ("b32",) * 3, expected, rows)


# From the manual's table: the bytes of the result, highest first, for the values 0 to 3 of the selector.
_TABLE = {
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}


@pytest.mark.parametrize("mode", _TABLE)
def test_bytes_are_permuted_by_a_mode(mode: str) -> None:
    def expected(a: int, b: int, c: int) -> int:
        both = (b << 32 | a).to_bytes(8, "little")
        return int.from_bytes(bytes(both[int(sign)] for sign in _TABLE[mode][c & 3]), "big")

    _check(f"prmt.b32.{mode} {{d}}, {{a}}, {{b}}, {{c}};", "b32", ("b32",) * 3, expected)


@pytest.mark.parametrize("bits", [32, 64])
def test_bits_are_counted(bits: int) -> None:
    kind = (f"b{bits}",)
    _check(f"popc.b{bits} {{d}}, {{a}};", "u32", kind, lambda a: a.bit_count())
    _check(f"clz.b{bits} {{d}}, {{a}};", "u32", kind, lambda a: bits - a.bit_length())
    _check(f"brev.b{bits} {{d}}, {{a}};", f"b{bits}", kind, lambda a: int(f"{a:0{bits}b}"[::-1], 2))
    _check(f"bfind.u{bits} {{d}}, {{a}};", "u32", (f"u{bits}",), lambda a: a.bit_length() - 1)
    _check(f"bfind.s{bits} {{d}}, {{a}};", "u32", (f"s{bits}",), lambda a: (a if a >= 0 else ~a).bit_length() - 1)
    text = f"bfind.shiftamt.u{bits} {{d}}, {{a}};"
    _check(text, "u32", (f"u{bits}",), lambda a: bits - a.bit_length() if a else -1)


def test_dot_products() -> None:
    def part(a: int, k: int, width: int, signed: bool) -> int:
        value = a >> width * k & (1 << width) - 1
        return value - (1 << width) if signed and value >> width - 1 else value

    for one, other in itertools.product(("u32", "s32"), repeat=2):
        result = "s32" if "s32" in (one, other) else "u32"

        def four(a: int, b: int, c: int, s: Any = (one == "s32", other == "s32")) -> int:
            return c + sum(part(a, k, 8, s[0]) * part(b, k, 8, s[1]) for k in range(4))

        def two(a: int, b: int, c: int, s: Any = (one == "s32", other == "s32"), half: int = 0) -> int:
            return c + sum(part(a, k, 16, s[0]) * part(b, k + half, 8, s[1]) for k in range(2))

        kinds = ("b32", "b32", result)
        _check(f"dp4a.{one}.{other} {{d}}, {{a}}, {{b}}, {{c}};", result, kinds, four)
        _check(f"dp2a.lo.{one}.{other} {{d}}, {{a}}, {{b}}, {{c}};", result, kinds, two)
        _check(
            f"dp2a.hi.{one}.{other} {{d}}, {{a}}, {{b}}, {{c}};", result, kinds,
            lambda a, b, c, two=two: two(a, b, c, half=2),
        )  # fmt: skip


@pytest.mark.parametrize("kind", ["u16", "s32", "u64", "s64"])
def test_comparisons_of_integers(kind: str) -> None:
    tests: dict[str, Callable[[int, int], bool]] = {
        "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    }  # fmt: skip
    if kind[0] == "u":
        tests |= {"lo": tests["lt"], "ls": tests["le"], "hi": tests["gt"], "hs": tests["ge"]}
    for name, test in tests.items():
        chosen = "setp.{0}.{1} %p1, {{a}}, {{b}}; selp.{1} {{d}}, {{a}}, {{b}}, %p1;".format(name, kind)  # noqa: UP032
        _check(chosen, kind, (kind, kind), lambda a, b: a if test(a, b) else b)  # noqa: B023


def test_predicates_are_joined_and_opposite() -> None:
    text = (
        "setp.lt.s32 %p1|%p2, {a}, {b}; setp.eq.and.s32 %p3, {a}, 0, !%p2; @%p3 mov.u32 {d}, 7; @!%p1 mov.u32 {d}, {b};"
    )
    _check(text, "u32", ("s32", "s32"), lambda a, b: b if a >= b else 7 if a == 0 else 0)
    text = "setp.gt.u32 %p1, {a}, 5; not.pred %p2, %p1; xor.pred %p3, %p1, %p2; and.pred %p4, %p1, %p3;"
    text += "selp.u32 {d}, 1, 0, %p4;"
    _check(text, "u32", ("u32",), lambda a: int(a > 5))
    _check("set.lt.u32.s32 {d}, {a}, {b};", "u32", ("s32", "s32"), lambda a, b: -int(a < b))
    _check("slct.s32.s32 {d}, {a}, {b}, {c};", "s32", ("s32",) * 3, lambda a, b, c: a if c >= 0 else b)


def test_integers_are_converted() -> None:
    kinds = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
    for source, target in itertools.product(["u16", "s16", "u32", "s32", "u64", "s64"], kinds):
        out = target if bits_of(target) > 8 else f"{target[0]}16"
        _check(f"cvt.{target}.{source} {{d}}, {{a}};", out, (source,), lambda a: wrapped(a, target))  # noqa: B023
        low, high = (
            (0, (1 << bits_of(target)) - 1)
            if target[0] == "u"
            else (-(1 << bits_of(target) - 1), (1 << bits_of(target) - 1) - 1)
        )
        text = f"cvt.sat.{target}.{source} {{d}}, {{a}};"
        _check(text, out, (source,), lambda a: max(min(a, high), low))  # noqa: B023


def test_a_part_of_a_wider_register_is_converted() -> None:
    _check("cvt.s32.s8 {d}, {a};", "s32", ("b32",), lambda a: wrapped(a & 255, "s8"))
    _check("cvt.u64.u8 {d}, {a};", "u64", ("b64",), lambda a: a & 255)


def test_registers_are_packed() -> None:
    text = "mov.b64 {{%r1, %r2}}, {a}; mov.b64 {d}, {{%r2, %r1}};"
    _check(text, "b64", ("b64",), lambda a: (a << 32 | a >> 32) & (2**64 - 1))
    text = "mov.b32 {{%h1, %h2}}, {a}; mov.b32 {d}, {{%h2, %h1}};"
    _check(text, "b32", ("b32",), lambda a: (a << 16 | a >> 16) & (2**32 - 1))


# -- what is not known -------------------------------------------------------------------------------------------------

UNKNOWN = [
    "frobnicate.s32 %r1, %r2;", "add.s31 %r1, %r2, %r3;", "add.wide.s32 %r1, %r2, %r3;", "mul.s32 %r1, %r2, %r3;",
    "cvt.rni.s32.s32 %r1, %r2;", "cvt.f16.f32 %h1, %f1;", "div.rz.f32 %f1, %f2, %f3;", "ld.global.v3.u32 %r1, [%d1];",
    "ex2.f32 %f1, %f2;", "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [t, {%f5,%f6}];", "shfl.up.b32 %r1, %r2, 1, 0;",
    "atom.global.mul.u32 %r1, [%d1], %r2;", "setp.lo.s32 %p1, %r1, %r2;", "wgmma.fence.sync.aligned;",
    "cp.async.ca.shared.global [%r1], [%d1], 4;", "add.u32 %r1, %nosuch, 1;", "add.s64 %d1, %r1, %d2;",
]  # fmt: skip


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_is_not_known_is_quoted(text: str) -> None:
    with pytest.raises(Fault) as caught:
        run(kernel("", f"{text}\nret;"), 1, 32, [])
    assert text.rstrip(";").split()[0] in str(caught.value)
    assert "line 1" in str(caught.value)
