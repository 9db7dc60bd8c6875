"""Resizing bytes exactly as Pillow and torch do: the whole-number weights of each position along an axis.

Both libraries sum bytes by fixed-point weights, one axis after the other, and round to bytes after each. Sums of whole
numbers do not depend on their order, so neither vectors nor devices can change a byte; the weights could, and are
computed in float64 with every operation in the libraries' order, on the host, for GPUs as well.

References: Pillow ``src/libImaging/Resample.c`` (``precompute_coeffs``, ``normalize_coeffs_8bpc``); PyTorch
``aten/src/ATen/native/cpu/UpSampleKernel.cpp`` (``compute_indices_int16_weights_aa``).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from .layout import BOX, HAMMING, LANCZOS, LINEAR
from .scalar import strict

# Rules.
PILLOW: Final = 0  # since 13.0: 22-bit weights; rows are summed first where the height shrinks much more than the width
PILLOW_12: Final = 1  # before: columns are always summed first
TORCH: Final = 2  # as PILLOW_12, with 16-bit weights
RULES: Final = {"pillow": PILLOW, "pillow12": PILLOW_12, "torch": TORCH}

_PILLOW_BITS = 22  # after the point of Pillow's weights: 32 - 8 of a byte - 2 for overshoot

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

# Pillow has the window's two constants as float32.
_HAMMING_MEAN, _HAMMING_SWING = np.float64(np.float32(0.54)), np.float64(np.float32(0.46))


@strict
def _filter(x, kind):
    """Value of a filter at a distance from its center, in units of its support."""
    if kind == BOX:
        return 1.0 if x > -0.5 and x <= 0.5 else 0.0
    if kind == LANCZOS:
        if not (x >= -3.0 and x < 3.0):
            return 0.0
        if x == 0.0:
            return 1.0
        a, b = x * math.pi, x / 3.0 * math.pi
        return math.sin(a) / a * (math.sin(b) / b)
    x = abs(x)
    if kind == LINEAR:
        return 1.0 - x if x < 1.0 else 0.0
    if kind == HAMMING:
        if x == 0.0:
            return 1.0
        if x >= 1.0:
            return 0.0
        x = x * math.pi
        return math.sin(x) / x * (_HAMMING_MEAN + _HAMMING_SWING * math.cos(x))
    if x < 1.0:
        return (1.5 * x - 2.5) * x * x + 1.0
    if x < 2.0:
        return (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5
    return 0.0


@strict
def _rounded(x):
    """The nearest whole number; halves away from zero."""
    return np.int32(x - 0.5 if x < 0.0 else x + 0.5)


@strict
def _weigh(i, size, out, reach, kind, first, count, real):
    """Weights of position ``i`` in float64, which add up to 1, and the pixels they belong to; returns the largest."""
    scale = size / out
    stretch = max(scale, 1.0)
    support, inverse = reach * stretch, 1.0 / stretch
    center = (i + 0.5) * scale
    low = max(int(center - support + 0.5), 0)
    taps = min(int(center + support + 0.5), size) - low
    first[i], count[i] = low, taps
    total = 0.0
    for t in range(taps):
        real[t] = _filter((t + low - center + 0.5) * inverse, kind)
        total += real[t]
    largest = 0.0
    for t in range(taps):
        if total != 0.0:
            real[t] /= total
        largest = max(largest, real[t])
    return largest


@strict
def lay_weights(size, out, reach, kind, rule, most, first, count, weights, real):
    """Fill in the taps of every position along an axis; return the bits after the point of their weights.

    Parameters
    ----------
    size, out : int
        Pixels of the source and of the result.
    reach : float
        Of the filter ``kind``, see ``REACH``.
    most : int
        Taps of a position at most, see :func:`most_taps`.
    first, count : (out,) int32
        First pixel and number of taps of each position; filled.
    weights : (out * most,) int32
        Filled; those of a position follow one another.
    real : (most,) float64
        Work space.
    """
    bits = _PILLOW_BITS
    if size == out:  # the pass is left out
        for i in range(out):
            first[i], count[i], weights[i * most] = i, 1, 1 << bits
        return bits
    if rule == TORCH:
        # As many bits as leave the largest weight of the axis in an int16.
        largest = 0.0
        for i in range(out):
            largest = max(largest, _weigh(i, size, out, reach, kind, first, count, real))
        bits = 0
        while bits < _PILLOW_BITS and np.int64(0.5 + largest * np.float64(1 << (bits + 1))) < 1 << 15:
            bits += 1
    one = np.float64(1 << bits)
    for i in range(out):
        _weigh(i, size, out, reach, kind, first, count, real)
        for t in range(count[i]):
            weights[i * most + t] = _rounded(real[t] * one)
    return bits


def most_taps_(size, out, reach):
    """Taps of a position at most, of axes of ``size`` pixels that become ``out``; all may be arrays."""
    return np.int64(np.minimum(2.0 * np.ceil(reach * np.maximum(size / out, 1.0)) + 1.0, size))


most_taps = strict(most_taps_)
