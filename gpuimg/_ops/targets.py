"""Masks, boxes and points, moved by the geometry that is recorded in a batch.

Targets are those of the source images, whatever has been recorded since; color functions do not change them.
Coordinates are continuous, ``(x, y)`` in pixels: pixel ``i`` covers ``[i, i + 1)``, and the image ``[0, width]`` and
``[0, height]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._batch.batch import Batch, as_batch
from .._checks import arguments
from .._checks.types import Floats, Ints, Mask
from .._checks.words import counted
from .._runtimes.devices import native
from ..kernels import layout

_FILLED = 1e30  # marks filled pixels, far above any label
_SLACK = 1e-3  # pixels by which a box may leave its image: rounding of float32 coordinates
_THIN = 1e-6  # pixels: a box no thicker than this has no area, and a cut no larger than this is rounding
_FORMATS = ("xyxy", "xywh", "cxcywh")


# -- masks -------------------------------------------------------------------------------------------------------------


def transform_masks(x: Batch, masks: Any, *, fill: int = 0) -> Any:
    """Move label masks as the images of a batch, by nearest neighbor.

    Parameters
    ----------
    x : Batch
        The batch whose recorded geometry is applied.
    masks : list of (H, W) arrays or (N, H, W) array
        Integer or boolean labels from -2**24 to 2**24, each mask of the size of its source image; a last axis of
        length 1 is allowed. NumPy or CuPy arrays; the result is on the device of the masks.
    fill : int
        Label for filled pixels: around a rotated, padded or shifted image. The fill of the images is not used.

    Returns
    -------
    (N, h, w) array or list of (h, w) arrays
        Of the dtype of the masks and the sizes of ``x``; a list if these differ.

    Raises
    ------
    ValueError
        For another number of masks than images, a mask of another size than its image, labels out of range or a fill
        that the dtype cannot hold. The message names the mask.
    TypeError
        For masks that are not integer or boolean, or differ in dtype.

    Notes
    -----
    Where the images repeat their edge (``fill=None``, ``padding_mode="edge"``) the masks do too. Erasing an image does
    not change its mask. The mask of an image that could not be read is 0.

    Masks after crops, flips and pads equal torchvision's. After resizes they do not: torchvision resizes masks by
    ``NEAREST``, which shifts them against the images by half a pixel of the result; here it is ``NEAREST_EXACT``, which
    does not. Both agree when enlarging by whole factors. After :func:`rotate`, :func:`affine` and :func:`perspective`
    single pixels may differ, where a position lies halfway between two source pixels, and with ``fill=None``
    torchvision fills with 0.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = gpuimg.horizontal_flip(np.zeros((1, 1, 3, 3), np.uint8))
    >>> gpuimg.transform_masks(x, np.array([[[0, 7, 9]]])).tolist()
    [[[9, 7, 0]]]
    """
    batch = as_batch(x)
    labels = _masks(masks, batch)
    dtype = labels[0].dtype if len(labels) else np.dtype("uint8")
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    if not (isinstance(fill, (int, np.integer)) and (limits.min <= fill <= limits.max if limits else 0 <= fill <= 1)):
        raise ValueError(f"fill must be a label that {dtype} holds, not {fill!r}")
    uniform = batch.is_uniform
    if not len(batch):
        return np.zeros((0, 0, 0), dtype)
    # The kernels read bytes as multiples of 1/255, and float32 values unchanged.
    scale = 255.0 if dtype.itemsize == 1 and dtype.kind != "i" else 1.0
    source = [_as_source(mask, scale) for mask in labels] if isinstance(labels, list) else _as_source(labels, scale)
    segments = tuple(plan.for_masks(_FILLED) for plan in batch._segments)
    moved = as_batch(source)._with_segments(tuple(plan for plan in segments if not plan.changes_nothing))

    def finished(values: Any) -> Any:
        seen = values < _FILLED / 1e10
        result = (values * seen * scale).round().astype(dtype)[..., 0]
        result[~seen[..., 0]] = fill
        return result

    if uniform:
        return finished(moved.array("float32"))
    return [finished(image) for image in moved.compute("float32")]


def _as_source(mask: Any, scale: float) -> Any:
    """A mask as an image of one channel that the kernels read."""
    return (mask.view("uint8") if scale == 255.0 else mask.astype("float32"))[..., None]


def _masks(masks: Any, batch: Batch) -> Any:
    """Checked masks: one (N, H, W) array, or a list of (H, W) arrays."""
    stacked = not isinstance(masks, (list, tuple))
    arrays: Any = native(masks) if stacked else [native(mask) for mask in masks]
    if stacked and (not hasattr(arrays, "ndim") or arrays.ndim not in (3, 4)):
        raise TypeError(f"masks must be a list of (H, W) arrays or one (N, H, W) array, not {_kind(arrays)}")
    if len(arrays) != len(batch):
        raise ValueError(f"got {counted(len(arrays), 'mask')} for {counted(len(batch), 'image')}; each needs one")
    unread = _unread(batch)
    found = []
    for i, (mask, size) in enumerate(zip(arrays, batch._source.sizes.tolist(), strict=True)):
        if not hasattr(mask, "dtype") or mask.dtype.kind not in "iub":
            raise TypeError(f"masks[{i}] must be an integer or boolean array, not {_kind(mask)}")
        if mask.dtype != arrays[0].dtype:
            raise TypeError(f"masks must have one dtype, but masks[0] is {arrays[0].dtype} and masks[{i}] {mask.dtype}")
        if mask.ndim != 2 and (mask.ndim != 3 or mask.shape[2] != 1):
            raise ValueError(f"masks[{i}] must have shape (H, W), not {tuple(mask.shape)}")
        if mask.dtype.itemsize > 2 and mask.size and not (mask.min() >= -layout.EXACT and mask.max() <= layout.EXACT):
            raise ValueError(
                f"masks[{i}] must have labels from -{layout.EXACT} to {layout.EXACT}, not {int(mask.min())} to "
                f"{int(mask.max())}"
            )
        if unread[i]:
            mask = mask[:1, :1] * 0
        elif list(mask.shape[:2]) != size:
            raise ValueError(
                f"masks[{i}] is {mask.shape[0]} x {mask.shape[1]}, but its source image is {size[0]} x {size[1]}"
            )
        found.append(mask.reshape(mask.shape[:2]))
    return arrays.reshape(arrays.shape[:3]) if stacked and not unread.any() else found


def _unread(batch: Batch) -> Mask:
    """(N,): images whose header could not be read; one black pixel stands for each."""
    failed = np.isin(np.arange(len(batch)), list(batch.errors))
    unread: Mask = failed & np.all(batch._source.sizes == 1, 1)
    return unread


def _kind(value: Any) -> str:
    if not hasattr(value, "dtype"):
        return type(value).__name__
    return f"{value.dtype} of shape {tuple(value.shape)}" if hasattr(value, "shape") else str(value.dtype)


# -- boxes and points --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Rows of numbers for each image, passed as an (N, K, D) array or a list of N arrays (K, D)."""

    flat: Floats  # (M, D)
    owner: Ints  # (M,), the image of each row
    counts: Ints | None  # (N,), rows of each image of a list
    shape: tuple[int, ...]  # of the array
    dtype: np.dtype[Any]

    def like(self, values: NDArray[Any]) -> Any:
        """Values (M, ...) in the form in which the rows were passed."""
        if self.counts is None:
            return values.reshape(*self.shape[:2], *values.shape[1:])
        ends = np.cumsum(self.counts).tolist()
        return [values[end - count : end] for end, count in zip(ends, self.counts.tolist(), strict=True)]


