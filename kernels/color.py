"""Color of one pixel: every formula of the library, on float32 values where 1 is white.

The formulas are torchvision's float ones (``torchvision/transforms/v2/functional/_color.py``), written without
branches so that the CPU's row loop vectorises and the GPU's warps do not diverge.
"""

from __future__ import annotations

from .scalar import clamp, confine, f32, floor, i32, scalar

ONE = f32(1.0)
ZERO = f32(0.0)
# float -> byte as torchvision's ``to_dtype(scale=True)``: every byte owns an equal share of [0, 1].
BYTE_SCALE = f32(255.999)
# Statistics are summed as integers, so that a mean is the same in whatever order threads add.
FIXED_ONE = f32(16777216.0)
INVERSE_FIXED_ONE = f32(1.0 / 16777216.0)


@scalar
def unit(x):
    """``x`` clamped to [0, 1]."""
    return clamp(x, ZERO, ONE)


@scalar
def luma(r, g, b):
    """Gray value with torchvision's ITU-R 601 weights, which sum to 0.9999."""
    return f32(0.2989) * r + f32(0.587) * g + f32(0.114) * b


@scalar
def gray(r, g, b, channels):
    """Gray value of a color pixel, or the value itself of a one-channel one."""
    return r if channels == 1 else luma(r, g, b)


@scalar
def brightness(x, factor):
    """``x`` scaled towards black (factor 0) or beyond white."""
    return unit(x * factor)


@scalar
def blend(x, other, factor):
    """``x`` mixed with ``other`` (contrast: the mean gray; saturation: the pixel's gray); factor 1 keeps ``x``."""
    return unit(x * factor + other * (ONE - factor))


@scalar
def hsv_channel(k, hue6, value, chroma):
    """Channel of an HSV color: ``k`` is 5 for red, 3 for green, 1 for blue; hue in sixths of a turn.

    The closed form of the six-case table in torchvision's ``_hsv_to_rgb``.
    """
    n = k + hue6
    n = n - f32(6.0) * floor(n * f32(1.0 / 6.0))
    return unit(value - chroma * clamp(min(n, f32(4.0) - n), ZERO, ONE))


@scalar
def shift_hue(r, g, b, shift):
    """Hue turned by ``shift`` (in turns) in HSV."""
    value = max(max(r, g), b)
    chroma = value - min(min(r, g), b)
    inverse = ONE / (chroma if chroma > ZERO else ONE)
    from_red = (g - b) * inverse
    from_green = f32(2.0) + (b - r) * inverse
    from_blue = f32(4.0) + (r - g) * inverse
    sixths = from_red if value == r else from_green if value == g else from_blue
    turns = sixths * f32(1.0 / 6.0) + shift
    hue6 = (turns - floor(turns)) * f32(6.0)
    return (
        hsv_channel(f32(5.0), hue6, value, chroma),
        hsv_channel(f32(3.0), hue6, value, chroma),
        hsv_channel(f32(1.0), hue6, value, chroma),
    )


@scalar
def solarize(x, threshold):
    """``x`` inverted where it is at or above the threshold."""
    return ONE - x if x >= threshold else x


@scalar
def posterize(x, in_scale, top, out_scale):
    """``x`` cut to the first of its levels below it."""
    return clamp(floor(x * in_scale), ZERO, top) * out_scale


@scalar
def stretch(x, low, gain):
    """``x`` moved so that ``low`` becomes 0, then scaled: autocontrast."""
    return unit((x - low) * gain)


@scalar
def sharpen(x, around, factor):
    """``x`` mixed with its smoothed self, given the sum of its eight neighbours (Pillow's ``SMOOTH`` kernel)."""
    return blend(x, (around + f32(5.0) * x) * f32(1.0 / 13.0), factor)


@scalar
def mix(x, other, weight):
    """``x`` and another image's value; exactly ``x`` at weight 1 and the other's at 0."""
    return x * weight + other * (ONE - weight)


@scalar
def to_byte(x):
    """Index 0 to 255 of ``x`` in a table or histogram."""
    return i32(confine(x, ZERO, ONE) * BYTE_SCALE)


@scalar
def round_half_even(x):
    """``x`` rounded to the nearest integer, ties to even, in float32."""
    up = floor(x + f32(0.5))
    odd = up - f32(2.0) * floor(up * f32(0.5))
    return up - odd if up - x == f32(0.5) else up


@scalar
def store_byte(x):
    """``x`` as 0 to 255, ties to even.

    Bytes averaged with weights such as 1/2 or 1/4 land on ties exactly, which float32 in units of 1 does not keep:
    the grid of 1/1024 puts them back.
    """
    levels = round_half_even(unit(x) * f32(255.0 * 1024.0)) * f32(1.0 / 1024.0)
    return round_half_even(levels)
