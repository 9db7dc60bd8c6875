"""Chunks of files and of parts of them, read natively: the same bytes as plain Python, and the rest left to it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._decoding import native_read
from gpuimg._decoding.native_read import ChunkReader
from gpuimg.sources._reading import OpenFiles
from gpuimg.sources._table import read_together
from gpuimg.sources.folder import ImageFiles
from tests.loading import FILES, cpu, jpeg

SIZES = [1, 63, 64, 65, 4095, 4096, 40_000, 100_000]


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Files of many sizes."""
    for k, size in enumerate(SIZES):
        (tmp_path / f"{k} ü").write_bytes(np.random.default_rng().bytes(size))
    return [str(tmp_path / f"{k} ü") for k in range(len(SIZES))]


@pytest.fixture(autouse=True)
def no_descriptor_is_left() -> Iterator[None]:
    """Whatever a test reads, nothing stays open."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert len(os.listdir("/proc/self/fd")) == before


def content(path: str | Path) -> bytes:
    return Path(path).read_bytes()


def test_it_is_used_here() -> None:
    assert native_read.NATIVE


@pytest.mark.parametrize("room", [1, 64, 4097, 1 << 16, 1 << 20])
def test_files_whatever_the_room(paths: list[str], room: int) -> None:
    reader = ChunkReader(room)
    for _ in range(3):
        found = reader.read([*paths, *map(Path, paths)])
        assert [bytes(data) for data in found] == 2 * list(map(content, paths))
    assert reader.seconds > 0
    assert reader.room >= 2 * sum(SIZES)


def test_large_files_have_memory_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_read, "_MOST_ROOM", 1 << 16)
    (tmp_path / "large").write_bytes(bytes(1 << 17))
    (tmp_path / "small").write_bytes(b"small")
    reader = ChunkReader(1 << 16)
    large, small = reader.read([str(tmp_path / "large"), str(tmp_path / "small")])
    assert large.size == 1 << 17
    assert bytes(small) == b"small"
    assert small.base.size == 5  # what a view keeps alive
    assert reader.room == 1 << 16


def test_what_python_must_say_is_left_to_it(tmp_path: Path, paths: list[str]) -> None:
    places = [str(tmp_path / "absent"), paths[3], str(tmp_path), "a\0b", "\ud800", paths[0], "", "/proc/self/mem"]
    found = ChunkReader().read(places)
    assert [k for k, data in enumerate(found) if data is not None] == [1, 5]
    assert [bytes(found[1]), bytes(found[5])] == [content(paths[3]), content(paths[0])]
    assert ChunkReader().read([]) == []


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is that of plain Python; nobody is refused to root, so a loop of links is."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    names = ["loop", "folder", "absent"]
    loader = cpu([(str(tmp_path / name), 0) for name in names] + [(FILES[0], 1)], batch_size=4, on_error="fill")
    with pytest.warns(RuntimeWarning, match="could not be decoded"):
        list(loader)
    assert [failure.reason for failure in loader.failures] == [
        f"cannot be read: {os.strerror(number)}" for number in (errno.ELOOP, errno.EISDIR, errno.ENOENT)
    ]
    assert [failure.source for failure in loader.failures] == [str(tmp_path / name) for name in names]


def test_files_without_a_size(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    empty, version = ChunkReader().read([str(tmp_path / "empty"), "/proc/version"])
    assert bytes(empty) == b""
    assert bytes(version) == content("/proc/version")


def test_a_pipe_is_read_to_its_end(tmp_path: Path, paths: list[str]) -> None:
    """And opened once: a second time its writer would be gone."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = np.random.default_rng().bytes(300_000)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    found = ChunkReader().read([paths[1], str(pipe), paths[2]])
    writer.join()
    assert [bytes(one) for one in found] == [content(paths[1]), data, content(paths[2])]


def test_a_file_that_grows(tmp_path: Path) -> None:
    """Each read gives the start of what was written, whole lines or not."""
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")
    done = threading.Event()

    def write() -> None:
        with path.open("ab", 0) as file:
            for _ in range(2000):
                file.write(b"0123456789")
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    most = 0
    while not done.is_set():
        found = ChunkReader().read([str(path)] * 4)
        for data in found:
            assert bytes(data) == (b"0123456789" * (len(data) // 10 + 1))[: len(data)]
        sizes = [len(data) for data in found]  # in any order: what grew while it was read is read again, last
        assert min(sizes) >= most
        most = max(sizes)
    writer.join()


def test_a_file_that_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(10_000))
    done = threading.Event()

    def cut() -> None:
        for k in range(2000):
            os.truncate(path, 100 if k % 2 else 10_000)
        done.set()

    writer = threading.Thread(target=cut)
    writer.start()
    while not done.is_set():
        for data in ChunkReader().read([str(path)] * 4):
            assert not any(bytes(data))
            assert len(data) <= 10_000
    writer.join()


# -- parts of files ----------------------------------------------------------------------------------------------------


def test_parts(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    files = OpenFiles(paths)
    last = len(paths) - 1
    wanted = [(last, 10, 5000), (0, 0, 1), (last, 99_999, 1), (3, 65, 0), (6, 7, 39_993), (last, 0, 100_000)]
    spans: list[Any] = [files.span(*one) for one in wanted]
    for most in (1 << 20, 4096):
        monkeypatch.setattr(native_read, "_MOST_ROOM", most)
        found = ChunkReader().read([*spans, paths[4]])
        assert [bytes(data) for data in found[:-1]] == [
            content(paths[file])[offset : offset + size] for file, offset, size in wanted
        ]
        assert bytes(found[-1]) == content(paths[4])


def test_a_part_behind_the_end_is_left(paths: list[str]) -> None:
    files = OpenFiles(paths)
    spans: list[Any] = [files.span(2, 0, 65), files.span(2, 60, 4), files.span(2, 100, 1)]
    short, whole, none = ChunkReader().read(spans)
    assert short is none is None
    assert bytes(whole) == content(paths[2])[60:64]
    with pytest.raises(OSError, match="64 of 65 bytes at offset 0: the file was cut off after it was indexed"):
        spans[0].read()


# -- in the loader -----------------------------------------------------------------------------------------------------


def test_own_classes_are_asked_in_their_own_way(paths: list[str]) -> None:
    class Other(ImageFiles):
        def __getitem__(self, index: Any) -> tuple[bytes, int]:
            return FILES[index], index

    class Reads(ImageFiles):
        def _read(self, i: int) -> tuple[bytes, int]:
            return FILES[i], i

    source = gi.file_list(paths)
    assert read_together(source)
    for kind in (Other, Reads):
        source.__class__ = kind
        assert not read_together(source)
        assert [label for batch in cpu(source) for label in batch.labels] == list(range(len(paths)))


def test_each_sample_fails_alone(tmp_path: Path) -> None:
    for k in range(24):
        (tmp_path / f"{k}.jpg").write_bytes(jpeg(k))
    source = gi.file_list([tmp_path / f"{k}.jpg" for k in range(24)], range(24))
    for k in (3, 4, 17):
        (tmp_path / f"{k}.jpg").unlink()
    loader = cpu(source, on_error="fill")
    with pytest.warns(RuntimeWarning, match="3 samples"):
        good = {int(i) for batch in loader for i in batch.indices[batch.valid]}
    assert good == set(range(24)) - {3, 4, 17}
    assert [(f.index, f.source, f.reason) for f in loader.failures] == [
        (k, str(tmp_path / f"{k}.jpg"), "cannot be read: No such file or directory") for k in (3, 4, 17)
    ]
