"""Device code of a plan: one thread a pixel of the result, every image of the batch in one launch; and of mixing."""

from typing import Any

import numpy as np
from numba import cuda

from .. import color
from ..cast import CONVERSIONS
from ..layout import IN_RECORD, PATCHES, PLANES, RECORD_WORDS
from ..ops import PLAIN
from ..scalar import i32, make_patch_number, scalar, u32, up, wide, word
from .program import make_pixel

_patch_number = make_patch_number(u32)  # divisions of 32 bits


@scalar
def _in_patches(number, image_width, height, width, merge, size, row, column):
    """Return the element of a pixel, counted from that of the image's first pixel; see :class:`PatchLayout`."""
    y = i32(u32(number) // u32(image_width))
    x = i32(number - y * image_width)
    top, left = i32(u32(y) // u32(height)), i32(u32(x) // u32(width))
    across = i32(u32(image_width + width - 1) // u32(width))
    patch = i32(_patch_number(u32(top), u32(left), u32(across), u32(merge)))
    inner = i32(i32(i32(y - i32(top * height)) * row) + i32(i32(x - i32(left * width)) * column))
    return np.int64(patch) * size + np.int64(inner)


def make_transform(functions: tuple[Any, ...], kind: int, build: str = PLAIN) -> Any:
    """Kernel function: sample, run the program and store, one thread a pixel; ``blockIdx.y`` is the image."""
    pixel = make_pixel(functions, build)
    encode = CONVERSIONS[kind]

    def transform(
        source, channels, scale, ints, floats, programs, program_words, tables, table_words, out, out_channels, form,
        patch_height, patch_width, merge, size, patch_plane, row, column, repeats, repeat,
    ):  # fmt: skip
        image = i32(cuda.blockIdx.y)
        record = i32(image * RECORD_WORDS)
        height = word(ints, record, IN_RECORD.height)
        width = word(ints, record, IN_RECORD.width)
        number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
        if number >= height * width:
            return
        program = i32(image * program_words)
        r, g, b = pixel(
            source, channels, scale, ints, floats, record, programs, program, i32(program + program_words), tables,
            i32(image * table_words), number
        )  # fmt: skip
        base = wide(ints, record + IN_RECORD.output)
        if form == PATCHES:
            at = base + _in_patches(number, width, patch_height, patch_width, merge, size, row, column)
            plane = patch_plane
        elif form == PLANES:
            at = base + np.int64(number)
            plane = np.int64(height * width)
        else:
            at = base + np.int64(number) * np.int64(out_channels)
            plane = np.int64(1)
        last = at + np.int64(repeats - 1) * repeat
        red, green, blue = encode(r), encode(g), encode(b)
        while True:  # a count of repetitions, which the compiler can see, would have it unroll this
            out[up(at)] = red
            if out_channels == 3:
                out[up(at + plane)] = green
                out[up(at + plane + plane)] = blue
            if at == last:
                break
            at += repeat

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
