"""JPEG compression artifacts on a CPU: pixels are transformed, quantized and transformed back, block by block.

The result is that of encoding with libjpeg at 4:2:0 and decoding again, without the Huffman code, which is lossless.
"""

import numpy as np

from .. import color
from ..jpeg import formulas
from ..jpeg.idct import FIRST, SECOND
from ..layout import SCALES
from ..scalar import f32, i32, loop
from .intrinsics import array_at

_SIDE = 8
_BLOCK = _SIDE * _SIDE
_UNIT = SCALES["uint8"]
_LUMA, _CHROMA = (np.array(steps, np.int32) for steps in formulas.STEPS)


@loop
def work_for(height, width):
    """Return the elements of the scratch of :func:`compress`: two planes of chroma, as wide as whole blocks."""
    return 2 * (-(-height // 2)) * _SIDE * -(-width // (2 * _SIDE))


#: Elements of its int32 scratch: a block, and the quantization steps of its coefficients.
WORK_INTS = 2 * _BLOCK


def _make_pass(transform, bits, step):
    """Return a pass of a transform over a block, in place: over its rows with ``step`` 1, its columns with 8."""
    other = 1 if step == _SIDE else _SIDE  # elements from one such row or column to the next

    @loop
    def run(block):
        for k in range(_SIDE):
            at = other * k
            o0, o1, o2, o3, o4, o5, o6, o7 = transform(
                block[at], block[at + step], block[at + 2 * step], block[at + 3 * step], block[at + 4 * step],
                block[at + 5 * step], block[at + 6 * step], block[at + 7 * step], bits
            )  # fmt: skip
            block[at], block[at + step], block[at + 2 * step], block[at + 3 * step] = o0, o1, o2, o3
            block[at + 4 * step], block[at + 5 * step] = o4, o5
            block[at + 6 * step], block[at + 7 * step] = o6, o7

    return run


# In the order of libjpeg: forward over rows first, inverse over columns first. The order decides how values round.
_forward_rows = _make_pass(formulas.forward, formulas.FORWARD_FIRST, 1)
_forward_columns = _make_pass(formulas.forward, formulas.FORWARD_SECOND, _SIDE)
_inverse_columns, _inverse_rows = _make_pass(formulas.inverse, FIRST, _SIDE), _make_pass(formulas.inverse, SECOND, 1)


@loop
def _code_block(block, steps):
    """Transform, quantize and transform back a block of level-shifted samples, in place."""
    _forward_rows(block)
    _forward_columns(block)
    for k in range(_BLOCK):
        block[k] = formulas.coded(block[k], steps[k])
    _inverse_columns(block)
    _inverse_rows(block)


@loop
def _code_plane(plane, height, width, base, quality, work):
    """Compress and decompress a plane of bytes, in place; its last row and column are repeated for whole blocks."""
    # One table of steps for the plane, scaled to the quality; then block by block.
    block, steps = work[:_BLOCK], work[_BLOCK : 2 * _BLOCK]
    for k in range(_BLOCK):
        steps[k] = formulas.step_of(base[k], quality)
    for top in range(0, height, _SIDE):
        for left in range(0, width, _SIDE):
            for y in range(_SIDE):
                row = min(top + y, height - 1) * width
                for x in range(_SIDE):
                    block[_SIDE * y + x] = i32(plane[row + min(left + x, width - 1)]) - i32(formulas.CENTER)
            _code_block(block, steps)
            for y in range(min(_SIDE, height - top)):
                row = (top + y) * width + left
                for x in range(min(_SIDE, width - left)):
                    plane[row + x] = f32(formulas.limited(i32(block[_SIDE * y + x] + formulas.CENTER), 0, 255))


@loop
def _halve(plane, height, width, out, out_width):
    """Reduce chroma to half its width and height; the last column of pixels is repeated for whole blocks."""
    for y in range((height + 1) // 2):
        above = plane[2 * y * width : (2 * y + 1) * width]
        bottom = min(2 * y + 1, height - 1)
        below = plane[bottom * width : (bottom + 1) * width]
        for x in range(out_width):
            left, right = min(2 * x, width - 1), min(2 * x + 1, width - 1)
            value = formulas.halved(i32(above[left]), i32(above[right]), i32(below[left]), i32(below[right]), x)
            out[y * out_width + x] = f32(value)


@loop
def _chroma_at(plane, near, far, column, side, bias):
    # ``near`` and ``far`` are where two chroma rows begin, ``column`` and ``side`` the nearer and the farther column.
    return formulas.mixed(i32(plane[near + column]), i32(plane[far + column]), i32(plane[near + side]),
                 i32(plane[far + side]), bias)  # fmt: skip


@loop
def _to_colors(r, g, b, height, width, cb, cr, chroma_width):
    """Convert luma, which is in the red plane, and chroma planes to colors of 0 to 1."""
    last_row, last_column = (height - 1) // 2, (width - 1) // 2
    smooth = last_column > 1  # libjpeg repeats the chroma of narrower images
    for y in range(height):
        near = (y >> 1) * chroma_width
        far = formulas.second_nearest(i32(y), last_row) * chroma_width if smooth else near
        for x in range(width):
            k = y * width + x
            column = x >> 1
            side = formulas.second_nearest(i32(x), last_column) if smooth else column
            bias = i32(8 - (x & 1))  # of 16: exact halves alternate
            blue = _chroma_at(cb, near, far, column, side, bias)
            red = _chroma_at(cr, near, far, column, side, bias)
            one, two, three = formulas.rgb_of(i32(r[k]), blue, red)
            r[k], g[k], b[k] = f32(one) * _UNIT, f32(two) * _UNIT, f32(three) * _UNIT


@loop
def _compress_gray(quality, r, g, b, height, width, ints):
    for k in range(r.size):
        r[k] = color.store_byte(r[k])
    _code_plane(r, height, width, _LUMA, quality, ints)
    for k in range(r.size):
        r[k] *= _UNIT
        g[k] = b[k] = r[k]


def compress(params_, statistics_, r_, g_, b_, height, width, work_, ints_):
    """Replace the grid with its pixels after a JPEG of 4:2:0, or of gray."""
    n = height * width
    params, ints = array_at(params_, 2), array_at(ints_, WORK_INTS)
    r, g, b = array_at(r_, n), array_at(g_, n), array_at(b_, n)
    quality = formulas.limited(i32(params[0]), 1, 100)
    if params[1] == f32(0.0):
        _compress_gray(quality, r, g, b, height, width, ints)
        return
    # The planes of the grid hold luma and chroma as float32 bytes meanwhile; chroma is then reduced to scratch.
    for k in range(n):
        red, green, blue = i32(color.store_byte(r[k])), i32(color.store_byte(g[k])), i32(color.store_byte(b[k]))
        one, other = formulas.chroma_of(red, green, blue)
        r[k], g[k], b[k] = f32(formulas.luma_of(red, green, blue)), f32(one), f32(other)
    rows, columns = (height + 1) // 2, _SIDE * ((width + 2 * _SIDE - 1) // (2 * _SIDE))
    half = array_at(work_, 2 * rows * columns)
    cb, cr = half[: rows * columns], half[rows * columns :]
    _halve(g, height, width, cb, columns)
    _halve(b, height, width, cr, columns)
    _code_plane(r, height, width, _LUMA, quality, ints)
    _code_plane(cb, rows, columns, _CHROMA, quality, ints)
    _code_plane(cr, rows, columns, _CHROMA, quality, ints)
    _to_colors(r, g, b, height, width, cb, cr, columns)
