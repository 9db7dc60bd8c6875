"""Integer formulas of JPEG as scalar functions for both runtimes, bit for bit those of libjpeg-turbo.

The transforms have the terms of :mod:`gpuimg.kernels.jpeg.idct`, and wrap at 16 bits where those do.

References: libjpeg's jfdctint.c, jidctint.c, jccolor.c, jdcolor.c, jidctred.c, jcdctmgr.c, jcparam.c; ITU-T T.81,
tables K.1, K.2.
"""

from typing import Final

from ..scalar import f32, i32, scalar, u32, u64
from ..scalar import limited as limited
from . import idct
from .layout import LONG_LENGTH, SEGMENT_BYTES, SHORT_LENGTH, STREAMS, SUM_BYTES, WIDE
from .tables import is_legal

CENTER: Final = 128  # the level shift of samples before the transform, and the value of chroma for gray

#: Quantization steps at quality 50, row by row: of luma, then of chroma (T.81, tables K.1 and K.2).
STEPS: Final = (
    (
        16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14, 17, 22, 29,
        51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49, 64, 78, 87, 103, 121,
        120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
    ),
    (
        17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47, 66, 99, 99,
        99, 99, 99, 99, *(99,) * 32,
    ),
)  # fmt: skip

# Between the passes of the forward transform, values keep this many fraction bits; the second pass drops them.
_MORE: Final = 2
FORWARD_FIRST: Final = idct.SCALE_BITS - _MORE
FORWARD_SECOND: Final = idct.SCALE_BITS + _MORE

# Bits dropped after each pass of the transforms to half and to quarter size.
HALF_FIRST, HALF_SECOND = idct.DROPPED[4]
QUARTER_FIRST, QUARTER_SECOND = idct.DROPPED[2]
_QUARTER1, _QUARTER3, _QUARTER5, _QUARTER7 = (i32(factor) for factor in idct.QUARTER.values())

# Factors of JFIF's color conversion in 16.16 fixed point: R, G, B in Y, Cb and Cr.
Y = i32(19595), i32(38470), i32(7471)
CB = i32(-11058), i32(-21710), i32(32768)
CR = i32(32768), i32(-27439), i32(-5329)
# Cr in red, Cb and Cr in green, Cb in blue.
_RED, _GREEN_B, _GREEN_R, _BLUE = i32(91881), i32(-22554), i32(-46802), i32(116130)
_BITS = i32(16)  # fraction bits of the factors
HALF = i32(32768)
CHROMA_HALF = i32((CENTER << 16) + 32767)  # as jccolor.c: less than a half, so that the largest result is 255


@scalar
def short(x):
    """Return the lower 16 bits as a signed number."""
    return i32(i32(x << 16) >> 16)


# -- transforms --------------------------------------------------------------------------------------------------------


@scalar
def _sum(one, other, factors):
    return i32(i32(one * i32(factors[0])) + i32(other * i32(factors[1])))


@scalar
def _odd(v0, v1, v2, v3):
    """Return the odd part of either transform: of coefficients 7, 5, 3, 1 (inverse), or differences (forward)."""
    # Each result has one product of the pair (v0, v3) or (v1, v2), and one of the sums that two results share.
    z3, z4 = short(i32(v0 + v2)), short(i32(v1 + v3))
    z3, z4 = _sum(z3, z4, idct.SUM3), _sum(z3, z4, idct.SUM4)
    return (
        i32(_sum(v0, v3, idct.ODD0) + z4), i32(_sum(v1, v2, idct.ODD1) + z3), i32(_sum(v1, v2, idct.ODD2) + z4),
        i32(_sum(v0, v3, idct.ODD3) + z3),
    )  # fmt: skip


@scalar
def inverse(v0, v1, v2, v3, v4, v5, v6, v7, bits):
    """Return the one-dimensional inverse transform of eight coefficients, rounded and shifted right by ``bits``."""
    even2, even3 = _sum(v2, v6, idct.EVEN2), _sum(v2, v6, idct.EVEN3)
    even0 = i32(short(i32(v0 + v4)) << idct.SCALE_BITS)
    even1 = i32(short(i32(v0 - v4)) << idct.SCALE_BITS)
    s0, s1, s2, s3 = i32(even0 + even3), i32(even1 + even2), i32(even1 - even2), i32(even0 - even3)
    o0, o1, o2, o3 = _odd(v7, v5, v3, v1)
    half = i32(1 << (bits - 1))
    s0, s1, s2, s3 = i32(s0 + half), i32(s1 + half), i32(s2 + half), i32(s3 + half)
    return (
        i32(i32(s0 + o0) >> bits), i32(i32(s1 + o1) >> bits), i32(i32(s2 + o2) >> bits), i32(i32(s3 + o3) >> bits),
        i32(i32(s3 - o3) >> bits), i32(i32(s2 - o2) >> bits), i32(i32(s1 - o1) >> bits), i32(i32(s0 - o0) >> bits),
    )  # fmt: skip


