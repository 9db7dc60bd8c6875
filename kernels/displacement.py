"""A smooth random displacement of pixels: cubic B-splines over a lattice of normal numbers.

It approximates noise of every pixel smoothed by a Gaussian: a cubic B-spline resembles a Gaussian, and the distance of
nodes is chosen so that their standard deviations are equal. A pixel's displacement then depends only on the image's
seed and the sixteen nodes around the pixel, and needs no memory.
"""

from typing import Final

import numpy as np

from .noise import normals_of, philox
from .ops import NODE_SPACING
from .scalar import confine, f32, floor, i32, scalar

u32 = np.uint32

NODES: Final = 4  # around a position, along each axis
_MOST = f32(1.0 / NODE_SPACING)  # nodes per pixel
_SIXTH = f32(1.0 / 6.0)
_ZERO = f32(0.0)
_ONE = f32(1.0)
_TWO_THIRDS = f32(2.0 / 3.0)


@scalar
def density(given):
    """Return nodes per pixel, limited to those that scratch memory has room for."""
    return confine(given, _ZERO, _MOST)


@scalar
def first_node(c, density, phase):
    """Return the first of the four nodes around a position, and its distance past the second one, 0 to 1 nodes."""
    at = c * density + confine(phase, _ZERO, _ONE)
    whole = floor(at)
    return i32(whole), at - whole


@scalar
def weights(t):
    """Return the weights of the four nodes around a position, ``t`` past the second one: the cubic B-spline."""
    s = _ONE - t
    return (
        s * s * s * _SIXTH,
        _TWO_THIRDS + t * t * (f32(0.5) * t - _ONE),
        _TWO_THIRDS + s * s * (f32(0.5) * s - _ONE),
        t * t * t * _SIXTH,
    )


@scalar
def node(column, row, seed_0, seed_1):
    """Return the two normal numbers of a node, for x and y."""
    w0, w1, _, _ = philox(u32(column), u32(row), u32(1), u32(0), u32(i32(seed_0)), u32(i32(seed_1)))
    return normals_of(w0, w1)


@scalar
def displacement(x, y, seed_0, seed_1, density, phase_x, phase_y, along, down):
    """Return the displacement, in pixels, from a position of the result to that in the source."""
    column, across = first_node(x, density, phase_x)
    row, below = first_node(y, density, phase_y)
    a0, a1, a2, a3 = weights(across)
    b0, b1, b2, b3 = weights(below)
    dx, dy = _ZERO, _ZERO
    for j in range(NODES):
        b = b0 if j == 0 else b1 if j == 1 else b2 if j == 2 else b3
        for i in range(NODES):
            a = a0 if i == 0 else a1 if i == 1 else a2 if i == 2 else a3
            one, other = node(i32(column + i), i32(row + j), seed_0, seed_1)
            dx += a * b * one
            dy += a * b * other
    return along * dx, down * dy


@scalar
def place(c, size, repeat, nearest):
    """Return the first of the two pixels between whose centers a position lies, and the share of the second.

    Positions are limited to half a pixel outside of the image, where the share inside is 0; with ``repeat``, to the
    centers of its outermost pixels.
    """
    half = f32(0.5)
    low = half if repeat > half else -half
    at = confine(c, low, f32(size) - low) - half
    if nearest > half:
        at = floor(at + half)
    first = floor(at)
    return i32(first), at - first


@scalar
def share(pixel, weight, size):
    """Return the weight of a pixel of an axis, or 0 if the pixel lies outside."""
    return weight if pixel >= 0 and pixel < size else _ZERO
