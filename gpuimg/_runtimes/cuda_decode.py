"""Decoding of a batch into memory of the CUDA runtime.

JPEGs are decoded by nvImageCodec where it is installed, or by our own kernels, as the options of the call say and not
the other files of the batch (see :mod:`gpuimg._decoding.route`); clips by NVDEC.
Files that these refuse or fail at are decoded by the CPU runtime, whose messages are reported for all failures. Such
images and frames are uploaded in one copy.

Each thread decodes on a separate stream. It waits only for nvImageCodec and NVDEC: not for kernels, and not for the
caller's computations.
"""

import sys
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import cupy
import numpy as np

from .._checks.types import Ints, Mask
from .._data.clips import EncodedClips
from .._data.images import ALIGNMENT, Encoded, EncodedImages, Pixels, offsets_of, rows_of, whole_regions
from .._decoding import exif, route
from .._decoding.nvimgcodec import DeviceImage, GpuDecoder, for_engine, gpu_decoder, hardware_share
from .._decoding.options import NVIMAGECODEC
from .._threads.threads import threads
from ..kernels.jpeg.layout import BASELINE
from .attempt import defer
from .cpu import CpuRuntime
from .cuda_jpeg import SegmentDecoder, given_up
from .cuda_launch import capability_of
from .cuda_marks import MARK_BYTES, Marks
from .cuda_memory import PerThread, Pinned, Ring, copy_to_device, wait
from .cuda_video import AT_ONCE, decode_clips
from .jpeg_upload import Upload
from .protocol import Outcome, Timings

# Threads of a decoder: more threads mostly wake one another; nvImageCodec needs two for any parallel work.
_MOST_THREADS, _FEWEST_THREADS = 16, 2

_PACKAGE: Final = str(Path(__file__).parents[1])
_UPLOADS = 4  # blocks of pinned memory: two for each of two batches


