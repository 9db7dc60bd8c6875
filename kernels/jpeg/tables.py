"""Look-up tables of Huffman codes, built of a file's definitions; they give up to two symbols a look-up.

An entry of a table of pairs, 0 where the next BITS bits do not hold the whole code and value of a symbol. "advance" is
by how much the position in the block grows: the run of zeros and 1, or END_OF_BLOCK. Of an AC table:

====== ===================================================
bits   what
====== ===================================================
0-7    bits of both symbols, 1 to BITS
8-15   bits of the first one
16-23  advance of the first one
24-31  advance of both
32-47  coefficient of the first one, int16
48-63  coefficient of the last one, int16; that of the first where there is one symbol
====== ===================================================

Of a DC table, and of single symbols: bits 0-7 its bits, 8-15 its advance (0 in a DC table), from 16 on its coefficient.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..scalar import loop
from .layout import BITS, ENTRIES, LONGEST, SYMBOLS, TABLES

i64 = np.int64

# What the end of a block advances by: past every position there is, so that one comparison ends the block whether it
# was filled or ended early, and within the 8 bits that an entry has for it.
END_OF_BLOCK: Final = 128
LAST: Final = 63  # position of the last coefficient of a block, in the order of the file
CATEGORY: Final = 10  # bits of the largest coefficient of 8-bit samples

_ZIGZAG = (
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
)  # fmt: skip
# Natural order; everything after the end is position 63, where the zero of an end of block does no harm.
ZIGZAG: Final = np.array([*_ZIGZAG, *[LAST] * (2 * END_OF_BLOCK - 64 + 16)], np.uint8)


@loop
def _is_known(data, at, table):
    """Whether a table was built of the definition at a place of the file."""
    if table.built != 1:
        return False
    count = 0
    for k in range(LONGEST):
        count += data[at + k]
        if table.counts[1 + k] != data[at + k]:
            return False
    if at + LONGEST + count > data.size:
        return False
    for k in range(count):
        if table.symbols[k] != data[at + LONGEST + k]:
            return False
    return True


@loop
def single(length, symbol, value, is_ac):
    """The entry of a single symbol, whose code has ``length`` bits."""
    run, size = symbol >> 4, symbol & 15  # zeros before the coefficient, and bits of its value
    advance = 0
    if is_ac:
        # Size 0 ends the block, but for the run of 15: sixteen zeros.
        advance = END_OF_BLOCK if size == 0 and run < 15 else run + 1
    return length + size | advance << 8 | value << 16


@loop
def _extended(extra, size):
    """The coefficient that ``size`` bits stand for."""
    # T.81, F.1.2.1: numbers whose first bit is 0 are negative, counted up from -(2**size - 1).
    return extra if size == 0 or extra >> size - 1 else extra - (1 << size) + 1


@loop
def _fill(code, length, symbol, is_ac, codes, pairs):
    """Enter a short code for each of the bits that may follow it."""
    size = symbol & 15
    start = code << BITS - length  # the first of the numbers of BITS bits that begin with the code
    for k in range(start, start + (1 << BITS - length)):
        codes[k] = length << 8 | symbol
    if length + size <= BITS:  # else the value has to be read by itself: the entry stays 0
        step = 1 << BITS - length - size
        for extra in range(1 << size):
            entry = single(length, symbol, _extended(extra, size), is_ac)
            for k in range(start + extra * step, start + (extra + 1) * step):
                pairs[k] = entry


@loop
def _paired(singles, code):
    """The entry of up to two symbols, from those of one, which lie above 16 bits of something else."""
    entry = singles[code] >> 16
    if entry == 0:
        return entry
    used, advance, value = entry & 255, (entry >> 8) & 255, (entry >> 16) & 0xFFFF
    both, total, last = used, advance, value
    if advance < END_OF_BLOCK:
        # Bits after these are zeros here: an entry found with them holds only if it uses none of those.
        other = singles[(code << used) & (ENTRIES - 1)] >> 16
        if other != 0 and used + (other & 255) <= BITS:
            both, total, last = used + (other & 255), advance + ((other >> 8) & 255), (other >> 16) & 0xFFFF
    return both | used << 8 | advance << 16 | total << 24 | value << 32 | last << 48


@loop
def read_codes(data, at, is_ac, limits, starts):
    """Fill ``limits`` and ``starts`` of a TABLE from the definition at a place; return whether it is legal."""
    code, symbols = i64(0), i64(0)
    for length in range(1, LONGEST + 1):
        count = i64(data[at + length - 1])
        if symbols + count > SYMBOLS or at + LONGEST + symbols + count > data.size:
            return False
        starts[length] = symbols - code  # codes of one length are consecutive, as are their symbols
        for k in range(symbols, symbols + count):
            if not is_ac and data[at + LONGEST + k] > 15:
                return False
        symbols += count
        code += count
        limits[length] = code
        if code > 1 << length:  # more codes than numbers of these bits
            return False
        code <<= 1
    return True


@loop
def _build(data, at, table, is_ac):
    """Build a table of the definition at a place; return whether that is a legal one."""
    table.built = 0
    pairs, codes = table.pairs, table.codes
    for k in range(ENTRIES):
        pairs[k] = 0
        codes[k] = 0
    if not read_codes(data, at, is_ac, table.limits, table.starts):
        return False
    symbols = i64(0)
    for length in range(1, LONGEST + 1):
        count = i64(data[at + length - 1])
        table.counts[length] = count
        for k in range(symbols, symbols + count):
            symbol = i64(data[at + LONGEST + k])
            table.symbols[k] = symbol
            if length <= BITS:
                _fill(k - table.starts[length], length, symbol, is_ac, codes, pairs)
        symbols += count
    if is_ac:
        for k in range(ENTRIES):  # pairs are made of a copy of the single entries, which the codes have room for
            codes[k] |= pairs[k] << 16
        for k in range(ENTRIES):
            pairs[k] = _paired(codes, k)
        for k in range(ENTRIES):
            codes[k] &= 0xFFFF
    table.built = 1
    return True


@loop
def build_tables(data, header, tables):
    """Build the tables of a file, but for those that are there already; return whether they are legal."""
    for k in range(TABLES):
        at = header.huffman[k]
        if at != 0 and not _is_known(data, at, tables[k]) and not _build(data, at, tables[k], k >= TABLES // 2):
            return False
    return True
