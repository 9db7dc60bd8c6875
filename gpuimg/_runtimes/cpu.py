"""The CPU runtime: one image at a time from file to result on each of a few threads, while it is in the cache."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._decoding import exif
from .._decoding.decoder import Region
from .._decoding.stderr import silence_stderr
from .._plan.compile import Pass, compile_plan, ops_used
from .._plan.plan import Plan
from ..kernels import cpu as loops
from ..kernels import layout, ops
from .cpu_memory import Pool, Scratch
from .images import ALIGNMENT, SCALES, EncodedImages, Pixels, numpy_dtype, offsets_of
from .protocol import Outcome, Timings
from .threads import threads

# Rows sampled at a time: enough to share the tap tables, few enough to stay in the second-level cache.
_ROWS = 64

_CHANNELS = 3  # of the widest images

# Results of at least so many bytes are written past the caches, which would have lost them when they are read.
_STREAMED = 8 << 20


_Worker: TypeAlias = "Callable[[int], str | None]"  # for each image; gives the reason of one that does not decode


class CpuRuntime:
    """Runs plans on the CPU. Threads live as long as a call; scratch memory is kept for the next one."""

    name = "cpu"
    on_host = True

    def __init__(self) -> None:
        self._spare: list[Scratch] = []
        self._pool = Pool()
        self._lock = threading.Lock()

    # -- memory ------------------------------------------------------------------------------------------------

    def empty(self, elements: int, dtype: str) -> Any:
        """An uninitialised flat array, aligned for zero-copy hand-off."""
        kind = numpy_dtype(dtype)
        return self._pool.take(elements * kind.itemsize).view(kind)

    take = empty  # what a pipeline calls it

    def owns(self, array: Any) -> bool:
        """Whether this is a NumPy array."""
        return isinstance(array, np.ndarray)

    def from_dlpack(self, array: Any) -> Any:
        """The same memory as a NumPy array."""
        return np.from_dlpack(array)

    def to_host(self, array: Any) -> Any:
        """The array itself."""
        return array

    def from_arrays(self, arrays: Any) -> Pixels:
        """Pixels of checked arrays; one contiguous (N, H, W, C) array is used in place, all else is packed."""
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

    def result_memory(self, stream: int | None) -> CpuRuntime:
        """Memory for results of a pipeline: that of all results."""
        return self

    # A pipeline's threads share nothing but the cores: nothing is to be set up, and nothing to wait for.

    def private_stream(self) -> AbstractContextManager[None]:
        """As :meth:`Runtime.private_stream`."""
        return nullcontext()

    def record_event(self) -> None:
        """As :meth:`Runtime.record_event`: what was called is done."""

    def wait_event(self, event: None, stream: int | None) -> None:
        """As :meth:`Runtime.wait_event`."""

    # -- work --------------------------------------------------------------------------------------------------

    def decode(self, images: EncodedImages) -> tuple[Pixels, Outcome]:
        """Decode whole images into one arena."""
        offsets, total = offsets_of(images.sizes, images.channels, ALIGNMENT)
        pixels = Pixels(self.empty(total, "uint8"), offsets, images.sizes, images.channels, failures=images.failures)

        def worker(scratch: Scratch) -> _Worker:
            return lambda i: _decode(images, i, scratch, pixels.view(i), None)

        return pixels, self._each(len(images.images), worker, images)

    def run(
        self,
        source: EncodedImages | Pixels,
        segments: Sequence[Plan],
        out: Any,
        offsets: Any,
        kind: int,
        planar: bool,
    ) -> Outcome:
        """Run all segments of an image before the next one; the launches are those a GPU would need for the batch."""
        starts = _first_segments(segments)
        last = len(segments) - 1
        compiled = []
        for k, plan in enumerate(segments):
            # What a segment reads: results of the one before, and source images that those before leave as they are.
            read = {"float32"} if k else set()
            if k in starts:
                read.add(source.dtype)
            compiled.append(_Segment(plan, *((kind, planar) if k == last else _BETWEEN), read))
        call = _Call(source, compiled, starts, out.view(np.uint8), offsets.tolist())
        outcome = self._each(len(segments[0]), call.worker, source if isinstance(source, EncodedImages) else None)
        outcome.launches = sum(segment.passes[-1].end_slot + 1 for segment in compiled)
        return outcome

    def mix(self, one: Pixels, other: Pixels, weight: Any, partner: Any, rectangle: Any, out: Any) -> None:
        """Mix images on the worker threads."""

        def image(i: int) -> None:
            a, b = one.view(i), other.view(int(partner[i]))
            start = int(one.offsets[i] - one.offsets[0])
            loops.mix_image(
                a.reshape(-1), b.reshape(-1), a.shape[1], a.shape[2], np.float32(weight[i]), rectangle[i],
                out[start : start + a.size],
            )  # fmt: skip

        self._each(len(one.offsets), lambda _: image, None)

    def _each(self, n: int, worker: Callable[[Scratch], _Worker], images: EncodedImages | None) -> Outcome:
        """Call a worker for every image on each of the threads; gives the failures' reasons in order, and the times.

        ``images`` are what it decodes: only decoding prints to stderr, so only then is it silenced. The largest are
        taken first, so that the threads end together.
        """
        found: dict[int, str] = {}
        timings = Timings()
        order = iter(range(n) if images is None else sorted(range(n), key=images.bytes_of, reverse=True))
        stop = threading.Event()

        def work() -> None:
            scratch = self._take()
            scratch.decoding = 0.0
            begin = time.perf_counter()
            try:
                one = worker(scratch)
                while not stop.is_set():
                    i = next(order, None)  # atomic under the GIL
                    if i is None:
                        break
                    reason = one(i)
                    if reason is not None:
                        found[i] = reason
            except BaseException:
                stop.set()
                raise
            finally:
                total = time.perf_counter() - begin
                with self._lock:
                    timings.add(Timings(scratch.decoding, total - scratch.decoding))
                    self._spare.append(scratch)

        helpers = min(threads(), n) - 1
        with silence_stderr() if images is not None else nullcontext():
            if helpers < 1:
                work()
            else:
                with ThreadPoolExecutor(helpers, thread_name_prefix="gpuimg") as pool:
                    futures = [pool.submit(work) for _ in range(helpers)]
                    work()
                    for future in futures:
                        future.result()
        return Outcome(dict(sorted(found.items())), timings)

    def _take(self) -> Scratch:
        with self._lock:
            return self._spare.pop() if self._spare else Scratch()


# Results of a segment that another one reads: their kind, and whether each channel is a plane.
_BETWEEN = (layout.FLOAT32, False)


class _Segment:
    """A compiled plan: what is read and written of each image, as Python's own numbers, and the memory it takes."""

    def __init__(self, plan: Plan, kind: int, planar: bool, sources: set[str]) -> None:
        self.passes, region = compile_plan(plan)
        self.channels = plan.channels
        self.regions = region.tolist()  # of the source that are read: x0, y0, x1, y1
        self.strides = (plan.sizes[:, 1] * plan.channels).tolist()
        self.itemsize = loops.BYTES_OF[kind]
        self.bytes = (plan.sizes[:, 0] * plan.sizes[:, 1] * (plan.channels * self.itemsize)).tolist()
        separable = np.concatenate([run.records["separable"] for run in self.passes])
        used = ops_used(plan)
        self.calls = {
            source: loops.call_table(source, kind, planar, used, separable, plan.functions) for source in sources
        }
        # Views of each pass's records as the kernels read them, a row an image.
        self.records = [
            (run.records.view(np.int32).reshape(len(plan), -1), run.records.view(np.float32).reshape(len(plan), -1))
            for run in self.passes
        ]
        self.memory = np.max([_memory(run, plan.sharpens) for run in self.passes], 0)

    def run(
        self, i: int, source: Any, stride: int, channels: int, memory: _Memory, out: Any, streamed: bool
    ) -> None:  # fmt: skip
        """One image through all passes."""
        size, dtype = source.size, source.dtype.name
        calls, scale = self.calls[dtype], SCALES[dtype]
        source = source.view(np.uint8)
        source.flags.writeable = False  # one compiled variant, whether or not the user's array may be written to
        for run, (records, words) in zip(self.passes, self.records, strict=True):
            records[i, layout.STRIDE] = stride
            loops.run_image(
                calls, source, size, channels, scale, records[i], words[i], run.programs[i], run.first_slot,
                memory.statistics, memory.planes, memory.floats, memory.ints, memory.packed,
                out if run is self.passes[-1] else out[:0], self.channels, streamed,
            )  # fmt: skip


