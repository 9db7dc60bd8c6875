"""Plans for source images that are decoded at a reduced size, because they are shrunk anyway."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._checks.types import Floats, Ints, Mask
from ..kernels import layout, ops
from .plan import Frame, Grid, Plan

#: The scale of an image as it is, and those that it may be decoded at, in eighths of its size.
FULL = 8
_SMALLER = (4, 2, 1)

_SMOOTH = (layout.LINEAR, layout.CUBIC_RENORMALIZED, layout.CUBIC_CLAMPED)


def scales_allowed(plan: Plan, draft: float) -> Ints:
    """For each image the least scale at which the plan's filter still shrinks by ``draft`` along both axes.

    Everything that reads the source must do so through a filter that is stretched: nearest-neighbor images, blurs and
    statistics of the source's own pixels need it whole.
    """
    shrink = _least_shrink(plan.grid)
    for entry in plan.entries:
        if entry.taken_over is not None:
            taken = ops.HAS_STATISTIC[entry.codes]
            shrink = np.where(taken, np.minimum(shrink, _least_shrink(entry.taken_over)), shrink)
    scales = np.full(len(plan), FULL, np.int64)
    for scale in _SMALLER:
        scales[shrink * scale / FULL >= draft] = scale
    return scales


def _least_shrink(grid: Grid) -> Floats:
    """Source pixels that one filter unit spans, along the axis where those are fewer; 0 without a smooth filter."""
    return np.where(np.isin(grid.filter, _SMOOTH), grid.frames[0].support.min(1), 0.0)


def scaled_sizes(sizes: Ints, scales: Ints) -> Ints:
    """(N, 2) sizes at a scale, as libjpeg rounds them."""
    return -(-sizes * scales[:, None] // FULL)


def at_scale(plan: Plan, scales: Ints, sizes: Ints, far: Mask) -> Plan:
    """The same plan for source images at a scale of so many eighths.

    Parameters
    ----------
    scales : (N,) int64
    sizes : (N, 2) int64
        Of the source images as they are.
    far : (N, 2) bool
        Axes, x and y, along which pixels are counted from the far end of the file's: what rounding the size up adds is
        then in front of the image.
    """
    if np.all(scales == FULL):
        return plan
    factor = scales / FULL
    whole = scaled_sizes(sizes, scales)[:, ::-1]
    shift = np.where(far, whole - sizes[:, ::-1] * factor[:, None], 0.0)
    matrix = np.zeros((len(plan), 3, 3))
    matrix[:, 0, 0] = matrix[:, 1, 1] = factor
    matrix[:, :2, 2] = shift
    matrix[:, 2, 2] = 1.0
    made: dict[int, Frame] = {}

    def frame_of(frame: Frame) -> Frame:
        """One for each frame: passes over the same one are told by it."""
        if id(frame) not in made:
            made[id(frame)] = Frame(matrix @ frame.matrix, frame.support * factor[:, None])
        return made[id(frame)]

    def grid_of(grid: Grid) -> Grid:
        low = np.floor(grid.window[:, :2] * factor[:, None] + shift).astype(np.int64)
        high = np.ceil(grid.window[:, 2:] * factor[:, None] + shift).astype(np.int64)
        window = np.concatenate([np.maximum(low, 0), np.minimum(high, whole)], 1)
        return replace(grid, frames=(frame_of(grid.frames[0]), *grid.frames[1:]), window=window)

    entries = tuple(
        entry if entry.taken_over is None else replace(entry, taken_over=grid_of(entry.taken_over))
        for entry in plan.entries
    )
    return replace(plan, grid=grid_of(plan.grid), entries=entries)
