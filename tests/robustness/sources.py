"""Damaged data sets: index files, databases and record files, whose numbers say where samples lie.

A damaged data set is refused, or read: each sample is a part of its file, and the same by itself and among others. A
damaged index changes nothing.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._io.native_read import ChunkReader
from gpuimg.sources import Table

from ..data_sets import FILES
from ..decoding.jpegs import Guarded
from ..sources.writers import archive, framed, masked, packed, record, write_lmdb
from .mutate import NUMBERS, Draw, changed

_DTYPES = tuple(map(np.dtype, ("i1", "u1", "i4", "u8", "f8", ">i8", "?", "M8[s]")))


def _tfrecord(path: Any, **options: Any) -> Table:
    return gi.tfrecord(path, image=None, **options)


#: What opens each kind that can keep an index.
OPENERS: dict[str, Callable[..., Table]] = {"recordio": gi.recordio, "tar": gi.tar, "tfrecord": _tfrecord}
_ALL: dict[str, Callable[..., Table]] = {**OPENERS, "lmdb": gi.lmdb}
KINDS = (*(f"{name} index" for name in OPENERS), "lmdb", "recordio", "tar", "tfrecord")


def written(kind: str, root: Path) -> Any:
    """An intact data set of a kind in a folder: a path, or those of two shards."""
    samples = list(zip(FILES[:18], range(18), strict=True))
    halves = samples[:9], samples[9:]
    paths = [root / f"{k}.{kind}" for k in range(2)]
    if kind == "recordio":
        parts = [record(packed(data, label)) for data, label in samples]
        offsets = np.cumsum([0, *map(len, parts)])[:-1].tolist()
        (root / "0.idx").write_text("".join(f"{k}\t{offset}\n" for k, offset in enumerate(offsets)))
        paths[0].write_bytes(b"".join(parts))
        return paths[0]
    if kind == "lmdb":
        entries = {
            name % k: data[:most] for data, k in samples for name, most in ((b"%05d", 1 << 20), (b"small %05d", 200))
        }
        return write_lmdb(paths[0], entries, subdir=False)
    for path, half in zip(paths, halves, strict=True):
        path.write_bytes(archive(half) if kind == "tar" else framed(*(data for data, _ in half)))
    return paths


@lru_cache(maxsize=16)
def _intact(kind: str) -> dict[str, bytes]:
    """The files of a data set by their names."""
    with tempfile.TemporaryDirectory() as folder:
        written(kind, Path(folder))
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if "lock" not in path.name}


def damaged_files(draw: Draw, kind: str) -> dict[str, bytes]:
    """The files of a data set by their names, one of them damaged."""
    files = dict(_intact(kind))
    name, other = draw.pick(sorted(files)), draw.pick(sorted(files))
    if kind == "tfrecord" and not draw.below(3):  # another length of the first record, with its checksum
        length = (_number(draw, len(files[name])) & (1 << 64) - 1).to_bytes(8, "little")
        files[name] = length + masked(length) + files[name][12:]
    else:
        files[name] = changed(draw, files[name], files[other])[0]
    return files


def _number(draw: Draw, size: int) -> int:
    """A number at a limit, negative or not, or one near the size of a file."""
    number = draw.pick((*NUMBERS, 60_000, 511, size, size - 16, draw.below(size), draw.word() >> draw.below(64)))
    return draw.pick((number, number, -number))


def damaged_index(draw: Draw, index: bytes) -> bytes:
    """An index file with other arrays, or with damage to its bytes."""
    if not draw.below(8):
        return changed(draw, index)[0]
    with zipfile.ZipFile(io.BytesIO(index)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    for _ in range(draw.pick((1, 1, 2, 4))):
        name = draw.pick([name for name in sorted(members) if name != "stamp.npy"] or sorted(members))
        what = draw.below(7)
        if what == 0:
            del members[name]
        else:
            members[name] = changed(draw, members[name])[0] if what == 1 else _changed(draw, members[name])
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", draw.pick((zipfile.ZIP_STORED,) * 7 + (zipfile.ZIP_DEFLATED,))) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return whole.getvalue()


def _changed(draw: Draw, data: bytes) -> bytes:
    """An array of an index with other numbers, or another type or shape."""
    try:
        array: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:  # was damaged before
        array = np.zeros(3, np.int64)
    result = np.atleast_1d(array.copy())
    what = draw.below(5)
    if what == 0:
        with np.errstate(all="ignore"):
            result = array.astype(draw.pick(_DTYPES))
    elif what == 1 and array.ndim:
        n = draw.below(len(array) + 1)
        result = draw.pick((array[None], array[..., None], array.ravel(), array[:n], array[:0], np.repeat(array, 2, 0)))
    elif result.dtype.kind in "iu" and result.size:
        for _ in range(draw.pick((1, 1, 3, result.size))):
            value = np.array(_number(draw, 4096) & (1 << 64) - 1, np.uint64)
            result.flat[draw.below(result.size)] = value.astype(result.dtype)
    file = io.BytesIO()
    np.save(file, result, allow_pickle=False)
    return file.getvalue()


class GuardedReader(ChunkReader):
    """Reads into buffers between guards."""

    def fill(self, table: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        memory = Guarded(out.size, 0)
        super().fill(table, memory.bytes)
        out[:] = memory.bytes
        assert not memory.broken(), memory.broken()


def _samples(table: Table, files: list[bytes]) -> list[bytes]:
    """Every sample that can be read, each of which must be a part of a file."""
    several = table.read_several(range(len(table)), GuardedReader())  # type: ignore[attr-defined]
    found = []
    for i, one in enumerate(several):
        if isinstance(one, Exception):
            assert isinstance(one, (ValueError, OSError)), repr(one)
            continue
        data = bytes(one[0])
        assert bytes(table[i][0]) == data, "another sample when it is read by itself"
        assert any(data in file for file in files), "a sample that is no part of a file"
        found.append(data)
    return found


def check(folder: Path) -> Callable[[int], str]:
    """Return the check of a data set, of each kind in turn."""
    checks: dict[str, Callable[[int], str]] = {}

    def checked(number: int) -> str:
        kind = KINDS[number % len(KINDS)]
        if kind not in checks:
            (folder / kind).mkdir()
            checks[kind] = _check(kind, folder / kind)
        return f"{kind}: {checks[kind](number)}"

    return checked


def _check(kind: str, folder: Path) -> Callable[[int], str]:
    name, _, of_index = kind.partition(" ")
    path, content = written(name, folder), b""
    table = _ALL[name](path)
    intact = _samples(table, _contents(folder))
    list(_loaded_by(table))  # compiles
    index = folder / "index"
    if of_index:
        _ALL[name](path, index_cache=index)
        content = index.read_bytes()

    def checked(number: int) -> str:
        draw, options = Draw(number), dict[str, Any]()
        if of_index:
            damaged = damaged_index(draw, content)
            index.write_bytes(damaged)
            options["index_cache"] = index
        else:
            for file, data in damaged_files(draw, name).items():
                (folder / file).write_bytes(data)
        try:
            table = _ALL[name](path, **options)
        except (ValueError, OSError) as error:
            if of_index:
                raise AssertionError("a data set was refused for its index") from error
            return "refused"
        found = _samples(table, _contents(folder))
        assert sum(len(batch.valid) for batch in _loaded_by(table)) == len(table), "samples the loader does not give"
        if of_index and index.read_bytes() != damaged:
            assert found == intact, "other samples by an index that was built again"
            return "built again"
        if found == intact:
            return "the same"
        return "others" if len(found) == len(table) else "some unreadable"

    return checked


def _loaded_by(table: Table) -> gi.Loader:
    return gi.load(table, batch_size=16, device="cpu", on_error="fill")


def _contents(folder: Path) -> list[bytes]:
    """The files of a data set, without their index."""
    return [path.read_bytes() for path in sorted(folder.iterdir()) if path.name != "index"]
