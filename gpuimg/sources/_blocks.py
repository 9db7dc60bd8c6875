"""Disk cache of remote files: blocks of 1 MiB in a folder that several processes may share."""

import glob
import hashlib
import os
import re
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import groupby

from .._io.open_file import open_regular, read_at, replacing

BLOCK = 1 << 20  # bytes of a block
_PIECE = 1 << 16  # bytes per checksum, so that part of a block can be verified without reading all of it
_SUM = 4  # bytes of a CRC-32
_LONGEST_RUN = 8  # neighboring blocks fetched with one request
_LOCKS = 1024
_FRESH = 60.0  # seconds; a modification time younger than this is not updated on use
_NAME = re.compile(r"[0-9a-f]{32}-\d+(\.\d+\.\d+)?")  # of a block or of its temporary file
_LEFT_OVER = 3600.0  # seconds; an older temporary file was left by a process that was killed

#: Returns the bytes of a file from a start to a stop position.
Fetch = Callable[[int, int], bytes]


def key_of(*parts: str) -> str:
    """Return the cache key of a file version: 32 hexadecimal digits."""
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def blocks_of(start: int, stop: int) -> range:
    """Return the numbers of the blocks that hold bytes ``start`` to ``stop - 1`` of a file."""
    return range(start // BLOCK, (stop - 1) // BLOCK + 1)


class Blocks:
    """A folder with one file per cached block; the least recently used blocks are evicted first.

    A block is written under a temporary name and renamed, so that other processes see it complete or not at all. Its
    bytes are followed by the CRC-32 checksums of its pieces of 64 KiB, which are verified on every read. The time of
    last use is the file's modification time.
    """

    def __init__(self, folder: str | os.PathLike[str], most: int) -> None:
        self.folder, self.most = os.fspath(folder), most
        self._slack = min(max(most // 64, BLOCK), most)  # bytes written between two scans of the folder
        self._can_write = True
        self._renew()

    def _renew(self) -> None:
        self._unscanned = self._slack  # bytes written since the last scan; the first write scans
        self._fetching = [threading.Lock() for _ in range(_LOCKS)]  # by hash of a block
        self._lock = threading.Lock()
        self._process = os.getpid()

    # -- parts of files --------------------------------------------------------------------------------------------

    def part(self, key: str, size: int, start: int, stop: int, fetch: Fetch) -> bytes:
        """Return bytes of a file of ``size`` bytes; missing blocks are fetched whole, each by only one thread."""
        if self._process != os.getpid():  # after a fork, the parent's fetching threads do not exist
            self._renew()

        def cached(block: int) -> bytes | None:
            at = block * BLOCK
            return self.get(key, block, min(BLOCK, size - at), max(start - at, 0), min(stop - at, BLOCK))

        found = {block: cached(block) for block in blocks_of(start, stop)}
        missing = [block for block, data in found.items() if data is None]
        if missing:
            with ExitStack() as stack:
                for lock in sorted({hash((key, block)) % _LOCKS for block in missing}):
                    stack.enter_context(self._fetching[lock])
                found |= {block: cached(block) for block in missing}  # another thread may have fetched it
                for run in _runs([block for block in missing if found[block] is None]):
                    first = run[0] * BLOCK
                    data = fetch(first, min((run[-1] + 1) * BLOCK, size))
                    for block in run:
                        one = data[block * BLOCK - first :][:BLOCK]
                        self.put(key, block, one)
                        found[block] = one[max(start - block * BLOCK, 0) : stop - block * BLOCK]
        return b"".join(part for part in found.values() if part is not None)

    # -- the folder ------------------------------------------------------------------------------------------------

    def _path(self, key: str, block: int) -> str:
        return os.path.join(self.folder, key[:2], f"{key}-{block}")

    def get(
        self, key: str, block: int, size: int | None = None, begin: int = 0, end: int | None = None
    ) -> bytes | None:
        """Return part of a block, or all of it; None if it is missing, damaged, or not of this size."""
        path = self._path(key, block)
        try:
            with open(path, "rb", 0, opener=open_regular) as file:
                status = os.fstat(file.fileno())
                # Bytes without the checksums: each full or partial piece takes _SUM bytes more in the file.
                found = status.st_size - _SUM * -(-status.st_size // (_PIECE + _SUM))
                if size is not None and found != size:
                    return None
                end = found if end is None else end
                first, stop = begin // _PIECE, -(-end // _PIECE)  # pieces that hold the part
                start = first * _PIECE
                data = read_at(file.fileno(), start, min(stop * _PIECE, found) - start)
                sums = read_at(file.fileno(), found + first * _SUM, (stop - first) * _SUM)
                if time.time() - status.st_mtime > _FRESH:
                    os.utime(path)
        except OSError:  # another process may remove it at any moment
            return None
        return data[begin - start : end - start] if sums == _checksums(data) and len(data) >= end - start else None

    def remove(self, key: str, block: int) -> None:
        """Remove a block; a missing file or missing permission is not an error."""
        with suppress(OSError):
            os.unlink(self._path(key, block))

    def put(self, key: str, block: int, data: bytes) -> None:
        """Store a block. An error of the disk disables the cache with a warning, and does not fail the read."""
        checksums = _checksums(data)
        if not self._can_write or len(data) + len(checksums) > self.most:
            return
        path = self._path(key, block)
        try:
            self._make_room(len(data) + len(checksums))
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            with replacing(path) as file:
                file.write(data)
                file.write(checksums)
        except OSError as error:
            self._can_write = False
            warnings.warn(f"disk cache disabled: cannot write to {self.folder}: {error}", RuntimeWarning, stacklevel=2)

    def _make_room(self, size: int) -> None:
        """Once per ``_slack`` bytes written: scan the folder and evict the least recently used blocks."""
        with self._lock:
            self._unscanned += size
            if self._unscanned < self._slack:
                return
            self._unscanned = size
        files = sorted(self._files())
        total = sum(taken for _, taken, _ in files) + size
        for used, taken, path in files:
            if "." in os.path.basename(path) and used > time.time() - _LEFT_OVER:
                continue  # another thread or process is writing it
            if total + self._slack <= self.most:
                break
            with suppress(FileNotFoundError):  # another process removed it first
                os.unlink(path)
            total -= taken

    def _files(self) -> Iterator[tuple[float, int, str]]:
        """Yield time of last use, bytes and path of each block; files of other names are ignored."""
        for path in glob.iglob(os.path.join(glob.escape(self.folder), "[0-9a-f][0-9a-f]", "*")):
            if _NAME.fullmatch(os.path.basename(path)):
                with suppress(FileNotFoundError):
                    status = os.stat(path)
                    yield status.st_mtime, status.st_size, path


def _checksums(data: bytes) -> bytes:
    """Return the CRC-32 of each piece, concatenated."""
    view = memoryview(data)
    pieces = (view[at : at + _PIECE] for at in range(0, len(data), _PIECE))
    return b"".join(zlib.crc32(piece).to_bytes(_SUM, "little") for piece in pieces)


def _runs(blocks: list[int]) -> list[list[int]]:
    """Group sorted block numbers into runs of neighbors, each fetched with one request."""
    groups = ([block for _, block in group] for _, group in groupby(enumerate(blocks), lambda pair: pair[1] - pair[0]))
    return [group[k : k + _LONGEST_RUN] for group in groups for k in range(0, len(group), _LONGEST_RUN)]
