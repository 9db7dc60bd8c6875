"""The CUDA runtime: CuPy memory and streams, nvImageCodec into one arena, the fused kernel over one uploaded plan.

Streams. Everything of a batch is enqueued on a private, non-null stream of the calling thread. It starts after what the
caller's current CuPy stream holds, and that stream goes on after it: to the caller, results behave as if computed on
the current stream, and memory that stream has finished with may be used again. A thread of a pipeline makes the
private stream its current one (a lane), so that it waits for nothing of its consumer's.

Memory. The hardware JPEG engine is reported to write its destination when called, whatever the stream still has to do
before (torchcodec PR 1634), so an arena is decoded into again only after the *host* has waited for its last reader.
CuPy's pool gives memory out again on the stream it was allocated on, whatever uses it on others (cupy issue 8068). So
the results of a lane, which are read on another stream, and arenas, which all threads use, go back to it only after
the host has waited for their last use: what it gives a lane was then used by that lane's stream alone.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import cupy
import numpy as np
from numba import cuda as numba_cuda

from .. import codec, exif
from ..codec import Encoded
from ..kernels import cuda as kernels
from ..kernels import layout
from ..pixels import ALIGNMENT, STORAGE, Files, Pixels, offsets_of
from ..plan import Ints, Pass, Plan
from ..stderr import quiet
from .cpu import numpy_dtype, threads
from .cuda_memory import Mark, Own, Slots, address, follow, recorded

_MOST_IMAGES = 65535  # blocks along y of one launch


class _Arena:
    """Memory for decoded images that only this runtime reads, and the event after its last reader."""

    def __init__(self, size: int) -> None:
        self.memory = cupy.empty(size, cupy.uint8)
        self.read = cupy.cuda.Event(disable_timing=True)


class _Decoder:
    """A decoder and the size of the first batch it was given, which fixes the hardware engine's part for good."""

    def __init__(self, decoder: Any) -> None:
        self.decoder = decoder
        self.first = 0


