"""Rows of pixels from coefficients, through planes with two MCU rows, at the requested scale.

At a reduced scale a block has fewer pixels. libjpeg scales chroma by less than luma if it then needs no upsampling.
"""

from typing import Final

import numpy as np

from ..compiled import NativeFunction
from ..cpu.intrinsics import BYTES, array_at, caller, shorts_in
from ..lang import from_dtype, types
from ..scalar import loop, up
from .color import SPILL, WIDE, N, rgb_even, rgb_odd, rgb_of_planes, rgb_of_ycc, round_rows, sum_rows
from .formulas import divided
from .frame import MCU, chroma_factors, chroma_side, is_too_narrow, region_bytes, scaled
from .idct import half2, half4, half8, quarter8, transform2, transform4, transform8, two8
from .layout import HEADER, MOST_BLOCKS, REQUEST, YCBCR
from .tables import ZIGZAG
from .vectors import fill2, fill4, fill8

i64, i32, i16 = np.int64, np.int32, np.int16

# Columns before and after each row of the planes: neighbors of the chroma at the edges, and the rest of vectors that
# begin or end there.
PAD: Final = 64

_STEPS: Final = 3 * 64  # of the quantization of three components
_TAIL: Final = 3 * WIDE + SPILL  # bytes of the end of a row

# Not literals: Numba would compile a variant for each.
_Y, _CB, _CR = i64(0), i64(1), i64(2)  # components

_PLANE: Final = np.dtype(
    [
        ("start", "<i8"),  # byte of the planes where column 0 of its first row lies
        ("stride", "<i8"),  # bytes from one row to the next
        ("blocks", "<i8"),  # of an MCU across,
        ("block_rows", "<i8"),  # and down
        ("mask", "<i8"),  # rows of two MCU rows, a power of two, less one: row y of the image is row y & mask
        ("side", "<i8"),  # pixels of a side of a block: 8, 4, 2 or 1
    ],
    align=True,
)

#: Layout of the planes of an image in memory, and the conversion to pixels.
SHAPE: Final = np.dtype(
    [
        ("planes", _PLANE, 3),  # of Y, Cb and Cr, or of R, G and B
        ("column", "<i8", MOST_BLOCKS),  # of each block of an MCU: its column of blocks in the MCU's part of its plane,
        ("row", "<i8", MOST_BLOCKS),  # and its row
        ("extra", "<i8"),  # byte after the planes: room for two rows of upsampled chroma
        ("height", "<i8"),  # pixels of the image at this scale
        ("width", "<i8"),
        ("across", "<i8"),  # columns of luma for one of chroma
        ("down", "<i8"),  # rows of luma for one of chroma
        ("smooth", "<i8"),  # 1 if chroma is interpolated between its columns and rows, 0 if it is repeated
        ("done", "<i8"),  # rows of RGB of the result that are done
    ],
    align=True,
)


@loop
def lay_out(header, scale, columns, shape):
    """Fill a shape for rows of ``columns`` MCUs, none of which is done yet; return the bytes of the planes."""
    shape.done = blocks = 0
    total = i64(0)
    for c in range(header.components):
        h, v = header.across[c], header.down[c]
        side = scale if c == 0 else chroma_side(header, scale)
        plane = shape.planes[c]
        rows = 2 * side * v  # a power of two: side and v are
        plane.stride = columns * h * side + 2 * PAD
        plane.start = total + PAD
        plane.blocks, plane.block_rows, plane.mask, plane.side = h, v, rows - 1, side
        total += rows * plane.stride
        for k in range(h * v):
            shape.column[blocks], shape.row[blocks] = k % h, k // h
            blocks += 1
    shape.extra = total
    shape.height, shape.width = scaled(header.height, scale), scaled(header.width, scale)
    shape.across, shape.down = chroma_factors(header, scale)
    shape.smooth = scale > 1 and not is_too_narrow(header, scale)  # libjpeg's "fancy" upsampling
    return total + 2 * (columns * scale * header.across[0] + 2 * PAD)


