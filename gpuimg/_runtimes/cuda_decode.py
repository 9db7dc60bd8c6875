"""Decoding of a batch into memory of the CUDA runtime.

JPEGs are decoded by nvImageCodec where it is installed, or by our own kernels, as the options of the call say and not
the other files of the batch (see :mod:`gpuimg._decoding.route`); JPEG 2000 and TIFF files by nvImageCodec; clips by
NVDEC.
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
from .._data.images import Encoded, EncodedImages, Pixels, rows_of, whole_regions
from .._decoding import route
from .._decoding.nvimgcodec import hardware_share
from .._decoding.options import NVIMAGECODEC
from .._threads.threads import threads
from ..kernels.jpeg.layout import BASELINE
from .cpu import CpuRuntime
from .cuda_jpeg import SegmentDecoder, given_up
from .cuda_marks import MARK_BYTES
from .cuda_memory import PerThread, Pinned, Ring, copy_to_device, wait
from .cuda_nvimgcodec import NvImageCodec, Warn
from .cuda_video import AT_ONCE, decode_clips
from .protocol import Outcome, Timings

# Threads of a decoder: more threads mostly wake one another; nvImageCodec needs two for any parallel work.
_MOST_THREADS, _FEWEST_THREADS = 16, 2

_PACKAGE: Final = str(Path(__file__).parents[1])
_UPLOADS = 4  # blocks of pinned memory: two for each of two batches


class _ThreadState:
    """State of a thread."""

    def __init__(self, index: int, threads: int, share: float, warn: Warn) -> None:
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.done = cupy.cuda.Event(disable_timing=True)  # after the last batch
        self.pinned = Ring(Pinned, _UPLOADS)
        self.nvimgcodec = NvImageCodec(index, threads, share, self.stream, warn)


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

    def decode_deep(self, images: EncodedImages, numbers: Ints, pixels: Pixels) -> Ints:
        """Decode 16-bit files into memory of uint16, on this GPU only; return the numbers of those that were.

        The caller's current stream continues when they are decoded; its pending work is waited for.
        """
        own = self._own()
        taken = [i for i in numbers.tolist() if route.nvimgcodec_takes_other(images.others[i], images.options)]
        wide = [i for i in taken if images.headers.records["width"][i] * pixels.channels * 2 >= MARK_BYTES]
        if not wide or not own.nvimgcodec.found().takes_others:
            return numbers[:0]
        caller = cupy.cuda.get_current_stream()
        caller.synchronize()
        try:
            with own.stream:
                refused, _ = own.nvimgcodec.begin(images, np.array(wide), pixels)()
        except BaseException:
            own.stream.synchronize()
            raise
        finally:
            own.done.record(own.stream)
            wait(caller.ptr, own.done)
        return np.setdiff1d(wide, refused)

    def _decode(self, images: Encoded, pixels: Pixels, regions: Ints, own: _ThreadState) -> Outcome:
        begin = time.perf_counter()
        if isinstance(images, EncodedClips):
            left = list(self._decode_clips(images, pixels, regions, own))
            gpu = Timings(clips_on_cpu=len(left))
        else:
            left, gpu = self._decode_images(images, pixels, regions, own)
        gpu.decode = time.perf_counter() - begin  # the host's, which waits for the decoders
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
            make = partial(_ThreadState, self._index, count, self._share, self._warn_once)
            self._local.own = PerThread(self._spare[count], make)
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

    def _decode_images(
        self, images: EncodedImages, pixels: Pixels, regions: Ints, own: _ThreadState
    ) -> tuple[list[int], Timings]:
        """Decode files that this GPU can; return those that are left to the CPU, and counts.

        Kernels may yet report others.
        """
        reported = given_up(images)
        counts, decoders = Timings(jpegs_on_cpu=int(reported.sum())), self._assigned(images, reported, own)
        jobs = list[Callable[[], tuple[Any, Timings]]]()
        if len(numbers := np.flatnonzero(decoders == route.NVIMGCODEC)):
            jobs.append(own.nvimgcodec.begin(images, numbers, pixels))
        if (decoders == route.KERNELS).any():
            jobs.append(self._segments.begin(images, decoders != route.KERNELS, pixels, regions, own.stream))
        for finish in jobs:
            refused, part = finish()
            decoders[refused] = route.HOST
            counts.add(part)
        return np.flatnonzero(decoders == route.HOST).tolist(), counts

    def _assigned(self, images: EncodedImages, reported: Mask, own: _ThreadState) -> Any:
        """Return the decoder of each image, see :func:`.route.assign`."""
        records = images.headers.records
        assign = partial(
            route.assign, records, images.options, images.others, images.failures, reported,
            kernels=self._has_kernels(), least_row=MARK_BYTES,
        )  # fmt: skip
        decoders = assign(nvimgcodec=True, of_others=True)
        taken = decoders == route.NVIMGCODEC
        if not taken.any():
            return decoders
        of_others = np.zeros(len(taken), np.bool_)
        of_others[[*images.others]] = True
        found, jpegs = own.nvimgcodec.found(), taken & ~of_others
        has_jpegs = found.takes_jpegs or not jpegs.any()
        has_others = not (taken & of_others).any() or found.takes_others
        if has_jpegs and has_others:
            return decoders
        if not has_jpegs and (images.options.decoder == NVIMAGECODEC or (records["kind"][jpegs] != BASELINE).any()):
            self._warn_once(
                f"{own.nvimgcodec.problem}: JPEGs that gpuimg's kernels do not decode, such as progressive ones, are "
                "decoded on the CPU and copied; `gpuimg info` lists what is missing",
                "none",
            )
        return assign(nvimgcodec=has_jpegs, of_others=has_others)

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
