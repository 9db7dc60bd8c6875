"""Key points with visibility, which follow the geometry recorded in a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._batch.batch import Batch
from .._checks import arguments
from .._checks.docstrings import of_targets
from .._checks.types import AsPassed, Indices, Ints, KeypointsPerImage
from .following import THIN, followed, mirrored, move_points
from .rows import rows_of

_COLUMNS = 3  # x, y, visibility


@of_targets
def transform_keypoints(
    images: Batch, keypoints: KeypointsPerImage, *, pixel_indices: bool = False, flip_indices: Indices | None = None
) -> AsPassed:
    """Transform key points like the images of a batch, and mark those that are no longer in the image.

    Parameters
    ----------
    keypoints : (N, K, P, 3) array or list of (K, P, 3) arrays
        P points for each of K objects of an image: ``x`` and ``y`` in pixels of the source images, and the visibility
        of COCO: 0 not labeled, 1 hidden, 2 visible.
    pixel_indices : bool
        As in :func:`transform_points`. COCO's key points are pixel indices.
    flip_indices : (P,) int, optional
        The point that each becomes in a mirrored image: left and right eye exchange their places, for example.

    Returns
    -------
    (N, K, P, 3) array or list of (K, P, 3) arrays
        In the form passed; float32 if the key points were, else float64. Points outside the result, or in a part that
        a crop removed, have visibility 0. All points of visibility 0 have ``x`` and ``y`` 0, as in COCO.

    Notes
    -----
    A point on the border of the image counts as inside. An image is mirrored if its geometry as a whole reverses
    orientation: one flip does, two flips or a rotation by 180 degrees do not.

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
    batch = followed(images)
    flat, count = _flattened(keypoints)
    rows = rows_of(flat, len(batch), _COLUMNS, "keypoints")
    if not np.isin(rows.flat[:, 2], (0.0, 1.0, 2.0)).all():
        raise ValueError("the visibility of keypoints, the third number, must be 0, 1 or 2")
    shift = 0.5 if arguments.flag(pixel_indices, "pixel_indices") else 0.0
    points, inside = move_points(batch, rows.flat[:, :2] + shift, rows.owner, border=THIN)
    seen = np.where(inside, rows.flat[:, 2], 0.0)[:, None]
    moved = np.where(seen > 0.0, np.concatenate([points - shift, seen], 1), 0.0)
    if flip_indices is not None and count:
        order = _permutation(flip_indices, count)
        objects = moved.reshape(-1, len(order), _COLUMNS)
        flipped = mirrored(batch)[rows.owner].reshape(-1, len(order), 1)
        moved = np.where(flipped, objects[:, order], objects).reshape(-1, _COLUMNS)
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


def _permutation(flip_indices: Any, count: int) -> Ints:
    order = np.asarray(flip_indices)
    if not np.array_equal(np.sort(order), np.arange(count)):
        raise ValueError(f"flip_indices must have the numbers 0 to {count - 1} once each, not {flip_indices!r}")
    return order.astype(np.int64)
