"""Several crops of each image and selected frames of each clip; each image is decoded once for all its crops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._batch.functions import of_images
from .._batch.recording import Recording
from .._checks import arguments
from .._checks.types import Size
from .._data.images import rows_of
from ..errors import ImageError
from .resize_crop import center_crop, crop, horizontal_flip
from .resize_crop import vertical_flip as _vertical_flip  # ten_crop has a parameter vertical_flip

__all__ = ["five_crop", "ten_crop", "uniform_temporal_subsample"]


@of_images
def five_crop(recording: Recording, size: Size) -> Recording:
    """Crop the four corners and the center of each image, to average a model's predictions for them.

    Images must be at least as large as the crops.

    Returns
    -------
    Batch
        5 N images, or clips: the top left crops of all images, then the top right ones, bottom left, bottom right, and
        centers; :attr:`LoadedBatch.views` has them one by one. Each image is decoded once.

    References
    ----------
    torchvision ``transforms/v2/functional/_geometry.py``, ``five_crop``, which returns a tuple of five.

    Examples
    --------
    >>> x = np.arange(9, dtype=np.uint8).reshape(1, 3, 3, 1)
    >>> gpuimg.five_crop(x, 1).array().ravel().tolist()
    [0, 2, 6, 8, 4]
    """
    return _crops(recording, size, 5)


def _crops(recording: Recording, size: Any, count: int, flip: Callable[..., Recording] | None = None) -> Recording:
    """Crop the corners and the center; from the sixth crop on, of flipped images."""
    new = arguments.sizes(size, recording.image_count)
    spare = recording.sizes - new
    if (k := recording.refused(np.any(spare < 0, 1))) is not None:
        raise ImageError(k, f"its size {tuple(recording.sizes[k].tolist())} is smaller than {tuple(new[k].tolist())}")
    spare = np.maximum(spare, 0)
    corners = np.stack([spare * 0, spare * (0, 1), spare * (1, 0), spare, np.round(spare / 2.0)])
    n = recording.units
    units = np.tile(np.arange(n), count)
    view, rows = np.repeat(np.arange(count), len(recording)), rows_of(units, recording.frames)
    repeated = recording.taken(units) if flip is None else flip(recording.taken(units), where=view >= 5)
    crops = crop.record(repeated, *corners[view % 5, rows].T, *new[rows].T)
    return crops if n else center_crop.record(crops, size)  # of the same size, which no arrays of none give


@of_images
def ten_crop(recording: Recording, size: Size, vertical_flip: bool = False) -> Recording:
    """Crop the corners and the center of each image and of its mirror image, to average predictions for them.

    Images must be at least as large as the crops.

    Parameters
    ----------
    vertical_flip : bool
        Mirror images vertically instead of horizontally.

    Returns
    -------
    Batch
        10 N images, or clips: the crops of all images as :func:`five_crop` returns them, then those of their mirror
        images. Each image is decoded once.

    Examples
    --------
    >>> x = np.arange(9, dtype=np.uint8).reshape(1, 3, 3, 1)
    >>> gpuimg.ten_crop(x, 1).array().ravel().tolist()
    [0, 2, 6, 8, 4, 2, 0, 8, 6, 4]
    """
    flip = _vertical_flip if arguments.flag(vertical_flip, "vertical_flip") else horizontal_flip
    return _crops(recording, size, 10, flip.record)


@of_images
def uniform_temporal_subsample(recording: Recording, num_samples: int, *, frames: int | None = None) -> Recording:
    """Keep evenly spaced frames of each clip, from the first to the last.

    Images are a batch of clips, or the frames of all clips in order.

    Parameters
    ----------
    num_samples : int
        Number of frames to keep of each clip, at least 1; frames repeat if the clip has fewer.
    frames : int, optional
        Number of frames of each clip, at least 1; None is that of a batch of clips, and refused for other images.

    Returns
    -------
    Batch
        ``num_samples`` frames of each clip; a batch of clips if ``images`` is one. Other frames are not computed.

    Notes
    -----
    Frame ``k`` is ``floor(k * (frames - 1) / (num_samples - 1))``, exactly; torchvision's single-precision positions
    may fall one below.

    References
    ----------
    torchvision ``transforms/v2/functional/_temporal.py``; PyTorchVideo ``transforms/functional.py``.

    Examples
    --------
    >>> x = np.arange(10, dtype=np.uint8).reshape(10, 1, 1, 1)
    >>> gpuimg.uniform_temporal_subsample(x, 3, frames=5).array().ravel().tolist()
    [0, 2, 4, 5, 7, 9]
    """
    count = arguments.whole_number(num_samples, "num_samples")
    if frames is None and recording.frames is None:
        raise ValueError("frames, the number of images of each clip, is required: the batch does not hold clips")
    length = arguments.whole_number(recording.frames if frames is None else frames, "frames")
    if recording.frames not in (None, length):
        raise ValueError(f"frames is {length}, but the batch has {recording.shown}")
    if len(recording) % length:
        raise ValueError(f"the number of images must be a multiple of frames={length}, not {len(recording)}")
    kept = np.arange(count) * (length - 1) // max(count - 1, 1)
    if recording.frames is None:
        return recording.taken(np.arange(len(recording)).reshape(-1, length)[:, kept].reshape(-1))
    return recording.at_frames(kept)
