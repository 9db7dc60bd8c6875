"""The planes of samples that an encoder transforms, an MCU row at a time, from rows of pixels."""

import numpy as np

from ..cpu.intrinsics import copy
from ..scalar import loop, up
from .forward import GROUP, halve_across, halve_both
from .frame import FULL
from .rows import row_of

i64 = np.int64

_Y, _CB, _CR = i64(0), i64(1), i64(2)  # not literals, for each of which Numba would compile a variant


@loop
def _repeat_row(shape, c, y, n, planes):
    """Fill a row of a plane with the one above."""
    above, row = row_of(shape, c, y - 1), row_of(shape, c, y)
    copy(planes[above : above + n], planes[row : row + n])


@loop
def repeat_pixel(row, at, width, wide):
    """Fill a row of ``wide`` samples, from ``at`` on, with the last of ``width`` samples after these."""
    last = row[at + width - 1]
    for x in range(at + width, at + wide):
        row[up(x)] = last


def make_fill_planes(gray_row, color_row):
    """Return a loop that fills the planes with an MCU row.

    ``gray_row(source, y, row)`` fills a row of luma. ``color_row(source, y, wide, luma, at, chroma, cb, cr)`` fills
    ``wide`` samples of luma and of both of chroma, from places of two arrays on. Both repeat a row's last pixel.
    """

    @loop
    def fill_planes(header, shape, r, source, wide, rows, planes):
        """Fill the planes with MCU row ``r``, the last row of samples repeated after the image.

        ``wide`` is a multiple of 2 * GROUP; ``rows`` is scratch for two rows of each chroma before their reduction.
        """
        height, across, down = shape.height, header.across[0], header.down[0]
        single, narrow = header.components == 1, wide // across
        for y in range(FULL * down * r, FULL * down * (r + 1)):
            luma, k = row_of(shape, _Y, y), y >> (down - 1)
            if y >= height:
                _repeat_row(shape, _Y, y, wide, planes)
            elif single:
                gray_row(source, y, planes[luma : luma + wide])
            elif across == 1:
                color_row(source, y, wide, planes, luma, planes, row_of(shape, _CB, y), row_of(shape, _CR, y))
            else:
                one = (y & (down - 1)) * wide
                color_row(source, y, wide, planes, luma, rows, one, one + 2 * wide)
            if single or y & (down - 1) != down - 1:
                continue
            for c in range(_CB, _CR + 1):
                to, above = row_of(shape, c, k), 2 * (c - 1) * wide
                below = above + wide if y < height else above
                if k * down >= height:
                    _repeat_row(shape, c, k, narrow, planes)
                    continue
                for x in range(0, narrow if across == 2 else 0, GROUP):
                    if down == 2:
                        halve_both(rows, up(above + 2 * x), up(below + 2 * x), planes, up(to + x))
                    else:
                        halve_across(rows, up(above + 2 * x), planes, up(to + x))

    return fill_planes
