"""Whether nvImageCodec wrote what it reports as decoded: marks at the end of images, still there where it did not.

Of a call for a batch it reports all images as decoded when the call succeeds; hardware has been seen to skip some
(LichtFeld-Studio PR 1924). In memory that is used again such an image would be another one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from .._checks.types import Ints, Mask
from ..kernels.cuda import MARK_BYTES, MARKS
from .cuda_launch import launch
from .cuda_memory import recorded

__all__ = ["MARK_BYTES", "Marks"]


class Marks:
    """Marks of one batch at a time, for one thread, on its stream.

    Parameters
    ----------
    stream : cupy.cuda.Stream
        CuPy's current one at every call.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._host = _pinned(0)
        self._launched: list[tuple[Any, Any]] = []
        self._mark = 0, 0
        self._images = 0

    def write(self, memory: Sequence[tuple[Any, Ints]]) -> Any:
        """Enqueue the marks.

        Parameters
        ----------
        memory : sequence of (array, (N,) int64)
            Flat bytes, and where in them the mark of each image of the batch begins; below 0 it has none there.

        Returns
        -------
        cupy.cuda.Event
            The host must wait for it before it lets a decoder write, which may not wait for the stream.
        """
        places = np.concatenate([each for _, each in memory])
        self._images = images = len(memory[0][1])
        if self._host.size < places.size + images:
            self._host = _pinned(places.size + images)
        self._host[: places.size] = places
        words = cupy.empty(places.size, cupy.int64)
        words.data.copy_from_host_async(self._host.ctypes.data, words.nbytes)
        self._launched = [(flat, words[k * images : (k + 1) * images]) for k, (flat, _) in enumerate(memory)]
        mark = os.urandom(MARK_BYTES)
        self._mark = int.from_bytes(mark[:8], "little"), int.from_bytes(mark[8:], "little")
        for arguments in self._launched:
            launch(MARKS["mark"], self._stream.ptr, self._grid, *arguments, *self._mark)
        return recorded(self._stream.ptr)

    def left(self) -> Mask:
        """Which images still have their mark; waits until all that is on the stream is done."""
        status = cupy.zeros(self._images, cupy.int32)
        for arguments in self._launched:
            launch(MARKS["compare"], self._stream.ptr, self._grid, *arguments, *self._mark, status)
        status.data.copy_to_host_async(self._host.ctypes.data, status.nbytes)
        self._launched = []
        self._stream.synchronize()
        found: Mask = self._host.view(np.int32)[: self._images] != 0
        return found

    @property
    def _grid(self) -> tuple[int, int]:
        return -(-self._images // MARKS["mark"].block), 1


def _pinned(words: int) -> Any:
    """So many words of 64 bits of pinned memory, and a quarter more: batches differ."""
    words += words // 4
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(8 * max(words, 1)), np.int64, words)
