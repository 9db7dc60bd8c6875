"""Encoder of baseline JPEGs, MCU row by MCU row: pixels to planes, to coefficients, to bits.

The bytes are those of libjpeg-turbo. Rules of its own: blocks of an MCU that lie after the image have the mean of the
block before them in the MCU and nothing else; gray has the sampling that was asked for in its header and no effect of
it; the restart interval comes after the Huffman tables.

References: T.81, annex B; libjpeg's jccoefct.c and jcmarker.c.
"""

from typing import Final

import numpy as np

from ..compiled import NativeFunction
from ..cpu.intrinsics import BYTES, array_at, bytes_at, caller, copy, records_in, shorts_in
from ..lang import from_dtype, types
from ..scalar import i32, loop, up
from .coder import (
    CHOICE,
    CODES,
    RAW_BYTES,
    RAW_SLACK,
    WRITER,
    begin_scan,
    choose_code,
    code_mcus,
    count_mcus,
    end_scan,
    list_codes,
)  # fmt: skip
from .formulas import place_in_row
from .forward import GROUP, QUANTIZERS, set_quantizers, transform_two, ycc_of_pixels
from .frame import FULL, MCU, list_blocks, set_frame
from .layout import HEADER, LONGEST, MCU_SIDE, TABLES
from .planes import make_fill_planes, repeat_pixel
from .rows import PAD, SHAPE, room_for_rows, row_of
from .tables import ZIGZAG
from .usual import USUAL_TABLES

i64 = np.int64

#: The result of an image whose bytes do not fit into its memory.
LITTLE_ROOM: Final = -1
#: Bytes of a file besides its scan at most, without the segments of applications.
HEAD_BYTES: Final = 2048

#: An image to encode, and how.
ENCODING: Final = np.dtype(
    [
        ("encoder", "<i8"),  # address of the loop
        ("out", "<i8"),  # address of memory for its bytes from the quantization tables on,
        ("room", "<i8"),  # and the bytes of that
        ("size", "<i8"),  # bytes that were written, or LITTLE_ROOM
        ("height", "<i8"),  # pixels
        ("width", "<i8"),
        ("channels", "<i8"),  # 1 or 3, interleaved
        ("quality", "<i8"),  # 1 to 100
        ("sampling", "<i8"),  # of luma: horizontal factor << 4 | vertical factor
        ("optimize", "<i8"),  # 1 for Huffman codes made for it
        ("restart", "<i8"),  # MCU rows of a restart interval; 0 for none
    ],
    align=True,
)

_SIDE: Final = 2 * GROUP  # columns of the planes: a multiple
_EDGE: Final = 3 * GROUP  # bytes of a row of fewer pixels than are converted at a time
_WORK: Final = np.dtype(
    [
        ("header", HEADER), ("shape", SHAPE), ("mcu", MCU), ("writer", WRITER), ("codes", "<i8", (TABLES, CODES)),
        ("choice", "<i8", CHOICE),
    ],
    align=True,
)  # fmt: skip
_TABLE_BYTES: Final = 4 * QUANTIZERS + 128 + 256  # of quantization, and a block in the order of the file
_WORK_BYTES: Final = _WORK.itemsize
_work_in = records_in(_WORK)
_USUAL = np.frombuffer(USUAL_TABLES, np.uint8)
_SLOTS = np.array((0, 4, 1, 5), np.int64)  # of the usual tables, and of others, in the order of the file


