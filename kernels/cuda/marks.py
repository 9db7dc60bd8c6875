"""Marks in memory that somebody else's decoder is to write: where one is still there, it did not.

16 random bytes, so that no image has them by chance.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from ..scalar import i32, scalar, up
from . import MARK_BYTES

_HALF = 8  # bytes of a number
_LAST = np.uint64(255)


@scalar
def _byte(first, second, k):
    """Byte ``k`` of a mark, which is two numbers, their lowest byte first."""
    half = first if k < _HALF else second
    return np.uint8((half >> np.uint64(8 * (k % _HALF))) & _LAST)


def mark(out, places, first, second):
    """Kernel function: write a mark at each place, one thread a place; those below 0 are none."""
    number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= i32(places.size):
        return
    at = places[up(number)]
    if at >= 0:
        for k in range(MARK_BYTES):
            out[up(at + k)] = _byte(first, second, k)


def compare(out, places, first, second, status):
    """Kernel function: tell of each place whether its mark is still there, by a 1."""
    number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= i32(places.size):
        return
    at = places[up(number)]
    if at >= 0:
        differs = 0
        for k in range(MARK_BYTES):
            differs |= out[up(at + k)] ^ _byte(first, second, k)
        if differs == 0:
            status[up(number)] = 1
