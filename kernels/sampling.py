"""Positions of grid points in the source, and the weights of the source pixels around them.

Coordinates are continuous with half-pixel centers: pixel ``i`` covers ``[i, i + 1)`` and its center is ``i + 0.5``.
The antialiased weights are those of ``torch.nn.functional.interpolate(antialias=True)`` and Pillow: the filter is
stretched by the scale, cut at the window and divided by the sum of what is left.
"""

import math

from .layout import (
    BOX,
    CUBIC_CLAMPED,
    CUBIC_RENORMALIZED,
    GAUSSIAN,
    LANCZOS,
    LINEAR,
    NEAREST,
    RADIUS,
    REFLECT,
    TIE_NUDGE,
)
from .scalar import confine, f32, floor, i32, scalar

_NUDGE = f32(TIE_NUDGE)
_NEAREST_RADIUS = f32(RADIUS[NEAREST])
_LINEAR_RADIUS = f32(RADIUS[LINEAR])
_CUBIC_RADIUS = f32(RADIUS[CUBIC_RENORMALIZED])
_LANCZOS_RADIUS = f32(RADIUS[LANCZOS])


@scalar
def project(m0, m1, m2, m6, m7, m8, u, v):
    """Return one coordinate of the projective map of ``(u, v)``; ``m6 m7 m8`` are ``0 0 1`` for an affine one."""
    return (m0 * u + m1 * v + m2) / (m6 * u + m7 * v + m8)


@scalar
def reach(filter, support, taps):
    """Return how far from a position its taps reach, in source pixels."""
    if filter == GAUSSIAN:
        return f32(taps) * f32(0.5)
    short = _NEAREST_RADIUS if filter == NEAREST or filter == BOX else _LINEAR_RADIUS
    long = _LANCZOS_RADIUS if filter == LANCZOS else _CUBIC_RADIUS
    return (long if filter >= CUBIC_RENORMALIZED else short) * support


@scalar
def folded(c, filter, low, high):
    """Return position ``c`` mirrored into the window, repeatedly if needed, for the filters with mirrored borders."""
    edge = f32(0.5) if filter == REFLECT else f32(0.0)
    start = low + edge
    # A window of one pixel has no room between centers. Its mirror images are all that pixel, so any span works that
    # keeps the position inside it.
    span = max(high - start - edge, f32(0.5))
    period = span + span
    turned = c - start
    turned -= period * floor(turned / period)
    return start + min(turned, period - turned)


@scalar
def tap_center(c, filter, low, high):
    """Return the position around which taps are laid: inside the window, with ties of "nearest" and "box" nudged.

    For positions far outside, the taps must still meet the window. Only those that repeat its edge may leave it, and
    then read nothing but the edge. A box, which may be no wider than a pixel, stays around the centers of pixels.
    """
    nudge = _NUDGE if filter == NEAREST or filter == BOX else f32(0.0)
    margin = f32(1.5) if filter == CUBIC_CLAMPED else f32(-0.5) if filter == BOX else f32(0.0)
    return confine(c + nudge, low - margin, high + margin)


@scalar
def first_tap(c, reach):
    """Return the index, as a float, of the first pixel whose center is within ``reach`` of the position ``c``."""
    return floor(c - reach + f32(0.5))


@scalar
def keys(d, a):
    """Return the cubic convolution kernel of Keys (1981) at distance ``d >= 0`` with parameter ``a``."""
    inner = ((a + f32(2.0)) * d - (a + f32(3.0))) * d * d + f32(1.0)
    outer = ((a * d - f32(5.0) * a) * d + f32(8.0) * a) * d - f32(4.0) * a
    return inner if d < f32(1.0) else outer if d < f32(2.0) else f32(0.0)


@scalar
def triangle(d):
    """Return the weight of bilinear interpolation at distance ``d``."""
    return max(f32(1.0) - abs(d), f32(0.0))


# Polynomials in the square of the distance, fitted at Chebyshev nodes: unlike sines they are the same on both devices
# up to rounding, become vectors, and need no reduction of the angle. Both weights are within 7e-7 of the filter.


