"""The kernel that copies files within a GPU's memory, and those that decode what it copied, as they are compiled."""

from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from tests.cuda.test_cuda_jpeg import photo, turned
from tests.decoding.jpegs import encoded
from tests.libraries import needs

needs("numba_cuda")

from gpuimg.kernels.cuda import COPY

from .device import Launches
from .launch import run
from .parse import Fault
from .pixels import RANDOM
from .variants import ptx_of

pytestmark = pytest.mark.usefixtures("watched")


def copied(source: Any, target: Any, runs: Any, blocks: int = 2) -> None:
    run(ptx_of(COPY), (blocks, len(runs)), COPY.block, [source, target, np.array(runs).reshape(-1)])


def test_runs_are_copied_and_nothing_else() -> None:
    """Empty ones, single words, and those that are longer than the threads of a launch."""
    source = RANDOM.integers(-(1 << 31), 1 << 31, 5000).astype(np.int32)
    target = RANDOM.integers(-(1 << 31), 1 << 31, 3000).astype(np.int32)
    expected = target.copy()
    counts = [1, 0, 255, 256, 257, 1100]
    places = np.cumsum([0, *counts[:-1]]) + 7
    runs = [(int(RANDOM.integers(0, 5000 - n)), to, n) for n, to in zip(counts, places.tolist(), strict=True)]
    for first, to, n in runs:
        expected[to : to + n] = source[first : first + n]
    copied(source, target, runs)
    np.testing.assert_array_equal(target, expected)
    with pytest.raises(Fault):
        copied(source, target, [(4990, 0, 11)])


@pytest.mark.parametrize("draft", [None, 1.0])
def test_resident_files_are_the_cpus_pixels(launches: Launches, draft: float | None) -> None:
    """In the first epoch and in those after it, of crops that differ from epoch to epoch, in any order."""
    files = [turned(encoded(photo(30 + 9 * k, 44 - 3 * k), quality=70 + 4 * k), 1 + 3 * k % 8) for k in range(5)]
    source = [(gi.recode_jpeg(data) if k % 2 else data, k) for k, data in enumerate(files)]

    def crops(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
        return gi.random_resized_crop(x, 12, rng=rng)

    def loaded(device: str, **options: Any) -> list[Any]:
        loader = gi.load(
            source, crops, batch_size=3, shuffle=True, device=device, readers=1, decoders=1, draft=draft, **options
        )
        found = [(batch.indices.tolist(), batch.images) for _ in range(3) for batch in loader]
        assert loader.stats().get("cached") == (5 if options else None)
        return found

    expected = loaded("cpu")
    found = loaded("cuda:0", cache="1 MiB")
    for (order, images), (other, pixels) in zip(found, expected, strict=True):
        assert order == other
        # The transform's float32 sums differ between the devices by less than a rounding to the next level.
        assert np.abs(images.values.astype(int) - pixels).max() <= 1
    names = [kernel.name for kernel in launches.kernels]
    assert names.count("copy_words") >= 4
    assert {"find", "recoded"} <= set(names)
    assert ("reduced_dct" in names) == (draft is not None)
