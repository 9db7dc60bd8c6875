"""The loader: what it gives, in which order, and what it does with bad samples."""

import io
import json
import re
import tracemalloc
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from gpuimg.typing import Failure
from tests.data_sets import FILES, Altered, Source, cpu, jpeg, pixels_of, train, valid_indices
from tests.samples import file_of, write_files
from tests.sources.writers import archive
from tests.watchdog import ours

from ..libraries import library

pytestmark = pytest.mark.usefixtures("watched")
ignored = pytest.mark.filterwarnings("ignore:[0-9]+ samples? could not be decoded:RuntimeWarning")


def small(x: gi.Batch) -> gi.Batch:
    return gi.resize(x, (8, 8))


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
    source = Source(21)
    loader = cpu(source, shuffle=True, seed=3, epochs=2)
    batches = list(loader)
    assert len(loader) == len(batches) == 6
    assert set(source.reads.values()) == {2}
    first, second = ([int(i) for batch in part for i in batch.indices] for part in (batches[:3], batches[3:]))
    assert sorted(first) == sorted(second) == list(range(21))
    assert first != second
    np.testing.assert_array_equal(batches[4].images, directly(second[8:16], 3, 1).transpose(0, 2, 3, 1))


@pytest.mark.parametrize(("threads", "options"), [
    (1, {"batch_size": 64}), (5, {"batch_size": 16}), (2, {"device": None, "devices": ["cpu", "cpu"]}),
])  # fmt: skip
def test_same_pixels_whatever_works(threads: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = pixels_of(cpu(Source(100), shuffle=True, batch_size=1, readers=1, decoders=1))
    monkeypatch.setenv("GPUIMG_NUM_THREADS", str(threads))
    found = pixels_of(cpu(Source(100), shuffle=True, readers=threads, decoders=threads, **options))
    assert list(found.items()) == list(expected.items())


def test_images_of_different_sizes_are_a_batch() -> None:
    files = [jpeg(k, (10 + k, 12)) for k in range(5)]
    (batch,) = cpu({k: (data, None) for k, data in enumerate(files)}, None)  # keys are numbers: as a list
    assert isinstance(batch.images, gi.Batch)
    assert batch.labels is None
    for image, expected in zip(batch.images, gi.decode_batch(files, device="cpu"), strict=True):
        np.testing.assert_array_equal(image, expected)
    (batch,) = cpu([(data, None) for data in files], gi.horizontal_flip, dtype="float32", layout="NCHW")
    assert [image.shape for image in batch.images] == [(3, 10 + k, 12) for k in range(5)]
    assert batch.images[0].dtype == "float32"
    for options, dtype, channels in (
        ({"dtype": "float16"}, "float16", 3), ({"dtype": np.float32}, "float32", 3), ({"color": "gray"}, "uint8", 1),
    ):  # fmt: skip
        images = next(cpu(Source(8), small, **options)).images
        assert (images.dtype, images.shape) == (dtype, (8, 8, 8, channels))


def test_boxes_follow_images_and_must_lie_within() -> None:
    def flip(x: gi.Batch, rng: gi.Rng, labels: Any) -> tuple[Any, Any]:
        x = gi.horizontal_flip(x)
        return x, gi.transform_boxes(x, labels)[0]

    boxes = [np.array([[1.0, 2.0, 5.0 + k, 90.0 if k == 1 else 6.0]], np.float32) for k in range(4)]
    with pytest.warns(RuntimeWarning, match="1 sample could not be decoded .*\n.* box 0 reaches beyond the image"):
        (batch,) = cpu([(FILES[k], boxes[k]) for k in range(4)], flip, on_error="fill")
    assert batch.valid.tolist() == [True, False, True, True]
    np.testing.assert_allclose(batch.labels[2], [[28 - 7, 2, 27, 6]])


@pytest.mark.parametrize(("labels", "expected"), [
    ([1, True, np.int8(3)], np.array([1, 1, 3], np.int64)), ([1, 2.5, 3], np.array([1.0, 2.5, 3.0])),
    ([np.ones(2), np.zeros(2), np.ones(2)], np.array([[1.0, 1], [0, 0], [1, 1]])), (["a", "b", 3], ["a", "b", 3]),
    ([None, None, None], None), ([(1 << 63) - 1, -(1 << 63), 0], np.array([(1 << 63) - 1, -(1 << 63), 0])),
    ([1 << 63, 1, 2.5], [1 << 63, 1, 2.5]), ([-(1 << 63) - 1, 1, 10**400], [-(1 << 63) - 1, 1, 10**400]),
])  # fmt: skip
def test_labels(labels: list[Any], expected: Any) -> None:
    (batch,) = cpu([(FILES[k], label) for k, label in enumerate(labels)])
    assert type(batch.labels) is type(expected)
    np.testing.assert_array_equal(batch.labels, expected)
    assert getattr(batch.labels, "dtype", None) == getattr(expected, "dtype", None)


def test_labels_that_are_tensors_are_stacked() -> None:
    """Unless their shapes differ."""
    torch = library("torch")
    for label in (torch.tensor(5), torch.arange(6.0).reshape(2, 3), torch.tensor([True, False])):
        (batch,) = cpu([(FILES[0], label), (FILES[1], 0 * label)], batch_size=2)
        np.testing.assert_array_equal(batch.labels, torch.stack([label, 0 * label]).numpy(), strict=True)
    (batch,) = cpu([(FILES[0], torch.zeros(2)), (FILES[1], torch.zeros(3))], batch_size=2)
    assert [type(label) for label in batch.labels] == [torch.Tensor] * 2


ROW = {"jpg": FILES[0], "fine": 4, "coarse": 1}


@pytest.mark.parametrize(("item", "options", "labels"), [
    ((bytearray(FILES[0]), 4), {}, np.array([4, 4])), ([memoryview(FILES[0]), 4], {}, np.array([4, 4])),
    ((np.frombuffer(FILES[0], np.uint8), 4), {"image": "jpg", "label": "fine"}, np.array([4, 4])),
    ({"image": {"bytes": FILES[0], "path": None}, "label": 4, "id": 9}, {}, np.array([4, 4])),
    (ROW, {"image": "jpg", "label": "fine"}, np.array([4, 4])),
    (ROW, {"image": "jpg", "label": None}, [{"fine": 4, "coarse": 1}] * 2), ({"image": FILES[0]}, {}, None),
    ({"image": FILES[0]}, {"label": None}, None),
])  # fmt: skip
def test_items_of_a_source(item: Any, options: dict[str, Any], labels: Any) -> None:
    batch = next(cpu([item] * 2, None, **options))
    np.testing.assert_array_equal(batch.images[1], gi.decode_batch([FILES[0]], device="cpu")[0])
    assert type(batch.labels) is type(labels)
    np.testing.assert_array_equal(batch.labels, labels)


OPENED = Image.open(io.BytesIO(FILES[0]))


@pytest.mark.parametrize(("item", "options", "message"), [
    (7, {}, r"source\[0\] must be a pair .*, not int"), ((1, 2, 3), {}, "must be a pair .*, not tuple"),
    ((3.5, 1), {}, r"source\[0\]: .*float"), (FILES[0], {}, r"images without labels pass gpuimg\.file_list"),
    (ROW, {}, r"source\[0\] has no 'image', but 'jpg', 'fine', 'coarse'; pass the name of the image column as image="),
    (ROW, {"image": "jpg"}, "has no 'label', but 'jpg', 'fine', 'coarse'; pass the name of the label column as label="),
    (ROW, {"image": "jpg", "label": "class"}, "has no 'class', but 'jpg', 'fine'"),
    ({"pic": OPENED, "label": 1}, {"image": "pic"},
     r"decoded image \(JpegImageFile\).*cast_column\('pic', datasets\.Image\(decode=False"),
    ((OPENED, 1), {}, r"decoded image \(JpegImageFile\).*loader=lambda path: path"),
])  # fmt: skip
def test_items_that_are_refused(item: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        next(cpu([item] * 2, on_error="skip", **options))


def test_hugging_face_datasets() -> None:
    datasets = library("datasets")
    rows = {"picture": [{"bytes": data, "path": None} for data in FILES[:3]], "fine": [5, 6, 7]}
    undecoded = datasets.Dataset.from_dict(rows).cast_column("picture", datasets.Image(decode=False))
    (batch,) = cpu(undecoded, layout="NCHW", image="picture", label="fine")
    assert batch.labels.tolist() == [5, 6, 7]
    np.testing.assert_array_equal(batch.images, directly([0, 1, 2]))
    with pytest.raises(TypeError, match=r"cast_column\('picture', datasets\.Image\(decode=False\)\)"):
        next(cpu(undecoded.cast_column("picture", datasets.Image()), image="picture", label="fine"))


def test_paths_are_read_and_named(tmp_path: Path) -> None:
    write_files(tmp_path, {f"class/{k}.jpg": FILES[k] for k in range(3)})
    paths = [tmp_path / "class" / f"{k}.jpg" for k in range(3)]
    loader, table = cpu([*zip(paths, range(3), strict=True), ("a\0b\n.jpg", 1)], on_error="fill"), gi.folder(tmp_path)
    paths[1].unlink()
    with pytest.warns(RuntimeWarning, match=r"2 samples could not .*\n.*No such file(?s:.*)a\\x00b\\n\.jpg"):
        (batch,) = loader
    assert batch.valid.tolist() == [True, False, True, False]
    assert batch.labels.tolist() == [0, -1, 2, -1]
    missing = Failure(1, str(paths[1]), "cannot be read: No such file or directory")
    assert loader.failures[0] == missing
    with pytest.raises(gi.DecodeError) as caught:
        next(cpu(table))
    assert caught.value.failures == (missing,)


# -- epochs and positions ----------------------------------------------------------------------------------------------


def test_each_loop_is_the_next_epoch() -> None:
    """Also after a loop that was left, and one that next() began."""
    orders = valid_indices(cpu(Source(20), shuffle=True, epochs=4))
    loader = cpu(Source(20), shuffle=True)
    assert valid_indices(loader) + valid_indices(loader) == orders[:40]
    for batch in loader:
        assert batch.indices.tolist() == orders[40:48]
        break
    assert ours() == []
    assert loader.epoch == 2
    assert next(loader).indices.tolist() + valid_indices(loader) == orders[60:]
    assert loader.epoch == 4
    endless = cpu(Source(5), epochs=None, batch_size=2)
    assert [batch.indices.tolist() for batch in islice(endless, 7)] == [[0, 1], [2, 3], [4]] * 2 + [[0, 1]]
    with pytest.raises(TypeError, match="endless"):
        len(endless)


@pytest.mark.parametrize(("variables", "shard"), [
    ({"RANK": "2", "WORLD_SIZE": "4"}, (2, 4)), ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, (1, 2)),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (0, 1)),
    ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}, (1, 3)), ({"PMI_RANK": "1", "PMI_SIZE": "3"}, (1, 3)),
    ({"RANK": "1"}, (0, 1)), ({"WORLD_SIZE": "2"}, r"WORLD_SIZE is 2, but RANK, .*shard=\(trainer\.global_rank"),
    ({"RANK": "0", "WORLD_SIZE": "two"}, "WORLD_SIZE must be a whole number"),
    ({"RANK": "0", "WORLD_SIZE": "1.0"}, "WORLD_SIZE must be a whole number"),
])  # fmt: skip
def test_rank_of_the_launcher(variables: dict[str, str], shard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_RANK", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if isinstance(shard, str):
        with pytest.raises(ValueError, match=shard):
            cpu(Source(4))
    else:
        assert cpu(Source(4)).shard == shard
    assert cpu(Source(4), shard=(1, 5)).shard == (1, 5)


def test_states_are_plain_and_checked() -> None:
    loader = cpu(Source(20), shuffle=True)
    next(loader)
    state = json.loads(json.dumps(loader.state_dict()))
    cpu(Source(20), shuffle=True).load_state_dict(state)
    for other, given, message in (
        (cpu(Source(21), shuffle=True), state, "samples=20, but this loader has 21"),
        (cpu(Source(20)), state, "shuffle=True"), (loader, {}, "version"), (loader, [state, state], "ranks"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            other.load_state_dict(given)
    values: list[Any] = ["x", -1, [0], [[]], [["x"]], 1.5]
    for name in state:
        for value in values:
            with pytest.raises(ValueError, match=f"{name}|with other indices"):
                loader.load_state_dict({**state, name: value})
    for wrong in (5, "x", [], [5]):
        with pytest.raises(TypeError, match=r"state must be a dict"):
            loader.load_state_dict(wrong)  # type: ignore[arg-type]
    blocks, older = gi.Blocks(4), {**state, "version": 1}
    loader.load_state_dict(older)
    for shuffle, changes in ((False, {"world": 2}), (blocks, {"levels": [[3]]})):
        other = cpu(Source(20), shuffle=shuffle)
        with pytest.raises(ValueError, match=r"the state is of gpuimg 0\.3"):
            other.load_state_dict({**older, "shuffle": repr(blocks) if shuffle else False, **changes})
    skipping = {**state, "alike": False, "world": 3, "rank": 2}
    with pytest.raises(ValueError, match="needs the states of all ranks"):
        loader.load_state_dict(skipping)


def test_a_million_samples_cost_nothing() -> None:
    """Shuffling, sharding and resuming make nothing of the data set's size, and read no sample but those they give."""
    list(cpu(Source(8), shuffle=True))  # what is made once
    source = Source(1_000_000)
    state = cpu(source, shuffle=True, batch_size=64).state_dict()
    tracemalloc.start()
    for taken in (0, 64 * 1000, 999_936):
        loader = cpu(source, shuffle=True, batch_size=64, shard=(3, 8))
        loader.load_state_dict({**state, "taken": taken, "given": taken})
        if taken < 999_936:
            assert len(next(loader).indices) == 64
        loader.close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000
    assert source.reads.total() < 3 * 64 * 10


# -- bad samples -------------------------------------------------------------------------------------------------------

UNREADABLE, UNDECODABLE = (3, 17, 30), (5, 8, 39)
BAD = Source(40, UNREADABLE, UNDECODABLE)


def test_raise_names_the_samples() -> None:
    message = r"2 of 8 images.*\n.*image 3 \(sample 3\): cannot be read: disk error"
    with pytest.raises(gi.DecodeError, match=message) as caught:
        next(cpu(BAD))
    assert [failure.index for failure in caught.value.failures] == [3, 5]
    assert isinstance(caught.value.__cause__, OSError)


def test_skip_keeps_batches_full() -> None:
    loader = cpu(BAD, shuffle=True, on_error="skip")
    with pytest.warns(RuntimeWarning, match="6 samples could not be decoded and were left out"):
        batches = list(loader)
    assert [len(batch.indices) for batch in batches] == [8] * 5
    assert valid_indices(batches) == [i for i in valid_indices(cpu(Source(40), shuffle=True)) if i not in BAD.bad]
    assert sorted(failure.index for failure in loader.failures) == sorted(BAD.bad)
    assert sum(int((~batch.valid).sum()) for batch in batches) == 6
    assert pixels_of(batches).items() <= pixels_of(cpu(Source(40))).items()


def test_fill_marks_black_images() -> None:
    with pytest.warns(RuntimeWarning, match=r"sample 3 \(sample 3\): cannot be read: disk error"):
        batches = list(cpu(BAD, small, on_error="fill"))
    names = ("indices", "valid", "labels", "images")
    indices, valid, labels, images = (np.concatenate([getattr(b, name) for b in batches]) for name in names)
    assert indices.tolist() == list(range(40))
    assert set(indices[~valid].tolist()) == BAD.bad
    assert all(labels[i] == (-1 if i in UNREADABLE else i) for i in range(40))
    assert not images[~valid].any()
    assert images[valid].any((1, 2, 3)).all()


def turned(x: gi.Batch) -> gi.Batch:
    """A function that fails for an image that has another place in the batch."""
    return gi.models.clip(96)(x.take(range(len(x))[::-1])).take(range(len(x))[::-1])


@ignored
@pytest.mark.parametrize(("preprocess", "policy", "reason"), [
    (turned, "raise", "resized from 1 x 6000"), (turned, "skip", "resized from 1 x 6000"),
    (lambda x: gi.resize(x, gi.sizes.longest(x.sizes, 32)), "fill", "too narrow for a longest side of 32"),
    (lambda x: gi.resize(x, gi.sizes.smart(x.sizes, 28)).tokens(14), "fill", "6000.0 times as long as wide"),
])  # fmt: skip
def test_an_image_that_preprocess_refuses_is_bad(preprocess: Any, policy: str, reason: str) -> None:
    narrow = jpeg(1, (1, 6000))
    loader = cpu([(narrow if i in (5, 12) else FILES[i], i) for i in range(20)], preprocess, on_error=policy)
    if policy == "raise":
        with pytest.raises(gi.DecodeError, match=rf"1 of 8 .*\n  image 5 \(sample 5\): .*{reason}"):
            list(loader)
        return
    assert sorted(set(valid_indices(loader))) == [i for i in range(20) if i not in (5, 12)]
    assert [(failure.index, reason in failure.reason) for failure in loader.failures] == [(5, True), (12, True)]


def segmented(x: gi.Batch, rng: gi.Rng, paths: Any) -> Any:
    return gi.random_crop(x, 16, rng=rng), list(gi.transform_masks(x, paths))


def measured(x: gi.Batch, rng: gi.Rng, paths: Any) -> Any:
    depth = gi.open_batch(paths, color="gray", depth="native", device="cpu")
    return gi.transform_images(gi.random_crop(x, 16, rng=rng), depth), paths


def detected(x: gi.Batch, rng: gi.Rng, labels: Any) -> Any:
    return gi.resize(x, 9), [gi.transform_boxes(x.take([k]), [one["boxes"]])[0][0] for k, one in enumerate(labels)]


PNGS = [file_of(np.full((20, 28), k, np.uint8), "PNG") for k in range(12)]
BOXES = [{"boxes": [(1.0, 2.0, 3.0, 4.0)]}] * 12
BROKEN: dict[str, tuple[str, bytes | None, str]] = {  # the file of sample 5 that is bad, what it holds, and the reason
    "missing": ("5.jpg", None, "No such file"), "junk": ("5.jpg", b"junk", "not an image"),
    "cut": ("5.jpg", FILES[5][:-60], "the data end"), "small": ("5.jpg", jpeg(5, (9, 28)), r"its size \(9, 28\) is"),
    "mask missing": ("5.png", None, "5.png.*No such file"), "mask cut": ("5.png", PNGS[5][:60], "5.png.*data end"),
    "mask of another size": ("5.png", file_of(np.zeros((20, 27), np.uint8), "PNG"), r"5\.png.* is 20 x 27, but"),
    "mask of colors": ("5.png", file_of(np.zeros((20, 28, 3), np.uint8), "PNG"), "5.png.* one channel"),
}  # fmt: skip


@ignored
@pytest.mark.parametrize("policy", ["fill", "skip", "raise"])
@pytest.mark.parametrize(("preprocess", "kind"), [
    *((segmented, kind) for kind in BROKEN),
    *((measured, kind) for kind in BROKEN if kind not in ("cut", "mask of colors")),  # it decodes no photo
    *((detected, kind) for kind in [*BROKEN][:3]), (detected, "no label"),
])  # fmt: skip
def test_a_bad_sample_is_not_the_end(tmp_path: Path, preprocess: Any, kind: str, policy: str) -> None:
    paths = [tmp_path / f"{k}.jpg" for k in range(12)]
    labels: list[Any] = [path.with_suffix(".png") for path in paths] if preprocess is not detected else [*BOXES]
    for k, path in enumerate(paths):
        write_files(tmp_path, {path.name: FILES[k], f"{k}.png": PNGS[k]})
    expected = pixels_of(cpu(gi.file_list(paths, labels), preprocess, batch_size=4))
    name, data, reason = BROKEN.get(kind, ("5.jpg", FILES[5], "it has no label: TypeError"))
    (tmp_path / name).unlink() if data is None else (tmp_path / name).write_bytes(data)
    labels[5] = None if kind == "no label" else labels[5]
    loader = cpu(gi.file_list(paths, labels), preprocess, batch_size=4, on_error=policy)
    if policy == "raise":
        with pytest.raises(gi.DecodeError, match=rf"image 5 \(.*5\.jpg\): .*{reason}"):
            list(loader)
        return
    assert pixels_of(loader) == {i: digest for i, digest in expected.items() if i != 5}
    ((index, named, why),) = loader.failures
    assert (index, named, bool(re.search(reason, why))) == (5, str(paths[5]), True), why


@ignored
@pytest.mark.parametrize("mix", [gi.mixup, gi.cutmix])
@pytest.mark.parametrize("data", [b"junk", jpeg(5, (9, 28))])
def test_a_bad_partner_is_not_the_end(mix: Any, data: bytes) -> None:
    source = [(data if k == 5 else FILES[k], k) for k in range(12)]
    for policy in ("fill", "skip"):
        loader = cpu(source, lambda x, rng: mix(x, rng=rng).images, batch_size=4, on_error=policy)
        assert sorted(set(valid_indices(loader))) == [k for k in range(12) if k != 5]
    with pytest.raises(gi.ImageError, match=r"image 1: .* one size, not \(9, 28\) and \(20, 28\)"):
        mix(gi.decode_batch([FILES[0], jpeg(5, (9, 28)), *FILES[2:4]], device="cpu"), partner=[0, 2, 1, 3], rng=0)


def raising(error: Exception, data: bytes, i: int) -> Any:
    if i == 5:
        raise error
    return data, i


@ignored
def test_labels_and_reasons_without_a_file(tmp_path: Path) -> None:
    paths = [write_files(tmp_path, {f"{k}.jpg": FILES[k]}) / f"{k}.jpg" for k in range(7)]
    paths[5].unlink()
    (batch,) = cpu(gi.file_list(paths, list(range(7))), small, on_error="fill")
    assert (batch.labels.tolist(), batch.valid.tolist()) == ([*range(7)], [k != 5 for k in range(7)])
    for error, reason in (
        (AssertionError(), "AssertionError"), (OSError(), "OSError"), (OSError("disk"), "disk"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"), (KeyError(0), "KeyError: 0"),
        (TimeoutError("late"), "TimeoutError: late"),
    ):  # fmt: skip
        with cpu(Altered(7, partial(raising, error)), small, on_error="fill") as loader:
            list(loader)
        assert loader.failures[0].reason == f"cannot be read: {reason}"


@pytest.mark.parametrize("call", [
    lambda: gi.decode_image(FILES[0], device="cpu"), lambda: gi.decode_batch(FILES[:2], device="cpu", on_error="fill"),
    lambda: list(cpu(Source(3), on_error="fill")), lambda: gi.open_batch([], device="cpu"),
])  # fmt: skip
def test_a_wrong_setting_is_no_bad_file(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUIMG_NUM_THREADS", "0")
    with pytest.raises(ValueError, match=r"^GPUIMG_NUM_THREADS must be a whole number of at least 1, not '0'"):
        call()


@pytest.mark.parametrize("policy", ["skip", "fill"])
@pytest.mark.parametrize(("most", "raises"), [(0, True), (5, True), (6, False), (0.14, True), (0.15, False)])
def test_too_many_failures(policy: str, most: float, raises: bool) -> None:
    loader = cpu(BAD, on_error=policy, max_failures=most)
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
        batches = list(cpu(Source(10, range(10)), on_error="fill"))
    assert [(bool(batch.valid.any()), batch.labels is None) for batch in batches] == [(False, True)] * 2


def test_only_the_last_failures_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuimg._loading.loader._STORED", 25)
    with cpu(Source(8, range(1, 8)), on_error="fill", epochs=None) as loader:
        for k, _ in zip(range(10), loader, strict=False):
            assert len(loader.failures) == min(7 * (k + 1), 25)
            assert loader.stats()["failures"] == 7 * (k + 1)
        assert [failure.index for failure in loader.failures] == [4, 5, 6, 7, *[*range(1, 8)] * 3]
    again = cpu(Source(30, range(1, 30)), on_error="fill")
    with pytest.warns(RuntimeWarning, match=r"29 samples could not(?s:.*)and 9 more"):
        assert len(list(again)) == 4
    assert again.stats()["failures"] == 29


@ignored
@pytest.mark.parametrize("bad", [range(4, 8), range(12)])
@pytest.mark.parametrize("label", [5, 0.5, np.arange(6.0).reshape(2, 3), "word", None])
def test_label_type_of_a_batch_without_readable_samples(label: Any, bad: range) -> None:
    """The first batch's included: with those around it they are concatenated or stacked."""
    first, source = (Altered(16, lambda data, _: (data, label), unreadable) for unreadable in ([0], bad))
    with cpu(first, batch_size=4, on_error="fill") as loader:
        mixed = next(loader).labels
    for number, batch in enumerate(cpu(source, batch_size=4, on_error="fill", decoders=1)):
        assert type(batch.labels) is type(mixed)
        if isinstance(mixed, np.ndarray):
            assert (batch.labels.dtype, batch.labels.shape) == (mixed.dtype, mixed.shape)
        if label is not None:
            np.testing.assert_array_equal(batch.labels, [mixed[0] if number * 4 in bad else mixed[1]] * 4)


@ignored
def test_label_type_of_such_a_batch_is_that_of_the_source_whichever_batch_is_earlier() -> None:
    source = Altered(8, lambda data, k: (data, 0.5 if k > 5 else k), [2, 3])
    whole, later = ([*cpu(source, batches=rows, on_error="fill", decoders=1)] for rows in ([[6, 7], [2, 3]], [[2, 3]]))
    assert whole[0].labels.dtype == np.float64
    assert whole[1].labels.dtype == later[0].labels.dtype == np.int64


@ignored
@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist])
def test_boxes_of_an_unreadable_sample_are_none(form: Any) -> None:
    """An empty array or list, which functions for boxes take."""
    boxes = [form(np.full((k + 1, 4), 9.0)) for k in range(4)]
    source = [("nowhere.jpg" if k == 1 else FILES[k], each) for k, each in enumerate(boxes)]
    (batch,) = cpu(source, batch_size=4, on_error="fill")
    assert [len(label) for label in batch.labels] == [1, 0, 3, 4]
    assert type(batch.labels[1]) is type(boxes[0])


@ignored
def test_label_type_of_every_source(tmp_path: Path) -> None:
    """A tar whose first shard is gone, paths that lead nowhere, a stream of such, rows."""
    paths = [tmp_path / "a.tar", tmp_path / "b.tar"]
    for path in paths:
        path.write_bytes(archive([(FILES[0], k) for k in range(4)]))
    shards = gi.tar(paths)
    paths[0].unlink()
    pairs = [(str(tmp_path / "nowhere.jpg"), 3)] * 8
    rows = [{"image": path, "label": label} for path, label in pairs]
    for source in (shards, pairs, gi.iterable(pairs), rows):
        for batch in cpu(source, batch_size=4, on_error="fill"):
            assert batch.labels.dtype == np.int64
            assert batch.valid.all() or set(batch.labels.tolist()) == {-1}


def protocol(*returned: Any) -> Any:
    """An object that is a CUDA stream by its protocol alone."""
    return SimpleNamespace(__cuda_stream__=lambda: returned)


@pytest.mark.parametrize(("options", "message"), [
    ({"batch_size": 0}, "batch_size"), ({"batch_size": 2.0}, "batch_size"), ({"prefetch": 0}, "prefetch"),
    ({"readers": 0}, "readers .* from 1 to 1024"), ({"decoders": 2**31}, "decoders .* from 1 to 1024"),
    ({"epochs": 0}, "epochs"), ({"layout": "CHW"}, "layout"), ({"dtype": "int8"}, "dtype"),
    ({"on_error": "ignore"}, "on_error"), *(({"max_failures": most}, "max_failures") for most in (-1, 1.5, True)),
    ({"shard": (0.0, 2)}, "rank of shard .*not 0.0"), ({"shard": (0, 0)}, "world size of shard"),
    *(({"shard": shard}, "shard") for shard in ((2, 2), np.zeros((2, 2)), "all", 3)), ({"seed": -1}, "seed"),
    ({"image": ""}, "image must be the name"), ({"label": 3}, "label must be the name"),
    ({"image": "a", "label": "a"}, "two columns"), ({"devices": ["cpu"]}, "not both"),
    ({"device": None, "devices": []}, "devices"), ({"color": "bgr"}, "color"), ({"device": "gpu"}, "device"),
    ({"drop_last": True, "epochs": None}, "drop_last leaves no full batch of 4 samples in batches of 8 on 1 rank"),
    ({"stream": 2}, "per-thread default stream"), ({"stream": protocol(0, 2)}, "per-thread default stream"),
    ({"stream": protocol(1, 64)}, "version 1 of __cuda_stream__"),
    *(({"stream": address}, "address of a stream must be a whole number from 0") for address in (-1, 2**64)),
])  # fmt: skip
def test_wrong_arguments_are_refused_at_the_call(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cpu(Source(4), **options)


@pytest.mark.parametrize(("source", "preprocess", "options", "error", "message"), [
    (iter([]), None, {}, TypeError, "source"), ([], None, {}, ValueError, "no samples"),
    (Source(4), "resize", {}, TypeError, "preprocess"), (Source(4), None, {"stream": "main"}, TypeError, "stream"),
    *((Source(4), None, {"stream": given}, TypeError, "stream must be an object with __cuda_stream__, such as torch")
      for given in (protocol(0,), protocol(0, None), protocol, "64", 64.0, True, type("Stream", (), {}))),
    (Source(8), lambda x, rng: dict[str, Any]()["mine"], {}, KeyError, "mine"),
    (Source(8), lambda x: None, {}, TypeError, "return missing"),
    (Source(8), lambda x: [1, 2], {}, TypeError, "images"),
    (Source(8), lambda x, rng: gi.mixup(small(x), rng=rng), {}, TypeError, "Mix"),
    (Source(8), lambda x, rng, labels: x, {}, TypeError, r"\(images, labels\)"),
    (Source(8), lambda x: x.array()[:2], {}, ValueError, "given 8 images and returned 2"),
])  # fmt: skip
def test_wrong_sources_and_functions(source: Any, preprocess: Any, options: Any, error: Any, message: str) -> None:
    """What ``preprocess`` raises or returns is an error in the loop."""
    with pytest.raises(error, match=message):
        next(cpu(source, preprocess, **options))
    assert ours() == []
