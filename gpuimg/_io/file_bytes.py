"""File bytes of a user's source: a path, a buffer, an open file."""

import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

import numpy as np

from .open_file import open_regular

#: Larger files are refused before they are read, unless the caller raises the limit.
MAX_BYTES = 1 << 30

Source: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | np.ndarray[Any, Any] | IO[bytes]


class OwnBytes(np.ndarray[Any, Any]):
    """File bytes in an array that gpuimg has filled, and that nobody else can change."""


def is_constant(data: object) -> bool:
    """Return True for file bytes that nobody can change."""
    return isinstance(data, (bytes, OwnBytes))


def read(source: Source, max_bytes: int = MAX_BYTES) -> Any:
    """Return the file bytes of a source, which are constant: a buffer is copied.

    Decoders read some bytes several times, and trust what they checked before. Raises TypeError for an unsupported
    type, OSError for a path that is unreadable or not a regular file, ValueError for more than ``max_bytes`` bytes.
    """
    data = _read(source, max_bytes)
    check_bytes(len(data), max_bytes)
    return data


def check_bytes(size: int, max_bytes: int) -> None:
    """Refuse a size before any memory is allocated for it."""
    if size > max_bytes:
        raise too_large(size, max_bytes)


def too_large(size: int, max_bytes: int) -> ValueError:
    """Return the error for a file, or a part of one, over the limit."""
    return ValueError(f"{size} bytes, over the limit of max_bytes={max_bytes}")


def _read(source: Source, max_bytes: int) -> Any:
    if is_constant(source):
        return source
    if isinstance(source, (str, os.PathLike)):
        descriptor = open_regular(source)
        try:
            return read_descriptor(descriptor, max_bytes)
        finally:
            os.close(descriptor)
    if isinstance(source, (bytearray, memoryview)):
        check_bytes(memoryview(source).nbytes, max_bytes)
        return bytes(source)
    if isinstance(source, np.ndarray):
        if source.dtype != np.uint8 or source.ndim != 1:
            raise TypeError(
                f"file bytes as an array must be one-dimensional uint8, not {source.dtype} of shape {source.shape}; "
                "decoded images need no opening: pass a list of them to gpuimg's functions"
            )
        check_bytes(source.size, max_bytes)
        return source.tobytes()
    if hasattr(source, "read"):
        data = source.read()
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"an open file must be in binary mode; read() returned {type(data).__name__}")
        return _read(data, max_bytes)
    hint = "; it is decoded already, so pass [np.asarray(image)] to gpuimg's functions, such as gpuimg.resize"
    raise TypeError(
        "a source is a path, bytes, bytearray, memoryview, a uint8 array of file bytes or an open binary file, "
        f"not {type(source).__name__}{hint if type(source).__module__.partition('.')[0] == 'PIL' else ''}"
    )


def check_sources(sources: Any) -> None:
    """Refuse anything but a sequence of sources: a single one, an array, an iterator."""
    if type(sources) is list:  # which most are, without checks of abstract classes
        return
    single = isinstance(sources, (str, bytes, bytearray, memoryview, os.PathLike)) or hasattr(sources, "read")
    if not single and isinstance(sources, Sequence):
        return
    if single:
        hint = listing_hint(sources) or "for one source pass [source]"
    elif getattr(sources, "ndim", 1) > 1:
        hint = "decoded images need no opening: pass them to gpuimg's functions"
    else:
        hint = "pass list(sources)"
    raise TypeError(f"sources must be a list of sources, not {type(sources).__name__}; {hint}")


def listing_hint(path: object) -> str:
    """Return what to write for all images of a folder or pattern; an empty string for other paths."""
    name = os.fsdecode(path) if isinstance(path, (str, os.PathLike)) else ""
    if os.path.isdir(name):
        return f'for the images of a folder pass sorted(pathlib.Path({name!r}).rglob("*.jpg"))'
    is_pattern = any(mark in name for mark in "*?[") and not os.path.exists(name)
    return f"for the images of a pattern pass sorted(glob.glob({name!r}))" if is_pattern else ""


def read_one(source: Source, max_bytes: int) -> Any:
    """As :func:`read`, with a hint in the error for a URL."""
    try:
        return read(source, max_bytes)
    except OSError as error:
        if hint := url_hint(source):
            raise OSError(error.errno, f"{error.strerror}{hint}", source) from None
        raise


def url_hint(path: object) -> str:
    """Return a hint for a URL that was taken for a path; otherwise an empty string."""
    return "; URLs are read by sources, such as gpuimg.file_list" if isinstance(path, str) and "://" in path else ""


def all_bytes(sources: Sequence[Any]) -> bool:
    """Return True if all sources are bytes, usable as they are, without a check of each."""
    return set(map(type, sources)) <= {bytes}


def read_descriptor(descriptor: int, max_bytes: int) -> bytes:
    """Read all bytes of an open regular file, which may grow, or report size 0, as in ``/proc``.

    Raises ValueError for more than ``max_bytes`` bytes; no more than one read past the limit is done.
    """
    size = os.fstat(descriptor).st_size
    check_bytes(size, max_bytes)
    data = os.read(descriptor, size + 1)  # one call for nearly every file
    if len(data) == size:
        return data
    parts, total = [data], len(data)
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
        total += len(part)
        check_bytes(total, max_bytes)
    return b"".join(parts)


def source_name(source: Source) -> str:
    """Return the name of a source for error messages."""
    if isinstance(source, (str, os.PathLike)):
        return printable(os.fspath(source))
    if isinstance(source, np.ndarray):
        return f"{source.size} bytes"
    if isinstance(source, memoryview):
        return f"{source.nbytes} bytes"
    if isinstance(source, (bytes, bytearray)):
        return f"{len(source)} bytes"
    return str(getattr(source, "name", type(source).__name__))


class SourceNames(Sequence[str]):
    """Names of sources for error messages, computed on access."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = list(sources)

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, index: Any) -> Any:
        return source_name(self._sources[index])


def printable(path: str) -> str:
    """Return a path for error messages, with invisible characters escaped."""
    return path if path.isprintable() else repr(path)[1:-1]
