"""Device code of a plan: one thread a pixel of the result, every image of the batch in one launch; and of mixing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from .. import cast, color
from ..layout import BFLOAT16, FLOAT16, FLOAT32, HEIGHT, OUTPUT, RECORD_WORDS, UINT8, WIDTH
from ..ops import PLAIN
from ..scalar import i32, scalar, up, word
from .program import make_pixel
from .sample import u32, wide


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


def make_transform(functions: tuple[Any, ...], kind: int, build: str = PLAIN) -> Any:
    """Kernel function: sample, run the program and store, one thread a pixel; ``blockIdx.y`` is the image."""
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
    """Kernel function: images mixed with others, one thread an element; ``blockIdx.y`` is the image."""
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
