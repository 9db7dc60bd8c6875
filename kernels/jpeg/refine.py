"""Blocks of the scans of a progressive JPEG: first scans and refinements of DC and of AC coefficients.

Each function decodes MCUs ``x`` to ``stop`` of a row as far as the clean bytes of the stream suffice, and returns the
next one, or -1 for what libjpeg would warn of. A mask has bit 63 - k for position k of a block: the first position on
top, as the first bit of the stream.
"""

from typing import Final

import numpy as np

from ..scalar import loop, scalar
from .deposit import deposit, highest
from .formulas import divided
from .huffman import BAD, dc_step, limit_of, position_of, refilled, stream_at
from .layout import BITS, DEFINITION, ENTRIES, LONGEST, MOST_BLOCKS
from .tables import read_codes
from .vectors import count_bits, trailing_zeros, unlikely

up, u64, i64 = np.uintp, np.uint64, np.int64

_ALL = u64(0xFFFFFFFFFFFFFFFF)
_LOW = u64(0xFFFFFFFF)
# Corrections that are taken at once: of the 56 bits of a refill, a symbol leaves 39.
_AT_ONCE = 39
_INT16_BITS = 15  # without the sign
_INT32 = 1 << 31

#: The look-up table of a scan of AC coefficients.
CODES: Final = np.dtype(
    [
        # By the next BITS bits that hold a code and its coefficient: bits of both | run << 8 | coefficient << 16. 0 if
        # they do not, and for symbols without a coefficient.
        ("wholes", "<i4", ENTRIES),
        ("codes", "<i4", ENTRIES),  # bits of the code << 8 | symbol; 0 for longer codes
        *DEFINITION,
    ],
    align=True,
)

#: The place of a scan's blocks, and what is left of a run of ends of blocks.
PART: Final = np.dtype(
    [
        ("per", "<i8"),  # blocks of an MCU of the image
        ("before", "<i8"),  # blocks before the first one whose coefficients are kept
        ("spare", "<i8"),  # block, counted from that one, that takes the coefficients which are not needed
        ("blocks", "<i8"),  # blocks of an MCU of the scan
        ("offsets", "<i8", MOST_BLOCKS),  # of each of them, in an MCU of the image
        ("predictor", "<i8", MOST_BLOCKS),  # component of each of them, counted in the scan
        ("across", "<i8"),  # MCUs of the scan in an MCU of the image, across
        ("block", "<i8"),  # first block of the row, without its offset in the MCU
        ("low", "<i8"),  # MCU columns of the image whose coefficients are kept in this row, first and end
        ("high", "<i8"),
        ("run", "<i8"),  # blocks that follow without symbols
    ],
    align=True,
)


@loop
def build_codes(data, at, scan, table):
    """Build the table of a scan of AC coefficients; return whether it is legal and its coefficients fit int16."""
    if not read_codes(data, at, True, table):
        return False
    wholes, codes = table.wholes, table.codes
    for k in range(ENTRIES):
        wholes[k] = 0
        codes[k] = 0
    code = place = i64(0)
    for length in range(1, LONGEST + 1):
        for _ in range(table.counts[length]):
            symbol = table.symbols[place]
            size = symbol & 15
            if size + scan.low > _INT16_BITS or (scan.refines and size > 1):
                return False
            place += 1
            after = BITS - length
            if after >= 0:
                start = code << after
                for x in range(start, start + (1 << after)):
                    codes[x] = length << 8 | symbol
                unused = after - size
                if size and unused >= 0:
                    for x in range(1 << after):
                        extra = x >> unused
                        value = extra if extra >> (size - 1) else extra - (1 << size) + 1
                        wholes[start + x] = (length + size) | (symbol >> 4) << 8 | value << 16
            code += 1
        code <<= 1
    return True


@loop
def _long_code(bits, table):
    """Return bits of the code << 8 | symbol for a code of more than BITS bits; -1 if it is invalid."""
    length = i64(BITS + 1)
    top = i64(bits >> u64(64 - LONGEST))
    while length <= LONGEST and top >> LONGEST - length >= table.limits[length]:
        length += 1
    if length > LONGEST:
        return i64(-1)
    return length << 8 | table.symbols[(top >> LONGEST - length) + table.starts[length]]


