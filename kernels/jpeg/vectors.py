"""What Numba has no name for: unaligned loads, byte masks, and addresses that a build with bounds checks checks."""

from __future__ import annotations

from ..cpu.intrinsics import check_place, spread
from ..lang import intrinsic, ir, types

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))

MASKED = 32  # bytes that copy_masked copies: a mask of them is one uint32


def vector(kind, n):
    """The type of a vector."""
    return ir.VectorType(kind, n)


def splat(kind, value, n):
    """A vector of one value."""
    return ir.Constant(vector(kind, n), [value] * n)


def place(context, builder, kind, array, index, count):
    """Address of ``count`` elements of an array; with NUMBA_BOUNDSCHECK=1 the process ends where they are not its."""
    made = context.make_array(kind)(context, builder, array)
    check_place(builder, index, ir.Constant(index.type, count), builder.extract_value(made.shape, 0))
    return builder.gep(made.data, [index])


def load(builder, address, kind):
    """An unaligned load."""
    value = builder.load(builder.bitcast(address, kind.as_pointer()))
    value.align = 1
    return value


def store(builder, value, address):
    """An unaligned store."""
    builder.store(value, builder.bitcast(address, value.type.as_pointer())).align = 1


@intrinsic
def load_big(typing_context, array, index):
    """Eight bytes, the first one on top."""

    def generate(context, builder, signature, args):
        return builder.bswap(load(builder, place(context, builder, signature.args[0], args[0], args[1], 8), I64))

    return types.uint64(array, types.uintp), generate


@intrinsic
def copy_masked(typing_context, source, i, out, k):
    """``out[k:k + 32] = source[i:i + 32]``; the result has a bit for each byte that is 0xFF."""

    def generate(context, builder, signature, args):
        kinds = signature.args
        value = load(builder, place(context, builder, kinds[0], args[0], args[1], MASKED), vector(I8, MASKED))
        store(builder, value, place(context, builder, kinds[2], args[2], args[3], MASKED))
        return builder.bitcast(builder.icmp_unsigned("==", value, splat(I8, 255, MASKED)), I32)

    return types.uint32(source, types.uintp, out, types.uintp), generate


@intrinsic
def mask_of(typing_context, source, i):
    """A bit for each of the bytes ``source[i:i + 32]`` that is 0xFF."""

    def generate(context, builder, signature, args):
        value = load(builder, place(context, builder, signature.args[0], args[0], args[1], MASKED), vector(I8, MASKED))
        return builder.bitcast(builder.icmp_unsigned("==", value, splat(I8, 255, MASKED)), I32)

    return types.uint32(source, types.uintp), generate


@intrinsic
def trailing_zeros(typing_context, x):
    """Zeros below the lowest bit that is set."""

    def generate(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint32(types.uint32), generate


@intrinsic
def count_bits(typing_context, x):
    """Bits that are set."""

    def generate(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint32(types.uint32), generate


@intrinsic
def unlikely(typing_context, x):
    """Hint: mostly false."""

    def generate(context, builder, signature, args):
        bit = ir.IntType(1)
        expect = builder.module.declare_intrinsic("llvm.expect", [bit], ir.FunctionType(bit, [bit, bit]))
        return builder.call(expect, [args[0], ir.Constant(bit, 0)])

    return types.boolean(types.boolean), generate


def _make_fill(side):
    @intrinsic
    def fill(typing_context, out, at, stride, value):
        """A block of one value."""

        def generate(context, builder, signature, args):
            kinds = signature.args
            row = spread(builder, builder.trunc(args[3], I8), side)
            for y in range(side):
                at = builder.add(args[1], builder.mul(args[2], ir.Constant(args[2].type, y)))
                store(builder, row, place(context, builder, kinds[0], args[0], at, side))
            return context.get_dummy_value()

        return types.none(out, types.uintp, types.uintp, types.int64), generate

    return fill


fill8, fill4, fill2 = _make_fill(8), _make_fill(4), _make_fill(2)
