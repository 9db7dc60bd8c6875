"""Writing a seek index: under a name of its own, which goes on where it was interrupted, until it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._checks.types import Ints
from .._decoding.file_bytes import printable
from .._decoding.open_file import read_at
from . import format as layout
from .entries import Built

_ENDING = ".partial"
_BLOCK = 4 << 20  # bytes of entries that are checked at a time
_MOST_WORDS = 1 << 16  # and words of the table


class PartialIndex:
    """An index that is being written to ``path + ".partial"``.

    Entries are appended, then their words entered in the table: what the table has is there. :attr:`before` gives what
    an earlier process had done, each entry checked; its rest is thrown away.

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
        self.samples = 0  # that are done
        self.size = self._header.table_end
        _check_replaceable(path)
        self._descriptor = _opened_alone(self._partial)

    def close(self) -> None:
        """Leave what is there to the next process."""
        os.close(self._descriptor)

    def before(self) -> Iterator[Built]:
        """What an earlier process had done; to be gone through before anything is added."""
        if read_at(self._descriptor, 0, layout.HEADER_BYTES) == self._header.packed():
            for built in self._blocks():
                yield built
                self.samples += built.kinds.size
                self.size += len(built.content)
        if not self.samples:
            os.ftruncate(self._descriptor, 0)
        os.ftruncate(self._descriptor, self.size)
        left = layout.WORD_BYTES * (self._header.samples - self.samples)
        _write(self._descriptor, bytes(left), layout.word_at(self.samples + 1))
        nothing = np.zeros(0, np.int64)
        _write(self._descriptor, self._words(nothing.astype(np.uint64), nothing), layout.word_at(self.samples))
        _write(self._descriptor, self._header.packed(), 0)

    def add(self, built: Built) -> None:
        """Add the samples that come next."""
        _write(self._descriptor, built.content, self.size)
        _write(self._descriptor, self._words(built.kinds, built.sizes), layout.word_at(self.samples))
        self.samples += built.kinds.size
        self.size += len(built.content)

    def finish(self, largest: int) -> None:
        """Give it its name, once all samples are there."""
        header = self._header._replace(finished=True, size=self.size, largest=largest)
        _write(self._descriptor, header.packed(), 0)
        os.fsync(self._descriptor)
        os.replace(self._partial, self.path)

    def _words(self, kinds: Any, sizes: Ints) -> bytes:
        """Words of the samples that come next, and the one behind them."""
        places = self.size + np.concatenate([[0], np.cumsum(sizes)])
        return bytes(layout.word(places.astype("<u8"), np.append(kinds, np.uint64(0))).astype("<u8").tobytes())

    def _blocks(self) -> Iterator[Built]:
        """What stands in the file, as long as it is whole."""
        first, begin = 0, self._header.table_end
        size = os.fstat(self._descriptor).st_size
        while first < self._header.samples:
            wanted = min(_MOST_WORDS, self._header.samples - first)
            data = read_at(self._descriptor, layout.word_at(first), layout.WORD_BYTES * (wanted + 1))
            words = np.frombuffer(data[: len(data) // 8 * 8], "<u8")
            places = (words & np.uint64(layout.PLACE)).astype(np.int64)
            if not words.size or places[0] != begin:
                return
            kinds = layout.kind_of(words)
            good = np.isin(kinds[:-1] & np.uint64(15), layout.KINDS) & (np.diff(places) >= 0) & (places[1:] <= size)
            count = int(np.argmin(good)) if not good.all() else good.size
            count = min(count, max(1, int(np.searchsorted(places[: count + 1], begin + _BLOCK, "right")) - 1))
            built = self._checked(kinds[:count], places[: count + 1])
            if built.kinds.size:
                yield built
            if not count or built.kinds.size < count:
                return
            first, begin = first + count, int(places[count])

    def _checked(self, kinds: Any, places: Ints) -> Built:
        """The first samples of some whose entries are whole."""
        from ..kernels.jpeg.build import check_entries

        content = read_at(self._descriptor, int(places[0]), int(places[-1] - places[0]))
        begins, sizes = places[:-1] - places[0], np.diff(places)
        inside = begins + sizes <= len(content)
        files = np.full(sizes.size, -1, np.int64)
        indexed = (kinds & np.uint64(15) == layout.INDEXED) & inside
        check_entries(np.frombuffer(content, np.uint8), begins, np.where(indexed, sizes, 0), files)
        refused = (kinds & np.uint64(15) == layout.REFUSED) & inside
        texts = {k: content[begins[k] : begins[k] + sizes[k]] for k in np.flatnonzero(refused).tolist()}
        whole = np.where(indexed, files >= 0, refused | (sizes == 0)) & inside
        whole[[k for k, text in texts.items() if text.count(0) != 1]] = False
        count = int(np.argmin(whole)) if not whole.all() else whole.size
        kept = {k: text for k, text in texts.items() if k < count}
        return Built(kinds[:count], sizes[:count], content[: places[count] - places[0]], files[:count], kept)


def _check_replaceable(path: str) -> None:
    """Refuse to write an index over something else."""
    try:
        with open(path, "rb", 0) as file:
            start = file.read(len(layout.MAGIC))
    except FileNotFoundError:
        return
    if start != layout.MAGIC:
        raise ValueError(f"{printable(path)} is there already, and is not a seek index; name another path")


def _opened_alone(path: str) -> int:
    """A file for reading and writing, made where there is none, of which this process has the only lock."""
    import fcntl

    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
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


def _write(descriptor: int, data: bytes, at: int) -> None:
    """All bytes at a place: a write may stop early, at 2 GiB or at a full disk, which then says so."""
    left = memoryview(data)
    while left:
        count = os.pwrite(descriptor, left, at)
        left, at = left[count:], at + count