class _ThreadState:
    """State of a thread; its decoder is created for the first JPEG."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.done = cupy.cuda.Event(disable_timing=True)  # after the last batch
        self.marks = Marks(self.stream)
        self.pinned = Ring(Pinned, _UPLOADS)
        self.decoder: GpuDecoder | None = None
        self.decoder_requested = False  # the result may be None
        self.problem = ""  # the reason then


class ImageDecoder:
    """Decoder of batches on one GPU, with the CPU for other files; for any number of threads."""

    def __init__(self, index: int, has_kernels: Callable[[], bool] = lambda: True) -> None:
        self._index = index
        self._has_kernels = has_kernels  # for JPEGs
        self._share = hardware_share()
        self._cpu = CpuRuntime()  # for other files
        self._segments = SegmentDecoder(lambda: self._own().pinned)
        self._local = threading.local()
        self._spare: defaultdict[int, list[_ThreadState]] = defaultdict(list)  # of threads that have ended
        self._warned: set[str] = set()

    def set_thread_count(self, count: int) -> None:
        """Set how many threads, including the calling one, decode at the same time: they share the cores."""
        if count != getattr(self._local, "threads", 1):
            vars(self._local).clear()  # another thread of the earlier number may have its state
            self._local.threads = count

    def decode(self, images: Encoded, pixels: Pixels, stream: Any, regions: Ints | None = None) -> Outcome:
        """Decode images, or the frames of clips; those that fail are black.

        ``regions`` (N, 4) are what is read of them: x0, y0, x1, y1. More may be written.

        What our own kernels decode is only enqueued: the thread's attempt reads later what became of it. No pending
        work uses the memory of ``pixels``: the host has waited for that. ``stream`` continues when the images are
        decoded; its own pending work is not waited for.
        """
        own, wanted = self._own(), whole_regions(pixels.sizes) if regions is None else regions
        try:
            # With this as CuPy's current stream, nvImageCodec's images and its decoder use the same stream.
            with own.stream:
                return self._decode(images, pixels, wanted, own)
        except BaseException:
            own.stream.synchronize()  # copies from and to host memory may still run
            raise
        finally:
            own.done.record(own.stream)
            wait(stream.ptr, own.done)

    def _decode(self, images: Encoded, pixels: Pixels, regions: Ints, own: _ThreadState) -> Outcome:
        begin = time.perf_counter()
        gpu = Timings()  # its decode time is the host's, which waits for the decoders
        if isinstance(images, EncodedClips):
            refused = self._decode_clips(images, pixels, regions, own)
            gpu.clips_on_cpu = len(refused)
            left = list(refused)
        else:
            decoded, gpu.unwritten, gpu.jpegs_on_cpu = self._decode_on_gpu(images, pixels, regions, own)
            left = [i for i in range(len(images)) if i not in decoded and i not in images.failures]
        gpu.decode = time.perf_counter() - begin
        outcome = self._decode_on_host(images, left, pixels, regions)
        for i in rows_of(np.array([*images.failures], np.int64), images.frames).tolist():
            pixels.view(i).fill(0)
        outcome.timings.add(gpu)
        return outcome

    def _decode_clips(self, clips: EncodedClips, pixels: Pixels, regions: Ints, own: _ThreadState) -> dict[int, str]:
        """Decode clips; return reasons for those that this GPU refuses."""
        at_once = max(AT_ONCE // getattr(self._local, "threads", 1), 1)
        refused = decode_clips(self._index, clips, pixels, regions, own.stream, at_once)
        for clip, reason in refused.items():
            self._warn_once(
                f"the CPU decodes clips that cuda:{self._index} cannot decode, the first in {clips.names[clip]} "
                f"({reason}); stats() counts those of a loader",
                "clips",
            )
        return refused

    def _own(self) -> _ThreadState:
        if not hasattr(self._local, "own"):
            count = min(threads() // getattr(self._local, "threads", 1), _MOST_THREADS)
            count = max(count, _FEWEST_THREADS)
            self._local.own = PerThread(self._spare[count], lambda: _ThreadState(count))
        own: _ThreadState = self._local.own.value
        return own

    def _warn_once(self, message: str, kind: str) -> None:
        """Warn on the first call with this kind, at the line that called gpuimg."""
        if kind not in self._warned:
            self._warned.add(kind)
            frame, level = sys._getframe(1), 2
            while frame.f_back and frame.f_code.co_filename.startswith(_PACKAGE):
                frame, level = frame.f_back, level + 1
            warnings.warn(message, stacklevel=level)

    # -- the GPU -----------------------------------------------------------------------------------------------

    def _decode_on_gpu(
        self, images: EncodedImages, pixels: Pixels, regions: Ints, own: _ThreadState
    ) -> tuple[set[int], int, int]:
        """Decode files that this GPU can; return their indices, also of those that may yet be reported.

        Also the numbers of those that nvImageCodec did not write, and of those that it or our kernels failed at.
        """
        given, reported = self._for_nvimgcodec(images, own), given_up(images)
        places = Places(images, pixels, np.flatnonzero(given)) if given.any() else None
        others = given | reported
        uploaded = None if others.all() or not self._has_kernels() else Upload(images, pixels, regions, others)
        done = [] if uploaded is None else uploaded.taken
        marked = None if places is None else own.marks.write(places.marks)
        if uploaded is not None and done:
            defer(self._segments.begin(images, uploaded, pixels.flat, own.stream))
            done = uploaded.taken  # writing may have refused some
        decoded, unwritten = (set(), []) if places is None else self._decode_to(places, images, own, marked)
        failed = 0 if places is None else len(places.numbers) - len(decoded) - len(unwritten)
        error = None if own.decoder is None else own.decoder.error
        if failed and error is not None:
            self._warn_once(
                f"nvImageCodec failed at images on cuda:{self._index} ({error}): the CPU decodes such images; stats() "
                "counts those of a loader as jpegs_on_cpu",
                "failed",
            )
        if unwritten:
            self._warn_once(
                f"nvImageCodec reported images as decoded on cuda:{self._index} that it did not write, the first of "
                f"them {images.names[unwritten[0]]}: the CPU decodes such images; stats() counts those of a loader",
                "unwritten",
            )
        return decoded | set(done), len(unwritten), failed + int(reported.sum())

    def _for_nvimgcodec(self, images: EncodedImages, own: _ThreadState) -> Mask:
        """Return a mask of images for nvImageCodec."""
        records = images.headers.records
        taken = route.nvimgcodec_takes(records, images.options)
        taken &= records["width"] * images.channels >= MARK_BYTES  # a row has room for a mark
        taken[[*images.others, *images.failures]] = False
        if taken.any() and self._decoder(own) is None:
            if images.options.decoder == NVIMAGECODEC or (records["kind"][taken] != BASELINE).any():
                self._warn_once(
                    f"{own.problem}: JPEGs that gpuimg's kernels do not decode, such as progressive ones, are decoded "
                    "on the CPU and copied; `gpuimg info` lists what is missing",
                    "none",
                )
            taken[:] = False
        return taken

    def _decode_to(
        self, places: "Places", images: EncodedImages, own: _ThreadState, marked: Any
    ) -> tuple[set[int], list[int]]:
        """Decode by nvImageCodec; return the indices decoded, and those only reported as decoded."""
        assert own.decoder is not None
        given: list[int] = places.numbers.tolist()
        found = own.decoder.decode(
            [images.data[i] for i in given],
            places.images(own.stream.ptr),
            for_engine(images.headers, self._share)[places.numbers].tolist(),
            images.options.color,
            own.stream.ptr,
            marked.synchronize,
        )
        left = own.marks.left().tolist()
        decoded = {i for i, done in zip(given, found, strict=True) if done and not left[i]}
        places.turn(decoded)
        return decoded, [i for i, done in zip(given, found, strict=True) if done and left[i]]

    def _decoder(self, own: _ThreadState) -> GpuDecoder | None:
        """Return the thread's decoder; None if nvImageCodec has none for this GPU."""
        if not own.decoder_requested:
            own.decoder_requested = True
            try:
                set_device = partial(cupy.cuda.runtime.setDevice, self._index)
                own.decoder = gpu_decoder(self._index, capability_of(cupy.cuda.Device()), own.threads, set_device)
                own.problem = f"nvImageCodec has no JPEG decoder on cuda:{self._index} (is nvJPEG installed?)"
            except ImportError as error:
                own.problem = str(error).partition(";")[0]
        return own.decoder

    # -- the CPU -----------------------------------------------------------------------------------------------

    def _decode_on_host(self, images: Encoded, left: list[int], pixels: Pixels, regions: Ints) -> Outcome:
        """Decode regions of images or clips on the CPU, and upload them in one copy, black where that fails."""
        if not left:
            return Outcome()
        part = images.part(left)
        rows = rows_of(np.array(left), images.frames)
        regions = regions[rows]
        host, outcome = self._cpu.decode(part, regions)
        # Where these are whole and consecutive images, host and device have the same layout.
        if rows[-1] - rows[0] < len(rows) and np.array_equal(host.sizes, pixels.sizes[rows]):
            start = int(pixels.offsets[rows[0]])
            copy_to_device(host.flat, pixels.flat[start : start + host.flat.size])
        else:
            uploaded = Pixels(cupy.empty(host.flat.size, cupy.uint8), host.offsets, host.sizes, host.channels)
            copy_to_device(host.flat, uploaded.flat)
            for k, (i, (x0, y0, x1, y1)) in enumerate(zip(rows.tolist(), regions.tolist(), strict=True)):
                pixels.view(i)[y0:y1, x0:x1] = uploaded.view(k)
        return Outcome({left[k]: reason for k, reason in outcome.failures.items()}, outcome.timings)


