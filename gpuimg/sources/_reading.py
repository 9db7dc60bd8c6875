"""Reading parts of local and remote files with a bounded number of open descriptors."""

import errno
import glob
import io
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import IO, Any, NamedTuple, TypeAlias, TypeVar

from .._io.open_file import OpenFile, Span, open_regular, read_at
from ._fetching import GAP, RemoteReader, RemoteSpan
from ._remote import Remote, RemoteFile, Status, Storage, is_url

T = TypeVar("T")

Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]

OPEN_FILES = 64  # open local files per source; the usual limit of a process is 1024
_REMOTE_FILES = 4096  # remote files that stay open: about 3 KB each, and no descriptor

# Opening is tried again if the process has no descriptor left, until other readers close theirs.
_TRIES = 20
_WAIT_S = 0.005

# Reading of directories:
_PAGE = 16 << 10  # bytes
_PAGES = 16  # cached

# Building the index of remote files:
_SCAN_BYTES = 4 << 20  # bytes per request
_SCANS = 8  # files scanned concurrently


class OpenFiles:
    """A list of files, any part of which any thread may read; at most ``OPEN_FILES`` local ones stay open.

    Copies and pickles hold the paths, and sizes and versions of remote files: if one has changed since, reading it is
    an error.
    """

    def __init__(self, paths: Sequence[str], remote: Remote | None = None, gap: int = GAP) -> None:
        self.paths, self.gap = tuple(paths), gap
        self.storage = Storage(remote) if any(map(is_url, self.paths)) else None
        self._known: dict[int, Status] = {}
        self._open_all()

    def _open_all(self) -> None:
        self.scarce = False  # the process ran out of descriptors: a thread should hold one at a time
        self._opened = self._opener(OPEN_FILES)
        opened = partial(_remote_file, self.paths, self.storage, self._known)  # type: ignore[arg-type]
        self.remote = Recent(opened, _REMOTE_FILES)

    def __getstate__(self) -> tuple[tuple[str, ...], int, Storage | None, dict[int, Status]]:
        return self.paths, self.gap, self.storage, dict(self._known)

    def __setstate__(self, state: tuple[tuple[str, ...], int, Storage | None, dict[int, Status]]) -> None:
        self.paths, self.gap, self.storage, self._known = state
        self._open_all()

    def name(self, file: int) -> str:
        """Return the path of a file for a message."""
        return printable(self.paths[file])

    def _is_remote(self, file: int) -> bool:
        return self.storage is not None and is_url(self.paths[file])

    def span(self, file: int, offset: Any, size: Any) -> Span | RemoteSpan:
        """Return a part of a file, to be read later; raise OSError if the file cannot be opened."""
        if offset < 0 or size < 0:
            raise damaged_index(f"{size} bytes at offset {offset}")
        if self._is_remote(file):
            return RemoteSpan(self.remote, file, int(offset), int(size), self.gap)
        return Span(self._open(file), int(offset), int(size))

    def exists(self, file: int) -> bool:
        """Return whether a file exists. S3 reports a missing file as forbidden to users who may not list the bucket."""
        if not self._is_remote(file):
            return os.path.exists(self.paths[file])
        try:
            self._status(file)
        except (FileNotFoundError, PermissionError):
            return False
        return True

    def local_status(self, file: int) -> tuple[int, ...]:
        """Return size and modification time in ns of a local file; () for a remote one."""
        return () if self._is_remote(file) else self._status(file)

    def known(self) -> list[tuple[int, Status]]:
        """Return the remote files that were seen, and the versions that they must have when they are read."""
        return sorted(self._known.items())

    def know(self, versions: dict[int, Status]) -> None:
        """Set the versions that remote files must have when they are read."""
        self._known.update(versions)

    def _of_each(self, function: Callable[[int], T]) -> Iterator[T]:
        """Yield the result for each file, in order; remote files are read concurrently."""
        files = range(len(self.paths))
        if self.storage is None or len(files) == 1:
            yield from map(function, files)
            return
        with ThreadPoolExecutor(_SCANS, "gpuimg-scan") as pool:
            yield from pool.map(function, files)

    def _status(self, file: int) -> tuple[int, Any]:
        if not self._is_remote(file):
            found = os.stat(self.paths[file])
            return found.st_size, found.st_mtime_ns
        self._known[file] = self.storage.status(self.paths[file])  # type: ignore[union-attr]
        return self._known[file]

    def _open(self, file: int) -> OpenFile:
        for _ in range(_TRIES):
            try:
                return self._opened(file)
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise
            self.scarce = True
            # The limit of the process is below OPEN_FILES: close all files, keep none open from here on, and wait for
            # readers on other threads to finish with theirs.
            self._opened = self._opener(0)
            time.sleep(_WAIT_S)
        return self._opened(file)

    def _opener(self, capacity: int) -> Callable[[int], OpenFile]:
        paths = self.paths
        return lru_cache(capacity)(lambda file: OpenFile(paths[file]))

    # -- scanning --------------------------------------------------------------------------------------------------

    def given(self, file: int) -> str | IO[bytes]:
        """Return a file in the form that libraries take: its path, or a stream of a remote file."""
        if not self._is_remote(file):
            return self.paths[file]
        return io.BufferedReader(RemoteReader(self.remote(file)), _SCAN_BYTES)

    @contextmanager
    def scanning(self, file: int) -> "Iterator[Scan]":
        """Open a file for a scan from its start; errors raised inside the block name the file."""
        with naming(self.paths[file]):
            given = self.given(file)
            if isinstance(given, str):
                with open(given, "rb", opener=open_regular) as opened:
                    number = opened.fileno()
                    yield Scan(opened, os.fstat(number).st_size, partial(read_at, number), given)
            else:
                yield Scan(given, self.remote(file).status.size, partial(_sought, given), given)

    def looked_into(self, look: "Callable[[int, int, Callable[[int, int], bytes]], T]") -> Iterator[T]:
        """Yield the result of ``look`` for each file, in order: given its number, its size and a function to read it.

        For files of which few parts are read: at most ``_PAGE`` bytes more around each.
        """

        def one(file: int) -> T:
            with naming(self.paths[file]):
                return look(file, *self.pages(file))

        return self._of_each(one)

    def pages(self, file: int) -> tuple[int, Callable[[int, int], bytes]]:
        """Return the size of a file and a function that reads up to (offset, size) bytes of it, and caches pages."""
        end = self.remote(file).status.size if self._is_remote(file) else self._status(file)[0]

        def read(offset: int, size: int) -> bytes:
            offset = min(offset, end)
            return self.span(file, offset, min(size, end - offset)).read()

        page = lru_cache(_PAGES)(lambda number: read(number * _PAGE, _PAGE))

        def read_some(offset: int, size: int) -> bytes:
            number, start = divmod(offset, _PAGE)
            return page(number)[start : start + size] if start + size <= _PAGE else read(offset, size)

        return end, read_some

    def scanned(self, scan: "Callable[[Scan], T]") -> Iterator[T]:
        """Yield the result of ``scan`` for each file, in order."""

        def one(file: int) -> T:
            with self.scanning(file) as opened:
                return scan(opened)

        return self._of_each(one)


