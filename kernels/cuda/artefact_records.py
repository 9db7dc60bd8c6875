"""Input of the kernels of JPEG artifacts: quantization steps, then one record per image; and their block sizes."""

from typing import Final

import numpy as np

from ..layout import offsets

CODED: Final = np.dtype(
    [
        ("source", "<i8"),  # element of the source image's first value
        ("output", "<i8"),  # and of the result's
        ("planes", "<i8"),  # first byte of its luma, which chroma follows, row by row
        ("height", "<i4"),
        ("width", "<i4"),
        ("quality", "<i4"),
    ],
    align=True,
)
CODED_WORDS: Final = CODED.itemsize // 4
IN_CODED: Final = offsets(CODED)
STEP_WORDS: Final = 128  # in front of the records

SIDE: Final = 16  # pixels of what a block of threads makes: four blocks of luma, one of each chroma
THREADS: Final = 64  # one for each four pixels
PIXELS: Final = 256  # threads of a block, where each makes a pixel
