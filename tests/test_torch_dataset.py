"""The loader as a torch dataset."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest

from tests.loading import FILES, Source, cpu, train

torch = pytest.importorskip("torch") if os.environ.get("GPUIMG_REQUIRE_INTEROP") != "1" else __import__("torch")
data: Any = torch.utils.data

pytestmark = pytest.mark.usefixtures("watched")


def dataset(n: int = 21, **options: Any) -> Any:
    import gpuimg.torch

    return gpuimg.torch.IterableDataset(
        Source(n), train, **{"batch_size": 4, "device": "cpu", "shuffle": True, **options}
    )


def test_batches_are_tensors_of_the_loader() -> None:
    loaded = data.DataLoader(dataset(), batch_size=None)
    expected = list(cpu(Source(21), batch_size=4, shuffle=True, layout="NCHW"))
    assert len(loaded) == 6
    for (images, labels), batch in zip(loaded, expected, strict=True):
        np.testing.assert_array_equal(images.numpy(), batch.images)
        np.testing.assert_array_equal(labels.numpy(), batch.labels)
        assert images.shape[1:] == (3, 8, 8)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_divide_the_samples(workers: int) -> None:
    """Every sample once in each epoch, padding aside, and the pixels it has without workers."""
    expected = {
        int(i): image
        for batch in cpu(Source(20), shuffle=True, layout="NCHW")
        for i, image in zip(batch.indices, batch.images, strict=True)
    }
    loaded = data.DataLoader(
        dataset(20), batch_size=None, num_workers=workers, multiprocessing_context="spawn", persistent_workers=True
    )
    for epoch in range(2):
        seen = []
        for images, labels in loaded:
            seen += labels.tolist()
            if epoch == 0:
                for image, i in zip(images, labels, strict=True):
                    np.testing.assert_array_equal(image.numpy(), expected[int(i)])
        assert sorted(seen) == list(range(20))


def test_positions() -> None:
    one = dataset()
    running = iter(one)
    first = [next(running)[1].tolist() for _ in range(2)]
    other = dataset()
    other.load_state_dict(one.state_dict())
    rest = [labels.tolist() for _, labels in other]
    assert sorted(i for labels in first + rest for i in labels) == list(range(21))
    restored = pickle.loads(pickle.dumps(one))
    assert [labels.tolist() for _, labels in restored] == rest
    one.set_epoch(0)
    assert [labels.tolist() for _, labels in one][:2] == first


def test_images_of_different_sizes_and_other_labels() -> None:
    import gpuimg.torch

    rows = gpuimg.torch.IterableDataset([(FILES[k], f"name {k}") for k in range(3)], batch_size=3, device="cpu")
    ((images, labels),) = rows
    assert [tuple(image.shape) for image in images] == [(3, 20, 28)] * 3
    assert labels == ["name 0", "name 1", "name 2"]


def test_bfloat16() -> None:
    pytest.importorskip("ml_dtypes")
    images, _ = next(iter(dataset(dtype="bfloat16")))
    assert images.dtype == torch.bfloat16
