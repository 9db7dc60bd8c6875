"""Encoder of recoded JPEGs, and the encoder of JPEG scans that restores files: RECODED.md has the format."""

from typing import Final

import numpy as np

from ..compiled import cached_jit
from ..cpu.intrinsics import copy, records_in
from ..scalar import loop, scalar, up
from .bits import bits_set, load64, store64
from .books import BOOKS
from .checksum import checksum
from .coder import WRITER, begin_scan, code_mcus, end_scan, list_codes, low_bits, size_of
from .deposit import extract
from .formulas import length_at, place_in_row, width_of
from .frame import FULL, MCU, list_blocks
from .huffman import STREAM, begin, decode_mcus
from .layout import BAD_TABLE, DONE, HEADER, PROGRESSIVE, SHORT_LENGTH, STREAMS, SUM_BYTES, TABLE, TABLES
from .progressive import decode_scans
from .recoded import GROUP, STATE, lay_lists, open_segment, put_row, segment_range
from .scans import end_of
from .tables import CATEGORY, ZIGZAG, build_tables
from .vectors import count_bits, leading_zeros, trailing_zeros

u64, i64, u32 = np.uint64, np.int64, np.uint32

UNFIT: Final = -1  # a number does not fit into the format, or a symbol has no code
LITTLE_ROOM: Final = -2  # a scan does not fit into its memory
_STORED = i64(1)
_LARGEST_DC = 11  # bits of a difference
REST_BYTES: Final = 192  # of a block at most, without its symbols
SYMBOLS: Final = 9  # of a block at most
_WORK: Final = np.dtype(
    [("stream", STREAM), ("state", STATE), ("mcu", MCU), ("writer", WRITER), ("bits", "<i8", 4)], align=True
)
_work_in = records_in(_WORK)
WORK_BYTES: Final = _WORK.itemsize


# -- coefficients to symbols and planes --------------------------------------------------------------------------------


@scalar
def _put(out, bit, value, n):
    """Write up to 56 bits; those after them in eight bytes become zeros. Return the next bit."""
    byte, shift = up(bit >> 3), u64(bit & 7)
    before = load64(out, byte) & ((u64(1) << shift) - u64(1))
    store64(before | (value << shift), out, byte)
    return bit + n


@loop
def _put_planes(values, n, planes, bits, out, at):
    """Write the planes of ``n`` magnitudes, which are changed; return the byte after them."""
    while n:
        kept = i64(0)
        for level in range(4):
            bits[level] = 0
        for first in range(0, n, GROUP):
            asked = (u64(1) << u64(min(n - first, GROUP))) - u64(1)
            for level in range(3):
                larger = asked & bits_set(values, up(first), i64(-2) << level)
                low = extract(bits_set(values, up(first), i64(1) << level), larger)
                bits[level] = _put(planes[2 * level], bits[level], extract(larger, asked), i64(count_bits(asked)))
                _put(planes[2 * level + 1], bits[level + 1], low, i64(0))
                asked = larger
            bits[3] += i64(count_bits(asked))
            while asked != u64(0):
                values[kept] = values[first + i64(trailing_zeros(asked))] >> 3
                kept += 1
                asked &= asked - u64(1)
        for plane in range(6):
            at = _append(planes[plane], (bits[(plane + 1) >> 1] + 7) >> 3, out, at)
        n = kept
    return at


@loop
def _append(data, n, out, at):
    copy(data[:n], out[at : at + n])
    return at + n


