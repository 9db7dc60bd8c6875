"""Index caches: files with the index or listing of a data set, so that it is scanned only once."""

import errno
import json
import math
import os
import struct
import warnings
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterable
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._io.open_file import OpenFile, naming_file, open_regular, read_at, replacing
from ._reading import OpenFiles, Path
from ._remote import Status, local

Arrays: TypeAlias = dict[str, Any]  # of ndarray, or Column

#: Called with the arrays of an index and the size of each shard in bytes; raises ``ValueError`` for invalid arrays.
Check: TypeAlias = Callable[[Arrays, NDArray[np.int64]], None]

_MOST_ARRAYS = 16  # arrays per file; the largest index has 7
_MOST_NAMES = 64  # samples whose names are in the checksum
_LOADED = 64 << 20  # bytes of an index file; arrays of larger ones stay in the file
_LOOKED_AT = 1024  # rows of such an array that are checked


def cached_index(index: Path | None, kind: str, files: OpenFiles, build: Callable[[], Arrays], check: Check) -> Arrays:
    """Return the arrays of the cache file ``index`` if it belongs to the same shards, else build and store them.

    ``kind`` names the format and the options of the index. Shards are the same if their names are equal and, for local
    ones, sizes and modification times. Remote shards are not asked for theirs, which would be a request for each shard
    and process: they must have the versions in the index when they are read. The cache file is written atomically and
    is not trusted: it is an ``.npz`` without pickles, no larger in memory than on disk. Arrays that ``check`` rejects
    are built again, with a warning; of large ones it sees some rows, and the others are checked when they are used.
    """
    found = [(os.path.basename(path), *files.local_status(k)) for k, path in enumerate(files.paths)]

    def built() -> Arrays:
        arrays, versions = build(), json.dumps([(k, *status) for k, status in files.known()]).encode()
        return arrays | {"remote": np.frombuffer(versions, np.uint8)}

    def checked(arrays: Arrays) -> None:
        versions = _versions(arrays)
        if versions.keys() != {k for k, one in enumerate(found) if len(one) == 1}:
            raise ValueError("'remote' must have the versions of all remote files")
        sizes = [versions[k].size if k in versions else one[1] for k, one in enumerate(found)]
        check(arrays, np.array(sizes, np.int64))
        files.know(versions)

    return cached_arrays(index, "index_cache", (kind, found), built, checked, in_file=True)


def cached_arrays(
    cache: Path | None,
    name: str,
    identity: tuple[Any, ...],
    build: Callable[[], Arrays],
    check: Callable[[Arrays], None],
    in_file: bool = False,
) -> Arrays:
    """Return the arrays of a cache file if they were stored with this identity, else build and store them.

    ``name`` is that of the argument ``cache``; without one nothing is stored. With ``in_file``, arrays of large files
    are :class:`Column`.
    """
    if cache is None:
        return build()
    path, stamp = local(cache, name), np.frombuffer(json.dumps(identity).encode(), np.uint8)
    arrays = _load(path, stamp, in_file)
    if arrays is not None:
        try:
            check(arrays)
        except ValueError as error:
            warnings.warn(
                f"the index cache {path} is damaged and is built again: {error}", RuntimeWarning, stacklevel=4
            )
            arrays = None
    if arrays is None:
        arrays = build()
        with naming_file(path), replacing(path) as file:
            np.savez(file, allow_pickle=False, stamp=stamp, **arrays)
        if in_file and os.path.getsize(path) > _LOADED:
            arrays = _load(path, stamp, in_file) or arrays
    return arrays


