"""Writing a seek index: under a name of its own, which goes on where it was interrupted, until it is whole."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._checks.types import Ints
from .._io.file_bytes import printable
from .._io.open_file import read_at
from ..kernels.jpeg.layout import ENTRY_HEAD
from . import format as layout
from .entries import Built

_ENDING = ".partial"
_BLOCK = 4 << 20  # bytes of entries that are read at a time


class PartialIndex:
    """An index that is being written to ``path + ".partial"``.

    Entries are appended, then their words entered in the table, then the header, which says how many samples are done,
    and the checksums of their words and of their entries. :meth:`before` gives what an earlier process had done.

    Raises
    ------
    BlockingIOError
        Where another process writes the same index.
    ValueError
        Where there is a file under the index's name that is none.
    """

    def __init__(self, path: str, every: int, samples: int, names: int) -> None:
        self.path = path
        self._partial = path + _ENDING
        self._header = layout.Header(every, False, samples, 0, 0, names)
        self._end = self._header.table_end
        self._words_sum = self._entries_sum = 0
        _check_replaceable(path)
        self._descriptor = opened_alone(self._partial)

    def close(self) -> None:
        """Leave what is there to the next process."""
        os.close(self._descriptor)

    def before(self) -> Iterator[Built]:
        """What an earlier process had done, if all of it is whole; to be gone through before anything is added."""
        words = self._words_before()
        if words is None:
            os.ftruncate(self._descriptor, 0)
            os.ftruncate(self._descriptor, self._end)
            self._write_header(0)
            return
        places = (words & np.uint64(layout.PLACE)).astype(np.int64)
        for part in _parts(places):
            content = read_at(self._descriptor, int(places[part.start]), int(places[part.stop] - places[part.start]))
            yield _read_back(layout.kind_of(words[part]), places[part.start : part.stop + 1], content)
        self._end = int(places[-1])
        os.ftruncate(self._descriptor, self._end)

    def add(self, built: Built) -> None:
        """Add the samples that come next."""
        places = self._end + np.concatenate([[0], np.cumsum(built.sizes)])
        if places[-1] > layout.PLACE:
            raise ValueError(f"{printable(self.path)} would be larger than {layout.PLACE:,} bytes; build several")
        words = layout.word(places.astype("<u8"), np.append(built.kinds, np.uint64(0))).astype("<u8").tobytes()
        done = self._header.size
        write_at(self._descriptor, built.content, self._end, self._partial)
        write_at(self._descriptor, words, layout.word_at(done), self._partial)
        self._end += len(built.content)
        self._words_sum = zlib.crc32(words[: -layout.WORD_BYTES], self._words_sum)
        self._entries_sum = zlib.crc32(built.content, self._entries_sum)
        self._write_header(done + built.kinds.size)

    def finish(self, largest: int) -> None:
        """Give it its name, once all samples are there."""
        header = self._header._replace(finished=True, size=self._end, largest=largest)
        write_at(self._descriptor, header.packed(), 0, self._partial)
        os.fsync(self._descriptor)
        os.replace(self._partial, self.path)

    def _write_header(self, done: int) -> None:
        """Say that samples are done: an unfinished index has these numbers in the place of its sizes."""
        self._header = self._header._replace(size=done, largest=self._words_sum << 32 | self._entries_sum)
        write_at(self._descriptor, self._header.packed(), 0, self._partial)

    def _words_before(self) -> Any:
        """The words of what an earlier process had done, and the one behind them; None where that is not whole."""
        try:
            header = layout.parse(read_at(self._descriptor, 0, layout.HEADER_BYTES))
        except ValueError:
            return None
        done = header.size
        if header != self._header._replace(size=done, largest=header.largest) or not 0 < done <= header.samples:
            return None
        data = read_at(self._descriptor, layout.word_at(0), layout.WORD_BYTES * (done + 1))
        words = np.frombuffer(data[: len(data) // layout.WORD_BYTES * layout.WORD_BYTES], "<u8")
        places = (words & np.uint64(layout.PLACE)).astype(np.int64)
        if words.size != done + 1 or not self._end <= places[-1] <= os.fstat(self._descriptor).st_size:
            return None
        if places[0] != self._end or (places[1:] < places[:-1]).any():
            return None
        words_sum, entries_sum = zlib.crc32(data[: -layout.WORD_BYTES]), 0
        for at in range(self._end, int(places[-1]), _BLOCK):
            entries_sum = zlib.crc32(read_at(self._descriptor, at, min(_BLOCK, int(places[-1]) - at)), entries_sum)
        if words_sum << 32 | entries_sum != header.largest:
            return None
        self._header, self._words_sum, self._entries_sum = header, words_sum, entries_sum
        return words


def _parts(places: Ints) -> Iterator[slice]:
    """Samples whose entries are about a block together; ``places`` are where they begin, and the end."""
    first, last = 0, places.size - 1
    while first < last:
        stop = int(np.searchsorted(places, places[first] + _BLOCK, "right")) - 1
        stop = min(max(stop, first + 1), last)
        yield slice(first, stop)
        first = stop


def _read_back(kinds: Any, places: Ints, content: bytes) -> Built:
    """What was built, as it is in the file."""
    begins, sizes = places[:-1] - places[0], np.diff(places)
    kind = kinds & np.uint64(15)
    refused = np.flatnonzero(kind == layout.REFUSED).tolist()
    texts = {k: content[begins[k] : begins[k] + sizes[k]] for k in refused}
    files = np.zeros(sizes.size, np.int64)
    for k in np.flatnonzero(kind == layout.INDEXED).tolist():
        files[k] = np.frombuffer(content, ENTRY_HEAD, 1, begins[k])["file_bytes"][0]
    return Built(kinds, sizes, content, files, texts)


def _check_replaceable(path: str) -> None:
    """Refuse to write an index over something else."""
    try:
        with open(path, "rb", 0) as file:
            start = file.read(len(layout.MAGIC))
    except FileNotFoundError:
        return
    if start != layout.MAGIC:
        raise ValueError(f"{printable(path)} is there already, and is not a seek index; name another path")


def opened_alone(path: str) -> int:
    """A file for reading and writing, made where there is none, of which this process has the only lock.

    Raises
    ------
    BlockingIOError
        Where another process has it.
    OSError
        For a link, which might lead anywhere.
    ValueError
        For what is no regular file.
    """
    import fcntl

    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ValueError(f"{printable(path)} is not a regular file")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BlockingIOError as error:
            os.close(descriptor)
            raise BlockingIOError(error.errno, "another process is writing it", path) from error
        except FileNotFoundError:
            pass  # the one that had the lock is done, and has renamed it
        os.close(descriptor)


@contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Errors of calls on a descriptor name the file, too."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, path) from error


def write_at(descriptor: int, data: bytes, at: int, path: str) -> None:
    """All bytes at a place: a write may stop early, at 2 GiB or at a full disk, which then says so."""
    left = memoryview(data)
    with naming_file(path):
        while left:
            count = os.pwrite(descriptor, left, at)
            left, at = left[count:], at + count
