"""Writer of the upload that :mod:`.segments` planned: bytes of segments, Huffman tables and the records of each.

Files may change while they are read. Every copy is therefore bounded by the room that the plan reserved, and an image
whose intervals are not found becomes ``REFUSED``.
"""

from typing import Final

import numpy as np

from ..compiled import cached_jit
from ..cpu.intrinsics import add_to, bytes_at, copy, records_in
from ..scalar import loop, up
from . import upload
from .frame import FULL, chroma_factors, chroma_side, list_blocks, scaled
from .huffman import next_marker
from .layout import GRAY, LONGEST
from .recoded import segment_range
from .rows import step_at
from .segments import (
    LONGEST_BLOCK,
    RECORDS,
    REFUSED,
    TAKEN,
    has_whole,
    is_needed,
    place_of_table,
    wanted_intervals,
)
from .tables import ZIGZAG, read_codes
from .vectors import MASKED, copy_masked, trailing_zeros

i64, i32, u32 = np.int64, np.int32, np.uint32

BUCKETS: Final = 1024  # of segment sizes, by which segments are sorted
_BUCKET_BITS = 6  # lowest bits of a size that the sort ignores: buckets of 64 bits
_PADDING = 7  # bits of padding before a restart marker at most

_sets_in, _images_in, _groups_in, _scans_in, _segments_in = (
    records_in(dtype) for dtype in (upload.SET, upload.IMAGE, upload.GROUP, upload.SCAN, upload.SEGMENT)
)


# -- bytes -------------------------------------------------------------------------------------------------------------


@loop
def _copy_clean(data, raw, stop, out, at):
    """Copy ``data[raw:stop]`` up to a marker, without the zeros stuffed after 0xFF; return the ends in both arrays."""
    while raw < stop:
        if raw + MASKED <= data.size and at + MASKED <= out.size:
            # All 32 bytes are copied, but only those up to the first 0xFF count; later copies overwrite the others.
            mask = copy_masked(data, up(raw), out, up(at))
            step = min(MASKED if mask == u32(0) else i64(trailing_zeros(mask)), stop - raw)
            raw += step
            at += step
            if step == MASKED or raw == stop:
                continue
        byte = data[raw]
        if byte == 0xFF:  # data if a zero follows, else the beginning of a marker
            if raw + 1 >= data.size or data[raw + 1] != 0:
                break
        if at >= out.size:  # only if the file has changed: the plan reserved enough for what it was
            break
        raw += 2 if byte == 0xFF else 1
        out[at] = byte
        at += 1
    return raw, at


@loop
def _pack_shorts(low, high):
    """Return two numbers of 16 bits in one int32."""
    return i32(u32(low & 0xFFFF) | u32(high & 0xFFFF) << u32(16))


@loop
def _set_segment(segment, word, shift, end, slack, block, blocks, i):
    """Fill in a segment of image ``i`` that begins with an MCU, with predictors of zero."""
    segment.word, segment.shift = word, shift
    segment.end, segment.slack = end, slack
    segment.block, segment.blocks = block, blocks
    segment.image = i
    segment.state = segment.skip = 0
    segment.before = segment.between = segment.after = 0


