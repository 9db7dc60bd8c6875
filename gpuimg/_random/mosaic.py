"""Mosaics of four images for detection, with boxes, labels and masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._batch.batch import Batch, Images, as_batch, recording_of
from .._checks import arguments, docstrings
from .._checks.docstrings import of_targets
from .._checks.types import (
    AsPassed,
    BoxFormat,
    Color,
    Floats,
    Ints,
    Mask,
    MaskPerImage,
    Range,
    Size,
    Table,
    TablePerImage,
)
from .._data.images import rows_of
from .._ops.letterbox import fitting
from .._ops.masks import transform_masks
from .._ops.resize_crop import center_crop, crop, pad, resize
from .._ops.targets import transform_boxes
from .mixing import blend
from .rng import Rng, as_rng

__all__ = ["mosaic"]

_TILES = 4  # top left, top right, bottom left, bottom right


class Mosaic(NamedTuple):
    """Mosaics of images, and methods to move boxes, labels and masks into them. For clips, N is the number of clips.

    Attributes
    ----------
    images : Batch
        float32 images.
    shown : (N, 4) int64
        Indices of the images, or clips, that each mosaic shows top left, top right, bottom left and bottom right.
    corners : (N, 2) int64
        x and y, in pixels, of the point at which the four images meet.
    tiles : Batch
        The images at their positions in the mosaics: those top left of all mosaics, then those top right, and so on.
        They serve to transform targets; their pixels are not computed.
    """

    images: Batch
    shown: Ints
    corners: Ints
    tiles: Batch

    @of_targets
    def boxes(
        self, boxes: TablePerImage, *, format: BoxFormat = "xyxy", min_area: float = 0.0
    ) -> tuple[list[np.ndarray[Any, Any]], list[Mask]]:
        """Move bounding boxes into the mosaics.

        Parameters
        ----------
        boxes : (N, K, 4) array or list of (K, 4) arrays
            Boxes in pixels of the source images, as for :func:`gpuimg.transform_boxes`.
        format : {"xyxy", "xywh", "cxcywh", "xyxyxyxy", "xywhr", "cxcywhr"}
            What the numbers of a box are, as in :func:`gpuimg.convert_bounding_box_format`.
        min_area : float
            A box counts as visible if more than this area of it is, in square pixels of the result; at least 0.

        Returns
        -------
        boxes : list of (L, 4) arrays
            Boxes of each mosaic: those of its four images, concatenated.
        kept : list of (L,) bool arrays
            True for visible boxes.
        """
        parts = self._for_tiles(boxes, "boxes")
        moved, kept = transform_boxes(self.tiles, parts, format=format, min_area=min_area)
        return self._concatenated(moved), self._concatenated(kept)

    @of_targets
    def labels(self, labels: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Arrange labels in the order of the boxes of the mosaics.

        Parameters
        ----------
        labels : list of (K, ...) arrays
            One row, for example a class, for each box of each source image.

        Returns
        -------
        list of (L, ...) arrays
        """
        return self._concatenated([np.asarray(part) for part in self._for_tiles(labels, "labels")])

    @of_targets
    def masks(self, masks: MaskPerImage, *, fill: int = 0) -> AsPassed:
        """Arrange label masks, or masks of objects, like the images.

        Parameters
        ----------
        masks : list of (H, W) or (K, H, W) arrays, or (N, H, W) or (N, K, H, W) array
            Masks of the source images, as for :func:`gpuimg.transform_masks`.
        fill : int
            Label of the pixels around the images; 0 for masks of objects.

        Returns
        -------
        (N, h, w) array or list of (L, h, w) arrays
            Masks of objects are in the order of the boxes: those of the four images of a mosaic, concatenated. Objects
            outside the mosaic have empty masks: :func:`gpuimg.masks_to_boxes` reports them.
        """
        n = len(self.images)
        corners = np.repeat(self.corners, self.images.frames or 1, 0)
        quadrants = np.concatenate([_quadrants(corners, self.images.sizes, tile) for tile in range(_TILES)])
        left, top, right, bottom = quadrants.T
        shown = crop(self.tiles, top, left, bottom - top, right - left)
        parts = transform_masks(shown, self._for_tiles(masks, "masks"), fill=fill)
        if not n:
            return parts
        if parts[0].ndim == 3 and fill:
            raise ValueError(f"fill must be 0 for masks of objects, not {fill}")
        found = [_assembled(parts[i::n], quadrants[i::n], size) for i, size in enumerate(self.images.sizes.tolist())]
        return np.stack(found) if found[0].ndim == 2 and self.images.is_uniform else found

    def _for_tiles(self, each: Any, name: str) -> list[Any]:
        """Return the items of ``each``, one for each source image, in the order of the tiles."""
        if len(each) != len(self.images):
            raise ValueError(f"got {name} for {len(each)} images, but the batch has {len(self.images)}")
        return [each[i] for i in rows_of(self.shown.T.reshape(-1), self.images.frames).tolist()]

    def _concatenated(self, parts: Any) -> list[np.ndarray[Any, Any]]:
        """Concatenate the parts of the four tiles of each mosaic."""
        n = len(self.images)
        return [np.concatenate([parts[tile * n + i] for tile in range(_TILES)]) for i in range(n)]


