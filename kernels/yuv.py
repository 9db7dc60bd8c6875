"""Conversion of video's Y'CbCr to RGB: one formula for both devices.

References: ITU-R BT.601-7, BT.709-6 and BT.2020-2, with the code ranges of ITU-T H.273, section 8.3. Chroma is not
interpolated: pixels that share a chroma sample get its value, as FFmpeg converts by default. ITU-T T.871 (JFIF) for
JPEGs.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .scalar import clamp, f32, i32, scalar

# Columns of a matrix, whose rows are red, green, blue and gray: factors of luma and of both chroma samples, in levels
# of 8 bits, and the constant term, half a level for the rounding included.
LUMA: Final = 0
U: Final = 1
V: Final = 2
OFFSET: Final = 3
GRAY: Final = 3  # its row

#: The shares of red and of blue in luma, by matrix coefficients of H.273; all others are taken as BT.601, as in FFmpeg.
BT601: Final = (0.299, 0.114)
SHARES: Final = {
    1: (0.2126, 0.0722),  # BT.709
    4: (0.30, 0.11),  # FCC
    7: (0.212, 0.087),  # SMPTE 240M
    9: (0.2627, 0.0593),  # BT.2020, not constant luminance
}


def matrix(coefficients: int, full: bool, bits: int) -> Any:
    """Return the conversion matrix, (4, 4) float32, for samples of ``bits`` bits.

    Parameters
    ----------
    coefficients : int
        Matrix coefficients of H.273.
    full : bool
        Whether black is 0 and white the largest sample, rather than 16 and 235 times ``2 ** (bits - 8)``.
    bits : int
    """
    red, blue = SHARES.get(coefficients, BT601)
    green = 1.0 - red - blue
    step = 2.0 ** (bits - 8)
    white = 2.0**bits - 1.0
    luma, chroma = (255.0 / white,) * 2 if full else (255.0 / (219.0 * step), 255.0 / (224.0 * step))
    black, middle = 0.0 if full else 16.0 * step, 128.0 * step
    red_v, blue_u = 2.0 * (1.0 - red) * chroma, 2.0 * (1.0 - blue) * chroma
    parts = [(0.0, red_v), (-blue / green * blue_u, -red / green * red_v), (blue_u, 0.0), (0.0, 0.0)]
    return np.array([(luma, u, v, 0.5 - luma * black - (u + v) * middle) for u, v in parts], np.float32)


@scalar
def chroma_term(u, v, of_u, of_v, offset):
    """Return the contribution of two chroma samples to a color."""
    return u * of_u + v * of_v + offset


@scalar
def level(y, luma, term):
    """Return the level, 0 to 255, of a color from a luma sample and the contribution of chroma."""
    return clamp(i32(y * luma + term), i32(0), i32(255))


@scalar
def jfif_rgb(y, cb, cr):
    """Return red, green and blue, in [0, 1], of a JPEG's samples in units of 255."""
    zero, one = f32(0.0), f32(1.0)
    u, v = cb - f32(128.0 / 255.0), cr - f32(128.0 / 255.0)
    green = y - f32(0.114 * 1.772 / 0.587) * u - f32(0.299 * 1.402 / 0.587) * v
    return clamp(y + f32(1.402) * v, zero, one), clamp(green, zero, one), clamp(y + f32(1.772) * u, zero, one)
