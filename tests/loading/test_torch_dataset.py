"""The loader as a torch dataset."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from tests.data_sets import FILES, Source, cpu, train
from tests.processes import python

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


def test_valid_says_what_not_to_count() -> None:
    rows = list(dataset(5, with_valid=True, shard=(1, 2), shuffle=False, batch_size=2))
    assert [row.labels.tolist() for row in rows] == [[1, 3], [0]]
    assert [row.valid.tolist() for row in rows] == [[True, True], [False]]
    assert {row.valid.dtype for row in rows} == {torch.bool}
    loaded = data.DataLoader(dataset(5, with_valid=True, batch_size=2), batch_size=None, pin_memory=False)
    assert [tuple(type(part) for part in row) for row in loaded] == [(torch.Tensor,) * 3] * 3


@pytest.mark.parametrize("with_valid", [False, True])
def test_a_batch_size_of_the_data_loader_is_refused(with_valid: bool) -> None:
    for options in ({}, {"batch_size": 4}):
        with pytest.raises(TypeError, match=r"DataLoader\(dataset, batch_size=None\)"):
            next(iter(data.DataLoader(dataset(with_valid=with_valid), **options)))


class OwnDataset(data.IterableDataset):  # type: ignore[misc, name-defined]
    """A data set that creates its loader where it is iterated over."""

    def __iter__(self) -> Any:
        return iter(cpu(Source(8), batch_size=4))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_are_refused(method: str) -> None:
    """In a process of their own: JAX, which other tests import, warns of forks."""
    said = python(
        "-c",
        f"""
from torch.utils.data import DataLoader
from tests.loading.test_torch_dataset import OwnDataset, dataset
for workers, one in ((2, dataset()), (1, OwnDataset())):
    try:
        next(iter(DataLoader(one, batch_size=None, num_workers=workers, multiprocessing_context="{method}")))
    except Exception as error:
        print(type(error).__name__, "num_workers=0" in str(error))
""",
    )
    assert said == f"{'RuntimeError' if method == 'fork' else 'TypeError'} True\nRuntimeError True\n"


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
    one.set_epoch(0)
    assert [labels.tolist() for _, labels in one][:2] == first
    with pytest.raises(ValueError, match="epoch must be a whole number of at least 0, not -1"):
        one.set_epoch(-1)


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


def test_a_stream() -> None:
    import gpuimg.torch

    source = gpuimg.iterable(lambda: ((FILES[k], k) for k in range(5)))
    rows = list(gpuimg.torch.IterableDataset(source, train, batch_size=2, device="cpu"))
    assert [label for _, labels in rows for label in labels.tolist()] == [0, 1, 2, 3, 4]


def test_bfloat16() -> None:
    pytest.importorskip("ml_dtypes")
    images, _ = next(iter(dataset(dtype="bfloat16")))
    assert images.dtype == torch.bfloat16
