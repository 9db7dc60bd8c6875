"""Decoder of recoded JPEGs: segments of masks and bit planes into coefficients, then pixels as of a baseline file.

RECODED.md describes the format. A segment holds one or more MCU rows and needs nothing from others, so that a
region is decoded from the segments that it lies in. Each is copied to scratch before it is read: bytes that change
meanwhile cannot mislead the decoder. It may read past the end of a stream, up to scratch behind the segment, where
other files were: such a segment is refused afterwards.
"""

from typing import Final

import numpy as np

from ..compiled import NativeFunction
from ..cpu.intrinsics import array_at, bytes_at, copy, load_bytes, longs_in, records_in, shorts_at, shorts_in
from ..scalar import loop, scalar, up
from . import layout
from .bits import load64, put_block, put_values, transpose_bytes
from .books import BOOK_BITS, BOOKS, SETS
from .checksum import checksum
from .decode import DECODER
from .deposit import deposit
from .formulas import is_size, is_spare, length_at, length_of, may_follow, place_in_row, width_of
from .frame import MCU, list_blocks, mcus_of, region_bytes
from .headers import read_head
from .layout import BAD_SEGMENT, DONE, LEVELS, PLANES, SEGMENT_BLOCKS, SEGMENT_BYTES, STREAMS, SUM_BYTES
from .rows import SHAPE, finish_row, read_steps, room_for_rows
from .vectors import count_bits, load_big, trailing_zeros

u64, i64, u32 = np.uint64, np.int64, np.uint32

GROUP: Final = 56  # values that are decoded at once: a load of 64 bits at any bit has as many
_PADDING = 128  # elements after lists, which vectors read or write
_STREAM_BYTES = 4  # of a block at most that a stream is read past a segment's end: 9 symbols of 10 bits, in 4 streams

_HALF = BOOKS // 2 << BOOK_BITS  # entries of a set of tables for luma, or for chroma
_EACH = u64(0x0101010101010101)
_HIGH = u64(0x8080808080808080)
_GROUP_MASK = u64((1 << GROUP) - 1)
_CORNER2, _CORNER4 = u64(0x0303), u64(0x0F0F0F0F)  # masks of the 2 x 2 and 4 x 4 lowest frequencies

#: State of the decoder of a segment.
STATE: Final = np.dtype(
    [
        ("bits", "<u8", STREAMS),  # of each stream: bits to decode, the next one on top, and a one after the last one
        ("byte", "<i8", STREAMS),  # of each stream: the byte of the segment that these began with,
        ("stop", "<i8", STREAMS),  # and the first byte after the stream
        ("values", "<i8", LEVELS),  # of each level: number of values,
        ("place", "<i8", LEVELS),  # where they are put,
        ("planes", "<i8", (LEVELS, PLANES)),  # and bytes of the segment where planes begin
        ("block", "<i8", 3),  # of each component: the next block that is written, in the list of masks,
        ("value", "<i8", 3),  # and its first value
    ],
    align=True,
)

#: The first part of the scratch, whose size does not depend on the image.
_WORK: Final = np.dtype([("state", STATE), ("mcu", MCU), ("shape", SHAPE)], align=True)
_WORK_BYTES: Final = _WORK.itemsize
_work_in = records_in(_WORK)

# Bytes of the lists below for each block, and for their ends.
_LIST_BYTES = SEGMENT_BYTES + _STREAM_BYTES + 3 + 8 + 2 + 2 * 63 * LEVELS
_END_BYTES = 8192


