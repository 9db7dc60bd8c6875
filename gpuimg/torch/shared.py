"""Counts that a data set shares with the workers of a ``DataLoader``, which each have a copy of it.

A ``DataLoader`` does not tell its workers the epoch. So that no epoch repeats the random draws of another, the loops
over an iterable data set, or the requests of each sample of a mapped one, are counted in a file without a name, which
the processes share however they are started.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import context, reduction
from typing import Any, Self

_REMEMBERED = 64  # loops whose workers are remembered: as many loops may run at the same time


class SharedFile:
    """File without a name. A process that multiprocessing starts gets the same file, other pickles a new one."""

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor, path = tempfile.mkstemp()
            os.unlink(path)
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is None:
            return type(self), ()
        return _inherited, (type(self), reduction.DupFd(self._descriptor))

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the file against other processes."""
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)


def _inherited(kind: type[SharedFile], duplicate: Any) -> SharedFile:
    return kind(duplicate.detach())


class SharedLoops(SharedFile):
    """The position at which the first loop begins, and the loops since then, of all workers together."""

    @property
    def has_state(self) -> bool:
        """False before the first :meth:`reset`."""
        return self._size > 0

    @property
    def _size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def reset(self, state: Mapping[str, Any]) -> None:
        """Begin the next loop with a state of a loader."""
        with self._locked():
            self._write({"state": dict(state), "before": 0, "loops": []})

    def begin(self, seed: int, worker: int) -> tuple[dict[str, Any], int]:
        """Return the state, and the number of loops between it and the one that a worker begins.

        Workers of a loop have the same seed. It may be that of an earlier loop, which had this worker already.
        """
        with self._locked():
            content = json.loads(os.pread(self._descriptor, self._size, 0))
            loops = content["loops"]
            fitting = [k for k, loop in enumerate(loops) if loop["seed"] == seed and worker not in loop["workers"]]
            if not fitting:
                fitting = [len(loops)]
                loops.append({"seed": seed, "workers": []})
            loops[fitting[-1]]["workers"].append(worker)
            number = content["before"] + fitting[-1]
            dropped = max(len(loops) - _REMEMBERED, 0)
            self._write({**content, "before": content["before"] + dropped, "loops": loops[dropped:]})
        return content["state"], number

    def _write(self, content: dict[str, Any]) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(content).encode(), 0)


class SharedRequests(SharedFile):
    """Number of requests of each sample, of all workers together: an array of uint32, after the epoch plus 1."""

    def count(self, indices: Sequence[int]) -> list[int]:
        """Count requests of samples, and return how often each was requested before."""
        with self._locked():
            before = []
            for index in indices:
                before.append(self._at(1 + index))
                self._set(1 + index, before[-1] + 1)
            return before

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
