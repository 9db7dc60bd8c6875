"""The words of a plan: one record an image, and the op codes of its program.

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

# Kinds of result; the 16-bit floats are written as their bits.
FLOAT32: Final = 0
UINT8: Final = 1
FLOAT16: Final = 2
BFLOAT16: Final = 3

# A program is a run of entries: op code, words to the next entry, parameters.
ENTRY_HEADER: Final = 2

END: Final = 0
SKIP: Final = 1
BRIGHTNESS: Final = 2  # factor
CONTRAST: Final = 3  # factor, channels, statistics slot
SATURATION: Final = 4  # factor
HUE: Final = 5  # shift in turns
GRAYSCALE: Final = 6  # -
INVERT: Final = 7  # -
SOLARIZE: Final = 8  # threshold
POSTERIZE: Final = 9  # in_scale, top, out_scale
AUTOCONTRAST: Final = 10  # statistics slot at parameter 2
EQUALIZE: Final = 11  # statistics slot at parameter 2
AFFINE_COLOR: Final = 12  # 3 scales, 3 shifts
PAINT: Final = 13  # 9 matrix, rectangle x0 y0 x1 y1, sharpness x y, 3 color, inside
USER: Final = 14  # 9 matrix, function index, value

SHARPNESS: Final = 15  # factor; reads the eight neighbours, at most once a program

STATISTICAL: Final = (CONTRAST, AUTOCONTRAST, EQUALIZE)
STATISTICS_SLOT: Final = 2  # parameter of CONTRAST, AUTOCONTRAST and EQUALIZE that names their slot
LEVELS: Final = 256  # of a byte: entries of a histogram and of a table
STATISTICS_WORDS: Final = 3 * LEVELS  # float32 a slot: one mean, three (low, gain) pairs, or three tables

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
