"""Laws of all sources, and helpers of their tests."""

import contextlib
import errno
import gc
import os
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuimg._io.native_read import ChunkReader
from gpuimg.sources import Table
from gpuimg.sources._table import FileTable
from gpuimg.sources.folder import ImageFiles

from ..samples import file_of


def photos(n: int, form: str = "JPEG", size: tuple[int, int] = (24, 16)) -> list[bytes]:
    """``n`` small images, no two alike."""
    return [file_of(np.random.default_rng(i).integers(0, 256, (*size, 3), np.uint8), form) for i in range(n)]


def assert_same(actual: Any, expected: Any) -> None:
    """Equal in type and value, arrays and what holds them too."""
    if isinstance(expected, np.ndarray):
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected)
        for key, value in expected.items():
            assert_same(actual[key], value)
    else:
        assert type(actual) is type(expected)
        assert actual == expected


def assert_table(table: Table, samples: Sequence[tuple[bytes, Any]], names: Sequence[str]) -> None:
    """The samples and names, and every way of asking for them."""
    n = len(samples)
    assert len(table) == n
    read = [table[i] for i in range(n)]
    for (data, label), (wanted, wanted_label) in zip(read, samples, strict=True):
        assert data == wanted
        assert_same(label, wanted_label)
    assert [table.describe(i) for i in range(n)] == list(names)
    if not isinstance(table, ImageFiles):  # wherever its files are
        files, _, keys = zip(*(name.partition(": ") for name in names), strict=True)
        listed = [f"{Path(file).name}: {key}" for file, key in zip(files, keys, strict=True)]
        assert [table.listed_name(i) for i in range(n)] == listed
    assert table[-1][0] == table[np.int64(n - 1)][0] == samples[-1][0]
    assert table[-n][0] == samples[0][0]
    assert table.describe(-1) == names[-1]
    for i in (n, -n - 1, 10**20):
        with pytest.raises(IndexError, match=f"sample {i} of {n}"):
            table[i]
        with pytest.raises(IndexError):
            table.describe(i)
    with pytest.raises(TypeError):
        table[1.0]  # type: ignore[index]


def assert_pickles(table: Table, samples: Sequence[tuple[bytes, Any]]) -> None:
    """A copy gives the same, before and after the original was read."""
    for _ in range(2):
        copy = pickle.loads(pickle.dumps(table))
        assert [copy.describe(i) for i in range(len(copy))] == [table.describe(i) for i in range(len(table))]
        assert [data for data, _ in copy] == [data for data, _ in samples]


def assert_threads(table: Table, samples: Sequence[tuple[bytes, Any]]) -> None:
    """Eight threads that read everything at once, each in another order, get the same."""

    def reads(seed: int) -> bool:
        order = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(table)), 5))
        return all(table[i][0] == samples[i][0] for i in order)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(reads, range(8)))


def assert_together(table: Table, samples: Sequence[tuple[bytes, Any]]) -> None:
    """Samples of files that are read in one call, in any order and twice, are those read one by one."""
    if isinstance(table, FileTable) and table.is_plain:
        order = np.random.default_rng().integers(0, len(samples), 3 * len(samples)).tolist()
        found = table.read_several(order, ChunkReader())
        for i, (data, label) in zip(order, found, strict=True):
            assert bytes(data) == samples[i][0]
            assert_same(label, samples[i][1])


def assert_law(table: Table, samples: Sequence[tuple[bytes, Any]], names: Sequence[str]) -> None:
    assert_table(table, samples, names)
    assert_together(table, samples)
    assert_pickles(table, samples)
    assert_threads(table, samples)


def open_files(folder: Path) -> int:
    """Descriptors of files in a folder; those of other tests are none of its."""
    gc.collect()
    own = Path("/proc/self/fd")
    targets = []
    for descriptor in os.listdir(own):
        with contextlib.suppress(FileNotFoundError):  # a thread's that has closed it meanwhile, or the listing's own
            targets.append(os.readlink(own / descriptor))
    return sum(target.startswith(f"{folder.resolve()}/") for target in targets)


def assert_vanished(table: Table, i: int, path: Path) -> None:
    """A file that is gone is an error that names it and the sample."""
    path.unlink()
    with pytest.raises(FileNotFoundError, match="No such file") as caught:
        table[i]
    assert table.describe(i) in str(caught.value)
    assert path.name in str(caught.value)
    assert caught.value.errno == errno.ENOENT


def assert_names(error: Exception, *names: str) -> None:
    assert all(name in str(error) for name in names)


def outcome(path: Path, build: Callable[[], Table], samples: Sequence[tuple[bytes, Any]]) -> str:
    """Outcome of a damaged file: "refused", "unreadable", "other" or "same". Every error names the file."""
    try:
        table = build()
    except (ValueError, OSError) as error:
        assert_names(error, path.name)
        return "refused"
    result = "same" if len(table) == len(samples) else "other"
    for i in range(len(table)):
        try:
            read = table[i]
        except (ValueError, OSError) as error:
            assert_names(error, path.name, table.describe(i))
            result = "unreadable"
        else:
            if result == "same" and (read[0] != samples[i][0] or repr(read[1]) != repr(samples[i][1])):
                result = "other"
    return result


def cuts(size: int) -> list[int]:
    """Lengths to which a file of ``size`` bytes is cut: the first and last ones, and some between."""
    near = {size // 4, size // 2, size - 513, size - 5, size - 4, size - 1}
    return sorted({0, 1, 7, 8, 11, 12, 13, 100, *near} - {size})


def flipped(data: bytes, position: int, bit: int = 0) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1 << (position + bit) % 8
    return bytes(changed)
