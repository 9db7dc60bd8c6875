"""Formulas of JPEG in whole numbers, as scalar functions for both runtimes: bit for bit libjpeg-turbo's.

The transforms have the terms, and the wraps, of :mod:`gpuimg.kernels.jpeg.idct`.

References: libjpeg's jfdctint.c, jidctint.c, jccolor.c, jdcolor.c, jcdctmgr.c, jcparam.c; ITU-T T.81, tables K.1, K.2.
"""

from __future__ import annotations

from typing import Final

from ..scalar import f32, i32, scalar
from .idct import EVEN2, EVEN3, ODD0, ODD1, ODD2, ODD3, SCALE_BITS, SUM3, SUM4

CENTER: Final = 128  # what stands for no light, or no color

#: Steps of the coefficients at quality 50, row by row: of luma, then of chroma.
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

# Of the forward transform's first pass, whose results have two bits more than its second.
_MORE: Final = 2
FORWARD_FIRST: Final = SCALE_BITS - _MORE
FORWARD_SECOND: Final = SCALE_BITS + _MORE

# 65536 times what colors add to luma and chroma, and the other way round.
_Y = i32(19595), i32(38470), i32(7471)
_CB = i32(-11058), i32(-21710), i32(32768)
_CR = i32(32768), i32(-27439), i32(-5329)
_RED, _GREEN_B, _GREEN_R, _BLUE = i32(91881), i32(-22554), i32(-46802), i32(116130)
_BITS = i32(16)
_HALF = i32(32768)
_CHROMA_HALF = i32((CENTER << 16) + 32767)


@scalar
def short(x):
    """The lower 16 bits as a number."""
    return i32(i32(x << 16) >> 16)


@scalar
def limited(x, low, high):
    """A whole number limited to ``[low, high]``."""
    return min(max(x, i32(low)), i32(high))


# -- transforms --------------------------------------------------------------------------------------------------------


@scalar
def _sum(one, other, factors):
    return i32(i32(one * i32(factors[0])) + i32(other * i32(factors[1])))


@scalar
def _odd(v0, v1, v2, v3):
    """What both transforms make of four terms: of coefficients 7, 5, 3, 1, or coefficients 1, 3, 5, 7."""
    z3, z4 = short(i32(v0 + v2)), short(i32(v1 + v3))
    z3, z4 = _sum(z3, z4, SUM3), _sum(z3, z4, SUM4)
    return (
        i32(_sum(v0, v3, ODD0) + z4), i32(_sum(v1, v2, ODD1) + z3), i32(_sum(v1, v2, ODD2) + z4),
        i32(_sum(v0, v3, ODD3) + z3),
    )  # fmt: skip


@scalar
def inverse(v0, v1, v2, v3, v4, v5, v6, v7, bits):
    """The one-dimensional inverse transform, of whose results ``bits`` are dropped."""
    even2, even3 = _sum(v2, v6, EVEN2), _sum(v2, v6, EVEN3)
    even0 = i32(short(i32(v0 + v4)) << SCALE_BITS)
    even1 = i32(short(i32(v0 - v4)) << SCALE_BITS)
    s0, s1, s2, s3 = i32(even0 + even3), i32(even1 + even2), i32(even1 - even2), i32(even0 - even3)
    o0, o1, o2, o3 = _odd(v7, v5, v3, v1)
    half = i32(1 << (bits - 1))
    s0, s1, s2, s3 = i32(s0 + half), i32(s1 + half), i32(s2 + half), i32(s3 + half)
    return (
        i32(i32(s0 + o0) >> bits), i32(i32(s1 + o1) >> bits), i32(i32(s2 + o2) >> bits), i32(i32(s3 + o3) >> bits),
        i32(i32(s3 - o3) >> bits), i32(i32(s2 - o2) >> bits), i32(i32(s1 - o1) >> bits), i32(i32(s0 - o0) >> bits),
    )  # fmt: skip


