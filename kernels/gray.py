"""Conversion of decoded colors: to gray, with the formula and rounding of the op, and to red, green and blue bytes."""

from .color import luma, round_half_even, store_byte, unit
from .compiled import cached_jit
from .layout import SCALES
from .scalar import f32, scalar

_BYTE = SCALES["uint8"]
_WORD = f32(1.0 / 65535.0)


@scalar
def gray_byte(r, g, b):
    """Return the gray value of a color, all uint8."""
    return store_byte(luma(f32(r) * _BYTE, f32(g) * _BYTE, f32(b) * _BYTE))


@cached_jit("none(uint8[::1], uint8[::1])")
def gray_bytes(pixels, out):
    """Fill ``out`` (N,) with the gray values of ``pixels`` (3 N,), all uint8."""
    for i in range(out.size):
        out[i] = gray_byte(pixels[3 * i], pixels[3 * i + 1], pixels[3 * i + 2])


@cached_jit("none(uint16[::1], uint16[::1])")
def gray_words(pixels, out):
    """Fill ``out`` (N,) with the gray values of ``pixels`` (3 N,), all uint16."""
    for i in range(out.size):
        r, g, b = f32(pixels[3 * i]) * _WORD, f32(pixels[3 * i + 1]) * _WORD, f32(pixels[3 * i + 2]) * _WORD
        out[i] = round_half_even(unit(luma(r, g, b)) * f32(65535.0))


@cached_jit("none(uint8[::1], uint8[::1])")
def colors_of_words(words, out):
    """Fill ``out`` (3 N,) with the first three bytes of each word of ``words`` (4 N,)."""
    for i in range(out.size // 3):
        for c in range(3):
            out[3 * i + c] = words[4 * i + c]


@cached_jit("none(uint8[::1], int64, int64, uint8[:, ::1])")
def colors_of_rows(stored, first, step, out):
    """Fill ``out`` (H, 3 W) with rows of blue, green and red, the first from ``first`` and others ``step`` bytes on."""
    for y in range(out.shape[0]):
        row, to = stored[first + y * step :], out[y]  # indices that cannot be negative: a fifteenth of the time
        for x in range(to.size // 3):
            for c in range(3):
                to[3 * x + c] = row[3 * x + 2 - c]
