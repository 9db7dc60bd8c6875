"""Selection of the segments that a GPU decodes, and the plan of their upload.

A segment is a run of MCUs that can be decoded without those before it: a restart interval of a file that has those, or
a segment of a recoded file. :func:`select_segments` finds the segments that a region needs. In other files the GPU
finds segments of about equal size (:mod:`gpuimg.kernels.cuda.jpeg_find`), for which room is planned.
:func:`plan_upload` computes sizes and offsets in the upload buffer, and :mod:`.fill` writes it. Offsets in the buffer
are counted in 4-byte words, as the kernels read them.
"""

from typing import Any, Final

import numpy as np

from ..compiled import cached_jit
from ..cpu.intrinsics import add_to, bytes_at
from ..scalar import loop
from . import upload
from .frame import FULL, MCU, chroma_side, is_too_narrow, mcus_of
from .headers import read_head
from .huffman import restarts_follow
from .layout import BASELINE, DEFINITION, HEADER, LONGEST, RECODED
from .recoded import segment_range
from .tables import read_lengths
from .vectors import MASKED

i64, i32, u32 = np.int64, np.int32, np.uint32

# Statuses of an image.
TAKEN: Final = 0
LEFT_OUT: Final = 1  # for another decoder: of another kind, restart markers missing, truncated, or too large
REFUSED: Final = 2  # damaged: tables that are not legal, or intervals without the marker after them

#: An image of the batch: the window of MCUs that is decoded, and the place of its segments in the upload.
SELECTED: Final = np.dtype(
    [
        ("scale", "<i8"),  # eighths of its size that it is decoded at: 8, 4, 2 or 1
        ("status", "<i8"),  # one of those above; nothing below is set unless it is TAKEN
        ("set", "<i8"),  # index of its set of Huffman tables
        ("pair", "<i8"),  # index of its PAIR
        ("top", "<i8"),  # the window: whole MCU rows top to bottom, the end excluded
        ("bottom", "<i8"),
        ("segments", "<i8"),  # number of segments in the window, without those that the GPU finds
        ("span", "<i8"),  # bits of a part of the data in which the GPU looks for a segment; 0 where starts are known
        ("found", "<i8"),  # number of those parts at most
        ("blocks", "<i8"),  # number of blocks of 64 coefficients in the window
        ("bytes", "<i8"),  # upper bound of its segments' bytes in the upload, a multiple of 4
        ("first_block", "<i8"),  # index of its first block in its part of the batch
        ("place", "<i8"),  # index among the images that are taken
        ("first_segment", "<i8"),  # index of its first segment among those of all images,
        ("first_found", "<i8"),  # of the first one that the GPU finds among those of all images,
        ("scan", "<i8"),  # and of its scan, where the GPU looks for them
        ("word", "<i8"),  # word of the upload where its segments' bytes begin
        ("each", "<i8"),  # of a recoded file: MCU rows of a segment; 0 for a JPEG
        ("total", "<i8"),  # likewise: the number of its segments,
        ("books", "<i8"),  # and its sets of tables
    ],
    align=True,
)

#: A part of the batch: images that are decoded by the same launches, which bounds the memory of coefficients.
PART: Final = np.dtype(
    [
        ("first_image", "<i8"),  # its ``SELECTED.place``
        ("images", "<i8"),
        ("first_group", "<i8"),
        ("groups", "<i8"),
        ("first_scan", "<i8"),
        ("scans", "<i8"),
        ("recoded", "<i8"),  # number of scans of recoded files,
        ("most_recoded", "<i8"),  # and the segments of such a window at most: the size of their launch
        ("blocks", "<i8"),  # blocks of coefficients of all its images
        ("most_whole", "<i8"),  # of one image that has blocks of full size: the size of the launch of the inverse DCT
        ("most_reduced", "<i8"),  # of one image that has others: the size of the launch of the reduced one
        ("most_quads", "<i8"),  # of two by two pixels, requested of one image: the size of the launch of colors
    ],
    align=True,
)

