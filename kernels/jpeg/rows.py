"""Rows of pixels out of coefficients: planes, of which two MCU rows are kept, at the scale that is asked for.

At a reduced scale a block gives fewer pixels. libjpeg scales chroma by less than luma where that saves upsampling it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..scalar import loop, up
from .color import WIDE, N, rgb_even, rgb_odd, rgb_of_planes, rgb_of_ycc, round_rows, sum_rows
from .frame import MOST_BLOCKS, chroma_side, factors, scaled
from .idct import half2, half4, half8, quarter8, transform2, transform4, transform8
from .layout import COLOR, COMPONENTS, HEIGHT, WIDTH, YCBCR
from .tables import ZIGZAG
from .vectors import fill2, fill4, fill8

i64, i32, i16 = np.int64, np.int32, np.int16

# Columns in front of and behind each row of the planes: neighbors of the chroma at the edges, and what vectors read
# and write there.
PAD: Final = 64

# Numbers of a type of their own: each one written out would be a variant of its own to compile.
_Y, _CB, _CR = i64(0), i64(1), i64(2)  # components

# Words of a shape: what is known of the planes.
_PLACES = 0  # column and row of each block of an MCU in its component's plane
_PLANES = _PLACES + 2 * MOST_BLOCKS  # the words below for each component
_PLANE_WORDS = 6
_EXTRA = _PLANES + 3 * _PLANE_WORDS  # where two rows of chroma made of others lie, behind the planes
_SIDE = _EXTRA + 1  # pixels of a block of luma
_HEIGHT = _SIDE + 1  # of the image at this scale
_WIDTH = _SIDE + 2
_ACROSS = _SIDE + 3  # how many times finer than that of chroma the plane of luma is
_DOWN = _SIDE + 4
_SMOOTH = _SIDE + 5  # whether chroma between its own columns and rows is mixed of its neighbors, or repeated
SHAPE_WORDS: Final = _SIDE + 6

# Words of a plane: where it begins, its stride, blocks of an MCU, rows kept less one, pixels of a block.
_START, _STRIDE, _BLOCKS, _BLOCK_ROWS, _MASK, _BLOCK = range(_PLANE_WORDS)


@loop
def lay_out(header, scale, columns, shape):
    """Fill a shape for so many MCU columns; gives the bytes of the planes."""
    n = header[COMPONENTS]
    across, down = factors(header)
    wide = chroma_side(header, scale)
    blocks = 0
    total = i64(0)
    for c in range(n):
        h, v = (across, down) if c == 0 else (1, 1)
        side = scale if c == 0 else wide
        plane = shape[_PLANES + c * _PLANE_WORDS : _PLANES + (c + 1) * _PLANE_WORDS]
        rows = 2 * side * v
        plane[_STRIDE] = columns * h * side + 2 * PAD
        plane[_START] = total + PAD
        plane[_BLOCKS], plane[_BLOCK_ROWS], plane[_MASK], plane[_BLOCK] = h, v, rows - 1, side
        total += rows * plane[_STRIDE]
        for k in range(h * v):
            shape[_PLACES + 2 * blocks], shape[_PLACES + 2 * blocks + 1] = k % h, k // h
            blocks += 1
    shape[_EXTRA], shape[_SIDE] = total, scale
    shape[_HEIGHT], shape[_WIDTH] = scaled(header[HEIGHT], scale), scaled(header[WIDTH], scale)
    shape[_ACROSS], shape[_DOWN] = (across, down) if wide == scale else (1, 1)
    shape[_SMOOTH] = scale > 1 and (shape[_ACROSS] == 1 or shape[_WIDTH] > 4)
    return total + 2 * (columns * scale * across + 2 * PAD)


# -- blocks ------------------------------------------------------------------------------------------------------------


@loop
def read_steps(data, at, steps):
    """A quantisation table in natural order; its numbers of 16 bits, as products are."""
    wide = data[at] >> 4
    for k in range(64):
        value = i64(data[at + 1 + k])
        if wide:
            value = i64(data[at + 1 + 2 * k]) << 8 | data[at + 2 + 2 * k]
        steps[ZIGZAG[k]] = value


@loop
def _byte(value):
    value += 128
    return 0 if value < 0 else 255 if value > 255 else value


@loop
def _flat(coefficient, step):
    """The value of a block without waves, 0 to 255, rounded and wrapped as in the transform."""
    return _byte((i64(i16(i16(coefficient * step) << 2)) + 16) >> 5)


@loop
def _flat_quarter(coefficient, step):
    """The same in the transform to 2 x 2, whose sums have 32 bits."""
    return _byte(i64(i32((i64(i16(coefficient * step)) << 17) + (1 << 19))) >> 20)


@loop
def _flat_eighth(coefficient, step):
    """The same for a single pixel, of which libjpeg keeps ten bits."""
    return _byte((((coefficient * step + 4) >> 3) + 512 & 1023) - 512)


def _make_blocks(flat, fill, whole, corner4, corner2):
    @loop
    def blocks(first, per, columns, coefficients, lasts, steps, q, planes, at, step, stride):
        """Every block at a place of its MCU to pixels; the coefficients are zero afterwards."""
        for m in range(columns):
            b = first + m * per
            k = up(64 * b)
            to = up(at + m * step)
            last = lasts[up(b)]
            if last == 0:
                value = flat(i64(coefficients[k]), i64(steps[q]))
                coefficients[k] = 0
                fill(planes, to, stride, value)
            elif last < 3:
                corner2(coefficients, k, steps, q, planes, to, stride)
            elif last < 10:
                corner4(coefficients, k, steps, q, planes, to, stride)
            else:
                whole(coefficients, k, steps, q, planes, to, stride)

    return blocks


_blocks8 = _make_blocks(_flat, fill8, transform8, transform4, transform2)
_blocks4 = _make_blocks(_flat, fill4, half8, half4, half2)


@loop
def _blocks2(first, per, columns, coefficients, lasts, steps, q, planes, at, step, stride):
    """The same to 2 x 2 pixels, where forms for few coefficients gain nothing."""
    for m in range(columns):
        b = first + m * per
        k = up(64 * b)
        to = up(at + m * step)
        if lasts[up(b)] == 0:
            value = _flat_quarter(i64(coefficients[k]), i64(steps[q]))
            coefficients[k] = 0
            fill2(planes, to, stride, value)
        else:
            quarter8(coefficients, k, steps, q, planes, to, stride)


@loop
def _blocks1(first, per, columns, coefficients, lasts, steps, q, planes, at, step):
    """The same to a single pixel."""
    for m in range(columns):
        b = first + m * per
        k = 64 * b
        planes[up(at + m * step)] = _flat_eighth(i64(coefficients[up(k)]), i64(steps[q]))
        for z in range(k, k + 64 if lasts[up(b)] else k + 1):
            coefficients[up(z)] = 0


@loop
def transform_row(r, columns, luma_only, parts, shape, coefficients, lasts, steps, planes):
    """One MCU row to the planes; the coefficients are zero afterwards."""
    per = parts[0]
    for j in range(per):
        c = parts[1 + 3 * j]
        if luma_only and c > 0:
            continue
        plane = shape[_PLANES + c * _PLANE_WORDS : _PLANES + (c + 1) * _PLANE_WORDS]
        side = plane[_BLOCK]
        row = side * ((r * plane[_BLOCK_ROWS] + shape[_PLACES + 2 * j + 1]) & (2 * plane[_BLOCK_ROWS] - 1))
        at = plane[_START] + row * plane[_STRIDE] + side * shape[_PLACES + 2 * j]
        step = side * plane[_BLOCKS]
        stride, q = up(plane[_STRIDE]), up(64 * c)
        if side == 8:
            _blocks8(j, per, columns, coefficients, lasts, steps, q, planes, at, step, stride)
        elif side == 4:
            _blocks4(j, per, columns, coefficients, lasts, steps, q, planes, at, step, stride)
        elif side == 2:
            _blocks2(j, per, columns, coefficients, lasts, steps, q, planes, at, step, stride)
        else:
            _blocks1(j, per, columns, coefficients, lasts, steps, q, planes, at, step)


@loop
def clear_chroma(columns, parts, coefficients):
    """Zero the coefficients that are not transformed."""
    per = parts[0]
    for b in range(columns * per):
        if parts[1 + 3 * (b % per)] > 0:
            for k in range(64 * b, 64 * b + 64):
                coefficients[k] = 0


# -- rows of pixels ----------------------------------------------------------------------------------------------------


@loop
def _repeat_edges(planes, plane, first, rows, before, behind):
    """Repeat the image's first and last chroma columns beyond its edges; -1 where the region ends inside."""
    for y in range(first, first + rows):
        row = plane[_START] + (y & plane[_MASK]) * plane[_STRIDE]
        if before >= 0:
            planes[row - 1] = planes[row]
        if behind >= 0:
            planes[row + behind + 1] = planes[row + behind]


