"""Indexes that are kept in a file, so that a large data set is scanned once."""

from __future__ import annotations

import json
import os
import threading
import warnings
import zipfile
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._io.open_file import open_regular
from ._reading import OpenFiles, Path
from ._remote import is_url

Arrays: TypeAlias = "dict[str, NDArray[Any]]"

#: Given the arrays of an index and the bytes of each of its files: raises a ``ValueError`` for what cannot be one.
Check: TypeAlias = "Callable[[Arrays, NDArray[np.int64]], None]"

_MOST_ARRAYS = 16  # in a file


def kept(index: Path | None, kind: str, files: OpenFiles, build: Callable[[], Arrays], check: Check) -> Arrays:
    """Arrays that ``build`` gives, from the file ``index`` where that was made of the same shards.

    ``kind`` says what is built and how. The shards are the same if their names, sizes and times of modification are, or
    what their storage has in its place. The file is written whole or not at all, and needs no trust: it is an ``.npz``
    without pickles, no larger in memory than on disk. Arrays that ``check`` refuses are built again, with a warning.

    Raises
    ------
    ValueError
        Where ``index`` is a URL.
    """
    if index is None:
        return build()
    statuses = list(files.statuses())
    found = [(os.path.basename(path), *status) for path, status in zip(files.paths, statuses, strict=True)]
    sizes = np.array([size for size, _ in statuses], np.int64)
    return _kept(local(index, "index_cache"), _stamp(kind, found), build, lambda arrays: check(arrays, sizes))


def listing(index: Path | None, url: str, build: Callable[[], Arrays], check: Callable[[Arrays], None]) -> Arrays:
    """The listing of a folder behind a URL, from the file ``index`` where that is one of this URL."""
    if index is None:
        return build()
    return _kept(local(index, "index_cache"), _stamp("listing 2", url), build, check)


def _kept(path: str, stamp: NDArray[np.uint8], build: Callable[[], Arrays], check: Callable[[Arrays], None]) -> Arrays:
    arrays = _load(path, stamp)
    if arrays is not None:
        try:
            check(arrays)
        except ValueError as error:
            warnings.warn(f"the index {path} is damaged and is built again: {error}", RuntimeWarning, stacklevel=4)
            arrays = None
    if arrays is None:
        arrays = build()
        _save(path, stamp, arrays)
    return arrays


def expect(arrays: Arrays, name: str, dtype: Any, *shape: int) -> NDArray[Any]:
    """An array of an index, of this type and shape.

    Raises
    ------
    ValueError
        Where it is missing or another.
    """
    array = arrays.get(name)
    wanted = np.dtype(dtype)
    if array is None or array.dtype != wanted or array.shape != shape:
        found = "missing" if array is None else f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"{name!r} must be {wanted} of shape {shape}, but is {found}")
    return array


def count_of(arrays: Arrays, name: str, least: int = 1) -> int:
    """Length of an array of an index.

    Raises
    ------
    ValueError
        Where it is missing or too short.
    """
    if name not in arrays or arrays[name].size < least:
        raise ValueError(f"{name!r} is missing or empty")
    return arrays[name].size


def check_within(offset: NDArray[np.int64], size: NDArray[np.int64], limit: Any) -> None:
    """Refuse parts of files that do not lie within their files.

    Raises
    ------
    ValueError
        For the first that does not, with its numbers. No sum can overflow.
    """
    limit = np.broadcast_to(np.asarray(limit, np.int64), offset.shape)
    outside = (offset < 0) | (size < 0) | (offset > limit) | (size > limit - np.clip(offset, 0, limit))
    if outside.any():
        at = np.unravel_index(int(outside.argmax()), outside.shape)
        raise ValueError(f"sample {at[0]} has {size[at]} bytes at offset {offset[at]} of a file of {limit[at]} bytes")


def check_shards(shard: NDArray[np.int32], files: int) -> None:
    """Refuse numbers of shards that do not exist or are not in order.

    Raises
    ------
    ValueError
        With the numbers.
    """
    if shard[0] < 0 or shard[-1] >= files or (shard[1:] < shard[:-1]).any():
        raise ValueError(f"'shard' must go from 0 to {files - 1} in order, not from {shard[0]} to {shard[-1]}")


def _stamp(*words: Any) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(words).encode(), np.uint8)


def local(path: Path, what: str) -> str:
    """A path that gpuimg itself writes to.

    Raises
    ------
    ValueError
        For a URL.
    """
    name = os.fsdecode(path)
    if is_url(name):
        raise ValueError(f"{what} must be a file on this machine, not {name!r}")
    return name


def _load(path: str, stamp: NDArray[np.uint8]) -> Arrays | None:
    try:
        with open(path, "rb", opener=open_regular) as file, np.load(file, allow_pickle=False) as archive:
            members = archive.zip.infolist()
            if len(members) > _MOST_ARRAYS or any(member.compress_type != zipfile.ZIP_STORED for member in members):
                return None  # not as `_save` writes it, and perhaps far larger in memory
            if not np.array_equal(archive["stamp"], stamp):
                return None
            arrays = {name: archive[name] for name in archive.files if name != "stamp"}
            return arrays if all(isinstance(array, np.ndarray) for array in arrays.values()) else None
    except Exception:  # whatever is wrong with it, a zip file has many ways: the index is built anew
        return None


def _save(path: str, stamp: NDArray[np.uint8], arrays: Arrays) -> None:
    temporary = f"{path}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        with open(temporary, "wb") as file:
            np.savez(file, allow_pickle=False, stamp=stamp, **arrays)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
