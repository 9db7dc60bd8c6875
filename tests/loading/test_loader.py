"""The loader: what it gives, in which order, what it does with bad samples, and that its threads end."""

from __future__ import annotations

import gc
import io
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from gpuimg.typing import Failure
from tests.data_sets import FILES, Source, cpu, jpeg, pixels_of, train, valid_indices
from tests.watchdog import no_hang, ours

pytestmark = pytest.mark.usefixtures("watched")


def directly(indices: list[int], seed: int = 0, epoch: int = 0) -> NDArray[Any]:
    """The same without a loader."""
    x = gi.open_batch([FILES[i % len(FILES)] for i in indices], device="cpu")
    array: NDArray[Any] = train(x, gi.Rng(seed, epoch=epoch, indices=indices)).array("float32", "NCHW")
    return array


# -- what it gives -----------------------------------------------------------------------------------------------------


def test_batches_are_those_of_the_functions_themselves() -> None:
    batches = list(cpu(Source(21), dtype="float32", layout="NCHW"))
    assert [len(batch.indices) for batch in batches] == [8, 8, 5]
    for at, batch in zip((0, 8, 16), batches, strict=True):
        indices = list(range(at, min(at + 8, 21)))
        np.testing.assert_array_equal(batch.images, directly(indices))
        assert batch.indices.tolist() == batch.labels.tolist() == indices
        assert batch.valid.all()
        assert [str(a.dtype) for a in (batch.indices, batch.labels, batch.valid)] == ["int64", "int64", "bool"]


def test_each_epoch_has_its_own_order_and_randomness() -> None:
    loader = cpu(Source(21), shuffle=True, seed=3, epochs=2)
    batches = list(loader)
    assert len(loader) == len(batches) == 6
    first, second = ([int(i) for batch in part for i in batch.indices] for part in (batches[:3], batches[3:]))
    assert sorted(first) == sorted(second) == list(range(21))
    assert first != second
    np.testing.assert_array_equal(batches[4].images, directly(second[8:16], 3, 1).transpose(0, 2, 3, 1))


@pytest.mark.parametrize("batch_size", [16, 64])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_same_pixels_whatever_threads_and_batch_size(
    threads: int, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {int(i): d for i, d in pixels_of(cpu(Source(100), batch_size=1, readers=1, decoders=1)).items()}
    monkeypatch.setenv("GPUIMG_NUM_THREADS", str(threads))
    loader = cpu(Source(100), shuffle=True, batch_size=batch_size, readers=threads, decoders=threads)
    assert pixels_of(loader) == expected


def test_two_devices_take_turns() -> None:
    one, two = cpu(Source(50), shuffle=True), cpu(Source(50), shuffle=True, device=None, devices=["cpu", "cpu"])
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.indices, b.indices)
        np.testing.assert_array_equal(a.images, b.images)


def test_without_preprocess_it_decodes() -> None:
    files = [jpeg(k, (10 + k, 12)) for k in range(5)]
    (batch,) = cpu([(data, None) for data in files], None)
    assert isinstance(batch.images, gi.Batch)
    assert batch.labels is None
    for image, expected in zip(batch.images, gi.decode_batch(files, device="cpu"), strict=True):
        np.testing.assert_array_equal(image, expected)


def test_results_of_different_sizes_are_a_batch() -> None:
    files = [jpeg(k, (10 + k, 12)) for k in range(5)]
    (batch,) = cpu([(data, None) for data in files], gi.horizontal_flip, dtype="float32", layout="NCHW")
    assert [image.shape for image in batch.images] == [(3, 10 + k, 12) for k in range(5)]
    assert batch.images[0].dtype == "float32"


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", np.float32])
def test_dtypes(dtype: Any) -> None:
    batch = next(cpu(Source(8), lambda x: gi.resize(x, (8, 8)), dtype=dtype))
    assert batch.images.dtype == np.dtype(dtype)


def test_gray() -> None:
    assert next(cpu(Source(8), lambda x: gi.resize(x, (8, 8)), color="gray")).images.shape == (8, 8, 8, 1)


def test_preprocess_with_labels() -> None:
    def mix(x: gi.Batch, rng: gi.Rng, labels: Any) -> tuple[Any, Any]:
        mixed = gi.mixup(gi.resize(x, (8, 8)), rng=rng)
        return mixed.images, mixed.labels(labels, 8)

    (batch,) = cpu(Source(8), mix)
    assert batch.labels.shape == (8, 8)
    np.testing.assert_allclose(batch.labels.sum(1), 1.0, atol=1e-6)


def test_boxes_follow_the_images() -> None:
    boxes = [np.array([[1.0, 2.0, 5.0 + k, 6.0]] * (k + 1), np.float32) for k in range(4)]

    def flip(x: gi.Batch, rng: gi.Rng, labels: Any) -> tuple[Any, Any]:
        x = gi.horizontal_flip(x)
        return x, gi.transform_boxes(x, labels)[0]

    (batch,) = cpu([(FILES[k], boxes[k]) for k in range(4)], flip)
    np.testing.assert_allclose(batch.labels[2][0], [28 - 7, 2, 27, 6])


@pytest.mark.parametrize(("labels", "expected"), [
    ([1, True, np.int8(3)], np.array([1, 1, 3], np.int64)),
    ([1, 2.5, 3], np.array([1.0, 2.5, 3.0])),
    ([np.ones(2), np.zeros(2), np.ones(2)], np.array([[1.0, 1], [0, 0], [1, 1]])),
    (["a", "b", 3], ["a", "b", 3]),
    ([(1, 2), (3, 4), (5, 6)], [(1, 2), (3, 4), (5, 6)]),
    ([None, None, None], None),
])  # fmt: skip
def test_labels(labels: list[Any], expected: Any) -> None:
    (batch,) = cpu([(FILES[k], label) for k, label in enumerate(labels)])
    assert type(batch.labels) is type(expected)
    np.testing.assert_array_equal(batch.labels, expected)
    assert getattr(batch.labels, "dtype", None) == getattr(expected, "dtype", None)


