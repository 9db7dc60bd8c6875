"""Copies of runs of words between two arrays, all runs of a batch in one launch."""

import numpy as np
from numba import cuda

from ..scalar import i32, up


def copy_words(source, target, runs):
    """Copy runs of words, with one row of blocks for each (kernel function).

    ``runs`` has three numbers for each: the first word in ``source``, that in ``target``, and the number of words.
    """
    at = i32(3 * cuda.blockIdx.y)
    first, to, count = runs[up(at)], runs[up(at + 1)], runs[up(at + 2)]
    k = np.int64(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    step = np.int64(cuda.gridDim.x * cuda.blockDim.x)
    while k < count:
        target[up(to + k)] = source[up(first + k)]
        k += step
