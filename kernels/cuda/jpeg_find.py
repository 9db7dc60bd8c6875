"""Search for segments in JPEG data without known starts, by self-synchronizing Huffman decoding on a GPU.

A scan is divided into parts of equal size, a thread for each. Every thread decodes its part as if a block began there;
then again from the state in which the thread before it ended, until no state changes. Decoders that begin at a wrong
bit soon agree with the right one, so that this takes few rounds in photos. In periodic data it may take as many rounds
as there are parts: a search that needs more than ``MOST_ROUNDS`` reports its image, which the CPU then decodes.

Every record is derived from states that follow from the first bit of the scan. The kernel that decodes the segments
checks that a segment ends where the next one begins, and the predictors there.

References: Weissenberger and Schmidt, Accelerating JPEG Decompression on GPUs (2021).
"""

from numba import cuda, types

from ..jpeg.layout import LONGEST
from ..jpeg.tables import END_OF_BLOCK
from ..jpeg.upload import (
    IN_SCAN,
    IN_SEGMENT,
    IN_SET,
    MOST_ROUNDS,
    PARTS,
    SCAN_WORDS,
    SEGMENT_WORDS,
    SET_WORDS,
    SLOTS,
    UNSYNCHRONIZED,
)
from ..scalar import i32, scalar, u32, u64, up, word
from .jpeg_codes import AC, LAST, entry_of, following, refilled, stream_at, tables_loader, value_of

LOOKED_UP = 9  # bits that are looked up at once, in a quarter of the memory of the other kernel's tables
_FAST = SLOTS << LOOKED_UP
_PAST = 64  # advance that leads past the last coefficient of any block, without being its end
_BAD = 16 | _PAST << 8  # entry of bits that are not a code
_WRONG = 16  # bit of a number of blocks where the number up to a wrong symbol is kept
NONE = i32(-1)
_OWN = PARTS - 1  # parts at a time that become segments; the last thread's part shows where the one before it ends
_WARPS = PARTS // 32
_SUMS = 4 * _WARPS  # of each warp: of blocks, and of the predictors of three components
_K_BITS = 6  # of a state's coefficient index; the place in the MCU is above
_ALL = 0xFFFFFFFF


@scalar
def short_entry(entry, table):
    """Return the bits of code and value, and above 8 bits the advance (AC) or the bits of the value (DC); 0 for 0."""
    if entry <= 0:
        return i32(0) if entry == 0 else i32(_BAD)
    return i32((entry & i32(255)) | ((entry & i32(0xFF00)) if table >= AC else i32(entry >> 24) << 8))


_load_tables = tables_loader(LOOKED_UP, PARTS, short_entry)


@scalar
def decode_part(words, codes, fast, begin, bit, state, stop):
    """Decode symbols from a bit and a state of the decoder on, until one ends at ``stop`` or after it.

    Return, of the blocks that begin there, their number, the bit of the first one and its state, and the sums of the DC
    differences of three components; then the bit and the state after the last symbol. Above 16 bits the first number
    has 0, or 1 more than the number of blocks up to the first symbol that no valid file has there.
    """
    blocks, first_bit, first_state = i32(0), NONE, i32(0)
    d0, d1, d2 = i32(0), i32(0), i32(0)
    bits, left, ahead, at = stream_at(words, i32(begin + (bit >> 5)), bit & i32(31))
    states = codes[IN_SET.states]
    here = codes[up(IN_SET.state + (state >> _K_BITS))]
    k = state & i32((1 << _K_BITS) - 1)
    state = i32(state >> _K_BITS) & ~i32(1)
    while bit < stop:
        top = u32(bits >> u64(32))
        table = i32(here & 7)
        entry = i32(fast[up(u32(u32(table) << u32(LOOKED_UP)) | u32(top >> u32(32 - LOOKED_UP)))])
        if entry == 0:
            entry = short_entry(entry_of(codes, table, top, i32(LOOKED_UP + 1), LONGEST), table)
            if entry == 0:
                entry = i32(_BAD)
        used = i32(entry & 255)
        advance = i32(entry >> 8)
        if table < AC:
            if first_bit == NONE:
                first_bit, first_state = bit, state
            blocks = i32(blocks + 1)
            size = i32(advance & 31)
            value = value_of(u32(top << u32(used - size)), u32(size))
            component = i32(here >> 3)
            d0 = i32(d0 + (value if component == 0 else i32(0)))
            d1 = i32(d1 + (value if component == 1 else i32(0)))
            d2 = i32(d2 + (value if component == 2 else i32(0)))
            advance = i32(advance & i32(_PAST))
        bits = u64(bits << u64(used))
        left = i32(left - used)
        if left < 32:
            bits, left, ahead, at = refilled(words, bits, left, ahead, at)
        bit = i32(bit + used)
        k = i32(k + advance)
        if LAST < k < END_OF_BLOCK and blocks < i32(1 << _WRONG):
            blocks = i32(blocks + i32(i32(blocks + 1) << _WRONG))
        _, state, here, k = following(codes, states, state, k)
    state = i32(state + (i32(1) if (here & 7) >= AC else i32(0)))
    return blocks, first_bit, first_state, d0, d1, d2, bit, i32(i32(state << _K_BITS) | k)


