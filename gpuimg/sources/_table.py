"""What every source is: a table of ``(data, label)`` that many threads read at once."""

from __future__ import annotations

import errno
import importlib
import operator
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, SupportsIndex, TypeAlias, TypeGuard

from .._checks.text import counted
from .._io.file_bytes import MAX_BYTES, check_bytes, read
from .._io.native_read import ChunkReader
from .._io.open_file import Span
from .._version import install_hint
from ._fetching import RemoteSpan, RemoteWhole, fetched
from ._names import printable
from ._reading import OpenFiles
from ._remote import Storage, is_url

#: A file by its path; a part of an open one; what is behind a URL.
Place: TypeAlias = "bytes | Span | RemoteSpan | RemoteWhole"


class Table(ABC):
    """Encoded images and their labels, by number.

    ``len(table)`` is the number of samples and ``table[i]`` the pair of file bytes and label; negative numbers count
    from the end, as in a list. Any number of threads may read at once. A failure of one sample is an ``OSError`` or a
    ``ValueError`` that starts with ``describe(i)``; so are files of more than 1 GiB, for which :func:`gpuimg.load` has
    another limit.

    Examples
    --------
    >>> class Letters(Table):
    ...     def __len__(self):
    ...         return 2
    ...     def _read(self, i):
    ...         return b"ab"[i : i + 1], i
    ...     def _name(self, i):
    ...         return f"letter {i}"
    >>> Letters()[-1], Letters().describe(-1)
    ((b'b', 1), 'letter 1')
    >>> Letters()
    <Letters: 2 samples>
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _read(self, i: int) -> tuple[Any, Any]:
        """File bytes and label of sample ``i``, which is in range."""

    @abstractmethod
    def _name(self, i: int) -> str:
        """Sample ``i`` in a message: its file and what it is called there."""

    @property
    def _is_remote(self) -> bool:
        """Whether samples are behind URLs."""
        return False

    def _origin(self) -> str | bytes | None:
        """The file or folder on this machine that it is read from; None where that is not just one."""
        return None

    def __getitem__(self, index: SupportsIndex) -> tuple[Any, Any]:
        i = self._position(index)
        with self._named(i):
            return self._read(i)

    @contextmanager
    def _named(self, i: int) -> Iterator[None]:
        """Errors that arise inside say which sample they are about."""
        try:
            yield
        except OSError as error:
            reason = f"{self._name(i)}: {error.strerror or error}"
            raise OSError(error.errno or errno.EIO, reason) from error
        except ValueError as error:
            raise ValueError(f"{self._name(i)}: {error}") from error

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._amount()}>"

    def _amount(self) -> str:
        """How much there is of what, for people to read."""
        return counted(len(self), "sample")

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return (self[i] for i in range(len(self)))

    def describe(self, index: SupportsIndex) -> str:
        """Name of a sample for messages: its file, and what it is called in there."""
        return self._name(self._position(index))

    def _position(self, index: SupportsIndex) -> int:
        i, n = operator.index(index), len(self)
        if not -n <= i < n:
            raise IndexError(f"sample {i} of {n}")
        return i % n


class Stored(Table):
    """A table whose samples lie in files, so that those of several can be read in one call."""

    _files = OpenFiles(())  # of which samples are parts

    @abstractmethod
    def _places(self, i: int) -> Sequence[Place]:
        """Files, or parts of open ones, with all that sample ``i`` is made of."""

    @abstractmethod
    def _made(self, i: int, contents: Sequence[Any]) -> tuple[Any, Any]:
        """File bytes and label of sample ``i`` from the bytes of its places: ``bytes``, or uint8 arrays."""

    @property
    def _is_remote(self) -> bool:
        return self._storage is not None

    def _origin(self) -> str | bytes | None:
        return only(self._files.paths)

    def _read(self, i: int) -> tuple[Any, Any]:
        return self._read_within(i, MAX_BYTES)

    def _read_within(self, i: int, max_bytes: int) -> tuple[Any, Any]:
        """File bytes and label of sample ``i``, of which no place may be larger."""
        places = self._places(i)
        if self._is_remote:
            return self._made(i, _remote(places, max_bytes))
        return self._made(i, [_content(place, max_bytes) for place in places])

    def read_several(self, indices: Sequence[int], reader: ChunkReader) -> list[Any]:
        """Samples that are in range; an exception in the place of each that fails."""
        places: list[Sequence[Place]] = []
        for i in indices:
            places.append(self._places_or_none(i))
            if self._files.scarce:  # one descriptor at a time then
                places = [() for _ in indices]
                break
        contents = iter(self._contents([place for several in places for place in several], reader))
        read = [[next(contents) for _ in several] for several in places]
        del places  # a file may be open for each: what follows may need them
        return [self._finished(i, several, reader.max_bytes) for i, several in zip(indices, read, strict=True)]

    @property
    def _storage(self) -> Storage | None:
        """What reads files behind URLs."""
        return self._files.storage

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
        """The bytes of places, or what went wrong, as they are read in one go."""
        if not self._is_remote:
            return reader.read(places)
        start, cpu = time.perf_counter(), time.thread_time()
        found = fetched(places, reader.max_bytes)
        reader.add(time.perf_counter() - start, time.thread_time() - cpu)
        return found

    def _places_or_none(self, i: int) -> Sequence[Place]:
        try:
            return self._places(i)
        except OSError:  # is said when the sample is read by itself
            return ()

    def _finished(self, i: int, contents: list[Any], max_bytes: int) -> Any:
        try:
            with self._named(i):
                if not contents or any(content is None for content in contents):
                    return self._read_within(i, max_bytes)
                for content in contents:
                    if isinstance(content, Exception):
                        raise content
                return self._made(i, contents)
        except Exception as error:  # whatever a user's function raises
            return error


def _remote(places: Sequence[Place], max_bytes: int) -> list[bytes]:
    """The bytes of places, neighbors in one request."""
    found = fetched(places, max_bytes)
    for content in found:
        if isinstance(content, Exception):
            raise content
    return [
        bytes(content) if content is not None else _content(place, max_bytes)
        for place, content in zip(places, found, strict=True)
    ]


def _content(place: Any, max_bytes: int) -> bytes:
    """The bytes of a file on this machine, or of a part of one."""
    if isinstance(place, bytes):
        data: bytes = read(os.fsdecode(place), max_bytes)
        return data
    check_bytes(place.size, max_bytes)
    content: bytes = place.read()
    return content


def read_together(table: Any) -> TypeGuard[Stored]:
    """Return True if ``read_several`` reads the same as ``table[i]``, which a derived class may override."""
    kind = type(table)
    return isinstance(table, Stored) and kind._read is Stored._read and kind.__getitem__ is Table.__getitem__


def is_remote(source: Any) -> bool:
    """Return True for a table whose samples are read from URLs."""
    return isinstance(source, Table) and source._is_remote


def origin_of(source: Any) -> str | bytes | None:
    """Return the local file or folder that a source is read from; None unless it is exactly one."""
    return source._origin() if isinstance(source, Table) else None


def only(paths: Sequence[str | bytes]) -> str | bytes | None:
    """The path, where it is just one, and on this machine."""
    return paths[0] if len(paths) == 1 and not is_url(paths[0]) else None


def shown(function: str, paths: Sequence[str | bytes], amount: str) -> str:
    """What a source says of itself: the function that made it, its files, and how much there is of what."""
    first = f" '{printable(paths[0])}'" if paths else ""
    more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
    return f"<gpuimg.{function}{first}{more}: {amount}>"


def optional(module: str, subject: str, package: str, extra: str) -> Any:
    """A module of an optional package.

    Raises
    ------
    ImportError
        With what to install, where it is missing.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"reading {subject} needs {package}; {install_hint(extra)}") from error
