"""The result of parsing a file's header, and limits on the cost of decoding, the same for every format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

#: File bytes in pieces, so that parts of a file can be omitted without a copy.
Parts: TypeAlias = "Iterable[bytes | memoryview]"

# Memory allowed for decoding in addition to the file: enough for coefficients and planes of every format at full size.
BYTES_PER_PIXEL = 24
BYTES_PER_IMAGE = 64_000_000
#: Each scan of a progressive JPEG visits all coefficients; real files have about ten scans.
MAX_SCANS = 256


class RefusedError(ValueError):
    """A file over a limit or of an unsupported kind. Any other exception means that a file is damaged."""


class Contents(NamedTuple):
    """The header of a file, sizes as stored, and the parts of the file that hold the pixels."""

    height: int
    width: int
    channels: int
    parts: Parts
    orientation: int = 1
    chroma_subsampling: str = "unknown"
    bits: int = 16  # bits used in the values of a 16-bit gray file
    depth: int = 8  # bits per value, for formats that are read with more than 8


def check_size(height: int, width: int, max_pixels: int) -> None:
    """Refuse a size before any memory is allocated for it.

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
    """Refuse files that need far more memory than an image of this size should.

    Raises
    ------
    ValueError
        With the number and the limit.
    """
    limit = BYTES_PER_PIXEL * height * width + BYTES_PER_IMAGE
    if needed > limit:
        raise RefusedError(
            f"decoding {what} needs {needed} bytes, over the limit of {limit} for an image of {height} x {width}"
        )
