"""Base classes of the sources: tables of ``(data, label)`` that many threads read at once."""

from __future__ import annotations

import errno
import operator
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, SupportsIndex, TypeAlias

from .._checks.text import counted
from .._io.file_bytes import MAX_BYTES, check_bytes, read
from .._io.native_read import ChunkReader
from .._io.open_file import Span
from ._fetching import RemoteSpan, RemoteWhole, fetched
from ._reading import OpenFiles, damaged_index, printable
from ._remote import Storage, is_url
from ._retries import Retries

#: Where bytes of a sample are: a local file, part of an open local file, part of a remote file, a whole remote file.
Place: TypeAlias = bytes | Span | RemoteSpan | RemoteWhole


class Table(ABC):
    """Base class of sources: encoded images and their labels, by index.

    ``len(table)`` is the number of samples and ``table[i]`` the pair of file bytes and label; negative numbers count
    from the end, as in a list. Any number of threads may read at once. A sample that cannot be read raises an
    ``OSError`` or a ``ValueError`` that starts with ``describe(i)``, and so does a file of more than 1 GiB, a limit
    that :func:`gpuimg.load` can change. Subclasses define ``__len__``, ``_read`` and ``_file_and_key``.

    Examples
    --------
    >>> class Letters(Table):
    ...     def __len__(self):
    ...         return 2
    ...     def _read(self, i):
    ...         return b"ab"[i : i + 1], i
    ...     def _file_and_key(self, i):
    ...         return "books/abc", f"letter {i}"
    >>> Letters()[-1], Letters().describe(-1), Letters().listed_name(1)
    ((b'b', 1), 'books/abc: letter 1', 'abc: letter 1')
    >>> Letters()
    <Letters: 2 samples>
    """

    _function, _unit = "", "sample"  # for ``repr``: the function of gpuimg that made it, and what it is made of
    _paths: Sequence[str | bytes] = ()  # files and folders that it is read from
    _storage: Storage | None = None  # access to remote files; None for a table of local files

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _read(self, i: int) -> tuple[Any, Any]:
        """Return file bytes and label of sample ``i``, which is in range."""

    @abstractmethod
    def _file_and_key(self, i: int) -> tuple[str | bytes, str | None]:
        """Return the path of the file of sample ``i``, and its key or number in there; None for a whole file."""

    def _name(self, i: int) -> str:
        file, key = self._file_and_key(i)
        return printable(file) if key is None else f"{printable(file)}: {key}"

    def listed_name(self, i: int) -> str:
        """Name of sample ``i`` wherever its file is: the file's name, and the sample's key or number in there."""
        file, key = self._file_and_key(i)
        return f"{printable(file).rpartition('/')[2]}: {key}"

    @property
    def _is_remote(self) -> bool:
        return self._storage is not None

    def _origin(self) -> str | bytes | None:
        """Return the local file or folder that the table is read from; None unless it is exactly one."""
        return self._paths[0] if len(self._paths) == 1 and not is_url(self._paths[0]) else None

    def __getitem__(self, index: SupportsIndex) -> tuple[Any, Any]:
        i = self._position(index)
        with self._naming_sample(i):
            return self._read(i)

    @contextmanager
    def _naming_sample(self, i: int) -> Iterator[None]:
        """Name sample ``i`` in the errors raised inside the block."""
        try:
            yield
        except OSError as error:
            reason = f"{self._name(i)}: {error.strerror or error}"
            raise OSError(error.errno or errno.EIO, reason) from error
        except ValueError as error:
            raise ValueError(f"{self._name(i)}: {error}") from error

    def __repr__(self) -> str:
        function = f"gpuimg.{self._function}" if self._function else type(self).__name__
        first = f" '{printable(self._paths[0])}'" if self._paths else ""
        more = f" and {len(self._paths) - 1:,} more" if len(self._paths) > 1 else ""
        return f"<{function}{first}{more}: {self._amount()}>"

    def _amount(self) -> str:
        """Return the number of samples with their unit, for ``repr``."""
        return counted(len(self), self._unit)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return (self[i] for i in range(len(self)))

    def describe(self, index: SupportsIndex) -> str:
        """Return the name of a sample for messages: its file, and its key or number in there."""
        return self._name(self._position(index))

    def _position(self, index: SupportsIndex) -> int:
        i, n = operator.index(index), len(self)
        if not -n <= i < n:
            raise IndexError(f"sample {i} of {n}")
        return i % n


