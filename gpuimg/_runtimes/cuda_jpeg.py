"""Decoding of baseline JPEGs by our own kernels, in segments.

These begin where seek index entries or restart markers say, or else where the first kernel finds that they do.

A batch is one upload from pinned memory and a few launches on the calling thread's private stream; it is decoded in
parts of bounded size, which bounds the memory for coefficients. The CPU decodes files for which the kernels report
errors, or that they cannot divide into segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cupy
import numpy as np

from .._checks.types import Ints
from .._data.images import EncodedImages, Pixels, whole_regions
from .._decoding.options import NVIMAGECODEC
from ..kernels import cuda as kernels
from ..kernels.jpeg import upload
from ..kernels.jpeg.layout import MISMATCH, USED
from .cuda_launch import launch
from .cuda_memory import Block, Ring
from .jpeg_upload import Upload


class SegmentDecoder:
    """Decoder of JPEGs by segments on one GPU.

    Parameters
    ----------
    pinned : function
        Returns the calling thread's pinned memory.
    """

    def __init__(self, pinned: Callable[[], Ring]) -> None:
        self._pinned = pinned

    @contextmanager
    def decoding(self, images: EncodedImages, uploaded: Upload | None, out: Any, stream: Any) -> Iterator[set[int]]:
        """Enqueue the decoding of an upload; yield a set that holds the decoded images after the block.

        Parameters
        ----------
        images : EncodedImages
        uploaded : Upload, optional
        out : cupy.ndarray
            The flat memory to decode into.
        stream : cupy.cuda.Stream
            CuPy's current stream.
        """
        done: set[int] = set()
        if uploaded is None:
            yield done
            return
        n = len(images)
        pinned = self._pinned()
        block = pinned.take(uploaded.words + n) if uploaded.taken else None
        try:
            if block is not None:
                self._enqueue(uploaded, block, n, out, stream)
            yield done
        finally:
            if block is not None:
                block.used.synchronize()
                status = block.memory.words[uploaded.words : uploaded.words + n].copy()
                pinned.give(block)
        if block is not None:
            done.update(i for i in uploaded.taken if not status[i])
            _record_entry_status(images, uploaded.by_entry, status)

    def _enqueue(self, uploaded: Upload, block: Block, n: int, out: Any, stream: Any) -> None:
        """Upload and launch, and copy back the status of all ``n`` images."""
        pinned = block.memory
        uploaded.write(pinned.words[: uploaded.words])
        try:
            words = cupy.empty(uploaded.words_on_gpu, cupy.int32)
            size = 4 * uploaded.words
            words.data.copy_from_host_async(pinned.address, size)
            status = cupy.zeros(n, cupy.int32)
            self._launch(uploaded, words, out, status, stream)
            status.data.copy_to_host_async(pinned.address + size, status.nbytes)
        finally:
            block.used.record(stream)

    def _launch(self, uploaded: Upload, words: Any, out: Any, status: Any, stream: Any) -> None:
        blocks = int(uploaded.parts["blocks"].max())
        coefficients = cupy.empty(blocks * upload.COEFFICIENTS, cupy.int16)
        planes = cupy.empty(blocks * upload.PLANE_WORDS, cupy.int32)
        plane_bytes = planes.view(cupy.uint8)
        for part in uploaded.parts:
            own = coefficients[: int(part["blocks"]) * upload.COEFFICIENTS]
            own.data.memset_async(0, own.nbytes)
            memory = words, coefficients, planes, plane_bytes, out, status
            for name, grid, arguments in uploaded.launches(part, *memory):
                launch(kernels.JPEG[name], stream.ptr, grid, *arguments)


def upload_of(images: EncodedImages, pixels: Pixels, regions: Ints | None) -> Upload | None:
    """Return the upload plan for images that our own kernels decode; None if nvImageCodec is to decode all.

    Parameters
    ----------
    images : EncodedImages
    pixels : Pixels
        Destination of the decoded images.
    regions : (N, 4) int64, optional
        Region of each image to decode; only its pixels are written. By default the whole image.
    """
    if images.options.decoder == NVIMAGECODEC:
        return None
    return Upload(images, pixels, whole_regions(images.sizes) if regions is None else regions)


def _record_entry_status(images: EncodedImages, decoded: list[int], status: Any) -> None:
    """Record for images that were decoded by their index entries whether these matched."""
    if images.seek is not None:
        images.seek.entry_status[decoded] = np.where(status[decoded], MISMATCH, USED)