class _Memory(NamedTuple):
    """A worker thread's memory for the largest image of a call."""

    statistics: Any
    planes: Any
    floats: Any
    ints: Any
    packed: Any


def _memory(run: Pass, sharpens: bool) -> list[int]:
    """Elements of a ``_Memory`` for the largest image of a pass."""
    records = run.records
    if not len(records):
        return [0] * len(_Memory._fields)
    height, width = records["height"].astype(np.int64), records["width"].astype(np.int64)
    nx, ny = records["taps"].astype(np.int64).T
    rows = height if run.first_slot < run.end_slot or sharpens else np.minimum(_ROWS, height)
    floats, ints = loops.work_space(height, width, nx, ny, records["window"][:, 2].astype(np.int64))
    return [
        run.end_slot * ops.STATISTICS_WORDS,
        _CHANNELS * int(np.max(rows * width)),
        2 * int(np.max(width)) + int(np.max(floats)),
        max(int(np.max(ints)), ops.LEVELS),
        int(np.max(width)),
    ]


@dataclass(frozen=True)
class _Call:
    """One run of the runtime: from a source through segments into ``out``."""

    source: EncodedImages | Pixels
    segments: list[_Segment]
    starts: list[int]  # the segment that each image begins with
    out: Any  # bytes
    offsets: list[int]  # elements

    def worker(self, scratch: Scratch) -> _Worker:
        """What a thread calls for each image."""
        statistics, planes, floats, ints, packed = np.max([segment.memory for segment in self.segments], 0).tolist()
        memory = _Memory(
            scratch.flat("statistics", statistics, np.float32),
            scratch.flat("planes", planes, np.float32)[:planes].reshape(_CHANNELS, -1),
            scratch.flat("floats", floats, np.float32),
            scratch.flat("ints", ints, np.int32),
            scratch.flat("packed", packed, np.uint32),
        )
        return partial(self._one, scratch, memory)

    def _one(self, scratch: Scratch, memory: _Memory, i: int) -> str | None:
        start = self.starts[i]
        pixels, stride, reason = self._source_pixels(i, self.segments[start].regions[i], scratch)
        channels = self.source.channels
        for k in range(start, len(self.segments) - 1):
            segment = self.segments[k]
            # Two buffers in turn: a segment reads one while it writes the other.
            size = segment.bytes[i]
            result = scratch.flat(f"segment{k % 2}", size, np.uint8)[:size]
            segment.run(i, pixels, stride, channels, memory, result, False)
            x0, y0, *_ = self.segments[k + 1].regions[i]
            channels = segment.channels
            stride = segment.strides[i]
            pixels = result.view(np.float32)[y0 * stride + x0 * channels :]
        last = self.segments[-1]
        streamed = self.out.nbytes >= _STREAMED
        begin = self.offsets[i] * last.itemsize
        last.run(i, pixels, stride, channels, memory, self.out[begin : begin + last.bytes[i]], streamed)
        return reason

    def _source_pixels(self, i: int, region: list[int], scratch: Scratch) -> tuple[Any, int, str | None]:
        """A region of a source image: its elements from the corner on, the row stride, a failure's reason."""
        x0, y0, x1, y1 = region
        source = self.source
        if isinstance(source, Pixels):
            height, width = (int(v) for v in source.sizes[i])
            stride = width * source.channels
            image = int(source.offsets[i])
            corner = image + y0 * stride + x0 * source.channels
            return _with_slack(source.flat, corner, image + height * stride, scratch), stride, None
        height, width = y1 - y0, x1 - x0
        stride = width * source.channels
        pixels = scratch.flat("source", height * stride + loops.SOURCE_SLACK, np.uint8)
        view = pixels[: height * stride].reshape(height, width, source.channels)
        return pixels, stride, _decode(source, i, scratch, view, (x0, y0, x1, y1))


