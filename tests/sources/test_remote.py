"""Remote sources: the same samples as from local files, whatever the server does, or an error with the reason."""

import errno
import hashlib
import os
import pickle
import re
import shutil
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._io.native_read import ChunkReader
from gpuimg._loading.samples import Columns, name_videos
from gpuimg.sources import Table, _reading
from gpuimg.sources._blocks import BLOCK, Blocks, key_of
from tests.libraries import library, needs

from ..data_sets import FILES, cpu, pixels_of, valid_indices
from ..processes import python
from ..robustness.remote import SAMPLES, data_set, options, s3
from .laws import assert_same
from .remote_server import Request, Server, requests_since, serving, shards
from .slides import jpeg_pyramid, picture
from .test_mxnet import GOLDEN
from .writers import archive, write_source

fsspec, _ = library("fsspec"), library("aiohttp")

undecoded = pytest.mark.filterwarnings("ignore:.*could not be decoded:RuntimeWarning")
pytestmark = pytest.mark.usefixtures("quick_retries")
ORDER = [sample for k in range(3) for sample in SAMPLES[k::3]]


@pytest.fixture(scope="module")
def stored() -> Iterator[Server]:
    needs("s3fs", "moto")
    with s3(data_set()) as server:
        yield server


def _folder(root: Path) -> Callable[..., Table]:
    for data, label in SAMPLES[:20]:
        path = root / "train" / f"class {label % 3}" / ("deep/er" if label % 2 else ".") / f"{label}.JPG"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (root / "train" / "class 1" / "notes.txt").write_text("no image")
    (root / "train" / "notes.txt").write_text("no class")
    return lambda base, **options: gi.folder(f"{base}/train", **options)


def _tiles(root: Path) -> Callable[..., Table]:
    for k in range(2):
        (root / f"{k}.tif").write_bytes(jpeg_pyramid(picture(300 + 100 * k, 400), side=64, inner=k > 0))
    return lambda base, **options: gi.tiles([f"{base}/{k}.tif" for k in range(2)], level=1, edges="keep", **options)


def _recordio(root: Path) -> Callable[..., Table]:
    for ending in ("rec", "idx"):
        shutil.copy(GOLDEN / f"golden.{ending}", root)
    return lambda base, **options: gi.recordio(f"{base}/golden.rec", **options)


EVERY: dict[str, Callable[[Path], Callable[..., Table]]] = {
    **{
        kind: partial(write_source, kind, data=FILES[:5])
        for kind in ("tar", "tfrecord", "lmdb", "parquet", "text file", "coco")
    },
    "recordio": _recordio,
    "tiles": _tiles,
    "folder": _folder,
}


