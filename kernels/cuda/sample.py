"""Sampling of one grid point: a walk over the taps around its position."""

from typing import Any

import numpy as np

from .. import sampling
from ..layout import CUBIC_CLAMPED, CUBIC_RENORMALIZED, GAUSSIAN, IN_RECORD, LINEAR, NEAREST, RARE_FILTERS
from ..scalar import f32, i32, scalar, up, wide, word


@scalar
def _offset(base, row, column):
    """Return the index of a pixel's first value."""
    return up(base + np.int64(i32(row + column)))


# Add a pixel's values, times a weight, to sums; the value of a gray pixel is read once.


@scalar
def _add_color(source, at, weight, r, g, b):
    r += weight * f32(source[at])
    g += weight * f32(source[at + up(1)])
    b += weight * f32(source[at + up(2)])
    return r, g, b


@scalar
def _add_gray(source, at, weight, r, g, b):
    r += weight * f32(source[at])
    return r, r, r


def _make_inner(filter, channels):
    """Return the walk of a filter that drops taps outside the window: those inside are consecutive in memory."""
    add = _add_color if channels == 3 else _add_gray
    weigh = sampling.rare_weight if filter in RARE_FILTERS else sampling.weight_inside

    @scalar
    def walk(source, base, stride, x, y, inverse_x, inverse_y, first_x, first_y, end_x, end_y, x_low, y_low, x_high,
             y_high):  # fmt: skip
        r, g, b, total = f32(0.0), f32(0.0), f32(0.0), f32(0.0)
        first_x, end_x = max(first_x, x_low), min(end_x, x_high)
        end_y = min(end_y, y_high)
        tap_y = max(first_y, y_low)
        start = _offset(base, i32(i32(tap_y) * stride), i32(i32(first_x) * i32(channels)))
        while tap_y < end_y:
            weight_y = weigh(tap_y, y, inverse_y, filter)
            at = start
            tap_x = first_x
            while tap_x < end_x:
                weight = weight_y * weigh(tap_x, x, inverse_x, filter)
                r, g, b = add(source, at, weight, r, g, b)
                total += weight
                at += up(channels)
                tap_x += f32(1.0)
            start += up(np.int64(stride))
            tap_y += f32(1.0)
        return r, g, b, total

    return walk


def _make_outer(filter, channels):
    """Return the walk of a filter that replicates or mirrors the window's border."""
    add = _add_color if channels == 3 else _add_gray

    @scalar
    def weigh(tap, c, inverse):
        if filter == GAUSSIAN:
            return sampling.gaussian_weight(tap, c, inverse)
        return sampling.weight_inside(tap, c, inverse, filter)

    @scalar
    def walk(source, base, stride, x, y, inverse_x, inverse_y, first_x, first_y, end_x, end_y, x_low, y_low, x_high,
             y_high):  # fmt: skip
        r, g, b, total = f32(0.0), f32(0.0), f32(0.0), f32(0.0)
        # Taps are counted in float32, which avoids conversions, and registers, of integer counters.
        tap_y = first_y
        while tap_y < end_y:
            weight_y = weigh(tap_y, y, inverse_y)
            row = i32(sampling.tap_index(tap_y, filter, y_low, y_high) * stride)
            tap_x = first_x
            while tap_x < end_x:
                weight = weight_y * weigh(tap_x, x, inverse_x)
                column = i32(sampling.tap_index(tap_x, filter, x_low, x_high) * i32(channels))
                r, g, b = add(source, _offset(base, row, column), weight, r, g, b)
                total += weight
                tap_x += f32(1.0)
            tap_y += f32(1.0)
        return r, g, b, total

    return walk


def _either(filter, channels, walk, other):
    """Add a walk for one filter and channel count to a chain; all threads of a block take the same branch."""

    @scalar
    def walk_either(kind, count, source, base, stride, x, y, inverse_x, inverse_y, first_x, first_y, end_x, end_y,
                    x_low, y_low, x_high, y_high):  # fmt: skip
        if kind == filter and count == channels:
            return walk(source, base, stride, x, y, inverse_x, inverse_y, first_x, first_y, end_x, end_y, x_low, y_low,
                        x_high, y_high)  # fmt: skip
        return other(kind, count, source, base, stride, x, y, inverse_x, inverse_y, first_x, first_y, end_x, end_y,
                     x_low, y_low, x_high, y_high)  # fmt: skip

    return walk_either


