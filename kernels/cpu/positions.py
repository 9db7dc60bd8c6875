"""Projection of a row of pixels to other coordinates: the source's, or those of an earlier grid."""

from __future__ import annotations

from .. import sampling
from ..scalar import f32, loop


@loop
def project_row(m, y, x0, height, width, xs, ys):
    """Compute the coordinates that matrix ``m`` maps the pixels of row ``y`` of a grid to, from column ``x0`` on."""
    # Matrices count from the grid's center, so that float32 is most precise where the image is.
    v = f32(y) - f32(height - 1) * f32(0.5)
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8]
    left = f32(width - 1) * f32(0.5)
    for x in range(xs.size):
        u = f32(x0 + x) - left
        xs[x] = sampling.project(m0, m1, m2, m6, m7, m8, u, v)
        ys[x] = sampling.project(m3, m4, m5, m6, m7, m8, u, v)
