"""Decoding of a batch into memory of the CUDA runtime.

JPEGs with an entry in a seek index are decoded by kernels of our own, others by nvImageCodec, and clips by NVDEC; what
these do not take, and what they fail at, the CPU runtime decodes, whose reasons are those of all failures. Such images
and frames come to their place in one copy.

A thread decodes on a stream of its own. It waits for nothing but the decoders: not for the kernels of the batch before,
and not for what the caller computes.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import defaultdict
from typing import Any

import cupy
import numpy as np

from .._checks.types import Ints
from .._data.clips import EncodedClips
from .._data.images import ALIGNMENT, Encoded, EncodedImages, Pixels, offsets_of, rows_of, whole_regions
from .._decoding import exif
from .._decoding.nvimgcodec import DeviceImage, GpuDecoder, for_engine, gpu_decoder, hardware_share, takes
from .._threads.threads import threads
from .cpu import CpuRuntime
from .cuda_jpeg import SegmentDecoder, upload_of
from .cuda_launch import capability_of
from .cuda_marks import MARK_BYTES, Marks
from .cuda_memory import PerThread, Pinned, Ring, copy_to_device, follow
from .cuda_video import AT_ONCE, ClipDecoder
from .protocol import Outcome, Timings

# Threads of a decoder: beyond these, they wake one another more than they work; nvImageCodec needs two to work side by
# side at all.
_MOST_THREADS, _FEWEST_THREADS = 16, 2


class _Own:
    """What a thread has for itself: its decoder is made when the first JPEG comes."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.marks = Marks(self.stream)
        self.pinned = Ring(Pinned)
        self.decoder: GpuDecoder | None = None
        self.asked = False  # for a decoder, which there may be none of