class CudaRuntime:
    """Decodes and runs plans on one GPU."""

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
        self._decoders: list[_Decoder] = []  # likewise
        self._warned = False
        self._local = threading.local()
        self._slots = Slots(self._device, self._local)  # for all results of lanes that have no slots of their own

    # -- streams -----------------------------------------------------------------------------------------------

    @property
    def _stream(self) -> Any:
        """The calling thread's private stream."""
        if not hasattr(self._local, "own"):
            with self._device:
                self._local.own = Own(self._streams, lambda: cupy.cuda.Stream(non_blocking=True))
        return self._local.own.value

    @contextmanager
    def lane(self) -> Iterator[None]:
        """Work on this thread's private stream."""
        with self._device, self._stream:
            self._local.loans = []
            try:
                yield
            finally:
                self._local.loans = None

    @property
    def _in_lane(self) -> bool:
        return getattr(self._local, "loans", None) is not None

    def mark(self) -> Mark:
        """The end of what this lane has enqueued so far."""
        return Mark(recorded(self._stream.ptr), self._local.loans)

    def follow(self, mark: Mark, stream: int | None) -> None:
        """What the caller enqueues from now on, on a stream or its current one, comes after a mark."""
        with self._device:
            reader = address(stream)
            follow(reader, mark.event)
        for loan in mark.loans:
            result = loan()
            if result is not None:
                result.stream = reader

    def slots(self, stream: int | None) -> Slots:
        """Memory for results of lanes; which stream reads them is told when they are handed over."""
        return Slots(self._device, self._local)

    # -- memory ------------------------------------------------------------------------------------------------

    def empty(self, elements: int, dtype: str) -> Any:
        """An uninitialised flat array of the caller's current stream; of a lane, one that other streams may read."""
        if self._in_lane:
            return self._slots.take(elements, dtype)
        with self._device:
            return cupy.empty(elements, numpy_dtype(dtype))

    def owns(self, array: Any) -> bool:
        """Whether this is a CuPy array on this device."""
        return isinstance(array, cupy.ndarray) and array.device.id == self._index

    def from_dlpack(self, array: Any) -> Any:
        """The same memory as a CuPy array, ordered after the work of its owner's stream."""
        with self._device:
            return cupy.from_dlpack(array)

    def from_arrays(self, arrays: Any) -> Pixels:
        """Pixels of checked arrays; one contiguous (N, H, W, C) array is used in place, all else is packed."""
        with self._device:
            if not isinstance(arrays, (list, tuple)):
                n, height, width, channels = arrays.shape
                sizes = np.tile(np.array([[height, width]], np.int64), (n, 1))
                offsets, total = offsets_of(sizes, channels)
                flat = cupy.ascontiguousarray(arrays).reshape(-1)
                if self._in_lane:  # it may be a lane's result, but the pool's memory
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

    def decode(self, files: Files) -> Pixels:
        """Decode whole images into one arena that becomes the caller's."""
        offsets, total = offsets_of(files.sizes, files.channels, ALIGNMENT)
        with self._device:
            flat = self.empty(total, "uint8")
            if not self._in_lane:
                # The pool may have given memory that a kernel on any stream still reads.
                self._device.synchronize()
            pixels = Pixels(flat, offsets, files.sizes, files.channels, failures=files.failures)
            try:
                files.report(self._decode_into(files, pixels))
            finally:  # also of a failure: the memory goes back to the caller's stream
                follow(address(None), recorded(self._stream.ptr))
        return pixels

    def _decode_into(self, files: Files, pixels: Pixels) -> dict[int, str]:
        """Decode on the private stream; gives the failures' reasons by index and leaves those images black."""
        nvimgcodec = codec.library()
        params = codec.decode_params("gray" if files.channels == 1 else "rgb")
        found: dict[int, str] = {}
        good = [i for i, image in enumerate(files.images) if image is not None]
        with self._stream, quiet():
            # Made with the private stream as CuPy's current one: Image and decode then agree about the stream.
            begin = time.perf_counter()
            encoded = [image for image in files.images if image is not None]
            outs = [pixels.view(i) for i in good]
            stored = _stored(outs, encoded)
            if any(file.orientation != 1 for file in encoded):
                self._stream.synchronize()  # the pool gives memory that work of this stream may still use, see above
            targets = nvimgcodec.as_images(stored)
            done = self._decode_all([image.stream for image in encoded], targets, params) if good else []
            files.spent.decode += time.perf_counter() - begin  # of the host: the call waits for the decoders
            for i, file, out, pixels_, image in zip(good, encoded, outs, stored, done, strict=True):
                if image is None or (image.height, image.width) != pixels_.shape[:2]:
                    found[i] = codec.reason_of(self._decoder(1), file.stream, params)
                elif pixels_ is not out:
                    out[:] = exif.turned(pixels_, file.orientation)
            for i in range(len(files.images)):
                if files.images[i] is None or i in found:
                    pixels.view(i).fill(0)
        return found

    def _decode_all(self, streams: list[Any], targets: list[Any], params: Any) -> list[Any]:
        decoder = self._decoder(len(streams))
        try:
            done = decoder.decode(streams, images=targets, params=params, cuda_stream=self._stream.ptr)
        except (RuntimeError, ValueError):  # one image made the whole call fail: find out which
            return [self._decode_one(decoder, s, t, params) for s, t in zip(streams, targets, strict=True)]
        return list(done)

    def _decode_one(self, decoder: Any, stream: Any, target: Any, params: Any) -> Any:
        try:
            return decoder.decode(stream, image=target, params=params, cuda_stream=self._stream.ptr)
        except (RuntimeError, ValueError):
            return None

    def _decoder(self, images: int) -> Any:
        """The calling thread's decoder, fit for a batch of so many images."""
        if not hasattr(self._local, "decoder"):
            self._local.decoder = Own(self._decoders, self._new_decoder)
        own = self._local.decoder
        if own.value.first and images > 2 * own.value.first:
            own.value = self._new_decoder()
        own.value.first = own.value.first or images
        return own.value.decoder

    def _new_decoder(self) -> _Decoder:
        decoder, on_gpu = codec.gpu_decoder(self._index, max(threads(), 2))
        if not on_gpu and not self._warned:
            self._warned = True
            warnings.warn(
                f"nvImageCodec has no GPU JPEG decoder on {self.name} (is nvJPEG installed?): JPEGs are decoded on "
                "the CPU and copied; `gpuimg info` says what is missing",
                stacklevel=8,
            )
        return _Decoder(decoder)

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
            # See decode; a lane must not wait for its consumer.
            (self._stream if self._in_lane else self._device).synchronize()
        arena.read.synchronize()
        return arena

    def _give_arena(self, arena: _Arena) -> None:
        arena.read.record(self._stream)
        with self._lock:
            self._arenas.append(arena)

    # -- running -----------------------------------------------------------------------------------------------

    def run(
        self, source: Files | Pixels, stages: tuple[Plan, ...], out: Any, offsets: Ints, kind: int, planar: bool
    ) -> int:
        """Run plans: for each a launch for each statistic in it, and one for the result."""
        _check_count(len(stages[0]))
        with self._device:
            caller = address(None)
            follow(self._stream.ptr, recorded(caller))
            try:
                if isinstance(source, Pixels):
                    return self._launch_stages(source, stages, out, offsets, kind, planar)
                starts, total = offsets_of(source.sizes, source.channels, ALIGNMENT)
                arena = self._take_arena(total)
                try:
                    pixels = Pixels(arena.memory, starts, source.sizes, source.channels)
                    source.report(self._decode_into(source, pixels))
                    begin = time.perf_counter()
                    launches = self._launch_stages(pixels, stages, out, offsets, kind, planar)
                    source.spent.kernels += time.perf_counter() - begin  # of the host: the launches
                    return launches
                finally:
                    self._give_arena(arena)
            finally:
                follow(caller, recorded(self._stream.ptr))

    def mix(self, one: Pixels, other: Pixels, weight: Any, partner: Any, rectangle: Any, out: Any) -> None:
        """Mix images in one launch."""
        _check_count(len(one.sizes))
        if len(one.sizes) == 0:
            return
        with self._device:
            caller = address(None)
            follow(self._stream.ptr, recorded(caller))
            elements = one.sizes[:, 0] * one.sizes[:, 1] * one.channels
            host = (
                (one.sizes[:, 1], np.int32), (elements, np.int32), (weight, np.float32),
                (one.offsets - one.offsets[0], np.int64), (other.offsets[partner], np.int64),
                (rectangle.reshape(-1), np.int32),
            )  # fmt: skip
            with self._stream:
                width, count, share, starts, partners, boxes = (
                    _argument(cupy.asarray(np.ascontiguousarray(values, kind))) for values, kind in host
                )
                first = int(one.offsets[0])
                grid = (-(-int(elements.max()) // kernels.BLOCK), len(elements))
                _mix_kernel(self._index)[grid, kernels.BLOCK, numba_cuda.external_stream(self._stream.ptr)](
                    _argument(one.flat[first : first + out.size]), _argument(other.flat), width,
                    np.int32(one.channels), count, share, starts, partners, boxes, _argument(out),
                )  # fmt: skip
            follow(caller, recorded(self._stream.ptr))

    def _launch_stages(
        self, source: Pixels, stages: tuple[Plan, ...], out: Any, offsets: Ints, kind: int, planar: bool
    ) -> int:
        launches = 0
        for plan in stages[:-1]:
            starts, total = offsets_of(plan.sizes, plan.channels, ALIGNMENT)
            with self._stream:
                between = cupy.empty(total, cupy.float32)
            launches += self._launch(source, plan, between, starts, layout.FLOAT32, False)
            source = Pixels(between, starts, plan.sizes, plan.channels)
        return launches + self._launch(source, stages[-1], out, offsets, kind, planar)

    def _launch(self, source: Pixels, plan: Plan, out: Any, offsets: Ints, kind: int, planar: bool) -> int:
        passes, region = plan.compile()
        strides = source.sizes[:, 1] * source.channels
        start = source.offsets + region[:, 1] * strides + region[:, 0] * source.channels
        for run in passes:
            run.records["source"] = start
            run.records["output"] = offsets
            run.records["stride"] = strides
        n = len(plan)
        stream = numba_cuda.external_stream(self._stream.ptr)
        with self._stream:
            parts = _upload(passes)
            table_words = passes[-1].end_slot * layout.STATISTICS_WORDS
            tables = cupy.empty(max(n * table_words, 1), cupy.float32)
            scale = np.float32(1.0 / 255.0 if source.dtype == "uint8" else 1.0)
            launches = 0
            for run, (ints, floats, programs) in zip(passes, parts, strict=True):
                common = (
                    _argument(source.flat), np.int32(source.channels), scale, ints, floats, programs,
                    np.int32(run.programs.shape[1]), _argument(tables), np.int32(table_words),
                )  # fmt: skip
                pixels = int(np.max(run.records["height"].astype(np.int64) * run.records["width"]))
                for slot in range(run.first_slot, run.end_slot):
                    kernel = _statistics_kernel(self._index, plan.functions, source.dtype, plan.sharpens)
                    blocks = -(-pixels // kernels.STATISTICS_BLOCK)
                    kernel[(blocks, n), kernels.STATISTICS_BLOCK, stream](*common, np.int32(slot), *_accumulators(n))
                    launches += 1
                if run is passes[-1]:
                    kernel = _transform_kernel(self._index, plan.functions, source.dtype, kind, plan.sharpens)
                    kernel[(-(-pixels // kernels.BLOCK), n), kernels.BLOCK, stream](
                        *common, _argument(out.view(STORAGE[out.dtype.name])), np.int32(plan.channels), np.int32(planar)
                    )
                    launches += 1
        return launches


def _check_count(n: int) -> None:
    if n > _MOST_IMAGES:
        raise ValueError(f"a batch on a GPU holds at most {_MOST_IMAGES} images, not {n}")


def _stored(outs: list[Any], encoded: list[Encoded]) -> list[Any]:
    """Where images are decoded to: their place in the batch, or memory of its own for one that is to be turned."""
    return [
        out if image.orientation == 1 else cupy.empty(exif.stored_shape(out.shape, image.orientation), cupy.uint8)
        for out, image in zip(outs, encoded, strict=True)
    ]


def _argument(array: Any) -> Any:
    """A CuPy array as a kernel argument, without Numba's host synchronisation."""
    return numba_cuda.as_cuda_array(array, sync=False)


def _upload(passes: list[Pass]) -> list[tuple[Any, Any, Any]]:
    """All passes in one copy to the device; for each its records as int32 and float32, and its programs."""
    host = np.concatenate([part.reshape(-1).view(np.int32) for run in passes for part in (run.records, run.programs)])
    words = cupy.empty(host.size, cupy.int32)
    words.set(host)  # from pageable memory: staged before the call returns, so `host` may go
    floats = words.view(cupy.float32)
    parts = []
    at = 0
    for run in passes:
        middle = at + len(run.records) * layout.RECORD_WORDS
        end = middle + run.programs.size
        parts.append((_argument(words[at:middle]), _argument(floats[at:middle]), _argument(floats[middle:end])))
        at = end
    return parts


def _accumulators(n: int) -> tuple[Any, Any, Any, Any]:
    """Sums, extremes, counts and tickets of one statistics launch, set to their neutral values."""
    sums = cupy.zeros(n, cupy.int64)
    extremes = cupy.empty(n * kernels.EXTREMES, cupy.int32)
    extremes.data.memset_async(0x80, extremes.nbytes)  # below the key of every float in use
    counts = cupy.zeros(n * layout.STATISTICS_WORDS, cupy.int32)
    tickets = cupy.zeros(n, cupy.int32)
    return _argument(sums), _argument(extremes), _argument(counts), _argument(tickets)


@lru_cache(maxsize=64)
def _transform_kernel(index: int, functions: tuple[Any, ...], source: str, kind: int, neighbours: bool) -> Any:
    return kernels.jit(kernels.make_transform(functions, kind, neighbours), kernels.transform_signature(source, kind))


@lru_cache(maxsize=64)
def _statistics_kernel(index: int, functions: tuple[Any, ...], source: str, neighbours: bool) -> Any:
    function = kernels.make_statistics(functions, neighbours)
    return kernels.jit(function, kernels.statistics_signature(source), kernels.STATISTICS_BLOCK)


@lru_cache(maxsize=8)
def _mix_kernel(index: int) -> Any:
    return kernels.jit(kernels.mix, kernels.MIX_SIGNATURE)
