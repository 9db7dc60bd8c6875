"""Formats of bounding boxes, upright and rotated; boxes and points cut at the border of an image, or left out.

Rotated boxes are turned by ``r`` degrees, counter-clockwise, about their first corner (``xywhr``) or their center
(``cxcywhr``); ``xyxyxyxy`` is all four corners, clockwise as seen, from the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._batch.batch import Batch
from .._checks import arguments
from .._checks.types import AsPassed, BoxFormat, Floats, Ints, Mask, Size, TablePerImage
from .rows import Rows, rows_of

UPRIGHT = ("xyxy", "xywh", "cxcywh")
ROTATED = {"xyxyxyxy": 8, "xywhr": 5, "cxcywhr": 5}
_INSIDE = 1e-9  # of a side: a corner that lies on the border by all but rounding


def width_of(format: Any, name: str = "format") -> int:
    """How many numbers a box of a format has."""
    if format in UPRIGHT:
        return 4
    if not isinstance(format, str) or format not in ROTATED:
        known = ", ".join(f'"{one}"' for one in (*UPRIGHT, *ROTATED))
        raise ValueError(f"{name} must be one of {known}, not {format!r}")
    return ROTATED[format]


# -- upright -----------------------------------------------------------------------------------------------------------


def to_edges(rows: Floats, format: str) -> Floats:
    """Upright boxes (M, 4) as (x0, y0, x1, y1)."""
    if format == "xyxy":
        return rows
    size = rows[:, 2:]
    start = rows[:, :2] if format == "xywh" else rows[:, :2] - size / 2.0
    return np.concatenate([start, start + size], 1)


def from_edges(box: Floats, format: str) -> Floats:
    """Boxes (x0, y0, x1, y1) in an upright format."""
    if format == "xyxy":
        return box
    size = box[:, 2:] - box[:, :2]
    return np.concatenate([box[:, :2] if format == "xywh" else (box[:, :2] + box[:, 2:]) / 2.0, size], 1)


def corners_of(box: Floats) -> Floats:
    """Corners (M, 4, 2) of boxes (x0, y0, x1, y1), clockwise as seen."""
    return box[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)


# -- rotated -----------------------------------------------------------------------------------------------------------


def _axes(degrees: Floats) -> tuple[Floats, Floats]:
    """Unit vectors (M, 2) along the width and the height of boxes; y points down."""
    angle = np.deg2rad(degrees)
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([cos, -sin], 1), np.stack([sin, cos], 1)


def to_corners(rows: Floats, format: str) -> Floats:
    """Corners (M, 4, 2) of boxes in any format."""
    if format in UPRIGHT:
        return corners_of(to_edges(rows, format))
    if format == "xyxyxyxy":
        return rows.reshape(-1, 4, 2)
    along, down = _axes(rows[:, 4])
    wide, high = along * rows[:, 2:3], down * rows[:, 3:4]
    start = rows[:, :2] - (wide + high) / 2.0 if format == "cxcywhr" else rows[:, :2]
    return np.stack([start, start + wide, start + wide + high, start + high], 1)


def from_corners(corners: Floats, format: str) -> Floats:
    """Boxes in a rotated format by their corners, which for all but ``xyxyxyxy`` are those of a rectangle."""
    if format == "xyxyxyxy":
        return corners.reshape(-1, 8)
    first, second, third = corners[:, 0], corners[:, 1], corners[:, 2]
    wide, high = second - first, third - second
    angle = np.rad2deg(np.arctan2(-wide[:, 1], wide[:, 0]))
    place = first if format == "xywhr" else (first + third) / 2.0
    return np.concatenate([place, np.stack([np.hypot(*wide.T), np.hypot(*high.T), angle], 1)], 1)


def turned_right(corners: Floats) -> Floats:
    """The corners (M, 4, 2), clockwise also where a mirror turned them."""
    (ax, ay), (bx, by) = (corners[:, 1] - corners[:, 0]).T, (corners[:, 3] - corners[:, 0]).T
    mirrored = ax * by - ay * bx < 0.0
    return np.where(mirrored[:, None, None], corners[:, [1, 0, 3, 2]], corners)


def rectangle_of(corners: Floats) -> Floats:
    """The rectangle with the longer diagonal of each parallelogram (M, 4, 2), which shears make of rectangles.

    torchvision's ``_parallelogram_to_bounding_boxes``.
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
    """The smallest boxes of the same angles around what of rotated ones (M, 4, 2) lies in (M, 2) widths and heights.

    Boxes with nothing inside shrink to a point.
    """
    edges = corners_of(np.concatenate([np.zeros_like(limit), limit], 1))
    points = np.concatenate([corners, edges, _crossings(corners, edges)], 1)
    valid: Mask = _within(points, corners) & _within(points, edges)
    origin = corners[:, :1]
    points = np.where(valid[:, :, None], points, origin)
    axes = corners[:, [1, 3]] - origin
    length = np.maximum(np.sum(axes * axes, 2), np.finfo(np.float64).tiny)
    share = ((points - origin) @ axes.swapaxes(1, 2)) / length[:, None]  # (M, P, 2) along width and height
    low = np.where(valid[:, :, None], share, np.inf).min(1)
    high = np.where(valid[:, :, None], share, -np.inf).max(1)
    seen = np.any(valid, 1, keepdims=True)
    low, high = (np.where(seen, v, 0.0) for v in (low, high))
    low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    ends = np.stack([low, np.stack([high[:, 0], low[:, 1]], 1), high, np.stack([low[:, 0], high[:, 1]], 1)], 1)
    return np.asarray(origin + ends @ axes, np.float64)