@loop
def _list_segment(header, coefficients, rows, lists, ends, counts, out, at):
    """List the symbols of a segment, and write the rest of it from a byte on; return the byte after that, or UNFIT.

    ``ends`` has where symbols of each table are listed, and is moved to their ends.
    """
    symbols, values, planes, bits = lists
    columns, per = header.columns, header.per
    bit, n = 8 * at, i64(0)
    for c in range(header.components):
        h, v = header.across[c], header.down[c]
        book = 9 if c else 0
        above = i64(0)
        for y in range(rows * v):
            before = above
            row = (y // v) * columns * per + header.first_block[c] + (y % v) * h
            for x in range(columns * h):
                block = up(64 * place_in_row(x, h, per, row))
                dc = i64(coefficients[block])
                size = size_of(dc - before)
                if size > _LARGEST_DC:
                    return i64(UNFIT)
                bit = _put(out, bit, low_bits(dc - before, size), size)
                before = dc
                if x == 0:
                    above = dc
                mask = bits_set(coefficients, block, i64(-1)) & ~u64(1)
                used = (i64(71) - i64(leading_zeros(mask))) >> 3
                symbol = used << 4 | size
                for r in range(used + 1):
                    symbols[ends[book + r]] = symbol
                    ends[book + r] += 1
                    counts[book + r, symbol] += 1
                    symbol = i64((mask >> u64(8 * r)) & u64(255))
                while mask != u64(0):
                    values[n] = coefficients[block + up(trailing_zeros(mask))]
                    mask &= mask - u64(1)
                    n += 1
    bit = (bit + 7) & ~7
    for first in range(0, n, GROUP):
        here = GROUP if n - first > GROUP else n - first
        bit = _put(out, bit, bits_set(values, up(first), i64(-32768)) & ((u64(1) << u64(here)) - u64(1)), here)
    for k in range(n):
        values[k] = abs(values[k])
        if values[k] >> CATEGORY:
            return i64(UNFIT)
    return _put_planes(values, n, planes, bits, out, (bit + 7) >> 3)


@cached_jit(
    "int64(HEADER[::1], uint8[::1], int64, TABLE[::1], uint8[::1], int16[::1], uint8[::1], uint8[:, ::1], uint8[::1], "
    "int64[:, :, ::1], int64[:, ::1], uint8[::1])",
    HEADER=HEADER,
    TABLE=TABLE,
)
def list_segments(headers, data, each, tables, memory, numbers, lasts, planes, symbols, places, counts, out):
    """List the symbols of a baseline JPEG's segments of ``each`` MCU rows, and write the rest of them to ``out``.

    Return where the scan ends in the file; the negative result of decoding, or UNFIT. ``symbols`` has room for SYMBOLS
    of each block, ``out`` for REST_BYTES of each, and for 64 bytes of each segment. ``places`` (S, 2, BOOKS + 1) is
    filled, for each segment, with where the symbols of each table begin, and its rest in ``out``; and where these end.
    ``counts`` (BOOKS, 256), zeros before, has how often each table has each symbol. Scratch: ``tables`` of zeros;
    ``memory`` of WORK_BYTES; ``numbers`` and ``lasts``, 128 and 1 for each block of a segment and 64 more of the
    former; ``planes`` (6, 8 for each block and 64).
    """
    header = headers[0]
    work = _work_in(memory, 0, 1)[0]
    stream, mcu = work.stream, work.mcu
    rows, columns = header.rows, header.columns
    if not build_tables(data, header, tables):
        return i64(-BAD_TABLE)
    list_blocks(header, mcu)
    begin(data, header.scan, header.restart, stream)
    stream.marker = 0
    stream.skips = 0
    reader = stream, mcu, tables, ZIGZAG
    luma, blocks = header.across[0] * header.down[0] * columns, mcu.blocks * columns  # of an MCU row
    coefficients, values = numbers[: 64 * each * blocks], numbers[64 * each * blocks :]
    at = i64(0)
    symbol = i64(0)
    for s in range(places.shape[0]):
        here = min(each, rows - s * each)
        for k in range(64 * here * blocks):
            coefficients[k] = 0
        result = decode_mcus(data, here * columns, header.restart, reader, coefficients, lasts, _STORED)
        if result != DONE:
            return i64(-result)
        begins, ends = places[s, 0], places[s, 1]
        for t in range(BOOKS):
            begins[t] = ends[t] = symbol
            symbol += here * (luma if t < BOOKS // 2 else blocks - luma)
        begins[BOOKS] = at
        at = _list_segment(header, coefficients, here, (symbols, values, planes, work.bits), ends, counts, out, at)
        if at < 0:
            return i64(UNFIT)
        ends[BOOKS] = at
    stop = end_of(data, header.scan, i64(1))
    return stop if stop + 1 < data.size else data.size


# -- symbols to segments -----------------------------------------------------------------------------------------------


@loop
def _put_streams(symbols, begins, ends, codes, lengths, out, at):
    """Write the four streams of a segment's symbols and fill in their lengths; return the byte after them."""
    for stream in range(4):
        first = at
        bits, have = u64(0), u64(0)
        for t in range(BOOKS):
            book = codes[t]
            for k in range(begins[t] + stream, ends[t], 4):
                code = u64(book[symbols[k]])
                size = code & u64(15)
                bits |= code >> u64(4) << (u64(64) - have - size)
                have += size
                if have > u64(48):
                    for _ in range(6):
                        out[at] = bits >> u64(56)
                        bits <<= u64(8)
                        at += 1
                    have -= u64(48)
        while have > u64(0):
            out[at] = bits >> u64(56)
            bits <<= u64(8)
            at += 1
            have -= min(have, u64(8))
        lengths[stream] = at - first
    return at


@cached_jit(
    "none(uint8[::1], int64[:, :, ::1], uint8[::1], int64[:, ::1], int64[::1], uint8[::1], int64[::1], uint8[::1])"
)
def join_segments(symbols, places, rest, codes, lengths, room, stops, out):
    """Write segments of what :func:`list_segments` has found, with a set of ``codes`` (BOOKS, 256): code << 4 | length.

    ``stops`` is filled with their ends. ``lengths`` (4,) and ``room`` are scratch, the latter as large as ``out``: 12
    bytes more than ``rest`` for each block's symbols, and 64 for each segment.
    """
    at = i64(0)
    for s in range(stops.size):
        begins, ends = places[s, 0], places[s, 1]
        more = ends[BOOKS] - begins[BOOKS]
        size = _put_streams(symbols, begins, ends, codes, lengths, room, i64(0))
        width = width_of(length_at(STREAMS, SHORT_LENGTH) + size + more)
        first = at
        for k in range(STREAMS):
            store64(u64(lengths[k]), out, up(first + length_at(k, width)))
        at += length_at(STREAMS, width)
        at = _append(room, size, out, at)
        at = _append(rest[begins[BOOKS] :], more, out, at)
        after = load64(out, up(first)) >> u64(32) << u64(32)
        store64(after | u64(u32(checksum(out[first:at], SUM_BYTES))), out, up(first))
        stops[s] = at


@cached_jit("int64(uint8[::1], int64)")
def checksum_of(data, start):
    """Return the checksum of ``data[start:]``, of 32 bits."""
    return i64(u32(checksum(data, start)))


# -- segments to a scan ------------------------------------------------------------------------------------------------


@cached_jit(
    "int64(HEADER[::1], uint8[::1], int64, HEADER[::1], uint8[::1], int64, TABLE[::1], int64[:, ::1], uint8[::1], "
    "int16[::1], uint8[::1], uint8[::1], uint8[::1])",
    HEADER=HEADER,
    TABLE=TABLE,
)
def write_scan(
    headers, data, books, originals, original, padding, tables, codes, memory, coefficients, lasts, raw, out
):
    """Write the scan of the JPEG that a recoded file was made of, or a baseline scan of a progressive file.

    Return the bytes of the scan, LITTLE_ROOM if ``out`` has not SCAN_SLACK bytes more, or UNFIT. ``headers`` and
    ``data`` are of the recoded or progressive file, ``books`` is the address of the former's tables. ``original``, of
    the header ``originals``, is the baseline JPEG up to its scan, whose intervals end with ``padding``. Scratch:
    ``tables`` of zeros; ``codes`` (TABLES, CODES); ``memory`` of WORK_BYTES and ``recoded.list_bytes`` or
    ``progressive.coefficient_bytes``; ``coefficients``, 64 more than those of an MCU row, and ``lasts``; ``raw``,
    RAW_BYTES for each block of one, and RAW_SLACK.
    """
    header = headers[0]
    work = _work_in(memory, 0, 1)[0]
    first, rows, columns = originals[0], header.rows, header.columns
    writer, interval = work.writer, first.restart
    if header.components != first.components or (rows, columns) != (first.rows, first.columns):
        return i64(UNFIT)  # blocks of one would be written in the order of the other
    if header.across[0] != first.across[0] or header.per != first.per or not build_tables(original, first, tables):
        return i64(UNFIT)
    for t in range(TABLES):
        table = tables[t]
        if table.built == 1:
            list_codes(table.counts[1:], table.symbols, codes[t])
    list_blocks(first, work.mcu)
    begin_scan(writer, i64(0), interval, padding)
    n = 64 * header.per * columns
    ordered, here = coefficients[n:], coefficients[:n]
    whole = header.kind == PROGRESSIVE
    if whole:
        region = i64(0), columns, i64(0), rows
        good, every, _, _ = decode_scans(data, header, region, i64(FULL), i64(3), tables, memory[WORK_BYTES:])
        if not good:
            return i64(UNFIT)
    else:
        each, lists, sets, _ = lay_lists(header, data, books, memory, WORK_BYTES)
        if each == 0:
            return i64(UNFIT)
    for row in range(rows):
        if whole:
            here = every[n * row : n * (row + 1)]
        else:
            if row % each == 0:
                start, stop = segment_range(data, header, rows, each, row // each)
                if not open_segment(data, start, stop, header, min(each, rows - row), work.state, lists, sets):
                    return i64(UNFIT)
            put_row(header, work.state, i64(0), columns, lists, here, lasts)
        if not code_mcus(columns, work.mcu, codes, here, ordered, writer, raw, out):
            return i64(LITTLE_ROOM)
    return writer.at if end_scan(writer, raw, out) else i64(LITTLE_ROOM)
