"""Chunks of files and of parts of them, read natively: the same bytes as plain Python, and the rest left to it."""

import errno
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._io import native_read
from gpuimg._io.file_bytes import read
from gpuimg._io.native_read import ChunkReader
from gpuimg.sources._reading import OpenFiles
from tests.data_sets import FILES, cpu
from tests.sources.laws import open_files
from tests.sources.writers import SOURCES, make_source

SIZES = [1, 63, 64, 65, 4095, 4096, 40_000, 100_000]


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    for k, size in enumerate(SIZES):
        (tmp_path / f"{k} ü").write_bytes(np.random.default_rng().bytes(size))
    return [str(tmp_path / f"{k} ü") for k in range(len(SIZES))]


@pytest.fixture(autouse=True)
def no_descriptor_is_left(tmp_path: Path) -> Iterator[None]:
    """Whatever a test reads, no file stays open."""
    yield
    assert open_files(tmp_path) == 0


def content(path: str | Path) -> bytes:
    return Path(path).read_bytes()


@pytest.mark.parametrize("room", [1, 64, 4097, 1 << 16, 1 << 20])
def test_files_whatever_the_room(paths: list[str], room: int) -> None:
    reader = ChunkReader(room)
    for _ in range(3):
        found = reader.read([*paths, *map(Path, paths)])
        assert [bytes(data) for data in found] == 2 * list(map(content, paths))
    assert reader.seconds > 0
    assert reader.room >= 2 * sum(SIZES)


def test_what_python_must_say_is_left_to_it(tmp_path: Path, paths: list[str]) -> None:
    places = [str(tmp_path / "absent"), paths[3], str(tmp_path), "a\0b", "\ud800", paths[0], "", "/proc/self/mem"]
    found = ChunkReader().read(places)
    assert [k for k, data in enumerate(found) if data is not None] == [1, 5]
    assert [bytes(found[1]), bytes(found[5])] == [content(paths[3]), content(paths[0])]
    assert ChunkReader().read([]) == []


def unusual(folder: Path) -> dict[str, str]:
    """Files that are not regular, and why each is refused."""
    os.mkfifo(folder / "fifo.jpg")
    (folder / "endless.jpg").symlink_to("/dev/zero")
    (folder / "folder.jpg").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket.jpg"))
    return {
        "fifo.jpg": "a FIFO, not a regular file", "endless.jpg": "a character device, not a regular file",
        "folder.jpg": os.strerror(errno.EISDIR), "socket.jpg": os.strerror(errno.ENXIO),
    }  # fmt: skip


def test_only_regular_files_are_read(tmp_path: Path, paths: list[str]) -> None:
    """Neither natively nor in Python, and nobody waits."""
    reasons = unusual(tmp_path)
    names = [str(tmp_path / name) for name in reasons]
    found = ChunkReader().read([paths[1], *names, paths[2]])
    assert found[1:-1] == [None] * len(names)
    assert [bytes(found[0]), bytes(found[-1])] == [content(paths[1]), content(paths[2])]
    for name, reason in zip(names, reasons.values(), strict=True):
        with pytest.raises(OSError, match=re.escape(reason)):
            read(name)
    for name in ("fifo.jpg", "endless.jpg", "folder.jpg"):
        with pytest.raises((OSError, ValueError), match=re.escape(reasons[name])):
            gi.video_info(tmp_path / name)
        for source in (gi.tar, gi.recordio, gi.file_list):
            with pytest.raises(OSError, match=re.escape(reasons[name])):
                source(tmp_path / name)


@pytest.mark.usefixtures("watched")
def test_a_loader_says_why_files_are_not_read(tmp_path: Path) -> None:
    """As plain Python does; nobody is refused to root, so a loop of links is. And nobody waits for a pipe."""
    (tmp_path / "loop").symlink_to("loop")
    reasons = {"loop": os.strerror(errno.ELOOP), "absent": os.strerror(errno.ENOENT), **unusual(tmp_path)}
    samples = [(str(tmp_path / name), 0) for name in reasons] + [(FILES[0], 1)]
    loader = cpu(samples, batch_size=len(samples), on_error="fill")
    with pytest.warns(RuntimeWarning, match="could not be decoded"):
        assert [batch.valid.tolist() for batch in loader] == [[False] * len(reasons) + [True]]
    expected = [(str(tmp_path / name), f"cannot be read: {reason}") for name, reason in reasons.items()]
    assert [(failure.source, failure.reason) for failure in loader.failures] == expected
    with pytest.raises(gi.DecodeError) as caught:
        list(cpu(samples, batch_size=len(samples), on_error="raise"))
    assert [(failure.source, failure.reason) for failure in caught.value.failures] == expected


def test_a_file_that_a_caller_opened_may_be_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(FILES[0],))
    writer.start()
    with pipe.open("rb") as file:
        assert gi.image_info(file).codec == "jpeg"
    writer.join()


