"""Kept indexes whose numbers cannot be right: built again with a warning, and never read by."""

import pickle
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuimg._io import native_read
from gpuimg._io.native_read import ChunkReader
from gpuimg.sources._indexes import Names
from gpuimg.sources._reading import printable

from .laws import flipped
from .test_damage import KINDS

OF_INDEXES, OF_SHARDS = ("recordio", "tar", "tfrecord"), ("tar", "tfrecord")
HUGE = (1 << 63) - 1


def forged(index: Path, **changes: Callable[[np.ndarray[Any, Any]], Any]) -> None:
    """Put other arrays into an index, whose stamp stays."""
    with np.load(index) as archive:
        arrays = dict(archive)
    for name, change in changes.items():
        arrays[name] = change(arrays[name].copy())
    with index.open("wb") as file:
        np.savez(file, **{name: array for name, array in arrays.items() if array is not None})


def put(value: int) -> Callable[[np.ndarray[Any, Any]], Any]:
    def change(array: np.ndarray[Any, Any]) -> Any:
        array[(0,) * array.ndim] = value
        return array

    return change


#: Formats, the array that is changed, and the change.
CHANGES: dict[str, tuple[Sequence[str], str, Callable[[Any], Any]]] = {
    "a negative size": (OF_INDEXES, "size", put(-1000)), "a sum that overflows": (OF_INDEXES, "size", put(HUGE)),
    "a size beyond the end": (OF_INDEXES, "size", put(1 << 40)),
    "a negative offset": (OF_INDEXES, "offset", put(-1)), "an offset beyond the end": (OF_INDEXES, "offset", put(HUGE)),
    "fewer sizes": (OF_INDEXES, "size", lambda array: array[:-1]),
    "no samples": (OF_INDEXES, "offset", lambda array: array[:0]),
    "another byte order": (OF_INDEXES, "size", lambda array: array.astype(">i8")),
    "more dimensions": (OF_INDEXES, "size", lambda array: array[..., None]),
    "a number": (OF_INDEXES, "offset", lambda array: array.ravel()[0]),
    "none": (OF_INDEXES, "size", lambda array: None),
    "a negative shard": (OF_SHARDS, "shard", put(-1)), "a shard that is not there": (OF_SHARDS, "shard", put(9)),
    "shards in another order": (OF_SHARDS, "shard", lambda array: array[::-1]),
    "fewer shards": (OF_SHARDS, "shard", lambda array: array[:-1]),
    "ends that go back": (["tar"], "ends", put(5)), "ends beyond the names": (["tar"], "ends", lambda array: array * 2),
    "fewer ends": (["tar"], "ends", lambda array: array[:-1]),
    "fewer names": (["tar"], "names", lambda array: array[:-1]),
    "other names": (["tar"], "names", lambda array: array.astype(np.uint16)),
}  # fmt: skip


def opened(kind: str, root: Path) -> list[tuple[Any, Any]]:
    """The samples of a data set with an index, of two shards where the format has them."""
    paths = [root / "0.rec", root / "1.rec"]
    for path in paths:
        if not path.exists():
            KINDS[kind].write(path)
    given: Any = paths[0] if kind == "recordio" else paths
    return [(bytes(data), repr(label)) for data, label in KINDS[kind].open(given, index_cache=root / "index.npz")]


@pytest.mark.parametrize(("what", "kind"), [(what, kind) for what, (kinds, *_) in CHANGES.items() for kind in kinds])
def test_impossible_numbers(kind: str, what: str, tmp_path: Path) -> None:
    _, name, change = CHANGES[what]
    expected = opened(kind, tmp_path)
    forged(tmp_path / "index.npz", **{"span" if kind == "recordio" and name == "size" else name: change})
    with pytest.warns(RuntimeWarning, match=r"index\.npz is damaged and is built again: "):
        assert opened(kind, tmp_path) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert opened(kind, tmp_path) == expected


@pytest.mark.filterwarnings("ignore:the index cache:RuntimeWarning")
@pytest.mark.parametrize("kind", OF_INDEXES)
def test_damaged_files(kind: str, tmp_path: Path) -> None:
    """Those that would grow in memory, and those with a bit flipped anywhere."""
    expected, index = opened(kind, tmp_path), tmp_path / "index.npz"
    whole = index.read_bytes()
    with np.load(index) as archive:
        arrays = dict(archive)
    with index.open("wb") as file:
        np.savez_compressed(file, **arrays, more=np.zeros(10_000_000))
    small = index.stat().st_size
    assert opened(kind, tmp_path) == expected
    assert index.stat().st_size != small  # built again
    for position in np.random.default_rng().integers(0, len(whole), 100).tolist():
        index.write_bytes(flipped(whole, position))
        assert opened(kind, tmp_path) == expected


@pytest.mark.parametrize("native", [True, False])
def test_no_part_is_read_outside_of_its_buffer(native: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the table says, bytes outside of the buffer stay as they are."""
    monkeypatch.setattr(native_read, "NATIVE", native)
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10_000)
    numbers = (-HUGE - 1, -5000, -1, 0, 1, 100, 5000, HUGE)
    rows = [(offset, size, begin) for offset in numbers for size in numbers for begin in numbers]
    memory = np.zeros(3000, np.uint8)
    out = memory[1000:2000]
    with path.open("rb") as file:
        table = np.array([(file.fileno(), *row) for row in rows], np.int64)
        ChunkReader().fill(table, out)
    assert not memory[:1000].any()
    assert not memory[2000:].any()
    for (offset, size, begin), got in zip(rows, table[:, 2].tolist(), strict=True):
        fits = offset >= 0 and 0 <= begin <= 1000 and 0 <= size <= 1000 - begin
        allowed = min(size, max(10_000 - offset, 0)) if fits else -1
        assert got == allowed or (got == -1 and offset == HUGE)  # which some systems refuse


def test_names_take_little_memory() -> None:
    assert printable("a\N{SNOWMAN}") == printable("a\N{SNOWMAN}".encode()) == "a\N{SNOWMAN}"
    assert printable(b"a\xff") == printable("a\udcff") == "a\\xff"
    given = [b"a", b"", b"\xff\0", "\N{SNOWMAN}".encode()]
    names = Names(given)
    for copy in (names, Names.of(names.arrays()), pickle.loads(pickle.dumps(names))):
        assert [copy[i] for i in range(len(copy))] == given
    assert len(Names([])) == len(Names.of(Names([]).arrays())) == 0
    many = Names(b"%07d.jpg" % i for i in range(10_000))
    assert len(many.blob) + many.ends.nbytes < 10_000 * (11 + 8) + 99
