"""Decoding of baseline and recoded JPEGs by our own kernels, in segments.

Those of JPEGs begin at restart markers, or else where the first kernel finds that they do.

A batch is one upload from pinned memory and a few launches on the calling thread's private stream; it is decoded in
parts of bounded size, which bounds the memory for coefficients. Kernels report files with errors, and those that they
cannot divide into segments. Good files are never reported, so the host reads the statuses late, see :mod:`.attempt`.
"""

import threading
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from .._checks.types import Ints, Mask
from .._data.images import EncodedImages, Pixels
from ..kernels import cuda as kernels
from ..kernels.jpeg import upload
from ..kernels.jpeg.books import books
from .attempt import defer
from .cuda_launch import launch
from .cuda_memory import Block, Pinned, Ring, copy_to_device, with_room
from .jpeg_upload import Upload
from .protocol import Timings


class Statuses:
    """Statuses that kernels report for the images of a batch: 0 for those that they decoded.

    The host may read them at any time later; until then the kernels may still run. ``block`` is pinned memory for a
    word of each image; ``spare`` gets it back while the GPU may still write a part of it.
    """

    def __init__(self, spare: list[Block], block: Block, images: EncodedImages) -> None:
        self._spare = spare
        self._block = block
        self._images = images

    def copy_from(self, status: Any, stream: Any) -> None:
        """Enqueue the copy of the statuses, (images,) int32 on the GPU, on CuPy's current stream."""
        try:
            status.data.copy_to_host_async(self._block.memory.address, status.nbytes)
        finally:
            self._block.used.record(stream)

    def repair(self) -> bool:
        """Leave images that were not decoded to the CPU, see :class:`.attempt.Pending`."""
        if not self._block.used.done:
            self._block.used.synchronize()
        images = self._images
        known = len(images.given_up)  # which only a kernel that is wrong itself reports again
        images.given_up.update(images.numbers[np.flatnonzero(self._block.memory.words[: len(images)])].tolist())
        return len(images.given_up) > known

    def __del__(self) -> None:
        self._spare.append(self._block)


class SegmentDecoder:
    """Decoder of JPEGs by segments on one GPU; ``pinned`` returns the calling thread's pinned memory."""

    def __init__(self, pinned: Callable[[], Ring]) -> None:
        self._pinned = pinned
        self._blocks: list[Block] = []  # for statuses: all, so that no collector destroys their events,
        self._spare: list[Block] = []  # and those that no batch uses
        self._books: Any = None  # tables of recoded files
        self._lock = threading.Lock()

    def begin(
        self, images: EncodedImages, others: Mask, pixels: Pixels, regions: Ints, stream: Any
    ) -> Callable[[], tuple[list[int], Timings]]:
        """Enqueue the decoding of all images but ``others``, on CuPy's current stream.

        The thread's attempt reads later what became of them. The result returns those that no kernel is launched for.
        """
        uploaded = Upload(images, pixels, regions, others)
        if uploaded.taken:
            defer(self.launch(images, uploaded, pixels.flat, stream))  # writing may refuse some
        left = ~others
        left[uploaded.taken] = False
        return lambda: (np.flatnonzero(left).tolist(), Timings())

    def launch(self, images: EncodedImages, uploaded: Upload, out: Any, stream: Any) -> Statuses:
        """Enqueue the decoding of an upload into the flat memory ``out``, on CuPy's current stream."""
        n = len(images)
        statuses = Statuses(self._spare, self._status_block(n), images)
        pinned = self._pinned()
        block = pinned.take(uploaded.words)
        try:
            uploaded.write(block.memory.words[: uploaded.words])
            try:
                words = cupy.empty(uploaded.words_on_gpu, cupy.int32)
                words.data.copy_from_host_async(block.memory.address, 4 * uploaded.words)
            finally:
                block.used.record(stream)
        finally:
            pinned.give(block)
        status = cupy.zeros(n, cupy.int32)
        self._launch(uploaded, words, out, status, stream)
        statuses.copy_from(status, stream)
        return statuses

    def _status_block(self, images: int) -> Block:
        with self._lock:
            for k, block in enumerate(self._spare):  # destructors append to it meanwhile
                if block.size >= images and block.used.done:
                    return self._spare.pop(k)
        room = with_room(images)
        block = Block(Pinned(room), room)
        self._blocks.append(block)
        return block

    def _tables(self, stream: Any) -> Any:
        """Return the tables of recoded files, on the GPU."""
        with self._lock:
            if self._books is None:
                tables = cupy.empty(books().size, cupy.uint16)
                copy_to_device(books().reshape(-1), tables)
                stream.synchronize()  # other streams read them, too
                self._books = tables
        return self._books

    def _launch(self, uploaded: Upload, words: Any, out: Any, status: Any, stream: Any) -> None:
        blocks = int(uploaded.parts["blocks"].max())
        coefficients = cupy.empty(blocks * upload.COEFFICIENTS, cupy.int16)
        planes = cupy.empty(blocks * upload.SAMPLES // 4, cupy.int32)
        plane_bytes = planes.view(cupy.uint8)
        for part in uploaded.parts:
            own = coefficients[: int(part["blocks"]) * upload.COEFFICIENTS]
            own.data.memset_async(0, own.nbytes)
            tables = self._tables(stream) if part["recoded"] else None
            memory = words, coefficients, planes, plane_bytes, out, status, tables
            for name, grid, arguments in uploaded.launches(part, *memory):
                launch(kernels.JPEG[name], stream.ptr, grid, *arguments)


def given_up(images: EncodedImages) -> Mask:
    """Return a mask (N,) of images that kernels reported."""
    return np.isin(images.numbers, list(images.given_up))
