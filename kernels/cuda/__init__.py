"""The CUDA kernels: one thread per pixel of the result, all images of a batch in one launch.

Only this folder imports ``numba.cuda``. Device code here locates its pixel, walks the taps and the program, and stores;
every formula is a scalar function that the CPU's loops call too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda, types

from .. import cast, color
from ..layout import BFLOAT16, FLOAT16, FLOAT32, HEIGHT, OUTPUT, RECORD_WORDS, UINT8, WIDTH
from ..ops import FULL, MOVING, PLAIN
from ..scalar import i32, scalar, up, word
from . import artefacts, elastic, jpeg, marks, yuv
from .kernel import Image, Kernel, assembled, compile_ptx, supported, toolchain
from .program import make_pixel
from .sample import u32, wide
from .statistics import EXTREMES, make_statistics

# Threads per block, one pixel each. Statistics use the largest block, so that few blocks add to an image's sums.
# With five blocks per multiprocessor a thread has 48 registers, and more threads hide the latency of pixel reads;
# motion blur needs a few more registers.
BLOCK = 256
_BLOCKS = {PLAIN: 5, FULL: 5, MOVING: 4}
STATISTICS_BLOCK = 1024

__all__ = [
    "BLOCK",
    "EXTREMES",
    "MIX",
    "STATISTICS_BLOCK",
    "Image",
    "Kernel",
    "artefacts",
    "assembled",
    "compile_ptx",
    "elastic",
    "every_kernel",
    "jpeg",
    "make_statistics",
    "make_transform",
    "marks",
    "mix",
    "statistics_kernel",
    "supported",
    "toolchain",
    "transform_kernel",
    "yuv",
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
_KINDS = {FLOAT32: "float32", UINT8: "uint8", FLOAT16: "float16", BFLOAT16: "bfloat16"}
_STORED = {FLOAT32: types.float32, UINT8: types.uint8, FLOAT16: types.uint16, BFLOAT16: types.uint16}
_SOURCES = {"uint8": types.uint8, "float32": types.float32}


def make_transform(functions: tuple[Any, ...], kind: int, build: str = PLAIN) -> Any:
    """Return the kernel function that samples, runs the program and stores: one thread per pixel, y is the image."""
    pixel = make_pixel(functions, build)
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
    """Mix each image with another (kernel function): one thread per element, ``blockIdx.y`` is the image."""
    image = i32(cuda.blockIdx.y)
    number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= word(elements, image, 0):
        return
    row = i32(word(width, image, 0) * channels)
    y = i32(u32(number) // u32(row))
    x = i32(u32(number - y * row) // u32(channels))
    at = up(word(starts, image, 0) + np.int64(number))
    b = other[up(word(partners, image, 0) + np.int64(number))]
    box = i32(image * 4)
    inside = (
        x >= word(boxes, box, 0) and y >= word(boxes, box, 1) and x < word(boxes, box, 2) and y < word(boxes, box, 3)
    )
    out[at] = b if inside else color.mix(one[at], b, word(weights, image, 0))


MIX = Kernel("mix", mix, types.void(
    types.float32[::1], types.float32[::1], types.int32[::1], types.int32, types.int32[::1], types.float32[::1],
    types.int64[::1], types.int64[::1], types.int32[::1], types.float32[::1]
), BLOCK)  # fmt: skip
_COMMON = (types.int32, types.float32, types.int32[::1], types.float32[::1], types.float32[::1], types.int32,
           types.float32[::1], types.int32)  # fmt: skip


@lru_cache(maxsize=256)
def transform_kernel(functions: tuple[Any, ...], source: str, kind: int, build: str) -> Kernel:
    """Return :func:`make_transform`'s kernel for a source dtype and a kind of result."""
    signature = types.void(_SOURCES[source][::1], *_COMMON, _STORED[kind][::1], types.int32, types.int32)
    name = _name("transform", functions, source, _KINDS[kind], build)
    return Kernel(name, make_transform(functions, kind, build), signature, BLOCK, _BLOCKS[build], users=functions)


@lru_cache(maxsize=256)
def statistics_kernel(functions: tuple[Any, ...], source: str, build: str) -> Kernel:
    """Return :func:`make_statistics`' kernel for a source dtype."""
    signature = types.void(
        _SOURCES[source][::1], *_COMMON, types.int32, types.int64[::1], types.int32[::1], types.int32[::1],
        types.int32[::1]
    )  # fmt: skip
    name = _name("statistics", functions, source, build)
    return Kernel(name, make_statistics(functions, build), signature, STATISTICS_BLOCK, users=functions)


def _name(kernel: str, functions: tuple[Any, ...], *variant: str) -> str:
    return "_".join(part for part in (kernel, *variant, "user" if functions else "") if part)


def every_kernel() -> list[Kernel]:
    """Return all kernels that need no user function."""
    variants = [statistics_kernel((), source, build) for source in _SOURCES for build in _BLOCKS]
    variants += [
        transform_kernel((), source, kind, build) for source in _SOURCES for build in _BLOCKS for kind in _KINDS
    ]
    return list(dict.fromkeys([*Kernel.all, *variants]))
