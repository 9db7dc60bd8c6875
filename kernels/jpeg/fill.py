"""Segments of files for a GPU: their bytes, tables and numbers, written as the words that are uploaded."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..compiled import kept
from ..cpu.intrinsics import bytes_at, shorts_in
from ..scalar import loop, up
from . import upload as words
from .frame import factors, grid, list_parts
from .huffman import next_marker
from .layout import (
    AC_TABLE,
    COLOR,
    COMPONENTS,
    DC_TABLE,
    ENTRY,
    ENTRY_BYTES,
    EVERY,
    GRAY,
    HEIGHT,
    QUANT,
    RESTART,
    SCAN,
    WIDTH,
)
from .seek import PREDICTED, SEGMENTS, point, set_out
from .segments import (
    ALL_SEGMENTS,
    AT,
    BLOCKS,
    BOTTOM,
    BYTES,
    CODES,
    CODES_END,
    COUNT,
    ENTRY_SEGMENTS,
    FIRST,
    FIRST_SEGMENT,
    GROUP_AT,
    IMAGE_AT,
    LEFT,
    LONGEST_BLOCK,
    PAIR,
    PAIR_COUNT,
    PAIR_FIRST,
    PAIR_TABLES,
    PAIRS,
    PART_LIST,
    PLACE,
    REFUSED,
    RIGHT,
    SEGMENT_AT,
    SET_AT,
    SETS,
    STATUS,
    TAKEN,
    TOP,
    is_needed,
    luma_blocks,
    place_of_table,
    wanted_intervals,
)
from .tables import LONGEST, ZIGZAG, read_codes
from .vectors import MASKED, copy_masked, trailing_zeros

i64, i32, u32 = np.int64, np.int32, np.uint32

BUCKETS: Final = 1024  # of sizes
_BUCKET_BITS = 6  # a size is sorted by without these
_PADDING = 7  # bits in front of a restart marker


# -- bytes -------------------------------------------------------------------------------------------------------------


@loop
def _copy_clean(data, raw, stop, out, at):
    """Copy bytes without the zeros after 0xFF, up to a marker; gives where that ended in both."""
    while raw < stop:
        if raw + MASKED <= data.size and at + MASKED <= out.size:
            mask = copy_masked(data, up(raw), out, up(at))
            step = min(MASKED if mask == u32(0) else i64(trailing_zeros(mask)), stop - raw)
            raw += step
            at += step
            if step == MASKED or raw == stop:
                continue
        byte = data[raw]
        if byte == 0xFF:
            if raw + 1 >= data.size or data[raw + 1] != 0:
                break
        if at >= out.size:
            break
        raw += 2 if byte == 0xFF else 1
        out[at] = byte
        at += 1
    return raw, at


@loop
def _low(one, other):
    """Two numbers of 16 bits in a word."""
    return i32(u32(one & 0xFFFF) | u32(other & 0xFFFF) << u32(16))


@loop
def _write_segment(segment, at, shift, end, slack, block, blocks, i):
    """Enter a segment whose bytes begin at a word."""
    segment[words.SEGMENT_WORD], segment[words.SHIFT] = at, shift
    segment[words.END], segment[words.SLACK] = end, slack
    segment[words.BLOCK], segment[words.SEGMENT_BLOCKS] = block, blocks
    segment[words.IMAGE] = i
    segment[words.BEFORE] = segment[words.BETWEEN] = segment[words.BEHIND] = 0


@loop
def _copy_segments_of_entry(i, data, header, access, image, entry, seek, first_word, out, at, segments):
    """Bytes and numbers of the segments that an entry has; gives whether it fits."""
    rows, columns = grid(header)
    set_out(rows, image[ENTRY_SEGMENTS], seek)
    step = access[EVERY] if image[ENTRY_SEGMENTS] > 1 else columns
    per = image[BLOCKS] // ((image[BOTTOM] - image[TOP]) * (image[RIGHT] - image[LEFT]))
    known = shorts_in(entry, seek[PREDICTED], 3 * rows * seek[SEGMENTS])
    n = 0
    block = image[FIRST]
    for r in range(image[TOP], image[BOTTOM]):
        bit = point(entry, seek, rows, r, image[LEFT] // step)
        for m in range(image[LEFT], image[RIGHT], step):
            number = r * seek[SEGMENTS] + m // step
            is_last = number + 1 == rows * seek[SEGMENTS]
            behind = 8 * data.size
            if not is_last:
                behind = point(entry, seek, rows, (number + 1) // seek[SEGMENTS], (number + 1) % seek[SEGMENTS])
            if not 8 * header[SCAN] <= bit < behind <= 8 * data.size:
                return False
            blocks = (min(m + step, columns) - m) * per
            start = at
            stop = min(-(-behind // 8), (bit >> 3) + blocks * LONGEST_BLOCK)
            raw, at = _copy_clean(data, bit >> 3, stop, out, at)
            if not is_last and raw < stop:
                return False
            end = 8 * (at - start) - (0 if is_last else -behind & 7)
            if end <= 0:
                return False
            segment = segments[n]
            _write_segment(segment, first_word + start // 4, bit & 7, end, end if is_last else 0, block, blocks, i)
            p = 3 * number
            q = p if is_last else p + 3
            segment[words.BEFORE] = _low(i64(known[p]), i64(known[p + 1]))
            segment[words.BETWEEN] = _low(i64(known[p + 2]), i64(known[q]))
            segment[words.BEHIND] = _low(i64(known[q + 1]), i64(known[q + 2]))
            at = (at + 3) & ~3
            block += blocks
            bit = behind
            n += 1
    return True


@loop
def _copy_intervals(i, data, header, region, image, first_word, out, at, segments):
    """Bytes and numbers of restart intervals; gives whether they are there, and how many bytes there are."""
    rows, columns = grid(header)
    k, last, first, end = wanted_intervals(header, region)
    size, total = header[RESTART], rows * columns
    per = image[BLOCKS] // ((image[BOTTOM] - image[TOP]) * columns)
    begin = header[SCAN]
    for _ in range(k):
        begin = next_marker(data, begin) + 2
    n = 0
    for number in range(k, last + 1):
        stop = next_marker(data, begin)
        if is_needed(number, size, columns, first, end):
            start = at
            m = number * size
            blocks = (min(m + size, total) - m) * per
            is_last = m + size >= total
            enough = min(stop, begin + blocks * LONGEST_BLOCK)  # so that the bits are an int32 of whatever file
            raw, at = _copy_clean(data, begin, enough, out, at)
            if raw < (enough if is_last else stop):
                return False
            bits = 8 * (at - start)
            slack = bits if is_last else min(bits, _PADDING)
            block = image[FIRST] + (m - image[TOP] * columns) * per
            _write_segment(segments[n], first_word + start // 4, 0, bits, slack, block, blocks, i)
            at = (at + 3) & ~3
            n += 1
        begin = stop + 2
    return True


@loop
def _copy_segments(i, data, header, region, access, image, seek, first_word, out, segments):
    """Bytes and numbers of an image's segments; gives whether they are there."""
    if image[ENTRY_SEGMENTS] == 0:
        return _copy_intervals(i, data, header, region, image, first_word, out, i64(0), segments)
    entry = bytes_at(access[ENTRY], access[ENTRY_BYTES])
    return _copy_segments_of_entry(i, data, header, access, image, entry, seek, first_word, out, i64(0), segments)


