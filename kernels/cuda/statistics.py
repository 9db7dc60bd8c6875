"""Statistics of whole images: each thread adds one pixel, and the last block of an image finishes.

Sums are integers, so that they do not depend on the order of threads. Each statistic has three steps: add a pixel to
its block's shared memory, add a block to its image's sums, and compute from the sums the values that formulas read.
"""

from typing import Any

import numpy as np
from numba import cuda, types

from .. import color, statistics
from ..layout import EXTREMES, IN_RECORD, RECORD_WORDS
from ..ops import CHANNELS, END, INSTRUCTION_HEADER, LEVELS, MEAN, PLAIN, RANGE, SLOT, STATISTICS_WORDS
from ..program import has_statistic, takes
from ..scalar import f32, i32, scalar, u32, word
from .program import make_pixel

_CHUNK = 8  # levels that a thread adds up
_CHUNKS = STATISTICS_WORDS // _CHUNK
_CHANNEL_CHUNKS = LEVELS // _CHUNK
_LOWEST = i32(-2147483648)
_END = f32(END.code)

_takes_mean = takes(MEAN)
_takes_range = takes(RANGE)


@scalar
def key_of(x):
    """Return an integer with the same order as the float ``x``."""
    bits = f32(x).view(np.int32)
    return bits ^ ((bits >> i32(31)) & i32(0x7FFFFFFF))


@scalar
def from_key(key):
    """Return the float of a key, the inverse of :func:`key_of`."""
    return i32(key ^ ((key >> i32(31)) & i32(0x7FFFFFFF))).view(np.float32)


@scalar
def _find_statistic(programs, start, stop, slot):
    """Return the position of the instruction with a statistics slot, or ``stop`` if this image has none."""
    at = start
    while at < stop and word(programs, at, 0) != _END:
        if has_statistic(i32(word(programs, at, 0))):
            if i32(word(programs, at, INSTRUCTION_HEADER + SLOT)) == slot:
                return at
        at = i32(at + i32(word(programs, at, 1)))
    return stop


@scalar
def add_warp(shared_sum, value, thread):
    """Add the values of a warp's threads, all of which call this, to a sum in shared memory.

    One atomic operation per warp: a 64-bit one is a compare-and-swap loop, in which the threads would block each other.
    """
    for offset in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
    if thread & i32(31) == 0:
        cuda.atomic.add(shared_sum, 0, value)


@scalar
def _add_pixel(code, r, g, b, shared_counts):
    """Add one pixel to its block's shared memory; not for means."""
    if _takes_range(code):
        cuda.atomic.max(shared_counts, 0, key_of(r))
        cuda.atomic.max(shared_counts, 1, key_of(g))
        cuda.atomic.max(shared_counts, 2, key_of(b))
        cuda.atomic.max(shared_counts, 3, key_of(-r))
        cuda.atomic.max(shared_counts, 4, key_of(-g))
        cuda.atomic.max(shared_counts, 5, key_of(-b))
    else:
        cuda.atomic.add(shared_counts, color.to_byte(r), 1)
        cuda.atomic.add(shared_counts, LEVELS + color.to_byte(g), 1)
        cuda.atomic.add(shared_counts, 2 * LEVELS + color.to_byte(b), 1)


@scalar
def _add_block(code, image, thread, shared_sum, shared_counts, sums, extremes, counts):
    """Add a block's shared memory to its image's sums."""
    if _takes_mean(code):
        if thread == 0:
            cuda.atomic.add(sums, image, shared_sum[0])
    elif _takes_range(code):
        if thread < EXTREMES:
            cuda.atomic.max(extremes, image * EXTREMES + thread, shared_counts[thread])
    else:
        k = thread
        while k < STATISTICS_WORDS:
            if shared_counts[k] > 0:
                cuda.atomic.add(counts, image * STATISTICS_WORDS + k, shared_counts[k])
            k = i32(k + cuda.blockDim.x)


@scalar
def _is_last_block(image, thread, last_block, tickets):
    """Return True if this block is the last of its image to call this."""
    # Every thread's sums must be visible before the ticket is taken.
    cuda.threadfence()
    cuda.syncthreads()
    if thread == 0:
        ticket = cuda.atomic.add(tickets, image, 1)
        last_block[0] = 1 if ticket == cuda.gridDim.x - 1 else 0
    cuda.syncthreads()
    return last_block[0] != 0


