"""Entries of a seek index, built of files: where their MCU rows and segments begin."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..compiled import kept
from ..cpu.intrinsics import bytes_at, longs_in, shorts_in, uints_in
from ..scalar import loop
from .frame import PARTS_WORDS, grid, list_parts
from .huffman import CLEAN_BYTES, MARKER, SKIPS, STATE_WORDS, begin, decode_mcus
from .layout import BAD_TABLE, BASELINE, DONE, KIND, RESTART, SCAN
from .seek import (
    ENTRY_SUM,
    FILE_BYTES,
    FILE_SUM,
    LARGEST_FILE,
    SEEK_WORDS,
    checksum,
    entry_bytes,
    entry_sum,
    note,
    segments_of,
    set_out,
)
from .tables import ZIGZAG, build_tables

i64 = np.int64

_SKIPPED = i64(0)
_PARTS = STATE_WORDS
_SEEK = _PARTS + PARTS_WORDS
_WORDS = _SEEK + SEEK_WORDS
WORK_BYTES: Final = 8 * _WORDS + CLEAN_BYTES  # scratch of a thread

# Words of what is told of a file: how it ended, in which MCU row of how many, and the bytes of its entry, 0 for none.
TOLD_WORDS: Final = 4
TOO_LARGE: Final = -1  # how it ends where the numbers of a file do not fit into an entry


@loop
def _note_segments(header, data, every, tables, memory, entry, told):
    """Decode a file and note where each segment begins; gives how that ended."""
    work = longs_in(memory, 0, _WORDS)
    state, parts, seek = work[:STATE_WORDS], work[_PARTS:_SEEK], work[_SEEK:_WORDS]
    clean = memory[8 * _WORDS :]
    rows, columns = grid(header)
    set_out(rows, segments_of(columns, every), seek)
    step = every if every else columns
    list_parts(header, parts)
    begin(data, header[SCAN], i64(0), clean, state)
    state[MARKER] = 0
    state[SKIPS] = 0
    stream = clean, state, parts, tables, ZIGZAG
    nothing = shorts_in(memory, 0, 0)
    for r in range(rows):
        told[1] = r
        before = i64(0)
        for m in range(0, columns, step):
            fits, before = note(entry, seek, rows, r, m // step, before, clean, state)
            if not fits:
                return TOO_LARGE
            how = decode_mcus(data, min(step, columns - m), i64(0), stream, nothing, memory, _SKIPPED)
            if how != DONE:
                return how
    return DONE


@loop
def _build(header, data, every, tables, memory, out, told):
    """The entry of one file."""
    rows, columns = grid(header)
    told[0], told[1], told[2], told[3] = BAD_TABLE, 0, rows, 0
    if data.size > LARGEST_FILE:
        told[0] = TOO_LARGE
        return
    if not build_tables(data, header, tables):
        return
    size = entry_bytes(rows, segments_of(columns, every))
    told[0] = _note_segments(header, data, every, tables, memory, out[:size], told)
    if told[0] == TOO_LARGE and every:  # a segment of more than 8 KB: rows alone
        size = entry_bytes(rows, i64(1))
        told[0] = _note_segments(header, data, i64(0), tables, memory, out[:size], told)
    if told[0] == DONE:
        longs_in(out, FILE_SUM, 1)[0] = i64(checksum(data, 0))
        uints_in(out, FILE_BYTES, 1)[0] = data.size
        uints_in(out, ENTRY_SUM, 1)[0] = entry_sum(out[:size], every)
        told[3] = size


@kept
def room_for_entries(headers, every, room):
    """Fill in the bytes that the entries of files may take at most, 0 for files that have none.

    Parameters
    ----------
    headers : (N, HEADER_WORDS) int64
    every : int
        MCUs of a segment, 0 for whole rows.
    room : (N,) int64
        Filled.
    """
    for i in range(room.size):
        header = headers[i]
        room[i] = 0
        if header[KIND] == BASELINE and not header[RESTART]:
            rows, columns = grid(header)
            room[i] = entry_bytes(rows, segments_of(columns, every))


@kept
def build_entries(headers, addresses, sizes, every, tables, memory, out, begins, told):
    """Build the entries of files in memory.

    Parameters
    ----------
    headers : (N, HEADER_WORDS) int64
    addresses, sizes : (N,) int64
        Of the files' bytes.
    every : int
        MCUs of a segment, 0 for whole rows.
    tables : (tables.TABLE_WORDS,) int64
        Look-up tables of the files before, at first zeros.
    memory : (WORK_BYTES,) uint8
        Scratch.
    out : (M,) uint8
        Filled with the entries.
    begins : (N + 1,) int64
        Where each has its room, and behind the last one. A file without room is passed over.
    told : (N, TOLD_WORDS) int64
        Filled for files with room.
    """
    for i in range(sizes.size):
        if begins[i + 1] > begins[i]:
            data = bytes_at(addresses[i], sizes[i])
            _build(headers[i], data, every, tables, memory, out[begins[i] : begins[i + 1]], told[i])
