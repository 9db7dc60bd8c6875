"""Decoded images in memory: the pixels, the order and the failures of a loader without them."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from tests.data_sets import FILES, Source, cpu, jpeg, pixels_of

from ..samples import PHOTOS, file_of, with_orientation, write_files

pytestmark = pytest.mark.usefixtures("watched")

NOISE = np.random.default_rng(0)
MIXED = [
    *FILES[:9], *(path.read_bytes() for path in PHOTOS[:2]),
    file_of(NOISE.integers(0, 256, (31, 17, 3), np.uint8), "PNG"),
    file_of(Image.fromarray(NOISE.integers(0, 1 << 16, (9, 23)).astype(np.uint16)), "PNG"),
    file_of(NOISE.integers(0, 256, (12, 20, 4), np.uint8), "PNG"),
    file_of(NOISE.integers(0, 256, (30, 20), np.uint8), exif=with_orientation(6)),
]  # fmt: skip
PREPROCESS: dict[str, Any] = {
    "train": gi.presets.imagenet_train(8), "views": gi.presets.dino_train(12, 8, 2),
    "labels": lambda x, rng, labels: (gi.random_crop(gi.resize(x, (9, 9)), (8, 8), rng=rng), labels + 1),
    "unchanged": lambda x: x, "none": None,
}  # fmt: skip


def everything(loader: gi.Loader) -> list[tuple[list[Any], ...]]:
    return [
        (
            [(image.shape, image.dtype, np.asarray(image).tobytes()) for image in batch.images],
            list(batch.labels), list(batch.indices), list(batch.valid),
        )
        for batch in loader
    ]  # fmt: skip


def warned(loader: gi.Loader) -> list[tuple[list[Any], ...]]:
    with pytest.warns(RuntimeWarning, match="could not be decoded"):
        return everything(loader)


DECODED: list[Any] = [{"color": "gray"}, {"color": "rgba"}, {"depth": "native"}, {"alpha": "white"}]
CASES = [*((name, {}) for name in PREPROCESS), *(("none", one) for one in DECODED)]


@pytest.mark.parametrize("size", ["1 GB", 150_000, 2_000, 1])
@pytest.mark.parametrize(("name", "decoded"), CASES)
def test_epochs_are_those_without_a_cache(name: str, decoded: dict[str, Any], size: Any) -> None:
    source = list(zip(MIXED, range(len(MIXED)), strict=True))
    options: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 5, "epochs": 3, **decoded}
    loader = cpu(source, PREPROCESS[name], cache=size, **options)
    assert everything(loader) == everything(cpu(source, PREPROCESS[name], **options))
    count = loader.stats()["cached"]
    assert count == len(MIXED) if size == "1 GB" else (0 < count < len(MIXED)) == (size != 1)


def test_results_are_no_part_of_the_cache() -> None:
    """Writing into them changes nothing that comes later, even if they are whole images in their order."""
    source = [(jpeg(k, (16, 64)), k) for k in range(8)]  # whose images follow one another without gaps
    for preprocess in (None, lambda x, rng: x, lambda x, rng: gi.resize(x, (16, 64))):
        loader = cpu(source, preprocess, cache="1 MB", epochs=4, batch_size=4)
        expected = pixels_of(cpu(source, preprocess))
        for k, batch in enumerate(loader):
            for i, image in zip(batch.indices, batch.images, strict=True):
                assert pixels_of([gi.LoadedBatch(image[None], [0], [i], [True])])[int(i)] == expected[int(i)], k  # type: ignore[arg-type]
                image[:] = 3


@pytest.mark.parametrize("label", [
    np.zeros(1000), b"a" * 8000, "a" * 8000, {"a": [b"a" * 4000, ("b" * 4000,)]}, [0.5] * 1000
])  # fmt: skip
def test_labels_take_of_the_size(label: Any) -> None:
    image = 16 * 64 * 3
    loader = cpu([(jpeg(k, (16, 64)), label) for k in range(8)], cache=4 * (image + 8000) + 500, batch_size=1)
    for _ in range(2):
        list(loader)
    assert loader.stats()["cached"] == 4


def test_samples_are_asked_for_once() -> None:
    source = Source(20)
    loader, other = cpu(source, cache="1 MB", shuffle=True), cpu(Source(20), shuffle=True)
    for _ in range(3):
        assert everything(loader) == everything(other)
        assert source.reads == dict.fromkeys(range(20), 1)


def test_a_resumed_run_and_several_threads() -> None:
    options: dict[str, Any] = {"shuffle": True, "epochs": 2, "seed": 3, "batch_size": 4}
    loader = cpu(Source(22), cache="1 MB", decoders=4, readers=3, **options)
    expected = everything(cpu(Source(22), **options))
    for stop in (1, 4, 7):
        assert len(list(islice(loader, stop))) == stop
        state = loader.state_dict()
        loader.load_state_dict(state)  # with what was cached, and a new loader without
        assert everything(loader) == expected[stop:]
        loader.load_state_dict(cpu(Source(22), **options).state_dict())
    assert loader.stats()["cached"] == 22


@pytest.mark.parametrize("on_error", ["fill", "skip", "raise"])
@pytest.mark.parametrize("size", ["1 MB", 9_000])
def test_failures(on_error: Any, size: Any) -> None:
    broken: Any = {"unreadable": {3}, "corrupt": {8, 9}}
    source = Source(18, **broken)
    options: dict[str, Any] = {"epochs": 3, "on_error": on_error, "batch_size": 5}
    if on_error == "raise":
        for _ in range(2):
            with pytest.raises(gi.DecodeError) as found:
                everything(cpu(source, cache=size, **options))
            assert [failure.index for failure in found.value.failures] == [3]
        return
    loader, other = cpu(source, cache=size, **options), cpu(source, **options)
    assert warned(loader) == warned(other)
    assert loader.failures == other.failures
    assert size != "1 MB" or loader.stats()["cached"] == 15


def test_failures_of_a_batch_have_its_positions() -> None:
    loader = cpu(Source(12, corrupt={6}), lambda x, rng: x, cache="1 MB", on_error="fill", epochs=9, batch_size=4)
    with pytest.warns(RuntimeWarning, match="9 samples"):
        errors = [recording_of(batch.images).source.failures for batch in loader]
    assert [{k: one.index for k, one in found.items()} for found in errors] == [{}, {2: 2}, {}] * 9


def test_images_that_a_function_refuses(tmp_path: Path) -> None:
    data = {f"{k}.jpg": jpeg(k, (20, 9 if k == 4 else 28)) for k in range(9)}
    source = [(str(write_files(tmp_path, data) / name), k) for k, name in enumerate(data)]
    options: dict[str, Any] = {"epochs": 3, "on_error": "skip", "batch_size": 3}
    cropped: Any = lambda x, rng: gi.random_crop(x, (12, 12), rng=rng)  # noqa: E731
    loader = cpu(source, cropped, cache="1 MB", **options)
    assert warned(loader) == warned(cpu(source, cropped, **options))
    assert {(failure.index, failure.source) for failure in loader.failures} == {(4, str(tmp_path / "4.jpg"))}


@pytest.mark.parametrize(("options", "words"), [
    ({"cache": "24"}, 'a size such as "24 GiB", or a number of bytes'), ({"cache": "memory"}, "a size such as"),
    ({"cache": 0}, "cache"), ({"cache": 1.5}, "cache"), ({"cache": 9, "draft": 1.0}, "without clips and draft"),
    ({"cache": 9, "devices": ["cpu", "cpu"]}, "on the CPU"), ({"cache": 9, "clips": gi.Clips(2)}, "without clips"),
    ({"cache": -3}, "cache"), ({"cache": "much"}, "a size such as"),
])  # fmt: skip
def test_what_is_refused(options: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        gi.load(Source(9), **{"batch_size": 2, **options})
    with pytest.raises(ValueError, match="cache needs a source with a length"):
        cpu(gi.iterable([(FILES[0], 0)]), cache=9)
