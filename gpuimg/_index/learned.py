"""A seek index in memory, of the rows that decoding passes."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from .._checks.types import Ints
from .._decoding.jpeg import Headers
from ..kernels.jpeg.layout import ACCESS
from .seek import Seek

_ALIGNMENT = 8  # of an entry, whose first number has as many bytes


class LearnedIndex:
    """Where the MCU rows of each sample's JPEG begin, as far as it was decoded: 10 bytes a row and 32 a sample.

    Decoding fills the entries. It may be used by several threads at a time.

    Attributes
    ----------
    size : int
        Bytes of the entries.
    path : str
        What it is called in messages.
    """

    path = "in memory"

    def __init__(self, samples: int) -> None:
        self._entries = np.zeros((samples, 2), np.int64)  # address and bytes
        self._blocks: list[np.ndarray[Any, Any]] = []  # what they lie in
        self._process, self._lock = os.getpid(), threading.Lock()
        self.size = 0

    def seek(self, indices: Ints, headers: Headers) -> Seek:
        """Entries of samples, made where there are none."""
        if self._process != os.getpid():  # in a forked child a thread of the parent's may have held the lock
            self._process, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            if not np.all(self._entries[indices, 0]):
                self._add(indices, headers)
            access = np.zeros(len(indices), ACCESS)
            access["entry"], access["entry_bytes"] = self._entries[indices].T
        access["learns"] = 1
        return Seek(access, self, self.path, warns=False)

    def _add(self, indices: Ints, headers: Headers) -> None:
        """Make room for the entries of files that can have one."""
        from ..kernels.jpeg.build import room_for_entries  # imports Numba, which takes as long as all of gpuimg

        room = np.empty(len(indices), np.int64)
        room_for_entries(headers.records, 0, room)
        room[self._entries[indices, 0] != 0] = 0
        here = np.flatnonzero(room)
        if not len(here):  # as of a batch whose other files can never have one: nothing may be kept of it
            return
        padded = -(-room[here] // _ALIGNMENT) * _ALIGNMENT
        block = np.zeros(int(padded.sum()), np.uint8)
        self._entries[indices[here], 0] = block.ctypes.data + np.cumsum(padded) - padded
        self._entries[indices[here], 1] = room[here]
        self._blocks.append(block)
        self.size += block.size
