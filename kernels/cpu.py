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
from numba.extending import intrinsic, overload

from . import cast, colour, sampling, statistics
from .layout import (
    AFFINE_COLOR,
    AUTOCONTRAST,
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
    MATRIX,
    PAINT,
    POSTERIZE,
    SATURATION,
    SEPARABLE,
    SHARPNESS,
    SOLARIZE,
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
from .scalar import FASTMATH, f32, i32, loop

u32 = np.uint32
up = np.uintp  # unsigned indices: no wrap-around check in the loop

# A load of four bytes may touch this many elements behind the last pixel.
SOURCE_SLACK = 3


@intrinsic
def load_bytes(typing_context, array, index):
    """Four consecutive bytes of a uint8 array as one little-endian uint32."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(32).as_pointer())
        value = builder.load(address)
        value.align = 1
        return value

    return types.uint32(array, index), generate


@intrinsic
def add_two_quads(typing_context, out, k, fresh, row, a, wa, b, wb):
    """``out[k:k + 4] = wa * row[a:a + 4] + wb * row[b:b + 4]``, added to what is there unless ``fresh``.

    Numba has LLVM's vectoriser of straight-line code turned off, and a pixel's channels are just that.
    """

    def generate(context, builder, signature, args):
        vector = ir.VectorType(ir.FloatType(), 4)
        kinds = dict(zip(("out", "k", "fresh", "row", "a", "wa", "b", "wb"), signature.args, strict=True))
        values = dict(zip(kinds, args, strict=True))

        def address(array, index):
            data = context.make_array(kinds[array])(context, builder, values[array]).data
            return builder.bitcast(builder.gep(data, [values[index]]), vector.as_pointer())

        def weighted(index, weight):
            pixel = builder.load(address("row", index))
            pixel.align = 4
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), values[weight], ir.IntType(32)(0))
            splat = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), 4), [0] * 4))
            return builder.fmul(pixel, splat, flags=("contract",))

        before = builder.load(address("out", "k"))
        before.align = 4
        start = builder.select(values["fresh"], ir.Constant(vector, [0.0] * 4), before)
        total = builder.fadd(weighted("a", "wa"), start, flags=("contract",))
        total = builder.fadd(weighted("b", "wb"), total, flags=("contract",))
        builder.store(total, address("out", "k")).align = 4
        return context.get_dummy_value()

    return types.none(out, k, types.boolean, row, a, wa, b, wb), generate


@intrinsic
def split_four_quads(typing_context, quads, k, r, g, b, x):
    """First three lanes of the four quads at ``k`` to ``r[x:x + 4]``, ``g[x:x + 4]`` and ``b[x:x + 4]``."""

    def generate(context, builder, signature, args):
        vector = ir.VectorType(ir.FloatType(), 4)

        def address(position, index, step=0):
            data = context.make_array(signature.args[position])(context, builder, args[position]).data
            at = builder.add(args[index], args[index].type(step))
            return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())

        def shuffle(one, other, lanes):
            return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), 4), lanes))

        rows = [builder.load(address(0, 1, 4 * step)) for step in range(4)]
        for row in rows:
            row.align = 4
        red_green_1, red_green_2 = (shuffle(rows[i], rows[i + 1], [0, 4, 1, 5]) for i in (0, 2))
        blue_1, blue_2 = (shuffle(rows[i], rows[i + 1], [2, 6, 3, 7]) for i in (0, 2))
        planes = (
            shuffle(red_green_1, red_green_2, [0, 1, 4, 5]),
            shuffle(red_green_1, red_green_2, [2, 3, 6, 7]),
            shuffle(blue_1, blue_2, [0, 1, 4, 5]),
        )
        for position, plane in zip((2, 3, 4), planes, strict=True):
            builder.store(plane, address(position, 5)).align = 4
        return context.get_dummy_value()

    return types.none(quads, k, r, g, b, x), generate


def _add_taps(source, channels, columns, rows, wx, wy, packed, r, g, b):
    """Add one tap of each pixel of a row; the overload is the code."""


@overload(_add_taps, jit_options={"fastmath": FASTMATH, "error_model": "numpy"})
def _add_taps_overload(source, channels, columns, rows, wx, wy, packed, r, g, b):
    """Bytes go through a row of packed pixels, so that all but the load vectorises (measured: 3x)."""

    def from_bytes(source, channels, columns, rows, wx, wy, packed, r, g, b):
        for x in range(r.size):
            packed[x] = load_bytes(source, columns[x] + rows[x])
        for x in range(r.size):
            weight = wx[x] * wy[x]
            pixel = packed[x]
            r[x] += weight * f32(i32(pixel & u32(255)))
            g[x] += weight * f32(i32((pixel >> u32(8)) & u32(255)))
            b[x] += weight * f32(i32((pixel >> u32(16)) & u32(255)))

    def from_floats(source, channels, columns, rows, wx, wy, packed, r, g, b):
        second = up(1 if channels == 3 else 0)
        for x in range(r.size):
            weight = wx[x] * wy[x]
            at = up(columns[x] + rows[x])
            r[x] += weight * source[at]
            g[x] += weight * source[at + second]
            b[x] += weight * source[at + second + second]

    return from_bytes if source.dtype == types.uint8 else from_floats


@loop
def _lay_taps(positions, support, filter, low, high, step, taps, scale, weights, offsets, total):
    """Weights and element offsets of the taps of every position along one axis.

    ``weights`` and ``offsets`` hold ``taps`` rows of ``positions.size``; the weights of a position add up to ``scale``.
    """
    n = positions.size
    low_f = f32(low)
    high_f = f32(high)
    inverse = f32(1.0) / support
    reach = sampling.reach(filter, support, taps)
    for x in range(n):
        positions[x] = sampling.tap_centre(positions[x], filter, low_f, high_f)
        total[x] = f32(0.0)
    for t in range(taps):
        weight = weights[t * n : (t + 1) * n]
        offset = offsets[t * n : (t + 1) * n]
        step_t = f32(t)
        if filter == GAUSSIAN:
            for x in range(n):
                tap = sampling.first_tap(positions[x], reach) + step_t
                weight[x] = sampling.gaussian_weight(tap, positions[x], inverse)
        else:
            for x in range(n):
                tap = sampling.first_tap(positions[x], reach) + step_t
                weight[x] = sampling.tap_weight(tap, positions[x], inverse, filter, low_f, high_f)
        for x in range(n):
            tap = sampling.first_tap(positions[x], reach) + step_t
            total[x] += weight[x]
            offset[x] = sampling.tap_index(tap, filter, low_f, high_f) * step
    for x in range(n):
        total[x] = scale / total[x]
    for t in range(taps):
        weight = weights[t * n : (t + 1) * n]
        for x in range(n):
            weight[x] *= total[x]


@loop
def _mix_rows(source, base, offsets, weights, y, height, taps, out):
    """Weighted sum of source rows, interleaved: the vertical pass, four rows at a time."""
    n = out.size
    for t in range(0, taps, 4):
        last = taps - 1
        a0 = base + offsets[t * height + y]
        a1 = base + offsets[min(t + 1, last) * height + y]
        a2 = base + offsets[min(t + 2, last) * height + y]
        a3 = base + offsets[min(t + 3, last) * height + y]
        w0 = weights[t * height + y]
        w1 = weights[(t + 1) * height + y] if t + 1 < taps else f32(0.0)
        w2 = weights[(t + 2) * height + y] if t + 2 < taps else f32(0.0)
        w3 = weights[(t + 3) * height + y] if t + 3 < taps else f32(0.0)
        s0 = source[a0 : a0 + n]
        s1 = source[a1 : a1 + n]
        s2 = source[a2 : a2 + n]
        s3 = source[a3 : a3 + n]
        if t == 0 and taps <= 2:
            for k in range(n):
                out[k] = w0 * f32(s0[k]) + w1 * f32(s1[k])
        elif t == 0:
            for k in range(n):
                out[k] = w0 * f32(s0[k]) + w1 * f32(s1[k]) + w2 * f32(s2[k]) + w3 * f32(s3[k])
        else:
            for k in range(n):
                out[k] += w0 * f32(s0[k]) + w1 * f32(s1[k]) + w2 * f32(s2[k]) + w3 * f32(s3[k])


@loop
def _mix_columns(row, first, offsets, weights, taps, quads, r, g, b):
    """Weighted sum of the pixels of an interleaved row: the horizontal pass, two taps at a time."""
    width = r.size
    for t in range(0, taps, 2):
        # An odd last tap is paired with itself, at weight zero.
        u = min(t + 1, taps - 1)
        paired = f32(1.0) if t + 1 < taps else f32(0.0)
        offset_t = offsets[t * width : (t + 1) * width]
        offset_u = offsets[u * width : (u + 1) * width]
        weight_t = weights[t * width : (t + 1) * width]
        weight_u = weights[u * width : (u + 1) * width]
        if t == 0:
            for x in range(width):
                at, beside = up(offset_t[x] - first), up(offset_u[x] - first)
                add_two_quads(quads, up(4 * x), True, row, at, weight_t[x], beside, weight_u[x] * paired)
        else:
            for x in range(width):
                at, beside = up(offset_t[x] - first), up(offset_u[x] - first)
                add_two_quads(quads, up(4 * x), False, row, at, weight_t[x], beside, weight_u[x] * paired)
    whole = width - width % 4
    for x in range(0, whole, 4):
        split_four_quads(quads, up(4 * x), r, g, b, up(x))
    for x in range(whole, width):
        k = up(4 * x)
        r[x] = quads[k]
        g[x] = quads[k + up(1)]
        b[x] = quads[k + up(2)]


@loop
def _separable(source, channels, scale, record, words, y0, y1, planes, floats, ints):
    """Rows ``y0`` to ``y1`` of a grid whose x depends on the column only: two one-dimensional passes."""
    height = record[HEIGHT]
    width = record[WIDTH]
    filter = record[FILTER]
    nx = record[TAPS]
    ny = record[TAPS + 1]
    rows = y1 - y0
    # Work space: tap tables of both axes, one interleaved source row, one row of quads.
    ys = floats[:height]
    wy = floats[height : height * (ny + 1)]
    end = height * (ny + 1)
    xs = floats[end : end + width]
    wx = floats[end + width : end + width * (nx + 1)]
    end += width * (nx + 1)
    total = floats[end : end + max(width, height)]
    end += max(width, height)
    quads = floats[end : end + 4 * width]
    end += 4 * width
    oy = ints[: height * ny]
    ox = ints[height * ny : height * ny + width * nx]
    for y in range(height):
        v = f32(y) - f32(height - 1) * f32(0.5)
        ys[y] = words[MATRIX + 4] * v + words[MATRIX + 5]
    for x in range(width):
        u = f32(x) - f32(width - 1) * f32(0.5)
        xs[x] = words[MATRIX] * u + words[MATRIX + 2]
    x_low, y_low, x_high, y_high = record[WINDOW], record[WINDOW + 1], record[WINDOW + 2], record[WINDOW + 3]
    _lay_taps(ys, words[SUPPORT + 1], filter, y_low, y_high, record[STRIDE], ny, scale, wy, oy, total[:height])
    _lay_taps(xs, words[SUPPORT], filter, x_low, x_high, channels, nx, f32(1.0), wx, ox, total[:width])
    first = ox[0]
    last = ox[0]
    for k in range(width * nx):
        first = min(first, ox[k])
        last = max(last, ox[k])
    mixed = floats[end : end + last - first + channels]
    padded = floats[end : end + last - first + 4]
    padded[last - first + channels :] = f32(0.0)  # read into lanes nobody uses; garbage there may be slow to multiply
    for y in range(y0, y1):
        _mix_rows(source, first, oy, wy, y, height, ny, mixed)
        at = (y - y0) * width
        r = planes[0, at : at + width]
        g = planes[1, at : at + width]
        b = planes[2, at : at + width]
        _mix_columns(padded, first, ox, wx, nx, quads, r, g, b)
        if channels == 1:
            g[:] = r
            b[:] = r
    return rows


@loop
def _gathered(source, channels, scale, record, words, y0, y1, planes, floats, ints, packed):
    """Rows ``y0`` to ``y1`` of any grid: two-dimensional taps, a row of pixels at a time."""
    height = record[HEIGHT]
    width = record[WIDTH]
    filter = record[FILTER]
    nx = record[TAPS]
    ny = record[TAPS + 1]
    xs = floats[:width]
    ys = floats[width : 2 * width]
    total = floats[2 * width : 3 * width]
    wx = floats[3 * width : (3 + nx) * width]
    wy = floats[(3 + nx) * width : (3 + nx + ny) * width]
    ox = ints[: width * nx]
    oy = ints[width * nx : width * (nx + ny)]
    m = words[MATRIX : MATRIX + 9]
    x_low, y_low, x_high, y_high = record[WINDOW], record[WINDOW + 1], record[WINDOW + 2], record[WINDOW + 3]
    for y in range(y0, y1):
        _project_row(m, y, height, width, xs, ys)
        _lay_taps(xs, words[SUPPORT], filter, x_low, x_high, channels, nx, f32(1.0), wx, ox, total)
        _lay_taps(ys, words[SUPPORT + 1], filter, y_low, y_high, record[STRIDE], ny, scale, wy, oy, total)
        at = (y - y0) * width
        r = planes[0, at : at + width]
        g = planes[1, at : at + width]
        b = planes[2, at : at + width]
        for x in range(width):
            r[x] = f32(0.0)
            g[x] = f32(0.0)
            b[x] = f32(0.0)
        for j in range(ny):
            for i in range(nx):
                cx = slice(i * width, (i + 1) * width)
                cy = slice(j * width, (j + 1) * width)
                _add_taps(source, channels, ox[cx], oy[cy], wx[cx], wy[cy], packed[:width], r, g, b)
        if channels == 1:
            g[:] = r
            b[:] = r


@loop
def _project_row(m, y, height, width, xs, ys):
    """Coordinates, in the frame ``m`` leads to, of the pixels of row ``y`` of a grid."""
    v = f32(y) - f32(height - 1) * f32(0.5)
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8]
    left = f32(width - 1) * f32(0.5)
    for x in range(width):
        u = f32(x) - left
        xs[x] = sampling.project(m0, m1, m2, m6, m7, m8, u, v)
        ys[x] = sampling.project(m3, m4, m5, m6, m7, m8, u, v)


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
                r[x] = colour.brightness(r[x], factor)
                g[x] = colour.brightness(g[x], factor)
                b[x] = colour.brightness(b[x], factor)
        elif code == CONTRAST:
            factor = program[p]
            mean = statistics_[slot]
            for x in range(n):
                r[x] = colour.blend(r[x], mean, factor)
                g[x] = colour.blend(g[x], mean, factor)
                b[x] = colour.blend(b[x], mean, factor)
        elif code == SATURATION:
            factor = program[p]
            for x in range(n):
                grey = colour.luma(r[x], g[x], b[x])
                r[x] = colour.blend(r[x], grey, factor)
                g[x] = colour.blend(g[x], grey, factor)
                b[x] = colour.blend(b[x], grey, factor)
        elif code == HUE:
            shift = program[p]
            for x in range(n):
                r[x], g[x], b[x] = colour.shift_hue(r[x], g[x], b[x], shift)
        elif code == GRAYSCALE:
            for x in range(n):
                grey = colour.luma(r[x], g[x], b[x])
                r[x] = grey
                g[x] = grey
                b[x] = grey
        elif code == INVERT:
            for x in range(n):
                r[x] = f32(1.0) - r[x]
                g[x] = f32(1.0) - g[x]
                b[x] = f32(1.0) - b[x]
        elif code == SOLARIZE:
            threshold = program[p]
            for x in range(n):
                r[x] = colour.solarize(r[x], threshold)
                g[x] = colour.solarize(g[x], threshold)
                b[x] = colour.solarize(b[x], threshold)
        elif code == POSTERIZE:
            in_scale = program[p]
            top = program[p + 1]
            out_scale = program[p + 2]
            for x in range(n):
                r[x] = colour.posterize(r[x], in_scale, top, out_scale)
                g[x] = colour.posterize(g[x], in_scale, top, out_scale)
                b[x] = colour.posterize(b[x], in_scale, top, out_scale)
        elif code == AUTOCONTRAST:
            low_r, gain_r = statistics_[slot], statistics_[slot + 1]
            low_g, gain_g = statistics_[slot + 2], statistics_[slot + 3]
            low_b, gain_b = statistics_[slot + 4], statistics_[slot + 5]
            for x in range(n):
                r[x] = colour.stretch(r[x], low_r, gain_r)
                g[x] = colour.stretch(g[x], low_g, gain_g)
                b[x] = colour.stretch(b[x], low_b, gain_b)
        elif code == EQUALIZE:
            for x in range(n):
                r[x] = statistics_[slot + colour.to_byte(r[x])]
                g[x] = statistics_[slot + 256 + colour.to_byte(g[x])]
                b[x] = statistics_[slot + 512 + colour.to_byte(b[x])]
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
            _project_row(program[p : p + 9], y, height, n, xs, ys)
            user(i32(program[p + 9]), program[p + 10], r.ctypes, g.ctypes, b.ctypes, ys.ctypes, xs.ctypes, n)
        at += i32(program[at + 1])


@loop
def _paint_row(p, y, height, r, g, b, xs, ys):
    """Colour laid outside (or inside) a rectangle of an earlier frame, blended at its edges."""
    n = r.size
    _project_row(p[:9], y, height, n, xs, ys)
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
    above[:] = plane[:width]
    for y in range(1, height - 1):
        row = plane[y * width : (y + 1) * width]
        below = plane[(y + 1) * width : (y + 2) * width]
        present[:] = row
        for x in range(1, width - 1):
            around = above[x - 1] + above[x] + above[x + 1] + present[x - 1] + present[x + 1]
            around += below[x - 1] + below[x] + below[x + 1]
            row[x] = colour.sharpen(present[x], around, factor)
        above[:] = present


@loop
def _reduce(program, at, r, g, b, statistics_):
    """Statistics of the whole grid for the entry at ``at``, into its slot."""
    code = i32(program[at])
    p = at + ENTRY_HEADER
    slot = i32(program[p + STATISTICS_SLOT]) * STATISTICS_WORDS
    if code == CONTRAST:
        channels = i32(program[p + 1])
        total = np.int64(0)
        for k in range(r.size):
            total += statistics.to_fixed(colour.grey(r[k], g[k], b[k], channels))
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
            counts = np.zeros(256, np.int32)
            for k in range(plane.size):
                counts[colour.to_byte(plane[k])] += 1
            last = i32(0)
            for level in range(256):
                if counts[level] > 0:
                    last = counts[level]
            step = statistics.equalize_step(i32(plane.size), last)
            below = i32(0)
            for level in range(256):
                statistics_[slot + 256 * c + level] = statistics.equalize_level(level, below, step)
                below += counts[level]


@loop
def _store_plane(row, out, kind):
    """One channel of one row, cast, to consecutive elements."""
    n = row.size
    if kind == FLOAT32:
        for x in range(n):
            out[x] = row[x]
    elif kind == UINT8:
        for x in range(n):
            out[x] = colour.store_byte(row[x])
    elif kind == FLOAT16:
        for x in range(n):
            out[x] = cast.float16_bits(row[x])
    else:
        for x in range(n):
            out[x] = cast.bfloat16_bits(row[x])


@loop
def _store_pixels(r, g, b, out, kind):
    """A row of colour pixels, cast, channels together."""
    n = r.size
    if kind == FLOAT32:
        for x in range(n):
            out[3 * x] = r[x]
            out[3 * x + 1] = g[x]
            out[3 * x + 2] = b[x]
    elif kind == UINT8:
        for x in range(n):
            out[3 * x] = colour.store_byte(r[x])
            out[3 * x + 1] = colour.store_byte(g[x])
            out[3 * x + 2] = colour.store_byte(b[x])
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
def _store_row(r, g, b, out, y, height, out_channels, kind, planar):
    """One row of the result, in its layout."""
    n = r.size
    if planar or out_channels == 1:
        for c in range(out_channels):
            at = (c * height + y) * n
            _store_plane(r if c == 0 else g if c == 1 else b, out[at : at + n], kind)
    else:
        _store_pixels(r, g, b, out[3 * y * n : 3 * (y + 1) * n], kind)


def _make_run(stamp: int) -> Any:
    @njit(nogil=True, cache=True, fastmath=FASTMATH, error_model="numpy")
    def run_image(
        source, channels, scale, record, words, program, first_slot, statistics_, user, planes, floats, ints, packed,
        out, out_channels, kind, planar
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
                _separable(source, channels, scale, record, words, 0, height, planes, work, ints)
            else:
                _gathered(source, channels, scale, record, words, 0, height, planes, work, ints, packed)
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
                    _reduce(program, stop, planes[0, grid], planes[1, grid], planes[2, grid], statistics_)
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
                    _separable(source, channels, scale, record, words, y0, y1, planes, work, ints)
                else:
                    _gathered(source, channels, scale, record, words, y0, y1, planes, work, ints, packed)
            for y in range(y0, y1):
                row = slice((y - y0) * width, (y - y0 + 1) * width)
                r, g, b = planes[0, row], planes[1, row], planes[2, row]
                _run_row(program, start, program.size, statistics_, user, y, height, r, g, b, xs, ys)
                _store_row(r, g, b, out, y, height, out_channels, kind, planar)
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
            c[k] = colour.mix(a[k], b[k], weight)
        y = at // row
        if y >= box[1] and y < box[3]:
            c[left:right] = b[left:right]


_ROW = types.CPointer(types.float32)
_ROW_FUNCTION = types.void(types.int32, types.float32, _ROW, _ROW, _ROW, _ROW, _ROW, types.int64)


@cfunc(_ROW_FUNCTION)
def no_user(index, value, r, g, b, y, x, n):
    """Stand-in where a plan has no user function."""


def make_user_row(chain: Any) -> Any:
    """Row loop around ``chain(index, r, g, b, y, x, value)``, with the address ``run_image`` calls it by."""
    from numba import carray

    @cfunc(_ROW_FUNCTION)
    def user_row(index, value, r_, g_, b_, y_, x_, n):
        r, g, b, y, x = carray(r_, n), carray(g_, n), carray(b_, n), carray(y_, n), carray(x_, n)
        half = f32(0.5)
        for k in range(n):
            r[k], g[k], b[k] = chain(index, r[k], g[k], b[k], y[k] - half, x[k] - half, value)

    return user_row
