"""Batches of tensors as training programs use them, and epochs that differ whoever runs the loop."""

import copy
import importlib.util
import multiprocessing
import pickle
from itertools import islice
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from tests.data_sets import CORRUPT, FILES, Source, cpu, jpeg, train, valid_indices
from tests.libraries import library, needs
from tests.processes import python
from tests.watchdog import ours

torch = library("torch")
data: Any = torch.utils.data
gt: Any = importlib.import_module("gpuimg.torch")

pytestmark = [pytest.mark.usefixtures("watched"), pytest.mark.filterwarnings("ignore:This DataLoader will create")]


# Workers that fork from a process that has imported, rather than import torch each.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["torch", "gpuimg.torch", __name__])


def load(source: Any = None, preprocess: Any = train, **options: Any) -> Any:
    options = {"batch_size": 4, "device": "cpu", **options}
    return gt.load(Source(21) if source is None else source, preprocess, **options)


def mapped(source: Any = None, preprocess: Any = train, **options: Any) -> Any:
    return gt.Dataset(Source(10) if source is None else source, preprocess, device="cpu", **options)


def dataset(n: int = 21, **options: Any) -> Any:
    options = {"batch_size": 4, "device": "cpu", "shuffle": True, **options}
    return gt.IterableDataset(Source(n), train, **options)


def order(loop: Any) -> list[int]:
    """Labels of a loop, which are the indices."""
    found: list[int] = torch.cat([labels for _, labels in loop]).tolist()
    return found


def test_two_names_unpack_a_batch_of_the_same_pixels() -> None:
    plain = list(cpu(Source(21), shuffle=True, seed=3, batch_size=4, layout="NCHW"))
    for loader in (load(shuffle=True, seed=3), data.DataLoader(dataset(seed=3), batch_size=None)):
        assert len(loader) == 6
        for (images, labels), expected in zip(loader, plain, strict=True):
            np.testing.assert_array_equal(images.numpy(), expected.images)
            assert labels.tolist() == expected.labels.tolist()
    for batch, expected in zip(load(shuffle=True, seed=3), plain, strict=True):
        assert batch.images is batch[0]
        assert batch.labels is batch[1]
        assert batch.indices.tolist() == expected.indices.tolist()
        assert batch.valid.dtype == torch.bool
        assert batch.valid.tolist() == expected.valid.tolist()
    assert ours() == []
    large = load(preprocess=lambda x: gi.resize(x, (400, 400)), batch_size=4, epochs=8)  # in memory of the loader
    assert len({batch.images.data_ptr() for batch in large}) <= 2 + 2 + 3 + 3
    assert next(iter(load(pin_memory=True))).images.is_pinned() == torch.cuda.is_available()
    (batch,) = load([(FILES[0], "a"), (FILES[1], "b")], None)
    assert [tuple(image.shape) for image in batch.images] == [(3, 20, 28)] * 2
    assert batch.labels == ["a", "b"]


COLUMNS: list[dict[str, Any]] = [
    {"a": k, "b": 0.5 * k, "c": np.full(3, k), "d": str(k), "e": {"f": np.float32(k)}} for k in range(4)
]


def assert_collated(found: Any) -> None:
    """The same as by torch's own collation, types of numbers aside."""
    expected = data.default_collate(COLUMNS)
    found["e"], expected["e"] = found["e"]["f"], expected["e"]["f"]
    assert {key: type(value) for key, value in found.items()} == {key: type(value) for key, value in expected.items()}
    for key in "abce":
        np.testing.assert_array_equal(found[key], expected[key])
    assert found["d"] == expected["d"]


def as_arrays(x: gi.Batch, rng: gi.Rng, labels: Any) -> Any:
    return gi.resize(x, (8, 8)), {"a": np.arange(len(x)), "e": {"f": rng.uniform(0, 1)}}


