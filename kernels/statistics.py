"""Image statistics: the terms that reductions add up, and the values computed from the sums."""

import numpy as np

from .color import FIXED_ONE, INVERSE_FIXED_ONE, ONE, ZERO
from .scalar import f32, i32, i64, scalar

# Counts are divided as unsigned: Numba divides signed numbers in 64 bits.
u32 = np.uint32

# The range of a flat channel at most: 1/1024 of a level of 8 bits, the precision to which stores round.
FLAT = f32(1.0 / (255.0 * 1024.0))


@scalar
def to_fixed(x):
    """Return ``x`` in steps of 2^-24 as an int64: sums of these do not depend on their order."""
    return i64(x * FIXED_ONE)


@scalar
def mean_of(total, count):
    """Return the mean of ``count`` values whose :func:`to_fixed` add up to ``total``."""
    return f32(total) * INVERSE_FIXED_ONE / f32(count)


@scalar
def stretch_of(low, high):
    """Return the low end and gain of autocontrast; channels that are flat within rounding errors do not change."""
    flat = high - low <= FLAT
    return (ZERO if flat else low), ONE / (ONE if flat else high - low)


@scalar
def equalize_step(count, last):
    """Return the pixels per level after equalization; ``last`` is the count of the brightest level in use."""
    return i32(u32(count - last) // u32(255))


@scalar
def equalize_level(level, below, step):
    """Return the value of ``level`` after equalization, with ``below`` pixels darker than it."""
    # As Pillow's ``ImageOps.equalize``: half a step more rounds, and a step of 0 leaves the image as it is.
    safe = max(step, i32(1))
    moved = min(i32(u32(below + (safe >> i32(1))) // u32(safe)), i32(255))
    return f32(i32(level) if step == i32(0) else moved) * f32(1.0 / 255.0)
