"""Index caches: files with the index or listing of a data set, so that it is scanned only once."""

import json
import os
import warnings
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._io.open_file import naming_file, open_regular, replacing
from ._reading import OpenFiles, Path
from ._remote import local

Arrays: TypeAlias = dict[str, NDArray[Any]]

#: Called with the arrays of an index and the size of each shard in bytes; raises ``ValueError`` for invalid arrays.
Check: TypeAlias = Callable[[Arrays, NDArray[np.int64]], None]

_MOST_ARRAYS = 16  # arrays per file; the largest index has 7
_MOST_NAMES = 64  # samples whose names are in the checksum


def cached_index(index: Path | None, kind: str, files: OpenFiles, build: Callable[[], Arrays], check: Check) -> Arrays:
    """Return the arrays of the cache file ``index`` if it belongs to the same shards, else build and store them.

    ``kind`` names the format and the options of the index. Shards are the same if their names, sizes and modification
    times are equal; for remote shards, the version that their storage reports. The cache file is written atomically and
    is not trusted: it is an ``.npz`` without pickles, no larger in memory than on disk. Arrays that ``check`` rejects
    are built again, with a warning.
    """
    if index is None:
        return build()
    statuses = list(files.statuses())
    found = [(os.path.basename(path), *status) for path, status in zip(files.paths, statuses, strict=True)]
    sizes = np.array([size for size, _ in statuses], np.int64)
    return cached_arrays(index, "index_cache", (kind, found), build, lambda arrays: check(arrays, sizes))


def cached_arrays(
    cache: Path | None,
    name: str,
    identity: tuple[Any, ...],
    build: Callable[[], Arrays],
    check: Callable[[Arrays], None],
) -> Arrays:
    """Return the arrays of a cache file if they were stored with this identity, else build and store them.

    ``name`` is that of the argument ``cache``; without one nothing is stored.
    """
    if cache is None:
        return build()
    path, stamp = local(cache, name), np.frombuffer(json.dumps(identity).encode(), np.uint8)
    arrays = _load(path, stamp)
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
    return arrays


def expect(arrays: Arrays, name: str, dtype: Any, *shape: int) -> NDArray[Any]:
    """Return an array of an index; raise ValueError if it is missing or has another type or shape."""
    found, wanted = arrays.get(name), np.dtype(dtype)
    if found is None or found.dtype != wanted or found.shape != shape:
        what = "missing" if found is None else f"{found.dtype} of shape {found.shape}"
        raise ValueError(f"{name!r} must be {wanted} of shape {shape}, but is {what}")
    return found


def count_of(arrays: Arrays, name: str, least: int = 1) -> int:
    """Return the length of an array of an index; raise ValueError if it is missing or too short."""
    if name not in arrays or arrays[name].size < least:
        raise ValueError(f"{name!r} is missing or empty")
    return arrays[name].size


def check_within(offset: NDArray[np.int64], size: NDArray[np.int64], limit: Any) -> None:
    """Reject parts that are not within their files, naming the first one; no sum can overflow."""
    limit = np.broadcast_to(np.asarray(limit, np.int64), offset.shape)
    outside = (offset < 0) | (size < 0) | (offset > limit) | (size > limit - np.clip(offset, 0, limit))
    if outside.any():
        at = np.unravel_index(int(outside.argmax()), outside.shape)
        raise ValueError(f"sample {at[0]} has {size[at]} bytes at offset {offset[at]} of a file of {limit[at]} bytes")


def check_parts(arrays: Arrays, sizes: NDArray[np.int64], *columns: int, tail: int = 0) -> None:
    """Reject arrays that do not give parts of files of these sizes, in order, each with ``tail`` bytes after it."""
    n, files = count_of(arrays, "shard"), sizes.size
    shard = expect(arrays, "shard", np.int32, n)
    if shard[0] < 0 or shard[-1] >= files or (shard[1:] < shard[:-1]).any():
        raise ValueError(f"'shard' must go from 0 to {files - 1} in order, not from {shard[0]} to {shard[-1]}")
    offset, size = (expect(arrays, name, np.int64, n, *columns) for name in ("offset", "size"))
    check_within(offset, size, (sizes[shard] - tail).reshape(-1, *[1] * len(columns)))


class Names:
    """Byte strings in one blob: 8 bytes of overhead for each, where a list of ``str`` takes 60 to 100."""

    def __init__(self, names: Iterable[bytes]) -> None:
        blob, ends = bytearray(), array("q", [0])
        for name in names:
            blob += name
            ends.append(len(blob))
        self.blob = bytes(blob)
        self.ends = np.array(ends, np.int64)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, i: int) -> bytes:
        return self.blob[self.ends[i] : self.ends[i + 1]]

    def arrays(self) -> Arrays:
        """Return the names as arrays for an index file."""
        return {"names": np.frombuffer(self.blob, np.uint8), "ends": self.ends}

    @classmethod
    def of(cls, arrays: Arrays) -> "Names":
        """Rebuild names from the result of ``arrays``."""
        found = cls(())
        found.blob, found.ends = arrays["names"].tobytes(), arrays["ends"].astype(np.int64)
        return found


def check_names(arrays: Arrays, count: int) -> None:
    """Reject arrays that are not those of ``count`` :class:`Names`."""
    ends = expect(arrays, "ends", np.int64, count + 1)
    expect(arrays, "names", np.uint8, int(ends[-1]))
    if ends[0] != 0 or (ends[1:] < ends[:-1]).any():
        raise ValueError(f"'ends' must go from 0 to {ends[-1]} in order")


def _load(path: str, stamp: NDArray[np.uint8]) -> Arrays | None:
    try:
        with open(path, "rb", opener=open_regular) as file, np.load(file, allow_pickle=False) as archive:
            members = archive.zip.infolist()
            if len(members) > _MOST_ARRAYS or any(member.compress_type != zipfile.ZIP_STORED for member in members):
                return None  # not written by `_save`; a compressed member may be far larger in memory
            if not np.array_equal(archive["stamp"], stamp):
                return None
            arrays = {name: archive[name] for name in archive.files if name != "stamp"}
            return arrays if all(isinstance(one, np.ndarray) for one in arrays.values()) else None
    except Exception:  # a zip file may be damaged in many ways: the index is built again
        return None


def checksum_of_names(source: Any) -> int:
    """Return the CRC-32 of the names of some samples, including the first and the last; 0 if they have none.

    The part of a name up to its last slash is left out, so that a data set may be moved.
    """
    describe = getattr(source, "describe", None)
    if describe is None or not len(source):
        return 0
    some = sorted({k * (len(source) - 1) // (_MOST_NAMES - 1) for k in range(_MOST_NAMES)})
    try:
        names = [str(describe(i)).rpartition("/")[2] for i in some]
    except Exception:  # `describe` may fail for some samples
        return 0
    return zlib.crc32("\0".join(names).encode("utf-8", "backslashreplace"))
