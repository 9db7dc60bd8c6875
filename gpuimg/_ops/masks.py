"""Masks and other images that follow the geometry recorded in a batch, and boxes around masks."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np

from .._batch.batch import Batch, Images, recording_of
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.docstrings import of_targets
from .._checks.text import counted
from .._checks.types import AsPassed, Ints, Mask, MaskPerImage
from .._data.images import EncodedImages
from .._decoding.decoder import MAX_PIXELS
from .._decoding.pillow import decode_labels
from .._io.file_bytes import MAX_BYTES, read, source_name
from .._plan.plan import evolve
from .._runtimes.devices import native, to_host
from .._threads.helpers import each_side_by_side
from .._threads.threads import threads
from ..errors import ImageError
from ..kernels import layout
from .following import followed, unread_images

__all__ = ["masks_to_boxes", "transform_images", "transform_masks"]

_FILLED = 1e30  # value of filled pixels, far above any label
_BITS = 24  # masks of objects that are transformed together, as the bits of a label that float32 holds


@of_targets
def transform_masks(images: Batch, masks: MaskPerImage, *, fill: int = 0) -> AsPassed:
    """Apply the geometry of a batch to segmentation masks: maps of labels, or a mask for each object.

    Masks are sampled by nearest neighbor.

    Parameters
    ----------
    masks : list of (H, W) or (K, H, W) arrays, or (N, H, W) or (N, K, H, W) array
        Integer or boolean labels from -2**24 to 2**24, or with K a mask of 0 and 1 for each of K objects, which may
        overlap. Masks have one dtype, and each has the size of its source image; a last axis of length 1 is allowed for
        labels. NumPy or CuPy arrays; results are on the device of the masks. Or a list of paths or file bytes of label
        images of one channel, as PNG: of files with a palette the labels are the indices. A bad file, or a mask of
        another size than its image, is an :class:`ImageError`. An image that could not be read needs none: None.
    fill : int
        Label of the pixels around a rotated, padded or shifted image; 0 or 1 for masks of objects. The fill of the
        images is not used.

    Returns
    -------
    (N, h, w) array or list of (h, w) arrays
        Masks with the dtype passed and the sizes of ``images``; a list if the sizes differ. Masks of objects are a list
        of (K, h, w) arrays, or an (N, K, h, w) array if they were passed as an array and the sizes do not differ.

    Notes
    -----
    Where the images repeat their edge (``fill=None``, ``padding_mode="edge"``) the masks do too. Erasing an image does
    not change its mask. The mask of an image that could not be read is 0.

    Masks after crops, flips and pads equal torchvision's. After resizes they differ: torchvision's ``NEAREST`` shifts
    masks against the images by half a pixel of the result; ``NEAREST_EXACT``, used here, does not. Both agree when
    enlarging by whole factors. After :func:`rotate`, :func:`affine` and :func:`perspective` single pixels may differ,
    where a position lies halfway between two source pixels; with ``fill=None`` torchvision fills with 0.

    Up to 24 masks of objects cost as much as one label mask, and their conversion.

    Examples
    --------
    >>> x = gpuimg.horizontal_flip(np.zeros((1, 1, 3, 3), np.uint8))
    >>> gpuimg.transform_masks(x, np.array([[[0, 7, 9]]])).tolist()
    [[[9, 7, 0]]]
    >>> gpuimg.transform_masks(x, [np.array([[[0, 1, 1]], [[1, 1, 0]]])])[0].tolist()
    [[[1, 1, 0]], [[0, 1, 1]]]
    """
    recording = followed(images)
    labels, of_objects = _masks(masks, recording)
    dtype = labels[0].dtype if len(labels) else np.dtype("uint8")
    limits = np.iinfo(dtype) if dtype.kind in "iu" and not of_objects else None
    if not (isinstance(fill, (int, np.integer)) and (limits.min <= fill <= limits.max if limits else 0 <= fill <= 1)):
        wanted = "0 or 1 for masks of objects" if of_objects else f"a label that {dtype} holds"
        raise ValueError(f"fill must be {wanted}, not {fill!r}")
    if not len(recording):
        shape: tuple[int, ...] = getattr(masks, "shape", ())
        objects = shape[1:2] if len(shape) == 4 and shape[3] != 1 else ()
        return np.zeros((0, *objects, *recording.plan.first_size), dtype)
    if of_objects:
        found = _moved_objects(recording, labels, fill)
        return np.stack(found) if hasattr(masks, "ndim") and images.is_uniform else found
    # Kernels read bytes as multiples of 1/255, and float32 values unchanged.
    scale = 255.0 if dtype.itemsize == 1 and dtype.kind != "i" else 1.0
    source = [_as_source(mask, scale) for mask in labels] if isinstance(labels, list) else _as_source(labels, scale)
    moved = _geometry_of(recording, source)

    def as_labels(values: Any) -> Any:
        seen = values < _FILLED / 1e10
        result = (values * seen * scale).round().astype(dtype)[..., 0]
        result[~seen[..., 0]] = fill
        return result

    if images.is_uniform:
        return as_labels(moved.array("float32"))
    return [as_labels(image) for image in moved.compute("float32")]


@of_targets
def transform_images(
    images: Batch, others: Images, *, interpolation: Literal["nearest"] | None = None, fill: float = 0.0
) -> Batch:
    """Apply the geometry of a batch to other images of the same sizes, such as depth maps.

    Parameters
    ----------
    others : Batch, (N, H, W, C) array or list of (H, W, C) arrays, uint8, uint16 or float32
        An image for each of ``images``, of the size of its source; ``gpuimg.open_batch(paths, color="gray",
        depth="native")`` opens depth maps of 16 bits.
    interpolation : {"nearest"}, optional
        Take the nearest pixel, for values that must not be mixed. None samples them as ``images``.
    fill : float
        Value of the pixels around a rotated, padded or shifted image, as it is stored. The fill of the images is not
        used.

    Returns
    -------
    Batch
        N images of the sizes of ``images``, with the channels and dtype of ``others``. Colors, blurs and erased
        rectangles of ``images`` are not applied.

    Examples
    --------
    >>> x = gpuimg.horizontal_flip(gpuimg.adjust_brightness(np.zeros((1, 1, 3, 3), np.uint8), 2.0))
    >>> depth = np.array([[[[0], [500], [9000]]]], np.uint16)
    >>> gpuimg.transform_images(x, depth).array().ravel().tolist()
    [9000, 500, 0]
    """
    recording, other = followed(images), recording_of(others)
    if len(other) != len(recording):
        raise ValueError(
            f"got {counted(len(other), 'other image')} for {counted(len(recording), 'image')}; each needs one"
        )
    if interpolation is not None:
        arguments.one_of(interpolation, "interpolation", ("nearest",))
    unlike = np.any(recording.source.sizes != other.sizes, 1) & ~unread_images(recording)
    if (i := other.refused(unlike)) is not None:
        size, source = ("{} x {}".format(*sizes[i].tolist()) for sizes in (other.sizes, recording.source.sizes))
        named = (
            f"others[{i}]" if not isinstance(other.source, EncodedImages) else f"others[{i}] ({other.source.names[i]})"
        )
        raise ImageError(i, f"{named} is {size}, but its source image is {source}; resize it before")
    color = arguments.number(fill, "fill") * other.unit
    moved = [
        plan.geometry(color, channels=other.channels, of_bytes=other.plan.of_bytes, nearest=interpolation is not None)
        for plan in recording.segments
    ]
    result = other.with_segments((*other.segments, *(plan for plan in moved if not plan.changes_nothing)))
    return Batch(result.with_plan(evolve(result.plan, empty_size=recording.plan.empty_size)))


def _geometry_of(recording: Recording, source: Any, rows: Ints | None = None) -> Batch:
    """Record the geometry of a batch, or of its images ``rows``, on one-channel images."""
    segments = [plan.geometry(_FILLED) for plan in recording.segments]
    if rows is not None:
        segments = [plan.take(rows) for plan in segments]
    return Batch(recording_of(source).with_segments(tuple(plan for plan in segments if not plan.changes_nothing)))


def _moved_objects(recording: Recording, masks: list[Any], fill: int) -> list[Any]:
    """Transform stacks of masks, (K, H, W) for each image: of each stack, ``_BITS`` at a time as bits of labels."""
    parts = [-(-len(stack) // _BITS) for stack in masks]
    source = [_packed(stack[k : k + _BITS]) for stack in masks for k in range(0, len(stack), _BITS)]
    owner = np.repeat(np.arange(len(recording)), parts)
    images = iter(_geometry_of(recording, source, owner).compute("float32") if source else ())
    result = []
    for stack, (height, width) in zip(masks, recording.sizes.tolist(), strict=True):
        moved = np.empty_like(stack, shape=(len(stack), height, width))
        for first in range(0, len(stack), _BITS):
            _unpack(next(images)[..., 0], moved[first : first + _BITS], fill)
        result.append(moved)
    return result


def _packed(stack: Any) -> Any:
    """Return masks of 0 and 1 as the bits of one float32 image of one channel."""
    result = np.zeros_like(stack[0], dtype="float32")
    for first in range(0, len(stack), 8):
        byte = stack[first].astype("uint8")
        for k, mask in enumerate(stack[first + 1 : first + 8], 1):
            byte |= mask.astype("uint8") << k
        result += byte.astype("float32") * float(1 << first)
    return result[..., None]


def _unpack(values: Any, masks: Any, fill: int) -> None:
    """Write the bits of a label image (H, W) to masks (K, H, W), and ``fill`` where it is filled."""
    filled = values >= _FILLED / 1e10
    bits = (values * ~filled).astype("int32")
    for first in range(0, len(masks), 8):
        byte = (bits >> first).astype("uint8")
        for k, mask in enumerate(masks[first : first + 8]):
            mask[:] = (byte & (1 << k)) != 0
            if fill:
                mask[filled] = fill


def _as_source(mask: Any, scale: float) -> Any:
    """Return a mask as a one-channel image: unsigned bytes as they are, other labels as float32."""
    return (mask.view("uint8") if scale == 255.0 else mask.astype("float32"))[..., None]


def _masks(masks: Any, recording: Recording) -> tuple[Any, bool]:
    """Check masks; return one (N, H, W) array or a list of (H, W) arrays and False, or (K, H, W) arrays and True."""
    stacked = not isinstance(masks, (list, tuple, Batch))
    unread = unread_images(recording)
    arrays: Any = native(masks) if stacked else _opened(masks, unread)
    if stacked and (not hasattr(arrays, "ndim") or arrays.ndim not in (3, 4)):
        raise TypeError(f"masks must be a list of (H, W) arrays or one (N, H, W) array, not {_kind(arrays)}")
    if len(arrays) != len(recording):
        raise ValueError(f"got {counted(len(arrays), 'mask')} for {counted(len(recording), 'image')}; each needs one")
    found, of_objects = [], []
    for i, (mask, size) in enumerate(zip(arrays, recording.source.sizes.tolist(), strict=True)):
        if not hasattr(mask, "dtype") or mask.dtype.kind not in "iub":
            raise TypeError(f"masks[{i}] must be an integer or boolean array, not {_kind(mask)}")
        if mask.dtype != arrays[0].dtype:
            raise TypeError(f"masks must have one dtype, but masks[0] is {arrays[0].dtype} and masks[{i}] {mask.dtype}")
        try:
            found.append(_checked(mask, size, _named(masks, i), bool(unread[i])))
        except ValueError as error:
            raise ImageError(i, str(error)) from None
        of_objects.append(found[-1].ndim == 3)
        if of_objects[-1] != of_objects[0]:
            raise ValueError(f"masks must all be (H, W) or all (K, H, W), but masks[0] and masks[{i}] differ")
    if any(of_objects):
        return found, True
    return (arrays.reshape(arrays.shape[:3]) if stacked and not unread.any() else found), False


def _checked(mask: Any, size: list[int], name: str, unread: bool) -> Any:
    """Return a mask (H, W) or (K, H, W); (1, 1) or (K, 1, 1) zeros for an image that could not be read."""
    shape = list(mask.shape)
    if len(shape) not in (2, 3):
        raise ValueError(f"{name} must have shape (H, W) or (K, H, W), not {tuple(shape)}")
    is_map = len(shape) == 2 or (shape[2] == 1 and (shape[:2] == size or unread))
    least, most = (-layout.EXACT, layout.EXACT) if is_map else (0, 1)
    if (mask.dtype.itemsize > 2 or not is_map) and mask.size and not (mask.min() >= least and mask.max() <= most):
        kind = "labels" if is_map else "for masks of objects (K, H, W) values"
        raise ValueError(f"{name} must have {kind} from {least} to {most}, not {int(mask.min())} to {int(mask.max())}")
    if unread:
        return np.zeros_like(mask, shape=(1, 1) if is_map else (len(mask), 1, 1))
    if shape[:2] != size if is_map else shape[1:] != size:
        of = "" if is_map else f", of shape {tuple(shape)},"
        height, width = shape[:2] if is_map else shape[1:]
        raise ValueError(f"{name}{of} is {height} x {width}, but its source image is {size[0]} x {size[1]}")
    return mask.reshape(size) if is_map else mask


def _named(masks: Any, i: int) -> str:
    """Return what a mask is called in messages: by its position, and its path if it has one."""
    return f"masks[{i}] ({source_name(masks[i])})" if isinstance(masks[i], (str, os.PathLike)) else f"masks[{i}]"


def _opened(masks: Any, unread: Mask) -> list[Any]:
    """Return masks as arrays; decode those that are files. An image that could not be read needs none."""
    found = list(masks)
    files = [i for i, mask in enumerate(found) if isinstance(mask, (str, bytes, os.PathLike))]
    missing = [i for i in np.flatnonzero(unread[: len(found)]).tolist() if found[i] is None or i in files]

    def work(i: int) -> None:
        try:
            found[i] = decode_labels(read(found[i], MAX_BYTES), MAX_PIXELS)
        except (ValueError, OSError) as error:
            raise ImageError(i, f"{_named(masks, i)}: {getattr(error, 'strerror', None) or error}") from error

    files = [i for i in files if i not in missing]
    each_side_by_side(work, files, min(threads(), len(files)))
    arrays = [np.asarray(one) if type(one).__module__.startswith("PIL.") else native(one) for one in found]
    known = [one for i, one in enumerate(arrays) if i not in missing and hasattr(one, "dtype")]
    for i in missing:
        arrays[i] = np.zeros_like(known[0], shape=(1,) * known[0].ndim) if known else np.zeros((1, 1), np.uint8)
    return arrays


def _kind(value: Any) -> str:
    """Describe an argument for an error message: dtype and shape, or the type."""
    if not hasattr(value, "dtype"):
        return type(value).__name__
    return f"{value.dtype} of shape {tuple(value.shape)}" if hasattr(value, "shape") else str(value.dtype)


@of_targets
def masks_to_boxes(masks: MaskPerImage) -> tuple[AsPassed, AsPassed]:
    """Find the bounding box of each object's mask, and report which masks have any pixel.

    Parameters
    ----------
    masks : list of (K, H, W) arrays or (N, K, H, W) array
        A mask for each object: 0 is outside.

    Returns
    -------
    boxes : (N, K, 4) array or list of (K, 4) arrays
        float32 ``x0, y0, x1, y1`` in pixels, as :func:`transform_boxes` takes them; 0 for an empty mask.
    kept : (N, K) bool array or list of (K,) bool arrays
        True for masks with a pixel.

    Notes
    -----
    ``x1`` and ``y1`` lie after the last pixel: a mask of one pixel has a box of 1 x 1. In torchvision's
    ``masks_to_boxes`` they are the last pixel's index, 1 less.

    Examples
    --------
    >>> boxes, kept = gpuimg.masks_to_boxes([np.array([[[0, 1, 1]], [[0, 0, 0]]])])
    >>> boxes[0].tolist(), kept[0].tolist()
    ([[1.0, 0.0, 3.0, 1.0], [0.0, 0.0, 0.0, 0.0]], [True, False])
    """
    boxes, kept = [], []
    stacks: Any = masks
    for i, mask in enumerate(stacks):
        stack = native(mask)
        if getattr(stack, "ndim", 0) != 3:
            raise ValueError(f"masks[{i}] must have shape (K, H, W), not {_kind(stack)}")
        columns, rows = to_host(stack.any(1)), to_host(stack.any(2))
        ends = [columns.argmax(1), rows.argmax(1)]
        ends += [each.shape[1] - each[:, ::-1].argmax(1) for each in (columns, rows)]
        kept.append(columns.any(1))
        boxes.append((np.stack(ends, 1) * kept[-1][:, None]).astype("float32"))
    if hasattr(masks, "ndim") and boxes:
        return np.stack(boxes), np.stack(kept)
    return boxes, kept
