"""Clips whose frames are known by their numbers, but not decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .._checks.types import Ints
from .._decoding.options import DecodeOptions
from .._video.index import VideoIndex
from ..errors import ClipFailure, DecodeError, Failure
from .views import Views, views_of


@dataclass(frozen=True)
class EncodedClips:
    """Clips of which every frame is known by its number, but none decoded."""

    data: Sequence[Any]  # paths, or bytes of files
    videos: Sequence[VideoIndex | None]  # None where a file could not be read
    numbers: Ints  # (N, T) of frames; 0 in clips that failed
    names: Sequence[str]
    options: DecodeOptions
    on_error: str
    failures: dict[int, Failure] = field(default_factory=dict)  # by clip
    views_of: Views[EncodedClips] | None = None  # these are clips of others, which may stand several times

    layout: ClassVar[str] = "NHWC"  # of decoded frames
    seek: ClassVar[None] = None  # there are no seek indexes of videos

    @property
    def dtype(self) -> str:
        """Decoded frames are bytes."""
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
        """(N * T, 2) of all frames, as shown; 1 x 1 of a clip whose video could not be read."""
        found = [(1, 1) if video is None else video.size for video in self.videos]
        return np.repeat(np.array(found, np.int64).reshape(-1, 2), self.frames, 0)

    def __len__(self) -> int:
        return len(self.data) * self.frames

    def settle(self, reasons: dict[int, str]) -> None:
        """Keep the reasons of clips that failed; raise them all where that is the policy of the batch."""
        if self.views_of is not None:
            self.views_of.settle(reasons, self.failures)
            return
        for clip, reason in reasons.items():
            self.failures[clip] = ClipFailure(clip, self.names[clip], reason)
        if self.failures and self.on_error == "raise":
            raise DecodeError(tuple(self.failures[k] for k in sorted(self.failures)), len(self.data))

    def views(self, rows: Ints) -> EncodedClips:
        """Clips at some indices, in that order and any number of times; each is decoded once, and fails once."""
        views = views_of(self, self.views_of, rows)
        part = replace(views.of.part(views.rows.tolist()), on_error=views.of.on_error, views_of=views)
        part.failures.update(views.failures())
        return part

    def part(self, indices: Sequence[int]) -> EncodedClips:
        """Some of the clips, none of which failed before, as a batch of their own."""
        chosen = list(indices)
        return EncodedClips(
            [self.data[i] for i in chosen],
            [self.videos[i] for i in chosen],
            self.numbers[chosen],
            [self.names[i] for i in chosen],
            self.options,
            "fill",
        )

    def at_frames(self, kept: Ints) -> EncodedClips:
        """The same clips of some of their frames, in that order and any number of times."""
        views = self.views_of and self.views_of._replace(of=self.views_of.of.at_frames(kept))
        return replace(self, numbers=self.numbers[:, kept], views_of=views)

    def leaders(self) -> Ints | None:
        """(N,): as :meth:`Views.leaders`, of clips; None of what is no view."""
        return None if self.views_of is None else self.views_of.leaders()
