"""Entries of a seek index: the positions in a JPEG at which decoding can start, and how they are read and recorded.

An entry holds the start of each MCU row, and of segments of the row, with the DC predictors there. Its bytes are, in
little-endian order:

====================  ==========================================================================
0, 8 bytes            checksum of the file
8, 4 bytes            bytes of the file
12, 4 bytes           checksum of the rest of the entry, and of ``every``
16, 4 bytes a row     bit of the file at which the MCU row begins; 0 where that is not known
then 6 bytes each     for every segment, row by row: its three DC predictors, int16
then 2 bytes each     for every segment but the first of a row: bits from the one before, uint16
====================  ==========================================================================

A segment has ``every`` MCUs, the last one of a row perhaps fewer. An entry may instead have one segment a row, which is
recognized by the entry's size. Bits are counted in the file as stored, with the zeros that are stuffed after 0xFF.

A number that does not fit into its field is never recorded. :mod:`.build` then falls back to whole rows, or to no
entry.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..cpu.intrinsics import bytes_at, records_in, shorts_in, uints_in
from ..scalar import loop
from .formulas import mixed_in
from .huffman import place
from .layout import DAMAGED, ENTRY_HEAD, OTHER_FILE, OTHER_SIZE, UNUSED, USED
from .vectors import load_big

up, u64, i64, u32 = np.uintp, np.uint64, np.int64, np.uint32

LARGEST_STEP: Final = (1 << 16) - 1  # bits from a segment's start to the next
LARGEST_POSITION: Final = (1 << 32) - 1  # bits: rows beyond 512 MiB of a file cannot be recorded
LARGEST_FILE: Final = (1 << 32) - 1  # bytes

_ROWS: Final = ENTRY_HEAD.itemsize  # byte of an entry where the rows' bits begin

#: The offsets of the sections of an entry in use.
SECTIONS: Final = np.dtype(
    [
        ("segments", "<i8"),  # number in a row, at least 1; 0 where no entry can be used
        ("predictors", "<i8"),  # byte of the entry where the predictors begin
        ("steps", "<i8"),  # byte of the entry where the steps between segments begin
    ],
    align=True,
)

_heads_in = records_in(ENTRY_HEAD)


@loop
def checksum(data, start):
    """Return a checksum of 64 bits of ``data[start:]``, which any change within eight consecutive bytes changes.

    Four sums, each of every fourth big-endian 64-bit word, are mixed with the remaining bytes and their number.
    """
    # Four, since multiplications depend on each other within a sum only, and so overlap.
    a, b, c, d = u64(1), u64(2), u64(3), u64(4)
    at = start
    while at + 32 <= data.size:
        a = mixed_in(a, load_big(data, up(at)))
        b = mixed_in(b, load_big(data, up(at + 8)))
        c = mixed_in(c, load_big(data, up(at + 16)))
        d = mixed_in(d, load_big(data, up(at + 24)))
        at += 32
    total = mixed_in(mixed_in(mixed_in(a, b), c), d)
    while at < data.size:
        total = mixed_in(total, u64(data[at]))
        at += 1
    total = mixed_in(total, u64(data.size - start))
    return total ^ total >> u64(32)


@loop
def segments_of(columns, every):
    """Return the number of segments of a row of ``columns`` MCUs."""
    return -(-columns // every) if every else i64(1)


@loop
def entry_bytes(rows, segments):
    """Return the size of an entry in bytes."""
    # 4 bytes a row, 6 a segment, and 2 for each but the first of a row: 4 + 6 s + 2 (s - 1) a row.
    return _ROWS + rows * (2 + 8 * segments)


@loop
def head_of(entry):
    """Return the first bytes of an entry as a record."""
    return _heads_in(entry, 0, 1)[0]


@loop
def locate_sections(rows, segments, sections):
    """Fill in the offsets of an entry's sections, for ``segments`` in each row."""
    sections.segments = segments
    sections.predictors = _ROWS + 4 * rows
    sections.steps = _ROWS + rows * (4 + 6 * segments)


@loop
def open_entry(data, access, rows, columns, sections):
    """Check a file's entry and locate its sections; return ``USED`` if it can be used, else the reason why not.

    ``sections.segments`` is 0 unless ``USED`` is returned.
    """
    sections.segments = 0
    if access.entry == 0:
        return UNUSED
    # The size is checked first: with it, all offsets below stay within the entry.
    entry = bytes_at(access.entry, access.entry_bytes)
    segments = segments_of(columns, access.every)
    if entry.size != entry_bytes(rows, segments):
        segments = i64(1)  # built with whole rows, as :func:`.build._build` falls back to
    if entry.size != entry_bytes(rows, segments):
        return DAMAGED
    head = head_of(entry)
    found = i64(checksum(data, 0))
    if head.file_bytes != data.size:
        return OTHER_SIZE
    if head.file_sum != found:
        return OTHER_FILE
    if head.entry_sum != entry_sum(entry, access.every):
        return DAMAGED
    locate_sections(rows, segments, sections)
    return USED


@loop
def entry_sum(entry, every):
    """Return the checksum that an entry stores of itself, of its file, and of the segment length it was built with."""
    head = head_of(entry)
    total = mixed_in(checksum(entry, _ROWS), u64(head.file_sum))
    total = mixed_in(total, u64(every) << u64(32) | u64(head.file_bytes))
    return u32(total ^ total >> u64(32))


@loop
def segment_start(entry, sections, rows, row, segment):
    """Return the bit of the file at which a segment of an MCU row begins, or 0 where that is not known."""
    bit = i64(uints_in(entry, _ROWS, rows)[row])
    if bit:
        steps = shorts_in(entry, sections.steps + 2 * row * (sections.segments - 1), segment)
        for k in range(segment):
            bit += steps[k] & 0xFFFF  # read as int16, recorded as uint16
    return bit


@loop
def predictors_at(sections, row, segment):
    """Return the byte of an entry where the three int16 predictors at a segment's start lie."""
    return sections.predictors + 6 * (row * sections.segments + segment)


@loop
def set_predictors(entry, sections, row, segment, stream):
    """Set the stream's predictors to those recorded for a segment's start."""
    recorded = shorts_in(entry, predictors_at(sections, row, segment), 3)
    for c in range(3):
        stream.predictors[c] = recorded[c]


@loop
def at_recorded_start(entry, sections, rows, row, segment, stream):
    """Return whether the stream is at the recorded start of a segment; true where none is recorded."""
    bit = segment_start(entry, sections, rows, row, segment)
    if bit == 0:
        return True
    recorded = shorts_in(entry, predictors_at(sections, row, segment), 3)
    for c in range(3):
        if recorded[c] != stream.predictors[c]:
            return False
    return place(stream) == bit


@loop
def record_start(entry, sections, rows, row, segment, before, stream):
    """Record that a segment begins at the stream's position, unless a number does not fit its field.

    ``before`` is the bit at which the segment before it in the row begins. Returns whether all numbers fit, and the bit
    at which this one begins.
    """
    bit = place(stream)
    if bit - before > LARGEST_STEP if segment > 0 else bit > LARGEST_POSITION:
        return False, bit
    recorded = shorts_in(entry, predictors_at(sections, row, segment), 3)
    for c in range(3):
        recorded[c] = stream.predictors[c]
        if recorded[c] != stream.predictors[c]:  # damaged files have predictors of more than 16 bits
            return False, bit
    if segment > 0:
        shorts_in(entry, sections.steps + 2 * (row * (sections.segments - 1) + segment - 1), 1)[0] = bit - before
        return True, bit
    uints_in(entry, _ROWS, rows)[row] = bit
    return True, bit
