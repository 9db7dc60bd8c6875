"""Resizes that return the bytes of another library: the argument ``exact=`` of :func:`gpuimg.resize`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Ints, Mask
from ..errors import ImageError
from ..kernels import exact as rules
from ..kernels import layout

_FILTERS = {
    "nearest": layout.NEAREST,
    "bilinear": layout.LINEAR,
    "bicubic": layout.CUBIC_RENORMALIZED,
} | arguments.RESIZING
# Pixels between the passes: times those of the larger of source and result; and those of 48 MB of RGB.
_BETWEEN = 8
_ALWAYS_ALLOWED = 1 << 24
_LONGEST = 1 << 19  # pixels that a shorter side may become: the weights of its positions are some 60 MB

_OF_PILLOW = ("nearest", "box", "hamming")


def exact_rule(exact: Any, antialias: bool) -> tuple[int | None, Callable[[Any], int]]:
    """Return the kernels' rule of ``exact=``, None for None, and the function from interpolations to filters."""
    if exact is None:
        return None, partial(arguments.interpolation, antialias=antialias)
    if not isinstance(exact, str) or exact not in rules.RULES:
        raise ValueError(f'exact must be "pillow", "pillow12", "torch" or None, not {exact!r}')
    if not arguments.flag(antialias, "antialias"):
        raise ValueError(
            f"exact={exact!r} needs antialias=True: Pillow and torch resize bytes by another formula without"
        )
    return rules.RULES[exact], partial(_exact_filter, exact)


def _exact_filter(exact: str, interpolation: Any) -> int:
    """Return the kernels' filter for the name of one that the library has."""
    name = getattr(interpolation, "value", interpolation)
    allowed = [one for one in _FILTERS if exact != "torch" or one not in _OF_PILLOW]
    if name not in allowed:
        names = ", ".join(f'"{one}"' for one in allowed)
        raise ValueError(f"interpolation must be one of {names} with exact={exact!r}, not {interpolation!r}")
    return _FILTERS[name]


def resize_exactly(recording: Recording, new: Ints, filter: Ints, rule: int, where: Mask | None) -> Recording:
    """Record an exact resize to sizes (N, 2); what follows starts from its bytes."""
    _check_source(recording, rule)
    if rules.premultiplies(rule, recording.channels) and np.any(filter == layout.NEAREST):
        raise ValueError('interpolation="nearest" with exact= is for 1 or 3 channels, not 4')
    old = recording.sizes
    if where is not None:
        new = np.where(where[:, None], new, old)
    _check_sizes(old, new, rule)
    if not (recording.plan.is_fresh or recording.plan.is_crop):
        recording = recording.new_segment()
    return recording.with_plan(recording.plan.resized_exactly(new, filter, rule)).new_segment()


def _check_sizes(old: Ints, new: Ints, rule: int) -> None:
    """Refuse resizes that need far more memory than both ends: of narrow images, and of long columns to long rows."""
    between = old[:, 0] * new[:, 1]  # rows are resized first
    long = np.any(new > np.maximum(_LONGEST, old), 1)
    large = between > np.maximum(_BETWEEN * np.maximum(old.prod(1), new.prod(1)), _ALWAYS_ALLOWED)
    refused = long | (large & (rule != rules.PILLOW))
    if not np.any(refused):
        return
    i = int(np.argmax(refused))
    (h, w), (rows, columns) = old[i].tolist(), new[i].tolist()
    reason = (
        f"with exact= a side may grow to {_LONGEST} pixels at most"
        if long[i]
        else f"rows first as the library does, it would have {h} x {columns} pixels in between; resize it in two steps"
    )
    raise ImageError(i, f"resized from {h} x {w} to {rows} x {columns} pixels; {reason}")


def _check_source(recording: Recording, rule: int) -> None:
    if recording.dtype != "uint8":
        raise ValueError(f"an exact resize is for uint8 images, not {recording.dtype}")
    if not rules.allows(rule, recording.channels):
        raise ValueError(f"an exact resize as Pillow's is for 1, 3 or 4 channels (RGBA), not {recording.channels}")
    recording.check_undrafted()
