"""Options of decoding, passed as one value from the public functions to every decoder."""

import os
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from .._checks.arguments import one_of, whole_number
from .._io.file_bytes import MAX_BYTES
from .._threads.threads import threads
from .decoder import MAX_PIXELS

#: Channels by the name of a color.
COLORS = {"gray": 1, "graya": 2, "rgb": 3, "rgba": 4}

#: Channel counts whose last channel is alpha.
WITH_ALPHA = (2, 4)

#: Uses of transparency: none (drop alpha), or compositing on black or white.
ALPHAS = ("drop", "black", "white")

#: Uses of an embedded ICC profile: none, or conversion of the colors to sRGB.
ICC = ("ignore", "srgb")

#: Decoders of JPEGs on a GPU: nvImageCodec, or our own kernels and the CPU; "auto" takes what a call's options need.
AUTO, NVIMAGECODEC, GPUIMG = DECODERS = ("auto", "nvimagecodec", "gpuimg")

#: Bits per value by the name of a depth.
DEPTHS = {"uint8": 8, "native": 16}


@dataclass(frozen=True)
class DecodeOptions:
    """Options of decoding, see :func:`gpuimg.open_batch`; validated on creation, with ``GPUIMG_DECODER`` for "auto".

    Raises
    ------
    ValueError, TypeError
        For unknown strings, limits that are not integers, and options that exclude each other.
    """

    color: str = "rgb"
    alpha: str = "drop"
    depth: str = "uint8"
    draft: float | None = None
    max_pixels: int = MAX_PIXELS
    max_bytes: int = MAX_BYTES
    icc: str = "ignore"
    decoder: str = AUTO

    def __post_init__(self) -> None:
        one_of(self.color, "color", COLORS)
        one_of(self.alpha, "alpha", ALPHAS)
        one_of(self.depth, "depth", DEPTHS)
        one_of(self.icc, "icc", ICC)
        one_of(self.decoder, "decoder", DECODERS)
        if self.decoder == AUTO and os.environ.get("GPUIMG_DECODER"):
            object.__setattr__(self, "decoder", os.environ["GPUIMG_DECODER"])
            one_of(self.decoder, "GPUIMG_DECODER", DECODERS)
        if self.alpha != "drop" and self.has_alpha:
            raise ValueError(
                f"alpha={self.alpha!r} composites on a background, but color {self.color!r} returns the alpha channel"
            )
        if self.alpha != "drop" and self.depth != "uint8":
            raise ValueError(f'alpha={self.alpha!r} is for depth "uint8"')
        if self.icc != "ignore" and self.depth != "uint8":
            raise ValueError(f'icc={self.icc!r} is for depth "uint8"')
        for name in ("max_pixels", "max_bytes"):
            given = getattr(self, name)
            number = whole_number(given, name)
            if number is not given:
                object.__setattr__(self, name, number)
        draft = self.draft
        if draft is None:
            return
        is_number = isinstance(draft, (int, float, np.integer, np.floating)) and not isinstance(draft, bool)
        if not (is_number and 1.0 <= draft < np.inf):
            raise ValueError(f"draft must be None or a finite number of at least 1, not {draft!r}")

    @cached_property
    def channels(self) -> int:
        """Channels of decoded images, alpha included."""
        return COLORS[self.color]

    @cached_property
    def has_alpha(self) -> bool:
        """True if decoded images have an alpha channel."""
        return self.channels in WITH_ALPHA

    @property
    def without_extras(self) -> "DecodeOptions":
        """The same options for 8-bit images without alpha."""
        return replace(self, color="gray" if self.channels < 3 else "rgb", depth="uint8")

    @cached_property
    def dtype(self) -> str:
        """Dtype of decoded images, uint8 or uint16."""
        return f"uint{self.bits}"

    @cached_property
    def bits(self) -> int:
        """Bits per decoded value, 8 or 16."""
        return DEPTHS[self.depth]


@lru_cache(64, typed=True)
def _checked(decoder: str | None, *options: Any) -> DecodeOptions:
    return DecodeOptions(*options)


def decode_options(*options: Any) -> DecodeOptions:
    """Return options in their order; the same as before are not checked again."""
    threads()  # a wrong setting is an error of the call: where files are decoded it would be one of each file
    try:
        return _checked(os.environ.get("GPUIMG_DECODER"), *options)
    except TypeError:  # a value that cannot be looked up, or of a wrong type
        return DecodeOptions(*options)
