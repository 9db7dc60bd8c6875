"""Huffman decoding: a file's bytes without stuffing, and blocks of coefficients.

A stream is decoded in pieces, so that the same code decodes whole images and restart intervals.
"""

from typing import Final

import numpy as np

from ..scalar import loop, scalar
from .layout import BAD_CODE, BAD_RESTART, BITS, DONE, ENDS, LONGEST, OVERRUN
from .tables import END_OF_BLOCK, LAST, is_legal, single
from .vectors import MASKED, copy_masked, load_big, mask_of, trailing_zeros, unlikely

up, u64, i64, u32 = np.uintp, np.uint64, np.int64, np.uint32

_CLEAN = 1 << 14  # bytes that are cleaned at a time: half of a first-level cache
_BLOCK = 264  # bytes of the longest block and a load after it: 64 symbols of 31 bits
_NEVER: Final = 1 << 62

# Not literals: Numba would compile a variant for each.
_DC, _AC = np.bool_(False), np.bool_(True)

#: State of a stream. "Clean" bytes are those of the file without the zero that is stuffed after each 0xFF.
STREAM: Final = np.dtype(
    [
        ("bit", "<i8"),  # next bit to decode, counted from the first clean byte
        ("length", "<i8"),  # clean bytes; zeros follow them
        ("raw", "<i8"),  # byte of the file that is cleaned next
        ("ended", "<i8"),  # 1 if ``raw`` is at a marker or at the end of the file, else 0
        ("left", "<i8"),  # MCUs until the next restart marker; _NEVER without restart intervals
        ("marker", "<i8"),  # number of that marker, 0 to 7
        ("skips", "<i8"),  # 1 if restart intervals outside the region are skipped without decoding them
        ("predictors", "<i8", 3),  # DC coefficient of the last block of each component
        ("clean", "u1", _CLEAN + 2 * _BLOCK),
    ],
    align=True,
)


@loop
def begin(data, at, interval, stream):
    """Begin a segment at a byte of the file, with predictors of zero."""
    stream.bit = 0
    stream.length = 0
    stream.raw = at
    stream.ended = 0
    stream.left = interval if interval else _NEVER
    for c in range(3):
        stream.predictors[c] = 0
    fill(data, stream)


@loop
def fill(data, stream):
    """Move the clean bytes that are left to the front, and clean more of the file after them."""
    clean = stream.clean
    start = min(stream.bit >> 3, stream.length)
    at = stream.length - start
    for k in range(at):
        clean[k] = clean[start + k]
    stream.bit -= 8 * start
    raw = stream.raw
    while at < _CLEAN - MASKED:
        if raw + MASKED <= data.size:
            mask = copy_masked(data, up(raw), clean, up(at))
            # Only the bytes before the first 0xFF count; the code below handles that one and overwrites the others.
            step = MASKED if mask == u32(0) else i64(trailing_zeros(mask))
            raw += step
            at += step
            if step == MASKED:
                continue
        if raw >= data.size:
            stream.ended = 1
            break
        byte = data[raw]
        raw += 1
        if byte == 0xFF:
            if raw < data.size and data[raw] == 0xFF:  # fill byte
                continue
            # No zero may follow fill bytes; libjpeg-turbo's pixels are not specified there.
            if raw >= data.size or data[raw] != 0 or data[raw - 2] == 0xFF:
                stream.ended = 1
                raw -= 1
                break
            raw += 1
        clean[at] = byte
        at += 1
    for k in range(at, at + 2 * _BLOCK):  # the last block may read past the end, which decode_mcus detects
        clean[k] = 0
    stream.raw = raw
    stream.length = at


@loop
def restart(data, interval, stream):
    """Continue after the next restart marker; return False if it does not follow within a byte of padding."""
    if stream.length * 8 - stream.bit >= 8:
        return False
    if not stream.ended:
        fill(data, stream)
    at = stream.raw
    marker = stream.marker
    if stream.length * 8 - stream.bit >= 8 or at + 2 > data.size or data[at + 1] != 0xD0 + marker:
        return False
    begin(data, at + 2, interval, stream)
    stream.marker = (marker + 1) & 7
    return True


@loop
def next_marker(data, at):
    """Return the position of the next 0xFF without a zero or 0xFF after it, or else the end of the file."""
    while at + MASKED < data.size:
        mask = mask_of(data, up(at))
        if mask == u32(0):
            at += MASKED
            continue
        at += i64(trailing_zeros(mask))
        if data[at + 1] != 0 and data[at + 1] != 0xFF:
            return at
        at += 1
    while at + 1 < data.size and (data[at] != 0xFF or data[at + 1] == 0 or data[at + 1] == 0xFF):
        at += 1
    return at


@loop
def restarts_follow(data, at, count):
    """Return True if a scan has ``count`` restart markers, in order, and then a marker of another kind."""
    for k in range(count):
        at = next_marker(data, at)
        if at + 1 >= data.size or data[at + 1] != 0xD0 + (k & 7):
            return False
        at += 2
    at = next_marker(data, at)
    return at + 1 < data.size and data[at + 1] >> 3 != 0xD0 >> 3


