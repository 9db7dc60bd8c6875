"""Tar files in the layout of WebDataset."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import gpuimg
from gpuimg.sources import tar
from gpuimg.sources._reading import shards as files_of
from tests.data_sets import FILES

from ..libraries import library
from .laws import assert_law, photos
from .writers import archive
from .writers import write_tar as write


def shards(root: Path, count: int, each: int) -> list[tuple[bytes, int]]:
    """Shards ``0.tar``, ``1.tar`` and so on, of tiny samples."""
    samples = [(f"image {i}".encode(), i) for i in range(count * each)]
    for number in range(count):
        (root / f"{number}.tar").write_bytes(archive(samples[number * each : (number + 1) * each]))
    return samples


def test_what_webdataset_writes(tmp_path: Path) -> None:
    webdataset = library("webdataset")
    data = photos(7)
    labels = [{"id": i, "name": "\N{SNOWMAN}" * i} for i in range(7)]
    with webdataset.ShardWriter(f"file:{tmp_path}/shard-%03d.tar", maxcount=3, verbose=0) as writer:
        for i in range(7):
            writer.write({"__key__": f"n{i:04d}", "jpg": data[i], "cls": i, "json": labels[i], "txt": f"no {i}"})
    pattern = f"{tmp_path}/shard-{{000..002}}.tar"
    names = [f"{tmp_path}/shard-00{i // 3}.tar: n{i:04d}" for i in range(7)]
    for label, wanted in (
        ("json", labels), (("cls", "json"), list(enumerate(labels))), (["cls"], [(i,) for i in range(7)]),
        (None, [None] * 7),
    ):  # fmt: skip
        assert_law(tar(pattern, label=label), list(zip(data, wanted, strict=True)), names)
    assert repr(tar(pattern)) == f"<gpuimg.tar '{tmp_path}/shard-000.tar' and 2 more: 7 samples>"


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_tar_format(tmp_path: Path, form: int) -> None:
    long = "d" * 80 + "/" + "k" * (90 if form == tarfile.USTAR_FORMAT else 160)
    path = write(tmp_path / "a.tar", (f"{long}.png", b"x"), (f"{long}.cls", b"4"), form=form)
    assert_law(tar(path), [(b"x", 4)], [f"{path}: {long}"])
    assert repr(tar(path)) == f"<gpuimg.tar '{path}': 1 sample>"


def test_members_that_are_no_samples(tmp_path: Path) -> None:
    others = (("README", b""), (".hidden.txt", b""), ("__index__.json", b"{}"))
    path = write(tmp_path / "a.tar", ("a.b/1.JPG", b"x"), *others, ("a.b/1.cls", b"7"))
    with tarfile.open(path, "a") as file:
        for name, kind in (("a.dir", tarfile.DIRTYPE), ("link.jpg", tarfile.SYMTYPE), ("1.cls", tarfile.LNKTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "a.b/1.JPG"
            file.addfile(member)
    assert_law(tar(path), [(b"x", 7)], [f"{path}: a.b/1"])


@pytest.mark.parametrize(("ending", "value", "wanted"), [
    ("cls", b" 12\n", 12), ("cls", b"-3", -3), ("cls", b"n01440764", "n01440764"), ("cls", b"1_0", "1_0"),
    ("cls", b"", ""), ("top.cls", b"5", 5), ("txt", "\N{SNOWMAN} 5".encode(), "\N{SNOWMAN} 5"),
    ("json", b"[1, {}]", [1, {}]), ("meta.json", b"null", None), ("npy", b"\x93", b"\x93"),
])  # fmt: skip
def test_labels(tmp_path: Path, ending: str, value: bytes, wanted: Any) -> None:
    path = write(tmp_path / "a.tar", ("1.jpg", b"x"), (f"1.{ending}", value))
    assert_law(tar(path, label=ending), [(b"x", wanted)], [f"{path}: 1"])


def test_image_endings(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", ("1.png", b"png"), ("1.seg.png", b"mask"), ("1.jpg", b"jpg"))
    assert tar(path, label=None)[0] == (b"jpg", None)
    assert tar(path, label=None, image=("png", "jpg"))[0] == (b"png", None)
    assert tar(path, label="png", image="SEG.png")[0] == (b"mask", b"png")


def test_paths(tmp_path: Path) -> None:
    samples = shards(tmp_path, 3, 2)
    several: list[Any] = [os.fsencode(tmp_path) + b"/{0..2}.tar", [tmp_path / "0.tar", str(tmp_path / "{1..2}.tar")]]
    for paths in several:
        assert list(tar(paths)) == samples
    for odd in ("{0..2}.tar", "[1].tar"):
        path = write(tmp_path / odd, ("1.jpg", b"x"), ("2.jpg", b"y"), ("2.cls", b"2"), ("1.cls", b"1"))
        assert list(tar(path)) == [(b"x", 1), (b"y", 2)]  # members of a sample need not be neighbors


@pytest.mark.parametrize(("members", "match"), [
    ([("1.jpg", b"x"), ("2.jpg", b"y")], r"a\.tar: 1 has no label \.cls, nor has any of the 2 samples.*has \.jpg"),
    ([("1.cls", b"1"), ("1.svg", b"x")], r"a\.tar: 1 has no image \(\.jpg, .*; it has \.cls, \.svg"),
    ([("1.txt", b"1")], r"a\.tar: 1 has no image \(.*\) and no label \.cls; it has \.txt"),
    ([("1.jpg", b"x"), ("1.JPG", b"x")], r"a\.tar: 1\.JPG occurs twice"),
    ([("README", b"")], r"a\.tar: no samples in it"), ([], r"a\.tar: no samples in it"),
])  # fmt: skip
def test_samples_that_lack_something(tmp_path: Path, members: list[tuple[str, bytes]], match: str) -> None:
    path = write(tmp_path / "a.tar", *members)
    with pytest.raises(ValueError, match=match):
        tar(path)


@pytest.mark.filterwarnings("ignore:[0-9] samples could not be decoded:RuntimeWarning")
def test_a_sample_that_lacks_its_image_or_label_is_a_bad_sample(tmp_path: Path) -> None:
    """As one whose label cannot be read; with a cached index too."""
    members = [(f"{k}.{ending}", data) for k in range(6) for ending, data in (("jpg", FILES[k]), ("json", b'{"a": 1}'))]
    del members[2]  # 1.jpg
    members[4] = "2.json", b"{"
    del members[6]  # 3.json
    path = write(tmp_path / "a.tar", *members)
    for _ in range(2):
        source = tar(path, label="json.a", index_cache=tmp_path / "index")
        loader = gpuimg.load(source, lambda x: gpuimg.resize(x, (8, 8)), batch_size=6, on_error="fill", device="cpu")
        (batch,) = loader
        assert batch.valid.tolist() == [True, False, False, False, True, True]
        assert batch.labels.tolist() == [1, -1, -1, -1, 1, 1]
        reasons = [failure.reason for failure in loader.failures]
        assert [failure.index for failure in loader.failures] == [1, 2, 3]
        assert "it has no image (.jpg, " in reasons[0]
        assert "its .json cannot be read" in reasons[1]
        assert "it has no label .json" in reasons[2]
    with pytest.raises(gpuimg.DecodeError, match=r"a\.tar: 1"):
        next(gpuimg.load(source, None, batch_size=6, device="cpu"))


def test_keys_of_a_json_label(tmp_path: Path) -> None:
    content = json.dumps({"Caption": "a cat", "box": {"w": 3}, "n": 4}).encode()
    path = write(tmp_path / "a.tar", ("1.jpg", b"x"), ("1.json", content), ("1.top.json", b'{"n": 5}'))
    for label, value in (
        ("json.Caption", "a cat"), ("json.box.w", 3), ("top.json.n", 5), (("json.n", "top.json.n"), (4, 5)),
    ):  # fmt: skip
        assert tar(path, label=label)[0] == (b"x", value)
    for label, message in (("json.title", "no 'title'; it has keys 'Caption', 'box', 'n'"), ("json.n.x", "it has int")):
        with pytest.raises(ValueError, match=message):
            tar(path, label=label)[0]
    for ending, data in (("json", b"{"), ("json", b"[" * 10**6), ("txt", b"\xff"), ("cls", b"\xff")):
        path = write(tmp_path / "a.tar", ("k.jpg", b"x"), (f"k.{ending}", data))
        with pytest.raises(ValueError, match=rf"a\.tar: k: its \.{ending} cannot be read: "):
            tar(path, label=ending)[0]


@pytest.mark.parametrize(("pattern", "expected"), [
    ("a.tar", ["a.tar"]), ("a-{8..11}", ["a-8", "a-9", "a-10", "a-11"]),
    ("{00..02}/{a,b}.x", ["00/a.x", "00/b.x", "01/a.x", "01/b.x", "02/a.x", "02/b.x"]), ("a{,-b}", ["a", "a-b"]),
    ("a{b}", ["a{b}"]), ("a{1..}", ["a{1..}"]), (["x{1..2}", b"y", Path("z")], ["x1", "x2", "y", "z"]),
])  # fmt: skip
def test_patterns(pattern: Any, expected: list[str]) -> None:
    assert files_of(pattern) == tuple(expected)
    with pytest.raises(ValueError, match="paths must name at least one file"):
        files_of("a-{2..1}")


def test_patterns_of_files_that_exist(tmp_path: Path) -> None:
    samples = shards(tmp_path, 12, 2)
    by_name = [sample for k in sorted(range(12), key=str) for sample in samples[2 * k : 2 * k + 2]]
    assert list(tar(tmp_path / "*.tar")) == by_name
    assert list(tar(tmp_path / "{1*,[2-3]}.tar")) == by_name[2:12]
    assert list(tar([tmp_path / "?.tar"])) == [sample for k in range(10) for sample in samples[2 * k : 2 * k + 2]]
    with pytest.raises(FileNotFoundError, match="no file matches this pattern"):
        tar(tmp_path / "train-*.tar")
    with pytest.raises(FileNotFoundError, match=r"12\.tar"):
        tar(tmp_path / "{11..13}.tar")
    fsspec = library("fsspec")
    fsspec.filesystem("memory").put(f"{tmp_path}/1*.tar", "/globbed/")
    assert list(tar("memory://globbed/*.tar")) == by_name[2:8]
    with pytest.raises(FileNotFoundError, match="no file matches this pattern"):
        tar("memory://globbed/*.zip")


def test_arguments(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", ("1.jpg", b"x"))
    wrong: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (path, {"image": ()}, ValueError, "image must name at least one ending"),
        (path, {"image": ".jpg"}, ValueError, r"not '\.jpg'"), (path, {"label": ""}, ValueError, "not ''"),
        ([], {}, ValueError, "at least one file"), ([3], {}, TypeError, "int"),
        ([path, tmp_path / "nowhere.tar"], {"label": None}, FileNotFoundError, "nowhere"),
    ]  # fmt: skip
    for paths, options, error, message in wrong:
        with pytest.raises(error, match=message):
            tar(paths, **options)


def summed(header: bytes) -> bytes:
    blank = header[:148] + b" " * 8 + header[156:]
    return header[:148] + b"%06o\0 " % sum(blank) + header[156:]


def test_sparse(tmp_path: Path) -> None:
    header = tarfile.TarInfo("1.jpg")
    header.type = tarfile.GNUTYPE_SPARSE
    (tmp_path / "a.tar").write_bytes(summed(header.tobuf(tarfile.GNU_FORMAT)) + bytes(1024))
    with pytest.raises(ValueError, match=r"a\.tar: 1\.jpg is stored sparsely"):
        tar(tmp_path / "a.tar")


def long_name(size: int) -> bytes:
    """A header that declares a following name of this size."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, size
    return header.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("first", [True, False])
