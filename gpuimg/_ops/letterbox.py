"""Letterboxing: resizing to fit into a size, with a border."""

from __future__ import annotations

import numpy as np

from .._batch.functions import of_resized
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Color, Ints, Size, Where
from .resize_crop import pad, resize

__all__ = ["letterbox"]

_GRAY = 114.0 / 255.0  # of the border
# Pixels by which half of an odd border is rounded down before the image and up after it.
_TIE = 0.1


@of_resized
def letterbox(
    recording: Recording,
    size: Size,
    fill: Color | None = None,
    *,
    scale_up: bool = True,
    center: bool = True,
    where: Where | None = None,
) -> Recording:
    """Resize images to fit into a size, keeping their aspect ratio, and pad the rest, as YOLO does.

    Parameters
    ----------
    fill : number, tuple of C, or (N,) or (N, C) array, optional
        Color of the border, in the unit of the images. None is gray: 114 of 255.
    scale_up : bool
        Enlarge images smaller than ``size``; if False, they are only padded.
    center : bool
        Place images in the center; if False, at the top left.

    Notes
    -----
    Sizes and offsets are those of ultralytics' ``LetterBox``: sides are rounded half to even, and an odd border has its
    larger half after the image. Interpolation is bilinear without antialiasing, as in OpenCV, whose fixed-point numbers
    differ by at most one level of uint8.

    Targets follow by :func:`transform_boxes`, :func:`transform_masks` and :func:`transform_keypoints`. Both sides are
    rounded to whole pixels, so the scales of x and y differ slightly; boxes follow the pixels. ultralytics scales boxes
    by one factor and is up to half a pixel off its images.

    References
    ----------
    ultralytics 8.4 ``data/augment.py``, ``LetterBox``.

    Examples
    --------
    >>> x = gpuimg.letterbox(np.full((1, 20, 40, 3), 200, np.uint8), 32)
    >>> x.array().shape, x.array()[0, ::8, 0, 0].tolist()
    ((1, 32, 32, 3), [114, 200, 200, 114])
    >>> gpuimg.transform_boxes(x, [[(0, 0, 40, 20)]])[0][0].tolist()
    [[0.0, 8.0, 32.0, 24.0]]
    """
    n = recording.image_count
    chosen = arguments.mask(where, n)
    canvas, old = arguments.sizes(size, n), recording.sizes
    new = fitting(old, canvas, np.inf if arguments.flag(scale_up, "scale_up") else 1.0)
    spare = canvas - new
    half = spare / 2.0
    before = np.round(half - _TIE) if arguments.flag(center, "center") else np.zeros_like(half)
    border = np.concatenate([before, spare - before], 1)[:, [1, 0, 3, 2]].astype(np.int64)
    resized = resize.record(recording, new, "bilinear", antialias=False, where=chosen)
    return pad.record(resized, border, _GRAY / recording.unit if fill is None else fill, where=chosen)


def fitting(old: Ints, canvas: Ints, most: float = np.inf) -> Ints:
    """Return the sizes (N, 2) of images that just fit into canvases, enlarged by at most this factor."""
    scale = np.minimum(np.min(canvas / old, 1, keepdims=True), most)
    new: Ints = np.maximum(np.round(old * scale), 1.0).astype(np.int64)
    return new
