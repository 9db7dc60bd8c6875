"""Recording: images on a device and the plans of what is to be done to them, which is what functions work on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from .._checks.arguments import Count
from .._checks.text import images_or_clips
from .._checks.types import Ints
from .._data.images import Encoded, EncodedImages, Pixels, rows_of
from .._plan.plan import Plan
from .._runtimes import whole_files
from .._runtimes.protocol import Outcome, Runtime, Timings
from .result_spec import UNITS


@dataclass(frozen=True, eq=False, slots=True)
class Recording:
    """Images before anything was done to them, and what is to be done. It never changes: functions make another one."""

    runtime: Runtime
    source: Encoded | Pixels
    segments: tuple[Plan, ...] = ()  # each on the results of the one before; one that does nothing if none is given
    timings: Timings = field(default_factory=Timings)  # of all recordings that were made from this one

    def __post_init__(self) -> None:
        if not self.segments:
            source = self.source
            start = Plan.start(source.sizes, source.channels, of_bytes=source.dtype != "float32")
            object.__setattr__(self, "segments", (start,))

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def plan(self) -> Plan:
        """The plan that is being recorded: the last segment."""
        return self.segments[-1]

    @property
    def frames(self) -> int | None:
        """Frames of each clip; None where the images are not of clips."""
        return self.source.frames

    @property
    def units(self) -> int:
        """Images, or clips: a draw, a failure and a label belong to one of them."""
        return len(self) // (self.frames or 1)

    @property
    def image_count(self) -> Count:
        """Number of images, for checks of parameters that may be given for each image or for each clip."""
        return Count(len(self), self.frames)

    @property
    def shown(self) -> str:
        """Number of images or clips in words."""
        return images_or_clips(len(self), self.frames)

    @property
    def sizes(self) -> Ints:
        """(N, 2) int64: height and width of each result."""
        return self.plan.sizes

    @property
    def channels(self) -> int:
        """Channels of each result."""
        return self.plan.channels

    @property
    def dtype(self) -> str:
        """Default dtype of the results."""
        return "float32" if self.normalized else self.source.dtype

    @property
    def unit(self) -> float:
        """What one step of a color given by the user is: 1/255 for uint8 images, 1 for floating-point ones."""
        return UNITS[self.dtype]

    @property
    def normalized(self) -> bool:
        """Whether any of the images is no longer in [0, 1]."""
        return any(plan.normalized for plan in self.segments)

    @property
    def changes_nothing(self) -> bool:
        """Whether the results are the source images themselves."""
        return self.channels == self.source.channels and all(plan.changes_nothing for plan in self.segments)

    def with_plan(self, plan: Plan) -> Recording:
        """The same images with another plan for the last segment."""
        return self.with_segments((*self.segments[:-1], plan))

    def with_segments(self, segments: tuple[Plan, ...]) -> Recording:
        """The same images under other plans."""
        return Recording(self.runtime, self.source, segments, self.timings)

    def new_segment(self) -> Recording:
        """Start a segment: what is recorded next has the results so far, in float32, as its source."""
        if self.plan.is_fresh:
            return self
        return self.with_segments((*self.segments, self.plan.then()))

    def for_geometry(self) -> Recording:
        """Start a segment if what is pending, such as a blur, cannot be resampled lazily."""
        return self.new_segment() if self.plan.is_settled else self

    def taken(self, rows: Ints) -> Recording:
        """Some of the images or clips, by position."""
        segments = tuple(plan.views(rows_of(rows, self.frames)) for plan in self.segments)
        return replace(self, source=self.source.views(rows), segments=segments)

    def decoded(self) -> Pixels:
        """The source images as they are, decoded now."""
        if isinstance(self.source, Pixels):
            return self.source
        pixels, outcome = whole_files.decode(self.runtime, self.source)
        self.settle(outcome)
        return pixels

    def settle(self, outcome: Outcome) -> None:
        """Count the time of a run; keep its failures, or raise them: the one place with an error policy."""
        self.timings.add(outcome.timings)
        if isinstance(self.source, EncodedImages):
            self.source.warn_of_misfits()
        if not isinstance(self.source, Pixels):
            self.source.settle(outcome.failures)


def recorded(batch: Any) -> Recording:
    """The recording of a :class:`gpuimg.Batch`: the one place that looks into it."""
    recording: Recording = batch._recording
    return recording
