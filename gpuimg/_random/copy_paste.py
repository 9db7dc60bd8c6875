"""Copy-paste for instance segmentation: objects of one image pasted onto another, with masks and boxes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._batch.batch import Batch, Images, as_batch, recording_of
from .._checks import arguments, docstrings
from .._checks.types import Floats, Ints, Mask, MaskPerImage, PerImage
from .._data.images import Pixels, offsets_of
from .._ops.masks import masks_to_boxes
from .._ops.resize_crop import resized_where
from ..errors import ImageError
from ..kernels import layout
from .mixing import odd_one_out
from .rng import Rng, as_rng

__all__ = ["copy_paste"]


class CopyPaste(NamedTuple):
    """Images with pasted objects, their masks and the origin of each object.

    Attributes
    ----------
    images : Batch
        float32 images.
    masks : (N, H, W) int32
        The object that each pixel shows, numbered from 1 within its image; 0 is background.
    objects : list of (K, 2) int64
        Origin of the K objects of each image: index of the source image, and label in its mask.
    """

    images: Batch
    masks: NDArray[np.int32]
    objects: list[Ints]

    def boxes(self) -> list[Floats]:
        """Return boxes around the visible parts of the objects.

        Returns
        -------
        list of (K, 4) float64
            ``x0, y0, x1, y1`` in pixels; every object has at least one pixel.
        """
        found = []
        for mask, each in zip(self.masks, self.objects, strict=True):
            stack = mask == np.arange(1, len(each) + 1)[:, None, None]
            found.append(masks_to_boxes([stack])[0][0].astype(np.float64))
        return found


@docstrings.of_images
def copy_paste(
    images: Images,
    masks: MaskPerImage,
    share: PerImage = 0.5,
    min_area: PerImage = 1.0,
    *,
    rng: Rng | int,
    partner: PerImage | None = None,
) -> CopyPaste:
    """Paste objects of another image onto each image, to train instance segmentation.

    Computed immediately in float32. Images have one size; clips are refused.

    Parameters
    ----------
    masks : (N, H, W) array or list of (H, W) arrays
        NumPy arrays of integers: the label of the object that each pixel shows, 0 for background. They match the
        images as passed: apply :func:`transform_masks` to masks of the source images first.
    share : float or (N,) float
        Probability, 0 to 1, that an object of the other image is pasted.
    min_area : float or (N,) float
        An image's own object becomes background if fewer pixels of it stay visible; at least 0.
    partner : (N,) int, optional
        Index of the image whose objects are pasted. None is the previous image in the batch, as in :func:`mixup`.

    Returns
    -------
    CopyPaste
        N images with the sizes and channels of the input, float32, and their masks.

    Notes
    -----
    Objects keep their position and are pasted with hard edges. The paper jitters the scale of images first
    (:func:`scale_jitter`, :func:`random_crop`).

    References
    ----------
    Ghiasi et al.: "Simple copy-paste is a strong data augmentation method for instance segmentation", CVPR 2021.

    Examples
    --------
    >>> x = np.array([10, 20], np.uint8).reshape(2, 1, 1, 1) * np.ones((1, 1, 4, 1), np.uint8)
    >>> masks = np.array([[[0, 0, 0, 7]], [[5, 5, 0, 0]]])
    >>> y = gpuimg.copy_paste(x, masks, 1.0, rng=0)
    >>> y.images.array("uint8")[..., 0].tolist(), y.objects[0].tolist(), y.boxes()[0].tolist()
    ([[[20, 20, 10, 10]], [[20, 20, 20, 10]]], [[0, 7], [1, 5]], [[3.0, 0.0, 4.0, 1.0], [0.0, 0.0, 2.0, 1.0]])
    """
    batch = as_batch(images)
    n = len(batch)
    if batch.frames is not None:
        raise ValueError(f"copy_paste is for images, not for {recording_of(batch).shown}")
    failed = recording_of(batch).failed
    if not batch.is_uniform and not failed.all():
        batch = resized_where(batch, batch.sizes[[int(np.argmin(failed))] * n], failed)
    if not batch.is_uniform:
        sizes = len(np.unique(batch.sizes, axis=0))
        raise ImageError(odd_one_out(batch.sizes), f"images must have one size, not {sizes} sizes")
    labels = _checked(masks, batch)
    generator = as_rng(rng, n, "copy_paste")
    chance = arguments.per_image(share, n, "share", low=0.0, high=1.0)
    least = arguments.per_image(min_area, n, "min_area", low=0.0)
    given = (np.arange(n) - 1) % max(n, 1) if partner is None else partner
    other = arguments.integers(given, n, "partner", low=0, high=n - 1)
    known = [np.unique(mask[mask != 0]) for mask in labels]
    unit = generator.units(max([len(each) for each in known], default=0) or 1)
    pasted = np.zeros(labels.shape, np.bool_)
    result = np.zeros(labels.shape, np.int32)
    objects: list[Ints] = []
    for i, j in enumerate(other.tolist()):
        chosen = known[j][unit[i, : len(known[j])] < chance[i]]
        pasted[i] = np.isin(labels[j], chosen)
        seen, counts = np.unique(labels[i][~pasted[i]], return_counts=True)
        visible = known[i][np.isin(known[i], seen[counts >= max(least[i], 1.0)])]
        own, of_other = np.where(pasted[i], 0, labels[i]), np.where(pasted[i], labels[j], 0)
        result[i] = _renumbered(own, visible) + _renumbered(of_other, chosen, len(visible))
        objects.append(np.array([*((i, k) for k in visible), *((j, k) for k in chosen)], np.int64).reshape(-1, 2))
    return CopyPaste(_pasted(batch, other, pasted), result, objects)


def _checked(masks: Any, batch: Batch) -> Ints:
    """Check masks; return their labels (N, H, W)."""
    n = len(batch)
    if len(masks) != n:
        raise ValueError(f"got masks for {len(masks)} images, but the batch has {n}")
    found = np.zeros((n, *(batch.sizes[0] if n else (1, 1))), np.int64)
    failed = recording_of(batch).failed
    for i, mask in enumerate(masks):
        if failed[i]:
            continue
        array = arguments.numbers(mask, f"masks[{i}]")
        if np.asarray(mask).dtype.kind not in "iub":
            raise TypeError(f"masks[{i}] must be an integer or boolean array, not {np.asarray(mask).dtype}")
        if array.shape != found.shape[1:]:
            raise ImageError(i, f"masks[{i}] has shape {array.shape}, but its image {found.shape[1:]}")
        if array.min() < -layout.EXACT or array.max() > layout.EXACT:
            raise ImageError(i, f"masks[{i}] must have labels from -{layout.EXACT} to {layout.EXACT}")
        found[i] = array
    return found


def _renumbered(mask: Ints, labels: Ints, before: int = 0) -> Ints:
    """Number the pixels of sorted ``labels`` from ``before + 1``; all other pixels become 0."""
    if not len(labels):
        return np.zeros_like(mask)
    at = np.minimum(np.searchsorted(labels, mask), len(labels) - 1)
    numbered: Ints = np.where(labels[at] == mask, at + 1 + before, 0)
    return numbered


def _pasted(batch: Batch, partner: Ints, pasted: Mask) -> Batch:
    """Replace the pixels of ``pasted`` (N, H, W) by those of each image's partner."""
    runtime = recording_of(batch).runtime
    own = recording_of(batch.compute("float32")).source
    if not isinstance(own, Pixels):
        raise TypeError("computed batches hold pixels")
    offsets, total = offsets_of(own.sizes, own.channels)
    mixed = Pixels(runtime.empty(total, "float32"), offsets, own.sizes, own.channels, "NHWC", own.failures)
    some = np.flatnonzero(pasted.any((1, 2))).tolist()
    masks = [np.ascontiguousarray(part[..., None]) for i in some for part in (~pasted[i], pasted[i])]
    with runtime.device():
        shares = runtime.from_arrays([mask.view(np.uint8) for mask in masks]) if some else None
        other = runtime.empty(total // max(len(own.sizes), 1), "float32")
        for i in range(len(own.sizes)):
            out, source = mixed.view(i), own.view(i)
            if i not in some or shares is None:
                out[:] = source
                continue
            keep, paste = (shares.view(2 * some.index(i) + k) for k in (0, 1))
            part = other.reshape(out.shape)
            np.multiply(source, keep, out=out)
            np.multiply(own.view(int(partner[i])), paste, out=part)
            np.add(out, part, out=out)
    return Batch(recording_of(batch).with_results(mixed))
