"""What a device can do: the interface that exists twice, for CPU and CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from .._data.images import Encoded, Pixels
from .._plan.plan import Plan

#: ``cudaStreamPerThread``, which is not an address: it names another stream on every thread.
PER_THREAD_STREAM = 2


@dataclass
class Timings:
    """Seconds that a runtime worked, all its threads together, and what a GPU's decoders left out."""

    decode: float = 0.0
    kernels: float = 0.0
    unwritten: int = 0  # images that a decoder of a GPU reported as decoded, but did not write
    clips_on_cpu: int = 0  # clips of a batch on a GPU that its decoder did not take, or failed at

    def add(self, other: Timings) -> None:
        """Count another's seconds too."""
        self.decode += other.decode
        self.kernels += other.kernels
        self.unwritten += other.unwritten
        self.clips_on_cpu += other.clips_on_cpu


@dataclass
class Outcome:
    """What a runtime has to tell of its work."""

    failures: dict[int, str] = field(default_factory=dict)  # why images did not decode, by index; they are black
    timings: Timings = field(default_factory=Timings)
    launches: int = 0  # kernel launches; on the CPU the passes that would be launches


class Runtime(Protocol):
    """A device: memory, decoding, and running plans."""

    name: str  # "cpu", "cuda:0" and so on
    on_host: bool  # whether its arrays are NumPy's

    def device(self) -> AbstractContextManager[Any]:
        """Where arithmetic on its arrays is done."""

    def empty(self, elements: int, dtype: str) -> Any:
        """An uninitialised flat array."""

    def take(self, elements: int, dtype: str) -> Any:
        """As :meth:`empty`, to be written by :meth:`run` or :meth:`mix`."""

    def from_arrays(self, arrays: Any) -> Pixels:
        """A list of (H, W, C) arrays, or one (N, H, W, C) array, as pixels."""

    def from_dlpack(self, array: Any) -> Any:
        """Another library's array in this device's memory, as this device's library knows arrays."""

    def to_host(self, array: Any) -> Any:
        """An array of this device as a NumPy array; waits for a GPU."""

    def decode(self, images: Encoded) -> tuple[Pixels, Outcome]:
        """All images of a batch, whole."""

    def run(
        self,
        source: Encoded | Pixels,
        segments: Sequence[Plan],
        out: Any,
        offsets: Any,
        kind: int,
        planar: bool,
    ) -> Outcome:
        """Run plans, each on the results of the one before, into the flat ``out``."""

    def mix(self, one: Pixels, other: Pixels, weight: Any, partner: Any, rectangle: Any, out: Any) -> None:
        """Mix float32 images of the same sizes into the flat ``out``, see :func:`gpuimg.blend`."""

    def owns(self, array: Any) -> bool:
        """Whether an array is in this device's memory."""

    def private_stream(self, lanes: int = 1) -> AbstractContextManager[Any]:
        """Run this thread's work on a private CUDA stream inside the block; on the CPU there is none.

        ``lanes`` threads of this process do so beside each other.
        """

    def record_event(self) -> Any:
        """The end of what this thread has enqueued on its private stream so far."""

    def wait_event(self, event: Any, stream: int | None) -> None:
        """Let what the caller enqueues from now on, on a stream or its current one, come after an event."""

    def result_memory(self, stream: int | None) -> ResultMemory:
        """Memory for results that are read on a stream, or their reader's current one."""


class ResultMemory(Protocol):
    """Memory for results that is used again once nothing refers to a result in it any more."""

    def take(self, elements: int, dtype: str) -> Any:
        """An uninitialised flat array."""