def test_labels_that_are_dicts() -> None:
    source = list(zip(FILES, COLUMNS, strict=False))
    (batch,) = load(source)
    assert_collated(batch.to("cpu").labels)
    assert_collated(data.default_collate([label for _, label in mapped(source).__getitems__(range(4))]))
    (batch,) = load(source, as_arrays)
    assert {type(batch.labels["a"]), type(batch.labels["e"]["f"])} == {torch.Tensor}
    assert mapped(source, as_arrays).__getitems__([0, 1])[1][1]["a"] == 1


def test_batches_survive_pickles_and_moves() -> None:
    batch = next(iter(load()))
    for other in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch), batch.to("cpu"), batch.to("meta")):
        assert type(other) is type(batch)
        assert other.images.shape == batch.images.shape
        assert other.valid.shape == other.indices.shape == (4,)
    assert {part.device.type for part in (*other, other.indices, other.valid)} == {"meta"}


def test_a_device_has_the_batches_before_the_loop_requests_them() -> None:
    """Copied on a thread of the loader; torch's "meta" stands for a device that is not the CPU."""
    loader = load(device="meta")
    assert loader.devices == ["cpu"]
    batches = list(loader)
    assert {part.device.type for one in batches for part in (*one, one.indices, one.valid)} == {"meta"}
    assert [len(one.valid) for one in batches] == [4, 4, 4, 4, 4, 1]
    ragged = next(iter(load([(FILES[0], 1), (FILES[1], 2)], None, device=torch.device("meta"))))
    assert {image.device.type for image in ragged.images} == {"meta"}
    with pytest.raises((RuntimeError, AssertionError)):
        load(device="cuda" if not torch.cuda.is_available() else "xpu")


def test_dicts_for_trainers_that_call_the_model_by_keywords() -> None:
    (batch, *_) = load(keys=("pixel_values", "labels"), progress=importlib.util.find_spec("tqdm") is not None)
    assert {name: tuple(value.shape) for name, value in batch.items()} == {"pixel_values": (4, 3, 8, 8), "labels": (4,)}
    for keys in (5, "ab", ("a",), (1, 2)):
        with pytest.raises(ValueError, match="keys must be two strings"):
            load(keys=keys)
    for name in ("num_workers", "sampler", "collate_fn"):
        with pytest.raises(TypeError, match=f"load\\(\\) has no parameter '{name}'"):
            load(**{name: 1})


def test_lengths_are_those_that_programs_expect() -> None:
    """As examples/imagenet/main.py: the rest of a validation set is not evaluated again."""
    for world in (1, 2, 4):
        ranks = [load(shard=(rank, world)) for rank in range(world)]
        assert {len(loader.dataset) for loader in ranks} == {21}
        assert not any(len(loader.sampler) * world < len(loader.dataset) for loader in ranks)
        assert all(len(loader.sampler) == sum(len(batch.valid) for batch in loader) for loader in ranks)
        assert all(len(loader) == len(list(loader)) for loader in ranks)


def test_each_loop_is_another_epoch_or_the_one_that_is_set() -> None:
    loader = load(shuffle=True)
    plain = cpu(Source(21), shuffle=True, batch_size=4)
    epochs = [valid_indices(plain) for _ in range(4)]
    assert [order(loader) for _ in range(2)] == epochs[:2]
    for epoch in (3, 0, 1):
        loader.sampler.set_epoch(epoch)
        assert order(loader) == epochs[epoch]
    next(iter(loader))
    loader.set_epoch(2)  # the loop was left: its epoch begins again
    assert order(loader) == epochs[2]


def test_an_epoch_set_during_its_loop_is_that_loop() -> None:
    """Lightning creates an iterator before it sets the epoch."""
    loader = load(shuffle=True)
    epochs = [valid_indices(cpu(Source(21), shuffle=True, batch_size=4, epochs=k + 1))[21 * k :] for k in range(2)]
    running = iter(loader)
    loader.set_epoch(0)
    assert order(running) == epochs[0]
    assert order(loader) == epochs[1]
    running = iter(loader)
    next(running)
    loader.set_epoch(0)
    assert order(loader) == epochs[0]