def _crossings(one: Floats, other: Floats) -> Floats:
    """Where lines along the sides of two quadrilaterals cross: (M, 16, 2), NaN where they are parallel."""
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
    """(M, P): which points lie inside convex quadrilaterals (M, 4, 2), clockwise as seen."""
    sides = np.roll(corners, -1, 1) - corners
    away = points[:, :, None] - corners[:, None]
    with np.errstate(invalid="ignore"):
        area = sides[:, None, :, 0] * away[..., 1] - sides[:, None, :, 1] * away[..., 0]
        inside: Mask = np.all(area >= -_INSIDE * (1.0 + np.sum(sides * sides, 2))[:, None], 2)
    return inside


# -- functions ---------------------------------------------------------------------------------------------------------


def convert_bounding_box_format(boxes: TablePerImage, old_format: BoxFormat, new_format: BoxFormat) -> AsPassed:
    """Give boxes in another format.

    Parameters
    ----------
    boxes : (N, K, D) array or list of (K, D) arrays
        Boxes of each image.
    old_format, new_format : {"xyxy", "xywh", "cxcywh", "xyxyxyxy", "xywhr", "cxcywhr"}
        Two corners, the first corner with width and height, or the center with width and height; and rotated boxes,
        of 8 or 5 numbers: four corners, or a fifth number, the angle in degrees, counter-clockwise.

    Returns
    -------
    (N, K, D) array or list of (K, D) arrays
        In the form passed, float32 if they were, else float64.

    Raises
    ------
    ValueError
        For NaN, other shapes, an unknown format, or one format upright and the other rotated.

    References
    ----------
    torchvision ``transforms/v2/functional/_meta.py``, ``convert_bounding_box_format``.

    Examples
    --------
    >>> import gpuimg
    >>> gpuimg.convert_bounding_box_format([[(10, 20, 30, 60)]], "xyxy", "cxcywh")[0].tolist()
    [[20.0, 40.0, 20.0, 40.0]]
    """
    width = width_of(old_format, "old_format")
    width_of(new_format, "new_format")
    if (old_format in UPRIGHT) != (new_format in UPRIGHT):
        raise ValueError(f'"{old_format}" boxes cannot become "{new_format}" ones: one is upright, the other rotated')
    rows = rows_of(boxes, len(boxes), width, "boxes")
    return rows.like(_formatted(rows, to_corners(rows.flat, old_format), new_format))


