"""Decorators that compile scalar functions and loops (float32, no error branches), and helpers that kernels share."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .lang import njit

# No "nnan"/"ninf": a NaN in the user's own float image must stay visible. No "reassoc": it lets LLVM turn the short
# tap loops into gathers and horizontal sums, and sums would depend on the vector width.
FASTMATH = {"contract", "nsz", "arcp"}

# Loops allocate nothing. Without Numba's allocator (NRT) slices are not reference-counted, which takes an atomic
# operation each.
LOOP = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy", "_nrt": False}

# Functions that only other kernels call need no wrappers for Python or C: each would be compiled as another
# function.
_NO_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

f32 = np.float32
f64 = np.float64
i32 = np.int32
i64 = np.int64
up = np.uintp  # unsigned indices: no wrap-around check
# Divide unsigned numbers: a division is then of 32 bits, whereas Numba divides signed integers in 64 bits.
u32, u64 = np.uint32, np.uint64


def scalar(function: Callable[..., Any]) -> Any:
    """Compile a scalar function for both runtimes; the caller's loop inlines it and so can vectorize."""
    return njit(forceinline=True, fastmath=FASTMATH, error_model="numpy", **_NO_WRAPPERS)(function)


def loop(function: Callable[..., Any]) -> Any:
    """Compile a loop of the CPU runtime; it holds no Python object, so it runs without the GIL."""
    return njit(**LOOP, **_NO_WRAPPERS)(function)


def strict(function: Callable[..., Any]) -> Any:
    """Compile a loop whose floating-point operations are done one by one, as written: other libraries' formulas."""
    return njit(**(LOOP | {"fastmath": False}), **_NO_WRAPPERS)(function)


def _divided(x, y):
    """Return the quotient rounded once; in other scalar functions a compiler may multiply by a rounded inverse."""
    return x / y


def _multiplied(x, y):
    """Return the product rounded; in other scalar functions a compiler may fuse it with a sum. CUDA's does always."""
    return x * y


divided, multiplied = (
    njit(forceinline=True, fastmath=False, error_model="numpy", **_NO_WRAPPERS)(one) for one in (_divided, _multiplied)
)


@scalar
def floor(x):
    """Return the floor of a float32 within the range of int32, as float32."""
    # Written out because ``math.floor`` returns a 64-bit integer, which does not vectorize, and numba-cuda does not
    # know ``np.floor`` of a scalar.
    whole = f32(i32(x))
    return whole - f32(1.0) if whole > x else whole


@scalar
def clamp(x, low, high):
    """Return ``x`` limited to ``[low, high]``; a NaN stays."""
    return min(max(x, low), high)


@scalar
def limited(x, low, high):
    """Return a whole number limited to ``[low, high]``."""
    return min(max(x, i32(low)), i32(high))


@scalar
def confine(x, low, high):
    """Return ``x`` limited to ``[low, high]``; a NaN becomes ``low``, so that it can be made an index."""
    return min(high, max(low, x))


@scalar
def word(words, at, k):
    """Return element ``at + k``, neither of them negative; unsigned indices need no check for wrap-around."""
    return words[up(at) + up(k)]


@scalar
def wide(words, at):
    """Return a 64-bit offset from two 32-bit words of a record."""
    return (i64(word(words, at, 1)) << i64(32)) | (i64(word(words, at, 0)) & i64(0xFFFFFFFF))


def make_patch_number(whole: Any) -> Any:
    """Return a scalar function of numbers of a type, such as ``i64``: a patch's place among those of its image."""

    @scalar
    def patch_number(top, left, across, merge):
        """Return the place of the patch in row ``top`` and column ``left`` of an image ``across`` patches wide.

        Blocks of ``merge`` x ``merge`` patches follow one another row by row, and so do the patches of a block. The
        place is the sum of that in column 0 of the same row and that in row 0 of the same column.
        """
        first, before = whole(top // merge * merge), whole(left // merge * merge)  # row and column of the block
        return whole(whole(first * across) + whole(whole(before + whole(top - first)) * merge) + whole(left - before))

    return patch_number