@loop
def room_for_rows(header, scale, columns, memory, at, shape):
    """Fill a shape, and return scratch from a byte on: quantization steps, sums of chroma, a row's end, and planes."""
    steps = shorts_in(memory, at, _STEPS)
    at += 2 * _STEPS
    summed = 2 * (columns * 8 * header.across[0] + 2 * PAD)
    sums = shorts_in(memory, at, summed)
    at += 2 * summed
    tail = memory[at : at + _TAIL]
    at += _TAIL + SPILL
    return steps, sums, tail, memory[at : at + lay_out(header, scale, columns, shape)]


# -- blocks ------------------------------------------------------------------------------------------------------------


@loop
def step_at(data, at, k):
    """Return step ``k``, in the order of the file, of the quantization table at a place."""
    if data[at] >> 4:  # 16 bits
        return i64(data[at + 1 + 2 * k]) << 8 | data[at + 2 + 2 * k]
    return i64(data[at + 1 + k])


@loop
def read_steps(header, data, steps):
    """Read the quantization of all components into natural order, as numbers of 16 bits, as the products are."""
    for c in range(header.components):
        for k in range(64):
            steps[64 * c + ZIGZAG[k]] = step_at(data, header.quant[c], k)


@loop
def _byte(value):
    value += 128
    return 0 if value < 0 else 255 if value > 255 else value


@loop
def _flat(coefficient, step):
    """Return the pixel value, 0 to 255, of a block with only a DC coefficient; rounds and wraps as the transform."""
    return _byte((i64(i16(i16(coefficient * step) << 2)) + 16) >> 5)


@loop
def _flat_quarter(coefficient, step):
    """Return it as in the transform to 2 x 2, whose sums have 32 bits."""
    return _byte(i64(i32((i64(i16(coefficient * step)) << 17) + (1 << 19))) >> 20)


@loop
def _flat_eighth(coefficient, step):
    """Return it for a single pixel, of whose value libjpeg takes ten bits."""
    return _byte((((coefficient * step + 4) >> 3) + 512 & 1023) - 512)


def _make_blocks(flat, fill, two, whole, corner4, corner2):
    @loop
    def blocks(first, per, columns, coefficients, lasts, steps, q, planes, at, step, stride):
        """Transform the blocks at one place of each MCU to pixels, and zero their coefficients."""
        more, right = up(64 * per), up(step)
        done = i64(0)
        for m in range(columns):
            if m < done:
                continue
            b = first + m * per
            k = up(64 * b)
            to = up(at + m * step)
            if m + 1 < columns and lasts[up(b)] >= 10 and lasts[up(b + per)] >= 10:
                two(coefficients, k, more, steps, q, planes, to, right, stride)
                done = i64(m + 2)
                continue
            # Transforms for few coefficients: positions below 3 and 10 are among the 2 x 2 and 4 x 4 lowest
            # frequencies.
            last = lasts[up(b)]
            if last == 0:
                value = flat(i64(coefficients[k]), i64(steps[q]))
                coefficients[k] = 0
                fill(planes, to, stride, value)
            elif last < 3:
                corner2(coefficients, k, more, steps, q, planes, to, right, stride)
            elif last < 10:
                corner4(coefficients, k, more, steps, q, planes, to, right, stride)
            else:
                whole(coefficients, k, more, steps, q, planes, to, right, stride)

    return blocks


@loop
def _two_halves(coefficients, k, more, steps, q, planes, to, right, stride):
    half8(coefficients, k, more, steps, q, planes, to, right, stride)
    half8(coefficients, k + more, more, steps, q, planes, to + right, right, stride)


_blocks8 = _make_blocks(_flat, fill8, two8, transform8, transform4, transform2)
_blocks4 = _make_blocks(_flat, fill4, _two_halves, half8, half4, half2)


