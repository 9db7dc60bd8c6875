"""Entries of a seek index: the positions in a JPEG at which decoding can start, and how they are read and recorded.

An entry holds the start of each MCU row, with the DC predictors there. Its bytes are, in little-endian order:

====================  ==========================================================================
0, 8 bytes            checksum of the file
8, 4 bytes            bytes of the file
12, 4 bytes           checksum of the rest of the entry
16, 4 bytes a row     bit of the file at which the MCU row begins
then 6 bytes a row    its three DC predictors, int16
====================  ==========================================================================

Bits are counted in the file as stored, with the zeros that are stuffed after 0xFF. A file with a number that does not
fit into its field gets no entry.
"""

from typing import Final

import numpy as np

from ..cpu.intrinsics import bytes_at, records_in, shorts_in, uints_in
from ..scalar import loop
from .formulas import mixed_in
from .huffman import place
from .layout import DAMAGED, ENTRY_HEAD, OTHER_FILE, OTHER_SIZE, UNUSED, USED
from .vectors import load_big

up, u64, i64, u32 = np.uintp, np.uint64, np.int64, np.uint32

LARGEST_POSITION: Final = (1 << 32) - 1  # bits: rows beyond 512 MiB of a file cannot be recorded
LARGEST_FILE: Final = (1 << 32) - 1  # bytes

_ROWS: Final = ENTRY_HEAD.itemsize  # byte of an entry where the rows' bits begin

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
def entry_bytes(rows):
    """Return the size of the entry of a file with some MCU rows, in bytes."""
    return _ROWS + 10 * rows


@loop
def head_of(entry):
    """Return the first bytes of an entry as a record."""
    return _heads_in(entry, 0, 1)[0]


@loop
def open_entry(data, access, rows):
    """Check a file's entry; return ``USED`` if it can be used, else the reason why not."""
    if access.entry == 0:
        return UNUSED
    # The size is checked first: with it, all offsets below stay within the entry.
    entry = bytes_at(access.entry, access.entry_bytes)
    if entry.size != entry_bytes(rows):
        return DAMAGED
    head = head_of(entry)
    if head.file_bytes != data.size:
        return OTHER_SIZE
    if head.file_sum != i64(checksum(data, 0)):
        return OTHER_FILE
    return USED if head.entry_sum == entry_sum(entry) else DAMAGED


@loop
def entry_sum(entry):
    """Return the checksum that an entry stores of itself and of its file."""
    head = head_of(entry)
    total = mixed_in(mixed_in(checksum(entry, _ROWS), u64(head.file_sum)), u64(head.file_bytes))
    return u32(total ^ total >> u64(32))


@loop
def row_start(entry, rows, row):
    """Return the bit of the file at which an MCU row begins."""
    return i64(uints_in(entry, _ROWS, rows)[row])


@loop
def predictors_at(rows, row):
    """Return the byte of an entry where the three int16 predictors at a row's start lie."""
    return _ROWS + 4 * rows + 6 * row


@loop
def at_recorded_start(entry, rows, row, stream):
    """Return whether the stream is at the recorded start of a row; true without an entry, and after the last row."""
    if entry.size == 0 or row >= rows:
        return True
    recorded = shorts_in(entry, predictors_at(rows, row), 3)
    for c in range(3):
        if recorded[c] != stream.predictors[c]:
            return False
    return place(stream) == row_start(entry, rows, row)


@loop
def record_start(entry, rows, row, stream):
    """Record that a row begins at the stream's position; return whether all numbers fit their fields."""
    bit = place(stream)
    if bit > LARGEST_POSITION:
        return False
    recorded = shorts_in(entry, predictors_at(rows, row), 3)
    for c in range(3):
        recorded[c] = stream.predictors[c]
        if recorded[c] != stream.predictors[c]:  # damaged files have predictors of more than 16 bits
            return False
    uints_in(entry, _ROWS, rows)[row] = bit
    return True
