"""Encoding with Pillow, and files that need none."""

import os
import tempfile
from functools import lru_cache
from typing import IO, Any, cast

import numpy as np

from .._decoding import jpeg
from ..kernels.jpeg.layout import BASELINE
from .options import Options

_SAMPLED = {"4:4:4", "4:2:2", "4:2:0"}  # subsamplings that Pillow writes
_USUAL = "4:2:0"  # replaces all others

#: File name endings by format, the usual one first.
ENDINGS = {
    "JPEG": ("jpg", "jpeg", "jfif", "jpe"), "PNG": ("png",), "WEBP": ("webp",), "TIFF": ("tif", "tiff"),
    "BMP": ("bmp",), "PNM": ("ppm", "pgm", "pbm", "pnm"), "JPEG2K": ("jp2", "j2k"), "GIF": ("gif",),
    "AVIF": ("avif",), "HEIC": ("heic", "heif"),
}  # fmt: skip
#: Formats of results under ``to="same"``, by codec; all others become JPEG.
SAME = {"png": "PNG", "webp": "WEBP"}


def encoder_version() -> str:
    """Return name and version of the encoder: a different version may write other bytes."""
    from PIL import __version__

    return f"Pillow {__version__}"


def encoded(pixels: Any, form: str, sampling: str, options: Options) -> bytes:
    """Encode pixels (H, W, C), only the first channel if ``sampling`` is "gray"; raise ValueError if that fails."""
    from PIL import Image

    image = Image.fromarray(pixels[..., 0] if sampling == "gray" else pixels)
    parameters: dict[str, Any] = {}
    if form != "PNG":
        parameters["quality"] = options.quality
    if form == "JPEG":
        wanted = sampling if options.subsampling == "keep" else options.subsampling
        parameters |= {"subsampling": wanted if wanted in _SAMPLED else _USUAL}
        parameters |= {"restart_marker_rows": 1} if options.restart == "rows" else {}
    with _memory_file() as file:
        try:
            image.save(file, form, **parameters)
        except (OSError, ValueError) as error:
            raise ValueError(f"{image.height} x {image.width} cannot be written as {form}: {error}") from None
        file.seek(0)
        return file.read()


def _memory_file() -> IO[bytes]:
    """Return an anonymous file: Pillow releases the GIL when it writes to a file descriptor, but not to ``BytesIO``."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("gpuimg"), "w+b")
    return cast("IO[bytes]", tempfile.TemporaryFile())


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
    """Return the sum of the luma quantization steps that Pillow writes at a quality."""
    from PIL import Image

    with _memory_file() as file:
        Image.new("L", (8, 8)).save(file, "JPEG", quality=quality)
        file.seek(0)
        data = file.read()
    return _coarseness(jpeg.read_headers([data]).records[0], data)
