"""Decoding of a batch into memory of the CUDA runtime.

JPEGs with an entry in a seek index are decoded by kernels of our own, others by nvImageCodec; what these do not take,
and what they fail at, the CPU runtime decodes, whose reasons are those of all failures. Such images come to their place
in one copy.
"""

from __future__ import annotations

import threading
import time
import warnings
from typing import Any

import cupy
import numpy as np

from .._decoding import exif
from .._decoding.nvimgcodec import GpuDecoder, gpu_decoder, takes
from .._plan.plan import Plan
from .cpu import CpuRuntime
from .cuda_jpeg import SegmentDecoder
from .cuda_memory import PerThread, copy_to_device, stored_memory
from .images import EncodedImages, Pixels
from .protocol import Outcome
from .threads import threads


class ImageDecoder:
    """Decodes batches on one GPU, and what it cannot on the CPU; for any number of threads."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._cpu = CpuRuntime()  # for files that nvImageCodec does not decode
        self._segments = SegmentDecoder()
        self._local = threading.local()
        self._spare: list[GpuDecoder | None] = []  # of threads that are gone
        self._warned = False

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

    def _decode_on_gpu(self, images: EncodedImages, pixels: Pixels, others: set[int], stream: Any) -> set[int]:
        """Decode what nvImageCodec takes of the images but some others; gives those that it decoded."""
        taken = takes(images.headers)
        taken[[*images.others, *images.failures, *others]] = False
        given = np.flatnonzero(taken).tolist()
        decoder = self._decoder(len(given)) if given else None
        if decoder is None:
            return set()
        outs = [pixels.view(i) for i in given]
        turns = images.orientations[given].tolist()
        stored = stored_memory(outs, turns)
        if any(turn != 1 for turn in turns):
            stream.synchronize()  # the pool gives memory that work of this stream may still use, see cuda.py
        found = decoder.decode([images.data[i] for i in given], stored, stream.ptr)
        for out, source, turn, done in zip(outs, stored, turns, found, strict=True):
            if done and source is not out:
                out[:] = exif.turned(source, turn)
        return {i for i, done in zip(given, found, strict=True) if done}

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

    def _decoder(self, images: int) -> GpuDecoder | None:
        """The calling thread's decoder, fit for a batch of so many images; None where there is none for this GPU."""
        if not hasattr(self._local, "decoder"):
            self._local.decoder = PerThread(self._spare, self._new_decoder)
        own = self._local.decoder
        if own.value is not None and own.value.first and images > 2 * own.value.first:
            own.value = self._new_decoder()
        decoder: GpuDecoder | None = own.value
        return decoder

    def _new_decoder(self) -> GpuDecoder | None:
        decoder = gpu_decoder(self._index, max(threads(), 2))
        if decoder is None and not self._warned:
            self._warned = True
            warnings.warn(
                f"nvImageCodec has no decoder of JPEGs on cuda:{self._index} (is nvJPEG installed?): they are decoded "
                "on the CPU and copied; `gpuimg info` says what is missing",
                stacklevel=9,
            )
        return None if decoder is None else GpuDecoder(decoder)