@scalar
def _nothing(kind, count, source, base, stride, x, y, inverse_x, inverse_y, first_x, first_y, end_x, end_y, x_low,
             y_low, x_high, y_high):  # fmt: skip
    return f32(0.0), f32(0.0), f32(0.0), f32(1.0)


def _with_filters(walk, makers):
    """Add the walks of filters, for both numbers of channels."""
    for channels in (1, 3):
        for filter, make in makers:
            walk = _either(filter, channels, make(filter, channels), walk)
    return walk


_RARE_WALKS = tuple((filter, _make_inner) for filter in RARE_FILTERS)
_PLAIN_WALKS = (
    (GAUSSIAN, _make_outer), (CUBIC_CLAMPED, _make_outer), (NEAREST, _make_outer), (CUBIC_RENORMALIZED, _make_inner),
    (LINEAR, _make_inner),
)  # fmt: skip
_PLAIN_WALK = _with_filters(_nothing, _PLAIN_WALKS)
_FULL_WALK = _with_filters(_with_filters(_nothing, _RARE_WALKS), _PLAIN_WALKS)


def make_sample(full: bool) -> Any:
    """Return a scalar function that samples a grid point; ``full`` includes the rare filters."""
    walk = _FULL_WALK if full else _PLAIN_WALK

    @scalar
    def sample(source, channels, scale, ints, floats, record, u, v):
        """Return the color of the grid point ``(u, v)``, relative to the grid's center."""
        m = i32(record + IN_RECORD.matrix)
        m6, m7, m8 = word(floats, m, 6), word(floats, m, 7), word(floats, m, 8)
        x = sampling.project(word(floats, m, 0), word(floats, m, 1), word(floats, m, 2), m6, m7, m8, u, v)
        y = sampling.project(word(floats, m, 3), word(floats, m, 4), word(floats, m, 5), m6, m7, m8, u, v)
        filter = word(ints, record, IN_RECORD.filter)
        x_low, y_low = f32(word(ints, record, IN_RECORD.window)), f32(word(ints, record, IN_RECORD.window + 1))
        x_high, y_high = f32(word(ints, record, IN_RECORD.window + 2)), f32(word(ints, record, IN_RECORD.window + 3))
        if full and filter > GAUSSIAN:
            x = sampling.folded(x, filter, x_low, x_high)
            y = sampling.folded(y, filter, y_low, y_high)
            filter = i32(NEAREST)
        x = sampling.tap_center(x, filter, x_low, x_high)
        y = sampling.tap_center(y, filter, y_low, y_high)
        support_x, support_y = word(floats, record, IN_RECORD.support), word(floats, record, IN_RECORD.support + 1)
        taps_x, taps_y = f32(word(ints, record, IN_RECORD.taps)), f32(word(ints, record, IN_RECORD.taps + 1))
        first_x = sampling.first_tap(x, sampling.reach(filter, support_x, taps_x))
        first_y = sampling.first_tap(y, sampling.reach(filter, support_y, taps_y))
        r, g, b, total = walk(
            filter, channels, source, wide(ints, record + IN_RECORD.source), word(ints, record, IN_RECORD.stride), x, y,
            f32(1.0) / support_x, f32(1.0) / support_y, first_x, first_y, first_x + taps_x, first_y + taps_y, x_low,
            y_low, x_high, y_high,
        )  # fmt: skip
        factor = scale / total
        return r * factor, g * factor, b * factor

    return sample


@scalar
def origin_point(p, at, u, v):
    """Return the coordinates of a grid point in the coordinate system that an instruction refers to."""
    m6, m7, m8 = word(p, at, 6), word(p, at, 7), word(p, at, 8)
    x = sampling.project(word(p, at, 0), word(p, at, 1), word(p, at, 2), m6, m7, m8, u, v)
    y = sampling.project(word(p, at, 3), word(p, at, 4), word(p, at, 5), m6, m7, m8, u, v)
    return x, y
