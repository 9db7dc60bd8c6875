"""Segments of files for a GPU: which ones regions need, and what is to be uploaded for them.

Segments are those of an entry of a seek index, or the restart intervals of a file that has them. :mod:`.fill` writes
what is uploaded.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..compiled import cached_jit
from ..cpu.intrinsics import bytes_at
from ..scalar import loop
from . import upload
from .frame import FULL, MCU, factors, grid, mcus_of
from .huffman import restarts_follow
from .layout import ACCESS, BASELINE, HEADER, LONGEST, RGB, USED
from .seek import SECTIONS, open_entry, segment_start
from .tables import read_codes
from .vectors import MASKED

i64, i32, u32 = np.int64, np.int32, np.uint32

# Statuses of an image.
TAKEN: Final = 0
LEFT_OUT: Final = 1  # for other decoders: no entry, or not for this one
REFUSED: Final = 2  # its entry does not fit the file, or is damaged

#: An image of the batch: which of its segments are decoded, and where they lie in the upload.
SELECTED: Final = np.dtype(
    [
        ("status", "<i8"),  # one of those above; of images that are not TAKEN nothing else is set
        ("set", "<i8"),  # which of the sets of tables
        ("pair", "<i8"),  # of its part of the batch and these
        ("top", "<i8"),  # MCUs that are decoded, in rows top to bottom and columns left to right
        ("bottom", "<i8"),
        ("left", "<i8"),
        ("right", "<i8"),
        ("segments", "<i8"),
        ("blocks", "<i8"),  # of coefficients
        ("bytes", "<i8"),  # that its segments take at most, a multiple of 4
        ("first_block", "<i8"),  # in its part of the batch
        ("place", "<i8"),  # among the images that are taken
        ("entry_segments", "<i8"),  # of a row of its entry, 0 for restart intervals
        ("first_segment", "<i8"),  # among those of all images
        ("word", "<i8"),  # of the upload, where its segments' bytes begin
    ],
    align=True,
)

#: A part of the batch, which is decoded at a time.
PART: Final = np.dtype(
    [
        ("first_image", "<i8"),  # place among the images that are taken
        ("images", "<i8"),
        ("first_group", "<i8"),
        ("groups", "<i8"),
        ("blocks", "<i8"),  # of coefficients
        ("most_blocks", "<i8"),  # of an image
        ("most_pixels", "<i8"),  # that are wanted of an image
    ],
    align=True,
)

#: A pair of a part of the batch and a set of tables: segments of both may be in one group.
PAIR: Final = np.dtype(
    [
        ("part", "<i8"),
        ("set", "<i8"),
        ("segments", "<i8"),
        ("first_segment", "<i8"),  # in the order in which they are uploaded
    ],
    align=True,
)

#: How much there is of everything, and the words of the upload where each kind begins, one after the other.
TOTALS: Final = np.dtype(
    [
        ("images", "<i8"),  # that are taken
        ("sets", "<i8"),
        ("pairs", "<i8"),
        ("parts", "<i8"),
        ("groups", "<i8"),
        ("segments", "<i8"),
        ("set_word", "<i8"),
        ("image_word", "<i8"),
        ("group_word", "<i8"),
        ("segment_word", "<i8"),
        ("bytes_word", "<i8"),
        ("words", "<i8"),  # all of them
    ],
    align=True,
)

#: Scratch of a thread.
SCRATCH: Final = np.dtype(
    [("sections", SECTIONS), ("limits", "<i8", LONGEST + 1), ("starts", "<i8", LONGEST + 1), ("mcu", MCU)], align=True
)

MOST_WORDS: Final = (1 << 31) - 1  # of a batch: places among them are int32
LONGEST_BLOCK: Final = 512  # bytes of a block at most: 64 symbols of 31 bits, a zero after each byte
_SPARE = MASKED + 16  # bytes: what a vector writes after a segment, and the rest of a word


# -- which segments ----------------------------------------------------------------------------------------------------


@loop
def _same_table(data, at, other, its):
    """Whether two definitions of a Huffman table are the same."""
    symbols = 0
    for k in range(LONGEST):
        if data[at + k] != other[its + k]:
            return False
        symbols += data[at + k]
    for k in range(LONGEST, LONGEST + symbols):
        if data[at + k] != other[its + k]:
            return False
    return True


@loop
def place_of_table(header, c, is_ac):
    """Where the definition of a component's table lies in its file."""
    return header.huffman[header.ac_table[c] if is_ac else header.dc_table[c]]


@loop
def _same_tables(data, header, other, its):
    """Whether images have the same tables for the same blocks."""
    if header.components != its.components or luma_blocks(header) != luma_blocks(its):
        return False
    for c in range(header.components):
        for is_ac in range(2):
            if not _same_table(data, place_of_table(header, c, is_ac), other, place_of_table(its, c, is_ac)):
                return False
    return True


@loop
def luma_blocks(header):
    """Blocks of luma in an MCU."""
    across, down = factors(header)
    return across * down


