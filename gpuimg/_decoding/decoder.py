"""Definitions shared by all decoders: the size limit, and the public header record."""

from __future__ import annotations

from typing import NamedTuple

# Larger images are refused before pixel memory is allocated (a forged header costs nothing). Pillow warns at 89 million
# pixels and refuses at twice that; this is 2^27.
MAX_PIXELS = 1 << 27


def over_limit(height: int, width: int, max_pixels: int) -> str:
    """Return the reason for which an image of a stored size is refused."""
    return f"{height} x {width} is {height * width} pixels, over the limit of max_pixels={max_pixels}"


class ImageInfo(NamedTuple):
    """The header of an image file.

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
        ``"4:2:0"``, ``"4:4:4"``, ``"gray"`` and so on; ``"unknown"`` if the file does not specify it.
    orientation : int
        EXIF orientation, 1 to 8; 1 if the file has none.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (30, 20)).save(file, "JPEG")
    >>> info = gpuimg.image_info(file.getvalue())
    >>> info.height, info.width, info.chroma_subsampling
    (20, 30, '4:2:0')
    """

    height: int
    width: int
    channels: int
    codec: str
    chroma_subsampling: str
    orientation: int