@pytest.mark.parametrize("item", [
    {"image": {"bytes": FILES[0], "path": None}, "label": 4},
    {"image": FILES[0], "label": 4},
    (bytearray(FILES[0]), 4), [memoryview(FILES[0]), 4], (np.frombuffer(FILES[0], np.uint8), 4),
])  # fmt: skip
def test_what_a_source_may_give(item: Any) -> None:
    batch = next(cpu([item] * 3, None))
    np.testing.assert_array_equal(batch.images[0], gi.decode_batch([FILES[0]], device="cpu")[0])
    assert batch.labels.tolist() == [4, 4, 4]


ROW = {"jpg": FILES[0], "fine": 4, "coarse": 1}


@pytest.mark.parametrize(("item", "options", "labels"), [
    (ROW, {"image": "jpg", "label": "fine"}, np.array([4, 4])),
    (ROW, {"image": "jpg", "label": None}, [{"fine": 4, "coarse": 1}] * 2),
    ({"image": FILES[0], "label": 4, "id": 9}, {}, np.array([4, 4])),
    ({"image": FILES[0]}, {}, None),
    ({"image": FILES[0]}, {"label": None}, None),
    ((FILES[0], 4), {"image": "jpg", "label": "fine"}, np.array([4, 4])),
])  # fmt: skip
def test_columns(item: Any, options: dict[str, Any], labels: Any) -> None:
    batch = next(cpu([item] * 2, None, **options))
    np.testing.assert_array_equal(batch.images[1], gi.decode_batch([FILES[0]], device="cpu")[0])
    assert type(batch.labels) is type(labels)
    np.testing.assert_array_equal(batch.labels, labels)


@pytest.mark.parametrize(("options", "message"), [
    ({}, "has no 'image', but 'jpg', 'fine', 'coarse'; pass the name of the image column as image="),
    ({"image": "jpg"}, "has no 'label', but 'jpg', 'fine', 'coarse'; pass the name of the label column as label=, or"),
    ({"image": "jpg", "label": "class"}, "has no 'class', but 'jpg', 'fine'"),
])  # fmt: skip
def test_columns_that_are_not_there(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=rf"source\[0\] {message}"):
        next(cpu([ROW] * 2, **options))


@pytest.mark.parametrize("decoded", [Image.open(io.BytesIO(FILES[0])), np.zeros((4, 5, 3), np.uint8)])
def test_decoded_images_are_refused_with_what_to_do(decoded: Any) -> None:
    kind = type(decoded).__name__
    with pytest.raises(
        TypeError, match=rf"decoded image \({kind}\).*cast_column\('pic', datasets\.Image\(decode=False"
    ):
        next(cpu([{"pic": decoded, "label": 1}], image="pic"))
    with pytest.raises(TypeError, match=rf"decoded image \({kind}\).*loader=lambda path: path"):
        next(cpu([(decoded, 1)]))


def test_hugging_faces_datasets() -> None:
    datasets = pytest.importorskip("datasets")
    rows = {"picture": [{"bytes": data, "path": None} for data in FILES[:3]], "fine": [5, 6, 7]}
    undecoded = datasets.Dataset.from_dict(rows).cast_column("picture", datasets.Image(decode=False))
    (batch,) = cpu(undecoded, layout="NCHW", image="picture", label="fine")
    assert batch.labels.tolist() == [5, 6, 7]
    np.testing.assert_array_equal(batch.images, directly([0, 1, 2]))
    with pytest.raises(TypeError, match=r"cast_column\('picture', datasets\.Image\(decode=False\)\)"):
        next(cpu(undecoded.cast_column("picture", datasets.Image()), image="picture", label="fine"))


def test_paths_are_read_and_named(tmp_path: Path) -> None:
    paths = [tmp_path / f"{k}.jpg" for k in range(3)]
    for k, path in enumerate(paths):
        path.write_bytes(FILES[k])
    loader = cpu([(path, k) for k, path in enumerate(paths)], on_error="fill")
    assert [batch.valid.all() for batch in loader] == [True]
    paths[1].unlink()
    with pytest.warns(RuntimeWarning, match="No such file"):
        (batch,) = loader
    assert batch.valid.tolist() == [True, False, True]
    assert batch.labels.tolist() == [0, -1, 2]
    assert loader.failures == [Failure(1, str(paths[1]), "cannot be read: No such file or directory")]


def test_failures_of_a_table_are_named_once(tmp_path: Path) -> None:
    path = tmp_path / "class" / "a.jpg"
    path.parent.mkdir()
    path.write_bytes(FILES[0])
    loader = cpu(gi.folder(tmp_path))
    path.unlink()
    with pytest.raises(gi.DecodeError) as caught:
        next(loader)
    assert caught.value.failures == (Failure(0, str(path), "cannot be read: No such file or directory"),)


# -- epochs and positions ----------------------------------------------------------------------------------------------


def test_each_loop_is_the_next_epoch() -> None:
    once = cpu(Source(20), shuffle=True, epochs=3)
    again = cpu(Source(20), shuffle=True)
    expected = valid_indices(once)
    assert [i for _ in range(3) for i in valid_indices(again)] == expected
    assert (once.epoch, again.epoch) == (3, 3)