def _remote_file(paths: Sequence[str], storage: Storage, known: dict[int, Status], file: int) -> RemoteFile:
    """Open a remote file, which must have the version that was seen first.

    It is of use in this process only: after a fork, the thread that serves it does not exist.
    """
    found = RemoteFile(paths[file], storage, known.get(file))
    known[file] = found.status
    return found


class Recent:
    """Cache of the results of ``load`` for the ``capacity`` keys used last; copies are empty.

    One thread at a time loads a key; others wait for its result. Exceptions are not cached.
    """

    def __init__(self, load: Callable[[int], Any], capacity: int) -> None:
        self._load, self._capacity = load, capacity
        self._renew()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._load, self._capacity)

    def _renew(self) -> None:
        self._found = lru_cache(self._capacity)(self._load)
        self._locks: dict[int, threading.Lock] = {}
        self._process = os.getpid()

    def __call__(self, key: int) -> Any:
        """Return the value of a key: cached, or loaded."""
        if self._process != os.getpid():  # after a fork, the parent's loading threads do not exist
            self._renew()
        with self._locks.setdefault(key, threading.Lock()):
            return self._found(key)


def damaged_index(what: str) -> OSError:
    """Return an error for a row of an index that was not read whole when the source was opened."""
    return OSError(errno.EIO, f"the file of index_cache is damaged, delete it: {what}")


class Scan(NamedTuple):
    """A file that is being scanned."""

    file: IO[bytes]
    size: int
    read_at: Callable[[int, int], bytes]  # (offset, size) -> bytes, fewer only at the end of the file
    given: str | IO[bytes]  # path or stream, for libraries


def _sought(file: IO[bytes], offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Name a file in the errors raised inside the block."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), path) from error
    except ValueError as error:
        raise ValueError(f"{printable(path)}: {error}") from error


def shards(paths: Path | Sequence[Path], remote: Remote | None = None) -> tuple[str, ...]:
    """Return one path, a list of paths or a pattern as a tuple of paths; raise an error if there is none.

    Patterns are ``"shard-{000..003}.tar"``, all of whose files must exist, and ``"shard-*.tar"``, for those that exist,
    sorted by name; in paths also with ``?`` and ``[...]``.
    """
    several: Sequence[Any] = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths
    found = [
        path
        for pattern in several
        for part in _expand(os.fsdecode(pattern))
        for path in _matching(part, remote)
    ]  # fmt: skip
    if not found:
        raise ValueError("paths must name at least one file")
    return tuple(found)


def _matching(pattern: str, remote: Remote | None) -> list[str]:
    """Return the files that a pattern matches, unless a file of that very name exists."""
    if is_url(pattern):
        if "*" not in pattern:
            return [pattern]
        found = Storage(remote).matching(pattern)
    elif not glob.has_magic(pattern) or os.path.lexists(pattern):
        return [pattern]
    else:
        found = glob.glob(pattern)
    if not found:
        raise FileNotFoundError(errno.ENOENT, "no file matches this pattern", pattern)
    return sorted(found)


def _expand(pattern: str) -> list[str]:
    """Expand ``{first..last}`` and ``{one,other}`` in a pattern, unless a file of that very name exists."""
    match = re.search(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}", pattern)
    if match is None or os.path.lexists(pattern):
        return [pattern]
    first, last, alternatives = match.groups()
    if alternatives is None:
        width = len(first)
        choices = [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    else:
        choices = alternatives.split(",")
    return [pattern[: match.start()] + choice + rest for choice in choices for rest in _expand(pattern[match.end() :])]


def printable(name: str | bytes) -> str:
    """Return a file name or key for a message, with hexadecimal escapes for bytes that are not UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
