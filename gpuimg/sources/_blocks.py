"""Parts of remote files that are kept on the local disk: blocks, in a folder that several processes may share."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from itertools import groupby

from .._io.open_file import open_regular, read_at

BLOCK = 1 << 20  # bytes; several that are missing are fetched together
_PIECE = 1 << 16  # bytes with a checksum, so that a part of a block is verified without reading all of it
_SUM = 4  # bytes of a checksum
_LONGEST_RUN = 8  # blocks of one request
_FRESH = 60.0  # seconds for which the last use of a block is not written down again
_NAME = re.compile(r"[0-9a-f]{32}-\d+(\.\d+\.\d+)?")  # of a block, or of one that is being written
_LEFT_OVER = 3600.0  # seconds after which a file that nobody finished is of a process that was killed

#: Gives the bytes of a file from one position to another.
Fetch = Callable[[int, int], bytes]


def key_of(*words: str) -> str:
    """A name for a version of a file."""
    return hashlib.blake2b("\0".join(words).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def blocks_of(start: int, stop: int) -> range:
    """Numbers of the blocks in which bytes of a file lie."""
    return range(start // BLOCK, (stop - 1) // BLOCK + 1)


class Blocks:
    """Blocks of files, each in a file of its own; those not used for longest make room for others.

    A block is written to another name and then renamed, so that it is there whole or not at all, whoever else writes
    or removes it. After its bytes come the CRC-32 checksums of its pieces, which are verified whenever it is read.
    """

    def __init__(self, folder: str | os.PathLike[str], most: int) -> None:
        self.folder, self.most = os.fspath(folder), most
        self._slack = min(max(most // 64, BLOCK), most)  # bytes that are written between two looks at what is there
        self._works = True
        self._renew()

    def _renew(self) -> None:
        self._unseen = self._slack  # so that the first write looks
        self._flights: dict[tuple[str, int], Future[bytes]] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    # -- parts of files --------------------------------------------------------------------------------------------

    def part(self, key: str, size: int, start: int, stop: int, fetch: Fetch) -> bytes:
        """Bytes of a file of ``size`` bytes; what is missing is fetched in whole blocks, each by one thread."""
        if self._process != os.getpid():  # a fork: the threads that fetch for the parent are not here
            self._renew()
        found: dict[int, bytes] = {}
        for block in blocks_of(start, stop):
            begin = max(start - block * BLOCK, 0)
            end = min(stop - block * BLOCK, BLOCK)
            data = self.get(key, block, min(BLOCK, size - block * BLOCK), begin, end)
            if data is not None:
                found[block] = data
        missing = [block for block in blocks_of(start, stop) if block not in found]
        for block, data in self._fetched(key, size, missing, fetch).items():
            found[block] = data[max(start - block * BLOCK, 0) : stop - block * BLOCK]
        return b"".join(found[block] for block in sorted(found))

    def _fetched(self, key: str, size: int, missing: list[int], fetch: Fetch) -> dict[int, bytes]:
        """Blocks that are not there, fetched here or waited for where another thread does."""
        if not missing:
            return {}
        own: dict[int, Future[bytes]] = {}
        others: dict[int, Future[bytes]] = {}
        with self._lock:
            for block in missing:
                flight = self._flights.get((key, block))
                if flight is None:
                    own[block] = self._flights[key, block] = Future()
                else:
                    others[block] = flight
        try:
            for run in _runs(sorted(own)):
                first = run[0] * BLOCK
                data = fetch(first, min((run[-1] + 1) * BLOCK, size))
                for block in run:
                    one = data[block * BLOCK - first :][:BLOCK]
                    self.put(key, block, one)
                    own[block].set_result(one)
        except BaseException as error:
            for future in own.values():
                if not future.done():
                    future.set_exception(error)
            raise
        finally:
            with self._lock:
                for block in own:
                    del self._flights[key, block]
        return {block: future.result() for block, future in (own | others).items()}

    # -- the folder ------------------------------------------------------------------------------------------------

    def _path(self, key: str, block: int) -> str:
        return os.path.join(self.folder, key[:2], f"{key}-{block}")

    def get(
        self, key: str, block: int, size: int | None = None, begin: int = 0, end: int | None = None
    ) -> bytes | None:
        """A part of a block, or all of it; None where it is not there, damaged, or not of this size."""
        path = self._path(key, block)
        try:
            with open(path, "rb", 0, opener=open_regular) as file:
                status = os.fstat(file.fileno())
                found = status.st_size - _SUM * -(-status.st_size // (_PIECE + _SUM))
                if size is not None and found != size:
                    return None
                end = found if end is None else end
                first, stop = begin // _PIECE, -(-end // _PIECE)
                start = first * _PIECE
                data = read_at(file.fileno(), start, min(stop * _PIECE, found) - start)
                sums = read_at(file.fileno(), found + first * _SUM, (stop - first) * _SUM)
                if time.time() - status.st_mtime > _FRESH:
                    os.utime(path)
        except OSError:  # another process may remove it at any moment
            return None
        return data[begin - start : end - start] if sums == _checksums(data) and len(data) >= end - start else None

    def remove(self, key: str, block: int) -> None:
        """Remove a block, if it is there and this process may."""
        with suppress(OSError):
            os.unlink(self._path(key, block))

    def put(self, key: str, block: int, data: bytes) -> None:
        """Keep a block. A disk that is full or cannot be written to is no error: a warning says that keeping ends."""
        checksums = _checksums(data)
        if not self._works or len(data) + len(checksums) > self.most:
            return
        path = self._path(key, block)
        temporary = f"{path}.{os.getpid()}.{threading.get_ident()}"
        try:
            self._make_room(len(data) + len(checksums))
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            try:
                with open(temporary, "wb") as file:
                    file.write(data)
                    file.write(checksums)
                os.replace(temporary, path)
            except BaseException:
                if os.path.exists(temporary):
                    os.unlink(temporary)
                raise
        except OSError as error:
            self._works = False
            warnings.warn(f"nothing more is kept in {self.folder}: {error}", RuntimeWarning, stacklevel=2)

    def _make_room(self, size: int) -> None:
        """Now and then: look at what is there, and remove what was not used for longest."""
        with self._lock:
            self._unseen += size
            if self._unseen < self._slack:
                return
            self._unseen = size
        files = sorted(self._files())
        total = sum(taken for _, taken, _ in files) + size
        for used, taken, path in files:
            if "." in os.path.basename(path) and used > time.time() - _LEFT_OVER:
                continue  # is being written
            if total + self._slack <= self.most:
                break
            with suppress(FileNotFoundError):  # another process was first
                os.unlink(path)
            total -= taken

    def _files(self) -> Iterator[tuple[float, int, str]]:
        """When each block was last used, its bytes, and where it is; nothing else that may be in the folder."""
        if not os.path.isdir(self.folder):
            return
        for name in os.listdir(self.folder):
            inner = os.path.join(self.folder, name)
            if not re.fullmatch("[0-9a-f]{2}", name) or not os.path.isdir(inner):
                continue
            with os.scandir(inner) as entries:
                for entry in entries:
                    if _NAME.fullmatch(entry.name):
                        with suppress(FileNotFoundError):
                            status = entry.stat()
                            yield status.st_mtime, status.st_size, entry.path


def _checksums(data: bytes) -> bytes:
    """The checksum of each piece."""
    view = memoryview(data)
    pieces = (view[at : at + _PIECE] for at in range(0, len(data), _PIECE))
    return b"".join(zlib.crc32(piece).to_bytes(_SUM, "little") for piece in pieces)


def _runs(blocks: list[int]) -> list[list[int]]:
    """Blocks that lie side by side, as many as one request may ask for."""
    groups = ([block for _, block in group] for _, group in groupby(enumerate(blocks), lambda pair: pair[1] - pair[0]))
    return [group[k : k + _LONGEST_RUN] for group in groups for k in range(0, len(group), _LONGEST_RUN)]
