"""JPEGs of which a seek index, or their restart markers, say where segments begin, decoded by kernels of our own.

A batch is one upload from pinned memory and a few launches on the calling thread's private stream; what is decoded at
a time is bounded, so that the coefficients are. The kernels report what is not as it should be: that the CPU decodes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cupy
import numpy as np

from .._plan.compile import source_regions
from .._plan.plan import Plan
from ..kernels import cuda as kernels
from ..kernels.jpeg import upload
from ..kernels.jpeg.layout import MISMATCH, RESTART, USED
from ..kernels.jpeg.segments import PART_BLOCKS
from .cuda_launch import launch
from .images import EncodedImages, Pixels
from .jpeg_upload import Upload, whole_regions


class _Staging:
    """Pinned memory, and the event after the last copy from or to it."""

    def __init__(self, words: int) -> None:
        self._memory = cupy.cuda.alloc_pinned_memory(4 * words)
        self.words = np.frombuffer(self._memory, np.int32, words)
        self.used = cupy.cuda.Event(disable_timing=True)


class SegmentDecoder:
    """Decodes JPEGs by segments on one GPU."""

    def __init__(self) -> None:
        self._spare: list[_Staging] = []
        self._lock = threading.Lock()

    @contextmanager
    def decoding(self, images: EncodedImages, uploaded: Upload | None, out: Any, stream: Any) -> Iterator[set[int]]:
        """Enqueue the decoding of what :func:`upload_of` found; gives the images of which it is done at the end.

        Parameters
        ----------
        images : EncodedImages
        uploaded : Upload, optional
        out : cupy.ndarray
            The flat memory that they are decoded to.
        stream : cupy.cuda.Stream
            CuPy's current one.
        """
        done: set[int] = set()
        if uploaded is None:
            yield done
            return
        n = len(images)
        staging = self._take(uploaded.words + n) if uploaded.taken else None
        try:
            if staging is not None:
                self._enqueue(uploaded, staging, n, out, stream)
            yield done
        finally:
            if staging is not None:
                staging.used.synchronize()
                status = staging.words[uploaded.words : uploaded.words + n].copy()
                self._give(staging)
        if staging is not None:
            done.update(i for i in uploaded.taken if not status[i])
            _note(images, uploaded.taken, status)

    def _enqueue(self, uploaded: Upload, staging: _Staging, n: int, out: Any, stream: Any) -> None:
        """Upload and launch, and copy back what the kernels report of ``n`` images."""
        host = staging.words[: uploaded.words]
        uploaded.write(host)
        try:
            words = cupy.empty(uploaded.words, cupy.int32)
            words.data.copy_from_host_async(host.ctypes.data, words.nbytes)
            status = cupy.zeros(n, cupy.int32)
            self._launch(uploaded, words, out, status, stream)
            status.data.copy_to_host_async(staging.words[uploaded.words :].ctypes.data, status.nbytes)
        finally:
            staging.used.record(stream)

    def _launch(self, uploaded: Upload, words: Any, out: Any, status: Any, stream: Any) -> None:
        blocks = int(uploaded.parts[:, PART_BLOCKS].max())
        coefficients = cupy.empty(blocks * upload.COEFFICIENTS, cupy.int16)
        planes = cupy.empty(blocks * upload.PLANE_WORDS, cupy.int32)
        plane_bytes = planes.view(cupy.uint8)
        for part in uploaded.parts:
            own = coefficients[: int(part[PART_BLOCKS]) * upload.COEFFICIENTS]
            own.data.memset_async(0, own.nbytes)
            memory = words, coefficients, planes, plane_bytes, out, status
            for name, grid, arguments in uploaded.launches(part, *memory):
                launch(kernels.jpeg.KERNELS[name], stream.ptr, grid, *arguments)

    def _take(self, words: int) -> _Staging:
        """Memory of at least so many words that nothing uses any more."""
        with self._lock:
            fitting = [k for k, staging in enumerate(self._spare) if staging.words.size >= words]
            best = min(fitting, key=lambda k: self._spare[k].words.size, default=None)
            # Too small ones are given back rather than kept beside the larger one.
            taken = [self._spare.pop() for _ in range(len(self._spare))] if best is None else [self._spare.pop(best)]
        return _Staging(words) if best is None else taken[0]

    def _give(self, staging: _Staging) -> None:
        with self._lock:
            self._spare.append(staging)


def upload_of(images: EncodedImages, pixels: Pixels, plan: Plan | None) -> Upload | None:
    """What is to be decoded by segments, and uploaded for that; None without a seek index.

    Parameters
    ----------
    images : EncodedImages
    pixels : Pixels
        Where they are decoded to.
    plan : Plan, optional
        What reads them: pixels that it does not read are not written. Without, all are.
    """
    if images.seek is None:
        return None
    return Upload(images, images.seek, pixels, whole_regions(images.sizes) if plan is None else source_regions(plan))


def _note(images: EncodedImages, taken: list[int], status: Any) -> None:
    """Note what became of the entries of images that were decoded."""
    assert images.seek is not None
    with_entry = [i for i in taken if not images.headers.words[i, RESTART]]
    images.seek.fates[with_entry] = np.where(status[with_entry], MISMATCH, USED)
