"""From pixels to quantized coefficients as vector code, bit for bit as libjpeg-turbo: colors, half chroma, the DCT.

A vector of the DCT ("islow") holds a row of two blocks side by side, as in :mod:`gpuimg.kernels.jpeg.idct`, with whose
factors and products of 16-bit numbers it shares the odd part. A first pass transforms the rows, a second the columns.

References: libjpeg's jccolor.c, jcsample.c, jfdctint.c, jcdctmgr.c.
"""

from typing import Final

import numpy as np

from ..cpu.intrinsics import I8, I16, I32, I64, emitted, load, shuffle, splat, store, vector
from ..cpu.products import joined, sums_of_pairs, transposed, upper_halves
from ..lang import ir, types
from ..scalar import loop
from .formulas import CB, CENTER, CHROMA_HALF, CR, FORWARD_FIRST, FORWARD_SECOND, HALF, STEPS, Y, step_of
from .idct import EVEN2, EVEN3, Shorts, odd_part
from .vectors import leading_zeros

i64, u64 = np.int64, np.uint64

#: Pixels that are converted, and samples of chroma that are made, at a time.
GROUP: Final = 16
#: Numbers of 16 bits by which the coefficients of a block are quantized: see :func:`set_quantizers`.
QUANTIZERS: Final = 3 * 64
_STEPS = np.array(STEPS, np.int32)  # at quality 50, of luma and of chroma

# Factors of pairs of colors: red and green, then blue and green. One that 16 bits do not hold is in both parts, or
# negative and subtracted.
_PART: Final = 1 << 14
_Y = (Y[0], Y[1] - _PART), (Y[2], _PART)
_CB = (CB[0], CB[1]), (-CB[2], 0)
_CR = (-CR[0], 0), (CR[2], CR[1])


def _luma_and_chroma(context, builder, red_green, blue_green):
    """Return Y, Cb and Cr of pixels, 32 bits each, from the colors of each in turn, 16 bits each."""
    n = red_green.type.count // 2

    def products(pixels, factors):
        return sums_of_pairs(
            context, builder, pixels, ir.Constant(pixels.type, [int(factor) for factor in factors] * n)
        )

    def rounded(value, half):
        return builder.lshr(builder.add(value, splat(I32, int(half), n)), splat(I32, 16, n))

    y, cb, cr = ((products(red_green, one), products(blue_green, other)) for one, other in (_Y, _CB, _CR))
    return (
        rounded(builder.add(*y), HALF), rounded(builder.sub(*cb), CHROMA_HALF),
        rounded(builder.sub(cr[1], cr[0]), CHROMA_HALF),
    )  # fmt: skip


def _store_ycc(builder, context, red_green, blue_green, luma, y, chroma, cb, cr):
    places = luma.at(y, GROUP), chroma.at(cb, GROUP), chroma.at(cr, GROUP)
    for value, place in zip(_luma_and_chroma(context, builder, red_green, blue_green), places, strict=True):
        store(builder, builder.trunc(value, vector(I8, GROUP)), place)


_U = types.uintp


@emitted(types.none, None, _U, _U, _U, None, _U, None, _U, _U)
def ycc_of_planes(builder, colors, red, green, blue, luma, y, chroma, cb, cr):
    """Convert GROUP pixels, whose samples begin at three places of ``colors``."""
    kind = vector(I8, GROUP)
    r, g, b = (builder.zext(load(builder, colors.at(at, GROUP), kind), vector(I16, GROUP)) for at in (red, green, blue))
    turns = [lane for k in range(GROUP) for lane in (k, GROUP + k)]
    pairs = shuffle(builder, r, g, turns), shuffle(builder, b, g, turns)
    _store_ycc(builder, colors.context, *pairs, luma, y, chroma, cb, cr)


