"""Keeping the C libraries' chatter off stderr, without losing or delaying what others write there.

nvImageCodec and libjpeg print to file descriptor 2 directly, whatever the verbosity. While anything is decoded (with a
loader that is nearly always) the descriptor leads into a pipe; a thread passes on at once every line that is not
theirs, those of child processes included. It ends with the last decoding call.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ANSI = re.compile(rb"\x1b\[[0-9;]*m")
_THEIRS = re.compile(
    rb"\[(ERROR|WARNING|INFO|DEBUG)\]|Corrupt JPEG data|Premature end of JPEG|Invalid SOS parameters|"
    rb"Unsupported marker|Warning: unknown JFIF|Inconsistent progression|Application transferred too|"
    rb"Failed to load nv|nvImageCodec|NVIMGCODEC|Maximum supported image|libpng|TIFF(Read|Fetch|Open)|"
    rb"JPEGLib|imread_|grfmt_|OpenJPEG|exceeds the maximum|^\s*Extra bytes|extraneous bytes|"
    # Parts of nvImageCodec's lines, which those of two threads tear apart; libjpeg's errors (jerror.h).
    rb"_decoder(\]|[A-Z])|Could not decode|^(\x1b\[[0-9;]*m|[][ ])*(Bogus|Invalid|Unsupported|Didn't expect|"
    rb"Quantization table|Huffman table|Arithmetic table|Missing Huffman|Fractional sampling|Sorry, arithmetic|"
    rb"Input file read|Insufficient memory|Empty (input|JPEG)|Not a JPEG|CCIR601|DCT (scaling|coefficient)|"
    rb"Component index|Sampling factors|Wrong JPEG|Improper call|Requested feature|Suspension not|Too many color|"
    rb"Cannot (quantize|transcode)|Buffer passed|JPEG (parameter|datastream)|Virtual array|Width and height|"
    rb"Failed to create temp|Read from EMS|Application requires|Scan script|Progressive)"
)

# A writer that holds the GIL while the pipe is full would wait for ever: the thread needs the GIL to read.
_PIPE_BYTES = 1 << 20
_MARK = b"\x00gpuimg %d\x00\n"
_MARKED = re.compile(rb"(\x00gpuimg \d+\x00\n)")
_PARTIAL_LINE_S = 0.02  # that long a line may take to be completed: the libraries write theirs in pieces
_END_S = 1.0  # a child process may hold the pipe open; the thread then goes on without being waited for


class _Pump(threading.Thread):
    """Reads what is written to descriptor 2 and passes on what is not the libraries'."""

    def __init__(self) -> None:
        super().__init__(name="gpuimg-stderr", daemon=True)
        self._read, write = os.pipe()
        with contextlib.suppress(OSError, AttributeError):  # a limit of the system, or another system
            fcntl.fcntl(self._read, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._outside = os.dup(2)
        self._ours = _identity(write)
        os.dup2(write, 2)
        os.close(write)
        self.said: list[str] | None = None
        self._marks: dict[bytes, threading.Event] = {}
        self._dropped = False
        self.start()

    def run(self) -> None:
        rest = b""
        while True:
            if rest and not select.select([self._read], [], [], _PARTIAL_LINE_S)[0]:
                self._line(rest)  # a prompt or a progress bar
                rest = b""
                continue
            data = os.read(self._read, 1 << 16)
            if not data:
                break
            data, rest = rest + data, b""
            # A mark may come in the middle of a line that another thread writes in pieces.
            for part in _MARKED.split(data):
                if part in self._marks:
                    self._marks.pop(part).set()
                    continue
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    self._line(line + b"\n")
        self._line(rest)
        os.close(self._read)

    def _line(self, line: bytes) -> None:
        if _THEIRS.search(line):
            self._dropped = True
            if self.said is not None:
                self.said.append(_ANSI.sub(b"", line).decode(errors="replace").strip())
        elif line and not (self._dropped and not _ANSI.sub(b"", line).strip()):  # they add empty lines
            self._dropped = False
            with contextlib.suppress(OSError):  # nobody listens there
                os.write(self._outside, line)

    def drain(self) -> None:
        """Wait until what was written before has been read."""
        line = _MARK % threading.get_ident()
        seen = self._marks[line] = threading.Event()
        os.write(2, line)
        seen.wait(_END_S)

    def restore(self) -> None:
        """Lead the descriptor back, unless somebody else has led it elsewhere since."""
        with contextlib.suppress(OSError):  # closed
            if _identity(2) == self._ours:
                os.dup2(self._outside, 2)

    def finish(self) -> None:
        """Lead the descriptor back and end."""
        self.restore()
        self.join(_END_S)
        if not self.is_alive():
            os.close(self._outside)


def _identity(descriptor: int) -> tuple[int, int]:
    """What a descriptor leads to."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


class _Capture:
    """The redirection, shared by all threads that decode at a time: the first turns it on, the last off."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self.pump: _Pump | None = None

    def enter(self) -> None:
        with self._lock:
            if self.pump is None:
                self.pump = _Pump()
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self.pump is not None:
                self.pump.finish()
                self.pump = None

    def forked(self) -> None:
        """Begin anew in a forked child, which has none of the threads."""
        if self.pump is not None:
            self.pump.restore()
        self.__init__()  # type: ignore[misc]


_capture = _Capture()
_one_reason_at_a_time = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_capture.forked)


@contextmanager
def silence_stderr() -> Iterator[None]:
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
def capture_stderr(said: list[str]) -> Iterator[None]:
    """As :func:`silence_stderr`, and append what the libraries said inside the block to ``said``."""
    with _one_reason_at_a_time, silence_stderr():
        pump = _capture.pump
        if pump is None:
            yield
            return
        pump.drain()
        pump.said = said
        try:
            yield
        finally:
            pump.drain()
            pump.said = None
