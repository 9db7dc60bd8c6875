"""Look-up tables of Huffman codes, built from a file's definitions; a look-up yields up to two symbols.

Tables are indexed by the next BITS bits of the stream. Where these hold a code and at least the sign of its
coefficient, the entry has the symbol. The low bits of the coefficient that do not fit are "missing": the entry has the
coefficient with zeros for them, and the decoder reads them from the stream and adds them, without a branch. An entry is
0 for codes of more than BITS bits, and for coefficients without a known sign. "Advance" is the growth of the position
in the block: the run of zeros and 1, or END_OF_BLOCK. Entries of an AC table:

====== =================================================================
bits   content
====== =================================================================
0-7    bits of both symbols, 1 to 19, the missing ones included
8-15   advance of the first symbol
16-23  advance of both
24-27  bits of the first symbol, 1 to 9; 0 where there is only one
28-31  missing bits of the last symbol, 0 to 9: bits of both less BITS
32-47  coefficient of the first symbol, int16
48-63  coefficient of the last symbol; the first one's if there is only one
====== =================================================================

A pair with one symbol has its advance twice, and its first coefficient is not used. Entries of a DC table: bits 0-7
bits of the symbol, 8-15 missing bits, 0 to 14, from 16 on the difference.

"Singles", from which pairs are built: bits 0-7 bits of the symbol, 8-15 its advance, from 16 on its coefficient.
"""

from typing import Final

import numpy as np

from ..scalar import loop, scalar
from .layout import BITS, ENTRIES, LONGEST, SYMBOLS, TABLES

i64 = np.int64

# Advance of an end of block: past every position, so that one comparison ends a block that was filled or ended early;
# two symbols advance by at most 16 + END_OF_BLOCK, which fits into the 8 bits of an entry.
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


@scalar
def is_legal(size):
    """Return whether an AC coefficient may have these bits: 8-bit samples have no larger ones."""
    return size <= CATEGORY


@loop
def _is_known(data, at, table):
    """Return True if a table was built from the definition at a place of the file."""
    if table.built != 1:
        return False
    count = 0
    for k in range(1, LONGEST + 1):
        count += table.counts[k]
        if table.counts[k] != data[at + k - 1]:
            return False
    if at + LONGEST + count > data.size:
        return False
    for k in range(count):
        if table.symbols[k] != data[at + LONGEST + k]:
            return False
    return True


@scalar
def advance_of(run, size):
    """Return how far an AC symbol leads in its block: size 0 ends it, except with a run of 15, which is 16 zeros."""
    return END_OF_BLOCK if size == 0 and run < 15 else run + 1


@loop
def single(length, symbol, value, is_ac):
    """Return the entry of one symbol, whose code has ``length`` bits."""
    run, size = symbol >> 4, symbol & 15  # zeros before the coefficient, and bits of its value
    advance = advance_of(run, size) if is_ac else 0
    return length + size | advance << 8 | value << 16


@loop
def _base(known, missing, size):
    """Return the coefficient of ``size`` bits whose last ``missing`` bits are taken for zeros."""
    if size == 0:
        return i64(0)
    # T.81, F.1.2.1: numbers whose first bit is 0 are negative, counted up from -(2**size - 1). So the missing bits are
    # added to positive and negative numbers alike.
    is_positive = known >> size - missing - 1
    return i64(known << missing) - (0 if is_positive else (1 << size) - 1)


@loop
def _fill(code, length, symbol, is_ac, codes, entries):
    """Enter a code of at most BITS bits for each value of the bits after it."""
    size = symbol & 15
    after = BITS - length  # bits of an index after the code
    start = code << after  # the first index that begins with the code
    for k in range(start, start + (1 << after)):
        codes[k] = length << 8 | symbol
    missing = max(size - after, 0)
    if (is_ac and not is_legal(size)) or (size and missing == size):
        return  # no legal coefficient, or not even its sign is known: the entry stays 0
    unused = max(after - size, 0)
    for k in range(1 << after):
        entry = single(length, symbol, _base(k >> unused, missing, size), is_ac)
        entries[start + k] = entry if is_ac else entry | missing << 8  # advances of a DC table are 0


