"""Weights of exact resizes: float64 operations in the order of Pillow and torch, then whole numbers.

References: Pillow ``src/libImaging/Resample.c`` (``precompute_coeffs``, ``normalize_coeffs_8bpc``); PyTorch
``aten/src/ATen/native/cpu/UpSampleKernel.cpp`` (``compute_indices_int16_weights_aa``).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from .. import exact
from ..compiled import cached_jit
from ..exact import AXIS, TORCH
from ..layout import BOX, HAMMING, LANCZOS, LINEAR, RADIUS
from ..scalar import strict

REACHES: Final = np.array(RADIUS)

_PILLOW_BITS = 22  # after the point of Pillow's weights: 32 - 8 of a byte - 2 for overshoot
_IDENTITY_BITS = 14  # after the point of a weight of 1 where nothing is summed: an int16, too

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
def _weigh(i, size, scale, support, inverse, kind, first, count, real):
    """Weights of position ``i`` in float64, which add up to 1, and the pixels they belong to; return the largest."""
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
        Of the filter ``kind``, see ``REACHES``.
    most : int
        Taps of a position at most, see :func:`most_taps`.
    first, count : (out,) int32
        First pixel and number of taps of each position; filled.
    weights : (out * most,) int32
        Filled; those of a position follow one another.
    real : (out * most,) float64
        Work space.
    """
    if size == out:  # the pass is left out
        for i in range(out):
            first[i], count[i], weights[i * most] = i, 1, 1 << _IDENTITY_BITS
        return _IDENTITY_BITS
    scale = size / out
    stretch = max(scale, 1.0)
    support, inverse = reach * stretch, 1.0 / stretch
    largest = 0.0
    for i in range(out):
        largest = max(largest, _weigh(i, size, scale, support, inverse, kind, first, count, real[i * most :]))
    bits = _PILLOW_BITS
    if rule == TORCH:
        # As many bits as leave the largest weight of the axis in an int16.
        bits = 0
        while bits < _PILLOW_BITS and np.int64(0.5 + largest * np.float64(1 << (bits + 1))) < 1 << 15:
            bits += 1
    one = np.float64(1 << bits)
    for i in range(out):
        for t in range(count[i]):
            weights[i * most + t] = _rounded(real[i * most + t] * one)
    return bits


most_taps, is_tall = strict(exact.most_taps), strict(exact.is_tall)


@cached_jit("none(AXIS[::1], int32[::1], float64[::1])", AXIS=AXIS)
def lay_axes(axes, words, real):
    """Fill in the taps of axes and the bits of their weights; ``real`` is work space for an axis."""
    for k in range(axes.size):
        one = axes[k]
        n, at = one.out, one.at
        one.bits = lay_weights(
            one.size, n, REACHES[one.filter], one.filter, one.rule, one.most, words[at : at + n],
            words[at + n : at + 2 * n], words[at + 2 * n : at + n * (2 + one.most)], real,
        )  # fmt: skip
