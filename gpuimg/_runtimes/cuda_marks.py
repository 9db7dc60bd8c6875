"""Detection of images that nvImageCodec reports as decoded but did not write: marks at their ends are still present.

For a batch call it reports all images as decoded if the call succeeds; hardware has been seen to skip some
(LichtFeld-Studio PR 1924). In reused memory, a skipped image would show an earlier one.
"""

import os
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from .._checks.types import Ints, Mask
from ..kernels.cuda import MARK_BYTES, MARKS
from .cuda_launch import launch
from .cuda_memory import event_after

__all__ = ["MARK_BYTES", "Marks"]


class Marks:
    """Marks for one batch at a time, used by one thread on its stream, CuPy's current one at every call."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._host = _pinned(0)
        self._launched: list[tuple[Any, Any]] = []
        self._mark = 0, 0
        self._images = 0

    def write(self, memory: Sequence[tuple[Any, Ints]]) -> Any:
        """Enqueue the marks in memory: flat bytes, and (N,) offsets in them, negative for images without a mark there.

        The host must wait for the event that this returns before a decoder writes: it may not wait for the stream.
        """
        places = np.concatenate([each for _, each in memory])
        self._images = images = len(memory[0][1])
        if self._host.size < places.size + images:
            self._host = _pinned(places.size + images)
        self._host[: places.size] = places
        offsets = cupy.empty(places.size, cupy.int64)
        offsets.data.copy_from_host_async(self._host.ctypes.data, offsets.nbytes)
        self._launched = [(flat, offsets[k * images : (k + 1) * images]) for k, (flat, _) in enumerate(memory)]
        mark = os.urandom(MARK_BYTES)
        self._mark = int.from_bytes(mark[:8], "little"), int.from_bytes(mark[8:], "little")
        for arguments in self._launched:
            launch(MARKS["mark"], self._stream.ptr, self._grid, *arguments, *self._mark)
        return event_after(self._stream.ptr)

    def left(self) -> Mask:
        """Return a mask of images whose marks are still present; wait for all work on the stream."""
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


def _pinned(elements: int) -> Any:
    """Return pinned memory of int64, with 25 % slack, because the sizes of batches vary."""
    elements += elements // 4
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(8 * max(elements, 1)), np.int64, elements)