@loop
def _put(pixels, count, out, at):
    """The first bytes of pixels that were made beside the result."""
    for k in range(count):
        out[at + k] = pixels[k]


@loop
def _gray_row(planes, at, width, out, o):
    for x in range(width):
        out[o + x] = planes[at + x]


@loop
def _plain_row(convert, planes, y, cb, cr, width, out, o, tail):
    """A row of pixels from planes of the same size: of YCbCr, or of RGB."""
    whole = max(width - 2, 0) // N * N  # so that what is written behind the last pixel is inside the row
    for x in range(0, width, N):
        to, start = (out, up(o + 3 * x)) if x < whole else (tail, up(0))
        if convert:
            rgb_of_ycc(planes, up(y + x), up(cb + x), up(cr + x), to, start)
        else:
            rgb_of_planes(planes, up(y + x), up(cb + x), up(cr + x), to, start)
        if x >= whole:
            _put(tail, 3 * min(width - x, N), out, o + 3 * x)


@loop
def _upsampled_row(planes, y, sums, second, odd, low, high, width, out, o, tail):
    """A row of pixels from luma and sums of chroma rows of half its width; those of Cr begin at ``second``."""
    whole = max(width - 2, 0) // WIDE * WIDE
    for x in range(0, width, WIDE):
        to, start = (out, up(o + 3 * x)) if x < whole else (tail, up(0))
        k = up((x >> 1) + 1)
        if odd:
            rgb_odd(planes, up(y + x), sums, k, up(second) + k, to, start, low, high)
        else:
            rgb_even(planes, up(y + x), sums, k, up(second) + k, to, start, low, high)
        if x >= whole:
            _put(tail, 3 * min(width - x, WIDE), out, o + 3 * x)