def over(size: int, limit: int) -> str:
    return f"{size} bytes, over the limit of max_bytes={limit}"


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("room", [1, 1 << 20])
def test_larger_files_are_not_read(paths: list[str], native: bool, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_read, "NATIVE", native)
    for limit in (1, 64, 4095, 100_000):
        reader = ChunkReader(room, limit)
        for path, data in zip(paths, reader.read(paths), strict=True):
            size = os.path.getsize(path)
            if data is not None:
                assert bytes(data) == content(path)
                assert size <= limit
            elif size > limit:
                with pytest.raises(ValueError, match=over(size, limit)):
                    read(path, limit)
            else:
                assert not native
                assert read(path, limit) == content(path)


def test_a_sparse_file_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sparse.jpg"
    path.write_bytes(FILES[0])
    os.truncate(path, 1 << 40)
    reason = over(1 << 40, 1 << 30)
    x = gi.open_batch([path, FILES[1]], device="cpu", on_error="fill")
    assert [error.reason for error in x.errors.values()] == [reason]
    with pytest.raises(gi.DecodeError, match=reason):
        gi.decode_batch([str(path)], device="cpu")
    with pytest.raises(ValueError, match=reason):
        gi.image_info(path)
    with pytest.raises(ValueError, match=f"sparse.jpg: {reason}"):
        gi.file_list([path])[0]
    loader = cpu(gi.file_list([path, path]), batch_size=2, on_error="fill")
    with pytest.warns(RuntimeWarning, match="could not be decoded"):
        assert not any(batch.valid.any() for batch in loader)
    assert [failure.reason for failure in loader.failures] == [f"cannot be read: {reason}"] * 2


def test_a_file_without_a_size_is_read_up_to_the_limit() -> None:
    """Those of ``/proc`` say that they have 0 bytes."""
    whole = content("/proc/self/maps")
    assert len(whole) > 1000
    with pytest.raises(ValueError, match=r"\d+ bytes, over the limit of max_bytes=1000"):
        read("/proc/self/maps", 1000)
    assert ChunkReader(max_bytes=1000).read(["/proc/self/maps"]) == [None]


@pytest.mark.parametrize("kind", [*SOURCES, "stream"])
@pytest.mark.filterwarnings("ignore:.*could not be decoded:RuntimeWarning")
def test_the_limit_of_a_loader(kind: str, tmp_path: Path) -> None:
    data = [one + bytes(200 * k) for k, one in enumerate(FILES[:8])]
    source = make_source("pairs" if kind == "stream" else kind, tmp_path, data)[0]
    if kind == "stream":
        items, source = source, gi.iterable(lambda: iter(items))
    most = len(data[4])
    loader = cpu(source, on_error="fill", max_bytes=most)
    assert sum(len(batch.valid) for batch in loader) == len(data)
    failed = {failure.index: failure.reason for failure in loader.failures}
    first = 4 if kind in ("recordio", "tfrecord") else 5  # the limit is for all bytes of a record
    assert sorted(failed) == [*range(first, 8)]
    for reason in failed.values():
        assert re.search(rf"\d+ bytes, over the limit of max_bytes={most}$", reason)


@pytest.mark.parametrize("call", [gi.open_batch, gi.decode_batch])
def test_the_limit_of_a_batch(call: Any, tmp_path: Path) -> None:
    data = FILES[0]
    path = tmp_path / "a.jpg"
    path.write_bytes(data)
    size = len(data)
    for source in (data, bytearray(data), np.frombuffer(data, np.uint8), path, str(path)):
        assert len(call([source], device="cpu", max_bytes=size)) == 1
        with pytest.raises(gi.DecodeError, match=over(size, size - 1)):
            call([source], device="cpu", max_bytes=size - 1)
        x = call([source], device="cpu", max_bytes=size - 1, on_error="fill")
        assert [error.reason for error in x.errors.values()] == [over(size, size - 1)]
    with pytest.raises(gi.DecodeError, match=over(size, size - 1)):
        gi.decode_image(path, device="cpu", max_bytes=size - 1)
    with pytest.raises(ValueError, match="max_bytes must be"):
        call([data], device="cpu", max_bytes=0)
    with pytest.raises(ValueError, match="max_bytes must be"):
        gi.load([(data, 0)], batch_size=1, max_bytes=0)


def test_parts(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    files = OpenFiles(paths)
    last = len(paths) - 1
    wanted = [(last, 10, 5000), (0, 0, 1), (last, 99_999, 1), (3, 65, 0), (6, 7, 39_993), (last, 0, 100_000)]
    spans: list[Any] = [files.span(*one) for one in wanted]
    for most in (1 << 20, 4096):
        monkeypatch.setattr(native_read, "_MOST_ROOM", most)
        found = ChunkReader().read([*spans, paths[4]])
        expected = [content(paths[file])[offset : offset + size] for file, offset, size in wanted]
        assert [bytes(data) for data in found[:-1]] == expected
        assert bytes(found[-1]) == content(paths[4])
    cut: list[Any] = [files.span(2, 0, 65), files.span(2, 60, 4), files.span(2, 100, 1)]  # after the end
    short, whole, none = ChunkReader().read(cut)
    assert short is none is None
    assert bytes(whole) == content(paths[2])[60:64]
    with pytest.raises(OSError, match="64 of 65 bytes at offset 0: the file was cut off after it was indexed"):
        cut[0].read()
