"""Where results go: files under the names of the samples, or tar files. Nothing half-written has its final name."""

from __future__ import annotations

import os
import tarfile
from typing import NamedTuple, Protocol

from .._index.writing import write_at
from .manifest import Line
from .names import Other

PART = ".part"
_END = bytes(2 * tarfile.BLOCKSIZE)  # of a tar file
_FIRST_SHARD = -1  # before any is begun


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


def replace_by(path: str, content: bytes) -> None:
    """Write a file under a name of its own in the same folder, and give it its name once it is whole."""
    with open(path + PART, "wb", 0) as file:
        write_at(file.fileno(), content, 0)
    os.replace(path + PART, path)


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
        try:
            return bool(os.stat(os.path.join(self._folder, line["output"])).st_size == line["bytes"])
        except OSError:
            return False

    def keep(self, result: Result) -> Result:
        """Write the file."""
        for ending, content in result.members[:1]:
            name = f"{result.key}.{ending}"
            path = os.path.join(self._folder, name)
            inside = os.path.dirname(path)
            if inside not in self._made:
                os.makedirs(inside, exist_ok=True)
                self._made.add(inside)
            replace_by(path, content)
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
        if line["shard"] != self._number:
            if self._number != _FIRST_SHARD and not self._is_whole():
                return False
            number, before = self._number, self._end
            self._number, self._length = line["shard"], 0
            self._length = self._found_length()
            if line["end"] > self._length:
                self._number, self._end = number, before
                return False
        elif line["end"] > self._length:
            return False
        self._end = line["end"]
        return True

    def _found_length(self) -> int:
        for ending in ("", PART):
            try:
                return os.stat(self._path() + ending).st_size
            except FileNotFoundError:
                pass
        return 0

    def _is_whole(self) -> bool:
        try:
            return os.stat(self._path()).st_size == self._end + len(_END)
        except FileNotFoundError:
            return False

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
        write_at(self._opened(), text, self._end)
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
            if self._end and not os.path.exists(part):
                os.replace(self._path(), part)
            self._descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o666)
            os.ftruncate(self._descriptor, self._end)
        return self._descriptor

    def _close_shard(self) -> None:
        """End a shard, and give it its name once the disk has it."""
        if self._number == _FIRST_SHARD or (self._descriptor is None and self._is_whole()):
            return
        descriptor = self._opened()
        write_at(descriptor, _END, self._end)
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
