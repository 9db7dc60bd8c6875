"""The runtime interface of a device, implemented for CPU and CUDA."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .._checks.types import Ints
from .._data.images import Encoded, EncodedImages, Pixels
from .._decoding.options import DecodeOptions

if TYPE_CHECKING:  # lower imports Numba, and importing gpuimg does not
    from .._plan.lower import Work

#: ``cudaStreamPerThread``: not an address, but a handle that means a different stream on every thread.
PER_THREAD_STREAM = 2


@dataclass
class Timings:
    """Seconds of work of a runtime, summed over its threads, and counts of images that a GPU's decoders skipped."""

    decode: float = 0.0
    kernels: float = 0.0
    unwritten: int = 0  # images that a GPU's decoder reported as decoded, but did not write
    jpegs_on_cpu: int = 0  # JPEGs that our own kernels or nvImageCodec began, but could not decode
    clips_on_cpu: int = 0  # clips of a batch on a GPU that its decoder refused, or failed to decode

    def add(self, other: "Timings") -> None:
        """Add the seconds and counts of another."""
        self.decode += other.decode
        self.kernels += other.kernels
        self.unwritten += other.unwritten
        self.jpegs_on_cpu += other.jpegs_on_cpu
        self.clips_on_cpu += other.clips_on_cpu


@dataclass
class Outcome:
    """Result of a runtime's work."""

    failures: dict[int, str] = field(default_factory=dict)  # reasons of images not decoded, by index; they are black
    timings: Timings = field(default_factory=Timings)

    def add(self, other: "Outcome") -> None:
        """Add the work of another run, and the failures of its images."""
        self.failures |= other.failures
        self.timings.add(other.timings)


class UnusableDeviceError(RuntimeError):
    """A GPU's first use failed, or its results are not the CPU's, see :mod:`gpuimg._runtimes.self_test`."""


class Runtime(Protocol):
    """A device: memory, decoding, and running plans."""

    name: str  # "cpu", "cuda:0" and so on
    on_host: bool  # True if its arrays are NumPy arrays
    jpeg_problem: str | None  # why a GPU's kernels for JPEGs are not used

    def device(self) -> AbstractContextManager[Any]:
        """Return a context in which arithmetic on this device's arrays may be done."""

    def empty(self, elements: int, dtype: str) -> Any:
        """Return an uninitialized flat array."""

    def empty_for_results(self, elements: int, dtype: str) -> Any:
        """Return an array as :meth:`empty` does, to be written by :meth:`run` or :meth:`mix`."""

    def from_arrays(self, arrays: Any) -> Pixels:
        """Return a list of (H, W, C) arrays, or one (N, H, W, C) array, as pixels."""

    def from_dlpack(self, array: Any) -> Any:
        """Return another library's array in this device's memory as an array of this device's library."""

    def to_host(self, array: Any) -> Any:
        """Return an array of this device as a NumPy array; wait for a GPU."""

    # What decodes does so within an :class:`~.attempt.Attempt`.

    def decode(self, images: Encoded) -> tuple[Pixels, Outcome]:
        """Decode all images of a batch completely."""

    def decode_deep(self, images: EncodedImages, numbers: Ints, pixels: Pixels) -> Ints:
        """Decode 16-bit files (M,) of a batch into ``pixels``, uint16; return the numbers of those that it decoded."""

    def decode_file(self, data: Any, options: DecodeOptions) -> Any | None:
        """Return the pixels of one file, (H, W, C) as displayed, decoded without a batch; None if it needs one.

        Raises ValueError with the reason if the file cannot be decoded.
        """

    def run(self, work: "Work", out: Any, offsets: Any) -> Outcome:
        """Do what was decided for a batch, and write the results to the flat ``out``."""

    def mix(self, one: Pixels, other: Pixels, weight: Any, partner: Any, rectangle: Any, out: Any) -> None:
        """Mix float32 images of the same sizes into the flat ``out``, see :func:`gpuimg.blend`."""

    def owns(self, array: Any) -> bool:
        """Return True if an array is in this device's memory."""

    def private_stream(self, threads: int = 1) -> AbstractContextManager[Any]:
        """Run this thread's work on a private CUDA stream inside the block; does nothing on the CPU.

        ``threads``: number of threads of this process that do so at the same time.
        """

    def record_event(self) -> Any:
        """Return an event after the work that this thread has enqueued on its private stream so far."""

    def wait_event(self, event: Any, stream: int | None) -> None:
        """Make work that the caller enqueues later, on a stream or its current one, wait for an event."""

    def finished(self) -> Callable[[], None]:
        """Return a function that makes the current stream of its caller wait for this thread's work so far."""

    def result_memory(self, stream: int | None) -> "ResultMemory":
        """Return memory for results that are read on a stream, by default on their reader's current one."""


class ResultMemory(Protocol):
    """Memory for results that is reused once nothing refers to a result in it any more."""

    def empty_for_results(self, elements: int, dtype: str) -> Any:
        """Return an uninitialized flat array."""