@scalar
def inverse_half(v0, v1, v2, v3, v5, v6, v7, bits):
    """Return the same transform to four samples, each the mean of two; coefficient 4 vanishes in them."""
    half = i32(1 << (bits - 1))
    even0, even2 = i32(i32(v0 << (idct.SCALE_BITS + 1)) + half), _sum(v2, v6, idct.HALF_EVEN)
    middle = i32(_sum(v7, v5, idct.HALF_MIDDLE[0]) + _sum(v3, v1, idct.HALF_MIDDLE[1]))
    ends = i32(_sum(v7, v5, idct.HALF_ENDS[0]) + _sum(v3, v1, idct.HALF_ENDS[1]))
    s0, s1 = i32(even0 + even2), i32(even0 - even2)
    return (
        i32(i32(s0 + ends) >> bits), i32(i32(s1 + middle) >> bits), i32(i32(s1 - middle) >> bits),
        i32(i32(s0 - ends) >> bits),
    )  # fmt: skip


@scalar
def inverse_quarter(v0, v1, v3, v5, v7, bits):
    """Return it to two samples, each the mean of four; other even coefficients than the first vanish in them."""
    even = i32(i32(v0 << (idct.SCALE_BITS + 2)) + i32(1 << (bits - 1)))
    odd = i32(i32(v1 * _QUARTER1) + i32(v3 * _QUARTER3))
    odd = i32(odd + i32(i32(v5 * _QUARTER5) + i32(v7 * _QUARTER7)))
    return i32(i32(even + odd) >> bits), i32(i32(even - odd) >> bits)


@scalar
def inverse_eighth(coefficient, step):
    """Return the one sample of a block of both dimensions: of its mean, libjpeg takes ten bits."""
    mean = i32(i32(i32(coefficient * step) + 4) >> 3)
    return i32(i32(i32(mean + 512) & i32(1023)) - 512)


@scalar
def forward(v0, v1, v2, v3, v4, v5, v6, v7, bits):
    """Return the one-dimensional transform of eight samples; after both passes coefficients are scaled by 8."""
    # Sums of samples that mirror each other have the even coefficients, differences the odd ones.
    s0, s1, s2, s3 = i32(v0 + v7), i32(v1 + v6), i32(v2 + v5), i32(v3 + v4)
    o0, o1, o2, o3 = _odd(i32(v3 - v4), i32(v2 - v5), i32(v1 - v6), i32(v0 - v7))
    e0, e1, e2, e3 = i32(s0 + s3), i32(s1 + s2), i32(s1 - s2), i32(s0 - s3)
    even2, even3 = _sum(e3, e2, idct.EVEN2), _sum(e3, e2, idct.EVEN3)
    half = i32(1 << (bits - 1))
    c0, c4 = i32(e0 + e1), i32(e0 - e1)  # without a factor, so their scale is the one between the passes
    if bits == FORWARD_FIRST:
        c0, c4 = i32(c0 << _MORE), i32(c4 << _MORE)
    else:
        c0, c4 = i32(i32(c0 + 2) >> _MORE), i32(i32(c4 + 2) >> _MORE)
    return (
        c0, i32(i32(o0 + half) >> bits), i32(i32(even3 + half) >> bits), i32(i32(o1 + half) >> bits),
        c4, i32(i32(o2 + half) >> bits), i32(i32(even2 + half) >> bits), i32(i32(o3 + half) >> bits),
    )  # fmt: skip


# -- quantization ------------------------------------------------------------------------------------------------------