@scalar
def forward(v0, v1, v2, v3, v4, v5, v6, v7, bits):
    """The one-dimensional transform; its results are eight times as large after both passes."""
    s0, s1, s2, s3 = i32(v0 + v7), i32(v1 + v6), i32(v2 + v5), i32(v3 + v4)
    o0, o1, o2, o3 = _odd(i32(v3 - v4), i32(v2 - v5), i32(v1 - v6), i32(v0 - v7))
    e0, e1, e2, e3 = i32(s0 + s3), i32(s1 + s2), i32(s1 - s2), i32(s0 - s3)
    even2, even3 = _sum(e3, e2, EVEN2), _sum(e3, e2, EVEN3)
    half = i32(1 << (bits - 1))
    c0, c4 = i32(e0 + e1), i32(e0 - e1)
    if bits == FORWARD_FIRST:
        c0, c4 = i32(c0 << _MORE), i32(c4 << _MORE)
    else:
        c0, c4 = i32(i32(c0 + 2) >> _MORE), i32(i32(c4 + 2) >> _MORE)
    return (
        c0, i32(i32(o0 + half) >> bits), i32(i32(even3 + half) >> bits), i32(i32(o1 + half) >> bits),
        c4, i32(i32(o2 + half) >> bits), i32(i32(even2 + half) >> bits), i32(i32(o3 + half) >> bits),
    )  # fmt: skip


# -- quantisation ------------------------------------------------------------------------------------------------------


@scalar
def step_of(base, quality):
    """A step at a quality from 1 to 100."""
    scale = i32(i32(5000) // quality) if quality < 50 else i32(200 - 2 * quality)
    return limited(i32(i32(base * scale + 50) // 100), 1, 255)


@scalar
def coded(coefficient, step):
    """A coefficient of :func:`forward` as it comes back: the nearest multiple of its step.

    Numbers are below 2^16, so that the division in float32 never rounds up to the next multiple.
    """
    wide = f32(i32(step << 3))
    size = i32((f32(abs(coefficient)) + f32(i32(step << 2)) + f32(0.5)) / wide)
    return i32(i32(-size if coefficient < 0 else size) * step)


# -- colors ------------------------------------------------------------------------------------------------------------


@scalar
def _weighed(r, g, b, factors, half):
    return i32(i32(i32(r * factors[0]) + i32(g * factors[1]) + i32(b * factors[2]) + half) >> _BITS)


@scalar
def luma_of(r, g, b):
    """Luma of bytes."""
    return _weighed(r, g, b, _Y, _HALF)


@scalar
def chroma_of(r, g, b):
    """Both chroma values of bytes."""
    return _weighed(r, g, b, _CB, _CHROMA_HALF), _weighed(r, g, b, _CR, _CHROMA_HALF)


@scalar
def halved(a, b, c, d, column):
    """A chroma value of four; in every second column it is rounded the other way."""
    return i32(i32(a + b + c + d + i32(1) + i32(column & 1)) >> 2)


@scalar
def mixed(near, far, beside, corner, bias):
    """Chroma of a pixel: 3/4 of the nearer and 1/4 of the farther row, and so along the row."""
    here, there = i32(3 * near + far), i32(3 * beside + corner)
    return i32(i32(3 * here + there + bias) >> 4)


@scalar
def rgb_of(luma, cb, cr):
    """Red, green and blue as bytes."""
    cb, cr = i32(cb - CENTER), i32(cr - CENTER)
    red = i32(luma + i32(i32(_RED * cr + _HALF) >> _BITS))
    blue = i32(luma + i32(i32(_BLUE * cb + _HALF) >> _BITS))
    green = i32(luma + i32(i32(_GREEN_B * cb + _GREEN_R * cr + _HALF) >> _BITS))
    return limited(red, 0, 255), limited(green, 0, 255), limited(blue, 0, 255)


@scalar
def second_nearest(x, most):
    """The chroma row or column, of those up to ``most``, that is second nearest to a pixel's."""
    return limited(i32(i32(x >> 1) + (i32(1) if x & 1 else i32(-1))), 0, most)
