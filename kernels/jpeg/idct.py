"""The inverse DCT of libjpeg ("islow") as vector code: one block, lanes are columns; bit for bit libjpeg-turbo's.

Also its reduced forms, which give a block at a half, a quarter or an eighth of its size.

References: C. Loeffler, A. Ligtenberg and G. Moschytz, "Practical fast 1-D DCT algorithms with 11 multiplications",
ICASSP 1989, as in libjpeg's jidctint.c; jidctred.c. Products are of 16-bit numbers only, which processors have
instructions for, so terms are regrouped as libjpeg-turbo's vector code has them; so is where sums wrap and where
results saturate.
"""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

from ..cpu.intrinsics import shuffle
from ..lang import cgutils, intrinsic, ir, types
from .vectors import I8, I16, I32, load, place, splat, store, vector

SCALE_BITS: Final = 13
FIRST: Final = 11  # bits that the pass over columns of eight drops
SECOND: Final = 18  # and the one over rows
# The same, by the side of the result: libjpeg's reduced forms have other factors, and so other numbers of bits.
_DROPPED = {8: (FIRST, SECOND), 4: (12, 19), 2: (13, 20)}
# Rows and columns of coefficients that reach the result, by its side.
_USED = {8: range(8), 4: (0, 1, 2, 3, 5, 6, 7), 2: (0, 1, 3, 5, 7)}
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
    """32-bit lanes, or zeros (``value`` None): terms that are known to be zero are left out of the code."""

    builder: ir.IRBuilder
    value: ir.Value | None

    def __add__(self, other):
        if self.value is None or other.value is None:
            return self if other.value is None else other
        return _Lanes(self.builder, self.builder.add(self.value, other.value))

    def __sub__(self, other):
        if other.value is None:
            return self
        value = _like(other.value, 0) if self.value is None else self.value
        return _Lanes(self.builder, self.builder.sub(value, other.value))

    def times(self, factor):
        """The product with a number of 16 bits."""
        if self.value is None:
            return self
        return _Lanes(self.builder, self.builder.mul(self.value, _like(self.value, factor)))

    def scaled(self, more=0):
        """With as many fraction bits as products have, or more."""
        if self.value is None:
            return self
        return _Lanes(self.builder, self.builder.shl(self.value, _like(self.value, SCALE_BITS + more)))

    def wrapped(self, combine, other):
        """Sum or difference in 16 bits."""
        if other.value is None:
            return self
        one = splat(I16, 0, 8) if self.value is None else self.builder.trunc(self.value, _ROW)
        both = combine(one, self.builder.trunc(other.value, _ROW))
        return _Lanes(self.builder, self.builder.sext(both, _WIDE))

    def rounded(self, bits):
        """Without the lowest bits, rounded."""
        value = self.builder.add(self.value, _like(self.value, 1 << bits - 1))
        return _Lanes(self.builder, self.builder.ashr(value, _like(self.value, bits)))


def _like(value, number):
    """A number in as many lanes."""
    return splat(I32, number, value.type.count)


def _pass8(builder, v, bits):
    """The one-dimensional transform of eight vectors."""

    def sum_of(one, other, factors):
        return one.times(factors[0]) + other.times(factors[1])

    even2, even3 = sum_of(v[2], v[6], EVEN2), sum_of(v[2], v[6], EVEN3)
    # Sums of two coefficients wrap at 16 bits, as in libjpeg-turbo's vectors: coefficients of any size come out alike.
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


def _pass4(builder, v, bits):
    """The same to four vectors: the frequencies that they can hold, and a part of those above."""
    even0 = v[0].scaled(1)
    even2 = v[2].times(_fixed(1.847759065)) + v[6].times(-_fixed(0.765366865))
    far = v[7].times(-_fixed(0.211164243)) + v[5].times(_fixed(1.451774981))
    far = far + v[3].times(-_fixed(2.172734803)) + v[1].times(_fixed(1.061594337))
    near = v[7].times(-_fixed(0.509795579)) + v[5].times(-_fixed(0.601344887))
    near = near + v[3].times(_fixed(0.899976223)) + v[1].times(_fixed(2.562915447))
    one, other = even0 + even2, even0 - even2
    return [part.rounded(bits) for part in (one + near, other + far, other - far, one - near)]


_ODD2 = {1: 3.624509785, 3: -1.272758580, 5: 0.850430095, 7: -0.720959822}


def _pass2(builder, v, bits):
    """The same to two vectors."""
    even = v[0].scaled(2)
    odd = _Lanes(builder, None)
    for k, factor in _ODD2.items():
        odd = odd + v[k].times(_signed(factor))
    return [part.rounded(bits) for part in (even + odd, even - odd)]


def _signed(x: float) -> int:
    return _fixed(x) if x > 0 else -_fixed(-x)


def _saturated(builder, value, low, high, kind):
    """Lanes limited to a range and narrowed."""
    n = value.type.count
    least, most = splat(I32, low, n), splat(I32, high, n)
    value = builder.select(builder.icmp_signed("<", value, least), least, value)
    value = builder.select(builder.icmp_signed(">", value, most), most, value)
    return builder.trunc(value, vector(kind, n))