# -- tables, images, order ---------------------------------------------------------------------------------------------


@loop
def _slot(header, c, is_ac):
    """The first component that has the same table, counted from the AC tables' first slot on for those."""
    tables = header[AC_TABLE if is_ac else DC_TABLE :]
    first = c
    for other in range(c, -1, -1):
        if tables[other] == tables[c]:
            first = other
    return first + 3 * is_ac


@loop
def _write_codes(data, at, is_ac, limits, starts, out):
    """What finds the codes of a table, and its symbols."""
    read_codes(data, at, is_ac == 1, limits, starts)
    symbols = 0
    for length in range(1, LONGEST + 1):
        out[words.LIMITS + length - 1] = limits[length]
        out[words.STARTS + length - 1] = starts[length]
        symbols += data[at + length - 1]
    for k in range(words.SYMBOLS, words.CODE_WORDS):
        out[k] = 0
    for k in range(symbols):
        out[words.SYMBOLS + k // 4] |= i32(u32(data[at + LONGEST + k]) << u32(8 * (k & 3)))


@loop
def _write_set(data, header, scratch, out):
    """The tables of images."""
    limits, starts, parts = scratch[CODES:CODES_END], scratch[CODES_END:PART_LIST], scratch[PART_LIST:]
    for k in range(out.size):
        out[k] = 0
    for c in range(header[COMPONENTS]):
        for is_ac in range(2):
            slot = _slot(header, c, is_ac)
            out[words.USED] |= 1 << slot
            codes = out[words.CODES + slot * words.CODE_WORDS : words.CODES + (slot + 1) * words.CODE_WORDS]
            _write_codes(data, place_of_table(header, c, is_ac), is_ac, limits, starts, codes)
    list_parts(header, parts)
    out[words.STATES] = 2 * parts[0]
    for j in range(parts[0]):
        c = parts[1 + 3 * j]
        out[words.STATE + 2 * j] = _slot(header, c, i64(0)) | c << 3
        out[words.STATE + 2 * j + 1] = _slot(header, c, i64(1)) | c << 3


@loop
def _biases(across, down):
    """What is added before chroma is rounded, see upload.py."""
    if across == 2:
        return 0x7878 if down == 2 else 0x8484
    return 0x8844 if down == 2 else 0


@loop
def _write_image(i, data, header, region, image, channels, place, out):
    """An image's record; ``place`` are where its first pixel comes to, and the steps from there."""
    across, down = factors(header)
    out[words.FIRST_BLOCK], out[words.BLOCKS] = image[FIRST], image[BLOCKS]
    out[words.PER] = luma_blocks(header) + (2 if header[COMPONENTS] == 3 else 0)
    out[words.ACROSS], out[words.DOWN] = across, down
    out[words.COLUMNS], out[words.ROWS] = image[RIGHT] - image[LEFT], image[BOTTOM] - image[TOP]
    out[words.LEFT], out[words.TOP] = 8 * across * image[LEFT], 8 * down * image[TOP]
    out[words.WIDTH], out[words.HEIGHT] = header[WIDTH], header[HEIGHT]
    for k in range(4):
        out[words.REGION + k] = region[k]
    out[words.OUT], out[words.OUT + 1] = i32(place[0] & 0xFFFFFFFF), i32(place[0] >> 32)
    out[words.STEP_X], out[words.STEP_Y] = place[1], place[2]
    out[words.COLOR] = GRAY if channels == 1 else header[COLOR]
    out[words.BIASES] = _biases(across, down)
    for c in range(3):
        at = header[QUANT + (c if c < header[COMPONENTS] else 0)]
        wide = data[at] >> 4
        for k in range(64):
            step = i64(data[at + 1 + k])
            if wide:
                step = i64(data[at + 1 + 2 * k]) << 8 | data[at + 2 + 2 * k]
            out[words.STEPS + 64 * c + k] = step | i64(ZIGZAG[k]) << words.PLACE_SHIFT


@loop
def _sorted_by(keys, order, most, counts, out):
    """An order that is sorted by its keys below a number, equal ones as they were."""
    for k in range(most + 1):
        counts[k] = 0
    for k in range(order.size):
        counts[keys[k] + 1] += 1
    for k in range(most):
        counts[k + 1] += counts[k]
    for k in range(order.size):
        key = keys[order[k]]
        out[counts[key]] = order[k]
        counts[key] += 1


@loop
def _sort(segments, images, totals, work):
    """The order of segments: by their pairs, the longest ones first, so that neighboring threads end together."""
    n = segments.shape[0]
    keys, order, other, counts = work[:n], work[n : 2 * n], work[2 * n : 3 * n], work[3 * n :]
    for k in range(n):
        order[k] = k
        keys[k] = BUCKETS - 1 - min(segments[k, words.END] >> _BUCKET_BITS, BUCKETS - 1)
    _sorted_by(keys, order, i64(BUCKETS), counts, other)
    for k in range(n):
        keys[k] = images[segments[k, words.IMAGE], PAIR]
    _sorted_by(keys, other, totals[PAIRS], counts, order)


@loop
def _write_groups(pairs, totals, out):
    """Blocks of threads: of each pair's segments so many as a block has threads."""
    at = totals[GROUP_AT]
    for k in range(totals[PAIRS]):
        first, count = pairs[k, PAIR_FIRST], pairs[k, PAIR_COUNT]
        for s in range(0, count, words.THREADS):
            out[at + words.GROUP_SET] = totals[SET_AT] + pairs[k, PAIR_TABLES] * words.SET_WORDS
            out[at + words.GROUP_FIRST] = totals[SEGMENT_AT] + (first + s) * words.SEGMENT_WORDS
            out[at + words.GROUP_COUNT] = min(words.THREADS, count - s)
            at += words.GROUP_WORDS


@kept
def fill(
    headers, addresses, sizes, access, regions, channels, places, first, stop, images, totals, scratch, segments, out,
    out_bytes
):  # fmt: skip
    """Write bytes and numbers of images from one to another.

    Images whose segments are not where they should be are then ``REFUSED``.

    Parameters
    ----------
    headers, addresses, sizes, access, regions, channels, images, totals
        As in :mod:`.segments`.
    places : (N, 3) int64
        Element where pixel (0, 0) of an image as stored comes to, and the steps to the pixel beside and below it.
    first, stop : int
    scratch : (SCRATCH_WORDS,) int64
    segments : (totals[ALL_SEGMENTS], SEGMENT_WORDS) int32
        Filled.
    out : (totals[WORDS],) int32
        Filled.
    out_bytes : (4 * totals[WORDS],) uint8
        The same memory.
    """
    for i in range(first, stop):
        image, header, at = images[i], headers[i], images[i, AT]
        if image[STATUS] != TAKEN:
            continue
        data, room = bytes_at(addresses[i], sizes[i]), out_bytes[4 * at : 4 * at + image[BYTES]]
        own = segments[image[FIRST_SEGMENT] : image[FIRST_SEGMENT] + image[COUNT]]
        if not _copy_segments(i, data, header, regions[i], access[i], image, scratch, at, room, own):
            image[STATUS] = REFUSED
            for k in range(image[COUNT]):
                _write_segment(own[k], at, 0, 0, 0, image[FIRST], 0, i)
        record = totals[IMAGE_AT] + image[PLACE] * words.IMAGE_WORDS
        _write_image(i, data, header, regions[i], image, channels, places[i], out[record : record + words.IMAGE_WORDS])


@kept
def finish(headers, addresses, sizes, images, owners, pairs, totals, scratch, segments, work, out):
    """Write tables, and segments in the order in which they are decoded.

    Parameters
    ----------
    headers, addresses, sizes, images, owners, pairs, totals, scratch
        As in :mod:`.segments`.
    segments : (totals[ALL_SEGMENTS], SEGMENT_WORDS) int32
        Those of all images.
    work : (3 * totals[ALL_SEGMENTS] + max(BUCKETS, N) + 1,) int32
        Scratch.
    out : (totals[WORDS],) int32
        Filled.
    """
    for k in range(totals[SETS]):
        owner, start = owners[k], totals[SET_AT] + k * words.SET_WORDS
        data = bytes_at(addresses[owner], sizes[owner])
        _write_set(data, headers[owner], scratch, out[start : start + words.SET_WORDS])
    _write_groups(pairs, totals, out)
    _sort(segments, images, totals, work)
    n = totals[ALL_SEGMENTS]
    for k in range(n):
        start = totals[SEGMENT_AT] + k * words.SEGMENT_WORDS
        segment = segments[work[n + k]]
        for w in range(words.SEGMENT_WORDS):
            out[start + w] = segment[w]
