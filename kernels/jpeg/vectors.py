"""Intrinsics of decoders: byte masks, bit counts and blocks of one value. Indices are unsigned 64-bit numbers."""

from ..cpu.intrinsics import I8, I32, I64, emitted, load, splat, spread, store, vector
from ..lang import ir, types

MASKED = 32  # bytes that copy_masked copies: their mask is one uint32, and a register of AVX2


@emitted(types.uint64, None, types.uintp)
def load_big(builder, array, index):
    """Eight bytes as a big-endian uint64."""
    # Processors are little-endian here; a byte swap after the load is one instruction, or none.
    return builder.bswap(load(builder, array.at(index, 8), I64))


def _mask_of(builder, value):
    # 32 comparisons of one bit each, seen as one number: LLVM makes that a compare and a movemask.
    return builder.bitcast(builder.icmp_unsigned("==", value, splat(I8, 255, MASKED)), I32)


@emitted(types.uint32, None, types.uintp, None, types.uintp)
def copy_masked(builder, source, i, out, k):
    """``out[k:k + 32] = source[i:i + 32]``; bit j of the result is 1 where byte j is 0xFF."""
    value = load(builder, source.at(i, MASKED), vector(I8, MASKED))
    store(builder, value, out.at(k, MASKED))
    return _mask_of(builder, value)


@emitted(types.uint32, None, types.uintp)
def mask_of(builder, source, i):
    """As :func:`copy_masked` without the copy: bit j is 1 where ``source[i + j]`` is 0xFF."""
    return _mask_of(builder, load(builder, source.at(i, MASKED), vector(I8, MASKED)))


@emitted(None, None)
def trailing_zeros(builder, x):
    """Number of zeros below the lowest bit of an unsigned number that is set; all of its bits for zero."""
    return builder.cttz(x, ir.Constant(ir.IntType(1), 0))  # the second operand: zero is defined


@emitted(None, None)
def leading_zeros(builder, x):
    """Number of zeros above the highest bit of an unsigned number that is set; all of its bits for zero."""
    return builder.ctlz(x, ir.Constant(ir.IntType(1), 0))


@emitted(None, None)
def count_bits(builder, x):
    """Number of bits of an unsigned number that are set."""
    return builder.ctpop(x)


@emitted(types.boolean, types.boolean)
def unlikely(builder, x):
    """Return a condition, with the hint that it is mostly false."""
    # Moves the branch's code out of the way, so that the usual path falls through.
    bit = ir.IntType(1)
    expect = builder.module.declare_intrinsic("llvm.expect", [bit], ir.FunctionType(bit, [bit, bit]))
    return builder.call(expect, [x, ir.Constant(bit, 0)])


def _make_fill(side):
    @emitted(types.none, None, types.uintp, types.uintp, types.int64)
    def fill(builder, out, at, stride, value):
        """Fill a block of ``side`` rows of bytes, each ``stride`` after the one before, with one value."""
        row = spread(builder, builder.trunc(value, I8), side)  # one store a row
        for y in range(side):
            store(builder, row, out.at(builder.add(at, builder.mul(stride, ir.Constant(stride.type, y))), side))

    return fill


# Blocks at full, half and quarter size.
fill8, fill4, fill2 = _make_fill(8), _make_fill(4), _make_fill(2)
