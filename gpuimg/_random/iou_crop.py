"""The random crop of SSD, which depends on its overlap with the boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._batch.batch import Batch, Images, as_batch, recording_of
from .._checks.arguments import whole_number
from .._checks.types import Floats, Ints, TablePerImage, UprightBoxFormat
from .._ops.resize_crop import crop
from .._ops.targets import checked_boxes, move_boxes
from .rng import Rng, as_rng

_OPTIONS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
_ROUNDS = 50  # with the default options, one in seven leaves an image as it is: (6/7)**50 = 4e-4 go on for longer


def random_iou_crop(
    images: Images,
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
) -> Batch:
    """Crop each image around some of its boxes, as in the training of SSD.

    For each image, a minimal overlap is drawn from the options. Then rectangles are drawn until one contains the center
    of a box and has at least that intersection over union with it. After ``trials`` rectangles without success another
    overlap is drawn. An overlap of 1 or more keeps the image unchanged.

    Parameters
    ----------
    images : Batch, list of arrays or array
    boxes : (N, K, 4) array or list of (K, 4) arrays
        In pixels of the source images, as for :func:`transform_boxes`; what is recorded so far is applied to them.
    rng : Rng or int
        A generator for the samples of the batch, or a seed.
    format : {"xyxy", "xywh", "cxcywh"}
    min_scale, max_scale : float
        Range of the rectangle's height and width, as shares of the image's.
    min_aspect_ratio, max_aspect_ratio : float
        Range of width divided by height.
    sampler_options : sequence of float, optional
        Minimal overlaps, 0 or more; (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1) by default.
    trials : int
        Rectangles to try for each overlap drawn.

    Returns
    -------
    Batch
        Use ``transform_boxes(result, boxes, centers=True)`` for its boxes: it clips them, and keeps those whose
        center is inside, as torchvision does.

    Raises
    ------
    ValueError
        For reversed or out-of-range limits, no options, or boxes as in :func:`transform_boxes`.

    Notes
    -----
    Images without boxes do not change, nor do those for which 50 overlaps drawn led to no crop; torchvision then goes
    on until one does.

    References
    ----------
    Liu et al.: "SSD: Single shot multibox detector", ECCV 2016, section 2.2; torchvision ``RandomIoUCrop``.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> boxes = [[(10, 10, 30, 40)]]
    >>> x = gpuimg.random_iou_crop(np.zeros((1, 50, 60, 3), np.uint8), boxes, rng=0)
    >>> moved, kept = gpuimg.transform_boxes(x, boxes, centers=True)
    >>> bool(kept[0][0])
    True
    """
    batch = as_batch(images)
    n = len(batch)
    generator = as_rng(rng, n, "random_iou_crop", batch.frames)
    options = _checked_options(sampler_options, (min_scale, max_scale), (min_aspect_ratio, max_aspect_ratio))
    trials = whole_number(trials, "trials")
    rows, corners = checked_boxes(boxes, recording_of(batch), format)
    moved = move_boxes(recording_of(batch), corners, rows.owner)
    seen = moved.areas > 0.0
    padded = _padded(moved.seen[seen], rows.owner[seen], n)
    own = generator.fork()
    result = np.zeros((n, 4), np.int64)  # top, left, height, width
    found = np.zeros(n, bool)
    going = np.isin(np.arange(n), rows.owner[seen])
    for _ in range(_ROUNDS):
        if not going.any():
            break
        unit = own.units(1 + 4 * trials)
        wanted = options[np.minimum((unit[:, 0] * len(options)).astype(np.int64), len(options) - 1)]
        going &= wanted < 1.0
        k = np.flatnonzero(going)
        window = _windows(batch.sizes[k], unit[k, 1:].reshape(-1, trials, 4), min_scale, max_scale)
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
        going[chosen] = False
    top, left, height, width = np.where(found[:, None], result, (0, 0, 1, 1)).T
    return crop(batch, top, left, height, width, where=found)


def _checked_options(sampler_options: Any, scales: tuple[float, float], ratios: tuple[float, float]) -> Floats:
    """The overlaps to draw from; refuses ranges that are reversed or out of bounds."""
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
    """Boxes (M, 4) of n images as (n, K, 4), padded with NaN."""
    counts = np.bincount(owner, minlength=n)
    place = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    padded = np.full((n, int(counts.max(initial=0)), 4), np.nan)
    padded[owner, place] = boxes
    return padded


def _windows(sizes: Ints, unit: Floats, min_scale: float, max_scale: float) -> Ints:
    """Rectangles (N, T, 4), top, left, height and width, from numbers (N, T, 4) in [0, 1)."""
    share = min_scale + (max_scale - min_scale) * unit[..., :2]
    width, height = (sizes[:, None, ::-1] * share).astype(np.int64).transpose(2, 0, 1)
    left = ((sizes[:, 1:] - width) * unit[..., 2]).astype(np.int64)
    top = ((sizes[:, :1] - height) * unit[..., 3]).astype(np.int64)
    return np.stack([top, left, height, width], -1)


def _best_overlap(windows: Ints, boxes: Floats) -> Floats:
    """(N, T): largest intersection over union of a window (N, T, 4) and the boxes (N, K, 4) centered in it, or -1."""
    start, size = windows[:, :, None, 1::-1], windows[:, :, None, :1:-1]
    low, high = boxes[:, None, :, :2], boxes[:, None, :, 2:]
    center = (low + high) / 2.0
    within = np.all((start < center) & (center < start + size), -1)
    shared = np.prod(np.clip(np.minimum(high, start + size) - np.maximum(low, start), 0.0, None), -1)
    union = np.prod(high - low, -1) + np.prod(size, -1) - shared
    with np.errstate(divide="ignore", invalid="ignore"):
        best: Floats = np.where(within, shared / union, -1.0).max(2)
    return best
