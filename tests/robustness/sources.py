"""Damaged data sets by number: index files, databases and record files, whose numbers say where samples lie.

    python -m tests.robustness.sources 2000               # that many of each kind
    python -m tests.robustness.sources 2000 lmdb tfrecord # of these only

Child processes with a limited address space open each one, read every sample in one native call and one by one, and
give it to a loader. A finding is a crash, a hang, an exception other than ``ValueError`` and ``OSError``, bytes that
were written outside of a buffer, a sample that is no part of its file, or an index that changes what is read.
"""

from __future__ import annotations

import io
import json
import resource
import struct
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._io.native_read import ChunkReader
from gpuimg.sources import Table
from gpuimg.sources.tfrecord import masked

from ..loading import FILES
from .children import Dead, Voice, events
from .formats import CHANGES
from .mutate import Draw
from .remote import archive, records

SECONDS = 5.0
CHUNK = 500
_ROOM = 1 << 30  # bytes that a child may map beyond what it has when it begins
_GUARD = 1 << 12  # bytes on each side of a buffer
_NUMBERS = (
    -1 << 63, -1 << 32, -60_000, -1000, -1, 0, 1, 2, 511, 512, 4096, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1000,
    (1 << 63) - 1,
)  # fmt: skip
_DTYPES = tuple(map(np.dtype, ("i1", "u1", "i4", "u8", "f8", ">i8", "?", "M8[s]")))


def _tfrecord(path: Any, **options: Any) -> Table:
    return gi.tfrecord(path, image=None, **options)


#: What opens each kind that can keep an index.
OPENERS: dict[str, Callable[..., Table]] = {"recordio": gi.recordio, "tar": gi.tar, "tfrecord": _tfrecord}
_ALL: dict[str, Callable[..., Table]] = {**OPENERS, "lmdb": gi.lmdb}
KINDS = (*(f"{name} index" for name in OPENERS), "lmdb", "recordio", "tar", "tfrecord")


# -- intact data sets --------------------------------------------------------------------------------------------------


def written(kind: str, root: Path) -> Any:
    """An intact data set of a kind in a folder: a path, or those of two shards."""
    samples = list(zip(FILES[:18], range(18), strict=True))
    halves = samples[:9], samples[9:]
    paths = [root / f"{k}.{kind}" for k in range(2)]
    if kind == "recordio":
        parts = [_recordio_part(struct.pack("<IfQQ", 0, label, label, 0) + data) for data, label in samples]
        offsets = np.cumsum([0, *map(len, parts)])[:-1].tolist()
        (root / "0.idx").write_text("".join(f"{k}\t{offset}\n" for k, offset in enumerate(offsets)))
        paths[0].write_bytes(b"".join(parts))
        return paths[0]
    if kind == "lmdb":
        import lmdb

        environment = lmdb.open(str(paths[0]), subdir=False, map_size=1 << 24)
        with environment.begin(write=True) as transaction:
            for data, label in samples:
                transaction.put(b"%05d" % label, data)
                transaction.put(b"small %05d" % label, data[:200])
        environment.close()
        return paths[0]
    for path, half in zip(paths, halves, strict=True):
        path.write_bytes(archive(half) if kind == "tar" else records([data for data, _ in half]))
    return paths


def _recordio_part(record: bytes) -> bytes:
    return struct.pack("<II", 0xCED7230A, len(record)) + record + bytes(-len(record) % 4)


@lru_cache(maxsize=16)
def _intact(kind: str) -> dict[str, bytes]:
    """The files of a data set by their names."""
    with tempfile.TemporaryDirectory() as folder:
        written(kind, Path(folder))
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if "lock" not in path.name}


# -- damage ------------------------------------------------------------------------------------------------------------


def _changed(draw: Draw, data: bytes) -> tuple[bytes, str]:
    words = []
    for _ in range(draw.pick((1, 1, 2, 3))):
        name, change = draw.pick(CHANGES)
        data = change(draw, data) if len(data) > 16 else data
        words.append(name)
    return data, "; ".join(words)