@scalar
def lanczos(d):
    """Return the weight sinc(d) sinc(d / 3) at distance ``d``; 0 from 3 on."""
    # With q = sinc(d / 3) and sin(3 t) = 3 sin(t) - 4 sin(t)**3, sinc(d) is q - 4/3 (pi d / 3)**2 q**3.
    z = min(d * d, f32(9.0))
    q = f32(2.36755684e-10)
    q = q * z + f32(-3.92183598e-08)
    q = q * z + f32(3.98224e-06)
    q = q * z + f32(-0.000261652607)
    q = q * z + f32(0.0100214969)
    q = q * z + f32(-0.182770444)
    q = q * z + f32(0.999999999)
    square = q * q
    weight = square - f32(1.46216361497) * z * square * square
    return weight if z < f32(9.0) else f32(0.0)


@scalar
def hamming(d):
    """Return the weight sinc(d) (0.54 + 0.46 cos(pi d)) at distance ``d``; 0 from 1 on."""
    z = min(d * d, f32(1.0))
    w = f32(0.00451103036)
    w = w * z + f32(-0.0472155291)
    w = w * z + f32(0.274555627)
    w = w * z + f32(-1.10338779)
    w = w * z + f32(3.09227793)
    w = w * z + f32(-5.71854528)
    w = w * z + f32(6.4127464)
    w = w * z + f32(-3.91494238)
    w = w * z + f32(0.999999996)
    return w if z < f32(1.0) else f32(0.0)


@scalar
def rare_weight(tap, c, inverse_support, filter):
    """Return the weight, not normalized, of pixel ``tap`` (a float) for the position ``c`` under BOX, HAMMING, LANCZOS.

    Separate from :func:`weight_inside`, which every other resampling evaluates.
    """
    d = (tap + f32(0.5) - c) * inverse_support
    if filter == BOX:
        return f32(1.0) if abs(d) <= f32(0.5) else f32(0.0)
    return lanczos(d) if filter == LANCZOS else hamming(d)


@scalar
def weight_inside(tap, c, inverse_support, filter):
    """Return the weight, not normalized, of pixel ``tap`` (a float) for ``c``; for NEAREST, LINEAR, and both CUBICs."""
    d = abs((tap + f32(0.5) - c) * inverse_support)
    cubic = keys(d, f32(-0.5) if filter == CUBIC_RENORMALIZED else f32(-0.75))
    return triangle(d) if filter == LINEAR else f32(1.0) if filter == NEAREST else cubic


@scalar
def tap_weight(tap, c, inverse_support, filter, low, high):
    """Return :func:`weight_inside`, or 0 where the filter drops pixels outside the window."""
    weight = weight_inside(tap, c, inverse_support, filter)
    keep = (tap >= low and tap < high) or filter == CUBIC_CLAMPED or filter == NEAREST
    return weight if keep else f32(0.0)


@scalar
def gaussian_weight(tap, c, inverse_sigma):
    """Return the weight, not normalized, of pixel ``tap`` under a Gaussian."""
    # A separate function, since an exponential would keep the others from vectorizing.
    d = (tap + f32(0.5) - c) * inverse_sigma
    return f32(math.exp(f32(-0.5) * d * d))


@scalar
def tap_index(tap, filter, low, high):
    """Return the index of the pixel read for ``tap``: itself, or the nearest of the window (GAUSSIAN: mirrored)."""
    last = high - f32(1.0)
    mirrored = min(abs(tap), last + last - tap)
    return i32(confine(mirrored if filter == GAUSSIAN else tap, low, last))


@scalar
def coverage(c, low, high, sharpness):
    """Return the share of a filter at ``c`` that lies in ``[low, high)``: 0 outside, 1 inside, a ramp at the edges.

    With sharpness 1 it is the in-image weight of bilinear interpolation (padding mode "zeros"). In an interval narrower
    than the filter it is less than 1 everywhere, and in an empty one 0.
    """
    half = f32(0.5)
    zero, one = f32(0.0), f32(1.0)
    before = one - confine((c - low) * sharpness + half, zero, one)
    return max(zero, confine((high - c) * sharpness + half, zero, one) - before)
