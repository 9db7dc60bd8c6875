"""Masks that follow the geometry recorded in a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._batch.batch import Batch, recording_of
from .._batch.recording import Recording
from .._checks.text import counted
from .._checks.types import AsPassed, MaskPerImage
from .._runtimes.devices import native
from ..kernels import layout
from .following import unread_images

_FILLED = 1e30  # value of filled pixels, far above any label


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
    unread = unread_images(batch)
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


def _kind(value: Any) -> str:
    """Describe an argument for an error message: dtype and shape, or the type."""
    if not hasattr(value, "dtype"):
        return type(value).__name__
    return f"{value.dtype} of shape {tuple(value.shape)}" if hasattr(value, "shape") else str(value.dtype)