@loop
def _pass_interval(data, stream):
    """Skip to the end of the restart interval."""
    if not stream.ended:
        stream.raw = next_marker(data, stream.raw)
        stream.ended = 1
    stream.bit = 0
    stream.length = 0
    stream.left = 0


@loop
def _value(bits, size):
    """Return the coefficient that the top ``size`` bits encode."""
    v = i64(bits >> u64(1) >> u64(63 - size))  # in two steps: a shift by 64 is undefined, and size may be 0
    return v if i64(bits) < 0 or size == 0 else v - (i64(1) << i64(size)) + i64(1)


@loop
def _long_symbol(bits, table, is_ac):
    """Return a symbol that the table of pairs does not have, as a single's entry (tables.py); -1 if it is invalid."""
    code = table.codes[i64(bits >> u64(64 - BITS))]  # of BITS bits, so that no bit of the value is known; or 0
    length, symbol = code >> 8, code & 255
    if code == 0:
        length = BITS + 1
        top = i64(bits >> u64(64 - LONGEST))
        while length <= LONGEST and top >> LONGEST - length >= table.limits[length]:
            length += 1
        if length > LONGEST:
            return i64(-1)
        symbol = table.symbols[(top >> LONGEST - length) + table.starts[length]]
    size = symbol & 15
    if is_ac and not is_legal(size):
        return i64(-1)
    return single(length, symbol, _value(bits << u64(length), size), is_ac)


BAD = 1 << 20  # advance of an invalid code: further than an end of block

# The decoder's loop keeps the stream in three numbers: ``bits``, 64 of them, the next one on top; ``left``, the number
# of valid ones; and ``pos``, the clean byte after them. Refilling needs no branch, because it also sets the bits that
# are valid already, to the same values: ``left`` becomes 56 to 63, and ``pos`` moves by the whole bytes gained. Only
# the lowest six bits of ``left`` count, so that what is subtracted needs no mask.
#
# A look-up of AC coefficients takes at most 26 bits, of a code and a coefficient of ten bits, so that two need one
# refill. That of a DC coefficient takes at most 24, of nine bits and 15; it is refilled at once after a longer one.


@scalar
def refilled(clean, bits, left, pos):
    """Return the stream with at least 56 valid bits."""
    bits |= load_big(clean, pos) >> (left & u64(63))
    pos += up(((left >> u64(3)) & u64(7)) ^ u64(7))  # (63 - left) >> 3 of the six bits
    return bits, left | u64(56), pos


@scalar
def stream_at(clean, bit):
    """Return ``bits``, ``left`` and ``pos`` at a clean bit."""
    # Seven of the eight bytes count as read; the next refill sets the last one again.
    return load_big(clean, up(bit >> 3)) << u64(bit & 7), u64(56 - (bit & 7)), up(bit >> 3) + up(7)


@scalar
def position_of(left, pos):
    """Return the next clean bit."""
    return i64(pos) * 8 - i64(left & u64(63))


@scalar
def _missing(bits, count):
    """Return the ``count`` bits after those of a look-up, 0 to 14, as a number."""
    return i64(bits << u64(BITS) >> u64(1) >> u64(63 - count))  # in two steps: a shift by 64 is undefined


@scalar
def dc_step(clean, bits, left, pos, table):
    """Decode the first symbol of a block; return the DC difference, or ``BAD``."""
    bits, left, pos = refilled(clean, bits, left, pos)
    entry = table.pairs[up(bits >> u64(64 - BITS))]
    if unlikely(entry == 0):
        entry = _long_symbol(bits, table, _DC)
        if entry == -1:
            return bits, left, pos, i64(BAD)
        used = u64(entry & 63)
        bits, left, pos = refilled(clean, bits << used, left - used, pos)
        entry &= ~255  # no more bits to take
    used = u64(entry & 63)
    value = (entry >> 16) + _missing(bits, (entry >> 8) & 15)
    return bits << used, left - used, pos, value


def _make_ac_step(stored, refills):
    @scalar
    def ac_step(clean, bits, left, pos, k, table, out, zigzag):
        """Decode up to two symbols of a block after position ``k``; return the last one's position."""
        pair = table.pairs[up(bits >> u64(64 - BITS))]
        if unlikely(pair == 0):
            entry = _long_symbol(bits, table, _AC)
            if entry == -1:
                return bits, left, pos, up(BAD)
            # As a pair of one symbol: times 257 is its advance twice.
            value = (entry >> 16) & 0xFFFF
            pair = entry & 63 | (entry >> 8 & 255) * 257 << 8 | value << 32 | value << 48
        rest = _missing(bits, (pair >> 28) & 15)
        bits <<= u64(pair & 63)  # the mask tells LLVM that the shift is in range
        left -= u64(pair)
        first = k + up((pair >> 8) & 255)
        k += up((pair >> 16) & 255)
        if refills:
            bits, left, pos = refilled(clean, bits, left, pos)  # early: the load is under way during the stores
        if stored:
            # Without branches: a single symbol is stored twice, an end of block as a zero at position 63 (ZIGZAG).
            out[up(zigzag[first])] = pair >> 32
            out[up(zigzag[k])] = (pair >> 48) + rest
        if k >= up(LAST) and unlikely(first == up(LAST) and k != first):
            # No end of block follows coefficient 63: the second symbol belongs to the next block, so rewind its bits.
            k = first
            second = (pair & 255) - ((pair >> 24) & 15)
            bits, left, pos = stream_at(clean, position_of(left, pos) - second)
            if stored:
                out[up(LAST)] = pair >> 32
        return bits, left, pos, k

    return ac_step


