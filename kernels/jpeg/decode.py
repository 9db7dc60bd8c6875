"""Decoder of a region of a baseline JPEG, at full, half, quarter or eighth size: MCU row by MCU row.

Each row is decoded to coefficients, those are transformed to planes, and pixels are made of the planes as soon as all
chroma rows that they need are there. MCUs outside the region are read by the Huffman decoder alone, or skipped where
restart markers allow that.
"""

from typing import Final

import numpy as np

from ..compiled import NativeFunction
from ..cpu.intrinsics import BYTES, array_at, bytes_at, caller, records_in, shorts_in
from ..lang import from_dtype, types
from ..scalar import loop
from .frame import MCU, list_blocks, mcus_of, region_bytes
from .huffman import STREAM, begin, decode_mcus, restarts_follow
from .layout import BAD_TABLE, DONE, HEADER, MCU_SIDE, MOST_BLOCKS, REQUEST, STATUS, TABLE, TABLES
from .rows import PAD, SHAPE, clear_chroma, finish_row, read_steps, room_for_rows
from .tables import ZIGZAG, build_tables

i64 = np.int64

# Values of an argument of decode_mcus; not literals, for each of which Numba would compile a variant.
_SKIPPED, _STORED = i64(0), i64(1)

#: The first part of the scratch, whose size does not depend on the image's width.
_WORK: Final = np.dtype([("stream", STREAM), ("mcu", MCU), ("shape", SHAPE)], align=True)
_WORK_BYTES: Final = _WORK.itemsize
_work_in = records_in(_WORK)


def work_bytes(width: int) -> int:
    """Return the bytes of scratch that images of up to ``width`` columns need."""
    # An upper bound for every sampling, so the columns are those of the widest row of MCUs, and blocks those of the
    # largest MCU in each 8 columns. _decode_rows takes the parts in its own order.
    columns = width + MCU_SIDE
    planes = (2 * MCU_SIDE * 3 + 2) * (columns + 2 * PAD)  # two MCU rows of three components
    coefficients = (columns // 8) * MOST_BLOCKS * 64 * 2
    sums = 2 * 2 * (columns + 2 * PAD)  # int16, of two components
    return _WORK_BYTES + planes + coefficients + columns // 8 * MOST_BLOCKS + sums + 3 * 64 * 2 + 1024


@loop
def _decode_rows(header, data, request, out, tables, memory, status):
    """Decode the requested region up to the first error; return the result."""
    region, scale, channels = request.region, request.scale, request.channels
    single = header.components == 1
    rows, total = header.rows, header.columns
    first, end, top, bottom = mcus_of(header, scale, region)
    columns = end - first  # MCUs of a row that are decoded

    # The scratch holds coefficients of one MCU row, and planes of two: chroma is interpolated between their rows.
    # Arrays of int16 come first, so that they are aligned; every size so far is a multiple of 2.
    work = _work_in(memory, 0, 1)[0]
    stream, mcu, shape = work.stream, work.mcu, work.shape
    per = header.per
    at = _WORK_BYTES
    coefficients = shorts_in(memory, at, columns * per * 64)
    at += columns * per * 128
    lasts = memory[at : at + columns * per]
    at += columns * per + (columns * per & 1)
    room = room_for_rows(header, scale, columns, memory, at, shape)
    read_steps(header, data, room[0])

    for k in range(coefficients.size):
        coefficients[k] = 0  # the decoder writes only others than zero, and the transforms leave zeros again
    list_blocks(header, mcu)
    interval = header.restart
    begin(data, header.scan, interval, stream)
    stream.marker = 0
    # Intervals are skipped by their markers alone only where all markers of the scan are as they should be.
    stream.skips = interval and restarts_follow(data, header.scan, (rows * total - 1) // interval)
    reader = stream, mcu, tables, ZIGZAG
    here = i64(0)  # the stream's MCU, counted row by row
    for row in range(top, bottom):
        goal = row * total + first
        while here < goal:  # row by row, so that an error has the number of its row
            status.row = here // total
            n = min(goal, (status.row + 1) * total) - here
            result = decode_mcus(data, n, interval, reader, coefficients, lasts, _SKIPPED)
            if result != DONE:
                return result
            here += n
        status.row = row
        result = decode_mcus(data, columns, interval, reader, coefficients, lasts, _STORED)
        if result != DONE:
            return result
        here = goal + columns
        finish_row(header, request, mcu, shape, row, first, columns, coefficients, lasts, room, out)
        if channels == 1 and not single:
            clear_chroma(columns, mcu, coefficients)  # was not transformed, and so is not zero
    return DONE


def _decode(header, request, out_, tables_, work_, work_size, status):
    """Decode the pixels of a region, row after row, or its luma if gray is requested; fill the status.

    ``tables`` are the calling thread's, which later calls use again, zeros before the first one. ``work`` is scratch of
    ``work_bytes`` or more, aligned to 8 bytes.
    """
    region, data = request.region, bytes_at(request.data, request.size)
    out = array_at(out_, region_bytes(region, request.channels))
    tables = array_at(tables_, TABLES)
    memory = array_at(work_, work_size)
    status.result, status.row, status.rows = BAD_TABLE, 0, header.rows
    if build_tables(data, header, tables):
        status.result = _decode_rows(header, data, request, out, tables, memory, status)


#: The type of all decoders.
DECODER: Final = types.void(
    from_dtype(HEADER), from_dtype(REQUEST), BYTES, types.CPointer(from_dtype(TABLE)), BYTES, types.int64,
    from_dtype(STATUS),
)  # fmt: skip
DECODE_FUNCTION = NativeFunction("decode_jpeg", _decode, DECODER)
call_decode = caller(DECODER)
