"""The CPU runtime: one image at a time from file to result on each of a few threads, while it is in the cache."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from .. import codec, exif
from ..kernels import cpu as loops
from ..kernels import layout
from ..kernels.cpu_rows import SOURCE_SLACK
from ..kernels.user import chain
from ..pixels import ALIGNMENT, STORAGE, Files, Pixels, offsets_of
from ..plan import Pass, Plan
from ..stderr import quiet

# Rows sampled at a time: enough to share the tap tables, few enough to stay in the second-level cache.
_ROWS = 64

# Results of at least so many bytes come from a pool that keeps so many blocks.
_POOLED = 1 << 20
_SPARE = 3


def threads() -> int:
    """Worker threads: ``GPUIMG_NUM_THREADS``, or the cores this process may use."""
    text = os.environ.get("GPUIMG_NUM_THREADS")
    if text:
        if not text.isdigit() or int(text) < 1:
            raise ValueError(f"GPUIMG_NUM_THREADS must be a whole number of at least 1, not {text!r}")
        return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Scratch:
    """Memory of one worker thread, grown as needed and used again, and its decoder."""

    def __init__(self) -> None:
        self._buffers: dict[str, np.ndarray[Any, Any]] = {}
        self._decoder: Any = None
        self.decoding = 0.0  # seconds, in the call at hand

    def flat(self, name: str, elements: int, dtype: Any) -> np.ndarray[Any, Any]:
        """At least this many elements, contents undefined."""
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < elements or buffer.dtype != dtype:
            buffer = np.empty(max(elements, 1), dtype)
            self._buffers[name] = buffer
        return buffer

    @property
    def decoder(self) -> Any:
        """nvImageCodec decoders must not be shared by threads; one is kept with each scratch."""
        if self._decoder is None:
            self._decoder = codec.cpu_decoder()
        return self._decoder


class _Loan:
    """Memory that goes back to its pool when the last array in it is gone."""

    def __init__(self, pool: _Pool, memory: np.ndarray[Any, Any]) -> None:
        self._pool = pool
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._pool.give(self._memory)


class _Pool:
    """Result memory that is used again once nothing refers to a result in it.

    Fresh memory costs a page fault each 4 KB: a fifth of the time of plain decoding.
    """

    def __init__(self) -> None:
        self._spare: deque[np.ndarray[Any, Any]] = deque(maxlen=_SPARE)  # the oldest is dropped
        self._lock = threading.Lock()

    def take(self, size: int) -> Any:
        """So many bytes, uninitialised and aligned for zero-copy hand-off."""
        if size < _POOLED:
            return _aligned(size)
        with self._lock:
            memory = next((spare for spare in self._spare if size <= spare.size <= 2 * size), None)
            if memory is None:
                memory = _aligned(size)
            else:
                # Not `remove`, which would compare the arrays' contents.
                others = [spare for spare in self._spare if spare is not memory]
                self._spare.clear()
                self._spare.extend(others)
        return np.asarray(_Loan(self, memory))[:size]

    def give(self, memory: np.ndarray[Any, Any]) -> None:
        """Take memory back; without the lock, as this may run inside ``take``, in a garbage collection."""
        self._spare.append(memory)


def _aligned(size: int) -> np.ndarray[Any, Any]:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


class CpuRuntime:
    """Runs plans on the CPU. Threads live as long as a call; scratch memory is kept for the next one."""

    name = "cpu"

    def __init__(self) -> None:
        self._spare: list[_Scratch] = []
        self._pool = _Pool()
        self._lock = threading.Lock()
        self._users: dict[tuple[Any, ...], Any] = {}

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

    def slots(self, stream: int | None) -> CpuRuntime:
        """Memory for results of a pipeline: that of all results."""
        return self

    # A pipeline's threads share nothing but the cores.

    def lane(self) -> AbstractContextManager[None]:
        """Nothing to be set up."""
        return nullcontext()

    def mark(self) -> None:
        """What was called is done."""

    def follow(self, mark: None, stream: int | None) -> None:
        """Nothing to wait for."""

    # -- work --------------------------------------------------------------------------------------------------

    def decode(self, files: Files) -> Pixels:
        """Decode whole images into one arena."""
        offsets, total = offsets_of(files.sizes, files.channels, ALIGNMENT)
        pixels = Pixels(self.empty(total, "uint8"), offsets, files.sizes, files.channels, failures=files.failures)

        def one(i: int, scratch: _Scratch) -> str | None:
            return _decode(files, i, scratch, pixels.view(i), None)

        files.report(self._each(len(files.images), one, files))
        return pixels

    def run(
        self, source: Files | Pixels, stages: tuple[Plan, ...], out: Any, offsets: Any, kind: int, planar: bool
    ) -> int:
        """Run all stages of an image before the next one; the launches are those a GPU would need for the batch."""
        compiled = [plan.compile() for plan in stages]
        flat = out.view(STORAGE[out.dtype.name])
        users = [self._user_row(plan.functions) for plan in stages]
        starts = _first_stages(stages)

        def one(i: int, scratch: _Scratch) -> str | None:
            start = starts[i]
            pixels, stride, reason = _source_pixels(source, i, compiled[start][1][i], scratch)
            channels = source.channels
            for k in range(start, len(stages)):
                plan, passes = stages[k], compiled[k][0]
                height, width = (int(v) for v in plan.sizes[i])
                size = height * width * plan.channels
                if k == len(stages) - 1:
                    result = flat[int(offsets[i]) : int(offsets[i]) + size]
                    _run_image(i, passes, plan, scratch, pixels, stride, channels, users[k], result, kind, planar)
                    break
                # Two buffers in turn: a stage reads one while it writes the other.
                result = scratch.flat(f"stage{k % 2}", size, np.float32)[:size]
                _run_image(i, passes, plan, scratch, pixels, stride, channels, users[k], result, layout.FLOAT32, False)
                x0, y0 = (int(v) for v in compiled[k + 1][1][i, :2])
                channels = plan.channels
                stride = width * channels
                pixels = result[y0 * stride + x0 * channels :]
            return reason

        files = source if isinstance(source, Files) else None
        found = self._each(len(stages[0]), one, files)
        if files is not None:
            files.report(found)
        return sum(passes[-1].end_slot + 1 for passes, _ in compiled)

    def mix(self, one: Pixels, other: Pixels, weight: Any, partner: Any, rectangle: Any, out: Any) -> None:
        """Mix images on the worker threads."""

        def image(i: int, scratch: _Scratch) -> None:
            a, b = one.view(i), other.view(int(partner[i]))
            start = int(one.offsets[i] - one.offsets[0])
            loops.mix_image(
                a.reshape(-1), b.reshape(-1), a.shape[1], a.shape[2], np.float32(weight[i]), rectangle[i],
                out[start : start + a.size],
            )  # fmt: skip

        self._each(len(one.offsets), image, None)

    def _user_row(self, functions: tuple[Any, ...]) -> Any:
        if not functions:
            return loops.no_user
        if functions not in self._users:
            self._users[functions] = loops.make_user_row(chain(functions))
        return self._users[functions]

    def _each(self, n: int, one: Callable[[int, _Scratch], str | None], files: Files | None) -> dict[int, str]:
        """Call ``one`` for every image on the worker threads; gives the failures' reasons by index.

        ``files`` are what it decodes: only decoding prints to stderr, so only then is it kept quiet.
        """
        found: dict[int, str] = {}
        order = iter(range(n))
        stop = threading.Event()

        def work() -> None:
            scratch = self._take()
            scratch.decoding = 0.0
            begin = time.perf_counter()
            try:
                while not stop.is_set():
                    i = next(order, None)  # atomic under the GIL
                    if i is None:
                        break
                    reason = one(i, scratch)
                    if reason is not None:
                        found[i] = reason
            except BaseException:
                stop.set()
                raise
            finally:
                total = time.perf_counter() - begin
                self._give(scratch)
                if files is not None:
                    with self._lock:
                        files.spent.decode += scratch.decoding
                        files.spent.kernels += total - scratch.decoding

        helpers = min(threads(), n) - 1
        with quiet() if files is not None else nullcontext():
            if helpers < 1:
                work()
            else:
                with ThreadPoolExecutor(helpers, thread_name_prefix="gpuimg") as pool:
                    futures = [pool.submit(work) for _ in range(helpers)]
                    work()
                    for future in futures:
                        future.result()
        return dict(sorted(found.items()))

    def _take(self) -> _Scratch:
        with self._lock:
            return self._spare.pop() if self._spare else _Scratch()

    def _give(self, scratch: _Scratch) -> None:
        with self._lock:
            self._spare.append(scratch)


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a result; bfloat16 is that of ``ml_dtypes``."""
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise ImportError('dtype "bfloat16" needs ml_dtypes: pip install ml_dtypes') from error
        kind: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return kind
    return np.dtype(name)


