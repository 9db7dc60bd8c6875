"""Decoding of one file by the decoders that work in Python: PNG's, Pillow, and those of 16-bit values."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import exif, pillow, png
from .decoder import RefusedError
from .options import DecodeOptions
from .pixels import laid_out

_BITS = 16

#: Factor from 8-bit to 16-bit values.
FROM_BYTES = 257


def decode_pages(data: Any, options: DecodeOptions) -> Iterator[NDArray[Any]]:
    """Yield all pictures of a file, as :func:`decode` returns one of them."""
    for header, pixels in pillow.decode_pages(data, options):
        if pixels is None:
            yield decode(data, header, options)
        else:
            yield pixels if options.bits == 8 else pixels * np.uint16(FROM_BYTES)


def decode(data: Any, header: pillow.PillowHeader, options: DecodeOptions) -> NDArray[Any]:
    """Decode a file to (H, W, C) as displayed, uint8 or uint16; take and raise what :func:`.pillow.decode` does."""
    decoded: NDArray[Any]
    if options.bits != 8 and header.depth > 8:
        if header.depth != _BITS:
            raise RefusedError(f'values of {header.depth} bits are not supported with depth="native", only of 8 and 16')
        found = png.decode16(data) if header.codec == "png" else None
        found = pillow.decode16(data, header) if found is None else found
        decoded = laid_out(found, found.shape[:2], options.channels, _BITS, None)
    else:
        part = png.part_of(data, options) if header.codec == "png" and not header.page else None
        decoded = pillow.decode(data, header, options) if part is None else part.pixels()
        if options.bits != 8:
            decoded = decoded * np.uint16(FROM_BYTES)
    if decoded.shape[:2] != (header.height, header.width):
        raise ValueError("the decoded image differs in size from its header")
    shown: NDArray[Any] = exif.turned(decoded, header.orientation)
    return shown
