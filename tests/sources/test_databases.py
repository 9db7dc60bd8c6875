"""LMDB databases, as the library writes them."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from gpuimg.sources import lmdb

from ..libraries import library
from .laws import assert_law, photos
from .writers import write_lmdb as write


def random_entries(n: int, seed: int = 0) -> dict[bytes, bytes]:
    """Keys of up to 511 bytes, values on leaves and on overflow pages."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([0, 1, 7, 100, 1900, 2100, 4080, 4081, 9000], n)
    return {b"%d" % i + rng.bytes(int(rng.choice([0, 3, 500]))): rng.bytes(int(size)) for i, size in enumerate(sizes)}


def names(file: Path, keys: list[bytes]) -> list[str]:
    return [f"{file}: key {key.decode('utf-8', 'backslashreplace')}" for key in keys]


def label(key: bytes) -> str | bytes:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


def test_raw(tmp_path: Path) -> None:
    data = photos(4)
    path = write(tmp_path / "db", {b"%d" % (9 - i): content for i, content in enumerate(data)})
    samples = [(content, str(9 - i)) for i, content in enumerate(data)][::-1]
    expected = [f"{path}/data.mdb: key {number}" for number in range(6, 10)]
    assert_law(lmdb(path), samples, expected)
    assert repr(lmdb(path)) == f"<gpuimg.lmdb '{path}/data.mdb': 4 samples>"
    assert_law(lmdb(os.fsencode(path / "data.mdb")), samples, expected)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 40, 3000])
def test_trees_of_any_depth(tmp_path: Path, n: int) -> None:
    entries = random_entries(n)
    path = write(tmp_path / "db", entries, subdir=False)
    environment = library("lmdb").open(str(path), subdir=False, map_size=1 << 26)
    with environment.begin(write=True) as transaction:
        for key in list(entries)[1::3]:
            transaction.delete(key)
            del entries[key]
    with environment.begin(write=True) as transaction:
        for key, value in random_entries(n // 2, 1).items():
            entries[key] = value
            transaction.put(key, value)
    depth = environment.stat()["depth"]
    environment.close()
    assert depth == {1: 1, 40: 2, 3000: 4}[n]
    keys = sorted(entries)
    assert_law(lmdb(path), [(entries[key], label(key)) for key in keys], names(path, keys))


def split(key: bytes, value: bytes) -> tuple[bytes, tuple[bytes, int]]:
    if len(value) < 4:
        raise ValueError("too short")
    return value[4:], (key, struct.unpack("<i", value[:4])[0])


def test_parse(tmp_path: Path) -> None:
    path = write(tmp_path / "db", {b"a": struct.pack("<i", 5) + b"x", b"\xff": struct.pack("<i", -6) + b"y"})
    samples = [(b"x", (b"a", 5)), (b"y", (b"\xff", -6))]
    assert_law(lmdb(path, parse=split), samples, names(path / "data.mdb", [b"a", b"\xff"]))
    with pytest.raises(ValueError, match=r"data\.mdb: key k: too short"):
        lmdb(write(tmp_path / "short", {b"k": b"x"}), parse=split)[0]


def test_arguments(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="parse must be callable, not str"):
        lmdb(tmp_path, parse="json")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match=r"data\.mdb"):
        lmdb(tmp_path)


def test_other_databases(tmp_path: Path) -> None:
    lmdb_module = library("lmdb")
    with pytest.raises(ValueError, match=r"data\.mdb: no entries in it"):
        lmdb(write(tmp_path / "empty", {}))
    environment = lmdb_module.open(str(tmp_path / "named"), max_dbs=2)
    environment.open_db(b"train")
    environment.close()
    with pytest.raises(ValueError, match=r"data\.mdb: a named database 'train'"):
        lmdb(tmp_path / "named")


def test_pages_that_lead_astray(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mdb", {b"%03d" % i: bytes(500) for i in range(100)}, subdir=False)
    whole = path.read_bytes()
    root = max((0, 1), key=lambda page: struct.unpack_from("<Q", whole, page * 4096 + 16 + 128)[0])
    at = root * 4096 + 16 + 24 + 48  # the main database
    (branch,) = struct.unpack_from("<Q", whole, at + 40)
    page = branch * 4096
    node = page + struct.unpack_from("<H", whole, page + 16)[0]
    leaf = struct.unpack_from("<H", whole, node)[0]
    first = leaf * 4096 + struct.unpack_from("<H", whole, leaf * 4096 + 16)[0]
    for offset, form, value, message in (
        (at + 32, "<Q", 101, "damaged: 100 entries found, not 101"),
        (at + 32, "<Q", 1 << 60, "damaged: 1152921504606846976 entries, 2 levels deep, in"),
        (at + 6, "<H", 99, "damaged: 100 entries, 99 levels deep"),
        (at + 6, "<H", 1, rf"page {branch} is damaged: flags 0x1, 1 levels above the leaves"),
        (at + 16, "<Q", 3, "damaged: more pages than the database has"),
        (at + 40, "<Q", 10**6, "page 1000000 is damaged: there are"),
        (page, "<Q", 1, rf"page {branch} is damaged: its header has a different page number"),
        (page + 12, "<H", 4097, rf"page {branch} is damaged: pointers up to byte 4097"),
        (page + 16, "<H", 4095, rf"page {branch} is damaged: an entry at byte 4095"),
        (node + 6, "<H", 5000, rf"page {branch} is damaged: a key of 5000 bytes at byte"),
        (node, "<H", branch, rf"page {branch} is damaged: flags 0x1, 1 levels"),
        (node + 4, "<H", 1, r"page 42949\d+ is damaged: there are"),
        (first, "<H", 9999, rf"page {leaf} is damaged: the value of '000' takes 9999 bytes"),
        (first + 4, "<H", 4, "several values for the key '000', but only one"),
        (first + 4, "<H", 1, r"page \d+ is damaged: there are"),
        (20, "<I", 2, "not an LMDB file of format 1"),
        (16 + 24, "<I", 4095, "damaged: pages of 4095 bytes"),
    ):
        changed = bytearray(whole)
        struct.pack_into(form, changed, offset, value)
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=rf"a\.mdb: {message}"):
            lmdb(path)
