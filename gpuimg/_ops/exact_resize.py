"""Resizes that give the bytes of another library: what ``exact=`` of :func:`gpuimg.resize` allows, and its recording."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Ints, Mask
from .._data.images import EncodedImages
from ..kernels import exact, layout

#: Filters that each library has for bytes.
_FILTERS = {
    exact.PILLOW: (layout.BOX, layout.LINEAR, layout.HAMMING, layout.CUBIC_RENORMALISED, layout.LANCZOS),
    exact.PILLOW_12: (layout.BOX, layout.LINEAR, layout.HAMMING, layout.CUBIC_RENORMALISED, layout.LANCZOS),
    exact.TORCH: (layout.LINEAR, layout.CUBIC_RENORMALISED, layout.LANCZOS),
}


def rule_of(value: Any, interpolation: Any, antialias: bool) -> int | None:
    """The kernels' rule of ``exact=``, checked together with what it excludes; None for None."""
    if value is None:
        return None
    if not isinstance(value, str) or value not in exact.RULES:
        raise ValueError(f'exact must be "pillow", "pillow12", "torch" or None, not {value!r}')
    if not antialias:
        raise ValueError(f"exact={value!r} needs antialias=True: without it {value} resizes by another formula")
    if arguments.interpolation(interpolation, antialias=True) not in _FILTERS[exact.RULES[value]]:
        raise ValueError(f"exact={value!r} has no interpolation {interpolation!r} for bytes")
    return exact.RULES[value]


def resize_exactly(recording: Recording, new: Ints, filter: int, rule: int, where: Mask | None) -> Recording:
    """Record an exact resize to sizes (N, 2); what follows starts from its bytes."""
    _check_source(recording)
    if not recording.plan.is_crop:
        recording = recording.new_segment()
    plan = recording.plan
    if where is not None:
        new = np.where(where[:, None], new, plan.sizes)
    return recording.with_plan(plan.resized_exactly(new, filter, rule)).new_segment()


def _check_source(recording: Recording) -> None:
    if recording.dtype != "uint8" or recording.channels not in (1, 3):
        raise ValueError(
            f"an exact resize is for uint8 images of 1 or 3 channels, not {recording.dtype} with {recording.channels}"
        )
    source = recording.source
    if isinstance(source, EncodedImages) and source.options.draft is not None:
        raise ValueError("an exact resize needs images that were opened without draft=, which changes their pixels")
