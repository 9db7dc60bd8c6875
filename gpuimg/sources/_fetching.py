"""Several parts of files behind URLs at a time, where a request takes longer than the bytes that it brings."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._io.file_bytes import too_large
from .._threads.team import side_by_side
from ._remote import UNKNOWN, RemoteFile, Storage

_AT_ONCE = 4  # requests of one reader
_GAP = 64 << 10  # bytes between two parts that are read rather than asked for apart
_LONGEST_RUN = 8 << 20


class RemoteFiles(Protocol):
    """Files by their numbers."""

    def remote(self, file: int) -> RemoteFile:
        """One of them."""


class RemoteReader(io.RawIOBase):
    """A file behind a URL as an open one."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a position."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.status.size}[whence]
        self._at = max(start + offset, 0)
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, less only at the end."""
        view = memoryview(buffer).cast("B")
        stop = min(self._at + len(view), self._file.status.size)
        if stop <= self._at:
            return 0
        data = self._file.read(self._at, stop)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class RemoteSpan(NamedTuple):
    """A part of a file behind a URL, or all of it."""

    files: RemoteFiles
    file: int
    offset: int
    size: int

    def read(self) -> bytes:
        """Exactly its bytes."""
        return self.files.remote(self.file).read(self.offset, self.offset + self.size)

    def forget(self) -> None:
        """Remove its bytes from the cache."""
        self.files.remote(self.file).forget(self.offset, self.offset + self.size)


class RemoteWhole(NamedTuple):
    """All of a file behind a URL."""

    storage: Storage
    url: str
    mark: str
    size: int = UNKNOWN

    def forget(self) -> None:
        """Remove it from the cache."""
        self.storage.forget(self.url, self.mark)


class _Run(NamedTuple):
    """Parts of a file that lie so close that one request is faster than several."""

    spans: list[tuple[int, RemoteSpan]]  # with their numbers
    stop: int

    def read(self) -> bytes:
        first = self.spans[0][1]
        return first._replace(size=self.stop - first.offset).read()


def fetched(places: Sequence[Any], max_bytes: int) -> list[Any]:
    """The bytes of places behind URLs, several requests at a time; exceptions where that fails, None for others."""
    found: list[Any] = [None] * len(places)
    jobs: list[Callable[[], None]] = []
    for k, place in enumerate(places):
        if isinstance(place, RemoteWhole):
            jobs.append(partial(_read_whole, place, max_bytes, found, k))
        elif isinstance(place, RemoteSpan) and place.size > max_bytes:
            found[k] = too_large(place.size, max_bytes)
    jobs += [partial(_read_run, run, found) for run in _runs(places, max_bytes)]
    left = iter(jobs)  # drawn from by several threads: one step of a list's iterator is one step of the interpreter

    def work() -> None:
        for job in left:
            job()

    side_by_side(work, min(len(jobs), _AT_ONCE) - 1)
    return found


def _read_whole(place: RemoteWhole, max_bytes: int, found: list[Any], k: int) -> None:
    try:
        found[k] = place.storage.whole(place.url, place.mark, place.size, max_bytes)
    except Exception as error:  # whatever a file system raises
        found[k] = error


def _read_run(run: _Run, found: list[Any]) -> None:
    try:
        data = np.frombuffer(run.read(), np.uint8)
    except Exception as error:
        for k, _ in run.spans:
            found[k] = error
        return
    start = run.spans[0][1].offset
    for k, span in run.spans:
        found[k] = data[span.offset - start : span.offset - start + span.size]


def _runs(places: Sequence[Any], max_bytes: int) -> list[_Run]:
    spans = [(k, one) for k, one in enumerate(places) if isinstance(one, RemoteSpan) and one.size <= max_bytes]
    runs: list[_Run] = []
    for k, span in sorted(spans, key=lambda one: (one[1].file, one[1].offset)):
        end = span.offset + span.size
        if runs:
            last, stop = runs[-1]
            first = last[0][1]
            if span.file == first.file and span.offset <= stop + _GAP and end <= first.offset + _LONGEST_RUN:
                last.append((k, span))
                runs[-1] = _Run(last, max(stop, end))
                continue
        runs.append(_Run([(k, span)], end))
    return runs
