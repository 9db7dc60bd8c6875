"""Input of the kernel of exact resizes: records, one for each image and pass, before the taps of all axes."""

from typing import Final

import numpy as np

from ..layout import offsets

PASS: Final = np.dtype(
    [
        ("source", "<i8"),  # element of the first value that the pass reads
        ("output", "<i8"),  # and of its result, rows of which follow one another
        ("height", "<i4"),  # of the result, pixels
        ("width", "<i4"),
        ("stride", "<i4"),  # elements from one row of the source to the next
        ("down", "<i4"),  # 1 for a pass along columns, 0 along rows
        ("low", "<i4"),  # position on the axis of the result's first pixel
        ("origin", "<i4"),  # pixel of the axis at which the source begins
        ("taps", "<i4"),  # word of the axis' taps: the first pixel of each position, their numbers, weights
        ("positions", "<i4"),  # of the axis
        ("most", "<i4"),  # weights from one position to the next
        ("bits", "<i4"),  # after the point of the weights
    ],
    align=True,
)
PASS_WORDS: Final = PASS.itemsize // 4
IN_PASS: Final = offsets(PASS)
