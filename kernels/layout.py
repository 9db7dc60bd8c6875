"""The words of a record, of which a plan has one an image; its program's are in :mod:`kernels.ops`.

A record is read by the kernels as 4-byte words through two views of the same memory, int32 and float32, so that
a whole plan is one upload and nothing that varies from call to call enters a compile key.
"""

from __future__ import annotations

from typing import Final

import numpy as np

# Words of a record. "i" words are int32, "f" words float32; 64-bit element offsets take two int32 words.
SOURCE: Final = 0  # i, 2 words: element offset of the source image
OUTPUT: Final = 2  # i, 2 words: element offset of the result
STRIDE: Final = 4  # i: source row stride in elements
WINDOW: Final = 5  # i, 4 words: x0 y0 x1 y1, the pixels that may be read; taps clamp to it
HEIGHT: Final = 9  # i: rows of the grid
WIDTH: Final = 10  # i: columns of the grid
FILTER: Final = 11  # i: one of the filters below
SEPARABLE: Final = 12  # i: 1 where x depends on the column only and y on the row only
MATRIX: Final = 13  # f, 9 words: (column, row) from the grid's centre -> source, half-pixel centres
SUPPORT: Final = 22  # f, 2 words: how many source pixels one filter unit spans, x and y
TAPS: Final = 24  # i, 2 words: taps in x and in y
RECORD_WORDS: Final = 26  # even, so that 64-bit words stay aligned

# Filters.
NEAREST: Final = 0
LINEAR: Final = 1
CUBIC_RENORMALISED: Final = 2  # Keys a = -0.5, taps outside the window dropped: torch's antialiased bicubic, Pillow
CUBIC_CLAMPED: Final = 3  # Keys a = -0.75, taps outside the window repeat the edge: torch's bicubic without antialias

GAUSSIAN: Final = 4  # standard deviation in the support words, size in the taps words, border reflected

# Nearest neighbor where what lies outside the window mirrors it: about the centers of its outermost pixels, or about
# their outer edges. On a GPU in the full kernels only.
REFLECT: Final = 5
SYMMETRIC: Final = 6

# How far each filter reaches, in units of its support; a Gaussian reaches as far as its taps.
RADIUS: Final = (0.5, 1.0, 2.0, 2.0, 0.5, 0.5, 0.5)

# Exact arithmetic puts nearest-neighbor ties on pixel edges; float32 lands a little to either side of them. The nudge
# settles such ties upwards on both runtimes. It is far below any step that is not a tie.
TIE_NUDGE: Final = 1e-4

# float32 holds every whole number up to here: the limit of sizes, coordinates and labels.
EXACT: Final = 1 << 24

# Kinds of result; the 16-bit floats are written as their bits.
FLOAT32: Final = 0
UINT8: Final = 1
FLOAT16: Final = 2
BFLOAT16: Final = 3

# The same record by names, for the host that fills it.
RECORD: Final = np.dtype(
    [
        ("source", "<i8"),
        ("output", "<i8"),
        ("stride", "<i4"),
        ("window", "<i4", 4),
        ("height", "<i4"),
        ("width", "<i4"),
        ("filter", "<i4"),
        ("separable", "<i4"),
        ("matrix", "<f4", 9),
        ("support", "<f4", 2),
        ("taps", "<i4", 2),
    ]
)
