"""Clips of videos in a loader: the choice of frames, and a cache of the indexes of videos."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .._batch.clips import Start, check_short, clips_of
from .._checks.arguments import one_of, whole_number
from .._checks.types import Ints
from .._data.clips import EncodedClips
from .._decoding.options import DecodeOptions
from .._random.clips import random_start
from .._random.rng import Rng
from .._video.index import VideoIndex, read_index

__all__ = ["Clips"]

_STARTS = ("random", "first", "center")
_CACHED = 1_000  # indexes of videos; with 300 frames each they take about 10 MB


@dataclass(frozen=True)
class Clips:
    """Clip that :func:`gpuimg.load` takes from each video.

    Attributes
    ----------
    frames : int
        Frames of a clip, T.
    stride : int
        Distance between frames of the clip, in frames of the video: 1 takes all, 2 every other one.
    start : {"random", "first", "center"}
        First frame: random, determined by seed, epoch and sample index; the first frame of the video; or such that
        the clip is in the middle of the video.
    short : {"repeat", "wrap", "error"}
        As in :func:`open_clips`.

    Examples
    --------
    >>> import gpuimg
    >>> gpuimg.Clips(frames=16, stride=2)
    Clips(frames=16, stride=2, start='random', short='repeat')
    """

    frames: int
    stride: int = 1
    start: str = "random"
    short: str = "repeat"

    def __post_init__(self) -> None:
        whole_number(self.frames, "frames")
        whole_number(self.stride, "stride")
        check_short(self.short)
        one_of(self.start, "start", _STARTS)

    def starts(self, rng: Rng, stride: Ints) -> Start:
        """Return a function from frame counts of videos to the first frames of their clips."""
        if self.start == "random":
            return partial(random_start, rng.split("clips"), self.frames, stride)
        return lambda counts: np.maximum(counts - (self.frames - 1) * stride - 1, 0) // 2 * (self.start == "center")


class VideoClips:
    """Opens the clips of a loader's samples and caches the indexes of their videos."""

    def __init__(self, clips: Clips) -> None:
        self._clips = clips
        self._known: dict[tuple[str, int, int], VideoIndex] = {}

    def open(self, data: Sequence[Any], names: Sequence[str], rng: Rng, options: DecodeOptions) -> EncodedClips:
        """Open clips of paths or file bytes, one for each sample of ``rng``; errors are recorded as failures."""
        clips = self._clips
        stride = np.full(len(data), clips.stride)
        return clips_of(
            data, names, clips.frames, stride, clips.starts(rng, stride), clips.short, options, "fill",
            read=self._read,
        )  # fmt: skip

    def _read(self, data: Any, max_pixels: int) -> VideoIndex:
        """Return the index of a video; those of the files used last are cached for the next epoch."""
        key = _identity(data)
        index = None if key is None else self._known.pop(key, None)
        if index is None:
            index = read_index(data, max_pixels)
        if key is not None:
            self._known[key] = index
            with suppress(RuntimeError, StopIteration):  # another thread evicted it first
                while len(self._known) > _CACHED:
                    self._known.pop(next(iter(self._known)), None)
        return index


def _identity(data: Any) -> tuple[str, int, int] | None:
    """Return path, modification time in ns and size of a file; None for file bytes."""
    if not isinstance(data, str):
        return None
    try:
        found = os.stat(data)
    except (OSError, ValueError):  # reported when the file is read
        return None
    return data, found.st_mtime_ns, found.st_size
