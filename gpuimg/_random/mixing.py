"""Mixing of images: MixUp and CutMix, with the partners and weights to mix labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._batch.batch import Batch, Images, as_batch, recording_of
from .._batch.recording import Recording
from .._checks import arguments, docstrings
from .._checks.keywords import explained
from .._checks.types import Floats, Ints, PerImage, Table
from .._data.images import Pixels, offsets_of, rows_of
from .._ops.resize_crop import resized_where
from ..errors import ImageError
from .rng import LEAST_BETA, Rng, as_rng

__all__ = ["blend", "cutmix", "mixup"]


class Mix(NamedTuple):
    """Mixed images, and the partners and weights to mix their labels. For clips, N is the number of clips.

    Attributes
    ----------
    images : Batch
        float32 images.
    partner : (N,) int64
        Index of the partner: the image, or clip, mixed in.
    weight : (N,) float64
        Weight of the image's own label; the partner's label has 1 minus it.
    """

    images: Batch
    partner: Ints
    weight: Floats

    def labels(
        self, labels: PerImage | Table, num_classes: int, *, partner_labels: PerImage | Table | None = None
    ) -> np.ndarray[Any, Any]:
        """Mix labels with the weights of the images.

        Parameters
        ----------
        labels : (N,) int or (N, num_classes) float
            Class of each image, below ``num_classes``, or the probabilities of all classes.
        num_classes : int
            Number of classes.
        partner_labels : (N,) int or (N, num_classes) float, optional
            Labels of the partner batch, if ``partner`` was a batch; None for partners in the same batch.

        Returns
        -------
        (N, num_classes) float32
        """
        own = _probabilities(labels, len(self.weight), num_classes)
        other = own if partner_labels is None else _probabilities(partner_labels, len(self.weight), num_classes)
        weight = self.weight[:, None].astype(np.float32)
        mixed: np.ndarray[Any, Any] = own * weight + other[self.partner] * (np.float32(1.0) - weight)
        return mixed


def _probabilities(labels: Any, n: int, num_classes: int) -> np.ndarray[Any, Any]:
    """Return labels as probabilities (N, num_classes), float32; classes become one-hot."""
    array = np.asarray(labels)
    if array.shape == (n, num_classes) and array.dtype.kind == "f":
        return array.astype(np.float32)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"labels must be ({n},) whole numbers or ({n}, {num_classes}) probabilities, not {array.dtype} of shape "
            f"{array.shape}"
        )
    if n and (array.min() < 0 or array.max() >= num_classes):
        raise ValueError(f"classes must be from 0 to {num_classes - 1}, not {int(array.min())} to {int(array.max())}")
    chosen: np.ndarray[Any, Any] = np.eye(num_classes, dtype=np.float32)[array]
    return chosen


@explained({"num_classes": "pass it to Mix.labels(labels, num_classes) of the result"})
@docstrings.of_images
def mixup(images: Images, *, alpha: float = 1.0, rng: Rng | int, partner: PerImage | Batch | None = None) -> Mix:
    """Apply MixUp: blend each image with a partner, and return the weights to blend their labels.

    Computed immediately in float32. Each image has the size of its partner.

    Parameters
    ----------
    alpha : float
        Parameter of the distribution Beta(alpha, alpha) of the weights, at least 1e-6: 1 draws them uniformly, less
        leaves more of one image.
    partner : (N,) int or Batch, optional
        Index of the image to mix in, or a batch with as many images of the same size. None is the previous image in
        the batch, as in torchvision.

    Returns
    -------
    Mix
        N images with the sizes and channels of the input, float32, and the weights of their labels.

    References
    ----------
    Zhang et al.: "mixup: Beyond empirical risk minimization", ICLR 2018.

    Examples
    --------
    >>> mix = gpuimg.mixup(np.zeros((2, 4, 4, 3), np.uint8), rng=0)
    >>> mix.labels([0, 2], num_classes=3).shape
    (2, 3)
    """
    batch = as_batch(images)
    both = arguments.number(alpha, "alpha", low=LEAST_BETA)
    weight = as_rng(rng, recording_of(batch).units, "mixup").beta(both, both)
    own, other, index = _partners(batch, partner)
    mixed = blend(own, other, np.repeat(weight, batch.frames or 1), partner=rows_of(index, batch.frames))
    return Mix(mixed, index, weight)


@explained({"num_classes": "pass it to Mix.labels(labels, num_classes) of the result"})
@docstrings.of_images
def cutmix(images: Images, *, alpha: float = 1.0, rng: Rng | int, partner: PerImage | Batch | None = None) -> Mix:
    """Apply CutMix: paste a rectangle of a partner into each image, and return the weights of their labels.

    Computed immediately in float32. Each image has the size of its partner.

    Parameters
    ----------
    alpha : float
        Parameter of the distribution Beta(alpha, alpha) of the weights, at least 1e-6. The area of the rectangle,
        before it is clipped at the border, is 1 minus the drawn weight as a fraction of the image's.
    partner : (N,) int or Batch, optional
        Index of the image to paste from, or a batch with as many images of the same size. None is the previous image in
        the batch, as in torchvision.

    Returns
    -------
    Mix
        Weights are the fractions of the images' areas that remain.

    References
    ----------
    Yun et al.: "CutMix: Regularization strategy to train strong classifiers with localizable features", ICCV 2019;
    torchvision ``CutMix``.

    Examples
    --------
    >>> gpuimg.cutmix(np.zeros((2, 4, 4, 3), np.uint8), rng=0).images.array().shape
    (2, 4, 4, 3)
    """
    batch = as_batch(images)
    generator = as_rng(rng, recording_of(batch).units, "cutmix")
    both = arguments.number(alpha, "alpha", low=LEAST_BETA)
    drawn = generator.beta(both, both)
    unit = generator.units(2)
    own, other, index = _partners(batch, partner)
    frames = batch.frames or 1
    height, width = batch.sizes[::frames].T
    center_x, center_y = np.floor(unit[:, 0] * width), np.floor(unit[:, 1] * height)
    half = 0.5 * np.sqrt(1.0 - drawn)
    # torchvision truncates half of each side to whole pixels, then clips at the border.
    half_w, half_h = np.floor(half * width), np.floor(half * height)
    x0, x1 = np.maximum(center_x - half_w, 0), np.minimum(center_x + half_w, width)
    y0, y1 = np.maximum(center_y - half_h, 0), np.minimum(center_y + half_h, height)
    weight = 1.0 - (x1 - x0) * (y1 - y0) / (width * height)
    rectangle = np.stack([x0, y0, x1, y1], 1).astype(np.int64)
    mixed = blend(
        own, other, np.ones(len(batch)), partner=rows_of(index, batch.frames), rectangle=np.repeat(rectangle, frames, 0)
    )
    return Mix(mixed, index, weight)


def _partners(batch: Batch, partner: Any) -> tuple[Batch, Batch, Ints]:
    """Return the batch, the partners' batch and the index of each image's, or clip's, partner in it."""
    n = recording_of(batch).units
    if isinstance(partner, Batch):
        if (len(partner), partner.frames) != (len(batch), batch.frames):
            wanted, given = recording_of(batch).shown, recording_of(partner).shown
            raise ValueError(f"partner must be a batch of {wanted}, not of {given}")
        return batch, partner, np.arange(n)
    if partner is None:
        return batch, batch, (np.arange(n) - 1) % max(n, 1)
    return batch, batch, arguments.integers(partner, n, "partner", low=0, high=n - 1)


