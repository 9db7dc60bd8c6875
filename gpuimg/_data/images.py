"""Where a batch's pixels are: encoded images, or one flat buffer with offsets and sizes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from .._checks.types import Ints
from .._decoding import exif
from .._decoding.jpeg import Headers
from .._decoding.options import DecodeOptions
from .._decoding.pillow import PillowHeader
from .._index.seek import Seek, misfit_warning
from ..errors import DecodeError, Failure
from ..kernels import layout as words
from .clips import EncodedClips
from .views import Views, at, views_of

#: Results are aligned to this many bytes: JAX takes over 64-byte aligned host memory without a copy.
ALIGNMENT = 64

#: dtype names a result can have -> (storage dtype for the kernels, kind of store).
KINDS = {"float32": words.FLOAT32, "uint8": words.UINT8, "float16": words.FLOAT16, "bfloat16": words.BFLOAT16}
STORAGE = {"float32": "float32", "uint8": "uint8", "float16": "uint16", "bfloat16": "uint16"}

#: What values of a source are multiplied with, so that white is 1.
SCALES = {"uint8": np.float32(1.0 / 255.0), "float32": np.float32(1.0)}


_MOST_ELEMENTS = (1 << 31) - 1  # kernels count from the corner of a region in int32


def check_reach(regions: Ints, strides: Ints) -> None:
    """Refuse regions (N, 4) of images whose rows are this many elements apart where an offset in one is no int32."""
    reach = (regions[:, 3] - regions[:, 1]) * strides
    if np.any(reach > _MOST_ELEMENTS):
        i = int(np.argmax(reach))
        raise ValueError(
            f"image {i} is too large: {regions[i, 3] - regions[i, 1]:,} rows of {strides[i]:,} values are needed at "
            f"once, and at most {_MOST_ELEMENTS:,} values can be; crop it into parts first"
        )


@dataclass(frozen=True)
class Pixels:
    """Images in one flat buffer: image ``i`` is ``flat[offsets[i]:]`` of ``sizes[i]`` and ``channels``."""

    flat: Any  # 1-D array of the device's library
    offsets: Ints
    sizes: Ints  # (N, 2)
    channels: int
    layout: str = "NHWC"
    failures: dict[int, Failure] = field(default_factory=dict)  # images that are black for want of pixels
    frames: int | None = None  # of each clip, where the images are those of clips; failures are then by clip

    @cached_property
    def dtype(self) -> str:
        """Name of the dtype."""
        return str(self.flat.dtype.name)

    def shape(self, i: int) -> tuple[int, int, int]:
        """Shape of one image."""
        height, width = self.sizes[i].tolist()
        return (height, width, self.channels) if self.layout == "NHWC" else (self.channels, height, width)

    def view(self, i: int) -> Any:
        """One image, as a view."""
        shape = self.shape(i)
        start = int(self.offsets[i])
        return self.flat[start : start + math.prod(shape)].reshape(shape)

    def views(self, rows: Ints) -> Pixels:
        """Images, or clips, at some indices, in that order and any number of times, in the same memory."""
        images = rows_of(rows, self.frames)
        return replace(self, offsets=self.offsets[images], sizes=self.sizes[images], failures=at(self.failures, rows))

    def at_frames(self, kept: Ints) -> Pixels:
        """The same clips of some of their frames, in that order and any number of times."""
        images = np.arange(len(self.offsets)).reshape(-1, self.frames or 1)[:, kept].reshape(-1)
        return replace(self, offsets=self.offsets[images], sizes=self.sizes[images], frames=len(kept))

    def stored_places(self, orientations: Ints) -> Ints:
        """(N, 3): at which element the first pixel of each image's file lies, and the steps to those beside and below.

        Images lie as they are shown by orientations of EXIF (N,).
        """
        height, width = self.sizes.T
        swapped, rows, columns = exif.turns(orientations)
        down = np.where(rows, -width, width)
        across = np.where(columns, -1, 1)
        first = np.where(rows, (height - 1) * width, 0) + np.where(columns, width - 1, 0)
        steps = np.where(swapped, (down, across), (across, down))
        return np.stack([self.offsets + first * self.channels, *(steps * self.channels)], 1)

    def follow(self, *, exactly: bool) -> bool:
        """Whether the images lie one behind the other, without gaps if ``exactly``."""
        steps = np.diff(self.offsets) - self.sizes[:-1, 0] * self.sizes[:-1, 1] * self.channels
        return not np.any(steps != 0 if exactly else steps < 0)

    def is_one_array(self) -> bool:
        """Whether the images are of one size and follow one another: :meth:`stacked` gives them."""
        return not np.any(self.sizes[1:] != self.sizes[:-1]) and self.follow(exactly=True)

    def stacked(self) -> Any:
        """All images as one array, as a view; they must be of one size and lie one behind the other."""
        n = len(self.offsets)
        shape = self.shape(0)
        start = int(self.offsets[0])
        return self.flat[start : start + n * math.prod(shape)].reshape(n, *shape)


@dataclass(frozen=True)
class EncodedImages:
    """Images whose headers were read. One whose header could not be read has a size of 1 x 1."""

    data: Sequence[Any]  # file bytes; empty where they could not be read
    headers: Headers  # height, width and orientation are there for every format
    others: Mapping[int, PillowHeader]  # by index, of what is no JPEG, or one with a rare header
    names: Sequence[str]
    sizes: Ints  # as shown
    options: DecodeOptions
    on_error: str
    failures: dict[int, Failure] = field(default_factory=dict)
    seek: Seek | None = None  # entries of a seek index
    views_of: Views[EncodedImages] | None = None  # these are images of others, which may stand several times
    layout: ClassVar[str] = "NHWC"  # of decoded images
    frames: ClassVar[None] = None  # images are not those of clips

    @property
    def dtype(self) -> str:
        """Decoded images are bytes, or of 16 bits."""
        return f"uint{self.options.bits}"

    @property
    def channels(self) -> int:
        """Channels of decoded images."""
        return self.options.channels

    def __len__(self) -> int:
        return len(self.data)

    @property
    def orientations(self) -> Ints:
        """(N,): of EXIF, 1 to 8."""
        orientations: Ints = self.headers.records["orientation"]
        return orientations

    def settle(self, reasons: dict[int, str]) -> None:
        """Keep the reasons of images that failed; raise them all where that is the policy of the batch."""
        if self.views_of is not None:
            self.views_of.settle(reasons, self.failures)
            return
        for index, reason in reasons.items():
            self.failures[index] = Failure(index, self.names[index], reason)
        if self.failures and self.on_error == "raise":
            raise DecodeError(tuple(self.failures[k] for k in sorted(self.failures)), len(self.data))

    def warn_of_misfits(self) -> None:
        """Tell of entries that were not used, unless somebody else counts them."""
        if self.views_of is not None:
            images, rows = self.views_of
            if self.seek is not None and images.seek is not None:
                images.seek.take_over(self.seek, rows)
            images.warn_of_misfits()
        elif self.seek is not None and self.seek.warns:
            misfits = self.seek.misfits()
            if misfits:
                named = {self.names[i]: why for i, why in misfits.items()}
                warnings.warn(misfit_warning(self.seek.index, named), RuntimeWarning, stacklevel=6)

    def views(self, rows: Ints) -> EncodedImages:
        """Images at some indices, in that order and any number of times; each is decoded once, and fails once."""
        views = views_of(self, self.views_of, rows)
        part = replace(views.of.part(views.rows.tolist()), on_error=views.of.on_error, views_of=views)
        part.failures.update(views.failures())
        return part

    def leaders(self) -> Ints | None:
        """As :meth:`Views.leaders`; None of what is no view."""
        return None if self.views_of is None else self.views_of.leaders()

    def part(self, indices: Sequence[int]) -> EncodedImages:
        """Some of the images, none of which failed before, as a batch of their own."""
        return EncodedImages(
            [self.data[i] for i in indices],
            self.headers.part(list(indices)),
            {k: self.others[i] for k, i in enumerate(indices) if i in self.others},
            [self.names[i] for i in indices],
            self.sizes[list(indices)],
            self.options,
            "fill",
            seek=None if self.seek is None else self.seek.part(list(indices)),
        )


#: What a runtime decodes.
Encoded: TypeAlias = EncodedImages | EncodedClips


def rows_of(units: Ints, frames: int | None) -> Ints:
    """Indices of images from those of images, or of clips of so many frames, which lie one behind the other."""
    return units if frames is None else (units[:, None] * frames + np.arange(frames)).reshape(-1)


def whole_regions(sizes: Ints) -> Ints:
    """Regions that are all of the images."""
    regions = np.zeros((len(sizes), 4), np.int64)
    regions[:, 2:] = sizes[:, ::-1]
    return regions


def of_all_views(regions: Ints, leaders: Ints) -> Ints:
    """Regions (N, 4) that hold those of all views of the same image."""
    whole = regions.copy()
    np.minimum.at(whole[:, :2], leaders, regions[:, :2])
    np.maximum.at(whole[:, 2:], leaders, regions[:, 2:])
    joined: Ints = whole[leaders]
    return joined


def offsets_of(sizes: Ints, channels: int, step: int = 1) -> tuple[Ints, int]:
    """Element offsets of images laid one behind the other, each start a multiple of ``step``; and the total."""
    elements = sizes[:, 0] * sizes[:, 1] * channels
    padded = -(-elements // step) * step
    ends = np.cumsum(padded)
    return ends - padded, int(ends[-1]) if len(ends) else 0


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a result; bfloat16 is that of ``ml_dtypes``."""
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise ImportError('dtype "bfloat16" needs ml_dtypes: pip install ml_dtypes') from error
        kind: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return kind
    return np.dtype(name)
