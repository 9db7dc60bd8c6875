"""One call of the CPU runtime: fills the records that the native loop reads, and runs the decoders in Python.

Records hold raw addresses of files, pixels, results and scratch memory; :class:`Call` and :class:`ThreadMemory` keep
the owners of that memory alive while the native loop runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, fields
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from .._checks.types import Ints, Records
from .._data.clips import EncodedClips
from .._data.images import ALIGNMENT, Encoded, EncodedImages, Pixels, check_reach, rows_of
from .._data.patches import Form
from .._decoding import exif, jpeg, pillow, png, route
from .._plan.compile import (
    Stored,
    compile_plan,
    exact_resizes,
    kind_between,
    launches_of,
    ops_used,
    regions_read,
    stored_bytes,
    whole_regions,
)
from .._plan.plan import Plan
from .._plan.scale import scaled_sizes
from .._video.convert import write_pixels
from .._video.decode import decoded_frames
from .._video.files import opened
from ..errors import VideoError
from ..kernels import layout
from ..kernels.compiled import ALWAYS, compile_together
from ..kernels.cpu import exact, records
from ..kernels.cpu.bytes_store import STORE_BYTES_FUNCTIONS, store_space
from ..kernels.cpu.describe import NEEDS, describe, survey
from ..kernels.cpu.run import call_table
from ..kernels.cpu.store import BYTES_OF
from ..kernels.cpu.vectors import SOURCE_SLACK
from ..kernels.jpeg import layout as jpeg_records
from ..kernels.jpeg import progressive, recoded
from .cpu_image import NO_FILES, NO_PASSES, NONE, TURNS, batch_of_bytes, run_images, work_bytes
from .cpu_memory import RunningThreads, ThreadMemory
from .draft import at_scales, first_segments, scales_of
from .protocol import Timings

# Results of at least this many bytes are written with non-temporal stores: they would be evicted before they are read.
_STREAMED = 8 << 20

_PAGE = 4096  # bytes, the smallest of any system

#: Fill an array with a region (x0, y0, x1, y1) of an image that Python has decoded.
Write: TypeAlias = Callable[[list[int], Any], None]


class _ExactSegment:
    """An exact resize as a PASS record, the regions of its source, and the memory it takes."""

    def __init__(
        self, plan: Plan, stored: Stored, kind: int, form: Form, others: tuple[str, ...], memory: dict[str, int]
    ) -> None:
        images, region = exact_resizes(plan, stored.parts)
        self.regions = np.ascontiguousarray(region, np.int64)
        self.itemsize = BYTES_OF[kind]
        x0, y0, x1, y1 = stored.parts.T
        sizes, channels = np.stack([y1 - y0, x1 - x0], 1), plan.channels
        to = places(sizes, channels, form, stored)
        self.bytes = to["elements"] * self.itemsize
        # A GPU stores planes, patches and normalized values by a launch after the two of the resize.
        self.launches = 2 if kind == layout.UINT8 and form == "pixels" and not stored.normal.any() else 3
        space = exact.exact_space(images, to, channels)
        memory["exact"] = max(memory.get("exact", 0), int(np.max(space, initial=0)))
        self.passes = images, to  # keeps the memory that the record refers to
        resize, store = exact.RESIZE_FUNCTION, STORE_BYTES_FUNCTIONS[kind]
        compile_together([*others, resize.name, store.name])
        self.records = np.zeros(1, records.PASS)
        records.set_exact_pass(
            self.records[0],
            images=images,
            stored=to,
            channels=channels,
            itemsize=self.itemsize,
            regions=self.regions,
            resize=resize.address,
            store=store.address,
        )


def places(sizes: Ints, channels: int, form: Form, stored: Stored) -> Any:
    """Return (N,) STORED of results of sizes (N, 2); planes and pixels are patches as large as the image."""
    one = np.zeros(len(sizes), records.STORED)
    one["height"], one["width"] = sizes.T
    one["merge"] = one["repeats"] = 1
    area = sizes[:, 0] * sizes[:, 1]
    one["elements"] = area * channels
    one["plane"], one["column"] = (area, 1) if form == "planes" else (1, channels)
    one["row"] = one["column"] * sizes[:, 1]
    if not isinstance(form, str):
        for field in fields(form):
            one[field.name] = getattr(form, field.name)
        one["elements"] = form.count(sizes) * form.size
    one["mean"], one["std"], one["divisor"] = stored.normal[:, :3], stored.normal[:, 3:6], stored.normal[:, 6]
    one["mirrored"] = stored.mirrored
    one["work"] = store_space(one, sizes[:, 1])
    return one


class _Segment:
    """A compiled plan as PASS records, with its source regions and its memory needs."""

    def __init__(
        self,
        plan: Plan,
        kind: int,
        form: Form,
        sources: set[str],
        others: tuple[str, ...],
        needs: Records,
    ) -> None:
        self.passes, region = compile_plan(plan)
        self.regions = np.ascontiguousarray(region, np.int64)
        self.itemsize = BYTES_OF[kind]
        self.bytes = plan.sizes[:, 0] * plan.sizes[:, 1] * (plan.channels * self.itemsize)
        if not isinstance(form, str):
            self.bytes = form.count(plan.sizes) * (form.size * self.itemsize)
        used, ways = ops_used(plan), 0
        for run in self.passes:
            ways |= survey(run.records, used.view(np.uint8), run.first_slot, run.end_slot, needs)
        codes = tuple(np.flatnonzero(used).tolist())
        self._patches = None if isinstance(form, str) else np.array([astuple(form)], records.PATCHES)
        stored = form if isinstance(form, str) else "patches"
        self._calls = {
            source: call_table(source, kind, stored, codes, ways, plan.functions, others) for source in sources
        }
        self.launches = launches_of(self.passes, used)
        self.records = np.zeros(len(self.passes), records.PASS)
        for one, run in zip(self.records, self.passes, strict=True):
            records.set_pass(
                one,
                records=run.records,
                programs=run.programs,
                first_slot=run.first_slot,
                channels=plan.channels,
                itemsize=self.itemsize if run is self.passes[-1] else 0,
                regions=self.regions,
                calls=self._calls,
                patches=self._patches,
            )


class Call:
    """State shared by the threads of one call; keeps the batch's buffers alive.

    Attributes
    ----------
    failures : dict of int to str
        Reasons of images that were not decoded.
    timings : Timings
    """

    def __init__(
        self,
        source: Encoded | Pixels,
        segments: Sequence[Plan],
        out: Any,
        offsets: Ints,
        kind: int,
        form: Form,
        running_threads: RunningThreads,
    ) -> None:
        n = len(source.sizes)
        self._source = source
        self._out = out
        self._running_threads = running_threads
        self._channels = source.channels
        self.failures: dict[int, str] = {}
        self.timings = Timings()
        self._lock = threading.Lock()
        first = None if isinstance(source, Pixels) else source.first_occurrences()
        self._first_occurrences = None if first is None else rows_of(first, source.frames)
        segments, stored = _with_store(segments)
        starts = first_segments(segments) if segments else np.zeros(n, np.int64)
        scales = scales_of(source, segments, starts)
        self._sizes = scaled_sizes(source.sizes, scales)  # of the images as decoded
        self._needs, self._memory = np.zeros(1, NEEDS), dict[str, int]()
        always = _always(source)
        self._segments = _compiled(
            source, segments, stored, starts, scales, kind, form, always, self._needs, self._memory
        )  # fmt: skip
        passes = [segment.records for segment in self._segments] or [NO_PASSES]
        self._passes = passes[0] if len(passes) == 1 else np.concatenate(passes, dtype=records.PASS)
        self._images = np.zeros(n, records.IMAGE)
        self._images["scale"] = scales
        self._statuses = np.zeros(n, jpeg_records.STATUS)
        self._queue = np.zeros(1, records.QUEUE)
        self._set_out(out, offsets, source)
        if len(passes) > 1:
            self._images["first_pass"] = np.cumsum([0, *map(len, passes)])[starts]
        every = NONE if self._first_occurrences is None else self._first_occurrences
        files = source.headers if isinstance(source, EncodedImages) else NO_FILES
        describe(self._images, *files, TURNS, self._sizes, self._passes, every, self._channels, self._needs)
        if isinstance(source, EncodedImages):
            self._headers = files.records
            self._python = self._set_kinds(source)
        elif isinstance(source, EncodedClips):
            self._headers = np.zeros(n, jpeg_records.HEADER)
            self._python = list(range(len(source.data))) if first is None else np.unique(first).tolist()
        else:
            self._headers = np.zeros(n, jpeg_records.HEADER)
            self._python = []
            self._set_pixels(source)
        check_reach(self._images["region"], self._images["row"])
        here = self._images["kind"] != records.VIEW
        here[slice(n) if isinstance(source, EncodedClips) else self._python] = False
        self._order = np.flatnonzero(here)
        if n > 1:  # largest files first: threads then end together
            self._order = self._order[np.argsort(-self._images["size"][self._order], kind="stable")]
        self._memory |= self._memory_needed()
        if len(self._order) and isinstance(source, EncodedImages):
            compile_together(always)
            self._batch = batch_of_bytes(source.channels, frozenset(_kinds(source))).copy()
        else:
            self._batch = np.zeros(1, records.BATCH)
            self._batch["channels"] = source.channels
        self._batch["scale"], self._batch["streamed"] = layout.SCALES[source.dtype], out.nbytes >= _STREAMED

    @property
    def launches(self) -> int:
        """Launches that a GPU would need for the call."""
        return sum(segment.launches for segment in self._segments)

    # -- records -----------------------------------------------------------------------------------------------

    def _set_out(self, out: Any, offsets: Ints, source: Encoded | Pixels) -> None:
        if self._segments:
            itemsize = self._segments[-1].itemsize
            self._images["out_bytes"] = self._segments[-1].bytes
        else:
            itemsize = 1
            self._images["out_bytes"] = self._sizes[:, 0] * self._sizes[:, 1] * source.channels
        self._images["out"] = out.ctypes.data + offsets * itemsize

    def _set_kinds(self, source: EncodedImages) -> list[int]:
        """Set the kinds of encoded images; return the indices of those that Python decodes."""
        images = self._images
        kind = images["kind"]
        if source.seek is not None:
            images["access"] = source.seek.access
        failed = list(source.failures)
        kind[failed] = records.BLACK
        if self._first_occurrences is not None:
            kind[self._first_occurrences != np.arange(len(images))] = records.VIEW
        ours = route.ours_takes(source.headers.records)
        ours[failed] = True
        return np.flatnonzero(~ours & (kind != records.VIEW)).tolist()

    def _set_pixels(self, source: Pixels) -> None:
        images = self._images
        itemsize = source.flat.itemsize
        x0, y0, _, _ = images["region"].T
        row = source.sizes[:, 1] * source.channels
        start = y0 * row + x0 * source.channels
        images["source"] = source.flat.ctypes.data + (source.offsets + start) * itemsize
        images["row"] = row
        images["elements"] = source.sizes[:, 0] * row - start
        if source.dtype == "uint8":
            end = source.offsets + source.sizes[:, 0] * row
            # What follows in the page of the last byte can be read, whatever it is; its values are not used.
            left = -(source.flat.ctypes.data + end) % _PAGE
            padded = (end + SOURCE_SLACK <= source.flat.size) | (left >= SOURCE_SLACK)
            images["elements"][padded] += SOURCE_SLACK
            images["kind"] = np.where(padded, records.PIXELS, records.UNPADDED)

    # -- memory ------------------------------------------------------------------------------------------------

    def _memory_needed(self) -> dict[str, int]:
        """Return the elements of each thread's scratch memory, by field."""
        images, needs = self._images, dict(zip(NEEDS.names or (), self._needs[0].tolist(), strict=True))
        if isinstance(self._source, Pixels):
            needs["source"] = int(np.max(images["elements"], where=images["kind"] == records.UNPADDED, initial=0))
        between = max((int(np.max(part.bytes, initial=0)) for part in self._segments[:-1]), default=0)
        work = work_bytes(self._headers)
        return needs | {"between": 2 * _half(between), "source": needs["source"] + SOURCE_SLACK, "work": work}

    # -- work --------------------------------------------------------------------------------------------------

    def rounds(self) -> Iterator[list[int]]:
        """Yield the images to decode in Python: first other formats, then files the native decoder rejected."""
        yield self._python
        if isinstance(self._source, EncodedImages) and self._source.seek is not None:
            self._source.seek.entry_status[:] = self._statuses["entry"]
        undecoded = np.flatnonzero(self._statuses["result"]).tolist()
        self._order = self._order[:0]
        if undecoded:
            yield undecoded

    def images_left(self, python: list[int]) -> int:
        """Return the number of images in a round, the most threads that it can use."""
        return len(self._order) + len(python)

    def work(self, memory: ThreadMemory, python: Iterator[int]) -> None:
        """Run one thread: decode images or clips in Python one by one, then run the native loop over all others."""
        memory.reserve(self._memory)
        in_python = [0.0]
        try:
            for k in python:
                for i, write in _timed(self._decoded(k), in_python):
                    self._run_decoded(i, write, memory)
                    if self._queue["stop"][0]:
                        return
            while not self._native(self._order, self._queue, memory):
                if self._queue["stop"][0]:
                    return
        except BaseException:
            self.stop()
            raise
        finally:
            decoding, total = (float(memory.thread[field][0]) / 1e9 for field in ("decoding", "total"))
            with self._lock:  # times exclude waits for the GIL, and for a free slot of the native loop
                self.timings.add(Timings(decoding + in_python[0], total - decoding))

    def stop(self) -> None:
        """Let all threads end after their current image."""
        self._queue["stop"] = 1

    def _native(self, order: Ints, queue: Any, memory: ThreadMemory) -> bool:
        return run_images(
            order, queue, self._images, self._headers, self._passes, self._statuses, self._batch, memory,
            self._running_threads.running,
        )  # fmt: skip

    def _decoded(self, k: int) -> Iterator[tuple[int, Write | None]]:
        """Yield what Python decodes, an image or the frames of a clip one by one; None for an image that fails."""
        source = self._source
        if isinstance(source, EncodedClips):
            return self._decoded_clip(source, k)
        assert isinstance(source, EncodedImages)
        return self._decoded_image(source, k)

    def _decoded_image(self, source: EncodedImages, i: int) -> Iterator[tuple[int, Write | None]]:
        """Decode an image with our PNG decoder or Pillow, and turn it as displayed."""
        status, orientation = self._statuses[i].copy(), int(source.orientations[i])
        try:
            header = source.others.get(i) or pillow.read_header(source.data[i], int(np.prod(source.sizes[i])))
            if header.codec == "png":
                here = slice(i, i + 1)
                regions = exif.stored_regions(
                    self._images["region"][here], self._sizes[here], source.orientations[here]
                )
                part = png.part_of(source.data[i], source.options, regions[0])
                if part is not None:
                    yield i, partial(_write_part, part, orientation)
                    return
            scale = int(self._images["scale"][i])
            pixels = pillow.decode(source.data[i], header, source.options, scale)
            shown = exif.turned(pixels, orientation)
            if shown.shape[:2] != tuple(self._sizes[i].tolist()):
                raise ValueError("the decoded image differs in size from its header")
        except ValueError as error:
            self.failures[i] = jpeg.reason(status) or str(error)
            yield i, None
        else:
            yield i, partial(_cut, shown)

    def _decoded_clip(self, source: EncodedClips, clip: int) -> Iterator[tuple[int, Write | None]]:
        """Yield the frames of a clip as the decoder returns them; all are black if one of them fails."""
        video, first, numbers = source.videos[clip], clip * source.frames, source.numbers[clip]
        if video is not None and clip not in source.failures:
            try:
                wanted = np.unique(numbers).tolist()
                open_ = partial(opened, source.data[clip], source.options.max_pixels)
                for number, frame in decoded_frames(open_, video, wanted):
                    write = partial(write_pixels, frame, video.orientation, self._channels)
                    yield from ((first + int(t), write) for t in np.flatnonzero(numbers == number))
            except VideoError as error:
                self.failures[clip] = str(error)
            else:
                return
        yield from ((first + t, None) for t in range(len(numbers)))

    def _run_decoded(self, i: int, write: Write | None, memory: ThreadMemory) -> None:
        """Run the segments of an image that Python has decoded, or of a black one."""
        image = self._images[i]
        self._statuses[i] = 0
        image["kind"] = records.BLACK
        x0, y0, x1, y1 = region = image["region"].tolist()
        if write is not None and not self._segments:
            write(region, self._result(i))
            return
        if write is not None:
            size = (x1 - x0) * (y1 - y0) * self._channels
            padded = memory.flat("decoded", size + SOURCE_SLACK, np.uint8)
            write(region, padded[:size])
            image["kind"] = records.PIXELS
            image["source"], image["elements"] = padded.ctypes.data, size + SOURCE_SLACK
        self._native(np.array([i]), np.zeros(1, records.QUEUE), memory)

    def _result(self, i: int) -> Any:
        """Return the memory of a result that needs decoding only."""
        image = self._images[i]
        start = int(image["out"]) - self._out.ctypes.data
        return self._out[start : start + int(image["out_bytes"])]


