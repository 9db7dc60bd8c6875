"""The CPU runtime: each thread takes one image at a time from file to result, so that it stays in the cache."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from .._checks.types import Ints
from .._data.images import ALIGNMENT, Encoded, EncodedImages, Pixels, numpy_dtype, offsets_of, sizes_of
from .._decoding import one_file, pillow, route
from .._decoding.options import DecodeOptions
from .._encoding.options import JpegOptions
from .._plan.draft import decoded_sizes
from .._plan.lower import Work, lower
from .._threads.helpers import each_side_by_side
from .._threads.threads import threads
from .._threads.turn import end_turn
from ..kernels import layout
from ..kernels.cpu.batch import encode_pixels
from ..kernels.cpu.run import mix_image
from .cpu_call import Call
from .cpu_encode import Encodings
from .cpu_image import decode_jpeg
from .cpu_memory import CallMemory, Pool
from .protocol import Outcome, Timings


class CpuRuntime:
    """Runtime for the CPU. Scratch memory is reused by the next call.

    ``most`` is the largest number of threads for one call, by default all allowed; 1 is for callers with threads.
    """

    name = "cpu"
    on_host = True
    jpeg_problem: str | None = None

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._spare: list[CallMemory] = []
        self._pool = Pool()

    def device(self) -> AbstractContextManager[None]:
        """See :meth:`Runtime.device`."""
        return nullcontext()

    # -- memory ------------------------------------------------------------------------------------------------

    def empty(self, elements: int, dtype: str) -> Any:
        """Return an uninitialized flat array, aligned for zero-copy hand-off."""
        kind = numpy_dtype(dtype)
        return self._pool.take(elements * kind.itemsize).view(kind)

    empty_for_results = empty

    def owns(self, array: Any) -> bool:
        """Return True for NumPy arrays."""
        return isinstance(array, np.ndarray)

    def from_dlpack(self, array: Any) -> Any:
        """Return the same memory as a NumPy array."""
        return np.from_dlpack(array)

    def to_host(self, array: Any) -> Any:
        """Return the array itself."""
        return array

    def from_arrays(self, arrays: Any) -> Pixels:
        """Return pixels of checked arrays; one contiguous (N, H, W, C) array is used in place, others are copied."""
        if isinstance(arrays, np.ndarray):
            n, height, width, channels = arrays.shape
            sizes = np.tile(np.array([[height, width]], np.int64), (n, 1))
            offsets, _ = offsets_of(sizes, channels)
            return Pixels(np.ascontiguousarray(arrays).reshape(-1), offsets, sizes, channels)
        sizes = np.array([a.shape[:2] for a in arrays], np.int64).reshape(-1, 2)
        channels = arrays[0].shape[2]
        offsets, total = offsets_of(sizes, channels)
        flat = np.empty(total, arrays[0].dtype)
        for array, start in zip(arrays, offsets, strict=True):
            flat[start : start + array.size].reshape(array.shape)[:] = array
        return Pixels(flat, offsets, sizes, channels)

    def result_memory(self, stream: int | None) -> "CpuRuntime":
        """Return the memory for a pipeline's results: the same as for all results."""
        return self

    # Threads of a pipeline share only the cores: there is nothing to set up or wait for.

    def private_stream(self, threads: int = 1) -> AbstractContextManager[None]:
        """See :meth:`Runtime.private_stream`."""
        return nullcontext()

    def record_event(self) -> None:
        """See :meth:`Runtime.record_event`; work on the CPU is complete when its call returns."""

    def wait_event(self, event: None, stream: int | None) -> None:
        """See :meth:`Runtime.wait_event`."""

    def finished(self) -> Callable[[], None]:
        """See :meth:`Runtime.finished`."""
        return lambda: None

    # -- work --------------------------------------------------------------------------------------------------

    def decode(self, images: Encoded, regions: Ints | None = None) -> tuple[Pixels, Outcome]:
        """Decode whole images, or regions (N, 4) of images that differ, into one buffer."""
        sizes = decoded_sizes(images) if regions is None else sizes_of(regions)
        if regions is None and isinstance(images, EncodedImages) and images.is_single_file:
            start = time.perf_counter()
            one = self._decode_jpeg(images.data[0], images.options)
            if one is not None:
                taken = Timings(time.perf_counter() - start)
                return Pixels(one.reshape(-1), np.zeros(1, np.int64), sizes, images.channels), Outcome(timings=taken)
        offsets, total = offsets_of(sizes, images.channels, ALIGNMENT)
        flat = self.empty(total, "uint8")
        pixels = Pixels(flat, offsets, sizes, images.channels, failures=images.failures, frames=images.frames)
        work = lower(images, (), layout.UINT8, "pixels", on_host=True)
        return pixels, self._run(Call(work, flat, offsets, regions))

    def decode_deep(self, images: EncodedImages, numbers: Ints, pixels: Pixels) -> Ints:
        """See :meth:`Runtime.decode_deep`; the host decodes all of them one by one."""
        return numbers[:0]

    def decode_file(self, data: Any, options: DecodeOptions) -> Any | None:
        """See :meth:`Runtime.decode_file`."""
        if route.is_jpeg(data):
            return self._decode_jpeg(data, options)
        shown = one_file.decode(data, pillow.read_header(data, options.max_pixels), options)
        if shown.flags.owndata and shown.flags.carray:  # nobody else's
            return shown
        pixels = self._pool.take(shown.nbytes).view(shown.dtype).reshape(shown.shape)
        pixels[:] = shown
        return pixels

    def _decode_jpeg(self, data: Any, options: DecodeOptions) -> Any | None:
        end_turn()
        memory = self._take()
        try:
            return decode_jpeg(data, options, memory, self.empty)
        finally:
            self._spare.append(memory)

    def run(self, work: Work, out: Any, offsets: Any) -> Outcome:
        """Run all segments of an image before the next one."""
        return self._run(Call(work, out.view(np.uint8), offsets))

    def encode(self, work: Work, options: JpegOptions) -> tuple[list[bytes], Outcome]:
        """Encode results of bytes as JPEGs, each right after it is computed."""
        last = work.segments[-1] if work.segments else None
        sizes, channels = (last.sizes, last.plan.channels) if last else (work.sizes, work.source.channels)
        encodings = Encodings(sizes, channels, options)
        outcome = self._run(Call(work, np.empty(1, np.uint8), np.zeros(len(sizes), np.int64), encodings=encodings))
        return encodings.files(), outcome

    def encode_one(self, image: Any, options: JpegOptions) -> bytes:
        """Encode one contiguous (H, W, C) image without a batch."""
        end_turn()
        memory, sizes = self._take(), np.array([image.shape[:2]], np.int64)
        try:
            encodings, more = Encodings(sizes, image.shape[2], options), True
            while more:
                encode_pixels(image.reshape(-1), encodings.records, memory.flat("one", encodings.scratch, np.uint8))
                more = len(encodings.give_more()) > 0
        finally:
            self._spare.append(memory)
        return encodings.files()[0]

    def mix(self, one: Pixels, other: Pixels, weight: Any, partner: Any, rectangle: Any, out: Any) -> None:
        """Mix images on the worker threads."""

        def work(i: int) -> None:
            a, b = one.view(i), other.view(int(partner[i]))
            start = int(one.offsets[i] - one.offsets[0])
            mix_image(
                a.reshape(-1), b.reshape(-1), a.shape[1], a.shape[2], np.float32(weight[i]), rectangle[i],
                out[start : start + a.size],
            )  # fmt: skip

        each_side_by_side(work, range(len(one.offsets)), min(self._most or threads(), len(one.offsets)))

    def _run(self, call: Call) -> Outcome:
        end_turn()  # the native loops run without the GIL
        memory = self._take()
        try:
            call.run(memory, self._most or threads())
        finally:
            if not call.has_workers:  # else Ctrl-C came twice; they refer to the memory, so the call keeps it
                self._spare.append(memory)
        if call.functions:
            call.check_functions()
        return Outcome(dict(sorted(call.failures.items())), call.timings)

    def _take(self) -> CallMemory:
        # Without a lock: one that another thread holds during a fork would stay locked in the child.
        try:
            return self._spare.pop()
        except IndexError:
            return CallMemory()