@pytest.mark.parametrize("make", [load, dataset])
def test_setting_the_epoch_keeps_a_position_within_it(make: Any) -> None:
    """A program that resumes sets the epoch too."""
    expected = order(make(shuffle=True, epochs=2))
    loader = make(shuffle=True, epochs=2)
    for _ in islice(loader, 8):
        pass
    resumed = make(shuffle=True, epochs=2)
    resumed.load_state_dict(loader.state_dict())
    resumed.set_epoch(1)
    assert order(resumed) == expected[21 + 8 :]
    resumed.load_state_dict(loader.state_dict())
    resumed.set_epoch(0)
    assert order(resumed) == expected
    with pytest.raises(ValueError, match="epoch must be a whole number of at least 0, not -1"):
        loader.set_epoch(-1)


def digests(loaded: Any) -> dict[int, bytes]:
    return {
        int(label): image.numpy().tobytes()
        for images, labels in loaded
        for image, label in zip(images, labels, strict=True)
    }


def epoch_of(pixels: dict[int, bytes]) -> int:
    """The epoch of gpuimg.load whose pixels these are, of all samples."""
    loader = cpu(Source(len(pixels)), layout="NCHW")
    for epoch in range(8):
        expected = {int(i): im.tobytes() for batch in loader for i, im in zip(batch.indices, batch.images, strict=True)}
        if expected == pixels:
            return epoch
    raise AssertionError("of no epoch")


@pytest.mark.slow
@pytest.mark.parametrize("method", [FORKED, "spawn"], ids=["forkserver", "spawn"])
@pytest.mark.parametrize("persistent", [False, True])
def test_the_epoch_reaches_workers_however_they_start(method: Any, persistent: bool) -> None:
    dataset = mapped()
    loader = data.DataLoader(
        dataset, batch_size=4, num_workers=2, multiprocessing_context=method, persistent_workers=persistent
    )
    assert [epoch_of(digests(loader)) for _ in range(2)] == [0, 1]
    dataset.set_epoch(6)
    assert epoch_of(digests(loader)) == 6


def test_a_copy_of_a_data_set_counts_by_itself() -> None:
    dataset = mapped()
    first = dataset[3][0]
    assert torch.equal(pickle.loads(pickle.dumps(dataset))[3][0], first)
    assert not torch.equal(dataset[3][0], first)


def test_samples_of_a_mapped_data_set_are_those_of_the_loader() -> None:
    dataset = mapped()
    sampled = data.DataLoader(dataset, batch_size=3, sampler=data.SequentialSampler(dataset))
    assert [epoch_of(digests(sampled)) for _ in range(3)] == [0, 1, 2]
    assert len(dataset) == 10
    image, label = dataset[-1]
    assert (tuple(image.shape), int(label)) == ((3, 8, 8), 9)
    with pytest.raises(IndexError, match="sample 10 of 10"):
        dataset[10]


def test_a_sample_that_is_drawn_twice_has_two_crops() -> None:
    dataset = mapped()
    items = dataset.__getitems__([4, 4, 5])
    assert not torch.equal(items[0][0], items[1][0])
    dataset.set_epoch(1)
    again = dataset.__getitems__([4, 5, 4])
    assert torch.equal(again[0][0], items[1][0])
    assert torch.equal(again[2][0], items[1][0])


def test_mapped_labels_and_failures() -> None:
    (item,) = mapped([(FILES[0], "cat")], keys=("pixel_values", "label")).__getitems__([0])
    assert (tuple(item["pixel_values"].shape), item["label"]) == ((3, 8, 8), "cat")
    with pytest.raises(gi.DecodeError) as caught:
        mapped([(FILES[0], 0), (CORRUPT, 1)]).__getitems__([0, 1])
    assert [failure.index for failure in caught.value.failures] == [1]
    with pytest.raises(gi.DecodeError, match="sample 3"):
        mapped(Source(5, unreadable=[3]))[3]
    files = [(jpeg(i, (20 if i == 2 else 29, 28)), i) for i in range(4)]
    with pytest.raises(gi.DecodeError, match=r"image 2 \(sample 2\): its size \(20, 28\) is smaller"):
        mapped(files, lambda x, rng: gi.random_crop(x, 24, rng=rng)).__getitems__([3, 2])
    for wrong in (0.5, -2.5, "a", slice(2), None):
        with pytest.raises(TypeError, match=r"indices of samples must be integers, not \["):
            mapped()[wrong]
    with pytest.raises(IndexError, match="of 10"):
        mapped()[2**70]
    np.testing.assert_array_equal(mapped()[torch.tensor(-7)][0], mapped()[3][0])


