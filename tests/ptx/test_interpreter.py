"""The interpreter's floats against fractions rounded once; kernels, against the CPU, are the test of all else."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from .opcodes import form_of

RANDOM = np.random.default_rng()  # a failure quotes its operands


def evaluate(name: str, *arrays: Any) -> Any:
    with np.errstate(all="ignore"):
        return form_of(tuple(name.split("."))).function(*arrays)


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


@pytest.mark.parametrize(
    ("name", "exact"),
    [("add", Fraction.__add__), ("sub", Fraction.__sub__), ("mul", Fraction.__mul__),
     ("fma.rn", lambda a, b, c: a * b + c)],
)  # fmt: skip
def test_float_arithmetic_rounds_once(name: str, exact: Callable[..., Fraction]) -> None:
    def flushed(x: float) -> float:
        return math.copysign(0.0, x) if abs(x) < 2.0**-126 else x

    columns = _grid(3 if name == "fma.rn" else 2)
    columns = [column[np.isfinite(columns).all(0)] for column in columns]
    if name == "fma.rn":  # halfway cases that rounding to float64 first gets wrong
        columns[0][:2], columns[1][:2], columns[2][:2] = 1 + 2.0**-12, [1 + 2.0**-12, -1 - 2.0**-12], 2.0**-80
    found = evaluate(f"{name}.ftz.f32", *columns)
    for row, value in zip(np.stack(columns, 1).tolist(), found.tolist(), strict=True):
        assert value == flushed(_nearest(exact(*(Fraction(flushed(x)) for x in row)))), (name, row)


def test_floats_of_nan_and_signed_zeros() -> None:
    nan = math.nan
    a, b = np.array([[0.0, -0.0, nan, 1.0, nan, 2.0], [-0.0, 0.0, 1.0, nan, nan, 3.0]], np.float32)
    for name, expected in (
        ("max", [0.0, 0.0, 1.0, 1.0, nan, 3.0]), ("min", [-0.0, -0.0, 1.0, 1.0, nan, 2.0]), ("neg", -a),
        ("abs", np.abs(a)),
    ):  # fmt: skip
        found = evaluate(f"{name}.ftz.f32", *([a, b] if name in ("max", "min") else [a]))
        wanted = np.asarray(expected, np.float32)
        np.testing.assert_array_equal(found, wanted, err_msg=name)
        real = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[real]), np.signbit(wanted[real]), err_msg=name)
    a, b = np.array([[1.0, 2.0, nan, 0.0, 1e-40], [2.0, 2.0, 1.0, -0.0, 0.0]], np.float32)
    for name, bits in {
        "eq": "01011", "lt": "10000", "le": "11011", "gt": "00000", "ge": "01011", "equ": "01111",
        "neu": "10100", "ltu": "10100", "leu": "11111", "gtu": "00100", "geu": "01111",
    }.items():  # fmt: skip
        found = evaluate(f"setp.{name}.ftz.f32", a, b)
        assert "".join(map(str, found.astype(int))) == bits, name


@pytest.mark.parametrize("kind", ["u16", "s32", "s64"])
def test_floats_become_integers_and_back(kind: str) -> None:
    (a,), limits = _grid(1), np.iinfo(kind.replace("s", "int").replace("u", "uint"))
    found = evaluate(f"cvt.rzi.ftz.{kind}.f32", a)
    for x, value in zip(a.tolist(), found.tolist(), strict=True):
        if math.isnan(x):
            assert value == (limits.min if kind == "s64" else 0)
        else:
            assert value == max(min(int(max(min(x, 2.0**80), -(2.0**80))), limits.max), limits.min), x
    edges = (0, 1, 255, limits.min, limits.min + 1, limits.max, 2**24 + 1, 2**24 + 3, 2**62 + 2**38 + 1)
    values = [v for v in edges if limits.min <= v <= limits.max]
    found = evaluate(f"cvt.rn.f32.{kind}", np.array(values, limits.dtype))
    assert found.tolist() == [_nearest(Fraction(v)) for v in values]
