"""JPEG on a GPU: Huffman codes of segments, a thread each; inverse DCT, eight threads a block; a thread a pixel.

What is read is laid out in :mod:`..jpeg.upload`. Pixels are those of the CPU's decoder, bit for bit.

Segments may be damaged, and entries of an index wrong: whatever is in them, nothing is read or written outside of the
words, and of the blocks and pixels that the host has set apart. A segment that does not end as it should is reported.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types

from ..jpeg.huffman import BITS, CATEGORY, END_OF_BLOCK, LONGEST
from ..jpeg.idct import EVEN2, EVEN3, FIRST, ODD0, ODD1, ODD2, ODD3, SCALE_BITS, SECOND, SUM3, SUM4
from ..jpeg.layout import GRAY, YCBCR
from ..jpeg.upload import (
    ACROSS,
    BEFORE,
    BEHIND,
    BETWEEN,
    BIASES,
    BLOCK,
    BLOCKS,
    BLOCKS_AT_ONCE,
    CODE_WORDS,
    CODES,
    COLOR,
    COLUMNS,
    DOWN,
    END,
    FIRST_BLOCK,
    GROUP_COUNT,
    GROUP_FIRST,
    GROUP_SET,
    GROUP_WORDS,
    HEIGHT,
    IMAGE,
    IMAGE_WORDS,
    LANES,
    LEFT,
    LIMITS,
    OUT,
    PER,
    PIXELS_AT_ONCE,
    PLACE_SHIFT,
    PLANE_WORDS,
    REGION,
    ROWS,
    SEGMENT_BLOCKS,
    SEGMENT_WORD,
    SEGMENT_WORDS,
    SET_WORDS,
    SHIFT,
    SLACK,
    SLOTS,
    STARTS,
    STATE,
    STATES,
    STEP_X,
    STEP_Y,
    STEPS,
    SYMBOLS,
    THREADS,
    TOP,
    USED,
    WIDTH,
)
from ..scalar import i32, scalar, up, word
from .sample import wide

u32, u64 = np.uint32, np.uint64

_LAST = 63
_AC = SLOTS // 2  # tables from here on are of AC coefficients
_FAST = SLOTS << BITS  # entries of tables

# 65536 times what chroma adds to red, green and blue.
_RED, _GREEN_B, _GREEN_R, _BLUE = i32(91881), i32(-22554), i32(-46802), i32(116130)
_HALF = i32(32768)


# -- Huffman codes -----------------------------------------------------------------------------------------------------


@scalar
def _short(x):
    """The lower 16 bits as a number."""
    return i32(i32(x << 16) >> 16)


@scalar
def _swapped(x):
    """A word with its first byte on top."""
    x = u32(x)
    return u32(
        u32(x << u32(24))
        | u32(u32(x & u32(0xFF00)) << u32(8))
        | u32(u32(x >> u32(8)) & u32(0xFF00))
        | u32(x >> u32(24))
    )


@scalar
def _entry(codes, table, bits, length, longest):
    """What the code of some lengths on top of the bits says; 0 where there is none, -1 for what no file has.

    Bits of code and value | what the position advances by << 8 | bits of the code << 16 | of the value << 24.
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
    """The coefficient that the top ``size`` bits stand for."""
    low = u32(u32(bits >> u32(1)) >> u32(31 - size))
    less = i32(u32(u32(u32(0xFFFFFFFF) << u32(size)) + u32(1)))
    return i32(i32(low) + i32(i32(~(i32(bits) >> 31)) & less))


