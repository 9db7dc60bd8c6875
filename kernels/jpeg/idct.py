"""The inverse DCT of libjpeg ("islow") as vector code: one block, lanes are columns; bit for bit libjpeg-turbo's.

References: C. Loeffler, A. Ligtenberg and G. Moschytz, "Practical fast 1-D DCT algorithms with 11 multiplications",
ICASSP 1989, as in libjpeg's jidctint.c. Products are of 16-bit numbers only, which processors have instructions for, so
terms are regrouped as libjpeg-turbo's vector code has them; so is where sums wrap and where results saturate.
"""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..cpu.intrinsics import shuffle
from .vectors import I8, I16, I32, load, place, splat, store, vector

SCALE_BITS: Final = 13
FIRST: Final = 11  # bits that the pass over columns drops
SECOND: Final = 18  # and the one over rows
_ROW = vector(I16, 8)
_WIDE = vector(I32, 8)


def _fixed(x: float) -> int:
    return int(x * (1 << SCALE_BITS) + 0.5)


# Factors of the transform, in the order in which it names its terms.
_HALF, _K1, _K2, _K5 = _fixed(0.541196100), -_fixed(0.899976223), -_fixed(2.562915447), _fixed(1.175875602)
EVEN2: Final = (_HALF, _HALF - _fixed(1.847759065))
EVEN3: Final = (_HALF + _fixed(0.765366865), _HALF)
SUM3: Final = (_K5 - _fixed(1.961570560), _K5)
SUM4: Final = (_K5, _K5 - _fixed(0.390180644))
ODD0: Final = (_K1, _fixed(1.501321110) + _K1)
ODD1: Final = (_K2, _fixed(3.072711026) + _K2)
ODD2: Final = (_fixed(2.053119869) + _K2, _K2)
ODD3: Final = (_fixed(0.298631336) + _K1, _K1)


class _Lanes(NamedTuple):
    """Eight 32-bit lanes, or zeros (``value`` None): terms that are known to be zero are left out of the code."""

    builder: ir.IRBuilder
    value: ir.Value | None

    def __add__(self, other):
        if self.value is None or other.value is None:
            return self if other.value is None else other
        return _Lanes(self.builder, self.builder.add(self.value, other.value))

    def __sub__(self, other):
        if other.value is None:
            return self
        value = splat(I32, 0, 8) if self.value is None else self.value
        return _Lanes(self.builder, self.builder.sub(value, other.value))

    def times(self, factor):
        """The product with a number of 16 bits."""
        if self.value is None:
            return self
        return _Lanes(self.builder, self.builder.mul(self.value, splat(I32, factor, 8)))

    def scaled(self):
        """With as many bits behind the point as products have."""
        if self.value is None:
            return self
        return _Lanes(self.builder, self.builder.shl(self.value, splat(I32, SCALE_BITS, 8)))

    def wrapped(self, combine, other):
        """Sum or difference in 16 bits."""
        if other.value is None:
            return self
        one = splat(I16, 0, 8) if self.value is None else self.builder.trunc(self.value, _ROW)
        both = combine(one, self.builder.trunc(other.value, _ROW))
        return _Lanes(self.builder, self.builder.sext(both, _WIDE))

    def rounded(self, bits):
        """Without so many bits."""
        value = self.builder.add(self.value, splat(I32, 1 << bits - 1, 8))
        return _Lanes(self.builder, self.builder.ashr(value, splat(I32, bits, 8)))


def _pass(builder, v, bits):
    """The one-dimensional transform of eight vectors."""

    def sum_of(one, other, factors):
        return one.times(factors[0]) + other.times(factors[1])

    even2, even3 = sum_of(v[2], v[6], EVEN2), sum_of(v[2], v[6], EVEN3)
    even0 = v[0].wrapped(builder.add, v[4]).scaled()
    even1 = v[0].wrapped(builder.sub, v[4]).scaled()
    sums = even0 + even3, even1 + even2, even1 - even2, even0 - even3

    a, b, c, d = v[7], v[5], v[3], v[1]
    z3, z4 = a.wrapped(builder.add, c), b.wrapped(builder.add, d)
    z3, z4 = sum_of(z3, z4, SUM3), sum_of(z3, z4, SUM4)
    odds = sum_of(a, d, ODD0) + z4, sum_of(b, c, ODD1) + z3, sum_of(b, c, ODD2) + z4, sum_of(a, d, ODD3) + z3
    first = [(even + odd).rounded(bits) for even, odd in zip(sums, odds, strict=True)]
    last = [(even - odd).rounded(bits) for even, odd in zip(sums, odds, strict=True)]
    return first + last[::-1]


