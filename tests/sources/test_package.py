"""Conventions of the package: what it loads, what it asks for, and what all sources share."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from gpuimg.sources._indexes import Names
from gpuimg.sources._reading import OpenFiles, printable, shards


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


@pytest.mark.parametrize(("pattern", "expected"), [
    ("a.tar", ["a.tar"]), ("a-{8..11}", ["a-8", "a-9", "a-10", "a-11"]),
    ("{00..02}/{a,b}.x", ["00/a.x", "00/b.x", "01/a.x", "01/b.x", "02/a.x", "02/b.x"]), ("a{,-b}", ["a", "a-b"]),
    ("a{b}", ["a{b}"]), ("a{1..}", ["a{1..}"]), (["x{1..2}", b"y", Path("z")], ["x1", "x2", "y", "z"]),
])  # fmt: skip
def test_patterns(pattern: Any, expected: list[str]) -> None:
    assert shards(pattern) == tuple(expected)
    with pytest.raises(ValueError, match="paths must name at least one file"):
        shards("a-{2..1}")


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