def test_headers_without_end(tmp_path: Path, first: bool) -> None:
    """Names of names of names, which the tarfile module follows by calling itself."""
    before = b"" if first else write(tmp_path / "good.tar", ("1.jpg", b"x")).read_bytes()[:1024]
    (tmp_path / "a.tar").write_bytes(before + (long_name(1) + b"x".ljust(512, b"\0")) * 3000)
    with pytest.raises(ValueError, match=rf"a\.tar: damaged at byte {len(before)}.*: too many or too large headers"):
        tar(tmp_path / "a.tar", label=None)


def test_a_header_of_more_than_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(long_name(1 << 35))
    os.truncate(path, 1 << 36)  # without a byte on the disk
    code = (
        "import resource, sys, gpuimg\nresource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))\n"
        "gpuimg.tar(sys.argv[1], label=None)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=300)
    assert "a.tar: damaged at byte 0: too many or too large headers of one member" in done.stderr


def test_kept_index(tmp_path: Path) -> None:
    samples = shards(tmp_path, 2, 3)
    index = tmp_path / "index.npz"
    paths = [tmp_path / "0.tar", tmp_path / "1.tar"]
    assert_law(tar(paths, index_cache=index), samples, [f"{paths[k // 3]}: {k:05d}" for k in range(6)])
    assert sorted(os.listdir(tmp_path)) == ["0.tar", "1.tar", "index.npz"]
    with pytest.raises(ValueError, match=r"no label \.json"):  # other options
        tar(paths, index_cache=index, label="json")
    assert list(tar(paths, index_cache=index)) == samples
    write(paths[1], ("new.jpg", b"new"), ("new.cls", b"9"))
    assert list(tar(paths, index_cache=index)) == [*samples[:3], (b"new", 9)]
    assert list(tar(paths[::-1], index_cache=index)) == [(b"new", 9), *samples[:3]]


def test_index_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards(tmp_path, 1, 1)
    with pytest.raises(OSError, match="nowhere"):
        tar(tmp_path / "0.tar", index_cache=tmp_path / "nowhere" / "index.npz")

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="No space left"):
        tar(tmp_path / "0.tar", index_cache=tmp_path / "index.npz")
    assert os.listdir(tmp_path) == ["0.tar"]


@pytest.mark.parametrize("size", [-1, -512, -60_000])
def test_a_negative_size(tmp_path: Path, size: int) -> None:
    """GNU's base-256 numbers have a sign."""
    path = write(tmp_path / "0.tar", ("a.jpg", b"image"), ("a.cls", b"1"))
    data = path.read_bytes()
    path.write_bytes(summed(data[:124] + size.to_bytes(12, "big", signed=True) + data[136:512]) + data[512:])
    with pytest.raises(ValueError, match=r"0\.tar: (damaged|not a tar file, or damaged)"):
        tar(path)
