"""The CUDA runtime: CuPy memory and streams, all images of a batch in one arena, fused kernels over an uploaded plan.

Streams. All work of a batch is enqueued on a private, non-null stream of the calling thread, except its decoding, for
which that stream waits (see :mod:`gpuimg._runtimes.cuda_decode`). With gpuimg's own decoding kernels the host waits for
nothing in between; the few images that they cannot decode are known afterwards, see :mod:`.attempt`. The work
starts after the present work of the caller's current CuPy stream, and that stream continues after it: to the caller,
results behave as if computed on the current stream, and memory that this stream has finished with may be reused. A
thread of a pipeline makes the private stream its current one, so that it does not wait for its consumer.

Memory. Kernel writes are ordered on the GPU: on the private stream, after the decoding of their batch, they wait for
the last reader of a result's memory. The hardware JPEG engine, however, is reported to write its destination when
called, before the stream's pending work (torchcodec PR 1634). So memory to decode into, arenas and results that are
whole images, is reused only after the *host* has waited for its last reader. A thread has two arenas, so that one batch
is decoded while the kernels of the previous one still read theirs; and pinned memory, from which plans are uploaded.
CuPy's pool reuses memory on the stream it was allocated on, whatever other streams do with it (cupy issue 8068). So
memory that other streams read, results of a pipeline's threads and of decoding, is not returned to the pool, but stored
with an event after its last reader.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import cupy
import numpy as np

from .._checks.types import Ints
from .._data.images import (
    ALIGNMENT,
    Encoded,
    EncodedImages,
    Pixels,
    numpy_dtype,
    offsets_of,
)
from .._data.patches import Form, PatchLayout
from .._decoding.nvimgcodec import DeviceImage
from .._decoding.options import DecodeOptions
from .._encoding.nvimgcodec import gpu_encoder
from .._encoding.options import JpegOptions
from .._plan.compile import Pass
from .._plan.lower import CompiledSegment, Work
from .._threads.threads import threads
from .._threads.turn import end_turn
from ..kernels import cuda as kernels
from ..kernels import layout, ops
from .cuda_decode import ImageDecoder
from .cuda_exact import ExactSegment, placed_exact, run_exact
from .cuda_launch import launch
from .cuda_memory import (
    Event,
    PerThread,
    PooledResults,
    Stream,
    ThreadResources,
    current,
    event_after,
    follow,
    upload,
    wait,
)
from .cuda_prepass import has_prepass, prepass_layout, prepass_records, prepass_sizes, run_prepass
from .probe import beside_captures
from .protocol import PER_THREAD_STREAM, Outcome

_MOST_IMAGES = 65535  # CUDA's limit for gridDim.y of one launch
_NO_PATCHES = astuple(PatchLayout(0, 0, 0, 0, 0, 0, 0))


class CudaRuntime:
    """Runtime for one GPU."""

    on_host = False
    jpeg_problem: str | None = None

    def __init__(self, index: int) -> None:
        self.name = f"cuda:{index}"
        self._index = index
        self._device = cupy.cuda.Device(index)
        self._spare_resources: list[ThreadResources] = []  # of threads that have ended
        self._local = threading.local()
        self._results = PooledResults(self._device, self._local)  # results without caller-provided memory

    @cached_property
    def _decoder(self) -> ImageDecoder:
        """The decoder, created for the first files; the same for threads that need it at the same time."""
        made = ImageDecoder(self._index, lambda: self.jpeg_problem is None)
        decoder: ImageDecoder = vars(self).setdefault("_decoder", made)
        return decoder

    # -- streams -----------------------------------------------------------------------------------------------

    @property
    def _resources(self) -> ThreadResources:
        """Resources of the calling thread."""
        if not hasattr(self._local, "resources"):
            with self._device:
                self._local.resources = PerThread(self._spare_resources, ThreadResources)
        resources: ThreadResources = self._local.resources.value
        return resources

    @property
    def _stream(self) -> Any:
        """The calling thread's private stream."""
        return self._resources.stream

    @contextmanager
    def private_stream(self, threads: int = 1) -> Iterator[None]:
        """Work on this thread's private stream."""
        self._decoder.set_thread_count(threads)
        with self._device, self._stream, beside_captures():
            self._local.results = []
            try:
                yield
            except cupy.cuda.memory.OutOfMemoryError as error:
                error.add_note(f"{self.name} has too little memory: use a smaller batch_size or prefetch")
                raise
            finally:
                self._local.results = None

    @property
    def _on_private_stream(self) -> bool:
        return getattr(self._local, "results", None) is not None

    def _order_results(self) -> None:
        """Make later work on the private stream, which writes results, wait for the last readers of their memory."""
        for reference in getattr(self._local, "results", None) or ():
            if (result := reference()) is not None:
                result.order(self._stream.ptr)

    def record_event(self) -> Event:
        """See :meth:`Runtime.record_event`."""
        return Event(event_after(self._stream.ptr), self._local.results)

    def wait_event(self, event: Event, stream: int | None) -> None:
        """See :meth:`Runtime.wait_event`."""
        with self._device:
            reader = current() if stream is None else Stream(stream)
            wait(reader.address, event.event)
        for reference in event.results:
            if (result := reference()) is not None:
                result.stream = reader

    def finished(self) -> Callable[[], None]:
        """See :meth:`Runtime.finished`."""
        with self._device:
            writer = current()
            return partial(self._wait, writer, event_after(writer.address))

    def _wait(self, writer: Stream, event: Any) -> None:
        with self._device:
            if (reader := current().address) != writer.address or reader == PER_THREAD_STREAM:
                wait(reader, event)

    def result_memory(self, stream: int | None) -> PooledResults:
        """See :meth:`Runtime.result_memory`; the reading stream is set when results are returned."""
        return PooledResults(self._device, self._local)

    # -- memory ------------------------------------------------------------------------------------------------

    def device(self) -> AbstractContextManager[Any]:
        """Return the device, as CuPy's current one."""
        device: AbstractContextManager[Any] = self._device
        return device

    def empty(self, elements: int, dtype: str) -> Any:
        """Return an uninitialized flat array for the current stream; for a private one, readable on others too."""
        array = self.empty_for_results(elements, dtype)
        self._order_results()
        return array

    def empty_for_results(self, elements: int, dtype: str) -> Any:
        """Return an array as :meth:`empty` does, for :meth:`run` or :meth:`mix`, which order private streams."""
        if self._on_private_stream:
            return self._results.empty_for_results(elements, dtype)
        with self._device:
            return cupy.empty(elements, numpy_dtype(dtype))

    def owns(self, array: Any) -> bool:
        """Return True for CuPy arrays on this device."""
        return isinstance(array, cupy.ndarray) and array.device.id == self._index

    def from_dlpack(self, array: Any) -> Any:
        """Return the same memory as a CuPy array, ordered after the pending work of the producer's stream."""
        with self._device:
            return cupy.from_dlpack(array)

    def to_host(self, array: Any) -> Any:
        """Return the array as a NumPy array, once its device is done."""
        return array.get()

    def from_arrays(self, arrays: Any) -> Pixels:
        """Return pixels of checked arrays; one contiguous (N, H, W, C) array is used in place, others are copied."""
        with self._device:
            if not isinstance(arrays, (list, tuple)):
                n, height, width, channels = arrays.shape
                sizes = np.tile(np.array([[height, width]], np.int64), (n, 1))
                offsets, total = offsets_of(sizes, channels)
                flat = cupy.ascontiguousarray(arrays).reshape(-1)
                if self._on_private_stream:  # the memory may be the pool's, which other streams must not read
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

    def decode_file(self, data: Any, options: DecodeOptions) -> None:
        """See :meth:`Runtime.decode_file`."""

    def decode(self, images: Encoded) -> tuple[Pixels, Outcome]:
        """Decode whole images into one buffer that becomes the caller's."""
        offsets, total = offsets_of(images.sizes, images.channels, ALIGNMENT)
        with self._device:
            caller = current()
            with self._stream:
                flat = self._results.empty_for_results(total, "uint8", caller)
            pixels = Pixels(
                flat, offsets, images.sizes, images.channels, failures=images.failures, frames=images.frames
            )
            try:
                outcome = self._decoder.decode(images, pixels, self._stream)
            finally:  # after a failure too: the memory is reused in the order of the caller's stream
                follow(caller.address, self._stream.ptr)
        return pixels, outcome

    def decode_deep(self, images: EncodedImages, numbers: Ints, pixels: Pixels) -> Ints:
        """Decode 16-bit files by nvImageCodec."""
        with self._device:
            return self._decoder.decode_deep(images, numbers, pixels)

    # -- running -----------------------------------------------------------------------------------------------

    def run(self, work: Work, out: Any, offsets: Ints) -> Outcome:
        """Run plans, with one launch for each statistic and one for each plan's result."""
        _check_count(len(work.sizes))
        end_turn()  # decoders are waited for
        with self._after_caller(), self._decoded(work) as (pixels, outcome):
            begin = time.perf_counter()
            self._launch_segments(pixels, work, out, offsets)
            outcome.timings.kernels += time.perf_counter() - begin  # host time of the launches
            return outcome

    @contextmanager
    def _decoded(self, work: Work) -> Iterator[tuple[Pixels, Outcome]]:
        """Decode what is read of the images, into memory for as long as kernels on the private stream read it."""
        if isinstance(work.source, Pixels):
            yield work.source, Outcome()
            return
        files = work.files
        assert files is not None
        resources, channels, frames = self._resources, files.images.channels, files.images.frames
        arena = resources.arenas.take(files.total)
        try:
            pixels = Pixels(arena.memory, files.offsets, files.sizes, channels, frames=frames)
            outcome = self._decoder.decode(files.images, pixels, resources.stream, files.regions)
            if files.first is not None:
                outcome.failures = {int(files.first[k]): reason for k, reason in outcome.failures.items()}
                pixels = Pixels(arena.memory, files.offsets[files.rows], files.sizes[files.rows], channels)
            yield pixels, outcome
        finally:
            arena.used.record(resources.stream)
            resources.arenas.give(arena)

    @contextmanager
    def _after_caller(self) -> Iterator[None]:
        """Work on the private stream, after the caller's pending work; the caller's stream continues after it."""
        with self._device:
            caller, own = current().address, self._stream.ptr
            follow(own, caller)
            try:
                yield
            finally:
                follow(caller, own)

    def encode_pixels(self, pixels: Pixels, options: JpegOptions) -> list[bytes | None]:
        """Encode images in this device's memory as JPEGs with nvImageCodec; None for those that it fails at."""
        with self._after_caller(), self._stream:
            resources, stream = self._resources, self._stream.ptr
            if resources.encoder is None:
                resources.encoder = gpu_encoder(self._index, threads())
            starts = (pixels.flat.data.ptr + pixels.offsets).tolist()
            images = [DeviceImage(start, pixels.shape(i), stream) for i, start in enumerate(starts)]
            files: list[bytes | None] = resources.encoder.encode(images, options, stream)
            return files

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
            ints = upload(
                [np.ascontiguousarray(values, kind) for values, kind in host], self._resources.pinned, self._stream
            )
            starts, partners = ints[: 2 * n].view(cupy.int64), ints[2 * n : 4 * n].view(cupy.int64)
            width, count = ints[4 * n : 5 * n], ints[5 * n : 6 * n]
            boxes, share = ints[6 * n : 10 * n], ints[10 * n :].view(cupy.float32)
            self._order_results()
            launch(
                kernels.MIX, self._stream.ptr, grid, one.flat[first : first + out.size], other.flat, width,
                one.channels, count, share, starts, partners, boxes, out,
            )  # fmt: skip

    def _launch_segments(self, source: Pixels, work: Work, out: Any, offsets: Ints) -> None:
        """Upload all segments, then launch them, each on the results of the one before."""
        place, compiled = _Place(source.sizes, source.offsets, np.zeros_like(source.sizes), source.channels), []
        for segment in work.segments:
            to = offsets if segment.offsets is None else segment.offsets
            compiled.append(_placed(segment, place, to))
            place = _Place(segment.sizes, to, segment.corner, segment.plan.channels)
        with self._stream:
            uploaded = _upload(compiled, self._resources)
            self._order_results()
            for segment, own in zip(work.segments, compiled, strict=True):
                if segment.offsets is None:
                    self._launch(source, segment, own, uploaded, out)
                    return
                if not segment.passes and segment.exact is None:
                    source = run_prepass(source, segment, next(uploaded), self._stream.ptr)
                    continue
                between = cupy.empty(segment.total, cupy.uint8 if segment.kind == layout.UINT8 else cupy.float32)
                self._launch(source, segment, own, uploaded, between)
                source = Pixels(between, segment.offsets, segment.sizes, segment.plan.channels)

    def _launch(
        self, source: Pixels, segment: CompiledSegment, own: "_PlacedSegment | ExactSegment", parts: Iterator[Any],
        out: Any,
    ) -> None:  # fmt: skip
        if isinstance(own, ExactSegment):
            run_exact(own, next(parts), source.flat, source.channels, out, self._stream.ptr)
            return
        plan, passes = segment.plan, segment.passes
        n, slots, stream = len(plan), passes[-1].end_slot, self._stream.ptr
        if own.prepass is not None:
            source = run_prepass(source, segment, next(parts), stream)
        table_length = slots * ops.STATISTICS_WORDS
        tables = cupy.empty(max(n * table_length, 1), cupy.float32)
        accumulators = _accumulators(n, slots) if slots else []
        scale = layout.SCALES[source.dtype]
        build = segment.build
        for run in passes:
            ints, programs, length = next(parts), next(parts).view(cupy.float32), run.programs.shape[1]
            floats = ints.view(cupy.float32)  # the same records
            common = source.flat, source.channels, scale, ints, floats, programs, length, tables, table_length
            pixels = int(np.max(run.records["height"].astype(np.int64) * run.records["width"]))
            for slot in range(run.first_slot, run.end_slot):
                kernel = kernels.statistics_kernel(plan.functions, source.dtype, build)
                launch(kernel, stream, (-(-pixels // kernel.block), n), *common, slot, *accumulators[slot])
            if run is passes[-1]:
                kernel = kernels.transform_kernel(plan.functions, source.dtype, segment.kind, build)
                stored = out.view(layout.WRITTEN[segment.kind])
                launch(
                    kernel,
                    stream,
                    (-(-pixels // kernel.block), n),
                    *common,
                    stored,
                    plan.channels,
                    *_form(segment.form),
                )


def _form(form: Form) -> tuple[int, ...]:
    """Return how pixels lie in the result, as the kernels take it."""
    if isinstance(form, str):
        return (layout.FORMS.index(form), *_NO_PATCHES)
    return (layout.PATCHES, *astuple(form))


def _check_count(n: int) -> None:
    if n > _MOST_IMAGES:
        raise ValueError(f"a batch on a GPU holds at most {_MOST_IMAGES} images, not {n}")


class _PlacedSegment(NamedTuple):
    """Passes whose records name places in memory, and the records of their prepass."""

    passes: Sequence[Pass]
    prepass: Any  # prepass_records, or None


class _Place(NamedTuple):
    """Memory of the images that a segment reads, whole or the part of them that it reads."""

    sizes: Ints  # (N, 2), of what is there
    starts: Ints  # (N,), element offsets
    corner: Ints  # (N, 2), x and y of its first pixel
    channels: int

    @property
    def strides(self) -> Ints:
        """(N,) elements from one row to the next."""
        return self.sizes[:, 1] * self.channels


def _placed(segment: CompiledSegment, place: _Place, output: Ints) -> _PlacedSegment | ExactSegment:
    """Fill in where the images of a segment and their results lie; ``output`` are element offsets."""
    sizes, start, corner, channels = place
    plan, region, strides = segment.plan, segment.regions, place.strides
    prepass = prepass_records(segment, sizes, channels, start) if has_prepass(plan) else None
    if prepass is not None:
        sizes = prepass_sizes(segment, sizes)
        start, strides = prepass_layout(sizes, channels)[0], sizes[:, 1] * channels
    start = start + (region[:, 1] - corner[:, 1]) * strides + (region[:, 0] - corner[:, 0]) * channels
    if segment.exact is not None:
        return placed_exact(segment, start, strides, output)
    for run in segment.passes:
        run.records["source"] = start
        run.records["output"] = output
        run.records["stride"] = strides
    return _PlacedSegment(segment.passes, prepass)


def _upload(segments: Sequence[_PlacedSegment | ExactSegment], resources: ThreadResources) -> Iterator[Any]:
    """Upload all segments in one copy; yield what of it :meth:`CudaRuntime._launch` takes, in that order."""
    parts: list[Any] = []
    for segment in segments:
        if isinstance(segment, ExactSegment):
            parts.append(segment.words)
            continue
        parts += [segment.prepass] if segment.prepass is not None else []
        parts += [part for run in segment.passes for part in (run.records, run.programs)]
    ints = upload(parts, resources.pinned, resources.stream)
    ends = np.cumsum([part.nbytes // 4 for part in parts]).tolist()
    return (ints[begin:end] for begin, end in pairwise([0, *ends]))


def _accumulators(n: int, slots: int) -> list[tuple[Any, ...]]:
    """Return sums, extremes, counts and tickets for each launch of a statistic, set to their neutral values."""
    zeros = cupy.zeros(slots * n * (2 + ops.STATISTICS_WORDS + 1), cupy.int32)
    extremes = cupy.empty(slots * n * kernels.EXTREMES, cupy.int32)
    extremes.data.memset_async(0x80, extremes.nbytes)  # below the key of every float in use
    first, second = 2 * slots * n, (2 + ops.STATISTICS_WORDS) * slots * n
    parts = zeros[:first].view(cupy.int64), extremes, zeros[first:second], zeros[second:]
    return [tuple(part.reshape(slots, -1)[slot] for part in parts) for slot in range(slots)]
