"""Random access: entries of a seek index, which say where MCU rows begin, and every so many MCUs in them.

An entry is so many bytes, numbers with the lowest byte first:

====================  ==========================================================================
0, 8 bytes            checksum of the file
8, 4 bytes            bytes of the file
12, 4 bytes           checksum of all else in the entry, and of ``every``
16, 4 bytes a row     bit of the file at which the MCU row begins; 0 where that is not known
then 6 bytes each     of every segment, row by row: its three DC predictors, int16
then 2 bytes each     of every segment but the first of a row: bits from the one before, uint16
====================  ==========================================================================

Segments of a row are of ``every`` MCUs, the last one of fewer. An entry may instead have one segment a row: its size
tells. The bits are those of the file as it is, with the zeros that are stuffed behind 0xFF.

A number that does not fit is never entered. A built entry is then one of whole rows, or there is none; in an entry that
is learned the row stays unknown, so that decoding goes through it from the last known one.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..cpu.intrinsics import bytes_at, fence, longs_in, shorts_in, uints_in
from ..scalar import loop
from .huffman import PREDICTORS, place
from .layout import DAMAGED, ENTRY, ENTRY_BYTES, EVERY, LEARNS, OTHER_FILE, OTHER_SIZE, UNUSED, USED
from .vectors import load_big

up, u64, i64, u32 = np.uintp, np.uint64, np.int64, np.uint32

FILE_SUM: Final = 0  # places in an entry
FILE_BYTES: Final = 8
ENTRY_SUM: Final = 12
ROWS: Final = 16

LARGEST_STEP: Final = (1 << 16) - 1  # bits
LARGEST_POSITION: Final = (1 << 32) - 1  # bits: files of 512 MiB may have rows beyond it
LARGEST_FILE: Final = (1 << 32) - 1  # bytes

# Words of what is known of an entry while it is used.
SEGMENTS: Final = 0  # of a row; 0 where there is no entry
PREDICTED: Final = 1  # where in the entry predictors
STEPS: Final = 2  # and steps begin
SEEK_WORDS: Final = 3

_PRIME = u64(0x9E3779B97F4A7C15)
_TURN = u64(29)


@loop
def _stirred(sum_, word):
    x = sum_ ^ word
    return (x << _TURN | x >> u64(64 - 29)) * _PRIME


@loop
def checksum(data, start):
    """64 bits of the bytes from one on: no change of up to eight bytes in a row leaves them as they are.

    Four sums of every fourth word each, the highest byte of a word first, are stirred together with the rest and the
    size.
    """
    a, b, c, d = u64(1), u64(2), u64(3), u64(4)
    at = start
    while at + 32 <= data.size:
        a = _stirred(a, load_big(data, up(at)))
        b = _stirred(b, load_big(data, up(at + 8)))
        c = _stirred(c, load_big(data, up(at + 16)))
        d = _stirred(d, load_big(data, up(at + 24)))
        at += 32
    total = _stirred(_stirred(_stirred(a, b), c), d)
    while at < data.size:
        total = _stirred(total, u64(data[at]))
        at += 1
    total = _stirred(total, u64(data.size - start))
    return total ^ total >> u64(32)


@loop
def segments_of(columns, every):
    """Segments of a row of so many MCUs."""
    return -(-columns // every) if every else i64(1)


@loop
def entry_bytes(rows, segments):
    """Bytes of an entry."""
    return ROWS + rows * (2 + 8 * segments)


@loop
def set_out(rows, segments, seek):
    """Note where the parts of an entry lie."""
    seek[SEGMENTS] = segments
    seek[PREDICTED] = ROWS + 4 * rows
    seek[STEPS] = ROWS + rows * (4 + 6 * segments)


@loop
def open_entry(data, access, rows, columns, seek):
    """See what is there for a file, fill ``seek``, and say whether it is of use: as ``USED`` or another of those."""
    seek[SEGMENTS] = 0
    if access[ENTRY] == 0 or (access[LEARNS] and data.size > LARGEST_FILE):
        return UNUSED
    entry = bytes_at(access[ENTRY], access[ENTRY_BYTES])
    segments = segments_of(columns, access[EVERY])
    if entry.size != entry_bytes(rows, segments):
        segments = i64(1)
    if entry.size != entry_bytes(rows, segments):
        return DAMAGED
    set_out(rows, segments, seek)
    sums, bytes_ = longs_in(entry, FILE_SUM, 1), uints_in(entry, FILE_BYTES, 1)
    found = i64(checksum(data, 0))
    if access[LEARNS] and bytes_[0] == 0:  # a new one, which another thread may open too
        sums[0] = found
        fence()
        bytes_[0] = data.size
    if bytes_[0] != data.size or sums[0] != found:
        seek[SEGMENTS] = 0
        return OTHER_SIZE if bytes_[0] != data.size else OTHER_FILE
    if access[LEARNS]:
        return USED
    if uints_in(entry, ENTRY_SUM, 1)[0] != entry_sum(entry, access[EVERY]):
        seek[SEGMENTS] = 0
        return DAMAGED
    return USED


@loop
def entry_sum(entry, every):
    """The checksum that an entry has of itself, of whose it is, and of how it is to be read."""
    total = _stirred(checksum(entry, ROWS), u64(longs_in(entry, FILE_SUM, 1)[0]))
    total = _stirred(total, u64(every) << u64(32) | u64(uints_in(entry, FILE_BYTES, 1)[0]))
    return u32(total ^ total >> u64(32))


@loop
def point(entry, seek, rows, r, s):
    """The bit at which a segment begins, or 0 where that is not known."""
    bit = i64(uints_in(entry, ROWS, rows)[r])
    if bit:
        steps = shorts_in(entry, seek[STEPS] + 2 * r * (seek[SEGMENTS] - 1), s)
        for k in range(s):
            bit += steps[k] & 0xFFFF
    return bit


@loop
def predictors_at(entry, seek, r, s, state):
    """Take over the predictors with which a segment begins."""
    fence()
    known = shorts_in(entry, seek[PREDICTED] + 6 * (r * seek[SEGMENTS] + s), 3)
    for c in range(3):
        state[PREDICTORS + c] = known[c]


@loop
def passes(entry, seek, rows, r, s, clean, state):
    """Whether the stream is where the entry says that a segment begins, if it says so."""
    bit = point(entry, seek, rows, r, s)
    if bit == 0:
        return True
    known = shorts_in(entry, seek[PREDICTED] + 6 * (r * seek[SEGMENTS] + s), 3)
    for c in range(3):
        if known[c] != state[PREDICTORS + c]:
            return False
    return place(clean, state) == bit


@loop
def note(entry, seek, rows, r, s, before, clean, state):
    """Enter that a segment begins here, unless a number does not fit; ``before`` is the bit of the segment before it.

    Returns whether all numbers fit, and the bit at which it begins.
    """
    bit = place(clean, state)
    if bit - before > LARGEST_STEP if s > 0 else bit > LARGEST_POSITION:
        return False, bit
    known = shorts_in(entry, seek[PREDICTED] + 6 * (r * seek[SEGMENTS] + s), 3)
    for c in range(3):
        known[c] = state[PREDICTORS + c]
        if known[c] != state[PREDICTORS + c]:
            return False, bit
    if s > 0:
        shorts_in(entry, seek[STEPS] + 2 * (r * (seek[SEGMENTS] - 1) + s - 1), 1)[0] = bit - before
        return True, bit
    fence()  # another thread that learns of the same file may read this
    uints_in(entry, ROWS, rows)[r] = bit
    return True, bit
