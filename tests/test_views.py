"""Many views of one image: decoded once, the pixels of images that are opened once for each."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpuimg as gi
from gpuimg._decoding import pillow
from gpuimg._runtimes.draft import first_segments, scales_of
from gpuimg.kernels import layout
from tests.jpegs import encoded
from tests.loading import Source, cpu
from tests.standin import installed
from tests.standin.work import files as small_files
from tests.test_rng import generator

PHOTOS = sorted((Path(__file__).parents[1] / "examples" / "photos").glob("*.jpg"))
PHOTO = Image.open(PHOTOS[0]).convert("RGB")


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(PHOTO.resize((150, 100)), exif=exif.tobytes())


def png() -> bytes:
    out = io.BytesIO()
    PHOTO.resize((70, 90)).save(out, "PNG")
    return out.getvalue()


FILES = [
    PHOTOS[1].read_bytes(), encoded(PHOTO.resize((90, 130)), progressive=True), turned(6), turned(4), png(),
    encoded(PHOTO.resize((161, 97)), "4:4:4"), encoded(PHOTO.convert("L").resize((80, 60))),
]  # fmt: skip
CUT = FILES[0][: len(FILES[0]) // 2]
CHAINS: dict[str, Any] = {
    "one pass": lambda x, rng: gi.random_horizontal_flip(gi.random_resized_crop(x, 24, (0.02, 0.3), rng=rng), rng=rng),
    "statistics": lambda x, rng: gi.random_equalize(gi.random_resized_crop(x, 24, rng=rng), rng=rng),
    "two segments": lambda x, rng: gi.random_rotation(
        gi.random_gaussian_blur(gi.random_crop(x, (40, 50), rng=rng), 5, p=0.5, rng=rng), 60, rng=rng
    ),
    "nothing": lambda x, rng: x,
}


def drawn(count: int) -> Any:
    """Positions in the batch, some of them several times."""
    return np.random.default_rng().integers(0, len(FILES), count)


@pytest.mark.parametrize("color", ["rgb", "gray"])
@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_pixels_are_those_of_images_opened_for_each(chain: Any, color: str) -> None:
    rows = drawn(25)
    rng = gi.Rng(int(rows[0]), indices=np.arange(25))
    views = chain(gi.open_batch(FILES, device="cpu", color=color).take(rows), rng.split("a"))
    each = chain(gi.open_batch([FILES[i] for i in rows], device="cpu", color=color), rng.split("a"))
    assert views.sizes.tolist() == each.sizes.tolist()
    for k, (one, other) in enumerate(zip(views, each, strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=f"view {k} of file {rows[k]}")


@pytest.mark.parametrize("computed", [False, True])
def test_of_what_is_recorded_and_of_pixels(computed: bool) -> None:
    """Taking and recording change places; views of views are views of the images."""
    rows, again = drawn(12), np.array([11, 3, 3, 0])
    x = gi.gaussian_blur(gi.resize(gi.open_batch(FILES, device="cpu"), (30, 40)), 5, np.linspace(0.3, 2.0, len(FILES)))
    x = x.compute() if computed else x
    taken = gi.horizontal_flip(x.take(rows).take(again), where=np.array([True, False, True, False])).array()
    expected = x.array()[rows[again]]
    expected[[0, 2]] = expected[[0, 2], :, ::-1]
    np.testing.assert_array_equal(taken, expected)


def test_a_mask_and_none() -> None:
    x = gi.resize(gi.open_batch(FILES, device="cpu"), (8, 8))
    keep = np.arange(len(FILES)) % 2 == 0
    np.testing.assert_array_equal(x.take(keep).array(), x.array()[keep])
    assert len(x.take([])) == len(x.take([]).arrays()) == 0


def test_arrays_are_taken_in_place() -> None:
    pixels = np.random.default_rng().integers(0, 256, (5, 6, 7, 3), np.uint8)
    x = gi.resize(pixels, (6, 7)).compute()
    part = x.take([1, 2, 3]).array()
    np.testing.assert_array_equal(part, pixels[1:4])
    assert np.shares_memory(part, x.array())
    mixed = x.take([3, 1, 1]).array()
    np.testing.assert_array_equal(mixed, pixels[[3, 1, 1]])


def test_each_file_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    plain = pillow.decode

    def told(data: bytes, *rest: Any) -> Any:
        decoded.append(len(data))
        return plain(data, *rest)

    monkeypatch.setattr(pillow, "decode", told)
    rows = np.array([4, 0, 1, 4, 4, 1])
    gi.random_resized_crop(gi.open_batch(FILES, device="cpu").take(rows), 16, rng=0).array()
    assert sorted(decoded) == sorted([len(FILES[1]), len(FILES[4])])


def test_failures_are_of_all_views() -> None:
    rows = [1, 0, 1, 2, 0]
    files = [FILES[0], CUT, b"no image"]
    x = gi.open_batch(files, device="cpu", on_error="fill")
    views = gi.resize(x.take(rows), (9, 9))
    pixels = views.array()
    assert sorted(views.errors) == [0, 2, 3]
    assert [failure.index for _, failure in sorted(views.errors.items())] == [0, 2, 3]
    assert sorted(x.errors) == [1, 2]  # once each, by their places in the batch that was opened
    assert not pixels[[0, 2, 3]].any()
    np.testing.assert_array_equal(pixels[[1, 4]], gi.resize(gi.open_batch(files[:1]), (9, 9)).array()[[0, 0]])


def test_a_failure_is_raised_once() -> None:
    x = gi.resize(gi.open_batch([FILES[0], CUT], device="cpu").take([0, 1, 1, 1]), 16)
    with pytest.raises(gi.DecodeError, match="1 of 2 images could not be decoded") as caught:
        x.array()
    assert [failure.index for failure in caught.value.failures] == [1]


def test_draft_is_that_of_the_most_demanding_view() -> None:
    x = gi.open_batch([encoded(PHOTO.resize((320, 240)))], device="cpu", draft=1.0)
    side = [20, 80]
    views = gi.resize(x.take([0, 0]), (side, side))
    assert scales_of(views._source, views._segments, first_segments(views._segments)).tolist() == [4, 4]
    for k, size in enumerate(side):
        single = gi.resize(x, (size, size))
        found = scales_of(single._source, single._segments, first_segments(single._segments))
        assert found.tolist() == [1, 4][k : k + 1]
    np.testing.assert_array_equal(views[1], gi.resize(x, (80, 80))[0])


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies(again: Any) -> None:
    x = gi.resize(gi.open_batch(FILES, device="cpu").take([5, 0, 5]), (12, 10))
    np.testing.assert_array_equal(again(x).array(), x.array())
    assert len(again(x)._source.views_of[0]) == len(FILES)


@pytest.mark.parametrize(
    ("indices", "error", "words"),
    [
        ([0, 7], IndexError, "indices has 7, but the batch has images 0 to 6"),
        ([-1], IndexError, "indices has -1"),
        ([0.5], ValueError, "one-dimensional integers"),
        ([[0]], ValueError, r"not int64 of shape \(1, 1\)"),
        ([True, False], ValueError, r"\(7,\) booleans"),
    ],
)
def test_wrong_indices(indices: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        gi.open_batch(FILES, device="cpu").take(indices)


# -- draws -------------------------------------------------------------------------------------------------------------


def test_draws_of_views() -> None:
    """Philox with the view in the upper half of the first word of the counter."""
    rng = gi.Rng(3, epoch=5, indices=[9, 4]).views(3)
    rng.uniform()
    drawn = rng.words(1).reshape(3, 2)
    for view in range(3):
        for k, index in enumerate((9, 4)):
            assert drawn[view, k] == generator(3, 5, 1, index, block=view << 32).random_raw()


def test_first_view_is_the_sample_and_views_of_views_differ() -> None:
    rng = gi.Rng(1, indices=np.arange(50)).split("stream")
    views = rng.views(4).views(3)
    assert len(views) == len(np.unique(views.words(1))) == 600
    np.testing.assert_array_equal(rng.views(4).uniform()[:50], rng.uniform())
    np.testing.assert_array_equal(rng.views(4).split("b").uniform()[:50], rng.split("b").uniform())
    one = gi.Rng(1, indices=[7]).split("stream").views(4).words(2)
    np.testing.assert_array_equal(rng.views(4).words(2)[7::50], one)


@pytest.mark.parametrize("count", [0, -1, 1.5, 1 << 33])
def test_wrong_counts(count: Any) -> None:
    with pytest.raises(ValueError, match="count must be"):
        gi.Rng(0, indices=[0]).views(count)


def test_too_many_views_of_views() -> None:
    with pytest.raises(ValueError, match="views of 65,536 views"):
        gi.Rng(0, indices=[0]).views(1 << 16).views(1 << 17)


# -- presets and the loader --------------------------------------------------------------------------------------------


def dino(x: Any, rng: Any) -> gi.Batch:
    return gi.presets.dino_train(32, 16, 3)(x, rng)


def test_dino_views_are_drawn_with_their_own_parameters() -> None:
    """Each view of many is what its parameters say: sizes, shares of the area, and how often it is changed."""
    n, count = 400, 5
    x = dino(np.zeros((n, 60, 60, 3), np.uint8), gi.Rng(0, indices=np.arange(n)))
    assert x.sizes.tolist() == [[32, 32]] * (2 * n) + [[16, 16]] * (3 * n)
    crop = x._segments[0].history[0]
    share = np.abs(np.linalg.det(x._segments[0].grid.frames[0].matrix[:, :2, :2])) * x.sizes.prod(1) / 3600
    for view, part in enumerate(share.reshape(count, n)):
        low, high = (0.05, 0.4) if view >= 2 else (0.4, 1.0)
        assert low * 0.9 < part.min() < low * 1.5
        assert high * 0.85 < part.max() < high * 1.1
    assert len(crop.sizes) == n * count
    blurred = (x._segments[1].grid.kernel is not None) * (x._segments[1].grid.filter == layout.GAUSSIAN)
    assert [round(float(share), 1) for share in blurred.reshape(count, n).mean(1)[:2]] == [1.0, 0.1]
    assert np.all(np.abs(blurred.reshape(count, n).mean(1)[2:] - 0.5) < 0.15)


def test_simclr_views_are_those_of_the_preset() -> None:
    rng = gi.Rng(3, indices=np.arange(4))
    both = gi.presets.simclr_train(20)(gi.open_batch(PHOTOS[:4], device="cpu"), rng).array()
    single = gi.presets.simclr(20)(gi.open_batch(PHOTOS[:4] * 2, device="cpu"), rng.views(2)).array()
    np.testing.assert_array_equal(both, single)
    assert not np.array_equal(both[:4], both[4:])


def test_the_loader_gives_views() -> None:
    source = Source(12, corrupt={3})
    loader = cpu(source, dino, batch_size=4, on_error="fill", seed=2)
    indices: list[int] = []
    with pytest.warns(RuntimeWarning, match="1 sample could not be decoded"):
        batches = list(loader)
    for batch in batches:
        assert len(batch.labels) == 4
        np.testing.assert_array_equal(batch.valid, batch.indices != 3)
        rng = gi.Rng(2, indices=batch.indices)
        files = [source[i][0] for i in batch.indices]
        expected = dino(gi.open_batch(files, device="cpu", on_error="fill"), rng).arrays()
        for one, other, shape in zip(batch.images.arrays(), expected, [(8, 32), (12, 16)], strict=True):
            assert one.shape == (*shape, shape[1], 3)
            np.testing.assert_array_equal(one, other)
        indices += batch.indices[batch.valid].tolist()
    assert sorted(indices) == [0, 1, 2, *range(4, 12)]
    assert [failure.index for failure in loader.failures] == [3]


def test_the_loader_gives_views_of_one_size_as_one_array() -> None:
    batch = next(iter(cpu(Source(8), gi.presets.simclr_train(16, 3), batch_size=4)))
    assert batch.images.shape == (12, 16, 16, 3)
    assert len(batch.labels) == 4


def test_the_loader_skips_bad_samples_of_views() -> None:
    loader = cpu(Source(9, corrupt={1, 5}), gi.presets.simclr_train(8), batch_size=2, on_error="skip")
    with pytest.warns(RuntimeWarning, match="2 samples could not be decoded"):
        found = [i for batch in loader for i in batch.indices[batch.valid].tolist()]
    assert sorted(set(found)) == [0, 2, 3, 4, 6, 7, 8]


def test_the_loader_refuses_another_number() -> None:
    loader = cpu(Source(8), lambda x, rng: gi.resize(x, 8).take([0, 1, 2]), batch_size=4)
    with pytest.raises(ValueError, match="given 4 images and returned 3"):
        next(iter(loader))


# -- on a GPU ----------------------------------------------------------------------------------------------------------


def test_a_gpu_decodes_each_image_once() -> None:
    """On the stand-in, whose decoder says what it was given; bad images are those of all their views."""
    rows = [2, 0, 1, 2, 0, 2]
    with installed() as gpu:
        x = gi.open_batch([*small_files([(20, 28), (40, 30)]), CUT], device="cuda:0", on_error="fill")
        views = gi.resize(x.take(rows), (8, 8))
        gpu.use(views.array())
        assert len(gpu.order.of("decode")) == 2
    assert sorted(views.errors) == [0, 3, 5]
    assert sorted(x.errors) == [2]