@loop
def _blocks2(first, per, columns, coefficients, lasts, steps, q, planes, at, step, stride):
    """Transform them to 2 x 2 pixels, where transforms for few coefficients gain nothing."""
    for m in range(columns):
        b = first + m * per
        k = up(64 * b)
        to = up(at + m * step)
        if lasts[up(b)] == 0:
            value = _flat_quarter(i64(coefficients[k]), i64(steps[q]))
            coefficients[k] = 0
            fill2(planes, to, stride, value)
        else:
            quarter8(coefficients, k, up(0), steps, q, planes, to, up(0), stride)


@loop
def _blocks1(first, per, columns, coefficients, lasts, steps, q, planes, at, step):
    """Transform them to single pixels."""
    for m in range(columns):
        b = first + m * per
        k = 64 * b
        planes[up(at + m * step)] = _flat_eighth(i64(coefficients[up(k)]), i64(steps[q]))
        for z in range(k, k + 64 if lasts[up(b)] else k + 1):
            coefficients[up(z)] = 0


@loop
def transform_row(r, columns, luma_only, mcu, shape, coefficients, lasts, steps, planes):
    """Transform MCU row ``r`` into the planes, and zero its coefficients."""
    per = mcu.blocks
    for j in range(per):
        c = mcu.component[j]
        if luma_only and c > 0:
            continue
        plane = shape.planes[c]
        side = plane.side
        # The planes have the rows of two MCU rows, alternately.
        row = side * ((r * plane.block_rows + shape.row[j]) & (2 * plane.block_rows - 1))
        at = plane.start + row * plane.stride + side * shape.column[j]
        step = side * plane.blocks
        stride, q = up(plane.stride), up(64 * c)
        if side == 8:
            _blocks8(j, per, columns, coefficients, lasts, steps, q, planes, at, step, stride)
        elif side == 4:
            _blocks4(j, per, columns, coefficients, lasts, steps, q, planes, at, step, stride)
        elif side == 2:
            _blocks2(j, per, columns, coefficients, lasts, steps, q, planes, at, step, stride)
        else:
            _blocks1(j, per, columns, coefficients, lasts, steps, q, planes, at, step)


@loop
def clear_chroma(columns, mcu, coefficients):
    """Zero the coefficients of chroma, which a gray result does not transform."""
    per = mcu.blocks
    for b in range(columns * per):
        if mcu.component[b % per] > 0:
            for k in range(64 * b, 64 * b + 64):
                coefficients[k] = 0


# -- rows of pixels ----------------------------------------------------------------------------------------------------


@loop
def _repeat_edges(planes, plane, first, rows, before, after):
    """Repeat the image's first and last chroma columns beyond its edges; -1 for an edge outside the region."""
    for y in range(first, first + rows):
        row = plane.start + (y & plane.mask) * plane.stride
        if before >= 0:
            planes[row - 1] = planes[row]
        if after >= 0:
            planes[row + after + 1] = planes[row + after]


@loop
def _put(pixels, count, out, at):
    """Copy the first bytes of pixels to the result."""
    row = out[at : at + count]  # indices of a slice from 0 on need no wrap-around check, so that LLVM copies vectors
    for k in range(row.size):
        row[k] = pixels[k]


# The last vector of a row may end after it: it writes into the next rows of the result, which are written later. Only
# vectors that would end after the result are written to ``tail``, and copied from there.


@loop
def _plain_row(convert, planes, y, cb, cr, width, out, o, tail):
    """Make a row of pixels from planes of the same size: of YCbCr, or of RGB."""
    direct = (out.size - SPILL - o) // 3 // N * N  # pixels from ``o`` on in whole vectors within the result
    for x in range(0, width, N):
        to, start = (out, up(o + 3 * x)) if x < direct else (tail, up(0))
        if convert:
            rgb_of_ycc(planes, up(y + x), up(cb + x), up(cr + x), to, start)
        else:
            rgb_of_planes(planes, up(y + x), up(cb + x), up(cr + x), to, start)
        if x >= direct:
            _put(tail, 3 * min(width - x, N), out, o + 3 * x)


