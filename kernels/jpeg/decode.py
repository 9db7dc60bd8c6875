"""A region of a baseline JPEG as pixels: MCU rows, of which two are kept at a time, and rows of pixels out of them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from ..compiled import Piece
from ..cpu.intrinsics import ADDRESSES, BYTES, array_at, bytes_at, caller, longs_in, shorts_in
from ..scalar import loop, up
from .color import SPILL, WIDE, N, rgb_even, rgb_odd, rgb_of_planes, rgb_of_ycc, round_rows, sum_rows
from .frame import MOST_BLOCKS, PARTS_WORDS, factors, grid, list_parts, mcu_range
from .huffman import (
    CLEAN_BYTES,
    MARKER,
    NEVER,
    READ_AHEAD,
    SKIPS,
    STATE_WORDS,
    TABLE_WORDS,
    ZIGZAG,
    begin,
    build_tables,
    decode_mcus,
    jump,
    restarts_follow,
)  # fmt: skip
from .idct import transform2, transform4, transform8
from .layout import (
    ACCESS_WORDS,
    BAD_TABLE,
    COLOR,
    COMPONENTS,
    DONE,
    ENTRY,
    ENTRY_BYTES,
    EVERY,
    HEADER_WORDS,
    HEIGHT,
    LEARNS,
    MISMATCH,
    MISMATCHED,
    QUANT,
    RESTART,
    SCAN,
    UNUSED,
    WIDTH,
    YCBCR,
)
from .seek import (
    SEEK_WORDS,
    SEGMENTS,
    note,
    open_entry,
    passes,
    point,
    predictors_at,
)  # fmt: skip
from .vectors import fill_block

i64 = np.int64

# Columns in front of and behind each row of the planes: neighbors of the chroma at the edges, and what vectors read
# and write there.
_PAD = 64

# Numbers of a type of their own: each one written out would be a variant of its own to compile.
_Y, _CB, _CR = i64(0), i64(1), i64(2)  # components
_SKIPPED, _STORED = i64(0), i64(1)

_WORTH_A_JUMP = 2  # MCUs: to skip one is as fast

_MCU = 16  # pixels of its side

# Words of the scratch's first part.
_SEEK = STATE_WORDS  # of the entry of a seek index
_PARTS = _SEEK + SEEK_WORDS  # see frame.py
_PLACES = _PARTS + PARTS_WORDS  # column and row of each block of an MCU in its component's plane
_PLANES = _PLACES + 2 * MOST_BLOCKS  # for each component: where its plane begins, its stride, factors, rows kept
_PLANE_WORDS = 5
_EXTRA = _PLANES + 3 * _PLANE_WORDS  # where two rows of chroma made of others lie, behind the planes
_WORDS = _EXTRA + 1

_START, _STRIDE, _ACROSS, _DOWN, _MASK = range(_PLANE_WORDS)

REGION: Final = 4  # words of a region: x0, y0, x1, y1, as stored
TOLD_WORDS: Final = 4  # of what a call tells: how it ended, in which MCU row, of how many,
ENTRY_TOLD: Final = 3  # and what became of the index entry


def work_bytes(width: int) -> int:
    """Scratch for an image of so many columns."""
    columns = width + _MCU
    planes = (2 * _MCU * 3 + 2) * (columns + 2 * _PAD)
    coefficients = (columns // 8) * MOST_BLOCKS * 64 * 2
    sums = 2 * 2 * (columns + 2 * _PAD)
    return 8 * _WORDS + CLEAN_BYTES + planes + coefficients + columns // 8 * MOST_BLOCKS + sums + 3 * 64 * 2 + 1024


@loop
def _lay_out(header, columns, work):
    """Fill the words of the scratch for so many MCU columns; gives the bytes of the planes."""
    n = header[COMPONENTS]
    across, down = factors(header)
    blocks = 0
    total = i64(0)
    for c in range(n):
        h, v = (across, down) if c == 0 else (1, 1)
        plane = work[_PLANES + c * _PLANE_WORDS : _PLANES + (c + 1) * _PLANE_WORDS]
        rows = 2 * 8 * v
        plane[_STRIDE] = columns * h * 8 + 2 * _PAD
        plane[_START] = total + _PAD
        plane[_ACROSS], plane[_DOWN], plane[_MASK] = h, v, rows - 1
        total += rows * plane[_STRIDE]
        for k in range(h * v):
            work[_PLACES + 2 * blocks], work[_PLACES + 2 * blocks + 1] = k % h, k // h
            blocks += 1
    work[_EXTRA] = total
    return total + 2 * (columns * 8 * across + 2 * _PAD)


@loop
def _read_steps(data, at, steps):
    """A quantisation table in natural order; its numbers of 16 bits, as products are."""
    wide = data[at] >> 4
    for k in range(64):
        value = i64(data[at + 1 + k])
        if wide:
            value = i64(data[at + 1 + 2 * k]) << 8 | data[at + 2 + 2 * k]
        steps[ZIGZAG[k]] = value


@loop
def _flat(coefficient, step):
    """The value of a block without waves, 0 to 255, rounded and wrapped as in the transform."""
    scaled = i64(np.int16(np.int16(coefficient * step) << 2))
    value = ((scaled + 16) >> 5) + 128
    return 0 if value < 0 else 255 if value > 255 else value


@loop
def _transform_row(r, columns, luma_only, work, coefficients, lasts, steps, planes):
    """One MCU row to the planes; the coefficients are zero afterwards."""
    per = work[_PARTS]
    for j in range(per):
        c = work[_PARTS + 1 + 3 * j]
        if luma_only and c > 0:
            continue
        plane = work[_PLANES + c * _PLANE_WORDS : _PLANES + (c + 1) * _PLANE_WORDS]
        row = 8 * ((r * plane[_DOWN] + work[_PLACES + 2 * j + 1]) & (plane[_MASK] >> 3))
        start = plane[_START] + row * plane[_STRIDE] + 8 * work[_PLACES + 2 * j]
        step = 8 * plane[_ACROSS]
        stride, q = up(plane[_STRIDE]), up(64 * c)
        for m in range(columns):
            b = m * per + j
            k = up(64 * b)
            at = up(start + m * step)
            last = lasts[up(b)]
            if last == 0:
                from_dc = _flat(i64(coefficients[k]), i64(steps[q]))
                coefficients[k] = 0
                fill_block(planes, at, stride, from_dc)
            elif last < 3:
                transform2(coefficients, k, steps, q, planes, at, stride)
            elif last < 10:
                transform4(coefficients, k, steps, q, planes, at, stride)
            else:
                transform8(coefficients, k, steps, q, planes, at, stride)


@loop
def _repeat_edges(planes, plane, first, rows, before, behind):
    """Repeat the image's first and last chroma columns beyond its edges; -1 where the region ends inside."""
    for y in range(first, first + rows):
        row = plane[_START] + (y & plane[_MASK]) * plane[_STRIDE]
        if before >= 0:
            planes[row - 1] = planes[row]
        if behind >= 0:
            planes[row + behind + 1] = planes[row + behind]


