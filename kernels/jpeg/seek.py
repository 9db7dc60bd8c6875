"""Random access: entries of a seek index, which say where MCU rows, and segments of them, begin.

An entry is these bytes, numbers with the lowest byte first:

====================  ==========================================================================
0, 8 bytes            checksum of the file
8, 4 bytes            bytes of the file
12, 4 bytes           checksum of all else in the entry, and of ``every``
16, 4 bytes a row     bit of the file at which the MCU row begins; 0 where that is not known
then 6 bytes each     of every segment, row by row: its three DC predictors, int16
then 2 bytes each     of every segment but the first of a row: bits from the one before, uint16
====================  ==========================================================================

Segments of a row are of ``every`` MCUs, the last one of fewer. An entry may instead have one segment a row: its size
tells. The bits are those of the file as it is, with the zeros that are stuffed after 0xFF.

A number that does not fit is never entered. A built entry is then one of whole rows, or there is none; in an entry that
is learned the row stays unknown, so that decoding goes through it from the last known one.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..cpu.intrinsics import bytes_at, fence, records_in, shorts_in, uints_in
from ..scalar import loop
from .huffman import place
from .layout import DAMAGED, ENTRY_HEAD, OTHER_FILE, OTHER_SIZE, UNUSED, USED
from .vectors import load_big

up, u64, i64, u32 = np.uintp, np.uint64, np.int64, np.uint32

LARGEST_STEP: Final = (1 << 16) - 1  # bits
LARGEST_POSITION: Final = (1 << 32) - 1  # bits: files of 512 MiB may have rows beyond it
LARGEST_FILE: Final = (1 << 32) - 1  # bytes

_ROWS: Final = ENTRY_HEAD.itemsize  # byte of an entry where the rows' bits begin

#: Where the sections of an entry lie that is used.
SECTIONS: Final = np.dtype(
    [
        ("segments", "<i8"),  # of a row, at least 1; 0 where there is no entry to use
        ("predictors", "<i8"),  # byte of the entry where the predictors begin
        ("steps", "<i8"),  # and the steps
    ],
    align=True,
)

_heads_in = records_in(ENTRY_HEAD)

_PRIME = u64(0x9E3779B97F4A7C15)  # odd: 2**64 over the golden ratio, whose bits are even
_TURN = u64(29)


@loop
def _mix(sum_, word):
    """A sum and the next word: one to one for either, so that one changed word always changes the sum."""
    x = sum_ ^ word
    return (x << _TURN | x >> u64(64 - 29)) * _PRIME


@loop
def checksum(data, start):
    """64 bits of the bytes from one on: no change of up to eight bytes in a row leaves them as they are.

    Four sums of every fourth word each, the highest byte of a word first, are mixed with the rest and the size.
    """
    a, b, c, d = u64(1), u64(2), u64(3), u64(4)
    at = start
    while at + 32 <= data.size:
        a = _mix(a, load_big(data, up(at)))
        b = _mix(b, load_big(data, up(at + 8)))
        c = _mix(c, load_big(data, up(at + 16)))
        d = _mix(d, load_big(data, up(at + 24)))
        at += 32
    total = _mix(_mix(_mix(a, b), c), d)
    while at < data.size:
        total = _mix(total, u64(data[at]))
        at += 1
    total = _mix(total, u64(data.size - start))
    return total ^ total >> u64(32)


@loop
def segments_of(columns, every):
    """Segments of a row of ``columns`` MCUs."""
    return -(-columns // every) if every else i64(1)


@loop
def entry_bytes(rows, segments):
    """Bytes of an entry."""
    # 4 bytes a row, 6 a segment, and 2 for each but the first of a row.
    return _ROWS + rows * (2 + 8 * segments)


@loop
def head_of(entry):
    """The first bytes of an entry as a record."""
    return _heads_in(entry, 0, 1)[0]


@loop
def locate_sections(rows, segments, sections):
    """Fill in where the sections of an entry lie."""
    sections.segments = segments
    sections.predictors = _ROWS + 4 * rows
    sections.steps = _ROWS + rows * (4 + 6 * segments)


@loop
def open_entry(data, access, rows, columns, sections):
    """Check the entry that a file has, and locate its sections; return ``USED`` where it fits, else why not.

    ``sections.segments`` is 0 in all other cases.
    """
    sections.segments = 0
    if access.entry == 0 or (access.learns and data.size > LARGEST_FILE):
        return UNUSED
    entry = bytes_at(access.entry, access.entry_bytes)
    segments = segments_of(columns, access.every)
    if entry.size != entry_bytes(rows, segments):
        segments = i64(1)
    if entry.size != entry_bytes(rows, segments):
        return DAMAGED
    head = head_of(entry)
    found = i64(checksum(data, 0))
    if access.learns and head.file_bytes == 0:  # a new one, which another thread may open too
        head.file_sum = found
        fence()  # whoever sees the size sees the sum
        head.file_bytes = data.size
    if head.file_bytes != data.size:
        return OTHER_SIZE
    if head.file_sum != found:
        return OTHER_FILE
    if not access.learns and head.entry_sum != entry_sum(entry, access.every):
        return DAMAGED
    locate_sections(rows, segments, sections)
    return USED


@loop
def entry_sum(entry, every):
    """The checksum that an entry has of itself, of its file, and of how it is to be read."""
    head = head_of(entry)
    total = _mix(checksum(entry, _ROWS), u64(head.file_sum))
    total = _mix(total, u64(every) << u64(32) | u64(head.file_bytes))
    return u32(total ^ total >> u64(32))


@loop
def segment_start(entry, sections, rows, r, s):
    """The bit of the file at which segment ``s`` of row ``r`` begins, or 0 where that is not known."""
    bit = i64(uints_in(entry, _ROWS, rows)[r])
    if bit:
        steps = shorts_in(entry, sections.steps + 2 * r * (sections.segments - 1), s)
        for k in range(s):
            bit += steps[k] & 0xFFFF
    return bit


@loop
def predictors_at(sections, r, s):
    """The byte of an entry where the three predictors lie with which a segment begins, int16."""
    return sections.predictors + 6 * (r * sections.segments + s)


@loop
def set_predictors(entry, sections, r, s, stream):
    """Take over the predictors with which a segment begins."""
    fence()  # after the row's bit, which another thread that learns writes last
    known = shorts_in(entry, predictors_at(sections, r, s), 3)
    for c in range(3):
        stream.predictors[c] = known[c]


@loop
def at_recorded_start(entry, sections, rows, r, s, stream):
    """Whether the stream is where the entry says that a segment begins; true where it does not say."""
    bit = segment_start(entry, sections, rows, r, s)
    if bit == 0:
        return True
    known = shorts_in(entry, predictors_at(sections, r, s), 3)
    for c in range(3):
        if known[c] != stream.predictors[c]:
            return False
    return place(stream) == bit


@loop
def record_start(entry, sections, rows, r, s, before, stream):
    """Enter that a segment begins here, unless a number does not fit; ``before`` is the bit of the segment before it.

    Returns whether all numbers fit, and the bit at which it begins.
    """
    bit = place(stream)
    if bit - before > LARGEST_STEP if s > 0 else bit > LARGEST_POSITION:
        return False, bit
    known = shorts_in(entry, predictors_at(sections, r, s), 3)
    for c in range(3):
        known[c] = stream.predictors[c]
        if known[c] != stream.predictors[c]:
            return False, bit
    if s > 0:
        shorts_in(entry, sections.steps + 2 * (r * (sections.segments - 1) + s - 1), 1)[0] = bit - before
        return True, bit
    fence()  # another thread that learns of the same file may read this: the predictors come first
    uints_in(entry, _ROWS, rows)[r] = bit
    return True, bit
