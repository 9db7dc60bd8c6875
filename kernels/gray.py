"""Gray bytes of color bytes, for files that are decoded as gray: the op's formula and its rounding."""

from __future__ import annotations

from .color import luma, store_byte
from .compiled import kept
from .scalar import f32

_BYTE = f32(1.0 / 255.0)


@kept
def gray_bytes(pixels, out):
    """Fill ``out`` (N,) with the gray values of ``pixels`` (3 N,), all uint8."""
    for i in range(out.size):
        r, g, b = f32(pixels[3 * i]) * _BYTE, f32(pixels[3 * i + 1]) * _BYTE, f32(pixels[3 * i + 2]) * _BYTE
        out[i] = store_byte(luma(r, g, b))
