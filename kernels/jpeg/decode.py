"""A region of a baseline JPEG as pixels, at its size or a half, a quarter or an eighth of it: MCU row by MCU row."""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from ..compiled import Piece
from ..cpu.intrinsics import ADDRESSES, BYTES, array_at, bytes_at, caller, longs_in, shorts_in
from ..scalar import loop
from .color import SPILL, WIDE
from .frame import MOST_BLOCKS, PARTS_WORDS, factors, grid, list_parts, mcus_of
from .huffman import (
    CLEAN_BYTES,
    MARKER,
    NEVER,
    READ_AHEAD,
    SKIPS,
    STATE_WORDS,
    begin,
    decode_mcus,
    jump,
    restarts_follow,
)
from .layout import (
    ACCESS_WORDS,
    BAD_TABLE,
    COMPONENTS,
    DONE,
    ENTRY,
    ENTRY_BYTES,
    EVERY,
    HEADER_WORDS,
    LEARNS,
    MISMATCH,
    MISMATCHED,
    QUANT,
    RESTART,
    SCAN,
    UNUSED,
)
from .rows import PAD, SHAPE_WORDS, clear_chroma, lay_out, make_rows, read_steps, transform_row
from .seek import (
    SEEK_WORDS,
    SEGMENTS,
    note,
    open_entry,
    passes,
    point,
    predictors_at,
)  # fmt: skip
from .tables import TABLE_WORDS, ZIGZAG, build_tables

i64 = np.int64

# Numbers of a type of their own: each one written out would be a variant of its own to compile.
_SKIPPED, _STORED = i64(0), i64(1)

_WORTH_A_JUMP = 2  # MCUs: to skip one is as fast

_MCU = 16  # pixels of its side

# Words of the scratch's first part.
_SEEK = STATE_WORDS  # of the entry of a seek index
_PARTS = _SEEK + SEEK_WORDS  # see frame.py
_SHAPE = _PARTS + PARTS_WORDS  # see rows.py
_WORDS = _SHAPE + SHAPE_WORDS

REGION: Final = 4  # words of a region: x0, y0, x1, y1, as stored, in pixels of the scale
TOLD_WORDS: Final = 4  # of what a call tells: how it ended, in which MCU row, of how many,
ENTRY_TOLD: Final = 3  # and what became of the index entry


def work_bytes(width: int) -> int:
    """Scratch for an image of so many columns."""
    columns = width + _MCU
    planes = (2 * _MCU * 3 + 2) * (columns + 2 * PAD)
    coefficients = (columns // 8) * MOST_BLOCKS * 64 * 2
    sums = 2 * 2 * (columns + 2 * PAD)
    return 8 * _WORDS + CLEAN_BYTES + planes + coefficients + columns // 8 * MOST_BLOCKS + sums + 3 * 64 * 2 + 1024


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
def _decode_rows(header, data, region, scale, channels, out, tables, memory, access, seek, told):
    single = header[COMPONENTS] == 1
    across, down = factors(header)
    rows, total = grid(header)
    first, end, top, bottom = mcus_of(header, scale, region, rows, total)
    columns = end - first

    work = longs_in(memory, 0, _WORDS)
    per = (across * down + 2) if not single else 1
    at = 8 * _WORDS
    coefficients = shorts_in(memory, at, columns * per * 64)
    at += columns * per * 128
    steps = shorts_in(memory, at, 3 * 64)
    at += 2 * 3 * 64
    summed = 2 * (columns * 8 * across + 2 * PAD)
    sums = shorts_in(memory, at, summed)
    at += 2 * summed
    clean = memory[at : at + CLEAN_BYTES]
    at += CLEAN_BYTES
    tail = memory[at : at + 3 * WIDE + SPILL]
    at += 3 * WIDE + 2 * SPILL
    lasts = memory[at : at + columns * per]
    at += columns * per
    shape = work[_SHAPE:_WORDS]
    planes = memory[at : at + lay_out(header, scale, columns, shape)]

    for k in range(coefficients.size):
        coefficients[k] = 0
    for c in range(header[COMPONENTS]):
        read_steps(data, header[QUANT + c], steps[64 * c : 64 * c + 64])
    state, parts = work[:STATE_WORDS], work[_PARTS:_SHAPE]
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
        transform_row(r, columns, channels == 1, parts, shape, coefficients, lasts, steps, planes)
        if channels == 1 and not single:
            clear_chroma(columns, parts, coefficients)
        done = make_rows(header, r, rows, first, region, columns, channels, shape, planes, sums, out, tail, done)
    return DONE


def _decode(header_, data_, size, region_, scale, channels, out_, tables_, work_, work_size, access_, told_):
    """Pixels of a region, (x1 - x0) * channels a row; gray is Y.

    The image, and the region with it, is ``scale`` eighths of its size: 8, 4, 2 or 1, sides rounded up.
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
    told[0] = _decode_rows(header, data, region, scale, channels, out, tables, memory, access, seek, told)
    if told[0] != DONE and seek[SEGMENTS] and not access[LEARNS]:
        seek[SEGMENTS] = 0
        told[ENTRY_TOLD] = MISMATCH
        told[0] = _decode_rows(header, data, region, scale, channels, out, tables, memory, access, seek, told)


_DECODE = types.void(
    ADDRESSES, BYTES, types.int64, ADDRESSES, types.int64, types.int64, BYTES, ADDRESSES, BYTES, types.int64,
    ADDRESSES, ADDRESSES,
)  # fmt: skip
DECODE_PIECE = Piece("decode_jpeg", _decode, _DECODE)
call_decode = caller(_DECODE)
