"""Which images of a batch may be decoded at a reduced size: ``draft`` of :func:`gpuimg.open_batch`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._checks.types import Ints
from .._data.images import Encoded, EncodedImages, Pixels
from .._plan.plan import Plan
from .._plan.scale import FULL, scales_allowed
from ..kernels.jpeg.layout import OTHER


def first_segments(segments: Sequence[Plan]) -> Ints:
    """For each image the first segment that changes it, or the last one: what is before need not run."""
    first = np.zeros(len(segments[0]), np.int64)
    reached = np.ones(len(first), np.bool_)
    for plan in segments[:-1]:
        reached &= plan.unchanged_images()
        first += reached
    return first


def scales_of(source: Encoded | Pixels, segments: Sequence[Plan], starts: Ints) -> Ints:
    """(N,): eighths of its size that each image is decoded at, of which segment ``starts`` is the first to run.

    Only JPEGs are scaled, whichever decoder takes them, and only where a pixel of each side is left. Views of
    one image have the largest scale that any of them needs.
    """
    scales = np.full(len(source.sizes), FULL, np.int64)
    if not isinstance(source, EncodedImages) or source.options.draft is None:
        return scales
    for k, plan in enumerate(segments):
        scales = np.where(starts == k, scales_allowed(plan, source.options.draft), scales)
    whole = source.headers.records["kind"] == OTHER
    whole |= source.sizes.min(1) * scales < FULL
    scales = np.where(whole, FULL, scales)
    leaders = source.leaders()
    if leaders is not None:
        np.maximum.at(scales, leaders, scales.copy())
        scales = scales[leaders]
    return scales
