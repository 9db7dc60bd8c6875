"""Sampling one grid point: walking the taps around its position."""

from __future__ import annotations

import numpy as np

from .. import sampling
from ..layout import FILTER, GAUSSIAN, MATRIX, SOURCE, STRIDE, SUPPORT, TAPS, WINDOW
from ..scalar import f32, i32, scalar, up, word


@scalar
def wide(words, at):
    """Offset of 64 bits from two record words."""
    return (np.int64(word(words, at, 1)) << np.int64(32)) | (np.int64(word(words, at, 0)) & np.int64(0xFFFFFFFF))


@scalar
def _weight(tap, c, inverse_support, filter, low, high):
    if filter == GAUSSIAN:
        return sampling.gaussian_weight(tap, c, inverse_support)
    return sampling.tap_weight(tap, c, inverse_support, filter, low, high)


@scalar
def sample(source, channels, scale, ints, floats, record, u, v):
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
    base = wide(ints, record + SOURCE)
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
def frame_point(p, at, u, v):
    """Coordinates of a grid point in the frame an entry refers to."""
    m6, m7, m8 = word(p, at, 6), word(p, at, 7), word(p, at, 8)
    x = sampling.project(word(p, at, 0), word(p, at, 1), word(p, at, 2), m6, m7, m8, u, v)
    y = sampling.project(word(p, at, 3), word(p, at, 4), word(p, at, 5), m6, m7, m8, u, v)
    return x, y
