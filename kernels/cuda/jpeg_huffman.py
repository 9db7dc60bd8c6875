"""Huffman decoding of JPEG segments on a GPU, one thread per segment.

:mod:`gpuimg.kernels.jpeg.upload` defines the input's layout. Segments may be damaged, and index entries wrong: whatever
they contain, no access is outside the uploaded words, or outside the blocks that the host has reserved. A segment that
does not end as expected is reported.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, types

from ..jpeg.formulas import short
from ..jpeg.layout import BITS, LONGEST
from ..jpeg.tables import CATEGORY, END_OF_BLOCK
from ..jpeg.upload import (
    AFTER,
    BEFORE,
    BETWEEN,
    BLOCK,
    CODE_WORDS,
    CODES,
    END,
    GROUP_COUNT,
    GROUP_FIRST,
    GROUP_SET,
    GROUP_WORDS,
    LIMITS,
    SEGMENT_BLOCKS,
    SEGMENT_IMAGE,
    SEGMENT_WORD,
    SEGMENT_WORDS,
    SET_WORDS,
    SHIFT,
    SLACK,
    SLOTS,
    STARTS,
    STATE,
    STATES,
    SYMBOLS,
    THREADS,
    USED,
)
from ..scalar import i32, scalar, up, word
from .sample import u32

u64 = np.uint64

_LAST = 63  # index of a block's last coefficient
_AC = SLOTS // 2  # tables from this one on are for AC coefficients
_FAST = SLOTS << BITS  # entries of all look-up tables


@scalar
def _swapped(x):
    """Return a 32-bit word with its bytes reversed: the first byte in memory becomes the highest."""
    x = u32(x)
    return u32(
        u32(x << u32(24))
        | u32(u32(x & u32(0xFF00)) << u32(8))
        | u32(u32(x >> u32(8)) & u32(0xFF00))
        | u32(x >> u32(24))
    )


@scalar
def _entry(codes, table, bits, length, longest):
    """Return the table entry for the code at the top of ``bits``, of ``length`` to ``longest`` bits.

    0 if no code matches, -1 for a code that no valid file has. Layout of an entry: bits of code and value in 0-7, the
    advance of the coefficient index in 8-15, bits of the code in 16-23, bits of the value in 24-31.
    """
    at = i32(CODES + table * CODE_WORDS - 1)
    code = i32(bits >> u32(32 - length))
    while length <= longest and code >= codes[up(at + LIMITS + length)]:
        length = i32(length + 1)
        code = i32(bits >> u32(32 - length))
    if length > longest:
        return i32(0)
    number = i32(code + codes[up(at + STARTS + length)])
    symbol = i32(codes[up(at + 1 + SYMBOLS + (number >> 2))] >> i32(8 * (number & 3))) & i32(255)
    size = i32(symbol & 15)
    advance = i32(0)
    if table >= _AC:
        if size > CATEGORY:
            return i32(-1)
        run = i32(symbol >> 4)
        advance = i32(END_OF_BLOCK if size == 0 and run < 15 else run + 1)
    return i32(i32(length + size) | i32(advance << 8) | i32(length << 16) | i32(size << 24))


@scalar
def _value(bits, size):
    """Return the coefficient that the top ``size`` bits encode."""
    low = u32(u32(bits >> u32(1)) >> u32(31 - size))
    less = i32(u32(u32(u32(0xFFFFFFFF) << u32(size)) + u32(1)))
    return i32(i32(low) + i32(i32(~(i32(bits) >> 31)) & less))


def huffman(words, groups, coefficients, status):
    """Decode the coefficients of segments, in the order of the file; they must be zero before (kernel function).

    ``groups`` is the word offset of the launch's thread blocks. ``status`` is set to 1 for each image with a segment
    that differs from its description.
    """
    fast = cuda.shared.array(_FAST, types.int32)
    codes = cuda.shared.array(SET_WORDS, types.int32)
    thread = i32(cuda.threadIdx.x)
    group = i32(groups + GROUP_WORDS * i32(cuda.blockIdx.x))
    first = word(words, group, GROUP_SET)
    k = thread
    while k < SET_WORDS:
        codes[up(k)] = word(words, first, k)
        k = i32(k + THREADS)
    cuda.syncthreads()
    k = thread
    while k < _FAST:
        table = i32(k >> BITS)
        if (codes[USED] >> table) & 1:
            fast[up(k)] = _entry(codes, table, u32(u32(k) << u32(32 - BITS)), i32(1), BITS)
        k = i32(k + THREADS)
    cuda.syncthreads()
    if thread >= word(words, group, GROUP_COUNT):
        return
    segment = i32(word(words, group, GROUP_FIRST) + thread * SEGMENT_WORDS)
    begin = word(words, segment, SEGMENT_WORD)
    shift = word(words, segment, SHIFT)
    end = word(words, segment, END)
    out = i32(word(words, segment, BLOCK) << 6)
    stop = i32(out + i32(word(words, segment, SEGMENT_BLOCKS) << 6))
    both = word(words, segment, BEFORE)
    p0, p1, p2 = short(both), i32(both >> 16), short(word(words, segment, BETWEEN))
    # The bits read ahead, first bit on top; their number; the next word; and the offset of the word after that.
    bits = u64(u64(_swapped(word(words, begin, 0))) << u64(32) | u64(_swapped(word(words, begin, 1)))) << u64(shift)
    left = i32(64 - shift)
    ahead = _swapped(word(words, begin, 2))
    at = i32(begin + 3)
    limit = i32(at + 1 + (end >> 5))  # reached only by reading more bits than exist
    states = codes[STATES]
    state = i32(0)
    here = codes[STATE]
    k = i32(0)
    bad = i32(0)
    while out < stop:
        top = u32(bits >> u64(32))
        table = i32(here & 7)
        entry = fast[up(u32(u32(table) << u32(BITS)) | u32(top >> u32(32 - BITS)))]
        if entry <= 0:
            if entry == 0:
                entry = _entry(codes, table, top, i32(BITS + 1), LONGEST)
            if entry <= 0:
                bad = i32(1)
                break
        value = _value(u32(top << u32((entry >> 16) & 31)), u32(u32(entry) >> u32(24)))
        used = i32(entry & 63)
        bits = u64(bits << u64(used))
        left = i32(left - used)
        if left < 32:
            if at > limit:
                bad = i32(1)
                break
            bits |= u64(u64(ahead) << u64(32 - left))
            left = i32(left + 32)
            ahead = _swapped(word(words, at, 0))
            at = i32(at + 1)
        k = i32(k + i32((entry >> 8) & 255))
        if table < _AC:
            component = i32(here >> 3)
            p0 = i32(p0 + (value if component == 0 else i32(0)))
            p1 = i32(p1 + (value if component == 1 else i32(0)))
            p2 = i32(p2 + (value if component == 2 else i32(0)))
            value = p0 if component == 0 else p1 if component == 1 else p2
        if k <= _LAST:
            if value != 0:
                coefficients[up(out + k)] = value
        elif k < END_OF_BLOCK:  # past the last coefficient
            bad = i32(1)
        # Each block has two states, for its DC and AC tables: go to the next block's first, or this block's second.
        done = i32(1) if k >= _LAST else i32(0)
        out = i32(out + i32(done << 6))
        state = i32(state + i32(done << 1))
        state = state if state < states else i32(0)
        here = codes[up(STATE + state + 1 - done)]
        k = i32(0) if done else k
    read = i32(i32(i32(at - begin) << 5) - 32 - left)
    slack = word(words, segment, SLACK)
    if read > end or read < end - slack:
        bad = i32(1)
    both = word(words, segment, AFTER)
    if slack == 0 and (p0 != i32(word(words, segment, BETWEEN) >> 16) or p1 != short(both) or p2 != i32(both >> 16)):
        bad = i32(1)
    if bad:  # atomic: several segments of an image may report
        cuda.atomic.max(status, up(word(words, segment, SEGMENT_IMAGE)), i32(1))
