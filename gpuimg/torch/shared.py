"""Counts that a data set shares with the workers of a ``DataLoader``, which each have a copy of it.

A ``DataLoader`` does not tell its workers the epoch. So that no epoch repeats the random draws of another, the requests
of each sample are counted in a file without a name, which the processes share however they are started.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Sequence
from multiprocessing import context, reduction
from typing import Any, Self

from .._io.open_file import need_posix


class SharedRequests:
    """Number of requests of each sample, of all workers together: an array of uint32, after the epoch plus 1.

    A process that multiprocessing starts gets the same file, other pickles a new one.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        need_posix("gpuimg.torch.Dataset counts the requests of a DataLoader's workers")
        if descriptor is None:
            descriptor, path = tempfile.mkstemp()
            os.unlink(path)
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is None:
            return SharedRequests, ()
        return _inherited, (reduction.DupFd(self._descriptor),)

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def count(self, indices: Sequence[int]) -> list[int]:
        """Count requests of samples, and return how often each was requested before."""
        import fcntl

        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)  # against other processes
        try:
            before = []
            for index in indices:
                before.append(self._at(1 + index))
                self._set(1 + index, before[-1] + 1)
            return before
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def epoch(self) -> int | None:
        """Return the epoch that was set, if any."""
        epoch = self._at(0)
        return epoch - 1 if epoch else None

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of all samples from here on."""
        self._set(0, epoch + 1)

    def _at(self, place: int) -> int:
        return int.from_bytes(os.pread(self._descriptor, 4, 4 * place), "little")  # nothing past the end of the file

    def _set(self, place: int, value: int) -> None:
        os.pwrite(self._descriptor, value.to_bytes(4, "little"), 4 * place)


def _inherited(duplicate: Any) -> SharedRequests:
    return SharedRequests(duplicate.detach())
