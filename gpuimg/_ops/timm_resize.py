"""Sizes and crops of timm's transforms, for training and for evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Color, Floats, Ints, PaddingMode
from .resize_crop import center_crop, pad


def configuration(config: Any) -> Mapping[str, Any]:
    """Return a data configuration as a mapping; an int is the size in pixels."""
    if isinstance(config, Mapping):
        return config
    return {"input_size": arguments.whole_number(config, "config, where it is not a mapping,")}


def input_size(config: Mapping[str, Any]) -> tuple[int, int]:
    """Return height and width of a data configuration: one number, or the last two of several."""
    given = config.get("input_size", 224)
    sides = (given, given) if arguments.is_single(given) else tuple(given)[-2:]
    height, width = (arguments.whole_number(side, 'config["input_size"]') for side in sides)
    return height, width


def kept_ratio(old: Ints, size: tuple[int, int], longest: bool = False, factor: Floats | float = 1.0) -> Ints:
    """Return sizes (N, 2) that just cover ``size``, or with ``longest`` just fit it, times ``factor`` (N, 2)."""
    ratio = old / np.array(size)
    ratio = ratio.max(1, initial=0.0) if longest else ratio.min(1, initial=np.inf)
    new: Ints = np.maximum(np.round(old * factor / ratio[:, None]), 1).astype(np.int64)
    return new


def central_corner(old: Ints, size: tuple[int, int]) -> Ints:
    """Return the corners (N, 2) of a central rectangle, negative where the image is smaller."""
    spare = old - np.array(size)
    corner: Ints = np.where(spare < 0, -(-spare // 2), np.round(spare / 2.0)).astype(np.int64)
    return corner


def crop_or_pad(
    recording: Recording, corner: Ints, size: tuple[int, int], mode: PaddingMode, fill: Color = 0
) -> Recording:
    """Crop rectangles of one size; pad where they extend beyond the image."""
    after = corner + np.array(size) - recording.sizes
    whole = pad.record(recording, np.stack([-corner[:, 1], -corner[:, 0], after[:, 1], after[:, 0]], 1), fill, mode)
    return whole if len(whole) else center_crop.record(whole, size)
