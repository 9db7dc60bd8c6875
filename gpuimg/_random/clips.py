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
    """Open clips that start at random frames of their videos, such that whole clips fit.

    Parameters
    ----------
    sources, frames, stride
        As in :func:`open_clips`.
    rng : Rng or int
        Generator for the clips, or a seed; one draw for each clip.
    short, device, color, on_error, max_pixels
        As in :func:`open_clips`. The clip of a video that is too short starts at its first frame.

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
