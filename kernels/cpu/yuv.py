"""Conversion of video frames from planes of Y'CbCr to interleaved pixels, on a CPU; formulas are in kernels/yuv.py."""

from __future__ import annotations

import numpy as np

from ..compiled import cached_jit
from ..jpeg.color import SPILL, N, rgb_of_planes
from ..scalar import f32, loop, up
from ..yuv import GRAY, LUMA, OFFSET, U, V, chroma_term, level


@loop
def _terms(u, v, step, row, out):
    """Compute the contribution of a row of chroma to one color; ``row`` is that color's of the matrix."""
    of_u, of_v, offset = row[U], row[V], row[OFFSET]
    # Two loops with constant steps, which vectorize: planes of U and V (1), or one plane with both in turn (2).
    if step == 1:
        for k in range(out.size):
            out[k] = chroma_term(f32(u[k]), f32(v[k]), of_u, of_v, offset)
    else:
        for k in range(out.size):
            out[k] = chroma_term(f32(u[up(2 * k)]), f32(v[up(2 * k)]), of_u, of_v, offset)


@loop
def _doubled(values, out):
    """Repeat each value: a chroma sample serves two columns of pixels."""
    for k in range(values.size):
        out[up(2 * k)] = values[k]
        out[up(2 * k + 1)] = values[k]


@loop
def _levels(y, luma, terms, out):
    """Compute a row of one color as bytes, from luma and the contribution of chroma."""
    for k in range(out.size):
        out[k] = np.uint8(level(f32(y[k]), luma, terms[k]))


@loop
def _interleave(planes, width, out):
    """Interleave a row of three planes, each as wide as the row and ``N`` bytes more."""
    size = width + N
    k = 0
    # Vectors while their writes, SPILL bytes past the last pixel included, stay in the row; then pixel by pixel.
    while 3 * (k + N) + SPILL <= out.size:
        rgb_of_planes(planes, up(k), up(size + k), up(2 * size + k), out, up(3 * k))
        k += N
    while k < width:
        out[3 * k], out[3 * k + 1], out[3 * k + 2] = planes[k], planes[size + k], planes[2 * size + k]
        k += 1


@cached_jit(
    "none(uint8[::1], uint8[::1], uint8[::1], int64[::1], int64[::1], float32[:, ::1], float32[::1], uint8[::1], "
    "uint8[::1])",
    "none(uint16[::1], uint16[::1], uint16[::1], int64[::1], int64[::1], float32[:, ::1], float32[::1], uint8[::1], "
    "uint8[::1])",
)
def rgb_of_frame(y, u, v, layout, region, matrix, terms, planes, out):
    """Fill ``out`` with the pixels (H, W, 3) of a region of a frame.

    Parameters
    ----------
    y, u, v : (n,) uint8 or uint16
        Planes. If chroma is interleaved, ``u`` and ``v`` are the same plane, each from its first sample on.
    layout : (5,) int64
        Elements from row to row of luma, from row to row of chroma, and from sample to sample of chroma; then the
        shifts from columns and from rows of luma to those of chroma, 0 or 1 bit each.
    region : (4,) int64
        x0, y0, x1, y1.
    matrix : (4, 4) float32
    terms, planes : (4 * (W + 3),) float32, (3 * (W + N),) uint8
        Scratch.
    out : (H * W * 3,) uint8
    """
    y_row, c_row, step, shift_x, shift_y = layout[0], layout[1], layout[2], layout[3], layout[4]
    x0, y0, x1, y1 = region[0], region[1], region[2], region[3]
    width = x1 - x0
    first, last = x0 >> shift_x, (x1 - 1) >> shift_x
    count = last - first + 1
    wide = width + 3  # a pair of pixels may begin before the region and end after it
    single = terms[3 * wide : 3 * wide + count]  # terms at the width of chroma
    skipped = x0 - (first << shift_x)  # columns of the first pair that lie before the region
    plane = width + N
    luma = matrix[0, LUMA]
    before = np.int64(-1)
    for row in range(y0, y1):
        chroma = row >> shift_y
        if chroma != before:  # two rows of 4:2:0 share their terms
            start = chroma * c_row + first * step
            for c in range(3):
                if shift_x:
                    _terms(u[start:], v[start:], step, matrix[c], single)
                    _doubled(single, terms[c * wide : c * wide + 2 * count])
                else:
                    _terms(u[start:], v[start:], step, matrix[c], terms[c * wide : c * wide + count])
            before = chroma
        values = y[row * y_row + x0 : row * y_row + x1]
        for c in range(3):
            _levels(values, luma, terms[c * wide + skipped : (c + 1) * wide], planes[c * plane : c * plane + width])
        _interleave(planes, width, out[(row - y0) * width * 3 : (row - y0 + 1) * width * 3])


@cached_jit(
    "none(uint8[::1], int64, int64[::1], float32[:, ::1], uint8[::1])",
    "none(uint16[::1], int64, int64[::1], float32[:, ::1], uint8[::1])",
)
def gray_of_frame(y, y_row, region, matrix, out):
    """Fill ``out`` with the luma (H, W) of a region of a frame; parameters as of :func:`rgb_of_frame`."""
    x0, y0, x1, y1 = region[0], region[1], region[2], region[3]
    width = x1 - x0
    luma, offset = matrix[GRAY, LUMA], matrix[GRAY, OFFSET]
    for row in range(y0, y1):
        values = y[row * y_row + x0 : row * y_row + x1]
        to = out[(row - y0) * width : (row - y0 + 1) * width]
        for k in range(width):
            to[k] = np.uint8(level(f32(values[k]), luma, offset))
