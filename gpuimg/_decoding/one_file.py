"""Decoding of one file by the decoders that work in Python: PNG's, Pillow, and those of 16-bit values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import deep, exif, pillow, png
from .options import DecodeOptions


def decode(data: Any, header: pillow.PillowHeader, options: DecodeOptions) -> NDArray[Any]:
    """Decode a file to (H, W, C) as displayed, uint8 or uint16; take and raise what :func:`.pillow.decode` does."""
    decoded: NDArray[Any]
    if options.bits != 8 and deep.is_deep(header):
        decoded = deep.decode(data, header, options.channels)
    else:
        part = png.part_of(data, options) if header.codec == "png" else None
        decoded = pillow.decode(data, header, options) if part is None else part.pixels()
        if options.bits != 8:
            decoded = decoded * np.uint16(deep.FROM_BYTES)
    if decoded.shape[:2] != (header.height, header.width):
        raise ValueError("the decoded image differs in size from its header")
    shown: NDArray[Any] = exif.turned(decoded, header.orientation)
    return shown