@emitted(types.none, None, _U, None, _U, None, _U, _U)
def ycc_of_pixels(builder, pixels, at, luma, y, chroma, cb, cr):
    """Convert GROUP pixels, whose colors are interleaved."""
    count = GROUP // 4  # of vectors, each with four pixels: the last one ends with them, so that nothing more is read
    starts = [12 * k - 4 * (k == count - 1) for k in range(count)]
    quads = [load(builder, pixels.at(builder.add(at, I64(start)), 16), vector(I8, 16)) for start in starts]
    whole, zero = joined(builder, quads), splat(I8, 0, 4 * GROUP)

    def pairs(*colors):
        lanes = [(16 * (k // 4) + 3 * k - starts[k // 4] + c, 4 * GROUP) for k in range(GROUP) for c in colors]
        picked = shuffle(builder, whole, zero, [lane for pair in lanes for lane in pair])
        return builder.bitcast(picked, vector(I16, 2 * GROUP))

    _store_ycc(builder, pixels.context, pairs(0, 1), pairs(2, 1), luma, y, chroma, cb, cr)


def _sums_of_columns(builder, rows, at):
    """Return sums of neighbors, GROUP pairs of a row."""
    pairs = builder.bitcast(load(builder, rows.at(at, 2 * GROUP), vector(I8, 2 * GROUP)), vector(I16, GROUP))
    return builder.add(builder.and_(pairs, splat(I16, 255, GROUP)), builder.lshr(pairs, splat(I16, 8, GROUP)))


def _store_mean(builder, total, rounding, bits, place):
    """Store means of 1 << bits samples; what is added to the sums alternates from one to the next."""
    total = builder.add(total, ir.Constant(total.type, rounding * (GROUP // 2)))
    store(builder, builder.trunc(builder.lshr(total, splat(I16, bits, GROUP)), vector(I8, GROUP)), place)


@emitted(types.none, None, _U, _U, None, _U)
def halve_both(builder, rows, above, below, planes, at):
    """Make GROUP samples of chroma of twice as many columns of two rows."""
    total = builder.add(_sums_of_columns(builder, rows, above), _sums_of_columns(builder, rows, below))
    _store_mean(builder, total, [1, 2], 2, planes.at(at, GROUP))


@emitted(types.none, None, _U, None, _U)
def halve_across(builder, rows, row, planes, at):
    """Make GROUP samples of chroma of twice as many columns."""
    _store_mean(builder, _sums_of_columns(builder, rows, row), [0, 1], 1, planes.at(at, GROUP))


def _pass(context, builder, v, first):
    """Transform eight vectors of 16 bits, one for each position, to eight, one for each frequency."""
    # Sums of samples that mirror each other have the even coefficients, differences the odd ones.
    mirrored = list(zip(v[:4], v[:3:-1], strict=True))
    s, d = [builder.add(a, b) for a, b in mirrored], [builder.sub(a, b) for a, b in mirrored]
    e0, e1 = builder.add(s[0], s[3]), builder.add(s[1], s[2])
    e2, e3, *d = (Shorts(context, builder, x) for x in (builder.sub(s[1], s[2]), builder.sub(s[0], s[3]), *d[::-1]))
    bits = FORWARD_FIRST if first else FORWARD_SECOND
    two = splat(I16, 2, v[0].type.count)
    # Two coefficients have no factor: their scale is that between the passes.
    ends = [builder.add(e0, e1), builder.sub(e0, e1)]
    ends = [builder.shl(x, two) if first else builder.ashr(builder.add(x, two), two) for x in ends]
    odds = [x.rounded(bits).shorts() for x in odd_part(builder, *d)]
    evens = [e3.sum_with(e2, factors).rounded(bits).shorts() for factors in (EVEN3, EVEN2)]
    return [ends[0], odds[0], evens[0], odds[1], ends[1], odds[2], evens[1], odds[3]]


@loop
def _set_quantizer(step, quantizers, k):
    """Fill in the numbers of a coefficient with a quantization step: half a step, a factor and a power of two.

    The coefficients are scaled by 8. A quotient is the upper half of two products, exact below 2**15.
    """
    size = 8 * step
    bits = i64(64) - i64(leading_zeros(u64(size - 1)))  # of the least power of two that is not below it
    quantizers[k] = size // 2
    quantizers[k + 64] = (i64(1) << (15 + bits)) // size + 1
    quantizers[k + 128] = i64(1) << (17 - bits)


@loop
def set_quantizers(quality, quantizers, steps):
    """Fill in the steps of a quality, 1 to 100, and QUANTIZERS by them, of luma and then of chroma."""
    for table in range(2):
        for k in range(64):
            step = step_of(_STEPS[table, k], quality)
            steps[64 * table + k] = step
            _set_quantizer(i64(step), quantizers, QUANTIZERS * table + k)


@emitted(types.none, None, _U, _U, None, _U, None, _U, _U)
def transform_two(builder, planes, at, stride, quantizers, q, out, one, other):
    """Transform and quantize two blocks side by side, ``stride`` from row to row, to two places, in natural order.

    ``quantizers[q:]`` are those of :func:`set_quantizers`.
    """
    n, v = 16, []
    for y in range(8):
        start = builder.add(at, builder.mul(stride, ir.Constant(stride.type, y)))
        row = builder.zext(load(builder, planes.at(start, n), vector(I8, n)), vector(I16, n))
        v.append(builder.sub(row, splat(I16, CENTER, n)))
    context = planes.context
    v = _pass(context, builder, transposed(builder, v, 8), True)
    v = _pass(context, builder, transposed(builder, v, 8), False)
    zero = splat(I16, 0, n)
    for y, row in enumerate(v):

        def table(which, y=y):
            place = builder.add(q, ir.Constant(q.type, 64 * which + 8 * y))
            return joined(builder, [load(builder, quantizers.at(place, 8), vector(I16, 8))] * 2)

        negative = builder.icmp_signed("<", row, zero)
        size = builder.add(builder.select(negative, builder.sub(zero, row), row), table(0))
        for k in (1, 2):
            size = upper_halves(context, builder, size, table(k), signed=False)
        row = builder.select(negative, builder.sub(zero, size), size)
        for block, k in enumerate((one, other)):
            half = shuffle(builder, row, row, range(8 * block, 8 * block + 8))
            store(builder, half, out.at(builder.add(k, ir.Constant(k.type, 8 * y)), 8))
