"""Intrinsics that Numba lacks: unaligned loads, byte masks, bit counts, and addresses with optional bounds checks.

They are written as LLVM IR. Indices are unsigned 64-bit numbers (``uintp``), vectors have as many lanes as the code
needs: LLVM splits those that the processor does not have.
"""

from __future__ import annotations

from ..cpu.intrinsics import check_place, spread
from ..lang import intrinsic, ir, types

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))

MASKED = 32  # bytes that copy_masked copies: their mask is one uint32, and a register of AVX2


def vector(kind, n):
    """Return the type of a vector."""
    return ir.VectorType(kind, n)


def splat(kind, value, n):
    """Return a constant vector with the same value in all lanes."""
    return ir.Constant(vector(kind, n), [value] * n)


def place(context, builder, kind, array, index, count):
    """Return the address of ``count`` elements; with NUMBA_BOUNDSCHECK=1 the process ends if some are outside."""
    struct = context.make_array(kind)(context, builder, array)
    check_place(builder, index, ir.Constant(index.type, count), builder.extract_value(struct.shape, 0))
    return builder.gep(struct.data, [index])


def load(builder, address, kind):
    """Emit an unaligned load."""
    # LLVM assumes the natural alignment of the type otherwise, and aligned loads fault at other addresses.
    value = builder.load(builder.bitcast(address, kind.as_pointer()))
    value.align = 1
    return value


def store(builder, value, address):
    """Emit an unaligned store."""
    builder.store(value, builder.bitcast(address, value.type.as_pointer())).align = 1


@intrinsic
def load_big(typing_context, array, index):
    """Eight bytes as a big-endian uint64."""

    def generate(context, builder, signature, args):
        # Processors are little-endian here; a byte swap after the load is one instruction, or none.
        return builder.bswap(load(builder, place(context, builder, signature.args[0], args[0], args[1], 8), I64))

    return types.uint64(array, types.uintp), generate


@intrinsic
def copy_masked(typing_context, source, i, out, k):
    """``out[k:k + 32] = source[i:i + 32]``; bit j of the result is 1 where byte j is 0xFF."""

    def generate(context, builder, signature, args):
        kinds = signature.args
        value = load(builder, place(context, builder, kinds[0], args[0], args[1], MASKED), vector(I8, MASKED))
        store(builder, value, place(context, builder, kinds[2], args[2], args[3], MASKED))
        # 32 comparisons of one bit each, seen as one number: LLVM makes that a compare and a movemask.
        return builder.bitcast(builder.icmp_unsigned("==", value, splat(I8, 255, MASKED)), I32)

    return types.uint32(source, types.uintp, out, types.uintp), generate


@intrinsic
def mask_of(typing_context, source, i):
    """As :func:`copy_masked` without the copy: bit j is 1 where ``source[i + j]`` is 0xFF."""

    def generate(context, builder, signature, args):
        value = load(builder, place(context, builder, signature.args[0], args[0], args[1], MASKED), vector(I8, MASKED))
        return builder.bitcast(builder.icmp_unsigned("==", value, splat(I8, 255, MASKED)), I32)

    return types.uint32(source, types.uintp), generate


@intrinsic
def trailing_zeros(typing_context, x):
    """Number of zeros below the lowest bit of an unsigned number that is set; all of its bits for zero."""

    def generate(context, builder, signature, args):
        # The second operand: zero is defined.
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return x(x), generate


@intrinsic
def leading_zeros(typing_context, x):
    """Number of zeros above the highest bit of an unsigned number that is set; all of its bits for zero."""

    def generate(context, builder, signature, args):
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return x(x), generate


@intrinsic
def count_bits(typing_context, x):
    """Number of bits of an unsigned number that are set."""

    def generate(context, builder, signature, args):
        return builder.ctpop(args[0])

    return x(x), generate


@intrinsic
def unlikely(typing_context, x):
    """Return a condition, with the hint that it is mostly false."""

    def generate(context, builder, signature, args):
        # Moves the branch's code out of the way, so that the usual path falls through.
        bit = ir.IntType(1)
        expect = builder.module.declare_intrinsic("llvm.expect", [bit], ir.FunctionType(bit, [bit, bit]))
        return builder.call(expect, [args[0], ir.Constant(bit, 0)])

    return types.boolean(types.boolean), generate


def _make_fill(side):
    @intrinsic
    def fill(typing_context, out, at, stride, value):
        """Fill a block of ``side`` rows of bytes, each ``stride`` after the one before, with one value."""

        def generate(context, builder, signature, args):
            kinds = signature.args
            row = spread(builder, builder.trunc(args[3], I8), side)  # one store a row
            for y in range(side):
                at = builder.add(args[1], builder.mul(args[2], ir.Constant(args[2].type, y)))
                store(builder, row, place(context, builder, kinds[0], args[0], at, side))
            return context.get_dummy_value()

        return types.none(out, types.uintp, types.uintp, types.int64), generate

    return fill


# Blocks at full, half and quarter size.
fill8, fill4, fill2 = _make_fill(8), _make_fill(4), _make_fill(2)
