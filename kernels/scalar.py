"""How every scalar kernel function is compiled: inlined, float32, no error branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .lang import njit

# No "nnan"/"ninf": a NaN in the user's own float image must stay visible. No "reassoc": it lets LLVM turn the short
# tap loops into gathers and horizontal sums (measured: twice the time), and sums would depend on the vector width.
FASTMATH = {"contract", "nsz", "arcp"}

# Loops work in memory they are given. Without Numba's allocator the slices they take are not counted, each in an
# atomic operation (measured: an eighth of the time of an image).
LOOP = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy", "_nrt": False}

# What only other kernels call needs no entrance for Python or C: each costs as long as a small function itself.
_NO_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

f32 = np.float32
i32 = np.int32
up = np.uintp  # unsigned indices: no wrap-around check


def scalar(function: Callable[..., Any]) -> Any:
    """Compile a scalar function for both runtimes; the caller's loop inlines it and so can vectorise."""
    return njit(forceinline=True, fastmath=FASTMATH, error_model="numpy", **_NO_WRAPPERS)(function)


def loop(function: Callable[..., Any]) -> Any:
    """Compile a loop of the CPU runtime; it holds no Python object, so it runs without the GIL."""
    return njit(**LOOP, **_NO_WRAPPERS)(function)


@scalar
def floor(x):
    """Floor of a float32 within the range of int32, as float32.

    Written out because ``math.floor`` gives a 64-bit integer, which does not vectorise, and ``np.floor`` of a scalar
    is not known to numba-cuda.
    """
    whole = f32(i32(x))
    return whole - f32(1.0) if whole > x else whole


@scalar
def clamp(x, low, high):
    """``x`` limited to ``[low, high]``; a NaN stays."""
    return min(max(x, low), high)


@scalar
def confine(x, low, high):
    """``x`` limited to ``[low, high]``; a NaN becomes ``low``: for what leads to an index."""
    return min(high, max(low, x))


@scalar
def word(words, at, k):
    """Element ``at + k``, neither of them negative: said as unsigned, it needs no wrap-around check."""
    return words[up(at) + up(k)]
