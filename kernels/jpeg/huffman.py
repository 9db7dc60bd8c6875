"""Huffman decoding: a file's bytes without stuffing, and blocks of coefficients.

A stream is decoded in pieces, from any bit with any predictors, so that whole
images, restart intervals and parts that an index points to are one and the same.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..scalar import loop, scalar
from .layout import BAD_CODE, BAD_RESTART, DONE, ENDS, OVERRUN, TABLES
from .tables import (
    BITS,
    CATEGORY,
    CODES,
    DEFINITION,
    END_OF_BLOCK,
    ENTRIES,
    LAST,
    LIMITS,
    LONGEST,
    PAIRS,
    STARTS,
    single,
)
from .vectors import MASKED, copy_masked, count_bits, load_big, mask_of, trailing_zeros, unlikely

up, u64, i64, u32 = np.uintp, np.uint64, np.int64, np.uint32

# Words of a stream's state.
BIT: Final = 0  # of the clean bytes
LENGTH: Final = 1  # of the clean bytes
RAW: Final = 2  # the file's next byte
ENDED: Final = 3  # whether a marker or the end of the file comes next
LEFT: Final = 4  # MCUs until the next restart marker
MARKER: Final = 5  # its number
UNTIL: Final = 6  # byte of the file up to which bytes are wanted; more are cleaned where they are asked for
PLACE: Final = 7  # a clean byte, and the file's byte that it is
PLACE_RAW: Final = 8
SKIPS: Final = 9  # whether restart intervals that are not wanted are passed over without being decoded
PREDICTORS: Final = 10  # 3 words
STATE_WORDS: Final = 13

_CLEAN = 1 << 14  # bytes that are cleaned at a time: half of a first-level cache
_BLOCK = 264  # bytes of the longest block and a load behind it: 64 symbols of 31 bits
CLEAN_BYTES: Final = _CLEAN + 2 * _BLOCK
_AHEAD = 8 * _BLOCK  # bytes that are cleaned at least, whatever is wanted
READ_AHEAD: Final = 3 * _BLOCK  # bytes behind the last block that it takes to decode it without looking at each byte
NEVER: Final = 1 << 62


@loop
def begin(data, at, interval, clean, state):
    """Begin a segment at a byte of the file, with predictors of zero."""
    state[BIT] = 0
    state[LENGTH] = 0
    state[RAW] = at
    state[ENDED] = 0
    state[LEFT] = interval if interval else NEVER
    state[UNTIL] = NEVER
    state[PLACE] = 0
    state[PLACE_RAW] = at
    for c in range(3):
        state[PREDICTORS + c] = 0
    fill(data, clean, state)


@loop
def jump(data, bit, until, clean, state):
    """Go to a bit of the file, for bytes up to one; the predictors there are the caller's to set."""
    state[BIT] = bit & 7
    state[LENGTH] = 0
    state[RAW] = bit >> 3
    state[ENDED] = 0
    state[UNTIL] = until
    state[PLACE] = 0
    state[PLACE_RAW] = bit >> 3
    fill(data, clean, state)


@loop
def place(clean, state):
    """The bit of the file that comes next."""
    _move_place(clean, state, min(state[BIT] >> 3, state[LENGTH]))
    return 8 * state[PLACE_RAW] + (state[BIT] & 7)


@loop
def _move_place(clean, state, to):
    """Find where in the file a clean byte lies, behind the one known last: a zero is left out behind each 0xFF."""
    stuffed = i64(0)
    at = state[PLACE]
    while at + MASKED <= to:
        stuffed += i64(count_bits(mask_of(clean, up(at))))
        at += MASKED
    for k in range(at, to):
        stuffed += clean[k] == 0xFF
    state[PLACE_RAW] += to - state[PLACE] + stuffed
    state[PLACE] = to


@loop
def fill(data, clean, state):
    """Move what is left to the front, and put more of the file behind it, without the zeros after 0xFF."""
    start = min(state[BIT] >> 3, state[LENGTH])
    _move_place(clean, state, start)
    state[PLACE] = 0
    at = state[LENGTH] - start
    for k in range(at):
        clean[k] = clean[start + k]
    state[BIT] -= 8 * start
    raw = state[RAW]
    until = max(state[UNTIL], raw + _AHEAD)
    while at < _CLEAN - MASKED and raw < until:
        if raw + MASKED <= data.size:
            mask = copy_masked(data, up(raw), clean, up(at))
            step = MASKED if mask == u32(0) else i64(trailing_zeros(mask))
            raw += step
            at += step
            if step == MASKED:
                continue
        if raw >= data.size:
            state[ENDED] = 1
            break
        byte = data[raw]
        raw += 1
        if byte == 0xFF:
            if raw < data.size and data[raw] == 0xFF:  # fill byte
                continue
            # No zero may stand behind fill bytes; libjpeg-turbo gives pixels that nothing specifies.
            if raw >= data.size or data[raw] != 0 or data[raw - 2] == 0xFF:
                state[ENDED] = 1
                raw -= 1
                break
            raw += 1
        clean[at] = byte
        at += 1
    for k in range(at, at + 2 * _BLOCK):
        clean[k] = 0
    state[RAW] = raw
    state[LENGTH] = at


