"""Sums of products by each kind of instruction that the processor has, and without any."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numba import types
from numba.extending import intrinsic

from gpuimg.kernels.cpu import products
from gpuimg.kernels.cpu.intrinsics import Place
from gpuimg.kernels.lang import ir


def summed() -> Any:
    """Return a function of bytes of five arrays: sums of pairs, and bytes of four vectors of int32."""

    @intrinsic
    def both(typing_context: Any, values: Any, weights: Any, sums: Any, numbers: Any, out: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            places = [Place(context, builder, signature, args, k) for k in range(5)]

            def vector(k: int, bits: int, at: int = 0) -> Any:
                whole = places[k].load(ir.IntType(64)(at), 64)
                return builder.bitcast(whole, ir.VectorType(ir.IntType(bits), 512 // bits))

            found = products.sums_of_pairs(context, builder, vector(0, 16), vector(1, 16))
            places[2].store(builder.bitcast(found, ir.VectorType(ir.IntType(8), 64)), ir.IntType(64)(0))
            quarters = [vector(3, 32, 64 * k) for k in range(4)]
            places[4].store(products.bytes_of(context, builder, quarters), ir.IntType(64)(0))
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
        call(*(array.view(np.uint8) for array in (values, weights, sums, numbers, out)))
        product = values.astype(np.int64) * weights
        assert np.array_equal(sums, product[::2] + product[1::2])
        quarters = np.clip(numbers, 0, 255).astype(np.uint8).reshape(4, 4, 4)  # vector, lane, number
        assert np.array_equal(out, quarters.transpose(1, 0, 2).reshape(-1))
