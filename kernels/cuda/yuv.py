"""Frames of NVDEC in a GPU's memory to pixels at their places, a thread a pixel, by the formula of the CPU.

Frames are a plane of luma and one of chroma, of half its width and height rounded up, in which the two kinds alternate:
NV12 of bytes, P010 and P016 of words.
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
    """Kernel function: pixels of a region of a frame, turned, at their places.

    ``luma_row`` and ``chroma_row`` are samples from row to row. The region begins at (x0, y0), is so wide, and has so
    many ``pixels``. What a sample of luma and of both chromas is worth, and what is added, are those of a matrix of
    :mod:`gpuimg.kernels.yuv`; of one channel its first color is written. The frame's first pixel belongs at ``start``.
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
