"""Options of ``gpuimg.prepare`` and their validation: sizes and encoding of results."""

from dataclasses import dataclass
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


def checked_options(**given: Any) -> Options:
    """Validate the options of a call, by their names."""
    changing = [name for name in ("short_side", "max_pixels", "quality", "subsampling") if given[name] is not None]
    if given["decode"].icc != "ignore":
        changing.append("icc")
    for option in ("recode", "progressive"):
        given[option] = flag(given[option], option)
        if given[option] and changing:
            raise ValueError(f"{option} leaves the pixels as they are, and excludes {' and '.join(changing)}")
    if given["progressive"] and not given["recode"]:
        raise ValueError("progressive is an option of recode")
    for name, default in (("quality", _QUALITY), ("subsampling", "420")):
        given[name] = default if given[name] is None else given[name]
    for name, allowed in (("subsampling", _SUBSAMPLINGS), ("restart", _RESTARTS), ("to", _FORMATS)):
        one_of(given[name], name, allowed)
    given["subsampling"] = _SUBSAMPLINGS[given["subsampling"]]
    for name, *limits in (("short_side", 1), ("max_pixels", 1), ("quality", 1, 100), ("tar_size", _LEAST_SHARD)):
        if given[name] is not None and (name, given[name]) != ("tar_size", 0):
            given[name] = whole_number(given[name], name, *limits)
    return Options(**given)
