"""Conversion of video frames from planes of Y'CbCr to interleaved pixels, on a CPU; formulas are in kernels/yuv.py."""

import numpy as np

from ..compiled import cached_jit
from ..jpeg.color import SPILL, N, rgb_of_planes
from ..scalar import f32, i32, loop, up
from ..yuv import GRAY, LUMA, OFFSET, U, V, between, chroma_term, level, near_chroma


@loop
def _mixed(near, far, step, weight, out):
    # Two loops with constant steps, which vectorize: planes of U and V (1), or one plane with both in turn (2).
    if step == 1:
        for k in range(out.size):
            out[k] = between(f32(near[k]), f32(far[k]), weight)
    else:
        for k in range(out.size):
            out[k] = between(f32(near[up(2 * k)]), f32(far[up(2 * k)]), weight)


@loop
def _terms(u, v, row, out):
    """Compute the contribution of a row of chroma to one color; ``row`` is that color's of the matrix."""
    of_u, of_v, offset = row[U], row[V], row[OFFSET]
    for k in range(out.size):
        out[k] = chroma_term(u[k], v[k], of_u, of_v, offset)


@loop
def _doubled(values, out):
    """Repeat each value: a chroma sample serves two columns of pixels."""
    for k in range(values.size):
        out[up(2 * k)] = values[k]
        out[up(2 * k + 1)] = values[k]


@loop
def _spread(values, first, x0, axis, out):
    """Interpolate values, of which the first is that of column ``first`` of chroma, at the columns from ``x0`` on."""
    for k in range(out.size):
        near, far, weight = near_chroma(x0 + k, axis[0], axis[1], axis[2], axis[3])
        out[k] = between(values[near - first], values[far - first], weight)


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
    "none(uint8[::1], uint8[::1], uint8[::1], int64[::1], float32[:, ::1], int64[::1], float32[:, ::1], float32[::1], "
    "uint8[::1], uint8[::1])",
    "none(uint16[::1], uint16[::1], uint16[::1], int64[::1], float32[:, ::1], int64[::1], float32[:, ::1], "
    "float32[::1], uint8[::1], uint8[::1])",
)
def rgb_of_frame(y, u, v, layout, axes, region, matrix, terms, planes, out):
    """Fill ``out`` with the pixels (H, W, 3) of a region of a frame.

    Parameters
    ----------
    y, u, v : (n,) uint8 or uint16
        Planes. If chroma is interleaved, ``u`` and ``v`` are the same plane, each from its first sample on.
    layout : (3,) int64
        Elements from row to row of luma, from row to row of chroma, and from sample to sample of chroma.
    axes, matrix : (2, 4) float32, (4, 4) float32
        As :func:`gpuimg.kernels.yuv.axes` and :func:`gpuimg.kernels.yuv.matrix` return them.
    region : (4,) int64
        x0, y0, x1, y1.
    terms, planes : (6 * (W + 3),) float32, (3 * (W + N),) uint8
        Scratch.
    """
    y_row, c_row, step = layout[0], layout[1], layout[2]
    x0, y0, x1, y1 = region[0], region[1], region[2], region[3]
    width = x1 - x0
    columns, rows = axes[0], axes[1]
    first = near_chroma(x0, columns[0], columns[1], columns[2], columns[3])[0]
    count = near_chroma(x1 - 1, columns[0], columns[1], columns[2], columns[3])[1] - first + 1
    wide = width + 3  # a pair of pixels may begin before the region and end after it
    chroma_u = terms[3 * wide : 3 * wide + count]
    chroma_v = terms[4 * wide : 4 * wide + count]
    single = terms[5 * wide : 5 * wide + count]  # terms at the width of chroma
    full, repeated = columns[0] == f32(1.0), columns[2] == f32(0.0)
    skipped = x0 - 2 * first if repeated and not full else np.int64(0)  # columns of the first pair before the region
    plane = width + N
    luma = matrix[0, LUMA]
    before, share = i32(-1), f32(-1.0)
    for row in range(y0, y1):
        near, far, weight = near_chroma(row, rows[0], rows[1], rows[2], rows[3])
        if near != before or weight != share:  # two rows of 4:2:0 may share their terms
            one, other = near * c_row + first * step, far * c_row + first * step
            _mixed(u[one:], u[other:], step, weight, chroma_u)
            _mixed(v[one:], v[other:], step, weight, chroma_v)
            for c in range(3):
                if full:
                    _terms(chroma_u, chroma_v, matrix[c], terms[c * wide : c * wide + count])
                else:
                    _terms(chroma_u, chroma_v, matrix[c], single)
                    if repeated:
                        _doubled(single, terms[c * wide : c * wide + 2 * count])
                    else:
                        _spread(single, first, x0, columns, terms[c * wide : c * wide + width])
            before, share = near, weight
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
