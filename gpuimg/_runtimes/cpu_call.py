"""One call of the CPU runtime: fills the records that the native loop reads, and runs the decoders in Python.

Records hold raw addresses of files, pixels, results and scratch memory; :class:`Call` and :class:`CallMemory` keep
the owners of that memory alive while the native loop runs.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, fields
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from .._checks.types import Ints, Records
from .._data.clips import EncodedClips
from .._data.images import (
    ALIGNMENT,
    MOST_ELEMENTS,
    EncodedImages,
    Pixels,
    check_reach,
    rows_of,
    sizes_of,
)  # fmt: skip
from .._data.patches import Form
from .._decoding import exif, jpeg, pillow, png
from .._plan.compile import Stored
from .._plan.lower import CompiledArea, CompiledSegment, Work
from .._threads.helpers import SharedIterator, side_by_side
from .._threads.turn import zeros
from .._video.convert import readable, write_pixels
from .._video.decode import decoded_frames
from .._video.files import open_video
from ..errors import ImageError, VideoError
from ..kernels import layout
from ..kernels.compiled import ALWAYS, RUN_IMAGES, compile_together
from ..kernels.cpu import batch, exact, records
from ..kernels.cpu.areas import AREA_LOOPS
from ..kernels.cpu.bytes_store import STORE_BYTES_FUNCTIONS, store_space
from ..kernels.cpu.inputs import set_images, set_job, set_pass
from ..kernels.cpu.run import call_table
from ..kernels.cpu.vectors import SOURCE_SLACK
from ..kernels.jpeg import layout as jpeg_records
from ..kernels.jpeg import progressive, recoded
from ..kernels.jpeg.encode import ENCODE_FUNCTION
from .cpu_encode import NO_ENCODINGS, Encodings
from .cpu_image import NO_FILES, NO_PASSES, NONE, TURNS, batch_of_bytes, run_images, set_limit
from .cpu_memory import CallMemory
from .cpu_team import team
from .protocol import Timings

# Results of at least this many bytes are written with non-temporal stores: they would be evicted before they are read.
_STREAMED = 8 << 20

_SOURCE = (records.NEEDS.names or ()).index("source")
_PAGE = 4096  # bytes, the smallest of any system

#: Kinds of files that have separate decoders.
_SPECIAL_DECODERS = {
    jpeg_records.PROGRESSIVE: progressive.DECODE_FUNCTION, jpeg_records.RECODED: recoded.DECODE_FUNCTION
}  # fmt: skip
_SPECIAL = frozenset(_SPECIAL_DECODERS)

#: Fill an array with a region (x0, y0, x1, y1) of an image that Python has decoded.
Write: TypeAlias = Callable[[list[int], Any], None]


def places(sizes: Ints, channels: int, form: Form, stored: Stored) -> Any:
    """Return (N,) STORED of results of sizes (N, 2); planes and pixels are patches as large as the image."""
    one = zeros(records.STORED, len(sizes))
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
    """A compiled segment as PASS records; ``sources`` are the dtypes that it reads."""

    def __init__(
        self, segment: CompiledSegment, sources: set[str], others: tuple[str, ...], needs: Records, *, is_last: bool
    ) -> None:
        self._segment = segment
        self.itemsize = layout.WRITTEN[segment.kind].itemsize
        self.results, self.elements = _extent(segment.sizes, segment.plan.channels, segment.form)
        self.half = 0 if is_last else _half_for(self.results.prod(1) * self.elements, self.itemsize)
        self._regions = np.ascontiguousarray(segment.regions, np.int64)
        self._kept: list[Any] = []
        self.programs = [run.programs for run in segment.passes] if segment.plan.functions else []
        before = 0 if segment.area is None else 1
        self.passes = zeros(records.PASS, before + (len(segment.passes) if segment.exact is None else 1))
        self.passes["channels"], self.passes["itemsize"][-1] = segment.plan.channels, self.itemsize
        if segment.area is not None:
            self._set_area(segment.area, others, needs)
        if segment.exact is not None:
            self._set_exact(others, needs)
        elif segment.passes:
            self._set_passes(self.passes[before:], sources, others, needs)

    def _set_area(self, area: CompiledArea, others: tuple[str, ...], needs: Records) -> None:
        images, channels, dtype = area.records.copy(), area.channels, area.dtype
        if area.operand is not None:
            images["values"] = area.operand.values.ctypes.data + area.operand.values.itemsize * images["values"]
        loop, one = AREA_LOOPS[area.op.code, dtype], self.passes[0]
        needs["area"] = max(needs["area"][0], np.max(loop.space(images, channels), initial=0))
        compile_together([*others, loop.function.name])
        self._kept += images, area.operand
        one["areas"], one["regions"] = records.address_of(images), records.address_of(self._regions)
        one["apply"], one["itemsize"] = loop.function.address, np.dtype(dtype).itemsize
        one["channels"] = channels
        self.half = max(self.half, _half_for(self._segment.plan.sizes.prod(1) * channels, np.dtype(dtype).itemsize))

    def _set_passes(self, passes: Records, sources: set[str], others: tuple[str, ...], needs: Records) -> None:
        plan, form, used, ways = self._segment.plan, self._segment.form, self._segment.used, 0
        for k, run in enumerate(self._segment.passes):
            ways |= set_pass(
                passes, k, run.records, run.programs, self._regions, used, run.first_slot, run.end_slot, needs
            )
        if not isinstance(form, str):
            self._kept.append(patches := np.array([astuple(form)], records.PATCHES))
            passes["patches"] = records.address_of(patches)
        codes, stored = tuple(used.nonzero()[0].tolist()), form if isinstance(form, str) else "patches"
        for one in sources:
            table, address = call_table(one, self._segment.kind, stored, codes, ways, plan.functions, others)
            passes["byte_calls" if one == "uint8" else "float_calls"] = address
            self._kept.append(table)

    def _set_exact(self, others: tuple[str, ...], needs: Records) -> None:
        images, stored, channels = self._segment.exact, self._segment.stored, self._segment.plan.channels
        to = places(self._segment.sizes, channels, self._segment.form, stored)
        needs["exact"] = max(needs["exact"][0], np.max(exact.exact_space(images, to, channels), initial=0))
        resize, store = exact.RESIZE_FUNCTION, STORE_BYTES_FUNCTIONS[self._segment.kind]
        compile_together([*others, resize.name, store.name])
        self._kept += images, to
        one = self.passes[0]
        one["exact"], one["stored"], one["regions"] = map(records.address_of, (images, to, self._regions))
        one["resize"], one["store"] = resize.address, store.address


def _extent(sizes: Ints, channels: int, form: Form) -> tuple[Ints, int]:
    """Return (N, 2) numbers and one more: a result has their product's number of elements."""
    if isinstance(form, str):
        return np.ascontiguousarray(sizes), channels
    count = form.count(sizes)
    return np.stack([count, np.ones_like(count)], 1), form.size


