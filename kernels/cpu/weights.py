"""Weights of exact resizes: float64 operations in the order of Pillow and torch, then whole numbers.

References: Pillow ``src/libImaging/Resample.c`` (``precompute_coeffs``, ``normalize_coeffs_8bpc``); PyTorch
``aten/src/ATen/native/cpu/UpSampleKernel.cpp`` (``compute_indices_int16_weights_aa``).
"""

import math
from typing import Any

import numpy as np

from .. import exact
from ..compiled import cached_jit
from ..exact import AXIS, TORCH
from ..layout import BOX, HAMMING, LANCZOS, LINEAR, NEAREST, RADIUS
from ..scalar import strict

_PILLOW_BITS = 22  # after the point of Pillow's weights: 32 - 8 of a byte - 2 for overshoot
_IDENTITY_BITS = 14  # after the point of a weight of 1 where nothing is summed: an int16, too

# Pillow has the window's two constants as float32.
_HAMMING_MEAN, _HAMMING_SWING = np.float64(np.float32(0.54)), np.float64(np.float32(0.46))


@strict
def _linear(x, kind):
    x = abs(x)
    return 1.0 - x if x < 1.0 else 0.0


@strict
def _cubic(x, kind):
    x = abs(x)
    near, far = (1.5 * x - 2.5) * x * x + 1.0, (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5
    return near if x < 1.0 else (far if x < 2.0 else 0.0)


@strict
def _other(x, kind):
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
    if x == 0.0:
        return 1.0
    if x >= 1.0:
        return 0.0
    x = x * math.pi
    return math.sin(x) / x * (_HAMMING_MEAN + _HAMMING_SWING * math.cos(x))


@strict
def rounded(x):
    """The nearest whole number; halves away from zero."""
    return np.int32(x - 0.5 if x < 0.0 else x + 0.5)


def _make_evaluate(value: Any) -> Any:
    @strict
    def evaluate(scale, inverse, kind, first, count, real, total):
        """Values of a filter at distances from its center, in units of its support, and their sums."""
        n = total.size
        for t in range(real.size // n):
            for i in range(n):
                x = (t + first[i] - (i + 0.5) * scale + 0.5) * inverse
                one = value(x, kind) if t < count[i] else 0.0
                real[t * n + i] = one
                total[i] += one

    return evaluate


_evaluate_linear, _evaluate_cubic, _evaluate_other = (_make_evaluate(one) for one in (_linear, _cubic, _other))


@strict
def lay_weights(size, reach, kind, rule, first, count, real, total):
    """Fill in the taps of every position along an axis; return the bits after the point of their weights.

    Loops run along positions, so that a vector holds a tap of each of several.

    Parameters
    ----------
    size : int
        Pixels of the source.
    reach : float
        Of the filter ``kind``, see ``layout.RADIUS``.
    first, count : (out,) int32
        First pixel and number of taps of each position; filled.
    real : (most * out,) float64
        The first weights of all positions, the second ones, and so on, 0 where a position has fewer; filled. Those of a
        position add up to 1: times a power of 2 and :func:`rounded` they are the library's.
    total : (out,) float64
        Work space.
    """
    out = total.size
    if size == out:  # the pass is left out
        for i in range(real.size):
            real[i] = 1.0 if i < out else 0.0
        for i in range(out):
            first[i], count[i] = i, 1
        return _IDENTITY_BITS
    scale = size / out
    if kind == NEAREST:
        at = 0.5 * scale
        for i in range(real.size):
            real[i] = 1.0 if i < out else 0.0
        for i in range(out):
            first[i], count[i] = min(np.int64(at), size - 1), 1
            at += scale  # summed up, as in Pillow's ImagingScaleAffine, so that ties fall as its do
        return _IDENTITY_BITS
    stretch = max(scale, 1.0)
    support, inverse = reach * stretch, 1.0 / stretch
    for i in range(out):
        center = (i + 0.5) * scale
        low = max(np.int64(center - support + 0.5), 0)
        first[i], count[i] = low, min(np.int64(center + support + 0.5), size) - low
        total[i] = 0.0
    if kind == LINEAR:
        _evaluate_linear(scale, inverse, kind, first, count, real, total)
    elif kind in (BOX, LANCZOS, HAMMING):
        _evaluate_other(scale, inverse, kind, first, count, real, total)
    else:
        _evaluate_cubic(scale, inverse, kind, first, count, real, total)
    for i in range(out):
        total[i] = total[i] if total[i] != 0.0 else 1.0
    for t in range(real.size // out):
        for i in range(out):
            real[t * out + i] /= total[i]
    if rule != TORCH:
        return _PILLOW_BITS
    largest = 0.0
    for k in range(real.size):
        largest = max(largest, real[k])
    # As many bits as leave the largest weight of the axis in an int16.
    bits = 0
    while bits < _PILLOW_BITS and np.int64(0.5 + largest * np.float64(1 << (bits + 1))) < 1 << 15:
        bits += 1
    return bits


most_taps, is_tall = strict(exact.most_taps), strict(exact.is_tall)


@cached_jit("none(AXIS[::1], int32[::1], float64[::1])", AXIS=AXIS)
def lay_axes(axes, words, real):
    """Fill in the taps of axes and the bits of their weights; ``real`` is work space: ``out * (most + 1)`` values."""
    for k in range(axes.size):
        one = axes[k]
        n, at = one.out, one.at
        first, count, weights = words[at : at + n], words[at + n : at + 2 * n], words[at + 2 * n :]
        values, total = real[: n * one.most], real[n * one.most : n * (one.most + 1)]
        one.bits = lay_weights(one.size, RADIUS[one.filter], one.filter, one.rule, first, count, values, total)
        unit = np.float64(1 << one.bits)
        for i in range(n):
            for t in range(count[i]):
                weights[i * one.most + t] = rounded(values[t * n + i] * unit)
