"""The kernels that decode segments of JPEGs; see the modules of their parts."""

from __future__ import annotations

from .jpeg_huffman import HUFFMAN
from .jpeg_pixels import COLORS, INVERSE_DCT

KERNELS = {kernel.name: kernel for kernel in (HUFFMAN, INVERSE_DCT, COLORS)}
