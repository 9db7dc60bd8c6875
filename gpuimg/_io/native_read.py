"""Reading chunks of files, or of parts of open files, in one call without the GIL."""

import ctypes
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cache
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .file_bytes import MAX_BYTES, OwnBytes, read_descriptor
from .open_file import Span, read_at

# The native calls need 64-bit Linux with glibc 2.28 or later; elsewhere Python reads.
NATIVE = sys.platform == "linux" and sys.maxsize > 1 << 32 and hasattr(ctypes.CDLL(None), "statx")

FIRST_ROOM = 1 << 20  # bytes of buffer for a chunk of unknown size
_LEAST_ROOM = 1 << 16
_MOST_ROOM = 8 << 20  # larger files get a separate buffer: a small file must not keep a large one's memory alive
_LARGEST = 1 << 30  # bytes; Python reads larger parts
LINE = 64  # alignment of parts in memory, in bytes

#: A file by its path, as a string or in the system's encoding, or a part of an open one.
Place: TypeAlias = str | os.PathLike[str] | bytes | Span


class ChunkReader:
    """Reader of several places at once."""

    def __init__(self, room: int = FIRST_ROOM, max_bytes: int = MAX_BYTES) -> None:
        self.room = room  # bytes of a buffer that should hold all files of the next chunk
        self.max_bytes = max_bytes  # larger files and parts are not read
        self.seconds = self.cpu = 0.0  # reading time so far, without waits for the GIL; CPU time of this thread

    def read(self, places: Sequence[Place]) -> list[Any]:
        """Return the bytes of each place as ``OwnBytes`` or ``bytes``; None if Python should read or refuse it."""
        found: list[Any] = [None] * len(places)
        if not NATIVE:
            return found
        names: dict[int, bytes] = {}
        spans: dict[int, Span] = {}
        for k, place in enumerate(places):
            if not isinstance(place, (bytes, str, os.PathLike)):
                spans[k] = place
            elif (name := _encoded(place)) is not None:
                names[k] = name
        if names:
            self._read_files(names, found)
        if spans:
            self._read_spans(spans, found)
        return found

    def _read_files(self, names: dict[int, bytes], found: list[Any]) -> None:
        from ..kernels.cpu.files import STATUS_WORDS, read_files  # imports Numba: only when it is used

        text = np.frombuffer(b"\0".join([*names.values(), b""]), np.uint8)
        out, table = np.empty(self.room, np.uint8), np.empty((len(names), 3), np.int64)
        self._call(read_files, text, out, table, np.empty(STATUS_WORDS, np.int64))
        rows = table.tolist()
        files = [(k, *row) for k, row in zip(names, rows, strict=True)]
        read = [(k, begin, begin + size) for k, descriptor, begin, size in files if descriptor < 0 <= size]
        opened = [(k, descriptor, size) for k, descriptor, _, size in files if descriptor >= 0]
        with ExitStack() as still_open:
            for _, descriptor, _ in opened:
                still_open.callback(os.close, descriptor)
            out.resize(read[-1][2] if read else 0, refcheck=False)  # release the unused end
            own = out.view(OwnBytes)
            for k, begin, end in read:
                if end - begin <= self.max_bytes:
                    found[k] = own[begin:end]
            for k, descriptor, size in opened:
                found[k] = self._read_opened(descriptor, size)
        wanted = sum(size + LINE for _, _, size in rows if 0 <= size < _MOST_ROOM)
        self.room = min(max(2 * wanted, _LEAST_ROOM), _MOST_ROOM)

    def _read_opened(self, descriptor: int, size: int) -> Any:
        """Read an open file into a separate buffer; return None if it cannot be read."""
        if size > self.max_bytes:
            return None
        if 0 < size < _LARGEST:
            (data,) = self._read_parts([(descriptor, 0, size + 1)])
            if data.size == size:
                return data
        start, cpu = time.perf_counter(), time.thread_time()
        try:
            return read_descriptor(descriptor, self.max_bytes)
        except (OSError, ValueError):
            return None
        finally:
            self.add(time.perf_counter() - start, time.thread_time() - cpu)

    def _read_spans(self, spans: dict[int, Span], found: list[Any]) -> None:
        """Read spans: small ones together, large ones separately."""
        sizes = {k: span.size for k, span in spans.items() if 0 <= span.size <= min(self.max_bytes, _LARGEST)}
        small = [k for k, size in sizes.items() if size < _MOST_ROOM]
        large = [[k] for k, size in sizes.items() if size >= _MOST_ROOM]
        for part in [small, *large] if small else large:
            several = [spans[k] for k in part]
            read = self._read_parts([(one.descriptor, one.offset, one.size) for one in several])
            for k, one, data in zip(part, several, read, strict=True):
                found[k] = data if data.size == one.size else None

    def _read_parts(self, parts: Sequence[tuple[int, int, int]]) -> list[Any]:
        """Return the available bytes of parts of open files, each given as descriptor, offset and size."""
        begins = [0, *accumulate(max(size + -size % LINE, 0) for _, _, size in parts)]
        out = np.empty(begins.pop(), np.uint8)
        table = np.array([(*part, begin) for part, begin in zip(parts, begins, strict=True)], np.int64).reshape(-1, 4)
        self.fill(table, out)
        own = out.view(OwnBytes)
        return [own[begin : begin + max(size, 0)] for _, _, size, begin in table.tolist()]

    def fill(self, table: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """Read parts of open files into ``out``.

        ``table`` (N, 4) holds descriptors, offsets, sizes and positions in ``out``. Each size is replaced by the number
        of bytes read, or by -1 if they cannot be read or do not lie within ``out``.
        """
        if NATIVE:
            from ..kernels.cpu.files import read_parts

            self._call(read_parts, table, out)
            return
        start, cpu = time.perf_counter(), time.thread_time()
        for row, (descriptor, offset, size, begin) in enumerate(table.tolist()):
            table[row, 2] = -1
            if offset < 0 or not 0 <= begin <= out.size or not 0 <= size <= out.size - begin:
                continue
            with suppress(OSError):
                data = read_at(descriptor, offset, size)
                table[row, 2] = len(data)
                out[begin : begin + len(data)] = np.frombuffer(data, np.uint8)
        self.add(time.perf_counter() - start, time.thread_time() - cpu)

    def _call(self, function: Any, *arguments: NDArray[Any]) -> None:
        clock, cpu = np.zeros(2, np.int64), time.thread_time()
        function(*arguments, clock)
        seconds = 1e-9 * float(clock[0])
        self.add(seconds, min(time.thread_time() - cpu, seconds))  # CPU time of a first call includes compilation

    def add(self, seconds: float, cpu: float) -> None:
        """Add seconds of reading."""
        self.seconds += seconds
        self.cpu += cpu


@cache
def prepare() -> None:
    """Compile the native loops, or load them from disk, before anything is timed. Runs once."""
    if NATIVE:
        reader = ChunkReader()
        reader.read([os.devnull])
        reader._read_parts([])


def _encoded(path: str | os.PathLike[str] | bytes) -> bytes | None:
    """Return a path in the system's encoding; None if it cannot be a path."""
    try:
        name = path if isinstance(path, bytes) else os.fsencode(path)
    except UnicodeError:
        return None
    return None if b"\0" in name else name
