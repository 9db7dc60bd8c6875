"""Clips of videos in a loader: which frames of a sample's video, and the indexes of videos seen before."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
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

_STARTS = ("random", "first", "center")
_KEPT = 1_000  # indexes: of 300 frames each, some 10 MB


@dataclass(frozen=True)
class Clips:
    """What :func:`gpuimg.load` takes of each video: one clip.

    Attributes
    ----------
    frames : int
        Frames of a clip, T.
    stride : int
        From frame to frame: 1 takes all, 2 every other one.
    start : {"random", "first", "center"}
        Where a clip begins: anywhere, which depends on the seed, the epoch and the sample alone; at the video's
        beginning; so that as much is left out before as behind.
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
        """First frames of clips, from how many frames their videos have."""
        if self.start == "random":
            return random_start(rng.split("clips"), self.frames, stride)
        return lambda counts: np.maximum(counts - (self.frames - 1) * stride - 1, 0) // 2 * (self.start == "center")


class VideoClips:
    """Opens the clips of a loader's samples."""

    def __init__(self, clips: Clips) -> None:
        self._clips = clips
        self._known: dict[tuple[str, int, int], VideoIndex] = {}

    def open(self, data: Sequence[Any], names: Sequence[str], rng: Rng, options: DecodeOptions) -> EncodedClips:
        """Clips of paths or file bytes, one for each sample of ``rng``; those that cannot be opened are failures."""
        clips = self._clips
        stride = np.full(len(data), clips.stride)
        return clips_of(
            data, names, clips.frames, stride, clips.starts(rng, stride), clips.short, options, "fill",
            read=self._read,
        )  # fmt: skip

    def _read(self, data: Any, max_pixels: int) -> VideoIndex:
        """The index of a video; that of a file is kept for the next epoch, those used last."""
        key = _identity(data)
        index = None if key is None else self._known.pop(key, None)
        if index is None:
            index = read_index(data, max_pixels)
        if key is not None:
            self._known[key] = index
            with suppress(RuntimeError, StopIteration):  # another thread did the same
                while len(self._known) > _KEPT:
                    self._known.pop(next(iter(self._known)), None)
        return index


def _identity(data: Any) -> tuple[str, int, int] | None:
    """What a file is known by, until it changes."""
    if not isinstance(data, str):
        return None
    try:
        found = os.stat(data)
    except (OSError, ValueError):  # is said when it is read
        return None
    return data, found.st_mtime_ns, found.st_size
