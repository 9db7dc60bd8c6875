"""One call of the CPU runtime: the words that its native loop reads, and what Python decodes beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._checks.types import Ints, Mask
from .._decoding import exif, jpeg, pillow
from .._plan.compile import Pass, compile_plan, launches_of, ops_used
from .._plan.plan import Plan
from .._plan.scale import FULL, at_scale, scaled_sizes
from .._video.clips import EncodedClips
from .._video.convert import write_pixels
from .._video.decode import decoded_frames
from .._video.files import opened
from ..errors import VideoError
from ..kernels import layout, ops
from ..kernels.cpu import artefacts, elastic
from ..kernels.cpu import batch as words
from ..kernels.cpu.run import call_table
from ..kernels.cpu.sample import SOURCE_SLACK, work_space
from ..kernels.cpu.store import BYTES_OF
from ..kernels.jpeg import decode as decoder
from ..kernels.jpeg import layout as header_words
from .cpu_memory import Places, Scratch
from .draft import first_segments, scales_of
from .images import SCALES, Encoded, EncodedImages, Pixels, check_reach, of_all_views, rows_of
from .protocol import Timings
from .threads import threads

# Rows sampled at a time: enough to share the tap tables, few enough to stay in the second-level cache.
_ROWS = 64

_CHANNELS = 3  # of the widest images

# Results of at least so many bytes are written past the caches, which would have lost them when they are read.
_STREAMED = 8 << 20

# Nanoseconds after which the main thread comes back from the native loop to see signals, between two images.
_SIGNALS = 50_000_000

#: Fills an array with a region (x0, y0, x1, y1) of an image that Python has decoded.
Write: TypeAlias = Callable[[list[int], Any], None]

# Results of a segment that another one reads: their kind, and whether each channel is a plane.
_BETWEEN = (layout.FLOAT32, False)


class _Segment:
    """A compiled plan as rows of pass words, the regions of its source, and the memory it takes."""

    def __init__(self, plan: Plan, kind: int, planar: bool, sources: set[str]) -> None:
        self.passes, region = compile_plan(plan)
        self.regions = np.ascontiguousarray(region, np.int64)
        itemsize = BYTES_OF[kind]
        self.bytes = plan.sizes[:, 0] * plan.sizes[:, 1] * (plan.channels * itemsize)
        separable = np.concatenate([run.records["separable"] for run in self.passes]) == 1
        filters = np.concatenate([run.records["filter"] for run in self.passes])
        used = ops_used(plan)
        self._calls = {
            source: call_table(source, kind, planar, used, separable, filters, plan.functions) for source in sources
        }
        self.memory = np.max([_memory(run, used) for run in self.passes], 0)
        self.launches = launches_of(self.passes, used)
        self.words = np.zeros((len(self.passes), words.PASS_WORDS), np.int64)
        for row, run in zip(self.words, self.passes, strict=True):
            row[words.RECORDS] = run.records.ctypes.data
            row[words.PROGRAMS] = run.programs.ctypes.data
            row[words.PROGRAM_WORDS] = run.programs.shape[1]
            row[words.FIRST_SLOT] = run.first_slot
            row[words.CHANNELS] = plan.channels
            row[words.ITEMSIZE] = itemsize if run is self.passes[-1] else 0
            row[words.REGIONS] = self.regions.ctypes.data
            for source, at in (("uint8", words.BYTE_TABLE), ("float32", words.FLOAT_TABLE)):
                row[at] = self._calls[source].ctypes.data if source in self._calls else 0


def _memory(run: Pass, used: Mask) -> list[int]:
    """Elements of the first parts of a ``_Memory`` for the largest image of a pass."""
    records = run.records
    if not len(records):
        return [0] * 5
    height, width = records["height"].astype(np.int64), records["width"].astype(np.int64)
    nx, ny = records["taps"].astype(np.int64).T
    whole = run.first_slot < run.end_slot or bool(np.any(used & ops.READS_NEIGHBORS))
    rows = height if whole else np.minimum(_ROWS, height)
    floats, ints = work_space(height, width, nx, ny, records["window"][:, 2].astype(np.int64))
    copied = height * width if used[ops.MOTION.code] else 0  # of a plane, while it is averaged
    if used[ops.JPEG.code]:
        copied = np.maximum(copied, artefacts.work_for(height, width))
    if used[ops.ELASTIC.code]:
        copied = np.maximum(copied, elastic.work_for(height, width))
    return [
        run.end_slot * ops.STATISTICS_WORDS,
        _CHANNELS * int(np.max(rows * width)),
        int(np.max(np.maximum(2 * np.max(width) + floats, copied))),
        max(int(np.max(ints)), ops.LEVELS),
        int(np.max(width)),
    ]


class _Memory(NamedTuple):
    """A worker thread's memory for the largest image of a call."""

    statistics: Any
    planes: Any
    floats: Any
    ints: Any
    packed: Any
    between: Any
    source: Any
    stored: Any
    tables: Any
    work: Any
    thread: Any