def list_bytes(width: int) -> int:
    """Return the bytes of scratch that images of ``width`` columns need in addition to those of a baseline file."""
    blocks = max(SEGMENT_BLOCKS, (width + layout.MCU_SIDE - 1) // 8 * layout.MOST_BLOCKS)
    return _WORK_BYTES + _LIST_BYTES * blocks + _END_BYTES


# -- symbols -----------------------------------------------------------------------------------------------------------


@scalar
def _refilled(data, bits, byte):
    """Return a stream with at least 56 bits, enough for five symbols."""
    used = u64(trailing_zeros(bits))
    byte += up(used >> u64(3))
    return (load_big(data, byte) | u64(1)) << (used & u64(7)), byte


@scalar
def _take(book, bits, out, to):
    entry = u64(book[up(bits >> u64(64 - BOOK_BITS))])
    out[to] = np.uint8(entry >> u64(8))
    return bits << (entry & u64(63))


@scalar
def _take_if(book, bits, out, to, end):
    return _take(book, bits, out, to) if to < end else bits


@loop
def _read_symbols(data, state, book, out, n):
    """Decode ``n`` symbols, which are dealt to the four streams in turn."""
    a, b, c, d = state.bits[0], state.bits[1], state.bits[2], state.bits[3]
    i, j, k, l = up(state.byte[0]), up(state.byte[1]), up(state.byte[2]), up(state.byte[3])  # noqa: E741
    to, end = up(0), up(n)
    while to < end:
        a, i = _refilled(data, a, i)
        b, j = _refilled(data, b, j)
        c, k = _refilled(data, c, k)
        d, l = _refilled(data, d, l)  # noqa: E741
        if to + up(20) <= end:
            for m in range(0, 20, 4):
                a = _take(book, a, out, to + up(m))
                b = _take(book, b, out, to + up(m + 1))
                c = _take(book, c, out, to + up(m + 2))
                d = _take(book, d, out, to + up(m + 3))
            to += up(20)
            continue
        while to < end:
            a = _take(book, a, out, to)
            b = _take_if(book, b, out, to + up(1), end)
            c = _take_if(book, c, out, to + up(2), end)
            d = _take_if(book, d, out, to + up(3), end)
            to += up(4)
    state.bits[0], state.bits[1], state.bits[2], state.bits[3] = a, b, c, d
    state.byte[0], state.byte[1], state.byte[2], state.byte[3] = i, j, k, l


@scalar
def _more_rows(rows, b, r):
    """Return a number of which byte k is 128 where block ``b + k`` has more than ``r`` rows, else 0."""
    return (load64(rows, b) + _EACH * u64(127 - r)) & _HIGH


@loop
def _read_masks(data, state, books, n, rows, sizes, runs, masks):
    """Decode the masks and the sizes of the DC differences of ``n`` blocks of luma, or of chroma."""
    _read_symbols(data, state, books[: 1 << BOOK_BITS], rows, n)
    for b in range(n):
        sizes[b] = rows[b] & 15
        rows[b] >>= 4
    for b in range(n, n + 8):
        rows[b] = 0
    for r in range(8):
        count = i64(0)
        for b in range(0, n, 8):
            count += i64(count_bits(_more_rows(rows, up(b), r)))
        if count:
            _read_symbols(data, state, books[(1 + r) << BOOK_BITS : (2 + r) << BOOK_BITS], runs, count)
        byte = up(0)
        for b in range(0, n, 8):
            more = _more_rows(rows, up(b), r)
            masks[up(b + r)] = i64(deposit(load64(runs, byte), (more >> u64(7)) * u64(255)))
            byte += up(count_bits(more))
    for b in range(0, n, 8):  # byte r of eight masks is now in word b + r
        transpose_bytes(masks, up(b))


# -- values ------------------------------------------------------------------------------------------------------------


@loop
def _read_dc(data, byte, sizes, rows, columns, bit, out):
    """Decode the DC coefficients of a component; return the next bit.

    Each is predicted by the one to the left, the first one of a row by the one above.
    """
    above = i64(0)
    b = i64(0)
    for _ in range(rows):
        dc = above
        for column in range(columns):
            size = i64(sizes[up(b)])
            value = i64(load64(data, up(byte + (bit >> 3))) >> u64(bit & 7)) & ((1 << size) - 1)
            bit += size
            dc += value - (((1 << size) - 1) if value < (1 << size >> 1) else 0)
            out[up(b)] = dc
            if column == 0:
                above = dc
            b += 1
    return bit


@loop
def _count_ones(data, byte, n):
    """Count the ones of ``n`` bits from a byte on."""
    count = i64(0)
    for k in range(n >> 6):
        count += i64(count_bits(load64(data, up(byte + 8 * k))))
    if n & 63:
        last = load64(data, up(byte + (n >> 6 << 3)))
        count += i64(count_bits(last & ((u64(1) << u64(n & 63)) - u64(1))))
    return count


@loop
def _find_planes(data, byte, stop, n, state):
    """Find the planes of ``n`` values, after their signs; return whether they end where the segment does."""
    byte += (n + 7) >> 3
    place = i64(0)
    for level in range(LEVELS):
        planes = state.planes[level]
        state.values[level], state.place[level] = n, place
        place += n + _PADDING
        for k in range(0, PLANES, 2):
            planes[k] = byte
            byte += (n + 7) >> 3
            if byte > stop:
                return False
            n = _count_ones(data, planes[k], n)
            if not may_follow(n, (PLANES * level + k) >> 1):
                return False
            planes[k + 1] = byte
            byte += (n + 7) >> 3
    return n == 0 and byte == stop


@scalar
def _bits_at(data, byte, bit):
    """Return at least 57 bits."""
    return load64(data, byte + up(bit >> u64(3))) >> (bit & u64(7))


@loop
def _read_level(data, signs, has_signs, planes, n, upper, out):
    """Decode magnitudes, or values, from their planes and from the upper bits of the larger ones."""
    # Planes: is it larger than 1 bit, bit 0, larger than 2, bit 1, larger than 3, bit 2.
    byte, low, larger3 = up(planes[0]), up(planes[1]), up(planes[2])
    middle, larger4, high = up(planes[3]), up(planes[4]), up(planes[5])
    bit2, bit3, bit4 = u64(0), u64(0), up(0)
    sign_byte, sign = up(signs), u64(0)
    to, left = up(0), n
    while left > 0:
        two = load64(data, byte) & _GROUP_MASK
        if left < GROUP:
            two &= (u64(1) << u64(left)) - u64(1)
        three = deposit(_bits_at(data, larger3, bit2), two)
        four = deposit(_bits_at(data, larger4, bit3), three)
        bits0 = deposit(_bits_at(data, low, bit2), two)
        bits1 = deposit(_bits_at(data, middle, bit3), three)
        bits2 = deposit(_bits_at(data, high, u64(bit4)), four)
        if has_signs:
            sign = load64(data, sign_byte)
        bit4 = put_values((two, three, four), (bits0, bits1, bits2), sign, upper, bit4, out, to)
        bit2 += u64(count_bits(two))
        bit3 += u64(count_bits(three))
        byte += up(GROUP // 8)
        sign_byte += up(GROUP // 8)
        to += up(GROUP)
        left -= GROUP


# -- segments ----------------------------------------------------------------------------------------------------------


@loop
def _luma_end(n):
    """Return the place of chroma's masks after those of ``n`` blocks of luma, which are decoded by eights."""
    return (n + 7) & ~7


@loop
def open_segment(data, start, stop, header, rows, state, lists, books):
    """Decode a segment of ``rows`` MCU rows to masks, DC coefficients and values; return whether it is undamaged."""
    segment, symbols, sizes, runs, masks, dcs, values = lists
    across, down, columns = header.across[0], header.down[0], header.columns
    luma = rows * columns * across * down
    one = rows * columns if header.components > 1 else i64(0)  # blocks of a component of chroma
    size = stop - start
    if start < 0 or stop > data.size or not is_size(size, luma + 2 * one):
        return False
    segment_ = segment[:size]
    copy(data[start:stop], segment_)
    if u32(checksum(segment_, SUM_BYTES)) != load_bytes(segment, 0):
        return False
    width = i64(width_of(size))
    byte = length_at(STREAMS, width)
    for k in range(STREAMS):
        length = i64(length_of(load_bytes(segment, length_at(k, width)), width))
        if byte + length > size:
            return False
        state.byte[k] = byte
        state.bits[k] = load_big(segment, up(byte)) | u64(1)
        byte += length
        state.stop[k] = byte
    begin = _luma_end(luma)
    _read_masks(segment, state, books[0], luma, symbols, sizes, runs, masks)
    if one:
        _read_masks(segment, state, books[1], 2 * one, symbols, sizes[begin:], runs, masks[begin:])
    for k in range(STREAMS):
        if not is_spare(8 * (state.stop[k] - state.byte[k]) - i64(trailing_zeros(state.bits[k]))):
            return False
    bit = _read_dc(segment, byte, sizes, rows * down, columns * across, i64(0), dcs)
    total = i64(0)
    for c in range(header.components):
        first = begin + (c - 1) * one if c else i64(0)
        if c:
            bit = _read_dc(segment, byte, sizes[first:], rows, columns, bit, dcs[first:])
        state.block[c], state.value[c] = first, total
        total = _value_after(masks, total, first, one if c else luma)
    byte += (bit + 7) >> 3
    if byte > size or not _find_planes(segment, byte, size, total, state):
        return False
    level = LEVELS - 1
    while level >= 0:  # the upper bits first
        n, place = state.values[level], state.place[level]
        if n:
            upper = values[place + n + _PADDING :]
            _read_level(segment, byte, level == 0, state.planes[level], n, upper, values[place:])
        level -= 1
    return True


@loop
def _value_after(masks, value, block, n):
    """Return the value after those of ``n`` blocks."""
    for b in range(block, block + n):
        value += i64(count_bits(u64(masks[up(b)])))
    return value


@loop
def _put_blocks(masks, dcs, block, n, across, values, value, coefficients, lasts, place, per):
    """Write ``n`` blocks, ``across`` of them to each MCU of ``per`` from a place on; return the value after theirs."""
    value = up(value)
    for k in range(n):
        mask = u64(masks[up(block + k)])
        to = place_in_row(k, across, per, place)
        value = put_block(mask, i64(dcs[up(block + k)]), values, value, coefficients, up(64 * to))
        # A position that stands for the transform that suffices: of one, 2 x 2, 4 x 4 or all coefficients.
        last = 0 if mask == u64(0) else 1
        last |= 2 if mask & ~_CORNER2 else 0
        lasts[up(to)] = last | (60 if mask & ~_CORNER4 else 0)
    return i64(value)


@loop
def put_row(header, state, first, end, lists, coefficients, lasts):
    """Write the coefficients of the next MCU row of a segment, MCU by MCU, from column ``first`` to ``end``."""
    _, _, _, _, masks, dcs, values = lists
    columns, per = header.columns, header.per
    for c in range(header.components):
        h, v = header.across[c], header.down[c]
        block, value = state.block[c], state.value[c]
        for y in range(v):
            value = _value_after(masks, value, block, first * h)
            block += first * h
            place = header.first_block[c] + y * h
            n = (end - first) * h
            value = _put_blocks(masks, dcs, block, n, h, values, value, coefficients, lasts, place, per)
            block += n
            value = _value_after(masks, value, block, (columns - end) * h)
            block += (columns - end) * h
        state.block[c], state.value[c] = block, value


@loop
def lay_lists(header, data, books_address, memory, at):
    """Return MCU rows of a segment, lists for one in scratch from a byte on, its tables, and the byte after the lists.

    The rows are 0 for a damaged file.
    """
    each, luma, chroma, blocks = read_head(header, data)
    most = blocks * max(each, 1)
    masks = longs_in(memory, at, most + 16)
    at += 8 * masks.size
    values = shorts_in(memory, at, LEVELS * (63 * most + _PADDING) + _PADDING)
    at += 2 * values.size
    dcs = shorts_in(memory, at, most + 16)
    at += 2 * dcs.size
    segment = memory[at : at + (SEGMENT_BYTES + _STREAM_BYTES) * most + 2 * _PADDING]
    at += segment.size
    symbols = memory[at : at + most + 32]
    sizes = memory[at + most + 32 : at + 2 * (most + 32)]
    runs = memory[at + 2 * (most + 32) : at + 3 * (most + 32)]
    at += 3 * (most + 32)
    books = shorts_at(books_address, 2 * SETS * _HALF)
    chosen = books[2 * luma * _HALF :], books[(2 * chroma + 1) * _HALF :]
    return each, (segment, symbols, sizes, runs, masks, dcs, values), chosen, (at + 7) & ~7


@loop
def segment_range(data, header, rows, each, k):
    """Return where segment ``k`` begins and ends in the file."""
    begin = header.scan + 4 * -(-rows // each)
    start = i64(load_bytes(data, header.scan + 4 * (k - 1))) if k else i64(0)
    return begin + start, begin + i64(load_bytes(data, header.scan + 4 * k))


@loop
def _decode_region(data, header, request, out, memory, status):
    """Decode the requested region; return the result."""
    rows = header.rows
    first, end, top, bottom = mcus_of(header, request.scale, request.region)
    columns = end - first
    work = _work_in(memory, 0, 1)[0]
    state, mcu, shape = work.state, work.mcu, work.shape
    each, lists, books, at = lay_lists(header, data, request.books, memory, _WORK_BYTES)
    if each == 0:
        return BAD_SEGMENT
    per = header.per
    coefficients = shorts_in(memory, at, columns * per * 64)
    at += 2 * coefficients.size
    lasts = memory[at : at + columns * per]
    room = room_for_rows(header, request.scale, columns, memory, at + ((columns * per + 7) & ~7), shape)
    read_steps(header, data, room[0])
    list_blocks(header, mcu)
    for k in range(top // each, -(-bottom // each)):
        status.row = k * each
        start, stop = segment_range(data, header, rows, each, k)
        here = min(each, rows - k * each)
        if not open_segment(data, start, stop, header, here, state, lists, books):
            return BAD_SEGMENT
        for row in range(k * each, min(k * each + here, bottom)):
            if row < top:
                put_row(header, state, i64(0), i64(0), lists, coefficients, lasts)
                continue
            put_row(header, state, first, end, lists, coefficients, lasts)
            finish_row(header, request, mcu, shape, row, first, columns, coefficients, lasts, room, out)
    return DONE


def _decode(header, request, out_, tables_, work_, work_size, status):
    """Decode the pixels of a region; the arguments are those of the baseline decoder."""
    data = bytes_at(request.data, request.size)
    out = array_at(out_, region_bytes(request.region, request.channels))
    status.row = 0
    status.rows = header.rows
    status.result = _decode_region(data, header, request, out, array_at(work_, work_size), status)


DECODE_FUNCTION = NativeFunction("decode_recoded_jpeg", _decode, DECODER)