def test_after_a_break_comes_the_next_epoch() -> None:
    loader = cpu(Source(20), shuffle=True)
    orders = [valid_indices(cpu(Source(20), shuffle=True, epochs=2))[20 * k : 20 * k + 20] for k in range(2)]
    for batch in loader:
        assert batch.indices.tolist() == orders[0][:8]
        break
    assert ours() == []
    assert loader.epoch == 0
    assert valid_indices(loader) == orders[1]


def test_next_and_for_go_on_together() -> None:
    loader = cpu(Source(20))
    first = next(loader).indices.tolist()
    assert first + valid_indices(loader) == list(range(20))
    assert valid_indices(loader) == list(range(20))


def test_endless() -> None:
    loader = cpu(Source(5), epochs=None, batch_size=2)
    taken = [batch.indices.tolist() for _, batch in zip(range(7), loader, strict=False)]
    assert taken == [[0, 1], [2, 3], [4]] * 2 + [[0, 1]]
    with pytest.raises(TypeError, match="endless"):
        len(loader)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("world", "n"), [(1, 40), (3, 40), (4, 40), (7, 5), (3, 3)])
def test_ranks_get_the_same_number_and_share_no_sample(world: int, n: int, drop_last: bool) -> None:
    loaders = [cpu(Source(n), shuffle=True, batch_size=4, shard=(r, world), drop_last=drop_last) for r in range(world)]
    ranks = [list(loader) for loader in loaders]
    sizes = {tuple(len(batch.indices) for batch in batches) for batches in ranks}
    assert len(sizes) == 1
    valid = [int(i) for batches in ranks for batch in batches for i in batch.indices[batch.valid]]
    assert len(valid) == len(set(valid)) == (n // (4 * world) * 4 * world if drop_last else n)
    if drop_last:
        assert sizes == {(4,) * len(loaders[0])}


@pytest.mark.parametrize(("variables", "shard"), [
    ({"RANK": "2", "WORLD_SIZE": "4"}, (2, 4)),
    ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, (1, 2)),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (0, 1)),
    ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}, (1, 3)),
    ({"PMI_RANK": "1", "PMI_SIZE": "3"}, (1, 3)),
    ({"RANK": "1"}, (0, 1)),
    ({}, (0, 1)),
])  # fmt: skip
def test_the_launcher_says_the_rank(
    variables: dict[str, str], shard: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cpu(Source(4)).shard == shard
    assert cpu(Source(4), shard=(1, 5)).shard == (1, 5)


def test_a_launcher_that_says_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match=r"WORLD_SIZE is 2, but RANK, .*shard=\(trainer\.global_rank"):
        cpu(Source(4))
    assert cpu(Source(4), shard=(1, 2)).shard == (1, 2)


@pytest.mark.parametrize("at", range(8))
@pytest.mark.parametrize(("world", "batch_size"), [(1, 8), (1, 5), (3, 4), (2, 8)])
def test_resume_anywhere_with_another_world_and_batch_size(at: int, world: int, batch_size: int) -> None:
    """Batches delivered before and those of all ranks after contain every sample of the epochs once."""
    source = Source(27)
    loader = cpu(source, shuffle=True, seed=5, epochs=2)
    before = [int(i) for _, batch in zip(range(at), loader, strict=False) for i in batch.indices]
    state = loader.state_dict()
    ranks = []
    for rank in range(world):
        other = cpu(source, shuffle=True, epochs=2, batch_size=batch_size, shard=(rank, world), decoders=3)
        other.load_state_dict(state)
        ranks.append(list(other))
    assert len({len(batches) for batches in ranks}) == 1
    after = [int(i) for batches in ranks for batch in batches for i in batch.indices[batch.valid]]
    assert sorted(before + after) == sorted(2 * list(range(27))) if at < 8 else not after
    if world == 1 and batch_size == 8:
        rest = [int(i) for batch in cpu(source, shuffle=True, seed=5, epochs=2) for i in batch.indices][len(before) :]
        assert after == rest


def test_resumed_batches_have_the_same_pixels() -> None:
    loader = cpu(Source(40), shuffle=True, epochs=2)
    expected = [batch.images for batch in loader]
    loader = cpu(Source(40), shuffle=True, epochs=2)
    for _, _ in zip(range(6), loader, strict=False):
        pass
    resumed = cpu(Source(40), shuffle=True, epochs=2, seed=77)
    resumed.load_state_dict(loader.state_dict())
    for batch, images in zip(resumed, expected[6:], strict=True):
        np.testing.assert_array_equal(batch.images, images)


def test_a_state_again_and_again() -> None:
    """A run that is cut off after each batch, with another world each time, still sees each sample once."""
    seen: list[int] = []
    state, steps = None, 0
    while state is None or state["epoch"] == 0:
        world = 1 + steps % 3
        ranks = [cpu(Source(50), shuffle=True, batch_size=3, shard=(r, world)) for r in range(world)]
        for rank in ranks:
            if state is not None:
                rank.load_state_dict(state)
            batch = next(rank)
            seen += batch.indices[batch.valid].tolist()
            rank.close()
        state, steps = ranks[-1].state_dict(), steps + 1
    assert sorted(seen) == list(range(50))


