"""Segments of files for a GPU: which ones regions need, and what is to be uploaded for them.

Segments are those of an entry of a seek index, or the restart intervals of a file that has them. :mod:`.fill` writes
what is uploaded.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..compiled import kept
from ..cpu.intrinsics import bytes_at
from ..scalar import loop
from . import upload as words
from .frame import FULL, PARTS_WORDS, factors, grid, mcus_of
from .huffman import restarts_follow
from .layout import (
    AC_TABLE,
    BASELINE,
    COLOR,
    COMPONENTS,
    DC_TABLE,
    ENTRY,
    ENTRY_BYTES,
    EVERY,
    HUFFMAN,
    KIND,
    LEARNS,
    RESTART,
    RGB,
    SCAN,
    USED,
)
from .seek import SEEK_WORDS, SEGMENTS, open_entry, point
from .tables import LONGEST, read_codes
from .vectors import MASKED

i64, i32, u32 = np.int64, np.int32, np.uint32

# Words of what is known of an image.
STATUS: Final = 0  # one of those below
TABLES: Final = 1  # which of the sets of tables
PAIR: Final = 2  # of its part of the batch and these
TOP: Final = 3  # MCUs that are decoded
BOTTOM: Final = 4
LEFT: Final = 5
RIGHT: Final = 6
COUNT: Final = 7  # segments
BLOCKS: Final = 8
BYTES: Final = 9  # that they take at most
FIRST: Final = 10  # block, in its part of the batch
PLACE: Final = 11  # among the images that are taken
ENTRY_SEGMENTS: Final = 12  # of a row of its entry, 0 for restart intervals
FIRST_SEGMENT: Final = 13  # its place
AT: Final = 14  # the word where its bytes begin
IMAGE_WORDS: Final = 15

# Statuses.
TAKEN: Final = 0
LEFT_OUT: Final = 1  # for other decoders: no entry, or not for this one
REFUSED: Final = 2  # its entry does not fit the file, or is damaged

# Words of a part of the batch, which is decoded at a time.
PART_IMAGES: Final = 0  # the first one's place, and how many
PART_IMAGE_COUNT: Final = 1
PART_GROUPS: Final = 2  # likewise
PART_GROUP_COUNT: Final = 3
PART_BLOCKS: Final = 4
PART_MOST_BLOCKS: Final = 5  # of an image
PART_MOST_PIXELS: Final = 6
PART_WORDS: Final = 7

# Words of a pair, of a part and tables.
PAIR_PART: Final = 0
PAIR_TABLES: Final = 1
PAIR_COUNT: Final = 2  # segments
PAIR_FIRST: Final = 3  # the first one's place
PAIR_WORDS: Final = 4

# Words of totals.
IMAGES: Final = 0
SETS: Final = 1
PAIRS: Final = 2
PARTS: Final = 3
GROUPS: Final = 4
ALL_SEGMENTS: Final = 5
SET_AT: Final = 6  # the word at which each kind begins, one behind the other
IMAGE_AT: Final = 7
GROUP_AT: Final = 8
SEGMENT_AT: Final = 9
BYTES_AT: Final = 10
WORDS: Final = 11  # all of them
TOTAL_WORDS: Final = 12

MOST_WORDS: Final = (1 << 31) - 1  # of a batch: places among them are int32
LONGEST_BLOCK: Final = 512  # bytes of a block at most: 64 symbols of 31 bits, a zero behind each byte
_SPARE = MASKED + 16  # bytes: what a vector writes behind a segment, and the rest of a word

CODES: Final = SEEK_WORDS  # in the scratch: what read_codes fills
CODES_END: Final = CODES + LONGEST + 1
PART_LIST: Final = CODES_END + LONGEST + 1  # what list_parts fills
SCRATCH_WORDS: Final = PART_LIST + PARTS_WORDS


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
    return header[HUFFMAN + header[(AC_TABLE if is_ac else DC_TABLE) + c]]


@loop
def _same_tables(data, header, other, its):
    """Whether images have the same tables for the same blocks."""
    if header[COMPONENTS] != its[COMPONENTS] or luma_blocks(header) != luma_blocks(its):
        return False
    for c in range(header[COMPONENTS]):
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
def _legal_tables(data, header, limits, starts):
    """Whether all tables of an image are legal."""
    for c in range(header[COMPONENTS]):
        for is_ac in range(2):
            if not read_codes(data, place_of_table(header, c, is_ac), is_ac == 1, limits, starts):
                return False
    return True


@loop
def is_needed(interval, size, columns, first, end):
    """Whether a restart interval has MCUs in some columns."""
    column = interval * size % columns
    behind = column + size
    return (column < end and behind > first) or behind - columns > first


@loop
def wanted_intervals(header, region):
    """The first and the last restart interval that a region may need, and the MCU columns that it needs."""
    rows, columns = grid(header)
    first, end, top, bottom = mcus_of(header, FULL, region, rows, columns)
    size = header[RESTART]
    return (top * columns + first) // size, ((bottom - 1) * columns + end - 1) // size, first, end


@loop
def _set_window(header, region, every, segments, image):
    """Note the MCUs that a region needs, whole segments of them, and how many segments those are."""
    rows, columns = grid(header)
    first, end, top, bottom = mcus_of(header, FULL, region, rows, columns)
    if segments:
        step = every if segments > 1 else columns
        image[LEFT], image[RIGHT] = first // step * step, min(-(-end // step) * step, columns)
        image[TOP], image[BOTTOM] = top, bottom
        image[COUNT] = (bottom - top) * (-(-end // step) - first // step)
    else:
        size = header[RESTART]
        begin, last, _, _ = wanted_intervals(header, region)
        image[LEFT], image[RIGHT] = 0, columns
        image[TOP], image[BOTTOM] = begin * size // columns, min(-(-(last + 1) * size // columns), rows)
        image[COUNT] = 0
        for k in range(begin, last + 1):
            image[COUNT] += is_needed(k, size, columns, first, end)
    per = luma_blocks(header) + (2 if header[COMPONENTS] == 3 else 0)
    image[BLOCKS] = (image[BOTTOM] - image[TOP]) * (image[RIGHT] - image[LEFT]) * per


@loop
def _bytes_of_entry(data, entry, seek, rows, step, image):
    """Bytes of the file that segments of an entry have."""
    total = i64(0)
    left, right = image[LEFT] // step, -(-image[RIGHT] // step)
    for r in range(image[TOP], image[BOTTOM]):
        stop = 8 * data.size
        if right < seek[SEGMENTS]:
            stop = point(entry, seek, rows, r, right)
        elif r + 1 < rows:
            stop = point(entry, seek, rows, r + 1, i64(0))
        total += max((stop >> 3) - (point(entry, seek, rows, r, left) >> 3), 0)
    return total


@loop
def _look_at(header, data, access, region, channels, most_blocks, scratch, image):
    """Whether and how an image is decoded; gives its status."""
    if header[KIND] != BASELINE or (channels == 1 and header[COLOR] == RGB):
        return LEFT_OUT
    rows, columns = grid(header)
    seek, limits, starts = scratch[:SEEK_WORDS], scratch[CODES:CODES_END], scratch[CODES_END:PART_LIST]
    seek[SEGMENTS] = 0
    if header[RESTART]:
        if not restarts_follow(data, header[SCAN], (rows * columns - 1) // header[RESTART]):
            return LEFT_OUT
    elif access[ENTRY] == 0 or access[LEARNS]:
        return LEFT_OUT
    elif open_entry(data, access, rows, columns, seek) != USED:
        return REFUSED
    if not _legal_tables(data, header, limits, starts):
        return REFUSED
    image[ENTRY_SEGMENTS] = seek[SEGMENTS]
    _set_window(header, region, access[EVERY], seek[SEGMENTS], image)
    if image[BLOCKS] > most_blocks:
        return LEFT_OUT
    size = data.size
    if seek[SEGMENTS]:
        step = access[EVERY] if seek[SEGMENTS] > 1 else columns
        size = _bytes_of_entry(data, bytes_at(access[ENTRY], access[ENTRY_BYTES]), seek, rows, step, image)
    # Behind a file's last segment may be anything. Each segment has bytes that are another's, too, and rest of a word.
    image[BYTES] = (min(size, image[BLOCKS] * LONGEST_BLOCK) + image[COUNT] * 8 + _SPARE) & ~3
    return TAKEN


@loop
def _find_set(i, headers, addresses, sizes, owners, totals):
    """The number of an image's set of tables."""
    data, header = bytes_at(addresses[i], sizes[i]), headers[i]
    for k in range(totals[SETS]):
        owner = owners[k]
        if _same_tables(data, header, bytes_at(addresses[owner], sizes[owner]), headers[owner]):
            return k
    owners[totals[SETS]] = i
    totals[SETS] += 1
    return totals[SETS] - 1


