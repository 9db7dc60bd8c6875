"""Pyramids of tiles as scanners, GDAL and libtiff write them, in every form of their tiles; written here."""

import io
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..decoding.tiffs import pages
from ..robustness.mutate import segments as pieces
from ..samples import file_of, smooth

Pixels = NDArray[Any]
Encode = Callable[[Pixels], bytes]

START, END, SCAN = b"\xff\xd8", b"\xff\xd9", 0xDA
JFIF = b"\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"
_TABLES, _APPLICATIONS = {0xDB, 0xC4}, {0xE0, 0xEE}
_GRAY, _RGB, _YCBCR = 1, 2, 6
_STEPS = {"4:2:0": (2, 2), "4:2:2": (2, 1), "4:4:4": (1, 1)}


def picture(height: int, width: int, dtype: str = "uint8") -> Pixels:
    """A smooth picture with some noise: no two pixels need be alike, and JPEGs of it stay small."""
    rng = np.random.default_rng(7)
    found = np.asarray(smooth(height, width)).astype(np.int64) + rng.integers(-9, 10, (height, width, 3))
    if dtype == "uint16":
        found = found * 257 + rng.integers(-90, 90, found.shape)
    return found.clip(0, np.iinfo(dtype).max).astype(dtype)


def halved(image: Pixels) -> Pixels:
    """Half of each side, rounded down."""
    return image[1::2, 1::2].copy()


def saved(image: Pixels, form: str = "JPEG", **options: Any) -> bytes:
    """A file of Pillow."""
    return file_of(image if image.shape[-1] != 1 else image[..., 0], form, **options)


def segments(jpeg: bytes) -> Iterator[tuple[int, bytes]]:
    """Marker and bytes of each segment but the first, with the data of a scan."""
    return ((piece[1], piece) for piece in pieces(jpeg)[1:])


def _numbered(marker: int, segment: bytes) -> bytes:
    """A frame or scan header whose components have libtiff's numbers of RGB, 0 to 2."""
    changed, (start, step) = bytearray(segment), (10, 3) if marker == 0xC0 else (5, 2)
    for k in range(3):
        changed[start + step * k] = k
    return bytes(changed)


class Form(NamedTuple):
    """A form of JPEG tiles: where their tables are, and which markers say what of the color space."""

    photometric: int = _YCBCR
    sampling: str = "4:2:0"
    shared: bool = True  # the tables are the directory's
    markers: Literal["none", "own", "jfif"] = "none"
    quality: int = 85

    def encode(self, tile: Pixels) -> bytes:
        """A tile in this form."""
        more = {"keep_rgb": True} if self.photometric == _RGB else {"subsampling": self.sampling}
        parts = [START] + [JFIF] * (self.markers == "jfif")
        for marker, segment in segments(saved(tile, quality=self.quality, **(more if tile.shape[-1] == 3 else {}))):
            if (marker in _TABLES and self.shared) or (marker in _APPLICATIONS and self.markers != "own"):
                continue
            is_numbered = self.photometric == _RGB and self.markers != "own" and marker in (0xC0, SCAN)
            parts.append(_numbered(marker, segment) if is_numbered else segment)
        return b"".join(parts)

    def tags(self, channels: int) -> dict[int, Any]:
        """Tags of a directory of such tiles."""
        more = {"keep_rgb": True} if self.photometric == _RGB else {}
        one = saved(np.zeros((16, 16, channels), np.uint8), quality=self.quality, **more)
        tables = START + b"".join(segment for marker, segment in segments(one) if marker in _TABLES) + END
        steps = {530: _STEPS[self.sampling]} if self.photometric == _YCBCR else {}
        return {259: 7, 262: self.photometric} | ({347: tables} if self.shared else {}) | steps


def tiles_of(image: Pixels, side: int) -> Iterator[Pixels]:
    """Tiles row by row; those that reach over the edges repeat the last pixel."""
    height, width = image.shape[:2]
    padded = np.pad(image, [(0, -height % side), (0, -width % side), (0, 0)], mode="edge")
    for y in range(0, height, side):
        for x in range(0, width, side):
            yield np.ascontiguousarray(padded[y : y + side, x : x + side])


def level_of(image: Pixels, encode: Encode, side: int, tags: dict[int, Any]) -> tuple[list[bytes], dict[int, Any]]:
    """Tiles and tags of a directory."""
    height, width, channels = image.shape
    own = {256: width, 257: height, 258: [8 * image.itemsize] * channels, 277: channels, 284: 1, 322: side, 323: side}
    return [encode(tile) for tile in tiles_of(image, side)], own | tags


def pyramid(
    image: Pixels, encode: Encode, tags: dict[int, Any], *, levels: int = 3, side: int = 256, **options: Any
) -> bytes:
    """A file of an image and its halves."""
    images = [image]
    for _ in range(levels - 1):
        images.append(halved(images[-1]))
    directories = [level_of(one, encode, side, tags | {254: int(k > 0)}) for k, one in enumerate(images)]
    return pages(directories, tiled=True, **options)


def jpeg_pyramid(image: Pixels, form: Form = Form(), **options: Any) -> bytes:  # noqa: B008 -- it does not change
    """A file of JPEG tiles."""
    return pyramid(image, form.encode, form.tags(image.shape[2]), **options)


def raw(order: str = "<", pack: Callable[[bytes], bytes] = bytes, *, predicted: bool = False) -> Encode:
    """The encoder of tiles whose bytes are packed, after subtracting each pixel's left neighbor if ``predicted``."""

    def encode(tile: Pixels) -> bytes:
        if predicted:
            tile = np.diff(tile, axis=1, prepend=np.zeros_like(tile[:, :1]))
        return pack(tile.astype(tile.dtype.newbyteorder(order)).tobytes())

    return encode


deflated = raw(pack=zlib.compress, predicted=True)


def packed(compression: str) -> Encode:
    """The encoder of tiles that libtiff packs."""

    def encode(tile: Pixels) -> bytes:
        file = io.BytesIO(saved(tile, "TIFF", compression=compression, tiffinfo={278: len(tile)}))
        (offset,), (size,) = (Image.open(file).tag_v2[tag] for tag in (273, 279))  # type: ignore[attr-defined]
        return file.getvalue()[offset : offset + size]

    return encode
