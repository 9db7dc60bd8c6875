"""``draft`` of :func:`gpuimg.open_batch`: reduced decoding sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._checks.types import Ints
from .._data.images import Encoded, EncodedImages, Pixels
from .._decoding import exif, route
from .._plan.plan import Plan
from .._plan.scale import FULL, at_scale, scaled_sizes, scales_allowed
from ..kernels.jpeg.layout import OTHER


def first_segments(segments: Sequence[Plan]) -> Ints:
    """Return for each image the first segment that changes it, or the last segment; those before need not run."""
    first = np.zeros(len(segments[0]), np.int64)
    reached = np.ones(len(first), np.bool_)
    for plan in segments[:-1]:
        reached &= plan.unchanged_images()
        first += reached
    return first


def scales_of(source: Encoded | Pixels, segments: Sequence[Plan], starts: Ints, *, on_host: bool = True) -> Ints:
    """Return (N,) decoding scales in eighths; ``starts`` are the first segments to run of each image.

    Only JPEGs are scaled, by whichever decoder but nvImageCodec's, and only if at least one pixel is left on each side.
    All occurrences of an image have the largest scale that any of them needs.
    """
    if isinstance(source, EncodedImages) and source.scales is not None:
        return source.scales
    scales = np.full(len(source.sizes), FULL, np.int64)
    draft = source.options.draft if isinstance(source, EncodedImages) else None
    if not isinstance(source, EncodedImages) or draft is None:
        return scales
    for k, plan in enumerate(segments):
        scales = np.where(starts == k, scales_allowed(plan, draft), scales)
    whole = source.headers.records["kind"] == OTHER
    whole |= source.sizes.min(1) * scales < FULL
    if not on_host:
        whole |= route.nvimgcodec_takes(source.headers.records, source.options)
    scales = np.where(whole, FULL, scales)
    first = source.first_occurrences()
    if first is not None:
        np.maximum.at(scales, first, scales.copy())
        scales = scales[first]
    return scales


def at_scales(source: Encoded | Pixels, segments: Sequence[Plan], starts: Ints, scales: Ints) -> Sequence[Plan]:
    """Return the segments for images that are decoded at ``scales``."""
    if not isinstance(source, EncodedImages) or np.all(scales == FULL):
        return segments
    _, rows, columns = exif.turns(source.orientations)
    far = np.stack([columns, rows], 1)
    return [at_scale(plan, np.where(starts >= k, scales, FULL), far, starts > k) for k, plan in enumerate(segments)]


def reduced_on_gpu(source: Encoded, segments: Sequence[Plan]) -> tuple[Encoded, Sequence[Plan], Ints]:
    """Return a source with the scales at which a GPU decodes its images, the segments for those, and their sizes."""
    if not isinstance(source, EncodedImages) or source.options.draft is None:
        return source, segments, source.sizes
    starts = first_segments(segments)
    scales = scales_of(source, segments, starts, on_host=False)
    sizes = scaled_sizes(source.sizes, scales)
    return replace(source, scales=scales), at_scales(source, segments, starts, scales), sizes


def decoded_sizes(source: Encoded) -> Ints:
    """Return (N, 2) sizes at which images are decoded."""
    scales = source.scales if isinstance(source, EncodedImages) else None
    return source.sizes if scales is None else scaled_sizes(source.sizes, scales)
