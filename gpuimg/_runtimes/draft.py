"""Reduced decoding sizes for the images of a batch: ``draft`` of :func:`gpuimg.open_batch`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._checks.types import Ints
from .._data.images import Encoded, EncodedImages, Pixels
from .._plan.plan import Plan
from .._plan.scale import FULL, scales_allowed
from ..kernels.jpeg.layout import OTHER


def first_segments(segments: Sequence[Plan]) -> Ints:
    """Return for each image the first segment that changes it, or the last segment; those before need not run."""
    first = np.zeros(len(segments[0]), np.int64)
    reached = np.ones(len(first), np.bool_)
    for plan in segments[:-1]:
        reached &= plan.unchanged_images()
        first += reached
    return first


def scales_of(source: Encoded | Pixels, segments: Sequence[Plan], starts: Ints) -> Ints:
    """Return (N,) decoding scales in eighths; ``starts`` are the first segments to run of each image.

    Only JPEGs are scaled, by whichever decoder, and only if at least one pixel is left on each side. All occurrences of
    an image have the largest scale that any of them needs.
    """
    scales = np.full(len(source.sizes), FULL, np.int64)
    if not isinstance(source, EncodedImages) or source.options.draft is None:
        return scales
    for k, plan in enumerate(segments):
        scales = np.where(starts == k, scales_allowed(plan, source.options.draft), scales)
    whole = source.headers.records["kind"] == OTHER
    whole |= source.sizes.min(1) * scales < FULL
    scales = np.where(whole, FULL, scales)
    first = source.first_occurrences()
    if first is not None:
        np.maximum.at(scales, first, scales.copy())
        scales = scales[first]
    return scales