@loop
def _upsampled_row(planes, y, sums, second, odd, low, high, width, out, o, tail):
    """Make a row of pixels from luma and sums of chroma rows of half its width; those of Cr begin at ``second``."""
    direct = (out.size - SPILL - o) // 3 // WIDE * WIDE
    for x in range(0, width, WIDE):
        to, start = (out, up(o + 3 * x)) if x < direct else (tail, up(0))
        k = up((x >> 1) + 1)
        if odd:
            rgb_odd(planes, up(y + x), sums, k, up(second) + k, to, start, low, high)
        else:
            rgb_even(planes, up(y + x), sums, k, up(second) + k, to, start, low, high)
        if x >= direct:
            _put(tail, 3 * min(width - x, WIDE), out, o + 3 * x)


@loop
def row_of(shape, c, y):
    """Return the byte where a row of a plane begins."""
    plane = shape.planes[c]
    return plane.start + (y & plane.mask) * plane.stride


@loop
def _repeated(shape, planes, c, y, x0, width, to):
    """Repeat columns and rows of chroma once for each of luma."""
    row = row_of(shape, c, divided(y, shape.down)[0])
    for x in range(width):
        planes[to + x] = planes[row + divided(x0 + x, shape.across)[0]]


@loop
def _summed(shape, planes, y, left, n, sums, second):
    """Sum the two rows of chroma nearest to a row of luma, the nearer one three times; Cr begins at ``second``."""
    near, far = y, y
    if shape.down == 2:
        # Row y lies a quarter of a chroma row above or below the center of row y // 2.
        near = y >> 1
        far = near + 1 if y & 1 else max(near - 1, 0)
        far = min(far, ((shape.height + 1) >> 1) - 1)
    for c in range(_CB, _CR + 1):
        one, other = row_of(shape, c, near) + left, row_of(shape, c, far) + left
        for k in range(0, n, N):
            sum_rows(planes, up(one + k), up(other + k), sums, up((c - 1) * second + k))


@loop
def _color_row(header, shape, planes, y, x0, width, sums, out, o, tail):
    """Make row ``y`` of the image as RGB, from column ``x0`` of the planes on."""
    luma = row_of(shape, _Y, y) + x0
    blue, red = luma, luma
    across, down = shape.across, shape.down
    if across == 1 and down == 1:
        if header.components != 1:
            blue, red = row_of(shape, _CB, y) + x0, row_of(shape, _CR, y) + x0
    else:
        left = (x0 >> 1) - 1 if across == 2 else x0  # the column before the first one, possibly in the padding
        n = (width >> 1) + 3 if across == 2 and shape.smooth else width
        second = (n + 2 * N) // N * N
        blue, red = shape.extra, shape.extra + second
        if not shape.smooth:
            _repeated(shape, planes, _CB, y, x0, width, blue)
            _repeated(shape, planes, _CR, y, x0, width, red)
        else:
            _summed(shape, planes, y, left, n, sums, second)
            if across == 2:
                low, high = (8, 7) if down == 2 else (4, 8)  # libjpeg's roundings of left and right pixels
                _upsampled_row(planes, luma, sums, second, x0 & 1, low, high, width, out, o, tail)
                return
            for k in range(0, 2 * second, N):
                round_rows(sums, up(k), 2 if y & 1 else 1, planes, up(blue + k))
    _plain_row(header.color == YCBCR, planes, luma, blue, red, width, out, o, tail)


