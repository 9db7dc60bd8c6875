"""Statistics of whole images: every thread takes one pixel, the last block of an image finishes.

Sums are integers, so that they do not depend on the order of the threads. Each statistic has its three steps: a pixel
into its block's shared memory, a block into its image's sums, the sums into the words that formulas read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, types

from .. import color, statistics
from ..layout import HEIGHT, RECORD_WORDS, WIDTH
from ..ops import CHANNELS, END, ENTRY_HEADER, LEVELS, MEAN, RANGE, SLOT, STATISTICS_WORDS
from ..program import has_statistic, takes
from ..scalar import f32, i32, scalar, word
from .program import make_pixel

EXTREMES = 6  # words an image: the largest key of each channel's values, and of their negatives
_LOWEST = i32(-2147483648)
_END = f32(END.code)

_takes_mean = takes(MEAN)
_takes_range = takes(RANGE)


@scalar
def _key(x):
    """Integer whose order is that of the float ``x``."""
    bits = f32(x).view(np.int32)
    return bits ^ ((bits >> i32(31)) & i32(0x7FFFFFFF))


@scalar
def _from_key(key):
    """The float of :func:`_key`."""
    return i32(key ^ ((key >> i32(31)) & i32(0x7FFFFFFF))).view(np.float32)


@scalar
def _find_statistic(programs, start, stop, slot):
    """Position of the entry that fills a slot, or ``stop`` if this image has none."""
    at = start
    while at < stop and word(programs, at, 0) != _END:
        if has_statistic(i32(word(programs, at, 0))):
            if i32(word(programs, at, ENTRY_HEADER + SLOT)) == slot:
                return at
        at = i32(at + i32(word(programs, at, 1)))
    return stop


@scalar
def _add_pixel(code, channels, r, g, b, shared_sum, shared_counts):
    """One pixel into its block's shared memory."""
    if _takes_mean(code):
        cuda.atomic.add(shared_sum, 0, statistics.to_fixed(color.gray_of(r, g, b, channels)))
    elif _takes_range(code):
        cuda.atomic.max(shared_counts, 0, _key(r))
        cuda.atomic.max(shared_counts, 1, _key(g))
        cuda.atomic.max(shared_counts, 2, _key(b))
        cuda.atomic.max(shared_counts, 3, _key(-r))
        cuda.atomic.max(shared_counts, 4, _key(-g))
        cuda.atomic.max(shared_counts, 5, _key(-b))
    else:
        cuda.atomic.add(shared_counts, color.to_byte(r), 1)
        cuda.atomic.add(shared_counts, LEVELS + color.to_byte(g), 1)
        cuda.atomic.add(shared_counts, 2 * LEVELS + color.to_byte(b), 1)


@scalar
def _add_block(code, image, thread, shared_sum, shared_counts, sums, extremes, counts):
    """A block's shared memory into its image's sums."""
    if _takes_mean(code):
        if thread == 0:
            cuda.atomic.add(sums, image, shared_sum[0])
    elif _takes_range(code):
        if thread < EXTREMES:
            cuda.atomic.max(extremes, image * EXTREMES + thread, shared_counts[thread])
    else:
        for k in range(thread, STATISTICS_WORDS, cuda.blockDim.x):
            if shared_counts[k] > 0:
                cuda.atomic.add(counts, image * STATISTICS_WORDS + k, shared_counts[k])


@scalar
def _is_last_block(image, thread, last_block, tickets):
    """Whether this block is the last of its image to get here."""
    # Every thread's sums must be visible before the ticket says so.
    cuda.threadfence()
    cuda.syncthreads()
    if thread == 0:
        ticket = cuda.atomic.add(tickets, image, 1)
        last_block[0] = 1 if ticket == cuda.gridDim.x - 1 else 0
    cuda.syncthreads()
    return last_block[0] != 0


