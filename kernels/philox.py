"""Philox4x64-10, the counter-based generator of Salmon et al. (2011), as in ``numpy.random.Philox``."""

from __future__ import annotations

import numpy as np
from numba import njit

u64 = np.uint64

_MULTIPLIER_0 = u64(0xD2E7470EE14C6C93)
_MULTIPLIER_1 = u64(0xCA5A826395121157)
_WEYL_0 = u64(0x9E3779B97F4A7C15)
_WEYL_1 = u64(0xBB67AE8584CAA73B)
_LOW = u64(0xFFFFFFFF)
_HALF = u64(32)
_ROUNDS = 10


@njit(cache=True)
def _high(a, b):
    """Upper 64 bits of a product."""
    a_low, a_high = a & _LOW, a >> _HALF
    b_low, b_high = b & _LOW, b >> _HALF
    middle = a_high * b_low + ((a_low * b_low) >> _HALF)
    other = a_low * b_high + (middle & _LOW)
    return a_high * b_high + (middle >> _HALF) + (other >> _HALF)


@njit(cache=True)
def philox_blocks(key_0, key_1, counters, out):
    """Fill ``out`` (M, 4) with the blocks of the counters (M, 4), all uint64."""
    for i in range(len(counters)):
        c0, c1, c2, c3 = counters[i, 0], counters[i, 1], counters[i, 2], counters[i, 3]
        k0, k1 = key_0, key_1
        for _ in range(_ROUNDS):
            high_0, low_0 = _high(_MULTIPLIER_0, c0), _MULTIPLIER_0 * c0
            high_1, low_1 = _high(_MULTIPLIER_1, c2), _MULTIPLIER_1 * c2
            c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0
            k0 += _WEYL_0
            k1 += _WEYL_1
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = c0, c1, c2, c3