def _formatted(rows: Rows, corners: Floats, format: str) -> Any:
    if format in UPRIGHT:
        return from_edges(corners[:, [0, 2]].reshape(-1, 4), format).astype(rows.dtype)
    return from_corners(corners, format).astype(rows.dtype)


def _canvases(canvas_size: Any, n: int) -> Ints:
    """(N, 2) heights and widths: of the results of a batch, or given."""
    if isinstance(canvas_size, Batch):
        canvas_size = canvas_size.sizes
    return arguments.sizes(canvas_size, n, "canvas_size")


def clamp_bounding_boxes(boxes: TablePerImage, canvas_size: Batch | Size, *, format: BoxFormat = "xyxy") -> AsPassed:
    """Cut boxes at the border of their images.

    Parameters
    ----------
    boxes : (N, K, D) array or list of (K, D) arrays
        Boxes of each image, in pixels.
    canvas_size : Batch, (height, width) or (N, 2) array
        Sizes of the images; of a batch, those of its results.
    format : {"xyxy", "xywh", "cxcywh", "xyxyxyxy", "xywhr", "cxcywhr"}
        As in :func:`convert_bounding_box_format`.

    Returns
    -------
    (N, K, D) array or list of (K, D) arrays
        In the form passed. A rotated box keeps its angle: it is the smallest one around the part inside the image.

    Raises
    ------
    ValueError
        For NaN, other shapes, or an unknown format.

    Notes
    -----
    torchvision's soft mode means the same for rotated boxes, but leaves parts of some that could be cut.

    References
    ----------
    torchvision ``transforms/v2/functional/_meta.py``, ``clamp_bounding_boxes``.

    Examples
    --------
    >>> import gpuimg
    >>> gpuimg.clamp_bounding_boxes([[(-5, 10, 30, 60)]], (40, 20))[0].tolist()
    [[0.0, 10.0, 20.0, 40.0]]
    """
    rows = rows_of(boxes, len(boxes), width_of(format), "boxes")
    limit = _canvases(canvas_size, len(boxes))[rows.owner][:, ::-1].astype(np.float64)
    if format in UPRIGHT:
        edges = np.clip(to_edges(rows.flat, format), 0.0, np.tile(limit, 2))
        return rows.like(from_edges(edges, format).astype(rows.dtype))
    return rows.like(_formatted(rows, cut_at(to_corners(rows.flat, format), limit), format))