@scalar
def _symbol(bits, table):
    entry = i64(table.codes[up(bits >> u64(64 - BITS))])
    if unlikely(entry == 0):
        entry = _long_code(bits, table)
    return entry


@scalar
def _top(bits, count):
    """Return the ``count`` bits on top, 0 to 63, as a number."""
    return bits >> u64(1) >> u64(63 - count)  # in two steps: a shift by 64 is undefined


@scalar
def _place_of(x, part, first):
    """Return the MCU column of the image that MCU ``x`` of a scan's row lies in, and its place, from ``first`` on."""
    column, block = divided(x, part.across)
    return column, first + column * part.per + block


@loop
def dc_first(stream, x, stop, scan, part, tables, coefficients):
    """Decode DC coefficients without their lowest bits."""
    clean, low = stream.clean, scan.low
    bits, left, pos = stream_at(clean, stream.bit)
    limit = limit_of(stream)
    while x < stop and pos <= limit:
        column, block = _place_of(x, part, part.block - part.before)
        kept = part.low <= column and column < part.high
        for j in range(part.blocks):
            k = part.predictor[up(j)]
            bits, left, pos, difference = dc_step(clean, bits, left, pos, tables[up(k)])
            predictor = stream.predictors[up(k)] + difference
            stream.predictors[up(k)] = predictor
            if unlikely(difference == BAD or predictor >= _INT32 or predictor < -_INT32):
                return i64(-1)
            at = block + part.offsets[up(j)] if kept else part.spare
            coefficients[up(64 * at)] = predictor << low
        x += 1
    stream.bit = position_of(left, pos)
    return x


@loop
def dc_refine(stream, x, stop, scan, part, coefficients):
    """Decode one more bit of each DC coefficient."""
    clean, low = stream.clean, scan.low
    bits, left, pos = stream_at(clean, stream.bit)
    limit = limit_of(stream)
    while x < stop and pos <= limit:
        column, block = _place_of(x, part, part.block - part.before)
        kept = part.low <= column and column < part.high
        bits, left, pos = refilled(clean, bits, left, pos)
        for j in range(part.blocks):
            at = up(64 * (block + part.offsets[up(j)] if kept else part.spare))
            coefficients[at] |= i64(bits >> u64(63)) << low
            bits <<= u64(1)
            left -= u64(1)
        x += 1
    stream.bit = position_of(left, pos)
    return x


@loop
def ac_first(stream, x, stop, scan, part, table, coefficients, masks, zigzag):
    """Decode a band of AC coefficients without their lowest bits."""
    clean, low, first, last = stream.clean, scan.low, scan.first, scan.last
    bits, left, pos = stream_at(clean, stream.bit)
    limit = limit_of(stream)
    run = part.run
    while x < stop and pos <= limit:
        if run > 0:
            passed = min(run, stop - x)
            run -= passed
            x += passed
            continue
        column, block = _place_of(x, part, part.block + part.offsets[0])
        kept = part.low <= column and column < part.high
        out = up(64 * (block - part.before if kept else part.spare))
        mask = u64(0)
        k = first
        while k <= last:
            bits, left, pos = refilled(clean, bits, left, pos)
            entry = i64(table.wholes[up(bits >> u64(64 - BITS))])
            if entry != 0:
                k += (entry >> 8) & 255
                used = u64(entry & 63)
                bits <<= used
                left -= used
                value = entry >> 16
            else:
                entry = _symbol(bits, table)
                if entry < 0:
                    return i64(-1)
                used, zeros, size = u64(entry >> 8), (entry >> 4) & 15, entry & 15
                bits <<= used & u64(63)
                left -= used
                if size == 0:
                    if zeros < 15:
                        run = (i64(1) << zeros) - 1 + i64(_top(bits, zeros))
                        bits <<= u64(zeros)
                        left -= u64(zeros)
                        break
                    k += 16
                    continue
                k += zeros
                value = i64(_top(bits, size))
                if i64(bits) >= 0:
                    value -= (i64(1) << size) - 1
                bits <<= u64(size)
                left -= u64(size)
            if unlikely(k > last):
                return i64(-1)
            coefficients[out + up(zigzag[up(k)])] = value << low
            mask |= u64(1) << u64(63 - k)
            k += 1
        if unlikely(k > last + 1):
            return i64(-1)
        masks[up(block)] |= i64(mask)
        x += 1
    stream.bit = position_of(left, pos)
    part.run = run
    return x


