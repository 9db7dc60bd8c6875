"""Masks, boxes and points that follow the geometry recorded in a batch.

Targets refer to the source images, whatever has been recorded since; color functions do not change them.
Coordinates are continuous, ``(x, y)`` in pixels: pixel ``i`` covers ``[i, i + 1)``, and the image ``[0, width]`` and
``[0, height]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._batch.batch import Batch, recording_of
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.text import counted
from .._checks.types import AsPassed, BoxFormat, Floats, Ints, Mask, MaskPerImage, PerImage, TablePerImage
from .._plan.plan import Entry
from .._runtimes.devices import native
from ..kernels import layout
from .boxes import (
    ROTATED,
    UPRIGHT,
    clockwise,
    corners_of,
    cut_at,
    from_corners,
    from_edges,
    rectangle_of,
    to_corners,
    to_edges,
    width_of,
)
from .elastic import displaced_points
from .rows import Rows, rows_of

_FILLED = 1e30  # value of filled pixels, far above any label
_SLACK = 1e-3  # pixels by which a box may extend beyond its image: rounding of float32 coordinates
# Points per side of a box that a displacement moves; between them it bends the side by less than the boxes' tolerance.
_SIDE_POINTS = 16
_THIN = 1e-6  # pixels: a box no thicker than this has no area, and a cut no larger than this is rounding


# -- masks -------------------------------------------------------------------------------------------------------------


def transform_masks(images: Batch, masks: MaskPerImage, *, fill: int = 0) -> AsPassed:
    """Transform label masks like the images of a batch, by nearest neighbor.

    Parameters
    ----------
    images : Batch
        The batch whose recorded geometry is applied.
    masks : list of (H, W) arrays or (N, H, W) array
        Integer or boolean labels from -2**24 to 2**24. Each mask has the size of its source image; a last axis of
        length 1 is allowed. NumPy or CuPy arrays; results are on the device of the masks.
    fill : int
        Label of the pixels around a rotated, padded or shifted image. The fill of the images is not used.

    Returns
    -------
    (N, h, w) array or list of (h, w) arrays
        Masks with the dtype passed and the sizes of ``images``; a list if the sizes differ.

    Raises
    ------
    ValueError
        If the numbers of masks and images differ, a mask and its source image differ in size, or a label is out of
        range or ``fill`` does not fit the dtype. The message names the mask.
    TypeError
        For masks that are not integer or boolean, or differ in dtype.

    Notes
    -----
    Where the images repeat their edge (``fill=None``, ``padding_mode="edge"``) the masks do too. Erasing an image does
    not change its mask. The mask of an image that could not be read is 0.

    Masks after crops, flips and pads equal torchvision's. After resizes they differ: torchvision's ``NEAREST`` shifts
    masks against the images by half a pixel of the result; ``NEAREST_EXACT``, used here, does not. Both agree when
    enlarging by whole factors. After :func:`rotate`, :func:`affine` and :func:`perspective` single pixels may differ,
    where a position lies halfway between two source pixels; with ``fill=None`` torchvision fills with 0.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = gpuimg.horizontal_flip(np.zeros((1, 1, 3, 3), np.uint8))
    >>> gpuimg.transform_masks(x, np.array([[[0, 7, 9]]])).tolist()
    [[[9, 7, 0]]]
    """
    batch = recording_of(images)
    labels = _masks(masks, batch)
    dtype = labels[0].dtype if len(labels) else np.dtype("uint8")
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    if not (isinstance(fill, (int, np.integer)) and (limits.min <= fill <= limits.max if limits else 0 <= fill <= 1)):
        raise ValueError(f"fill must be a label that {dtype} holds, not {fill!r}")
    uniform = not np.any(batch.sizes[1:] != batch.sizes[:-1])
    if not len(batch):
        return np.zeros((0, 0, 0), dtype)
    # Kernels read bytes as multiples of 1/255, and float32 values unchanged.
    scale = 255.0 if dtype.itemsize == 1 and dtype.kind != "i" else 1.0
    source = [_as_source(mask, scale) for mask in labels] if isinstance(labels, list) else _as_source(labels, scale)
    segments = tuple(plan.for_masks(_FILLED) for plan in batch.segments)
    recording = recording_of(source)
    moved = Batch(recording.with_segments(tuple(plan for plan in segments if not plan.changes_nothing)))

    def as_labels(values: Any) -> Any:
        seen = values < _FILLED / 1e10
        result = (values * seen * scale).round().astype(dtype)[..., 0]
        result[~seen[..., 0]] = fill
        return result

    if uniform:
        return as_labels(moved.array("float32"))
    return [as_labels(image) for image in moved.compute("float32")]


def _as_source(mask: Any, scale: float) -> Any:
    """Return a mask as a one-channel image: unsigned bytes as they are, other labels as float32."""
    return (mask.view("uint8") if scale == 255.0 else mask.astype("float32"))[..., None]


def _masks(masks: Any, batch: Recording) -> Any:
    """Check masks; return one (N, H, W) array or a list of (H, W) arrays."""
    stacked = not isinstance(masks, (list, tuple))
    arrays: Any = native(masks) if stacked else [native(mask) for mask in masks]
    if stacked and (not hasattr(arrays, "ndim") or arrays.ndim not in (3, 4)):
        raise TypeError(f"masks must be a list of (H, W) arrays or one (N, H, W) array, not {_kind(arrays)}")
    if len(arrays) != len(batch):
        raise ValueError(f"got {counted(len(arrays), 'mask')} for {counted(len(batch), 'image')}; each needs one")
    unread = _unread(batch)
    found = []
    for i, (mask, size) in enumerate(zip(arrays, batch.source.sizes.tolist(), strict=True)):
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


def _unread(batch: Recording) -> Mask:
    """Return (N,): True for images whose header could not be read, which one black pixel replaces."""
    failed = np.isin(np.arange(len(batch)) // (batch.frames or 1), list(batch.source.failures))
    unread: Mask = failed & np.all(batch.source.sizes == 1, 1)
    return unread


def _kind(value: Any) -> str:
    """Describe an argument for an error message: dtype and shape, or the type."""
    if not hasattr(value, "dtype"):
        return type(value).__name__
    return f"{value.dtype} of shape {tuple(value.shape)}" if hasattr(value, "shape") else str(value.dtype)


# -- boxes and points --------------------------------------------------------------------------------------------------


def _project(matrix: Floats, points: Floats) -> Floats:
    """Apply matrices (M, 3, 3) to points (M, P, 2)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = points @ matrix[:, :2, :2].swapaxes(1, 2) + matrix[:, None, :2, 2]
        result: Floats = moved / _depth(matrix, points)[..., None]
    return result


