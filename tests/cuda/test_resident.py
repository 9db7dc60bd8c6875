"""Files that stay in a GPU's memory from epoch to epoch: the host's part on a fake GPU; ptx/ runs the kernels."""

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._data.images import EncodedImages, Pixels, offsets_of, whole_regions
from gpuimg._data.resident import NEW, RECORD, Resident
from gpuimg._runtimes.jpeg_upload import Upload

from ..decoding.jpegs import encoded
from ..fakecuda import FakeGpu, file
from ..fakecuda.work import PREPROCESS, arrays_of, epoch, load
from ..libraries import needs
from ..samples import file_of
from .test_cuda_jpeg import BASELINE, photo, turned

needs("numba_cuda")

WHOLE = [data for data in BASELINE if b"\xff\xd0" not in data]  # all but the one with restart markers
WHOLE[2] = gi.recode_jpeg(WHOLE[2])


class Read:
    """A source that counts how often each sample is asked for."""

    def __init__(self, files: list[bytes]) -> None:
        self.files = files
        self.counts = np.zeros(len(files), np.int64)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        with self._lock:
            self.counts[i] += 1
        return self.files[i], i


def many(n: int) -> list[bytes]:
    """Files, of which every third one is recoded."""
    files = [turned(encoded(photo(24 + 3 * k % 25, 20 + 7 * k % 19), quality=60 + k), 1 + k % 8) for k in range(n)]
    return [data if k % 3 else gi.recode_jpeg(data) for k, data in enumerate(files)]


def epochs(gpu: FakeGpu, loader: Any, count: int) -> list[list[tuple[int, Any]]]:
    """Labels in the order of each epoch."""
    found: list[list[tuple[int, Any]]] = []
    for _ in range(count):
        found.append([])
        for batch in loader:
            for array in arrays_of(batch):
                gpu.use(array)
            found[-1] += zip(batch.indices.tolist(), batch.labels, strict=True)
            del batch, array
    return found


def uploaded(gpu: FakeGpu) -> int:
    """Bytes copied so far."""
    return sum(op.told["bytes"] for op in gpu.order.of("upload") if op.told.get("pinned"))


@pytest.mark.parametrize("preprocess", PREPROCESS)
@pytest.mark.parametrize("decoders", [1, 2])
def test_files_are_read_and_copied_once(gpu: FakeGpu, decoders: int, preprocess: str) -> None:
    source = Read(many(22))
    options: dict[str, Any] = {"shuffle": True, "seed": 5, "decoders": decoders}
    loader = load(source, PREPROCESS[preprocess], cache="1 MiB", **options)
    orders = epochs(gpu, loader, 1)
    first, copied = source.counts.copy(), uploaded(gpu)
    assert (first == 1).all()
    assert loader.stats()["cached"] == 22
    orders += epochs(gpu, loader, 2)
    assert (source.counts == first).all()
    assert uploaded(gpu) - copied < 2 * copied
    assert orders == epochs(gpu, load(source, PREPROCESS[preprocess], **options), 3)
    assert "copy_words" in {op.told["name"] for op in gpu.order.of("launch")}


def test_other_files_are_read_each_time(gpu: FakeGpu) -> None:
    """Those that a budget has no room for, and those that our kernels decode by markers or not at all."""
    others = [file(24, 30), file_of(photo(30, 20), "PNG"), encoded(photo(50, 40), restart_marker_rows=1)]
    source = Read([*WHOLE, *others])
    expected = gi.decode_batch(source.files, device="cpu")
    loader = load(source, None, cache=1 << 20, batch_size=len(source))
    for _ in range(3):
        (batch,) = loader
        for image, other in zip(batch.images, expected, strict=True):
            gpu.use(image)
            assert image.shape == other.shape
            assert np.all(gpu.values(image) == 77) or np.array_equal(gpu.values(image), other)
        del batch, image
    assert loader.stats()["cached"] == len(WHOLE)
    assert source.counts.tolist() == [1] * len(WHOLE) + [3] * len(others)


@pytest.mark.parametrize("budget", [1, 2000, 5000])
def test_a_budget(gpu: FakeGpu, budget: int) -> None:
    source = Read(many(16))
    loader = load(source, cache=budget, readers=1, decoders=1)
    epochs(gpu, loader, 3)
    count = loader.stats()["cached"]
    assert (count > 0) == (budget > 1)
    assert count < 16
    assert sorted(source.counts.tolist()) == [1] * count + [3] * (16 - count)
    sizes = [op.told["size"] for op in gpu.order.of("allocate")]
    assert budget // 4 * 4 in sizes or budget < 4


