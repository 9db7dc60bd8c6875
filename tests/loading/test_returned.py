"""What a function of a loader may return: views, padded arrays, tokens, and dicts of several results."""

from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from tests.data_sets import FILES, Source, cpu
from tests.libraries import library

torch = library("torch")
gt: Any = library("gpuimg.torch")

SIZED = [(file, k) for k, file in enumerate(FILES[:7])]


def loaded(of_torch: bool, preprocess: Any, **options: Any) -> Any:
    options = {"batch_size": 3, "device": "cpu", "layout": "NCHW", **options}
    return (gt.load if of_torch else gi.load)(SIZED, preprocess, **options)


def opened(batch: Any) -> tuple[gi.Batch, gi.Rng]:
    """The images of a batch and their draws."""
    indices = [int(i) for i in batch.indices]
    return gi.open_batch([FILES[i] for i in indices], device="cpu"), gi.Rng(0, indices=indices)


PRESETS: dict[str, Any] = {
    "dino": gi.presets.dino_train(16, 8, 3), "simclr": gi.presets.simclr_train(12),
    "five": lambda x, rng: gi.five_crop(x, (10, 12)), "ten": lambda x, rng: gi.normalize(gi.ten_crop(x, 9), 0.5, 0.5),
    "one": lambda x, rng: gi.resize(x, (7, 8)),
}  # fmt: skip


@pytest.mark.parametrize("of_torch", [False, True])
@pytest.mark.parametrize("dtype", [None, "float16"])
@pytest.mark.parametrize("name", PRESETS)
def test_views_are_arrays_of_one_version_of_all_samples(name: str, dtype: Any, of_torch: bool) -> None:
    for batch in loaded(of_torch, PRESETS[name], dtype=dtype):
        images = PRESETS[name](*opened(batch))
        n = len(batch.indices)
        assert len(batch.views) == {"dino": 5, "simclr": 2, "five": 5, "ten": 10, "one": 1}[name]
        for k, view in enumerate(batch.views):
            expected = images.take(range(k * n, k * n + n)).array(dtype, "NCHW")
            np.testing.assert_array_equal(np.asarray(view), expected)
            assert isinstance(view, torch.Tensor if of_torch else np.ndarray)


def test_views_of_several_sizes_are_batches() -> None:
    sides = np.array([8, 9, 5, 6])
    batch = next(iter(cpu(Source(4), lambda x, rng: gi.resize(x.take([0, 1, 0, 1]), (sides, 7)), batch_size=2)))
    assert [[image.shape[:2] for image in view] for view in batch.views] == [[(8, 7), (9, 7)], [(5, 7), (6, 7)]]


@pytest.mark.parametrize("of_torch", [False, True])
@pytest.mark.parametrize("kind", ["padded", "ragged", "tokens"])
def test_records_are_returned_and_unpack(kind: str, of_torch: bool) -> None:
    def prepared(x: gi.Batch, rng: gi.Rng) -> Any:
        side = 8 + 4 * rng.integers(0, 3)
        x = gi.resize(x, (side, 24 - side))
        if kind == "padded":
            return x.padded(9, "center", multiple=4, layout="NCHW")
        return x.ragged() if kind == "ragged" else gi.resize(x, (8, 8)).tokens(4, pad=9)

    for batch in loaded(of_torch, prepared):
        expected = prepared(*opened(batch))
        assert len(batch.images) == len(expected) == {"padded": 4, "ragged": 3, "tokens": 5}[kind]
        for one, other, name in zip(batch.images, expected, expected._fields, strict=True):
            assert getattr(batch.images, name) is one
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
            assert isinstance(one, torch.Tensor) == (of_torch and isinstance(other, np.ndarray))


@pytest.mark.parametrize("of_torch", [False, True])
def test_a_dict_of_several_results(of_torch: bool) -> None:
    def several(x: gi.Batch, rng: gi.Rng, labels: Any) -> Any:
        crop = gi.random_crop(x, (10, 10), rng=rng)
        text, twice = ["a"] * len(x), 2 * labels
        return {"image": gi.normalize(crop, 0.5, 0.5), "raw": crop, "padded": x.padded(), "text": text, "twice": twice}

    for batch in loaded(of_torch, several):
        found, (x, rng) = batch.images, opened(batch)
        crop = gi.random_crop(x, (10, 10), rng=rng)
        np.testing.assert_array_equal(np.asarray(found["raw"]), crop.array(layout="NCHW"))
        np.testing.assert_array_equal(np.asarray(found["image"]), gi.normalize(crop, 0.5, 0.5).array(layout="NCHW"))
        np.testing.assert_array_equal(np.asarray(found["padded"].values), x.padded().values)
        assert found["text"] == ["a"] * len(x)
        assert isinstance(found["raw"], torch.Tensor) == of_torch
        np.testing.assert_array_equal(np.asarray(batch.labels), np.asarray(batch.indices))
        np.testing.assert_array_equal(np.asarray(found["twice"]), 2 * np.asarray(batch.labels))


def test_a_data_set_of_dicts() -> None:
    def both(x: gi.Batch, rng: gi.Rng) -> Any:
        return {"image": gi.resize(x, (8, 8)), "gray": gi.rgb_to_grayscale(gi.resize(x, (8, 8)), 1)}

    dataset = gt.Dataset(SIZED, both)
    image, label = dataset[2]
    assert (image["image"].shape, image["gray"].shape, int(label)) == ((3, 8, 8), (1, 8, 8), 2)
    with pytest.raises(TypeError, match=r"padded\(\), ragged\(\) and tokens\(\) are for gpuimg\.torch\.load"):
        gt.Dataset(SIZED, lambda x, rng: x.padded())[0]