def _with_slack(flat: Any, start: int, stop: int, scratch: _Scratch) -> Any:
    """Elements ``start`` to ``stop``, and a few behind them that may be read; copied only at the buffer's end."""
    if stop + SOURCE_SLACK <= flat.size or flat.dtype != np.uint8:
        return flat[start : stop + SOURCE_SLACK]
    copy = scratch.flat("source", stop - start + SOURCE_SLACK, np.uint8)
    copy[: stop - start] = flat[start:stop]
    return copy


def _first_stages(stages: tuple[Plan, ...]) -> list[int]:
    """For each image the first stage that changes it, or the last one: what is before need not run."""
    first = np.zeros(len(stages[0]), np.int64)
    reached = np.ones(len(first), np.bool_)
    for plan in stages[:-1]:
        reached &= plan.unchanged_images()
        first += reached
    return [int(k) for k in first]


def _source_pixels(source: Files | Pixels, i: int, region: Any, scratch: _Scratch) -> tuple[Any, int, str | None]:
    """A region of a source image: its elements from the region's corner on, the row stride, a failure's reason."""
    x0, y0, x1, y1 = (int(v) for v in region)
    if isinstance(source, Pixels):
        stride = int(source.sizes[i, 1]) * source.channels
        start = int(source.offsets[i]) + y0 * stride + x0 * source.channels
        stop = int(source.offsets[i]) + int(source.sizes[i, 0]) * stride
        return _with_slack(source.flat, start, stop, scratch), stride, None
    stride = (x1 - x0) * source.channels
    elements = (y1 - y0) * stride
    pixels = scratch.flat("source", elements + SOURCE_SLACK, np.uint8)
    view = pixels[:elements].reshape(y1 - y0, x1 - x0, source.channels)
    return pixels, stride, _decode(source, i, scratch, view, (x0, y0, x1, y1))