def _rows(value: Any, n: int, width: int, name: str) -> Rows:
    """Checked rows: finite, ``width`` numbers each, for ``n`` images."""
    what = f"{name} must be an (N, K, {width}) array or a list of (K, {width}) arrays"
    if isinstance(value, (list, tuple)):
        parts = [_numbers(part, f"{name}[{i}]") for i, part in enumerate(value)]
        parts = [part.reshape(0, width) if part.size == 0 else part for part in parts]
        for i, part in enumerate(parts):
            if part.ndim != 2 or part.shape[1] != width:
                raise ValueError(f"{what}; {name}[{i}] has shape {part.shape}")
        counts = np.array([len(part) for part in parts], np.int64)
        array = np.concatenate([np.zeros((0, width), np.float32), *parts])
        shape = array.shape
    else:
        array = _numbers(value, name)
        if array.ndim != 3 or array.shape[2] != width:
            raise ValueError(f"{what}, not of shape {array.shape}")
        shape = array.shape
        counts = np.full(len(array), shape[1], np.int64)
        array = array.reshape(-1, width)
    if len(counts) != n:
        raise ValueError(f"got {name} for {len(counts)} images, but the batch has {n}")
    owner = np.repeat(np.arange(n), counts)
    bad = ~np.all(np.isfinite(array), 1)
    if np.any(bad):
        k = int(np.argmax(bad))
        raise ValueError(f"{name} of image {owner[k]} must be finite, not {array[k].tolist()}")
    ragged = isinstance(value, (list, tuple))
    dtype = np.dtype(np.float32 if array.dtype == np.float32 else np.float64)
    return Rows(array.astype(np.float64), owner, counts if ragged else None, shape, dtype)


