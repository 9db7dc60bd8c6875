"""Files and kept indexes of every format that are cut off, damaged, changed or gone, and how many of them are open."""

import gzip
import os
import pickle
import shutil
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._io import native_read
from gpuimg._io.native_read import ChunkReader
from gpuimg.sources import Table, _indexes
from gpuimg.sources._indexes import Names
from gpuimg.sources._reading import OPEN_FILES, OpenFiles, printable

from ..libraries import needs
from .laws import assert_threads, assert_vanished, cuts, flipped, open_files, outcome, photos
from .test_mxnet import GOLDEN
from .writers import FORMATS, framed, write_array, write_lmdb, write_parquet, write_tar

DATA = photos(6)
NOISE = [np.random.default_rng(k).bytes(3000) for k in range(20)]  # of ArrayRecord, whose blocks are large


class Kind(NamedTuple):
    """A format: a writer of a file, what opens it, and what may become of a file with a flipped bit."""

    write: Callable[[Path], object]
    open: Callable[..., Table]
    damaged: frozenset[str]  # all that may happen: those without checksums may give something else


ANY = frozenset({"refused", "unreadable", "same", "other"})


def _tar(path: Path) -> None:
    members = [(f"{i}.{end}", value) for i, d in enumerate(DATA) for end, value in (("jpg", d), ("cls", b"%d" % i))]
    write_tar(path, *members)
    os.truncate(path, 512 * sum(1 + -(-len(data) // 512) for _, data in members) + 512)


def _recordio(path: Path, *, index: bool = True) -> None:
    for ending in ("rec", "idx") if index else ("rec",):
        shutil.copy(GOLDEN / f"golden.{ending}", path.with_suffix(f".{ending}"))


def _parquet(path: Path) -> None:
    images = photos(6, size=(48, 64))
    write_parquet(path, images, list(range(6)), write_page_checksum=True, write_statistics=False)


KINDS = {
    "tar": Kind(_tar, gi.tar, ANY),
    "tfrecord": Kind(
        lambda path: path.write_bytes(framed(*DATA)), lambda path, **options: gi.tfrecord(path, image=None, **options),
        frozenset({"refused", "unreadable"}),
    ),
    "array_record": Kind(
        lambda path: write_array(path, *NOISE), lambda path: gi.array_record(path, image=None),
        frozenset({"refused", "unreadable", "same"}),
    ),
    "recordio": Kind(_recordio, gi.recordio, ANY),
    "recordio without idx": Kind(lambda path: _recordio(path, index=False), gi.recordio, ANY),
    "lmdb": Kind(
        lambda path: write_lmdb(path, {b"%03d" % i: d * (1 + i % 3) for i, d in enumerate(photos(40))}, subdir=False),
        gi.lmdb, ANY,
    ),
    "parquet": Kind(_parquet, gi.parquet, ANY),
}  # fmt: skip
every_kind = pytest.mark.parametrize("kind", KINDS)


def written(kind: str, folder: Path) -> Path:
    needs(FORMATS[kind.split()[0]].package.replace("-", "_") or "gpuimg")
    path = folder / "a.rec"  # the ending that RecordIO's index is found by
    KINDS[kind].write(path)
    return path


def test_every_file_format_is_damaged() -> None:
    assert {kind.split()[0] for kind in KINDS} == set(FORMATS) - {"folder", "file_list", "coco"}


@every_kind
def test_cut_off(kind: str, tmp_path: Path) -> None:
    path = written(kind, tmp_path)
    whole, samples = path.read_bytes(), list(KINDS[kind].open(path))
    for size in {*cuts(len(whole)), *range(512, len(whole), 512)}:
        path.write_bytes(whole[:size])
        # The last page of a database may be free: then nothing is missing.
        allowed = {"refused", "same"} if kind == "lmdb" and size >= len(whole) - 8192 else {"refused"}
        assert outcome(path, lambda: KINDS[kind].open(path), samples) in allowed, size


@every_kind
def test_flipped_bits(kind: str, tmp_path: Path) -> None:
    """An error of the source's own that names the file, or samples."""
    path = written(kind, tmp_path)
    whole, samples = path.read_bytes(), list(KINDS[kind].open(path))
    step = max(len(whole) // 300, 1)
    for position in range(int(np.random.default_rng().integers(step)), len(whole), step):
        path.write_bytes(flipped(whole, position))
        assert outcome(path, lambda: KINDS[kind].open(path), samples) in KINDS[kind].damaged, position


Damage = Callable[[bytes], bytes]


def flip(position: int) -> Damage:
    return lambda whole: flipped(whole, position)


@pytest.mark.parametrize(("kind", "damage", "i", "message"), [
    *((kind, lambda whole: b"", None, "empty: 0 bytes") for kind in KINDS if kind != "recordio"),
    ("tar", lambda whole: whole[:1000], None, r"cut off: 0\.jpg ends at byte \d+ of 1000"),
    ("tar", lambda whole: whole[:-512], None, r"cut off: no header and no end of the archive at byte \d+ of"),
    ("tar", lambda whole: b"x" * 5000, None, "not a tar file, or damaged"),
    ("tar", flip(-(-len(DATA[0]) // 512) * 512 + 512 + 3), None, r"damaged: .* at byte \d+"),  # the name of 0.cls
    ("tar", gzip.compress, None, "compressed with gzip, .*decompress it"),
    ("tfrecord", lambda whole: whole[:-1], None, r"cut off: record 5 takes \d+ bytes from byte \d+, but \d+ are left"),
    ("tfrecord", lambda whole: whole[:5], None, "cut off: record 0 at byte 0 has 5 of 12 bytes"),
    ("tfrecord", flip(13), 0, r"record 0: damaged: the checksum of its \d+ bytes is 0x.*, not 0x"),
    ("tfrecord", flip(len(DATA[0]) + 17), None, r"damaged: the length of record 1 at byte \d+ has the checksum 0x"),
    ("tfrecord", gzip.compress, None, "compressed, but"), ("tfrecord", zlib.compress, None, "compressed, but"),
    ("array_record", lambda whole: b"no such file" * 9999, None, r"(cut off, or )?not an ArrayRecord file"),
    ("recordio", flip(805), 1, "record 17: damaged: a header at byte 0 must start with 0xced7230a"),
    ("recordio without idx", flip(805), None, "record 1: damaged: a header at byte 804 must start"),
    ("recordio", lambda whole: whole[:-1], None, "cut off: record 37 ends at byte 3292 of 3291"),
    ("lmdb", lambda whole: whole[:4200], None, "cut off: 4200 bytes end within the first two pages"),
    ("lmdb", lambda whole: whole[:20000], None, r"cut off: page \d+ and its overflow pages end at byte \d+ of 20000"),
    ("lmdb", lambda whole: b"x", None, "cut off: 1 bytes end within the first two pages"),
    ("lmdb", lambda whole: bytes(8192), None, r"not an LMDB file of format 1 \(LMDB 0.9\) and a 64-bit"),
    ("parquet", lambda whole: b"no table", None, "not a Parquet file, or damaged: "),
    ("parquet", lambda whole: flipped(whole, len(whole) // 4), 0, "row 0: .*CRC"),
    ("parquet", lambda whole: whole.replace(b"\x16\x06", b"\x16\x07"), None, r"damaged: row .* -4\]"),  # 3 in zigzag
])  # fmt: skip
def test_messages(kind: str, damage: Damage, i: int | None, message: str, tmp_path: Path) -> None:
    path = written(kind, tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    if i is None:
        with pytest.raises(ValueError, match=rf"a\.rec: {message}"):
            KINDS[kind].open(path)
    else:
        table = KINDS[kind].open(path)
        with pytest.raises((ValueError, OSError), match=rf"a\.rec: {message}"):
            table[i]


@pytest.mark.parametrize(("kind", "size", "i", "message"), [
    ("tar", 1000, 0, r"0: 488 of \d+ bytes at offset 512: the file was cut off"),
    ("tfrecord", 100, 0, r"record 0: 88 of \d+ bytes at offset 12: the file was cut off"),
    ("array_record", 5000, -1, "record 19: "),
    ("recordio", 1000, 1, "record 17: 196 of 808 bytes at offset 804: the file was cut off"),
    ("lmdb", 9000, -1, r"key 039: \d+ of \d+ bytes at offset \d+: the file was cut off"),
    ("parquet", 50, 5, "row 5: row group 1 cannot be read"),
])  # fmt: skip
def test_files_that_change_or_vanish(kind: str, size: int, i: int, message: str, tmp_path: Path) -> None:
    path = written(kind, tmp_path)
    table = KINDS[kind].open(path)
    os.truncate(path, size)
    with pytest.raises((ValueError, OSError), match=rf"a\.rec: {message}"):
        table[i]
    path.unlink()
    assert_vanished(KINDS[kind].open(written(kind, tmp_path)), 0, path)
    with pytest.raises(FileNotFoundError, match=r"a\.rec"):
        KINDS[kind].open(path)


@pytest.fixture(params=["loaded", "in its file"])
def index_place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index in memory, as small ones are, and one whose rows are read when they are used."""
    monkeypatch.setattr(_indexes, "_LOADED", _indexes._LOADED if request.param == "loaded" else 0)


@pytest.mark.usefixtures("index_place")
@pytest.mark.parametrize("kind", ["tar", "tfrecord", "recordio without idx"])
def test_kept_index(kind: str, tmp_path: Path) -> None:
    """A file of the same size and time is not looked at, any other is."""
    path, index = written(kind, tmp_path), tmp_path / "index.npz"
    before, kept = path.stat(), KINDS[kind].open(path, index_cache=index)
    names, samples, whole = [kept.describe(i) for i in range(len(kept))], list(kept), path.read_bytes()
    for content, allowed in ((whole, True), (bytes(len(whole)), True), (bytes(len(whole)), False)):
        path.write_bytes(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + (not allowed)))
        if not allowed:
            with pytest.raises(ValueError, match=r"a\.rec: "):
                KINDS[kind].open(path, index_cache=index)
            continue
        found = KINDS[kind].open(path, index_cache=str(index))
        assert [found.describe(i) for i in range(len(found))] == names
        assert content != whole or repr(list(found)) == repr(samples)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "most"), [
    ("tar", OPEN_FILES), ("tfrecord", OPEN_FILES), ("array_record", OPEN_FILES), ("parquet", 0),
])  # fmt: skip
def test_few_files_are_open(kind: str, most: int, tmp_path: Path) -> None:
    for k in range(OPEN_FILES + 10):
        (tmp_path / str(k)).mkdir()
        one = written(kind, tmp_path / str(k))
    before, single = open_files(tmp_path), KINDS[kind].open(one)
    table: Any = KINDS[kind].open(f"{tmp_path}/{{0..{OPEN_FILES + 9}}}/a.rec")
    assert open_files(tmp_path) <= before + most
    samples = list(single) * (OPEN_FILES + 10)
    assert [data for data, _ in table] == [data for data, _ in samples]
    assert_threads(table, samples)
    assert open_files(tmp_path) <= before + most + 1
    del table, single
    assert open_files(tmp_path) == before or kind == "array_record"


def test_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system may return fewer bytes than requested before the end of the file."""
    path = tmp_path / "a"
    path.write_bytes(bytes(range(100)))
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, size, offset: pread(descriptor, min(size, 7), offset))
    files = OpenFiles([str(path)])
    assert files.span(0, 10, 50).read() == bytes(range(10, 60))
    assert files.span(0, 100, 0).read() == b""
    with pytest.raises(OSError, match="20 of 30 bytes at offset 80"):
        files.span(0, 80, 30).read()


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


def put(value: int, row: int = 0) -> Callable[[np.ndarray[Any, Any]], Any]:
    def change(array: np.ndarray[Any, Any]) -> Any:
        array[(row,) + (0,) * (array.ndim - 1)] = value
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


def indexed(kind: str, root: Path) -> list[tuple[Any, Any]]:
    """The samples of a data set with an index, of two shards where the format has them."""
    paths = [root / "0.rec", root / "1.rec"]
    for path in paths:
        if not path.exists():
            KINDS[kind].write(path)
    given: Any = paths[0] if kind == "recordio" else paths
    return [(bytes(data), repr(label)) for data, label in KINDS[kind].open(given, index_cache=root / "index.npz")]


@pytest.mark.usefixtures("index_place")
@pytest.mark.parametrize(("what", "kind"), [(what, kind) for what, (kinds, *_) in CHANGES.items() for kind in kinds])
def test_impossible_numbers(kind: str, what: str, tmp_path: Path) -> None:
    _, name, change = CHANGES[what]
    expected = indexed(kind, tmp_path)
    forged(tmp_path / "index.npz", **{"span" if kind == "recordio" and name == "size" else name: change})
    with pytest.warns(RuntimeWarning, match=r"index\.npz is damaged and is built again: "):
        assert indexed(kind, tmp_path) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert indexed(kind, tmp_path) == expected


@pytest.mark.filterwarnings("ignore:the index cache:RuntimeWarning")
@pytest.mark.parametrize("kind", OF_INDEXES)
def test_damaged_indexes(kind: str, tmp_path: Path) -> None:
    """Those that would grow in memory, and those with a bit flipped anywhere."""
    expected, index = indexed(kind, tmp_path), tmp_path / "index.npz"
    whole = index.read_bytes()
    with np.load(index) as archive:
        arrays = dict(archive)
    with index.open("wb") as file:
        np.savez_compressed(file, **arrays, more=np.zeros(10_000_000))
    small = index.stat().st_size
    assert indexed(kind, tmp_path) == expected
    assert index.stat().st_size != small  # built again
    for position in np.random.default_rng().integers(0, len(whole), 100).tolist():
        index.write_bytes(flipped(whole, position))
        assert indexed(kind, tmp_path) == expected


@pytest.mark.parametrize("kind", OF_INDEXES)
def test_an_index_that_stays_in_its_file(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that no check saw fail alone; so does everything once the file is cut off or replaced."""
    expected, index = indexed(kind, tmp_path), tmp_path / "index.npz"
    monkeypatch.setattr(_indexes, "_LOADED", 0)
    monkeypatch.setattr(_indexes, "_LOOKED_AT", 2)
    for name, wrong in (
        ("offset", -5),
        ("offset", 1 << 40),
        ("span" if kind == "recordio" else "size", -1),
        ("shard", 7),
    ):
        if name == "shard" and kind == "recordio":
            continue
        given: Any = tmp_path / "0.rec" if kind == "recordio" else [tmp_path / "0.rec", tmp_path / "1.rec"]
        forged(index, **{name: put(wrong, 1)})
        source = KINDS[kind].open(given, index_cache=index)
        with pytest.raises(OSError, match=r"index_cache is damaged, delete it|cut off"):
            source[1]
        assert [(bytes(data), repr(label)) for data, label in (source[0], source[-1])] == [expected[0], expected[-1]]
        index.unlink()
        assert indexed(kind, tmp_path) == expected
    source = KINDS[kind].open(given, index_cache=index)
    stored = pickle.dumps(source)
    assert len(stored) < 5000
    assert repr(list(pickle.loads(stored))) == repr(list(source))
    os.truncate(index, 100)
    with pytest.raises(OSError, match="the index cache was cut off"):
        list(source)
    with pytest.raises(OSError, match="the index cache was replaced"):
        pickle.loads(stored)


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
