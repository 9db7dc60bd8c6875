"""Pixels to file bytes, by Pillow; and JPEG files changed without a loss, by jpegtran."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from typing import IO, Any, cast

import numpy as np

from .._decoding import jpeg
from ..kernels.jpeg.layout import BASELINE
from .options import Options

_OUTPUT_WITH_WARNINGS = 2  # of jpegtran's exit status
_SAMPLED = {"4:4:4", "4:2:2", "4:2:0"}  # what Pillow writes
_USUAL = "4:2:0"

#: Endings of the files of each format, the usual one first.
ENDINGS = {
    "JPEG": ("jpg", "jpeg", "jfif", "jpe"), "PNG": ("png",), "WEBP": ("webp",), "TIFF": ("tif", "tiff"),
    "BMP": ("bmp",), "PNM": ("ppm", "pgm", "pbm", "pnm"), "JPEG2K": ("jp2", "j2k"), "GIF": ("gif",),
    "AVIF": ("avif",), "HEIC": ("heic", "heif"),
}  # fmt: skip
#: Formats that stay what they are where that is asked for; all others become JPEG.
_SAME = {"png": "PNG", "webp": "WEBP"}


def encoder_version() -> str:
    """Of the library that encodes: another one may give other bytes."""
    from PIL import __version__

    return f"Pillow {__version__}"


def format_of(codec: str, options: Options) -> str:
    """The format of a result: Pillow's name of it, of which :data:`ENDINGS` has the endings."""
    return _SAME.get(codec, "JPEG") if options.to == "same" else "JPEG"


def encoded(pixels: Any, form: str, sampling: str, options: Options) -> bytes:
    """A file of pixels (H, W, C), of which the first channel alone is taken where ``sampling`` is gray.

    Raises
    ------
    ValueError
        For what the format has no room for.
    """
    from PIL import Image

    image = Image.fromarray(pixels[..., 0] if sampling == "gray" else pixels)
    told: dict[str, Any] = {}
    if form != "PNG":
        told["quality"] = options.quality
    if form == "JPEG":
        wanted = sampling if options.subsampling == "keep" else options.subsampling
        told |= {"subsampling": wanted if wanted in _SAMPLED else _USUAL}
        told |= {"restart_marker_rows": 1} if options.restart == "rows" else {}
    with _memory_file() as file:
        try:
            image.save(file, form, **told)
        except (OSError, ValueError) as error:
            raise ValueError(f"{image.height} x {image.width} cannot be written as {form}: {error}") from None
        file.seek(0)
        return file.read()


def _memory_file() -> IO[bytes]:
    """A file without a name: Pillow lets other threads run while it writes to one, and not while it gives bytes."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("gpuimg"), "w+b")
    return cast("IO[bytes]", tempfile.TemporaryFile())


# -- files that may stay as they are -----------------------------------------------------------------------------------


def may_stay(header: Any, data: Any, options: Options) -> bool:
    """Whether a JPEG file of the right size is as it would be written: its bytes are the best copy then.

    That is a baseline file, upright, sampled and with restart markers as asked for, and as coarsely quantised at least.
    """
    if header["kind"] != BASELINE:
        return False
    if options.restart == "rows" and not header["restart"]:
        return False
    if options.lossless:
        return True
    sampling = jpeg.chroma_subsampling(header)
    sampled = sampling in ("gray", options.subsampling) or options.subsampling == "keep"
    upright = header["orientation"] == 1
    return bool(sampled and upright and _coarseness(header, data) >= _coarseness_of(options.quality))


def _coarseness(header: Any, data: Any) -> int:
    """Sum of the steps to which the luma of a baseline JPEG is rounded."""
    at = int(header["quant"][0])
    long = bytes(data[at : at + 1])[0] >> 4
    table = bytes(data[at + 1 : at + 1 + (128 if long else 64)])
    return int(np.frombuffer(table, ">u2" if long else "u1").sum())


@lru_cache(maxsize=8)
def _coarseness_of(quality: int) -> int:
    """That of files that are written."""
    from PIL import Image

    with _memory_file() as file:
        Image.new("L", (8, 8)).save(file, "JPEG", quality=quality)
        file.seek(0)
        data = file.read()
    return _coarseness(jpeg.read_headers([data]).records[0], data)


# -- jpegtran ----------------------------------------------------------------------------------------------------------


def jpegtran_path() -> str:
    """Where the program is.

    Raises
    ------
    FileNotFoundError
        Where it is not on the PATH, with what to install.
    """
    found = shutil.which("jpegtran")
    if found is None:
        raise FileNotFoundError(
            "lossless needs the program jpegtran, which is not on the PATH; it is part of libjpeg-turbo (Debian: "
            "apt install libjpeg-turbo-progs; Fedora: dnf install libjpeg-turbo-utils; macOS: brew install jpeg-turbo)"
        )
    return found


def transformed(program: str, data: bytes, options: Options) -> bytes:
    """A JPEG file as a baseline one with the same coefficients, and with restart markers where these are asked for.

    Raises
    ------
    ValueError
        With what jpegtran says, where it fails.
    """
    markers = ["-restart", "1"] if options.restart == "rows" else []
    done = subprocess.run([program, "-copy", "all", *markers], input=data, capture_output=True, check=False)
    if done.returncode not in (0, _OUTPUT_WITH_WARNINGS) or not done.stdout:
        raise ValueError(f"jpegtran failed: {done.stderr.decode(errors='replace').strip() or done.returncode}")
    return done.stdout