def sanitize_bounding_boxes(
    boxes: TablePerImage,
    canvas_size: Batch | Size,
    *,
    format: BoxFormat = "xyxy",
    min_size: float = 1.0,
    min_area: float = 1.0,
) -> tuple[list[NDArray[Any]], AsPassed]:
    """Leave out boxes that are too small or reach beyond their images.

    Parameters
    ----------
    boxes : (N, K, D) array or list of (K, D) arrays
        Boxes of each image, in pixels.
    canvas_size : Batch, (height, width) or (N, 2) array
        Sizes of the images; of a batch, those of its results.
    format : {"xyxy", "xywh", "cxcywh", "xyxyxyxy", "xywhr", "cxcywhr"}
        As in :func:`convert_bounding_box_format`.
    min_size, min_area : float
        Least width and height, and least area, in pixels; at least 0.

    Returns
    -------
    boxes : list of (K, D) arrays
        The others, of each image.
    valid : (N, K) bool array or list of (K,) bool arrays
        Which they are, in the form passed: select their labels with it.

    Raises
    ------
    ValueError
        For NaN, other shapes, or an unknown format.

    References
    ----------
    torchvision ``transforms/v2/functional/_misc.py``, ``sanitize_bounding_boxes``.

    Examples
    --------
    >>> import gpuimg
    >>> kept, valid = gpuimg.sanitize_bounding_boxes([[(0, 0, 10, 10), (3, 3, 3.5, 9)]], (40, 20))
    >>> kept[0].tolist(), valid[0].tolist()
    ([[0.0, 0.0, 10.0, 10.0]], [True, False])
    """
    rows = rows_of(boxes, len(boxes), width_of(format), "boxes")
    least, area = (float(arguments.per_image(v, 1, name, low=0.0)[0]) for v, name in (
        (min_size, "min_size"), (min_area, "min_area")))  # fmt: skip
    limit = _canvases(canvas_size, len(boxes))[rows.owner][:, ::-1]
    corners = to_corners(rows.flat, format)
    if format in UPRIGHT:
        wide, high = (corners[:, 2] - corners[:, 0]).T  # below 0 for a box that ends before it starts
    else:
        wide, high = (np.hypot(*(corners[:, k + 1] - corners[:, k]).T) for k in (0, 1))
    inside = np.all((corners >= 0.0) & (corners <= limit[:, None]), (1, 2))
    valid = inside & (wide >= least) & (high >= least) & (wide * high >= area)
    return rows.chosen(rows.flat.astype(rows.dtype), valid), rows.like(valid)


def clamp_keypoints(points: TablePerImage, canvas_size: Batch | Size) -> AsPassed:
    """Move points outside their images to the nearest pixel inside.

    Parameters
    ----------
    points : (N, K, 2) array or list of (K, 2) arrays
        ``(x, y)`` of each image, in pixels.
    canvas_size : Batch, (height, width) or (N, 2) array
        Sizes of the images; of a batch, those of its results.

    Returns
    -------
    (N, K, 2) array or list of (K, 2) arrays
        In the form passed, from 0 to ``width - 1`` and ``height - 1``, as in torchvision.

    Raises
    ------
    ValueError
        For NaN or other shapes.

    References
    ----------
    torchvision ``transforms/v2/functional/_meta.py``, ``clamp_keypoints``.

    Examples
    --------
    >>> import gpuimg
    >>> gpuimg.clamp_keypoints([[(-5, 10), (30, 60)]], (40, 20))[0].tolist()
    [[0.0, 10.0], [19.0, 39.0]]
    """
    rows = rows_of(points, len(points), 2, "points")
    limit = _canvases(canvas_size, len(points))[rows.owner][:, ::-1]
    return rows.like(np.clip(rows.flat, 0.0, limit - 1.0).astype(rows.dtype))


def sanitize_keypoints(points: TablePerImage, canvas_size: Batch | Size) -> tuple[list[NDArray[Any]], AsPassed]:
    """Leave out points that lie outside their images.

    Parameters
    ----------
    points : (N, K, 2) array or list of (K, 2) arrays
        ``(x, y)`` of each image, in pixels.
    canvas_size : Batch, (height, width) or (N, 2) array
        Sizes of the images; of a batch, those of its results.

    Returns
    -------
    points : list of (K, 2) arrays
        The others, of each image.
    valid : (N, K) bool array or list of (K,) bool arrays
        Which they are, in the form passed: select their labels with it.

    Raises
    ------
    ValueError
        For NaN or other shapes.

    References
    ----------
    torchvision ``transforms/v2/functional/_misc.py``, ``sanitize_keypoints``.

    Examples
    --------
    >>> import gpuimg
    >>> gpuimg.sanitize_keypoints([[(-5, 10), (3, 6)]], (40, 20))[0][0].tolist()
    [[3.0, 6.0]]
    """
    rows = rows_of(points, len(points), 2, "points")
    limit = _canvases(canvas_size, len(points))[rows.owner][:, ::-1]
    valid = np.all((rows.flat >= 0.0) & (rows.flat < limit), 1)
    return rows.chosen(rows.flat.astype(rows.dtype), valid), rows.like(valid)
