"""Borders: which pixel stands for one outside the image, for both runtimes."""

from .prepass import CONSTANT, EDGE, SYMMETRIC
from .scalar import i32, scalar, u32


@scalar
def _modulo(i, n):
    """Return ``i`` modulo ``n``, from 0 to ``n - 1``; of 32 bits."""
    if i >= 0:
        return i32(u32(i) % u32(n))
    return i32(i32(n - 1) - i32(u32(i32(-(i + 1))) % u32(n)))


@scalar
def folded(i, n, border):
    """Return the pixel of a row of ``n`` that lies at position ``i``, or -1 where that is a constant color."""
    if i >= 0 and i < n:
        return i32(i)
    if border == CONSTANT:
        return i32(-1)
    if border == EDGE or n == 1:
        return i32(0) if i < 0 else i32(n - 1)
    period = i32(2 * n) if border == SYMMETRIC else i32(2 * n - 2)
    i = _modulo(i, period)
    if i < n:
        return i
    return i32(period - 1 - i) if border == SYMMETRIC else i32(period - i)