@loop
def _row_of(shape, c, y):
    """Where a row of a plane begins."""
    plane = shape[_PLANES + c * _PLANE_WORDS : _PLANES + (c + 1) * _PLANE_WORDS]
    return plane[_START] + (y & plane[_MASK]) * plane[_STRIDE]


@loop
def _repeated(shape, planes, c, y, x0, width, to):
    """A row of chroma each of whose columns and rows stands for as many of luma as it is coarser."""
    row = _row_of(shape, c, y >> (shape[_DOWN] - 1))
    for x in range(width):
        planes[to + x] = planes[row + (x0 + x >> (shape[_ACROSS] - 1))]


@loop
def _summed(shape, planes, y, left, n, sums, second):
    """Sums of the two rows of chroma that are nearest to a row of luma; those of Cr from ``second`` on."""
    near, far = y, y
    if shape[_DOWN] == 2:
        near = y >> 1
        far = near + 1 if y & 1 else max(near - 1, 0)
        far = min(far, ((shape[_HEIGHT] + 1) >> 1) - 1)
    for c in range(_CB, _CR + 1):
        one, other = _row_of(shape, c, near) + left, _row_of(shape, c, far) + left
        for k in range(0, n, N):
            sum_rows(planes, up(one + k), up(other + k), sums, up((c - 1) * second + k))


@loop
def _color_row(header, shape, planes, y, x0, width, sums, out, o, tail):
    """Row ``y`` of the image as RGB, from column ``x0`` of the planes on."""
    luma = _row_of(shape, _Y, y) + x0
    blue, red = luma, luma
    across, down = shape[_ACROSS], shape[_DOWN]
    if across == 1 and down == 1:
        if header[COMPONENTS] != 1:
            blue, red = _row_of(shape, _CB, y) + x0, _row_of(shape, _CR, y) + x0
    else:
        left = (x0 >> 1) - 1 if across == 2 else x0
        n = (width >> 1) + 3 if across == 2 and shape[_SMOOTH] else width
        second = (n + 2 * N) // N * N
        blue, red = shape[_EXTRA], shape[_EXTRA] + second
        if not shape[_SMOOTH]:
            _repeated(shape, planes, _CB, y, x0, width, blue)
            _repeated(shape, planes, _CR, y, x0, width, red)
        else:
            _summed(shape, planes, y, left, n, sums, second)
            if across == 2:
                low, high = (8, 7) if down == 2 else (4, 8)
                _upsampled_row(planes, luma, sums, second, x0 & 1, low, high, width, out, o, tail)
                return
            for k in range(0, 2 * second, N):
                round_rows(sums, up(k), 2 if y & 1 else 1, planes, up(blue + k))
    _plain_row(header[COLOR] == YCBCR, planes, luma, blue, red, width, out, o, tail)


@loop
def _finished_rows(r, rows, shape):
    """Rows of pixels that can be made once MCU row ``r`` is there: the last one of two may need chroma of the next."""
    waits = shape[_DOWN] == 2 and shape[_SMOOTH] and r + 1 < rows
    return (r + 1) * shape[_SIDE] * shape[_PLANES + _BLOCK_ROWS] - (1 if waits else 0)


@loop
def make_rows(header, r, rows, first, region, columns, channels, shape, planes, sums, out, tail, done):
    """Rows of pixels that MCU row ``r`` completes, behind those ``done``; gives how many are then."""
    x0, y0, x1, y1 = region[0], region[1], region[2], region[3]
    side = shape[_SIDE]
    width = x1 - x0
    left = x0 - first * side * shape[_PLANES + _BLOCKS]
    if shape[_ACROSS] == 2 and channels == 3:
        edge = (shape[_WIDTH] + 1) // 2 - 1 - first * side
        before, behind = 0 if first == 0 else -1, edge if edge < columns * side else -1
        for c in range(_CB, _CR + 1):
            chroma = shape[_PLANES + c * _PLANE_WORDS : _PLANES + (c + 1) * _PLANE_WORDS]
            _repeat_edges(planes, chroma, side * r, side, before, behind)
    stop = min(y1, _finished_rows(r, rows, shape))
    for y in range(y0 + done, stop):
        o = (y - y0) * width * channels
        if channels == 1:
            _gray_row(planes, _row_of(shape, _Y, y) + left, width, out, o)
        else:
            _color_row(header, shape, planes, y, left, width, sums, out, o, tail)
    return max(stop - y0, done)
