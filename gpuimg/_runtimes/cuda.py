"""The CUDA runtime: CuPy memory and streams, all images in one arena, the fused kernel over one uploaded plan.

Streams. Everything of a batch is enqueued on a private, non-null stream of the calling thread, but its decoding, for
which that stream waits (see :mod:`gpuimg._runtimes.cuda_decode`). It starts after what the caller's current CuPy stream
holds, and that stream goes on after it: to the caller, results behave as if computed on the current stream, and memory
that stream has finished with may be used again. A thread of a pipeline makes the private stream its current one, so
that it waits for nothing of its consumer's.

Memory. The hardware JPEG engine is reported to write its destination when called, whatever the stream still has to do
before (torchcodec PR 1634), so an arena is decoded into again only after the *host* has waited for its last reader.
CuPy's pool gives memory out again on the stream it was allocated on, whatever uses it on others (cupy issue 8068). So
the results of such a thread, which are read on another stream, and arenas, which all threads use, go back to it only
after the host has waited for their last use: what it gives such a thread was then used by its own stream alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import cupy
import numpy as np

from .._checks.types import Ints
from .._plan.compile import Pass, compile_plan
from .._plan.plan import Plan
from ..kernels import cuda as kernels
from ..kernels import layout, ops
from .cuda_decode import ImageDecoder
from .cuda_launch import launch
from .cuda_memory import Event, PerThread, PooledResults, address, copy_to_device, recorded, wait
from .images import ALIGNMENT, SCALES, STORAGE, EncodedImages, Pixels, numpy_dtype, offsets_of
from .protocol import Outcome

_MOST_IMAGES = 65535  # blocks along y of one launch


class _Arena:
    """Memory for decoded images that only this runtime reads, and the event after its last reader."""

    def __init__(self, size: int) -> None:
        self.memory = cupy.empty(size, cupy.uint8)
        self.read = cupy.cuda.Event(disable_timing=True)


class CudaRuntime:
    """Decodes and runs plans on one GPU."""

    on_host = False

    def __init__(self, index: int) -> None:
        count = cupy.cuda.runtime.getDeviceCount()
        if index >= count:
            raise ValueError(f'device "cuda:{index}" does not exist: this machine has {count} GPU(s)')
        self.name = f"cuda:{index}"
        self._index = index
        self._device = cupy.cuda.Device(index)
        self._arenas: list[_Arena] = []
        self._lock = threading.Lock()
        self._streams: list[Any] = []  # of threads that are gone
        self._decoder = ImageDecoder(index)
        self._local = threading.local()
        self._results = PooledResults(self._device, self._local)  # of private streams, where no other memory is given

    # -- streams -----------------------------------------------------------------------------------------------

    @property
    def _stream(self) -> Any:
        """The calling thread's private stream."""
        if not hasattr(self._local, "own"):
            with self._device:
                self._local.own = PerThread(self._streams, lambda: cupy.cuda.Stream(non_blocking=True))
        return self._local.own.value

    @contextmanager
    def private_stream(self, lanes: int = 1) -> Iterator[None]:
        """Work on this thread's private stream."""
        self._decoder.set_lanes(lanes)
        with self._device, self._stream:
            self._local.results = []
            try:
                yield
            finally:
                self._local.results = None

    @property
    def _on_private_stream(self) -> bool:
        return getattr(self._local, "results", None) is not None

    def record_event(self) -> Event:
        """As :meth:`Runtime.record_event`."""
        return Event(recorded(self._stream.ptr), self._local.results)

    def wait_event(self, event: Event, stream: int | None) -> None:
        """As :meth:`Runtime.wait_event`."""
        with self._device:
            reader = address(stream)
            wait(reader, event.event)
        for reference in event.results:
            result = reference()
            if result is not None:
                result.stream = reader

    def result_memory(self, stream: int | None) -> PooledResults:
        """As :meth:`Runtime.result_memory`; which stream reads it is told when results are handed over."""
        return PooledResults(self._device, self._local)

    # -- memory ------------------------------------------------------------------------------------------------

    def empty(self, elements: int, dtype: str) -> Any:
        """An uninitialised flat array of the caller's current stream; of a private one, to be read on others too."""
        if self._on_private_stream:
            return self._results.take(elements, dtype)
        with self._device:
            return cupy.empty(elements, numpy_dtype(dtype))

    def owns(self, array: Any) -> bool:
        """Whether this is a CuPy array on this device."""
        return isinstance(array, cupy.ndarray) and array.device.id == self._index

    def from_dlpack(self, array: Any) -> Any:
        """The same memory as a CuPy array, ordered after the work of its owner's stream."""
        with self._device:
            return cupy.from_dlpack(array)

    def to_host(self, array: Any) -> Any:
        """The array as a NumPy array, once its device is done."""
        return array.get()

    def from_arrays(self, arrays: Any) -> Pixels:
        """Pixels of checked arrays; one contiguous (N, H, W, C) array is used in place, all else is packed."""
        with self._device:
            if not isinstance(arrays, (list, tuple)):
                n, height, width, channels = arrays.shape
                sizes = np.tile(np.array([[height, width]], np.int64), (n, 1))
                offsets, total = offsets_of(sizes, channels)
                flat = cupy.ascontiguousarray(arrays).reshape(-1)
                if self._on_private_stream:  # may be a result of this stream, but the pool's memory
                    own = self.empty(total, flat.dtype.name)
                    own[:] = flat
                    flat = own
                return Pixels(flat, offsets, sizes, channels)
            sizes = np.array([a.shape[:2] for a in arrays], np.int64).reshape(-1, 2)
            channels = arrays[0].shape[2]
            offsets, total = offsets_of(sizes, channels)
            flat = self.empty(total, arrays[0].dtype.name)
            for array, start in zip(arrays, offsets.tolist(), strict=True):
                flat[start : start + array.size].reshape(array.shape)[:] = cupy.asarray(array)
            return Pixels(flat, offsets, sizes, channels)

    # -- decoding ----------------------------------------------------------------------------------------------

    def decode(self, images: EncodedImages) -> tuple[Pixels, Outcome]:
        """Decode whole images into one arena that becomes the caller's."""
        offsets, total = offsets_of(images.sizes, images.channels, ALIGNMENT)
        with self._device:
            flat = self.empty(total, "uint8")
            if not self._on_private_stream:
                # The pool may have given memory that a kernel on any stream still reads.
                self._device.synchronize()
            pixels = Pixels(flat, offsets, images.sizes, images.channels, failures=images.failures)
            try:
                outcome = self._decoder.decode(images, pixels, self._stream)
            finally:  # also of a failure: the memory goes back to the caller's stream
                wait(address(None), recorded(self._stream.ptr))
        return pixels, outcome

    def _take_arena(self, size: int) -> _Arena:
        """An arena of at least this size that nothing reads any more."""
        with self._lock:
            fitting = [a for a in self._arenas if a.memory.size >= size]
            if fitting:
                arena = min(fitting, key=lambda a: a.memory.size)
                self._arenas.remove(arena)
            else:
                # Too small ones are given back rather than kept beside the larger one.
                for small in self._arenas:
                    small.read.synchronize()
                self._arenas.clear()
                arena = None
        if arena is None:
            arena = _Arena(size)
            # See decode; a private stream must not wait for its consumer.
            (self._stream if self._on_private_stream else self._device).synchronize()
        arena.read.synchronize()
        return arena

    def _give_arena(self, arena: _Arena) -> None:
        arena.read.record(self._stream)
        with self._lock:
            self._arenas.append(arena)

    # -- running -----------------------------------------------------------------------------------------------

    def run(
        self,
        source: EncodedImages | Pixels,
        segments: Sequence[Plan],
        out: Any,
        offsets: Ints,
        kind: int,
        planar: bool,
    ) -> Outcome:
        """Run plans: for each a launch for each statistic in it, and one for the result."""
        _check_count(len(segments[0]))
        with self._device:
            caller = address(None)
            wait(self._stream.ptr, recorded(caller))
            try:
                if isinstance(source, Pixels):
                    return Outcome(launches=self._launch_segments(source, segments, out, offsets, kind, planar))
                starts, total = offsets_of(source.sizes, source.channels, ALIGNMENT)
                arena = self._take_arena(total)
                try:
                    pixels = Pixels(arena.memory, starts, source.sizes, source.channels)
                    outcome = self._decoder.decode(source, pixels, self._stream, segments[0])
                    begin = time.perf_counter()
                    outcome.launches = self._launch_segments(pixels, segments, out, offsets, kind, planar)
                    outcome.timings.kernels += time.perf_counter() - begin  # of the host: the launches
                    return outcome
                finally:
                    self._give_arena(arena)
            finally:
                wait(caller, recorded(self._stream.ptr))

    def mix(self, one: Pixels, other: Pixels, weight: Any, partner: Any, rectangle: Any, out: Any) -> None:
        """Mix images in one launch."""
        _check_count(len(one.sizes))
        if len(one.sizes) == 0:
            return
        with self._device:
            caller = address(None)
            wait(self._stream.ptr, recorded(caller))
            elements = one.sizes[:, 0] * one.sizes[:, 1] * one.channels
            host = (
                (one.sizes[:, 1], np.int32), (elements, np.int32), (weight, np.float32),
                (one.offsets - one.offsets[0], np.int64), (other.offsets[partner], np.int64),
                (rectangle.reshape(-1), np.int32),
            )  # fmt: skip
            with self._stream:
                width, count, share, starts, partners, boxes = (
                    cupy.asarray(np.ascontiguousarray(values, kind)) for values, kind in host
                )
                first = int(one.offsets[0])
                grid = (-(-int(elements.max()) // kernels.MIX.block), len(elements))
                launch(
                    kernels.MIX, self._stream.ptr, grid, one.flat[first : first + out.size], other.flat, width,
                    one.channels, count, share, starts, partners, boxes, out,
                )  # fmt: skip
            wait(caller, recorded(self._stream.ptr))

    def _launch_segments(
        self, source: Pixels, segments: Sequence[Plan], out: Any, offsets: Ints, kind: int, planar: bool
    ) -> int:
        launches = 0
        for plan in segments[:-1]:
            starts, total = offsets_of(plan.sizes, plan.channels, ALIGNMENT)
            with self._stream:
                between = cupy.empty(total, cupy.float32)
            launches += self._launch(source, plan, between, starts, layout.FLOAT32, False)
            source = Pixels(between, starts, plan.sizes, plan.channels)
        return launches + self._launch(source, segments[-1], out, offsets, kind, planar)

    def _launch(self, source: Pixels, plan: Plan, out: Any, offsets: Ints, kind: int, planar: bool) -> int:
        passes, region = compile_plan(plan)
        strides = source.sizes[:, 1] * source.channels
        start = source.offsets + region[:, 1] * strides + region[:, 0] * source.channels
        for run in passes:
            run.records["source"] = start
            run.records["output"] = offsets
            run.records["stride"] = strides
        n = len(plan)
        stream = self._stream.ptr
        with self._stream:
            parts = _upload(passes)
            table_words = passes[-1].end_slot * ops.STATISTICS_WORDS
            tables = cupy.empty(max(n * table_words, 1), cupy.float32)
            scale = SCALES[source.dtype]
            launches = 0
            for run, (ints, floats, programs) in zip(passes, parts, strict=True):
                words = run.programs.shape[1]
                common = source.flat, source.channels, scale, ints, floats, programs, words, tables, table_words
                pixels = int(np.max(run.records["height"].astype(np.int64) * run.records["width"]))
                for slot in range(run.first_slot, run.end_slot):
                    kernel = kernels.statistics_kernel(plan.functions, source.dtype, plan.sharpens)
                    launch(kernel, stream, (-(-pixels // kernel.block), n), *common, slot, *_accumulators(n))
                    launches += 1
                if run is passes[-1]:
                    kernel = kernels.transform_kernel(plan.functions, source.dtype, kind, plan.sharpens)
                    stored = out.view(STORAGE[out.dtype.name])
                    launch(kernel, stream, (-(-pixels // kernel.block), n), *common, stored, plan.channels, int(planar))
                    launches += 1
        return launches


def _check_count(n: int) -> None:
    if n > _MOST_IMAGES:
        raise ValueError(f"a batch on a GPU holds at most {_MOST_IMAGES} images, not {n}")


def _upload(passes: list[Pass]) -> list[tuple[Any, Any, Any]]:
    """All passes in one copy to the device; for each its records as int32 and float32, and its programs."""
    host = np.concatenate([part.reshape(-1).view(np.int32) for run in passes for part in (run.records, run.programs)])
    words = cupy.empty(host.size, cupy.int32)
    copy_to_device(host, words)
    floats = words.view(cupy.float32)
    parts = []
    at = 0
    for run in passes:
        middle = at + len(run.records) * layout.RECORD_WORDS
        end = middle + run.programs.size
        parts.append((words[at:middle], floats[at:middle], floats[middle:end]))
        at = end
    return parts


def _accumulators(n: int) -> tuple[Any, Any, Any, Any]:
    """Sums, extremes, counts and tickets of one statistics launch, set to their neutral values."""
    sums = cupy.zeros(n, cupy.int64)
    extremes = cupy.empty(n * kernels.EXTREMES, cupy.int32)
    extremes.data.memset_async(0x80, extremes.nbytes)  # below the key of every float in use
    counts = cupy.zeros(n * ops.STATISTICS_WORDS, cupy.int32)
    tickets = cupy.zeros(n, cupy.int32)
    return sums, extremes, counts, tickets
