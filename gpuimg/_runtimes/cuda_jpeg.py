"""JPEGs of which a seek index, or their restart markers, say where segments begin, decoded by kernels of our own.

A batch is one upload from pinned memory and a few launches on the calling thread's private stream; what is decoded at
a time is bounded, so that the coefficients are. The kernels report what is not as it should be: that the CPU decodes.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

import cupy
import numpy as np
from numba import cuda as numba_cuda

from .._checks.types import Ints
from ..kernels import cuda as kernels
from ..kernels.jpeg import upload
from ..kernels.jpeg.segments import PART_BLOCKS
from .cuda_memory import recorded
from .images import EncodedImages, Pixels
from .jpeg_upload import Upload


class _Staging:
    """Pinned memory, and the event after the last copy from or to it."""

    def __init__(self, words: int) -> None:
        self._memory = cupy.cuda.alloc_pinned_memory(4 * words)
        self.words = np.frombuffer(self._memory, np.int32, words)
        self.used: Any = None

    def wait(self) -> None:
        """Let the host wait until the memory may be used again."""
        if self.used is not None:
            self.used.synchronize()


class SegmentDecoder:
    """Decodes JPEGs by segments on one GPU.

    Parameters
    ----------
    index : int
        The GPU's number.
    """

    def __init__(self, index: int) -> None:
        self._index = index
        self._spare: list[_Staging] = []
        self._lock = threading.Lock()

    def begin(self, images: EncodedImages, pixels: Pixels, regions: Ints | None, stream: Any) -> Decoding:
        """Enqueue the decoding of what can be decoded so, on a stream that is CuPy's current one.

        Parameters
        ----------
        images : EncodedImages
        pixels : Pixels
            Where they are decoded to.
        regions : (N, 4) int64, optional
            What is wanted of them, x0, y0, x1, y1 as shown; everything without. Nothing else is written.
        stream : cupy.cuda.Stream

        Returns
        -------
        Decoding
            To be ended, whatever happens: until then the GPU may read its memory.
        """
        decoding = Decoding(self)
        if images.access is None or not images.access.any():
            return decoding
        uploaded = Upload(images, images.access, pixels, _whole(images.sizes) if regions is None else regions)
        decoding.refused = uploaded.refused
        if uploaded.taken:
            decoding.staging = self._take(uploaded.words + len(images))
            try:
                self._enqueue(uploaded, decoding, len(images), pixels.flat, stream)
            except BaseException:
                decoding.end()
                raise
        return decoding

    def _enqueue(self, uploaded: Upload, decoding: Decoding, n: int, out: Any, stream: Any) -> None:
        staging = decoding.staging
        assert staging is not None
        host = staging.words[: uploaded.words]
        uploaded.write(host)
        decoding.refused = uploaded.refused
        decoding.taken = uploaded.taken
        words = cupy.empty(uploaded.words, cupy.int32)
        decoding.enqueued = True
        words.data.copy_from_host_async(host.ctypes.data, words.nbytes)
        status = cupy.zeros(n, cupy.int32)
        blocks = int(uploaded.parts[:, PART_BLOCKS].max())
        coefficients = cupy.empty(blocks * upload.COEFFICIENTS, cupy.int16)
        planes = cupy.empty(blocks * upload.PLANE_WORDS, cupy.int32)
        plane_bytes = planes.view(cupy.uint8)
        for part in uploaded.parts:
            coefficients.data.memset_async(0, int(part[PART_BLOCKS]) * upload.COEFFICIENTS * coefficients.itemsize)
            for name, grid, block, arguments in uploaded.launches(
                part, words, coefficients, planes, plane_bytes, out, status
            ):
                _launch(self._index, name, grid, block, stream, arguments)
        decoding.status = staging.words[uploaded.words : uploaded.words + n]
        status.data.copy_to_host_async(decoding.status.ctypes.data, status.nbytes)
        staging.used = recorded(stream.ptr)

    def _take(self, words: int) -> _Staging:
        """Memory of at least so many words that nothing uses any more."""
        with self._lock:
            fitting = [k for k, staging in enumerate(self._spare) if staging.words.size >= words]
            best = min(fitting, key=lambda k: self._spare[k].words.size, default=None)
            # Too small ones are given back rather than kept beside the larger one.
            taken = [self._spare.pop() for _ in range(len(self._spare))] if best is None else [self._spare.pop(best)]
        for staging in taken:
            staging.wait()
        return _Staging(words) if best is None else taken[0]

    def give(self, staging: _Staging) -> None:
        """Take memory back."""
        with self._lock:
            self._spare.append(staging)


class Decoding:
    """What was enqueued for a batch.

    Attributes
    ----------
    taken : list of int
        Images that are decoded.
    refused : list of int
        Those whose entries do not fit them.
    """

    def __init__(self, decoder: SegmentDecoder) -> None:
        self._decoder = decoder
        self.taken: list[int] = []
        self.refused: list[int] = []
        self.staging: _Staging | None = None
        self.status: Any = None
        self.enqueued = False

    def end(self) -> list[int]:
        """Wait until it is done; gives the images that are not what they should be, which the CPU is to decode."""
        staging, self.staging = self.staging, None
        if staging is None:
            return self.refused
        if self.status is None and self.enqueued:  # an error came before the end was recorded
            staging.used = recorded(int(cupy.cuda.get_current_stream().ptr))
        staging.wait()
        marked: list[int] = [] if self.status is None else np.flatnonzero(self.status).tolist()
        self._decoder.give(staging)
        return sorted({*self.refused, *marked})


def _whole(sizes: Ints) -> Ints:
    """Regions that are all of the images."""
    regions = np.zeros((len(sizes), 4), np.int64)
    regions[:, 2:] = sizes[:, ::-1]
    return regions


def _launch(index: int, name: str, grid: Any, block: Any, stream: Any, arguments: tuple[Any, ...]) -> None:
    """Launch a kernel on a GPU's stream."""
    values = [numba_cuda.as_cuda_array(a, sync=False) if isinstance(a, cupy.ndarray) else a for a in arguments]
    _kernel(index, name)[grid, block, numba_cuda.external_stream(stream.ptr)](*values)


@lru_cache(maxsize=32)
def _kernel(index: int, name: str) -> Any:
    function, signature, threads = kernels.jpeg.KERNELS[name]
    return kernels.jit(function, signature, threads)
