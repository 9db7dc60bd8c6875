"""The data of a batch: encoded images, or decoded pixels in one flat buffer with offsets and sizes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, TypeAlias

import numpy as np

from .._checks.records import record
from .._checks.types import Ints
from .._decoding import exif
from .._decoding.jpeg import Headers
from .._decoding.options import DecodeOptions
from .._decoding.pillow import PillowHeader
from ..errors import Failure
from ..kernels.layout import DTYPES
from .clips import EncodedClips
from .selection import Opened, Selection, failures_at

#: Results are aligned to this many bytes: JAX takes over 64-byte aligned host memory without a copy.
ALIGNMENT = 64

MOST_ELEMENTS = (1 << 31) - 1  # kernels use int32 offsets from the corner of a region


def check_reach(regions: Ints, strides: Ints) -> None:
    """Refuse regions (N, 4) whose element offsets do not fit in int32; ``strides`` (N,) are elements per image row."""
    reach = (regions[:, 3] - regions[:, 1]) * strides
    if (reach > MOST_ELEMENTS).any():
        i = int(np.argmax(reach))
        raise ValueError(
            f"image {i} is too large: {regions[i, 3] - regions[i, 1]:,} rows of {strides[i]:,} values are needed at "
            f"once, and at most {MOST_ELEMENTS:,} values can be; crop it into parts first"
        )


@record
class Pixels:
    """Images in one flat buffer: image ``i`` is ``flat[offsets[i]:]`` of ``sizes[i]`` and ``channels``."""

    flat: Any  # 1-D array of the device's library
    offsets: Ints
    sizes: Ints  # (N, 2)
    channels: int
    layout: str = "NHWC"
    failures: dict[int, Failure] = field(default_factory=dict)  # of images that are black because decoding failed
    frames: int | None = None  # per clip, if the images are frames of clips; failures are then by clip
    is_shared: bool = False  # with other batches, in the memory of a loader: results are copies

    @property
    def dtype(self) -> str:
        """Name of the dtype."""
        return name_of(self.flat.dtype)

    def shape(self, i: int) -> tuple[int, int, int]:
        """Return the shape of one image."""
        height, width = self.sizes[i].tolist()
        return (height, width, self.channels) if self.layout == "NHWC" else (self.channels, height, width)

    def view(self, i: int) -> Any:
        """Return one image as a view."""
        shape = self.shape(i)
        start = int(self.offsets[i])
        return self.flat[start : start + math.prod(shape)].reshape(shape)

    def take(self, rows: Ints) -> "Pixels":
        """Return images or clips by index, in any order and any number of times, in the same memory."""
        images = rows_of(rows, self.frames)
        return replace(
            self, offsets=self.offsets[images], sizes=self.sizes[images], failures=failures_at(self.failures, rows)
        )

    def at_frames(self, frames: Ints) -> "Pixels":
        """Return the same clips with some of their frames, in any order and any number of times."""
        images = np.arange(len(self.offsets)).reshape(-1, self.frames or 1)[:, frames].reshape(-1)
        return replace(self, offsets=self.offsets[images], sizes=self.sizes[images], frames=len(frames))

    def stored_places(self, orientations: Ints) -> Ints:
        """Return (N, 3): the element of the stored image's first pixel, and the steps to the next column and row.

        Images are laid out as displayed; EXIF ``orientations`` (N,) map them back to the order of the file.
        """
        height, width = self.sizes.T
        swapped, rows, columns = exif.turns(orientations)
        down, across = (1 - 2 * rows) * width, 1 - 2 * columns
        places = np.empty((len(height), 3), np.int64)
        places[:, 0] = rows * (height - 1) * width + columns * (width - 1)
        places[:, 1], places[:, 2] = np.where(swapped, down, across), np.where(swapped, across, down)
        places *= self.channels
        places[:, 0] += self.offsets
        return places

    def follow(self, *, exactly: bool) -> bool:
        """Return True if the images lie one after another; if ``exactly``, without gaps."""
        steps = np.diff(self.offsets) - self.sizes[:-1, 0] * self.sizes[:-1, 1] * self.channels
        return not np.any(steps != 0 if exactly else steps < 0)

    def is_one_array(self) -> bool:
        """Return True if the images have one size and no gaps between them, as :meth:`stacked` requires."""
        return not np.any(self.sizes[1:] != self.sizes[:-1]) and self.follow(exactly=True)

    def stacked(self) -> Any:
        """Return all images as one array, a view; see :meth:`is_one_array`."""
        n = len(self.offsets)
        shape = self.shape(0)
        start = int(self.offsets[0])
        return self.flat[start : start + n * math.prod(shape)].reshape(n, *shape)


@record
class EncodedImages(Opened):
    """Images with headers read. An image with an unreadable header has size 1 x 1."""

    data: Sequence[Any]  # file bytes; empty if they could not be read
    headers: Headers  # height, width and orientation are set for every format
    others: Mapping[int, PillowHeader]  # by index: files other than JPEG, and JPEGs with unusual headers
    names: Sequence[str]
    sizes: Ints  # as displayed
    options: DecodeOptions
    on_error: str
    failures: dict[int, Failure] = field(default_factory=dict)
    given_up: set[int] = field(default_factory=set)  # numbers of files that a GPU's kernels did not decode
    numbered: Ints | None = None  # (N,): positions among the files that were opened together; by default 0, 1, ...
    scales: Ints | None = None  # (N,): eighths of their sizes that they are decoded at; set by a runtime
    selection: "Selection[EncodedImages] | None" = None
    layout: ClassVar[str] = "NHWC"  # of decoded images
    frames: ClassVar[None] = None  # these are not frames of clips

    @property
    def dtype(self) -> str:
        """Dtype of decoded images, uint8 or uint16."""
        return self.options.dtype

    @property
    def channels(self) -> int:
        """Channels of decoded images."""
        return self.options.channels

    def __len__(self) -> int:
        return len(self.data)

    @property
    def is_single_file(self) -> bool:
        """True for one good file, decoded whole: it needs no batch around it."""
        alone = len(self.data) == 1 and self.selection is None and not self.failures
        return alone and self.scales is None

    @property
    def numbers(self) -> Ints:
        """(N,): positions of the files among those that were opened together."""
        return np.arange(len(self)) if self.numbered is None else self.numbered

    @property
    def orientations(self) -> Ints:
        """(N,): EXIF orientations, 1 to 8."""
        orientations: Ints = self.headers.records["orientation"]
        return orientations

    def part(self, indices: Sequence[int]) -> "EncodedImages":
        """Return some of the images, none of which failed before, as a separate batch."""
        return EncodedImages(
            [self.data[i] for i in indices],
            self.headers.part(list(indices)),
            {k: self.others[i] for k, i in enumerate(indices) if i in self.others},
            [self.names[i] for i in indices],
            self.sizes[list(indices)],
            self.options,
            "fill",
            given_up=self.given_up,
            numbered=self.numbers[list(indices)],
            scales=None if self.scales is None else self.scales[list(indices)],
        )


#: Sources that a runtime decodes.
Encoded: TypeAlias = EncodedImages | EncodedClips


def rows_of(units: Ints, frames: int | None) -> Ints:
    """Return indices of images, from indices of images, or of clips of ``frames`` consecutive images."""
    return units if frames is None else (units[:, None] * frames + np.arange(frames)).reshape(-1)


def whole_regions(sizes: Ints) -> Ints:
    """Return the (N, 4) regions x0, y0, x1, y1 that are whole images of these sizes."""
    regions = np.zeros((len(sizes), 4), np.int64)
    regions[:, 2:] = sizes[:, ::-1]
    return regions


def sizes_of(regions: Ints) -> Ints:
    """Return the (N, 2) sizes, height and width, of regions (N, 4)."""
    return regions[:, 3:1:-1] - regions[:, 1::-1]


def union_regions(regions: Ints, files: Ints) -> Ints:
    """Return for each file the smallest region (M, 4) that holds those (N, 4) of all its occurrences."""
    union = np.zeros((int(files.max()) + 1, 4), np.int64)
    union[files] = regions  # of any occurrence
    np.minimum.at(union[:, :2], files, regions[:, :2])
    np.maximum.at(union[:, 2:], files, regions[:, 2:])
    return union


def offsets_of(sizes: Ints, channels: int, step: int = 1) -> tuple[Ints, int]:
    """Return element offsets of consecutive images, each offset a multiple of ``step``, and the total."""
    offsets = np.empty(len(sizes), np.int64)
    return offsets, rectangles().place_images(np.ascontiguousarray(sizes, np.int64), channels, step, offsets)


@cache
def rectangles() -> Any:
    """Return the module of loops of this name."""
    from ..kernels import rectangles  # imports Numba: only when it is used

    return rectangles


@cache
def name_of(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype, which NumPy would make anew."""
    return str(dtype.name)


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a result."""
    library = DTYPES[name].library
    try:
        found: np.dtype[Any] = np.dtype(getattr(import_module(library), name))
    except ImportError as error:
        raise ImportError(f'dtype "{name}" needs {library}: pip install {library}') from error
    return found