class ImageDecoder:
    """Decodes batches on one GPU, and what it cannot on the CPU; for any number of threads."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._share = hardware_share()
        self._cpu = CpuRuntime()  # for files that nvImageCodec does not decode
        self._segments = SegmentDecoder(lambda: self._own().pinned)
        self._clips = ClipDecoder(index)
        self._local = threading.local()
        self._spare: defaultdict[int, list[_Own]] = defaultdict(list)  # of threads that are gone
        self._told: set[str] = set()

    def set_lanes(self, lanes: int) -> None:
        """Tell how many threads decode beside each other, of which the calling one is one: they share the cores."""
        self._local.lanes = lanes

    def decode(self, images: Encoded, pixels: Pixels, stream: Any, regions: Ints | None = None) -> Outcome:
        """Decode regions of images, or all, or the frames of clips; those that fail are left black.

        Parameters
        ----------
        images : EncodedImages or EncodedClips
        pixels : Pixels
            Memory for all. Nothing uses it any more: the host has waited for that.
        stream : cupy.cuda.Stream
            Goes on when the images are decoded. Nothing here waits for what it still has to do.
        regions : (N, 4) int64, optional
            What is read of each image: x0, y0, x1, y1. More may be written.
        """
        own = self._own()
        try:
            # With the stream as CuPy's current one nvImageCodec's images and its decode agree about the stream.
            with own.stream:
                return self._decode(images, pixels, regions, own)
        except BaseException:
            own.stream.synchronize()  # copies from and to the memory of the host
            raise
        finally:
            follow(stream.ptr, own.stream.ptr)

    def _decode(self, images: Encoded, pixels: Pixels, regions: Ints | None, own: _Own) -> Outcome:
        begin = time.perf_counter()
        gpu = Timings()  # of which decoding is the time of the host: it waits for the decoders
        if isinstance(images, EncodedClips):
            refused = self._decode_clips(images, pixels, regions, own)
            gpu.clips_on_cpu = len(refused)
            left = list(refused)
        else:
            decoded, gpu.unwritten = self._decode_on_gpu(images, pixels, regions, own)
            left = [i for i in range(len(images)) if i not in decoded and i not in images.failures]
        gpu.decode = time.perf_counter() - begin
        outcome = self._decode_on_host(images, left, pixels)
        for i in rows_of(np.array([*images.failures], np.int64), images.frames).tolist():
            pixels.view(i).fill(0)
        outcome.timings.add(gpu)
        return outcome

    def _decode_clips(self, clips: EncodedClips, pixels: Pixels, regions: Ints | None, own: _Own) -> dict[int, str]:
        """Decode clips; gives those that this GPU does not decode, and why."""
        wanted = whole_regions(clips.sizes) if regions is None else regions
        at_once = max(AT_ONCE // getattr(self._local, "lanes", 1), 1)
        refused = self._clips.decode(clips, pixels, wanted, own.stream, at_once)
        for clip, reason in refused.items():
            self._tell(
                f"the CPU decodes clips that cuda:{self._index} does not, the first of them in {clips.names[clip]} "
                f"({reason}); stats() counts those of a loader",
                "clips",
                9,
            )
        return refused

    def _own(self) -> _Own:
        if not hasattr(self._local, "own"):
            count = min(threads() // getattr(self._local, "lanes", 1), _MOST_THREADS)
            count = max(count, _FEWEST_THREADS)
            self._local.own = PerThread(self._spare[count], lambda: _Own(count))
        own: _Own = self._local.own.value
        return own

    def _tell(self, words: str, kind: str, level: int) -> None:
        """Warn once."""
        if kind not in self._told:
            self._told.add(kind)
            warnings.warn(words, stacklevel=level)

    # -- the GPU -----------------------------------------------------------------------------------------------

    def _decode_on_gpu(
        self, images: EncodedImages, pixels: Pixels, regions: Ints | None, own: _Own
    ) -> tuple[set[int], int]:
        """Decode what this GPU can; gives what it decoded, and how many images nvImageCodec did not write."""
        uploaded = upload_of(images, pixels, regions)
        begun = [] if uploaded is None else [*uploaded.taken, *uploaded.refused]
        places = self._places(images, pixels, begun, own)
        marked = None if places is None else own.marks.write(places.marks)
        with self._segments.decoding(images, uploaded, pixels.flat, own.stream) as done:
            decoded, unwritten = (set(), []) if places is None else self._decode_to(places, images, own, marked)
        if unwritten:
            self._tell(
                f"nvImageCodec reported images as decoded on cuda:{self._index} that it did not write, the first of "
                f"them {images.names[unwritten[0]]}: the CPU decodes such images; stats() counts those of a loader",
                "unwritten",
                9,
            )
        return decoded | done, len(unwritten)

    def _places(self, images: EncodedImages, pixels: Pixels, others: list[int], own: _Own) -> Places | None:
        """Where nvImageCodec decodes what it takes of the images but some others; None if that is nothing."""
        taken = takes(images.headers)
        taken &= images.headers.records["width"] * images.channels >= MARK_BYTES  # there is room for a mark in a row
        taken[[*images.others, *images.failures, *others]] = False
        numbers = np.flatnonzero(taken)
        if not len(numbers) or self._decoder(own) is None:
            return None
        return Places(images, pixels, numbers)

    def _decode_to(self, places: Places, images: EncodedImages, own: _Own, marked: Any) -> tuple[set[int], list[int]]:
        """Decode by nvImageCodec; gives what it decoded, and what it only reported as decoded."""
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

    def _decoder(self, own: _Own) -> GpuDecoder | None:
        """The thread's decoder; None where there is none for this GPU."""
        if not own.asked:
            own.decoder = gpu_decoder(self._index, capability_of(cupy.cuda.Device()), own.threads)
            own.asked = True
            if own.decoder is None:
                self._tell(
                    f"nvImageCodec has no decoder of JPEGs on cuda:{self._index} (is nvJPEG installed?): they are "
                    "decoded on the CPU and copied; `gpuimg info` says what is missing",
                    "none",
                    11,
                )
        return own.decoder

    # -- the CPU -----------------------------------------------------------------------------------------------

    def _decode_on_host(self, images: Encoded, left: list[int], pixels: Pixels) -> Outcome:
        """Decode images or clips on the CPU and bring them here in one copy; those that fail are black in it."""
        if not left:
            return Outcome()
        part = images.part(left)
        host, outcome = self._cpu.decode(part)
        if images.seek is not None and part.seek is not None:
            images.seek.take_over(part.seek, left)
        rows = rows_of(np.array(left), images.frames).tolist()
        if rows[-1] - rows[0] < len(rows):  # side by side: they lie as they do here
            start = int(pixels.offsets[rows[0]])
            copy_to_device(host.flat, pixels.flat[start : start + host.flat.size])
        else:
            uploaded = Pixels(cupy.empty(host.flat.size, cupy.uint8), host.offsets, host.sizes, host.channels)
            copy_to_device(host.flat, uploaded.flat)
            for k, i in enumerate(rows):
                pixels.view(i)[:] = uploaded.view(k)
        return Outcome({left[k]: reason for k, reason in outcome.failures.items()}, outcome.timings)


class Places:
    """Where nvImageCodec decodes images to: their place in the batch, or memory of its own for one that is turned.

    Parameters
    ----------
    images : EncodedImages
    pixels : Pixels
        The batch's memory.
    numbers : (M,) int64
        Which of the images.

    Attributes
    ----------
    numbers : (M,) int64
    marks : list of (array, (N,) int64)
        Where the last bytes of each image of the batch are, as :meth:`Marks.write` takes it.
    turned : dict of int to int
        Of images that are to be turned, where they lie in the memory for them.
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
        """The places of all, for work on a stream."""
        channels = self._pixels.channels
        return [
            DeviceImage(address, (height, width, channels), stream)
            for address, (height, width) in zip(self._addresses.tolist(), self._sizes.tolist(), strict=True)
        ]

    def turn(self, decoded: set[int]) -> None:
        """Bring images that were decoded, and are to be turned, to their place."""
        for i, start in self.turned.items():
            if i in decoded:
                out, turn = self._pixels.view(i), int(self._turns[i])
                stored = self._own[start : start + out.size].reshape(exif.stored_shape(out.shape, turn))
                out[:] = exif.turned(stored, turn)