def _numbers(value: Any, name: str) -> NDArray[Any]:
    array = arguments.numbers(value, name)
    return array.astype(np.float32) if np.asarray(value).dtype == np.float32 else array


def _project(matrix: Floats, points: Floats) -> Floats:
    """Points (M, P, 2) through the matrix (M, 3, 3) of their image."""
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = points @ matrix[:, :2, :2].swapaxes(1, 2) + matrix[:, None, :2, 2]
        result: Floats = moved / _depth(matrix, points)[..., None]
    return result


def _inverse(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.inv(matrix), np.float64)


def _depth(matrix: Floats, points: Floats) -> Floats:
    """(M, P): the divisor of projected points."""
    depth: Floats = (points @ matrix[:, 2, :2, None])[..., 0] + matrix[:, 2, 2, None]
    return depth


def _corners(box: Floats) -> Floats:
    """Corners (M, 4, 2) of boxes (M, 4)."""
    return box[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)


def _enclosing(matrix: Floats, corners: Floats) -> Floats:
    """Boxes (M, 4) around moved corners; infinite if the horizon of a perspective passes between them."""
    depth = _depth(matrix, corners)
    points = _project(matrix, corners)
    box = np.concatenate([points.min(1), points.max(1)], 1)
    split = depth.min(1) * depth.max(1) <= 0.0
    return np.where(split[:, None], (-np.inf, -np.inf, np.inf, np.inf), box)


def _limits(batch: Batch) -> Iterator[tuple[Floats, Floats]]:
    """Visible rectangles (N, 4), and matrices (N, 3, 3) from the sources to them; the last one is the result."""
    to_segment: Floats = np.tile(np.eye(3), (len(batch), 1, 1))
    for plan in batch._segments:
        yield to_segment, plan.grid.window.astype(np.float64)
        forward = _inverse(plan.grid.frames[0].matrix) @ to_segment
        for entry, rectangle in plan.fills():
            yield plan.grid.frames[entry.frame].matrix @ forward, rectangle
        to_segment = forward
    yield to_segment, np.concatenate([np.zeros((len(batch), 2)), batch.sizes[:, ::-1]], 1)


@dataclass(frozen=True)
class Moved:
    """Boxes as (x0, y0, x1, y1) in pixels of the result."""

    whole: Floats  # (M, 4), around the moved corners
    seen: Floats  # (M, 4), the part that no crop cut off
    areas: Floats  # (M,), pixels of that part; 0 if only rounding leaves any
    centered: Mask  # (M,): no crop cut off the center


