"""Plans for source images that are decoded at reduced size, because they are resampled anyway."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._checks.types import Floats, Ints, Mask
from ..kernels import layout, ops
from .plan import Frame, Grid, Plan

#: Full scale, in eighths of an image's size.
FULL = 8
_SMALLER = (4, 2, 1)  # reduced scales, in eighths

_SMOOTH = (layout.LINEAR, layout.CUBIC_RENORMALIZED, layout.CUBIC_CLAMPED, *layout.RARE_FILTERS)


def scales_allowed(plan: Plan, draft: float) -> Ints:
    """Return for each image the smallest scale at which the plan's filter still shrinks by ``draft`` along both axes.

    All reads of the source must go through an antialiasing filter: nearest neighbor, blurs, and statistics over the
    source's own pixels need the full size.
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
    """Return source pixels per filter unit along the axis with fewer of them; 0 without a smooth filter."""
    return np.where(np.isin(grid.filter, _SMOOTH), grid.frames[0].support.min(1), 0.0)


def scaled_sizes(sizes: Ints, scales: Ints) -> Ints:
    """Return (N, 2) sizes at a scale, rounded as libjpeg does."""
    return -(-sizes * scales[:, None] // FULL)


def at_scale(plan: Plan, scales: Ints, far: Mask, kept: Mask) -> Plan:
    """Return the plan for source images decoded at ``scales`` (N,) eighths of their size.

    ``far`` (N, 2) are the axes, x and y, that are flipped relative to the file: the padding from rounding the size up
    then comes before the image. ``kept`` (N,) images are unchanged and keep their scale, for a later plan.
    """
    if np.all(scales == FULL):
        return plan
    sizes, factor = plan.source_sizes, scales / FULL
    whole = scaled_sizes(sizes, scales)[:, ::-1]
    shift = np.where(far, whole - sizes[:, ::-1] * factor[:, None], 0.0)
    matrix = np.zeros((len(plan), 3, 3))
    matrix[:, 0, 0] = matrix[:, 1, 1] = np.where(kept, 1.0, factor)
    matrix[:, :2, 2] = np.where(kept[:, None], 0.0, shift)
    matrix[:, 2, 2] = 1.0
    scaled: dict[int, Frame] = {}

    def frame_of(frame: Frame) -> Frame:
        """Scale a shared object once: passes over the same one are recognized by identity."""
        if id(frame) not in scaled:
            scaled[id(frame)] = Frame(matrix @ frame.matrix, frame.support * matrix[:, :1, 0])
        return scaled[id(frame)]

    def grid_of(grid: Grid) -> Grid:
        low = np.floor(grid.window[:, :2] * factor[:, None] + shift).astype(np.int64)
        high = np.ceil(grid.window[:, 2:] * factor[:, None] + shift).astype(np.int64)
        window = np.concatenate([np.maximum(low, 0), np.minimum(high, whole)], 1)
        result = np.where(kept[:, None], whole[:, ::-1], grid.sizes)
        return replace(grid, sizes=result, frames=(frame_of(grid.frames[0]), *grid.frames[1:]), window=window)

    entries = tuple(
        entry if entry.taken_over is None else replace(entry, taken_over=grid_of(entry.taken_over))
        for entry in plan.entries
    )
    return replace(plan, grid=grid_of(plan.grid), entries=entries)
