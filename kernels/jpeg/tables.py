"""Look-up tables of Huffman codes, built of a file's definitions; they give up to two symbols a look-up."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..scalar import loop
from .layout import HUFFMAN, TABLES

i64 = np.int64

BITS: Final = 10  # that are looked up at once (measured: 10 and 11 are best; larger tables lose in the cache)
ENTRIES: Final = 1 << BITS
LONGEST: Final = 16

# Words of the tables of one thread: for each of the file's eight tables its definition (counts and symbols, and whether
# there is one), pairs of symbols (of DC tables single ones), single codes, and what finds longer codes.
DEFINITION: Final = 17 + 256
PAIRS: Final = TABLES * DEFINITION
CODES: Final = PAIRS + TABLES * ENTRIES
LIMITS: Final = CODES + TABLES * ENTRIES
STARTS: Final = LIMITS + TABLES * (LONGEST + 1)
TABLE_WORDS: Final = STARTS + TABLES * (LONGEST + 1)

END_OF_BLOCK: Final = 128  # what the end of a block advances by: past every position there is
LAST: Final = 63
CATEGORY: Final = 10  # bits of the largest coefficient of 8-bit samples

_ZIGZAG = (
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
)  # fmt: skip
# Natural order; everything behind the end is position 63, where the zero of an end of block does no harm.
ZIGZAG: Final = np.array([*_ZIGZAG, *[LAST] * (2 * END_OF_BLOCK - 64 + 16)], np.uint8)


@loop
def _is_known(data, at, tables, table):
    """Whether a table of the file is the one that was built last."""
    definition = tables[table * DEFINITION : (table + 1) * DEFINITION]
    if definition[0] != 1:
        return False
    count = 0
    for k in range(LONGEST):
        count += data[at + k]
        if definition[1 + k] != data[at + k]:
            return False
    if at + LONGEST + count > data.size:
        return False
    for k in range(LONGEST, LONGEST + count):
        if definition[1 + k] != data[at + k]:
            return False
    return True


@loop
def single(length, symbol, value, is_ac):
    """An entry: bits of code and value | what the position advances by << 8 | the coefficient << 16."""
    run, size = symbol >> 4, symbol & 15
    advance = 0
    if is_ac:
        advance = END_OF_BLOCK if size == 0 and run < 15 else run + 1
    return length + size | advance << 8 | value << 16


@loop
def _extended(extra, size):
    """The coefficient that ``size`` bits stand for."""
    return extra if size == 0 or extra >> size - 1 else extra - (1 << size) + 1


@loop
def _fill(code, length, symbol, is_ac, codes, pairs):
    """Enter a short code for each of the bits that may follow it."""
    size = symbol & 15
    start = code << BITS - length
    for k in range(start, start + (1 << BITS - length)):
        codes[k] = length << 8 | symbol
    if length + size <= BITS:
        step = 1 << BITS - length - size
        for extra in range(1 << size):
            entry = single(length, symbol, _extended(extra, size), is_ac)
            for k in range(start + extra * step, start + (extra + 1) * step):
                pairs[k] = entry


@loop
def _paired(singles, code):
    """An entry of up to two symbols, from those of one, which lie above 16 bits of something else.

    Bits of both | bits of the first << 8 | advance of the first << 16 | of both << 24 | first coefficient << 32 |
    last << 48.
    """
    entry = singles[code] >> 16
    if entry == 0:
        return entry
    used, advance, value = entry & 255, (entry >> 8) & 255, (entry >> 16) & 0xFFFF
    both, total, last = used, advance, value
    if advance < END_OF_BLOCK:
        other = singles[(code << used) & (ENTRIES - 1)] >> 16
        if other != 0 and used + (other & 255) <= BITS:
            both, total, last = used + (other & 255), advance + ((other >> 8) & 255), (other >> 16) & 0xFFFF
    return both | used << 8 | advance << 16 | total << 24 | value << 32 | last << 48


@loop
def read_codes(data, at, is_ac, limits, starts):
    """For each length of code, what is behind its codes and leads to their symbols; gives whether they are legal."""
    code, symbols = i64(0), i64(0)
    for length in range(1, LONGEST + 1):
        count = i64(data[at + length - 1])
        if symbols + count > 256 or at + LONGEST + symbols + count > data.size:
            return False
        starts[length] = symbols - code
        for k in range(symbols, symbols + count):
            if not is_ac and data[at + LONGEST + k] > 15:
                return False
        symbols += count
        code += count
        limits[length] = code
        if code > 1 << length:
            return False
        code <<= 1
    return True


@loop
def _build(data, at, tables, table):
    """Build one table; gives whether it is a legal one."""
    definition = tables[table * DEFINITION : (table + 1) * DEFINITION]
    pairs = tables[PAIRS + table * ENTRIES : PAIRS + (table + 1) * ENTRIES]
    codes = tables[CODES + table * ENTRIES : CODES + (table + 1) * ENTRIES]
    limits = tables[LIMITS + table * (LONGEST + 1) :]
    starts = tables[STARTS + table * (LONGEST + 1) :]
    definition[0] = 0
    for k in range(ENTRIES):
        pairs[k] = 0
        codes[k] = 0
    is_ac = table >= TABLES // 2
    if not read_codes(data, at, is_ac, limits, starts):
        return False
    symbols = i64(0)
    for length in range(1, LONGEST + 1):
        count = i64(data[at + length - 1])
        definition[length] = count
        for k in range(symbols, symbols + count):
            symbol = i64(data[at + LONGEST + k])
            definition[17 + k] = symbol
            if length <= BITS:
                _fill(k - starts[length], length, symbol, is_ac, codes, pairs)
        symbols += count
    if is_ac:
        for k in range(ENTRIES):  # pairs are made of a copy of the single entries, in the same words as the codes
            codes[k] |= pairs[k] << 16
        for k in range(ENTRIES):
            pairs[k] = _paired(codes, k)
        for k in range(ENTRIES):
            codes[k] &= 0xFFFF
    definition[0] = 1
    return True


@loop
def build_tables(data, header, tables):
    """Tables of a file, those left out that are there already; gives whether they are legal."""
    for table in range(TABLES):
        at = header[HUFFMAN + table]
        if at != 0 and not _is_known(data, at, tables, table) and not _build(data, at, tables, table):
            return False
    return True
