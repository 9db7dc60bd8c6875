"""The kernels that decode JPEG segments; see the modules they come from."""

from __future__ import annotations

from .jpeg_huffman import HUFFMAN
from .jpeg_pixels import COLORS, INVERSE_DCT

KERNELS = {kernel.name: kernel for kernel in (HUFFMAN, INVERSE_DCT, COLORS)}
