"""Bits and vectors of recoded JPEGs: masks of blocks and bit planes, to coefficients and back."""

import numpy as np

from ..cpu.intrinsics import I8, I16, I32, I64, Memory, emitted, load, shuffle, splat, spread, store, vector
from ..cpu.products import joined
from ..lang import cgutils, intrinsic, ir, types
from .vectors import trailing_zeros

u64, i64, up = np.uint64, np.int64, np.uintp
I1 = ir.IntType(1)


@emitted(types.uint64, None, types.uintp)
def load64(builder, array, index):
    """Eight bytes as a little-endian uint64."""
    return load(builder, array.at(index, 8), I64)


@emitted(types.none, None, types.uintp)
def transpose_bytes(builder, words, at):
    """Exchange rows and columns of 8 x 8 bytes, eight words from ``at`` on."""
    address = words.at(at, 8)
    value = load(builder, address, vector(I8, 64))
    store(builder, shuffle(builder, value, value, [8 * (k % 8) + k // 8 for k in range(64)]), address)


def _features(context):
    return context.codegen()._tm_features.split(",")


def _can_expand(context):
    return {"+avx512vbmi2", "+avx2"} & set(_features(context))


def _expand(builder, values, at, mask):
    """Emit the next of some values in the lanes of a mask, zeros in the others: two vectors of 32; and the next place.

    31 values more than the mask has are read.
    """
    wide = "+avx512vbmi2" in _features(values.context)
    n = 32 if wide else 8
    parts = []
    for first in range(0, 64, n):
        bits = builder.trunc(builder.lshr(mask, I64(first)), ir.IntType(n))
        some = load(builder, values.at(at, n), vector(I16, n))
        parts.append((_expand_instruction if wide else _spread)(builder, bits, some))
        at = builder.add(at, builder.zext(builder.ctpop(bits), I64))
    return (parts if wide else [joined(builder, parts[:4]), joined(builder, parts[4:])]), at


def _expand_instruction(builder, bits, some):
    kind = some.type
    lanes = builder.bitcast(bits, vector(I1, kind.count))
    signature = ir.FunctionType(kind, [kind, kind, lanes.type])
    name = f"llvm.x86.avx512.mask.expand.v{kind.count}i16"
    function = builder.module.declare_intrinsic(name, (), signature)
    return builder.call(function, [some, splat(I16, 0, kind.count), lanes])


def _spread(builder, bits, some):
    """Emit the same for 8 lanes, by a shuffle of bytes that a table has for each mask."""
    lanes = vector(I8, 16)
    table = ir.Constant(ir.ArrayType(I8, 256 * 16), bytearray(_spread_table()))
    start = cgutils.global_constant(builder, "gpuimg_spread", table)
    index = builder.mul(builder.zext(bits, I64), I64(16))
    order = load(builder, builder.gep(start, [I64(0), index]), lanes)
    function = builder.module.declare_intrinsic(
        "llvm.x86.ssse3.pshuf.b.128", (), ir.FunctionType(lanes, [lanes, lanes])
    )
    return builder.bitcast(builder.call(function, [builder.bitcast(some, lanes), order]), some.type)


def _spread_table():
    """Return the places of bytes for each mask of 8 numbers of 16 bits; 128 stands for a zero."""
    table = np.full((256, 8, 2), 128, np.uint8)
    for mask in range(256):
        lanes = [k for k in range(8) if mask >> k & 1]
        for k, lane in enumerate(lanes):
            table[mask, lane] = 2 * k, 2 * k + 1
    return table.tobytes()


def put_block_by_bits(mask, dc, values, at, out, to):
    """Do what :func:`put_block` does on any processor."""
    for k in range(64):
        out[to + up(k)] = 0
    out[to] = dc
    while mask != u64(0):
        out[to + up(trailing_zeros(mask))] = values[at]
        at += up(1)
        mask &= mask - u64(1)
    return at


@intrinsic
def put_block(typing_context, mask, dc, values, at, out, to):
    """Write a block's 64 coefficients: ``dc``, values in the places of a mask, and zeros; return the next value."""

    def generate(context, builder, signature, args):
        if not _can_expand(context):
            return context.compile_internal(builder, put_block_by_bits, signature, args)
        mask, dc, values, at, out, to = args
        values, out = (Memory(context, builder, signature.args[k], args[k]) for k in (2, 4))
        halves, at = _expand(builder, values, at, mask)
        # In the register: a store of its own would keep the next load waiting.
        halves[0] = builder.insert_element(halves[0], builder.trunc(dc, I16), I32(0))
        for half, row in enumerate(halves):
            store(builder, row, out.at(builder.add(to, I64(32 * half)), 32))
        return at

    return types.uintp(types.uint64, types.int64, values, types.uintp, out, types.uintp), generate


def _add_upper_by_bits(mask, signs, upper, at, out, to):
    """Add to values of a mask the upper bits of their magnitudes."""
    while mask != u64(0):
        k = trailing_zeros(mask)
        more = i64(upper[at]) << 3
        out[to + up(k)] += -more if (signs >> k) & u64(1) else more
        at += up(1)
        mask &= mask - u64(1)
    return at


@intrinsic
def put_values(typing_context, larger, low, signs, upper, at, out, to):
    """Write 64 values to ``out``; return the place after the last upper bits that they use.

    ``larger`` are three uint64: where magnitudes have more than 1, 2 and 3 bits. ``low`` are bits 0 to 2 of magnitudes
    with more bits than that, and all bits of those with more than 3. ``signs`` are 1 for negative values. ``upper`` are
    magnitudes of more than 3 bits without the lowest 3, from ``at`` on.
    """

    def generate(context, builder, signature, args):
        kinds = signature.args
        two, three, four = (builder.extract_value(args[0], k) for k in range(3))
        signs, upper, at, out, to = args[2:]

        def lanes(bits):
            return builder.bitcast(bits, vector(I1, bits.type.width))

        v = splat(I8, 1, 64)
        for bits, number in ((two, 2), (three, 4), (four, 0)):
            v = builder.select(lanes(bits), splat(I8, number, 64), v)
        for k in range(3):
            v = builder.select(lanes(builder.extract_value(args[1], k)), builder.or_(v, splat(I8, 1 << k, 64)), v)
        expands = _can_expand(context)
        if expands:
            uppers, after = _expand(builder, Memory(context, builder, kinds[3], upper), at, four)
        for half in (0, 1):
            sign = builder.trunc(builder.lshr(signs, I64(32 * half)), I32)
            w = builder.zext(shuffle(builder, v, v, range(32 * half, 32 * half + 32)), vector(I16, 32))
            if expands:
                w = builder.or_(w, builder.shl(uppers[half], splat(I16, 3, 32)))
            w = builder.select(lanes(sign), builder.sub(splat(I16, 0, 32), w), w)
            store(builder, w, Memory(context, builder, kinds[5], out).at(builder.add(to, I64(32 * half)), 32))
        if expands:
            return after
        inner = types.uintp(types.uint64, types.uint64, kinds[3], types.uintp, kinds[5], types.uintp)
        return context.compile_internal(builder, _add_upper_by_bits, inner, [four, signs, upper, at, out, to])

    three = types.UniTuple(types.uint64, 3)
    return types.uintp(three, three, types.uint64, upper, types.uintp, out, types.uintp), generate


@emitted(types.none, types.uint64, None, types.uintp)
def store64(builder, value, array, index):
    """Store eight bytes, little-endian."""
    store(builder, value, array.at(index, 8))


@emitted(types.uint64, None, types.uintp, types.int64)
def bits_set(builder, values, at, mask):
    """A bit for each of 64 values: 1 where it has a bit of a mask."""
    value = load(builder, values.at(at, 64), vector(I16, 64))
    found = builder.and_(value, spread(builder, builder.trunc(mask, I16), 64))
    return builder.bitcast(builder.icmp_unsigned("!=", found, splat(I16, 0, 64)), I64)
