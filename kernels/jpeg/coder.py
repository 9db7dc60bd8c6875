"""The Huffman code of baseline scans: symbols of blocks to bits, these to bytes, and the best code for an image.

Bits are stored in scratch eight bytes at a time, whatever their number, so without a branch; bytes are copied from
there, with a zero after each of 255.

References: T.81, F.1.2 and K.2; libjpeg's jchuff.c.
"""

from typing import Final

import numpy as np

from ..cpu.intrinsics import I16, I64, emitted, load, shuffle, splat, store, vector
from ..lang import types
from ..scalar import loop, scalar, up
from .layout import LONGEST, SYMBOLS
from .tables import ZIGZAG
from .vectors import MASKED, copy_masked, leading_zeros, trailing_zeros

u64, i64 = np.uint64, np.int64

#: Numbers for the codes of a table, those of symbols that no table has included: see :func:`list_codes`.
CODES: Final = SYMBOLS + 16
#: Bytes of scratch for a block at most, and for the rest of a vector and an interval's last byte.
RAW_BYTES: Final = 256
RAW_SLACK: Final = MASKED + 8
#: Bytes of memory after a scan that may be overwritten, a restart marker included.
SCAN_SLACK: Final = MASKED + 4
#: Numbers of scratch for :func:`choose_code`.
CHOICE: Final = 6 * (SYMBOLS + 1) + LONGEST + 1

_NO_MORE = 0xF0  # the symbol of sixteen zeros

#: Where a scan is coded to, and its state between MCUs.
WRITER: Final = np.dtype(
    [
        ("at", "<i8"),  # the next byte of the scan
        ("bits", "<u8"),  # bits that are not written yet, from the highest on,
        ("have", "<i8"),  # and their number, fewer than 8
        ("interval", "<i8"),  # MCUs of a restart interval; 0 for none
        ("left", "<i8"),  # MCUs until the next restart marker
        ("marker", "<i8"),  # number of that marker, 0 to 7
        ("padding", "<i8"),  # 1 where the last byte of an interval is filled with ones, 0 for zeros
        ("predictors", "<i8", 3),
    ],
    align=True,
)


@loop
def begin_scan(writer, at, interval, padding):
    """Begin a scan at a byte of its memory."""
    writer.at, writer.bits, writer.have = at, 0, 0
    writer.interval = writer.left = interval
    writer.marker, writer.padding = 0, padding
    for c in range(3):
        writer.predictors[c] = 0


# -- bits and bytes ----------------------------------------------------------------------------------------------------


@emitted(types.none, types.uint64, None, types.uintp)
def _store_big(builder, value, array, index):
    store(builder, builder.bswap(value), array.at(index, 8))


@scalar
def _put(code, low, word, have):
    """Append a code and the bits of a value to those at the top of a word."""
    n = i64(code & 63)
    return word | (u64(code >> 6) | low) << (u64(64 - have - n) & u64(63)), have + n


@scalar
def _spill(word, have, raw, at):
    """Store the word, and keep its last bits, fewer than 8."""
    _store_big(word, raw, up(at))
    whole = have >> 3
    return word << u64(8 * whole), have & 7, at + whole


@loop
def _fill_byte(word, have, padding, raw, n):
    """Fill the last byte of an interval; return the bytes of the interval."""
    if have:
        raw[n] = word >> u64(56) | (u64(255) >> u64(have) if padding else u64(0))
        n += 1
    return n


@loop
def _copy(raw, n, writer, out):
    """Copy bytes to the scan, with zeros after those of 255; return whether they fit."""
    at = writer.at
    if 2 * n + SCAN_SLACK > out.size - at:
        return False
    k = i64(0)
    while k < n:
        mask = copy_masked(raw, up(k), out, up(at))
        first = min(i64(trailing_zeros(mask)), n - k)
        k, at = k + first, at + first
        if k < n and first < MASKED:
            out[up(at + 1)] = 0
            k, at = k + 1, at + 2
    writer.at = at
    return True


# -- blocks ------------------------------------------------------------------------------------------------------------


@emitted(types.uint64, None, types.uintp, None)
def _in_order(builder, coefficients, k, ordered):
    """Put a block's coefficients into the order of the file; return a bit for each that is not zero."""
    block = load(builder, coefficients.at(k, 64), vector(I16, 64))
    block = shuffle(builder, block, block, [int(place) for place in ZIGZAG[:64]])
    store(builder, block, ordered.at(I64(0), 64))
    return builder.bitcast(builder.icmp_unsigned("!=", block, splat(I16, 0, 64)), I64)


@scalar
def size_of(value):
    """Return the bits of a magnitude."""
    return i64(64) - i64(leading_zeros(u64(abs(value))))


@scalar
def low_bits(value, size):
    """Return the bits of a number in T.81's form: those of negative ones are less by 1."""
    return u64(value - (1 if value < 0 else 0)) & ((u64(1) << u64(size)) - u64(1))


