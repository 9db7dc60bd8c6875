"""Builder of seek-index entries: decode a file without storing pixels, and record where rows and segments begin."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..compiled import cached_jit
from ..cpu.intrinsics import bytes_at, records_in, shorts_in
from ..scalar import loop
from .frame import MCU, grid, list_blocks
from .huffman import STREAM, begin, decode_mcus
from .layout import BAD_TABLE, BASELINE, DONE, HEADER, TABLE
from .seek import (
    LARGEST_FILE,
    SECTIONS,
    checksum,
    entry_bytes,
    entry_sum,
    head_of,
    locate_sections,
    record_start,
    segments_of,
)
from .tables import ZIGZAG, build_tables

i64 = np.int64

_SKIPPED = i64(0)  # not a literal, for which Numba would compile a variant

_WORK: Final = np.dtype([("stream", STREAM), ("sections", SECTIONS), ("mcu", MCU)], align=True)
_work_in = records_in(_WORK)
WORK_BYTES: Final = _WORK.itemsize  # scratch of a thread

#: The outcome of building the entry of a file.
BUILT: Final = np.dtype(
    [
        ("result", "<i8"),  # of decoding, or TOO_LARGE
        ("row", "<i8"),  # the MCU row in which decoding ended, from 0
        ("rows", "<i8"),  # MCU rows of the image
        ("size", "<i8"),  # bytes of the entry, 0 for none
    ],
    align=True,
)
TOO_LARGE: Final = -1  # the result where a file's size, positions or predictors do not fit into an entry


@loop
def _record_segments(header, data, every, tables, memory, entry, built):
    """Decode a file and record where each segment begins; return the result."""
    work = _work_in(memory, 0, 1)[0]
    stream, mcu, sections = work.stream, work.mcu, work.sections
    rows, columns = grid(header)
    locate_sections(rows, segments_of(columns, every), sections)
    step = every if every else columns
    list_blocks(header, mcu)
    # Interval 0: only files without restart intervals have entries.
    begin(data, header.scan, i64(0), stream)
    stream.marker = 0
    stream.skips = 0
    reader = stream, mcu, tables, ZIGZAG
    nothing = shorts_in(memory, 0, 0)  # coefficients are not stored
    for row in range(rows):
        built.row = row
        before = i64(0)  # bit of the segment before; the first one of a row has none
        for column in range(0, columns, step):
            fits, before = record_start(entry, sections, rows, row, column // step, before, stream)
            if not fits:
                return TOO_LARGE
            result = decode_mcus(data, min(step, columns - column), i64(0), reader, nothing, memory, _SKIPPED)
            if result != DONE:
                return result
    return DONE


@loop
def _build(header, data, every, tables, memory, out, built):
    """Build the entry of one file, with whole rows if its segments do not fit."""
    rows, columns = grid(header)
    built.result, built.row, built.rows, built.size = BAD_TABLE, 0, rows, 0
    if data.size > LARGEST_FILE:
        built.result = TOO_LARGE
        return
    if not build_tables(data, header, tables):
        return
    size = entry_bytes(rows, segments_of(columns, every))
    built.result = _record_segments(header, data, every, tables, memory, out[:size], built)
    if built.result == TOO_LARGE and every:  # perhaps a segment of more than LARGEST_STEP bits, 8 KiB: try whole rows
        size = entry_bytes(rows, i64(1))
        built.result = _record_segments(header, data, i64(0), tables, memory, out[:size], built)
    if built.result == DONE:
        # The checksum of the entry covers its head's other fields, so it comes last.
        head = head_of(out)
        head.file_sum, head.file_bytes = i64(checksum(data, 0)), data.size
        head.entry_sum = entry_sum(out[:size], every)
        built.size = size


@cached_jit("none(HEADER[::1], int64, int64[::1])", HEADER=HEADER)
def room_for_entries(headers, every, room):
    """Compute the most bytes that the entry of each file can take, 0 for files that get none.

    Parameters
    ----------
    headers : (N,) HEADER
    every : int
        MCUs of a segment, 0 for whole rows.
    room : (N,) int64
        Filled.
    """
    for i in range(room.size):
        header = headers[i]
        room[i] = 0
        if header.kind == BASELINE and not header.restart:
            rows, columns = grid(header)
            room[i] = entry_bytes(rows, segments_of(columns, every))


@cached_jit(
    "none(HEADER[::1], int64[::1], int64[::1], int64, TABLE[::1], uint8[::1], uint8[::1], int64[::1], BUILT[::1])",
    HEADER=HEADER,
    TABLE=TABLE,
    BUILT=BUILT,
)
def build_entries(headers, addresses, sizes, every, tables, memory, out, begins, built):
    """Build the entries of files in memory.

    Parameters
    ----------
    headers : (N,) HEADER
    addresses, sizes : (N,) int64
        Address and number of each file's bytes.
    every : int
        MCUs of a segment, 0 for whole rows.
    tables : (TABLES,) TABLE
        The calling thread's look-up tables, which later calls use again; zeros before the first one.
    memory : (WORK_BYTES,) uint8
        Scratch, aligned to 8 bytes.
    out : (M,) uint8
        Filled with the entries.
    begins : (N + 1,) int64
        Offsets in ``out`` of the room for each entry, and the end of the last one's. Files without room are skipped.
    built : (N,) BUILT
        Filled for files with room.
    """
    for i in range(sizes.size):
        if begins[i + 1] > begins[i]:
            data = bytes_at(addresses[i], sizes[i])
            _build(headers[i], data, every, tables, memory, out[begins[i] : begins[i + 1]], built[i])
