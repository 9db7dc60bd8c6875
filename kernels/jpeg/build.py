"""Builder of seek-index entries: decode a file without storing pixels, and record where its rows begin."""

from typing import Final

import numpy as np

from ..compiled import cached_jit
from ..cpu.intrinsics import bytes_at, records_in, shorts_in
from ..scalar import loop
from .frame import MCU, grid, list_blocks
from .huffman import STREAM, begin, decode_mcus
from .layout import BAD_TABLE, BASELINE, DONE, HEADER, STATUS, TABLE
from .seek import LARGEST_FILE, checksum, entry_bytes, entry_sum, head_of, record_start
from .tables import ZIGZAG, build_tables

i64 = np.int64

_SKIPPED = i64(0)  # not a literal, for which Numba would compile a variant

_WORK: Final = np.dtype([("stream", STREAM), ("mcu", MCU)], align=True)
_work_in = records_in(_WORK)
WORK_BYTES: Final = _WORK.itemsize  # scratch of a thread

TOO_LARGE: Final = -1  # the result for a file whose size, positions or predictors do not fit into an entry


@loop
def _record_rows(header, data, tables, memory, entry, built):
    """Decode a file and record where each row begins; return the result."""
    work = _work_in(memory, 0, 1)[0]
    stream, mcu = work.stream, work.mcu
    rows, columns = grid(header)
    list_blocks(header, mcu)
    # Interval 0: only files without restart intervals have entries.
    begin(data, header.scan, i64(0), stream)
    stream.marker = 0
    stream.skips = 0
    reader = stream, mcu, tables, ZIGZAG
    nothing = shorts_in(memory, 0, 0)  # coefficients are not stored
    for row in range(rows):
        built.row = row
        if not record_start(entry, rows, row, stream):
            return TOO_LARGE
        result = decode_mcus(data, columns, i64(0), reader, nothing, memory, _SKIPPED)
        if result != DONE:
            return result
    return DONE


@loop
def _build(header, data, tables, memory, entry, built):
    """Build the entry of one file."""
    rows, _ = grid(header)
    built.result, built.row, built.rows = BAD_TABLE, 0, rows
    if data.size > LARGEST_FILE:
        built.result = TOO_LARGE
        return
    if not build_tables(data, header, tables):
        return
    built.result = _record_rows(header, data, tables, memory, entry, built)
    if built.result == DONE:
        # The checksum of the entry covers its head's other fields, so it comes last.
        head = head_of(entry)
        head.file_sum, head.file_bytes = i64(checksum(data, 0)), data.size
        head.entry_sum = entry_sum(entry)


@cached_jit("none(HEADER[::1], int64[::1])", HEADER=HEADER)
def room_for_entries(headers, room):
    """Compute the bytes that the entry of each file takes, 0 for files that get none: fill ``room``."""
    for i in range(room.size):
        header = headers[i]
        room[i] = 0
        if header.kind == BASELINE and not header.restart:
            rows, _ = grid(header)
            room[i] = entry_bytes(rows)


@cached_jit(
    "none(HEADER[::1], int64[::1], int64[::1], TABLE[::1], uint8[::1], uint8[::1], int64[::1], int64[::1], "
    "STATUS[::1])",
    HEADER=HEADER,
    TABLE=TABLE,
    STATUS=STATUS,
)
def build_entries(headers, addresses, sizes, tables, memory, out, begins, room, built):
    """Build the entries of files in memory, at ``begins`` of ``out``; files without ``room`` are skipped.

    ``tables`` are the calling thread's, which later calls use again, zeros before the first one; ``memory`` is scratch
    of WORK_BYTES, aligned to 8 bytes. ``built`` has the results for files with room.
    """
    for i in range(sizes.size):
        if room[i]:
            entry = out[begins[i] : begins[i] + room[i]]
            _build(headers[i], bytes_at(addresses[i], sizes[i]), tables, memory, entry, built[i])