def move_boxes(batch: Batch, boxes: Floats, owner: Ints) -> Moved:
    """Move boxes through all segments; what one crop cuts off is not seen again."""
    whole = seen = _corners(boxes)
    center = whole.mean(1, keepdims=True)
    there, centered = np.ones((2, len(boxes)), bool)
    for matrix, rectangle in _limits(batch):
        to_frame, limit = matrix[owner], rectangle[owner]
        at = _project(to_frame, center)[:, 0]
        centered &= np.all((limit[:, :2] < at) & (at < limit[:, 2:]), 1)
        box = _enclosing(to_frame, seen)
        inside = np.clip(box, limit[:, [0, 1, 0, 1]], limit[:, [2, 3, 2, 3]])
        there &= np.all(inside[:, 2:] - inside[:, :2] > _THIN, 1)
        with np.errstate(invalid="ignore"):  # an infinite box in an infinite frame
            cut = np.any(np.abs(inside - box) > _THIN, 1)
        seen = seen.copy()
        seen[cut] = _project(_inverse(to_frame[cut]), _corners(inside[cut]))
    areas = np.where(there, np.prod(inside[:, 2:] - inside[:, :2], 1), 0.0)
    return Moved(_enclosing(to_frame, whole), inside, areas, centered)


def _to_corners(rows: Floats, format: str) -> Floats:
    """Boxes in any format as (x0, y0, x1, y1)."""
    if format == "xyxy":
        return rows
    size = rows[:, 2:]
    start = rows[:, :2] if format == "xywh" else rows[:, :2] - size / 2.0
    return np.concatenate([start, start + size], 1)


def _from_corners(box: Floats, format: str) -> Floats:
    if format == "xyxy":
        return box
    size = box[:, 2:] - box[:, :2]
    return np.concatenate([box[:, :2] if format == "xywh" else (box[:, :2] + box[:, 2:]) / 2.0, size], 1)


def checked_boxes(boxes: Any, batch: Batch, format: str) -> tuple[Rows, Floats]:
    """Checked boxes, and the same as (x0, y0, x1, y1)."""
    if format not in _FORMATS:
        raise ValueError(f'format must be "xyxy", "xywh" or "cxcywh", not {format!r}')
    rows = _rows(boxes, len(batch), 4, "boxes")
    found = _to_corners(rows.flat, format)
    size = batch._source.sizes[rows.owner][:, ::-1]
    reversed_ = np.any(found[:, :2] > found[:, 2:], 1)
    out = np.any((found[:, :2] < -_SLACK) | (found[:, 2:] > size + _SLACK), 1) & ~_unread(batch)[rows.owner]
    for wrong, words in ((reversed_, "ends before it starts"), (out, "reaches beyond the image")):
        if np.any(wrong):
            k = int(np.argmax(wrong))
            i = int(rows.owner[k])
            height, width = batch._source.sizes[i].tolist()
            raise ValueError(
                f"box {k - int(np.argmax(rows.owner == i))} of image {i} ({height} x {width}) {words}: "
                f"{rows.flat[k].tolist()} ({format})"
            )
    return rows, found