def _decode(
    files: Files, i: int, scratch: _Scratch, out: np.ndarray[Any, Any], region: tuple[int, int, int, int] | None
) -> str | None:
    """Decode an image, or a region of it, into ``out``; gives the reason and leaves it black if that fails."""
    begin = time.perf_counter()
    try:
        return _decode_image(files, i, scratch, out, region)
    finally:
        scratch.decoding += time.perf_counter() - begin


def _decode_image(
    files: Files, i: int, scratch: _Scratch, out: np.ndarray[Any, Any], region: tuple[int, int, int, int] | None
) -> str | None:
    image = files.images[i]
    if image is None:
        out[:] = 0
        return files.failures[i].reason if i in files.failures else "not read"
    params = codec.decode_params("gray" if files.channels == 1 else "rgb")
    stream, turn = image.stream, image.orientation
    target = out
    if turn != 1:
        height, width, channels = out.shape
        shape = exif.stored_shape((height, width, channels), turn)
        target = scratch.flat("stored", out.size, np.uint8)[: out.size].reshape(shape)
    try:
        if region is not None and region != (0, 0, image.width, image.height):
            stream = codec.region(stream, *exif.stored(region, turn, image.height, image.width))
        done = scratch.decoder.decode(stream, image=codec.library().as_image(target), params=params)
        if done is not None and (done.height, done.width) == target.shape[:2]:
            if turn != 1:
                out[:] = exif.turned(target, turn)
            return None
    except (RuntimeError, ValueError):
        pass  # the second, listening decode below finds the words
    out[:] = 0
    return codec.reason_of(scratch.decoder, image.stream, params)


def _run_image(
    i: int, passes: list[Pass], plan: Plan, scratch: _Scratch, source: Any, stride: int, channels: int, user: Any,
    out: Any, kind: int, planar: bool,
) -> None:  # fmt: skip
    source = source[:]
    source.flags.writeable = False  # one compiled variant, whether or not the user's array may be written to
    statistics = scratch.flat("statistics", passes[-1].end_slot * layout.STATISTICS_WORDS, np.float32)
    for run in passes:
        last = run is passes[-1]
        record = run.records[i : i + 1].view(np.int32)
        words = run.records[i : i + 1].view(np.float32)
        record[layout.STRIDE] = stride
        height, width = int(record[layout.HEIGHT]), int(record[layout.WIDTH])
        nx, ny = int(record[layout.TAPS]), int(record[layout.TAPS + 1])
        span = int(record[layout.WINDOW + 2]) * channels + 4
        tables = max(height * (ny + 1) + width * (nx + 1) + 4 * width + span, (nx + ny) * width)
        floats = scratch.flat("floats", tables + max(width, height) + 5 * width, np.float32)
        ints = scratch.flat("ints", max(height * ny + width * nx, width * (nx + ny), layout.LEVELS), np.int32)
        packed = scratch.flat("packed", width, np.uint32)
        rows = height if run.first_slot < run.end_slot or plan.sharpens else min(_ROWS, height)
        planes = scratch.flat("planes", 3 * rows * width, np.float32)[: 3 * rows * width].reshape(3, -1)
        loops.run_image(
            source, channels, np.float32(1.0 / 255.0 if source.dtype == np.uint8 else 1.0), record, words,
            run.programs[i], run.first_slot, statistics, user, planes, floats, ints, packed,
            out if last else out[:0], plan.channels, kind, planar,
        )  # fmt: skip
