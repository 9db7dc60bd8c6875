"""Intrinsics that Numba lacks: unaligned loads, byte masks, bit counts, and addresses with optional bounds checks.

They are written as LLVM IR. Indices are unsigned 64-bit numbers (``uintp``), vectors have as many lanes as the code
needs: LLVM splits those that the processor does not have.
"""

from __future__ import annotations

from functools import wraps
from typing import Any, NamedTuple

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


class Memory(NamedTuple):
    """An array in code that is emitted."""

    context: Any
    builder: Any
    kind: Any
    array: Any

    def at(self, index, count):
        """Return the address of ``count`` elements; with NUMBA_BOUNDSCHECK=1 the process ends if some are outside."""
        struct = self.context.make_array(self.kind)(self.context, self.builder, self.array)
        check_place(self.builder, index, ir.Constant(index.type, count), self.builder.extract_value(struct.shape, 0))
        return self.builder.gep(struct.data, [index])


def emitted(result, *kinds):
    """Return a decorator that makes an intrinsic of a function which emits its code, given a builder and arguments.

    ``result`` and ``kinds`` are the types of its result and arguments. None is the type that a call passes, and for the
    result that of the first argument. Arrays become :class:`Memory`.
    """

    def decorate(emit):
        @wraps(emit)  # also for Numba, which binds arguments by the signature
        def typed(typing_context, *given):
            def generate(context, builder, signature, args):
                pairs = zip(signature.args, args, strict=True)
                passed = [
                    Memory(context, builder, *one) if isinstance(one[0], types.Array) else one[1] for one in pairs
                ]
                found = emit(builder, *passed)
                return context.get_dummy_value() if found is None else found

            taken = [one if kind is None else kind for kind, one in zip(kinds, given, strict=True)]
            return (taken[0] if result is None else result)(*taken), generate

        return intrinsic(typed)

    return decorate


def load(builder, address, kind):
    """Emit an unaligned load."""
    # LLVM assumes the natural alignment of the type otherwise, and aligned loads fault at other addresses.
    value = builder.load(builder.bitcast(address, kind.as_pointer()))
    value.align = 1
    return value


def store(builder, value, address):
    """Emit an unaligned store."""
    builder.store(value, builder.bitcast(address, value.type.as_pointer())).align = 1


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