@docstrings.of_images
def blend(
    images: Images, others: Images, weight: PerImage, *, partner: PerImage | None = None, rectangle: Table | None = None
) -> Batch:
    """Blend two batches: ``weight * images[i] + (1 - weight) * others[partner[i]]``.

    Computed immediately in float32. Both are on one device, and each image has the size of its partner.

    Parameters
    ----------
    others : Batch, (N, H, W, C) array or list of (H, W, C) arrays, uint8, uint16 or float32
        Images to blend with, with the channels of ``images``.
    weight : float or (N,) float
        Weight of ``images``, 0 to 1.
    partner : (N,) int, optional
        Index of each image's partner in ``others``; None is the same index.
    rectangle : (N, 4) int, optional
        Rectangle that shows only the partner: ``x0, y0, x1, y1`` in pixels. Parts outside the image are ignored. None
        is no rectangle.

    Returns
    -------
    Batch
        float32 images.

    Examples
    --------
    >>> a, b = np.zeros((1, 1, 1, 1), np.float32), np.ones((1, 1, 1, 1), np.float32)
    >>> gpuimg.blend(a, b, 0.75).array().ravel().tolist()
    [0.25]
    """
    one, other = as_batch(images), as_batch(others)
    n = recording_of(one).image_count
    if one.device != other.device:
        raise ValueError(f"images and others must be on one device, not on {one.device} and {other.device}")
    if one.channels != other.channels:
        raise ValueError(f"images and others must have the same channels, not {one.channels} and {other.channels}")
    if partner is None and len(other) != n:
        raise ValueError(f"others must have {n} images, not {len(other)}, unless partner says which to use")
    shares = arguments.per_image(weight, n, "weight", low=0.0, high=1.0)
    index = np.arange(n)
    if partner is not None:  # counts images, in batches of clips too
        index = arguments.integers(partner, len(one), "partner", low=0, high=len(other) - 1)
    boxes = np.zeros((n, 4), np.int64) if rectangle is None else _rectangles(rectangle, one)
    one, other, index = _of_one_size(one, other, index)
    if np.any(one.sizes != other.sizes[index]):
        k = int(np.argmax(np.any(one.sizes != other.sizes[index], 1)))
        raise ImageError(
            odd_one_out(one.sizes),
            f"an image and its partner must have one size, not {tuple(one.sizes[k].tolist())} and "
            f"{tuple(other.sizes[index[k]].tolist())} for image {k}",
        )
    mixed = _mixed(one, other, shares, index, boxes)
    if one.normalized or other.normalized:
        mixed = mixed.with_plan(mixed.plan.as_normalized())
    return Batch(mixed)