def _sealed_length(draw: Draw, data: bytes) -> tuple[bytes, str]:
    """A TFRecord file with another length of its first record, and the checksum that it must have."""
    length = struct.pack("<q", draw.pick((*_NUMBERS, len(data), len(data) - 16, draw.below(len(data)))))
    return length + masked(google_crc32c.value(length)).to_bytes(4, "little") + data[12:], "another length"


def damaged_files(draw: Draw, kind: str) -> tuple[dict[str, bytes], str]:
    """The files of a data set by their names, one of them damaged, and what was done to it."""
    files = dict(_intact(kind))
    name = draw.pick(sorted(files))
    change = _sealed_length if kind == "tfrecord" and not draw.below(3) else _changed
    files[name], words = change(draw, files[name])
    return files, f"{name}: {words}"


def damaged_index(draw: Draw, index: bytes) -> tuple[bytes, str]:
    """An index file with other arrays, or with damage to its bytes."""
    if not draw.below(8):
        return _changed(draw, index)
    with zipfile.ZipFile(io.BytesIO(index)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    words = []
    for _ in range(draw.pick((1, 1, 2, 4))):
        name = draw.pick([name for name in sorted(members) if name != "stamp.npy"] or sorted(members))
        what = draw.pick(("numbers", "numbers", "numbers", "another type", "another shape", "removed", "bytes"))
        if what == "removed":
            del members[name]
        elif what == "bytes":
            members[name] = _changed(draw, members[name])[0]
        else:
            members[name] = _saved(_ARRAYS[what](draw, _loaded(members[name])))
        words.append(f"{name}: {what}")
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", draw.pick((zipfile.ZIP_STORED,) * 7 + (zipfile.ZIP_DEFLATED,))) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return whole.getvalue(), "; ".join(words)


def _loaded(data: bytes) -> NDArray[Any]:
    try:
        found: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:  # was damaged before
        found = np.zeros(3, np.int64)
    return found


def _saved(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _numbers(draw: Draw, array: NDArray[Any]) -> NDArray[Any]:
    changed = np.atleast_1d(array.copy())
    if changed.dtype.kind in "iu" and changed.size:
        for _ in range(draw.pick((1, 1, 3, changed.size))):
            value = draw.pick((*_NUMBERS, draw.word() >> draw.below(64)))
            changed.flat[draw.below(changed.size)] = np.array(value & (1 << 64) - 1, np.uint64).astype(changed.dtype)
    return changed


def _another_type(draw: Draw, array: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        changed: NDArray[Any] = array.astype(draw.pick(_DTYPES))
    return changed


def _another_shape(draw: Draw, array: NDArray[Any]) -> NDArray[Any]:
    n = draw.below(len(array) + 1) if array.ndim else 0
    if not array.ndim:
        return array
    return draw.pick((array[None], array[..., None], array.ravel(), array[:n], array[:0], np.repeat(array, 2, 0)))


_ARRAYS = {"numbers": _numbers, "another type": _another_type, "another shape": _another_shape}


# -- what becomes of it ------------------------------------------------------------------------------------------------


class Guarded(ChunkReader):
    """Reads into buffers with known bytes on both sides."""

    def fill(self, table: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        memory = np.full(out.size + 2 * _GUARD, 0xA5, np.uint8)
        super().fill(table, memory[_GUARD : _GUARD + out.size])
        out[:] = memory[_GUARD : _GUARD + out.size]
        assert (memory[:_GUARD] == 0xA5).all(), "written in front of the buffer"
        assert (memory[_GUARD + out.size :] == 0xA5).all(), "written after the buffer"


def _samples(table: Table, files: list[bytes]) -> list[bytes]:
    """Every sample that can be read, each of which must be a part of a file."""
    several = table.read_several(range(len(table)), Guarded())  # type: ignore[attr-defined]
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


class Checker:
    """Damages a data set of a kind in a folder, and reads what becomes of it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind, self._folder = kind, folder
        self._name, _, self._index = kind.partition(" ")
        self._open = _ALL[self._name]
        self._path = written(self._name, folder)
        intact = self._open(self._path)
        self._samples = _samples(intact, _contents(folder))
        list(_loaded_by(intact))  # compiles
        self._intact = b""
        if self._index:
            self._open(self._path, index_cache=folder / "index")
            self._intact = (folder / "index").read_bytes()

    def __call__(self, seed: int) -> tuple[str, str]:
        """Outcome of damage ``seed``, and its description.

        Raises
        ------
        AssertionError
            With what must not be.
        """
        draw = Draw(seed * 16 + KINDS.index(self._kind))
        options = {}
        if self._index:
            content, words = damaged_index(draw, self._intact)
            (self._folder / "index").write_bytes(content)
            options["index"] = self._folder / "index"
        else:
            files, words = damaged_files(draw, self._name)
            for name, content in files.items():
                (self._folder / name).write_bytes(content)
        try:
            table = self._open(self._path, **options)
        except (ValueError, OSError) as error:
            if self._index:
                raise AssertionError(f"a data set was refused for its index: {error}") from error
            return "refused", words
        found = _samples(table, _contents(self._folder))
        assert sum(len(batch.valid) for batch in _loaded_by(table)) == len(table), "samples the loader does not give"
        if self._index and (self._folder / "index").read_bytes() != content:
            assert found == self._samples, "other samples by an index that was built again"
            return "built again", words
        if found == self._samples:
            return "the same", words
        return "others" if len(found) == len(table) else "some unreadable", words


def _loaded_by(table: Table) -> gi.Loader:
    return gi.load(table, batch_size=16, device="cpu", on_error="fill")


def _contents(folder: Path) -> list[bytes]:
    """The files of a data set, without their index."""
    return [path.read_bytes() for path in sorted(folder.iterdir()) if path.name != "index"]


# -- many --------------------------------------------------------------------------------------------------------------


def _child(kind: str, first: int, stop: int) -> None:
    voice = Voice()
    warnings.simplefilter("ignore")  # of indexes that are built again, and samples that cannot be decoded
    with tempfile.TemporaryDirectory() as folder:
        check = Checker(kind, Path(folder))
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + _ROOM, mapped + _ROOM))
        for seed in range(first, stop):
            start, finding = time.perf_counter(), ""
            try:
                outcome, words = check(seed)
            except Exception as error:
                outcome, words, finding = "finding", "", f"{type(error).__name__}: {error}"
            if time.perf_counter() - start > SECONDS:
                finding = f"{time.perf_counter() - start:.1f} s"
            voice.say(seed=seed, outcome=outcome, finding=finding and f"{finding} ({words})")


def run(kind: str, first: int, stop: int) -> Iterator[tuple[str, str]]:
    """Outcome and finding, if any, of each seed; after a crash a new child is started."""
    command = (sys.executable, "-X", "faulthandler", "-m", "tests.robustness.sources", "--child", kind)
    while first < stop:
        try:
            for event in events([str(first), str(min(first + CHUNK, stop))], command=command):
                first = event["seed"] + 1
                yield event["outcome"], event["finding"] and f"{kind} {event['seed']}: {event['finding']}"
        except Dead as death:
            yield "died", f"{kind} {first}: {death.how}: {death.last_words}"
            first += 1


def main(arguments: list[str]) -> int:
    """Check a number of data sets of each kind, or of those named; return 1 if there are findings."""
    if arguments[0] == "--child":
        _child(arguments[1], int(arguments[2]), int(arguments[3]))
        return 0
    failed = 0
    for kind in arguments[1:] or KINDS:
        start, outcomes = time.monotonic(), Counter[str]()
        for outcome, finding in run(kind, 0, int(arguments[0])):
            outcomes[outcome] += 1
            if finding:
                failed += 1
                print(finding, flush=True)
        print(json.dumps({kind: outcomes, "seconds": round(time.monotonic() - start, 1)}), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