class Call:
    """What the threads of one call share; the last of it that refers to a batch's memory.

    Attributes
    ----------
    failures : dict of int to str
        Why images did not decode.
    timings : Timings
    """

    def __init__(
        self,
        source: Encoded | Pixels,
        segments: Sequence[Plan],
        out: Any,
        offsets: Ints,
        kind: int,
        planar: bool,
        places: Places,
    ) -> None:
        n = len(source.sizes)
        self._source = source
        self._out = out
        self._places = places
        self._channels = source.channels
        self._scale = SCALES[source.dtype]
        self.failures: dict[int, str] = {}
        self.timings = Timings()
        self._lock = threading.Lock()
        leaders = None if isinstance(source, Pixels) else source.leaders()
        self._leaders = None if leaders is None else rows_of(leaders, source.frames)
        starts = first_segments(segments) if segments else np.zeros(n, np.int64)
        scales = scales_of(source, segments, starts)
        self._sizes = scaled_sizes(source.sizes, scales)  # of the images as they are decoded
        self._segments = _compiled(source, segments, starts, scales, kind, planar)
        self._passes = np.concatenate(
            [segment.words for segment in self._segments] or [np.zeros((0, words.PASS_WORDS), np.int64)]
        )
        self._images = np.zeros((n, words.IMAGE_WORDS), np.int64)
        self._images[:, words.SCALE] = scales
        self._told = np.zeros((n, decoder.TOLD_WORDS), np.int64)
        self._shared = np.zeros(words.SHARED_WORDS, np.int64)
        self._set_out(out, offsets, source)
        self._set_regions(starts)
        self._set_views()
        x0, _, x1, _ = self._images[:, words.REGION : words.REGION + 4].T
        self._images[:, words.ROW] = (x1 - x0) * self._channels  # as it is decoded
        if isinstance(source, EncodedImages):
            self._headers = source.headers.words
            self._python = self._set_files(source)
        elif isinstance(source, EncodedClips):
            self._headers = np.zeros((n, header_words.HEADER_WORDS), np.int64)
            self._python = list(range(len(source.data))) if leaders is None else np.unique(leaders).tolist()
        else:
            self._headers = np.zeros((n, header_words.HEADER_WORDS), np.int64)
            self._python = []
            self._set_pixels(source)
        check_reach(self._images[:, words.REGION : words.REGION + 4], self._images[:, words.ROW])
        order = np.argsort(-self._images[:, words.SIZE], kind="stable")  # so that the threads end together
        here = self._images[:, words.KIND] != words.VIEW
        here &= not isinstance(source, EncodedClips)
        here[self._python] = False
        self._order = order[here[order]]
        self._needs = self._memory_needed()
        natively = np.any(self._images[self._order, words.KIND] == words.ENCODED)
        self._decoder = decoder.DECODE_PIECE.address if natively else 0  # compiled when it is first asked for

    @property
    def launches(self) -> int:
        """Launches that a GPU would need."""
        return sum(segment.launches for segment in self._segments)

    # -- words -------------------------------------------------------------------------------------------------

    def _set_out(self, out: Any, offsets: Ints, source: Encoded | Pixels) -> None:
        if self._segments:
            itemsize = int(self._segments[-1].words[-1, words.ITEMSIZE])
            self._images[:, words.OUT_BYTES] = self._segments[-1].bytes
        else:
            itemsize = 1
            self._images[:, words.OUT_BYTES] = source.sizes[:, 0] * source.sizes[:, 1] * source.channels
        self._images[:, words.OUT] = out.ctypes.data + offsets * itemsize

    def _set_regions(self, starts: Ints) -> None:
        images, sizes = self._images, self._sizes
        images[:, words.SHOWN_HEIGHT : words.SHOWN_WIDTH + 1] = sizes
        region = images[:, words.REGION : words.REGION + 4]
        region[:, 2:] = sizes[:, ::-1]
        first = 0
        for k, segment in enumerate(self._segments):
            here = starts == k
            region[here] = segment.regions[here]
            images[here, words.FIRST] = first
            first += len(segment.passes)

    def _set_views(self) -> None:
        """Images that stand several times: the region is that of all their views, which follow one another."""
        images, leaders = self._images, self._leaders
        images[:, words.NEXT_VIEW] = -1
        if leaders is None:
            return
        region = images[:, words.REGION : words.REGION + 4]
        whole = of_all_views(region, leaders)
        rows = np.argsort(leaders, kind="stable")
        follows = np.flatnonzero(leaders[rows[1:]] == leaders[rows[:-1]])
        images[rows[follows], words.NEXT_VIEW] = rows[follows + 1]
        images[:, words.CORNER : words.CORNER + 2] = region[:, :2] - whole[:, :2]
        region[:] = whole

    def _set_files(self, source: EncodedImages) -> list[int]:
        """Encoded images; gives those that Python decodes."""
        images, headers = self._images, source.headers.words
        images[:, words.DATA], images[:, words.SIZE] = source.headers.addresses, source.headers.sizes
        swapped, rows, columns = exif.turns(source.orientations)
        images[:, words.TURN] = words.SWAP * swapped + words.FLIP_ROWS * rows + words.FLIP_COLUMNS * columns
        images[:, words.KIND] = words.ENCODED
        if source.seek is not None:
            images[:, words.ACCESS : words.ACCESS + header_words.ACCESS_WORDS] = source.seek.access
        failed = list(source.failures)
        images[failed, words.KIND] = words.BLACK
        if self._leaders is not None:
            images[self._leaders != np.arange(len(images)), words.KIND] = words.VIEW
        ours = headers[:, header_words.KIND] == header_words.BASELINE
        ours[failed] = True
        return np.flatnonzero(~ours & (images[:, words.KIND] != words.VIEW)).tolist()

    def _set_pixels(self, source: Pixels) -> None:
        images = self._images
        itemsize = source.flat.itemsize
        x0, y0 = images[:, words.REGION], images[:, words.REGION + 1]
        row = source.sizes[:, 1] * source.channels
        start = y0 * row + x0 * source.channels
        images[:, words.SOURCE] = source.flat.ctypes.data + (source.offsets + start) * itemsize
        images[:, words.ROW] = row
        images[:, words.ELEMENTS] = source.sizes[:, 0] * row - start
        if source.dtype == "uint8":
            end = source.offsets + source.sizes[:, 0] * row + SOURCE_SLACK
            padded = end <= source.flat.size
            images[padded, words.ELEMENTS] += SOURCE_SLACK
            images[:, words.KIND] = np.where(padded, words.PIXELS, words.UNPADDED)

    # -- memory ------------------------------------------------------------------------------------------------

    def _memory_needed(self) -> list[int]:
        images = self._images
        x0, y0, x1, y1 = images[:, words.REGION : words.REGION + 4].T
        region = (x1 - x0) * (y1 - y0) * self._channels
        encoded = not isinstance(self._source, Pixels)
        read = np.where(images[:, words.KIND] == words.UNPADDED, images[:, words.ELEMENTS], region * encoded)
        first = np.max([segment.memory for segment in self._segments], 0) if self._segments else np.zeros(5, np.int64)
        width = np.max(self._headers[:, header_words.WIDTH], initial=1)
        return [
            *first.tolist(),
            int(np.max([segment.bytes for segment in self._segments[:-1]], initial=1)),
            int(np.max(read, initial=0)) + SOURCE_SLACK,
            int(np.max(region * (images[:, words.TURN] != 0), initial=1)),
            decoder.work_bytes(int(width)) if encoded else 1,
        ]

    def _memory(self, scratch: Scratch) -> _Memory:
        statistics, planes, floats, ints, packed, between, source, stored, work = self._needs
        return _Memory(
            scratch.flat("statistics", statistics, np.float32),
            scratch.flat("planes", planes, np.float32)[:planes].reshape(_CHANNELS, -1),
            scratch.flat("floats", floats, np.float32),
            scratch.flat("ints", ints, np.int32),
            scratch.flat("packed", packed, np.uint32),
            scratch.flat("between", 2 * between, np.uint8)[: 2 * between].reshape(2, -1),
            scratch.flat("source", source, np.uint8),
            scratch.flat("stored", stored, np.uint8),
            scratch.tables,
            scratch.flat("work", work, np.uint8),
            np.zeros(words.THREAD_WORDS, np.int64),
        )

    # -- work --------------------------------------------------------------------------------------------------

    def rounds(self) -> Iterator[list[int]]:
        """What Python decodes beside the native loop, and then what that did not decode, if there is anything."""
        yield self._python
        if isinstance(self._source, EncodedImages) and self._source.seek is not None:
            self._source.seek.fates[:] = self._told[:, decoder.ENTRY_TOLD]
        undecoded = np.flatnonzero(self._told[:, 0]).tolist()
        self._order = self._order[:0]
        if undecoded:
            yield undecoded

    def images_left(self, python: list[int]) -> int:
        """Images of a round: more threads than that have nothing to do."""
        return len(self._order) + len(python)

    def work(self, scratch: Scratch, python: Iterator[int]) -> None:
        """What each thread does: images or clips that Python decodes one by one, then all others in the native loop."""
        memory = self._memory(scratch)
        elsewhere = [0.0]
        try:
            for k in python:
                for i, write in _timed(self._decoded(k), elsewhere):
                    self._run_decoded(i, write, scratch, memory)
                    if self._shared[words.STOP]:
                        return
            while not self._native(self._order, self._shared, memory):
                if self._shared[words.STOP]:
                    return
        except BaseException:
            self.stop()
            raise
        finally:
            decoding, total = (float(memory.thread[k]) / 1e9 for k in (words.DECODING, words.TOTAL))
            with self._lock:  # not what a thread waited for Python's lock, or for a place
                self.timings.add(Timings(decoding + elsewhere[0], total - decoding))

    def stop(self) -> None:
        """Let all threads end after the image that they are at."""
        self._shared[words.STOP] = 1

    def _native(self, order: Ints, shared: Ints, memory: _Memory) -> bool:
        # Not current_thread(), which makes an object for each helper that is never removed.
        limit = _SIGNALS if threading.get_ident() == threading.main_thread().ident else 0
        whole: bool = words.run_images(
            order, shared, self._images, self._headers, self._passes, self._channels, self._scale,
            self._decoder, *memory, self._told, self._out.nbytes >= _STREAMED,
            self._places.taken, threads(), limit,
        )  # fmt: skip
        return whole

    def _decoded(self, k: int) -> Iterator[tuple[int, Write | None]]:
        """What Python decodes: an image, or the frames of a clip one by one; None where that fails."""
        source = self._source
        if isinstance(source, EncodedClips):
            return self._decoded_clip(source, k)
        assert isinstance(source, EncodedImages)
        return self._decoded_image(source, k)

    def _decoded_image(self, source: EncodedImages, i: int) -> Iterator[tuple[int, Write | None]]:
        """An image as it is shown, decoded by Pillow."""
        told = self._told[i].tolist()
        try:
            header = source.others.get(i) or pillow.read_header(source.data[i], int(np.prod(source.sizes[i])))
            scale = int(self._images[i, words.SCALE])
            pixels = pillow.decode(source.data[i], header, source.options, scale)
            shown = exif.turned(pixels, int(source.orientations[i]))
            if shown.shape[:2] != tuple(self._sizes[i].tolist()):
                raise ValueError("the decoded image has another size than its header says")
        except ValueError as error:
            self.failures[i] = jpeg.reason(told) if told[0] else str(error)
            yield i, None
        else:
            yield i, partial(_cut, shown)

    def _decoded_clip(self, source: EncodedClips, clip: int) -> Iterator[tuple[int, Write | None]]:
        """Frames of a clip as they come out of the decoder; all are black if one of them fails."""
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

    def _run_decoded(self, i: int, write: Write | None, scratch: Scratch, memory: _Memory) -> None:
        """Run an image that Python has decoded, or a black one."""
        image = self._images[i]
        self._told[i] = 0
        image[words.KIND] = words.BLACK
        x0, y0, x1, y1 = region = image[words.REGION : words.REGION + 4].tolist()
        if write is not None and not self._segments:
            write(region, self._result(i))
            return
        if write is not None:
            size = (x1 - x0) * (y1 - y0) * self._channels
            padded = scratch.flat("decoded", size + SOURCE_SLACK, np.uint8)
            write(region, padded[:size])
            image[words.KIND] = words.PIXELS
            image[words.SOURCE], image[words.ELEMENTS] = padded.ctypes.data, size + SOURCE_SLACK
        self._native(np.array([i]), np.zeros(words.SHARED_WORDS, np.int64), memory)

    def _result(self, i: int) -> Any:
        """The memory of a result that is decoded only."""
        start = int(self._images[i, words.OUT]) - self._out.ctypes.data
        return self._out[start : start + int(self._images[i, words.OUT_BYTES])]