@loop
def _copy_intervals(i, data, header, region, image, out, segments):
    """Copy the bytes of the needed restart intervals, and fill them in as segments; return whether all were found."""
    columns, per = header.columns, header.per
    first_interval, last, first, end = wanted_intervals(header, image.scale, region)
    size, total = header.restart, header.rows * columns  # MCUs of an interval, and of the image
    begin = header.scan
    for _ in range(first_interval):
        begin = next_marker(data, begin) + 2
    n, at = i64(0), i64(0)  # segments and bytes written
    for number in range(first_interval, last + 1):
        stop = next_marker(data, begin)
        if is_needed(number, size, columns, first, end):
            start = at
            m = number * size  # its first MCU, counted row by row
            blocks = (min(m + size, total) - m) * per
            is_last = m + size >= total
            enough = min(stop, begin + blocks * LONGEST_BLOCK)  # keeps the number of bits an int32, whatever the file
            raw, at = _copy_clean(data, begin, enough, out, at)
            if raw < (enough if is_last else stop):
                return False
            # Predictors are zero at every interval's start, so nothing is known of those at its end. The last interval
            # may be followed by anything.
            bits = 8 * (at - start)
            slack = bits if is_last else min(bits, _PADDING)
            block = image.first_block + (m - image.top * columns) * per
            _set_segment(segments[n], image.word + start // 4, 0, bits, slack, block, blocks, i)
            at = (at + 3) & ~3
            n += 1
        begin = stop + 2
    return True


@loop
def _copy_scan(data, header, image, totals, out, scan):
    """Copy the bytes of an image's scan, up to a marker, for the GPU to find segments in them."""
    _, at = _copy_clean(data, header.scan, data.size, out, i64(0))
    scan.set = totals.set_word + image.set * upload.SET_WORDS
    scan.word, scan.end = image.word, 8 * at
    scan.found = totals.words + image.first_found * upload.SEGMENT_WORDS
    scan.skip = image.top * header.columns * header.per


@loop
def _copy_recoded(data, header, image, totals, out, scan):
    """Copy the ends of a recoded file's segments, and the segments that are uploaded."""
    # Whatever these bytes are by now: the kernel checks that segments lie in what was copied, and their checksums.
    rows = header.rows
    start, _ = segment_range(data, header, rows, image.each, image.top // image.each)
    _, stop = segment_range(data, header, rows, image.each, -(-image.bottom // image.each) - 1)
    ends = 4 * image.total
    size = max(min(stop, data.size, start + out.size - ends) - start, 0)
    copy(data[header.scan : header.scan + ends], out[:ends])
    copy(data[start : start + size], out[ends : ends + size])
    scan.word, scan.end = image.word, 8 * (ends + size)
    scan.total, scan.first = image.total, image.top // image.each
    scan.base = start - header.scan - ends
    scan.books = image.books
    scan.record = totals.image_word + image.place * upload.IMAGE_WORDS


# -- tables, images, order ---------------------------------------------------------------------------------------------


@loop
def _slot(header, c, is_ac):
    """Return the slot of a component's table: the first component with the same table, plus 3 for AC tables."""
    tables = header.ac_table if is_ac else header.dc_table
    first = c
    for other in range(c, -1, -1):
        if tables[other] == tables[c]:
            first = other
    return first + 3 * is_ac


@loop
def _write_codes(data, at, is_ac, scratch, codes):
    """Fill in the limits, starts and symbols, zeros before, of a table whose definition lies at a place of the file."""
    read_codes(data, at, is_ac == 1, scratch)
    symbols = 0
    for length in range(1, LONGEST + 1):
        codes.limits[length - 1] = scratch.limits[length]
        codes.starts[length - 1] = scratch.starts[length]
        symbols += scratch.counts[length]
    for k in range(symbols):
        codes.symbols[k // 4] |= i32(u32(scratch.symbols[k]) << u32(8 * (k & 3)))


@loop
def _write_set(data, header, scratch, tables):
    """Fill in a SET, which is zeros, of the tables of an image."""
    mcu = scratch.mcu
    for c in range(header.components):
        for is_ac in range(2):
            slot = _slot(header, c, is_ac)
            tables.used |= 1 << slot
            _write_codes(data, place_of_table(header, c, is_ac), is_ac, scratch, tables.codes[slot])
    list_blocks(header, mcu)
    tables.states = 2 * mcu.blocks
    for j in range(mcu.blocks):
        c = mcu.component[j]
        tables.state[2 * j] = _slot(header, c, i64(0)) | c << 3
        tables.state[2 * j + 1] = _slot(header, c, i64(1)) | c << 3


@loop
def _bias(across, down, x, y):
    """Return the sixteenths that are added to chroma in a column and row before it is rounded down."""
    # As libjpeg: sums of four parts alternate 8 and 7 of 16 from column to column (h2v2); sums of two alternate 1 and 2
    # of 4, here 4 and 8 of 16, from column to column (h2v1) or from row to row (h1v2).
    if across == 2:
        return 8 - x if down == 2 else 4 + 4 * x
    return 4 + 4 * y if down == 2 else 0


@loop
def _write_image(data, header, region, image, channels, place, out):
    """Fill in an image's record; ``place`` is of :func:`write_segments`."""
    across, down, scale = header.across[0], header.down[0], image.scale
    out.first_block = image.first_block
    out.whole = image.blocks if has_whole(header, scale) else 0
    out.reduced = image.blocks if scale < FULL else 0
    out.per = header.per
    out.across, out.down = across, down
    out.columns, out.rows = header.columns, image.bottom - image.top
    width, height = scale * across * out.columns, scale * down * out.rows
    stride, lines = width + (width & 1), height + (height & 1)  # whole quads: at 1/8 blocks at the end are repeated
    # Blocks that are single samples are not interpolated: the kernel repeats them.
    wide, high = chroma_factors(header, scale) if scale > 1 else (i64(1), i64(1))
    begin = image.first_block * upload.SAMPLES
    for c in range(3):
        plane, factor = out.planes[c], (wide, high) if c else (i64(1), i64(1))
        plane.begin, plane.stride = begin, stride // factor[0]
        plane.side = chroma_side(header, scale) if c else scale
        begin += plane.stride * (lines // factor[1])
    out.factors[0], out.factors[1] = wide, high
    top = scale * down * image.top
    # Samples of chroma that are padding do not count.
    out.last_column = min((scaled(header.width, scale) - 1) // wide, width // wide - 1)
    out.last_row = min((scaled(header.height, scale) - 1 - top) // high, height // high - 1)
    for k in range(4):
        out.region[k] = region[k] - (top if k & 1 else 0)
    out.step_x, out.step_y = place[1], place[2]
    element = place[0] + top * place[2]
    out.out[0], out.out[1] = i32(element & 0xFFFFFFFF), i32(element >> 32)
    out.color = GRAY if channels == 1 else header.color
    for k in range(4):
        bias = _bias(wide, high, k & 1, k >> 1)
        out.biases[k] = _pack_shorts(bias, bias)
    is_recoded = image.each != 0  # read once: the stores below might change it, for all the compiler knows
    for c in range(3):  # of gray images, three times the steps of luma
        at = header.quant[c if c < header.components else 0]
        for k in range(64):
            to = i64(ZIGZAG[k])
            out.steps[c, to if is_recoded else k] = step_at(data, at, k) | to << upload.PLACE_SHIFT


@loop
def _sorted_by(keys, order, most, counts, out):
    """Sort indices stably by their keys, which are below ``most``: a counting sort."""
    # counts[k + 1] counts key k; its running sum makes counts[k] the position of the next index with key k.
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
    """Sort segments by pairs, and within a pair from the longest to the shortest.

    The sorted indices are left in ``work[segments.size : 2 * segments.size]``.
    """
    # The threads of a block wait for the slowest one, so segments of similar sizes belong together. Two stable sorts:
    # by size, then by pair.
    n = segments.size
    keys, order, other, counts = work[:n], work[n : 2 * n], work[2 * n : 3 * n], work[3 * n :]
    for k in range(n):
        order[k] = k
        keys[k] = BUCKETS - 1 - min(segments[k].end >> _BUCKET_BITS, BUCKETS - 1)
    _sorted_by(keys, order, i64(BUCKETS), counts, other)
    for k in range(n):
        keys[k] = images[segments[k].image].pair
    _sorted_by(keys, other, totals.pairs, counts, order)


@loop
def _write_groups(pairs, totals, groups):
    """Fill in the groups: each takes the next THREADS segments of a pair, the last one what is left.

    Segments that the GPU finds are in separate groups.
    """
    n = i64(0)
    for k in range(totals.pairs):
        pair = pairs[k]
        for is_found in range(2):
            begin, first, segments = totals.segment_word, pair.first_segment, pair.segments
            if is_found:
                begin, first, segments = totals.words, pair.first_found, pair.found
            for s in range(0, segments, upload.THREADS):
                group = groups[n]
                group.set = totals.set_word + pair.set * upload.SET_WORDS
                group.first = begin + (first + s) * upload.SEGMENT_WORDS
                group.count = min(upload.THREADS, segments - s)
                n += 1


@cached_jit(
    "none(HEADER[::1], int64[::1], int64[::1], int64[:, ::1], int64, int64[:, ::1], "
    "SELECTED[::1], TOTALS[::1], SEGMENT[::1], uint8[::1])",
    **RECORDS,
)
def write_segments(headers, addresses, sizes, regions, channels, places, images, totals_, segments, out):
    """Write the images that no other thread has claimed: their records and the bytes of their segments.

    Images whose intervals are not found become ``REFUSED``. ``channels`` of the result are 1 or 3. ``places`` (N, 3)
    are the element of the result for pixel (0, 0) of an image as stored, and the steps to the pixel at its right and
    below. ``segments`` are filled in the order of the images; ``out`` is the upload.
    """
    totals = totals_[0]
    records = _images_in(out, 4 * totals.image_word, totals.images)
    scans = _scans_in(out, 4 * totals.scan_word, totals.scans)
    while True:
        i = add_to(totals, "claimed", i64(1))
        if i >= images.size:
            break
        image, header = images[i], headers[i]
        if image.status != TAKEN:
            continue
        data, room = bytes_at(addresses[i], sizes[i]), out[4 * image.word : 4 * image.word + image.bytes]
        own = segments[image.first_segment : image.first_segment + image.segments]
        if image.span:
            scan = scans[image.scan]
            scan.span, scan.count, scan.each = image.span, image.found, image.each
            scan.block, scan.blocks = image.first_block, image.blocks
            scan.image = i
            if image.each:
                _copy_recoded(data, header, image, totals, room, scan)
            else:
                _copy_scan(data, header, image, totals, room, scan)
        elif not _copy_intervals(i, data, header, regions[i], image, room, own):
            image.status = REFUSED
            for k in range(image.segments):  # they stay in their groups, with nothing to decode
                _set_segment(own[k], image.word, 0, 0, 0, image.first_block, 0, i)
        _write_image(data, header, regions[i], image, channels, places[i], records[image.place])


@cached_jit(
    "none(HEADER[::1], int64[::1], int64[::1], SELECTED[::1], int64[::1], PAIR[::1], TOTALS[::1], SCRATCH[::1], "
    "SEGMENT[::1], int32[::1], uint8[::1])",
    **RECORDS,
)
def write_tables(headers, addresses, sizes, images, owners, pairs, totals_, scratch_, segments, work, out):
    """Write tables and groups, and segments in the order in which they are decoded, to the upload.

    ``segments`` are those of :func:`write_segments`; ``work`` is scratch of three numbers for each, and as many as
    BUCKETS or images, and one more.
    """
    totals, scratch = totals_[0], scratch_[0]
    start, stop = 4 * totals.set_word, 4 * (totals.set_word + totals.sets * upload.SET_WORDS)
    # Bits are added to sets one by one, and slots without a table are uploaded, too.
    for k in range(start, stop):
        out[k] = 0
    sets = _sets_in(out, start, totals.sets)
    for k in range(totals.sets):
        owner = owners[k]
        _write_set(bytes_at(addresses[owner], sizes[owner]), headers[owner], scratch, sets[k])
    _write_groups(pairs, totals, _groups_in(out, 4 * totals.group_word, totals.groups))
    _sort(segments, images, totals, work)
    n = totals.segments
    ordered = _segments_in(out, 4 * totals.segment_word, n)
    for k in range(n):  # field by field: Numba copies no records
        one, target = segments[work[n + k]], ordered[k]
        _set_segment(target, one.word, one.shift, one.end, one.slack, one.block, one.blocks, one.image)
        target.before, target.between, target.after = one.before, one.between, one.after
