"""Sampling of planes of luma and chroma, each at the size it has, and conversion to RGB at the result's size.

Two passes as in :mod:`.sample`, in fixed point: samples and their sums have 6 or 7 bits after the point, weights 15.
The vertical pass leaves 16 rows, which are turned, so that a vector of the horizontal pass holds one value of each row.
Its sums are turned back, 64 rows of luma and of chroma, and converted.

A position of the image is the same position of luma, and half of it in chroma that is subsampled.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..compiled import NativeFunction
from ..lang import cgutils, intrinsic, ir, types
from ..layout import CUBIC_CLAMPED, CUBIC_RENORMALIZED, LANCZOS
from ..sampling import reach
from ..scalar import f32, floor, i32, loop, up
from ..yuv import jfif_rgb
from .intrinsics import bytes_at, check_place, floats_of, ints_of, pointer, record_at, shorts_in, shuffle, spread
from .sample import SAMPLE, call_lay_taps

i64 = np.int64

_ROWS: Final = 16  # values of a vector
_PARTS: Final = 4  # vectors that are summed together: of 64 rows of luma, or of 32 rows of each plane of chroma
_STEP: Final = _PARTS * _ROWS
_CHUNK: Final = 1024  # columns that the vertical pass computes before they are turned, see sample.py
_WEIGHT_BITS: Final = 15  # of a weight
_MOST = f32((1 << _WEIGHT_BITS) - 1)  # the largest weight, in place of 1
_BITS: Final = 6  # after the point of a sum

#: Bytes after the last sample of a plane that may be read.
PLANAR_SLACK: Final = _STEP - 1

_SHORT, _INT = ir.IntType(16), ir.IntType(32)
_SHORTS, _BYTES = ir.VectorType(_SHORT, _ROWS), ir.VectorType(ir.IntType(8), _ROWS)


# -- vectors -----------------------------------------------------------------------------------------------------------


def _constant(value: int) -> Any:
    return ir.Constant(_SHORTS, [value] * _ROWS)


def _weighted(builder: Any, values: Any, weight: Any) -> Any:
    """Upper halves of the products of 16-bit values, which have twice as many bits."""
    wide = ir.VectorType(_INT, _ROWS)
    product = builder.mul(builder.sext(values, wide), builder.sext(weight, wide))
    return builder.trunc(builder.ashr(product, ir.Constant(wide, [16] * _ROWS)), _SHORTS)


class _Arrays:
    """Loads and stores of an intrinsic's array arguments."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self._context, self.builder, self._kinds, self._args = context, builder, signature.args, args

    def _place(self, position: int, index: Any, kind: Any) -> Any:
        array = self._context.make_array(self._kinds[position])(self._context, self.builder, self._args[position])
        count = index.type(getattr(kind, "count", 1))
        check_place(self.builder, index, count, self.builder.extract_value(array.shape, 0))
        return pointer(self._context, self.builder, self._kinds[position], self._args[position], index, kind)

    def load(self, position: int, index: Any, kind: Any) -> Any:
        """Load a vector of elements from one on, or an element."""
        value = self.builder.load(self._place(position, index, kind))
        value.align = 1
        return value

    def store(self, value: Any, position: int, index: Any) -> None:
        """Store a vector from an element on."""
        self.builder.store(value, self._place(position, index, value.type)).align = 2

    def sums(self, first: Any, step: Any, taps: Any, shift: Any, values: Any) -> list[Any]:
        """Weighted sums over the taps at ``first``, ``first + step``, ... of offsets (1) and weights (2).

        ``values`` loads a tap's vectors at its offset. The element of weights after the last tap's is added, and the
        sums are shifted.
        """
        builder = self.builder
        last = builder.add(first, builder.mul(step, taps))
        bias = spread(builder, self.load(2, last, _SHORT), _ROWS)
        totals = [cgutils.alloca_once_value(builder, bias) for _ in range(_PARTS)]
        at = cgutils.alloca_once_value(builder, first)
        with cgutils.for_range(builder, taps):
            here = builder.load(at)
            offset = builder.sext(self.load(1, here, _INT), first.type)
            weight = spread(builder, self.load(2, here, _SHORT), _ROWS)
            for value, total in zip(values(offset), totals, strict=True):
                builder.store(builder.add(builder.load(total), _weighted(builder, value, weight)), total)
            builder.store(builder.add(here, step), at)
        bits = spread(builder, builder.trunc(shift, _SHORT), _ROWS)
        return [builder.shl(builder.load(total), bits) for total in totals]


