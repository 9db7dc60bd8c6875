"""Conversion of video's Y'CbCr to RGB: one formula for both devices.

References: ITU-R BT.601-7, BT.709-6 and BT.2020-2, with the code ranges of ITU-T H.273, section 8.3. Chroma is
interpolated where FFmpeg does so by default (see :func:`axes`); elsewhere pixels that share a sample get its value.
ITU-T T.871 (JFIF) is for JPEGs.
"""

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

#: The shares of red and of blue in luma, by matrix coefficients of H.273; others have another formula than this one.
BT601: Final = (0.299, 0.114)
SHARES: Final = {
    1: (0.2126, 0.0722),  # BT.709
    2: BT601,  # unspecified, as in FFmpeg
    4: (0.30, 0.11),  # FCC
    5: BT601,  # BT.470BG
    6: BT601,  # SMPTE 170M
    7: (0.212, 0.087),  # SMPTE 240M
    9: (0.2627, 0.0593),  # BT.2020, not constant luminance
}


def matrix(coefficients: int, full: bool, bits: int) -> Any:
    """Return the conversion matrix, (4, 4) float32, for samples of ``bits`` bits and matrix coefficients of H.273.

    With ``full``, black is 0 and white the largest sample, else they are 16 and 235 times ``2 ** (bits - 8)``. The
    luma of gray frames does not depend on the coefficients, which may be any.
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


def axes(bits: int, size: tuple[int, int], shifts: tuple[int, int], field: int | None = None) -> Any:
    """Return where the chroma of a pixel is, (2, 4) float32: for columns and rows, what :func:`near_chroma` takes.

    ``field`` 0 or 1 stands for the even or odd rows of an interlaced frame, numbered like those of a frame: they have
    the even or odd rows of chroma, at 1/4 or 3/4 of the distance between two rows of the field (H.264, 6.2).

    Swscale repeats the chroma of 8-bit frames with an even number of rows. Others it scales bilinearly from the size of
    chroma to that of luma, except that an even number of columns is repeated, too. ``size`` is (width, height);
    ``shifts`` are the bits by which columns and rows of chroma are shifted.
    """
    (width, height), (shift_x, shift_y) = size, shifts
    last, phase = ((height + shift_y) >> shift_y) - 1, 0.0
    if field is not None:  # the last row of chroma may be missing in the odd field
        height, last, phase = (height + 1 - field) // 2, (last - field) // 2, 0.125 - 0.25 * field
    scaled = bits > 8 or height % 2 == 1 or shifts == (0, 1)
    columns = width, shift_x, width % 2 == 1, ((width + shift_x) >> shift_x) - 1, 0.0
    found = []
    for n, shift, mixed, end, moved in (columns, (height, shift_y, True, last, phase)):
        mixed = mixed and scaled and shift == 1
        step = ((n + 1) // 2) / n if mixed else 0.5**shift
        found.append((step, 0.5 * step - 0.5 + moved if mixed else 0.0, 1.0 if mixed else 0.0, end))
    return np.array(found, np.float32)


@scalar
def near_chroma(at, step, offset, mixed, last):
    """Return the samples of chroma before and after a sample of luma, and the weight of the latter.

    ``step`` is from sample to sample of luma, in samples of chroma, and ``offset`` the place of the first one; ``last``
    is the last sample of chroma. ``mixed`` is 1 if chroma is interpolated between the centers of samples, and 0 if it
    is repeated: both samples are then the same.
    """
    place = clamp(f32(at) * step + offset, f32(0.0), last)
    near = i32(place)
    return near, min(i32(near + i32(mixed)), i32(last)), (place - f32(near)) * mixed


@scalar
def between(near, far, weight):
    """Return the value between two samples."""
    return near + (far - near) * weight


@scalar
def chroma_term(u, v, of_u, of_v, offset):
    """Return the contribution of two chroma samples to a color."""
    return u * of_u + v * of_v + offset


@scalar
def level(y, luma, term):
    """Return the level, 0 to 255, of a color from a luma sample and the contribution of chroma."""
    return clamp(i32(y * luma + term), i32(0), i32(255))
