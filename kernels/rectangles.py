"""Rectangles of random area and aspect ratio: the first of several tries that fits into an image."""

from __future__ import annotations

import numpy as np

from .compiled import cached_jit
from .scalar import i64, strict


@strict
def _fitting(area, unit, aspect, low, high, least, most, sides):
    for k in range(len(aspect)):
        target = area * (low + (high - low) * unit[k])
        first, second = np.rint(np.sqrt(target * aspect[k])), np.rint(np.sqrt(target / aspect[k]))
        if first >= least and second >= least and first <= most[0] and second <= most[1]:
            sides[0], sides[1] = i64(first), i64(second)
            return
    sides[0] = sides[1] = -1


@cached_jit(
    "none(float64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], int64, int64[:, ::1], int64[:, ::1])",
    nogil=False,
)
def fitting_sides(areas, units, aspects, scales, least, most, sides):
    """Fill ``sides`` (N, 2) with the first try within ``least`` and ``most`` (N, 2), or -1 if there is none.

    ``areas`` (N,) times fractions are square pixels: ``units`` (N, T or more) lie between the two of ``scales``, (N, 2)
    or (1, 2) for all. ``aspects`` (N, T) are the first side divided by the second one.
    """
    for i in range(len(areas)):
        scale = scales[min(i, len(scales) - 1)]
        _fitting(areas[i], units[i], aspects[i], scale[0], scale[1], least, most[i], sides[i])
