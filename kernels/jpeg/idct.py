"""The inverse DCT of libjpeg ("islow") as vector code, one or two blocks at a time, bit for bit that of libjpeg-turbo.

A vector holds a row of each block, so that its lanes are columns. A first pass transforms the columns, the block is
transposed, and a second pass transforms the rows. Also the reduced forms, which return a block at half or quarter size;
at an eighth a pixel is the DC coefficient alone.

References: C. Loeffler, A. Ligtenberg and G. Moschytz, "Practical fast 1-D DCT algorithms with 11 multiplications",
ICASSP 1989, as in libjpeg's jidctint.c; jidctred.c. Processors multiply and add pairs of 16-bit numbers in one
instruction, so libjpeg-turbo regroups the terms into such products; its sums that wrap at 16 bits, and its results that
saturate, are the same here.
"""

import functools
from typing import Any, Final, NamedTuple

from ..cpu.intrinsics import I8, I16, I32, emitted, load, shuffle, splat, store, vector
from ..cpu.products import interleaved, joined, saturated, shorts_of, sums_of_pairs, transposed
from ..lang import cgutils, ir, types

SCALE_BITS: Final = 13  # fraction bits of the factors
FIRST: Final = 11  # bits dropped after the first pass: SCALE_BITS, less 2 that are kept for the second
SECOND: Final = 18  # bits dropped after the second pass: SCALE_BITS, the 2, and 3 for the transform's scale of 8
# The same by the side of the result: sums of the reduced forms have one and two fraction bits more, for exact factors.
DROPPED: Final = {8: (FIRST, SECOND), 4: (12, 19), 2: (13, 20)}
# Rows and columns of coefficients that contribute to the result, by its side.
_USED = {8: range(8), 4: (0, 1, 2, 3, 5, 6, 7), 2: (0, 1, 3, 5, 7)}
_ROW = vector(I16, 8)
_WIDE = vector(I32, 8)


def _fixed(x: float) -> int:
    return int(x * (1 << SCALE_BITS) + 0.5)


# Pairs of factors of the pairs of terms in _pass8. Sums of two of libjpeg's factors are one here: each product then
# has a coefficient, or a sum of two, as its other operand, which 16 bits hold.
_HALF, _K1, _K2, _K5 = _fixed(0.541196100), -_fixed(0.899976223), -_fixed(2.562915447), _fixed(1.175875602)
EVEN2: Final = (_HALF, _HALF - _fixed(1.847759065))
EVEN3: Final = (_HALF + _fixed(0.765366865), _HALF)
SUM3: Final = (_K5 - _fixed(1.961570560), _K5)
SUM4: Final = (_K5, _K5 - _fixed(0.390180644))
ODD0: Final = (_K1, _fixed(1.501321110) + _K1)
ODD1: Final = (_K2, _fixed(3.072711026) + _K2)
ODD2: Final = (_fixed(2.053119869) + _K2, _K2)
ODD3: Final = (_fixed(0.298631336) + _K1, _K1)
# Of the pairs of terms in _pass4: coefficients 2 and 6, then 7 and 5, and 3 and 1, for the positions at the block's
# ends and in its middle.
HALF_EVEN: Final = (_fixed(1.847759065), -_fixed(0.765366865))
HALF_ENDS: Final = (
    (-_fixed(0.509795579), -_fixed(0.601344887)), (_fixed(0.899976223), _fixed(2.562915447)),
)  # fmt: skip
HALF_MIDDLE: Final = (
    (-_fixed(0.211164243), _fixed(1.451774981)), (-_fixed(2.172734803), _fixed(1.061594337)),
)  # fmt: skip
# Of the odd frequencies where four positions are averaged; the even ones vanish except for 0.
QUARTER: Final = {1: _fixed(3.624509785), 3: -_fixed(1.272758580), 5: _fixed(0.850430095), 7: -_fixed(0.720959822)}


