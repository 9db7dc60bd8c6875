"""What a file says of its image, and what an image may cost: the same limits for every format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

#: File bytes in pieces, so that parts of a file can be left out without a copy.
Parts: TypeAlias = "Iterable[bytes | memoryview]"

# What decoding may take besides the file: enough for the coefficients and planes of every format at its full size.
BYTES_PER_PIXEL = 24
BYTES_PER_IMAGE = 64_000_000
#: A progressive JPEG goes over all coefficients once a scan; real files have about ten.
MAX_SCANS = 256


class RefusedError(ValueError):
    """What is over a limit or not supported. Any other exception means that a file is damaged."""


class Contents(NamedTuple):
    """What the header of a file says, sizes as stored, and the parts of the file that hold the pixels."""

    height: int
    width: int
    channels: int
    parts: Parts
    orientation: int = 1
    chroma_subsampling: str = "unknown"
    bits: int = 16  # that are used of the values of a 16-bit gray file
    depth: int = 8  # bits of a value, of the formats that are read with more than 8


def check_size(height: int, width: int, max_pixels: int) -> None:
    """Refuse a size before any memory is taken for it.

    Raises
    ------
    ValueError
        With the size and the limit.
    """
    if height < 1 or width < 1:
        raise ValueError(f"size {height} x {width}")
    if height * width > max_pixels:
        raise RefusedError(f"{height} x {width} is {height * width} pixels, over the limit of max_pixels={max_pixels}")


def check_memory(needed: int, height: int, width: int, what: str) -> None:
    """Refuse what would take far more memory than an image of this size.

    Raises
    ------
    ValueError
        With the number and the limit.
    """
    limit = BYTES_PER_PIXEL * height * width + BYTES_PER_IMAGE
    if needed > limit:
        raise RefusedError(
            f"{what}, which takes {needed} bytes to decode, over the limit of {limit} for one of {height} x {width}"
        )