def huffman(words, groups, coefficients, status):
    """Kernel function: coefficients of segments, in the order of the file; they must be zero before.

    ``groups`` is the word at which the launch's blocks of threads begin. ``status`` is set to 1 for each image of which
    a segment is not what it should be.
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
    p0, p1, p2 = _short(both), i32(both >> 16), _short(word(words, segment, BETWEEN))
    # The bits at hand, the first one on top; how many; the word behind them; and where the one behind that is.
    bits = u64(u64(_swapped(word(words, begin, 0))) << u64(32) | u64(_swapped(word(words, begin, 1)))) << u64(shift)
    left = i32(64 - shift)
    ahead = _swapped(word(words, begin, 2))
    at = i32(begin + 3)
    limit = i32(at + 1 + (end >> 5))  # to get there takes more bits than there are
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
        elif k < END_OF_BLOCK:  # beyond the last coefficient
            bad = i32(1)
        # Two states on, where the next block's begin, or from the first to the second.
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
    both = word(words, segment, BEHIND)
    if slack == 0 and (p0 != i32(word(words, segment, BETWEEN) >> 16) or p1 != _short(both) or p2 != i32(both >> 16)):
        bad = i32(1)
    if bad:
        status[up(word(words, segment, IMAGE))] = 1


HUFFMAN_SIGNATURE = types.void(types.int32[::1], types.int32, types.int16[::1], types.int32[::1])


# -- inverse DCT -------------------------------------------------------------------------------------------------------


@scalar
def _sum(one, other, factors):
    return i32(i32(one * i32(factors[0])) + i32(other * i32(factors[1])))


@scalar
def _transformed(v0, v1, v2, v3, v4, v5, v6, v7, bits):
    """The one-dimensional transform, with the terms and the wraps of the CPU's."""
    even2, even3 = _sum(v2, v6, EVEN2), _sum(v2, v6, EVEN3)
    even0 = i32(_short(i32(v0 + v4)) << SCALE_BITS)
    even1 = i32(_short(i32(v0 - v4)) << SCALE_BITS)
    s0, s1, s2, s3 = i32(even0 + even3), i32(even1 + even2), i32(even1 - even2), i32(even0 - even3)
    z3, z4 = _short(i32(v7 + v3)), _short(i32(v5 + v1))
    z3, z4 = _sum(z3, z4, SUM3), _sum(z3, z4, SUM4)
    o0, o1 = i32(_sum(v7, v1, ODD0) + z4), i32(_sum(v5, v3, ODD1) + z3)
    o2, o3 = i32(_sum(v5, v3, ODD2) + z4), i32(_sum(v7, v1, ODD3) + z3)
    half = i32(1 << (bits - 1))
    s0, s1, s2, s3 = i32(s0 + half), i32(s1 + half), i32(s2 + half), i32(s3 + half)
    return (
        i32(i32(s0 + o0) >> bits), i32(i32(s1 + o1) >> bits), i32(i32(s2 + o2) >> bits), i32(i32(s3 + o3) >> bits),
        i32(i32(s3 - o3) >> bits), i32(i32(s2 - o2) >> bits), i32(i32(s1 - o1) >> bits), i32(i32(s0 - o0) >> bits),
    )  # fmt: skip


@scalar
def _limited(x, low, high):
    return min(max(x, i32(low)), i32(high))


@scalar
def _bytes(a, b, c, d):
    """Four bytes as a word, of numbers around zero."""
    a, b, c, d = _limited(a, -128, 127), _limited(b, -128, 127), _limited(c, -128, 127), _limited(d, -128, 127)
    low = u32(u32(a & i32(255)) | u32(u32(b & i32(255)) << u32(8)))
    high = u32(u32(c & i32(255)) | u32(u32(d & i32(255)) << u32(8)))
    return i32(u32(u32(low | u32(high << u32(16))) ^ u32(0x80808080)))