@loop
def _put(pixels, count, out, at):
    """The first bytes of pixels that were made beside the result."""
    for k in range(count):
        out[at + k] = pixels[k]


@loop
def _gray_row(planes, at, width, out, o):
    for x in range(width):
        out[o + x] = planes[at + x]


@loop
def _plain_row(convert, planes, y, cb, cr, width, out, o, tail):
    """A row of pixels from planes of the same size: of YCbCr, or of RGB."""
    whole = max(width - 2, 0) // N * N  # so that what is written behind the last pixel is inside the row
    for x in range(0, width, N):
        to, start = (out, up(o + 3 * x)) if x < whole else (tail, up(0))
        if convert:
            rgb_of_ycc(planes, up(y + x), up(cb + x), up(cr + x), to, start)
        else:
            rgb_of_planes(planes, up(y + x), up(cb + x), up(cr + x), to, start)
        if x >= whole:
            _put(tail, 3 * min(width - x, N), out, o + 3 * x)


@loop
def _upsampled_row(planes, y, sums, second, odd, low, high, width, out, o, tail):
    """A row of pixels from luma and sums of chroma rows of half its width; those of Cr begin at ``second``."""
    whole = max(width - 2, 0) // WIDE * WIDE
    for x in range(0, width, WIDE):
        to, start = (out, up(o + 3 * x)) if x < whole else (tail, up(0))
        k = up((x >> 1) + 1)
        if odd:
            rgb_odd(planes, up(y + x), sums, k, up(second) + k, to, start, low, high)
        else:
            rgb_even(planes, up(y + x), sums, k, up(second) + k, to, start, low, high)
        if x >= whole:
            _put(tail, 3 * min(width - x, WIDE), out, o + 3 * x)