@docstrings.of_images
def mosaic(
    images: Images,
    size: Size,
    center: Range = (0.25, 0.75),
    fill: Color = 0,
    *,
    rng: Rng | int,
    partner: Table | None = None,
) -> Mosaic:
    """Combine four images around a random point, with their boxes, labels and masks, as YOLO does.

    Computed immediately in float32. Images may differ in size; each is at most as large as half of the result.

    Parameters
    ----------
    size : int or (height, width)
        Size of the results in pixels, at least 2. One number sets both.
    center : (low, high)
        Range of the point at which the images meet, as a fraction of both sides, 0 to 1.
    fill : number, tuple of C, or (N,) or (N, C) array
        Color around the images, in the unit of the images.
    partner : (N, 3) int, optional
        Indices of the other images. None is the three previous images in the batch.

    Returns
    -------
    Mosaic
        Mosaic ``i`` shows image ``i`` and its partners in random order.

    Notes
    -----
    Images keep their aspect ratio: they are resized to fit into half of the height and width, and cropped where their
    quadrant of the result is smaller. Random affine transforms and crops of the result are separate calls; YOLO
    creates mosaics of twice its image size and then crops them.

    References
    ----------
    Bochkovskiy, Wang, Liao: "YOLOv4: Optimal speed and accuracy of object detection", arXiv:2004.10934, 2020.

    Examples
    --------
    >>> x = [np.zeros((20, 30, 3), np.uint8), np.zeros((30, 20, 3), np.uint8)]
    >>> y = gpuimg.mosaic(x, 64, rng=0)
    >>> boxes, kept = y.boxes([[(0, 0, 10, 10)], [(5, 5, 20, 30), (0, 0, 3, 3)]])
    >>> y.images.array().shape, [len(each) for each in boxes]
    ((2, 64, 64, 3), [6, 6])
    """
    batch = as_batch(images)
    n = recording_of(batch).units
    generator = as_rng(rng, n, "mosaic")
    low, high = arguments.low_high(center, "center", low=0.0, high=1.0)
    shown = _shown(partner, n)[np.arange(n)[:, None], generator.permutation(_TILES)]
    canvas = arguments.sizes(size, recording_of(batch).image_count)
    if np.any(canvas < 2):
        raise ValueError(f"size must be at least 2, not {size!r}")
    limit = canvas[:: batch.frames or 1, ::-1]
    corners = np.clip(np.round((low + (high - low) * generator.units(2)) * limit), 1, limit - 1).astype(np.int64)
    color = arguments.color(fill, recording_of(batch).image_count, batch.channels, recording_of(batch).unit)
    small = resize(batch, fitting(batch.sizes, canvas // 2))
    tiles = _placed(small.take(shown.T.reshape(-1)), corners, canvas, color, range(_TILES))
    mixed = small.compute("float32")
    result = _placed(mixed.take(shown[:, 0]), corners, canvas, color, [0])
    every = np.repeat(corners, batch.frames or 1, 0)
    for tile in range(1, _TILES):
        other = _placed(mixed.take(shown[:, tile]), corners, canvas, color, [tile])
        result = blend(result, other, 1.0, rectangle=_quadrants(every, canvas, tile))
    return Mosaic(result if n else center_crop(result, size), shown, corners, tiles)


def _assembled(parts: Any, quadrants: Ints, size: list[int]) -> Any:
    """Return the masks of a mosaic from those of its quadrants: (h, w), or (L, h, w) for masks of objects."""
    of_objects = parts[0].ndim == 3
    canvas = np.zeros_like(parts[0], shape=(sum(map(len, parts)), *size) if of_objects else size)
    start = 0
    for part, (x0, y0, x1, y1) in zip(parts, quadrants.tolist(), strict=True):
        own = canvas[start : start + len(part)] if of_objects else canvas
        own[..., y0:y1, x0:x1] = part
        start += len(part)
    return canvas


def _shown(partner: Any, n: int) -> Ints:
    """Return indices (N, 4) of images and their partners."""
    own = np.arange(n)[:, None]
    if partner is None:
        return (own - np.arange(_TILES)) % max(n, 1)
    others = np.asarray(partner)
    if others.shape != (n, _TILES - 1):
        raise ValueError(f"partner must have shape ({n}, {_TILES - 1}), not {others.shape}")
    parts = [arguments.integers(others[:, k], n, "partner", low=0, high=n - 1) for k in range(_TILES - 1)]
    return np.stack([own[:, 0], *parts], 1)


def _placed(images: Batch, corners: Ints, canvas: Ints, color: Floats, tiles: Sequence[int]) -> Batch:
    """Pad images to canvases, at the positions of their tiles; ``images`` holds those of each tile in turn."""
    count = len(tiles)
    tile = np.repeat(tiles, len(canvas))
    corner = np.tile(np.repeat(corners, images.frames or 1, 0), (count, 1))
    size, limit = images.sizes[:, ::-1], np.tile(canvas[:, ::-1], (count, 1))
    start = corner - size * np.stack([tile % 2 == 0, tile < 2], 1)
    fill = color[:, : images.channels] if images.channels == 3 else color[:, :1]
    return pad(
        images, np.concatenate([start, limit - start - size], 1), np.tile(fill, (count, 1)) / recording_of(images).unit
    )


def _quadrants(corners: Ints, canvas: Ints, tile: int) -> Ints:
    """Return the rectangles (N, 4), x0 y0 x1 y1, that a tile fills."""
    x, y = corners.T
    zero = np.zeros_like(x)
    left, right = (zero, x) if tile % 2 == 0 else (x, canvas[:, 1])
    top, bottom = (zero, y) if tile < 2 else (y, canvas[:, 0])
    return np.stack([left, top, right, bottom], 1)
