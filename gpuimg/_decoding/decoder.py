"""What every decoder agrees on: how large an image may be, and what is told of its header."""

from __future__ import annotations

from typing import NamedTuple

# Above this an image is refused before any pixel memory is taken (a forged header costs nothing). Pillow warns at
# 89 million pixels and refuses at twice that; this is 2^27.
MAX_PIXELS = 1 << 27


def over_limit(height: int, width: int, max_pixels: int) -> str:
    """Why an image of a size, as stored, is refused."""
    return f"{height} x {width} is {height * width} pixels, over the limit of max_pixels={max_pixels}"


class ImageInfo(NamedTuple):
    """What a file's header says.

    Attributes
    ----------
    height, width : int
        Size in pixels after the EXIF orientation is applied.
    channels : int
        Channels in the file (3 for YCbCr, 4 for CMYK or RGBA).
    codec : str
        ``"jpeg"``, ``"png"``, ``"webp"``, ``"avif"``, ``"gif"``, ``"tiff"``, ``"bmp"``, ``"pnm"``, ``"jpeg2k"`` or
        ``"heic"``.
    chroma_subsampling : str
        ``"4:2:0"``, ``"4:4:4"``, ``"gray"`` and so on; ``"unknown"`` where the file does not tell.
    orientation : int
        EXIF orientation, 1 to 8; 1 if there is none.
    """

    height: int
    width: int
    channels: int
    codec: str
    chroma_subsampling: str
    orientation: int