@scalar
def _corrections(clean, bits, left, pos, mask):
    """Return the bits of a mask whose bit of the stream, of which ``_AT_ONCE`` are valid, is set."""
    found = u64(0)
    count = i64(count_bits(mask))
    if unlikely(count > _AT_ONCE):
        upper = mask & ~_LOW
        some = i64(count_bits(upper))
        bits, left, pos = refilled(clean, bits, left, pos)
        found = deposit(_top(bits, some), upper)
        bits, left, pos = refilled(clean, bits << u64(some), left - u64(some), pos)
        mask &= _LOW
        count -= some
    found |= deposit(_top(bits, count), mask)
    return found, bits << u64(count), left - u64(count), pos


@loop
def ac_refine(stream, x, stop, scan, part, table, coefficients, masks, zigzag):
    """Decode one more bit of a band of AC coefficients, and those whose first bit that is."""
    clean, low = stream.clean, scan.low
    bits, left, pos = stream_at(clean, stream.bit)
    limit = limit_of(stream)
    run = part.run
    one = i64(1) << low
    band = (_ALL << u64(63 - scan.last)) & (_ALL >> u64(scan.first))
    while x < stop and pos <= limit:
        column, block = _place_of(x, part, part.block + part.offsets[0])
        kept = part.low <= column and column < part.high
        out = up(64 * (block - part.before if kept else part.spare))
        mask = u64(masks[up(block)])
        rest = band  # positions that are left
        wrong = u64(0)  # coefficients whose new bit is 1
        if run == 0:
            fresh = u64(0)
            while rest != u64(0):
                bits, left, pos = refilled(clean, bits, left, pos)
                entry = i64(table.wholes[up(bits >> u64(64 - BITS))])
                if entry != 0:
                    used, zeros, value = u64(entry & 63), (entry >> 8) & 255, entry >> 16
                    bits <<= used
                    left -= used
                else:
                    entry = _symbol(bits, table)
                    if entry < 0:
                        return i64(-1)
                    used, zeros, value = u64(entry >> 8), (entry >> 4) & 15, entry & 15
                    bits <<= used & u64(63)
                    left -= used
                    if value:
                        value = i64(1) if i64(bits) < 0 else i64(-1)
                        bits <<= u64(1)
                        left -= u64(1)
                    elif zeros < 15:
                        run = (i64(1) << zeros) + i64(_top(bits, zeros))
                        bits <<= u64(zeros)
                        left -= u64(zeros)
                        break
                free = ~mask & rest
                hit = highest(free, zeros)
                if unlikely(hit == u64(0)):
                    return i64(-1)
                passed = rest & ~(hit | (hit - u64(1)))
                found, bits, left, pos = _corrections(clean, bits, left, pos, mask & passed)
                wrong |= found
                if value:
                    coefficients[out + up(zigzag[up(63 - i64(trailing_zeros(hit)))])] = value << low
                    fresh |= hit
                rest &= hit - u64(1)
            masks[up(block)] = i64(mask | fresh)
        if run > 0:
            if mask & rest:
                bits, left, pos = refilled(clean, bits, left, pos)
                found, bits, left, pos = _corrections(clean, bits, left, pos, mask & rest)
                wrong |= found
            run -= 1
        if kept:
            while wrong != u64(0):
                at = out + up(zigzag[up(63 - i64(trailing_zeros(wrong)))])
                value = i64(coefficients[at])
                sign = value >> 63
                coefficients[at] = value + ((one ^ sign) - sign)
                wrong &= wrong - u64(1)
        x += 1
    stream.bit = position_of(left, pos)
    part.run = run
    return x
