"""Writing a seek index to a partial file, which an interrupted build resumes, and renaming it when complete."""

import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from .._checks.types import Ints
from .._io.file_bytes import printable
from .._io.open_file import naming_file, need_posix, read_at
from ..kernels.jpeg.layout import ENTRY_HEAD
from . import format as layout
from .entries import Built

_ENDING = ".partial"
_BLOCK = 4 << 20  # bytes of entries read per call


class PartialIndex:
    """An index that is being written to ``path + ".partial"``.

    First entries are appended, then their records are written to the table, then the header with the number of samples
    done and the checksums of their records and entries. :meth:`before` yields the results of an earlier process.
    """

    def __init__(self, path: str, samples: int, names: int) -> None:
        self.path = path
        self._partial = path + _ENDING
        self._header = layout.Header(False, samples, 0, 0, names)
        self._end = self._header.table_end
        self._records_sum = self._entries_sum = 0
        _check_replaceable(path)
        self._descriptor = opened_alone(self._partial)

    def close(self) -> None:
        """Close the file, from which another process can resume; without samples it is removed."""
        if self._header.size == 0:
            with suppress(OSError):
                os.unlink(self._partial)
        os.close(self._descriptor)

    def before(self) -> Iterator[Built]:
        """Yield the results of an earlier process if they are intact; must be exhausted before anything is added."""
        records = self._records_before()
        if records is None:
            with naming_file(self.path):
                os.ftruncate(self._descriptor, 0)
                os.ftruncate(self._descriptor, self._end)
            self._write_header(0)
            return
        offsets = (records & np.uint64(layout.OFFSET)).astype(np.int64)
        for part in _parts(offsets):
            content = read_at(self._descriptor, int(offsets[part.start]), int(offsets[part.stop] - offsets[part.start]))
            yield _read_back(layout.kind_of(records[part]), offsets[part.start : part.stop + 1], content)
        self._end = int(offsets[-1])
        os.ftruncate(self._descriptor, self._end)

    def add(self, built: Built) -> None:
        """Add the next samples."""
        offsets = self._end + np.concatenate([[0], np.cumsum(built.sizes)])
        if offsets[-1] > layout.OFFSET:
            raise ValueError(f"{printable(self.path)} would be larger than {layout.OFFSET:,} bytes; build several")
        records = (
            layout.pack_record(offsets.astype("<u8"), np.append(built.kinds, np.uint64(0))).astype("<u8").tobytes()
        )
        done = self._header.size
        write_at(self._descriptor, built.content, self._end, self.path)
        write_at(self._descriptor, records, layout.record_at(done), self.path)
        self._end += len(built.content)
        self._records_sum = zlib.crc32(records[: -layout.RECORD_BYTES], self._records_sum)
        self._entries_sum = zlib.crc32(built.content, self._entries_sum)
        self._write_header(done + built.kinds.size)

    def finish(self, largest: int) -> None:
        """Write the final header and rename the file, after all samples were added."""
        self._header = self._header._replace(finished=True, size=self._end, largest=largest)
        end = np.array([self._end], "<u8").tobytes()  # that of an earlier process has no checksum
        write_at(self._descriptor, end, layout.record_at(self._header.samples), self.path)
        write_at(self._descriptor, self._header.packed(), 0, self.path)
        os.fsync(self._descriptor)
        os.replace(self._partial, self.path)

    def _write_header(self, done: int) -> None:
        """Record the number of samples done; the header of an unfinished index has it in place of the sizes."""
        self._header = self._header._replace(size=done, largest=self._records_sum << 32 | self._entries_sum)
        write_at(self._descriptor, self._header.packed(), 0, self.path)

    def _records_before(self) -> Any:
        """Return the records of an earlier process and the one after them; None if the file is not intact."""
        try:
            header = layout.parse(read_at(self._descriptor, 0, layout.HEADER_BYTES))
        except ValueError:
            return None
        done = header.size
        if header != self._header._replace(size=done, largest=header.largest) or not 0 < done <= header.samples:
            return None
        data = read_at(self._descriptor, layout.record_at(0), layout.RECORD_BYTES * (done + 1))
        records = np.frombuffer(data[: len(data) // layout.RECORD_BYTES * layout.RECORD_BYTES], "<u8")
        offsets = (records & np.uint64(layout.OFFSET)).astype(np.int64)
        if records.size != done + 1 or not self._end <= offsets[-1] <= os.fstat(self._descriptor).st_size:
            return None
        if offsets[0] != self._end or (offsets[1:] < offsets[:-1]).any():
            return None
        records_sum, entries_sum = zlib.crc32(data[: -layout.RECORD_BYTES]), 0
        for at in range(self._end, int(offsets[-1]), _BLOCK):
            entries_sum = zlib.crc32(read_at(self._descriptor, at, min(_BLOCK, int(offsets[-1]) - at)), entries_sum)
        if records_sum << 32 | entries_sum != header.largest:
            return None
        self._header, self._records_sum, self._entries_sum = header, records_sum, entries_sum
        return records


def _parts(offsets: Ints) -> Iterator[slice]:
    """Yield ranges of samples whose entries take about a block together, given the offsets of entries and their end."""
    first, last = 0, offsets.size - 1
    while first < last:
        stop = int(np.searchsorted(offsets, offsets[first] + _BLOCK, "right")) - 1
        stop = min(max(stop, first + 1), last)
        yield slice(first, stop)
        first = stop


def _read_back(kinds: Any, offsets: Ints, content: bytes) -> Built:
    """Return the result of building entries that are in the file."""
    begins, sizes = offsets[:-1] - offsets[0], np.diff(offsets)
    kind = kinds & np.uint64(15)
    refused = np.flatnonzero(kind == layout.REFUSED).tolist()
    texts = {k: content[begins[k] : begins[k] + sizes[k]] for k in refused}
    files = np.zeros(sizes.size, np.int64)
    for k in np.flatnonzero(kind == layout.INDEXED).tolist():
        files[k] = np.frombuffer(content, ENTRY_HEAD, 1, begins[k])["file_bytes"][0]
    return Built(kinds, sizes, content, files, texts)


def _check_replaceable(path: str) -> None:
    """Reject a path at which a file exists that is not a seek index."""
    try:
        with open(path, "rb", 0) as file:
            start = file.read(len(layout.MAGIC))
    except FileNotFoundError:
        return
    if start != layout.MAGIC:
        raise ValueError(f"{printable(path)} exists and is not a seek index; name another path")


def opened_alone(path: str) -> int:
    """Open a file for reading and writing with an exclusive lock, after creating it if needed; return its descriptor.

    Raises BlockingIOError if another process has the lock, and refuses links and other than regular files.
    """
    need_posix("seek indexes and prepared data sets are written")
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
            pass  # the process that had the lock has finished and renamed the file
        os.close(descriptor)


def write_at(descriptor: int, data: bytes, at: int, path: str) -> None:
    """Write all bytes at an offset. One call may write fewer, at 2 GiB or on a full disk; the next one then fails."""
    left = memoryview(data)
    with naming_file(path):
        while left:
            count = os.pwrite(descriptor, left, at)
            left, at = left[count:], at + count
