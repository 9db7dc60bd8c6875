"""Reading parts of open files without memory maps, and replacing files.

A page of a mapped file that has disappeared, because the file was truncated or its disk failed, ends the process with
a signal. ``pread`` returns an error instead, releases the GIL while it waits, and shares no file position between
threads.
"""

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, NamedTuple

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_KINDS = {
    stat.S_IFIFO: "a FIFO", stat.S_IFCHR: "a character device", stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
}  # fmt: skip


def open_regular(path: str | bytes | os.PathLike[str] | os.PathLike[bytes], _: int = 0) -> int:
    """Open a regular file for reading and return its descriptor; also usable as ``opener`` of :func:`open`.

    Other kinds are refused without waiting: opening a FIFO would wait for a writer, and a device may be endless.
    """
    descriptor = os.open(path, _FLAGS)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind == stat.S_IFREG:
        return descriptor
    os.close(descriptor)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, f"{_KINDS.get(kind, 'something else')}, not a regular file", path)


class OpenFile:
    """An open file, closed when nothing refers to it any more."""

    number = -1  # file descriptor; -1 if opening failed

    def __init__(self, path: str) -> None:
        self.number = open_regular(path)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


class Span(NamedTuple):
    """A byte range of an open file, which stays open as long as this object lives."""

    file: OpenFile
    offset: int
    size: int

    @property
    def descriptor(self) -> int:
        """File descriptor."""
        return self.file.number

    def read(self) -> bytes:
        """Read exactly ``size`` bytes; raise OSError if the file ends too early."""
        data = read_at(self.descriptor, self.offset, self.size)
        if len(data) != self.size:
            reason = (
                f"{len(data)} of {self.size} bytes at offset {self.offset}: the file was cut off after it was indexed"
            )
            raise OSError(errno.EIO, reason)
        return data


def _seek_and_read(descriptor: int, size: int, offset: int) -> bytes:
    with _position:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)


_position = threading.Lock()
_pread = getattr(os, "pread", _seek_and_read)  # which Windows lacks


def need_posix(what: str) -> None:
    """Refuse what needs file locks, and files that can be renamed while they are open."""
    if not hasattr(os, "pread"):
        raise OSError(errno.ENOTSUP, f"{what} on POSIX systems only, such as Linux and macOS")


def read_at(descriptor: int, offset: int, size: int) -> bytes:
    """Read up to ``size`` bytes; fewer only at the end of the file."""
    data = _pread(descriptor, size, offset)
    if len(data) == size:
        return data
    parts = [data]
    while data:  # a read may stop early, at a signal or at 2 GiB
        size, offset = size - len(data), offset + len(data)
        data = _pread(descriptor, size, offset)
        parts.append(data)
    return b"".join(parts)


@contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """Open a file to be written under a temporary name, and rename it at the end: others see all of it, or none."""
    temporary = f"{path}.{os.getpid()}.{threading.get_ident()}"
    try:
        with open(temporary, "wb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Name the file in errors of calls on its descriptor."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, path) from error