class _Lanes(NamedTuple):
    """A vector of 32-bit lanes, or zeros (``value`` None): no code is emitted for terms that are known to be zero."""

    builder: ir.IRBuilder
    value: "ir.Value | None"

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
        """Return the product with a number of 16 bits."""
        if self.value is None:
            return self
        return _Lanes(self.builder, self.builder.mul(self.value, _like(self.value, factor)))

    def sum_with(self, other, factors):
        """Return the sum of its product with a factor, and of another's with a second."""
        return self.times(factors[0]) + other.times(factors[1])

    def scaled(self, more=0):
        """Return the lanes shifted to the fraction bits that products have, and ``more``."""
        if self.value is None:
            return self
        return _Lanes(self.builder, self.builder.shl(self.value, _like(self.value, SCALE_BITS + more)))

    def wrapped(self, combine, other):
        """Return the sum or difference, wrapped at 16 bits."""
        if other.value is None:
            return self
        row = vector(I16, other.value.type.count)
        one = splat(I16, 0, row.count) if self.value is None else self.builder.trunc(self.value, row)
        both = combine(one, self.builder.trunc(other.value, row))
        return _wide(self.builder, both)

    def rounded(self, bits):
        """Return the lanes shifted right by ``bits``, rounded to the nearest, halves up."""
        value = self.builder.add(self.value, _like(self.value, 1 << bits - 1))
        return _Lanes(self.builder, self.builder.ashr(value, _like(self.value, bits)))

    def shorts(self):
        """Return the lanes saturated to 16 bits, as they are kept between the passes."""
        return saturated(self.builder, self.value, I16, -32768, 32767)

    def pixels(self):
        """Return the lanes saturated to signed bytes."""
        return saturated(self.builder, self.value, I8, -128, 127)

    def of(self, row):
        """Return 16-bit lanes widened to 32 bits."""
        return _wide(self.builder, row)


