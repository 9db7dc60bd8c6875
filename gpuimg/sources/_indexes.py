"""Indexes that are kept in a file, so that a large data set is scanned once."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._reading import OpenFiles, Path
from ._remote import is_url

Arrays: TypeAlias = "dict[str, NDArray[Any]]"


def kept(index: Path | None, kind: str, files: OpenFiles, build: Callable[[], Arrays]) -> Arrays:
    """Arrays that ``build`` gives, from the file ``index`` where that was made of the same shards.

    ``kind`` says what is built and how. The shards are the same if their names, sizes and times of modification are, or
    what their storage has in its place. The file is written whole or not at all, and needs no trust: it is an ``.npz``
    without pickles.

    Raises
    ------
    ValueError
        Where ``index`` is a URL.
    """
    if index is None:
        return build()
    return _kept(local(index, "index_cache"), _stamp(kind, files), build)


def listing(index: Path | None, url: str, build: Callable[[], Arrays]) -> Arrays:
    """The listing of a folder behind a URL, from the file ``index`` where that is one of this URL."""
    if index is None:
        return build()
    stamp = np.frombuffer(json.dumps(["listing 1", url]).encode(), np.uint8)
    return _kept(local(index, "index_cache"), stamp, build)


def _kept(path: str, stamp: NDArray[np.uint8], build: Callable[[], Arrays]) -> Arrays:
    arrays = _load(path, stamp)
    if arrays is None:
        arrays = build()
        _save(path, stamp, arrays)
    return arrays


def _stamp(kind: str, files: OpenFiles) -> NDArray[np.uint8]:
    found = [(os.path.basename(path), *status) for path, status in zip(files.paths, files.statuses(), strict=True)]
    return np.frombuffer(json.dumps([kind, found]).encode(), np.uint8)


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
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            if not np.array_equal(archive["stamp"], stamp):
                return None
            return {name: archive[name] for name in archive.files if name != "stamp"}
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
