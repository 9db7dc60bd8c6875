"""The record of a PNG file's chunks that the decoder shares with its callers, and the codes in it."""

from typing import Final

import numpy as np

#: What is needed of a file's chunks. Places are offsets in the file, in bytes; those of chunks are where bodies begin.
PNG: Final = np.dtype(
    [
        ("regular", "<i8"),  # 1 where every chunk up to the last is understood; the other fields are filled then only
        ("height", "<i8"),  # pixels
        ("width", "<i8"),
        ("depth", "<i8"),  # bits of a value: 1, 2, 4, 8 or 16
        ("color", "<i8"),  # 0 gray, 2 RGB, PALETTE, 4 gray and alpha, 6 RGB and alpha
        ("interlaced", "<i8"),  # 1 for Adam7
        ("palette", "<i8", 2),  # place and bytes, as of the next; zeros where there is none
        ("transparency", "<i8", 2),
        ("pixels", "<i8"),  # place of the first IDAT chunk, of those that follow each other
        ("parts", "<i8"),  # IDAT chunks
        ("bytes", "<i8"),  # of their bodies together
        ("others", "<i8"),  # chunks of any other name
    ],
    align=True,
)

PALETTE: Final = 3  # a color

#: Values of a stored pixel, by color; 0 for no color.
SAMPLES: Final = (1, 0, 3, 1, 2, 0, 4)
#: Depths of each color, as bits.
DEPTHS: Final = (1 | 2 | 4 | 8 | 16, 0, 8 | 16, 1 | 2 | 4 | 8, 8 | 16, 0, 8 | 16)
