"""Definitions shared by all decoders: headers of files, and limits on the cost of decoding.

Functions of the modules ``*_parts`` read headers; they raise ValueError with the reason if a file cannot be decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

#: File bytes in pieces, so that parts of a file can be omitted without a copy.
Parts: TypeAlias = "Iterable[bytes | memoryview]"

# Larger images are refused before pixel memory is allocated (a forged header costs nothing). Pillow warns at 89 million
# pixels and refuses at twice that; this is 2^27.
MAX_PIXELS = 1 << 27
# Memory allowed for decoding in addition to the file: enough for coefficients and planes of every format at full size.
BYTES_PER_PIXEL = 24
BYTES_PER_IMAGE = 64_000_000
#: Each scan of a progressive JPEG visits all coefficients; real files have about ten scans.
MAX_SCANS = 256


class ImageInfo(NamedTuple):
    """The header of an image file.

    Attributes
    ----------
    height, width : int
        Size in pixels after the EXIF orientation is applied.
    channels : int
        Channels in the file (3 for YCbCr, 4 for CMYK or RGBA).
    codec : str
        ``"jpeg"``, ``"png"``, ``"webp"``, ``"avif"``, ``"gif"``, ``"tiff"``, ``"bmp"``, ``"pnm"``, ``"jpeg2k"``,
        ``"heic"`` or ``"jxl"``.
    chroma_subsampling : str
        ``"4:2:0"``, ``"4:4:4"``, ``"gray"`` and so on; ``"unknown"`` if the file does not specify it.
    orientation : int
        EXIF orientation, 1 to 8; 1 if the file has none.
    bits : int
        Bits per value in the file.
    pages : int
        Pictures of an animation, or pages of a TIFF file; 1 for other files.
    has_icc : bool
        True if the file has an ICC profile.
    dpi : tuple of float or None
        Pixels per inch, horizontally and vertically; None if the file does not say.

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
    bits: int = 8
    pages: int = 1
    has_icc: bool = False
    dpi: tuple[float, float] | None = None


class PillowHeader(NamedTuple):
    """The header of a file, sizes as stored, without the orientation; and the parts of the file that hold the pixels.

    ``channels`` in the file are 2 for gray with alpha, 4 for CMYK and RGBA, 3 for a palette, 4 for a palette with
    transparency. ``codec`` is a name of :class:`gpuimg.typing.ImageInfo`.
    """

    height: int
    width: int
    channels: int
    parts: Parts  # decoded once; they may hold a copy of the file's bytes, and are left out where a header is kept
    orientation: int = 1
    chroma_subsampling: str = "unknown"
    bits: int = 16  # bits used in values that are decoded to 16
    depth: int = 8  # bits per value in the file
    codec: str = ""
    layout: Any = None  # of a TIFF file whose bytes are unpacked, or a GIF image on a larger screen
    page: int = 0  # of the file: a picture of an animation, or of a TIFF file
    is_common: bool = False  # of a kind that all decoders read in the same way, nvImageCodec's too


class RefusedError(ValueError):
    """A file over a limit or of an unsupported kind. Any other exception means that a file is damaged."""


def over_limit(height: int, width: int, max_pixels: int) -> str:
    """Return the reason for which an image of a stored size is refused."""
    return f"{height} x {width} is {height * width} pixels, over the limit of max_pixels={max_pixels}"


def check_size(height: int, width: int, max_pixels: int) -> None:
    """Refuse a size before any memory is allocated for it."""
    if height < 1 or width < 1:
        raise ValueError(f"size {height} x {width}")
    if height * width > max_pixels:
        raise RefusedError(over_limit(height, width, max_pixels))


def check_memory(needed: int, height: int, width: int, what: str) -> None:
    """Refuse files that need far more memory than an image of this size should."""
    limit = BYTES_PER_PIXEL * height * width + BYTES_PER_IMAGE
    if needed > limit:
        raise RefusedError(
            f"decoding {what} needs {needed} bytes, over the limit of {limit} for an image of {height} x {width}"
        )
