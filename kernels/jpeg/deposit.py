"""Bits of a mask by their rank: one instruction where the processor has BMI2, else loops with the same results."""

from __future__ import annotations

import numpy as np

from ..lang import intrinsic, ir, types
from ..scalar import scalar
from .vectors import count_bits

u64, i64 = np.uint64, np.int64


def _deposit_bit_by_bit(bits, mask):
    found = u64(0)
    while mask != u64(0):
        lowest = mask & (~mask + u64(1))
        found |= lowest & (~(bits & u64(1)) + u64(1))
        bits >>= u64(1)
        mask ^= lowest
    return found


@intrinsic
def deposit(typing_context, bits, mask):
    """The lowest bits of a number, spread over the bits of a mask, the lowest bit to the lowest one of these."""

    def generate(context, builder, signature, args):
        if "+bmi2" in context.codegen()._tm_features.split(","):
            kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * 2)
            return builder.call(builder.module.declare_intrinsic("llvm.x86.bmi.pdep.64", (), kind), args)
        return context.compile_internal(builder, _deposit_bit_by_bit, signature, args)

    return types.uint64(types.uint64, types.uint64), generate


@scalar
def highest(mask, k):
    """Return the bit of a mask that has ``k`` of its bits above it; 0 if there are no more than these."""
    below = i64(count_bits(mask)) - 1 - k
    return deposit(u64(1) << u64(below & 63), mask) if below >= 0 else u64(0)