def _half_for(elements: Any, itemsize: int) -> int:
    """Return the bytes of half of the memory between passes, for results of so many elements, (N,)."""
    size = int(np.max(elements, initial=0)) * itemsize
    return size + SOURCE_SLACK + -(size + SOURCE_SLACK) % ALIGNMENT


class Call:
    """State shared by the threads of one call; keeps the batch's buffers alive.

    ``regions`` (N, 4) are what to decode of images that differ: x0, y0, x1, y1; only without ``segments``. With
    ``encodings`` results are encoded, and nothing is written to ``out``.

    Attributes
    ----------
    failures : dict of int to str
        Reasons of images that were not decoded.
    timings : Timings
    """

    def __init__(
        self, work: Work, out: Any, offsets: Ints, regions: Ints | None = None, encodings: Encodings | None = None
    ) -> None:
        source = work.source
        n, files = len(source.sizes), source if isinstance(source, EncodedImages) else None
        self._source, self._out, self._channels = source, out, source.channels
        self._encodings = encodings
        self.failures: dict[int, str] = {}
        self.timings = Timings()
        self._sizes = work.sizes
        headers = NO_FILES if files is None else files.headers
        special = _SPECIAL.intersection(headers.records["kind"].tolist())
        always = _loops_needed(None if files is None else special, encodings is not None)
        self._needs = np.zeros(records.NEEDS.itemsize // 8, np.int64)
        needs = np.ndarray(1, records.NEEDS, self._needs)
        compiled = self._segments = [
            _Segment(segment, read, always, needs, is_last=segment is work.segments[-1])
            for segment, read in zip(work.segments, _dtypes_read(work), strict=True)
        ]
        self.functions = any(part.programs for part in compiled)
        self._passes = NO_PASSES
        results = work.sizes if regions is None else sizes_of(regions)
        elements, itemsize = source.channels, 1
        if compiled:
            last = compiled[-1]
            self._passes = last.passes if len(compiled) == 1 else np.concatenate([part.passes for part in compiled])
            results, elements, itemsize = last.results, last.elements, last.itemsize
        self._statuses = zeros(jpeg_records.STATUS, n)
        self._job = zeros(records.JOB, 1)
        images = self._images = zeros(records.IMAGE, n)
        if len(compiled) > 1:
            images["first_pass"] = np.cumsum([0, *(len(part.passes) for part in compiled)])[work.starts]
        needs["between"] = 2 * max(part.half for part in compiled) if compiled else 0
        self._first = NONE if work.first is None else rows_of(work.first, source.frames)
        left = set_images(
            images, *headers, TURNS, work.sizes, work.scales, self._passes, self._first, source.channels, out, offsets,
            itemsize, results, elements, needs,
        )  # fmt: skip
        if encodings is not None:
            needs["encode"] = encodings.scratch
            needs["result"] = np.max(images["out_bytes"]) if compiled else 0
        if regions is not None:
            images["region"] = regions
        self._headers = np.zeros(n, jpeg_records.HEADER) if files is None else headers.records
        order = list(range(n))
        self._python: list[int] = []
        if files is not None:
            kinds = images["kind"]
            for i in files.failures:
                if kinds[i] != records.VIEW:
                    kinds[i] = records.BLACK
            if left:
                self._python = np.flatnonzero(kinds == records.IN_PYTHON).tolist()
            if left or work.first is not None:
                order = np.flatnonzero(kinds < records.VIEW).tolist()
            if n > 1:  # largest files first: threads then end together
                order.sort(key=images["size"].tolist().__getitem__, reverse=True)  # keeps the GIL, unlike argsort
        elif isinstance(source, Pixels):
            self._set_pixels(source)
            unpadded = images["kind"] == records.UNPADDED
            needs["source"] = np.max(images["elements"], where=unpadded, initial=0)
        else:
            order.clear()
            self._python = list(range(len(source.data))) if work.first is None else np.unique(work.first).tolist()
        self._order = np.array(order, np.int64)
        if files is None or self._needs[_SOURCE] > MOST_ELEMENTS:
            check_reach(images["region"], images["row"])
        self._needs[_SOURCE] += SOURCE_SLACK
        streamed = out.nbytes >= _STREAMED
        if files is not None and len(self._order):
            compile_together(always)
            self._batch = batch_of_bytes(source.channels, special, streamed)
        else:
            self._batch = np.zeros(1, records.BATCH)
            self._batch["channels"], self._batch["streamed"] = source.channels, streamed
            self._batch["scale"] = layout.SCALES[source.dtype]

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
            # Vector loads may read past the last byte, within its page; the values are ignored.
            left = -(source.flat.ctypes.data + end) % _PAGE
            padded = (end + SOURCE_SLACK <= source.flat.size) | (left >= SOURCE_SLACK)
            images["elements"][padded] += SOURCE_SLACK
            images["kind"] = np.where(padded, records.PIXELS, records.UNPADDED)

    # -- work --------------------------------------------------------------------------------------------------

    def run(self, memory: CallMemory, most: int) -> None:
        """Decode and process all images on up to ``most`` threads: once more those that the native decoder rejected."""
        self._memory = memory
        self._run_round(self._python, most)
        self._order = self._order[:0]
        if undecoded := self._statuses["result"].nonzero()[0].tolist():
            self._run_round(undecoded, most)
        while self._encodings is not None and len(rows := self._encodings.give_more()):
            rows = np.unique(self._first[rows] if len(self._first) else rows) // (self._source.frames or 1)
            in_python = np.isin(rows, [*self._python, *undecoded])
            self._order = rows[~in_python]
            self._run_round(np.unique(rows[in_python]).tolist(), most)

    def _run_round(self, python: list[int], most: int) -> None:
        """Run the images of the order, which native loops decode, and others, which Python decodes."""
        count = max(min(most, len(self._order) + len(python)), 1)
        self._memory.reserve(self._needs, count)
        helpers = 0 if python else count - 1
        self._set_job(self._job, self._order, helpers)
        in_python: list[float] = []
        try:
            team.begin_call(helpers)
            if python:
                left, number = SharedIterator(python), SharedIterator(range(count))
                side_by_side(lambda: self._decode(next(number), left, in_python), count - 1, self.stop)
            else:
                self._native(0)
        finally:
            team.end_call(helpers)
        decoding, others = self._memory.seconds()  # without waits for the GIL, and for other threads to end
        self.timings.decode += decoding + sum(in_python)
        self.timings.kernels += others

    def _set_job(self, job: Any, order: Ints, helpers: int) -> None:
        memory = self._memory
        set_job(
            job, order, self._images, self._headers, self._statuses, self._passes, self._batch, memory.scratch,
            memory.threads, NO_ENCODINGS if self._encodings is None else self._encodings.records, helpers,
        )  # fmt: skip

    @property
    def has_workers(self) -> bool:
        """True while workers may be at the images: after an interrupt in the code that waits for them."""
        return bool(self._job["offer"][0])

    def check_functions(self) -> None:
        """Raise ImageError for an image for which a user's function has raised, which its program says by a NaN."""
        for programs in (programs for part in self._segments for programs in part.programs):
            if np.isnan(programs).any():
                i = int(np.isnan(programs).any(1).argmax())
                raise ImageError(i, "a function passed to pointwise raised an exception, such as IndexError")

    def _native(self, thread: int) -> None:
        """Run the native loop on the images of the order."""
        try:
            while not run_images(self._job, self._memory, thread):
                if self._job["stop"][0]:
                    return
        except BaseException:
            self.stop()
            raise
        finally:
            batch.withdraw(self._job, team.offers)

    def _decode(self, thread: int, python: Iterable[int], seconds: list[float]) -> None:
        """Decode images or clips in Python one by one, then run the native loop over all others."""
        place = self._job, team.records, team.offers, thread
        one, order, clips = zeros(records.JOB, 1), np.zeros(1, np.int64), isinstance(self._source, EncodedClips)
        try:
            set_limit(self._memory, thread)
            while not batch.enter(*place):
                if self._job["stop"][0]:
                    return
            start = time.perf_counter()
            for k in python:
                for i, write in self._decode_clip(k) if clips else self._decode_image(k):
                    is_done = self._write(i, write, thread)
                    seconds.append(time.perf_counter() - start)
                    if not is_done:
                        order[0] = i
                        self._set_job(one, order, 0)
                        run_images(one, self._memory, thread)
                    if self._job["stop"][0]:
                        return
                    start = time.perf_counter()
            self._native(thread)
        except BaseException:
            self.stop()
            raise
        finally:
            batch.leave(*place)

    def stop(self) -> None:
        """Let all threads end after their current image."""
        batch.stop(self._job, team.records)

    def _decode_image(self, i: int) -> Iterator[tuple[int, Write | None]]:
        """Decode an image with our PNG decoder or Pillow, and turn it as displayed; yield None if that fails."""
        source: Any = self._source
        status, orientation = self._statuses[i].copy(), int(source.orientations[i])
        try:
            header = source.others.get(i) or pillow.read_header(source.data[i], int(np.prod(source.sizes[i])))
            if header.codec == "png" and not header.page:
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
            yield i, partial(_copy_region, shown)

    def _decode_clip(self, clip: int) -> Iterator[tuple[int, Write | None]]:
        """Yield the frames of a clip as the decoder returns them, None for all if one of them fails."""
        source: Any = self._source
        video, first, numbers = source.videos[clip], clip * source.frames, source.numbers[clip]
        if video is not None and clip not in source.failures:
            try:
                wanted = np.unique(numbers).tolist()
                open_ = partial(open_video, source.data[clip], source.options.max_pixels)
                for number, frame in decoded_frames(open_, video, wanted):
                    write = partial(write_pixels, readable(frame), video.orientation, self._channels)
                    yield from ((first + int(t), write) for t in np.flatnonzero(numbers == number))
            except VideoError as error:
                self.failures[clip] = str(error)
            else:
                return
        yield from ((first + t, None) for t in range(len(numbers)))

    def _write(self, i: int, write: Write | None, thread: int) -> bool:
        """Write an image that Python has decoded, None for a black one; return True if that is the result."""
        image = self._images[i]
        self._statuses[i] = 0
        image["kind"] = records.BLACK
        x0, y0, x1, y1 = region = image["region"].tolist()
        if write is not None and not self._segments and self._encodings is None:
            start = int(image["out"]) - self._out.ctypes.data
            write(region, self._out[start : start + int(image["out_bytes"])])
            return True
        if write is not None:
            size = (x1 - x0) * (y1 - y0) * self._channels
            padded = self._memory.flat("decoded", size + SOURCE_SLACK, np.uint8, thread)
            write(region, padded[:size])
            image["kind"] = records.PIXELS
            image["source"], image["elements"] = padded.ctypes.data, size + SOURCE_SLACK
        return False


def _copy_region(pixels: Any, region: list[int], out: Any) -> None:
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


def _dtypes_read(work: Work) -> list[set[str]]:
    """Return the dtypes that the passes of each segment read.

    They are those of the segment before, of sources that those before do not change, and of an op on whole images.
    """
    here: set[str] = set()
    read: list[set[str]] = []
    for k, segment in enumerate(work.segments):
        if len(work.segments) == 1 or np.any(work.starts == k):
            here = here | {work.source.dtype}
        if segment.area is not None:
            here = {segment.area.dtype} | (set() if segment.area.applies.all() else here)
        read.append(here)
        if segment.passes or segment.exact is not None:
            here = {layout.RESULTS[segment.kind]}
    return read


@cache
def _loops_needed(special: frozenset[int] | None, encoded: bool) -> tuple[str, ...]:
    """Names of loops that a call needs whatever it does, for files of these kinds; None where no JPEG is decoded."""
    loops = (RUN_IMAGES,) if special is None else (*ALWAYS, *(_SPECIAL_DECODERS[kind].name for kind in special))
    return (*loops, ENCODE_FUNCTION.name) if encoded else loops
