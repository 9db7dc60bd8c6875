"""Loaders of clips: which frames, what preprocessing is given, and bad videos."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuimg as gi

from ..libraries import library
from ..samples import write_files
from ..watchdog import no_hang
from .test_video import damaged, numbers
from .videos import HEIGHT, WIDTH, Build, made, make

NAMES = ("h264", "hevc", "vp9", "h264 vfr", "h264 edit list", "av1")


def loaded(source: Any, preprocess: Any = None, **options: Any) -> list[gi.LoadedBatch]:
    options = {"batch_size": 2, "layout": "NTHWC", "clips": gi.Clips(4, 2), **options}
    with no_hang():
        return list(gi.load(source, preprocess, device="cpu", **options))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    write_files(tmp_path, {f"{name}.mp4": made(name) for name in NAMES})
    return [tmp_path / f"{name}.mp4" for name in NAMES]


def test_clips_are_tensors_of_clips(files: list[Path]) -> None:
    torch = library("torch")
    import gpuimg.torch

    options: Any = {"batch_size": 2, "clips": gi.Clips(4, 2), "device": "cpu"}
    source = gi.file_list(files[:2], labels=range(2))
    loader = gpuimg.torch.load(source, lambda x: gi.resize(x, (8, 8)), **options)
    (batch,) = loader
    assert (batch.images.shape, batch.labels.shape) == ((2, 4, 3, 8, 8), (2,))
    dataset = gpuimg.torch.IterableDataset(source, lambda x: gi.resize(x, (8, 8)), **options)
    ((images, _),) = torch.utils.data.DataLoader(dataset, batch_size=None)
    assert images.shape == (2, 4, 3, 8, 8)


def test_clips_depend_on_the_sample_alone(files: list[Path]) -> None:
    source = gi.file_list(files, labels=range(len(files)))
    seen: dict[tuple[int, int], list[int]] = {}
    for batch_size, shuffle in ((1, False), (4, True), (6, False)):
        batches = iter(loaded(source, batch_size=batch_size, shuffle=shuffle, seed=3, epochs=2))
        for epoch in range(2):
            for _ in range(-(-len(files) // batch_size)):
                images, labels, indices, valid = next(batches)
                assert images.shape == (len(labels), 4, HEIGHT, WIDTH, 3)
                assert labels.tolist() == indices.tolist()
                assert valid.all() or batch_size == 4
                for index, found in zip(indices.tolist(), numbers(images), strict=True):
                    assert seen.setdefault((epoch, index), found) == found
    assert {len(set(np.diff(found))) for found in seen.values()} == {1}
    assert sum(seen[0, k] != seen[1, k] for k in range(len(files))) >= 3
    rng = gi.Rng(3, epoch=1, indices=range(len(files))).split("clips")
    x = gi.random_clips(files, 4, 2, rng=rng, device="cpu")
    assert numbers(x.array(layout="NTHWC")) == [seen[1, k] for k in range(len(files))]


@pytest.mark.parametrize(("start", "first"), [("first", 0), ("center", 31)])
def test_clips_without_chance(start: str, first: int) -> None:
    (batch,) = loaded([(made("h264"), 0)], clips=gi.Clips(4, 2, start=start))
    assert numbers(batch.images) == [[first, first + 2, first + 4, first + 6]]


def test_preprocessing_is_given_clips_and_draws_for_them(files: list[Path]) -> None:
    seen = []

    def train(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
        seen.append((x.frames, len(x), len(rng)))
        return gi.random_crop(gi.resize(x, 40), 32, rng=rng)

    batches = loaded(gi.file_list(files), train, batch_size=3, layout="NCTHW", dtype="float16")
    assert [batch.images.shape for batch in batches] == [(3, 3, 4, 32, 32)] * 2
    assert seen == [(4, 12, 3)] * 2
    flat = loaded(gi.file_list(files), train, batch_size=3, layout="NHWC")
    assert flat[0].images.shape == (12, 32, 32, 3)
    assert flat[0].indices.tolist() == [0, 1, 2]


def test_batches_without_preprocessing(files: list[Path]) -> None:
    batches = loaded(gi.file_list(files), layout="NHWC")
    assert [batch.images.frames for batch in batches] == [4, 4, 4]
    sizes = [(made("h264"), 0), (make(Build("libx264"), lambda k: np.full((32, 48), k, np.uint8), 5), 0)]
    (batch,) = loaded(sizes)
    assert batch.images.sizes[::4].tolist() == [[HEIGHT, WIDTH], [32, 48]]
    (batch,) = loaded([{"image": str(files[0]), "label": 5}])
    assert batch.labels.tolist() == [5]
    (folder := files[0].parent / "set" / "one").mkdir(parents=True)
    files[0].rename(folder / "a.MP4")
    (batch,) = loaded(gi.folder(folder.parent, extensions=(".mp4",)))
    assert batch.labels.tolist() == [0]


def _bad(files: list[Path], tmp_path: Path) -> Any:
    (tmp_path / "bad.mp4").write_bytes(damaged()[0])
    return [(path, k) for k, path in enumerate([*files[:2], tmp_path / "gone.mp4", tmp_path / "bad.mp4", *files[2:]])]


def test_bad_videos_raise(files: list[Path], tmp_path: Path) -> None:
    source = _bad(files, tmp_path)
    with pytest.raises(gi.DecodeError, match=r"1 of 2 clips .*\n  clip 2 \(.*gone.mp4\): cannot be read: No such"):
        loaded(source)
    with pytest.raises(gi.DecodeError, match=r"clip 3 \(.*bad.mp4\): (frame 7 is damaged|Invalid data)"):
        loaded([source[0], source[1], source[4], source[3]], clips=gi.Clips(20))


def test_bad_videos_are_filled_or_skipped(files: list[Path], tmp_path: Path) -> None:
    source = _bad(files, tmp_path)
    with pytest.warns(RuntimeWarning, match="2 samples could not be decoded and were black"):
        batches = loaded(source, lambda x, rng: gi.resize(x, (16, 24)), clips=gi.Clips(20), on_error="fill")
    assert np.concatenate([batch.valid for batch in batches]).tolist() == [True] * 2 + [False] * 2 + [True] * 4
    assert not batches[1].images.any()
    loader = gi.load(source, batch_size=3, clips=gi.Clips(20), layout="NTHWC", on_error="skip", device="cpu")
    with no_hang(), pytest.warns(RuntimeWarning, match="2 samples could not be decoded and were left out"):
        batches = list(loader)
    assert [batch.indices.tolist() for batch in batches] == [[0, 1, 4], [5, 6, 7], [0, 1]]
    assert sorted(str(failure)[:6] for failure in loader.failures) == ["clip 2", "clip 3"]


@pytest.mark.parametrize(("options", "message"), [
    ({"clips": 16}, r"clips must be gpuimg.Clips\(frames, ...\), not 16"),
    ({"draft": 1.5}, "draft is for images, not for clips"),
    ({"layout": "THWC"}, "layout must be one of 'NHWC', 'NCHW', 'NTHWC', 'NTCHW', 'NCTHW', not 'THWC'"),
    ({"clips": None}, "layout must be one of 'NHWC', 'NCHW', not 'NTHWC'"),
    ({"preprocess": lambda x, rng: np.asarray(x)}, "given 1 clip of 4 frames and returned 4 images"),
])  # fmt: skip
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        loaded([(made("h264"), 0)], **options)
    for wrong in ({"frames": 0}, {"stride": 0}, {"start": "last"}, {"short": "loop"}, {"frames": 1.5}):
        with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be"):
            gi.Clips(**{"frames": 4, **wrong})