def _inverse(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.inv(matrix), np.float64)


def _depth(matrix: Floats, points: Floats) -> Floats:
    """Return the homogeneous coordinate (M, P) that projected points are divided by."""
    depth: Floats = (points @ matrix[:, 2, :2, None])[..., 0] + matrix[:, 2, 2, None]
    return depth


def _enclosing(matrix: Floats, corners: Floats) -> Floats:
    """Return boxes (M, 4) around projected corners; infinite if the horizon of a perspective passes between them."""
    depth = _depth(matrix, corners)
    points = _project(matrix, corners)
    box = np.concatenate([points.min(1), points.max(1)], 1)
    split = depth.min(1) * depth.max(1) <= 0.0
    return np.where(split[:, None], (-np.inf, -np.inf, np.inf, np.inf), box)


# Matrices (N, 3, 3) to the coordinates of a visible rectangle, and the rectangle (N, 4), x0 y0 x1 y1.
_Limit = tuple[Floats, Floats]


def _limits_by_displacement(batch: Recording) -> Iterator[tuple[Entry | None, list[_Limit]]]:
    """Yield each elastic displacement of a batch with the limits that follow it; first None with those before any.

    The matrices of a limit lead from the result of the displacement, or from the source image. The last limit of each
    item is the grid on which the next displacement works, or the result of the batch.
    """
    displacement: Entry | None = None
    limits: list[_Limit] = []
    to_segment: Floats = np.tile(np.eye(3), (len(batch), 1, 1))
    for plan in batch.segments:
        moved = plan.displacements()
        if moved:
            limits.append((to_segment, np.concatenate([np.zeros((len(batch), 2)), plan.sizes[:, ::-1]], 1)))
            yield displacement, limits
            displacement, limits = moved[0], []
            to_segment = np.tile(np.eye(3), (len(batch), 1, 1))
        limits.append((to_segment, plan.grid.window.astype(np.float64)))
        forward = _inverse(plan.grid.frames[0].matrix) @ to_segment
        for entry, rectangle in plan.fills():
            limits.append((plan.grid.frames[entry.frame].matrix @ forward, rectangle))
        to_segment = forward
    limits.append((to_segment, np.concatenate([np.zeros((len(batch), 2)), batch.sizes[:, ::-1]], 1)))
    yield displacement, limits


@dataclass(frozen=True)
class Moved:
    """Boxes after the geometry of a batch, in pixels of the result; (M, 4) is x0 y0 x1 y1."""

    corners: Floats  # (M, 4, 2)
    whole: Floats  # (M, 4), the box around the corners
    visible: Floats  # (M, 4), the part that no crop removed
    areas: Floats  # (M,), square pixels of the visible part; 0 where only rounding leaves any
    centered: Mask  # (M,), True where no crop removed the center