#: A part of the batch and a set of tables. Only segments that share both may share a block of threads.
PAIR: Final = np.dtype(
    [
        ("part", "<i8"),
        ("set", "<i8"),
        ("segments", "<i8"),
        ("first_segment", "<i8"),  # in the order of the upload, which is sorted by pairs
        ("found", "<i8"),  # likewise of the segments that the GPU finds
        ("first_found", "<i8"),
    ],
    align=True,
)

#: The number of records of each kind, and the words of the upload where each kind begins, in the order of the buffer.
TOTALS: Final = np.dtype(
    [
        ("images", "<i8"),  # TAKEN ones
        ("sets", "<i8"),
        ("pairs", "<i8"),
        ("parts", "<i8"),
        ("groups", "<i8"),
        ("scans", "<i8"),
        ("segments", "<i8"),
        ("found", "<i8"),  # segments that the GPU finds, at most
        ("set_word", "<i8"),
        ("image_word", "<i8"),
        ("group_word", "<i8"),
        ("scan_word", "<i8"),
        ("segment_word", "<i8"),
        ("bytes_word", "<i8"),
        ("words", "<i8"),  # size of the upload, after which the segments that the GPU finds begin
        ("claimed", "<i8"),  # images that threads have begun with; changed atomically
    ],
    align=True,
)

#: Scratch of a thread.
SCRATCH: Final = np.dtype([("mcu", MCU), *DEFINITION], align=True)

#: The records that signatures of loops name, here and in :mod:`.fill`.
RECORDS: Final[dict[str, Any]] = {
    "HEADER": HEADER, "SELECTED": SELECTED, "PAIR": PAIR, "PART": PART, "TOTALS": TOTALS,
    "SCRATCH": SCRATCH, "SEGMENT": upload.SEGMENT,
}  # fmt: skip

MOST_WORDS: Final = (1 << 31) - 1  # of an upload: offsets in it are int32
LONGEST_BLOCK: Final = 512  # bytes of a block at most: 64 symbols of 16 + 15 bits, and a stuffed zero after each byte
_MOST_BITS = 1 << 30  # of a scan: its kernel counts bits in int32, up to some parts after its end
_DENSE = 3  # bits a pixel: more are searched in parts of twice the size, as decoders synchronize after more bits there
_SPARE = MASKED + 16  # bytes: those that a vector store writes past a segment, and the rest of a word


# -- selection ---------------------------------------------------------------------------------------------------------


@loop
def _same_table(data, at, other_data, other_at):
    """Return whether two definitions of a Huffman table are equal."""
    # 16 counts of codes by their length, then a symbol for each code.
    symbols = 0
    for k in range(LONGEST):
        if data[at + k] != other_data[other_at + k]:
            return False
        symbols += data[at + k]
    for k in range(LONGEST, LONGEST + symbols):
        if data[at + k] != other_data[other_at + k]:
            return False
    return True


@loop
def place_of_table(header, c, is_ac):
    """Return the byte of the file where the definition of a component's table begins."""
    return header.huffman[header.ac_table[c] if is_ac else header.dc_table[c]]


@loop
def _same_tables(data, header, other_data, other):
    """Return whether two images use equal tables for the same blocks of an MCU."""
    if header.components != other.components or header.per != other.per:
        return False
    for c in range(header.components):
        for is_ac in range(2):
            at, other_at = place_of_table(header, c, is_ac), place_of_table(other, c, is_ac)
            if not _same_table(data, at, other_data, other_at):
                return False
    return True


@loop
def _legal_tables(data, header, scratch):
    """Return whether all tables of an image are legal."""
    for c in range(header.components):
        for is_ac in range(2):
            if read_lengths(data, place_of_table(header, c, is_ac), is_ac == 1, scratch) < 0:
                return False
    return True


@loop
def is_needed(interval, size, columns, first, end):
    """Return whether a restart interval of ``size`` MCUs touches the MCU columns ``first`` to ``end``."""
    # Intervals run across ends of rows. Of one that reaches into the next row, the part there begins in column 0.
    column = interval * size % columns
    after = column + size
    return (column < end and after > first) or after - columns > first


