"""Rectangles in images: sizes after a resize, centered crops, random boxes, and the places of images in a buffer."""

import numpy as np

from .compiled import cached_jit
from .scalar import f64, i64, strict


@strict
def _fitting(height, width, area, unit, aspect, low, high, wide, box):
    tries = len(aspect)
    for k in range(tries):
        target = area * (low + (high - low) * unit[k])
        h, w = np.rint(np.sqrt(target * aspect[k])), np.rint(np.sqrt(target / aspect[k]))
        if wide:
            h, w = w, h
        spare_y, spare_x = f64(height) - h, f64(width) - w
        if min(h, w) >= f64(wide) and min(spare_y, spare_x) >= f64(1 - wide):
            box[0], box[1] = i64(unit[2 * tries] * (spare_y + 1.0)), i64(unit[2 * tries + 1] * (spare_x + 1.0))
            box[2], box[3] = i64(h), i64(w)
            return
    for k in range(4):
        box[k] = -1


@cached_jit(
    "none(int64[:, ::1], int64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], int64, int64[:, ::1])",
    nogil=False,
)
def fitting_boxes(sizes, shares, units, aspects, scales, wide, boxes):
    """Fill ``boxes`` (N, 4), top left height width, with the first try that fits into an image, or -1.

    ``shares`` are the boxes (N,) that divide an area, which is a fraction of the image's within ``scales``; both may be
    one for all. ``units`` are (N, 2 T + 2) or more numbers in [0, 1). With ``wide`` = 1, ``aspects`` (N, T) are widths
    divided by heights, and sides are 1 to those of the image; with 0 heights by widths, and sides from 0 are shorter.
    """
    for i in range(len(sizes)):
        height, width = sizes[i, 0], sizes[i, 1]
        area = f64(height * width) / f64(shares[min(i, len(shares) - 1)])
        scale = scales[min(i, len(scales) - 1)]
        _fitting(height, width, area, units[i], aspects[i], scale[0], scale[1], wide, boxes[i])


@cached_jit("none(int64[:, ::1], int64[::1], int64[:, ::1])", nogil=False)
def short_sides(sizes, short, new):
    """Fill ``new`` (N, 2) with sizes whose shorter side is ``short`` (N,); the longer side is rounded down."""
    for i in range(len(sizes)):
        shorter = min(sizes[i, 0], sizes[i, 1])
        new[i, 0], new[i, 1] = short[i] * sizes[i, 0] // shorter, short[i] * sizes[i, 1] // shorter


@cached_jit("int64(int64[:, ::1], int64[:, ::1], int64[:, ::1])", nogil=False)
def center_corners(sizes, new, corners):
    """Fill ``corners`` (N, 2) with those of centered crops, half to even; return how many images are smaller."""
    smaller = 0
    for i in range(len(sizes)):
        for k in range(2):
            corners[i, k] = i64(np.rint(f64(sizes[i, k] - new[i, k]) / 2.0))
        smaller += new[i, 0] > sizes[i, 0] or new[i, 1] > sizes[i, 1]
    return smaller


@cached_jit("int64(int64[:, ::1], int64, int64, int64[::1])", nogil=False)
def place_images(sizes, channels, step, offsets):
    """Fill ``offsets`` (N,) with the elements of consecutive images, each a multiple of ``step``; return the total."""
    total = 0
    for i in range(len(sizes)):
        offsets[i] = total
        total += -(-(sizes[i, 0] * sizes[i, 1] * channels) // step) * step
    return total
