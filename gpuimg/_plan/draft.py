"""``draft`` of :func:`gpuimg.open_batch`: reduced decoding sizes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .._checks.types import Floats, Ints, Mask
from .._data.images import Encoded, EncodedImages, Pixels
from .._decoding import exif, route
from ..kernels import layout, ops
from ..kernels.jpeg.layout import OTHER
from .plan import Grid, Origin, Plan

#: Full scale, in eighths of an image's size.
FULL = 8
_SMALLER = (4, 2, 1)  # reduced scales, in eighths

_SMOOTH = (layout.LINEAR, layout.CUBIC_RENORMALIZED, layout.CUBIC_CLAMPED, *layout.RARE_FILTERS)


class Reduced(NamedTuple):
    """Segments to run, for images as they are decoded."""

    segments: Sequence[Plan]
    starts: Ints  # (N,): the first segment of each image that changes it, or the last segment; others need not run
    scales: Ints  # (N,): eighths of their sizes at which images are decoded


def reduced(source: Encoded | Pixels, segments: Sequence[Plan], *, on_host: bool) -> Reduced:
    """Return the segments for images of a size that the options of the source allow.

    On a GPU, files for nvImageCodec have their full size, whether it is installed or not.
    """
    n = len(source.sizes)
    starts = _first_segments(segments, n)
    if not isinstance(source, EncodedImages) or (source.options.draft is None and source.scales is None):
        return Reduced(segments, starts, _same(n, FULL))
    scales = _scales(source, segments, starts, on_host) if source.scales is None else source.scales
    if np.all(scales == FULL):
        return Reduced(segments, starts, scales)
    _, rows, columns = exif.turns(source.orientations)
    far = np.stack([columns, rows], 1)
    scaled = [_at_scale(plan, np.where(starts >= k, scales, FULL), far, starts > k) for k, plan in enumerate(segments)]
    return Reduced(scaled, starts, scales)


@lru_cache(32)
def _same(n: int, value: int) -> Ints:
    array = np.full(n, value)
    array.flags.writeable = False
    return array


def _first_segments(segments: Sequence[Plan], n: int) -> Ints:
    if len(segments) < 2:
        return _same(n, 0)
    first = np.zeros(n, np.int64)
    reached = np.ones(len(first), np.bool_)
    for plan in segments[:-1]:
        reached &= plan.unchanged_images()
        first += reached
    return first


def _scales(source: EncodedImages, segments: Sequence[Plan], starts: Ints, on_host: bool) -> Ints:
    """Return (N,) decoding scales in eighths.

    Only JPEGs are scaled, by whichever decoder but nvImageCodec's, and only if at least one pixel is left on each side.
    All occurrences of an image have the largest scale that any of them needs.
    """
    scales, draft = np.full(len(starts), FULL, np.int64), source.options.draft
    assert draft is not None
    for k, plan in enumerate(segments):
        scales = np.where(starts == k, _scales_allowed(plan, draft), scales)
    records = source.headers.records
    full = (records["kind"] == OTHER) | (source.sizes.min(1) * scales < FULL)
    if not on_host:
        full |= route.nvimgcodec_takes(records, source.options)
    scales = np.where(full, FULL, scales)
    first = source.first_occurrences()
    if first is not None:
        np.maximum.at(scales, first, scales.copy())
        scales = scales[first]
    return scales


def at_scales(source: Encoded, scales: Ints) -> Encoded:
    """Return a source with the scales at which its images are decoded."""
    return replace(source, scales=scales) if isinstance(source, EncodedImages) and source.options.draft else source


def decoded_sizes(source: Encoded) -> Ints:
    """Return (N, 2) sizes at which images are decoded."""
    scales = source.scales if isinstance(source, EncodedImages) else None
    return source.sizes if scales is None else scaled_sizes(source.sizes, scales)


def _scales_allowed(plan: Plan, draft: float) -> Ints:
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
    return np.where(np.isin(grid.filter, _SMOOTH), grid.origins[0].support.min(1), 0.0)


def scaled_sizes(sizes: Ints, scales: Ints) -> Ints:
    """Return (N, 2) sizes at a scale, rounded as libjpeg does."""
    return -(-sizes * scales[:, None] // FULL)


def _at_scale(plan: Plan, scales: Ints, far: Mask, kept: Mask) -> Plan:
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
    scaled: dict[int, Origin] = {}

    def origin_of(one: Origin) -> Origin:
        """Scale a shared object once: passes over the same one are recognized by identity."""
        if id(one) not in scaled:
            scaled[id(one)] = Origin(matrix @ one.matrix, one.support * matrix[:, :1, 0])
        return scaled[id(one)]

    def grid_of(grid: Grid) -> Grid:
        low = np.floor(grid.window[:, :2] * factor[:, None] + shift).astype(np.int64)
        high = np.ceil(grid.window[:, 2:] * factor[:, None] + shift).astype(np.int64)
        window = np.concatenate([np.maximum(low, 0), np.minimum(high, whole)], 1)
        result = np.where(kept[:, None], whole[:, ::-1], grid.sizes)
        return replace(grid, sizes=result, origins=(origin_of(grid.origins[0]), *grid.origins[1:]), window=window)

    entries = tuple(
        entry if entry.taken_over is None else replace(entry, taken_over=grid_of(entry.taken_over))
        for entry in plan.entries
    )
    return replace(plan, grid=grid_of(plan.grid), entries=entries)
