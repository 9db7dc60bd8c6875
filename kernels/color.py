"""Color of one pixel: every formula of the library, on float32 values where 1 is white.

Formulas of ops have the names of :mod:`kernels.ops`, whose table describes their arguments.

The formulas are torchvision's float ones (``torchvision/transforms/v2/functional/_color.py``), written without
branches so that the CPU's row loop vectorizes and the GPU's warps do not diverge.
"""

from typing import Any

from .ops import LEVELS
from .sampling import coverage
from .scalar import clamp, confine, divided, f32, f64, floor, i32, scalar, word

ONE = f32(1.0)
ZERO = f32(0.0)
# float -> byte as torchvision's ``to_dtype(scale=True)``: every byte owns an equal share of [0, 1].
BYTE_SCALE = f32(255.999)
# Statistics are summed as integers, in steps of 2^-24, so that a mean is the same in whatever order threads add.
FIXED_ONE = f32(16777216.0)
INVERSE_FIXED_ONE = f32(1.0 / 16777216.0)


@scalar
def unit(x):
    """Return ``x`` clamped to [0, 1]."""
    return clamp(x, ZERO, ONE)


@scalar
def luma(r, g, b):
    """Return the gray value with torchvision's ITU-R 601 weights, which sum to 0.9999."""
    return f32(0.2989) * r + f32(0.587) * g + f32(0.114) * b


@scalar
def gray_of(r, g, b, channels):
    """Return the gray value of a pixel of three channels, or the value of a pixel of one."""
    return r if channels == 1 else luma(r, g, b)


@scalar
def blend(x, other, factor):
    """Return ``x`` mixed with ``other`` and clamped; factor 1 returns ``x``."""
    return unit(x * factor + other * (ONE - factor))


@scalar
def brightness(x, factor):
    """Return ``x`` scaled towards black (factor 0) or white (factor above 1)."""
    return unit(x * factor)


@scalar
def contrast(x, factor, mean):
    """Return ``x`` mixed with the image's mean gray."""
    return blend(x, mean, factor)


@scalar
def saturation(r, g, b, factor):
    """Return a pixel mixed with its gray."""
    gray = luma(r, g, b)
    return blend(r, gray, factor), blend(g, gray, factor), blend(b, gray, factor)


@scalar
def hsv_channel(k, hue6, value, chroma):
    """Return a channel of an HSV color: ``k`` is 5 for red, 3 for green, 1 for blue; hue in sixths of a turn.

    The closed form of the six-case table in torchvision's ``_hsv_to_rgb``.
    """
    n = k + hue6
    n = n - f32(6.0) * floor(n * f32(1.0 / 6.0))
    return unit(value - chroma * clamp(min(n, f32(4.0) - n), ZERO, ONE))


@scalar
def turned_hue(r, g, b, value, chroma, turns):
    """Return the HSV hue of a pixel rotated by ``turns``, in sixths of a turn; that of a gray is any."""
    inverse = ONE / (chroma if chroma > ZERO else ONE)
    from_red = (g - b) * inverse
    from_green = f32(2.0) + (b - r) * inverse
    from_blue = f32(4.0) + (r - g) * inverse
    sixths = from_red if value == r else from_green if value == g else from_blue
    turned = sixths * f32(1.0 / 6.0) + turns
    return (turned - floor(turned)) * f32(6.0)


@scalar
def hsv_color(hue6, value, chroma):
    """Return the color with an HSV hue in sixths of a turn, a value, and a chroma."""
    return (
        hsv_channel(f32(5.0), hue6, value, chroma),
        hsv_channel(f32(3.0), hue6, value, chroma),
        hsv_channel(f32(1.0), hue6, value, chroma),
    )


@scalar
def hue(r, g, b, turns):
    """Return a pixel with its HSV hue rotated by ``turns``."""
    value = max(max(r, g), b)
    chroma = value - min(min(r, g), b)
    return hsv_color(turned_hue(r, g, b, value, chroma, turns), value, chroma)


