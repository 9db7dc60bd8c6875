"""Decoding of one file by the decoders that work in Python: PNG's, Pillow, and those of 16-bit values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import exif, nvimgcodec, pillow, png
from .decoder import RefusedError
from .options import DecodeOptions

_BITS = 16

#: Factor from 8-bit to 16-bit values.
FROM_BYTES = 257


def decode(data: Any, header: pillow.PillowHeader, options: DecodeOptions) -> NDArray[Any]:
    """Decode a file to (H, W, C) as displayed, uint8 or uint16; take and raise what :func:`.pillow.decode` does."""
    decoded: NDArray[Any]
    if options.bits != 8 and header.depth > 8:
        decoded = _decode_deep(data, header, options.channels)
    else:
        part = png.part_of(data, options) if header.codec == "png" else None
        decoded = pillow.decode(data, header, options) if part is None else part.pixels()
        if options.bits != 8:
            decoded = decoded * np.uint16(FROM_BYTES)
    if decoded.shape[:2] != (header.height, header.width):
        raise ValueError("the decoded image differs in size from its header")
    shown: NDArray[Any] = exif.turned(decoded, header.orientation)
    return shown


def _decode_deep(data: Any, header: pillow.PillowHeader, channels: int) -> NDArray[np.uint16]:
    """Decode a file of more than 8 bits per value to (H, W, C) uint16, as stored, whatever number of channels it has.

    Our decoder takes PNG files. Of others Pillow decodes gray; of color it drops the lower 8 bits, so nvImageCodec
    decodes that, on the CPU.
    """
    if header.depth != _BITS:
        raise RefusedError(f'values of {header.depth} bits are not supported with depth="native", only of 8 and 16')
    pixels = png.decode16(data) if header.codec == "png" else None
    if pixels is None:
        pixels = pillow.decode_gray16(data, header) if header.channels == 1 else _color(data, header)
    if pixels.shape != (header.height, header.width, header.channels):
        raise ValueError(
            f"its header gives {header.height} x {header.width} pixels of {header.channels} channels, but "
            f"{' x '.join(map(str, pixels.shape))} are decoded"
        )
    return pillow.laid_out(pixels, pixels.shape[:2], channels, _BITS, None)


def _color(data: Any, header: pillow.PillowHeader) -> NDArray[np.uint16]:
    try:
        found = nvimgcodec.decode_deep(data)
    except ImportError as error:
        kind = " of damaged and interlaced PNG files" if header.codec == "png" else ""
        raise RefusedError(f"16-bit color{kind} needs nvImageCodec: {error}") from None
    if found is None or found.dtype != np.uint16:
        raise ValueError(f"damaged {header.codec.upper()} file, or one of a kind that nvImageCodec does not decode")
    pixels: NDArray[np.uint16] = found
    return pixels