def test_states_are_plain_and_checked() -> None:
    import json

    loader = cpu(Source(20), shuffle=True)
    next(loader)
    state = json.loads(json.dumps(loader.state_dict()))
    cpu(Source(20), shuffle=True).load_state_dict(state)
    with pytest.raises(ValueError, match="samples=20, but this loader has 21"):
        cpu(Source(21), shuffle=True).load_state_dict(state)
    with pytest.raises(ValueError, match="shuffle=True"):
        cpu(Source(20)).load_state_dict(state)
    with pytest.raises(ValueError, match="version"):
        loader.load_state_dict({})
    with pytest.raises(ValueError, match="ranks"):
        loader.load_state_dict([state, state])
    values: list[Any] = ["x", -1, [0], [[]], [["x"]], 1.5]
    for name in state:
        for value in values:
            with pytest.raises(ValueError, match=f"{name}|with other indices"):
                loader.load_state_dict({**state, name: value})
    for wrong in (5, "x", [], [5]):
        with pytest.raises(TypeError, match=r"state must be a dict"):
            loader.load_state_dict(wrong)  # type: ignore[arg-type]


def test_a_million_samples_cost_nothing() -> None:
    """Shuffling, sharding and resuming make nothing of the data set's size, and read no sample but those they give."""

    class Million:
        requests = 0

        def __len__(self) -> int:
            return 1_000_000

        def __getitem__(self, i: int) -> tuple[bytes, int]:
            Million.requests += 1
            return FILES[i % 64], i

    for _ in cpu(Source(8), shuffle=True):  # what is made once
        pass
    state = cpu(Million(), shuffle=True, batch_size=64).state_dict()
    tracemalloc.start()
    for taken in (0, 64 * 1000, 999_936):
        loader = cpu(Million(), shuffle=True, batch_size=64, shard=(3, 8))
        loader.load_state_dict({**state, "taken": taken, "given": taken})
        if taken < 999_936:
            assert len(next(loader).indices) == 64
        loader.close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000
    assert Million.requests < 3 * 64 * 10


# -- bad samples -------------------------------------------------------------------------------------------------------

UNREADABLE, UNDECODABLE = (3, 17, 30), (5, 8, 39)


def test_raising_names_the_samples() -> None:
    loader = cpu(Source(40, UNREADABLE, UNDECODABLE))
    with pytest.raises(
        gi.DecodeError, match=r"2 of 8 images.*\n.*image 3 \(sample 3\): cannot be read: disk error"
    ) as e:
        next(loader)
    assert [failure.index for failure in e.value.failures] == [3, 5]
    assert isinstance(e.value.__cause__, OSError)


def test_an_error_comes_in_its_place() -> None:
    got: list[list[int]] = []
    batches = (batch.indices.tolist() for batch in cpu(Source(40, [30]), decoders=4, prefetch=4))
    with pytest.raises(gi.DecodeError, match="image 30 "):
        got.extend(batches)
    assert got == [list(range(k, k + 8)) for k in (0, 8, 16)]
    assert ours() == []


@pytest.mark.parametrize("threads", [1, 4])
def test_skipping_keeps_batches_full(threads: int) -> None:
    source = Source(40, UNREADABLE, UNDECODABLE)
    loader = cpu(source, shuffle=True, on_error="skip", readers=threads, decoders=threads)
    with pytest.warns(RuntimeWarning, match="6 samples could not be decoded and were left out"):
        batches = list(loader)
    assert [len(batch.indices) for batch in batches] == [8] * 5
    valid = [int(i) for batch in batches for i in batch.indices[batch.valid]]
    order = valid_indices(cpu(Source(40), shuffle=True))
    assert valid == [i for i in order if i not in source.bad]
    assert sorted(failure.index for failure in loader.failures) == sorted(source.bad)
    assert sum(int((~batch.valid).sum()) for batch in batches) == 6
    expected = pixels_of(cpu(Source(40)))
    assert all(pixels_of([batch])[int(i)] == expected[int(i)] for batch in batches for i in batch.indices[batch.valid])


def test_filling_marks_them() -> None:
    source = Source(40, UNREADABLE, UNDECODABLE)
    loader = cpu(source, lambda x: gi.resize(x, (8, 8)), on_error="fill")
    with pytest.warns(RuntimeWarning, match=r"sample 3 \(sample 3\): cannot be read: disk error"):
        batches = list(loader)
    indices, valid, labels = (
        np.concatenate([getattr(b, name) for b in batches]) for name in ("indices", "valid", "labels")
    )
    assert indices.tolist() == list(range(40))
    assert set(indices[~valid].tolist()) == source.bad
    assert all(labels[i] == (-1 if i in UNREADABLE else i) for i in range(40))
    images = np.concatenate([batch.images for batch in batches])
    assert not images[~valid].any()
    assert images[valid].any((1, 2, 3)).all()


@pytest.mark.filterwarnings("ignore:[0-9]+ samples? could not be decoded:RuntimeWarning")
@pytest.mark.parametrize("policy", ["raise", "skip", "fill"])
@pytest.mark.parametrize(("preprocess", "reason"), [
    (gi.models.clip(96), "resized from 1 x 6000 to 96 x 576000"),
    (lambda x: gi.resize(x, gi.sizes.smart(x.sizes, 28)).tokens(14), "6000.0 times as long as wide"),
    (lambda x: gi.resize(x, gi.sizes.longest(x.sizes, 32)), "too narrow for a longest side of 32"),
    (lambda x: gi.models.clip(96)(x.take(range(len(x))[::-1])).take(range(len(x))[::-1]), "resized from 1 x 6000"),
])  # fmt: skip
def test_an_image_that_preprocess_refuses_is_a_bad_sample(preprocess: Any, reason: str, policy: Any) -> None:
    narrow = jpeg(1, (1, 6000))
    source = [(narrow if i in (5, 12) else FILES[i], i) for i in range(20)]
    loader = cpu(source, preprocess, on_error=policy)
    if policy == "raise":
        with pytest.raises(gi.DecodeError, match=rf"1 of 8 .*\n  image 5 \(sample 5\): .*{reason}"):
            list(loader)
        return
    assert sorted(set(valid_indices(loader))) == [i for i in range(20) if i not in (5, 12)]
    assert [(failure.index, reason in failure.reason) for failure in loader.failures] == [(5, True), (12, True)]


