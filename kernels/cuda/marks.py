"""Marks in memory that nvImageCodec is to write: a mark that is still present shows that it did not.

A mark is 16 random bytes, which no image has by chance.
"""

import numpy as np
from numba import cuda

from ..layout import MARK_BYTES
from ..scalar import i32, scalar, up

_HALF = 8  # bytes of a number
_LAST = np.uint64(255)


@scalar
def _byte(first, second, k):
    """Return byte ``k`` of a mark, given as two 64-bit numbers, lowest byte first."""
    half = first if k < _HALF else second
    return np.uint8((half >> np.uint64(8 * (k % _HALF))) & _LAST)


def mark(out, places, first, second):
    """Write a mark at each place, one thread per place (kernel function); skip negative places."""
    number = i32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    if number >= i32(places.size):
        return
    at = places[up(number)]
    if at >= 0:
        for k in range(MARK_BYTES):
            out[up(at + k)] = _byte(first, second, k)


def compare(out, places, first, second, status):
    """Set ``status`` to 1 for each place whose mark is still present (kernel function)."""
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