@intrinsic
def _mix(typing_context, source, offsets, weights, y, step, taps, shift, at, out, to):
    """``out[to:to + 64]``: the weighted sum of rows of bytes from column ``at`` on, with 7 bits after the point."""

    def generate(context, builder, signature, args):
        arrays = _Arrays(context, builder, signature, args)
        _, _, _, y, step, taps, shift, at, _, to = args

        def values(offset):
            for part in range(_PARTS):
                index = builder.add(builder.add(offset, at), at.type(_ROWS * part))
                samples = builder.zext(arrays.load(0, index, _BYTES), _SHORTS)
                yield builder.shl(samples, _constant(_BITS + 1))

        for part, total in enumerate(arrays.sums(y, step, taps, shift, values)):
            # Limited as bytes are: filters that overshoot would not fit with one more bit.
            low, high = _constant(0), _constant((256 << _BITS) - 1)
            total = builder.select(builder.icmp_signed(">", total, low), total, low)
            total = builder.select(builder.icmp_signed("<", total, high), total, high)
            arrays.store(builder.shl(total, _constant(1)), 8, builder.add(to, to.type(_ROWS * part)))
        return context.get_dummy_value()

    return types.none(source, offsets, weights, y, step, taps, shift, at, out, to), generate


@intrinsic
def _sum(typing_context, turned, offsets, weights, x, step, taps, shift, first, out, to):
    """``out[to:to + 64]``: the weighted sum of turned columns; ``first`` is subtracted from offsets."""

    def generate(context, builder, signature, args):
        arrays = _Arrays(context, builder, signature, args)
        _, _, _, x, step, taps, shift, first, _, to = args

        def values(offset):
            start = builder.sub(offset, first)
            return [arrays.load(0, builder.add(start, start.type(_ROWS * part)), _SHORTS) for part in range(_PARTS)]

        for part, total in enumerate(arrays.sums(x, step, taps, shift, values)):
            arrays.store(total, 8, builder.add(to, to.type(_ROWS * part)))
        return context.get_dummy_value()

    return types.none(turned, offsets, weights, x, step, taps, shift, first, out, to), generate


