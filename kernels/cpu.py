"""The CPU runtime's loops: one image at a time, a planar float32 row at a time, no GIL.

On a CPU the program runs with the operation loop outside and the pixel loop inside, so that LLVM vectorises each
formula; the formulas themselves are the scalar functions the CUDA kernel calls too.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, njit, types
from numba.extending import intrinsic

from . import cast, color, sampling, statistics
from .cpu_rows import copy, gathered, pointer, project_row, separable
from .layout import (
    AFFINE_COLOR,
    AUTOCONTRAST,
    BRIGHTNESS,
    CONTRAST,
    END,
    ENTRY_HEADER,
    EQUALIZE,
    FLOAT16,
    FLOAT32,
    GRAYSCALE,
    HEIGHT,
    HUE,
    INVERT,
    LEVELS,
    PAINT,
    POSTERIZE,
    SATURATION,
    SEPARABLE,
    SHARPNESS,
    SOLARIZE,
    STATISTICS_SLOT,
    STATISTICS_WORDS,
    UINT8,
    USER,
    WIDTH,
)
from .scalar import LOOP, f32, i32, loop

# Rows stored at a time: they lie in the first-level cache, and lines shared with others are few.
_STORED = 8

_LINE = 16  # float32 of a line of the caches

_ROW = types.CPointer(types.float32)
_ROW_FUNCTION = types.void(types.int32, types.float32, _ROW, _ROW, _ROW, _ROW, _ROW, types.int64)


@intrinsic
def _call_user(typing_context, address, index, value, r, g, b, y, x, n):
    """Call the ``_ROW_FUNCTION`` at an address: as an argument, a function takes Numba 10 us a call to know again."""

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(ir.VoidType(), [context.get_value_type(one) for one in _ROW_FUNCTION.args])
        function = builder.inttoptr(args[0], kind.as_pointer())
        rows = [pointer(context, builder, signature.args[k], args[k]) for k in range(3, 8)]
        builder.call(function, [args[1], args[2], *rows, args[8]])
        return context.get_dummy_value()

    return types.none(types.intp, types.int32, types.float32, r, g, b, y, x, types.int64), generate


@loop
def _run_row(program, start, stop, statistics_, user, y, height, r, g, b, xs, ys):
    """The entries ``start`` to ``stop`` of a program over one row."""
    n = r.size
    at = start
    while at < stop and program[at] != f32(END):
        code = i32(program[at])
        p = at + ENTRY_HEADER
        slot = i32(program[p + STATISTICS_SLOT]) * STATISTICS_WORDS
        if code == BRIGHTNESS:
            factor = program[p]
            for x in range(n):
                r[x] = color.brightness(r[x], factor)
                g[x] = color.brightness(g[x], factor)
                b[x] = color.brightness(b[x], factor)
        elif code == CONTRAST:
            factor = program[p]
            mean = statistics_[slot]
            for x in range(n):
                r[x] = color.blend(r[x], mean, factor)
                g[x] = color.blend(g[x], mean, factor)
                b[x] = color.blend(b[x], mean, factor)
        elif code == SATURATION:
            factor = program[p]
            for x in range(n):
                gray = color.luma(r[x], g[x], b[x])
                r[x] = color.blend(r[x], gray, factor)
                g[x] = color.blend(g[x], gray, factor)
                b[x] = color.blend(b[x], gray, factor)
        elif code == HUE:
            shift = program[p]
            for x in range(n):
                r[x], g[x], b[x] = color.shift_hue(r[x], g[x], b[x], shift)
        elif code == GRAYSCALE:
            for x in range(n):
                gray = color.luma(r[x], g[x], b[x])
                r[x] = gray
                g[x] = gray
                b[x] = gray
        elif code == INVERT:
            for x in range(n):
                r[x] = f32(1.0) - r[x]
                g[x] = f32(1.0) - g[x]
                b[x] = f32(1.0) - b[x]
        elif code == SOLARIZE:
            threshold = program[p]
            for x in range(n):
                r[x] = color.solarize(r[x], threshold)
                g[x] = color.solarize(g[x], threshold)
                b[x] = color.solarize(b[x], threshold)
        elif code == POSTERIZE:
            in_scale = program[p]
            top = program[p + 1]
            out_scale = program[p + 2]
            for x in range(n):
                r[x] = color.posterize(r[x], in_scale, top, out_scale)
                g[x] = color.posterize(g[x], in_scale, top, out_scale)
                b[x] = color.posterize(b[x], in_scale, top, out_scale)
        elif code == AUTOCONTRAST:
            low_r, gain_r = statistics_[slot], statistics_[slot + 1]
            low_g, gain_g = statistics_[slot + 2], statistics_[slot + 3]
            low_b, gain_b = statistics_[slot + 4], statistics_[slot + 5]
            for x in range(n):
                r[x] = color.stretch(r[x], low_r, gain_r)
                g[x] = color.stretch(g[x], low_g, gain_g)
                b[x] = color.stretch(b[x], low_b, gain_b)
        elif code == EQUALIZE:
            for x in range(n):
                r[x] = statistics_[slot + color.to_byte(r[x])]
                g[x] = statistics_[slot + LEVELS + color.to_byte(g[x])]
                b[x] = statistics_[slot + 2 * LEVELS + color.to_byte(b[x])]
        elif code == AFFINE_COLOR:
            scale_r, scale_g, scale_b = program[p], program[p + 1], program[p + 2]
            shift_r, shift_g, shift_b = program[p + 3], program[p + 4], program[p + 5]
            for x in range(n):
                r[x] = r[x] * scale_r + shift_r
                g[x] = g[x] * scale_g + shift_g
                b[x] = b[x] * scale_b + shift_b
        elif code == PAINT:
            _paint_row(program[p : p + 19], y, height, r, g, b, xs, ys)
        elif code == USER:
            project_row(program[p : p + 9], y, height, n, xs, ys)
            _call_user(user, i32(program[p + 9]), program[p + 10], r, g, b, ys, xs, n)
        at += i32(program[at + 1])


@loop
def _paint_row(p, y, height, r, g, b, xs, ys):
    """Color laid outside (or inside) a rectangle of an earlier frame, blended at its edges."""
    n = r.size
    project_row(p[:9], y, height, n, xs, ys)
    x0, y0, x1, y1, sharp_x, sharp_y = p[9], p[10], p[11], p[12], p[13], p[14]
    red, green, blue = p[15], p[16], p[17]
    inside = p[18]
    for x in range(n):
        cover = sampling.coverage(xs[x], x0, x1, sharp_x) * sampling.coverage(ys[x], y0, y1, sharp_y)
        keep = inside + (f32(1.0) - inside - inside) * cover
        paint = f32(1.0) - keep
        r[x] = r[x] * keep + red * paint
        g[x] = g[x] * keep + green * paint
        b[x] = b[x] * keep + blue * paint


@loop
def _next_stop(program, at, first_slot):
    """Position of the next entry from ``at`` that needs the whole grid, or of the end.

    That is one whose statistics are still to be computed, or one that reads neighbours.
    """
    while program[at] != f32(END):
        code = i32(program[at])
        if code == SHARPNESS:
            return at
        if code == CONTRAST or code == AUTOCONTRAST or code == EQUALIZE:
            if i32(program[at + ENTRY_HEADER + STATISTICS_SLOT]) >= first_slot:
                return at
        at += i32(program[at + 1])
    return at


@loop
def _sharpen(factor, plane, height, width, work):
    """Mix every pixel of a plane that has eight neighbours with its smoothed self, in place."""
    above = work[:width]
    present = work[width : 2 * width]
    copy(plane, above)
    for y in range(1, height - 1):
        row = plane[y * width : (y + 1) * width]
        below = plane[(y + 1) * width : (y + 2) * width]
        copy(row, present)
        for x in range(1, width - 1):
            around = above[x - 1] + above[x] + above[x + 1] + present[x - 1] + present[x + 1]
            around += below[x - 1] + below[x] + below[x + 1]
            row[x] = color.sharpen(present[x], around, factor)
        copy(present, above)


@loop
def _reduce(program, at, r, g, b, statistics_, counts):
    """Statistics of the whole grid for the entry at ``at``, into its slot; ``counts`` is work space for a histogram."""
    code = i32(program[at])
    p = at + ENTRY_HEADER
    slot = i32(program[p + STATISTICS_SLOT]) * STATISTICS_WORDS
    if code == CONTRAST:
        channels = i32(program[p + 1])
        total = np.int64(0)
        for k in range(r.size):
            total += statistics.to_fixed(color.gray(r[k], g[k], b[k], channels))
        statistics_[slot] = statistics.mean_of(total, r.size)
        return
    for c in range(3):
        plane = r if c == 0 else g if c == 1 else b
        if code == AUTOCONTRAST:
            low = plane[0]
            high = plane[0]
            for k in range(plane.size):
                low = min(low, plane[k])
                high = max(high, plane[k])
            low, gain = statistics.stretch_of(low, high)
            statistics_[slot + 2 * c] = low
            statistics_[slot + 2 * c + 1] = gain
        else:
            for level in range(LEVELS):
                counts[level] = 0
            for k in range(plane.size):
                counts[color.to_byte(plane[k])] += 1
            last = i32(0)
            for level in range(LEVELS):
                if counts[level] > 0:
                    last = counts[level]
            step = statistics.equalize_step(i32(plane.size), last)
            below = i32(0)
            for level in range(LEVELS):
                statistics_[slot + LEVELS * c + level] = statistics.equalize_level(level, below, step)
                below += counts[level]


@intrinsic
def _address(typing_context, array):
    """Where an array begins."""

    def generate(context, builder, signature, args):
        return builder.ptrtoint(pointer(context, builder, signature.args[0], args[0]), ir.IntType(64))

    return types.int64(array), generate


@intrinsic
def _stream_line(typing_context, values, out, k):
    """``out[k:k + 16] = values[k:k + 16]`` past the caches; that part of ``out`` must be a line of them."""

    def generate(context, builder, signature, args):
        line = ir.VectorType(ir.FloatType(), _LINE)
        value = builder.load(pointer(context, builder, signature.args[0], args[0], args[2], line))
        value.align = 4
        store = builder.store(value, pointer(context, builder, signature.args[1], args[1], args[2], line))
        store.align = 4 * _LINE
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.none(values, out, k), generate


@intrinsic
def _finish_streaming(typing_context):
    """Let other threads see what was streamed before what comes after: such stores may overtake others."""

    def generate(context, builder, signature, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.none(), generate


@loop
def _stream(values, out):
    """Fill an array that will not be in the caches when it is read: lines of it are written unread."""
    lead = min(out.size, -(_address(out) // 4) % _LINE)
    whole = out.size - (out.size - lead) % _LINE
    copy(values, out[:lead])
    for k in range(lead, whole, _LINE):
        _stream_line(values, out, k)
    copy(values[whole:], out[whole:])


@loop
def _store_plane(row, out, kind, streamed):
    """One channel of some rows, cast, to consecutive elements."""
    n = row.size
    if kind == FLOAT32 and streamed and _address(out) % 4 == 0:  # as not every array that a user made
        _stream(row, out)
    elif kind == FLOAT32:
        copy(row, out)
    elif kind == UINT8:
        for x in range(n):
            out[x] = color.store_byte(row[x])
    elif kind == FLOAT16:
        for x in range(n):
            out[x] = cast.float16_bits(row[x])
    else:
        for x in range(n):
            out[x] = cast.bfloat16_bits(row[x])


@loop
def _store_pixels(r, g, b, out, kind):
    """Rows of color pixels, cast, channels together."""
    n = r.size
    if kind == FLOAT32:
        for x in range(n):
            out[3 * x] = r[x]
            out[3 * x + 1] = g[x]
            out[3 * x + 2] = b[x]
    elif kind == UINT8:
        for x in range(n):
            out[3 * x] = color.store_byte(r[x])
            out[3 * x + 1] = color.store_byte(g[x])
            out[3 * x + 2] = color.store_byte(b[x])
    elif kind == FLOAT16:
        for x in range(n):
            out[3 * x] = cast.float16_bits(r[x])
            out[3 * x + 1] = cast.float16_bits(g[x])
            out[3 * x + 2] = cast.float16_bits(b[x])
    else:
        for x in range(n):
            out[3 * x] = cast.bfloat16_bits(r[x])
            out[3 * x + 1] = cast.bfloat16_bits(g[x])
            out[3 * x + 2] = cast.bfloat16_bits(b[x])


@loop
def _store_rows(r, g, b, out, at, plane, out_channels, kind, planar, streamed):
    """Rows of the result from pixel ``at`` on, in its layout; ``plane`` is the number of its pixels."""
    n = r.size
    if planar or out_channels == 1:
        for c in range(out_channels):
            start = c * plane + at
            _store_plane(r if c == 0 else g if c == 1 else b, out[start : start + n], kind, streamed)
    else:
        _store_pixels(r, g, b, out[3 * at : 3 * (at + n)], kind)


def _make_run(stamp: int) -> Any:
    @njit(cache=True, **LOOP)
    def run_image(
        source, channels, scale, record, words, program, first_slot, statistics_, user, planes, floats, ints, packed,
        out, out_channels, kind, planar, streamed
    ):  # fmt: skip
        """Sample, run the program, store: one image through one pass.

        With statistics still to compute (``first_slot`` on) or neighbours to read, the whole grid is kept in
        ``planes`` meanwhile, otherwise a few rows. An empty ``out`` makes a pass for its statistics only.
        """
        height = record[HEIGHT]
        width = record[WIDTH]
        stop = _next_stop(program, 0, first_slot)
        whole = program[stop] != f32(END)
        xs = floats[:width]
        ys = floats[width : 2 * width]
        work = floats[2 * width :]
        start = 0
        if whole:
            if record[SEPARABLE] == 1:
                separable(source, channels, scale, record, words, 0, height, planes, work, ints)
            else:
                gathered(source, channels, scale, record, words, 0, height, planes, work, ints, packed)
            while program[stop] != f32(END):
                for y in range(height):
                    row = slice(y * width, (y + 1) * width)
                    _run_row(
                        program, start, stop, statistics_, user, y, height,
                        planes[0, row], planes[1, row], planes[2, row], xs, ys
                    )  # fmt: skip
                grid = slice(0, height * width)
                after = stop + i32(program[stop + 1])
                if i32(program[stop]) == SHARPNESS:
                    for c in range(3):
                        _sharpen(program[stop + ENTRY_HEADER], planes[c, grid], height, width, floats)
                    start = after
                else:
                    _reduce(program, stop, planes[0, grid], planes[1, grid], planes[2, grid], statistics_, ints)
                    start = stop
                stop = _next_stop(program, after, first_slot)
        if out.size == 0:
            return stamp
        # Rows are sampled in runs, so that tap tables are laid once a run; a run stays within the planes.
        run = height if whole else min(height, planes.shape[1] // width)
        for y0 in range(0, height, run):
            y1 = min(y0 + run, height)
            if not whole:
                if record[SEPARABLE] == 1:
                    separable(source, channels, scale, record, words, y0, y1, planes, work, ints)
                else:
                    gathered(source, channels, scale, record, words, y0, y1, planes, work, ints, packed)
            for y in range(y0, y1, _STORED):
                first = (y - y0) * width
                rows = min(_STORED, y1 - y)
                for k in range(rows):
                    row = slice(first + k * width, first + (k + 1) * width)
                    r, g, b = planes[0, row], planes[1, row], planes[2, row]
                    _run_row(program, start, program.size, statistics_, user, y + k, height, r, g, b, xs, ys)
                done = slice(first, first + rows * width)
                r, g, b = planes[0, done], planes[1, done], planes[2, done]
                _store_rows(r, g, b, out, y * width, height * width, out_channels, kind, planar, streamed)
        if streamed:
            _finish_streaming()
        return stamp

    return run_image


# Numba's disk cache watches this file only. The checksum of all kernels, captured by the compiled function, makes
# a change in any of them a new cache entry.
run_image = _make_run(zlib.crc32(b"".join(p.read_bytes() for p in sorted(Path(__file__).parent.glob("*.py")))))


@loop
def mix_image(one, other, width, channels, weight, box, out):
    """One image mixed with another; inside the box (x0, y0, x1, y1) the other alone is shown."""
    row = width * channels
    left = box[0] * channels
    right = box[2] * channels
    for at in range(0, out.size, row):
        a = one[at : at + row]
        b = other[at : at + row]
        c = out[at : at + row]
        for k in range(row):
            c[k] = color.mix(a[k], b[k], weight)
        y = at // row
        if y >= box[1] and y < box[3]:
            copy(b[left:right], c[left:right])


def make_user_row(chain: Any) -> Any:
    """Row loop around ``chain(index, r, g, b, y, x, value)``; ``run_image`` is given its ``address``."""
    from numba import carray

    @cfunc(_ROW_FUNCTION)
    def user_row(index, value, r_, g_, b_, y_, x_, n):
        r, g, b, y, x = carray(r_, n), carray(g_, n), carray(b_, n), carray(y_, n), carray(x_, n)
        half = f32(0.5)
        for k in range(n):
            r[k], g[k], b[k] = chain(index, r[k], g[k], b[k], y[k] - half, x[k] - half, value)

    return user_row
