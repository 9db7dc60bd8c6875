"""The CUDA runtime: CuPy memory and streams, all images in one arena, the fused kernel over one uploaded plan.

Streams. Everything of a batch is enqueued on a private, non-null stream of the calling thread, but its decoding, for
which that stream waits (see :mod:`gpuimg._runtimes.cuda_decode`). It starts after what the caller's current CuPy stream
holds, and that stream goes on after it: to the caller, results behave as if computed on the current stream, and memory
that stream has finished with may be used again. A thread of a pipeline makes the private stream its current one, so
that it waits for nothing of its consumer's.

Memory. What kernels write is ordered on the GPU: they wait on the private stream, behind the decoding of their batch,
for the last reader of a result's memory. The hardware JPEG engine, however, is reported to write its destination when
called, whatever the stream still has to do before (torchcodec PR 1634), so what is decoded into, arenas and results
that are whole images, is used again only after the *host* has waited for its last reader. A thread has two arenas, so
that one batch is decoded while the kernels of the one before still read theirs; and two blocks of pinned memory, from
which plans are uploaded. CuPy's pool gives memory out again on the stream it was allocated on, whatever uses it on
others (cupy issue 8068). So what other streams read, results of a pipeline's threads and of decoding, is not given back
to it, but kept with an event after its last reader.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import cupy
import numpy as np

from .._checks.types import Ints
from .._data.images import (
    ALIGNMENT,
    SCALES,
    STORAGE,
    Encoded,
    Pixels,
    check_reach,
    numpy_dtype,
    of_all_views,
    offsets_of,
    rows_of,
)
from .._data.views import once
from .._plan.compile import Pass, build_for, compile_plan, launches_of, ops_used, source_regions
from .._plan.plan import Plan
from .._threads.turn import end_turn
from ..kernels import cuda as kernels
from ..kernels import layout, ops
from .cuda_decode import ImageDecoder
from .cuda_launch import launch
from .cuda_memory import Event, Lane, PerThread, PooledResults, Stream, current, follow, recorded, upload, wait
from .cuda_prepass import begins_apart, done_apart, places_apart, words_apart
from .protocol import Outcome

_MOST_IMAGES = 65535  # blocks along y of one launch


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
        self._lanes: list[Lane] = []  # of threads that are gone
        self._decoder = ImageDecoder(index)
        self._local = threading.local()
        self._results = PooledResults(self._device, self._local)  # where no other memory is given

    # -- streams -----------------------------------------------------------------------------------------------

    @property
    def _lane(self) -> Lane:
        """What the calling thread has for itself."""
        if not hasattr(self._local, "lane"):
            with self._device:
                self._local.lane = PerThread(self._lanes, Lane)
        lane: Lane = self._local.lane.value
        return lane

    @property
    def _stream(self) -> Any:
        """The calling thread's private stream."""
        return self._lane.stream

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

    def _order_results(self) -> None:
        """Let what is enqueued from now on write the memory of all results: their last readers come before."""
        for reference in getattr(self._local, "results", None) or ():
            result = reference()
            if result is not None:
                result.order(self._stream.ptr)

    def record_event(self) -> Event:
        """As :meth:`Runtime.record_event`."""
        return Event(recorded(self._stream.ptr), self._local.results)

    def wait_event(self, event: Event, stream: int | None) -> None:
        """As :meth:`Runtime.wait_event`."""
        with self._device:
            reader = current() if stream is None else Stream(stream)
            wait(reader.address, event.event)
        for reference in event.results:
            result = reference()
            if result is not None:
                result.stream = reader

    def result_memory(self, stream: int | None) -> PooledResults:
        """As :meth:`Runtime.result_memory`; which stream reads it is told when results are handed over."""
        return PooledResults(self._device, self._local)

    # -- memory ------------------------------------------------------------------------------------------------

    def device(self) -> AbstractContextManager[Any]:
        """The device, as CuPy's current one."""
        device: AbstractContextManager[Any] = self._device
        return device

    def empty(self, elements: int, dtype: str) -> Any:
        """An uninitialised flat array of the caller's current stream; of a private one, to be read on others too."""
        array = self.take(elements, dtype)
        self._order_results()
        return array

    def take(self, elements: int, dtype: str) -> Any:
        """As :meth:`empty`, to be written by :meth:`run` or :meth:`mix`, which see to the order of a private stream."""
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

    def decode(self, images: Encoded) -> tuple[Pixels, Outcome]:
        """Decode whole images into one arena that becomes the caller's."""
        offsets, total = offsets_of(images.sizes, images.channels, ALIGNMENT)
        with self._device:
            caller = current()
            with self._stream:
                flat = self._results.take_for_decoder(total, "uint8", caller)
            pixels = Pixels(
                flat, offsets, images.sizes, images.channels, failures=images.failures, frames=images.frames
            )
            try:
                outcome = self._decoder.decode(images, pixels, self._stream)
            finally:  # also of a failure: the memory comes back in the order of the caller's stream
                follow(caller.address, self._stream.ptr)
        return pixels, outcome

    # -- running -----------------------------------------------------------------------------------------------

    def run(
        self,
        source: Encoded | Pixels,
        segments: Sequence[Plan],
        out: Any,
        offsets: Ints,
        kind: int,
        planar: bool,
    ) -> Outcome:
        """Run plans: for each a launch for each statistic in it, and one for the result."""
        _check_count(len(segments[0]))
        end_turn()  # decoders are waited for
        with self._after_caller():
            if isinstance(source, Pixels):
                return Outcome(launches=self._launch_segments(source, segments, out, offsets, kind, planar))
            leaders = source.leaders()
            images, first, views = (source, None, None) if leaders is None else once(source, leaders)
            starts, total = offsets_of(images.sizes, images.channels, ALIGNMENT)
            lane = self._lane
            arena = lane.arenas.take(total)
            try:
                pixels = Pixels(arena.memory, starts, images.sizes, images.channels, frames=images.frames)
                regions = _wanted(source, segments[0], leaders, first)
                outcome = self._decoder.decode(images, pixels, lane.stream, regions)
                if first is not None and views is not None:
                    pixels = pixels.views(views)
                    _pass_on(images, outcome, source, first)
                begin = time.perf_counter()
                outcome.launches = self._launch_segments(pixels, segments, out, offsets, kind, planar)
                outcome.timings.kernels += time.perf_counter() - begin  # of the host: the launches
                return outcome
            finally:
                arena.used.record(lane.stream)
                lane.arenas.give(arena)

    @contextmanager
    def _after_caller(self) -> Iterator[None]:
        """Work on the private stream, after what the caller's holds, which goes on after it."""
        with self._device:
            caller, own = current().address, self._stream.ptr
            follow(own, caller)
            try:
                yield
            finally:
                follow(caller, own)

    def mix(self, one: Pixels, other: Pixels, weight: Any, partner: Any, rectangle: Any, out: Any) -> None:
        """Mix images in one launch."""
        _check_count(len(one.sizes))
        if len(one.sizes) == 0:
            return
        n = len(one.sizes)
        elements = one.sizes[:, 0] * one.sizes[:, 1] * one.channels
        host = (
            (one.offsets - one.offsets[0], np.int64), (other.offsets[partner], np.int64), (one.sizes[:, 1], np.int32),
            (elements, np.int32), (rectangle, np.int32), (weight, np.float32),
        )  # fmt: skip
        first = int(one.offsets[0])
        grid = (-(-int(elements.max()) // kernels.MIX.block), n)
        with self._after_caller(), self._stream:
            words = upload([np.ascontiguousarray(values, kind) for values, kind in host], self._lane)
            starts, partners = words[: 2 * n].view(cupy.int64), words[2 * n : 4 * n].view(cupy.int64)
            width, count = words[4 * n : 5 * n], words[5 * n : 6 * n]
            boxes, share = words[6 * n : 10 * n], words[10 * n :].view(cupy.float32)
            self._order_results()
            launch(
                kernels.MIX, self._stream.ptr, grid, one.flat[first : first + out.size], other.flat, width,
                one.channels, count, share, starts, partners, boxes, out,
            )  # fmt: skip

    def _launch_segments(
        self, source: Pixels, segments: Sequence[Plan], out: Any, offsets: Ints, kind: int, planar: bool
    ) -> int:
        """Upload all plans, then launch them, each on the results of the one before."""
        places = [offsets_of(plan.sizes, plan.channels, ALIGNMENT) for plan in segments[:-1]]
        starts = [source.offsets, *(offsets for offsets, _ in places), offsets]
        sizes = [source.sizes, *(plan.sizes for plan in segments)]
        channels = [source.channels, *(plan.channels for plan in segments)]
        compiled = [_compiled(plan, sizes[k], channels[k], starts[k], starts[k + 1]) for k, plan in enumerate(segments)]
        launches = 0
        with self._stream:
            parts = iter(_upload(compiled, self._lane))
            self._order_results()
            for k, (_, total) in enumerate(places):
                between = cupy.empty(total, cupy.float32)
                launches += self._launch(source, segments[k], compiled[k], parts, between, layout.FLOAT32, False)
                source = Pixels(between, starts[k + 1], sizes[k + 1], channels[k + 1])
            return launches + self._launch(source, segments[-1], compiled[-1], parts, out, kind, planar)

    def _launch(
        self, source: Pixels, plan: Plan, stage: _Stage, parts: Iterator[Any], out: Any, kind: int, planar: bool
    ) -> int:
        passes, apart = stage
        n, slots, stream = len(plan), passes[-1].end_slot, self._stream.ptr
        if apart is not None:
            source = done_apart(source, plan, next(parts), stream)
        table_words = slots * ops.STATISTICS_WORDS
        tables = cupy.empty(max(n * table_words, 1), cupy.float32)
        accumulators = _accumulators(n, slots) if slots else []
        scale = SCALES[source.dtype]
        build = build_for(plan)
        for run in passes:
            ints, floats, programs = next(parts)
            words = run.programs.shape[1]
            common = source.flat, source.channels, scale, ints, floats, programs, words, tables, table_words
            pixels = int(np.max(run.records["height"].astype(np.int64) * run.records["width"]))
            for slot in range(run.first_slot, run.end_slot):
                kernel = kernels.statistics_kernel(plan.functions, source.dtype, build)
                launch(kernel, stream, (-(-pixels // kernel.block), n), *common, slot, *accumulators[slot])
            if run is passes[-1]:
                kernel = kernels.transform_kernel(plan.functions, source.dtype, kind, build)
                stored = out.view(STORAGE[out.dtype.name])
                launch(kernel, stream, (-(-pixels // kernel.block), n), *common, stored, plan.channels, int(planar))
        return launches_of(passes, ops_used(plan))


def _wanted(source: Encoded, plan: Plan, leaders: Ints | None, first: Ints | None) -> Ints | None:
    """Regions (N, 4) that are read of what is decoded; None where decoders know nothing but whole images."""
    if source.seek is None and source.frames is None:
        return None
    regions = source_regions(plan)
    if leaders is None or first is None:
        return regions
    return of_all_views(regions, rows_of(leaders, source.frames))[rows_of(first, source.frames)]


def _pass_on(images: Encoded, outcome: Outcome, source: Encoded, first: Ints) -> None:
    """What became of images, or clips, as that of the first view of each."""
    outcome.failures = {int(first[k]): reason for k, reason in outcome.failures.items()}
    if source.seek is not None and images.seek is not None:
        source.seek.take_over(images.seek, first)


def _check_count(n: int) -> None:
    if n > _MOST_IMAGES:
        raise ValueError(f"a batch on a GPU holds at most {_MOST_IMAGES} images, not {n}")


class _Stage(NamedTuple):
    """A compiled plan."""

    passes: list[Pass]
    apart: Any  # words of what is done before its passes, or None


def _compiled(plan: Plan, sizes: Ints, channels: int, source: Ints, output: Ints) -> _Stage:
    """A plan for images of these sizes that lie at some elements, to come to lie at others."""
    apart = words_apart(plan, sizes, channels, source) if begins_apart(plan) else None
    start = source if apart is None else places_apart(sizes, channels)[0]
    passes, region = compile_plan(plan)
    strides = sizes[:, 1] * channels
    check_reach(region, strides)
    start = start + region[:, 1] * strides + region[:, 0] * channels
    for run in passes:
        run.records["source"] = start
        run.records["output"] = output
        run.records["stride"] = strides
    return _Stage(passes, apart)


def _upload(stages: list[_Stage], lane: Lane) -> list[Any]:
    """All stages in one copy to the device: words of what is done before passes; of a pass records and programs.

    Records are there as int32 and as float32.
    """
    parts: list[Any] = []
    for stage in stages:
        parts += [stage.apart] if stage.apart is not None else []
        parts += [part for run in stage.passes for part in (run.records, run.programs)]
    words = upload(parts, lane)
    floats = words.view(cupy.float32)
    found: list[Any] = []
    at = 0
    for stage in stages:
        if stage.apart is not None:
            found.append(words[at : at + len(stage.apart)])
            at += len(stage.apart)
        for run in stage.passes:
            middle = at + len(run.records) * layout.RECORD_WORDS
            end = middle + run.programs.size
            found.append((words[at:middle], floats[at:middle], floats[middle:end]))
            at = end
    return found


def _accumulators(n: int, slots: int) -> list[tuple[Any, Any, Any, Any]]:
    """Sums, extremes, counts and tickets of each launch of a statistic, set to their neutral values."""
    zeros = cupy.zeros(slots * n * (2 + ops.STATISTICS_WORDS + 1), cupy.int32)
    extremes = cupy.empty(slots * n * kernels.EXTREMES, cupy.int32)
    extremes.data.memset_async(0x80, extremes.nbytes)  # below the key of every float in use
    first, second = 2 * slots * n, (2 + ops.STATISTICS_WORDS) * slots * n
    parts = zeros[:first].view(cupy.int64), extremes, zeros[first:second], zeros[second:]
    found = []
    for slot in range(slots):
        sums, lows, counts, tickets = (
            part[slot * part.size // slots : (slot + 1) * part.size // slots] for part in parts
        )
        found.append((sums, lows, counts, tickets))
    return found