class Shorts(NamedTuple):
    """A vector of 16-bit lanes, of which pairs are multiplied as they are.

    No vector is longer than this one. :class:`_Lanes` widens the lanes first, which is faster for one block; for two,
    its vectors have 512 bits, for which many processors have fewer units.
    """

    context: Any
    builder: ir.IRBuilder
    value: ir.Value

    def wrapped(self, combine, other):
        """Return the sum or difference, wrapped at 16 bits."""
        return self.of(combine(self.value, other.value))

    def sum_with(self, other, factors):
        """Return the sum of its products with a factor, and of another's with a second."""
        pairs = interleaved(self.builder, self.value, other.value, 8)
        factors = ir.Constant(self.value.type, [*factors] * (self.value.type.count // 2))
        return _Halves(
            self.context, self.builder, [sums_of_pairs(self.context, self.builder, one, factors) for one in pairs]
        )

    def scaled(self):
        """Return the lanes shifted to the fraction bits that products have."""
        n = self.value.type.count // 2
        pairs = interleaved(self.builder, splat(I16, 0, 2 * n), self.value, 8)  # in upper halves: times 2**16
        wide = [self.builder.bitcast(one, vector(I32, n)) for one in pairs]
        return _Halves(
            self.context, self.builder, [self.builder.ashr(one, splat(I32, 16 - SCALE_BITS, n)) for one in wide]
        )

    def of(self, row):
        """Return other lanes."""
        return self._replace(value=row)


class _Halves(NamedTuple):
    """Lanes of 32 bits of :class:`Shorts`: the first four of each eight, and the others."""

    context: Any
    builder: ir.IRBuilder
    values: list[ir.Value]

    def _with(self, combine, others):
        return self._replace(values=[combine(*pair) for pair in zip(self.values, others, strict=True)])

    def __add__(self, other):
        return self._with(self.builder.add, other.values)

    def __sub__(self, other):
        return self._with(self.builder.sub, other.values)

    def rounded(self, bits):
        """Return the lanes shifted right by ``bits``, rounded to the nearest, halves up."""
        half, shift = (_like(self.values[0], number) for number in (1 << bits - 1, bits))
        return self._with(self.builder.add, [half] * 2)._with(self.builder.ashr, [shift] * 2)

    def shorts(self):
        """Return the lanes saturated to 16 bits."""
        return shorts_of(self.context, self.builder, *self.values)

    def pixels(self):
        """Return the lanes saturated to signed bytes."""
        return saturated(self.builder, self.shorts(), I8, -128, 127)


def _like(value, number):
    """Return a vector with a number in as many lanes as ``value`` has."""
    return splat(I32, number, value.type.count)


def odd_part(builder, a, b, c, d):
    """Return the odd part of either transform: of coefficients 7, 5, 3 and 1, or of the differences of samples.

    They are :class:`_Lanes` or :class:`Shorts`.
    """
    z3, z4 = a.wrapped(builder.add, c), b.wrapped(builder.add, d)
    z3, z4 = z3.sum_with(z4, SUM3), z3.sum_with(z4, SUM4)
    return a.sum_with(d, ODD0) + z4, b.sum_with(c, ODD1) + z3, b.sum_with(c, ODD2) + z4, a.sum_with(d, ODD3) + z3


def _pass8(builder, v, bits):
    """Transform eight vectors, one for each frequency, to eight, one for each position."""
    even2, even3 = v[2].sum_with(v[6], EVEN2), v[2].sum_with(v[6], EVEN3)
    # Sums of two coefficients wrap at 16 bits, as in libjpeg-turbo's vectors, so that absurd coefficients of damaged
    # files yield the same pixels, too.
    even0 = v[0].wrapped(builder.add, v[4]).scaled()
    even1 = v[0].wrapped(builder.sub, v[4]).scaled()
    sums = even0 + even3, even1 + even2, even1 - even2, even0 - even3

    odds = odd_part(builder, v[7], v[5], v[3], v[1])
    # The cosines are symmetric about the middle: positions k and 7 - k differ in the sign of the odd part only.
    first = [(even + odd).rounded(bits) for even, odd in zip(sums, odds, strict=True)]
    last = [(even - odd).rounded(bits) for even, odd in zip(sums, odds, strict=True)]
    return first + last[::-1]


def _pass4(builder, v, bits):
    """Transform eight vectors to four: jidctred.c averages pairs of positions, which weakens higher frequencies."""
    # Frequency 4 vanishes in the averages.
    even0 = v[0].scaled(1)
    even2 = v[2].sum_with(v[6], HALF_EVEN)
    middle, ends = (
        v[7].sum_with(v[5], factors[0]) + v[3].sum_with(v[1], factors[1]) for factors in (HALF_MIDDLE, HALF_ENDS)
    )
    one, other = even0 + even2, even0 - even2
    return [part.rounded(bits) for part in (one + ends, other + middle, other - middle, one - ends)]


def _pass2(builder, v, bits):
    """Transform eight vectors to two."""
    even = v[0].scaled(2)
    odd = _Lanes(builder, None)
    for k, factor in QUARTER.items():
        odd = odd + v[k].times(factor)
    return [part.rounded(bits) for part in (even + odd, even - odd)]


def _to_pixels(builder, lanes):
    """Return the lanes as bytes, level-shifted by 128."""
    value = lanes.pixels()
    # Flipping the sign bit adds 128 to a signed byte, and makes it unsigned.
    return builder.xor(value, splat(I8, -128, value.type.count))


def _rows_of_bytes(builder, v):
    """Transpose eight vectors of eight bytes, as :func:`transposed`, but with two rows in a vector."""
    n = v[0].type.count
    a = [shuffle(builder, v[k], v[k + 4], [lane for j in range(n) for lane in (j, n + j)]) for k in range(4)]
    a = transposed(builder, a, 16, 2)
    starts = range(0, 2 * n, 16)
    return [shuffle(builder, two, two, range(k, k + 8)) for at in starts for two in a for k in (at, at + 8)]


def _transform8(builder, v, known):
    """Transform dequantized rows ``v`` to rows of bytes; beyond ``known`` rows and columns all are zero."""
    first, second = DROPPED[8]
    rows = [one.shorts() for one in _pass8(builder, v, first)]
    columns = [v[0].of(row) for row in transposed(builder, rows, 8)[:known]] + v[known:]  # v's others are zeros
    return _rows_of_bytes(builder, [_to_pixels(builder, one) for one in _pass8(builder, columns, second)])


def _transform4(builder, v, known):
    """Transform dequantized rows to four rows of four bytes."""
    first, second = DROPPED[4]
    rows = [one.shorts() for one in _pass4(builder, v, first)]
    # Four rows of eight to eight columns of four, two columns in a vector: column k is in half k % 2 of quads[k // 2].
    quads = transposed(builder, rows, 8, 2)
    columns = [_Lanes(builder, None)] * 8
    for k in _USED[4]:
        if k < known:
            start = 4 * (k % 2)
            columns[k] = _wide(builder, shuffle(builder, quads[k // 2], quads[k // 2], range(start, start + 4)))
    return transposed(builder, [_to_pixels(builder, one) for one in _pass4(builder, columns, second)], 4)


def _transform2(builder, v, known):
    """Transform dequantized rows to two rows of two bytes."""
    # Between the passes libjpeg-turbo keeps all 32 bits of the first column; the others saturate. There are only two
    # rows, so the second pass has both in one vector: 4 odd columns of each, multiplied and added horizontally.
    first, second = DROPPED[2]
    one, other = _pass2(builder, v, first)
    even = _Lanes(builder, shuffle(builder, one.value, other.value, (0, 8))).scaled(2)
    lanes = [n + k for n in (0, 8) for k in QUARTER]
    odd = builder.sext(shuffle(builder, one.shorts(), other.shorts(), lanes), _WIDE)
    odd = builder.mul(odd, ir.Constant(_WIDE, [*QUARTER.values()] * 2))
    for evens in ((0, 2, 4, 6), (0, 2)):  # each lane and its neighbor are added: 8 lanes to 4 to 2
        odd = builder.add(shuffle(builder, odd, odd, evens), shuffle(builder, odd, odd, [k + 1 for k in evens]))
    odd = _Lanes(builder, odd)
    both = shuffle(builder, (even + odd).value, (even - odd).value, (0, 2, 1, 3))  # left, right of row 0, then of 1
    pixels = _to_pixels(builder, _Lanes(builder, both).rounded(second))
    return [shuffle(builder, pixels, pixels, (k, k + 1)) for k in (0, 2)]


def _wide(builder, row):
    """Return 16-bit lanes widened to 32 bits."""
    return _Lanes(builder, builder.sext(row, vector(I32, row.type.count)))


def _first_wrapped(builder, first, others):
    """Return the first row, wrapped to 14 bits where all other rows are zero, as in libjpeg-turbo.

    It then multiplies by four in 16 bits, which wrap, where the whole transform saturates. Only absurd coefficients
    differ, so the test of the other rows, at the addresses ``others``, comes after that of the first.
    """
    two = splat(I16, 2, 8)
    wrapped = builder.ashr(builder.shl(first, two), two)
    result = cgutils.alloca_once_value(builder, first)
    with cgutils.if_unlikely(builder, _any(builder, builder.xor(first, wrapped))):
        # Rows are loaded again, after a barrier: kept in registers, they would displace those of the usual path.
        builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)
        rows = [load(builder, address, _ROW) for address in others]
        alone = builder.not_(_any(builder, functools.reduce(builder.or_, rows)))
        builder.store(builder.select(alone, wrapped, first), result)
    return builder.load(result)


def _any(builder, row):
    """Emit whether any lane of a row is not zero."""
    return builder.icmp_unsigned("!=", builder.bitcast(row, ir.IntType(128)), ir.Constant(ir.IntType(128), 0))


def _make(transformed, side, known, count=1):
    used = [k for k in _USED[side] if k < known]

    u = types.uintp

    @emitted(types.none, None, u, u, None, u, None, u, u, u)
    def transform(builder, coefficients, at, more, quant, q, out, o, step, stride):
        """Dequantize and transform ``count`` blocks to ``side`` rows of bytes, ``stride`` from row to row; zero them.

        Blocks are at ``coefficients[at]`` and, of two, ``more`` after that, their quantization steps at ``quant[q]``.
        The pixels go to ``out[o]``, and those of the second one ``step`` after that.
        """
        blocks = [coefficients.at(at, 64)]
        blocks += [builder.gep(blocks[0], [more])] * (count - 1)
        steps = quant.at(q, 64)

        def row_at(start, k):
            return builder.gep(start, [ir.IntType(64)(8 * k)])

        rows = {}
        for k in used:
            factors = load(builder, row_at(steps, k), _ROW)
            rows[k] = [builder.mul(load(builder, row_at(block, k), _ROW), factors) for block in blocks]
        if side != 2:  # that form has no such shortcut
            rows[0] = [
                _first_wrapped(builder, row, [row_at(block, k) for k in used[1:]])
                for row, block in zip(rows[0], blocks, strict=True)
            ]
        for block in blocks:
            for k in range(known):
                store(builder, splat(I16, 0, 8), row_at(block, k))
        v: list[Any] = [_Lanes(builder, None)] * 8
        for k, row in rows.items():
            value = joined(builder, row)
            v[k] = Shorts(coefficients.context, builder, value) if count == 2 else _wide(builder, value)
        for y, row in enumerate(transformed(builder, v, known)):
            start = o if y < side else builder.add(o, step)
            start = builder.add(start, builder.mul(stride, ir.Constant(stride.type, y % side)))
            store(builder, row, out.at(start, side))

    return transform


#: To 8 x 8 pixels: any block, and blocks with coefficients in the upper left 4 x 4 or 2 x 2 only.
transform8, transform4, transform2 = (_make(_transform8, 8, known) for known in (8, 4, 2))
#: Any two blocks, in the time of one and a half.
two8 = _make(_transform8, 8, 8, 2)
#: The same to 4 x 4 pixels, and any block to 2 x 2.
half8, half4, half2 = (_make(_transform4, 4, known) for known in (8, 4, 2))
quarter8 = _make(_transform2, 2, 8)