@scalar
def hsv(r, g, b, turns, saturation_gain, value_gain):
    """Return a pixel with its HSV hue rotated by ``turns``, and its saturation and value multiplied and clamped."""
    value = max(max(r, g), b)
    chroma = value - min(min(r, g), b)
    hue6 = turned_hue(r, g, b, value, chroma, turns)
    new_value = unit(value * value_gain)
    new_chroma = new_value * unit(chroma * saturation_gain / (value if value > ZERO else ONE))
    return hsv_color(hue6, new_value, new_chroma)


@scalar
def gamma(x, gamma, gain):
    """Return ``x`` to the power of ``gamma``, times ``gain``."""
    return unit(gain * unit(x) ** gamma)


@scalar
def channel(r, g, b, number):
    """Return the channel with a number, which is a float."""
    return r if number < f32(0.5) else g if number < f32(1.5) else b


@scalar
def permute(r, g, b, first, second, third):
    """Return the channels in a different order."""
    return channel(r, g, b, first), channel(r, g, b, second), channel(r, g, b, third)


@scalar
def color_matrix(r, g, b, rr, rg, rb, r0, gr, gg, gb, g0, br, bg, bb, b0):
    """Return sums of the channels, each with a row of weights and a constant."""
    return (
        unit(rr * r + rg * g + rb * b + r0),
        unit(gr * r + gg * g + gb * b + g0),
        unit(br * r + bg * g + bb * b + b0),
    )


@scalar
def grayscale(r, g, b):
    """Return the gray value in all three channels."""
    gray = luma(r, g, b)
    return gray, gray, gray


@scalar
def invert(x):
    """Return the negative of ``x``."""
    return ONE - x


@scalar
def solarize(x, threshold):
    """Return ``x``, inverted where it is at or above the threshold."""
    return ONE - x if x >= threshold else x


@scalar
def solarize_add(x, addition, threshold):
    """Return ``x``, plus the addition where it is below the threshold."""
    return unit(x + addition) if x < threshold else x


@scalar
def posterize(x, in_scale, top, out_scale):
    """Return ``x`` rounded down to a level."""
    return clamp(floor(x * in_scale), ZERO, top) * out_scale


@scalar
def stretch(x, low, gain):
    """Return ``x`` shifted so that ``low`` becomes 0, then scaled."""
    return unit((x - low) * gain)


@scalar
def autocontrast(r, g, b, low_r, gain_r, low_g, gain_g, low_b, gain_b):
    """Return the channels shifted so that their darkest values become 0, then scaled."""
    return stretch(r, low_r, gain_r), stretch(g, low_g, gain_g), stretch(b, low_b, gain_b)


@scalar
def equalize(r, g, b, tables, slot):
    """Return the channels mapped by the tables of a slot."""
    return (
        word(tables, slot, to_byte(r)),
        word(tables, slot, LEVELS + to_byte(g)),
        word(tables, slot, 2 * LEVELS + to_byte(b)),
    )


@scalar
def normalize(r, g, b, scale_r, scale_g, scale_b, shift_r, shift_g, shift_b):
    """Return the channels scaled, then shifted; not clamped."""
    return r * scale_r + shift_r, g * scale_g + shift_g, b * scale_b + shift_b


# 1/255 as a number of 16 bits, whose product with a byte float32 holds, and the rest: the sum of the two products is
# the quotient rounded once, whether or not a compiler fuses them with the addition.
_SHARE = f32(f64(round(2.0**23 / 255.0)) / 2.0**23)
_REST = f32(1.0 / 255.0 - f64(_SHARE))


def make_normalize_byte(divided: Any) -> Any:
    """Return a formula, given a scalar function that divides float32 and rounds once."""

    @scalar
    def normalize_byte(byte, mean, std, divisor):
        """A whole number from 0 to 255, over 255 or 1, less a mean and over a deviation: each rounded once."""
        return divided(_centered(byte, mean, divisor), std)

    return normalize_byte


