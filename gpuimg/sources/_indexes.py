"""Indexes that are kept in a file, so that a large data set is scanned once."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._reading import Path

Arrays: TypeAlias = "dict[str, NDArray[Any]]"


def kept(index: Path | None, kind: str, paths: Sequence[str], build: Callable[[], Arrays]) -> Arrays:
    """Arrays that ``build`` gives, from the file ``index`` where that was made of the same shards.

    ``kind`` says what is built and how. The shards are the same if their names, sizes and times of modification are.
    The file is written whole or not at all, and needs no trust: it is an ``.npz`` without pickles.
    """
    if index is None:
        return build()
    path = os.fsdecode(index)
    stamp = _stamp(kind, paths)
    arrays = _load(path, stamp)
    if arrays is None:
        arrays = build()
        _save(path, stamp, arrays)
    return arrays


def _stamp(kind: str, paths: Sequence[str]) -> NDArray[np.uint8]:
    found = [(os.path.basename(path), os.stat(path)) for path in paths]
    files = [(name, status.st_size, status.st_mtime_ns) for name, status in found]
    return np.frombuffer(json.dumps([kind, files]).encode(), np.uint8)


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
