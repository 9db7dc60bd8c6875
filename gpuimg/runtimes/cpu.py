"""The CPU runtime: one image at a time from file to result on each of a few threads, while it is in the cache."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .. import codec, exif
from ..kernels import cpu as loops
from ..kernels import layout
from ..kernels.cpu_rows import SOURCE_SLACK, work_space
from ..kernels.user import chain
from ..pixels import ALIGNMENT, STORAGE, Files, Pixels, offsets_of
from ..plan import Pass, Plan
from ..stderr import quiet
from .cpu_memory import Pool, Scratch

# Rows sampled at a time: enough to share the tap tables, few enough to stay in the second-level cache.
_ROWS = 64

_CHANNELS = 3  # of the widest images

# Results of at least so many bytes are written past the caches, which would have lost them when they are read.
_STREAMED = 8 << 20


def threads() -> int:
    """Worker threads: ``GPUIMG_NUM_THREADS``, or the cores this process may use."""
    text = os.environ.get("GPUIMG_NUM_THREADS")
    if text:
        if not text.isdigit() or int(text) < 1:
            raise ValueError(f"GPUIMG_NUM_THREADS must be a whole number of at least 1, not {text!r}")
        return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_Worker: TypeAlias = "Callable[[int], str | None]"  # for each image; gives the reason of one that does not decode


class CpuRuntime:
    """Runs plans on the CPU. Threads live as long as a call; scratch memory is kept for the next one."""

    name = "cpu"

    def __init__(self) -> None:
        self._spare: list[Scratch] = []
        self._pool = Pool()
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

        def worker(scratch: Scratch) -> _Worker:
            return lambda i: _decode(files, i, scratch, pixels.view(i), None)

        files.report(self._each(len(files.images), worker, files))
        return pixels

    def run(
        self, source: Files | Pixels, stages: tuple[Plan, ...], out: Any, offsets: Any, kind: int, planar: bool
    ) -> int:
        """Run all stages of an image before the next one; the launches are those a GPU would need for the batch."""
        compiled = [_Stage(plan, self._user_row(plan.functions)) for plan in stages]
        call = _Call(
            source, compiled, _first_stages(stages), out.view(STORAGE[out.dtype.name]), offsets.tolist(), kind, planar
        )
        files = source if isinstance(source, Files) else None
        found = self._each(len(stages[0]), call.worker, files)
        if files is not None:
            files.report(found)
        return sum(stage.passes[-1].end_slot + 1 for stage in compiled)

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

    def _user_row(self, functions: tuple[Any, ...]) -> int:
        """Address of the compiled functions of a plan."""
        if not functions:
            return 0
        if functions not in self._users:
            self._users[functions] = loops.make_user_row(chain(functions))
        return int(self._users[functions].address)

    def _each(self, n: int, worker: Callable[[Scratch], _Worker], files: Files | None) -> dict[int, str]:
        """Call a worker for every image on each of the threads; gives the failures' reasons by index.

        ``files`` are what it decodes: only decoding prints to stderr, so only then is it kept quiet. The largest are
        taken first, so that the threads end together.
        """
        found: dict[int, str] = {}
        order = iter(range(n) if files is None else sorted(range(n), key=files.bytes_of, reverse=True))
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

    def _take(self) -> Scratch:
        with self._lock:
            return self._spare.pop() if self._spare else Scratch()

    def _give(self, scratch: Scratch) -> None:
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


class _Stage:
    """A compiled plan: what is read and written of each image, as Python's own numbers, and the memory it takes."""

    def __init__(self, plan: Plan, user: int) -> None:
        self.passes, region = plan.compile()
        self.channels = plan.channels
        self.regions = region.tolist()  # of the source that are read: x0, y0, x1, y1
        self.strides = (plan.sizes[:, 1] * plan.channels).tolist()
        self.elements = (plan.sizes[:, 0] * plan.sizes[:, 1] * plan.channels).tolist()
        self.user = user
        # Views of each pass's records as the kernels read them, a row an image.
        self.records = [
            (run.records.view(np.int32).reshape(len(plan), -1), run.records.view(np.float32).reshape(len(plan), -1))
            for run in self.passes
        ]
        self.memory = np.max([_memory(run, plan.sharpens) for run in self.passes], 0)

    def run(
        self, i: int, source: Any, stride: int, channels: int, memory: _Memory, out: Any, kind: int, planar: bool,
        streamed: bool,
    ) -> None:  # fmt: skip
        """One image through all passes."""
        source = source[:]
        source.flags.writeable = False  # one compiled variant, whether or not the user's array may be written to
        scale = np.float32(1.0 / 255.0 if source.dtype == np.uint8 else 1.0)
        for run, (records, words) in zip(self.passes, self.records, strict=True):
            records[i, layout.STRIDE] = stride
            loops.run_image(
                source, channels, scale, records[i], words[i], run.programs[i], run.first_slot, memory.statistics,
                self.user, memory.planes, memory.floats, memory.ints, memory.packed,
                out if run is self.passes[-1] else out[:0], self.channels, kind, planar, streamed,
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
    floats, ints = work_space(height, width, nx, ny, records["window"][:, 2].astype(np.int64))
    return [
        run.end_slot * layout.STATISTICS_WORDS,
        _CHANNELS * int(np.max(rows * width)),
        2 * int(np.max(width)) + int(np.max(floats)),
        max(int(np.max(ints)), layout.LEVELS),
        int(np.max(width)),
    ]


@dataclass(frozen=True)
class _Call:
    """One run of the runtime: from a source through stages into ``out``."""

    source: Files | Pixels
    stages: list[_Stage]
    starts: list[int]  # the stage that each image begins with
    out: Any
    offsets: list[int]
    kind: int
    planar: bool

    def worker(self, scratch: Scratch) -> _Worker:
        """What a thread calls for each image."""
        statistics, planes, floats, ints, packed = np.max([stage.memory for stage in self.stages], 0).tolist()
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
        pixels, stride, reason = self._source_pixels(i, self.stages[start].regions[i], scratch)
        channels = self.source.channels
        for k in range(start, len(self.stages) - 1):
            stage = self.stages[k]
            # Two buffers in turn: a stage reads one while it writes the other.
            size = stage.elements[i]
            result = scratch.flat(f"stage{k % 2}", size, np.float32)[:size]
            stage.run(i, pixels, stride, channels, memory, result, layout.FLOAT32, False, False)
            x0, y0, *_ = self.stages[k + 1].regions[i]
            channels = stage.channels
            stride = stage.strides[i]
            pixels = result[y0 * stride + x0 * channels :]
        last = self.stages[-1]
        streamed = self.out.nbytes >= _STREAMED
        result = self.out[self.offsets[i] : self.offsets[i] + last.elements[i]]
        last.run(i, pixels, stride, channels, memory, result, self.kind, self.planar, streamed)
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
        pixels = scratch.flat("source", height * stride + SOURCE_SLACK, np.uint8)
        view = pixels[: height * stride].reshape(height, width, source.channels)
        return pixels, stride, _decode(source, i, scratch, view, (x0, y0, x1, y1))


def _with_slack(flat: Any, start: int, stop: int, scratch: Scratch) -> Any:
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


def _decode(
    files: Files, i: int, scratch: Scratch, out: np.ndarray[Any, Any], region: tuple[int, int, int, int] | None
) -> str | None:
    """Decode an image, or a region of it, into ``out``; gives the reason and leaves it black if that fails."""
    begin = time.perf_counter()
    try:
        return _decode_image(files, i, scratch, out, region)
    finally:
        scratch.decoding += time.perf_counter() - begin


def _decode_image(
    files: Files, i: int, scratch: Scratch, out: np.ndarray[Any, Any], region: tuple[int, int, int, int] | None
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