@loop
def _row_of(work, c, y):
    """Where a row of a plane begins."""
    plane = work[_PLANES + c * _PLANE_WORDS : _PLANES + (c + 1) * _PLANE_WORDS]
    return plane[_START] + (y & plane[_MASK]) * plane[_STRIDE]


@loop
def _color_row(header, work, planes, y, x0, width, sums, out, o, tail):
    """Row ``y`` of the image as RGB, from column ``x0`` of the planes on."""
    luma = _row_of(work, _Y, y) + x0
    blue, red = luma, luma
    across, down = factors(header)
    if across == 1 and down == 1:
        if header[COMPONENTS] != 1:
            blue, red = _row_of(work, _CB, y) + x0, _row_of(work, _CR, y) + x0
    else:
        near, far = y, y
        if down == 2:
            near = y >> 1
            far = near + 1 if y & 1 else max(near - 1, 0)
            far = min(far, ((header[HEIGHT] + 1) >> 1) - 1)
        left = (x0 >> 1) - 1 if across == 2 else x0
        n = (width >> 1) + 3 if across == 2 else width
        second = (n + 2 * N) // N * N
        for c in range(_CB, _CR + 1):
            one, other = _row_of(work, c, near) + left, _row_of(work, c, far) + left
            for k in range(0, n, N):
                sum_rows(planes, up(one + k), up(other + k), sums, up((c - 1) * second + k))
        if across == 2:
            low, high = (8, 7) if down == 2 else (4, 8)
            _upsampled_row(planes, luma, sums, second, x0 & 1, low, high, width, out, o, tail)
            return
        blue, red = work[_EXTRA], work[_EXTRA] + second
        for k in range(0, 2 * second, N):
            round_rows(sums, up(k), 2 if y & 1 else 1, planes, up(blue + k))
    _plain_row(header[COLOR] == YCBCR, planes, luma, blue, red, width, out, o, tail)


@loop
def _finished_rows(r, rows, down):
    """Rows of pixels that can be made once MCU row ``r`` is there: the last one of two needs chroma of the next."""
    return (r + 1) * 8 * down - (1 if down == 2 and r + 1 < rows else 0)


@loop
def _clear_chroma(columns, work, coefficients):
    """Zero the coefficients that are not transformed."""
    per = work[_PARTS]
    for b in range(columns * per):
        if work[_PARTS + 1 + 3 * (b % per)] > 0:
            for k in range(64 * b, 64 * b + 64):
                coefficients[k] = 0


@loop
def _make_rows(header, r, rows, first, region, columns, channels, work, planes, sums, out, tail, done):
    """Rows of pixels that MCU row ``r`` completes, behind those ``done``; gives how many are then."""
    x0, y0, x1, y1 = region[0], region[1], region[2], region[3]
    across, down = factors(header)
    width = x1 - x0
    left = x0 - first * 8 * across
    if across == 2 and channels == 3:
        edge = (header[WIDTH] + 1) // 2 - 1 - first * 8
        before, behind = 0 if first == 0 else -1, edge if edge < columns * 8 else -1
        for c in range(_CB, _CR + 1):
            chroma = work[_PLANES + c * _PLANE_WORDS : _PLANES + (c + 1) * _PLANE_WORDS]
            _repeat_edges(planes, chroma, 8 * r, 8, before, behind)
    stop = min(y1, _finished_rows(r, rows, down))
    for y in range(y0 + done, stop):
        o = (y - y0) * width * channels
        if channels == 1:
            _gray_row(planes, _row_of(work, _Y, y) + left, width, out, o)
        else:
            _color_row(header, work, planes, y, left, width, sums, out, o, tail)
    return max(stop - y0, done)


