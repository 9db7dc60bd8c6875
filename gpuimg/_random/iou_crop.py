"""SSD's random crop, chosen by its overlap with bounding boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks.arguments import whole_number
from .._checks.types import Floats, Ints, TablePerImage, UprightBoxFormat
from .._ops.resize_crop import crop
from .._ops.targets import checked_boxes, move_boxes
from .draws import rng_of
from .rng import Rng

__all__ = ["random_iou_crop"]

_OPTIONS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
# Overlaps drawn at most. One of the seven default options ends the search, so (6/7)**50 = 4e-4 of all images need more.
_ROUNDS = 50


@of_images
def random_iou_crop(
    recording: Recording,
    boxes: TablePerImage,
    *,
    rng: Rng | int,
    format: UprightBoxFormat = "xyxy",
    min_scale: float = 0.3,
    max_scale: float = 1.0,
    min_aspect_ratio: float = 0.5,
    max_aspect_ratio: float = 2.0,
    sampler_options: Sequence[float] | None = None,
    trials: int = 40,
) -> Recording:
    """Crop each image around some of its boxes, to train detectors on parts of images, as SSD does.

    For each image a minimum overlap is drawn from the options. Then rectangles are drawn until one contains the center
    of a box and has at least that intersection over union with it. After ``trials`` rectangles without success another
    overlap is drawn. An overlap of 1 or more leaves the image unchanged.

    Parameters
    ----------
    boxes : (N, K, 4) array or list of (K, 4) arrays
        Boxes in pixels of the source images, as for :func:`transform_boxes`; the geometry recorded so far is applied
        to them.
    format : {"xyxy", "xywh", "cxcywh"}
        What the numbers of a box are: two corners, or the first corner or the center with width and height.
    min_scale, max_scale : float
        Range of the rectangle's height and width as fractions of the image's, above 0 and at most 1.
    min_aspect_ratio, max_aspect_ratio : float
        Range of the rectangle's width divided by its height, above 0.
    sampler_options : sequence of float, optional
        Minimum overlaps to draw from, at least 0; None is (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1).
    trials : int
        Number of rectangles to try for each overlap, at least 1.

    Returns
    -------
    Batch
        Transform the boxes with ``transform_boxes(result, boxes, centers=True)``: it clips them and keeps those whose
        center is inside, as torchvision does.

    Notes
    -----
    Images without boxes do not change, nor do those for which 50 overlaps yield no crop; torchvision continues until
    one does.

    References
    ----------
    Liu et al.: "SSD: Single shot multibox detector", ECCV 2016, section 2.2; torchvision ``RandomIoUCrop``.

    Examples
    --------
    >>> boxes = [[(10, 10, 30, 40)]]
    >>> x = gpuimg.random_iou_crop(np.zeros((1, 50, 60, 3), np.uint8), boxes, rng=0)
    >>> moved, kept = gpuimg.transform_boxes(x, boxes, centers=True)
    >>> bool(kept[0][0])
    True
    """
    n = len(recording)
    rng = rng_of(recording, rng, "random_iou_crop")
    options = _checked_options(sampler_options, (min_scale, max_scale), (min_aspect_ratio, max_aspect_ratio))
    trials = whole_number(trials, "trials")
    rows, corners = checked_boxes(boxes, recording, format)
    moved = move_boxes(recording, corners, rows.owner)
    visible = moved.areas > 0.0
    padded = _padded(moved.visible[visible], rows.owner[visible], n)
    own = rng.fork()
    result = np.zeros((n, 4), np.int64)  # top, left, height, width
    found = np.zeros(n, bool)
    pending = np.isin(np.arange(n), rows.owner[visible])
    for _ in range(_ROUNDS):
        if not pending.any():
            break
        unit = own.units(1 + 4 * trials)
        wanted = options[np.minimum((unit[:, 0] * len(options)).astype(np.int64), len(options) - 1)]
        pending &= wanted < 1.0
        k = np.flatnonzero(pending)
        window = _windows(recording.sizes[k], unit[k, 1:].reshape(-1, trials, 4), min_scale, max_scale)
        height, width = window[..., 2], window[..., 3]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = width / height
        shaped = (width > 0) & (ratio >= min_aspect_ratio) & (ratio <= max_aspect_ratio)
        good = shaped & (_best_overlap(window, padded[k]) >= wanted[k, None])
        first = np.argmax(good, 1)
        taken = good.any(1)
        chosen = k[taken]
        result[chosen] = window[taken, first[taken]]
        found[chosen] = True
        pending[chosen] = False
    top, left, height, width = np.where(found[:, None], result, (0, 0, 1, 1)).T
    return crop.record(recording, top, left, height, width, where=found)


def _checked_options(sampler_options: Any, scales: tuple[float, float], ratios: tuple[float, float]) -> Floats:
    """Return the overlaps to draw from; raise ValueError for ranges that are reversed or out of bounds."""
    min_scale, max_scale = scales
    min_aspect_ratio, max_aspect_ratio = ratios
    if not 0.0 < min_scale <= max_scale <= 1.0:
        raise ValueError(
            f"min_scale and max_scale must be 0 < min_scale <= max_scale <= 1, not {min_scale!r} and {max_scale!r}"
        )
    if not 0.0 < min_aspect_ratio <= max_aspect_ratio:
        raise ValueError(
            f"min_aspect_ratio must be above 0 and at most max_aspect_ratio, not {min_aspect_ratio!r} and "
            f"{max_aspect_ratio!r}"
        )
    options = np.asarray(_OPTIONS if sampler_options is None else sampler_options, np.float64)
    if options.ndim != 1 or not options.size or not np.all(options >= 0.0):
        raise ValueError(f"sampler_options must be one or more numbers of at least 0, not {sampler_options!r}")
    return options


def _padded(boxes: Floats, owner: Ints, n: int) -> Floats:
    """Return boxes (M, 4) of n images as (n, K, 4), padded with NaN."""
    counts = np.bincount(owner, minlength=n)
    place = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    padded = np.full((n, int(counts.max(initial=0)), 4), np.nan)
    padded[owner, place] = boxes
    return padded


def _windows(sizes: Ints, unit: Floats, min_scale: float, max_scale: float) -> Ints:
    """Return rectangles (N, T, 4), top left height width, from random numbers (N, T, 4) in [0, 1)."""
    share = min_scale + (max_scale - min_scale) * unit[..., :2]
    width, height = (sizes[:, None, ::-1] * share).astype(np.int64).transpose(2, 0, 1)
    left = ((sizes[:, 1:] - width) * unit[..., 2]).astype(np.int64)
    top = ((sizes[:, :1] - height) * unit[..., 3]).astype(np.int64)
    return np.stack([top, left, height, width], -1)


def _best_overlap(windows: Ints, boxes: Floats) -> Floats:
    """Return (N, T): largest IoU of windows (N, T, 4) with boxes (N, K, 4) centered in them; -1 without such a box."""
    start, size = windows[:, :, None, 1::-1], windows[:, :, None, :1:-1]
    low, high = boxes[:, None, :, :2], boxes[:, None, :, 2:]
    center = (low + high) / 2.0
    within = np.all((start < center) & (center < start + size), -1)
    shared = np.prod(np.clip(np.minimum(high, start + size) - np.maximum(low, start), 0.0, None), -1)
    union = np.prod(high - low, -1) + np.prod(size, -1) - shared
    with np.errstate(divide="ignore", invalid="ignore"):
        best: Floats = np.where(within, shared / union, -1.0).max(2)
    return best
