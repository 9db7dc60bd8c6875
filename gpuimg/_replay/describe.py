"""What an image goes through, in words: for people who debug their augmentation."""

from __future__ import annotations

import html
import operator
from typing import Any

from .._batch.batch import Batch, as_batch, recording_of
from .._batch.recording import Recording
from .._plan.scale import FULL, scaled_sizes
from .._plan.text import in_words
from .._runtimes.draft import first_segments, scales_of
from .saved import SavedPlan


class Description(str):
    """Lines that a notebook shows as lines."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"


def describe(images: Batch | SavedPlan, i: int) -> str:
    """Say in words what one image goes through.

    Parameters
    ----------
    images : Batch or SavedPlan
    i : int
        Which image.

    Returns
    -------
    str
        A line for each operation that applies to the image, in order, with its parameters. Colors are in the unit of
        the images. Geometry is told from its matrices: an :func:`affine` that only rotates reads as a rotation.
        Notebooks show it line by line.

    Raises
    ------
    IndexError
        For an image that is not there.

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
    k = range(len(saved))[operator.index(i)]
    lines = [f"image {k}: {_size(saved.sizes[k])} (height x width), {_channels(saved.channels)}, {saved.dtype}"]
    lines += [] if isinstance(images, SavedPlan) else _reduced(recording_of(images), k)
    lines += in_words(saved.segments, k, saved.sizes[k], 255.0 if saved.dtype == "uint8" else 1.0)
    last = saved.segments[-1]
    return Description("\n".join([*lines, f"result: {_size(last.sizes[k])}, {_channels(last.channels)}"]))


def _reduced(batch: Recording, k: int) -> list[str]:
    """At which size the image is decoded, where that is not its own."""
    if not batch.runtime.on_host:
        return []
    scales = scales_of(batch.source, batch.segments, first_segments(batch.segments))
    if scales[k] == FULL:
        return []
    return [f"decoded at 1/{FULL // int(scales[k])} of its size: {_size(scaled_sizes(batch.source.sizes, scales)[k])}"]


def _size(size: Any) -> str:
    return f"{int(size[0])} x {int(size[1])}"


def _channels(count: int) -> str:
    return "1 channel" if count == 1 else f"{count} channels"