@intrinsic
def _turn(typing_context, source, at, step, out, to, out_step):
    """Exchange rows and columns of 16 x 16 values: ``out[to + out_step * c + r] = source[at + step * r + c]``."""

    def generate(context, builder, signature, args):
        arrays = _Arrays(context, builder, signature, args)
        _, at, step, _, to, out_step = args
        rows = [arrays.load(0, builder.add(at, builder.mul(step, step.type(k))), _SHORTS) for k in range(_ROWS)]
        # Three rounds within the halves of vectors, 8 rows at a time, each of which interleaves; then halves of both.
        low = [half + k // 2 + _ROWS * (k % 2) for half in (0, 8) for k in range(8)]
        high = [4 + k for k in low]
        above, below = rows[:8], rows[8:]
        for _ in range(3):
            above, below = (
                [shuffle(builder, some[k // 2], some[k // 2 + 4], high if k % 2 else low) for k in range(8)]
                for some in (above, below)
            )
        halves = [[half + k + _ROWS * other for other in (0, 1) for k in range(8)] for half in (0, 8)]
        rows = [shuffle(builder, above[k], below[k], picks) for picks in halves for k in range(8)]
        for k, row in enumerate(rows):
            arrays.store(row, 3, builder.add(to, builder.mul(out_step, out_step.type(k))))
        return context.get_dummy_value()

    return types.none(source, at, step, out, to, out_step), generate


# -- taps --------------------------------------------------------------------------------------------------------------


@loop
def _taps(record, plane, axis):
    """Return the filter's support in samples of a plane, and the taps, along an axis."""
    side = plane.side[axis]
    if side == 1:
        return record.support[axis], i64(record.taps[axis])
    # At least the distance of chroma samples: there chroma is interpolated, as in an enlarged image.
    support = max(record.support[axis] / f32(side), f32(1.0))
    taps = -i64(floor(f32(1e-4) - f32(2.0) * reach(record.filter, support, i64(0))))  # rounded up
    return support, min(max(taps, 1), i64(record.taps[axis]))


@loop
def _missing_bits(filter):
    """Return the bits that weights have less: those of filters with negative ones are more than 1 near an edge."""
    return 1 if filter == CUBIC_RENORMALIZED or filter == CUBIC_CLAMPED or filter == LANCZOS else 0


@loop
def _lay(calls, source, record, plane, axis, n, step, offsets, weights, floats):
    """Compute the tap table of one axis of a plane, with weights in fixed point; offsets are multiples of ``step``."""
    side = plane.side[axis]
    before = (plane.before[axis] + source.corner[axis]) % side  # the rest is added to addresses
    m, shift, half = record.matrix[4 * axis], record.matrix[2 + 3 * axis], f32(n - 1) * f32(0.5)
    positions, total, values = floats[:n], floats[n : 2 * n], floats[2 * n : 2 * n + offsets.size]
    for k in range(n):
        positions[k] = (m * (f32(k) - half) + shift + f32(before)) / f32(side)
    support, taps = _taps(record, plane, axis)
    low = (record.window[axis] + before) // side
    high = -(-(record.window[axis + 2] + before) // side)
    one = f32(1 << (_WEIGHT_BITS - _missing_bits(record.filter)))
    call_lay_taps(
        calls.lay_taps, (positions, n, support, record.filter, low, high, step, taps, one, values, offsets, total)
    )
    # Products are rounded down, those of weights other than 0 by half a unit on average, which is added to each sum.
    halves = weights[offsets.size :]
    for k in range(n):
        halves[k] = 1
    for t in range(taps):
        value, weight = values[t * n : (t + 1) * n], weights[t * n : (t + 1) * n]
        for k in range(n):
            # Rounded by a cast of what is not negative; a call of floor would not vectorize.
            whole = i32(min(value[k], _MOST) + (_MOST + f32(1.5))) - i32(_MOST + f32(1.0))
            weight[k] = whole
            halves[k] += i32(1) if whole != 0 else i32(0)
    for k in range(n):
        halves[k] >>= 1


@loop
def _tables(record, plane, height, width, ints, at):
    """Return the tap tables of a plane in the work space: of each axis taps, offsets and weights; and their end."""
    _, ny = _taps(record, plane, 1)
    _, nx = _taps(record, plane, 0)
    y, x = height * ny, width * nx
    down = ny, ints[at : at + y], ints[at + y : at + 2 * y + height]
    at += 2 * y + height
    return down, (nx, ints[at : at + x], ints[at + x : at + 2 * x + width]), at + 2 * x + width


def planar_space(height: Any, width: Any, nx: Any, ny: Any, columns: Any) -> tuple[Any, Any]:
    """Return the elements of ``floats`` and ``ints`` for a grid, its taps and source columns; all may be arrays."""
    # The parts are those of _planar and _lay. Chroma has no more taps than luma.
    laid = np.maximum(height * (ny + 2), width * (nx + 2))
    shorts = _ROWS * _CHUNK + _STEP * (columns + 3 * _ROWS) + 3 * _STEP * (width + _ROWS)
    return laid + shorts // 2 + 1, 4 * (height * ny + width * nx) + 2 * (height + width)


# -- passes ------------------------------------------------------------------------------------------------------------


@loop
def _first_sample(source, plane):
    """Return the element of a plane that positions along both axes are counted from."""
    x = (plane.before[0] + source.corner[0]) // plane.side[0]
    y = (plane.before[1] + source.corner[1]) // plane.side[1]
    return plane.start + y * plane.size[0] + x


@loop
def _sample_rows(source, c, y, y1, height, shift, down, across, mixed, turned, summed, out, line, start):
    """Sample 64 rows of luma (``c`` is 0), or 32 rows of Cb and Cr (1), up to ``y1``, to rows of ``out``.

    The first row is written at ``start`` of each plane.
    """
    ny, oy, wy = down
    nx, ox, wx = across
    first = last = ox[0]
    for k in range(ox.size):
        first = min(first, ox[k])
        last = max(last, ox[k])
    left, columns = first // _STEP, (last - first) // _STEP + 1
    width = ox.size // nx
    for part in range(_PARTS):
        plane = 1 + part // 2 if c else i64(0)
        top = y + part % 2 * _ROWS if c else y + _ROWS * part
        if top >= y1:
            continue
        begin = _first_sample(source, source.planes[plane])
        values = bytes_at(source.address + begin, source.elements - begin)
        for at in range(0, columns, _CHUNK):
            size = min(_CHUNK, columns - at)
            for j in range(_ROWS):
                row = min(top + j, height - 1)
                for k in range(0, size, _STEP):
                    _mix(
                        values, oy, wy, up(row), up(height), up(ny), up(shift), up(left + at + k), mixed,
                        up(j * _CHUNK + k),
                    )  # fmt: skip
            for k in range(0, size, _ROWS):
                _turn(mixed, up(k), up(_CHUNK), turned, up(_STEP * (at + k) + _ROWS * part), up(_STEP))
    for x in range(0, width, _ROWS):
        for k in range(min(_ROWS, width - x)):
            _sum(turned, ox, wx, up(x + k), up(width), up(nx), up(shift), up(first), summed, up(_STEP * k))
        for part in range(_PARTS):
            to = ((1 + part // 2) * _STEP + part % 2 * _ROWS if c else _ROWS * part) * line + start + x
            _turn(summed, up(_ROWS * part), up(_STEP), out, up(to), up(line))


@loop
def _convert(samples, line, scale, planes, at, width, rows):
    """Convert rows of Y, Cb and Cr to red, green and blue."""
    plane = planes.size // 3
    for j in range(rows):
        y, cb, cr = samples[j * line :], samples[(_STEP + j) * line :], samples[(2 * _STEP + j) * line :]
        o = at + j * width
        r, g, b = planes[o : o + width], planes[plane + o : plane + o + width], planes[2 * plane + o :]
        for x in range(width):
            r[x], g[x], b[x] = jfif_rgb(f32(y[x]) * scale, f32(cb[x]) * scale, f32(cr[x]) * scale)


def _planar(calls_, source_, record_, y0, y1, scratch_):
    """Sample rows ``y0`` to ``y1`` of a separable grid from planes of luma and chroma.

    The call for row 0 computes the tap tables; later calls for the same grid find them in the scratch.
    """
    calls, source, record, scratch = record_at(calls_), record_at(source_), record_at(record_), record_at(scratch_)
    planes, floats, ints = floats_of(scratch.planes), floats_of(scratch.floats), ints_of(scratch.ints)
    height, width = i64(record.height), i64(record.width)
    luma, chroma = source.planes[0], source.planes[1]
    luma_down, luma_across, end = _tables(record, luma, height, width, ints, i64(0))
    chroma_down, chroma_across, _ = _tables(record, chroma, height, width, ints, end)
    if y0 == 0:
        for k in range(4):  # one call in a loop: machine code is written once
            c, axis = k // 2, k % 2
            plane = source.planes[c]
            down, across = (chroma_down, chroma_across) if c else (luma_down, luma_across)
            _, offsets, weights = down if axis else across
            n, step = (height, plane.size[0]) if axis else (width, i64(_STEP))
            _lay(calls, source, record, plane, axis, n, step, offsets, weights, floats)
    memory = bytes_at(scratch.floats.address, 4 * floats.size)
    line = (width + _ROWS - 1) // _ROWS * _ROWS
    mixed = shorts_in(memory, 0, _ROWS * _CHUNK)
    end = 2 * mixed.size
    summed = shorts_in(memory, end, _ROWS * _STEP)
    end += 2 * summed.size
    samples = shorts_in(memory, end, 3 * _STEP * line)
    end += 2 * samples.size
    turned = shorts_in(memory, end, (memory.size - end) // 2)
    scale = source.scale * f32(1.0 / (1 << _BITS))
    shift = _missing_bits(record.filter)
    for y in range(y0, y1, _STEP):
        for k in range(3):  # of luma, and both halves of chroma
            c, first = (1, (k - 1) * _STEP // 2) if k else (0, 0)
            if y + first < y1:
                down, across = (chroma_down, chroma_across) if c else (luma_down, luma_across)
                _sample_rows(
                    source, c, y + first, y1, height, shift, down, across, mixed, turned, summed, samples, line,
                    first * line,
                )  # fmt: skip
        _convert(samples, line, scale, planes, (y - y0) * width, width, min(_STEP, y1 - y))


PLANAR_FUNCTION = NativeFunction("planar", _planar, SAMPLE)