class Column:
    """An array that stays in an index file: rows are read when they are used, and shared by the system's cache."""

    def __init__(self, file: OpenFile, path: str, start: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._file, self._place, self.dtype, self.shape = file, (path, start, _version(file)), dtype, shape

    def __getstate__(self) -> tuple[Any, ...]:
        return self._place, self.dtype, self.shape

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._place, self.dtype, self.shape = state
        self._file = OpenFile(self._place[0])
        if _version(self._file) != self._place[2]:
            raise OSError(errno.ESTALE, "the index cache was replaced; open the source again", self._place[0])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __getitem__(self, at: int | slice) -> Any:
        start, stop, _ = at.indices(len(self)) if isinstance(at, slice) else (at % len(self), at % len(self) + 1, 1)
        row = self.dtype.itemsize * math.prod(self.shape[1:])
        path, first, _ = self._place
        data = read_at(self._file.number, first + start * row, (stop - start) * row)
        if len(data) != (stop - start) * row:
            raise OSError(errno.EIO, "the index cache was cut off", path)
        rows = np.frombuffer(data, self.dtype).reshape(-1, *self.shape[1:])
        return rows if isinstance(at, slice) else rows[0]

    def some(self) -> NDArray[Any]:
        """Return rows at equal distances, with the first and the last."""
        return np.array([self[k] for k in spread(len(self), _LOOKED_AT)])


def _version(file: OpenFile) -> tuple[int, int]:
    status = os.fstat(file.number)
    return status.st_size, status.st_mtime_ns


def _versions(arrays: Arrays) -> dict[int, Status]:
    """Return the versions that remote files had when an index was built."""
    try:
        found = json.loads(arrays["remote"][:].tobytes()) if "remote" in arrays else []
        return {int(k): Status(int(size), str(mark)) for k, size, mark in found}
    except TypeError as error:
        raise ValueError(f"'remote' must be a list of file, size and version: {error}") from error


def expect(arrays: Arrays, name: str, dtype: Any, *shape: int) -> NDArray[Any]:
    """Return an array of an index, of a :class:`Column` some rows; raise ValueError for another type or shape."""
    found, wanted = arrays.get(name), np.dtype(dtype)
    if found is None or found.dtype != wanted or found.shape != shape:
        what = "missing" if found is None else f"{found.dtype} of shape {found.shape}"
        raise ValueError(f"{name!r} must be {wanted} of shape {shape}, but is {what}")
    return found.some() if isinstance(found, Column) else found


def count_of(arrays: Arrays, name: str, least: int = 1) -> int:
    """Return the length of an array of an index; raise ValueError if it is missing or too short."""
    if name not in arrays or arrays[name].size < least:
        raise ValueError(f"{name!r} is missing or empty")
    return int(arrays[name].size)


def expect_shards(arrays: Arrays, n: int, files: int) -> NDArray[np.int32]:
    """Return the numbers of the files of ``n`` parts, which must be in order."""
    shard = expect(arrays, "shard", np.int32, n)
    if shard[0] < 0 or shard[-1] >= files or (shard[1:] < shard[:-1]).any():
        raise ValueError(f"'shard' must go from 0 to {files - 1} in order, not from {shard[0]} to {shard[-1]}")
    return shard


def check_within(offset: NDArray[np.int64], size: NDArray[np.int64], limit: Any) -> None:
    """Reject parts that are not within their files, naming the first one; no sum can overflow."""
    limit = np.broadcast_to(np.asarray(limit, np.int64), offset.shape)
    outside = (offset < 0) | (size < 0) | (offset > limit) | (size > limit - np.clip(offset, 0, limit))
    if outside.any():
        at = np.unravel_index(int(outside.argmax()), outside.shape)
        raise ValueError(f"sample {at[0]} has {size[at]} bytes at offset {offset[at]} of a file of {limit[at]} bytes")


def check_parts(arrays: Arrays, sizes: NDArray[np.int64], *columns: int) -> None:
    """Reject arrays that do not give parts of files of these sizes, in order."""
    n = count_of(arrays, "shard")
    shard = expect_shards(arrays, n, sizes.size)
    offset, size = (expect(arrays, name, np.int64, n, *columns) for name in ("offset", "size"))
    check_within(offset, size, sizes[shard].reshape(-1, *[1] * len(columns)))


class Names:
    """Byte strings in one blob: 8 bytes of overhead for each, where a list of ``str`` takes 60 to 100."""

    def __init__(self, names: Iterable[bytes]) -> None:
        blob, ends = bytearray(), array("q", [0])
        for name in names:
            blob += name
            ends.append(len(blob))
        self.blob: Any = bytes(blob)
        self.ends: Any = np.array(ends, np.int64)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, i: int) -> bytes:
        return bytes(self.blob[int(self.ends[i]) : int(self.ends[i + 1])])

    def arrays(self) -> Arrays:
        """Return the names as arrays for an index file."""
        return {"names": np.frombuffer(self.blob, np.uint8), "ends": self.ends}

    @classmethod
    def of(cls, arrays: Arrays) -> "Names":
        """Rebuild names from the result of ``arrays``."""
        found = cls(())
        found.blob, found.ends = arrays["names"], arrays["ends"]
        return found


def check_names(arrays: Arrays, count: int) -> None:
    """Reject arrays that are not those of ``count`` :class:`Names`."""
    ends = expect(arrays, "ends", np.int64, count + 1)
    expect(arrays, "names", np.uint8, int(ends[-1]))
    if ends[0] != 0 or (ends[1:] < ends[:-1]).any():
        raise ValueError(f"'ends' must go from 0 to {ends[-1]} in order")


def _load(path: str, stamp: NDArray[np.uint8], in_file: bool) -> Arrays | None:
    try:
        with open(path, "rb", opener=open_regular) as file, np.load(file, allow_pickle=False) as archive:
            members = archive.zip.infolist()
            if len(members) > _MOST_ARRAYS or any(member.compress_type != zipfile.ZIP_STORED for member in members):
                return None  # not written by `_save`; a compressed member may be far larger in memory
            if not np.array_equal(archive["stamp"], stamp):
                return None
            if in_file and os.fstat(file.fileno()).st_size > _LOADED:
                kept = OpenFile(path)
                return {member.filename.removesuffix(".npy"): _column(kept, path, file, member) for member in members}
            arrays = {name: archive[name] for name in archive.files if name != "stamp"}
            return arrays if all(isinstance(one, np.ndarray) for one in arrays.values()) else None
    except Exception:  # a zip file may be damaged in many ways: the index is built again
        return None


def _column(kept: OpenFile, path: str, file: IO[bytes], member: zipfile.ZipInfo) -> Any:
    """Return the array of a member of an index file."""
    file.seek(member.header_offset)
    name, extra = struct.unpack("<26xHH", file.read(30))  # lengths in the header before the member
    file.seek(member.header_offset + 30 + name + extra)
    np.lib.format.read_magic(file)
    shape, columns_first, dtype = np.lib.format.read_array_header_1_0(file)
    if columns_first or dtype.hasobject:
        raise ValueError(f"{member.filename} is not an array that this package writes")
    return Column(kept, path, file.tell(), dtype, shape)


def spread(n: int, most: int) -> list[int]:
    """Return at most so many of ``n`` numbers, at equal distances, with the first and the last."""
    return sorted({k * (n - 1) // (most - 1) for k in range(most)})


def checksum_of_names(source: Any) -> int:
    """Return the CRC-32 of the names of some samples, including the first and the last; 0 if they have none.

    The part of a name up to its last slash is left out, so that a data set may be moved.
    """
    describe = getattr(source, "describe", None)
    if describe is None or not len(source):
        return 0
    try:
        names = [str(describe(i)).rpartition("/")[2] for i in spread(len(source), _MOST_NAMES)]
    except Exception:  # `describe` may fail for some samples
        return 0
    return zlib.crc32("\0".join(names).encode("utf-8", "backslashreplace"))
