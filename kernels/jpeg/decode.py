"""Decoder of a region of a baseline JPEG, at full, half, quarter or eighth size: MCU row by MCU row.

Each row is decoded to coefficients, those are transformed to planes, and pixels are made of the planes as soon as all
chroma rows that they need are there. MCUs outside the region are jumped over where a seek index or restart markers
allow that, and else read by the Huffman decoder alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..compiled import NativeFunction
from ..cpu.intrinsics import BYTES, array_at, bytes_at, caller, records_in, shorts_in
from ..lang import from_dtype, types
from ..scalar import loop
from .frame import MCU, MOST_BLOCKS, factors, grid, list_blocks, mcus_of, region_bytes
from .huffman import NEVER, READ_AHEAD, STREAM, begin, decode_mcus, jump, restarts_follow
from .layout import BAD_TABLE, DONE, HEADER, MISMATCH, MISMATCHED, REQUEST, STATUS, TABLE, TABLES, UNUSED
from .rows import PAD, SHAPE, clear_chroma, finish_row, room_for_rows
from .seek import SECTIONS, at_recorded_start, open_entry, segment_start, set_predictors
from .tables import ZIGZAG, build_tables

i64 = np.int64

# Values of an argument of decode_mcus; not literals, for each of which Numba would compile a variant.
_SKIPPED, _STORED = i64(0), i64(1)

_WORTH_A_JUMP = 2  # MCUs: a jump refills the buffer, which takes as long as skipping one

_MCU_SIDE = 16  # pixels, of the largest

#: The first part of the scratch, whose size does not depend on the image's width.
_WORK: Final = np.dtype([("stream", STREAM), ("sections", SECTIONS), ("mcu", MCU), ("shape", SHAPE)], align=True)
_WORK_BYTES: Final = _WORK.itemsize
_work_in = records_in(_WORK)


def work_bytes(width: int) -> int:
    """Return the bytes of scratch that images of up to ``width`` columns need."""
    # An upper bound for every sampling, so the columns are those of the widest row of MCUs, and blocks those of 4:2:0
    # in each 8 columns. _decode_rows takes the parts in its own order.
    columns = width + _MCU_SIDE
    planes = (2 * _MCU_SIDE * 3 + 2) * (columns + 2 * PAD)  # two MCU rows of three components
    coefficients = (columns // 8) * MOST_BLOCKS * 64 * 2
    sums = 2 * 2 * (columns + 2 * PAD)  # int16, of two components
    return _WORK_BYTES + planes + coefficients + columns // 8 * MOST_BLOCKS + sums + 3 * 64 * 2 + 1024


@loop
def _at_row(row, rows, entry, sections, stream):
    """Return whether the entry agrees with the stream about the start of an MCU row."""
    if sections.segments == 0 or row >= rows:
        return True
    return at_recorded_start(entry, sections, rows, row, i64(0), stream)


@loop
def _last_start(goal, rows, columns, every, entry, sections):
    """Return row, segment and bit of the last recorded start up to MCU ``goal``; bit 0 where none is recorded."""
    row, segment = goal // columns, goal % columns // every
    bit = segment_start(entry, sections, rows, row, segment)
    return row, segment, bit


@loop
def _byte_after(row, stop, rows, columns, every, entry, sections):
    """Return how far a file is read for MCUs of a row up to column ``stop``, in bytes; NEVER where that is unknown."""
    segment = -(-stop // every)
    bit = i64(0)
    if segment < sections.segments:
        bit = segment_start(entry, sections, rows, row, segment)
    elif row + 1 < rows:
        bit = segment_start(entry, sections, rows, row + 1, i64(0))
    return (bit >> 3) + READ_AHEAD if bit else NEVER


@loop
def _go_to(goal, here, stop, rows, columns, data, interval, reader, access, entry, coefficients, lasts, work, status):
    """Move the stream from MCU ``here`` to ``goal``, by jumps where an entry allows them; return the result.

    MCUs are numbered row by row. The caller then decodes MCUs up to column ``stop`` of the goal's row.
    """
    stream, sections = work.stream, work.sections
    if sections.segments and goal - here >= _WORTH_A_JUMP:
        every = access.every if sections.segments > 1 else columns
        row, segment, bit = _last_start(goal, rows, columns, every, entry, sections)
        if bit and row * columns + segment * every - here >= _WORTH_A_JUMP:
            # If the next row is reached by a jump, too, bytes after the region's end in this one are not cleaned.
            jumps_again = columns - stop + goal % columns >= _WORTH_A_JUMP
            until = _byte_after(row, stop, rows, columns, every, entry, sections) if jumps_again else NEVER
            jump(data, bit, until, stream)
            set_predictors(entry, sections, row, segment, stream)
            here = row * columns + segment * every
    # Skip what is left row by row, so that each row's start is checked or recorded.
    while here < goal:
        status.row = here // columns
        n = min(goal, (status.row + 1) * columns) - here
        result = decode_mcus(data, n, interval, reader, coefficients, lasts, _SKIPPED)
        if result != DONE:
            return result
        here += n
        if here % columns == 0 and not _at_row(here // columns, rows, entry, sections, stream):
            return MISMATCHED
    return DONE


@loop
def _decode_rows(header, data, request, out, tables, memory, status):
    """Decode the requested region up to the first error; return the result."""
    region, scale, channels, access = request.region, request.scale, request.channels, request.access
    single = header.components == 1
    across, down = factors(header)
    rows, total = grid(header)  # MCU rows, and MCUs in a row, of the whole image
    first, end, top, bottom = mcus_of(header, scale, region, rows, total)
    columns = end - first  # MCUs of a row that are decoded

    # The scratch holds coefficients of one MCU row, and planes of two: chroma is interpolated between their rows.
    # Arrays of int16 come first, so that they are aligned; every size so far is a multiple of 2.
    work = _work_in(memory, 0, 1)[0]
    stream, sections, mcu, shape = work.stream, work.sections, work.mcu, work.shape
    per = (across * down + 2) if not single else 1  # blocks of an MCU
    at = _WORK_BYTES
    coefficients = shorts_in(memory, at, columns * per * 64)
    at += columns * per * 128
    lasts = memory[at : at + columns * per]
    at += columns * per + (columns * per & 1)
    room = room_for_rows(header, data, scale, columns, memory, at, shape)

    for k in range(coefficients.size):
        coefficients[k] = 0  # the decoder writes only others than zero, and the transforms leave zeros again
    list_blocks(header, mcu)
    interval = header.restart
    begin(data, header.scan, interval, stream)
    stream.marker = 0
    # Intervals are skipped by their markers alone only where all markers of the scan are as they should be.
    stream.skips = interval and restarts_follow(data, header.scan, (rows * total - 1) // interval)
    entry = bytes_at(access.entry, access.entry_bytes)
    reader = stream, mcu, tables, ZIGZAG
    here = i64(0)  # the stream's MCU, counted row by row
    for row in range(top, bottom):
        status.row = row
        goal = row * total + first
        result = _go_to(
            goal, here, end, rows, total, data, interval, reader, access, entry, coefficients, lasts, work, status
        )
        if result == DONE:
            result = decode_mcus(data, columns, interval, reader, coefficients, lasts, _STORED)
        if result != DONE:
            return result
        here = goal + columns
        if end == total and not _at_row(row + 1, rows, entry, sections, stream):
            return MISMATCHED
        finish_row(header, request, mcu, shape, row, first, columns, coefficients, lasts, room, out)
        if channels == 1 and not single:
            clear_chroma(columns, mcu, coefficients)  # was not transformed, and so is not zero
    return DONE


def _decode(header, request, out_, tables_, work_, work_size, status):
    """Decode the pixels of a region, (x1 - x0) * channels bytes a row, or its planes; gray is luma.

    Parameters
    ----------
    header, request, status : HEADER, REQUEST, STATUS
        The status is filled.
    out : uint8
        Filled with the pixels, row after row.
    tables : (TABLES,) TABLE
        The calling thread's tables, which later calls use again; zeros before the first one.
    work : (work_size,) uint8
        Scratch of ``work_bytes`` or more, aligned to 8 bytes.
    """
    region, data = request.region, bytes_at(request.data, request.size)
    out = array_at(out_, region_bytes(region, request.channels))
    tables = array_at(tables_, TABLES)
    memory = array_at(work_, work_size)
    rows, columns = grid(header)
    status.result, status.row, status.rows, status.entry = BAD_TABLE, 0, rows, UNUSED
    if not build_tables(data, header, tables):
        return
    sections = _work_in(memory, 0, 1)[0].sections
    sections.segments = 0
    if not header.restart:  # restart markers serve as well as an entry
        status.entry = open_entry(data, request.access, rows, columns, sections)
    status.result = _decode_rows(header, data, request, out, tables, memory, status)
    if status.result != DONE and sections.segments:
        # The entry may be wrong rather than the file: decode once more without it.
        sections.segments = 0
        status.entry = MISMATCH
        status.result = _decode_rows(header, data, request, out, tables, memory, status)


#: The type of all decoders.
DECODER: Final = types.void(
    from_dtype(HEADER), from_dtype(REQUEST), BYTES, types.CPointer(from_dtype(TABLE)), BYTES, types.int64,
    from_dtype(STATUS),
)  # fmt: skip
DECODE_FUNCTION = NativeFunction("decode_jpeg", _decode, DECODER)
call_decode = caller(DECODER)