class Places:
    """Destinations for nvImageCodec: in the batch's memory, or in separate memory for images with an orientation.

    ``numbers`` (M,) are the indices of its images. ``marks`` are offsets of the last bytes of each image of the batch,
    as :meth:`Marks.write` takes them; ``turned`` has those, in the separate memory, of images with an orientation.
    """

    def __init__(self, images: EncodedImages, pixels: Pixels, numbers: Ints) -> None:
        self.numbers = numbers
        self._pixels = pixels
        self._turns = images.orientations
        headers = images.headers.records[numbers]
        self._sizes = np.stack([headers["height"], headers["width"]], 1)  # as stored
        ends = self._sizes[:, 0] * self._sizes[:, 1] * pixels.channels - MARK_BYTES
        self._addresses = pixels.flat.data.ptr + pixels.offsets[numbers]
        marks = np.full((2, len(images)), -1, np.int64)
        marks[0, numbers] = pixels.offsets[numbers] + ends
        self.marks = [(pixels.flat, marks[0])]
        self.turned: dict[int, int] = {}
        turned = np.flatnonzero(self._turns[numbers] != 1)
        if len(turned):
            starts, total = offsets_of(self._sizes[turned], pixels.channels, ALIGNMENT)
            self._own = cupy.empty(total, cupy.uint8)
            self._addresses[turned] = self._own.data.ptr + starts
            marks[0, numbers[turned]] = -1
            marks[1, numbers[turned]] = starts + ends[turned]
            self.marks.append((self._own, marks[1]))
            self.turned = dict(zip(numbers[turned].tolist(), starts.tolist(), strict=True))

    def images(self, stream: int) -> list[DeviceImage]:
        """Return the destinations as objects for work on a stream."""
        channels = self._pixels.channels
        return [
            DeviceImage(address, (height, width, channels), stream)
            for address, (height, width) in zip(self._addresses.tolist(), self._sizes.tolist(), strict=True)
        ]

    def turn(self, decoded: set[int]) -> None:
        """Copy decoded images that need turning to their places in the batch."""
        for i, start in self.turned.items():
            if i in decoded:
                out, turn = self._pixels.view(i), int(self._turns[i])
                stored = self._own[start : start + out.size].reshape(exif.stored_shape(out.shape, turn))
                out[:] = exif.turned(stored, turn)
