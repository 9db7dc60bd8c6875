"""Bits of a mask by their rank: one instruction where the processor has a fast one, else loops of the same results."""

import numpy as np

from ..lang import intrinsic, ir, types
from .vectors import count_bits, leading_zeros

u64, i64 = np.uint64, np.int64


def is_fast(features, cpu):
    """Return True for a processor with fast ``pdep`` and ``pext``: Zen 1 and 2 take some ten cycles for each bit."""
    return "+bmi2" in features.split(",") and cpu not in ("znver1", "znver2")


def _is_fast_for(context):
    codegen = context.codegen()
    return is_fast(codegen._tm_features, codegen._get_host_cpu_name())


def by_rank(name, by_loop):
    """Return the function ``name(bits, mask)`` of BMI2 as an intrinsic, which elsewhere runs a loop."""

    @intrinsic
    def function(typing_context, bits, mask):
        def generate(context, builder, signature, args):
            if not _is_fast_for(context):
                return context.compile_internal(builder, by_loop, signature, args)
            kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * 2)
            return builder.call(builder.module.declare_intrinsic(f"llvm.x86.bmi.{name}.64", (), kind), args)

        return types.uint64(types.uint64, types.uint64), generate

    return function


def deposit_bit_by_bit(bits, mask):
    """Do what :data:`deposit` does on any processor."""
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


#: The lowest bits of a number, as many as a mask has, on the bits of the mask, lowest to lowest; others are 0.
deposit = by_rank("pdep", deposit_bit_by_bit)


def extract_bit_by_bit(bits, mask):
    """Do what :data:`extract` does on any processor."""
    found, one = u64(0), u64(1)
    while mask != u64(0):
        lowest = mask & (~mask + u64(1))
        if bits & lowest:
            found |= one
        one <<= u64(1)
        mask ^= lowest
    return found


#: The bits of a number on those of a mask, side by side, lowest first.
extract = by_rank("pext", extract_bit_by_bit)


def _highest_by_deposit(mask, k):
    below = i64(count_bits(mask)) - 1 - k
    return deposit(u64(1) << u64(below & 63), mask) if below >= 0 else u64(0)


@intrinsic
def highest(typing_context, mask, k):
    """The bit of a mask that has ``k`` of its bits above it; 0 if there are no more than these."""

    def generate(context, builder, signature, args):
        function = _highest_by_deposit if _is_fast_for(context) else highest_bit_by_bit
        return context.compile_internal(builder, function, signature, args)

    return types.uint64(types.uint64, types.int64), generate
