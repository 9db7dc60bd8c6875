"""Reading a seek index."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks.types import Ints
from .._io.file_bytes import printable
from .._io.native_read import LINE, ChunkReader
from .._io.open_file import OpenFile, naming_file, read_at
from . import format as layout

_PAIR: Final = 2 * layout.RECORD_BYTES  # records of a sample and of the next one
_LEAST_READ: Final = 1 << 26  # bytes; one call may read this much even of a smaller file, as indices may repeat


class Entries(NamedTuple):
    """Entries of samples in one block of memory."""

    memory: NDArray[np.uint8]
    begins: Ints  # offset of each entry in ``memory``, a multiple of 8
    sizes: Ints  # bytes of each entry; 0 for none

    @property
    def addresses(self) -> Ints:
        """(N,) int64 addresses; 0 for samples without an entry."""
        found: Ints = np.where(self.sizes > 0, self.memory.ctypes.data + self.begins, 0)
        return found


class SeekIndex:
    """A seek index in a file; any thread may request entries from it.

    Only the header is read at first. Copies and pickles hold only the path. The file stays open as long as this object
    exists; forked children share it.

    Parameters
    ----------
    path : path
        Path of the index.

    Attributes
    ----------
    path : str
        Path of the index.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is not a seek index, has a different version, or is not finished, cut off or damaged.

    Examples
    --------
    >>> import gpuimg, io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (30, 20)).save(file, "JPEG")
    >>> source = [(file.getvalue(), label) for label in range(6)]
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "index")
    ...     report = gpuimg.build_index(source, path)
    ...     index = gpuimg.SeekIndex(path)
    >>> len(index)
    6
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(path)
        self._file = OpenFile(self.path)
        self._header = _header(self.path, self._file.number)

    def __len__(self) -> int:
        return self._header.samples

    def __repr__(self) -> str:
        return f"<SeekIndex '{printable(self.path)}': {len(self):,} samples>"

    def __getstate__(self) -> str:
        return self.path

    def __setstate__(self, path: str) -> None:
        self.__init__(path)  # type: ignore[misc]  # opens it here

    def problem_with(self, source: Any) -> str:
        """Return why it cannot be the index of a source, "" if it may be.

        The number of samples and the names of some, without their folders, are compared.
        """
        what = ""
        if len(source) != len(self):
            what = f"is for {len(self):,} samples, but the source has {len(source):,}"
        elif self._header.names != layout.checksum_of_names(source):
            what = "is for a source with different sample names, or a different order"
        return f"{printable(self.path)} {what}" if what else ""

    def entries(self, indices: Sequence[int], reader: ChunkReader | None = None) -> list[NDArray[np.uint8] | None]:
        """Return the entries of some samples as separate arrays; None for samples without one, see :meth:`read`."""
        memory, begins, sizes = self.read(indices, reader)
        places = zip(begins.tolist(), sizes.tolist(), strict=True)
        return [memory[begin : begin + size] if size else None for begin, size in places]

    def read(self, indices: Sequence[int] | Ints, reader: ChunkReader | None = None) -> Entries:
        """Read the entries of some samples.

        The size is 0 for a sample that has no entry, is not in the index, or whose entry cannot be read. The decoder
        validates the content of entries.
        """
        reader = ChunkReader() if reader is None else reader
        numbers = np.asarray(indices, np.int64)
        known = (numbers >= 0) & (numbers < len(self))
        records = self._read(layout.record_at(np.where(known, numbers, 0)), np.full(numbers.size, _PAIR), reader)
        pairs = records.memory.view("<u8").reshape(-1, LINE // layout.RECORD_BYTES)[:, :2]
        offsets = (pairs & np.uint64(layout.OFFSET)).astype(np.int64)
        begins, sizes = offsets[:, 0], offsets[:, 1] - offsets[:, 0]
        known &= (records.sizes == _PAIR) & (layout.kind_of(pairs[:, 0]) & np.uint64(15) == layout.INDEXED)
        known &= (self._header.table_end <= begins) & (offsets[:, 1] <= self._header.size)
        known &= (sizes > 0) & (sizes <= self._header.largest)
        # Entries do not overlap: those of different samples take at most the size of the file together.
        known &= np.cumsum(np.where(known, sizes, 0)) <= max(self._header.size, _LEAST_READ)
        sizes = np.where(known, sizes, 0)
        found = self._read(begins, sizes, reader)
        return found._replace(sizes=np.where(found.sizes == sizes, sizes, 0))

    def _read(self, offsets: Ints, sizes: Ints, reader: ChunkReader) -> Entries:
        """Read parts of the file; sizes in the result are the bytes read, or -1 for an error."""
        ends = np.cumsum(sizes + -sizes % LINE)
        table = np.empty((sizes.size, 4), np.int64)
        table[:, 0], table[:, 1], table[:, 2] = self._file.number, offsets, sizes
        table[:, 3] = ends - (sizes + -sizes % LINE)
        memory = np.empty(ends[-1] if ends.size else 0, np.uint8)
        reader.fill(table, memory)
        return Entries(memory, table[:, 3], table[:, 2])


def _header(path: str, descriptor: int) -> layout.Header:
    """Read the header and check that the index is complete."""
    try:
        with naming_file(path):
            header = layout.parse(read_at(descriptor, 0, layout.HEADER_BYTES))
        if not header.finished:
            raise ValueError("is not finished")
        size = os.fstat(descriptor).st_size
        if size < header.size:
            raise ValueError(f"is cut off: {size} of {header.size} bytes")
        if size > header.size or header.table_end > size:
            raise ValueError(f"is damaged: {size} bytes, but {header.size} by its header")
    except ValueError as error:
        shown = printable(path)
        raise ValueError(f"{shown} {error}; build it again: gpuimg index SOURCE --out {shown}") from None
    return header