@loop
def _find_pair(part, set_, pairs, totals):
    """The number of a pair."""
    k = totals[PAIRS] - 1
    while k >= 0 and pairs[k, PAIR_PART] == part:
        if pairs[k, PAIR_TABLES] == set_:
            return k
        k -= 1
    k = totals[PAIRS]
    pairs[k, PAIR_PART], pairs[k, PAIR_TABLES], pairs[k, PAIR_COUNT] = part, set_, 0
    totals[PAIRS] += 1
    return k


@loop
def _join_part(image, region, most_blocks, most_images, parts, totals):
    """Put an image into the last part of the batch, or into a new one."""
    k = totals[PARTS] - 1
    full = k < 0 or parts[k, PART_BLOCKS] + image[BLOCKS] > most_blocks or parts[k, PART_IMAGE_COUNT] == most_images
    if full:
        k += 1
        totals[PARTS] += 1
        for n in range(PART_WORDS):
            parts[k, n] = 0
        parts[k, PART_IMAGES] = totals[IMAGES]
    part = parts[k]
    image[FIRST], image[PLACE] = part[PART_BLOCKS], totals[IMAGES]
    totals[IMAGES] += 1
    part[PART_IMAGE_COUNT] += 1
    part[PART_BLOCKS] += image[BLOCKS]
    part[PART_MOST_BLOCKS] = max(part[PART_MOST_BLOCKS], image[BLOCKS])
    pixels = (region[2] - region[0]) * (region[3] - region[1])
    part[PART_MOST_PIXELS] = max(part[PART_MOST_PIXELS], pixels)
    return k