@loop
def wanted_intervals(header, scale, region):
    """Return the first and the last restart interval that a region may need, and the MCU columns that it needs."""
    first, end, top, bottom = mcus_of(header, scale, region)
    size, columns = header.restart, header.columns
    return (top * columns + first) // size, ((bottom - 1) * columns + end - 1) // size, first, end


@loop
def has_whole(header, scale):
    """Return whether blocks of an image at a scale have 8 x 8 samples."""
    return scale == FULL or chroma_side(header, scale) == FULL


@loop
def _set_window(header, region, image):
    """Fill in the window of MCU rows that a region needs, extended to whole segments, and the number of those."""
    columns = header.columns
    first, end, image.top, image.bottom = mcus_of(header, image.scale, region)
    image.segments = 0  # of a scan: they may begin and end in any column
    if not image.span:
        # Intervals may begin and end in any column, so unneeded ones in the window stay zero.
        size = header.restart
        begin, last, _, _ = wanted_intervals(header, image.scale, region)
        image.top, image.bottom = begin * size // columns, min(-(-(last + 1) * size // columns), header.rows)
        for k in range(begin, last + 1):
            image.segments += is_needed(k, size, columns, first, end)
    image.blocks = (image.bottom - image.top) * columns * header.per


@loop
def _select_scan(header, data, image):
    """Bound the bytes of an image's scan, and the segments that the GPU finds in it; return its status."""
    size = min(data.size - header.scan, header.rows * header.columns * header.per * LONGEST_BLOCK)
    if 8 * size > _DENSE * header.height * header.width:
        image.span *= 2
    image.bytes = (size + 8 + _SPARE) & ~3
    image.found = -(-8 * size // image.span)
    return TAKEN if 8 * image.bytes < _MOST_BITS else LEFT_OUT


@loop
def _select_recoded(header, data, region, image):
    """Select the segments of a recoded file; return its status."""
    rows = header.rows
    each, luma, chroma, blocks = read_head(header, data)
    total = -(-rows // max(each, 1))
    image.each, image.total = each, total
    if each == 0:
        return LEFT_OUT
    _, _, top, bottom = mcus_of(header, image.scale, region)
    last = (bottom - 1) // each
    image.top, image.bottom = top // each * each, min((last + 1) * each, rows)
    image.blocks = (image.bottom - image.top) * blocks
    image.books = luma | chroma << 8
    start, _ = segment_range(data, header, rows, each, top // each)
    _, stop = segment_range(data, header, rows, each, last)
    if not start < stop <= data.size:
        return LEFT_OUT
    image.bytes = (4 * total + stop - start + _SPARE) & ~3
    return TAKEN if 8 * image.bytes < _MOST_BITS else LEFT_OUT


@loop
def _select(header, data, region, most_blocks, span, scratch, image):
    """Select the segments of an image; return its status."""
    if header.kind != BASELINE and header.kind != RECODED:
        return LEFT_OUT
    if image.scale > 1 and is_too_narrow(header, image.scale):  # at 1/8 no chroma is interpolated
        return LEFT_OUT
    mcus = header.rows * header.columns
    image.span = image.found = 0  # means restart intervals below
    if header.kind == RECODED:
        image.span = span  # as of any scan
        status = _select_recoded(header, data, region, image)
        return LEFT_OUT if image.blocks > most_blocks else status
    if header.restart and header.restart < mcus:
        # All markers must be there and in order: intervals are found by counting them.
        if not restarts_follow(data, header.scan, (mcus - 1) // header.restart):
            return LEFT_OUT
    elif not header.whole:
        return LEFT_OUT
    else:
        image.span = span
    if not _legal_tables(data, header, scratch):
        return REFUSED
    _set_window(header, region, image)
    if image.blocks > most_blocks:
        return LEFT_OUT
    if image.span:
        return _select_scan(header, data, image)
    # The bound by blocks is for the last segment, which ends at the file's end, whatever follows the image there. Each
    # segment adds up to 8 bytes: it shares its first and last byte with its neighbors, and begins at a word.
    image.bytes = (min(data.size, image.blocks * LONGEST_BLOCK) + image.segments * 8 + _SPARE) & ~3
    return TAKEN


@loop
def _find_set(i, headers, addresses, sizes, owners, totals):
    """Return the index of image ``i``'s set of tables, a new one unless an image before it has the same."""
    # Linear search: the files of an encoder share their tables, so a batch has few sets.
    data, header = bytes_at(addresses[i], sizes[i]), headers[i]
    for k in range(totals.sets):
        owner = owners[k]
        if _same_tables(data, header, bytes_at(addresses[owner], sizes[owner]), headers[owner]):
            return k
    owners[totals.sets] = i
    totals.sets += 1
    return totals.sets - 1


@loop
def _find_pair(part, tables, pairs, totals):
    """Return the index of the PAIR of a part and a set of tables, a new one where there is none."""
    # Parts are filled one after the other, so the pairs of the current one are the last.
    k = totals.pairs - 1
    while k >= 0 and pairs[k].part == part:
        if pairs[k].set == tables:
            return k
        k -= 1
    k = totals.pairs
    pair = pairs[k]
    pair.part, pair.set, pair.segments, pair.found = part, tables, 0, 0
    totals.pairs += 1
    return k


@loop
def _blocks_of_part(most_blocks, images):
    """Return the blocks of a part if those of a batch are equal, and at most ``most_blocks``."""
    total, largest = i64(0), i64(0)
    for i in range(images.size):
        if images[i].status == TAKEN:
            total += images[i].blocks
            largest = max(largest, images[i].blocks)
    # Parts end with an image, so they may be larger by half of one at either end; of huge images they may be unequal.
    parts = max(-(-total // max(most_blocks - largest, most_blocks // 2)), 1) if total > most_blocks else 1
    return -(-total // parts)


@loop
def _pairs(low, high, begin):
    """Return how many pairs, counted from ``begin``, pixels ``low`` to ``high`` along an axis touch."""
    return ((high - begin + 1) >> 1) - ((low - begin) >> 1)


@loop
def _join_part(header, image, region, before, part_blocks, most_blocks, most_images, parts, totals):
    """Add an image to the last part of the batch, or to a new one if that is full; return the part's index.

    ``before`` is the number of blocks of the images before it, ``part_blocks`` that of a part, of all of equal size.
    """
    k = totals.parts - 1
    is_full = k < 0 or before + image.blocks // 2 >= (k + 1) * part_blocks
    if is_full or parts[k].blocks + image.blocks > most_blocks or parts[k].images == most_images:
        k += 1
        totals.parts += 1
        parts[k].first_image = totals.images
        parts[k].first_scan = totals.scans
    part = parts[k]
    if image.span:
        image.scan = totals.scans
        totals.scans += 1
        part.scans += 1
    if image.each:
        part.recoded += 1
        part.most_recoded = max(part.most_recoded, -(-(image.bottom - image.top) // image.each))
    image.first_block, image.place = part.blocks, totals.images
    totals.images += 1
    part.images += 1
    part.blocks += image.blocks
    if has_whole(header, image.scale):
        part.most_whole = max(part.most_whole, image.blocks)
    if image.scale < FULL:
        part.most_reduced = max(part.most_reduced, image.blocks)
    quads = _pairs(region[0], region[2], i64(0))
    quads *= _pairs(region[1], region[3], image.top * header.down[0] * image.scale)
    part.most_quads = max(part.most_quads, quads)
    return k


@loop
def _most_words(image):
    """Return the most words of the upload that an image can take: as if it shared no tables and no groups."""
    segments = image.segments + image.found
    groups = segments // upload.THREADS + 1
    rest = upload.SET_WORDS + upload.IMAGE_WORDS + groups * upload.GROUP_WORDS + segments * upload.SEGMENT_WORDS
    return image.bytes // 4 + rest + upload.SCAN_WORDS


@loop
def _set_offsets(size, pairs, parts, totals):
    """Fill in groups, first segments and the words where each kind of record begins; ``size`` in bytes of segments."""
    first, first_found = i64(0), i64(0)
    for k in range(totals.pairs):
        pair = pairs[k]
        part = parts[pair.part]
        if part.groups == 0:
            part.first_group = totals.groups
        groups = -(-pair.segments // upload.THREADS) - (-pair.found // upload.THREADS)
        part.groups += groups
        totals.groups += groups
        pair.first_segment = first
        first += pair.segments
        pair.first_found = first_found
        first_found += pair.found
    totals.set_word = 0
    totals.image_word = totals.sets * upload.SET_WORDS
    totals.group_word = totals.image_word + totals.images * upload.IMAGE_WORDS
    totals.scan_word = totals.group_word + totals.groups * upload.GROUP_WORDS
    totals.segment_word = totals.scan_word + totals.scans * upload.SCAN_WORDS
    totals.bytes_word = totals.segment_word + totals.segments * upload.SEGMENT_WORDS
    totals.words = totals.bytes_word + -(-size // 4) + upload.BEYOND


@cached_jit(
    "none(HEADER[::1], int64[::1], int64[::1], int64[:, ::1], int64, int64, SELECTED[::1], TOTALS[::1], SCRATCH[::1])",
    **RECORDS,
)
def select_segments(headers, addresses, sizes, regions, most_blocks, span, images, totals_, scratch_):
    """Select, of the images that no other thread has claimed, those that can be decoded by segments, and the segments.

    ``regions`` (N, 4) are requested: x0, y0, x1, y1 as stored, at the scale of each image. Images with more than
    ``most_blocks`` blocks of coefficients in their window are left out. ``span`` is that of most images, at least
    LEAST_SPAN; it is twice as much for those with many bits a pixel. ``images`` are filled, except for the scale,
    which is given; of images that are not taken only the status. Single records come in arrays, which Numba
    unwraps with less work.
    """
    scratch = scratch_[0]
    while True:
        i = add_to(totals_[0], "claimed", i64(1))
        if i >= images.size:
            break
        data, image = bytes_at(addresses[i], sizes[i]), images[i]
        image.status = _select(headers[i], data, regions[i], most_blocks, span, scratch, image)


@cached_jit(
    "none(HEADER[::1], int64[::1], int64[::1], int64[:, ::1], int64, int64, SELECTED[::1], int64[::1], PAIR[::1], "
    "PART[::1], TOTALS[::1])",
    nogil=False,
    **RECORDS,
)
def plan_upload(
    headers, addresses, sizes, regions, most_blocks, most_images, images, owners, pairs, parts, totals_
):  # fmt: skip
    """Divide the images into parts, and compute where each record and each image's bytes lie in the upload.

    Images that would make the upload larger than ``MOST_WORDS`` become ``LEFT_OUT``. ``most_blocks`` of a part bound
    the memory of coefficients, ``most_images`` is the limit of a launch's grid. ``owners`` is filled with the first
    image that has the tables of each set; ``pairs``, ``parts`` and ``totals``, of which the last two are zeros, are
    filled.
    """
    totals = totals_[0]
    size, left, blocks = i64(0), i64(MOST_WORDS - upload.BEYOND), i64(0)
    part_blocks = _blocks_of_part(most_blocks, images)
    # In bytes of segments, and in words that are left: exact sizes are known only at the end, when sets and groups are,
    # so each image is charged the most that it can take.
    for i in range(sizes.size):
        image = images[i]
        if image.status == TAKEN and _most_words(image) > left:
            image.status = LEFT_OUT
        if image.status == TAKEN:
            left -= _most_words(image)
            if image.each == 0:
                image.set = _find_set(i, headers, addresses, sizes, owners, totals)
            part = _join_part(
                headers[i], image, regions[i], blocks, part_blocks, most_blocks, most_images, parts, totals
            )
            blocks += image.blocks
            if image.each == 0:
                image.pair = _find_pair(part, image.set, pairs, totals)
            pairs[image.pair].segments += image.segments
            image.first_segment, image.word = totals.segments, size // 4
            totals.segments += image.segments
            image.first_found = pairs[image.pair].found
            pairs[image.pair].found += image.found
            totals.found += image.found
            size += image.bytes
    _set_offsets(size, pairs, parts, totals)
    for i in range(sizes.size):
        image = images[i]
        if image.status == TAKEN:  # was counted from the first segment's bytes, and from the pair's first segment
            image.word += totals.bytes_word
            image.first_found += pairs[image.pair].first_found
