"""Images, files and clips that several threads share: each goes to one thread, with or without the GIL.

Under the GIL, iterators of lists and ranges are safe, so that a missing lock would show in a free-threaded Python only.
Here ``iter`` of the module under test is replaced by the worst that such a Python may do.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi
from gpuimg._batch import clips
from gpuimg._batch.batch import recording_of
from gpuimg._data.images import EncodedImages, Pixels, offsets_of, whole_regions
from gpuimg._runtimes import cpu, jpeg_upload, planes, whole_files
from gpuimg._threads.team import SharedIterator
from gpuimg.sources import _fetching

from ..decoding.jpegs import encoded
from ..samples import file_of
from ..watchdog import on_threads

N = 24


class Unlocked:
    """An iterator that gives two threads the same item, and drops another, when they are in it at a time."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items, self._at = list(items), 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._at += 1
        time.sleep(2e-4)  # the other threads' turn
        if self._at > len(self._items):
            raise StopIteration
        return self._items[self._at - 1]


@pytest.fixture(autouse=True)
def _switch_often(watched: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "4")
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def taken(items: Iterable[int]) -> Counter[int]:
    """How often threads get each item."""
    found: list[int] = []
    on_threads(lambda: found.extend(items))
    return Counter(found)


def test_each_item_goes_to_one_thread() -> None:
    once = Counter(range(200))
    assert taken(SharedIterator(Unlocked(range(200)))) == once
    assert taken(Unlocked(range(200))) != once  # which the tests below rely on


def arrays(channels: int, first: int) -> Any:
    return np.random.default_rng(first).integers(0, 256, (N, 6, 5, channels), np.uint8)


# Results of each place that shares images, files or clips; other ones for other values of ``first``.


def files(form: str, channels: int, first: int) -> list[bytes]:
    return [file_of(np.full((4, 5, channels), first + 5 * k, np.uint8), form) for k in range(N)]


def others(first: int) -> Any:
    return np.stack(list(gi.decode_batch(files("BMP", 3, first), device="cpu")))


def with_alpha(first: int) -> Any:
    return gi.open_batch(files("PNG", 4, first), color="rgba", device="cpu").array()


def four_channels(first: int) -> Any:
    return gi.rotate(arrays(4, first), 30.0).array()


def mixed(first: int) -> Any:
    return gi.blend(arrays(3, first), arrays(3, first + 1), 0.25).array()


def videos(first: int) -> Any:
    names = [str(first + k) for k in range(N)]
    return clips._indexes(names, 0, lambda name, _: name)[0]  # type: ignore[arg-type, return-value]


def remote(first: int) -> Any:
    class Storage:
        def whole(self, url: str, mark: str, size: int, max_bytes: int) -> bytes:
            return url.encode()

    places = [_fetching.RemoteWhole(Storage(), str(first + k), "") for k in range(N)]  # type: ignore[arg-type]
    return _fetching.fetched(places, 100)


def uploads(first: int) -> Any:
    photo = Image.linear_gradient("L").resize((64, 48)).convert("RGB")
    jpegs = [encoded(photo, quality=10 + first + k, restart_marker_rows=1) for k in range(N)]
    images = recording_of(gi.open_batch(jpegs, device="cpu")).source
    assert isinstance(images, EncodedImages)
    pixels = Pixels(np.empty(1, np.uint8), offsets_of(images.sizes, 3)[0], images.sizes, 3)
    upload = jpeg_upload.Upload(images, pixels, whole_regions(images.sizes))
    written = np.zeros(upload.words, np.int32)
    upload.write(written)
    return written


SITES = [
    (cpu, others), (cpu, mixed), (whole_files, with_alpha), (planes, four_channels), (clips, videos),
    (_fetching, remote), (jpeg_upload, uploads),
]  # fmt: skip


@pytest.mark.parametrize(("module", "result"), SITES, ids=lambda one: one.__name__.rpartition(".")[2])
def test_nothing_is_left_out(module: Any, result: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = result(1)
    result(50)  # what memory holds now is something else
    monkeypatch.setattr(module, "iter", Unlocked, raising=False)
    monkeypatch.setattr(jpeg_upload, "_FOR_THREAD", 1)
    np.testing.assert_array_equal(result(1), expected)