def _timed(decoded: Iterator[tuple[int, Write | None]], seconds: list[float]) -> Iterator[tuple[int, Write | None]]:
    """Yield from ``decoded``, and add its time and that of the functions that it yields to ``seconds[0]``."""
    while True:
        start = time.perf_counter()
        one = next(decoded, None)
        seconds[0] += time.perf_counter() - start
        if one is None:
            return
        i, write = one
        yield i, None if write is None else partial(_write_timed, write, seconds)


def _write_timed(write: Write, seconds: list[float], region: list[int], out: Any) -> None:
    start = time.perf_counter()
    write(region, out)
    seconds[0] += time.perf_counter() - start


def _cut(pixels: Any, region: list[int], out: Any) -> None:
    """Copy a region of a decoded image."""
    x0, y0, x1, y1 = region
    part = pixels[y0:y1, x0:x1]
    out.reshape(part.shape)[:] = part


def _write_part(part: png.Part, orientation: int, region: list[int], out: Any) -> None:
    """Write the part of a PNG file that becomes a region of the image as displayed."""
    if orientation == 1:
        part.write(out)
    else:
        shown = exif.turned(part.pixels(), orientation)
        out.reshape(shown.shape)[:] = shown


def _with_store(segments: Sequence[Plan]) -> tuple[Sequence[Plan], Stored | None]:
    """Return the segments to run, and the store of the last one where that is an exact resize."""
    if not segments:
        return (), None
    if segments[-1].exact is not None:
        return segments, Stored.of(whole_regions(segments[-1].sizes))
    stored = stored_bytes(segments[-1]) if len(segments) > 1 and segments[-2].exact is not None else None
    return (segments if stored is None else segments[:-1]), stored


