"""The loader on a GPU: the CPU's pixels, results that stay while somebody reads them, and order of streams."""

from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._runtimes.probe import gpu_problem
from tests.data_sets import Source, pixels_of

from ..libraries import library, needs
from .test_gpu import IS_REAL, busy

if gpu_problem() is not None:  # on a fake GPU
    needs("numba_cuda")

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("watched", "any_gpu")]


SIDE, COUNT, EPOCHS = (64, 64, 60) if IS_REAL else (8, 12, 10)


def resized(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    return gi.random_horizontal_flip(gi.resize(x, (SIDE, SIDE)), rng=rng)


def on(device: str, source: Any, **options: Any) -> gi.Loader:
    return gi.load(source, resized, **{"batch_size": 8, "device": device, "dtype": "uint8", **options})


def test_pixels_are_the_cpus() -> None:
    import cupy

    for one, other in zip(on("cpu", Source(COUNT)), on("cuda", Source(COUNT)), strict=True):
        assert isinstance(other.images, cupy.ndarray)
        different = np.abs(one.images.astype(int) - cupy.asnumpy(other.images).astype(int))
        assert different.max() <= 4  # the decoders differ in their inverse transform
        np.testing.assert_array_equal(one.indices, other.indices)


@pytest.mark.slow
@pytest.mark.parametrize("decoders", [1, 3])
def test_the_same_pixels_whatever_threads_and_batch_size(decoders: int) -> None:
    import cupy

    def digests(**options: Any) -> dict[int, str]:
        batches = (batch._replace(images=cupy.asnumpy(batch.images)) for batch in on("cuda", Source(COUNT), **options))
        return pixels_of(batches)

    assert digests(batch_size=5, decoders=decoders, shuffle=True) == digests(batch_size=8, decoders=1)


@pytest.mark.slow
def test_results_stay_while_somebody_holds_them() -> None:
    import cupy

    kept = [(batch.images, cupy.asnumpy(batch.images)) for batch in on("cuda", Source(COUNT), batch_size=4, epochs=3)]
    for array, copy in kept:
        np.testing.assert_array_equal(cupy.asnumpy(array), copy)


@pytest.mark.slow
def test_memory_is_not_used_again_before_its_reader_is_done() -> None:
    """The consumer enqueues long work that reads a batch and lets go of it at once."""
    import cupy

    expected = [cupy.asnumpy(batch.images).sum(dtype=np.int64) for batch in on("cuda", Source(COUNT), batch_size=4)]
    stream = cupy.cuda.Stream(non_blocking=True)
    copies = []
    for batch in on("cuda", Source(COUNT), batch_size=4, stream=stream.ptr):
        busy(stream)
        with stream:
            copies.append(batch.images.copy())
    stream.synchronize()
    assert [int(copy.get().sum(dtype=np.int64)) for copy in copies] == expected


def test_torch_reads_on_a_separate_stream() -> None:
    torch = library("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    expected = [int(batch.images.sum(dtype=np.int64)) for batch in on("cpu", Source(COUNT), dtype="uint8")]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        sums = [
            torch.from_dlpack(batch.images).sum(dtype=torch.int64) for batch in on("cuda", Source(COUNT), stream=stream)
        ]
    stream.synchronize()
    for one, other in zip(sums, expected, strict=True):
        assert abs(int(one) - other) < 8 * SIDE * SIDE * 3  # decoders differ by a level here and there


@pytest.mark.slow
def test_device_memory_is_flat() -> None:
    import cupy

    def used() -> int:
        free, total = cupy.cuda.runtime.memGetInfo()
        return int(total - free)

    marks = [used() for _ in on("cuda", Source(COUNT), epochs=EPOCHS)]
    assert marks[-10] - marks[len(marks) // 8] < (32 << 20 if IS_REAL else 64 << 10)
