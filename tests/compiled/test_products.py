"""Sums of products by each kind of instruction that the processor has, and without any."""

from typing import Any

import numba
import numpy as np
import pytest
from numba import types

from gpuimg.kernels.cpu import products
from gpuimg.kernels.cpu.intrinsics import I16, I32, I64, emitted, load, store, vector


def summed() -> Any:
    """Return a function ``(values, weights, out)``: sums of pairs, and bytes of four vectors of int32."""

    @emitted(types.none, *[None] * 5)
    def both(builder: Any, values: Any, weights: Any, sums: Any, numbers: Any, out: Any) -> None:
        pair = (load(builder, one.at(I64(0), 32), vector(I16, 32)) for one in (values, weights))
        store(builder, products.sums_of_pairs(values.context, builder, *pair), sums.at(I64(0), 16))
        quarters = [load(builder, numbers.at(I64(16 * k), 16), vector(I32, 16)) for k in range(4)]
        store(builder, products.bytes_of(values.context, builder, quarters), out.at(I64(0), 64))

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