def _make_block(counting):
    @scalar
    def block(mask, ordered, before, dc, ac, word, have, raw, at):
        """Code a block, or count its symbols in ``dc`` and ``ac``."""
        difference = i64(ordered[up(0)]) - before
        size = size_of(difference)
        if counting:
            dc[up(size)] += 1
        else:
            word, have = _put(dc[up(size)], low_bits(difference, size), word, have)
        mask &= ~u64(1)
        last = i64(0)
        while mask != u64(0):
            place = i64(trailing_zeros(mask))
            mask &= mask - u64(1)
            run = place - last - 1
            last = place
            value = i64(ordered[up(place)])
            size = size_of(value)
            if counting:
                ac[up(_NO_MORE)] += run >> 4
                ac[up((run & 15) << 4 | size)] += 1
                continue
            word, have, at = _spill(word, have, raw, at)
            while run > 15:
                word, have = _put(ac[up(_NO_MORE)], u64(0), word, have)
                word, have, at = _spill(word, have, raw, at)
                run -= 16
            word, have = _put(ac[up(run << 4 | size)], low_bits(value, size), word, have)
        if last < 63:
            if counting:
                ac[up(0)] += 1
            else:
                word, have = _put(ac[up(0)], u64(0), word, have)
        return _spill(word, have, raw, at)

    return block


def _make_mcus(counting):
    block = _make_block(counting)

    @loop
    def code_mcus(n, mcu, codes, coefficients, ordered, writer, raw, out):
        """Code the next ``n`` MCUs, whose blocks lie in the order of the file; return whether they fit into ``out``.

        A symbol without a code is left out. ``ordered`` has 64 numbers; ``raw`` RAW_BYTES for each block, and
        RAW_SLACK.
        """
        word, have, at, k = writer.bits, writer.have, i64(0), up(0)
        for _ in range(n):
            if writer.interval:
                if writer.left == 0:
                    if not counting:
                        if not _copy(raw, _fill_byte(word, have, writer.padding, raw, at), writer, out):
                            return False
                        word, have, at = u64(0), i64(0), i64(0)
                        out[writer.at], out[writer.at + 1] = 0xFF, 0xD0 | writer.marker
                        writer.at += 2
                    writer.marker = (writer.marker + 1) & 7
                    writer.left = writer.interval
                    for c in range(3):
                        writer.predictors[c] = 0
                writer.left -= 1
            for j in range(mcu.blocks):
                c = mcu.component[j]
                dc, ac = codes[mcu.dc_table[j]], codes[mcu.ac_table[j]]
                mask = _in_order(coefficients, k, ordered)
                word, have, at = block(mask, ordered, writer.predictors[c], dc, ac, word, have, raw, at)
                writer.predictors[c] = i64(ordered[up(0)])
                k += up(64)
        writer.bits, writer.have = word, have
        return counting or _copy(raw, at, writer, out)

    return code_mcus


#: The latter counts symbols in ``codes``, and writes nothing.
code_mcus, count_mcus = _make_mcus(False), _make_mcus(True)


@loop
def end_scan(writer, raw, out):
    """Write the last byte; return whether it fits."""
    return _copy(raw, _fill_byte(writer.bits, writer.have, writer.padding, raw, i64(0)), writer, out)


# -- codes -------------------------------------------------------------------------------------------------------------


@loop
def list_codes(counts, symbols, codes):
    """Fill ``codes`` by symbol: the code, then as many zeros as bits follow it, then in 6 bits the number of both.

    ``counts`` are those of codes by their length, from 1 bit on.
    """
    for symbol in range(CODES):
        codes[symbol] = 0
    k, code = 0, i64(0)
    for length in range(1, LONGEST + 1):
        for _ in range(counts[length - 1]):
            size = i64(symbols[k] & 15)
            codes[symbols[k]] = code << size << 6 | length + size
            k += 1
            code += 1
        code <<= 1


@loop
def choose_code(counts, scratch, out, at):
    """Write the best code for symbols that occur so often, as a table is defined in a file; return the byte after it.

    It is libjpeg's, which T.81 describes in K.2: of equal frequencies those of larger symbols are merged first.
    """
    most = SYMBOLS + 1
    used, frequencies, sizes = scratch[:most], scratch[most : 2 * most], scratch[2 * most : 3 * most]
    following, lengths = scratch[3 * most : 4 * most], scratch[4 * most : CHOICE]
    n = 0
    for symbol in range(SYMBOLS):
        if counts[symbol]:
            used[n], frequencies[n] = symbol, counts[symbol]
            n += 1
    frequencies[n] = 1  # of the code of ones alone, which no symbol may have
    n += 1
    for k in range(n):
        sizes[k], following[k] = 0, -1
    for k in range(lengths.size):
        lengths[k] = 0
    for _ in range(n - 1):
        one = two = -1
        for k in range(n):
            if frequencies[k] == 0:
                continue
            if one < 0 or frequencies[k] <= frequencies[one]:
                one, two = k, one
            elif two < 0 or frequencies[k] <= frequencies[two]:
                two = k
        frequencies[one] += frequencies[two]
        frequencies[two] = 0
        k = one
        while following[k] >= 0:
            sizes[k] += 1
            k = following[k]
        sizes[k] += 1
        following[k] = two
        k = two
        while k >= 0:
            sizes[k] += 1
            k = following[k]
    for k in range(n):
        lengths[sizes[k]] += 1
    for length in range(lengths.size - 1, LONGEST, -1):  # a pair moves up, and a shorter code is split for the other
        while lengths[length]:
            shorter = length - 2
            while lengths[shorter] == 0:
                shorter -= 1
            lengths[length] -= 2
            lengths[length - 1] += 1
            lengths[shorter + 1] += 2
            lengths[shorter] -= 1
    last = LONGEST
    while lengths[last] == 0:
        last -= 1
    lengths[last] -= 1
    for length in range(1, LONGEST + 1):
        out[at + length - 1] = lengths[length]
    at += LONGEST
    for length in range(1, most):  # by the lengths before the longest were shortened, of which the order stays
        for k in range(n - 1):
            if sizes[k] == length:
                out[at] = used[k]
                at += 1
    return at
