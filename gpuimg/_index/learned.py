"""A seek index in memory, filled during decoding."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from .._checks.types import Ints
from .._decoding.jpeg import Headers
from ..kernels.jpeg.layout import ACCESS
from .seek import Seek

_ALIGNMENT = 8  # bytes; alignment of an entry, which begins with a number of 8 bytes


class LearnedIndex:
    """Positions of the MCU rows of each sample's JPEG, as far as it was decoded: 10 bytes per row and 32 per sample.

    The decoder writes the entries. Several threads may use the index at once.

    Attributes
    ----------
    size : int
        Total bytes of the entries.
    path : str
        Name of the index in messages.
    """

    path = "in memory"

    def __init__(self, samples: int) -> None:
        self._entries = np.zeros((samples, 2), np.int64)  # address and bytes
        self._blocks: list[np.ndarray[Any, Any]] = []  # memory of the entries
        self._process, self._lock = os.getpid(), threading.Lock()
        self.size = 0

    def seek(self, indices: Ints, headers: Headers) -> Seek:
        """Return the entries of samples, after allocating those that do not exist yet."""
        if self._process != os.getpid():  # after a fork, the lock may stay locked by a thread of the parent
            self._process, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            if not np.all(self._entries[indices, 0]):
                self._add(indices, headers)
            access = np.zeros(len(indices), ACCESS)
            access["entry"], access["entry_bytes"] = self._entries[indices].T
        access["learns"] = 1
        return Seek(access, self, self.path, warns=False)

    def _add(self, indices: Ints, headers: Headers) -> None:
        """Allocate entries for files that can have one."""
        from ..kernels.jpeg.build import room_for_entries  # imports Numba, which takes as long as all of gpuimg

        room = np.empty(len(indices), np.int64)
        room_for_entries(headers.records, 0, room)
        room[self._entries[indices, 0] != 0] = 0
        here = np.flatnonzero(room)
        if not len(here):  # the other files of the batch can never have one: store nothing
            return
        padded = -(-room[here] // _ALIGNMENT) * _ALIGNMENT
        block = np.zeros(int(padded.sum()), np.uint8)
        self._entries[indices[here], 0] = block.ctypes.data + np.cumsum(padded) - padded
        self._entries[indices[here], 1] = room[here]
        self._blocks.append(block)
        self.size += block.size
