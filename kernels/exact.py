"""Resizing bytes exactly as Pillow and torch do: the rules, and the record of each image's resize.

Both libraries sum bytes by fixed-point weights, one axis after the other, and round to bytes after each. Sums of whole
numbers do not depend on their order, so neither vectors nor devices can change a byte. The weights could: they are
computed in float64 with every operation in the libraries' order, see :mod:`.cpu.weights`.
"""

from typing import Any, Final

import numpy as np

# Rules.
PILLOW: Final = 0  # since 13.0: 22-bit weights; rows are summed first where the height shrinks much more than the width
PILLOW_12: Final = 1  # before: columns are always summed first
TORCH: Final = 2  # as PILLOW_12, with 16-bit weights
RULES: Final = {"pillow": PILLOW, "pillow12": PILLOW_12, "torch": TORCH}


#: The exact resize of one image of a batch. ``window`` and ``part`` are x0, y0, x1, y1.
EXACT: Final = np.dtype(
    [
        ("window", "<i8", 4),  # of the source that the pass reads, in its pixels: no tap sees what lies outside
        ("height", "<i8"),  # of the whole result, pixels
        ("width", "<i8"),
        ("part", "<i8", 4),  # of the result: what is computed
        ("filter", "<i8"),  # of kernels/layout.py
        ("rule", "<i8"),  # of kernels/exact.py
    ],
    align=True,
)


_RGBA: Final = 4  # channels


def allows(rule: int, channels: int) -> bool:
    """Return True where a library resizes bytes of this number of channels: torch any, Pillow gray, RGB and RGBA."""
    return rule == TORCH or channels in (1, 3, _RGBA)


def premultiplies(rule: int, channels: int) -> bool:
    """Return True where colors are multiplied by alpha before a resize, and divided by it afterwards."""
    return rule != TORCH and channels == _RGBA


#: One axis of a resize, and where its taps are.
AXIS: Final = np.dtype(
    [
        ("size", "<i8"),  # pixels of the source
        ("out", "<i8"),  # and of the result
        ("filter", "<i8"),  # of kernels/layout.py
        ("rule", "<i8"),  # of kernels/exact.py
        ("most", "<i8"),  # taps of a position
        ("at", "<i8"),  # word of the taps: the first pixel of each position, their numbers, ``most`` weights for each
        ("bits", "<i8"),  # after the point of the weights; filled in with them
    ],
    align=True,
)


def is_tall(rule: Any, width: Any, height: Any, out_width: Any, out_height: Any) -> Any:
    """Return whether the pass along columns is the first; all may be arrays."""
    return (rule == PILLOW) & (height - out_height > np.maximum(0, 2 * (width - out_width)))


def most_taps(size: Any, out: Any, reach: Any) -> Any:
    """Return the most taps of a position, for axes of ``size`` pixels that become ``out``; all may be arrays."""
    return np.int64(np.minimum(2.0 * np.ceil(reach * np.maximum(size / out, 1.0)) + 1.0, size))