def _timed(decoded: Iterator[tuple[int, Write | None]], seconds: list[float]) -> Iterator[tuple[int, Write | None]]:
    """The same, with the seconds that it took added up."""
    while True:
        start = time.perf_counter()
        one = next(decoded, None)
        seconds[0] += time.perf_counter() - start
        if one is None:
            return
        yield one


def _cut(pixels: Any, region: list[int], out: Any) -> None:
    """A region of an image of Pillow."""
    x0, y0, x1, y1 = region
    part = pixels[y0:y1, x0:x1]
    out.reshape(part.shape)[:] = part


def _compiled(
    source: Encoded | Pixels, segments: Sequence[Plan], starts: Ints, scales: Ints, kind: int, planar: bool
) -> list[_Segment]:
    last = len(segments) - 1
    far = np.zeros((len(scales), 2), np.bool_)
    if isinstance(source, EncodedImages):
        _, far[:, 1], far[:, 0] = exif.turns(source.orientations)
    compiled, sizes, channels = list[_Segment](), source.sizes, source.channels
    for k, plan in enumerate(segments):
        scaled = at_scale(plan, np.where(starts == k, scales, FULL), sizes, far)
        strides = sizes[:, 1] * channels
        sizes, channels = plan.sizes, plan.channels
        # What a segment reads: results of the one before, and source images that those before leave as they are.
        read = {"float32"} if k else set()
        if np.any(starts == k):
            read.add(source.dtype)
        compiled.append(_Segment(scaled, *((kind, planar) if k == last else _BETWEEN), read))
        check_reach(compiled[-1].regions, np.where(starts < k, strides, 0))  # of results of the segment before
    return compiled