@scalar
def _place_in_plane(words, record, block):
    """Component of a block of an image, the word where it begins in the planes, and the words of its plane's row."""
    per = word(words, record, PER)
    mcu = i32(block // per)
    j = i32(block - mcu * per)
    columns = word(words, record, COLUMNS)
    row = i32(mcu // columns)
    column = i32(mcu - row * columns)
    across, down = word(words, record, ACROSS), word(words, record, DOWN)
    luma = i32(across * down)
    begin = i32(word(words, record, FIRST_BLOCK) * PLANE_WORDS)
    component = i32(0)
    width = i32(columns * across)  # blocks of the plane's row
    if j < luma:
        line = i32(j // across)
        column = i32(column * across + (j - line * across))
        row = i32(row * down + line)
    else:
        component = i32(j - luma + 1)
        width = columns
        mcus = i32(columns * word(words, record, ROWS))
        begin = i32(begin + i32(mcus * (luma + component - 1)) * PLANE_WORDS)
    stride = i32(2 * width)
    return component, i32(begin + i32(8 * row * stride) + 2 * column), stride


def inverse_dct(words, images, coefficients, planes):
    """Kernel function: blocks of coefficients to planes of bytes, as words of four; ``blockIdx.y`` is the image.

    ``images`` is the word at which the launch's images begin. Eight threads a block: its columns, then its rows.
    """
    work = cuda.shared.array((BLOCKS_AT_ONCE, LANES, 9), types.int32)
    held = cuda.shared.array((BLOCKS_AT_ONCE, LANES), types.int32)
    record = i32(images + IMAGE_WORDS * i32(cuda.blockIdx.y))
    thread = i32(cuda.threadIdx.x)
    slot, x = i32(thread // LANES), i32(thread % LANES)
    first = i32(i32(cuda.blockIdx.x) * BLOCKS_AT_ONCE)
    blocks = word(words, record, BLOCKS)
    if first >= blocks:
        return
    block = i32(first + slot)
    component, place, stride = _place_in_plane(words, record, min(block, i32(blocks - 1)))
    wanted = block < blocks and (component == 0 or word(words, record, COLOR) != GRAY)
    others = i32(0)
    if wanted:
        start = i32(i32(word(words, record, FIRST_BLOCK) + block) << 6)
        steps = i32(record + STEPS + 64 * component)
        for y in range(8):  # the eight threads read side by side
            k = i32(8 * y + x)
            step = word(words, steps, k)
            value = i32(coefficients[up(start + k)])
            at = i32(step >> PLACE_SHIFT)
            if at >= 8:
                others = i32(others | value)
            work[slot, at >> 3, at & 7] = _short(i32(value * i32(step & 0xFFFF)))
    held[slot, x] = others
    cuda.syncthreads()
    v0 = work[slot, 0, x]
    # Where no other row holds anything, libjpeg-turbo multiplies the first one by four in 16 bits.
    wrapped = i32(_short(i32(v0 << 2)) >> 2)
    if wrapped != v0:
        for lane in range(LANES):
            others = i32(others | held[slot, lane])
        v0 = wrapped if others == 0 else v0
    o0, o1, o2, o3, o4, o5, o6, o7 = _transformed(
        v0, work[slot, 1, x], work[slot, 2, x], work[slot, 3, x], work[slot, 4, x], work[slot, 5, x],
        work[slot, 6, x], work[slot, 7, x], FIRST,
    )  # fmt: skip
    cuda.syncthreads()
    work[slot, 0, x] = _limited(o0, -32768, 32767)
    work[slot, 1, x] = _limited(o1, -32768, 32767)
    work[slot, 2, x] = _limited(o2, -32768, 32767)
    work[slot, 3, x] = _limited(o3, -32768, 32767)
    work[slot, 4, x] = _limited(o4, -32768, 32767)
    work[slot, 5, x] = _limited(o5, -32768, 32767)
    work[slot, 6, x] = _limited(o6, -32768, 32767)
    work[slot, 7, x] = _limited(o7, -32768, 32767)
    cuda.syncthreads()
    o0, o1, o2, o3, o4, o5, o6, o7 = _transformed(
        work[slot, x, 0], work[slot, x, 1], work[slot, x, 2], work[slot, x, 3], work[slot, x, 4], work[slot, x, 5],
        work[slot, x, 6], work[slot, x, 7], SECOND,
    )  # fmt: skip
    if wanted:
        at = i32(place + x * stride)
        planes[up(at)] = _bytes(o0, o1, o2, o3)
        planes[up(at + 1)] = _bytes(o4, o5, o6, o7)


INVERSE_DCT_SIGNATURE = types.void(types.int32[::1], types.int32, types.int16[::1], types.int32[::1])


# -- colors ------------------------------------------------------------------------------------------------------------


@scalar
def _chroma(planes, near, far, column, beside, bias):
    """Chroma of a pixel: 3/4 of the nearer and 1/4 of the farther row and column, rounded."""
    here = i32(3 * i32(planes[up(near + column)]) + i32(planes[up(far + column)]))
    there = i32(3 * i32(planes[up(near + beside)]) + i32(planes[up(far + beside)]))
    return i32(i32(3 * here + there + bias) >> 4)


@scalar
def _byte(x):
    return np.uint8(_limited(x, 0, 255))


@scalar
def _neighbor(x, odd, most):
    """The chroma row or column that is second nearest."""
    return _limited(i32(x + 1) if odd else i32(x - 1), 0, most)


def colors(words, images, planes, channels, out):
    """Kernel function: pixels of the images' regions, turned, at their places; ``blockIdx.y`` is the image.

    References: libjpeg's jdsample.c and jdcolor.c.
    """
    record = i32(images + IMAGE_WORDS * i32(cuda.blockIdx.y))
    x0, y0 = word(words, record, REGION), word(words, record, REGION + 1)
    width = i32(word(words, record, REGION + 2) - x0)
    number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= width * i32(word(words, record, REGION + 3) - y0):
        return
    row = i32(number // width)
    x, y = i32(x0 + i32(number - row * width)), i32(y0 + row)
    across, down = word(words, record, ACROSS), word(words, record, DOWN)
    left, top = word(words, record, LEFT), word(words, record, TOP)
    stride = i32(8 * word(words, record, COLUMNS))
    begin = i32(word(words, record, FIRST_BLOCK) * (4 * PLANE_WORDS))
    luma = i32(planes[up(begin + i32(y - top) * (stride * across) + i32(x - left))])
    at = (
        wide(words, record + OUT)
        + np.int64(i32(x)) * np.int64(word(words, record, STEP_X))
        + np.int64(i32(y)) * np.int64(word(words, record, STEP_Y))
    )
    color = word(words, record, COLOR)
    if color == GRAY:
        out[up(at)] = np.uint8(luma)
        if channels == 3:
            out[up(at + np.int64(1))] = np.uint8(luma)
            out[up(at + np.int64(2))] = np.uint8(luma)
        return
    near, far, column, beside = y, y, x, x
    if down == 2:
        near = i32(y >> 1)
        far = _neighbor(near, y & 1, i32((word(words, record, HEIGHT) - 1) >> 1))
    if across == 2:
        column = i32(x >> 1)
        beside = _neighbor(column, x & 1, i32((word(words, record, WIDTH) - 1) >> 1))
    left, top = i32(left // across), i32(top // down)
    bias = i32(word(words, record, BIASES) >> i32(8 * (y & 1) + 4 * (x & 1))) & i32(15)
    size = i32(i32(8 * stride) * word(words, record, ROWS))  # of a plane of chroma
    begin = i32(begin + size * i32(across * down) - left)
    near, far = i32(begin + i32(near - top) * stride), i32(begin + i32(far - top) * stride)
    cb = _chroma(planes, near, far, column, beside, bias)
    cr = _chroma(planes, i32(near + size), i32(far + size), column, beside, bias)
    if color == YCBCR:
        cb, cr = i32(cb - 128), i32(cr - 128)
        red = i32(luma + i32(i32(_RED * cr + _HALF) >> 16))
        blue = i32(luma + i32(i32(_BLUE * cb + _HALF) >> 16))
        green = i32(luma + i32(i32(_GREEN_B * cb + _GREEN_R * cr + _HALF) >> 16))
    else:
        red, green, blue = luma, cb, cr
    out[up(at)] = _byte(red)
    out[up(at + np.int64(1))] = _byte(green)
    out[up(at + np.int64(2))] = _byte(blue)


COLORS_SIGNATURE = types.void(types.int32[::1], types.int32, types.uint8[::1], types.int32, types.uint8[::1])


class Kernel(NamedTuple):
    """A kernel function, its types, and the threads of a block."""

    function: Any
    signature: Any
    threads: int


KERNELS = {
    "huffman": Kernel(huffman, HUFFMAN_SIGNATURE, THREADS),
    "inverse_dct": Kernel(inverse_dct, INVERSE_DCT_SIGNATURE, LANES * BLOCKS_AT_ONCE),
    "colors": Kernel(colors, COLORS_SIGNATURE, PIXELS_AT_ONCE),
}
