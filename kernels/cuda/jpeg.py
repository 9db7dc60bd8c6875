"""The kernels that decode segments of JPEGs; see the modules of their parts."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..jpeg.upload import BLOCKS_AT_ONCE, LANES, PIXELS_AT_ONCE, THREADS
from .jpeg_huffman import HUFFMAN_SIGNATURE, huffman
from .jpeg_pixels import COLORS_SIGNATURE, INVERSE_DCT_SIGNATURE, colors, inverse_dct


class Kernel(NamedTuple):
    """A kernel function, its types, and the threads of a block."""

    function: Any
    signature: Any
    threads: int


KERNELS = {
    "huffman": Kernel(huffman, HUFFMAN_SIGNATURE, THREADS),
    "inverse_dct": Kernel(inverse_dct, INVERSE_DCT_SIGNATURE, LANES * BLOCKS_AT_ONCE),
    "colors": Kernel(colors, COLORS_SIGNATURE, PIXELS_AT_ONCE),
}