def test_a_box_beyond_its_image_is_a_bad_sample() -> None:
    source = [(FILES[i], np.array([[0.0, 0.0, 4.0, 90.0 if i == 2 else 5.0]])) for i in range(4)]

    def resized(x: gi.Batch, rng: gi.Rng, boxes: Any) -> Any:
        x = gi.resize(x, (8, 8))
        return x, gi.transform_boxes(x, boxes)[0]

    loader = cpu(source, resized, on_error="fill")
    with pytest.warns(RuntimeWarning, match="1 sample could not be decoded .*\n.* box 0 reaches beyond the image"):
        (batch,) = loader
    assert batch.valid.tolist() == [True, True, False, True]


@pytest.mark.parametrize("policy", ["skip", "fill"])
@pytest.mark.parametrize(
    ("most", "raises"), [(0, True), (5, True), (6, False), (0.14, True), (0.15, False), (1.0, False)]
)
def test_too_many_failures(policy: str, most: float, raises: bool) -> None:
    loader = cpu(Source(40, UNREADABLE, UNDECODABLE), on_error=policy, max_failures=most)
    if raises:
        with pytest.raises(gi.DecodeError) as caught:
            list(loader)
        assert "max_failures" in caught.value.__notes__[0]
    else:
        with pytest.warns(RuntimeWarning, match="6 samples"):
            list(loader)


def test_no_good_sample_at_all() -> None:
    with pytest.raises(gi.DecodeError, match="cannot be read"):
        list(cpu(Source(10, range(10)), on_error="skip"))
    with pytest.warns(RuntimeWarning, match="10 samples"):
        assert not any(batch.valid.any() for batch in cpu(Source(10, range(10)), on_error="fill"))


def test_an_endless_loader_remembers_its_last_failures_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuimg._loading.loader._STORED", 25)
    with cpu(Source(8, range(1, 8)), on_error="fill", epochs=None) as loader:
        for k, _ in zip(range(10), loader, strict=False):
            assert len(loader.failures) == min(7 * (k + 1), 25)
            assert loader.stats()["failures"] == 7 * (k + 1)
        assert [failure.index for failure in loader.failures] == [4, 5, 6, 7, *[*range(1, 8)] * 3]
    again = cpu(Source(30, range(1, 30)), on_error="fill")
    with pytest.warns(RuntimeWarning, match="29 samples could not") as caught:
        assert len(list(again)) == 4
    assert "and 9 more" in str(caught[0].message)
    assert again.stats()["failures"] == 29


def test_a_path_that_cannot_be_one_is_a_failure_of_its_sample() -> None:
    loader = cpu([(FILES[0], 0), ("a\0b\n.jpg", 1)], on_error="fill")
    with pytest.warns(RuntimeWarning, match=r"1 sample could not be decoded and was .*\n.*a\\x00b\\n\.jpg"):
        (batch,) = loader
    assert batch.valid.tolist() == [True, False]


class Labelled(Source):
    """Samples with labels of a kind."""

    def __init__(self, label: Any, unreadable: Any) -> None:
        super().__init__(16, unreadable)
        self.label = label

    def __getitem__(self, i: int) -> Any:
        return super().__getitem__(i)[0], self.label


def test_labels_that_are_tensors_are_stacked() -> None:
    """Unless their shapes differ."""
    torch = pytest.importorskip("torch")
    for label in (torch.tensor(5), torch.arange(6.0).reshape(2, 3), torch.tensor([True, False])):
        (batch,) = cpu([(FILES[0], label), (FILES[1], 0 * label)], batch_size=2)
        assert isinstance(batch.labels, np.ndarray)
        np.testing.assert_array_equal(batch.labels, torch.stack([label, 0 * label]).numpy(), strict=True)
    (batch,) = cpu([(FILES[0], torch.zeros(2)), (FILES[1], torch.zeros(3))], batch_size=2)
    assert [type(label) for label in batch.labels] == [torch.Tensor] * 2


filled = pytest.mark.filterwarnings("ignore:[0-9]+ samples could not be decoded:RuntimeWarning")


@filled
@pytest.mark.parametrize("bad", [range(4), range(4, 8), range(12, 16), range(12)])
@pytest.mark.parametrize("label", [5, np.int32(5), 0.5, np.arange(6.0).reshape(2, 3), "word", None])
def test_labels_of_a_batch_without_a_readable_sample_keep_their_type(label: Any, bad: range) -> None:
    """The first batch's included: with those around it they are concatenated or stacked."""
    with cpu(Labelled(label, [0]), batch_size=4, on_error="fill") as loader:
        mixed = next(loader).labels
    batches = list(cpu(Labelled(label, bad), batch_size=4, on_error="fill", decoders=1))
    for number, batch in enumerate(batches):
        assert type(batch.labels) is type(mixed)
        if isinstance(mixed, np.ndarray):
            assert (batch.labels.dtype, batch.labels.shape) == (mixed.dtype, mixed.shape)
        if label is not None:
            gone = number * 4 in bad
            np.testing.assert_array_equal(batch.labels, [mixed[0] if gone else mixed[1]] * 4)


