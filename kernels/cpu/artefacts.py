"""JPEG compression artifacts on a CPU: pixels are transformed, quantized and transformed back, an MCU row at a time.

The result is that of encoding with libjpeg at 4:2:0 and decoding again, without the Huffman code, which is lossless.
From the planes of samples on, the way back is the decoder's.
"""

from typing import Final

import numpy as np

from .. import color
from ..jpeg import formulas
from ..jpeg.color import SPILL, N, floats_of_rgb
from ..jpeg.forward import GROUP, QUANTIZERS, set_quantizers, transform_two, ycc_of_planes
from ..jpeg.frame import FULL, set_frame
from ..jpeg.idct import two8
from ..jpeg.layout import GRAY, HEADER, YCBCR
from ..jpeg.planes import make_fill_planes, repeat_pixel
from ..jpeg.rows import SHAPE, make_rows, room_for_rows, row_of
from ..layout import SCALES
from ..scalar import f32, i32, i64, loop, up
from .intrinsics import address_of, array_at, bytes_at, records_in, shorts_in

_UNIT = SCALES["uint8"]
_BLOCK: Final = 64
_PAIR: Final = 4 * FULL  # columns of two blocks of chroma: rows are that wide, or a multiple

#: The first part of the scratch.
_WORK: Final = np.dtype([("header", HEADER), ("shape", SHAPE), ("region", "<i8", 4)], align=True)
_WORK_BYTES: Final = _WORK.itemsize
_work_in = records_in(_WORK)

# The bytes of the scratch: the above, tables and what make_rows needs; some for each column; and the grid's pixels.
_FIXED: Final = _WORK_BYTES + (1 << 14)
_ROWS: Final = 7  # rows of bytes: red, green and blue, then two each of Cb and Cr
_A_COLUMN: Final = 64


@loop
def _widened(width):
    return -(-width // _PAIR) * _PAIR


@loop
def work_for(height, width):
    """Return the elements, float32, of the scratch of :func:`compress`."""
    return (_FIXED + _A_COLUMN * _widened(width) + 3 * height * width) // 4 + 1


@loop
def _fill_row(values, row):
    """Store values of the grid as bytes, the last one up to the end of the row."""
    for x in range(values.size):
        row[x] = np.uint8(i32(color.store_byte(values[x])))
    repeat_pixel(row, i64(0), values.size, row.size)


@loop
def _gray_row(source, y, row):
    colors, _, width = source
    _fill_row(colors[0][y * width : (y + 1) * width], row)


@loop
def _color_row(source, y, wide, luma, at, chroma, cb, cr):
    colors, rows, width = source
    for c in range(3):
        _fill_row(colors[c][y * width : (y + 1) * width], rows[c * wide : (c + 1) * wide])
    for x in range(0, wide, GROUP):
        ycc_of_planes(
            rows, up(x), up(wide + x), up(2 * wide + x), luma, up(at + x), chroma, up(cb + x), up(cr + x)
        )  # fmt: skip


_fill_planes = make_fill_planes(_gray_row, _color_row)


@loop
def _code_planes(header, shape, r, columns, quantizers, steps, coefficients, planes):
    """Transform and quantize the blocks of MCU row ``r``, and transform them back, in place."""
    for c in range(header.components):
        plane, table = shape.planes[c], min(c, 1)
        q, k, stride = up(QUANTIZERS * table), up(_BLOCK * table), up(plane.stride)
        for y in range(plane.block_rows):
            at = row_of(shape, c, FULL * (r * plane.block_rows + y))
            for x in range(0, FULL * plane.blocks * columns, 2 * FULL):
                place = up(at + x)
                transform_two(planes, place, stride, quantizers, q, coefficients, up(0), up(_BLOCK))
                two8(coefficients, up(0), up(_BLOCK), steps, k, planes, place, up(FULL), stride)


@loop
def _take_rows(pixels, first, stop, channels, r, g, b):
    """Replace rows ``first`` to ``stop`` of the grid, by the places of their first values, with pixels."""
    whole = first + (stop - first) // N * N if channels == 3 else first
    for k in range(first, whole, N):
        floats_of_rgb(pixels, up(3 * k), _UNIT, r, g, b, up(k))
    for k in range(whole, stop):
        at = channels * k
        r[k], g[k] = f32(pixels[at]) * _UNIT, f32(pixels[at + channels // 2]) * _UNIT
        b[k] = f32(pixels[at + channels - 1]) * _UNIT


def compress(params_, statistics_, r_, g_, b_, height, width, work_, ints_):
    """Replace the grid with its pixels after a JPEG of 4:2:0, or of gray."""
    n, wide = height * width, _widened(width)
    params = array_at(params_, 2)
    r, g, b = array_at(r_, n), array_at(g_, n), array_at(b_, n)
    channels = i64(1) if params[1] == f32(0.0) else i64(3)
    memory = bytes_at(address_of(array_at(work_, 1)), 4 * work_for(height, width))
    work = _work_in(memory, 0, 1)[0]
    header, shape, region = work.header, work.shape, work.region
    header.components, header.color = channels, GRAY if channels == 1 else YCBCR
    header.height, header.width = height, width
    header.sampling[0], header.sampling[1], header.sampling[2] = 0x22, 0x11, 0x11
    set_frame(header)
    region[0], region[1], region[2], region[3] = 0, 0, width, height
    at = _WORK_BYTES
    quantizers, coefficients = shorts_in(memory, at, 2 * QUANTIZERS), shorts_in(memory, at + 4 * QUANTIZERS, 2 * _BLOCK)
    at += 4 * QUANTIZERS + 4 * _BLOCK
    rows, pixels = memory[at : at + _ROWS * wide], memory[at + _ROWS * wide : at + _ROWS * wide + 3 * n + SPILL]
    at += rows.size + (pixels.size + 1 & ~1)
    columns = wide // (FULL * header.across[0])
    steps, sums, tail, planes = room_for_rows(header, i64(FULL), columns, memory, at, shape)
    set_quantizers(formulas.limited(i32(params[0]), 1, 100), quantizers, steps)
    stop = i64(0)
    for row in range(header.rows):
        _fill_planes(header, shape, row, ((r, g, b), rows, width), wide, rows[3 * wide :], planes)
        _code_planes(header, shape, row, columns, quantizers, steps, coefficients, planes)
        make_rows(header, row, i64(0), region, columns, channels, shape, planes, sums, pixels, tail)
        first, stop = stop, shape.done if channels == 3 else min(height, i64(FULL * (row + 1)))
        _take_rows(pixels, first * width, stop * width, channels, r, g, b)
