"""What stands between the runtimes and the libraries that decode: an opened image, and decoders of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

# Above this an image is refused before any pixel memory is taken (a forged header costs nothing). Pillow warns at
# 89 million pixels and refuses at twice that; this is 2^27.
MAX_PIXELS = 1 << 27


class ImageInfo(NamedTuple):
    """What a file's header says.

    Attributes
    ----------
    height, width : int
        Size in pixels after the EXIF orientation is applied.
    channels : int
        Channels in the file (3 for YCbCr, 4 for CMYK or RGBA).
    codec : str
        ``"jpeg"``, ``"png"``, ``"webp"``, ``"bmp"``, ``"tiff"``, ``"jpeg2k"`` or ``"pnm"``.
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


class EncodedImage(NamedTuple):
    """One encoded image whose header was read; sizes are those after the orientation."""

    stream: Any  # the decoding library's own object for it, which refers to ``data``
    data: Any  # file bytes
    height: int
    width: int
    orientation: int


#: Part of an image as stored in the file: x0, y0, x1, y1.
Region: TypeAlias = tuple[int, int, int, int]


class Decoder(Protocol):
    """Decodes into host memory; for one thread at a time."""

    def decode(self, image: EncodedImage, region: Region | None, out: Any) -> str | None:
        """Decode an image, or a region of it, as stored, into ``out`` (H, W, C) uint8 of 1 or 3 channels.

        Gives the reason if that fails; what is in ``out`` then is undefined.
        """


class BatchDecoder(Protocol):
    """Decodes into the memory of one GPU; for one thread at a time."""

    def decode(self, images: Sequence[EncodedImage], outs: Sequence[Any], stream: int) -> list[str | None]:
        """Decode whole images as stored into ``outs``, (H, W, C) uint8 each, on a CUDA stream; as :class:`Decoder`."""
