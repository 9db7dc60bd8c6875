"""Huffman decoding of JPEG segments on a GPU, one thread per segment.

:mod:`gpuimg.kernels.jpeg.upload` defines the input's layout. Segments may be damaged: whatever
they contain, no access is outside the uploaded words, or outside the blocks that the host has reserved. A segment that
does not end as expected is reported.
"""

from numba import cuda, types

from ..jpeg.formulas import short
from ..jpeg.layout import BITS, LONGEST
from ..jpeg.tables import END_OF_BLOCK
from ..jpeg.upload import GROUP_WORDS, IN_GROUP, IN_SEGMENT, IN_SET, SEGMENT_WORDS, SET_WORDS, SLOTS, THREADS
from ..scalar import i32, scalar, u32, u64, up, word
from .jpeg_codes import AC, LAST, entry_of, following, refilled, stream_at, tables_loader, value_of

_FAST = SLOTS << BITS  # entries of all look-up tables


@scalar
def full_entry(entry, table):
    """Return an entry of the look-up tables."""
    return entry


_load_tables = tables_loader(BITS, THREADS, full_entry)


def huffman(words, groups, coefficients, status):
    """Decode the coefficients of segments, in the order of the file; they must be zero before (kernel function).

    ``groups`` is the word offset of the launch's thread blocks. ``status`` is set to 1 for each image with a segment
    that differs from its description.
    """
    fast = cuda.shared.array(_FAST, types.int32)
    codes = cuda.shared.array(SET_WORDS, types.int32)
    thread = i32(cuda.threadIdx.x)
    group = i32(groups + GROUP_WORDS * i32(cuda.blockIdx.x))
    _load_tables(words, word(words, group, IN_GROUP.set), codes, fast)
    if thread >= word(words, group, IN_GROUP.count):
        return
    segment = i32(word(words, group, IN_GROUP.first) + thread * SEGMENT_WORDS)
    if not decode_segment(words, segment, codes, fast, coefficients):  # atomic: several segments of an image may report
        cuda.atomic.max(status, up(word(words, segment, IN_SEGMENT.image)), i32(1))


@scalar
def decode_segment(words, segment, codes, fast, coefficients):
    """Decode the coefficients of a segment; return whether it is as described."""
    begin = word(words, segment, IN_SEGMENT.word)
    shift = word(words, segment, IN_SEGMENT.shift)
    end = word(words, segment, IN_SEGMENT.end)
    first = i32(word(words, segment, IN_SEGMENT.block) << 6)
    stop = i32(first + i32(word(words, segment, IN_SEGMENT.blocks) << 6))
    out = i32(first - i32(word(words, segment, IN_SEGMENT.skip) << 6))
    both = word(words, segment, IN_SEGMENT.before)
    p0, p1, p2 = short(both), i32(both >> 16), short(word(words, segment, IN_SEGMENT.between))
    bits, left, ahead, at = stream_at(words, begin, shift)
    limit = i32(at + 1 + (end >> 5))  # reached only by reading more bits than exist
    states = codes[IN_SET.states]
    state = word(words, segment, IN_SEGMENT.state)
    here = codes[up(IN_SET.state + state)]
    k = i32(0)
    bad = i32(0)
    while out < stop:
        top = u32(bits >> u64(32))
        table = i32(here & 7)
        entry = fast[up(u32(u32(table) << u32(BITS)) | u32(top >> u32(32 - BITS)))]
        if entry <= 0:
            if entry == 0:
                entry = entry_of(codes, table, top, i32(BITS + 1), LONGEST)
            if entry <= 0:
                bad = i32(1)
                break
        value = value_of(u32(top << u32((entry >> 16) & 31)), u32(u32(entry) >> u32(24)))
        used = i32(entry & 63)
        bits = u64(bits << u64(used))
        left = i32(left - used)
        if left < 32:
            if at > limit:
                bad = i32(1)
                break
            bits, left, ahead, at = refilled(words, bits, left, ahead, at)
        k = i32(k + i32((entry >> 8) & 255))
        if table < AC:
            component = i32(here >> 3)
            p0 = i32(p0 + (value if component == 0 else i32(0)))
            p1 = i32(p1 + (value if component == 1 else i32(0)))
            p2 = i32(p2 + (value if component == 2 else i32(0)))
            value = p0 if component == 0 else p1 if component == 1 else p2
        if k <= LAST:
            if value != 0 and out >= first:
                coefficients[up(out + k)] = value
        elif k < END_OF_BLOCK:  # past the last coefficient
            bad = i32(1)
        done, state, here, k = following(codes, states, state, k)
        out = i32(out + i32(done << 6))
    read = i32(i32(i32(at - begin) << 5) - 32 - left)
    slack = word(words, segment, IN_SEGMENT.slack)
    if read > end or read < end - slack:
        bad = i32(1)
    both = word(words, segment, IN_SEGMENT.after)
    if slack == 0 and (
        p0 != i32(word(words, segment, IN_SEGMENT.between) >> 16) or p1 != short(both) or p2 != i32(both >> 16)
    ):
        bad = i32(1)
    return bad == 0
