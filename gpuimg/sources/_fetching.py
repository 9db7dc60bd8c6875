"""Concurrent requests for parts of remote files: near parts share a request, as latency outweighs their bytes."""

import io
import os
from collections.abc import Callable, Sequence
from functools import partial
from operator import call
from typing import Any, NamedTuple

import numpy as np

from .._io.file_bytes import too_large
from .._threads.helpers import each_side_by_side
from ._remote import UNKNOWN, RemoteFile, Storage

_AT_ONCE = 4  # concurrent requests per reader thread
GAP = 64 << 10  # bytes; parts closer than this are usually read with one request, gap included
_LONGEST_RUN = 8 << 20  # bytes read with one request


class RemoteReader(io.RawIOBase):
    """A remote file as a binary stream."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position and return it."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.status.size}[whence]
        self._at = max(start + offset, 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer and return the number of bytes read, fewer only at the end of the file."""
        view = memoryview(buffer).cast("B")
        stop = min(self._at + len(view), self._file.status.size)
        if stop <= self._at:
            return 0
        data = self._file.read(self._at, stop)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class RemoteSpan(NamedTuple):
    """A part of a remote file of known size, read block by block, with other parts at most ``gap`` bytes from it."""

    opened: Callable[[int], RemoteFile]  # by number
    file: int
    offset: int
    size: int
    gap: int

    def read(self) -> bytes:
        """Return exactly ``size`` bytes."""
        return self.opened(self.file).read(self.offset, self.offset + self.size)

    def forget(self) -> None:
        """Remove the part from the disk cache."""
        self.opened(self.file).forget(self.offset, self.offset + self.size)


class RemoteWhole(NamedTuple):
    """A whole remote file; ``mark`` is its version, "" if unknown."""

    storage: Storage
    url: str
    mark: str
    size: int = UNKNOWN

    def forget(self) -> None:
        """Remove the file from the disk cache."""
        self.storage.forget(self.url, self.mark)


def fetched(places: Sequence[Any], max_bytes: int) -> list[Any]:
    """Return the bytes of remote places, with concurrent requests: exceptions for failures, None for local places."""
    found: list[Any] = [None] * len(places)
    jobs: list[Callable[[], None]] = []
    for k, place in enumerate(places):
        if isinstance(place, RemoteWhole):
            jobs.append(partial(_read_whole, place, max_bytes, found, k))
        elif isinstance(place, RemoteSpan) and place.size > max_bytes:
            found[k] = too_large(place.size, max_bytes)
    jobs += [partial(_read_run, run, found) for run in _runs(places, max_bytes)]
    each_side_by_side(call, jobs, min(len(jobs), _AT_ONCE))
    return found


def _read_whole(place: RemoteWhole, max_bytes: int, found: list[Any], k: int) -> None:
    try:
        found[k] = place.storage.whole(place.url, place.mark, place.size, max_bytes)
    except Exception as error:  # whatever a file system raises
        found[k] = error


def _read_run(run: list[tuple[int, RemoteSpan]], found: list[Any]) -> None:
    first, stop = run[0][1], max(span.offset + span.size for _, span in run)
    try:
        data = np.frombuffer(first._replace(size=stop - first.offset).read(), np.uint8)
    except Exception as error:
        for k, _ in run:
            found[k] = error
        return
    for k, span in run:
        found[k] = data[span.offset - first.offset :][: span.size]


def _runs(places: Sequence[Any], max_bytes: int) -> list[list[tuple[int, RemoteSpan]]]:
    """Group parts that are near enough for one request, with their positions in the list of places.

    Parts that are too large are left out.
    """
    spans = [(k, one) for k, one in enumerate(places) if isinstance(one, RemoteSpan) and one.size <= max_bytes]
    runs: list[list[tuple[int, RemoteSpan]]] = []
    stop = 0  # byte after the last run
    for k, span in sorted(spans, key=lambda one: (one[1].file, one[1].offset)):
        end = span.offset + span.size
        first = runs[-1][0][1] if runs else span
        near = span.offset <= stop + span.gap and end <= first.offset + _LONGEST_RUN
        if runs and span.file == first.file and near:
            runs[-1].append((k, span))
            stop = max(stop, end)
        else:
            runs.append([(k, span)])
            stop = end
    return runs