@filled
def test_labels_of_every_source_keep_their_type(tmp_path: Path) -> None:
    """A folder with no file left, a tar whose first shard is gone, paths that lead nowhere, a stream of such, rows."""
    for k in range(8):
        (tmp_path / "in" / "ab"[k // 4]).mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / "ab"[k // 4] / f"{k}.jpg").write_bytes(FILES[k])
    folder = gi.folder(tmp_path / "in")
    for path in (tmp_path / "in").rglob("*.jpg"):
        path.unlink()
    for shard in range(2):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as tar:
            for k in range(4):
                for ending, content in (("jpg", FILES[k]), ("cls", b"1")):
                    member = tarfile.TarInfo(f"{k}.{ending}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
    shards = gi.tar([tmp_path / "0.tar", tmp_path / "1.tar"])
    (tmp_path / "0.tar").unlink()
    pairs = [(str(tmp_path / "nowhere.jpg"), 3)] * 8
    rows = [{"image": str(tmp_path / "nowhere.jpg"), "label": 3}] * 8
    for source in (folder, shards, pairs, gi.iterable(pairs), rows):
        for batch in cpu(source, batch_size=4, on_error="fill"):
            assert batch.labels.dtype == np.int64
            assert batch.valid.all() or batch.labels.tolist() == [-1] * 4


@filled
def test_labels_that_nobody_knows() -> None:
    (batch,) = cpu(Source(4, range(4)), batch_size=4, on_error="fill")
    assert batch.labels is None


@pytest.mark.parametrize("at", range(6))
def test_resume_while_skipping(at: int) -> None:
    source = Source(40, UNREADABLE, UNDECODABLE)
    whole = cpu(source, shuffle=True, on_error="skip")
    with pytest.warns(RuntimeWarning):
        expected = [batch.indices.tolist() for batch in whole]
    loader = cpu(source, shuffle=True, on_error="skip")
    for _, _ in zip(range(at), loader, strict=False):
        pass
    resumed = cpu(source, shuffle=True, on_error="skip")
    resumed.load_state_dict(loader.state_dict())
    rest = [batch.indices.tolist() for _, batch in zip(range(5 - at), resumed, strict=False)]
    assert rest == expected[at:]


def test_resume_while_skipping_in_another_world() -> None:
    """Ranks stand at different places; the states of all of them say what is left."""
    source = Source(60, (1, 2, 5, 7), (10, 11, 30))
    ranks = [cpu(source, shuffle=True, batch_size=4, on_error="skip", shard=(r, 3)) for r in range(3)]
    seen = [int(i) for rank in ranks for _ in range(2) for i in next(rank).indices]
    states = [rank.state_dict() for rank in ranks]
    for rank in ranks:
        rank.close()
    assert len({state["taken"] for state in states}) > 1
    others = [cpu(source, shuffle=True, batch_size=4, on_error="skip", shard=(r, 2)) for r in range(2)]
    with pytest.raises(ValueError, match="needs the states of all ranks"):
        others[0].load_state_dict(states[1])
    for other in others:
        other.load_state_dict(states[::-1])
        with pytest.warns(RuntimeWarning):
            seen += valid_indices(other)
    assert sorted(seen) == sorted(set(range(60)) - source.bad)


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "message"), [
    ({"batch_size": 0}, "batch_size"), ({"batch_size": 2.0}, "batch_size"), ({"prefetch": 0}, "prefetch"),
    ({"readers": 0}, "readers"), ({"decoders": -1}, "decoders"), ({"epochs": 0}, "epochs"),
    ({"readers": 2**31}, "readers .* from 1 to 1024"), ({"decoders": 2**31}, "decoders .* from 1 to 1024"),
    ({"layout": "CHW"}, "layout"), ({"dtype": "int8"}, "dtype"), ({"on_error": "ignore"}, "on_error"),
    ({"max_failures": -1}, "max_failures"), ({"max_failures": 1.5}, "max_failures"), ({"shard": (2, 2)}, "shard"),
    ({"shard": (0.0, 2)}, "rank of shard .*not 0.0"), ({"shard": (0, 0)}, "world size of shard"),
    ({"shard": np.zeros((2, 2))}, "shard"), ({"seed": True}, "seed"), ({"max_failures": True}, "max_failures"),
    ({"image": ""}, "image must be the name"), ({"label": 3}, "label must be the name"),
    ({"image": "a", "label": "a"}, "two columns"), ({"shard": "all"}, "shard"), ({"shard": 3}, "shard"),
    ({"devices": ["cpu"]}, "not both"), ({"seed": -1}, "seed"),
    ({"device": None, "devices": []}, "devices"), ({"color": "bgr"}, "color"), ({"device": "gpu"}, "device"),
])  # fmt: skip
def test_wrong_arguments_are_refused_at_the_call(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cpu(Source(4), **options)


def test_numpys_numbers_are_numbers() -> None:
    """Of every option that takes whole numbers, the shard as an array included."""
    one = np.int64(1)
    numbers: dict[str, Any] = {
        "batch_size": np.int32(4), "seed": np.uint64(1 << 63), "epochs": one, "prefetch": one, "readers": one,
        "decoders": one, "max_failures": np.int16(3), "max_pixels": np.int64(1 << 20),
    }  # fmt: skip
    loader = cpu(Source(16), shuffle=True, shard=np.array([0, 2]), **numbers)
    plain: dict[str, Any] = {name: int(value) for name, value in numbers.items()}
    expected = cpu(Source(16), shuffle=True, shard=(0, 2), **plain)
    assert loader.shard == (0, 2)
    assert valid_indices(loader) == valid_indices(expected)
    assert cpu(Source(16), max_failures=np.float32(0.5))


@pytest.mark.parametrize("world", ["two", "0", "1.0"])
def test_a_launcher_that_says_no_number(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", world)
    with pytest.raises(ValueError, match="WORLD_SIZE must be a whole number"):
        cpu(Source(4))


def test_wrong_sources_and_functions_are_refused_at_the_call() -> None:
    with pytest.raises(TypeError, match="source"):
        cpu(iter([]))
    with pytest.raises(ValueError, match="no samples"):
        cpu([])
    with pytest.raises(TypeError, match="preprocess"):
        gi.load(Source(4), "resize", batch_size=2)
    with pytest.raises(ValueError, match="drop_last leaves no full batch of 4 samples in batches of 8 on 1 rank"):
        cpu(Source(4), drop_last=True, epochs=None)
    assert list(cpu(Source(4), drop_last=True)) == []
    with pytest.raises(TypeError, match="stream"):
        cpu(Source(4), stream="main")
    index: Any = 1.5
    with pytest.raises(TypeError, match="index must be a path"):
        cpu(Source(4), index=index)
    with pytest.raises(ValueError, match="per-thread default stream"):
        cpu(Source(4), stream=2)


def fails(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    raise KeyError("mine")


@pytest.mark.parametrize(("preprocess", "error", "message"), [
    (fails, KeyError, "mine"),
    (lambda x: None, TypeError, "return missing"),
    (lambda x: [1, 2], TypeError, "images"),
    (lambda x, rng: gi.mixup(gi.resize(x, (8, 8)), rng=rng), TypeError, "Mix"),
    (lambda x, rng, labels: x, TypeError, r"\(images, labels\)"),
    (lambda x: x.array()[:2], ValueError, "given 8 images and returned 2"),
])  # fmt: skip
def test_errors_of_preprocess_reach_the_loop(preprocess: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        next(cpu(Source(8), preprocess))
    assert ours() == []


@pytest.mark.parametrize("item", [7, (1, 2, 3), {"picture": b""}, (3.5, 1)])
def test_a_source_that_gives_something_else(item: Any) -> None:
    with pytest.raises(TypeError, match=r"source\[\d\]"):
        next(cpu([item] * 3, on_error="skip"))


# -- threads, memory, progress -----------------------------------------------------------------------------------------


def large(x: gi.Batch) -> gi.Batch:
    """So large that the memory comes from the pool."""
    return gi.resize(x, (400, 400))


def test_results_stay_while_somebody_holds_them() -> None:
    """Memory is used again, but never under a result that is still referred to."""
    kept, copies = [], []
    for k, batch in enumerate(cpu(Source(64), large, batch_size=4, epochs=2)):
        if k % 3 == 0:
            kept.append(batch.images[1:3])  # a view keeps the memory, too
            copies.append(batch.images[1:3].copy())
    for view, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(view, copy)


def test_memory_is_used_again() -> None:
    addresses = {batch.images.ctypes.data for batch in cpu(Source(64), large, batch_size=4, epochs=8)}
    assert len(addresses) <= 3 + 2 + 2 + 3  # ready, in the making, the consumer's old and new one, spare


def resident() -> int:
    """KiB of memory that this process has now; its peak may be another test's."""
    gc.collect()
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


@pytest.mark.slow
def test_thousands_of_batches_in_flat_memory() -> None:
    loader = cpu(Source(64), lambda x: gi.resize(x, (4, 4)), batch_size=1, epochs=4000 // 64 + 1)
    memory = [resident() for k, _ in enumerate(loader) if k in (1000, 4000)]
    assert memory[1] - memory[0] < 1400  # 480 bytes a batch


def test_closing_and_with() -> None:
    with cpu(Source(64), epochs=None) as loader:
        for _, _ in zip(range(3), loader, strict=False):
            pass
        it = iter(loader)
        next(it)
    assert ours() == []
    assert next(it, None) is None
    it = iter(loader)
    next(it)
    del it
    gc.collect()
    assert ours() == []


@pytest.mark.slow
def test_loops_in_cycles_end_wherever_they_are_collected() -> None:
    """Also in a thread of theirs that begins, draws a batch or holds a lock."""
    thresholds = gc.get_threshold()
    draws = np.random.default_rng()
    gc.collect()
    gc.freeze()  # rather than go through all that the run of the tests has made, each time
    try:
        for k in range(200):
            loader = cpu(Source(64), on_error="skip" if k % 2 else "raise", epochs=None, batch_size=4)
            cycle: list[Any] = [iter(loader), loader]
            for _ in range(draws.integers(3)):
                next(cycle[0])
            cycle.append(cycle)
            gc.set_threshold(int(draws.integers(1, 400)), 1, 1)
            del cycle, loader
            time.sleep(0.004 * draws.random())
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Ctrl-C within a destructor
@pytest.mark.parametrize("loops", [60, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_interrupted_loops_end_their_threads(loops: int, policy: str) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    list(cpu(Source(8), on_error=policy))  # imports, which Ctrl-C leaves half done
    draws = np.random.default_rng()
    handler = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for _ in range(loops):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.03 * draws.uniform(0.02, 1.0) ** 4)  # most while threads start
                for _ in cpu(Source(64), on_error=policy, epochs=100, batch_size=4):
                    pass
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    for thread in threading.enumerate():
        if thread.name.startswith("gpuimg") and thread.is_alive():
            thread.join(20.0)
            assert not thread.is_alive()
    assert interrupted > loops // 2


def test_a_new_loop_ends_the_old_one() -> None:
    """With an error where that is continued, which must not look like the end of its samples."""
    loader = cpu(Source(64))
    old = iter(loader)
    next(old)
    assert len(valid_indices(loader)) == 64
    for _ in range(2):
        with pytest.raises(RuntimeError, match="two loops at a time need two loaders"):
            next(old)
    with pytest.raises(RuntimeError, match="ended by another one over the same loader"):
        list(zip(loader, loader, strict=True))
    assert len(valid_indices(loader)) == 64
    ended = iter(loader)
    list(ended)
    assert len(valid_indices(loader)) == 64
    assert next(ended, None) is None


class Slow(Source):
    """Storage that answers late."""

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        time.sleep(0.01)
        return super().__getitem__(i)


def test_stats_say_what_limits() -> None:
    cpu(Source(8)).close()
    slow = cpu(Slow(48), readers=1)
    list(slow)
    assert slow.stats()["limit"] == "read"
    loader = cpu(Source(64))
    for _ in loader:
        time.sleep(0.2)  # far longer than a batch takes, on a busy machine too
    stats = loader.stats()
    assert stats["limit"] == "consumer"
    assert stats["images"] == 64
    assert stats["consumer"]["seconds"] > 1.5
    assert stats["ready"] > 0.5
    assert stats["decode"]["seconds"] > 0
    assert stats["kernels"]["seconds"] > 0


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    list(cpu(Source(64), progress=True))
    shown = capsys.readouterr().err
    assert "64.0/64.0" in shown
    assert "limited by" in shown


def test_repr() -> None:
    assert repr(cpu(Source(20), shard=(1, 2))) == (
        "<gpuimg.Loader of 20 samples, batches of 8 on cpu, rank 1 of 2, epoch 0>"
    )
    assert repr(cpu(Source(1_281_167))).startswith("<gpuimg.Loader of 1,281,167 samples, ")


SCRIPT = """
import os, signal, sys, threading
import gpuimg as gi
from tests.data_sets import Source, cpu
loader = cpu(Source(64), epochs=None)
{body}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("body", "status"), [
    ("it = iter(loader); next(it)", 0),
    ("next(loader); sys.exit(3)", 3),
    ("for k, _ in enumerate(loader):\n    if k == 3: raise SystemExit(5)", 5),
    (
        "try:\n    for k, _ in enumerate(loader):\n        if k == 3: os.kill(os.getpid(), signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(7 if not [t for t in threading.enumerate() if t.name.startswith('gpuimg')] else 8)", 7,
    ),
])  # fmt: skip
def test_the_process_ends(body: str, status: int) -> None:
    with no_hang():
        root = Path(__file__).parents[2]
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(body=body)], capture_output=True, timeout=300, cwd=root
        )
    assert (done.returncode, done.stderr) == (status, b"")


def test_what_others_write_to_stderr_is_passed_on_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    import os

    def consume() -> None:
        for k, _ in enumerate(cpu(Source(64, corrupt=(3,)), on_error="fill")):
            os.write(2, b"step %d\n" % k)
            subprocess.run([sys.executable, "-c", "import sys; sys.stderr.write('child\\n')"], check=True)

    with pytest.warns(RuntimeWarning, match="1 sample could not be decoded and was"):
        consume()
    assert capfd.readouterr().err.splitlines() == [w for k in range(8) for w in (f"step {k}", "child")]


class Busy:
    """A thread that holds the GIL as long as it can."""

    def __enter__(self) -> None:
        self._ends = False
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        while not self._ends:
            for _ in range(1000):
                pass

    def __exit__(self, *_: object) -> None:
        self._ends = True
        self._thread.join()


@pytest.mark.parametrize("kind", ["paths", "bytes", "table"])
def test_waiting_for_python_is_not_reading(tmp_path: Path, kind: str) -> None:
    """Files in memory while other threads are busy in Python: storage is not the limit."""
    # Each wait for the GIL takes 5 ms and more; of fewer files their sum varies too much.
    paths = [tmp_path / f"{k}.jpg" for k in range(128)]
    for k, path in enumerate(paths):
        path.write_bytes(FILES[k % len(FILES)])
    sources = {
        "paths": [(path, k) for k, path in enumerate(paths)],
        "bytes": Opening(paths),
        "table": gi.file_list(paths, range(len(paths))),
    }
    loader = cpu(sources[kind], readers=1)
    list(loader)  # compiled
    with Busy(), Busy():
        list(loader)
    assert loader.stats()["limit"] != "read"


class Opening:
    """A user's source, which reads files by itself."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        return self.paths[i].read_bytes(), i


def test_waits_for_the_gil_differ_from_slow_storage() -> None:
    for _ in range(3):  # on a busy machine readers wait for the lock as well, for any time
        slow = cpu(Slow(24), readers=1)
        list(slow)
        read = slow.stats()["read"]
        assert read["seconds"] + read["held"] > 0.24
        if read["held"] < read["seconds"]:
            break
    assert read["held"] < read["seconds"]
    loader = cpu(Opening([Path(__file__)] * 64), readers=1, on_error="fill")
    with Busy(), Busy(), pytest.warns(RuntimeWarning):
        list(loader)
    assert loader.stats()["read"]["held"] > 0
    assert loader.stats()["cores"] > 0


@pytest.mark.parametrize("large", [1 << 63, -(1 << 63) - 1, 10**400])
@pytest.mark.parametrize("other", [1, 2.5])
def test_labels_of_more_than_64_bits(large: int, other: float) -> None:
    """Are given as they are, and end nothing."""
    (batch,) = cpu([(FILES[0], large), (FILES[1], other)], batch_size=2)
    assert batch.labels == [large, other]
    (batch,) = cpu([(FILES[0], (1 << 63) - 1), (FILES[1], -(1 << 63))], batch_size=2)
    assert batch.labels.tolist() == [(1 << 63) - 1, -(1 << 63)]
