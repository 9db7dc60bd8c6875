"""Conversion of NVDEC frames in GPU memory to pixels, one thread per pixel, by the CPU's formula.

A frame has a plane of luma and one of chroma, of half the width and height rounded up, with U and V interleaved: NV12
with 8-bit samples, P010 and P016 with 16-bit samples.
"""

from __future__ import annotations

from numba import cuda

from ..scalar import f32, i32, up
from ..yuv import chroma_term, level
from .sample import u32


def frame(
    luma, chroma, luma_row, chroma_row, x0, y0, width, pixels, of_luma, red_u, red_v, red, green_u, green_v, green,
    blue_u, blue_v, blue, channels, start, step_x, step_y, out
):  # fmt: skip
    """Write the pixels of a region of a frame, turned, to the batch (kernel function).

    ``luma_row`` and ``chroma_row`` are samples per row. The region starts at (x0, y0), is ``width`` wide and has
    ``pixels`` pixels. ``of_luma`` and, per color, the factors of U and V and the offset are the matrix of
    :mod:`gpuimg.kernels.yuv`; with one channel only the first color is written. The frame's first pixel belongs at
    ``start``.
    """
    number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= pixels:
        return
    row = i32(u32(number) // u32(width))
    x, y = i32(x0 + i32(number - row * width)), i32(y0 + row)
    value = f32(luma[up(i32(y * luma_row + x))])
    pair = i32(i32(y >> 1) * chroma_row + i32(i32(x >> 1) << 1))
    u, v = f32(chroma[up(pair)]), f32(chroma[up(i32(pair + 1))])
    at = start + step_x * x + step_y * y
    out[up(at)] = level(value, of_luma, chroma_term(u, v, red_u, red_v, red))
    if channels == 3:
        out[up(at + 1)] = level(value, of_luma, chroma_term(u, v, green_u, green_v, green))
        out[up(at + 2)] = level(value, of_luma, chroma_term(u, v, blue_u, blue_v, blue))