def _compiled(
    source: Encoded | Pixels,
    segments: Sequence[Plan],
    stored: Stored | None,
    starts: Ints,
    scales: Ints,
    kind: int,
    form: Form,
    always: tuple[str, ...],
    needs: Records,
    memory: dict[str, int],
) -> list[_Segment | _ExactSegment]:
    kinds = [*((kind_between(before, after), "pixels") for before, after in pairwise(segments)), (kind, form)]
    parts = list[Ints]()
    if any(plan.exact is not None for plan in segments):
        parts = regions_read(segments, None if stored is None else stored.parts)[1:]
    compiled, sizes, channels = list[_Segment | _ExactSegment](), source.sizes, source.channels
    for k, (plan, scaled) in enumerate(zip(segments, at_scales(source, segments, starts, scales), strict=True)):
        strides = sizes[:, 1] * channels
        sizes, channels = plan.sizes, plan.channels
        if plan.exact is not None:
            last = stored if k == len(segments) - 1 else None
            compiled.append(_ExactSegment(scaled, last or Stored.of(parts[k]), *kinds[k], always, memory))
        else:
            # Dtypes that a segment reads: results of the previous one, and source images unchanged by earlier segments.
            read = {"uint8" if plan.of_exact is not None else "float32"} if k else set()
            if np.any(starts == k):
                read.add(source.dtype)
            compiled.append(_Segment(scaled, *kinds[k], read, always, needs))
        if k:  # the region is of results of the segment before
            check_reach(compiled[-1].regions, np.where(starts < k, strides, 0))
    return compiled


def _always(source: Encoded | Pixels) -> tuple[str, ...]:
    """Names of loops that a call needs whatever it does."""
    if not isinstance(source, EncodedImages):
        return ALWAYS[-1:]  # no decoder
    more = {jpeg_records.PROGRESSIVE: progressive.DECODE_FUNCTION, jpeg_records.RECODED: recoded.DECODE_FUNCTION}
    return (*ALWAYS, *(more[kind].name for kind in _kinds(source)))


def _kinds(source: EncodedImages) -> list[int]:
    """Return the kinds of a batch's files that decoders of their own decode."""
    kinds = source.headers.records["kind"]
    return [kind for kind in (jpeg_records.PROGRESSIVE, jpeg_records.RECODED) if np.any(kinds == kind)]


def _half(size: int) -> int:
    """Return the bytes of half of the memory between segments, for results of ``size`` bytes."""
    return size + SOURCE_SLACK + -(size + SOURCE_SLACK) % ALIGNMENT
