"""Segments of recoded JPEGs to coefficients on a GPU, a warp for each; kernels/jpeg/RECODED.md describes the format.

Four lanes decode the four streams. Then each lane takes a block of 32, and each a value of 32: the place of a bit in a
plane is the number of ones before it in the plane that it follows from, counted by votes.

Whatever a segment contains, no access is outside the uploaded words, or outside the blocks that the host has reserved.
Damaged segments, as :mod:`gpuimg.kernels.jpeg.recoded` defines them, are reported.
"""

import numpy as np
from numba import cuda, types

from ..jpeg.books import BOOK_BITS, BOOKS
from ..jpeg.formulas import is_size, is_spare, length_at, length_of, may_follow, mixed_in, place_in_row, width_of
from ..jpeg.layout import LEVELS, PLANES, STREAMS, SUM_BYTES
from ..jpeg.upload import IN_IMAGE, IN_SCAN, SAMPLES, SCAN_WORDS
from ..scalar import i32, scalar, u32, u64, up, word
from .jpeg_codes import refilled, stream_at, value_of
from .jpeg_find import summed
from .jpeg_pixels import quotient

_ALL = 0xFFFFFFFF
_LAST = 31  # lane of a warp
_RUNS = BOOKS // 2  # of symbols, of luma or of chroma: heads, and eight rows
_SUMS = 4  # of a checksum, each of the eight bytes after those of the one before
_GROUP = 8 * _SUMS  # bytes that they take together
_COUNTS = 3  # of a level: its values, those of 2 or more, and those of 4 or more
_MOST = 32 * 64  # values of 32 blocks


# -- the warp ----------------------------------------------------------------------------------------------------------


@scalar
def _of(value, lane):
    """Return the value of a lane."""
    return i32(cuda.shfl_sync(_ALL, value, lane))


@scalar
def _ballot(is_one):
    return u32(cuda.ballot_sync(_ALL, is_one))


@scalar
def _ones(bits, n):
    """Count the ones of the lowest ``n`` bits, 0 to 32."""
    return i32(cuda.popc(u32(u64(bits) & u64(u64(u64(1) << u64(n)) - u64(1)))))


@scalar
def _total(value, lane):
    """Return the sum of the values of all lanes."""
    return _of(summed(value, lane), _LAST)


# -- bits --------------------------------------------------------------------------------------------------------------


@scalar
def _little(words, begin, bit):
    """Return 32 bits, the first one lowest."""
    at = i32(begin + (bit >> 5))
    pair = u64(u64(u32(word(words, at, 0))) | u64(u64(u32(word(words, at, 1))) << u64(32)))
    return u32(pair >> u64(bit & 31))


@scalar
def _bit(words, begin, byte, k):
    """Return bit ``k`` of those that begin at a byte."""
    bit = i32(i32(byte << 3) + k)
    return i32(word(words, begin, bit >> 5) >> (bit & 31)) & i32(1)


@scalar
def _big(words, begin, byte):
    """Return eight bytes, the first one highest."""
    shift = i32(i32(byte & 3) << 3)
    bits, _, ahead, _ = stream_at(words, i32(begin + (byte >> 2)), shift)
    return u64(bits | u64(u64(u64(ahead) << u64(shift)) >> u64(32)))


