"""Parquet files."""

import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuimg as gi
from gpuimg._loading.order import order_of
from gpuimg.sources import parquet
from gpuimg.sources._reading import Recent

from ..data_sets import FILES, cpu, valid_indices
from ..libraries import library, needs
from .laws import assert_law, photos
from .writers import write_parquet as write

needs("pyarrow")


def as_struct(data: list[bytes]) -> list[dict[str, Any]]:
    """The layout of Hugging Face's ``datasets``."""
    return [{"bytes": content, "path": f"{i}.jpg"} for i, content in enumerate(data)]


@pytest.mark.parametrize("layout", [as_struct, list])
@pytest.mark.parametrize("options", [{}, {"write_page_checksum": True, "compression": "zstd"}])
def test_images_and_labels(tmp_path: Path, layout: Any, options: dict[str, Any]) -> None:
    data = photos(10)
    write(tmp_path / "a-0", layout(data[:7]), list(range(7)), **options)
    write(tmp_path / "a-1", layout(data[7:]), [7, 8, 9], **options)
    names = [f"{tmp_path}/a-{int(i >= 7)}: row {i - 7 * (i >= 7)}" for i in range(10)]
    pattern = f"{tmp_path}/a-{{0..1}}"
    assert_law(parquet(pattern), list(zip(data, range(10), strict=True)), names)
    assert repr(parquet(pattern)) == f"<gpuimg.parquet '{tmp_path}/a-0' and 1 more: 10 rows>"
    assert_law(parquet(pattern, cached_groups=1), list(zip(data, range(10), strict=True)), names)
    assert_law(parquet(pattern, label=None), [(content, None) for content in data], names)


@pytest.mark.parametrize("labels", [["cat", None, "dog"], [[1, 2], [], None], [0.5, 1.0, 2.0], [{"a": 1}] * 3])
def test_labels(tmp_path: Path, labels: list[Any]) -> None:
    path = write(tmp_path / "a", photos(3), labels)
    assert_law(parquet(path), list(zip(photos(3), labels, strict=True)), [f"{path}: row {i}" for i in range(3)])


def test_other_columns_and_types(tmp_path: Path) -> None:
    arrow, parquet_module = library("pyarrow"), library("pyarrow.parquet")
    columns = {"jpg": arrow.array([b"x", b"y"], arrow.large_binary()), "cls": [1, 2], "large": [b"z" * 999] * 2}
    parquet_module.write_table(arrow.table(columns), tmp_path / "a")
    assert list(parquet(tmp_path / "a", image="jpg", label="cls")) == [(b"x", 1), (b"y", 2)]


def test_images_that_are_not_there(tmp_path: Path) -> None:
    """Nor is the file at a path read, which anybody may have written there."""
    (tmp_path / "1.jpg").write_bytes(b"linked")
    images = [{"bytes": None, "path": "1.jpg"}, {"bytes": b"x", "path": None}, None]
    found = parquet(write(tmp_path / "a", images, [1, 2, 3]))
    assert found[1] == (b"x", 2)
    for i in (0, 2):
        with pytest.raises(ValueError, match=f"a: row {i}: column 'image' has no bytes"):
            found[i]


def test_empty_groups_and_files(tmp_path: Path) -> None:
    arrow, parquet_module = library("pyarrow"), library("pyarrow.parquet")
    write(tmp_path / "0", photos(2), [0, 1])
    empty = arrow.table({"image": arrow.array([], arrow.binary()), "label": arrow.array([], arrow.int64())})
    parquet_module.write_table(empty, tmp_path / "1")
    with parquet_module.ParquetWriter(tmp_path / "2", empty.schema) as writer:
        writer.write_table(empty)
        writer.write_table(arrow.table({"image": [b"x"], "label": [2]}))
        writer.write_table(empty)
    samples = [*zip(photos(2), (0, 1), strict=True), (b"x", 2)]
    names = [f"{tmp_path}/0: row 0", f"{tmp_path}/0: row 1", f"{tmp_path}/2: row 0"]
    assert_law(parquet(f"{tmp_path}/{{0..2}}"), samples, names)
    with pytest.raises(ValueError, match="1: no rows in it"):
        parquet(tmp_path / "1")