@loop
def _restart(data, interval, clean, state):
    """Go on behind the next restart marker, which must be there; gives whether it is."""
    if state[LENGTH] * 8 - state[BIT] >= 8:
        return False
    if not state[ENDED]:
        fill(data, clean, state)
    at = state[RAW]
    marker = state[MARKER]
    if state[LENGTH] * 8 - state[BIT] >= 8 or at + 2 > data.size or data[at + 1] != 0xD0 + marker:
        return False
    begin(data, at + 2, interval, clean, state)
    state[MARKER] = (marker + 1) & 7
    return True


@loop
def next_marker(data, at):
    """Where the next 0xFF stands that has no zero and no 0xFF behind it; the end of the file where there is none."""
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
    """Whether so many restart markers stand in a scan, in order, and then another one."""
    for k in range(count):
        at = next_marker(data, at)
        if at + 1 >= data.size or data[at + 1] != 0xD0 + (k & 7):
            return False
        at += 2
    at = next_marker(data, at)
    return at + 1 < data.size and data[at + 1] >> 3 != 0xD0 >> 3


@loop
def _pass_interval(data, state):
    """Go to the end of the restart interval."""
    if not state[ENDED]:
        state[RAW] = next_marker(data, state[RAW])
        state[ENDED] = 1
    state[BIT] = 0
    state[LENGTH] = 0
    state[LEFT] = 0


@loop
def _value(bits, size):
    """The coefficient that the top ``size`` bits stand for."""
    v = i64(bits >> u64(1) >> u64(63 - size))
    return v if i64(bits) < 0 or size == 0 else v - (i64(1) << i64(size)) + i64(1)


@loop
def _long_symbol(bits, tables, table):
    """The symbol on top of the bits, which the short tables do not have, as an entry of a single one; or -1."""
    is_ac = table >= TABLES // 2
    code = tables[CODES + table * ENTRIES + i64(bits >> u64(64 - BITS))]
    length, symbol = code >> 8, code & 255
    if code == 0:
        length = BITS + 1
        top = i64(bits >> u64(64 - LONGEST))
        row = table * (LONGEST + 1)
        while length <= LONGEST and top >> LONGEST - length >= tables[LIMITS + row + length]:
            length += 1
        if length > LONGEST:
            return i64(-1)
        index = (top >> LONGEST - length) + tables[STARTS + row + length]
        symbol = tables[table * DEFINITION + 17 + index]
    size = symbol & 15
    if is_ac and size > CATEGORY:
        return i64(-1)
    return single(length, symbol, _value(bits << u64(length), size), is_ac)


_BAD = 1 << 20  # what an invalid code advances by


@scalar
def _refilled(clean, bits, left, pos):
    """A stream with at least 56 bits on top."""
    bits |= load_big(clean, pos) >> left
    pos += up((u64(63) - left) >> u64(3))
    return bits, left | u64(56), pos


@scalar
def _opened(clean, bit):
    """The stream from a bit on: bits on top, how many are not missing, and the byte that comes next."""
    return load_big(clean, up(bit >> 3)) << u64(bit & 7), u64(56 - (bit & 7)), up(bit >> 3) + up(7)


@scalar
def _dc_step(clean, bits, left, pos, singles, tables, table):
    """The first symbol of a block; gives its difference, or ``_BAD``."""
    bits, left, pos = _refilled(clean, bits, left, pos)
    entry = singles[up(bits >> u64(64 - BITS))]
    if unlikely(entry == 0):
        entry = _long_symbol(bits, tables, table)
        if entry == -1:
            return bits, left, pos, i64(_BAD)
    used = u64(entry & 63)
    return bits << used, left - used, pos, entry >> 16


