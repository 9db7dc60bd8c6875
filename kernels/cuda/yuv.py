"""Conversion of NVDEC frames in GPU memory to pixels, one thread per pixel, by the CPU's formula.

A frame has a plane of luma and one of chroma, of half the width and height rounded up, with U and V interleaved: NV12
with 8-bit samples, P010 and P016 with 16-bit samples.
"""

from numba import cuda

from ..scalar import f32, i32, scalar, u32, up
from ..yuv import between, chroma_term, level, near_chroma


@scalar
def _pair(chroma, row, left, right, share):
    """Return both kinds of chroma between two columns of a row."""
    at = i32(row + i32(left << 1))
    u, v = f32(chroma[up(at)]), f32(chroma[up(i32(at + 1))])
    if right != left:
        at = i32(row + i32(right << 1))
        u, v = between(u, f32(chroma[up(at)]), share), between(v, f32(chroma[up(i32(at + 1))]), share)
    return u, v


def frame(
    luma, chroma, luma_row, chroma_row, x0, y0, width, pixels, x_step, x_offset, x_mixed, x_last,
    y_step, y_offset, y_mixed, y_last, of_luma, red_u, red_v, red, green_u, green_v, green, blue_u, blue_v, blue,
    channels, start, step_x, step_y, out
):  # fmt: skip
    """Write the pixels of a region of a frame, turned, to the batch (kernel function).

    ``luma_row`` and ``chroma_row`` are samples per row. The region starts at (x0, y0), is ``width`` wide and has
    ``pixels`` pixels. Steps to last samples are those of :func:`gpuimg.kernels.yuv.axes`; ``of_luma`` and, per color,
    the factors of U and V and the offset are the matrix. With one channel only the first color is written. The
    frame's first pixel belongs at ``start``.
    """
    number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= pixels:
        return
    row = i32(u32(number) // u32(width))
    x, y = i32(x0 + i32(number - row * width)), i32(y0 + row)
    value = f32(luma[up(i32(y * luma_row + x))])
    left, right, share = near_chroma(x, x_step, x_offset, x_mixed, x_last)
    top, bottom, below = near_chroma(y, y_step, y_offset, y_mixed, y_last)
    u, v = _pair(chroma, i32(top * chroma_row), left, right, share)
    if bottom != top:
        more_u, more_v = _pair(chroma, i32(bottom * chroma_row), left, right, share)
        u, v = between(u, more_u, below), between(v, more_v, below)
    at = start + step_x * x + step_y * y
    out[up(at)] = level(value, of_luma, chroma_term(u, v, red_u, red_v, red))
    if channels == 3:
        out[up(at + 1)] = level(value, of_luma, chroma_term(u, v, green_u, green_v, green))
        out[up(at + 2)] = level(value, of_luma, chroma_term(u, v, blue_u, blue_v, blue))