@loop
def _paired(singles, index):
    """Return the entry of up to two symbols, from singles in the bits above 16 of codes << 8 | symbol."""
    entry = singles[index] >> 16
    if entry == 0:
        return entry
    both, advance, value = entry & 255, (entry >> 8) & 255, (entry >> 16) & 0xFFFF
    first, total, last = 0, advance, value
    if advance < END_OF_BLOCK:
        # The second symbol's index ends with as many zeros as the first one has bits. They count as missing bits: the
        # entry holds if the other bits have its code and the sign of its coefficient.
        other = singles[(index << both) & (ENTRIES - 1)]
        length, has_sign = (other >> 8) & 255, 1 if other & 15 else 0
        other >>= 16
        if other != 0 and both + length + has_sign <= BITS:
            first = both
            both, total, last = both + (other & 255), advance + ((other >> 8) & 255), (other >> 16) & 0xFFFF
    missing = max(both - BITS, 0)
    return both | advance << 8 | total << 16 | first << 24 | missing << 28 | value << 32 | last << 48


@loop
def read_lengths(data, at, is_ac, table):
    """Read a table's definition at a place of the file as :func:`read_codes`, but leave out the symbols.

    Returns their number, or -1 if the definition is not legal.
    """
    code, symbols = i64(0), i64(0)
    for length in range(1, LONGEST + 1):
        count = i64(data[at + length - 1])
        if symbols + count > SYMBOLS or at + LONGEST + symbols + count > data.size:
            return i64(-1)
        table.counts[length] = count
        table.starts[length] = symbols - code  # codes of one length are consecutive, as are their symbols
        symbols += count
        code += count
        table.limits[length] = code
        if code > 1 << length:  # more codes than numbers of these bits
            return i64(-1)
        code <<= 1
    for k in range(0 if is_ac else symbols):
        if data[at + LONGEST + k] > 15:
            return i64(-1)
    return symbols


@loop
def read_codes(data, at, is_ac, table):
    """Fill the fields of a table's DEFINITION from that at a place of the file; return True if it is legal."""
    symbols = read_lengths(data, at, is_ac, table)
    for k in range(symbols):
        table.symbols[k] = data[at + LONGEST + k]
    return symbols >= 0


@loop
def _build(data, at, table, is_ac):
    """Build a table from the definition at a place; return True if it is legal."""
    table.built = 0
    pairs, codes = table.pairs, table.codes
    for k in range(ENTRIES):
        pairs[k] = 0
        codes[k] = 0
    if not read_codes(data, at, is_ac, table):
        return False
    symbols = i64(0)
    for length in range(1, BITS + 1):
        count = table.counts[length]
        for k in range(symbols, symbols + count):
            _fill(k - table.starts[length], length, table.symbols[k], is_ac, codes, pairs)
        symbols += count
    if is_ac:
        for k in range(ENTRIES):  # pairs are built from a copy of the singles, in the free bits of the codes
            codes[k] |= pairs[k] << 16
        for k in range(ENTRIES):
            pairs[k] = _paired(codes, k)
        for k in range(ENTRIES):
            codes[k] &= 0xFFFF
    table.built = 1
    return True


@loop
def build_table(data, at, table, is_ac):
    """Build a table, unless it is that of the definition at a place; return True if it is legal."""
    return _is_known(data, at, table) or _build(data, at, table, is_ac)


@loop
def build_tables(data, header, tables):
    """Build the tables of a file, except those built before; return True if all are legal."""
    for k in range(TABLES):
        at = header.huffman[k]
        if at != 0 and not build_table(data, at, tables[k], k >= TABLES // 2):
            return False
    return True
