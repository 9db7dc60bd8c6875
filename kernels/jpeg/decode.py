"""A region of a baseline JPEG as pixels, at its size or a half, a quarter or an eighth of it: MCU row by MCU row."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..compiled import NativeFunction
from ..cpu.intrinsics import BYTES, array_at, bytes_at, caller, record_at, record_pointer, records_in, shorts_in
from ..lang import types
from ..scalar import loop
from .color import SPILL, WIDE
from .frame import MCU, MOST_BLOCKS, factors, grid, list_blocks, mcus_of
from .huffman import NEVER, READ_AHEAD, STREAM, begin, decode_mcus, jump, restarts_follow
from .layout import BAD_TABLE, DONE, HEADER, MISMATCH, MISMATCHED, REQUEST, STATUS, TABLE, TABLES, UNUSED
from .rows import PAD, SHAPE, clear_chroma, lay_out, make_rows, read_steps, transform_row
from .seek import SECTIONS, at_recorded_start, open_entry, record_start, segment_start, set_predictors
from .tables import ZIGZAG, build_tables

i64 = np.int64

# Numbers that are no literals: Numba would compile a variant for each of those.
_SKIPPED, _STORED = i64(0), i64(1)

_WORTH_A_JUMP = 2  # MCUs: to skip one is as fast

_MCU_SIDE = 16  # pixels, of the largest

#: The first part of the scratch: what does not depend on the image's width.
_WORK: Final = np.dtype([("stream", STREAM), ("sections", SECTIONS), ("mcu", MCU), ("shape", SHAPE)], align=True)
_WORK_BYTES: Final = _WORK.itemsize
_work_in = records_in(_WORK)


def work_bytes(width: int) -> int:
    """Bytes of scratch for an image of ``width`` columns."""
    columns = width + _MCU_SIDE
    planes = (2 * _MCU_SIDE * 3 + 2) * (columns + 2 * PAD)
    coefficients = (columns // 8) * MOST_BLOCKS * 64 * 2
    sums = 2 * 2 * (columns + 2 * PAD)
    return _WORK_BYTES + planes + coefficients + columns // 8 * MOST_BLOCKS + sums + 3 * 64 * 2 + 1024


@loop
def _at_row(r, rows, access, entry, sections, stream):
    """At the beginning of an MCU row: record it where the entry learns, else return whether the entry has it there."""
    if sections.segments == 0 or r >= rows:
        return True
    if access.learns:
        record_start(entry, sections, rows, r, i64(0), i64(0), stream)
        return True
    return at_recorded_start(entry, sections, rows, r, i64(0), stream)


@loop
def _last_start(goal, here, rows, columns, every, entry, sections):
    """Row and segment of the last known start up to an MCU, and its bit; 0 where none is known after ``here``."""
    r, s = goal // columns, goal % columns // every
    bit = segment_start(entry, sections, rows, r, s)
    while bit == 0 and (r - 1) * columns > here:
        r, s = r - 1, i64(0)
        bit = segment_start(entry, sections, rows, r, s)
    return r, s, bit


@loop
def _byte_after(r, stop, rows, columns, every, entry, sections):
    """A byte after the MCU in which a region ends in a row, and what is read ahead; NEVER where none is known."""
    s = -(-stop // every)
    bit = i64(0)
    if s < sections.segments:
        bit = segment_start(entry, sections, rows, r, s)
    elif r + 1 < rows:
        bit = segment_start(entry, sections, rows, r + 1, i64(0))
    return (bit >> 3) + READ_AHEAD if bit else NEVER


@loop
def _go_to(goal, here, stop, rows, columns, data, interval, reader, access, entry, coefficients, lasts, work, status):
    """From one MCU to a later one, by jumping where an entry allows that, and skipping; return how it ended.

    The MCUs after it that are wanted end in column ``stop``.
    """
    stream, sections = work.stream, work.sections
    if sections.segments and goal - here >= _WORTH_A_JUMP:
        every = access.every if sections.segments > 1 else columns
        r, s, bit = _last_start(goal, here, rows, columns, every, entry, sections)
        if bit and r * columns + s * every - here >= _WORTH_A_JUMP:
            jumps_again = columns - stop + goal % columns >= _WORTH_A_JUMP
            until = _byte_after(r, stop, rows, columns, every, entry, sections) if jumps_again else NEVER
            jump(data, bit, until, stream)
            set_predictors(entry, sections, r, s, stream)
            here = r * columns + s * every
    while here < goal:
        status.row = here // columns
        n = min(goal, (status.row + 1) * columns) - here
        result = decode_mcus(data, n, interval, reader, coefficients, lasts, _SKIPPED)
        if result != DONE:
            return result
        here += n
        if here % columns == 0 and not _at_row(here // columns, rows, access, entry, sections, stream):
            return MISMATCHED
    return DONE


@loop
def _decode_rows(header, data, request, out, tables, memory, status):
    """Decode the region, or as much of it as there is; return how it ended."""
    region, scale, channels, access = request.region, request.scale, request.channels, request.access
    single = header.components == 1
    across, down = factors(header)
    rows, total = grid(header)  # of the image; those that are decoded are the ones below
    first, end, top, bottom = mcus_of(header, scale, region, rows, total)
    columns = end - first

    # Coefficients of one MCU row, and the planes of two. Arrays of int16 come first, so that they are aligned.
    work = _work_in(memory, 0, 1)[0]
    stream, sections, mcu, shape = work.stream, work.sections, work.mcu, work.shape
    per = (across * down + 2) if not single else 1
    at = _WORK_BYTES
    coefficients = shorts_in(memory, at, columns * per * 64)
    at += columns * per * 128
    steps = shorts_in(memory, at, 3 * 64)
    at += 2 * 3 * 64
    summed = 2 * (columns * 8 * across + 2 * PAD)
    sums = shorts_in(memory, at, summed)
    at += 2 * summed
    tail = memory[at : at + 3 * WIDE + SPILL]
    at += 3 * WIDE + 2 * SPILL
    lasts = memory[at : at + columns * per]
    at += columns * per
    planes = memory[at : at + lay_out(header, scale, columns, shape)]

    for k in range(coefficients.size):
        coefficients[k] = 0  # as the transforms leave them
    for c in range(header.components):
        read_steps(data, header.quant[c], steps[64 * c : 64 * c + 64])
    list_blocks(header, mcu)
    interval = header.restart
    begin(data, header.scan, interval, stream)
    stream.marker = 0
    stream.skips = interval and restarts_follow(data, header.scan, (rows * total - 1) // interval)
    entry = bytes_at(access.entry, access.entry_bytes)
    done = i64(0)
    reader = stream, mcu, tables, ZIGZAG
    _at_row(i64(0), rows, access, entry, sections, stream)
    here = i64(0)
    for r in range(top, bottom):
        status.row = r
        goal = r * total + first
        result = _go_to(
            goal, here, end, rows, total, data, interval, reader, access, entry, coefficients, lasts, work, status
        )
        if result == DONE:
            result = decode_mcus(data, columns, interval, reader, coefficients, lasts, _STORED)
        if result != DONE:
            return result
        here = goal + columns
        if end == total and not _at_row(r + 1, rows, access, entry, sections, stream):
            return MISMATCHED
        transform_row(r, columns, channels == 1, mcu, shape, coefficients, lasts, steps, planes)
        if channels == 1 and not single:
            clear_chroma(columns, mcu, coefficients)
        done = make_rows(header, r, rows, first, region, columns, channels, shape, planes, sums, out, tail, done)
    return DONE


def _decode(header_, request_, out_, tables_, work_, work_size, status_):
    """Pixels of a region, (x1 - x0) * channels a row; gray is Y.

    Parameters
    ----------
    header, request, status : HEADER, REQUEST, STATUS
        The status is filled.
    out : uint8
        Filled with the pixels; row after row.
    tables : (TABLES,) TABLE
        Those of the files before, at first zeros.
    work : (work_size,) uint8
        Scratch of ``work_bytes`` or more, a multiple of 8 in memory.
    """
    header, request, status = record_at(header_), record_at(request_), record_at(status_)
    region, data = request.region, bytes_at(request.data, request.size)
    out = array_at(out_, (region[2] - region[0]) * (region[3] - region[1]) * request.channels)
    tables = array_at(tables_, TABLES)
    memory = array_at(work_, work_size)
    rows, columns = grid(header)
    status.result, status.row, status.rows, status.entry = BAD_TABLE, 0, rows, UNUSED
    if not build_tables(data, header, tables):
        return
    sections = _work_in(memory, 0, 1)[0].sections
    sections.segments = 0
    if not header.restart:
        status.entry = open_entry(data, request.access, rows, columns, sections)
    status.result = _decode_rows(header, data, request, out, tables, memory, status)
    if status.result != DONE and sections.segments and not request.access.learns:
        # The entry may be what is wrong: once more without it.
        sections.segments = 0
        status.entry = MISMATCH
        status.result = _decode_rows(header, data, request, out, tables, memory, status)


_DECODE = types.void(
    record_pointer(HEADER), record_pointer(REQUEST), BYTES, record_pointer(TABLE), BYTES, types.int64,
    record_pointer(STATUS),
)  # fmt: skip
DECODE_FUNCTION = NativeFunction("decode_jpeg", _decode, _DECODE)
call_decode = caller(_DECODE)
