"""Fog, rain and shadows of one pixel: patterns that depend only on an image's parameters and the pixel's position."""

import math

from .color import brightness, mix, unit
from .noise import unit_of
from .ops import STREAK_LENGTH, STREAK_WIDTH
from .scalar import f32, floor, i32, scalar, u32

_ZERO = f32(0.0)
_HALF = f32(0.5)
_ONE = f32(1.0)
_TWO = f32(2.0)
_OCTAVES = 4


@scalar
def _mixed(bits):
    """Return a word of which every bit depends on all bits of another one."""
    # The constants are those of "lowbias32" (C. Wellons: "Prospecting for hash functions", 2018).
    bits = u32(u32(bits ^ u32(bits >> u32(16))) * u32(0x7FEB352D))
    bits = u32(u32(bits ^ u32(bits >> u32(15))) * u32(0x846CA68B))
    return u32(bits ^ u32(bits >> u32(16)))


@scalar
def cell_word(column, row, seed_0, seed_1):
    """Return the random word of a cell of a lattice; columns and rows are floats."""
    # A generator of noise, which costs ten times as much, is not needed: eyes see a few hundred cells.
    bits = _mixed(u32(u32(i32(column)) ^ u32(i32(seed_0))))
    return _mixed(u32(bits ^ u32(u32(i32(row)) * u32(0x9E3779B1)) ^ u32(u32(i32(seed_1)) << u32(8))))


@scalar
def _value(column, row, seed_0, seed_1):
    return unit_of(cell_word(column, row, seed_0, seed_1))


@scalar
def _smooth(t):
    return t * t * (f32(3.0) - _TWO * t)


@scalar
def _lattice(x, y, seed_0, seed_1):
    """Return random numbers of the points of a lattice, 0 to 1, with smooth transitions between them."""
    column, row = floor(x), floor(y)
    across, below = _smooth(x - column), _smooth(y - row)
    right, down = column + _ONE, row + _ONE
    above = mix(_value(right, row, seed_0, seed_1), _value(column, row, seed_0, seed_1), across)
    under = mix(_value(right, down, seed_0, seed_1), _value(column, down, seed_0, seed_1), across)
    return mix(under, above, below)


@scalar
def clouds(x, y, seed_0, seed_1):
    """Return a smooth random field, 0 to 1 with a mean of 1/2: lattices, each half as wide and high as the one before.

    K. Perlin: "An image synthesizer", SIGGRAPH 1985.
    """
    total, weight = _ZERO, f32(2.0 ** (_OCTAVES - 1) / (2.0**_OCTAVES - 1.0))
    for _ in range(_OCTAVES):
        total += weight * _lattice(x, y, seed_0, seed_1)
        weight *= _HALF
        # Of another seed, and without points on those of the one before.
        x, y, seed_0 = x * _TWO + f32(0.37), y * _TWO + f32(0.61), seed_0 + _ONE
    return total


@scalar
def fog(r, g, b, x, y, seed_0, seed_1, density, per_pixel, red, green, blue):
    """Return a pixel mixed with a color, by a share between 0 and twice ``density``."""
    share = min(density * _TWO * clouds(x * per_pixel, y * per_pixel, seed_0, seed_1), _ONE)
    return mix(red, r, share), mix(green, g, share), mix(blue, b, share)


@scalar
def rain(r, g, b, x, y, seed_0, seed_1, amount, across_x, across_y, along_x, along_y, opacity, red, green, blue):
    """Return a pixel mixed with a color, if it lies in a streak.

    There may be a streak in each cell of a lattice, whose axes, in cells per pixel, are across and along streaks.
    Columns of cells are shifted at random.
    """
    across, along = across_x * x + across_y * y, along_x * x + along_y * y
    column = floor(across)
    along += _value(column, -_ONE, seed_0, seed_1)
    row = floor(along)
    word = cell_word(column, row, seed_0, seed_1)
    # Of the word, 16 bits choose the cells with a streak, 8 its place across and 8 that along.
    chosen = f32(i32(word >> u32(16))) * f32(2.0**-16) < amount
    place = f32(i32(u32(word >> u32(8)) & u32(255))) * f32(2.0**-8)
    begin = f32(i32(word & u32(255))) * f32(2.0**-8) * f32(1.0 - STREAK_LENGTH)
    away = abs(across - column - place * f32(1.0 - STREAK_WIDTH) - f32(0.5 * STREAK_WIDTH))
    pixel = math.sqrt(across_x * across_x + across_y * across_y)
    cover = unit((f32(0.5 * STREAK_WIDTH) - away) / pixel + _HALF)
    at = along - row - begin
    share = opacity * cover if chosen and at >= _ZERO and at < f32(STREAK_LENGTH) else _ZERO
    return mix(red, r, share), mix(green, g, share), mix(blue, b, share)


@scalar
def _crossed(x, y, x0, y0, x1, y1):
    """Return whether a line to the right of a point crosses an edge."""
    height = y1 - y0
    before = (x - x0) * height < (x1 - x0) * (y - y0)
    return (y0 > y) != (y1 > y) and before == (height > _ZERO)


@scalar
def shadow(r, g, b, x, y, factor, x0, y0, x1, y1, x2, y2, x3, y3, x4, y4, x5, y5):
    """Return a pixel, multiplied by a factor if it lies in a polygon by the even-odd rule; clamped."""
    inside = _crossed(x, y, x0, y0, x1, y1) != _crossed(x, y, x1, y1, x2, y2)
    inside = inside != (_crossed(x, y, x2, y2, x3, y3) != _crossed(x, y, x3, y3, x4, y4))
    inside = inside != (_crossed(x, y, x4, y4, x5, y5) != _crossed(x, y, x5, y5, x0, y0))
    gain = factor if inside else _ONE
    return brightness(r, gain), brightness(g, gain), brightness(b, gain)