@loop
def _pass_row(r, rows, data, access, entry, seek, clean, state):
    """At the beginning of an MCU row: enter it, or see whether it begins where the entry says."""
    if seek[SEGMENTS] == 0 or r >= rows:
        return True
    if access[LEARNS]:
        note(entry, seek, rows, r, i64(0), i64(0), clean, state)
        return True
    return passes(entry, seek, rows, r, i64(0), clean, state)


@loop
def _known_point(goal, here, rows, columns, every, entry, seek):
    """Row and segment of the last known point up to an MCU, and its bit, 0 where there is none behind ``here``."""
    r, s = goal // columns, goal % columns // every
    bit = point(entry, seek, rows, r, s)
    while bit == 0 and (r - 1) * columns > here:
        r, s = r - 1, i64(0)
        bit = point(entry, seek, rows, r, s)
    return r, s, bit


@loop
def _byte_behind(r, stop, rows, columns, every, entry, seek):
    """A byte behind the MCU in which a region ends in a row, and what is read ahead; a far one where none is known."""
    s = -(-stop // every)
    bit = i64(0)
    if s < seek[SEGMENTS]:
        bit = point(entry, seek, rows, r, s)
    elif r + 1 < rows:
        bit = point(entry, seek, rows, r + 1, i64(0))
    return (bit >> 3) + READ_AHEAD if bit else NEVER


@loop
def _go_to(goal, here, stop, rows, columns, data, interval, stream, access, entry, coefficients, lasts, seek, told):
    """From one MCU to a later one, by jumping where an entry allows that, and skipping; gives how it ended.

    The MCUs behind it that are wanted end in column ``stop``.
    """
    clean, state = stream[0], stream[1]
    if seek[SEGMENTS] and goal - here >= _WORTH_A_JUMP:
        every = access[EVERY] if seek[SEGMENTS] > 1 else columns
        r, s, bit = _known_point(goal, here, rows, columns, every, entry, seek)
        if bit and r * columns + s * every - here >= _WORTH_A_JUMP:
            jumps_again = columns - stop + goal % columns >= _WORTH_A_JUMP
            until = _byte_behind(r, stop, rows, columns, every, entry, seek) if jumps_again else NEVER
            jump(data, bit, until, clean, state)
            predictors_at(entry, seek, r, s, state)
            here = r * columns + s * every
    while here < goal:
        told[1] = here // columns
        n = min(goal, (told[1] + 1) * columns) - here
        how = decode_mcus(data, n, interval, stream, coefficients, lasts, _SKIPPED)
        if how != DONE:
            return how
        here += n
        if here % columns == 0 and not _pass_row(here // columns, rows, data, access, entry, seek, clean, state):
            return MISMATCHED
    return DONE


@loop
def _decode_rows(header, data, region, channels, out, tables, memory, access, seek, told):
    single = header[COMPONENTS] == 1
    across, down = factors(header)
    rows, total = grid(header)
    first, end = mcu_range(region[0], region[2], across, total)
    top, bottom = mcu_range(region[1], region[3], down, rows)
    columns = end - first

    work = longs_in(memory, 0, _WORDS)
    per = (across * down + 2) if not single else 1
    at = 8 * _WORDS
    coefficients = shorts_in(memory, at, columns * per * 64)
    at += columns * per * 128
    steps = shorts_in(memory, at, 3 * 64)
    at += 2 * 3 * 64
    summed = 2 * (columns * 8 * across + 2 * _PAD)
    sums = shorts_in(memory, at, summed)
    at += 2 * summed
    clean = memory[at : at + CLEAN_BYTES]
    at += CLEAN_BYTES
    tail = memory[at : at + 3 * WIDE + SPILL]
    at += 3 * WIDE + 2 * SPILL
    lasts = memory[at : at + columns * per]
    at += columns * per
    planes = memory[at : at + _lay_out(header, columns, work)]

    for k in range(coefficients.size):
        coefficients[k] = 0
    for c in range(header[COMPONENTS]):
        _read_steps(data, header[QUANT + c], steps[64 * c : 64 * c + 64])
    state, parts = work[:STATE_WORDS], work[_PARTS:_PLACES]
    list_parts(header, parts)
    interval = header[RESTART]
    begin(data, header[SCAN], interval, clean, state)
    state[MARKER] = 0
    state[SKIPS] = interval and restarts_follow(data, header[SCAN], (rows * total - 1) // interval)
    entry = bytes_at(access[ENTRY], access[ENTRY_BYTES])
    done = i64(0)
    stream = clean, state, parts, tables, ZIGZAG
    _pass_row(i64(0), rows, data, access, entry, seek, clean, state)
    here = i64(0)
    for r in range(top, bottom):
        told[1] = r
        goal = r * total + first
        how = _go_to(
            goal, here, end, rows, total, data, interval, stream, access, entry, coefficients, lasts, seek, told
        )
        if how == DONE:
            how = decode_mcus(data, columns, interval, stream, coefficients, lasts, _STORED)
        if how != DONE:
            return how
        here = goal + columns
        if end == total and not _pass_row(r + 1, rows, data, access, entry, seek, clean, state):
            return MISMATCHED
        _transform_row(r, columns, channels == 1, work, coefficients, lasts, steps, planes)
        if channels == 1 and not single:
            _clear_chroma(columns, work, coefficients)
        done = _make_rows(header, r, rows, first, region, columns, channels, work, planes, sums, out, tail, done)
    return DONE


def _decode(header_, data_, size, region_, channels, out_, tables_, work_, work_size, access_, told_):
    """Pixels of a region, (x1 - x0) * channels a row; gray is Y.

    ``told`` is filled with how it ended, in which MCU row, of how many, and what became of the file's entry in a seek
    index, which ``access`` names; ``tables`` are those of the files before, at first zeros.
    """
    header, data = array_at(header_, HEADER_WORDS), array_at(data_, size)
    region, told = array_at(region_, REGION), array_at(told_, TOLD_WORDS)
    access = array_at(access_, ACCESS_WORDS)
    out = array_at(out_, (region[2] - region[0]) * (region[3] - region[1]) * channels)
    tables = array_at(tables_, TABLE_WORDS)
    memory = array_at(work_, work_size)
    rows, columns = grid(header)
    told[0], told[1], told[2], told[ENTRY_TOLD] = BAD_TABLE, 0, rows, UNUSED
    if not build_tables(data, header, tables):
        return
    seek = longs_in(memory, 8 * _SEEK, SEEK_WORDS)
    told[ENTRY_TOLD] = UNUSED if header[RESTART] else open_entry(data, access, rows, columns, seek)
    if header[RESTART]:
        seek[SEGMENTS] = 0
    told[0] = _decode_rows(header, data, region, channels, out, tables, memory, access, seek, told)
    if told[0] != DONE and seek[SEGMENTS] and not access[LEARNS]:
        seek[SEGMENTS] = 0
        told[ENTRY_TOLD] = MISMATCH
        told[0] = _decode_rows(header, data, region, channels, out, tables, memory, access, seek, told)


_DECODE = types.void(
    ADDRESSES, BYTES, types.int64, ADDRESSES, types.int64, BYTES, ADDRESSES, BYTES, types.int64, ADDRESSES, ADDRESSES
)
DECODE_PIECE = Piece("decode_jpeg", _decode, _DECODE)
call_decode = caller(_DECODE)
