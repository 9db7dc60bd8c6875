"""Input of the kernel of elastic displacements: one record per image; and its block size."""

from typing import Final

import numpy as np

from ..layout import offsets
from ..ops import ELASTIC

MOVED: Final = np.dtype(
    [
        ("source", "<i8"),  # element of the source image's first value
        ("output", "<i8"),  # and of the result's
        ("height", "<i4"),
        ("width", "<i4"),
        ("moved", "<i4"),  # 0 where the image stays as it is
        ("parameters", "<f4", ELASTIC.width),
    ],
    align=True,
)
MOVED_WORDS: Final = MOVED.itemsize // 4
IN_MOVED: Final = offsets(MOVED)

BLOCK: Final = 256
