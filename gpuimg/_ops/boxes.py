"""Bounding box formats, upright and rotated; clamping and filtering of boxes and points by the image border.

Rotated boxes are turned by ``r`` degrees counter-clockwise about their first corner (``xywhr``) or their center
(``cxcywhr``). ``xyxyxyxy`` holds all four corners, clockwise on the screen, starting with the first. The functions are
those of torchvision's ``transforms/v2/functional/_meta.py`` and ``_misc.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._batch.batch import Batch
from .._checks import arguments
from .._checks.docstrings import of_targets
from .._checks.types import AsPassed, BoxFormat, Floats, Ints, Mask, Size, TablePerImage
from .rows import rows_of

__all__ = [
    "clamp_bounding_boxes", "clamp_keypoints", "convert_bounding_box_format", "sanitize_bounding_boxes",
    "sanitize_keypoints",
]  # fmt: skip

UPRIGHT = ("xyxy", "xywh", "cxcywh")
ROTATED = {"xyxyxyxy": 8, "xywhr": 5, "cxcywhr": 5}
# Tolerance of the inside test, relative to the squared side length: corners on the border count as inside despite
# rounding.
_INSIDE = 1e-9


def width_of(format: Any, name: str = "format") -> int:
    """Return the number of values per box of a format; raise ValueError for an unknown format."""
    if format in UPRIGHT:
        return 4
    if not isinstance(format, str) or format not in ROTATED:
        known = ", ".join(f'"{one}"' for one in (*UPRIGHT, *ROTATED))
        raise ValueError(f"{name} must be one of {known}, not {format!r}")
    return ROTATED[format]


def corners_of(box: Floats) -> Floats:
    """Return the corners (M, 4, 2) of boxes (x0, y0, x1, y1), clockwise on the screen."""
    return box[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)


def to_corners(rows: Floats, format: str) -> Floats:
    """Return the corners (M, 4, 2) of boxes in any format."""
    if format == "xyxy":
        return corners_of(rows)
    if format == "xyxyxyxy":
        return rows.reshape(-1, 4, 2)
    angle = np.deg2rad(rows[:, 4]) if format in ROTATED else np.zeros(len(rows))
    cos, sin = np.cos(angle), np.sin(angle)
    wide, high = np.stack([cos, -sin], 1) * rows[:, 2:3], np.stack([sin, cos], 1) * rows[:, 3:4]  # y points down
    start = rows[:, :2] - (wide + high) / 2.0 if format.startswith("c") else rows[:, :2]
    return np.stack([start, start + wide, start + wide + high, start + high], 1)


def from_corners(corners: Floats, format: str) -> Floats:
    """Convert corners (M, 4, 2) to a format; all but ``xyxyxyxy`` require those of a rectangle, upright or not."""
    if format == "xyxyxyxy":
        return corners.reshape(-1, 8)
    first, second, third = corners[:, 0], corners[:, 1], corners[:, 2]
    if format == "xyxy":
        return np.concatenate([first, third], 1)
    anchor = (first + third) / 2.0 if format.startswith("c") else first
    if format in UPRIGHT:
        return np.concatenate([anchor, third - first], 1)
    wide, high = second - first, third - second
    angle = np.rad2deg(np.arctan2(-wide[:, 1], wide[:, 0]))
    return np.concatenate([anchor, np.stack([np.hypot(*wide.T), np.hypot(*high.T), angle], 1)], 1)


def clockwise(corners: Floats) -> Floats:
    """Return corners (M, 4, 2) in clockwise order, also where a flip reversed them."""
    (ax, ay), (bx, by) = (corners[:, 1] - corners[:, 0]).T, (corners[:, 3] - corners[:, 0]).T
    mirrored = ax * by - ay * bx < 0.0
    return np.where(mirrored[:, None, None], corners[:, [1, 0, 3, 2]], corners)


def rectangle_of(corners: Floats) -> Floats:
    """Replace parallelograms (M, 4, 2), which shears make of rectangles, by rectangles of the same longer diagonal.

    Follows torchvision's ``_parallelogram_to_bounding_boxes``.
    """
    first, second, third, fourth = corners.transpose(1, 0, 2)
    wide, high = second - first, fourth - first
    w, h = np.hypot(*wide.T), np.hypot(*high.T)
    angle_w, angle_h = np.arctan2(-wide[:, 1], wide[:, 0]), np.arctan2(-high[:, 1], high[:, 0])
    between = angle_w - angle_h
    sign = np.where(between > np.pi / 2.0, -1.0, 1.0)
    new_w = np.where(w < h, w * np.sin(between), w + h * np.cos(between) * sign)
    new_h = np.where(w > h, h * np.sin(between), h + w * np.cos(between) * sign)
    turned = np.where(h > w, angle_h + np.pi / 2.0, angle_w)
    center = (first + third) / 2.0
    box = np.concatenate([center, np.stack([new_w, new_h, np.rad2deg(turned)], 1)], 1)
    return to_corners(box, "cxcywhr")


def cut_at(corners: Floats, limit: Floats) -> Floats:
    """Shrink rotated boxes (M, 4, 2) to their visible part, keeping their angles.

    ``limit`` (M, 2) holds the width and height of each box's image. The result is the smallest box of the same angle
    that contains the visible part; a box outside its image shrinks to a point.
    """
    # The visible part is a convex polygon. Its vertices are corners of the box inside the image, corners of the image
    # inside the box, and crossings of their sides.
    edges = corners_of(np.concatenate([np.zeros_like(limit), limit], 1))
    points = np.concatenate([corners, edges, _crossings(corners, edges)], 1)
    valid: Mask = _within(points, corners) & _within(points, edges)
    origin = corners[:, :1]
    points = np.where(valid[:, :, None], points, origin)
    axes = corners[:, [1, 3]] - origin
    length = np.maximum(np.sum(axes * axes, 2), np.finfo(np.float64).tiny)
    share = ((points - origin) @ axes.swapaxes(1, 2)) / length[:, None]  # (M, P, 2): positions in [0, 1] on both sides
    low = np.where(valid[:, :, None], share, np.inf).min(1)
    high = np.where(valid[:, :, None], share, -np.inf).max(1)
    seen = np.any(valid, 1, keepdims=True)
    low, high = (np.where(seen, v, 0.0) for v in (low, high))
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    ends = np.stack([low, np.stack([high[:, 0], low[:, 1]], 1), high, np.stack([low[:, 0], high[:, 1]], 1)], 1)
    return np.asarray(origin + ends @ axes, np.float64)


def _crossings(one: Floats, other: Floats) -> Floats:
    """Intersect the extended sides of two quadrilaterals: points (M, 16, 2), NaN for parallel sides."""
    start_a, start_b = one[:, :, None], other[:, None]
    along_a = (np.roll(one, -1, 1) - one)[:, :, None]
    along_b = (np.roll(other, -1, 1) - other)[:, None]
    between = start_b - start_a
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (between[..., 0] * along_b[..., 1] - between[..., 1] * along_b[..., 0]) / (
            along_a[..., 0] * along_b[..., 1] - along_a[..., 1] * along_b[..., 0]
        )
        points: Floats = start_a + t[..., None] * along_a
    return points.reshape(len(one), 16, 2)


def _within(points: Floats, corners: Floats) -> Mask:
    """Return (M, P): True for points inside convex quadrilaterals (M, 4, 2), given clockwise on the screen."""
    sides = np.roll(corners, -1, 1) - corners
    away = points[:, :, None] - corners[:, None]
    with np.errstate(invalid="ignore"):
        area = sides[:, None, :, 0] * away[..., 1] - sides[:, None, :, 1] * away[..., 0]
        inside: Mask = np.all(area >= -_INSIDE * (1.0 + np.sum(sides * sides, 2))[:, None], 2)
    return inside


@of_targets
def convert_bounding_box_format(boxes: TablePerImage, old_format: BoxFormat, new_format: BoxFormat) -> AsPassed:
    """Convert bounding boxes between formats, such as from corners to center and size.

    Parameters
    ----------
    old_format, new_format : {"xyxy", "xywh", "cxcywh", "xyxyxyxy", "xywhr", "cxcywhr"}
        Meaning of the numbers before and after. Upright formats hold two corners, or the first corner or the center
        with width and height. Rotated formats hold four corners (8 numbers), or add the angle in degrees,
        counter-clockwise (5 numbers). Upright boxes do not become rotated ones, nor the reverse.

    Examples
    --------
    >>> gpuimg.convert_bounding_box_format([[(10, 20, 30, 60)]], "xyxy", "cxcywh")[0].tolist()
    [[20.0, 40.0, 20.0, 40.0]]
    """
    width = width_of(old_format, "old_format")
    width_of(new_format, "new_format")
    if (old_format in UPRIGHT) != (new_format in UPRIGHT):
        raise ValueError(f'"{old_format}" boxes cannot become "{new_format}" ones: one is upright, the other rotated')
    rows = rows_of(boxes, len(boxes), width, "boxes")
    return rows.like(from_corners(to_corners(rows.flat, old_format), new_format).astype(rows.dtype))


def _canvases(canvas_size: Any, n: int) -> Ints:
    """Return heights and widths (N, 2), checked, or those of the results of a batch."""
    if isinstance(canvas_size, Batch):
        canvas_size = canvas_size.sizes
    return arguments.sizes(canvas_size, n, "canvas_size")


@of_targets
def clamp_bounding_boxes(boxes: TablePerImage, canvas_size: Batch | Size, *, format: BoxFormat = "xyxy") -> AsPassed:
    """Clip bounding boxes at the borders of their images, so that none extends beyond.

    Notes
    -----
    A rotated box keeps its angle and becomes the smallest box around its visible part. torchvision's soft mode does the
    same, but leaves some boxes larger than necessary.

    Examples
    --------
    >>> gpuimg.clamp_bounding_boxes([[(-5, 10, 30, 60)]], (40, 20))[0].tolist()
    [[0.0, 10.0, 20.0, 40.0]]
    """
    rows = rows_of(boxes, len(boxes), width_of(format), "boxes")
    limit = _canvases(canvas_size, len(boxes))[rows.owner][:, ::-1].astype(np.float64)
    corners = to_corners(rows.flat, format)
    cut = np.clip(corners, 0.0, limit[:, None]) if format in UPRIGHT else cut_at(corners, limit)
    return rows.like(from_corners(cut, format).astype(rows.dtype))


@of_targets
def sanitize_bounding_boxes(
    boxes: TablePerImage,
    canvas_size: Batch | Size,
    *,
    format: BoxFormat = "xyxy",
    min_size: float = 1.0,
    min_area: float = 1.0,
) -> tuple[list[NDArray[Any]], AsPassed]:
    """Remove bounding boxes that are too small or extend beyond their images, and report which remain.

    Parameters
    ----------
    min_size, min_area : float
        Smallest width and height in pixels, and smallest area in square pixels; at least 0.

    Returns
    -------
    boxes : list of (L, D) arrays
        The remaining boxes of each image.
    valid : (N, K) bool array or list of (K,) bool arrays
        True for the boxes that remain, in the form passed; also selects their labels.

    Examples
    --------
    >>> kept, valid = gpuimg.sanitize_bounding_boxes([[(0, 0, 10, 10), (3, 3, 3.5, 9)]], (40, 20))
    >>> kept[0].tolist(), valid[0].tolist()
    ([[0.0, 0.0, 10.0, 10.0]], [True, False])
    """
    rows = rows_of(boxes, len(boxes), width_of(format), "boxes")
    least, area = arguments.number(min_size, "min_size", low=0.0), arguments.number(min_area, "min_area", low=0.0)
    limit = _canvases(canvas_size, len(boxes))[rows.owner][:, ::-1]
    corners = to_corners(rows.flat, format)
    if format in UPRIGHT:
        wide, high = (corners[:, 2] - corners[:, 0]).T  # negative for a box that ends before it starts
    else:
        wide, high = (np.hypot(*(corners[:, k + 1] - corners[:, k]).T) for k in (0, 1))
    inside = np.all((corners >= 0.0) & (corners <= limit[:, None]), (1, 2))
    valid = inside & (wide >= least) & (high >= least) & (wide * high >= area)
    return rows.select(rows.flat.astype(rows.dtype), valid), rows.like(valid)


@of_targets
def clamp_keypoints(points: TablePerImage, canvas_size: Batch | Size) -> AsPassed:
    """Clip points to their images: move those outside to the nearest pixel inside.

    Results have x from 0 to ``width - 1`` and y from 0 to ``height - 1``, as in torchvision.

    Examples
    --------
    >>> gpuimg.clamp_keypoints([[(-5, 10), (30, 60)]], (40, 20))[0].tolist()
    [[0.0, 10.0], [19.0, 39.0]]
    """
    rows = rows_of(points, len(points), 2, "points")
    limit = _canvases(canvas_size, len(points))[rows.owner][:, ::-1]
    return rows.like(np.clip(rows.flat, 0.0, limit - 1.0).astype(rows.dtype))


@of_targets
def sanitize_keypoints(points: TablePerImage, canvas_size: Batch | Size) -> tuple[list[NDArray[Any]], AsPassed]:
    """Remove points that lie outside their images, and report which remain.

    Returns
    -------
    points : list of (L, 2) arrays
        The remaining points of each image.
    valid : (N, K) bool array or list of (K,) bool arrays
        True for the points that remain, in the form passed; also selects their labels.

    Examples
    --------
    >>> gpuimg.sanitize_keypoints([[(-5, 10), (3, 6)]], (40, 20))[0][0].tolist()
    [[3.0, 6.0]]
    """
    rows = rows_of(points, len(points), 2, "points")
    limit = _canvases(canvas_size, len(points))[rows.owner][:, ::-1]
    valid = np.all((rows.flat >= 0.0) & (rows.flat < limit), 1)
    return rows.select(rows.flat.astype(rows.dtype), valid), rows.like(valid)
