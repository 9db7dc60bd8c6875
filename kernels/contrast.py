"""Formulas of CLAHE for both runtimes, with OpenCV's rounding.

References: K. Zuiderveld, "Contrast limited adaptive histogram equalization", Graphics Gems IV, 1994; OpenCV
``modules/imgproc/src/clahe.cpp`` and ``color_yuv.simd.hpp``.
"""

from typing import Any, Final, NamedTuple

from .color import round_half_even
from .scalar import clamp, f32, floor, i32, limited, scalar, u32

LEVELS: Final = 256
_TOP: Final = f32(255.0)

# Weights of BT.601 with 14 bits after the point: of luma, of the differences from it, and back.
_SHIFT: Final = 14
_HALF: Final = 1 << 13
_CENTER: Final = 128


@scalar
def luma(r, g, b):
    """Return the luma of a color of bytes."""
    return i32(i32(4899 * r + 9617 * g) + i32(1868 * b + _HALF)) >> _SHIFT


@scalar
def recolored(r, b, before, after):
    """Return a color with another luma, given its red, blue and luma."""
    cr = limited(i32(11682 * (r - before) + (_CENTER << _SHIFT) + _HALF) >> _SHIFT, 0, 255) - _CENTER
    cb = limited(i32(9241 * (b - before) + (_CENTER << _SHIFT) + _HALF) >> _SHIFT, 0, 255) - _CENTER
    red = i32(after + (i32(22987 * cr + _HALF) >> _SHIFT))
    green = i32(after + (i32(-5636 * cb - 11698 * cr + _HALF) >> _SHIFT))
    blue = i32(after + (i32(29049 * cb + _HALF) >> _SHIFT))
    return limited(red, 0, 255), limited(green, 0, 255), limited(blue, 0, 255)


@scalar
def limited_count(count, limit, excess, level):
    """Return the count of a level after the excess of all is spread evenly, the rest of it one by one."""
    if limit == 0:
        return count
    share, rest = u32(excess) // u32(LEVELS), u32(excess) % u32(LEVELS)
    step = max(u32(LEVELS) // max(rest, u32(1)), u32(1))
    more = i32(1) if u32(level) % step == u32(0) and u32(level) // step < rest else i32(0)
    return i32(min(count, limit) + i32(share) + more)


class Rounded(NamedTuple):
    """Formulas in which each product is rounded before it is added to something."""

    table_level: Any
    cell_of: Any
    mixed: Any


def make_rounded(product: Any, quotient: Any) -> Rounded:
    """Return the formulas, given scalar functions for products and quotients that are rounded once."""

    @scalar
    def table_level(total, area):
        """Return what a level becomes in a tile, of which ``total`` pixels are not brighter."""
        return i32(clamp(round_half_even(product(f32(total), quotient(_TOP, f32(area)))), f32(0.0), _TOP))

    @scalar
    def cell_of(x, side):
        """Return the number of tile centers not right of a pixel, and its share of the tile after the last of them."""
        at = product(f32(x), quotient(f32(1.0), f32(side))) - f32(0.5)
        first = floor(at)
        return i32(first) + 1, at - first

    @scalar
    def mixed(a, b, c, d, first_x, second_x, first_y, second_y):
        """Return the mean of levels of four tiles, with these weights of columns and rows."""
        above = product(f32(a), first_x) + product(f32(b), second_x)
        below = product(f32(c), first_x) + product(f32(d), second_x)
        return i32(round_half_even(product(above, first_y) + product(below, second_y)))

    return Rounded(table_level, cell_of, mixed)