def test_samples_that_come_twice(gpu: FakeGpu) -> None:
    used = []
    for indices in ([0, 1, 2, 5], [0, 1, 0, 2, 2, 2, 5, 0]):
        source = Read(many(6))
        loader: Any = load(source, PREPROCESS["small"], cache="1 MB", indices=indices, batch_size=8)
        epochs(gpu, loader, 2)
        assert loader.stats()["cached"] == 4
        used.append(loader._reading.cache._used)
    assert used[0] == used[1]
    assert source.counts.max() <= 3  # of the first epoch


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_files_that_kernels_report_are_read_again(gpu: FakeGpu, on_error: Any) -> None:
    """They were added before that was known; later they are decoded like those that do not fit."""
    source = Read(WHOLE)
    expected = gi.decode_batch(WHOLE, device="cpu")
    loader = load(source, None, cache="1 MB", batch_size=len(WHOLE), on_error=on_error, decoders=1)
    epochs(gpu, loader, 1)
    gpu.damaged.update((0, 2))
    for _ in range(3):
        (batch,) = loader
        for i, (image, other) in enumerate(zip(batch.images, expected, strict=True)):
            gpu.use(image)
            assert np.array_equal(gpu.values(image), other) == (i in (0, 2))
        del batch, image
    assert loader.stats()["cached"] == len(WHOLE) - 2
    assert source.counts[[0, 2]].min() >= 3
    if on_error == "raise":  # under "skip" readers go on behind the end of an epoch
        assert source.counts.sum() - source.counts[[0, 2]].sum() == len(WHOLE) - 2


def test_a_file_that_changes(gpu: FakeGpu) -> None:
    source = Read(list(WHOLE))
    loader = load(source, cache="1 MB", batch_size=len(WHOLE))
    epochs(gpu, loader, 1)
    source.files[1] = encoded(photo(90, 80))
    gpu.damaged.add(1)
    with pytest.raises(RuntimeError, match="sample 1: the file has changed"):
        epoch(gpu, loader)


def test_copies_wait_for_those_of_other_streams(gpu: FakeGpu) -> None:
    """A file may be needed on one stream before the host knows that another one has added it."""
    from gpuimg._runtimes import cuda_jpeg, cuda_memory

    plain = WHOLE[:2] + WHOLE[3:]  # for the tables of recoded ones the host waits
    runtime = gpu.runtime.CudaRuntime(0)
    files = runtime.resident_files(1 << 20, len(plain), plain.__getitem__)
    ring = cuda_memory.Ring(cuda_memory.Pinned, 8)
    decoder = cuda_jpeg.SegmentDecoder(lambda: ring)
    for _ in range(2):
        heads = [files.head(i) for i in range(len(plain))]
        x = gi.open_batch(
            [data if head is None else head[1] for data, head in zip(plain, heads, strict=True)], device="cpu"
        )
        images = recording_of(x).source
        assert isinstance(images, EncodedImages)
        records = np.array([(NEW, 0, 0) if head is None else head[0].item() for head in heads], RECORD)
        resident = Resident(files, np.arange(len(plain)), records, [0] * len(plain))
        images = replace(images, resident=resident)
        offsets, total = offsets_of(images.sizes, 3)
        with gpu.stream() as stream:
            out = gpu.cupy.empty(total, np.uint8)
            uploaded = Upload(images, Pixels(out, offsets, images.sizes, 3), whole_regions(images.sizes))
            decoder.begin(images, uploaded, out, stream)
    assert files.count == len(plain)
    del files, images, resident, uploaded
    with gpu.stream():
        gpu.cupy.zeros(1 << 18, np.int32)  # may be of the same memory


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cache": "24"}, "a size such as"), ({"cache": "much"}, "a size such as"),
        ({"cache": 0}, "cache"), ({"cache": -3}, "cache"), ({"cache": 1.5}, "cache"),
        ({"cache": "1 GiB", "device": None, "devices": ["cuda:0", "cuda:1"]}, "on one device"),
        ({"cache": "1 GiB", "decoder": "nvimagecodec"}, "on one device"),
        ({"cache": "1 GiB", "clips": gi.Clips(2)}, "on one device"),
        ({"cache": "1 GiB", "device": "cpu", "draft": 1.0}, "without draft, Buckets and TokenBudget"),
    ],
)  # fmt: skip
def test_what_is_refused(gpu: FakeGpu, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load(Read(WHOLE), **options)
    with pytest.raises(ValueError, match="cache needs a source with a length"):
        load(gi.iterable([(data, 0) for data in WHOLE]), cache="1 GiB")
