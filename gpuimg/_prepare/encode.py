"""Encoding of results, and files that need none."""

from functools import lru_cache
from typing import Any

import numpy as np

from .._batch.batch import Batch
from .._batch.encoding import encode_batch, encode_image
from .._decoding import jpeg
from .._encoding import pillow
from .._encoding.options import LONGEST_SIDE, SUBSAMPLINGS
from ..kernels.jpeg.layout import BASELINE
from .options import Options

_USUAL = "4:2:0"  # replaces all others

#: File name endings by format, the usual one first.
ENDINGS = {
    "JPEG": ("jpg", "jpeg", "jfif", "jpe"), "PNG": ("png",), "WEBP": ("webp",), "TIFF": ("tif", "tiff"),
    "BMP": ("bmp",), "PNM": ("ppm", "pgm", "pbm", "pnm"), "JPEG2K": ("jp2", "j2k"), "GIF": ("gif",),
    "AVIF": ("avif",), "HEIC": ("heic", "heif"), "JXL": ("jxl",),
}  # fmt: skip
#: Formats of results under ``to="same"``, by codec; all others become JPEG.
SAME = {"png": "PNG", "webp": "WEBP"}


def encoder_version() -> str:
    """Return name and version of the encoder of formats other than JPEG: a different one may write other bytes."""
    from PIL import __version__

    return f"Pillow {__version__}"


def chroma(sampling: str, options: Options) -> str:
    """Return the chroma subsampling of the JPEG for a file of one."""
    wanted = sampling if options.subsampling == "keep" else options.subsampling
    return wanted if wanted in SUBSAMPLINGS else _USUAL


def _jpeg(subsampling: str, options: Options) -> dict[str, Any]:
    return {"quality": options.quality, "subsampling": subsampling, "restart": options.restart}


def jpegs(batch: Batch, subsampling: str, options: Options) -> list[bytes]:
    """Encode results as JPEGs."""
    return encode_batch(batch, **_jpeg(subsampling, options))


def encoded(pixels: Any, form: str, sampling: str, options: Options) -> bytes:
    """Encode pixels (H, W, C), only the first channel if ``sampling`` is "gray"; raise ValueError if that fails."""
    if sampling == "gray":
        pixels = pixels[..., :1]
    if form != "JPEG":
        return pillow.encode(pixels, form, **({"quality": options.quality} if form != "PNG" else {}))
    if max(pixels.shape) > LONGEST_SIDE:
        raise ValueError(f"{pixels.shape[0]} x {pixels.shape[1]} cannot be written as JPEG: its sides are too long")
    return encode_image(pixels, **_jpeg(chroma(sampling, options), options))


def may_stay(header: Any, data: Any, options: Options) -> bool:
    """Return True if a JPEG file of the right size already meets the options, so that its bytes can be copied.

    The file must be baseline and upright, have the requested subsampling and restart markers, and be quantized at least
    as coarsely as the requested quality.
    """
    if header["kind"] != BASELINE:
        return False
    if options.restart == "rows" and not header["restart"]:
        return False
    sampling = jpeg.chroma_subsampling(header)
    sampled = sampling in ("gray", options.subsampling) or options.subsampling == "keep"
    upright = header["orientation"] == 1
    return bool(sampled and upright and _coarseness(header, data) >= _coarseness_of(options.quality))


def _coarseness(header: Any, data: Any) -> int:
    """Return the sum of the luma quantization steps of a baseline JPEG."""
    at = int(header["quant"][0])
    long = bytes(data[at : at + 1])[0] >> 4  # upper half of the first byte: 1 for steps of 16 bits
    table = bytes(data[at + 1 : at + 1 + (128 if long else 64)])
    return int(np.frombuffer(table, ">u2" if long else "u1").sum())


@lru_cache(maxsize=8)
def _coarseness_of(quality: int) -> int:
    """Return the sum of the luma quantization steps of a quality."""
    data = encode_image(np.zeros((8, 8, 1), np.uint8), quality=quality)
    return _coarseness(jpeg.read_headers([data]).records[0], data)
