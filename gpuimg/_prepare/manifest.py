"""The list of what was made of which sample: written in order, and what an interrupted call goes on from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from .._index.writing import naming_file, opened_alone, write_at
from .._io.file_bytes import printable
from .names import problem_with

NAME = "manifest.jsonl"

#: What is noted of one sample.
Line: TypeAlias = "dict[str, Any]"

# Names in a line: of a failed sample, of one in a file, of one in a shard.
_FAILED = {"sample", "source", "source_bytes", "status", "reason"}
_IN_FILE = {"sample", "source", "source_bytes", "status", "source_size", "size", "output", "bytes"}
_IN_SHARD = _IN_FILE | {"shard", "offset", "end"}
_COUNTS = {"sample", "source_bytes", "bytes", "shard", "offset", "end"}
_STATUSES = ("encoded", "transformed", "copied")
_LONGEST = 1 << 31  # side of an image, in pixels: more than any decoder takes


class Manifest:
    """A file of JSON lines: first what all was made with, then one for each sample, in their order.

    Raises
    ------
    BlockingIOError
        Where another process writes it.
    ValueError
        Where the folder holds something else, or was prepared in another way.
    """

    def __init__(self, folder: str, settings: Line) -> None:
        self.path = os.path.join(folder, NAME)
        _check_folder(folder)
        self._descriptor = opened_alone(self.path)
        try:
            self._end = self._begin(folder, settings)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave what is there to the next call."""
        os.close(self._descriptor)

    def _begin(self, folder: str, settings: Line) -> int:
        """Bytes of the first line, which is written where there is none."""
        with open(self.path, "rb") as file:
            text = file.readline()
        first = _parsed(text)
        if first is not None:
            _check_same(folder, first, settings)
            return len(text)
        os.ftruncate(self._descriptor, 0)
        text = _line(settings)
        write_at(self._descriptor, text, 0, self.path)
        return len(text)

    def keep(self, holds: Callable[[int, Line], bool]) -> Iterator[Line]:
        """The lines of an earlier call, up to the first one that does not hold; those after it are removed.

        Parameters
        ----------
        holds : function
            Takes the number of a sample and the line in its place.
        """
        for number, text in enumerate(self._lines()):
            line = _parsed(text)
            if line is None or not holds(number, line):
                break
            self._end += len(text)
            yield line
        os.ftruncate(self._descriptor, self._end)

    def add(self, lines: Iterable[Line]) -> None:
        """Append lines."""
        text = b"".join(map(_line, lines))
        write_at(self._descriptor, text, self._end, self.path)
        self._end += len(text)

    def sync(self) -> None:
        """Have all that was added on the disk."""
        with naming_file(self.path):
            os.fsync(self._descriptor)

    def lines(self) -> Iterator[Line]:
        """All lines of samples."""
        return map(json.loads, self._lines())

    def _lines(self) -> Iterator[bytes]:
        with open(self.path, "rb") as file:
            file.readline()
            yield from file


def _line(content: Line) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _parsed(text: bytes) -> Line | None:
    """A line; None for one that is not whole."""
    if not text.endswith(b"\n"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # the latter for thousands of brackets
        return None
    return found if isinstance(found, dict) else None


def is_written_for(line: Line, number: int, source: str, key: str, shards: bool) -> bool:
    """Whether a line is one that is written for this sample: a file that somebody changed may hold anything."""
    if (line.get("sample"), line.get("source")) != (number, source):
        return False
    if any(type(line[name]) is not int or line[name] < 0 for name in _COUNTS & line.keys()):
        return False
    if line.get("status") == "failed":
        return line.keys() == _FAILED and isinstance(line["reason"], str)
    if line.get("status") not in _STATUSES or line.keys() != (_IN_SHARD if shards else _IN_FILE):
        return False
    output = line["output"]
    return (
        _is_size(line["size"]) and _is_size(line["source_size"])
        and isinstance(output, str) and output.startswith(f"{key}.") and "/" not in output[len(key) :]
        and not problem_with(output)
    )  # fmt: skip


def _is_size(value: Any) -> bool:
    """Whether this is a height and a width."""
    return isinstance(value, list) and len(value) == 2 and all(type(n) is int and 0 < n <= _LONGEST for n in value)


def _check_folder(folder: str) -> None:
    """Refuse a folder with something else in it."""
    if NAME not in (found := os.listdir(folder)) and found:
        raise ValueError(f"{printable(folder)} is not empty, and was not prepared by gpuimg; name another folder")


def _check_same(folder: str, first: Line, settings: Line) -> None:
    """Refuse to go on with something else than what was begun."""
    others = [
        f"{name}={first.get(name)!r}, not {settings.get(name)!r}"
        for name in sorted({*first, *settings})
        if first.get(name) != settings.get(name)
    ]
    if others:
        raise ValueError(f"{printable(folder)} was prepared with {', '.join(others)}; name another folder")
