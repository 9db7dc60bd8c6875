"""Reading parts of files: a bounded number of open descriptors, and no memory maps.

A page of a mapped file that is no longer there, because the file was cut off or its disk failed, ends the process with
a signal. ``pread`` gives an error instead, releases the interpreter while it waits, and has no position that threads
could fight over.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from ._names import printable

Path: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"

OPEN_FILES = 64  # of one source; 1024 is the usual limit of a process

# Where there are fewer descriptors than that.
_TRIES = 20
_WAIT_S = 0.005


class _Descriptor:
    """An open file, closed when nobody holds it any more."""

    number = -1  # where opening failed

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


class Span(NamedTuple):
    """A part of an open file, which stays open as long as this lives."""

    file: _Descriptor
    offset: int
    size: int

    @property
    def descriptor(self) -> int:
        """Of the file."""
        return self.file.number

    def read(self) -> bytes:
        """Exactly its bytes.

        Raises
        ------
        OSError
            Where the file cannot be read, or ends before.
        """
        data = read_at(self.descriptor, self.offset, self.size)
        if len(data) != self.size:
            reason = (
                f"{len(data)} of {self.size} bytes at offset {self.offset}: the file was cut off after it was indexed"
            )
            raise OSError(errno.EIO, reason)
        return data


class OpenFiles:
    """Files of which any part may be read by any thread; at most ``OPEN_FILES`` stay open.

    Copies and pickles hold the paths alone.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        self.scarce = False  # descriptors: nobody should hold several
        self._opened = _opener(self.paths)

    def __getstate__(self) -> tuple[str, ...]:
        return self.paths

    def __setstate__(self, paths: tuple[str, ...]) -> None:
        self.__init__(paths)  # type: ignore[misc]  # a new cache

    def name(self, file: int) -> str:
        """The path of a file in a message."""
        return printable(self.paths[file])

    def span(self, file: int, offset: Any, size: Any) -> Span:
        """A part of a file.

        Raises
        ------
        OSError
            Where the file cannot be opened.
        """
        return Span(self._open(file), int(offset), int(size))

    def _open(self, file: int) -> _Descriptor:
        for _ in range(_TRIES):
            try:
                return self._opened(file)
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise
            self.scarce = True
            # The limit is smaller: lets go of all that are open, keeps none from here on, and waits for the readers
            # that still have one.
            self._opened = _opener(self.paths, 0)
            time.sleep(_WAIT_S)
        return self._opened(file)


def _opener(paths: tuple[str, ...], keep: int = OPEN_FILES) -> Callable[[int], _Descriptor]:
    @lru_cache(keep)
    def opened(file: int) -> _Descriptor:
        return _Descriptor(paths[file])

    return opened


def read_at(descriptor: int, offset: int, size: int) -> bytes:
    """Up to ``size`` bytes; fewer only at the end of the file."""
    data = os.pread(descriptor, size, offset)
    if len(data) == size:
        return data
    parts = [data]
    while data:  # a read may stop early: at a signal, or at 2 GiB
        size, offset = size - len(data), offset + len(data)
        data = os.pread(descriptor, size, offset)
        parts.append(data)
    return b"".join(parts)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Errors that arise inside say which file they are about."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), path) from error
    except ValueError as error:
        raise ValueError(f"{printable(path)}: {error}") from error


def shards(paths: Path | Sequence[Path]) -> tuple[str, ...]:
    """One path, a list of paths or a pattern such as ``"shard-{000..003}.tar"``, as a tuple of paths.

    Raises
    ------
    ValueError
        For none at all.
    TypeError
        For what is not a path.
    """
    several: Sequence[Any] = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths
    found = [path for pattern in several for path in _expand(os.fsdecode(pattern))]
    if not found:
        raise ValueError("paths must name at least one file")
    return tuple(found)


def _expand(pattern: str) -> list[str]:
    """A pattern with ``{first..last}`` or ``{one,other}`` in all its forms; a file of that very name is itself."""
    match = re.search(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}", pattern)
    if match is None or os.path.lexists(pattern):
        return [pattern]
    first, last, words = match.groups()
    if words is None:
        width = len(first)
        choices = [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    else:
        choices = words.split(",")
    return [pattern[: match.start()] + choice + rest for choice in choices for rest in _expand(pattern[match.end() :])]
