"""Damaged data sets: databases and record files, whose numbers say where samples lie.

A damaged data set is refused, or read: each sample is a part of its file, and the same by itself and among others.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._io.native_read import ChunkReader
from gpuimg.sources import Table

from ..decoding.jpegs import Guarded
from ..sources.test_damage import KINDS
from ..sources.writers import MAGIC, masked
from .mutate import NUMBERS, Draw, changed

_KINDS = "lmdb", "recordio", "recordio without idx", "tar", "tfrecord"


def damaged_files(draw: Draw, kind: str, intact: dict[Path, bytes]) -> dict[Path, bytes]:
    path, other = draw.pick(sorted(intact)), draw.pick(sorted(intact))
    data = intact[path]
    if kind == "tfrecord" and not draw.below(3):  # another length of the first record, with its checksum
        number = draw.pick((*NUMBERS, 60_000, 511, len(data) - 16, draw.below(len(data)), draw.word()))
        length = (draw.pick((number, -number)) & (1 << 64) - 1).to_bytes(8, "little")
        return intact | {path: length + masked(length) + data[12:]}
    return intact | {path: changed(draw, data, intact[other])[0]}


class GuardedReader(ChunkReader):
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
        whole = data.partition(MAGIC)[0]  # where RecordIO splits records
        assert any(whole in file for file in files), "a sample that is no part of a file"
        found.append(data)
    return found


def check(folder: Path) -> Callable[[int], str]:
    paths = {kind: folder / kind / "a.rec" for kind in _KINDS}
    files: dict[str, dict[Path, bytes]] = {}
    samples: dict[str, list[bytes]] = {}
    for kind, path in paths.items():
        path.parent.mkdir()
        KINDS[kind].write(path)
        files[kind] = {one: one.read_bytes() for one in path.parent.iterdir() if "lock" not in one.name}
        table = KINDS[kind].open(path)
        samples[kind] = _samples(table, list(files[kind].values()))
        list(_loaded_by(table))  # compiles

    def checked(number: int) -> str:
        kind = _KINDS[number % len(_KINDS)]
        damaged = damaged_files(Draw(number), kind, files[kind])
        for path, data in damaged.items():
            path.write_bytes(data)
        try:
            table = KINDS[kind].open(paths[kind])
        except (ValueError, OSError):
            return f"{kind}: refused"
        found = _samples(table, list(damaged.values()))
        assert sum(len(batch.valid) for batch in _loaded_by(table)) == len(table), "samples the loader does not give"
        if found == samples[kind]:
            return f"{kind}: the same"
        return f"{kind}: others" if len(found) == len(table) else f"{kind}: some unreadable"

    return checked


def _loaded_by(table: Table) -> gi.Loader:
    return gi.load(table, batch_size=16, device="cpu", on_error="fill")
