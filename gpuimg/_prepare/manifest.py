"""The list of what was made of which sample: written in order, and what an interrupted call goes on from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from .._decoding.file_bytes import printable
from .._index.writing import opened_alone, write_at

NAME = "manifest.jsonl"

#: What is noted of one sample.
Line: TypeAlias = "dict[str, Any]"


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
            first = _parsed(file.readline())
        if first is not None:
            _check_same(folder, first, settings)
            return len(_line(first))
        os.ftruncate(self._descriptor, 0)
        text = _line(settings)
        write_at(self._descriptor, text, 0)
        return len(text)

    def keep(self, holds: Callable[[Line], bool]) -> Iterator[Line]:
        """The lines of an earlier call, up to the first one that does not hold; those behind are taken back."""
        for text in self._lines():
            line = _parsed(text)
            if line is None or not holds(line):
                break
            self._end += len(text)
            yield line
        os.ftruncate(self._descriptor, self._end)

    def add(self, lines: Iterable[Line]) -> None:
        """Append lines."""
        text = b"".join(map(_line, lines))
        write_at(self._descriptor, text, self._end)
        self._end += len(text)

    def sync(self) -> None:
        """Have all that was added on the disk."""
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
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


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
