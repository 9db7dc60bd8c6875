"""Parts of open files, without memory maps.

A page of a mapped file that is no longer there, because the file was cut off or its disk failed, ends the process with
a signal. ``pread`` gives an error instead, releases the interpreter while it waits, and has no position that threads
could fight over.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple


class OpenFile:
    """An open file, closed when nobody holds it any more."""

    number = -1  # where opening failed

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


class Span(NamedTuple):
    """A part of an open file, which stays open as long as this lives."""

    file: OpenFile
    offset: int
    size: int

    @property
    def descriptor(self) -> int:
        """Of the file."""
        return self.file.number

    def read(self) -> bytes:
        """Exactly its bytes.

        Raises
        ------
        OSError
            Where the file cannot be read, or ends before.
        """
        data = read_at(self.descriptor, self.offset, self.size)
        if len(data) != self.size:
            reason = (
                f"{len(data)} of {self.size} bytes at offset {self.offset}: the file was cut off after it was indexed"
            )
            raise OSError(errno.EIO, reason)
        return data


def read_at(descriptor: int, offset: int, size: int) -> bytes:
    """Up to ``size`` bytes; fewer only at the end of the file."""
    data = os.pread(descriptor, size, offset)
    if len(data) == size:
        return data
    parts = [data]
    while data:  # a read may stop early: at a signal, or at 2 GiB
        size, offset = size - len(data), offset + len(data)
        data = os.pread(descriptor, size, offset)
        parts.append(data)
    return b"".join(parts)
