"""The record of an image's grid in a pass, and codes of filters and results; programs are in :mod:`kernels.ops`.

The CPU's loops read the fields by name. CUDA kernels cannot: a launch takes one buffer for the records of all images,
which the kernels see as arrays of 4-byte words (one int32, one float32 view of the same memory), so that a plan is one
upload and nothing that varies from call to call enters a compile key. Their constants are offsets in such words,
computed from the dtype.
"""

from types import ModuleType
from typing import Any, Final, NamedTuple

import numpy as np


def offsets(dtype: np.dtype[np.void]) -> ModuleType:
    """Return the offsets of a record's fields in words, as attributes of a module: Numba takes these for constants."""
    found = ModuleType(f"{__name__}.offsets")
    for name, (_, offset, *_) in (dtype.fields or {}).items():
        if offset % 4:
            raise ValueError(f"{name} begins at byte {offset}, inside a 4-byte word")
        setattr(found, name, offset // 4)
    return found


RECORD: Final = np.dtype(
    [
        ("source", "<i8"),  # element of the source image's first value; filled by the CUDA runtime
        ("output", "<i8"),  # element of the result's first value; filled by the CUDA runtime
        ("stride", "<i4"),  # elements from one source row to the next; filled by the runtimes
        ("window", "<i4", 4),  # x0, y0, x1, y1: source pixels that may be read; taps clamp to it
        ("height", "<i4"),  # pixels of the grid, 1 to EXACT
        ("width", "<i4"),
        ("filter", "<i4"),  # one of the filters below
        ("way", "<i4"),  # how a CPU samples: one of the ways below
        ("matrix", "<f4", 9),  # (column, row, 1) from the grid's center -> source pixels, half-pixel centers; row-major
        ("support", "<f4", 2),  # source pixels of one filter unit in x and y; the deviation of a Gaussian
        ("taps", "<i4", 2),  # taps in x and y, at least 1
    ],
    align=True,
)
RECORD_WORDS: Final = RECORD.itemsize // 4  # even, so that 64-bit fields of the next record stay aligned
IN_RECORD: Final = offsets(RECORD)  # of 64-bit fields the low half first

# Filters.
NEAREST: Final = 0
LINEAR: Final = 1
BOX: Final = 2  # the mean of the pixels that a result's pixel covers
HAMMING: Final = 3  # as sharp as bilinear shrinking leaves it blurred, and as far reaching
CUBIC_RENORMALIZED: Final = 4  # Keys a = -0.5, taps outside the window dropped: torch's antialiased bicubic, Pillow
CUBIC_CLAMPED: Final = 5  # Keys a = -0.75, taps outside the window repeat the edge: torch's bicubic without antialias
LANCZOS: Final = 6  # sinc windowed by sinc(x / 3)
GAUSSIAN: Final = 7  # standard deviation in the support words, size in the taps words, border reflected

# Nearest neighbor where what lies outside the window mirrors it: about the centers of its outermost pixels, or about
# their outer edges. On a GPU in the full kernels only.
REFLECT: Final = 8
SYMMETRIC: Final = 9

# On a GPU in the full kernels only, like mirrored borders.
RARE_FILTERS: Final = (BOX, HAMMING, LANCZOS)

# Ranks of the filters, the roughest first: a chain of resamplings has the smoothest of its filters.
SMOOTHNESS: Final = np.array((0, 3, 1, 2, 4, 5, 6, 7, 8, 9))

# Filters with negative weights, whose results may leave the range of the source.
OVERSHOOTS: Final = np.array((0, 0, 0, 0, 1, 1, 1, 0, 0, 0))

# How far each filter reaches, in units of its support; a Gaussian reaches as far as its taps.
RADIUS: Final = np.array((0.5, 1.0, 0.5, 1.0, 2.0, 2.0, 3.0, 0.5, 0.5, 0.5))

# Ways to sample.
GATHERED: Final = 0  # two-dimensional taps
SEPARABLE: Final = 1  # x depends on the column only and y on the row only: two one-dimensional passes
WHOLE: Final = 2  # every pixel is one of the source, their rows and columns in order or mirrored

# Exact arithmetic puts nearest-neighbor ties on pixel edges; float32 lands a little to either side of them. The nudge,
# in pixels, rounds such ties upwards on both runtimes. It is far below any step that is not a tie.
TIE_NUDGE: Final = 1e-4

# float32 holds every whole number up to here: the limit of sizes, coordinates and labels.
EXACT: Final = 1 << 24

# How the pixels of a result lie: channels interleaved, a plane for each channel, or in patches.
FORMS: Final = ("pixels", "planes")
PLANES: Final = 1
PATCHES: Final = 2


class DType(NamedTuple):
    """A dtype of results, and perhaps of images. Its cast is the function ``to_<name>`` of :mod:`kernels.cast`."""

    kind: int  # of result, by which kernels are chosen
    stored: np.dtype[Any]  # the values that kernels write: of 16-bit floats their bits
    unit: float | None = None  # if functions accept images of it: the size of one level in them on the scale 0 to 1
    dlpack: int | None = None  # DLPack's code of the type, where NumPy cannot export it
    library: str = "numpy"  # has the dtype, under its name


FLOAT32: Final = 0
UINT8: Final = 1
ROUNDED: Final = -1  # not by kernels: the host rounds float32 results, and converts images to float32

DTYPES: Final = {
    "float32": DType(FLOAT32, np.dtype("float32"), 1.0),
    "uint8": DType(UINT8, np.dtype("uint8"), 1.0 / 255.0),
    "float16": DType(2, np.dtype("uint16")),
    "bfloat16": DType(3, np.dtype("uint16"), dlpack=4, library="ml_dtypes"),
    "uint16": DType(ROUNDED, np.dtype("uint16"), 1.0 / 65535.0),
}

#: Dtypes of results, by their kinds, and what kernels write for them.
RESULTS: Final = {row.kind: name for name, row in DTYPES.items() if row.kind != ROUNDED}
WRITTEN: Final = {kind: DTYPES[name].stored for kind, name in RESULTS.items()}

#: By dtype of a source: what its values are multiplied by, to lie in [0, 1].
SCALES: Final = {
    name: np.float32(row.unit) for name, row in DTYPES.items() if row.unit is not None and row.kind != ROUNDED
}

# Of CUDA kernels and their callers.
EXTREMES: Final = 6  # words an image: the largest key of each channel's values, and of their negatives
MARK_BYTES: Final = 16
