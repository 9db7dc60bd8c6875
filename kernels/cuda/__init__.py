"""The CUDA runtime's loops: one thread a pixel of the result, every image of the batch in one launch.

This folder alone imports ``numba.cuda``. Device code here finds its pixel, walks the taps and the program, and stores;
every formula is a scalar function the CPU's loops call too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, types
from numba.cuda.core import config

from .. import cast, color
from ..layout import BFLOAT16, FLOAT16, FLOAT32, HEIGHT, OUTPUT, RECORD_WORDS, UINT8, WIDTH
from ..scalar import i32, scalar, up, word
from . import jpeg
from .program import make_pixel
from .sample import wide
from .statistics import EXTREMES, make_statistics

# Numba takes a launch of less than 128 blocks for a mistake; that of a small batch is none. There is no way to say so
# for one launch.
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

# Threads of a block, one pixel each. Statistics take the largest block, so that few blocks add to an image's sums.
BLOCK = 256
STATISTICS_BLOCK = 1024

__all__ = [
    "BLOCK",
    "EXTREMES",
    "MIX_SIGNATURE",
    "STATISTICS_BLOCK",
    "compile_ptx",
    "jit",
    "jpeg",
    "make_statistics",
    "make_transform",
    "mix",
    "statistics_signature",
    "transform_signature",
]


@scalar
def _encode_float32(x):
    return x


@scalar
def _encode_uint8(x):
    return np.uint8(color.store_byte(x))


@scalar
def _encode_float16(x):
    return np.uint16(cast.float16_bits(x))


@scalar
def _encode_bfloat16(x):
    return np.uint16(cast.bfloat16_bits(x))


_ENCODE = {FLOAT32: _encode_float32, UINT8: _encode_uint8, FLOAT16: _encode_float16, BFLOAT16: _encode_bfloat16}
_STORED = {FLOAT32: types.float32, UINT8: types.uint8, FLOAT16: types.uint16, BFLOAT16: types.uint16}
_SOURCES = {"uint8": types.uint8, "float32": types.float32}


def make_transform(functions: tuple[Any, ...], kind: int, neighbors: bool = False) -> Any:
    """Kernel function: sample, run the program and store, one thread a pixel; ``blockIdx.y`` is the image."""
    pixel = make_pixel(functions, neighbors)
    encode = _ENCODE[kind]

    def transform(
        source, channels, scale, ints, floats, programs, program_words, tables, table_words, out, out_channels, planar
    ):  # fmt: skip
        image = i32(cuda.blockIdx.y)
        record = i32(image * RECORD_WORDS)
        height = word(ints, record, HEIGHT)
        width = word(ints, record, WIDTH)
        number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
        if number >= height * width:
            return
        program = i32(image * program_words)
        r, g, b = pixel(
            source, channels, scale, ints, floats, record, programs, program, i32(program + program_words), tables,
            i32(image * table_words), number
        )  # fmt: skip
        base = wide(ints, record + OUTPUT)
        if planar == 1:
            at = base + np.int64(number)
            plane = np.int64(height * width)
        else:
            at = base + np.int64(number) * np.int64(out_channels)
            plane = np.int64(1)
        out[up(at)] = encode(r)
        if out_channels == 3:
            out[up(at + plane)] = encode(g)
            out[up(at + plane + plane)] = encode(b)

    return transform


def mix(one, other, width, channels, elements, weights, starts, partners, boxes, out):
    """Kernel function: images mixed with others, one thread an element; ``blockIdx.y`` is the image."""
    image = i32(cuda.blockIdx.y)
    number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= word(elements, image, 0):
        return
    row = i32(word(width, image, 0) * channels)
    y = i32(number // row)
    x = i32(number - y * row) // channels
    at = up(word(starts, image, 0) + np.int64(number))
    b = other[up(word(partners, image, 0) + np.int64(number))]
    box = i32(image * 4)
    inside = (
        x >= word(boxes, box, 0) and y >= word(boxes, box, 1) and x < word(boxes, box, 2) and y < word(boxes, box, 3)
    )
    out[at] = b if inside else color.mix(one[at], b, word(weights, image, 0))


MIX_SIGNATURE = types.void(
    types.float32[::1], types.float32[::1], types.int32[::1], types.int32, types.int32[::1], types.float32[::1],
    types.int64[::1], types.int64[::1], types.int32[::1], types.float32[::1]
)  # fmt: skip
_COMMON = (types.int32, types.float32, types.int32[::1], types.float32[::1], types.float32[::1], types.int32,
           types.float32[::1], types.int32)  # fmt: skip


def transform_signature(source: str, kind: int) -> Any:
    """Types of :func:`make_transform`'s kernel for a source dtype and a kind of result."""
    return types.void(_SOURCES[source][::1], *_COMMON, _STORED[kind][::1], types.int32, types.int32)


def statistics_signature(source: str) -> Any:
    """Types of :func:`make_statistics`' kernel for a source dtype."""
    return types.void(
        _SOURCES[source][::1], *_COMMON, types.int32, types.int64[::1], types.int32[::1], types.int32[::1],
        types.int32[::1]
    )  # fmt: skip


def jit(function: Any, signature: Any, block: int | None = None) -> Any:
    """Compile a kernel for the present device; ``block`` where it must fit blocks of that many threads."""
    return cuda.jit(signature, fastmath=True, launch_bounds=block)(function)


def compile_ptx(function: Any, signature: Any, capability: tuple[int, int], block: int | None = None) -> str:
    """PTX of a kernel for a compute capability; needs no GPU."""
    ptx, _ = cuda.compile_ptx(function, signature, fastmath=True, launch_bounds=block, cc=capability)
    return str(ptx)
