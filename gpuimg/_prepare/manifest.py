"""``manifest.jsonl``: one record per sample, written in order, from which an interrupted call resumes."""

import json
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from .._io.file_bytes import printable
from .._io.open_file import naming_file, need_posix
from .names import problem_with

NAME = "manifest.jsonl"

#: Manifest record of one sample.
Line: TypeAlias = dict[str, Any]

# Keys of a record: of a failed sample, of one in a file, of one in a shard.
_FAILED = {"sample", "source", "source_bytes", "status", "reason"}
_IN_FILE = {"sample", "source", "source_bytes", "status", "source_size", "size", "output", "bytes"}
_IN_SHARD = _IN_FILE | {"shard", "offset", "end", "tar_crc32"}
_COUNTS = {"sample", "source_bytes", "bytes", "shard", "offset", "end", "tar_crc32"}
_STATUSES = ("encoded", "copied", "recoded", "converted")
_KEPT = "kept"  # in records of JPEG files that could not be recoded: the reason
_CHECKSUM = b', "crc32": %d}\n'  # of the bytes before it, at the end of a record
_LONGEST = 1 << 31  # pixels; side of an image, more than any decoder supports


class Manifest:
    """A file of JSON lines: the settings of the call, then one record per sample in order.

    Refuses a file that another process is writing, and folders with other files or prepared with other settings.
    """

    def __init__(self, folder: str, settings: Line) -> None:
        self.path = os.path.join(folder, NAME)
        if NAME not in (found := os.listdir(folder)) and found:
            raise ValueError(
                f"{printable(folder)} is not empty, and was not prepared by gpuimg; choose a different folder"
            )
        self._descriptor = opened_alone(self.path)
        try:
            self._end = self._begin(folder, settings)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; the next call can resume from it."""
        os.close(self._descriptor)

    def _begin(self, folder: str, settings: Line) -> int:
        """Check the first line, or write it to a new file; return its size in bytes."""
        with open(self.path, "rb") as file:
            text = file.readline()
        first, own = _parsed(text), json.dumps(settings).encode() + b"\n"
        if first is not None:
            _check_same(folder, first, settings)
        if text != own:
            os.ftruncate(self._descriptor, 0)
            write_at(self._descriptor, own, 0, self.path)
        return len(own)

    def resume(self, is_valid: Callable[[int, Line], bool]) -> Iterator[Line]:
        """Yield the records of an earlier call up to the first invalid one; truncate the file there."""
        for number, text in enumerate(self._lines()):
            content = text[: text.rfind(_CHECKSUM[:9])]
            line = _parsed(content + b"}\n") if text == content + _CHECKSUM % zlib.crc32(content) else None
            if line is None or not is_valid(number, line):
                break
            self._end += len(text)
            yield line
        os.ftruncate(self._descriptor, self._end)

    def add(self, lines: Iterable[Line]) -> None:
        """Append records."""
        text = b"".join(map(_line, lines))
        write_at(self._descriptor, text, self._end, self.path)
        self._end += len(text)

    def sync(self) -> None:
        """Flush the file to disk."""
        with naming_file(self.path):
            os.fsync(self._descriptor)

    def lines(self) -> Iterator[Line]:
        """Yield the records of all samples."""
        return map(json.loads, self._lines())

    def _lines(self) -> Iterator[bytes]:
        with open(self.path, "rb") as file:
            file.readline()
            yield from file


def _line(content: Line) -> bytes:
    text = json.dumps(content).encode().removesuffix(b"}")
    return text + _CHECKSUM % zlib.crc32(text)


def _parsed(text: bytes) -> Line | None:
    """Parse a line; None for an incomplete one."""
    if not text.endswith(b"\n"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # RecursionError: thousands of nested brackets
        return None
    return found if isinstance(found, dict) else None


def is_written_for(line: Line, number: int, source: str, key: str, shards: bool) -> bool:
    """Return True if a record is valid for this sample: the file may have been edited to contain anything."""
    if (line.get("sample"), line.get("source")) != (number, source):
        return False
    if any(type(line[name]) is not int or line[name] < 0 for name in _COUNTS & line.keys()):
        return False
    if line.get("status") == "failed":
        return line.keys() == _FAILED and isinstance(line["reason"], str)
    if line.get("status") not in _STATUSES or line.keys() - {_KEPT} != (_IN_SHARD if shards else _IN_FILE):
        return False
    if not isinstance(line.get(_KEPT, ""), str):
        return False
    output = line["output"]
    return (
        _is_size(line["size"]) and _is_size(line["source_size"])
        and isinstance(output, str) and output.startswith(f"{key}.") and "/" not in output[len(key) :]
        and not problem_with(output)
    )  # fmt: skip


def _is_size(value: Any) -> bool:
    """Return True for a list of height and width."""
    return isinstance(value, list) and len(value) == 2 and all(type(n) is int and 0 < n <= _LONGEST for n in value)


def _check_same(folder: str, first: Line, settings: Line) -> None:
    """Reject settings other than those of the call to be resumed."""
    others = [
        f"{name}={first.get(name)!r}, not {settings.get(name)!r}"
        for name in sorted({*first, *settings})
        if first.get(name) != settings.get(name)
    ]
    if others:
        raise ValueError(f"{printable(folder)} was prepared with {', '.join(others)}; choose a different folder")


def opened_alone(path: str) -> int:
    """Open a file for reading and writing with an exclusive lock, after creating it if needed; return its descriptor.

    Raises BlockingIOError if another process has the lock, and refuses links and other than regular files.
    """
    need_posix("prepared data sets are written")
    import fcntl

    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ValueError(f"{printable(path)} is not a regular file")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BlockingIOError as error:
            os.close(descriptor)
            raise BlockingIOError(error.errno, "another process is writing it", path) from error
        except FileNotFoundError:
            pass  # the process that had the lock has finished and renamed the file
        os.close(descriptor)


def write_at(descriptor: int, data: bytes, at: int, path: str) -> None:
    """Write all bytes at an offset. One call may write fewer, at 2 GiB or on a full disk; the next one then fails."""
    left = memoryview(data)
    with naming_file(path):
        while left:
            count = os.pwrite(descriptor, left, at)
            left, at = left[count:], at + count
