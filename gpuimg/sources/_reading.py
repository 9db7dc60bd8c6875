"""Reading parts of files: a bounded number of open descriptors, and what is behind URLs."""

from __future__ import annotations

import errno
import io
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import IO, Any, NamedTuple, TypeAlias, TypeVar

from .._io.open_file import OpenFile, Span, open_regular, read_at
from ._fetching import RemoteReader, RemoteSpan
from ._names import printable
from ._remote import Remote, RemoteFile, Status, Storage, is_url

T = TypeVar("T")

Path: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"

OPEN_FILES = 64  # of one source; 1024 is the usual limit of a process

# Where there are fewer descriptors than that.
_TRIES = 20
_WAIT_S = 0.005

# Behind URLs:
_SCAN_BYTES = 4 << 20  # of a request while an index is built,
_SCANS = 8  # of so many files at a time


class OpenFiles:
    """Files of which any part may be read by any thread; at most ``OPEN_FILES`` stay open.

    Copies and pickles hold the paths, and what is known of files behind URLs: one that has changed since is an error.
    """

    def __init__(self, paths: Sequence[str], remote: Remote | None = None) -> None:
        self.paths = tuple(paths)
        self.scarce = False  # descriptors: nobody should hold several
        self.storage = Storage(remote) if any(map(is_url, self.paths)) else None
        self._known: dict[int, Status] = {}
        self._opened = self._opener()

    def __getstate__(self) -> tuple[tuple[str, ...], Storage | None, dict[int, Status]]:
        return self.paths, self.storage, dict(self._known)

    def __setstate__(self, state: tuple[tuple[str, ...], Storage | None, dict[int, Status]]) -> None:
        self.paths, self.storage, self._known = state
        self.scarce = False
        self._opened = self._opener()

    def name(self, file: int) -> str:
        """The path of a file in a message."""
        return printable(self.paths[file])

    def span(self, file: int, offset: Any, size: Any) -> Span | RemoteSpan:
        """A part of a file.

        Raises
        ------
        OSError
            Where the file cannot be opened.
        """
        if self.storage is not None and is_url(self.paths[file]):
            return RemoteSpan(self, file, int(offset), int(size))
        return Span(self._open(file), int(offset), int(size))

    def exists(self, file: int) -> bool:
        """Whether a file is there; S3 calls it forbidden, if it is not, to those who may not list."""
        if self.storage is None or not is_url(self.paths[file]):
            return os.path.exists(self.paths[file])
        try:
            self._status(file)
        except (FileNotFoundError, PermissionError):
            return False
        return True

    def statuses(self) -> Iterator[tuple[int, Any]]:
        """Size of each file, and what tells versions apart: the time of its modification, or what its storage says."""
        if self.storage is None:
            yield from map(self._status, range(len(self.paths)))
            return
        with ThreadPoolExecutor(_SCANS, "gpuimg-scan") as pool:
            yield from pool.map(self._status, range(len(self.paths)))

    def _status(self, file: int) -> tuple[int, Any]:
        if self.storage is None or not is_url(self.paths[file]):
            found = os.stat(self.paths[file])
            return found.st_size, found.st_mtime_ns
        self._known[file] = self.storage.status(self.paths[file])
        return self._known[file]

    def remote(self, file: int) -> RemoteFile:
        """A file behind a URL, which must be the one that was seen first."""
        return self._opened(file)  # type: ignore[return-value]

    def _open(self, file: int) -> OpenFile:
        for _ in range(_TRIES):
            try:
                return self._opened(file)  # type: ignore[return-value]
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise
            self.scarce = True
            # The limit is smaller: lets go of all that are open, keeps none from here on, and waits for the readers
            # that still have one.
            self._opened = self._opener(0)
            time.sleep(_WAIT_S)
        return self._opened(file)  # type: ignore[return-value]

    def _opener(self, keep: int = OPEN_FILES) -> Callable[[int], OpenFile | RemoteFile]:
        paths, storage, known = self.paths, self.storage, self._known

        @lru_cache(keep)
        def opened(file: int) -> OpenFile | RemoteFile:
            if storage is None or not is_url(paths[file]):
                return OpenFile(paths[file])
            found = RemoteFile(paths[file], storage, known.get(file))
            known[file] = found.status
            return found

        return opened

    # -- one after the other ---------------------------------------------------------------------------------------

    def given(self, file: int) -> str | IO[bytes]:
        """A file as a library takes it: its path, or where it is behind a URL an open one."""
        if self.storage is None or not is_url(self.paths[file]):
            return self.paths[file]
        return io.BufferedReader(RemoteReader(self.remote(file)), _SCAN_BYTES)

    @contextmanager
    def scanning(self, file: int) -> Iterator[Scan]:
        """A file from its start, for an index; errors that arise inside name it."""
        with naming(self.paths[file]):
            given = self.given(file)
            if isinstance(given, str):
                with open(given, "rb", opener=open_regular) as opened:
                    number = opened.fileno()
                    yield Scan(opened, os.fstat(number).st_size, partial(read_at, number), given)
            else:
                yield Scan(given, self.remote(file).status.size, partial(_sought, given), given)

    def scanned(self, scan: Callable[[Scan], T]) -> Iterator[T]:
        """What ``scan`` gives for each file, in their order; those behind URLs several at a time."""

        def one(file: int) -> T:
            with self.scanning(file) as opened:
                return scan(opened)

        if self.storage is None or len(self.paths) == 1:
            yield from map(one, range(len(self.paths)))
            return
        with ThreadPoolExecutor(_SCANS, "gpuimg-scan") as pool:
            yield from pool.map(one, range(len(self.paths)))


class Scan(NamedTuple):
    """A file that is gone through."""

    file: IO[bytes]
    size: int
    read_at: Callable[[int, int], bytes]  # offset and size; gives less only at the end
    given: str | IO[bytes]  # for a library


def _sought(file: IO[bytes], offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


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