def _saturated(builder, value, low, high, kind):
    """Lanes limited to a range and narrowed."""
    least, most = splat(I32, low, 8), splat(I32, high, 8)
    value = builder.select(builder.icmp_signed("<", value, least), least, value)
    value = builder.select(builder.icmp_signed(">", value, most), most, value)
    return builder.trunc(value, vector(kind, 8))


def _interleaved(builder, one, other):
    """Low and high halves of two vectors, their lanes in turn."""
    n = one.type.count
    return [
        shuffle(builder, one, other, [lane for k in range(start, start + n // 2) for lane in (k, n + k)])
        for start in (0, n // 2)
    ]


def _transposed(builder, v):
    """Eight vectors of eight lanes, rows as columns."""
    for _ in range(3):
        v = [half for k in range(4) for half in _interleaved(builder, v[k], v[k + 4])]
    return v


def _rows_of_bytes(builder, v):
    """Eight vectors of eight bytes, columns as rows: as above, two rows a vector."""
    a = [shuffle(builder, v[k], v[k + 4], [lane for j in range(8) for lane in (j, 8 + j)]) for k in range(4)]
    for _ in range(2):
        a = [half for k in range(2) for half in _interleaved(builder, a[k], a[k + 2])]
    return [shuffle(builder, two, two, range(k, k + 8)) for two in a for k in (0, 8)]


def _transform(builder, rows, known):
    """Dequantised rows to rows of bytes; only ``known`` rows and columns hold anything."""
    zeros = [_Lanes(builder, None)] * (8 - known)
    v = [_Lanes(builder, builder.sext(row, _WIDE)) for row in rows]
    v = [_saturated(builder, one.value, -32768, 32767, I16) for one in _pass(builder, v + zeros, FIRST)]
    v = [_Lanes(builder, builder.sext(row, _WIDE)) for row in _transposed(builder, v)[:known]]
    half = splat(I8, -128, 8)
    v = [_saturated(builder, one.value, -128, 127, I8) for one in _pass(builder, v + zeros, SECOND)]
    return [builder.xor(row, half) for row in _rows_of_bytes(builder, v)]


def _first_wrapped(builder, first, others):
    """The first row, from which the pass over columns gives what libjpeg-turbo has where no other row holds anything.

    It then multiplies by four in 16 bits, which wrap; the whole transform saturates. Only absurd coefficients differ.
    ``others`` are the addresses of the other rows' coefficients.
    """
    two = splat(I16, 2, 8)
    wrapped = builder.ashr(builder.shl(first, two), two)
    result = cgutils.alloca_once_value(builder, first)
    with cgutils.if_unlikely(builder, _any(builder, builder.xor(first, wrapped))):
        # Loaded again: kept, they would take the registers of what is always done.
        builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)
        rows = [load(builder, address, _ROW) for address in others]
        alone = builder.not_(_any(builder, functools.reduce(builder.or_, rows)))
        builder.store(builder.select(alone, wrapped, first), result)
    return builder.load(result)


def _any(builder, row):
    """Whether a row holds anything."""
    return builder.icmp_unsigned("!=", builder.bitcast(row, ir.IntType(128)), ir.Constant(ir.IntType(128), 0))


def _make(known):
    @intrinsic
    def transform(typing_context, coefficients, at, quant, q, out, o, stride):
        """One block to 8 x 8 bytes; the block is zero afterwards."""

        def generate(context, builder, signature, args):
            kinds = signature.args
            block = place(context, builder, kinds[0], args[0], args[1], 64)
            steps = place(context, builder, kinds[2], args[2], args[3], 64)

            def row_at(start, k):
                return builder.gep(start, [ir.IntType(64)(8 * k)])

            rows = [
                builder.mul(load(builder, row_at(block, k), _ROW), load(builder, row_at(steps, k), _ROW))
                for k in range(known)
            ]
            rows[0] = _first_wrapped(builder, rows[0], [row_at(block, k) for k in range(1, known)])
            for k in range(known):
                store(builder, splat(I16, 0, 8), row_at(block, k))
            for y, row in enumerate(_transform(builder, rows, known)):
                start = builder.add(args[5], builder.mul(args[6], ir.Constant(args[6].type, y)))
                store(builder, row, place(context, builder, kinds[4], args[4], start, 8))
            return context.get_dummy_value()

        return types.none(coefficients, types.uintp, quant, types.uintp, out, types.uintp, types.uintp), generate

    return transform


#: Of any block, and of blocks whose coefficients are in the upper left corner of 4 x 4 or 2 x 2.
transform8, transform4, transform2 = _make(8), _make(4), _make(2)
