"""The loader as a torch dataset."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from typing import Any

import numpy as np
import pytest

from tests.data_sets import FILES, Source, cpu, train

torch = pytest.importorskip("torch") if os.environ.get("GPUIMG_REQUIRE_INTEROP") != "1" else __import__("torch")
data: Any = torch.utils.data

pytestmark = [
    pytest.mark.usefixtures("watched"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # more workers than a small machine has cores
]


# Workers that fork from a process that has imported, rather than import torch each.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["torch", "gpuimg.torch", __name__])


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


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_divide_the_samples(workers: int) -> None:
    """Every sample once in each epoch, padding aside, and the pixels it has without workers."""
    expected = {
        int(i): image
        for batch in cpu(Source(20), shuffle=True, layout="NCHW")
        for i, image in zip(batch.indices, batch.images, strict=True)
    }
    loaded = data.DataLoader(
        dataset(20), batch_size=None, num_workers=workers, multiprocessing_context=FORKED, persistent_workers=True
    )
    for epoch in range(2):
        seen = []
        for images, labels in loaded:
            seen += labels.tolist()
            if epoch == 0:
                for image, i in zip(images, labels, strict=True):
                    np.testing.assert_array_equal(image.numpy(), expected[int(i)])
        assert sorted(seen) == list(range(20))


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "options"), [
    (3, {"batch_size": 5, "drop_last": True}),
    (2, {"batch_size": 16, "shard": (1, 2), "epochs": 3}),
])  # fmt: skip
def test_workers_give_the_batches_of_one(workers: int, options: dict[str, Any]) -> None:
    """As many as ``len`` says, in the same order, whatever the number of workers."""
    expected = [(labels.tolist(), valid.tolist()) for _, labels, valid in dataset(37, with_valid=True, **options)]
    given = dataset(37, with_valid=True, **options)
    loaded = data.DataLoader(given, batch_size=None, num_workers=workers, multiprocessing_context=FORKED)
    assert len(loaded) == len(expected)
    assert [(labels.tolist(), valid.tolist()) for _, labels, valid in loaded] == expected


def test_valid_says_what_not_to_count() -> None:
    rows = list(dataset(5, with_valid=True, shard=(1, 2), shuffle=False, batch_size=2))
    assert [row.labels.tolist() for row in rows] == [[1, 3], [0]]
    assert [row.valid.tolist() for row in rows] == [[True, True], [False]]
    assert {row.valid.dtype for row in rows} == {torch.bool}
    loaded = data.DataLoader(dataset(5, with_valid=True, batch_size=2), batch_size=None, pin_memory=False)
    assert [tuple(type(part) for part in row) for row in loaded] == [(torch.Tensor,) * 3] * 3


@pytest.mark.slow
@pytest.mark.parametrize(("options", "with_valid"), [
    ({}, False), ({}, True), ({"batch_size": 4}, False),
    ({"num_workers": 1, "multiprocessing_context": "spawn"}, False),
])  # fmt: skip
def test_a_batch_size_of_the_data_loader_is_refused(options: dict[str, Any], with_valid: bool) -> None:
    with pytest.raises(TypeError, match=r"DataLoader\(dataset, batch_size=None\)") as raised:
        next(iter(data.DataLoader(dataset(with_valid=with_valid), **options)))
    # torch's error is in a cycle with the iterator over the workers. A garbage collection, in any thread and test,
    # would close its queues first and then wait for the worker, which never gets a signal to end: for 5 seconds.
    raised.value.__traceback__ = None
    del raised


def test_an_empty_epoch_warns() -> None:
    with pytest.warns(RuntimeWarning, match="drop_last leaves no full batch of .* of 3 samples, batches of 4"):
        assert list(dataset(3, drop_last=True)) == []
    assert len(dataset(4, drop_last=True)) == 1


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
    with pytest.raises(ValueError, match="epoch must be a whole number of at least 0, not -1"):
        one.set_epoch(-1)


@pytest.mark.slow
def test_a_state_resumes_with_workers() -> None:
    one = dataset()
    running = iter(one)
    for _ in range(2):
        next(running)
    state = one.state_dict()
    rest = [labels.tolist() for _, labels in running]
    other = dataset()
    other.load_state_dict(state)
    loaded = data.DataLoader(other, batch_size=None, num_workers=2, multiprocessing_context="spawn")
    assert [labels.tolist() for _, labels in loaded] == rest


def test_it_says_what_it_is() -> None:
    assert repr(dataset()) == (
        "<gpuimg.torch.IterableDataset: <gpuimg.Loader of 21 samples, batches of 4 on cpu, rank 0 of 1, epoch 0>>"
    )


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