@loop
def _legal_tables(data, header, scratch):
    """Whether all tables of an image are legal."""
    for c in range(header.components):
        for is_ac in range(2):
            if not read_codes(data, place_of_table(header, c, is_ac), is_ac == 1, scratch.limits, scratch.starts):
                return False
    return True


@loop
def is_needed(interval, size, columns, first, end):
    """Whether a restart interval has MCUs in some columns."""
    column = interval * size % columns
    after = column + size
    return (column < end and after > first) or after - columns > first


@loop
def wanted_intervals(header, region):
    """The first and the last restart interval that a region may need, and the MCU columns that it needs."""
    rows, columns = grid(header)
    first, end, top, bottom = mcus_of(header, FULL, region, rows, columns)
    size = header.restart
    return (top * columns + first) // size, ((bottom - 1) * columns + end - 1) // size, first, end


@loop
def _set_window(header, region, every, segments, image):
    """Fill in the MCUs that a region needs, whole segments of them, and how many segments those are."""
    rows, columns = grid(header)
    first, end, top, bottom = mcus_of(header, FULL, region, rows, columns)
    if segments:
        step = every if segments > 1 else columns
        image.left, image.right = first // step * step, min(-(-end // step) * step, columns)
        image.top, image.bottom = top, bottom
        image.segments = (bottom - top) * (-(-end // step) - first // step)
    else:
        size = header.restart
        begin, last, _, _ = wanted_intervals(header, region)
        image.left, image.right = 0, columns
        image.top, image.bottom = begin * size // columns, min(-(-(last + 1) * size // columns), rows)
        image.segments = 0
        for k in range(begin, last + 1):
            image.segments += is_needed(k, size, columns, first, end)
    per = luma_blocks(header) + (2 if header.components == 3 else 0)
    image.blocks = (image.bottom - image.top) * (image.right - image.left) * per


@loop
def _bytes_of_entry(data, entry, sections, rows, step, image):
    """Bytes of the file that segments of an entry have."""
    total = i64(0)
    left, right = image.left // step, -(-image.right // step)
    for r in range(image.top, image.bottom):
        stop = 8 * data.size
        if right < sections.segments:
            stop = segment_start(entry, sections, rows, r, right)
        elif r + 1 < rows:
            stop = segment_start(entry, sections, rows, r + 1, i64(0))
        total += max((stop >> 3) - (segment_start(entry, sections, rows, r, left) >> 3), 0)
    return total


@loop
def _select(header, data, access, region, channels, most_blocks, scratch, image):
    """Select the segments of an image; return its status."""
    if header.kind != BASELINE or (channels == 1 and header.color == RGB):
        return LEFT_OUT
    rows, columns = grid(header)
    sections = scratch.sections
    sections.segments = 0
    if header.restart:
        if not restarts_follow(data, header.scan, (rows * columns - 1) // header.restart):
            return LEFT_OUT
    elif access.entry == 0 or access.learns:
        return LEFT_OUT
    elif open_entry(data, access, rows, columns, sections) != USED:
        return REFUSED
    if not _legal_tables(data, header, scratch):
        return REFUSED
    image.entry_segments = sections.segments
    _set_window(header, region, access.every, sections.segments, image)
    if image.blocks > most_blocks:
        return LEFT_OUT
    size = data.size
    if sections.segments:
        step = access.every if sections.segments > 1 else columns
        size = _bytes_of_entry(data, bytes_at(access.entry, access.entry_bytes), sections, rows, step, image)
    # After a file's last segment may be anything. Each segment has bytes that are another's, too, and the rest of a
    # word.
    image.bytes = (min(size, image.blocks * LONGEST_BLOCK) + image.segments * 8 + _SPARE) & ~3
    return TAKEN


@loop
def _find_set(i, headers, addresses, sizes, owners, totals):
    """The number of an image's set of tables."""
    data, header = bytes_at(addresses[i], sizes[i]), headers[i]
    for k in range(totals.sets):
        owner = owners[k]
        if _same_tables(data, header, bytes_at(addresses[owner], sizes[owner]), headers[owner]):
            return k
    owners[totals.sets] = i
    totals.sets += 1
    return totals.sets - 1


@loop
def _find_pair(part, set_, pairs, totals):
    """The number of a pair."""
    k = totals.pairs - 1
    while k >= 0 and pairs[k].part == part:
        if pairs[k].set == set_:
            return k
        k -= 1
    k = totals.pairs
    pair = pairs[k]
    pair.part, pair.set, pair.segments = part, set_, 0
    totals.pairs += 1
    return k


@loop
def _join_part(image, region, most_blocks, most_images, parts, totals):
    """Put an image into the last part of the batch, or into a new one; return its number."""
    k = totals.parts - 1
    if k < 0 or parts[k].blocks + image.blocks > most_blocks or parts[k].images == most_images:
        k += 1
        totals.parts += 1
        parts[k].first_image = totals.images
    part = parts[k]
    image.first_block, image.place = part.blocks, totals.images
    totals.images += 1
    part.images += 1
    part.blocks += image.blocks
    part.most_blocks = max(part.most_blocks, image.blocks)
    pixels = (region[2] - region[0]) * (region[3] - region[1])
    part.most_pixels = max(part.most_pixels, pixels)
    return k


@loop
def _most_words(image):
    """Words of the upload that an image takes at most, with private tables and groups."""
    groups = image.segments // upload.THREADS + 1
    rest = upload.SET_WORDS + upload.IMAGE_WORDS + groups * upload.GROUP_WORDS + image.segments * upload.SEGMENT_WORDS
    return image.bytes // 4 + rest


@loop
def _lay_out(size, pairs, parts, totals):
    """Fill in where everything lies; ``size`` are bytes of segments."""
    first = i64(0)
    for k in range(totals.pairs):
        pair = pairs[k]
        part = parts[pair.part]
        if part.groups == 0:
            part.first_group = totals.groups
        groups = -(-pair.segments // upload.THREADS)
        part.groups += groups
        totals.groups += groups
        pair.first_segment = first
        first += pair.segments
    totals.set_word = 0
    totals.image_word = totals.sets * upload.SET_WORDS
    totals.group_word = totals.image_word + totals.images * upload.IMAGE_WORDS
    totals.segment_word = totals.group_word + totals.groups * upload.GROUP_WORDS
    totals.bytes_word = totals.segment_word + totals.segments * upload.SEGMENT_WORDS
    totals.words = totals.bytes_word + -(-size // 4) + upload.BEYOND


@cached_jit(
    "none(HEADER[::1], int64[::1], int64[::1], ACCESS[::1], int64[:, ::1], int64, int64, int64, int64, "
    "SELECTED[::1], SCRATCH[::1])",
    HEADER=HEADER,
    ACCESS=ACCESS,
    SELECTED=SELECTED,
    SCRATCH=SCRATCH,
)
def select_segments(
    headers, addresses, sizes, access, regions, channels, most_blocks, first, stop, images, scratch_
):  # fmt: skip
    """Select the images from one to another that are decoded by segments, and which of those.

    Parameters
    ----------
    headers : (N,) HEADER
    addresses, sizes : (N,) int64
        Of the files' bytes.
    access : (N,) ACCESS
        Entries of a seek index.
    regions : (N, 4) int64
        What is wanted: x0, y0, x1, y1 as stored.
    channels : int
    most_blocks : int
        That an image may have.
    first, stop : int
    images : (N,) SELECTED
        Filled; of images that are not taken only the status.
    scratch : (1,) SCRATCH
        Records come in arrays: Numba takes 2 us to open a record that Python passes.
    """
    scratch = scratch_[0]
    for i in range(first, stop):
        data, image = bytes_at(addresses[i], sizes[i]), images[i]
        image.status = _select(headers[i], data, access[i], regions[i], channels, most_blocks, scratch, image)


@cached_jit(
    "none(HEADER[::1], int64[::1], int64[::1], int64[:, ::1], int64, int64, SELECTED[::1], int64[::1], PAIR[::1], "
    "PART[::1], TOTALS[::1])",
    HEADER=HEADER,
    SELECTED=SELECTED,
    PAIR=PAIR,
    PART=PART,
    TOTALS=TOTALS,
)
def plan_upload(
    headers, addresses, sizes, regions, most_blocks, most_images, images, owners, pairs, parts, totals_
):  # fmt: skip
    """Divide the images into parts that are decoded at a time, and say where what is uploaded lies.

    Images for which there are not enough words left are then ``LEFT_OUT``.

    Parameters
    ----------
    headers, addresses, sizes, regions, images
        As :func:`select_segments` had or filled them.
    most_blocks, most_images : int
        Of a part, which bounds the memory that decoding takes.
    owners : (N,) int64
        Filled with the image whose tables each set has.
    pairs : (N,) PAIR
        Filled.
    parts : (N,) PART
        Zeros; filled.
    totals : (1,) TOTALS
        Zeros; filled.
    """
    totals = totals_[0]
    size, left = i64(0), i64(MOST_WORDS - upload.BEYOND)
    for i in range(sizes.size):
        image = images[i]
        if image.status == TAKEN and _most_words(image) > left:
            image.status = LEFT_OUT
        if image.status == TAKEN:
            left -= _most_words(image)
            image.set = _find_set(i, headers, addresses, sizes, owners, totals)
            part = _join_part(image, regions[i], most_blocks, most_images, parts, totals)
            image.pair = _find_pair(part, image.set, pairs, totals)
            pairs[image.pair].segments += image.segments
            image.first_segment, image.word = totals.segments, size // 4
            totals.segments += image.segments
            size += image.bytes
    _lay_out(size, pairs, parts, totals)
    for i in range(sizes.size):
        images[i].word += totals.bytes_word