def _with_slack(flat: Any, start: int, stop: int, scratch: Scratch) -> Any:
    """Elements ``start`` to ``stop``, and a few behind them that may be read; copied only at the buffer's end."""
    if stop + loops.SOURCE_SLACK <= flat.size or flat.dtype != np.uint8:
        return flat[start : stop + loops.SOURCE_SLACK]
    copy = scratch.flat("source", stop - start + loops.SOURCE_SLACK, np.uint8)
    copy[: stop - start] = flat[start:stop]
    return copy


def _first_segments(segments: Sequence[Plan]) -> list[int]:
    """For each image the first segment that changes it, or the last one: what is before need not run."""
    first = np.zeros(len(segments[0]), np.int64)
    reached = np.ones(len(first), np.bool_)
    for plan in segments[:-1]:
        reached &= plan.unchanged_images()
        first += reached
    return [int(k) for k in first]


def _decode(
    images: EncodedImages, i: int, scratch: Scratch, out: np.ndarray[Any, Any], region: Region | None
) -> str | None:
    """Decode an image, or a region of it, into ``out``; gives the reason and leaves it black if that fails."""
    begin = time.perf_counter()
    try:
        reason = _decode_image(images, i, scratch, out, region)
        if reason is not None:
            out[:] = 0
        return reason
    finally:
        scratch.decoding += time.perf_counter() - begin


def _decode_image(
    images: EncodedImages, i: int, scratch: Scratch, out: np.ndarray[Any, Any], region: Region | None
) -> str | None:
    image = images.images[i]
    if image is None:
        return images.failures[i].reason if i in images.failures else "not read"
    turn = image.orientation
    part = None if region in (None, (0, 0, image.width, image.height)) else region
    if part is not None:
        part = exif.stored(part, turn, image.height, image.width)
    if turn == 1:
        return scratch.decoder.decode(image, part, out)
    height, width, channels = out.shape
    shape = exif.stored_shape((height, width, channels), turn)
    stored = scratch.flat("stored", out.size, np.uint8)[: out.size].reshape(shape)
    reason = scratch.decoder.decode(image, part, stored)
    out[:] = exif.turned(stored, turn)
    return reason
