"""``draft`` of :func:`gpuimg.open_batch`: reduced decoding sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .._checks.types import Ints, Mask
from .._data.images import Encoded, EncodedImages, Pixels
from .._decoding import exif, route
from .._plan.plan import Plan
from .._plan.scale import FULL, at_scale, scaled_sizes, scales_allowed
from ..kernels.jpeg.layout import OTHER


class Reduced(NamedTuple):
    """Segments to run, for images as they are decoded."""

    segments: Sequence[Plan]
    starts: Ints  # (N,): the first segment of each image that changes it, or the last segment; others need not run
    scales: Ints  # (N,): eighths of their sizes at which images are decoded


def reduced(source: Encoded | Pixels, segments: Sequence[Plan], whole: Mask | None = None) -> Reduced:
    """Return the segments for images of a size that the options of the source allow; ``whole`` (N,) are not reduced."""
    n = len(source.sizes)
    starts = _first_segments(segments, n)
    if not isinstance(source, EncodedImages) or (source.options.draft is None and source.scales is None):
        return Reduced(segments, starts, _same(n, FULL))
    scales = _scales(source, segments, starts, whole) if source.scales is None else source.scales
    if np.all(scales == FULL):
        return Reduced(segments, starts, scales)
    _, rows, columns = exif.turns(source.orientations)
    far = np.stack([columns, rows], 1)
    scaled = [at_scale(plan, np.where(starts >= k, scales, FULL), far, starts > k) for k, plan in enumerate(segments)]
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


def _scales(source: EncodedImages, segments: Sequence[Plan], starts: Ints, whole: Mask | None) -> Ints:
    """Return (N,) decoding scales in eighths.

    Only JPEGs are scaled, by whichever decoder but nvImageCodec's, and only if at least one pixel is left on each side.
    All occurrences of an image have the largest scale that any of them needs.
    """
    scales, draft = np.full(len(starts), FULL, np.int64), source.options.draft
    assert draft is not None
    for k, plan in enumerate(segments):
        scales = np.where(starts == k, scales_allowed(plan, draft), scales)
    full = (source.headers.records["kind"] == OTHER) | (source.sizes.min(1) * scales < FULL)
    scales = np.where(full if whole is None else full | whole, FULL, scales)
    first = source.first_occurrences()
    if first is not None:
        np.maximum.at(scales, first, scales.copy())
        scales = scales[first]
    return scales


def reduced_on_gpu(source: Encoded, segments: Sequence[Plan]) -> tuple[Encoded, Sequence[Plan], Ints]:
    """Return a source with the scales at which a GPU decodes its images, the segments for those, and their sizes."""
    if not isinstance(source, EncodedImages) or source.options.draft is None:
        return source, segments, source.sizes
    segments, _, scales = reduced(source, segments, route.nvimgcodec_takes(source.headers.records, source.options))
    return replace(source, scales=scales), segments, scaled_sizes(source.sizes, scales)


def decoded_sizes(source: Encoded) -> Ints:
    """Return (N, 2) sizes at which images are decoded."""
    scales = source.scales if isinstance(source, EncodedImages) else None
    return source.sizes if scales is None else scaled_sizes(source.sizes, scales)