def _words(builder, lanes):
    """As 16 bits, between the passes."""
    return _saturated(builder, lanes.value, -32768, 32767, I16)


def _pixels(builder, lanes):
    """As bytes from 0 on."""
    value = _saturated(builder, lanes.value, -128, 127, I8)
    return builder.xor(value, splat(I8, -128, value.type.count))


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


def _transform8(builder, v, known):
    """Dequantised rows to rows of bytes; only ``known`` rows and columns hold anything."""
    first, second = _DROPPED[8]
    rows = [_words(builder, one) for one in _pass8(builder, v, first)]
    columns = [_wide(builder, row) for row in _transposed(builder, rows)[:known]] + v[known:]
    return _rows_of_bytes(builder, [_pixels(builder, one) for one in _pass8(builder, columns, second)])


def _transform4(builder, v, known):
    """The same to four rows of four bytes."""
    first, second = _DROPPED[4]
    rows = [_words(builder, one) for one in _pass4(builder, v, first)]
    pairs = [half for k in range(2) for half in _interleaved(builder, rows[k], rows[k + 2])]
    quads = [half for k in range(2) for half in _interleaved(builder, pairs[k], pairs[k + 2])]
    columns = [_Lanes(builder, None)] * 8
    for k in _USED[4]:
        if k < known:
            start = 4 * (k % 2)
            columns[k] = _wide(builder, shuffle(builder, quads[k // 2], quads[k // 2], range(start, start + 4)))
    v = [_pixels(builder, one) for one in _pass4(builder, columns, second)]
    a = [half for k in range(2) for half in _interleaved(builder, v[k], v[k + 2])]
    return [half for k in range(2) for half in _interleaved(builder, a[k], a[k + 2])]


def _transform2(builder, v, known):
    """The same to two rows of two bytes.

    Between the passes libjpeg-turbo keeps all bits of the first column.
    """
    first, second = _DROPPED[2]
    one, other = _pass2(builder, v, first)
    even = _Lanes(builder, shuffle(builder, one.value, other.value, (0, 8))).scaled(2)
    lanes = [n + k for n in (0, 8) for k in _ODD2]
    odd = builder.sext(shuffle(builder, _words(builder, one), _words(builder, other), lanes), _WIDE)
    odd = builder.mul(odd, ir.Constant(_WIDE, [_signed(factor) for factor in _ODD2.values()] * 2))
    for evens in ((0, 2, 4, 6), (0, 2)):  # the sums of lanes and of their neighbors
        odd = builder.add(shuffle(builder, odd, odd, evens), shuffle(builder, odd, odd, [k + 1 for k in evens]))
    odd = _Lanes(builder, odd)
    both = shuffle(builder, (even + odd).value, (even - odd).value, (0, 2, 1, 3))
    pixels = _pixels(builder, _Lanes(builder, both).rounded(second))
    return [shuffle(builder, pixels, pixels, (k, k + 1)) for k in (0, 2)]


def _wide(builder, row):
    """16-bit lanes as 32-bit ones."""
    return _Lanes(builder, builder.sext(row, vector(I32, row.type.count)))


def _first_wrapped(builder, first, others):
    """The first row, from which the pass over columns makes what libjpeg-turbo has where no other row holds anything.

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


def _make(transformed, side, known):
    used = [k for k in _USED[side] if k < known]

    @intrinsic
    def transform(typing_context, coefficients, at, quant, q, out, o, stride):
        """One block to bytes, as many rows as columns; the block is zero afterwards."""

        def generate(context, builder, signature, args):
            kinds = signature.args
            block = place(context, builder, kinds[0], args[0], args[1], 64)
            steps = place(context, builder, kinds[2], args[2], args[3], 64)

            def row_at(start, k):
                return builder.gep(start, [ir.IntType(64)(8 * k)])

            rows = {
                k: builder.mul(load(builder, row_at(block, k), _ROW), load(builder, row_at(steps, k), _ROW))
                for k in used
            }
            if side != 2:
                rows[0] = _first_wrapped(builder, rows[0], [row_at(block, k) for k in used[1:]])
            for k in range(known):
                store(builder, splat(I16, 0, 8), row_at(block, k))
            v = [_wide(builder, rows[k]) if k in rows else _Lanes(builder, None) for k in range(8)]
            for y, row in enumerate(transformed(builder, v, known)):
                start = builder.add(args[5], builder.mul(args[6], ir.Constant(args[6].type, y)))
                store(builder, row, place(context, builder, kinds[4], args[4], start, side))
            return context.get_dummy_value()

        return types.none(coefficients, types.uintp, quant, types.uintp, out, types.uintp, types.uintp), generate

    return transform


#: Of any block, and of blocks whose coefficients are in the upper left corner of 4 x 4 or 2 x 2.
transform8, transform4, transform2 = (_make(_transform8, 8, known) for known in (8, 4, 2))
#: The same at a half of the size, and at a quarter.
half8, half4, half2 = (_make(_transform4, 4, known) for known in (8, 4, 2))
quarter8 = _make(_transform2, 2, 8)
