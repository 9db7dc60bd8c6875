"""Recordings: images on a device with the plans of operations to apply. Functions work on these."""

from typing import Any

import numpy as np

from .._checks.arguments import Count
from .._checks.records import record
from .._checks.text import images_or_clips
from .._checks.types import Ints, Mask
from .._data.images import Encoded, EncodedImages, Pixels, rows_of
from .._plan.plan import Evolving, Plan, evolve
from .._runtimes import whole_files
from .._runtimes.attempt import delivered
from .._runtimes.protocol import Outcome, Runtime, Timings
from .arrays import checked_arrays
from .result_spec import UNITS


@record
class Recording(Evolving):
    """Source images and the operations to apply. Immutable: functions return another recording."""

    runtime: Runtime
    source: Encoded | Pixels
    segments: tuple[Plan, ...]  # each applies to the results of the one before
    timings: Timings  # shared by all recordings derived from this one

    @staticmethod
    def start(runtime: Runtime, source: Encoded | Pixels, timings: Timings | None = None) -> "Recording":
        """Return images with nothing recorded."""
        plan = Plan.start(source.sizes, source.channels, of_bytes=source.dtype != "float32")
        return Recording(runtime, source, (plan,), Timings() if timings is None else timings)

    def __len__(self) -> int:
        return len(self.segments[-1].grid.sizes)

    @property
    def plan(self) -> Plan:
        """The plan being recorded: the last segment."""
        return self.segments[-1]

    @property
    def frames(self) -> int | None:
        """Frames of each clip; None if the images are not frames of clips."""
        return self.source.frames

    @property
    def units(self) -> int:
        """Number of images, or of clips: draws, failures and labels are counted per image or per clip."""
        return len(self) // (self.frames or 1)

    @property
    def image_count(self) -> int:
        """Number of images, a :class:`Count` for clips, to check parameters with a value for each image or clip."""
        images, frames = len(self.segments[-1].grid.sizes), self.source.frames
        return images if frames is None else Count(images, frames)

    @property
    def shown(self) -> str:
        """Number of images or clips, as text."""
        return images_or_clips(len(self), self.frames)

    @property
    def failed(self) -> Mask:
        """(N,): True for images that could not be read or decoded: they are black, and no function may refuse them."""
        return np.isin(np.arange(len(self)) // (self.frames or 1), list(self.source.failures))

    def refused(self, unfit: Mask) -> int | None:
        """Return the first image of those that a function is not possible for, (N,), but for failed ones; or None."""
        if np.any(unfit) and np.any(unfit := unfit & ~self.failed):
            return int(np.argmax(unfit))
        return None

    def check_undrafted(self) -> None:
        """Refuse images whose pixels ``draft`` changes, for an exact resize."""
        if isinstance(self.source, EncodedImages) and self.source.options.draft is not None:
            raise ValueError("an exact resize needs images that were opened without draft=, which changes their pixels")

    @property
    def sizes(self) -> Ints:
        """(N, 2) int64: height and width of each result."""
        return self.segments[-1].grid.sizes

    @property
    def channels(self) -> int:
        """Channels of each result."""
        return self.segments[-1].channels

    @property
    def dtype(self) -> str:
        """Default dtype of the results."""
        return "float32" if self.normalized else self.source.dtype

    @property
    def unit(self) -> float:
        """Size of one level of a user's color: 1/255 for uint8 images, 1 for floating-point images."""
        return UNITS[self.dtype]

    @property
    def normalized(self) -> bool:
        """True if values of any image may lie outside [0, 1]."""
        return self.segments[-1].normalized or (len(self.segments) > 1 and any(one.normalized for one in self.segments))

    @property
    def changes_nothing(self) -> bool:
        """True if the results are the source images themselves."""
        return self.channels == self.source.channels and all(plan.changes_nothing for plan in self.segments)

    def is_unchanged(self, dtype: str) -> bool:
        """Return True if the results in this dtype are the source images themselves."""
        return dtype == self.source.dtype and self.changes_nothing

    def with_plan(self, plan: Plan) -> "Recording":
        """Return the same images with another plan for the last segment."""
        return evolve(self, segments=(*self.segments[:-1], plan))

    def with_segments(self, segments: tuple[Plan, ...]) -> "Recording":
        """Return the same images with other plans; without any, with nothing recorded."""
        return evolve(self, segments=segments or Recording.start(self.runtime, self.source).segments)

    def with_results(self, pixels: Pixels) -> "Recording":
        """Return a recording of the results, of which nothing is recorded."""
        done = Recording.start(self.runtime, pixels, timings=self.timings)
        return done.with_plan(evolve(done.plan, normalized=self.normalized, empty_size=self.plan.empty_size))

    def new_segment(self) -> "Recording":
        """Start a segment: its source is the results so far, in float32."""
        if self.plan.is_fresh:
            return self
        return self.with_segments((*self.segments, self.plan.then()))

    def for_geometry(self) -> "Recording":
        """Start a segment if the pending operations, such as a blur, cannot be combined with geometry."""
        return self.new_segment() if self.plan.blocks_geometry else self

    def taken(self, rows: Ints) -> "Recording":
        """Return some of the images or clips, by position."""
        segments = tuple(plan.take(rows_of(rows, self.frames)) for plan in self.segments)
        return evolve(self, source=self.source.take(rows), segments=segments)

    def at_frames(self, frames: Ints) -> "Recording":
        """Return the same clips with some of their frames, in any order and any number of times."""
        rows = np.arange(len(self)).reshape(-1, self.frames or 1)[:, frames].reshape(-1)
        segments = tuple(plan.take(rows) for plan in self.segments)
        assert not isinstance(self.source, EncodedImages)
        return evolve(self, source=self.source.at_frames(frames), segments=segments)

    def decoded(self) -> Pixels:
        """Decode the source images now and return them unchanged."""
        if isinstance(self.source, Pixels):
            return self.source
        source = self.source
        pixels, outcome = delivered(lambda: whole_files.decode(self.runtime, source))
        self.record_outcome(outcome)
        return pixels

    def record_outcome(self, outcome: Outcome) -> None:
        """Add the timings of a run, and record or raise its failures: the only place that applies ``on_error``."""
        self.timings.add(outcome.timings)
        if not isinstance(self.source, Pixels):
            self.source.record_failures(outcome.failures)


def recording_of(images: Any) -> Recording:
    """Return the recording of a :class:`gpuimg.Batch`, the only access to its private state, or a new one of arrays."""
    found: Recording | None = getattr(images, "_recording", None)
    if found is not None:
        return found
    runtime, arrays = checked_arrays(images)
    recording = Recording.start(runtime, runtime.from_arrays(arrays))
    return recording if len(recording) else recording.with_plan(evolve(recording.plan, empty_size=arrays.shape[1:3]))