def move_boxes(batch: Recording, corners: Floats, owner: Ints, *, upright: bool = True) -> Moved:
    """Move the corners (M, 4, 2) of boxes through all segments; a part that one crop removes stays invisible.

    A displacement bends the sides of boxes: an upright box becomes the upright box around its bent sides.
    """
    whole = visible = corners
    center = whole.mean(1, keepdims=True)
    has_area, centered = np.ones((2, len(corners)), bool)
    for displacement, limits in _limits_by_displacement(batch):
        if displacement is not None:
            center = displaced_points(displacement, owner, center)
            visible = corners_of(_around(displacement, owner, visible))
            bent = _around(displacement, owner, whole) if upright else None
            whole = displaced_points(displacement, owner, whole) if bent is None else corners_of(bent)
        for matrix, rectangle in limits:
            to_limit, limit = matrix[owner], rectangle[owner]
            at = _project(to_limit, center)[:, 0]
            centered &= np.all((limit[:, :2] < at) & (at < limit[:, 2:]), 1)
            box = _enclosing(to_limit, visible)
            inside = np.clip(box, limit[:, [0, 1, 0, 1]], limit[:, [2, 3, 2, 3]])
            has_area &= np.all(inside[:, 2:] - inside[:, :2] > _THIN, 1)
            with np.errstate(invalid="ignore"):  # inf - inf, for an infinite box in an infinite limit
                cut = np.any(np.abs(inside - box) > _THIN, 1)
            visible = visible.copy()
            visible[cut] = _project(_inverse(to_limit[cut]), corners_of(inside[cut]))
        boxes = _enclosing(to_limit, whole)
        whole, center, visible = _project(to_limit, whole), _project(to_limit, center), corners_of(inside)
    areas = np.where(has_area, np.prod(inside[:, 2:] - inside[:, :2], 1), 0.0)
    return Moved(whole, boxes, inside, areas, centered)


def _around(displacement: Entry, owner: Ints, corners: Floats) -> Floats:
    """Return boxes (M, 4) around the displaced sides of quadrilaterals (M, 4, 2)."""
    share = np.arange(_SIDE_POINTS) / _SIDE_POINTS
    sides = corners[:, :, None] + (np.roll(corners, -1, 1) - corners)[:, :, None] * share[:, None]
    points = displaced_points(displacement, owner, sides.reshape(len(corners), 4 * _SIDE_POINTS, 2))
    return np.concatenate([points.min(1), points.max(1)], 1)


def checked_boxes(boxes: Any, batch: Recording, format: str) -> tuple[Rows, Floats]:
    """Check boxes; return them with their corners (M, 4, 2). Rotated boxes may lie outside their images."""
    rows = rows_of(boxes, len(batch), width_of(format), "boxes")
    if format in ROTATED:
        return rows, to_corners(rows.flat, format)
    found = to_edges(rows.flat, format)
    size = batch.source.sizes[rows.owner][:, ::-1]
    reversed_ = np.any(found[:, :2] > found[:, 2:], 1)
    out = np.any((found[:, :2] < -_SLACK) | (found[:, 2:] > size + _SLACK), 1) & ~_unread(batch)[rows.owner]
    for wrong, fault in ((reversed_, "ends before it starts"), (out, "reaches beyond the image")):
        if np.any(wrong):
            k = int(np.argmax(wrong))
            i = int(rows.owner[k])
            height, width = batch.source.sizes[i].tolist()
            raise ValueError(
                f"box {k - int(np.argmax(rows.owner == i))} of image {i} ({height} x {width}) {fault}: "
                f"{rows.flat[k].tolist()} ({format})"
            )
    return rows, corners_of(found)