def test_its_name_and_dtype() -> None:
    loader = "<gpuimg.Loader of 21 samples, batches of 4 on cpu, rank 0 of 1, epoch 0>"
    assert repr(dataset()) == f"<gpuimg.torch.IterableDataset: {loader}>"
    needs("ml_dtypes")
    assert next(iter(dataset(dtype="bfloat16")))[0].dtype == torch.bfloat16


def test_valid_says_what_not_to_count() -> None:
    rows = list(dataset(5, with_valid=True, shard=(1, 2), shuffle=False, batch_size=2))
    assert [row.labels.tolist() for row in rows] == [[3, 4], [0]]
    assert [row.valid.tolist() for row in rows] == [[True, True], [False]]
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
    code = f"""
from torch.utils.data import DataLoader
from tests.loading.test_torch_loader import OwnDataset, dataset

for workers, one in ((2, dataset()), (1, OwnDataset())):
    try:
        next(iter(DataLoader(one, batch_size=None, num_workers=workers, multiprocessing_context="{method}")))
    except Exception as error:
        print(type(error).__name__, "num_workers=0" in str(error))
"""
    assert python("-c", code) == f"{'RuntimeError' if method == 'fork' else 'TypeError'} True\nRuntimeError True\n"


def test_an_empty_epoch_warns() -> None:
    with pytest.warns(RuntimeWarning, match="drop_last leaves no full batch of .* of 3 samples, batches of 4"):
        assert list(dataset(3, drop_last=True)) == []
    assert len(dataset(4, drop_last=True)) == 1


class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A network that records digests of its inputs, as Hugging Face's models are called."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3 * 8 * 8, 16)
        self.seen: list[tuple[int, bytes]] = []

    def forward(self, pixel_values: Any, labels: Any) -> Any:
        self.seen += zip(labels.tolist(), (image.numpy().tobytes() for image in pixel_values), strict=True)
        logits = self.layer(pixel_values.flatten(1))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def trained(workers: int, folder: str) -> None:
    """Train by Hugging Face's Trainer and check the crops of each epoch."""
    import transformers

    class OfLoader(transformers.Trainer):  # type: ignore[misc, name-defined]
        def get_train_dataloader(self) -> Any:
            return load(Source(12), shuffle=True, keys=("pixel_values", "labels"))

    arguments = transformers.TrainingArguments(
        folder, num_train_epochs=3, per_device_train_batch_size=4, use_cpu=True, report_to="none",
        save_strategy="no", disable_tqdm=True, remove_unused_columns=False, dataloader_num_workers=workers,
    )  # fmt: skip
    nets = Net(), Net()
    result = OfLoader(nets[0], arguments).train()
    assert result.metrics["train_samples_per_second"] > 2 * result.metrics["train_steps_per_second"]
    dataset = mapped(Source(12), keys=("pixel_values", "labels"))
    transformers.Trainer(nets[1], arguments, train_dataset=dataset).train()
    for net in nets:
        assert [epoch_of(dict(net.seen[at : at + 12])) for at in range(0, len(net.seen), 12)] == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_hugging_faces_trainer_sees_other_crops_in_each_epoch(workers: int, tmp_path: Any) -> None:
    """By a loader in place of its own, and by a data set that it collates, with workers that restart."""
    needs("transformers")
    # In a process of its own: JAX, which other tests import, warns of forks.
    python("-c", f"from tests.loading.test_torch_loader import trained; trained({workers}, {str(tmp_path)!r})")
