"""Several parts of each image, and some frames of each clip: views, which share the decoding of their image."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._batch.batch import Batch, Images, as_batch, recording_of
from .._checks import arguments
from .._checks.types import Ints, Size
from .._data.images import EncodedImages, rows_of
from .resize_crop import crop, horizontal_flip
from .resize_crop import vertical_flip as _flip_rows  # which is an argument, too


def five_crop(images: Images, size: Size) -> Batch:
    """Cut out the four corners and the middle of each image.

    Parameters
    ----------
    images : Batch, list of arrays or array
    size : int or (height, width)
        Of the parts; one number, or a list or tuple of one, is both. Each may be (N,); an (N, 2) array has both for
        each image.

    Returns
    -------
    Batch
        Of 5 N images: the parts of the first image (top left, top right, bottom left, bottom right, middle), those of
        the second, and so on; or of 5 N clips, likewise. Each image is decoded once.

    Raises
    ------
    ValueError
        For an image smaller than the parts, or a size below 1.

    References
    ----------
    torchvision ``transforms/v2/functional/_geometry.py``, ``five_crop``, which gives a tuple of five.

    Examples
    --------
    >>> import gpuimg, numpy as np
    >>> x = np.arange(9, dtype=np.uint8).reshape(1, 3, 3, 1)
    >>> gpuimg.five_crop(x, 1).array().ravel().tolist()
    [0, 2, 6, 8, 4]
    """
    batch = as_batch(images)
    return _five_crop(batch, _fitting(batch, size))


def _fitting(batch: Batch, size: Any) -> Ints:
    """Checked sizes (N, 2) of parts that lie inside the images."""
    new = arguments.sizes(size, recording_of(batch).image_count)
    small = np.any(batch.sizes < new, 1)
    if np.any(small):
        k = int(np.argmax(small))
        raise ValueError(f"image {k} of size {tuple(batch.sizes[k].tolist())} is smaller than {tuple(new[k].tolist())}")
    return new


def _five_crop(batch: Batch, new: Ints) -> Batch:
    spare = batch.sizes - new
    middle = np.round(spare / 2.0)
    corners = np.stack([spare * 0, spare * (0, 1), spare * (1, 0), spare, middle])
    parts, rows, part = _repeated(batch, 5)
    return crop(parts, *corners[part, rows].T, *new[rows].T)


def _repeated(batch: Batch, count: int) -> tuple[Batch, Ints, Ints]:
    """Each image, or clip, so many times, one behind the other; the images that these are, and which time it is."""
    n = recording_of(batch).units
    units, time = np.repeat(np.arange(n), count), np.tile(np.arange(count), n)
    return batch.take(units), rows_of(units, batch.frames), np.repeat(time, batch.frames or 1)


def ten_crop(images: Images, size: Size, vertical_flip: bool = False) -> Batch:
    """Cut out the four corners and the middle of each image and of its mirror image.

    Parameters
    ----------
    images : Batch, list of arrays or array
    size : int or (height, width)
        As in :func:`five_crop`.
    vertical_flip : bool
        Mirror top and bottom rather than left and right.

    Returns
    -------
    Batch
        Of 10 N images, or clips: the five parts of the first, the five of its mirror image, and so on. Each image is
        decoded once.

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
    new = _fitting(batch, size)
    both, rows, time = _repeated(batch, 2)
    mirrored = _flip_rows if arguments.flag(vertical_flip, "vertical_flip") else horizontal_flip
    return _five_crop(mirrored(both, where=time == 1), new[rows])


def uniform_temporal_subsample(images: Images, num_samples: int, *, frames: int | None = None) -> Batch:
    """Keep some frames of each clip, evenly spaced, from the first to the last.

    Parameters
    ----------
    images : Batch, list of arrays or array
        Clips, or the frames of all clips, one clip after the other.
    num_samples : int
        Frames to keep of each clip; with more than it has, some stand several times.
    frames : int, optional
        Frames of each clip, where ``images`` is not of clips.

    Returns
    -------
    Batch
        Of ``num_samples`` images for each clip; of clips where ``images`` is. What is left out is not computed.

    Raises
    ------
    ValueError
        For a number below 1, images that are no whole number of clips, or ``frames`` missing or of other clips.

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
        raise ValueError("frames must say how many images are a clip: these are no clips")
    length = arguments.whole_number(batch.frames if frames is None else frames, "frames")
    if batch.frames not in (None, length):
        raise ValueError(f"frames is {length}, but the batch has {recording_of(batch).shown}")
    if len(batch) % length:
        raise ValueError(f"{len(batch)} images are no whole number of clips of {length} frames")
    kept = np.arange(count) * (length - 1) // max(count - 1, 1)
    rows = np.arange(len(batch)).reshape(-1, length)[:, kept].reshape(-1)
    recording = recording_of(batch)
    if isinstance(recording.source, EncodedImages) or batch.frames is None:
        return batch.take(rows)
    segments = tuple(plan.take(rows) for plan in recording.segments)
    return Batch(replace(recording, source=recording.source.at_frames(kept), segments=segments))