def transform_boxes(
    x: Batch,
    boxes: Any,
    *,
    format: str = "xyxy",
    min_area: Any = 0.0,
    clip: bool = True,
    centers: bool = False,
) -> tuple[Any, Any]:
    """Move bounding boxes as the images of a batch, and tell which of them are still visible.

    Parameters
    ----------
    x : Batch
        The batch whose recorded geometry is applied.
    boxes : (N, K, 4) array or list of (K, 4) arrays
        In pixels of the source images.
    format : {"xyxy", "xywh", "cxcywh"}
        Two corners, the first corner with width and height, or the center with width and height.
    min_area : float or (N,) float
        A box is kept if more than this many pixels of the result show it.
    clip : bool
        Cut the boxes at the border of the result, and at that of every crop before.
    centers : bool
        Also require that no crop cut off the center of the box, as after :func:`random_iou_crop`.

    Returns
    -------
    boxes : (N, K, 4) array or list of (K, 4) arrays
        All boxes, in the order, form and format passed; float32 if they were, else float64. A rotated box is replaced
        by the smallest upright box around its moved corners.
    kept : (N, K) bool array or list of (K,) bool arrays
        Which boxes are visible: select them with ``boxes[i][kept[i]]``, and their labels likewise.

    Raises
    ------
    ValueError
        For boxes that reach beyond their source image or end before they start, NaN, another number of images, or an
        unknown format. The message names the image.

    Notes
    -----
    Exact for flips, crops and resizes. Visible boxes equal torchvision's, except after ``rotate(expand=True)`` and a
    ``center_crop`` larger than the image: there torchvision's lie up to a pixel beside the pixels of its image.
    ``kept`` does not depend on ``clip``. If the horizon of a perspective passes through a box, the box becomes the
    whole result. No box of an image that could not be read is kept.

    References
    ----------
    torchvision ``transforms/v2/functional/_geometry.py``, ``_affine_bounding_boxes_with_expand``.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = gpuimg.crop(np.zeros((1, 10, 20, 3), np.uint8), 0, 4, 10, 8)
    >>> boxes, kept = gpuimg.transform_boxes(x, [[(2, 1, 6, 5), (13, 0, 20, 5)]])
    >>> boxes[0].tolist(), kept[0].tolist()
    ([[0.0, 1.0, 2.0, 5.0], [8.0, 0.0, 8.0, 5.0]], [True, False])
    """
    batch = as_batch(x)
    least = arguments.per_image(min_area, len(batch), "min_area", low=0.0)
    rows, found = checked_boxes(boxes, batch, format)
    moved = move_boxes(batch, found, rows.owner)
    kept = (moved.areas > least[rows.owner]) & ~_unread(batch)[rows.owner]
    if centers:
        kept &= moved.centered
    result = _from_corners(moved.seen if clip else moved.whole, format).astype(rows.dtype)
    return rows.like(result), rows.like(kept)


def transform_points(x: Batch, points: Any, *, pixel_indices: bool = False) -> Any:
    """Move points as the images of a batch.

    Parameters
    ----------
    x : Batch
        The batch whose recorded geometry is applied.
    points : (N, K, 2) array or list of (K, 2) arrays
        ``(x, y)`` in pixels of the source images; they may lie outside.
    pixel_indices : bool
        If False, ``(0, 0)`` is the top left corner of the first pixel, and a flip moves ``x`` to ``width - x``. If
        True, it is the center of that pixel, and a flip moves ``x`` to ``width - 1 - x``.

    Returns
    -------
    (N, K, 2) array or list of (K, 2) arrays
        In the form passed, float32 if they were, else float64. Not clipped: compare with ``x.sizes``.

    Raises
    ------
    ValueError
        For another number of images than in the batch, other shapes, or NaN. The message names the image.

    Notes
    -----
    Either way points stay on the pixels they mark. torchvision's keypoints mix the two: it flips them as with
    ``pixel_indices=True``, and resizes, rotates and warps them as with ``pixel_indices=False``; crops and pads are the
    same in both. Results therefore differ from torchvision's by 1 pixel for flips with False, and with True by half of
    ``abs(scale - 1)`` pixels for resizes and up to 1.4 pixels for rotations. After ``rotate(expand=True)`` and a
    ``center_crop`` larger than the image torchvision's keypoints also lie up to a pixel beside the pixels of its image.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = gpuimg.resize(np.zeros((1, 10, 20, 3), np.uint8), (5, 5))
    >>> gpuimg.transform_points(x, np.array([[(20.0, 4.0)]])).tolist()
    [[[5.0, 2.0]]]
    """
    batch = as_batch(x)
    rows = _rows(points, len(batch), 2, "points")
    shift = 0.5 if pixel_indices else 0.0
    *_, (forward, _) = _limits(batch)
    moved = _project(forward[rows.owner], rows.flat[:, None] + shift)[:, 0] - shift
    return rows.like(moved.astype(rows.dtype))