@loop
def _copy_luma(r, first, region, shape, planes, out):
    """Copy what MCU row ``r`` has of the luma of a region to the result."""
    plane, width = shape.planes[_Y], region[2] - region[0]
    rows, left = plane.side * plane.block_rows, region[0] - first * plane.side * plane.blocks
    for y in range(max(region[1], r * rows), min(region[3], (r + 1) * rows)):
        o, at = (y - region[1]) * width, row_of(shape, _Y, y) + left
        row, samples = out[o : o + width], planes[at : at + width]
        for x in range(row.size):
            row[x] = samples[x]


@loop
def _finished_rows(r, rows, shape):
    """Return the rows of pixels that MCU rows up to ``r`` suffice for: the last one may need chroma of the next."""
    waits = shape.down == 2 and shape.smooth and r + 1 < rows
    luma = shape.planes[_Y]
    return (r + 1) * luma.side * luma.block_rows - (1 if waits else 0)


@loop
def make_rows(header, r, first, region, columns, channels, shape, planes, sums, out, tail):
    """Make what MCU row ``r`` completes of the result."""
    if channels == 1:  # gray is luma
        _copy_luma(r, first, region, shape, planes, out)
        return
    x0, y0, x1, y1 = region[0], region[1], region[2], region[3]
    side = shape.planes[_Y].side
    width = x1 - x0
    left = x0 - first * side * shape.planes[_Y].blocks
    if shape.across == 2:
        edge = (shape.width + 1) // 2 - 1 - first * side
        # Chroma columns at the edges of the image, which have no neighbor there; -1 if outside the planes.
        before, after = 0 if first == 0 else -1, edge if edge < columns * side else -1
        for c in range(_CB, _CR + 1):
            _repeat_edges(planes, shape.planes[c], side * r, side, before, after)
    stop = min(y1, _finished_rows(r, header.rows, shape))
    for y in range(y0 + shape.done, stop):
        _color_row(header, shape, planes, y, left, width, sums, out, (y - y0) * width * 3, tail)
    shape.done = max(stop - y0, shape.done)


def _finish_row(
    header, request, mcu, shape, r, first, columns, coefficients_, lasts_, steps_, sums_, sums_size, tail_, planes_,
    planes_size, out_,
):  # fmt: skip
    """Transform MCU row ``r``, of ``columns`` MCUs from the ``first`` on, and make what it completes of the result.

    The coefficients of blocks that are transformed become zero. Scratch is that of :func:`room_for_rows`.
    """
    blocks, channels = columns * mcu.blocks, request.channels
    coefficients, lasts = array_at(coefficients_, 64 * blocks), array_at(lasts_, blocks)
    planes, out = array_at(planes_, planes_size), array_at(out_, region_bytes(request.region, channels))
    steps = array_at(steps_, _STEPS)
    transform_row(r, columns, channels == 1, mcu, shape, coefficients, lasts, steps, planes)
    sums, tail = array_at(sums_, sums_size), array_at(tail_, _TAIL)
    make_rows(header, r, first, request.region, columns, channels, shape, planes, sums, out, tail)


_SHORTS = types.CPointer(types.int16)
_FINISH_ROW = types.void(
    *map(from_dtype, (HEADER, REQUEST, MCU, SHAPE)), types.int64, types.int64, types.int64, _SHORTS, BYTES, _SHORTS,
    _SHORTS, types.int64, BYTES, BYTES, types.int64, BYTES,
)  # fmt: skip
#: Compiled once for all decoders, which call it by its address: it is most of what they would be.
FINISH_ROW_FUNCTION = NativeFunction("finish_jpeg_row", _finish_row, _FINISH_ROW)
_call_finish_row = caller(_FINISH_ROW)


@loop
def finish_row(header, request, mcu, shape, r, first, columns, coefficients, lasts, room, out):
    """Call the above; ``room`` is of :func:`room_for_rows`."""
    steps, sums, tail, planes = room
    _call_finish_row(
        request.row_maker, (header, request, mcu, shape, r, first, columns, coefficients, lasts, steps, sums, sums.size,
        tail, planes, planes.size, out)
    )  # fmt: skip