@scalar
def _equalize(image, thread, pixels, counts, shared_counts, shared_chunks, shared_top, tables, table):
    """Turn an image's histogram into its tables: each thread sums some levels, three threads accumulate the sums."""
    if thread < 3:
        shared_top[thread] = thread * LEVELS
    cuda.syncthreads()
    k = thread
    while k < STATISTICS_WORDS:
        count = cuda.atomic.add(counts, image * STATISTICS_WORDS + k, 0)
        shared_counts[k] = count
        if count > 0:
            cuda.atomic.max(shared_top, i32(u32(k) // u32(LEVELS)), k)
        k = i32(k + cuda.blockDim.x)
    cuda.syncthreads()
    chunk = thread
    while chunk < _CHUNKS:
        total = i32(0)
        for k in range(chunk * _CHUNK, chunk * _CHUNK + _CHUNK):
            total += shared_counts[k]
        shared_chunks[chunk] = total
        chunk = i32(chunk + cuda.blockDim.x)
    cuda.syncthreads()
    if thread < 3:
        below = i32(0)
        for chunk in range(thread * _CHANNEL_CHUNKS, (thread + 1) * _CHANNEL_CHUNKS):
            total = shared_chunks[chunk]
            shared_chunks[chunk] = below
            below += total
    cuda.syncthreads()
    chunk = thread
    while chunk < _CHUNKS:
        step = statistics.equalize_step(pixels, shared_counts[shared_top[i32(u32(chunk) // u32(_CHANNEL_CHUNKS))]])
        below = shared_chunks[chunk]
        for k in range(chunk * _CHUNK, chunk * _CHUNK + _CHUNK):
            tables[table + k] = statistics.equalize_level(i32(u32(k) % u32(LEVELS)), below, step)
            below += shared_counts[k]
        chunk = i32(chunk + cuda.blockDim.x)


@scalar
def _finish(code, image, thread, pixels, sums, extremes, counts, shared_counts, shared_chunks, shared_top, tables,
            table):  # fmt: skip
    """Turn an image's sums into the values that formulas read.

    Sums are read by atomics, which bypass the first-level cache: it may lack other blocks' sums.
    """
    if _takes_mean(code):
        if thread == 0:
            tables[table] = statistics.mean_of(cuda.atomic.add(sums, image, np.int64(0)), pixels)
    elif _takes_range(code):
        if thread < 3:
            high = from_key(cuda.atomic.max(extremes, image * EXTREMES + thread, _LOWEST))
            low = -from_key(cuda.atomic.max(extremes, image * EXTREMES + 3 + thread, _LOWEST))
            low, gain = statistics.stretch_of(low, high)
            tables[table + 2 * thread] = low
            tables[table + 2 * thread + 1] = gain
    else:
        _equalize(image, thread, pixels, counts, shared_counts, shared_chunks, shared_top, tables, table)


def make_statistics(functions: tuple[Any, ...], build: str = PLAIN) -> Any:
    """Return the kernel function of one statistics slot, for every image that has it.

    The last block of an image turns its sums into the values that the program reads, so that a slot is one launch.
    """
    pixel = make_pixel(functions, build)

    # One function body: barriers and shared arrays belong to the whole kernel.
    def reduce(
        source, channels, scale, ints, floats, programs, program_words, tables, table_words, slot, sums, extremes,
        counts, tickets
    ):  # fmt: skip
        image = i32(cuda.blockIdx.y)
        thread = i32(cuda.threadIdx.x)
        record = i32(image * RECORD_WORDS)
        program = i32(image * program_words)
        beyond = i32(program + program_words)
        # In shared memory instead of registers, which the pixel function needs.
        found = cuda.shared.array(2, types.int32)
        if thread == 0:
            found[1] = word(ints, record, IN_RECORD.height) * word(ints, record, IN_RECORD.width)
            found[0] = _find_statistic(programs, program, beyond, slot)
        cuda.syncthreads()
        stop = found[0]
        if stop == beyond:
            return
        shared_counts = cuda.shared.array(STATISTICS_WORDS, types.int32)
        shared_chunks = cuda.shared.array(_CHUNKS, types.int32)
        shared_top = cuda.shared.array(3, types.int32)
        shared_sum = cuda.shared.array(1, types.int64)
        last_block = cuda.shared.array(1, types.int32)
        # Counts start at 0; for a range the words are keys, and the smallest key is neutral for the maximum.
        neutral = _LOWEST if _takes_range(i32(word(programs, stop, 0))) else i32(0)
        k = thread
        while k < STATISTICS_WORDS:
            shared_counts[k] = neutral
            k = i32(k + cuda.blockDim.x)
        if thread == 0:
            shared_sum[0] = 0
        cuda.syncthreads()
        number = i32(cuda.blockIdx.x * cuda.blockDim.x + thread)
        value = np.int64(0)
        if number < found[1]:
            r, g, b = pixel(
                source, channels, scale, ints, floats, record, programs, program, stop, tables,
                i32(image * table_words), number
            )  # fmt: skip
            code = i32(word(programs, found[0], 0))
            if _takes_mean(code):
                gray_channels = i32(word(programs, found[0], INSTRUCTION_HEADER + CHANNELS))
                value = statistics.to_fixed(color.gray_of(r, g, b, gray_channels))
            else:
                _add_pixel(code, r, g, b, shared_counts)
        code = i32(word(programs, found[0], 0))
        if _takes_mean(code):
            add_warp(shared_sum, value, thread)
        cuda.syncthreads()
        _add_block(code, image, thread, shared_sum, shared_counts, sums, extremes, counts)
        if not _is_last_block(image, thread, last_block, tickets):
            return
        cuda.threadfence()
        table = image * table_words + slot * STATISTICS_WORDS
        _finish(
            code, image, thread, found[1], sums, extremes, counts, shared_counts, shared_chunks, shared_top, tables,
            table
        )  # fmt: skip

    return reduce