def test_arguments(tmp_path: Path) -> None:
    path = write(tmp_path / "a", photos(1), [1])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"cached_groups": 0}, "cached_groups must be a whole number of at least 1, not 0"),
        ({"image": "jpg"}, "a: no column 'jpg'; it has 'image', 'label'"),
        ({"label": "cls"}, "a: no column 'cls'; it has 'image', 'label'"),
        ({"image": "label"}, "a: column 'label' must hold bytes, or a struct with them, not int64"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            parquet(path, **options)


def test_changed_after_it_was_indexed(tmp_path: Path) -> None:
    path = write(tmp_path / "a", photos(6), list(range(6)))
    found = parquet(path)
    write(path, photos(5), list(range(5)))
    assert found[0] == (photos(1)[0], 0)
    with pytest.raises(ValueError, match="a: row 3: row group 1 has changed since it was indexed"):
        found[3]
    one = parquet(path, cached_groups=1)
    assert (one[0], one[3]) == ((photos(1)[0], 0), (photos(4)[3], 3))
    path.unlink()
    assert one[4][1] == 4
    with pytest.raises(FileNotFoundError):
        one[0]
    assert found[1] == (photos(2)[1], 1)  # still in memory


def test_kept_index(tmp_path: Path) -> None:
    """Footers are not read again, until a file or a column is another one."""
    paths = [write(tmp_path / str(k), photos(4 + k), list(range(4 + k))) for k in range(2)]
    index, expected = tmp_path / "index", list(parquet(paths))
    assert list(parquet(paths, index_cache=index)) == expected
    status, whole = paths[0].stat(), paths[0].read_bytes()
    paths[0].write_bytes(whole[:-8] + bytes(8))
    os.utime(paths[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    kept = parquet(paths, index_cache=index)
    assert len(kept) == len(expected)
    assert kept[4] == expected[4]
    with pytest.raises(ValueError, match="row 0: row group 0 cannot be read"):
        kept[0]
    with pytest.raises(ValueError, match="no column 'jpg'"):
        parquet(paths[1:], image="jpg", index_cache=index)
    paths[0].write_bytes(whole)
    os.utime(paths[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    for rows in ([9, 9], [-3, 3, 3, 2]):
        with np.load(index) as archive:
            arrays = dict(archive)
        with index.open("wb") as file:
            np.savez(file, **{**arrays, "rows": np.array(rows)})
        with pytest.warns(RuntimeWarning, match="is damaged and is built again"):
            assert list(parquet(paths, index_cache=index)) == expected


@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=30), samples=st.integers(1, 20),
       more=st.integers(0, 30), seed=st.integers(0, 99))  # fmt: skip
def test_blocks_are_whole_row_groups(sizes: list[int], samples: int, more: int, seed: int) -> None:
    """In any pieces; a buffer divides at most the groups at its ends."""
    n, blocks = sum(sizes), gi.Blocks(samples, samples + more)
    if not n:
        return
    ends = np.cumsum(sizes)
    order = order_of(n, blocks, None, None, 1, ends)
    found = order.at(np.arange(n), seed, 3)[0]
    assert sorted(found.tolist()) == list(range(n))
    other = order_of(n, blocks, None, None, 1, ends).at(np.arange(n), seed, 4)[0]
    for k in range(0, n, 5):
        places = np.arange(k, min(k + 5, n))
        for epoch, whole in ((4, other), (3, found)):  # in turn
            assert order.at(places, seed, epoch)[0].tolist() == whole[places].tolist()
    group = np.searchsorted(ends, found, side="right")
    buffers = [set(group[at : at + blocks.run].tolist()) for at in range(0, n, blocks.run)]
    groups = sum(size > 0 for size in sizes)
    assert sum(map(len, buffers)) <= groups + (len(buffers) - 1) * (samples + 1)


def test_a_shuffled_epoch_decodes_groups_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a", [FILES[k % 5] for k in range(60)], list(range(60)))
    found, loads = parquet(path, cached_groups=1), Counter[int]()
    load = found._groups._load
    found._groups = Recent(lambda group: loads.update([group]) or load(group), 1)
    seen = valid_indices(cpu(found, shuffle=gi.Blocks(3, 15), readers=1))
    assert sorted(seen) == list(range(60)) != seen
    assert loads == dict.fromkeys(range(20), 1)


def test_threads_wait_for_the_one_that_loads() -> None:
    calls: list[int] = []
    everyone = threading.Barrier(8)

    def load(key: int) -> int:
        calls.append(key)
        time.sleep(0.05)
        return -key

    recent = Recent(load, 2)

    def ask(_: int) -> Any:
        everyone.wait(10)
        return recent(5)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [-5] * 8
    assert calls == [5]
    assert [recent(key) for key in (6, 5, 7, 5, 6)] == [-6, -5, -7, -5, -6]
    assert calls == [5, 6, 7, 6]  # 7 pushed 6 out, which was used before 5


def test_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    started, go = threading.Event(), threading.Event()

    def load(key: int) -> int:
        started.set()
        assert go.wait(10)
        return key

    recent = Recent(load, 2)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(recent, 1)
        assert started.wait(10)
        monkeypatch.setattr(os, "getpid", lambda: -1)  # as if this were the child, where nobody loads
        monkeypatch.setattr(recent, "_load", lambda key: -key)
        assert recent(1) == -1
        go.set()
        assert future.result(10) == 1
