"""Recorded plans: applied to other images, and described as text."""

from __future__ import annotations

import html
import operator
from typing import Any

import numpy as np

from .._checks.text import counted
from .._data.images import EncodedImages
from .._plan.draft import FULL, reduced, scaled_sizes
from .._plan.text import describe_segments
from .batch import Batch, Images, recording_of
from .recording import Recording

__all__ = ["apply_plan", "describe"]


class Description(str):
    """Text that a notebook displays with its line breaks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"


def apply_plan(plan: Batch, images: Images) -> Batch:
    """Apply recorded operations, with the same parameters, to other images.

    Parameters
    ----------
    plan : Batch
        Whose operations are to be applied.
    images : Batch, list of arrays or array
        As many images as the plan is for, of the same sizes, channels and dtype. For a recorded batch, the plan applies
        to its results.

    Returns
    -------
    Batch
        N images with the sizes, channels and dtype of the plan's results.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = gpuimg.rotate(np.zeros((1, 2, 2, 1), np.uint8), [90])
    >>> gpuimg.apply_plan(x, np.array([[1, 2], [3, 4]], np.uint8).reshape(1, 2, 2, 1)).array()[0, :, :, 0].tolist()
    [[2, 4], [1, 3]]
    """
    if not isinstance(plan, Batch):
        raise TypeError(f"plan must be a Batch, whose operations are applied to images, not {type(plan).__name__}")
    given, recording = recording_of(plan), recording_of(images)
    sizes, channels, dtype = given.source.sizes, given.source.channels, given.source.dtype
    if len(recording) != len(sizes):
        raise ValueError(f"the plan is for {len(sizes)} images, not {len(recording)}")
    different = np.any(recording.sizes != sizes, 1)
    if np.any(different):
        k = int(np.argmax(different))
        raise ValueError(
            f"the plan is for an image {k} of size {tuple(sizes[k].tolist())}, not {tuple(recording.sizes[k].tolist())}"
        )
    if (recording.channels, recording.dtype) != (channels, dtype):
        raise ValueError(
            f"the plan is for {dtype} images with {channels} channels, not {recording.dtype} with {recording.channels}"
        )
    if recording.frames != given.frames:
        raise ValueError(f"the plan is for {given.shown}, not {recording.shown}")
    if any(one.exact is not None for one in given.segments):
        recording.check_undrafted()
    before = () if recording.changes_nothing else recording.segments
    return Batch(recording.with_segments((*before, *given.segments)))


def describe(images: Batch, i: int) -> str:
    """Describe the operations applied to one image.

    Parameters
    ----------
    images : Batch
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
    fill around the image with 0
    rotate by -20 degrees
    brightness 0.5
    sampled once, bilinear
    result: 15 x 20, 3 channels
    """
    recording = recording_of(images)
    k, source = operator.index(i), recording.source
    if not -len(recording) <= k < len(recording):
        raise IndexError(f"image {k} of a batch of {len(recording)}")
    k %= len(recording)
    lines = [
        f"image {k}: {_size(source.sizes[k])} (height x width), {counted(source.channels, 'channel')}, {source.dtype}",
        *_reduced(recording, k),
        *describe_segments(recording.segments, k, source.dtype),
        f"result: {_size(recording.sizes[k])}, {counted(recording.channels, 'channel')}",
    ]
    return Description("\n".join(lines))


def _reduced(recording: Recording, k: int) -> list[str]:
    """Return a line about how ``draft`` decodes the image, if it does."""
    source = recording.source
    if not isinstance(source, EncodedImages):
        return []
    scales = reduced(source, recording.segments, on_host=recording.runtime.on_host).scales
    if scales[k] == FULL:
        return []
    return [f"decoded at 1/{FULL // int(scales[k])} of its size: {_size(scaled_sizes(source.sizes, scales)[k])}"]


def _size(size: Any) -> str:
    return f"{int(size[0])} x {int(size[1])}"
