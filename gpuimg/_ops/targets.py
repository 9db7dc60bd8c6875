"""Boxes, points and key points that follow the geometry recorded in a batch.

Targets refer to the source images, whatever has been recorded since; color functions do not change them.
Coordinates are continuous, ``(x, y)`` in pixels: pixel ``i`` covers ``[i, i + 1)``, and the image ``[0, width]`` and
``[0, height]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._batch.batch import Batch
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.docstrings import of_targets
from .._checks.types import AsPassed, BoxFormat, Floats, Indices, Ints, KeypointsPerImage, PerImage, TablePerImage
from ..errors import ImageError
from .boxes import ROTATED, UPRIGHT, clockwise, corners_of, cut_at, from_corners, rectangle_of, to_corners, width_of
from .following import (
    THIN,
    Displacement,
    depth_of,
    displaced,
    followed,
    inverse,
    limits_by_displacement,
    mirrored,
    move_points,
    project,
    unread_images,
)
from .rows import Rows, rows_of

__all__ = ["transform_boxes", "transform_keypoints", "transform_points"]

_SLACK = 1e-3  # pixels by which a box may extend beyond its image: rounding of float32 coordinates
# Points per side of a box that a displacement moves; between them it bends the side by less than the boxes' tolerance.
_SIDE_POINTS = 16
_COLUMNS = 3  # of key points: x, y, visibility


@dataclass(frozen=True)
class Moved:
    """Boxes after the geometry of a batch, in pixels of the result; (M, 4) is x0 y0 x1 y1."""

    corners: Floats  # (M, 4, 2)
    whole: Floats  # (M, 4), the box around the corners
    visible: Floats  # (M, 4), the part that no crop removed
    areas: Floats  # (M,), square pixels of the visible part; 0 where only rounding leaves any


def _enclosing(matrix: Floats, corners: Floats) -> Floats:
    """Return boxes (M, 4) around projected corners; infinite if the horizon of a perspective passes between them."""
    depth = depth_of(matrix, corners)
    points = project(matrix, corners)
    box = np.concatenate([points.min(1), points.max(1)], 1)
    split = depth.min(1) * depth.max(1) <= 0.0
    return np.where(split[:, None], (-np.inf, -np.inf, np.inf, np.inf), box)


def move_boxes(recording: Recording, corners: Floats, owner: Ints, *, upright: bool = True) -> Moved:
    """Move the corners (M, 4, 2) of boxes through all segments; a part that one crop removes stays invisible.

    A displacement bends the sides of boxes: an upright box becomes the upright box around its bent sides.
    """
    whole = visible = corners
    has_area = np.ones(len(corners), bool)
    for displacement, limits in limits_by_displacement(recording):
        if displacement is not None:
            visible = corners_of(_around(displacement, owner, visible))
            bent = _around(displacement, owner, whole) if upright else None
            whole = displaced(displacement, owner, whole) if bent is None else corners_of(bent)
        for matrix, rectangle in limits:
            to_limit, limit = matrix[owner], rectangle[owner]
            box = _enclosing(to_limit, visible)
            inside = np.clip(box, limit[:, [0, 1, 0, 1]], limit[:, [2, 3, 2, 3]])
            has_area &= np.all(inside[:, 2:] - inside[:, :2] > THIN, 1)
            with np.errstate(invalid="ignore"):  # inf - inf, for an infinite box in an infinite limit
                cut = np.any(np.abs(inside - box) > THIN, 1)
            visible = visible.copy()
            visible[cut] = project(inverse(to_limit[cut]), corners_of(inside[cut]))
        boxes = _enclosing(to_limit, whole)
        whole, visible = project(to_limit, whole), corners_of(inside)
    areas = np.where(has_area, np.prod(inside[:, 2:] - inside[:, :2], 1), 0.0)
    return Moved(whole, boxes, inside, areas)


def _around(displacement: Displacement, owner: Ints, corners: Floats) -> Floats:
    """Return boxes (M, 4) around the displaced sides of quadrilaterals (M, 4, 2)."""
    share = np.arange(_SIDE_POINTS) / _SIDE_POINTS
    sides = corners[:, :, None] + (np.roll(corners, -1, 1) - corners)[:, :, None] * share[:, None]
    points = displaced(displacement, owner, sides.reshape(len(corners), 4 * _SIDE_POINTS, 2))
    return np.concatenate([points.min(1), points.max(1)], 1)


def checked_boxes(boxes: Any, recording: Recording, format: str) -> tuple[Rows, Floats]:
    """Check boxes; return them with their corners (M, 4, 2). Rotated boxes may lie outside their images."""
    rows = rows_of(boxes, len(recording), width_of(format), "boxes")
    corners = to_corners(rows.flat, format)
    if format in ROTATED:
        return rows, corners
    size = recording.source.sizes[rows.owner][:, ::-1]
    reversed_ = np.any(corners[:, 0] > corners[:, 2], 1)
    out = np.any((corners[:, 0] < -_SLACK) | (corners[:, 2] > size + _SLACK), 1)
    is_read = ~unread_images(recording)[rows.owner]
    for wrong, fault in ((reversed_ & is_read, "ends before it starts"), (out & is_read, "reaches beyond the image")):
        if np.any(wrong):
            k = int(np.argmax(wrong))
            i = int(rows.owner[k])
            height, width = recording.source.sizes[i].tolist()
            number = k - int(np.argmax(rows.owner == i))
            raise ImageError(i, f"box {number} {fault} ({height} x {width}): {rows.flat[k].tolist()} ({format})")
    return rows, corners


@of_targets
def transform_boxes(
    images: Batch,
    boxes: TablePerImage,
    *,
    format: BoxFormat = "xyxy",
    min_area: PerImage = 0.0,
    clip: bool = True,
    centers: bool = False,
) -> tuple[AsPassed, AsPassed]:
    """Apply the geometry of a batch to bounding boxes, and report which of them are still visible.

    Parameters
    ----------
    boxes : (N, K, D) array or list of (K, D) arrays
        K boxes of each image, in pixels of the source images, within which upright ones must lie; D is 4, and for
        rotated formats 8 or 5.
    min_area : float or (N,) float
        A box counts as visible if more than this area of it is, in square pixels of the result; at least 0.
    clip : bool
        Clip boxes at the borders of the result and of every earlier crop. Rotated boxes are clipped at the border of
        the result only, keeping their angle; ``"xyxyxyxy"`` is never clipped.
    centers : bool
        Count a box as visible only if no crop removed its center, as after :func:`random_iou_crop`.

    Returns
    -------
    boxes : (N, K, D) array or list of (K, D) arrays
        All boxes, in the order, form and format passed; float32 if they were, else float64. A rotation replaces an
        upright box by the smallest upright box around its moved corners. A rotated box stays a rectangle: after a shear
        or a perspective it is the one with the longer diagonal. ``"xyxyxyxy"`` holds the moved corners themselves.
    kept : (N, K) bool array or list of (K,) bool arrays
        True for visible boxes. Select them with ``boxes[i][kept[i]]``, and their labels likewise.

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
    >>> x = gpuimg.crop(np.zeros((1, 10, 20, 3), np.uint8), 0, 4, 10, 8)
    >>> boxes, kept = gpuimg.transform_boxes(x, [[(2, 1, 6, 5), (13, 0, 20, 5)]])
    >>> boxes[0].tolist(), kept[0].tolist()
    ([[0.0, 1.0, 2.0, 5.0], [8.0, 0.0, 8.0, 5.0]], [True, False])
    """
    recording = followed(images)
    least = arguments.per_image(min_area, recording.image_count, "min_area", low=0.0)
    rows, found = checked_boxes(boxes, recording, format)
    moved = move_boxes(recording, found, rows.owner, upright=format in UPRIGHT)
    kept = (moved.areas > least[rows.owner]) & ~unread_images(recording)[rows.owner]
    if arguments.flag(centers, "centers"):
        kept &= move_points(recording, found.mean(1), rows.owner)[1]
    result = _as_moved(recording, moved, rows, format, arguments.flag(clip, "clip")).astype(rows.dtype)
    return rows.like(result), rows.like(kept)


def _as_moved(recording: Recording, moved: Moved, rows: Rows, format: str, clip: bool) -> Floats:
    """Return moved boxes in their format."""
    if format in UPRIGHT:
        return from_corners(corners_of(moved.visible if clip else moved.whole), format)
    # A box that a horizon passes through becomes the whole result.
    limit = recording.sizes[rows.owner][:, ::-1].astype(np.float64)
    around = corners_of(np.concatenate([np.zeros_like(limit), limit], 1))
    bounded = np.all(np.isfinite(moved.whole), 1)[:, None, None]
    corners = clockwise(np.where(bounded, moved.corners, around))
    if format == "xyxyxyxy":
        return from_corners(corners, format)
    corners = rectangle_of(corners)
    return from_corners(cut_at(corners, limit) if clip else corners, format)


@of_targets
def transform_points(images: Batch, points: TablePerImage, *, pixel_indices: bool = False) -> AsPassed:
    """Apply the geometry of a batch to points of its source images.

    Parameters
    ----------
    pixel_indices : bool
        If False, ``(0, 0)`` is the top left corner of the first pixel, and a flip moves ``x`` to ``width - x``. If
        True, it is the center of that pixel, and a flip moves ``x`` to ``width - 1 - x``.

    Notes
    -----
    Points are not clipped: compare them with ``images.sizes``.

    With both values of ``pixel_indices`` points stay on the pixels they mark. torchvision mixes the two conventions: it
    flips keypoints as with ``pixel_indices=True``, and resizes, rotates and warps them as with False; crops and pads
    are the same in both. Results therefore differ from torchvision's. With False they differ by 1 pixel for flips; with
    True by ``abs(scale - 1) / 2`` pixels for resizes and by up to 1.4 pixels for rotations. After
    ``rotate(expand=True)`` and after a ``center_crop`` larger than the image, torchvision's keypoints are also up to a
    pixel off its own images.

    Examples
    --------
    >>> x = gpuimg.resize(np.zeros((1, 10, 20, 3), np.uint8), (5, 5))
    >>> gpuimg.transform_points(x, np.array([[(20.0, 4.0)]])).tolist()
    [[[5.0, 2.0]]]
    """
    recording = followed(images)
    rows = rows_of(points, len(recording), 2, "points")
    shift = 0.5 if arguments.flag(pixel_indices, "pixel_indices") else 0.0
    moved, _ = move_points(recording, rows.flat + shift, rows.owner)
    return rows.like((moved - shift).astype(rows.dtype))


@of_targets
def transform_keypoints(
    images: Batch, keypoints: KeypointsPerImage, *, pixel_indices: bool = False, flip_indices: Indices | None = None
) -> AsPassed:
    """Apply the geometry of a batch to key points, and mark those that are no longer in the image.

    Parameters
    ----------
    keypoints : (N, K, P, 3) array or list of (K, P, 3) arrays
        P points for each of K objects of an image: ``x`` and ``y`` in pixels of the source images, and the visibility
        of COCO: 0 not labeled, 1 hidden, 2 visible.
    pixel_indices : bool
        Whether ``(0, 0)`` is the center of the first pixel, as for COCO's key points, or its top left corner; see
        :func:`transform_points`.
    flip_indices : (P,) int, optional
        The point, 0 to P - 1, that each becomes in a mirrored image: left and right eye exchange their places, for
        example. None exchanges none.

    Notes
    -----
    Points outside the result, or in a part that a crop removed, get visibility 0; those on the border of the image are
    inside. All points of visibility 0 have ``x`` and ``y`` 0, as in COCO. An image is mirrored if its geometry as a
    whole reverses orientation: one flip does, two flips or a rotation by 180 degrees do not.

    References
    ----------
    https://cocodataset.org/#format-data; torchvision ``references/detection/transforms.py``, which sets points of
    visibility 0 to 0.

    Examples
    --------
    >>> x = gpuimg.horizontal_flip(gpuimg.crop(np.zeros((1, 10, 20, 3), np.uint8), 0, 4, 10, 8))
    >>> eyes = np.array([[[(6, 5, 2), (15, 5, 2)]]], np.float32)
    >>> gpuimg.transform_keypoints(x, eyes, flip_indices=[1, 0]).tolist()
    [[[[0.0, 0.0, 0.0], [6.0, 5.0, 2.0]]]]
    """
    recording = followed(images)
    flat, count = _flattened(keypoints)
    rows = rows_of(flat, len(recording), _COLUMNS, "keypoints")
    unknown = ~np.isin(rows.flat[:, 2], (0.0, 1.0, 2.0)) & ~unread_images(recording)[rows.owner]
    if unknown.any():
        i = int(rows.owner[np.argmax(unknown)])
        raise ImageError(i, "the visibility of keypoints, the third number, must be 0, 1 or 2")
    shift = 0.5 if arguments.flag(pixel_indices, "pixel_indices") else 0.0
    points, inside = move_points(recording, rows.flat[:, :2] + shift, rows.owner, border=THIN)
    seen = np.where(inside, rows.flat[:, 2], 0.0)[:, None]
    moved = np.where(seen > 0.0, np.concatenate([points - shift, seen], 1), 0.0)
    if flip_indices is not None and count:
        order = np.asarray(flip_indices)
        if not np.array_equal(np.sort(order), np.arange(count)):
            raise ValueError(f"flip_indices must have the numbers 0 to {count - 1} once each, not {flip_indices!r}")
        objects = moved.reshape(-1, len(order), _COLUMNS)
        flipped = mirrored(recording)[rows.owner].reshape(-1, len(order), 1)
        moved = np.where(flipped, objects[:, order.astype(np.int64)], objects).reshape(-1, _COLUMNS)
    result = rows.like(moved.astype(rows.dtype))
    if isinstance(result, list):
        return [part.reshape(len(part) // max(count, 1), count, _COLUMNS) for part in result]
    given: Any = keypoints
    return result.reshape(np.shape(given))


def _flattened(keypoints: Any) -> tuple[Any, int]:
    """Return key points as tables of x, y and visibility, and the points per object: 0 if there are no objects."""
    rule = "keypoints must be an (N, K, P, 3) array or a list of (K, P, 3) arrays with one P"
    if not isinstance(keypoints, (list, tuple)):
        shape = np.shape(keypoints)
        if len(shape) != 4 or shape[3] != _COLUMNS:
            raise ValueError(f"{rule}, not of shape {shape}")
        return np.asarray(keypoints).reshape(shape[0], shape[1] * shape[2], _COLUMNS), shape[2]
    parts = [np.asarray(part) for part in keypoints]
    counts = {part.shape[1] for part in parts if part.ndim == 3}
    for i, part in enumerate(parts):
        if part.size and (part.ndim != 3 or part.shape[2] != _COLUMNS or len(counts) > 1):
            raise ValueError(f"{rule}; keypoints[{i}] has shape {part.shape}")
    return [part.reshape(-1, _COLUMNS) for part in parts], max(counts, default=0)
