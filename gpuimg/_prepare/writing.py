"""Where results go: files under the names of the samples, or tar files. Nothing half-written has its final name."""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from contextlib import suppress
from typing import NamedTuple, Protocol

from .._index.writing import naming_file, write_at
from .._io.file_bytes import printable
from .manifest import Line
from .names import Other

PART = ".part"
_END = bytes(2 * tarfile.BLOCKSIZE)  # of a tar file
_FIRST_SHARD = -1  # before any is begun

# What a file system says where a name is at fault: too long, or in use for a folder or a file.
_BAD_NAMES = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.EINVAL, errno.EILSEQ)


class Result(NamedTuple):
    """What was made of one sample.

    Attributes
    ----------
    line : dict
        For the manifest.
    key : str
        Of the files.
    members : list of (str, bytes)
        Endings and contents: the image first; nothing where that failed or is written already.
    """

    line: Line
    key: str = ""
    members: tuple[Other, ...] = ()


class Writer(Protocol):
    """Takes results."""

    def holds(self, line: Line) -> bool:
        """Whether what an earlier call noted is there; asked in order."""

    def keep(self, result: Result) -> Result:
        """Called as soon as there is a result, by any thread; what it gives is added in order."""

    def add(self, result: Result) -> Line:
        """Called in order, by one thread at a time; gives what to note."""

    def finish(self) -> None:
        """All samples are there."""

    def close(self) -> None:
        """Leave what is there to the next call."""


def failure(line: Line, reason: str) -> Result:
    """The result of a sample that failed."""
    kept = {name: line[name] for name in ("sample", "source", "source_bytes")}
    return Result(kept | {"status": "failed", "reason": reason})


def make_folder(root: str, folder: str) -> None:
    """Make a folder below ``root``.

    Raises
    ------
    ValueError
        Where a link that is there already leads elsewhere.
    """
    base = os.path.realpath(root)
    if os.path.commonpath([base, os.path.realpath(folder)]) != base:
        raise ValueError(f"{printable(folder)} leads out of {printable(root)} by a link; remove that")
    os.makedirs(folder, exist_ok=True)


def replace_by(path: str, content: bytes) -> None:
    """Write a file under another name in the same folder, and give it its name once it is whole."""
    descriptor = _new(path + PART)
    try:
        write_at(descriptor, content, 0, path)
    finally:
        os.close(descriptor)
    os.replace(path + PART, path)


def _new(path: str) -> int:
    """A new file for writing. What has its name, a link perhaps, is removed rather than written to."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)


def _length(path: str) -> int | None:
    """Bytes of a regular file; None for what is none, a link for instance."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


# -- files -------------------------------------------------------------------------------------------------------------


class Files:
    """Each result is a file."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._made = {folder}

    def holds(self, line: Line) -> bool:
        """Whether the file is there, and as large as it was."""
        if "output" not in line:
            return True
        return bool(_length(os.path.join(self._folder, line["output"])) == line["bytes"])

    def keep(self, result: Result) -> Result:
        """Write the file."""
        for ending, content in result.members[:1]:
            name = f"{result.key}.{ending}"
            path = os.path.join(self._folder, name)
            inside = os.path.dirname(path)
            try:
                if inside not in self._made:
                    make_folder(self._folder, inside)
                    self._made.add(inside)
                replace_by(path, content)
            except OSError as error:
                if error.errno not in _BAD_NAMES:
                    raise
                return failure(result.line, f"cannot be written: {error.strerror}")
            result.line.update(output=name, bytes=len(content))
        return Result(result.line)

    def add(self, result: Result) -> Line:
        """The file is written already."""
        return result.line

    def finish(self) -> None:
        """Nothing is left to do."""

    def close(self) -> None:
        """Nothing is open."""


# -- tar files ---------------------------------------------------------------------------------------------------------


def shard_name(number: int) -> str:
    """The name of a shard."""
    return f"shard-{number:06d}.tar"


class Shards:
    """Results are samples of tar files, which begin anew where the next sample would make one larger than asked for."""

    def __init__(self, folder: str, size: int) -> None:
        self._folder, self._size = folder, size
        self._number = _FIRST_SHARD
        self._end = 0  # of the last sample in it
        self._length = 0  # of what there is of a shard of an earlier call
        self._descriptor: int | None = None

    def _path(self) -> str:
        return os.path.join(self._folder, shard_name(self._number))

    def holds(self, line: Line) -> bool:
        """Whether the sample's shard has all that was written of it."""
        if "shard" not in line:
            return True
        before = self._number, self._end
        if line["shard"] == self._number + 1 and (self._number == _FIRST_SHARD or self._is_whole()):
            self._number, self._end = line["shard"], 0
            part = _length(self._path() + PART)
            self._length = part if part is not None else _length(self._path()) or 0
        in_order = self._end < line["offset"] <= line["offset"] + line["bytes"] <= line["end"] <= self._length
        if line["shard"] != self._number or not in_order or line["end"] % tarfile.BLOCKSIZE:
            self._number, self._end = before
            return False
        self._end = line["end"]
        return True

    def _is_whole(self) -> bool:
        return _length(self._path()) == self._end + len(_END)

    def keep(self, result: Result) -> Result:
        """Shards are written in order."""
        return result

    def add(self, result: Result) -> Line:
        """Write a sample."""
        if not result.members:
            return result.line
        parts = [_member(f"{result.key}.{ending}", content) for ending, content in result.members]
        text = b"".join(map(b"".join, parts))
        if self._number == _FIRST_SHARD or (self._end and self._end + len(text) + len(_END) > self._size):
            self._close_shard()
            self._number, self._end = self._number + 1, 0
        write_at(self._opened(), text, self._end, self._path())
        ending, content = result.members[0]
        at = self._end + len(parts[0][0])
        self._end += len(text)
        return result.line | {
            "output": f"{result.key}.{ending}", "bytes": len(content), "shard": self._number, "offset": at,
            "end": self._end,
        }  # fmt: skip

    def _opened(self) -> int:
        """The shard that is being written, without what an earlier call wrote behind its last sample."""
        if self._descriptor is None:
            part = self._path() + PART
            if self._end and _length(part) is None:
                os.replace(self._path(), part)
            self._descriptor = os.open(part, os.O_RDWR | os.O_NOFOLLOW) if self._end else _new(part)
            with naming_file(part):
                os.ftruncate(self._descriptor, self._end)
        return self._descriptor

    def _close_shard(self) -> None:
        """End a shard, and give it its name once the disk has it."""
        if self._number == _FIRST_SHARD or (self._descriptor is None and self._is_whole()):
            return
        descriptor = self._opened()
        write_at(descriptor, _END, self._end, self._path())
        with naming_file(self._path()):
            os.fsync(descriptor)
        self.close()
        os.replace(self._path() + PART, self._path())

    def finish(self) -> None:
        """End the last shard."""
        self._close_shard()

    def close(self) -> None:
        """Leave what is there to the next call."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _member(name: str, content: bytes) -> tuple[bytes, bytes]:
    """Header and padded content; nothing in them depends on when and by whom it is written."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    head = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    return head, content + bytes(-len(content) % tarfile.BLOCKSIZE)
