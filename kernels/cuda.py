"""The CUDA runtime's loops: one thread a pixel of the result, every image of the batch in one launch.

The only importer of ``numba.cuda``. Device code here finds its pixel, walks the taps and the program, and stores;
every formula is a scalar function the CPU's loops call too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, types
from numba.cuda.core import config

from . import cast, color, sampling, statistics, user
from .layout import (
    AFFINE_COLOR,
    AUTOCONTRAST,
    BFLOAT16,
    BRIGHTNESS,
    CONTRAST,
    END,
    ENTRY_HEADER,
    EQUALIZE,
    FILTER,
    FLOAT16,
    FLOAT32,
    GAUSSIAN,
    GRAYSCALE,
    HEIGHT,
    HUE,
    INVERT,
    LEVELS,
    MATRIX,
    OUTPUT,
    PAINT,
    POSTERIZE,
    RECORD_WORDS,
    SATURATION,
    SHARPNESS,
    SOLARIZE,
    SOURCE,
    STATISTICS_SLOT,
    STATISTICS_WORDS,
    STRIDE,
    SUPPORT,
    TAPS,
    UINT8,
    USER,
    WIDTH,
    WINDOW,
)
from .scalar import f32, i32, scalar

# Numba takes a launch of less than 128 blocks for a mistake; that of a small batch is none. There is no way to say so
# for one launch.
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

# Threads of a block, one pixel each. Statistics take the largest block, so that few blocks add to an image's sums.
BLOCK = 256
STATISTICS_BLOCK = 1024
EXTREMES = 6  # words an image: the largest key of each channel's values, and of their negatives
_HALF = f32(0.5)
_LOWEST = i32(-2147483648)

up = np.uintp


@scalar
def word(words, at, k):
    """Element ``at + k``, neither of them negative: said as unsigned, it needs no wrap-around check."""
    return words[up(at) + up(k)]


@scalar
def _wide(words, at):
    """Offset of 64 bits from two record words."""
    return (np.int64(word(words, at, 1)) << np.int64(32)) | (np.int64(word(words, at, 0)) & np.int64(0xFFFFFFFF))


@scalar
def _weight(tap, c, inverse_support, filter, low, high):
    if filter == GAUSSIAN:
        return sampling.gaussian_weight(tap, c, inverse_support)
    return sampling.tap_weight(tap, c, inverse_support, filter, low, high)


@scalar
def _sample(source, channels, scale, ints, floats, record, u, v):
    """Color of the grid point ``(u, v)``, counted from the grid's centre."""
    m = i32(record + MATRIX)
    m6, m7, m8 = word(floats, m, 6), word(floats, m, 7), word(floats, m, 8)
    x = sampling.project(word(floats, m, 0), word(floats, m, 1), word(floats, m, 2), m6, m7, m8, u, v)
    y = sampling.project(word(floats, m, 3), word(floats, m, 4), word(floats, m, 5), m6, m7, m8, u, v)
    filter = word(ints, record, FILTER)
    stride = word(ints, record, STRIDE)
    x_low, y_low = f32(word(ints, record, WINDOW)), f32(word(ints, record, WINDOW + 1))
    x_high, y_high = f32(word(ints, record, WINDOW + 2)), f32(word(ints, record, WINDOW + 3))
    x = sampling.tap_centre(x, filter, x_low, x_high)
    y = sampling.tap_centre(y, filter, y_low, y_high)
    support_x, support_y = word(floats, record, SUPPORT), word(floats, record, SUPPORT + 1)
    taps_x, taps_y = f32(word(ints, record, TAPS)), f32(word(ints, record, TAPS + 1))
    first_x = sampling.first_tap(x, sampling.reach(filter, support_x, taps_x))
    first_y = sampling.first_tap(y, sampling.reach(filter, support_y, taps_y))
    inverse_x, inverse_y = f32(1.0) / support_x, f32(1.0) / support_y
    base = _wide(ints, record + SOURCE)
    second = 1 if channels == 3 else 0
    r, g, b, total = f32(0.0), f32(0.0), f32(0.0), f32(0.0)
    # Taps are counted in float32, which saves converting (and the registers for) integer counters.
    tap_y = first_y
    end_x, end_y = first_x + taps_x, first_y + taps_y
    while tap_y < end_y:
        weight_y = _weight(tap_y, y, inverse_y, filter, y_low, y_high)
        row = i32(sampling.tap_index(tap_y, filter, y_low, y_high) * stride)
        tap_x = first_x
        while tap_x < end_x:
            weight = weight_y * _weight(tap_x, x, inverse_x, filter, x_low, x_high)
            at = up(base + np.int64(i32(row + sampling.tap_index(tap_x, filter, x_low, x_high) * channels)))
            r += weight * f32(source[at])
            g += weight * f32(source[at + up(second)])
            b += weight * f32(source[at + up(2 * second)])
            total += weight
            tap_x += f32(1.0)
        tap_y += f32(1.0)
    factor = scale / total
    return r * factor, g * factor, b * factor


