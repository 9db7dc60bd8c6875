"""Reading a seek index."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks.types import Ints, Mask
from .._io.file_bytes import printable
from .._io.native_read import LINE, ChunkReader
from .._io.open_file import OpenFile, read_at
from . import format as layout
from .names import checksum_of_names

_PAIR: Final = 2 * layout.WORD_BYTES  # words of a sample and of the one behind it
_KEPT: Final = 1 << 21  # samples: the table of so many, 16 MB, is kept in memory once it is asked for
_LEAST_READ: Final = 1 << 26  # bytes that one call may read of a smaller file, whose samples it may name repeatedly


class Entries(NamedTuple):
    """Entries in memory.

    Attributes
    ----------
    memory : (M,) uint8
    begins, sizes : (N,) int64
        Where each lies in there, aligned as numbers of 8 bytes must be, and its bytes: 0 for none.
    """

    memory: NDArray[np.uint8]
    begins: Ints
    sizes: Ints

    @property
    def addresses(self) -> Ints:
        """(N,): 0 for those without bytes."""
        found: Ints = np.where(self.sizes > 0, self.memory.ctypes.data + self.begins, 0)
        return found


class SeekIndex:
    """A seek index in a file, of which only the header is read at first; any thread may ask it for entries.

    Where they lie, 8 bytes a sample, is kept in memory from the first entry on, of up to two million samples. Copies
    and pickles hold the path alone. The file stays open as long as this lives; forked children share it.

    Parameters
    ----------
    path : path

    Attributes
    ----------
    path : str
    every : int
        MCUs of a segment; 0 for whole rows.

    Raises
    ------
    OSError
        Where the file cannot be read.
    ValueError
        Where it is no seek index, or one of another version, not finished, cut off or damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(path)
        self._file = OpenFile(self.path)
        self._header = _header(self.path, self._file.number)
        self.every = self._header.every
        self._table: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return self._header.samples

    def __repr__(self) -> str:
        return f"<SeekIndex '{printable(self.path)}': {len(self):,} samples>"

    def __getstate__(self) -> str:
        return self.path

    def __setstate__(self, path: str) -> None:
        self.__init__(path)  # type: ignore[misc]  # opens it here

    def problem_with(self, source: Any) -> str:
        """Why it cannot be the index of a source, in words; nothing where it may be.

        Compared are the number of samples and the names of some, without their folders.
        """
        what = ""
        if len(source) != len(self):
            what = f"is of {len(self):,} samples, and the source has {len(source):,}"
        elif self._header.names != checksum_of_names(source):
            what = "is of a source whose samples have other names, or another order"
        return f"{printable(self.path)} {what}" if what else ""

    def entries(self, indices: Sequence[int], reader: ChunkReader | None = None) -> list[NDArray[np.uint8] | None]:
        """The entries of some samples, each in a place of its own; None for those of :meth:`read` without bytes."""
        memory, begins, sizes = self.read(indices, reader)
        places = zip(begins.tolist(), sizes.tolist(), strict=True)
        return [memory[begin : begin + size] if size else None for begin, size in places]

    def read(self, indices: Sequence[int] | Ints, reader: ChunkReader | None = None) -> Entries:
        """The entries of some samples.

        A sample that has none, that is not in the index, or whose entry cannot be read, has 0 bytes. What an entry says
        is for the decoder to check.
        """
        reader = ChunkReader() if reader is None else reader
        numbers = np.asarray(indices, np.int64)
        known = (numbers >= 0) & (numbers < len(self))
        pairs, there = self._words(np.where(known, numbers, 0), reader)
        places = (pairs & np.uint64(layout.PLACE)).astype(np.int64)
        begins, sizes = places[:, 0], places[:, 1] - places[:, 0]
        known &= there & (layout.kind_of(pairs[:, 0]) & np.uint64(15) == layout.INDEXED)
        known &= (self._header.table_end <= begins) & (places[:, 1] <= self._header.size)
        known &= (sizes > 0) & (sizes <= self._header.largest)
        # Entries do not overlap, so those of different samples take no more than the file.
        known &= np.cumsum(np.where(known, sizes, 0)) <= max(self._header.size, _LEAST_READ)
        sizes = np.where(known, sizes, 0)
        found = self._read(begins, sizes, reader)
        return found._replace(sizes=np.where(found.sizes == sizes, sizes, 0))

    def _words(self, numbers: Ints, reader: ChunkReader) -> tuple[NDArray[np.uint64], Mask]:
        """Each sample's word and the one behind it, and whether they could be read."""
        if 0 < len(self) <= _KEPT:
            table = self._table
            if table is None:
                size = self._header.table_end - layout.HEADER_BYTES
                data = read_at(self._file.number, layout.HEADER_BYTES, size).ljust(size, b"\0")
                table = self._table = np.frombuffer(data, "<u8")
            return table[numbers[:, None] + np.arange(2)], np.ones(numbers.size, np.bool_)
        read = self._read(layout.word_at(numbers), np.full(numbers.size, _PAIR), reader)
        return read.memory.view("<u8").reshape(-1, LINE // layout.WORD_BYTES)[:, :2], read.sizes == _PAIR

    def _read(self, offsets: Ints, sizes: Ints, reader: ChunkReader) -> Entries:
        """Parts of the file; a size becomes what is there, or -1."""
        ends = np.cumsum(sizes + -sizes % LINE)
        table = np.empty((sizes.size, 4), np.int64)
        table[:, 0], table[:, 1], table[:, 2] = self._file.number, offsets, sizes
        table[:, 3] = ends - (sizes + -sizes % LINE)
        memory = np.empty(ends[-1] if ends.size else 0, np.uint8)
        reader.fill(table, memory)
        return Entries(memory, table[:, 3], table[:, 2])


def _header(path: str, descriptor: int) -> layout.Header:
    """The header of a finished index that is whole.

    Raises
    ------
    ValueError
        Otherwise.
    """
    try:
        header = layout.parse(read_at(descriptor, 0, layout.HEADER_BYTES))
        if not header.finished:
            raise ValueError("is not finished")
        size = os.fstat(descriptor).st_size
        if size < header.size:
            raise ValueError(f"is cut off: {size} of {header.size} bytes")
        if size > header.size or header.table_end > size:
            raise ValueError(f"is damaged: {size} bytes, where its header says {header.size}")
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    except ValueError as error:
        shown = printable(path)
        raise ValueError(f"{shown} {error}; build it again: gpuimg index SOURCE --out {shown}") from None
    return header
