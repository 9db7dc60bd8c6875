"""Options of ``gpuimg.prepare`` and their validation: sizes and encoding of results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._checks.arguments import flag, one_of, whole_number
from .._checks.types import Ints
from .._decoding.options import DecodeOptions

_QUALITY = 90
_SUBSAMPLINGS = {"420": "4:2:0", "444": "4:4:4", "keep": "keep"}
_RESTARTS = ("none", "rows")
_FORMATS = ("jpeg", "same")
_LEAST_SHARD = 1 << 10  # bytes


@dataclass(frozen=True)
class Options:
    """Options that determine the bytes of results; validated by :func:`checked_options`."""

    short_side: int | None
    max_pixels: int | None
    quality: int
    subsampling: str  # of chroma, as Pillow names it, or "keep"
    restart: str
    to: str
    lossless: bool
    recode: bool  # JPEG files are recoded
    progressive: bool  # progressive ones, too
    decode: DecodeOptions
    tar_size: int  # maximum size of a shard in bytes; 0 for separate files

    def sizes(self, old: Ints) -> Ints:
        """Return the (N, 2) sizes of results: the largest allowed ones, never larger than ``old``."""
        small, new = old.min(1, keepdims=True), old
        if self.short_side is not None:
            new = np.where(small > self.short_side, old * self.short_side // small, old)
        if self.max_pixels is not None:
            # Scale the old size: scaling the rounded size would distort the aspect ratio further.
            scale = np.sqrt(self.max_pixels / np.maximum(old[:, :1] * old[:, 1:], 1))
            new = np.where(new[:, :1] * new[:, 1:] > self.max_pixels, (old * scale).astype(np.int64), new)
        return np.maximum(new, 1)

    def settings(self) -> dict[str, Any]:
        """Return the options that must be equal when a call is resumed."""
        return asdict(self)


def checked_options(
    short_side: Any, max_pixels: Any, quality: Any, subsampling: Any, restart: Any, to: Any, lossless: Any,
    recode: Any, progressive: Any, decode: DecodeOptions, tar_size: Any,
) -> Options:  # fmt: skip
    """Validate the options of a call."""
    changing = {"short_side": short_side, "max_pixels": max_pixels, "quality": quality, "subsampling": subsampling}
    changing["icc"] = None if decode.icc == "ignore" else decode.icc
    given = " and ".join(name for name, value in changing.items() if value is not None)
    for value, option in ((lossless, "lossless"), (recode, "recode")):
        if flag(value, option) and given:
            raise ValueError(f"{option} leaves the pixels as they are, and excludes {given}")
    if flag(progressive, "progressive") and (lossless or not recode):
        raise ValueError("progressive is an option of recode, and excludes lossless, which makes all files baseline")
    one_of("420" if subsampling is None else subsampling, "subsampling", _SUBSAMPLINGS)
    one_of(restart, "restart", _RESTARTS)
    one_of(to, "to", _FORMATS)
    return Options(
        None if short_side is None else whole_number(short_side, "short_side"),
        None if max_pixels is None else whole_number(max_pixels, "max_pixels"),
        _QUALITY if quality is None else whole_number(quality, "quality", 1, 100),
        _SUBSAMPLINGS["420" if subsampling is None else subsampling],
        restart,
        to,
        bool(lossless),
        bool(recode),
        bool(progressive),
        decode,
        tar_size and whole_number(tar_size, "tar_size", _LEAST_SHARD),
    )
