"""Decoding of a batch into memory of the CUDA runtime.

JPEGs with an entry in a seek index are decoded by kernels of our own, others by nvImageCodec; what these do not take,
and what they fail at, the CPU runtime decodes, whose reasons are those of all failures. Such images come to their place
in one copy.
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
from .._decoding import exif
from .._decoding.nvimgcodec import DeviceImage, GpuDecoder, for_engine, gpu_decoder, hardware_share, takes
from .._plan.plan import Plan
from ..kernels.jpeg.layout import HEIGHT, WIDTH
from .cpu import CpuRuntime
from .cuda_jpeg import SegmentDecoder
from .cuda_launch import capability_of
from .cuda_memory import PerThread, copy_to_device
from .images import ALIGNMENT, EncodedImages, Pixels, offsets_of
from .protocol import Outcome
from .threads import threads

# Threads of a decoder: beyond these, they wake one another more than they work; nvImageCodec needs two to work side by
# side at all.
_MOST_THREADS, _FEWEST_THREADS = 16, 2


class ImageDecoder:
    """Decodes batches on one GPU, and what it cannot on the CPU; for any number of threads."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._share = hardware_share()
        self._cpu = CpuRuntime()  # for files that nvImageCodec does not decode
        self._segments = SegmentDecoder()
        self._local = threading.local()
        self._spare: defaultdict[int, list[GpuDecoder | None]] = defaultdict(list)  # of threads that are gone
        self._warned = False

    def set_lanes(self, lanes: int) -> None:
        """Tell how many threads decode beside each other, of which the calling one is one: they share the cores."""
        self._local.lanes = lanes

    def decode(self, images: EncodedImages, pixels: Pixels, stream: Any, plan: Plan | None = None) -> Outcome:
        """Decode what a plan reads, or all, on the calling thread's private stream; images that fail are left black."""
        begin = time.perf_counter()
        # With the private stream as CuPy's current one nvImageCodec's images and its decode agree about the stream.
        with stream:
            with self._segments.decoding(images, pixels, plan, stream) as segments:
                decoded = self._decode_on_gpu(images, pixels, segments.begun, stream)
            decoded |= segments.done
            seconds = time.perf_counter() - begin  # of the host: the call waits for the decoders
            left = [i for i in range(len(images)) if i not in decoded and i not in images.failures]
            outcome = self._decode_on_host(images, left, pixels)
            for i in images.failures:
                pixels.view(i).fill(0)
        outcome.timings.decode += seconds
        return outcome

    # -- nvImageCodec ------------------------------------------------------------------------------------------

    def _decode_on_gpu(self, images: EncodedImages, pixels: Pixels, others: set[int], stream: Any) -> set[int]:
        """Decode what nvImageCodec takes of the images but some others; gives those that it decoded."""
        taken = takes(images.headers)
        taken[[*images.others, *images.failures, *others]] = False
        numbers = np.flatnonzero(taken)
        decoder = self._decoder() if len(numbers) else None
        if decoder is None:
            return set()
        places = Places(images, pixels, numbers)
        if places.turned:
            stream.synchronize()  # the pool gives memory that work of this stream may still use, see cuda.py
        given: list[int] = numbers.tolist()
        found = decoder.decode(
            [images.data[i] for i in given],
            places.images(stream.ptr),
            for_engine(images.headers, self._share)[numbers].tolist(),
            images.color,
            stream.ptr,
        )
        decoded = {i for i, done in zip(given, found, strict=True) if done}
        places.turn(decoded)
        return decoded

    def _decoder(self) -> GpuDecoder | None:
        """The calling thread's decoder; None where there is none for this GPU."""
        if not hasattr(self._local, "decoder"):
            count = min(threads() // getattr(self._local, "lanes", 1), _MOST_THREADS)
            count = max(count, _FEWEST_THREADS)
            self._local.decoder = PerThread(self._spare[count], lambda: self._new_decoder(count))
        decoder: GpuDecoder | None = self._local.decoder.value
        return decoder

    def _new_decoder(self, count: int) -> GpuDecoder | None:
        decoder = gpu_decoder(self._index, capability_of(cupy.cuda.Device()), count)
        if decoder is None and not self._warned:
            self._warned = True
            warnings.warn(
                f"nvImageCodec has no decoder of JPEGs on cuda:{self._index} (is nvJPEG installed?): they are decoded "
                "on the CPU and copied; `gpuimg info` says what is missing",
                stacklevel=10,
            )
        return decoder

    # -- the CPU -----------------------------------------------------------------------------------------------

    def _decode_on_host(self, images: EncodedImages, left: list[int], pixels: Pixels) -> Outcome:
        """Decode images on the CPU and bring them here in one copy; those that fail are black in it."""
        if not left:
            return Outcome()
        part = images.part(left)
        host, outcome = self._cpu.decode(part)
        if images.seek is not None and part.seek is not None:
            images.seek.take_over(part.seek, left)
        if left[-1] - left[0] < len(left):  # side by side: they lie as they do here
            start = int(pixels.offsets[left[0]])
            copy_to_device(host.flat, pixels.flat[start : start + host.flat.size])
        else:
            uploaded = Pixels(cupy.empty(host.flat.size, cupy.uint8), host.offsets, host.sizes, host.channels)
            copy_to_device(host.flat, uploaded.flat)
            for k, i in enumerate(left):
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
    turned : dict of int to int
        Of images that are to be turned, where they lie in the memory for them.
    """

    def __init__(self, images: EncodedImages, pixels: Pixels, numbers: Ints) -> None:
        self._pixels = pixels
        self._turns = images.orientations
        self._sizes = images.headers.words[numbers][:, [HEIGHT, WIDTH]]  # as stored
        self._addresses = pixels.flat.data.ptr + pixels.offsets[numbers]
        self.turned: dict[int, int] = {}
        turned = np.flatnonzero(self._turns[numbers] != 1)
        if len(turned):
            starts, total = offsets_of(self._sizes[turned], pixels.channels, ALIGNMENT)
            self._own = cupy.empty(total, cupy.uint8)
            self._addresses[turned] = self._own.data.ptr + starts
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
