"""Descriptions of the operations applied to an image, for debugging augmentations."""

from __future__ import annotations

import html
import operator
from typing import Any

from .._batch.batch import Batch, as_batch, recording_of
from .._batch.recording import Recording
from .._checks.text import counted
from .._data.images import EncodedImages
from .._plan.draft import FULL, reduced, scaled_sizes
from .._plan.text import describe_segments
from .saved import SavedPlan

__all__ = ["describe"]


class Description(str):
    """Text that a notebook displays with its line breaks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"


def describe(images: Batch | SavedPlan, i: int) -> str:
    """Describe the operations applied to one image.

    Parameters
    ----------
    images : Batch or SavedPlan
    i : int
        Index of the image.

    Returns
    -------
    str
        One line for each operation that applies to the image, in order, with its parameters. Colors are in the unit of
        the images. Geometry is derived from its matrices: an :func:`affine` that only rotates is described as a
        rotation. Notebooks display line by line.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = gpuimg.resize(np.zeros((2, 30, 40, 3), np.uint8), (15, 20))
    >>> x = gpuimg.adjust_brightness(gpuimg.rotate(x, [10, -20], "bilinear"), [1.5, 0.5])
    >>> print(gpuimg.describe(x, 1))
    image 1: 30 x 40 (height x width), 3 channels, uint8
    resize to 15 x 20
    fill around the image: 0
    rotate by -20 degrees
    brightness: factor 0.5
    sampled once: bilinear
    result: 15 x 20, 3 channels
    """
    saved = images if isinstance(images, SavedPlan) else SavedPlan.of(as_batch(images))
    k = operator.index(i)
    if not -len(saved) <= k < len(saved):
        raise IndexError(f"image {k} of a batch of {len(saved)}")
    k %= len(saved)
    lines = [
        f"image {k}: {_size(saved.sizes[k])} (height x width), {counted(saved.channels, 'channel')}, {saved.dtype}"
    ]
    lines += [] if isinstance(images, SavedPlan) else _reduced(recording_of(images), k)
    lines += describe_segments(saved.segments, k, saved.sizes[k], 255.0 if saved.dtype == "uint8" else 1.0)
    last = saved.segments[-1]
    return Description("\n".join([*lines, f"result: {_size(last.sizes[k])}, {counted(last.channels, 'channel')}"]))


def _reduced(batch: Recording, k: int) -> list[str]:
    """Return a line about how ``draft`` decodes the image, if it does."""
    source = batch.source
    if not isinstance(source, EncodedImages):
        return []
    scales = reduced(source, batch.segments, on_host=batch.runtime.on_host).scales
    if scales[k] == FULL:
        return []
    return [f"decoded at 1/{FULL // int(scales[k])} of its size: {_size(scaled_sizes(batch.source.sizes, scales)[k])}"]


def _size(size: Any) -> str:
    return f"{int(size[0])} x {int(size[1])}"