@scalar
def summed(value, lane):
    """Return the sum of a warp's values up to this lane's."""
    for offset in (1, 2, 4, 8, 16):
        before = i32(cuda.shfl_up_sync(_ALL, value, offset))
        value = i32(value + (before if lane >= offset else i32(0)))
    return value


@scalar
def packed(low, high):
    """Return the lower 16 bits of two numbers in one."""
    return i32(u32(u32(low) & u32(0xFFFF)) | u32(u32(high) << u32(16)))


@scalar
def set_segment(words, at, begin, bit, end, slack, state, skip, block, blocks, image, before, between, after):
    """Write a segment from ``bit`` to ``end``, both counted from the word ``begin``."""
    words[up(at + IN_SEGMENT.word)] = i32(begin + (bit >> 5))
    words[up(at + IN_SEGMENT.shift)] = bit & i32(31)
    words[up(at + IN_SEGMENT.end)] = i32(end - (bit & ~i32(31)))
    words[up(at + IN_SEGMENT.slack)] = slack
    words[up(at + IN_SEGMENT.state)] = state
    words[up(at + IN_SEGMENT.skip)] = skip
    words[up(at + IN_SEGMENT.block)] = block
    words[up(at + IN_SEGMENT.blocks)] = blocks
    words[up(at + IN_SEGMENT.image)] = image
    words[up(at + IN_SEGMENT.before)] = before
    words[up(at + IN_SEGMENT.between)] = between
    words[up(at + IN_SEGMENT.after)] = after


@scalar
def _clear_segments(words, scan, thread):
    """Write segments without blocks, which remain where nothing is found."""
    begin, found = word(words, scan, IN_SCAN.word), word(words, scan, IN_SCAN.found)
    count, block = word(words, scan, IN_SCAN.count), word(words, scan, IN_SCAN.block)
    image = word(words, scan, IN_SCAN.image)
    none = i32(0)
    while thread < count:
        at = i32(found + thread * SEGMENT_WORDS)
        set_segment(words, at, begin, none, none, none, none, none, block, none, image, none, none, none)
        thread = i32(thread + PARTS)


