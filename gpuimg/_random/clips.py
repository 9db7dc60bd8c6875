"""Random clips of videos."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np

from .._batch.batch import Batch
from .._batch.clips import of_videos, open_from
from .._checks.arguments import whole_number
from .._checks.types import Device, Ints, OnError, PerImage, ShortClips
from .._decoding.decoder import MAX_PIXELS
from .._io.file_bytes import Source, check_sources
from .rng import Rng, as_rng

__all__ = ["random_clips"]


@of_videos
def random_clips(
    sources: Sequence[Source],
    frames: int,
    stride: PerImage = 1,
    *,
    rng: Rng | int,
    short: ShortClips = "repeat",
    device: Device | None = None,
    color: Literal["rgb", "gray"] = "rgb",
    on_error: OnError = "raise",
    max_pixels: int = MAX_PIXELS,
) -> Batch:
    """Open clips of videos for training: each starts at a random frame, such that the whole clip fits.

    The clip of a video that is too short starts at its first frame.

    Parameters
    ----------
    sources : sequence
        One video for each clip: a path, file bytes or an open binary file, as in :func:`open_clips`.
    frames : int
        Frames of each clip, at least 1.
    stride : int or (N,) int
        Step between frames, at least 1: 1 takes all, 2 every other one.
    rng : Rng or int
        Generator with a sample for each clip, or a seed, 0 to 2**64 - 1; one draw for each clip.
    short : {"repeat", "wrap", "error"}
        For a clip that extends past the video's end: repeat the last frame, continue with the first ones, or fail.
    device : {"cpu", "cuda", "cuda:1", ...}, optional
        Where the batch is computed. None is ``GPUIMG_DEVICE``, else a GPU if one works, else the CPU.
    color : {"rgb", "gray"}
        3 or 1 channels; gray is luma.
    on_error : {"raise", "fill"}
        Raise one :class:`DecodeError` for all bad clips, or fill their frames with black, as in :func:`open_clips`.
    max_pixels : int
        Videos with larger frames are bad.

    Returns
    -------
    Batch
        Clips, as from :func:`open_clips`.

    Examples
    --------
    >>> x = gpuimg.random_clips([file.getvalue()] * 3, frames=4, rng=0, device="cpu")
    >>> x.array(layout="NCTHW").shape
    (3, 3, 4, 48, 64)
    """
    check_sources(sources)
    frames = whole_number(frames, "frames")
    start = partial(random_start, as_rng(rng, len(sources), "random_clips"), frames)
    return open_from(sources, frames, stride, start, short, device, color, on_error, max_pixels)


def random_start(rng: Rng, frames: int, stride: Ints, counts: Ints) -> Ints:
    """Return first frames (N,) of whole clips, drawn uniformly, given the videos' frame counts (N,).

    The first frame is 0 where no whole clip fits.
    """
    choices = np.maximum(counts - (frames - 1) * stride, 1)
    first: Ints = np.minimum((rng.units(1)[:, 0] * choices).astype(np.int64), choices - 1)
    return first
