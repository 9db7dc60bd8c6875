"""Reading parts of files: a bounded number of open descriptors."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeAlias

from .._decoding.open_file import OpenFile, Span
from ._names import printable

Path: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"

OPEN_FILES = 64  # of one source; 1024 is the usual limit of a process

# Where there are fewer descriptors than that.
_TRIES = 20
_WAIT_S = 0.005


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

    def _open(self, file: int) -> OpenFile:
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


def _opener(paths: tuple[str, ...], keep: int = OPEN_FILES) -> Callable[[int], OpenFile]:
    @lru_cache(keep)
    def opened(file: int) -> OpenFile:
        return OpenFile(paths[file])

    return opened


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