@scalar
def step_of(base, quality):
    """Return the quantization step at a quality from 1 to 100, given that at 50."""
    scale = i32(i32(5000) // quality) if quality < 50 else i32(200 - 2 * quality)
    return limited(i32(i32(base * scale + 50) // 100), 1, 255)


@scalar
def coded(coefficient, step):
    """Return a coefficient of :func:`forward`, quantized and dequantized: the nearest multiple of its step."""
    # The coefficient is scaled by 8, so the divisor is, too. Numbers are below 2^16: in float32, half a unit more keeps
    # quotients that are whole from being rounded below that, and never reaches the next whole number.
    wide = f32(i32(step << 3))
    size = i32((f32(abs(coefficient)) + f32(i32(step << 2)) + f32(0.5)) / wide)
    return i32(i32(-size if coefficient < 0 else size) * step)


# -- colors ------------------------------------------------------------------------------------------------------------


@scalar
def _weighed(r, g, b, factors, half):
    return i32(i32(i32(r * factors[0]) + i32(g * factors[1]) + i32(b * factors[2]) + half) >> _BITS)


@scalar
def luma_of(r, g, b):
    """Return the luma of a color, all as bytes."""
    return _weighed(r, g, b, Y, HALF)


@scalar
def chroma_of(r, g, b):
    """Return Cb and Cr of a color, all as bytes."""
    return _weighed(r, g, b, CB, CHROMA_HALF), _weighed(r, g, b, CR, CHROMA_HALF)


@scalar
def halved(a, b, c, d, column):
    """Return the mean of four chroma values; the bias alternates between 1 and 2 of 4 by column, as in jcsample.c."""
    return i32(i32(a + b + c + d + i32(1) + i32(column & 1)) >> 2)


@scalar
def mixed(near, far, side, corner, bias):
    """Return the chroma of a pixel: 9/16 of its sample, 3/16 of those in the nearer row and column, 1/16 of the corner.

    ``near`` and ``side`` are in the nearer row, ``far`` and ``corner`` in the farther one.
    """
    here, there = i32(3 * near + far), i32(3 * side + corner)
    return i32(i32(3 * here + there + bias) >> 4)


@scalar
def rgb_of(luma, cb, cr):
    """Return red, green and blue of a color as bytes."""
    cb, cr = i32(cb - CENTER), i32(cr - CENTER)
    red = i32(luma + i32(i32(_RED * cr + HALF) >> _BITS))
    blue = i32(luma + i32(i32(_BLUE * cb + HALF) >> _BITS))
    green = i32(luma + i32(i32(_GREEN_B * cb + _GREEN_R * cr + HALF) >> _BITS))
    return limited(red, 0, 255), limited(green, 0, 255), limited(blue, 0, 255)


@scalar
def second_nearest(x, most):
    """Return the second nearest chroma row or column, 0 to ``most``, of a pixel's row or column."""
    return limited(i32(i32(x >> 1) + (i32(1) if x & 1 else i32(-1))), 0, most)


# -- recoded files -----------------------------------------------------------------------------------------------------

_FACTOR = u64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: odd, so invertible, and zeros and ones are as frequent
_ROTATION = u64(29)  # bits


@scalar
def mixed_in(sum_, word):
    """Return a checksum with the next 64 bits mixed in: bijective in either, so one changed word changes the sum."""
    x = u64(sum_ ^ word)
    return u64(u64(u64(x << _ROTATION) | u64(x >> u64(64 - 29))) * _FACTOR)


@scalar
def is_size(size, blocks):
    """Return whether a segment of so many blocks may have these bytes; checksum and lengths fit into the last 128."""
    return length_at(STREAMS, SHORT_LENGTH) <= size <= SEGMENT_BYTES * blocks + 128


@scalar
def width_of(size):
    """Return the bytes that the length of a stream takes in a segment of ``size`` bytes."""
    return LONG_LENGTH if size >= WIDE else SHORT_LENGTH


@scalar
def length_at(k, width):
    """Return the byte of a segment where the length of stream ``k`` begins, or after the last length the streams."""
    return SUM_BYTES + width * k


@scalar
def length_of(bits, width):
    """Return the length of a stream, the first ``width`` of four bytes."""
    return u32(bits if width == LONG_LENGTH else u32(bits & u32(WIDE - 1)))


@scalar
def is_spare(bits):
    """Return whether a stream of codes may have these bits left, which fill up its last byte."""
    return 0 <= bits < 8


@scalar
def may_follow(n, question):
    """Return whether ``n`` magnitudes may go on after a question, from 0 on: each that does has one bit more."""
    return n == 0 or is_legal(question + 2)


@scalar
def divided(k, factor):
    """Return the quotient and the remainder of a number by a sampling factor, which is 1, 2 or 4."""
    return k >> (factor >> 1), k & (factor - 1)


@scalar
def place_in_row(k, across, per, place):
    """Return the place in an MCU row of block ``k`` of a row of blocks, ``across`` of them to each MCU of ``per``."""
    mcu, block = divided(k, across)
    return place + mcu * per + block
