"""Prepass: ops that change whole images before the passes of the segment that they begin, one record for an image.

Both runtimes read the records. Values are levels, 0 to 255, where an op works on bytes, and the image's own float32
where it does not. Nothing here imports Numba.
"""

from typing import Any, Final

import numpy as np

from .layout import offsets

#: An op's parameters for an image. 4-byte words for CUDA kernels, which read them at offsets.
AREA: Final = np.dtype(
    [
        ("source", "<i8"),  # on a GPU: element of the image's first value
        ("output", "<i8"),  # on a GPU: element of the result's first value
        ("values", "<i8"),  # where the op's operand begins: on a CPU its address, on a GPU its element
        ("applies", "<i4"),  # 0 where the image stays as it is
        ("height", "<i4"),  # of the image, pixels
        ("width", "<i4"),
        ("out_height", "<i4"),  # of the result
        ("out_width", "<i4"),
        ("rows", "<i4"),  # of the window, or of the tiles
        ("columns", "<i4"),
        ("border", "<i4"),  # one of the borders below
        ("option", "<i4"),  # of the op, see its loops
        ("count", "<i4"),  # elements of the operand
        ("limit", "<i4"),  # of CLAHE: the count that no level of a tile may have more of, 0 for any
        ("side", "<i4", 2),  # of CLAHE: height and width of a tile, pixels
        ("fill", "<f4", 3),
    ],
    align=True,
)
AREA_WORDS: Final = AREA.itemsize // 4
IN_AREA: Final = offsets(AREA)

# Borders: what lies outside an image.
CONSTANT: Final = 0  # a color
EDGE: Final = 1  # the outermost pixels, repeated
REFLECT: Final = 2  # the image mirrored, without its outermost pixels
SYMMETRIC: Final = 3  # and with them

#: Options of morphology, which add up: the greatest value rather than the least; all pixels of the window count; there
#: are so few that a CPU takes each of them rather than those of 2, 4, 8, ... pixels.
GREATEST: Final = 1
RECTANGLE: Final = 2
FEW: Final = 4

#: Option of weighted sums: the operand has the weights of columns, then of rows, whose products are those of pixels.
SEPARABLE: Final = 1
#: And results are limited to 0 to 1, where they are no bytes.
LIMITED: Final = 2

#: Option of sampling at positions: the nearest pixel. And the largest position, pixels, either way.
NEAREST_PIXEL: Final = 1
FURTHEST: Final = 1 << 22

#: Largest side of a window, pixels, and the sizes of medians.
MOST_WINDOW: Final = 31
MEDIANS: Final = (3, 5, 7)


def tile_sides(sizes: Any, tiles: Any) -> Any:
    """Heights and widths (N, 2) of CLAHE's tiles, of images of sizes (N, 2) with ``tiles`` (N, 2) down and across.

    Where either side is no multiple of its tiles, both grow: to the next multiple, or by a pixel for each tile.
    """
    return sizes // tiles + np.where(np.all(sizes % tiles == 0, 1), 0, 1)[:, None]