def find(words, scans, status):
    """Find where the blocks of each part of a scan begin, and write the segments (kernel function).

    ``scans`` is the word offset of the launch's scans, one for each block of threads. ``status`` is set to
    ``UNSYNCHRONIZED`` for images whose parts take too many rounds, or have too few blocks, and to 1 for those with a
    wrong code before the end of the window.
    """
    fast = cuda.shared.array(_FAST, types.uint16)
    codes = cuda.shared.array(SET_WORDS, types.int32)
    end_bits = cuda.shared.array(PARTS, types.int32)  # of each part: the first bit after its symbols,
    end_states = cuda.shared.array(PARTS, types.int32)  # and the state there
    firsts = cuda.shared.array(PARTS, types.int32)  # of each part: the bit where its first block begins, or NONE
    sums = cuda.shared.array(_SUMS, types.int32)
    thread = i32(cuda.threadIdx.x)
    scan = i32(scans + SCAN_WORDS * i32(cuda.blockIdx.x))
    if word(words, scan, IN_SCAN.each):  # a recoded file
        return
    _load_tables(words, word(words, scan, IN_SCAN.set), codes, fast)
    begin = word(words, scan, IN_SCAN.word)
    end = word(words, scan, IN_SCAN.end)
    span = word(words, scan, IN_SCAN.span)
    wanted = i32(word(words, scan, IN_SCAN.skip) + word(words, scan, IN_SCAN.blocks))  # blocks up to the window's end
    _clear_segments(words, scan, thread)
    # Of all parts before the current ones.
    last_bit, last_state = i32(0), i32(0)
    begun, q0, q1, q2 = i32(0), i32(0), i32(0), i32(0)
    unsynchronized = i32(0)
    part = thread  # this thread's
    base = i32(0)  # the first thread's
    while i32(base * span) < end and begun < wanted:
        start_bit, start_state = i32(part * span), i32(0)
        if thread == 0:
            start_bit, start_state = last_bit, last_state
        stop = min(i32(i32(part * span) + span), end)
        # Of the blocks that begin in the part: their number, where the first one begins, and sums of DC differences.
        blocks, first_bit, first_state = i32(0), NONE, i32(0)
        d0, d1, d2 = i32(0), i32(0), i32(0)
        end_bits[up(thread)], end_states[up(thread)] = start_bit, start_state
        decodes = start_bit < stop
        rounds = i32(0)
        while True:
            if decodes:
                blocks, first_bit, first_state, d0, d1, d2, bit, state = decode_part(
                    words, codes, fast, begin, start_bit, start_state, stop
                )
                end_bits[up(thread)], end_states[up(thread)] = bit, state
            cuda.syncthreads()
            decodes = False
            if thread > 0 and i32(part * span) < end:
                bit, state = end_bits[up(thread - 1)], end_states[up(thread - 1)]
                decodes = bit != start_bit or state != start_state
                start_bit, start_state = bit, state
            if not cuda.syncthreads_or(i32(decodes)):
                break
            rounds = i32(rounds + 1)
            if rounds > MOST_ROUNDS:
                unsynchronized = i32(1)
                break
        if unsynchronized:
            break
        # The states are right now: sum up what was counted, and write the segments.
        firsts[up(thread)] = first_bit
        last_bit, last_state = end_bits[_OWN - 1], end_states[_OWN - 1]
        if thread == _OWN:
            blocks, d0, d1, d2 = i32(0), i32(0), i32(0), i32(0)
        wrong = i32(i32(blocks >> _WRONG) - 1)  # blocks of the part up to a wrong symbol, -1 without one
        blocks = blocks & i32((1 << _WRONG) - 1)
        lane, warp = thread & i32(31), i32(thread >> 5)
        n, s0, s1, s2 = summed(blocks, lane), summed(d0, lane), summed(d1, lane), summed(d2, lane)
        if lane == 31:
            sums[up(warp)] = n
            sums[up(_WARPS + warp)] = s0
            sums[up(2 * _WARPS + warp)] = s1
            sums[up(3 * _WARPS + warp)] = s2
        cuda.syncthreads()
        other = i32(0)
        n, s0, s1, s2 = i32(begun + n), i32(q0 + s0), i32(q1 + s1), i32(q2 + s2)
        while other < _WARPS:
            t, t0 = sums[up(other)], sums[up(_WARPS + other)]
            t1, t2 = sums[up(2 * _WARPS + other)], sums[up(3 * _WARPS + other)]
            if other < warp:
                n, s0, s1, s2 = i32(n + t), i32(s0 + t0), i32(s1 + t1), i32(s2 + t2)
            begun, q0, q1, q2 = i32(begun + t), i32(q0 + t0), i32(q1 + t1), i32(q2 + t2)
            other = i32(other + 1)
        # Read here, and not before: the threads have no registers for these during the search.
        skip, count = word(words, scan, IN_SCAN.skip), word(words, scan, IN_SCAN.count)
        found, block = word(words, scan, IN_SCAN.found), word(words, scan, IN_SCAN.block)
        image = word(words, scan, IN_SCAN.image)
        low, high = max(i32(n - blocks), skip), min(n, wanted)
        if wrong >= 0 and i32(n + wrong) <= i32(wanted + blocks):  # before the window no other kernel would report it
            cuda.atomic.max(status, up(image), i32(1))
        if low < high and part < count:
            other = i32(thread + 1)
            while other < PARTS and firsts[up(other)] == NONE:
                other = i32(other + 1)
            # Without a next block, or where the window ends before it, the segment may end anywhere in the data.
            follows = other < PARTS
            stop = firsts[up(other)] if follows else end
            slack = i32(0) if follows and high == n else end
            p0, p1, p2 = i32(s0 - d0), i32(s1 - d1), i32(s2 - d2)
            set_segment(
                words, i32(found + part * SEGMENT_WORDS), begin, first_bit, stop, slack, first_state,
                i32(low - i32(n - blocks)), i32(block + i32(low - skip)), i32(high - low), image, packed(p0, p1),
                packed(p2, s0), packed(s1, s2),
            )  # fmt: skip
        base = i32(base + _OWN)
        part = i32(part + _OWN)
    if thread == 0 and (unsynchronized or begun < wanted):
        cuda.atomic.max(status, up(word(words, scan, IN_SCAN.image)), i32(UNSYNCHRONIZED))