def _make_ac_step(stored):
    @scalar
    def ac_step(clean, bits, left, pos, k, pairs, tables, table, out, zigzag):
        """Up to two symbols of a block behind position ``k``; gives the last one's."""
        pair = pairs[up(bits >> u64(64 - BITS))]
        if unlikely(pair == 0):
            entry = _long_symbol(bits, tables, table)
            if entry == -1:
                return bits, left, pos, up(_BAD)
            value = (entry >> 16) & 0xFFFF
            pair = (entry & 255) * 257 | (entry >> 8 & 255) * 257 << 16 | value << 32 | value << 48
        bits <<= u64(pair & 63)
        left -= u64(pair & 63)
        first = k + up((pair >> 16) & 255)
        k += up((pair >> 24) & 255)
        bits, left, pos = _refilled(clean, bits, left, pos)
        if stored:
            out[up(zigzag[first])] = pair >> 32
            out[up(zigzag[k])] = pair >> 48
        if k >= up(LAST) and unlikely(first == up(LAST) and k != first):
            # No end of block is written behind the last coefficient: the second symbol is another block's.
            k = first
            bits, left, pos = _opened(clean, i64(pos) * 8 - i64(left) - ((pair & 63) - ((pair >> 8) & 63)))
            if stored:
                out[up(LAST)] = pair >> 32
        return bits, left, pos, k

    return ac_step


_store_step, _skip_step = _make_ac_step(True), _make_ac_step(False)


@scalar
def _error(k):
    """What is wrong where a block ends at a position, ``DONE`` for nothing."""
    if k == up(LAST) or (up(END_OF_BLOCK) <= k and k < up(END_OF_BLOCK + LAST)):
        return i64(DONE)
    return i64(BAD_CODE) if k == up(_BAD) else i64(OVERRUN)


@scalar
def _limit(state):
    """The last byte at which a block may be begun."""
    # Of fill bytes nothing is left: there may be fewer bytes than a block takes though the stream goes on.
    return up(state[LENGTH] + 8 if state[ENDED] else max(state[LENGTH] - _BLOCK, 0))


def _make_decode_blocks(stored):
    ac_step = _store_step if stored else _skip_step

    @loop
    def decode_blocks(clean, state, first, n, parts, tables, coefficients, lasts, zigzag):
        """Decode blocks ``first`` to ``n`` of some MCUs, as far as there are bytes; gives how far, or minus an error.

        ``parts`` are, for each block of an MCU, its component and where its tables begin.
        """
        bits, left, pos = _opened(clean, state[BIT])
        limit = _limit(state)
        per = parts[0]
        j = first % per
        b = first
        error = i64(DONE)
        while b < n and pos <= limit:
            part = parts[1 + 3 * j : 4 + 3 * j]
            j += 1
            if j == per:
                j = 0
            out = coefficients[64 * b : 64 * b + 64]
            dc = tables[PAIRS + part[1] * ENTRIES : PAIRS + (part[1] + 1) * ENTRIES]
            ac = tables[PAIRS + part[2] * ENTRIES : PAIRS + (part[2] + 1) * ENTRIES]
            bits, left, pos, difference = _dc_step(clean, bits, left, pos, dc, tables, part[1])
            predictor = state[PREDICTORS + part[0]] + difference
            state[PREDICTORS + part[0]] = predictor
            if stored:
                out[up(0)] = predictor
            k = up(0)
            while True:
                bits, left, pos, k = ac_step(clean, bits, left, pos, k, ac, tables, part[2], out, zigzag)
                if k >= up(LAST):
                    break
            error = _error(up(_BAD) if difference == _BAD else k)
            if unlikely(error != DONE):
                break
            if stored:
                lasts[up(b)] = k & up(LAST)
            b += 1
        state[BIT] = i64(pos) * 8 - i64(left)
        return i64(-error) if error != DONE else i64(b)

    return decode_blocks


_store_blocks = _make_decode_blocks(True)
_skip_blocks = _make_decode_blocks(False)


@loop
def decode_mcus(data, n, interval, stream, coefficients, lasts, stored):
    """Decode, or skip, the next MCUs; gives how it ended.

    ``stream`` is what stays the same from call to call: clean bytes, state, parts of an MCU, tables, zigzag.
    """
    clean, state, parts, tables, zigzag = stream
    per = parts[0]
    done = 0
    while done < n:
        if state[LEFT] == 0 and not _restart(data, interval, clean, state):
            return BAD_RESTART
        if state[SKIPS] and not stored and n - done >= state[LEFT]:
            done += state[LEFT]
            _pass_interval(data, state)
            continue
        blocks = min(n - done, state[LEFT]) * per
        b = i64(0)
        while b < blocks:
            if stored:
                out, ends = coefficients[64 * done * per :], lasts[done * per :]
                b = _store_blocks(clean, state, b, blocks, parts, tables, out, ends, zigzag)
            else:
                b = _skip_blocks(clean, state, b, blocks, parts, tables, coefficients, lasts, zigzag)
            overshot = state[ENDED] != 0 and state[BIT] > 8 * state[LENGTH]
            if overshot or (0 <= b < blocks and state[ENDED] != 0):
                return ENDS
            if b < 0:
                return -b
            if b < blocks:
                fill(data, clean, state)
        done += blocks // per
        state[LEFT] -= blocks // per
    return DONE
