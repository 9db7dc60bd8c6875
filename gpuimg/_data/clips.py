"""Clips as frame numbers of videos, not decoded."""

from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .._checks.records import record
from .._checks.types import Ints
from .._decoding.options import DecodeOptions
from .._video.index import VideoIndex
from ..errors import ClipFailure, Failure
from .selection import Opened, Selection


@record
class EncodedClips(Opened):
    """Clips whose frame numbers are known; none of the frames is decoded."""

    data: Sequence[Any]  # paths, or bytes of files
    videos: Sequence[VideoIndex | None]  # None if the file could not be read
    numbers: Ints  # (N, T) of frames; 0 in clips that failed
    names: Sequence[str]
    options: DecodeOptions
    on_error: str
    failures: dict[int, Failure] = field(default_factory=dict)  # by clip
    selection: "Selection[EncodedClips] | None" = None

    layout: ClassVar[str] = "NHWC"  # of decoded frames
    failure: ClassVar[type[Failure]] = ClipFailure

    @property
    def dtype(self) -> str:
        """Dtype of decoded frames."""
        return "uint8"

    @property
    def channels(self) -> int:
        """Channels of decoded frames."""
        return self.options.channels

    @property
    def frames(self) -> int:
        """Frames of each clip."""
        return int(self.numbers.shape[1])

    @cached_property
    def sizes(self) -> Ints:
        """(N * T, 2) of all frames, as displayed; 1 x 1 for a clip whose video could not be read."""
        found = [(1, 1) if video is None else video.size for video in self.videos]
        return np.repeat(np.array(found, np.int64).reshape(-1, 2), self.frames, 0)

    def __len__(self) -> int:
        return len(self.data) * self.frames

    def part(self, indices: Sequence[int]) -> "EncodedClips":
        """Return some of the clips, none of which failed before, as a separate batch."""
        chosen = list(indices)
        return EncodedClips(
            [self.data[i] for i in chosen],
            [self.videos[i] for i in chosen],
            self.numbers[chosen],
            [self.names[i] for i in chosen],
            self.options,
            "fill",
        )

    def at_frames(self, frames: Ints) -> "EncodedClips":
        """Return the same clips with some of their frames, in any order and any number of times."""
        selection = self.selection and self.selection._replace(of=self.selection.of.at_frames(frames))
        return replace(self, numbers=self.numbers[:, frames], selection=selection)