def odd_one_out(sizes: Ints) -> int:
    """Return the index of the first image that has not the size of most."""
    _, which, counts = np.unique(sizes, axis=0, return_inverse=True, return_counts=True)
    return int(np.argmax(counts[which.reshape(-1)] < counts.max()))


def _of_one_size(one: Batch, other: Batch, index: Ints) -> tuple[Batch, Batch, Ints]:
    """Give images that could not be read the sizes of their partners, of whatever size these are."""
    unlike = np.any(one.sizes != other.sizes[index], 1)
    if not unlike.any():
        return one, other, index
    failed = recording_of(one).failed & unlike
    one = resized_where(one, other.sizes[index], failed)
    failed = recording_of(other).failed[index] & unlike & ~failed
    units = index[:: one.frames or 1] // (other.frames or 1)
    if not failed.any() or not np.array_equal(rows_of(units, other.frames), index):
        return one, other, index
    return one, resized_where(other.take(units), one.sizes, failed), np.arange(len(index))


def _mixed(one: Batch, other: Batch, weight: Floats, partner: Ints, rectangle: Ints) -> Recording:
    """Blend with checked arguments."""
    own, others = (recording_of(batch.compute("float32")).source for batch in (one, other))
    if not (isinstance(own, Pixels) and isinstance(others, Pixels)):
        raise TypeError("computed batches hold pixels")
    offsets, total = offsets_of(own.sizes, own.channels)
    before = recording_of(one)
    flat = before.runtime.empty_for_results(total, "float32")
    before.runtime.mix(own, others, weight, partner, rectangle, flat)
    pixels = Pixels(flat, offsets, own.sizes, own.channels, "NHWC", own.failures, own.frames)
    return before.with_results(pixels)


def _rectangles(rectangle: Any, batch: Batch) -> Ints:
    """Return checked rectangles (N, 4), clipped at the border."""
    n = recording_of(batch).image_count
    array = arguments.finite(rectangle, "rectangle")
    if array.ndim != 2 or array.shape[1] != 4 or not arguments.fits(array, n) or np.any(array != np.round(array)):
        raise ValueError(f"rectangle must be whole numbers of shape {arguments.shapes(n, 4)}, not {rectangle!r}")
    return np.clip(arguments.rows(array, n), 0, np.tile(batch.sizes[:, ::-1], 2)).astype(np.int64)
