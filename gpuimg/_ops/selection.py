"""Several crops of each image and selected frames of each clip; each image is decoded once for all its crops."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._batch.batch import Batch, Images, as_batch, recording_of
from .._checks import arguments
from .._checks.types import Ints, Size
from .._data.images import rows_of
from ..errors import ImageError
from .resize_crop import crop, horizontal_flip
from .resize_crop import vertical_flip as _vertical_flip  # ten_crop has a parameter vertical_flip


def five_crop(images: Images, size: Size) -> Batch:
    """Crop the four corners and the center of each image.

    Parameters
    ----------
    images : Batch, (N, H, W, C) array or list of (H, W, C) arrays, uint8 or float32
    size : int or (height, width)
        Size of the crops in pixels. One number, or a list or tuple of one, sets both. Each may be (N,); an (N, 2)
        array has both for each image.

    Returns
    -------
    Batch
        5 N images, or clips: the crops of the first image (top left, top right, bottom left, bottom right, center),
        then those of the second, and so on. Each image is decoded once.

    Raises
    ------
    ValueError
        For an image smaller than the crops, or a size below 1.

    References
    ----------
    torchvision ``transforms/v2/functional/_geometry.py``, ``five_crop``, which returns a tuple of five.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.arange(9, dtype=np.uint8).reshape(1, 3, 3, 1)
    >>> gpuimg.five_crop(x, 1).array().ravel().tolist()
    [0, 2, 6, 8, 4]
    """
    batch = as_batch(images)
    return _five_crop(batch, _crop_sizes(batch, size))


def _crop_sizes(batch: Batch, size: Any) -> Ints:
    """Return sizes (N, 2) of crops; raise ImageError if an image is smaller."""
    new = arguments.sizes(size, recording_of(batch).image_count)
    small = np.any(batch.sizes < new, 1)
    if np.any(small):
        k = int(np.argmax(small))
        size, least = tuple(batch.sizes[k].tolist()), tuple(new[k].tolist())
        raise ImageError(k, f"its size {size} is smaller than {least}")
    return new


def _five_crop(batch: Batch, new: Ints) -> Batch:
    spare = batch.sizes - new
    middle = np.round(spare / 2.0)
    corners = np.stack([spare * 0, spare * (0, 1), spare * (1, 0), spare, middle])
    repeated, rows, k = _repeated(batch, 5)
    return crop(repeated, *corners[k, rows].T, *new[rows].T)


def _repeated(batch: Batch, count: int) -> tuple[Batch, Ints, Ints]:
    """Repeat each image, or clip, ``count`` times in a row.

    Returns the batch and, for each of its images, the index in the original batch and the number of the repetition.
    """
    n = recording_of(batch).units
    units, repetition = np.repeat(np.arange(n), count), np.tile(np.arange(count), n)
    return batch.take(units), rows_of(units, batch.frames), np.repeat(repetition, batch.frames or 1)


def ten_crop(images: Images, size: Size, vertical_flip: bool = False) -> Batch:
    """Crop the four corners and the center of each image and of its mirror image.

    Parameters
    ----------
    images : Batch, (N, H, W, C) array or list of (H, W, C) arrays, uint8 or float32
    size : int or (height, width)
        Size of the crops, as in :func:`five_crop`.
    vertical_flip : bool
        Flip images vertically instead of horizontally.

    Returns
    -------
    Batch
        10 N images, or clips: the five crops of the first image, the five of its mirror image, and so on. Each image
        is decoded once.

    Raises
    ------
    ValueError
        As :func:`five_crop`.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.arange(9, dtype=np.uint8).reshape(1, 3, 3, 1)
    >>> gpuimg.ten_crop(x, 1).array().ravel().tolist()
    [0, 2, 6, 8, 4, 2, 0, 8, 6, 4]
    """
    batch = as_batch(images)
    new = _crop_sizes(batch, size)
    both, rows, repetition = _repeated(batch, 2)
    flip = _vertical_flip if arguments.flag(vertical_flip, "vertical_flip") else horizontal_flip
    return _five_crop(flip(both, where=repetition == 1), new[rows])


def uniform_temporal_subsample(images: Images, num_samples: int, *, frames: int | None = None) -> Batch:
    """Keep evenly spaced frames of each clip, from the first to the last.

    Parameters
    ----------
    images : Batch, (N, H, W, C) array or list of (H, W, C) arrays, uint8 or float32
        Clips, or the frames of all clips in order.
    num_samples : int
        Number of frames to keep of each clip, at least 1; frames repeat if the clip has fewer.
    frames : int, optional
        Number of frames of each clip; required unless ``images`` is a batch of clips.

    Returns
    -------
    Batch
        ``num_samples`` frames of each clip; a batch of clips if ``images`` is one. Other frames are not computed.

    Raises
    ------
    ValueError
        For a number below 1, a number of images that is not a multiple of ``frames``, or ``frames`` missing or unlike
        that of the batch.

    Notes
    -----
    Frame ``k`` is ``floor(k * (frames - 1) / (num_samples - 1))``, exactly; torchvision's single-precision positions
    may fall one below.

    References
    ----------
    torchvision ``transforms/v2/functional/_temporal.py``; PyTorchVideo ``transforms/functional.py``.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.arange(10, dtype=np.uint8).reshape(10, 1, 1, 1)
    >>> gpuimg.uniform_temporal_subsample(x, 3, frames=5).array().ravel().tolist()
    [0, 2, 4, 5, 7, 9]
    """
    batch = as_batch(images)
    count = arguments.whole_number(num_samples, "num_samples")
    if frames is None and batch.frames is None:
        raise ValueError("frames, the number of images of each clip, is required: the batch does not hold clips")
    length = arguments.whole_number(batch.frames if frames is None else frames, "frames")
    if batch.frames not in (None, length):
        raise ValueError(f"frames is {length}, but the batch has {recording_of(batch).shown}")
    if len(batch) % length:
        raise ValueError(f"the number of images must be a multiple of frames={length}, not {len(batch)}")
    kept = np.arange(count) * (length - 1) // max(count - 1, 1)
    if batch.frames is None:
        return batch.take(np.arange(len(batch)).reshape(-1, length)[:, kept].reshape(-1))
    return Batch(recording_of(batch).at_frames(kept))