def test_folders_lists_and_shards_in_archives(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        for name, data in (("in/cat/0.jpg", FILES[0]), ("in/dog/1.jpg", FILES[1]), ("in/0.tar", archive(SAMPLES[:2]))):
            file.writestr(name, data)
        file.writestr("in/l.csv", "path,label\ncat/0.jpg,3\ndog/1.jpg,4\n")
    url = f"::{tmp_path}/x.zip"
    assert list(gi.folder(f"zip://in{url}")) == [(FILES[0], 0), (FILES[1], 1)]
    assert list(gi.file_list(f"zip://in/l.csv{url}")) == [(FILES[0], 3), (FILES[1], 4)]
    assert list(gi.file_list(["cat/0.jpg"], root=f"zip://in{url}")) == [(FILES[0], None)]
    assert list(gi.tar(f"zip://in/*.tar{url}")) == SAMPLES[:2]


@pytest.mark.parametrize("top", ["zip://::{}", "zip:///::{}"])
def test_folders_at_the_top_of_an_archive(top: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        for name, data in (("cat/0.jpg", FILES[0]), ("dog/a/1.jpg", FILES[1]), ("readme.txt", b"")):
            file.writestr(name, data)
    found = gi.folder(top.format(tmp_path / "x.zip"))
    assert found.classes == ["cat", "dog"]
    assert list(found) == [(FILES[0], 0), (FILES[1], 1)]
    with pytest.raises(NotADirectoryError, match=r"an archive; for its folders pass 'zip://::.*x\.zip'"):
        gi.folder(tmp_path / "x.zip")


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("where", ["memory", "http", "cached"])
def test_every_source(tmp_path: Path, kind: str, where: str) -> None:
    root = tmp_path / "files"
    root.mkdir()
    make = EVERY[kind](root)
    local = make(str(root))
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with serving({f"/{name}": data for name, data in files.items()}) as server:
        base, remote = server.url, gi.Remote(cache=tmp_path / "cache" if where == "cached" else None)
        if where == "memory":
            base = f"memory://{tmp_path.name}"
            fsspec.filesystem("memory").pipe({f"{base}/{name}": data for name, data in files.items()})
        found = make(base, remote=remote)
        shown = [local.describe(i).replace(str(root), base) for i in range(len(local))]
        for _ in range(2):
            for (data, label), (wanted, wanted_label) in zip(found, local, strict=True):
                assert bytes(data) == bytes(wanted)
                assert_same(label, wanted_label)
            found = pickle.loads(pickle.dumps(found))
        assert [found.describe(i) for i in range(len(found))] == shown


def test_names_of_a_list_may_be_urls(web: Server, tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(FILES[1])
    urls = [f"{web.url}/bucket/train/0/00000.jpg", str(tmp_path / "1.jpg"), f"{web.url}/bucket/train/2/00002.jpg"]
    source = gi.file_list(urls, [0, 1, 2])
    assert pixels_of(cpu(source)) == pixels_of(cpu(SAMPLES[:3]))
    (tmp_path / "list.txt").write_text("\n".join(urls))
    assert [data for data, _ in gi.file_list(tmp_path / "list.txt")] == FILES[:3]
    (video,) = name_videos(source, [0], [True], Columns(), 1 << 30)
    assert (video.data, video.path) == (FILES[0], None)
    secret = gi.Remote(storage_options={"key": "me", "secret": "hush"})
    assert "hush" not in repr(secret) + repr(gi.file_list(["s3://bucket/a.jpg"], remote=secret))


def test_idx_that_may_not_be_looked_for(tmp_path: Path) -> None:
    files = {f"/golden.{ending}": (GOLDEN / f"golden.{ending}").read_bytes() for ending in ("rec", "idx")}
    with serving(files) as server:
        server.fault = lambda request: 403 if request.path.endswith(".idx") else None
        source = gi.recordio(f"{server.url}/golden.rec")
    assert source.describe(0).endswith("record 0")  # not its key


def test_folder_is_listed_once(stored: Server, tmp_path: Path) -> None:
    kept = tmp_path / "listing"
    first = gi.folder("s3://bucket/train", remote=options(stored), index_cache=kept)
    assert first.classes == ["0", "1", "2", "3"]
    before = len(stored.requests)
    again = gi.folder("s3://bucket/train", remote=options(stored), index_cache=kept)
    assert len(stored.requests) == before
    assert list(again) == list(first) == [(*sample[:1], k) for k in range(4) for sample in SAMPLES[k::4]]
    assert len(stored.requests) - before == 2 * len(SAMPLES)  # one each
    for path, more, message in (
        (tmp_path, {"index_cache": kept}, "index_cache is for a folder at a URL"),
        ("s3://bucket/train", {"extensions": [".gif"], "remote": options(stored)}, "no images"),
        ("s3://bucket/train/0", {"remote": options(stored)}, "no class folders"),
    ):
        with pytest.raises(ValueError, match=message):
            gi.folder(path, **more)  # type: ignore[arg-type]


def test_neighbors_are_one_request(web: Server) -> None:
    source = gi.tar(shards(web))
    before = len(web.requests)
    assert len(valid_indices(cpu(source))) == 64
    assert len(requests_since(web, before)) == 4  # of three files; the first 32 samples while their size is not known


def test_far_parts_are_separate_concurrent_requests(web: Server) -> None:
    source = gi.tar(f"{web.url}/bucket/0.tar")
    source._files.gap = 0
    together = threading.Barrier(4)  # that many requests at once, or an answer that is none
    web.fault = lambda request: (together.wait(30.0), None)[1]
    before = len(web.requests)
    found = source.read_several(list(range(0, 8, 2)), ChunkReader())
    assert [bytes(data) for data, _ in found] == [data for data, _ in SAMPLES[0:24:6]]
    assert len(requests_since(web, before)) == 8  # images and labels, with a header between


def test_forked_child_reads(web: Server) -> None:
    source = gi.tar(shards(web))
    assert source[0][0] == FILES[0]
    retries = source._storage.retries  # type: ignore[union-attr]
    retries.count = 5
    lock = retries._lock
    lock.acquire()  # as another thread may at that moment
    child = os.fork()
    if child == 0:
        # A loop of the child counts from what it finds.
        os._exit(0 if [data for data, _ in source] == [data for data, _ in ORDER] and retries.count == 5 else 1)
    lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert source[1][0] == FILES[3]


def test_kept_index(web: Server, tmp_path: Path) -> None:
    first = gi.tar(shards(web), index_cache=tmp_path / "index")
    before = len(web.requests)
    again = gi.tar(shards(web), index_cache=tmp_path / "index")
    assert len(web.requests) == before
    assert list(again) == list(first)
    assert not [request for request in web.requests[before:] if request.method == "HEAD"]
    web.objects["/bucket/0.tar"] = archive(SAMPLES[:3])
    changed = gi.tar(shards(web), index_cache=tmp_path / "index")
    with pytest.raises(OSError, match=r"changed since it was indexed: .* delete the file of index_cache"):
        changed[0]
    assert changed[63] == first[63]
    (tmp_path / "index").unlink()
    assert len(gi.tar(shards(web), index_cache=tmp_path / "index")) == len(first) - 22 + 3
    with pytest.raises(ValueError, match="index_cache must be a local file"):
        gi.tar(shards(web), index_cache=f"{web.url}/index")


@pytest.mark.parametrize("protocol", ["http", "s3"])
def test_known_versions_are_opened_without_a_request(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where more shards are read than stay open."""
    monkeypatch.setattr(_reading, "_REMOTE_FILES", 4)
    needs("s3fs")
    with serving({f"/bucket/{k}.tar": archive(SAMPLES[k::16]) for k in range(16)}) as server:
        base, remote = ("s3://bucket", options(server)) if protocol == "s3" else (f"{server.url}/bucket", None)
        gi.tar(f"{base}/{{0..15}}.tar", index_cache=tmp_path / "index", remote=remote)
        before = len(server.requests)
        source = gi.tar(f"{base}/{{0..15}}.tar", index_cache=tmp_path / "index", remote=remote)
        assert len(server.requests) == before
        assert len(valid_indices(cpu(source, shuffle=True))) == len(SAMPLES)
        assert {request.method for request in server.requests[before:]} == {"GET"}
        assert len(server.requests) - before <= len(SAMPLES)


def test_buffers_too_large_for_many_ranks(web: Server) -> None:
    source = gi.tar(shards(web))
    with pytest.warns(RuntimeWarning, match=r"100% of the samples .* a buffer of 16 for each of 5 ranks"):
        cpu(source, shuffle=gi.Blocks(4, 16), shard=(1, 5))
    cpu(source, shuffle=gi.Blocks(4, 16), shard=(1, 2))
    cpu(source, shuffle=gi.Blocks(4, 512))


@pytest.mark.parametrize("fault", [500, 503, 429, "drop", "cut", "short"])
def test_faults_that_pass(web: Server, fault: Any) -> None:
    source = gi.tar(shards(web))
    bad: dict[str, int] = {}

    def fails(request: Request) -> Any:
        bad[str(request[1:])] = bad.get(str(request[1:]), 0) + 1
        return fault if request.range is not None and bad[str(request[1:])] <= 3 else None

    web.fault = fails
    assert pixels_of(cpu(source, shuffle=True)) == pixels_of(cpu(ORDER, shuffle=True))


def test_faults_that_do_not_pass(web: Server) -> None:
    source = gi.tar(shards(web), remote=gi.Remote(retry_seconds=0.1))
    before = len(web.requests)
    web.fault = lambda request: 503 if request.range else None
    failed = r"2\.tar: 00005: bytes \d+ to \d+ failed (\d+) times in 0\.1 s, finally with HTTP status 503"
    with pytest.raises(OSError, match=failed) as caught:
        source[44]
    tries = int(re.search(failed, str(caught.value))[1])  # type: ignore[index]
    assert len(requests_since(web, before)) in (tries, 2 * tries)  # of image and label
    with pytest.raises(gi.DecodeError, match="failed"):
        list(cpu(source))
    with pytest.warns(RuntimeWarning, match="64 samples could not be decoded"):
        assert valid_indices(cpu(source, on_error="fill")) == []
    web.fault = lambda request: 403
    before = len(web.requests)
    with pytest.raises(PermissionError, match="403"):
        source[0]
    assert len(requests_since(web, before)) == 1


def test_what_is_not_there(web: Server, stored: Server) -> None:
    for url, remote in ((f"{web.url}/bucket/none.tar", None), ("s3://bucket/none.tar", options(stored))):
        with pytest.raises(FileNotFoundError) as caught:
            gi.tar(url, remote=remote)
        assert caught.value.filename == url
        with pytest.raises(FileNotFoundError, match=r"none\.tar"):
            gi.file_list([url], remote=remote)[0]


@pytest.mark.parametrize("same_size", [False, True])
def test_changed_objects(web: Server, same_size: bool) -> None:
    source = gi.tar(shards(web))
    copy = pickle.loads(pickle.dumps(source))
    data = web.objects["/bucket/0.tar"]
    web.objects["/bucket/0.tar"] = data[::-1] if same_size else data + bytes(512)
    for one in (source, copy):
        with pytest.raises(OSError, match=r"00000: changed since it was indexed: .* then, .* now") as caught:
            one[0]
        assert caught.value.errno == errno.ESTALE
        assert one[63][0] == ORDER[63][0]
    with pytest.raises(gi.DecodeError, match="changed since it was indexed"):
        list(cpu(source))


def test_changed_objects_on_s3() -> None:
    needs("s3fs", "moto")
    with s3({"0.tar": archive(SAMPLES)}) as server:
        source = gi.tar("s3://bucket/0.tar", remote=options(server))
        assert source[3][0] == FILES[3]
        fsspec.filesystem("s3", **options(server).storage_options).pipe("bucket/0.tar", archive(SAMPLES[::-1]))
        with pytest.raises(OSError, match=r"00003: changed since it was indexed: .*ETag.* then, .*ETag.* now"):
            source[3]


@pytest.mark.parametrize("ranges", [False, None])
def test_servers_without_ranges(ranges: bool | None, web: Server) -> None:
    """A server that says nothing is noticed when it answers with a whole file."""
    web.ranges = ranges
    with pytest.raises(OSError, match="the server does not serve parts of files"):
        gi.tar(shards(web))[3]
    assert len(gi.folder(f"{web.url}/bucket/train")) == 64  # whole files


def test_what_is_kept_is_not_fetched_again(web: Server, tmp_path: Path) -> None:
    """Unless it has changed."""
    remote = gi.Remote(cache=tmp_path)
    for make, path in ((gi.tar, shards(web)), (gi.folder, f"{web.url}/bucket/train")):
        first = [data for data, _ in make(path, remote=remote)]  # type: ignore[operator]
        source = make(path, remote=remote)  # type: ignore[operator]
        before = len(web.requests)
        assert [data for data, _ in source] == first
        assert requests_since(web, before) == []
    web.objects["/bucket/0.tar"] = archive(SAMPLES[1::3] + SAMPLES[:1])
    assert gi.tar(f"{web.url}/bucket/0.tar", remote=remote)[0][0] == FILES[1]


def blocks_of(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.rglob("*-*")}


def test_blocks(tmp_path: Path) -> None:
    data = np.random.default_rng().bytes(10 * BLOCK + 12345)
    calls: list[tuple[int, int]] = []

    def fetch(start: int, stop: int) -> bytes:
        calls.append((start, stop))
        return data[start:stop]

    blocks = Blocks(tmp_path, 1 << 30)
    rng = np.random.default_rng()
    for _ in range(50):
        start, stop = sorted(rng.integers(0, len(data) + 1, 2).tolist())
        if start < stop:
            assert blocks.part("a" * 32, len(data), start, stop, fetch) == data[start:stop]
    assert all(start % BLOCK == 0 for start, _ in calls)
    assert sum(stop - start for start, stop in calls) <= len(data)  # nothing twice
    assert max(stop - start for start, stop in calls) <= 8 * BLOCK


def test_the_cache_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("not the cache's")
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "mine.txt").write_text("nor this")
    blocks = Blocks(tmp_path, 5 * BLOCK)
    for k in range(20):
        blocks.put(key_of(str(k)), 0, bytes(BLOCK))
        os.utime(next(path for path in tmp_path.rglob(f"{key_of(str(k))}-0")), (k, k))
        assert sum(blocks_of(tmp_path).values()) <= 5 * BLOCK
        if k:
            assert blocks.get(key_of("1"), 0) is not None  # used again and again
    assert blocks.get(key_of("19"), 0) is not None
    assert blocks.get(key_of("5"), 0) is None
    assert (tmp_path / "mine.txt").exists()
    assert (tmp_path / "ab" / "mine.txt").exists()
    blocks.put(key_of("large"), 0, bytes(6 * BLOCK))
    assert blocks.get(key_of("large"), 0) is None


@pytest.mark.slow
def test_many_threads_and_processes_share_a_cache(web: Server, tmp_path: Path) -> None:
    code = """
import sys, hashlib, gpuimg
from concurrent.futures import ThreadPoolExecutor
source = gpuimg.tar(sys.argv[1], remote=gpuimg.Remote(cache=sys.argv[2], cache_bytes=1 << 20))
with ThreadPoolExecutor(8) as pool:
    found = [data for _ in range(3) for data, _ in pool.map(source.__getitem__, range(len(source)))]
print(hashlib.sha256(b"".join(found)).hexdigest())
"""
    with ThreadPoolExecutor(2) as pool:
        said = set(pool.map(lambda _: python("-c", code, shards(web), tmp_path), range(2)))
    assert said == {hashlib.sha256(b"".join([data for data, _ in ORDER] * 3)).hexdigest() + "\n"}
    assert sum(blocks_of(tmp_path).values()) <= 2 << 20


def test_a_cache_that_cannot_be_written(web: Server, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    with pytest.warns(RuntimeWarning, match="disk cache disabled: cannot write to"):
        source = gi.tar(shards(web), remote=gi.Remote(cache=tmp_path / "other"))
    assert [data for data, _ in source] == [data for data, _ in ORDER]


FILES_AND_LABELS = [(data, k) for k, data in enumerate(FILES[:8])]


def urls(server: Server) -> list[str]:
    return [f"{server.url}/bucket/train/{k % 4}/{k:05d}.jpg" for k in range(8)]


def valid(source: Table, **options: Any) -> int:
    """Return the number of correct samples in an epoch."""
    loader = cpu(source, batch_size=4, on_error="fill", **options)
    found = pixels_of(loader)
    assert found.items() <= pixels_of(cpu(FILES_AND_LABELS, batch_size=4)).items()
    return len(found)


@undecoded
@pytest.mark.parametrize("fault", ["unsaid cut", "short", "other"])
def test_files_that_do_not_decode_are_read_again(web: Server, tmp_path: Path, fault: str) -> None:
    """Answers that look whole and are not: in the cache they would stay for ever."""
    remote = gi.Remote(cache=tmp_path)
    web.fault = lambda request: fault if request.method == "GET" and request.path.endswith("2.jpg") else None
    for _ in range(2):
        since = len(web.requests)
        assert valid(gi.file_list(urls(web), remote=remote)) == 7
        assert [request.path for request in requests_since(web, since)].count("/bucket/train/2/00002.jpg") <= 3
    web.fault = lambda request: None
    since = len(web.requests)
    assert valid(gi.file_list(urls(web), remote=remote)) == 8
    assert {request.path for request in requests_since(web, since)} == {"/bucket/train/2/00002.jpg"}
    since = len(web.requests)
    assert valid(gi.file_list(urls(web), remote=remote)) == 8
    assert not requests_since(web, since)


@undecoded
@pytest.mark.parametrize("on_error", ["fill", "skip", "raise"])
def test_a_fault_that_the_cache_saw_once(web: Server, tmp_path: Path, on_error: str) -> None:
    seen: set[str] = set()

    def once(request: Request) -> Any:
        first = request.method == "GET" and request.path not in seen
        seen.add(request.path)
        return "short" if first else None

    web.fault = once
    source = gi.file_list(urls(web), remote=gi.Remote(cache=tmp_path))
    loader = cpu(source, batch_size=4, on_error=on_error)
    assert pixels_of(loader) == pixels_of(cpu(FILES_AND_LABELS, batch_size=4))
    assert not loader.failures


def test_an_answer_without_a_length_is_not_kept(web: Server, tmp_path: Path) -> None:
    """It may be incomplete."""
    web.fault = lambda request: "unsaid" if request.method == "GET" else None
    source = gi.file_list(urls(web), remote=gi.Remote(cache=tmp_path))
    for _ in range(2):
        since = len(web.requests)
        assert [data for data, _ in source] == FILES[:8]
        assert len(requests_since(web, since)) == 8
    assert not blocks_of(tmp_path)


@undecoded
def test_members_that_do_not_decode_are_read_again(web: Server, tmp_path: Path) -> None:
    url, remote = f"{web.url}/bucket/0.tar", gi.Remote(cache=tmp_path / "cache")
    expected = pixels_of(cpu(gi.tar(url), batch_size=4))
    gi.tar(url, index_cache=tmp_path / "index", label=None)
    for fault, wanted in (("other", {}), (None, expected)):
        web.fault = lambda request, fault=fault: fault if request.method == "GET" else None  # type: ignore[misc]
        source = gi.tar(url, index_cache=tmp_path / "index", label=None, remote=remote)
        assert pixels_of(cpu(source, batch_size=4, on_error="fill")) == wanted


def test_the_checksums_of_blocks(tmp_path: Path) -> None:
    """Any part of a block of any size, and any bit of it flipped."""
    blocks, rng = Blocks(tmp_path, 1 << 30), np.random.default_rng()
    piece = 1 << 16
    for size in (0, 1, piece - 1, piece, piece + 1, 2 * piece - 4, 2 * piece, 5 * piece + 77):
        data = rng.bytes(size)
        blocks.put("a" * 32, 0, data)
        assert blocks.get("a" * 32, 0) == blocks.get("a" * 32, 0, size) == data
        assert blocks.get("a" * 32, 0, size + 1) is None
        (path,) = tmp_path.rglob("*-0")
        whole = path.read_bytes()
        for _ in range(20):
            begin, end = sorted(rng.integers(0, size + 1, 2).tolist())
            assert blocks.get("a" * 32, 0, size, begin, end) == data[begin:end]
            if whole:
                at = int(rng.integers(len(whole)))
                path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
                assert blocks.get("a" * 32, 0) is None
                assert blocks.get("a" * 32, 0, size, begin, end) in (None, data[begin:end])
                path.write_bytes(whole[:at])
                assert blocks.get("a" * 32, 0, size) is None
                path.write_bytes(whole)
    for _ in range(2):
        blocks.remove("a" * 32, 0)
        assert blocks.get("a" * 32, 0) is None


@undecoded
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("fault", [None, "unsaid"])
def test_the_limit_of_bytes(web: Server, stored: Server, tmp_path: Path, cached: bool, fault: str | None) -> None:
    remote = gi.Remote(cache=tmp_path if cached else None)
    most = sorted(map(len, FILES[:8]))[4]
    small = sum(len(data) <= most for data in FILES[:8])
    web.fault = lambda request: fault if request.method == "GET" and request.path.endswith("jpg") else None
    for source in (
        gi.file_list(urls(web), remote=remote),
        gi.file_list([f"s3://bucket/train/{k % 4}/{k:05d}.jpg" for k in range(8)], remote=options(stored)),
    ):
        loader = cpu(source, batch_size=4, on_error="fill", max_bytes=most)
        assert len(pixels_of(loader)) == small
        assert all(f"bytes, over the limit of max_bytes={most}" in failure.reason for failure in loader.failures)
        assert valid(source) == 8
    for kind in (gi.folder(f"{web.url}/bucket/train", remote=remote), gi.tar(shards(web), remote=remote)):
        loader = cpu(kind, batch_size=4, on_error="fill", max_bytes=most)
        assert 0 < len(pixels_of(loader)) < len(FILES)
        assert all(f"bytes, over the limit of max_bytes={most}" in failure.reason for failure in loader.failures)


def test_a_file_without_end(web: Server) -> None:
    web.objects["/bucket/large.jpg"] = bytes(64 << 20)
    web.fault = lambda request: "unsaid" if request.method == "GET" else None
    source = gi.file_list([f"{web.url}/bucket/large.jpg"])
    (found,) = source.read_several([0], ChunkReader(max_bytes=1000))
    size = int(re.search(r"(\d+) bytes, over the limit of max_bytes=1000", str(found))[1])  # type: ignore[index]
    assert 1000 < size < 8 << 20


def test_a_block_that_others_fetch_is_waited_for(tmp_path: Path) -> None:
    calls: list[int] = []

    def fetch(start: int, stop: int) -> bytes:
        calls.append(start)
        time.sleep(0.2)
        if len(calls) == 1:
            raise OSError(errno.EIO, "once")
        return bytes(stop - start)

    blocks = Blocks(tmp_path, 1 << 30)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(blocks.part, "b" * 32, BLOCK, k, k + 1, fetch) for k in range(4)]
        assert sum(isinstance(job.exception(), OSError) for job in jobs) == 1
        assert [job.result() for job in jobs if job.exception() is None] == [b"\0"] * 3
    assert calls == [0, 0]  # the second one for all others


@pytest.mark.parametrize(("make", "error", "message"), [
    (lambda: gi.Remote(cache="s3://bucket/cache"), ValueError, "cache must be a local folder"),
    (lambda: gi.Remote(retry_seconds=-1), ValueError, "retry_seconds"),
    (lambda: gi.Remote(hedge_seconds=-1), ValueError, "hedge_seconds"),
    (lambda: gi.Remote(cache_bytes=0), ValueError, "cache_bytes"),
    (lambda: gi.Remote(storage_options="anon"), TypeError, "storage_options must be a mapping"),  # type: ignore[arg-type]
    (lambda: gi.tar("gs://bucket/a.tar"), ImportError, r"gs://bucket/a.tar: .*gcsfs"),
    (lambda: gi.array_record("s3://bucket/a.array_record"), ValueError, "must be a local file"),
    (lambda: gi.tar("nonsense://a.tar"), OSError, "Protocol not known"),
])  # fmt: skip
def test_what_is_refused(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