class FileTable(Table):
    """A table whose samples are files or parts of files, so that several can be read with one native call."""

    _files = OpenFiles(())  # the files that hold the samples

    @abstractmethod
    def _places(self, i: int) -> Sequence[Place]:
        """Return the files or parts of files that hold sample ``i``."""

    @abstractmethod
    def _sample(self, i: int, contents: Sequence[Any]) -> tuple[Any, Any]:
        """Return file bytes and label of sample ``i``, given the contents of its places: ``bytes`` or uint8 arrays."""

    def _read(self, i: int) -> tuple[Any, Any]:
        return self._read_within(i, MAX_BYTES)

    def _read_within(self, i: int, max_bytes: int) -> tuple[Any, Any]:
        """Return file bytes and label of sample ``i``; each of its places has a limit of ``max_bytes``."""
        return self._sample(i, contents_of(self._places(i), max_bytes, is_remote=self._is_remote))

    @property
    def is_plain(self) -> bool:
        """True if :meth:`read_several` reads the same as ``self[i]``, which a derived class may override."""
        kind = type(self)
        return kind._read is FileTable._read and kind.__getitem__ is Table.__getitem__

    def read_several(self, indices: Sequence[int], reader: ChunkReader) -> list[Any]:
        """Return samples at indices that are in range, with an exception in place of each that fails."""
        places: list[Sequence[Place]] = []
        for i in indices:
            places.append(self._places_or_none(i))
            if self._files.scarce:  # hold one descriptor at a time: read samples one by one
                places = [() for _ in indices]
                break
        contents = iter(self._contents([place for several in places for place in several], reader))
        read = [[next(contents) for _ in several] for several in places]
        del places  # closes files: reading samples one by one below may need the descriptors
        return [self._sample_or_error(i, several, reader.max_bytes) for i, several in zip(indices, read, strict=True)]

    @property
    def has_disk_cache(self) -> bool:
        """True if samples are read from URLs and cached on the local disk."""
        return self._storage is not None and self._storage.blocks is not None

    def forget(self, i: int) -> None:
        """Remove sample ``i`` from the disk cache."""
        for place in self._places(i):
            if isinstance(place, (RemoteSpan, RemoteWhole)):
                place.forget()

    def _contents(self, places: Sequence[Any], reader: ChunkReader) -> list[Any]:
        """Read places together; return bytes, an exception, or None for those to be read one by one."""
        if not self._is_remote:
            return reader.read(places)
        start, cpu = time.perf_counter(), time.thread_time()
        found = fetched(places, reader.max_bytes)
        reader.add(time.perf_counter() - start, time.thread_time() - cpu)
        return found

    def _places_or_none(self, i: int) -> Sequence[Place]:
        try:
            return self._places(i)
        except OSError:  # reported when the sample is read by itself
            return ()

    def _sample_or_error(self, i: int, contents: list[Any], max_bytes: int) -> Any:
        """Return sample ``i`` from the contents of its places, read one by one where needed, or the exception."""
        failure: Exception | None = None
        try:
            if contents and not any(content is None or isinstance(content, Exception) for content in contents):
                return self._sample(i, contents)
        except Exception as error:  # whatever a user's function raises
            failure = error
        try:
            with self._naming_sample(i):
                if failure is None and (not contents or any(content is None for content in contents)):
                    return self._read_within(i, max_bytes)
                raise failure or next(content for content in contents if isinstance(content, Exception))
        except Exception as error:
            return error


class Parts(FileTable):
    """A table whose samples are parts of files: ``size`` bytes at ``offset``, in the file numbered ``shard`` or 0."""

    def __init__(self, files: OpenFiles, offset: Any, size: Any, shard: Any = None) -> None:
        self._files, self._paths, self._storage = files, files.paths, files.storage
        self._offset, self._size, self._shard = offset, size, shard

    def __len__(self) -> int:
        return len(self._offset)

    def _file_of(self, i: int) -> int:
        file, files = 0 if self._shard is None else int(self._shard[i]), len(self._files.paths)
        if not 0 <= file < files:
            raise damaged_index(f"sample {i} is in file {file} of {files}")
        return file

    def _places(self, i: int) -> Sequence[Place]:
        return [self._files.span(self._file_of(i), self._offset[i], self._size[i])]


def contents_of(places: Sequence[Any], max_bytes: int, *, is_remote: bool) -> list[bytes]:
    """Return the bytes of places, remote ones with concurrent requests."""
    found = fetched(places, max_bytes) if is_remote else [None] * len(places)
    return [_content(place, one, max_bytes) for place, one in zip(places, found, strict=True)]


def _content(place: Any, found: Any, max_bytes: int) -> bytes:
    """Return the bytes of a place: those found, which may be an exception, or else read from a local file."""
    if isinstance(found, Exception):
        raise found
    if found is not None:
        return bytes(found)
    if isinstance(place, bytes):
        data: bytes = read(os.fsdecode(place), max_bytes)
        return data
    check_bytes(place.size, max_bytes)
    content: bytes = place.read()
    return content


def is_remote(source: Any) -> bool:
    """Return True for a table whose samples are read from URLs."""
    return isinstance(source, Table) and source._is_remote


def retries_of(source: Any) -> Retries | None:
    """Return the retries of requests for the samples of a source; None if it is local."""
    return source._storage.retries if isinstance(source, Table) and source._storage is not None else None


def origin_of(source: Any) -> str | bytes | None:
    """Return the local file or folder that a source is read from; None unless it is exactly one."""
    return source._origin() if isinstance(source, Table) else None