@loop
def _most_words(image):
    """Words that an image takes at most, with tables and blocks of threads of its own."""
    groups = image[COUNT] // words.THREADS + 1
    rest = words.SET_WORDS + words.IMAGE_WORDS + groups * words.GROUP_WORDS + image[COUNT] * words.SEGMENT_WORDS
    return image[BYTES] // 4 + rest


@loop
def _lay_out(size, pairs, parts, totals):
    """Say where everything lies; ``size`` are bytes of segments."""
    for k in range(totals[PAIRS]):
        part = parts[pairs[k, PAIR_PART]]
        if part[PART_GROUP_COUNT] == 0:
            part[PART_GROUPS] = totals[GROUPS]
        groups = -(-pairs[k, PAIR_COUNT] // words.THREADS)
        part[PART_GROUP_COUNT] += groups
        totals[GROUPS] += groups
        pairs[k, PAIR_FIRST] = 0 if k == 0 else pairs[k - 1, PAIR_FIRST] + pairs[k - 1, PAIR_COUNT]
    totals[SET_AT] = 0
    totals[IMAGE_AT] = totals[SETS] * words.SET_WORDS
    totals[GROUP_AT] = totals[IMAGE_AT] + totals[IMAGES] * words.IMAGE_WORDS
    totals[SEGMENT_AT] = totals[GROUP_AT] + totals[GROUPS] * words.GROUP_WORDS
    totals[BYTES_AT] = totals[SEGMENT_AT] + totals[ALL_SEGMENTS] * words.SEGMENT_WORDS
    totals[WORDS] = totals[BYTES_AT] + -(-size // 4) + words.BEYOND


@kept
def look(
    headers, addresses, sizes, access, regions, channels, most_blocks, first, stop, images, scratch
):  # fmt: skip
    """See which images from one to another are decoded by segments, and by which.

    Parameters
    ----------
    headers : (N, HEADER_WORDS) int64
    addresses, sizes : (N,) int64
        Of the files' bytes.
    access : (N, ACCESS_WORDS) int64
        Entries of a seek index.
    regions : (N, 4) int64
        What is wanted: x0, y0, x1, y1 as stored.
    channels : int
    most_blocks : int
        That an image may have.
    first, stop : int
    images : (N, IMAGE_WORDS) int64
        Filled; of images that are not taken only the status.
    scratch : (SCRATCH_WORDS,) int64
    """
    for i in range(first, stop):
        data, image = bytes_at(addresses[i], sizes[i]), images[i]
        image[STATUS] = _look_at(headers[i], data, access[i], regions[i], channels, most_blocks, scratch, image)


@kept
def arrange(
    headers, addresses, sizes, regions, most_blocks, most_images, images, owners, pairs, parts, totals
):  # fmt: skip
    """Say in which parts the images are decoded, and where what is uploaded lies.

    Images for which there are not enough words left are then ``LEFT_OUT``.

    Parameters
    ----------
    headers, addresses, sizes, regions, images
        As :func:`look` had or filled them.
    most_blocks, most_images : int
        Of a part, which bounds the memory that decoding takes.
    owners : (N,) int64
        Filled with the image whose tables each set has.
    pairs : (N, PAIR_WORDS) int64
        Filled.
    parts : (N, PART_WORDS) int64
        Filled.
    totals : (TOTAL_WORDS,) int64
        Filled.
    """
    for k in range(TOTAL_WORDS):
        totals[k] = 0
    size, left = i64(0), i64(MOST_WORDS - words.BEYOND)
    for i in range(sizes.size):
        image = images[i]
        if image[STATUS] == TAKEN and _most_words(image) > left:
            image[STATUS] = LEFT_OUT
        if image[STATUS] == TAKEN:
            left -= _most_words(image)
            image[TABLES] = _find_set(i, headers, addresses, sizes, owners, totals)
            part = _join_part(image, regions[i], most_blocks, most_images, parts, totals)
            image[PAIR] = _find_pair(part, image[TABLES], pairs, totals)
            pairs[image[PAIR], PAIR_COUNT] += image[COUNT]
            image[FIRST_SEGMENT], image[AT] = totals[ALL_SEGMENTS], size // 4
            totals[ALL_SEGMENTS] += image[COUNT]
            size += image[BYTES]
    _lay_out(size, pairs, parts, totals)
    for i in range(sizes.size):
        images[i, AT] += totals[BYTES_AT]