@scalar
def _centered(byte, mean, divisor):
    return (byte * _SHARE + byte * _REST if divisor == f32(255.0) else byte) - mean


normalize_byte = make_normalize_byte(divided)


@scalar
def scale_byte(byte, mean, inverse, rest, divisor):
    """:func:`normalize_byte` by the inverse of the deviation and what its float32 lacks, for bytes where both agree.

    They do for most deviations, where multiplications and additions are fused: the product is then rounded once.
    """
    value = _centered(byte, mean, divisor)
    return value * inverse + value * rest


@scalar
def inverse_of(std):
    """The inverse of a deviation as a float32 and what that lacks, as :func:`scale_byte` takes it."""
    whole = f64(1.0) / f64(std)
    return f32(whole), f32(whole - f64(f32(whole)))


def make_normalize_bytes(normalize_byte: Any) -> Any:
    """Return the formula of an op, given that of one byte."""

    @scalar
    def normalized(x, mean, std, divisor):
        return normalize_byte(f32(i32(x * f32(255.0) + f32(0.5))), mean, std, divisor)

    @scalar
    def normalize_bytes(r, g, b, mean_r, mean_g, mean_b, std_r, std_g, std_b, divisor):
        return (
            normalized(r, mean_r, std_r, divisor),
            normalized(g, mean_g, std_g, divisor),
            normalized(b, mean_b, std_b, divisor),
        )

    return normalize_bytes


normalize_bytes = make_normalize_bytes(normalize_byte)


@scalar
def paint(r, g, b, x, y, x0, y0, x1, y1, sharpness_x, sharpness_y, red, green, blue, inside):
    """Return a pixel painted outside (or inside) a rectangle of an earlier grid, with blended edges."""
    cover = coverage(x, x0, x1, sharpness_x) * coverage(y, y0, y1, sharpness_y)
    keep = inside + (ONE - inside - inside) * cover
    paint = ONE - keep
    return r * keep + red * paint, g * keep + green * paint, b * keep + blue * paint


@scalar
def grid(r, g, b, x, y, along, across, x0, y0, share, red, green, blue):
    """Return a pixel, painted if it lies in the square at the corner of a cell of a grid.

    The square covers ``share`` of a cell's side. ``along`` and ``across`` are the cells per pixel that the grid's first
    axis advances in x and in y.
    """
    column = along * x + across * y + x0
    row = along * y - across * x + y0
    hidden = column - floor(column) < share and row - floor(row) < share
    return red if hidden else r, green if hidden else g, blue if hidden else b


@scalar
def sharpen(x, around, factor):
    """Return ``x`` mixed with its smoothed value, given the sum of its eight neighbors (Pillow's ``SMOOTH`` kernel)."""
    return blend(x, (around + f32(5.0) * x) * f32(1.0 / 13.0), factor)


@scalar
def mix(x, other, weight):
    """Return ``x`` mixed with another image's value; exactly ``x`` at weight 1 and the other's at 0."""
    return x * weight + other * (ONE - weight)


@scalar
def to_byte(x):
    """Return the index 0 to 255 of ``x`` in a table or histogram."""
    return i32(confine(x, ZERO, ONE) * BYTE_SCALE)


_WHOLE = f32(3 << 22)


@scalar
def round_half_even(x):
    """Return ``x`` rounded to the nearest integer, ties to even, in float32; for at most 2**22 either way."""
    # From 2**23 to 2**24 float32 has the whole numbers only: the addition rounds, as every operation does.
    return (x + _WHOLE) - _WHOLE


@scalar
def store_byte(x):
    """Return ``x`` as 0 to 255, ties to even."""
    # Bytes averaged with weights such as 1/2 or 1/4 are exact ties, which float32 in units of 1 does not preserve.
    # Rounding to 1/1024 of a level first restores them.
    levels = round_half_even(unit(x) * f32(255.0 * 1024.0)) * f32(1.0 / 1024.0)
    return round_half_even(levels)