@scalar
def _frame_point(p, at, u, v):
    """Coordinates of a grid point in the frame an entry refers to."""
    m6, m7, m8 = word(p, at, 6), word(p, at, 7), word(p, at, 8)
    x = sampling.project(word(p, at, 0), word(p, at, 1), word(p, at, 2), m6, m7, m8, u, v)
    y = sampling.project(word(p, at, 3), word(p, at, 4), word(p, at, 5), m6, m7, m8, u, v)
    return x, y


@scalar
def _paint(p, at, u, v, r, g, b):
    """Color laid outside (or inside) a rectangle of an earlier frame, blended at its edges."""
    x, y = _frame_point(p, at, u, v)
    cover = sampling.coverage(x, word(p, at, 9), word(p, at, 11), word(p, at, 13)) * sampling.coverage(
        y, word(p, at, 10), word(p, at, 12), word(p, at, 14)
    )
    inside = word(p, at, 18)
    keep = inside + (f32(1.0) - inside - inside) * cover
    paint = f32(1.0) - keep
    return r * keep + word(p, at, 15) * paint, g * keep + word(p, at, 16) * paint, b * keep + word(p, at, 17) * paint


def _make_program(functions: tuple[Any, ...]) -> Any:
    chain = user.chain(functions)

    @scalar
    def run_program(program, start, stop, tables, table, u, v, r, g, b):
        """Take the entries from ``start`` to ``stop`` (or the end) of a program for one pixel."""
        at = start
        while at < stop and word(program, at, 0) != f32(END):
            code = i32(word(program, at, 0))
            p = i32(at + ENTRY_HEADER)
            if code == BRIGHTNESS:
                factor = word(program, p, 0)
                r, g, b = (
                    color.brightness(r, factor), color.brightness(g, factor), color.brightness(b, factor)
                )  # fmt: skip
            elif code == CONTRAST:
                factor = word(program, p, 0)
                mean = word(tables, table, i32(word(program, p, STATISTICS_SLOT)) * STATISTICS_WORDS)
                r, g, b = color.blend(r, mean, factor), color.blend(g, mean, factor), color.blend(b, mean, factor)
            elif code == SATURATION:
                factor = word(program, p, 0)
                gray = color.luma(r, g, b)
                r, g, b = color.blend(r, gray, factor), color.blend(g, gray, factor), color.blend(b, gray, factor)
            elif code == HUE:
                r, g, b = color.shift_hue(r, g, b, word(program, p, 0))
            elif code == GRAYSCALE:
                gray = color.luma(r, g, b)
                r, g, b = gray, gray, gray
            elif code == INVERT:
                r, g, b = f32(1.0) - r, f32(1.0) - g, f32(1.0) - b
            elif code == SOLARIZE:
                threshold = word(program, p, 0)
                r, g, b = (
                    color.solarize(r, threshold), color.solarize(g, threshold), color.solarize(b, threshold)
                )  # fmt: skip
            elif code == POSTERIZE:
                in_scale, top, out_scale = word(program, p, 0), word(program, p, 1), word(program, p, 2)
                r = color.posterize(r, in_scale, top, out_scale)
                g = color.posterize(g, in_scale, top, out_scale)
                b = color.posterize(b, in_scale, top, out_scale)
            elif code == AUTOCONTRAST:
                slot = i32(table + i32(word(program, p, STATISTICS_SLOT)) * STATISTICS_WORDS)
                r = color.stretch(r, word(tables, slot, 0), word(tables, slot, 1))
                g = color.stretch(g, word(tables, slot, 2), word(tables, slot, 3))
                b = color.stretch(b, word(tables, slot, 4), word(tables, slot, 5))
            elif code == EQUALIZE:
                slot = i32(table + i32(word(program, p, STATISTICS_SLOT)) * STATISTICS_WORDS)
                r = word(tables, slot, color.to_byte(r))
                g = word(tables, slot, LEVELS + color.to_byte(g))
                b = word(tables, slot, 2 * LEVELS + color.to_byte(b))
            elif code == AFFINE_COLOR:
                r = r * word(program, p, 0) + word(program, p, 3)
                g = g * word(program, p, 1) + word(program, p, 4)
                b = b * word(program, p, 2) + word(program, p, 5)
            elif code == PAINT:
                r, g, b = _paint(program, p, u, v, r, g, b)
            elif code == USER:
                x, y = _frame_point(program, p, u, v)
                r, g, b = chain(i32(word(program, p, 9)), r, g, b, y - _HALF, x - _HALF, word(program, p, 10))
            at = i32(at + i32(word(program, at, 1)))
        return r, g, b

    return run_program


