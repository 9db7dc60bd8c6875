"""Bits of a mask by their rank: one instruction where the processor has BMI2, else loops with the same results."""

from __future__ import annotations

import numpy as np

from ..lang import intrinsic, ir, types
from .vectors import count_bits, leading_zeros

u64, i64 = np.uint64, np.int64


def _has_bmi2(context):
    return "+bmi2" in context.codegen()._tm_features.split(",")


def _emit(context, builder, bits, mask):
    kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * 2)
    return builder.call(builder.module.declare_intrinsic("llvm.x86.bmi.pdep.64", (), kind), [bits, mask])


def deposit_bit_by_bit(bits, mask):
    """Do what :func:`deposit` does on any processor."""
    found = u64(0)
    while bits != u64(0):
        lowest = mask & (~mask + u64(1))
        found |= lowest & (~(bits & u64(1)) + u64(1))  # without a branch: all ones, or zeros
        bits >>= u64(1)
        mask ^= lowest
    return found


def highest_bit_by_bit(mask, k):
    """Do what :func:`highest` does on any processor."""
    while k > 0 and mask != u64(0):
        mask ^= u64(1) << u64(63) >> leading_zeros(mask)
        k -= 1
    return u64(1) << u64(63) >> leading_zeros(mask) if mask != u64(0) else u64(0)


@intrinsic
def deposit(typing_context, bits, mask):
    """The lowest bits of a number, as many as a mask has, on the bits of the mask, lowest to lowest; others are 0."""

    def generate(context, builder, signature, args):
        if _has_bmi2(context):
            return _emit(context, builder, *args)
        return context.compile_internal(builder, deposit_bit_by_bit, signature, args)

    return types.uint64(types.uint64, types.uint64), generate


def _highest_by_deposit(mask, k):
    below = i64(count_bits(mask)) - 1 - k
    return deposit(u64(1) << u64(below & 63), mask) if below >= 0 else u64(0)


@intrinsic
def highest(typing_context, mask, k):
    """The bit of a mask that has ``k`` of its bits above it; 0 if there are no more than these."""

    def generate(context, builder, signature, args):
        function = _highest_by_deposit if _has_bmi2(context) else highest_bit_by_bit
        return context.compile_internal(builder, function, signature, args)

    return types.uint64(types.uint64, types.int64), generate