@scalar
def _finish(code, image, thread, pixels, sums, extremes, counts, tables, table):
    """An image's sums into what formulas read.

    Atomics read past the first-level cache, where another block's sums may be missing.
    """
    if _takes_mean(code):
        if thread == 0:
            tables[table] = statistics.mean_of(cuda.atomic.add(sums, image, np.int64(0)), pixels)
    elif _takes_range(code):
        if thread < 3:
            high = _from_key(cuda.atomic.max(extremes, image * EXTREMES + thread, _LOWEST))
            low = -_from_key(cuda.atomic.max(extremes, image * EXTREMES + 3 + thread, _LOWEST))
            low, gain = statistics.stretch_of(low, high)
            tables[table + 2 * thread] = low
            tables[table + 2 * thread + 1] = gain
    elif thread < 3:
        first = image * STATISTICS_WORDS + LEVELS * thread
        last = i32(0)
        for level in range(LEVELS):
            count = cuda.atomic.add(counts, first + level, 0)
            last = count if count > 0 else last
        step = statistics.equalize_step(pixels, last)
        below = i32(0)
        for level in range(LEVELS):
            tables[table + LEVELS * thread + level] = statistics.equalize_level(level, below, step)
            below += cuda.atomic.add(counts, first + level, 0)


def make_statistics(functions: tuple[Any, ...], neighbors: bool = False) -> Any:
    """Kernel function: one statistics slot of every image that has it.

    The last block of an image to finish turns its sums into what the program reads, so that a slot is one launch.
    """
    pixel = make_pixel(functions, neighbors)

    # One body: the barriers and the shared arrays are the whole kernel's.
    def reduce(
        source, channels, scale, ints, floats, programs, program_words, tables, table_words, slot, sums, extremes,
        counts, tickets
    ):  # fmt: skip
        image = i32(cuda.blockIdx.y)
        thread = i32(cuda.threadIdx.x)
        record = i32(image * RECORD_WORDS)
        program = i32(image * program_words)
        beyond = i32(program + program_words)
        # Kept in shared memory rather than in registers, which the pixel needs.
        found = cuda.shared.array(2, types.int32)
        if thread == 0:
            found[1] = word(ints, record, HEIGHT) * word(ints, record, WIDTH)
            found[0] = _find_statistic(programs, program, beyond, slot)
        cuda.syncthreads()
        stop = found[0]
        if stop == beyond:
            return
        shared_counts = cuda.shared.array(STATISTICS_WORDS, types.int32)
        shared_sum = cuda.shared.array(1, types.int64)
        last_block = cuda.shared.array(1, types.int32)
        # Counts start at 0; of a range the words hold keys, whose smallest is the neutral one of a maximum.
        neutral = _LOWEST if _takes_range(i32(word(programs, stop, 0))) else i32(0)
        for k in range(thread, STATISTICS_WORDS, cuda.blockDim.x):
            shared_counts[k] = neutral
        if thread == 0:
            shared_sum[0] = 0
        cuda.syncthreads()
        number = i32(cuda.blockIdx.x * cuda.blockDim.x + thread)
        if number < found[1]:
            r, g, b = pixel(
                source, channels, scale, ints, floats, record, programs, program, stop, tables,
                i32(image * table_words), number
            )  # fmt: skip
            code = i32(word(programs, found[0], 0))
            gray_channels = i32(word(programs, found[0], ENTRY_HEADER + CHANNELS))
            _add_pixel(code, gray_channels, r, g, b, shared_sum, shared_counts)
        cuda.syncthreads()
        code = i32(word(programs, found[0], 0))
        _add_block(code, image, thread, shared_sum, shared_counts, sums, extremes, counts)
        if not _is_last_block(image, thread, last_block, tickets):
            return
        cuda.threadfence()
        table = image * table_words + slot * STATISTICS_WORDS
        _finish(code, image, thread, found[1], sums, extremes, counts, tables, table)

    return reduce