@scalar
def _find_sharpness(program, start, stop):
    """Position of the entry that reads neighbours, or ``stop`` if there is none."""
    at = start
    while at < stop and word(program, at, 0) != f32(END):
        if i32(word(program, at, 0)) == SHARPNESS:
            return at
        at = i32(at + i32(word(program, at, 1)))
    return stop


def _make_pixel(functions: tuple[Any, ...], neighbours: bool) -> Any:
    run_program = _make_program(functions)

    @scalar
    def pixel(source, channels, scale, ints, floats, record, program, start, stop, tables, table, number):
        """Color of one grid pixel after the entries from ``start`` to ``stop``.

        An entry that reads neighbours evaluates them here again rather than through memory.
        """
        height = word(ints, record, HEIGHT)
        width = word(ints, record, WIDTH)
        y = i32(number // width)
        x = i32(number - y * width)
        u0 = f32(x) - f32(width - 1) * _HALF
        v0 = f32(y) - f32(height - 1) * _HALF
        # Plans without such an entry have a kernel of their own, which is smaller by a third of its registers.
        middle = _find_sharpness(program, start, stop) if neighbours else stop
        inside = neighbours and middle < stop and x > 0 and y > 0 and x < width - 1 and y < height - 1
        r, g, b = f32(0.0), f32(0.0), f32(0.0)
        around_r, around_g, around_b = f32(0.0), f32(0.0), f32(0.0)
        # The neighbours first, then (at 0) the pixel itself; one more turn takes the rest of the program.
        k = i32(8 if inside else 0)
        while k >= -1:
            u, v = u0, v0
            if k >= 0:
                around_r += r
                around_g += g
                around_b += b
                if k > 0:
                    cell = i32(k if k > 4 else k - 1)
                    u += f32(cell % 3 - 1)
                    v += f32(cell // 3 - 1)
                r, g, b = _sample(source, channels, scale, ints, floats, record, u, v)
            elif inside:
                factor = word(program, middle, ENTRY_HEADER)
                r = color.sharpen(r, around_r, factor)
                g = color.sharpen(g, around_g, factor)
                b = color.sharpen(b, around_b, factor)
            begin = start if k >= 0 else middle
            end = middle if k >= 0 else stop
            r, g, b = run_program(program, begin, end, tables, table, u, v, r, g, b)
            k = i32(k - 1)
        return r, g, b

    return pixel


@scalar
def _encode_float32(x):
    return x


@scalar
def _encode_uint8(x):
    return np.uint8(color.store_byte(x))


@scalar
def _encode_float16(x):
    return np.uint16(cast.float16_bits(x))


@scalar
def _encode_bfloat16(x):
    return np.uint16(cast.bfloat16_bits(x))


_ENCODE = {FLOAT32: _encode_float32, UINT8: _encode_uint8, FLOAT16: _encode_float16, BFLOAT16: _encode_bfloat16}
_STORED = {FLOAT32: types.float32, UINT8: types.uint8, FLOAT16: types.uint16, BFLOAT16: types.uint16}
_SOURCES = {"uint8": types.uint8, "float32": types.float32}


def make_transform(functions: tuple[Any, ...], kind: int, neighbours: bool = False) -> Any:
    """Kernel function: sample, run the program and store, one thread a pixel; ``blockIdx.y`` is the image."""
    pixel = _make_pixel(functions, neighbours)
    encode = _ENCODE[kind]

    def transform(
        source, channels, scale, ints, floats, programs, program_words, tables, table_words, out, out_channels, planar
    ):  # fmt: skip
        image = i32(cuda.blockIdx.y)
        record = i32(image * RECORD_WORDS)
        height = word(ints, record, HEIGHT)
        width = word(ints, record, WIDTH)
        number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
        if number >= height * width:
            return
        program = i32(image * program_words)
        r, g, b = pixel(
            source, channels, scale, ints, floats, record, programs, program, i32(program + program_words), tables,
            i32(image * table_words), number
        )  # fmt: skip
        base = _wide(ints, record + OUTPUT)
        if planar == 1:
            at = base + np.int64(number)
            plane = np.int64(height * width)
        else:
            at = base + np.int64(number) * np.int64(out_channels)
            plane = np.int64(1)
        out[up(at)] = encode(r)
        if out_channels == 3:
            out[up(at + plane)] = encode(g)
            out[up(at + plane + plane)] = encode(b)

    return transform


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
    while at < stop and word(programs, at, 0) != f32(END):
        code = i32(word(programs, at, 0))
        if code == CONTRAST or code == AUTOCONTRAST or code == EQUALIZE:
            if i32(word(programs, at, ENTRY_HEADER + STATISTICS_SLOT)) == slot:
                return at
        at = i32(at + i32(word(programs, at, 1)))
    return stop


def make_statistics(functions: tuple[Any, ...], neighbours: bool = False) -> Any:
    """Kernel function: one statistics slot of every image that has it.

    Sums are integers, so that they do not depend on the order of the threads. The last block of an image to finish
    turns its sums into what the program reads, so that a slot is one launch.
    """
    pixel = _make_pixel(functions, neighbours)

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
        # Counts start at 0; for autocontrast the words hold keys, whose smallest is the neutral one of a maximum.
        neutral = _LOWEST if i32(word(programs, stop, 0)) == AUTOCONTRAST else i32(0)
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
            if code == CONTRAST:
                gray_channels = i32(word(programs, found[0], ENTRY_HEADER + 1))
                cuda.atomic.add(shared_sum, 0, statistics.to_fixed(color.gray(r, g, b, gray_channels)))
            elif code == AUTOCONTRAST:
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
        cuda.syncthreads()
        code = i32(word(programs, found[0], 0))
        if code == CONTRAST:
            if thread == 0:
                cuda.atomic.add(sums, image, shared_sum[0])
        elif code == AUTOCONTRAST:
            if thread < EXTREMES:
                cuda.atomic.max(extremes, image * EXTREMES + thread, shared_counts[thread])
        else:
            for k in range(thread, STATISTICS_WORDS, cuda.blockDim.x):
                if shared_counts[k] > 0:
                    cuda.atomic.add(counts, image * STATISTICS_WORDS + k, shared_counts[k])
        # Every thread's sums must be visible before the ticket says so.
        cuda.threadfence()
        cuda.syncthreads()
        if thread == 0:
            ticket = cuda.atomic.add(tickets, image, 1)
            last_block[0] = 1 if ticket == cuda.gridDim.x - 1 else 0
        cuda.syncthreads()
        if last_block[0] == 0:
            return
        cuda.threadfence()
        table = image * table_words + slot * STATISTICS_WORDS
        # Atomics read past the first-level cache, where another block's sums may be missing.
        if code == CONTRAST:
            if thread == 0:
                tables[table] = statistics.mean_of(cuda.atomic.add(sums, image, np.int64(0)), found[1])
        elif code == AUTOCONTRAST:
            if thread < 3:
                high = _from_key(cuda.atomic.max(extremes, image * EXTREMES + thread, _LOWEST))
                low = -_from_key(cuda.atomic.max(extremes, image * EXTREMES + 3 + thread, _LOWEST))
                low, gain = statistics.stretch_of(low, high)
                tables[table + 2 * thread] = low
                tables[table + 2 * thread + 1] = gain
        else:
            if thread < 3:
                first = image * STATISTICS_WORDS + LEVELS * thread
                last = i32(0)
                for level in range(LEVELS):
                    count = cuda.atomic.add(counts, first + level, 0)
                    last = count if count > 0 else last
                step = statistics.equalize_step(found[1], last)
                below = i32(0)
                for level in range(LEVELS):
                    tables[table + LEVELS * thread + level] = statistics.equalize_level(level, below, step)
                    below += cuda.atomic.add(counts, first + level, 0)

    return reduce


def mix(one, other, width, channels, elements, weights, starts, partners, boxes, out):
    """Kernel function: images mixed with others, one thread an element; ``blockIdx.y`` is the image."""
    image = i32(cuda.blockIdx.y)
    number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= word(elements, image, 0):
        return
    row = i32(word(width, image, 0) * channels)
    y = i32(number // row)
    x = i32(number - y * row) // channels
    at = up(word(starts, image, 0) + np.int64(number))
    b = other[up(word(partners, image, 0) + np.int64(number))]
    box = i32(image * 4)
    inside = (
        x >= word(boxes, box, 0) and y >= word(boxes, box, 1) and x < word(boxes, box, 2) and y < word(boxes, box, 3)
    )
    out[at] = b if inside else color.mix(one[at], b, word(weights, image, 0))


MIX_SIGNATURE = types.void(
    types.float32[::1], types.float32[::1], types.int32[::1], types.int32, types.int32[::1], types.float32[::1],
    types.int64[::1], types.int64[::1], types.int32[::1], types.float32[::1]
)  # fmt: skip

_COMMON = (types.int32, types.float32, types.int32[::1], types.float32[::1], types.float32[::1], types.int32,
           types.float32[::1], types.int32)  # fmt: skip


def transform_signature(source: str, kind: int) -> Any:
    """Types of :func:`make_transform`'s kernel for a source dtype and a kind of result."""
    return types.void(_SOURCES[source][::1], *_COMMON, _STORED[kind][::1], types.int32, types.int32)


def statistics_signature(source: str) -> Any:
    """Types of :func:`make_statistics`' kernel for a source dtype."""
    return types.void(
        _SOURCES[source][::1], *_COMMON, types.int32, types.int64[::1], types.int32[::1], types.int32[::1],
        types.int32[::1]
    )  # fmt: skip


def jit(function: Any, signature: Any, block: int | None = None) -> Any:
    """Compile a kernel for the present device; ``block`` where it must fit blocks of that many threads."""
    return cuda.jit(signature, fastmath=True, launch_bounds=block)(function)


def compile_ptx(function: Any, signature: Any, capability: tuple[int, int], block: int | None = None) -> str:
    """PTX of a kernel for a compute capability; needs no GPU."""
    ptx, _ = cuda.compile_ptx(function, signature, fastmath=True, launch_bounds=block, cc=capability)
    return str(ptx)