@scalar
def _sum_of(words, begin, byte, stop, lane):
    """Return the checksum of the bytes up to ``stop``, as :func:`gpuimg.kernels.jpeg.checksum.checksum` defines it."""
    groups = i32(u32(stop - byte) // u32(_GROUP))
    own = u64(lane + 1)
    if lane < _SUMS:
        for k in range(groups):
            own = mixed_in(own, _big(words, begin, i32(byte + i32(_GROUP * k + 8 * lane))))
    total = u64(cuda.shfl_sync(_ALL, np.int64(own), 0))
    for k in range(1, _SUMS):
        total = mixed_in(total, u64(cuda.shfl_sync(_ALL, np.int64(own), k)))
    at = i32(byte + _GROUP * groups)
    while at < stop:
        total = mixed_in(total, u64(_little(words, begin, i32(at << 3)) & u32(255)))
        at = i32(at + 1)
    total = mixed_in(total, u64(stop - byte))
    return u32(u64(total ^ u64(total >> u64(32))))


# -- symbols -----------------------------------------------------------------------------------------------------------


@scalar
def _read_run(words, stream, limit, books, book, symbols, to, first, n):
    """Decode every fourth of ``n`` symbols from the first one on; return the stream after them, and their ones."""
    bits, left, ahead, at = stream
    ones = i32(0)
    k = first
    while k < n:
        code = u32(u32(bits >> u64(32)) >> u32(32 - BOOK_BITS))
        entry = i32(books[up(u32(u32(book) << u32(BOOK_BITS)) | code)])
        symbols[up(to + k)] = np.uint8(entry >> 8)
        ones = i32(ones + _ones(entry >> 8, 8))
        used = entry & i32(255)
        bits = u64(bits << u64(used))
        left = i32(left - used)
        if left < 32:
            bits, left, ahead, at = refilled(words, bits, left, ahead, min(at, limit))
        k = i32(k + STREAMS)
    return bits, left, ahead, at, ones


@scalar
def _count_heads(symbols, to, n, lane):
    """Return, in lane r of 8, the number of blocks of more than r rows; in all together, the bits of DC differences."""
    blocks, bits = i32(0), i32(0)
    k = lane
    while k - lane < n:
        head = i32(symbols[up(to + k)]) if k < n else i32(0)
        bits = i32(bits + (head & 15))
        for r in range(8):
            more = _ones(_ballot(head >> 4 > r), 32)
            blocks = i32(blocks + (more if lane == r else i32(0)))
        k = i32(k + 32)
    return blocks, bits


@scalar
def _read_symbols(words, scan, begin, byte, end, books, symbols, first, luma, chroma, lane):
    """Decode the symbols of all runs, of the stream from byte to ``end`` by each of four lanes.

    Return whether the streams end with them, the bits of DC differences, and the number of values.
    """
    limit = i32(begin + (end >> 2) + 4)  # a stream that comes to this word stays there, past its end
    stream = stream_at(words, i32(begin + (byte >> 2)), i32(i32(byte & 3) << 3))
    to, values, bits = i32(first * SAMPLES), i32(0), i32(0)
    for group in range(2):
        count = chroma if group else luma
        tables = i32(word(words, scan, IN_SCAN.books) >> i32(8 * group)) & i32(255)
        blocks, counts = count, i32(0)
        for run in range(_RUNS):
            b0, b1, b2, b3, ones = _read_run(
                words, stream, limit, books, i32(tables * BOOKS + i32(group * _RUNS + run)), symbols,
                i32(to + run * count), lane if lane < STREAMS else count, blocks,
            )  # fmt: skip
            stream = b0, b1, b2, b3
            if run == 0:
                cuda.syncwarp()
                counts, more = _count_heads(symbols, to, count, lane)
                bits = i32(bits + more)
            else:
                values = i32(values + ones)
            blocks = _of(counts, run)
        to = i32(to + _RUNS * count)
    cuda.syncwarp()
    _, left, _, at = stream
    spare = i32(i32(end << 3) - i32(i32(i32(at - 1 - begin) << 5) - left))
    return not cuda.any_sync(_ALL, lane < STREAMS and not is_spare(spare)), _total(bits, lane), _total(values, lane)


# -- values ------------------------------------------------------------------------------------------------------------


@scalar
def _find_planes(words, begin, byte, stop, n, lane):
    """Return in lanes the bytes where the planes of ``n`` values begin, level by level; and whether they end right."""
    byte, plane, fits = i32(byte + ((n + 7) >> 3)), i32(0), True  # after their signs
    for k in range(0, PLANES * LEVELS, 2):
        plane = byte if lane == k else plane
        end, bit, ones = i32(byte + ((n + 7) >> 3)), i32(lane << 5), i32(0)
        fits = fits and end <= stop
        while fits and bit < n:
            ones = i32(ones + _ones(_little(words, begin, i32(i32(byte << 3) + bit)), min(i32(n - bit), i32(32))))
            bit = i32(bit + 1024)
        plane = end if lane == k + 1 else plane
        n = _total(ones, lane)
        fits = fits and may_follow(n, k >> 1)
        byte = i32(end + ((n + 7) >> 3))
    return plane, fits and n == 0 and byte == stop


@scalar
def _ranked(is_one, counts, k, lane):
    """Return the number of ones before this lane's, with those of earlier calls, which lane ``k`` of ``counts`` has.

    Also the counts after this call.
    """
    votes = _ballot(is_one)
    return i32(_of(counts, k) + _ones(votes, lane)), i32(counts + (_ones(votes, 32) if lane == k else i32(0)))


@scalar
def _read_magnitudes(words, begin, plane, counts, active, lane):
    """Return a magnitude, its index, and the counts of values in the planes, for the lanes that have a value."""
    value = i32(0)
    number, counts = _ranked(active, counts, 0, lane)
    index, one = number, i32(active)
    level = i32(0)
    while cuda.any_sync(_ALL, one != 0):
        at, count = i32(PLANES * level), i32(_COUNTS * level)
        two = one & _bit(words, begin, _of(plane, at), index)
        second, counts = _ranked(two != 0, counts, i32(count + 1), lane)
        low = two & _bit(words, begin, _of(plane, i32(at + 1)), second)
        three = two & _bit(words, begin, _of(plane, i32(at + 2)), second)
        third, counts = _ranked(three != 0, counts, i32(count + 2), lane)
        middle = three & _bit(words, begin, _of(plane, i32(at + 3)), third)
        four = three & _bit(words, begin, _of(plane, i32(at + 4)), third)
        index, counts = _ranked(four != 0, counts, i32(count + 3), lane)
        high = four & _bit(words, begin, _of(plane, i32(at + 5)), index)
        # The highest bit of a magnitude of 1 to 3 bits; one of more has it in the next level.
        top = i32(i32((one ^ two) | i32((two ^ three) << 1)) | i32((three ^ four) << 2))
        part = i32(i32(top | low) | i32(i32(middle << 1) | i32(high << 2)))
        value = i32(value | i32(part << i32(3 * level)))
        one = four
        level = i32(level + 1)
    return value, number, counts


# -- segments ----------------------------------------------------------------------------------------------------------


def recoded(words, scans, books, symbols, coefficients, status):
    """Decode the coefficients of segments, MCU by MCU; they must be zero before (kernel function).

    ``scans`` is the word offset of the launch's scans, of which ``blockIdx.y`` is one; ``blockIdx.x`` is the segment of
    its window. ``symbols`` is scratch, ``SAMPLES`` bytes for each block of coefficients. ``status`` is set to 1 for
    each image with a damaged segment.
    """
    scan = i32(scans + SCAN_WORDS * i32(cuda.blockIdx.y))
    each = word(words, scan, IN_SCAN.each)
    if each == 0:  # a JPEG
        return
    rows = i32(word(words, word(words, scan, IN_SCAN.record), IN_IMAGE.rows) - i32(cuda.blockIdx.x) * each)
    if rows <= 0:  # the image has fewer segments than others
        return
    if not decode_segment(words, scan, i32(cuda.blockIdx.x), min(rows, each), books, symbols, coefficients):
        if cuda.threadIdx.x == 0:
            cuda.atomic.max(status, up(word(words, scan, IN_SCAN.image)), i32(1))


@scalar
def decode_segment(words, scan, number, rows, books, symbols, coefficients):
    """Decode a segment of ``rows`` MCU rows; return whether it is undamaged."""
    lane = i32(cuda.threadIdx.x)
    record = word(words, scan, IN_SCAN.record)
    columns, per = word(words, record, IN_IMAGE.columns), word(words, record, IN_IMAGE.per)
    across, down = word(words, record, IN_IMAGE.across), word(words, record, IN_IMAGE.down)
    row = i32(number * word(words, scan, IN_SCAN.each))
    first = i32(word(words, scan, IN_SCAN.block) + i32(row * columns) * per)
    luma = i32(i32(rows * columns) * i32(across * down))  # blocks
    chroma = i32(i32(i32(rows * columns) * per) - luma)  # of both components
    # Bytes are counted from the first segment's that was uploaded.
    table, total = word(words, scan, IN_SCAN.word), word(words, scan, IN_SCAN.total)
    begin = i32(table + total)
    k = i32(word(words, scan, IN_SCAN.first) + number)
    start = i32((word(words, table, k - 1) if k > 0 else i32(0)) - word(words, scan, IN_SCAN.base))
    stop = i32(word(words, table, k) - word(words, scan, IN_SCAN.base))
    size = i32(stop - start)
    if start < 0 or stop > (word(words, scan, IN_SCAN.end) >> 3) - 4 * total:
        return False
    if not is_size(size, luma + chroma):
        return False
    if _sum_of(words, begin, i32(start + SUM_BYTES), stop, lane) != _little(words, begin, i32(start << 3)):
        return False
    width = i32(width_of(size))
    length = i32(0)
    if lane < STREAMS:
        length = i32(length_of(_little(words, begin, i32(i32(start + length_at(lane, width)) << 3)), width))
    if cuda.any_sync(_ALL, length < 0 or length > size):
        return False
    byte = i32(start + length_at(STREAMS, width))
    ends = summed(length, lane)
    own = i32(byte + i32(ends - length))
    byte = i32(byte + _of(ends, _LAST))
    if byte > stop:
        return False
    own_end = i32(own + length)
    ends_right, bits, values = _read_symbols(
        words, scan, begin, own, own_end, books, symbols, first, luma, chroma, lane
    )
    if not ends_right:
        return False
    dc = i32(byte << 3)
    byte = i32(byte + ((bits + 7) >> 3))
    if byte > stop:
        return False
    plane, fits = _find_planes(words, begin, byte, stop, values, lane)
    if not fits:
        return False
    _read_values(words, begin, dc, byte, plane, symbols, record, first, rows, luma, chroma, coefficients, lane)
    return True


@scalar
def _read_values(words, begin, dc, signs, plane, symbols, record, first, rows, luma, chroma, coefficients, lane):
    """Write the coefficients of a segment from its symbols, DC differences from a bit on, signs and other planes."""
    places = cuda.shared.array(_MOST, types.uint16)  # of the values of 32 blocks: the lane, and the position
    columns, per = word(words, record, IN_IMAGE.columns), word(words, record, IN_IMAGE.per)
    across, down = word(words, record, IN_IMAGE.across), word(words, record, IN_IMAGE.down)
    to, count, block = i32(first * SAMPLES), luma, i32(0)
    counts, used = i32(0), i32(0)  # in lanes: of the values in planes, and of the symbols of runs
    c = i32(0)
    while c < (3 if chroma else 1):
        h, v, place = across, down, first
        if c:
            h, v, place = i32(1), i32(1), i32(first + i32(across * down + c - 1))
        if c == 1:
            to, used, count, block = i32(to + _RUNS * luma), i32(0), chroma, i32(0)
        above, y = i32(0), i32(0)
        while y < v * rows:
            row = quotient(y, v)
            line = i32(place + i32(row * i32(columns * per)) + i32(i32(y - row * v) * h))
            before, first_x = above, i32(0)
            while first_x < h * columns:
                x = i32(first_x + lane)
                head = i32(symbols[up(to + block + x)]) if x < h * columns else i32(0)
                mask, used = _mask_of(symbols, i32(to + count), count, head, used, lane)
                size = i32(head & 15)
                sizes = summed(size, lane)
                bits = _little(words, begin, i32(dc + sizes - size))
                dc = i32(dc + _of(sizes, _LAST))
                value = value_of(u32(u32(bits << u32(31 - size)) << u32(1)), u32(size))
                value = i32(before + summed(value, lane))
                before = _of(value, _LAST)
                if first_x == 0:
                    above = _of(value, 0)
                where = i32(i32(place_in_row(x, h, per, line)) << 6)
                if x < h * columns:
                    coefficients[up(where)] = np.int16(value)
                own = i32(cuda.popc(mask))
                ends = summed(own, lane)
                at = i32(ends - own)
                while mask != u64(0):
                    places[up(at)] = np.uint16(i32(lane << 6) | i32(i32(cuda.popc(u64(mask ^ u64(mask - u64(1))))) - 1))
                    at = i32(at + 1)
                    mask = u64(mask & u64(mask - u64(1)))
                cuda.syncwarp()
                total, k = _of(ends, _LAST), lane
                while k - lane < total:
                    value, number, counts = _read_magnitudes(words, begin, plane, counts, k < total, lane)
                    spot = i32(places[up(k)]) if k < total else i32(0)
                    value = -value if _bit(words, begin, signs, number) else value
                    out = _of(where, i32(spot >> 6))
                    if spot & 63:  # else this lane has no value: 0 is the position of DC coefficients
                        coefficients[up(out + i32(spot & 63))] = np.int16(value)
                    k = i32(k + 32)
                cuda.syncwarp()
                first_x = i32(first_x + 32)
            block = i32(block + h * columns)
            y = i32(y + 1)
        c = i32(c + 1)


@scalar
def _mask_of(symbols, to, count, head, used, lane):
    """Return the mask of this lane's block; and in lanes 0 to 7, how many symbols of these runs are used."""
    mask = u64(0)
    for r in range(8):
        more = head >> 4 > r
        at, used = _ranked(more, used, r, lane)
        symbol = u64(symbols[up(i32(to + i32(r) * count) + at)]) if more else u64(0)
        mask = u64(mask | u64(symbol << u64(8 * r)))
    return mask, used
