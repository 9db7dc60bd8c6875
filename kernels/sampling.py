"""Where a grid point lies in the source, and the weight of each source pixel around it.

Coordinates are continuous with half-pixel centres: pixel ``i`` covers ``[i, i + 1)`` and its centre is ``i + 0.5``.
The antialiased weights are those of ``torch.nn.functional.interpolate(antialias=True)`` and Pillow: the filter is
stretched by the scale, cut at the window and divided by the sum of what is left.
"""

from __future__ import annotations

import math

from .layout import CUBIC_CLAMPED, CUBIC_RENORMALISED, GAUSSIAN, LINEAR, NEAREST, RADIUS, REFLECT, TIE_NUDGE
from .scalar import confine, f32, floor, i32, scalar

_NUDGE = f32(TIE_NUDGE)
_NEAREST_RADIUS = f32(RADIUS[NEAREST])
_LINEAR_RADIUS = f32(RADIUS[LINEAR])
_CUBIC_RADIUS = f32(RADIUS[CUBIC_RENORMALISED])


@scalar
def project(m0, m1, m2, m6, m7, m8, u, v):
    """One coordinate of the projective map of ``(u, v)``; ``m6 m7 m8`` are ``0 0 1`` for an affine one."""
    return (m0 * u + m1 * v + m2) / (m6 * u + m7 * v + m8)


@scalar
def reach(filter, support, taps):
    """How far from a position the taps go, in source pixels."""
    if filter == GAUSSIAN:
        return f32(taps) * f32(0.5)
    radius = _CUBIC_RADIUS if filter >= CUBIC_RENORMALISED else _NEAREST_RADIUS if filter == NEAREST else _LINEAR_RADIUS
    return radius * support


@scalar
def folded(c, filter, low, high):
    """Position ``c`` mirrored into the window, as often as it takes, for the filters that do so."""
    edge = f32(0.5) if filter == REFLECT else f32(0.0)
    start = low + edge
    # A window of one pixel has no room between centers; positions are whole numbers apart, so half a pixel does.
    span = max(high - start - edge, f32(0.5))
    period = span + span
    turned = c - start
    turned -= period * floor(turned / period)
    return start + min(turned, period - turned)


@scalar
def tap_centre(c, filter, low, high):
    """Position the taps are laid around: inside the window, ties of "nearest" nudged.

    Far outside, the taps must still meet the window. Only those that repeat its edge may leave it, and then see
    nothing but the edge.
    """
    nudge = _NUDGE if filter == NEAREST else f32(0.0)
    margin = f32(1.5) if filter == CUBIC_CLAMPED else f32(0.0)
    return confine(c + nudge, low - margin, high + margin)


@scalar
def first_tap(c, reach):
    """Index of the first pixel within ``reach`` of the position ``c``."""
    return floor(c - reach + f32(0.5))


@scalar
def keys(d, a):
    """Cubic convolution kernel of Keys (1981), at distance ``d >= 0`` with parameter ``a``."""
    inner = ((a + f32(2.0)) * d - (a + f32(3.0))) * d * d + f32(1.0)
    outer = ((a * d - f32(5.0) * a) * d + f32(8.0) * a) * d - f32(4.0) * a
    return inner if d < f32(1.0) else outer if d < f32(2.0) else f32(0.0)


@scalar
def triangle(d):
    """Weight of bilinear interpolation at distance ``d``."""
    return max(f32(1.0) - abs(d), f32(0.0))


@scalar
def weight_inside(tap, c, inverse_support, filter):
    """Unnormalised weight of a pixel ``tap`` (a float) of the window for the position ``c``; not for GAUSSIAN."""
    d = abs((tap + f32(0.5) - c) * inverse_support)
    cubic = keys(d, f32(-0.5) if filter == CUBIC_RENORMALISED else f32(-0.75))
    return triangle(d) if filter == LINEAR else f32(1.0) if filter == NEAREST else cubic


@scalar
def tap_weight(tap, c, inverse_support, filter, low, high):
    """:func:`weight_inside`, or 0 where the filter drops pixels outside the window."""
    weight = weight_inside(tap, c, inverse_support, filter)
    keep = (tap >= low and tap < high) or filter == CUBIC_CLAMPED or filter == NEAREST
    return weight if keep else f32(0.0)


@scalar
def gaussian_weight(tap, c, inverse_sigma):
    """Unnormalised weight of pixel ``tap`` under a Gaussian: apart, since an exponential does not vectorise."""
    d = (tap + f32(0.5) - c) * inverse_sigma
    return f32(math.exp(f32(-0.5) * d * d))


@scalar
def tap_index(tap, filter, low, high):
    """Index of the pixel read for ``tap``: itself, or the nearest one of the window (its mirror image, blurring)."""
    last = high - f32(1.0)
    mirrored = min(abs(tap), last + last - tap)
    return i32(confine(mirrored if filter == GAUSSIAN else tap, low, last))


@scalar
def coverage(c, low, high, sharpness):
    """Share of a filter at ``c`` that lies in ``[low, high)``: 0 outside, 1 inside, a ramp at the edges.

    With sharpness 1 it is the in-image weight of bilinear interpolation (padding mode "zeros"). An interval narrower
    than the filter never has the whole of it, and an empty one nothing.
    """
    half = f32(0.5)
    zero, one = f32(0.0), f32(1.0)
    before = one - confine((c - low) * sharpness + half, zero, one)
    return max(zero, confine((high - c) * sharpness + half, zero, one) - before)