_store_steps = _make_ac_step(True, True), _make_ac_step(True, False)
_skip_steps = _make_ac_step(False, True), _make_ac_step(False, False)


@scalar
def _error(k):
    """Return the error of a block that ends at a position, or ``DONE``."""
    # A block ends with its last coefficient, or with an end of block at a position before that.
    if k == up(LAST) or (up(END_OF_BLOCK) <= k and k < up(END_OF_BLOCK + LAST)):
        return i64(DONE)
    return i64(BAD_CODE) if k == up(BAD) else i64(OVERRUN)


@scalar
def limit_of(stream):
    """Return the last clean byte at which a block may begin."""
    # Cleaning drops fill bytes, so that a stream may continue with fewer clean bytes than a block takes.
    return up(stream.length + 8 if stream.ended else max(stream.length - _BLOCK, 0))


def _make_decode_blocks(stored):
    refilling_step, step = _store_steps if stored else _skip_steps

    @loop
    def decode_blocks(stream, first, n, mcu, tables, coefficients, lasts, zigzag):
        """Decode blocks ``first`` to ``n`` of some MCUs, up to the last clean byte; return the next block, or -error.

        ``lasts`` is filled with the position of each block's last coefficient, 0 to 63.
        """
        clean = stream.clean
        bits, left, pos = stream_at(clean, stream.bit)
        limit = limit_of(stream)
        per = mcu.blocks
        j = first % per
        b = first
        error = i64(DONE)
        while b < n and pos <= limit:
            component, dc, ac = mcu.component[up(j)], tables[up(mcu.dc_table[up(j)])], tables[up(mcu.ac_table[up(j)])]
            j += 1
            if j == per:
                j = 0
            out = coefficients[64 * b : 64 * b + 64]
            bits, left, pos, difference = dc_step(clean, bits, left, pos, dc)
            predictor = stream.predictors[up(component)] + difference
            stream.predictors[up(component)] = predictor
            if stored:
                out[up(0)] = predictor
            k = up(0)
            while True:  # two look-ups at a time, with one refill
                bits, left, pos, k = refilling_step(clean, bits, left, pos, k, ac, out, zigzag)
                if k >= up(LAST):
                    break
                bits, left, pos, k = step(clean, bits, left, pos, k, ac, out, zigzag)
                if k >= up(LAST):
                    break
            error = _error(up(BAD) if difference == BAD else k)
            if unlikely(error != DONE):
                break
            if stored:
                # END_OF_BLOCK is a multiple of 64: the remainder is the position of the last coefficient.
                lasts[up(b)] = k & up(LAST)
            b += 1
        stream.bit = position_of(left, pos)
        return i64(-error) if error != DONE else i64(b)

    return decode_blocks


_store_blocks = _make_decode_blocks(True)
_skip_blocks = _make_decode_blocks(False)


@loop
def decode_mcus(data, n, interval, reader, coefficients, lasts, stored):
    """Decode, or skip, the next MCUs; return ``DONE`` or an error.

    ``reader`` has the arguments that do not change between calls: stream, blocks of an MCU, tables, zigzag.
    """
    stream, mcu, tables, zigzag = reader
    per = mcu.blocks
    done = 0
    while done < n:  # up to the next restart marker at a time
        if stream.left == 0 and not restart(data, interval, stream):
            return BAD_RESTART
        if stream.skips and not stored and n - done >= stream.left:
            done += stream.left
            _pass_interval(data, stream)
            continue
        blocks = min(n - done, stream.left) * per
        b = i64(0)
        while b < blocks:
            if stored:
                out, ends = coefficients[64 * done * per :], lasts[done * per :]
                b = _store_blocks(stream, b, blocks, mcu, tables, out, ends, zigzag)
            else:
                b = _skip_blocks(stream, b, blocks, mcu, tables, coefficients, lasts, zigzag)
            # The zeros past the end decode to some symbols: bits beyond the last byte are detected here.
            overshot = stream.ended != 0 and stream.bit > 8 * stream.length
            if overshot or (0 <= b < blocks and stream.ended != 0):
                return ENDS
            if b < 0:
                return -b
            if b < blocks:
                fill(data, stream)
        done += blocks // per
        stream.left -= blocks // per
    return DONE