@loop
def _columns_of(width):
    """Return the columns of the planes."""
    return -(-width // _SIDE) * _SIDE


@loop
def encode_bytes(height, width, optimize):
    """Return the bytes of scratch for an image of any sampling."""
    # An upper bound: of MCUs of 16 x 16 and of 8 x 8 pixels, whichever has more of each part.
    wide = width + 2 * MCU_SIDE
    blocks = 3 * (wide // FULL) * (height // FULL + 3 if optimize else 2)
    planes = (2 * MCU_SIDE * 3 + 2) * (wide + 2 * PAD) + 4 * (wide + 2 * PAD)
    raw = RAW_BYTES * 6 * (wide // FULL) + RAW_SLACK
    return _WORK_BYTES + _TABLE_BYTES + 128 * blocks + raw + _EDGE + 4 * wide + planes + 4096


# -- pixels to coefficients --------------------------------------------------------------------------------------------


@loop
def _gray_row(source, y, row):
    pixels, stride, width, _ = source
    copy(pixels[y * stride : y * stride + width], row[:width])
    repeat_pixel(row, i64(0), width, row.size)


@loop
def _color_row(source, y, wide, luma, at, chroma, cb, cr):
    pixels, stride, width, edge = source
    start = y * stride
    for x in range(0, width - GROUP + 1, GROUP):
        ycc_of_pixels(pixels, up(start + 3 * x), luma, up(at + x), chroma, up(cb + x), up(cr + x))
    if width < GROUP:
        copy(pixels[start : start + 3 * width], edge[: 3 * width])
        ycc_of_pixels(edge, up(0), luma, up(at), chroma, up(cb), up(cr))
    elif width % GROUP:  # the last pixels once more
        x = width - GROUP
        ycc_of_pixels(pixels, up(start + 3 * x), luma, up(at + x), chroma, up(cb + x), up(cr + x))
    repeat_pixel(luma, at, width, wide)
    repeat_pixel(chroma, cb, width, wide)
    repeat_pixel(chroma, cr, width, wide)


_fill_planes = make_fill_planes(_gray_row, _color_row)


@loop
def _transform_row(header, shape, r, wide, quantizers, planes, coefficients):
    """Transform and quantize the blocks of MCU row ``r`` of the planes, to the order of the file."""
    per = header.per
    for c in range(header.components):
        across, down, stride = header.across[c], header.down[c], up(shape.planes[c].stride)
        q, side = up(QUANTIZERS * min(c, 1)), wide * across // header.across[0]
        for y in range(down):
            at, first = row_of(shape, c, FULL * (r * down + y)), header.first_block[c] + y * across
            for x in range(0, side, 2 * FULL):
                k = x // FULL
                one, other = place_in_row(k, across, per, first), place_in_row(k + 1, across, per, first)
                transform_two(planes, up(at + x), stride, quantizers, q, coefficients, up(64 * one), up(64 * other))


@loop
def _blank_row(header, r, coefficients):
    """Give the blocks of luma after the image the mean of the block before them in the MCU."""
    across, down = header.across[0], header.down[0]
    right, below = -(-header.width // FULL), -(-header.height // FULL)
    last = header.columns - 1
    first = i64(0) if down * (r + 1) > below else last if across * (last + 1) > right else last + 1
    for m in range(first, last + 1):
        for j in range(1, across * down):
            if across * m + j % across < right and down * r + j // across < below:
                continue
            k = 64 * (header.per * m + j)
            for z in range(k + 1, k + 64):
                coefficients[up(z)] = 0
            coefficients[k] = coefficients[k - 64]


# -- the file ----------------------------------------------------------------------------------------------------------


@loop
def _put(out, at, n, value):
    """Write a number of ``n`` bytes; return the byte after it."""
    for k in range(n):
        out[at + k] = (value >> (8 * (n - 1 - k))) & 255
    return at + n


@loop
def _put_frame(header, encoding, steps, out, at):
    """Write the quantization tables and the frame header."""
    components = header.components
    for table in range(min(components, 2)):
        at = _put(out, at, 5, (0xFFDB << 24) + (67 << 8) + table)
        for k in range(64):
            out[at + k] = steps[64 * table + ZIGZAG[k]]
        at += 64
    at = _put(out, at, 4, (0xFFC0 << 16) + 8 + 3 * components)
    at = _put(out, at, 6, (8 << 40) + (header.height << 24) + (header.width << 8) + components)
    for c in range(components):
        at = _put(out, at, 3, ((c + 1) << 16) + ((0x11 if c else encoding.sampling) << 8) + min(c, 1))
    return at


@loop
def _put_tables(header, optimize, work, out, at):
    """Write the Huffman tables, of symbols that were counted or the usual ones, and list their codes."""
    for k in range(2 * min(header.components, 2)):
        slot, start = _SLOTS[k], at
        codes = work.codes[slot]
        if optimize:
            at = choose_code(codes, work.choice, out, at + 5)
            _put(out, start, 5, (0xFFC4 << 24) + ((at - start - 2) << 8) + (slot & 3) + ((slot & 4) << 2))
        else:
            begin = (k >> 1) * (_USUAL.size // 2) + (k & 1) * 33
            size = 33 if k & 1 == 0 else 183
            copy(_USUAL[begin : begin + size], out[at : at + size])
            at += size
        list_codes(out[start + 5 : start + 5 + LONGEST], out[start + 5 + LONGEST : at], codes)
    return at


@loop
def _put_scan_header(header, interval, out, at):
    """Write the restart interval and the header of the scan."""
    components = header.components
    if interval:
        at = _put(out, at, 6, (0xFFDD << 32) + (4 << 16) + interval)
    at = _put(out, at, 5, (0xFFDA << 24) + ((6 + 2 * components) << 8) + components)
    for c in range(components):
        at = _put(out, at, 2, ((c + 1) << 8) + (0x11 if c else 0))
    return _put(out, at, 3, 63 << 8)


@loop
def _encode(pixels, stride, encoding, out, memory):
    """Encode an image; return the bytes that were written, or LITTLE_ROOM."""
    work = _work_in(memory, 0, 1)[0]
    header, shape, mcu, writer, codes = work.header, work.shape, work.mcu, work.writer, work.codes
    width = header.width
    wide = _columns_of(width)
    columns = wide // (FULL * header.across[0])
    blocks = header.per * columns
    parts = header.rows if encoding.optimize else i64(1)  # MCU rows whose coefficients are kept
    at = i64(_WORK_BYTES)
    quantizers, ordered = shorts_in(memory, at, 2 * QUANTIZERS), shorts_in(memory, at + 4 * QUANTIZERS, 64)
    steps = shorts_in(memory, at + 4 * QUANTIZERS + 128, 128)
    at += _TABLE_BYTES
    coefficients = shorts_in(memory, at, 64 * blocks * parts)
    at += 2 * coefficients.size
    raw = memory[at : at + RAW_BYTES * blocks + RAW_SLACK]
    at += raw.size
    edge, rows = memory[at : at + _EDGE], memory[at + _EDGE : at + _EDGE + 4 * wide]
    at += _EDGE + 4 * wide
    _, _, _, planes = room_for_rows(header, i64(FULL), columns, memory, at, shape)
    source = pixels, stride, width, edge
    set_quantizers(i32(encoding.quality), quantizers, steps)
    if out.size < HEAD_BYTES:
        return i64(LITTLE_ROOM)
    interval = encoding.restart * header.columns
    at = _put_frame(header, encoding, steps, out, i64(0))
    if encoding.optimize:
        for table in range(TABLES):
            for symbol in range(CODES):
                codes[table, symbol] = 0
        begin_scan(writer, i64(0), interval, i64(1))
        for r in range(header.rows):
            here = coefficients[64 * blocks * r :]
            _fill_planes(header, shape, r, source, wide, rows, planes)
            _transform_row(header, shape, r, wide, quantizers, planes, here)
            _blank_row(header, r, here)
            count_mcus(header.columns, mcu, codes, here, ordered, writer, raw, out)
    at = _put_tables(header, encoding.optimize, work, out, at)
    begin_scan(writer, _put_scan_header(header, interval, out, at), interval, i64(1))
    for r in range(header.rows):
        here = coefficients[64 * blocks * r if encoding.optimize else 0 :]
        if not encoding.optimize:
            _fill_planes(header, shape, r, source, wide, rows, planes)
            _transform_row(header, shape, r, wide, quantizers, planes, here)
            _blank_row(header, r, here)
        if not code_mcus(header.columns, mcu, codes, here, ordered, writer, raw, out):
            return i64(LITTLE_ROOM)
    if not end_scan(writer, raw, out):
        return i64(LITTLE_ROOM)
    return _put(out, writer.at, 2, 0xFFD9)


def encode(pixels_, stride, encoding, work_, work_size):
    """Encode an image, ``stride`` bytes from row to row, as an ENCODING says.

    ``work`` is scratch of :func:`encode_bytes` or more, aligned to 8 bytes.
    """
    memory = array_at(work_, work_size)
    header = _work_in(memory, 0, 1)[0].header
    channels, width = encoding.channels, encoding.width
    header.components, header.height, header.width = channels, encoding.height, width
    for c in range(channels):
        header.sampling[c] = 0x11 if c else encoding.sampling
        header.dc_table[c], header.ac_table[c] = min(c, 1), 4 + min(c, 1)
    set_frame(header)
    list_blocks(header, _work_in(memory, 0, 1)[0].mcu)
    pixels = array_at(pixels_, (encoding.height - 1) * stride + width * channels)
    out = bytes_at(encoding.out, encoding.room)
    encoding.size = _encode(pixels, stride, encoding, out, memory)


ENCODER: Final = types.void(BYTES, types.int64, from_dtype(ENCODING), BYTES, types.int64)
ENCODE_FUNCTION = NativeFunction("encode_jpeg", encode, ENCODER)
call_encode = caller(ENCODER)