def transform_boxes(
    images: Batch,
    boxes: TablePerImage,
    *,
    format: BoxFormat = "xyxy",
    min_area: PerImage = 0.0,
    clip: bool = True,
    centers: bool = False,
) -> tuple[AsPassed, AsPassed]:
    """Transform bounding boxes like the images of a batch, and report which of them are still visible.

    Parameters
    ----------
    images : Batch
        The batch whose recorded geometry is applied.
    boxes : (N, K, 4) array or list of (K, 4) arrays
        Boxes of each image, in pixels of the source images.
    format : {"xyxy", "xywh", "cxcywh", "xyxyxyxy", "xywhr", "cxcywhr"}
        As in :func:`convert_bounding_box_format`; rotated boxes have 8 or 5 numbers in place of 4.
    min_area : float or (N,) float
        A box counts as visible if more than this area of it is, in square pixels of the result; at least 0.
    clip : bool
        Clip boxes at the borders of the result and of every earlier crop. Rotated boxes are clipped at the border of
        the result only, keeping their angle; ``"xyxyxyxy"`` is never clipped.
    centers : bool
        Count a box as visible only if no crop removed its center, as after :func:`random_iou_crop`.

    Returns
    -------
    boxes : (N, K, 4) array or list of (K, 4) arrays
        All boxes, in the order, form and format passed; float32 if they were, else float64. A rotation replaces an
        upright box by the smallest upright box around its moved corners. A rotated box stays a rectangle: after a shear
        or a perspective it is the one with the longer diagonal. ``"xyxyxyxy"`` holds the moved corners themselves.
    kept : (N, K) bool array or list of (K,) bool arrays
        True for visible boxes. Select them with ``boxes[i][kept[i]]``, and their labels likewise.

    Raises
    ------
    ValueError
        For boxes that extend beyond their source image or end before they start, NaN, another number of images, or an
        unknown format. The message names the image.

    Notes
    -----
    Boxes are exact for flips, crops and resizes. Visible boxes equal torchvision's, except after
    ``rotate(expand=True)`` and after a ``center_crop`` larger than the image, where torchvision's boxes are up to a
    pixel off its own images. ``kept`` does not depend on ``clip``. If the horizon of a perspective passes through a
    box, the box becomes the whole result. The visibility of a rotated box is that of the upright box around it. Boxes
    of images that could not be read are not kept.

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
    batch = recording_of(images)
    least = arguments.per_image(min_area, batch.image_count, "min_area", low=0.0)
    rows, found = checked_boxes(boxes, batch, format)
    moved = move_boxes(batch, found, rows.owner, upright=format in UPRIGHT)
    kept = (moved.areas > least[rows.owner]) & ~_unread(batch)[rows.owner]
    if arguments.flag(centers, "centers"):
        kept &= moved.centered
    result = _as_moved(batch, moved, rows, format, arguments.flag(clip, "clip")).astype(rows.dtype)
    return rows.like(result), rows.like(kept)


def _as_moved(batch: Recording, moved: Moved, rows: Rows, format: str, clip: bool) -> Floats:
    """Return moved boxes in their format."""
    if format in UPRIGHT:
        return from_edges(moved.visible if clip else moved.whole, format)
    # A box that a horizon passes through becomes the whole result.
    limit = batch.sizes[rows.owner][:, ::-1].astype(np.float64)
    around = corners_of(np.concatenate([np.zeros_like(limit), limit], 1))
    bounded = np.all(np.isfinite(moved.whole), 1)[:, None, None]
    corners = clockwise(np.where(bounded, moved.corners, around))
    if format == "xyxyxyxy":
        return from_corners(corners, format)
    corners = rectangle_of(corners)
    return from_corners(cut_at(corners, limit) if clip else corners, format)


def transform_points(images: Batch, points: TablePerImage, *, pixel_indices: bool = False) -> AsPassed:
    """Transform points like the images of a batch.

    Parameters
    ----------
    images : Batch
        The batch whose recorded geometry is applied.
    points : (N, K, 2) array or list of (K, 2) arrays
        ``(x, y)`` in pixels of the source images; they may lie outside.
    pixel_indices : bool
        If False, ``(0, 0)`` is the top left corner of the first pixel, and a flip moves ``x`` to ``width - x``. If
        True, it is the center of that pixel, and a flip moves ``x`` to ``width - 1 - x``.

    Returns
    -------
    (N, K, 2) array or list of (K, 2) arrays
        In the form passed; float32 if the points were, else float64. Not clipped: compare with ``images.sizes``.

    Raises
    ------
    ValueError
        For another number of images than the batch has, other shapes, or NaN. The message names the image.

    Notes
    -----
    With both values of ``pixel_indices`` points stay on the pixels they mark. torchvision mixes the two conventions: it
    flips keypoints as with ``pixel_indices=True``, and resizes, rotates and warps them as with False; crops and pads
    are the same in both. Results therefore differ from torchvision's. With False they differ by 1 pixel for flips; with
    True by ``abs(scale - 1) / 2`` pixels for resizes and by up to 1.4 pixels for rotations. After
    ``rotate(expand=True)`` and after a ``center_crop`` larger than the image, torchvision's keypoints are also up to a
    pixel off its own images.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = gpuimg.resize(np.zeros((1, 10, 20, 3), np.uint8), (5, 5))
    >>> gpuimg.transform_points(x, np.array([[(20.0, 4.0)]])).tolist()
    [[[5.0, 2.0]]]
    """
    batch = recording_of(images)
    rows = rows_of(points, len(batch), 2, "points")
    shift = 0.5 if arguments.flag(pixel_indices, "pixel_indices") else 0.0
    moved = rows.flat[:, None] + shift
    for displacement, (*_, (forward, _)) in _limits_by_displacement(batch):
        moved = moved if displacement is None else displaced_points(displacement, rows.owner, moved)
        moved = _project(forward[rows.owner], moved)
    return rows.like((moved[:, 0] - shift).astype(rows.dtype))
