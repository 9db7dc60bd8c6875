"""Keeping the C libraries' chatter off stderr, without losing what others write there.

nvImageCodec and libjpeg print to file descriptor 2 directly, whatever the verbosity. While a decode runs the
descriptor leads to memory; afterwards lines that are not theirs are passed on.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_THEIRS = re.compile(
    r"^\s*$|\[(ERROR|WARNING|INFO|DEBUG)\]|Corrupt JPEG data|Premature end of JPEG|Invalid SOS parameters|"
    r"Unsupported marker|Warning: unknown JFIF|Inconsistent progression|Application transferred too|"
    r"Failed to load nv|nvImageCodec|NVIMGCODEC|Maximum supported image|libpng|TIFF(Read|Fetch|Open)|"
    r"JPEGLib|imread_|grfmt_|OpenJPEG|exceeds the maximum|^\s*Extra bytes|extraneous bytes"
)


class _Capture:
    """The redirection itself, shared by all threads that decode at a time: the first turns it on, the last off."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._saved = -1
        self._memory = -1

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                self._saved = os.dup(2)
                self._memory = _anonymous_file()
                os.dup2(self._memory, 2)
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                os.dup2(self._saved, 2)
                os.close(self._saved)
                size = os.lseek(self._memory, 0, os.SEEK_END)
                text = os.pread(self._memory, size, 0).decode(errors="replace") if size else ""
                os.close(self._memory)
                others = "".join(line for line in text.splitlines(keepends=True) if not _THEIRS.search(line))
                if others:
                    os.write(2, others.encode())

    def position(self) -> int:
        return os.lseek(self._memory, 0, os.SEEK_END)

    def since(self, position: int) -> str:
        size = self.position() - position
        return os.pread(self._memory, max(size, 0), position).decode(errors="replace")


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("gpuimg-stderr")
    handle, path = tempfile.mkstemp()
    os.unlink(path)
    return handle


_capture = _Capture()
_one_reason_at_a_time = threading.Lock()


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the libraries' lines off stderr inside the block."""
    try:
        _capture.enter()
    except OSError:  # no descriptor 2 (a daemon): nothing to keep quiet
        yield
        return
    try:
        yield
    finally:
        _capture.leave()


@contextmanager
def listening(said: list[str]) -> Iterator[None]:
    """As :func:`quiet`, and append what the libraries said inside the block to ``said``."""
    with _one_reason_at_a_time, quiet():
        start = _capture.position()
        yield
        lines = _ANSI.sub("", _capture.since(start)).splitlines()
        said.extend(line.strip() for line in lines if line.strip() and _THEIRS.search(line))
