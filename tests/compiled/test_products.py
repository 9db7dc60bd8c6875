"""Sums of products by each kind of instruction that the processor has, and without any."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numba import types
from numba.extending import intrinsic

from gpuimg.kernels.cpu import intrinsics, products
from gpuimg.kernels.lang import ir

pointer: Any = intrinsics.pointer


def _vector(context: Any, builder: Any, kind: Any, value: Any, at: int, element: Any, n: int) -> Any:
    place = pointer(context, builder, kind, value, ir.IntType(64)(at), ir.VectorType(element, n))
    found = builder.load(place)
    found.align = 1
    return found


def summed() -> Any:
    """Return a function ``(values, weights, out)``: sums of pairs, and bytes of four vectors of int32."""

    @intrinsic
    def both(typing_context: Any, values: Any, weights: Any, sums: Any, numbers: Any, out: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds = signature.args
            pair = [_vector(context, builder, kinds[k], args[k], 0, ir.IntType(16), 32) for k in (0, 1)]
            found = products.sums_of_pairs(context, builder, *pair)
            place = pointer(context, builder, kinds[2], args[2], ir.IntType(64)(0), found.type)
            builder.store(found, place).align = 1
            quarters = [_vector(context, builder, kinds[3], args[3], 16 * k, ir.IntType(32), 16) for k in range(4)]
            found = products.bytes_of(context, builder, quarters)
            place = pointer(context, builder, kinds[4], args[4], ir.IntType(64)(0), found.type)
            builder.store(found, place).align = 1
            return context.get_dummy_value()

        return types.none(values, weights, sums, numbers, out), generate

    @numba.njit
    def call(values: Any, weights: Any, sums: Any, numbers: Any, out: Any) -> None:
        both(values, weights, sums, numbers, out)

    return call


@pytest.mark.parametrize("most", [0, 128, 256, 512])
def test_every_instruction_gives_the_same(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    every = products._instructions

    def some(context: Any) -> Any:
        return [one for one in every(context) if one[0] <= most]

    monkeypatch.setattr(products, "_instructions", some)
    call = summed()
    rng = np.random.default_rng(most)
    for _ in range(20):
        values = rng.integers(0, 256, 32).astype(np.int16)
        weights = rng.integers(-(2**15) + 1, 2**15, 32).astype(np.int16)
        numbers = rng.integers(-600, 900, 64).astype(np.int32)
        sums, out = np.zeros(16, np.int32), np.zeros(64, np.uint8)
        call(values, weights, sums, numbers, out)
        product = values.astype(np.int64) * weights
        assert np.array_equal(sums, product[::2] + product[1::2])
        quarters = np.clip(numbers, 0, 255).astype(np.uint8).reshape(4, 4, 4)  # vector, lane, number
        assert np.array_equal(out, quarters.transpose(1, 0, 2).reshape(-1))
