"""Frame numbers of clips, from a start and stride or from times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._checks.text import counted
from .._checks.types import Floats, Ints
from .index import VideoIndex

#: Policies for clips that extend past the last frame of their video.
SHORT = ("repeat", "wrap", "error")


def numbers_from(start: Ints, frames: int, stride: Ints, counts: Ints, short: str) -> tuple[Ints, dict[int, str]]:
    """Return frame numbers (N, T) from start and stride, and reasons for clips without frames, by clip.

    ``counts`` are the frames of each video, 0 for one that could not be read.
    """
    numbers = start[:, None] + stride[:, None] * np.arange(frames)
    known = np.maximum(counts, 1)[:, None]
    refused = {}
    for k in np.flatnonzero((counts > 0) & ((start >= counts) | (start < 0))).tolist():
        refused[k] = f"start must be from 0 to {counts[k] - 1}, the last frame, not {start[k]}"
    if short == "error":
        for k in np.flatnonzero((counts > 0) & (numbers[:, -1] >= counts)).tolist():
            refused[k] = (
                f"it has {counted(int(counts[k]), 'frame')}, but frames {start[k]} to {numbers[k, -1]} were requested"
            )
    numbers = numbers % known if short == "wrap" else np.minimum(numbers, known - 1)
    numbers[[*refused, *np.flatnonzero(counts == 0).tolist()]] = 0
    return numbers, refused


def numbers_at(times: Floats, videos: Sequence[VideoIndex | None]) -> tuple[Ints, dict[int, str]]:
    """Return the numbers of the frames displayed at times (N, T), in seconds, and reasons for clips without frames."""
    numbers = np.zeros(times.shape, np.int64)
    refused = {}
    for k, video in enumerate(videos):
        if video is None:
            continue
        # Half a microsecond of tolerance: a time computed from a frame's own time selects that frame despite rounding.
        found = np.searchsorted(video.times, times[k] + 0.5e-6, side="right") - 1
        end = video.end * video.tick
        outside = (found < 0) | (times[k] >= end)
        if outside.any():
            bad = float(times[k][outside][0])
            refused[k] = f"times must be from {video.times[0]:g} to below {end:g} seconds, not {bad:g}"
        else:
            numbers[k] = found
    return numbers, refused
