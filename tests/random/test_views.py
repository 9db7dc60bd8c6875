"""Many views of one image: decoded once, the pixels of images that are opened once for each."""

from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile

import gpuimg as gi
from tests.data_sets import Source, cpu
from tests.decoding.jpegs import encoded
from tests.fakecuda import installed
from tests.fakecuda.work import files as small_files
from tests.video.test_video import damaged
from tests.video.videos import made

from ..compare import assert_same
from ..libraries import library, needs
from ..samples import PHOTOS, file_of, with_orientation
from .distributions import descriptions, has, shares_of

PHOTO = Image.open(PHOTOS[0]).convert("RGB")


def turned(orientation: int) -> bytes:
    return encoded(PHOTO.resize((150, 100)), exif=with_orientation(orientation).tobytes())


FILES = [
    PHOTOS[1].read_bytes(), encoded(PHOTO.resize((90, 130)), progressive=True), turned(6), turned(4),
    file_of(PHOTO.resize((70, 90)), "PNG"),
    encoded(PHOTO.resize((161, 97)), "4:4:4"), encoded(PHOTO.convert("L").resize((80, 60))),
]  # fmt: skip
CUT = FILES[0][: len(FILES[0]) // 2]
CHAINS: dict[str, Any] = {
    "one pass": lambda x, rng: gi.random_horizontal_flip(gi.random_resized_crop(x, 24, (0.02, 0.3), rng=rng), rng=rng),
    "statistics": lambda x, rng: gi.random_equalize(gi.random_resized_crop(x, 24, rng=rng), rng=rng),
    "two segments": lambda x, rng: gi.random_rotation(
        gi.random_gaussian_blur(gi.random_resized_crop(x, (40, 50), rng=rng), 5, p=0.5, rng=rng), 60, rng=rng
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


def test_arrays_are_taken_in_place() -> None:
    pixels = np.random.default_rng().integers(0, 256, (5, 6, 7, 3), np.uint8)
    x = gi.resize(pixels, (6, 7)).compute()
    part = x.take([1, 2, 3]).array()
    assert np.shares_memory(part, x.array())
    for rows in ([1, 2, 3], [3, 1, 1], [True, False, True, False, False]):
        np.testing.assert_array_equal(x.take(rows).array(), pixels[rows])


def test_each_file_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    plain = ImageFile.ImageFile.__init__
    monkeypatch.setattr(ImageFile.ImageFile, "__init__", lambda *given: opened.append(given) or plain(*given))
    files = [file_of(PHOTO.resize(size), form) for size, form in (((90, 130), "WEBP"), ((70, 90), "GIF"))]
    counts = []
    for rows in ([0, 1], [1, 0, 1, 1, 1]):
        opened.clear()
        gi.random_resized_crop(gi.open_batch(files, device="cpu").take(rows), 16, rng=0).array()
        counts.append(len(opened))
    assert counts[0] == counts[1] >= 2


def test_failures_are_of_all_views() -> None:
    files = [FILES[0], CUT, b"no image"]
    x = gi.open_batch(files, device="cpu", on_error="fill")
    views = gi.resize(x.take([1, 0, 1, 2, 0]), (9, 9))
    pixels = views.array()
    assert [(k, failure.index) for k, failure in sorted(views.errors.items())] == [(0, 0), (2, 2), (3, 3)]
    assert sorted(x.errors) == [1, 2]  # once each, by their places in the batch that was opened
    assert not pixels[[0, 2, 3]].any()
    np.testing.assert_array_equal(pixels[[1, 4]], gi.resize(gi.open_batch(files[:1]), (9, 9)).array()[[0, 0]])
    x = gi.resize(gi.open_batch(files[:2], device="cpu").take([0, 1, 1, 1]), 16)
    with pytest.raises(gi.DecodeError, match="1 of 2 images could not be decoded") as caught:
        x.array()
    assert [failure.index for failure in caught.value.failures] == [1]


def test_draft_is_that_of_the_most_demanding_view() -> None:
    x = gi.open_batch([encoded(PHOTO.resize((320, 240)))], device="cpu", draft=1.0)
    views, whole = gi.resize(x.take([0, 0]), ([20, 80], [20, 80])), gi.resize(x, (80, 80))
    np.testing.assert_array_equal(views[1], whole[0])
    assert not np.array_equal(views[0], gi.resize(x, (20, 20))[0])  # alone it is decoded at an eighth


def assert_ranges(shares: Any, limits: list[tuple[float, float]]) -> None:
    for part, (low, high) in zip(abs(shares), limits, strict=True):
        assert low * 0.85 < part.min() < low * 1.5
        assert high * 0.85 < part.max() < high * 1.1


def test_dino_views_are_drawn_with_their_own_parameters() -> None:
    """Each view of many is what its parameters say: sizes, shares of the area, and how often it is changed."""
    n = 400
    x = gi.presets.dino_train(32, 16, 3)(np.zeros((n, 60, 60, 3), np.uint8), gi.Rng(0, indices=np.arange(n)))
    assert x.sizes.tolist() == [[32, 32]] * (2 * n) + [[16, 16]] * (3 * n)
    assert_ranges(shares_of(x, 3600).reshape(5, -1), [(0.4, 1.0)] * 2 + [(0.05, 0.4)] * 3)
    np.testing.assert_allclose(
        has(descriptions(x), "gaussian blur").reshape(5, -1).mean(1), (1.0, 0.1, 0.5, 0.5, 0.5), atol=0.1
    )
    train = gi.presets.dino_train(24, 24, 4, global_crops_scale=(0.9, 1.0), local_crops_scale=(0.1, 0.15))
    x = train(np.zeros((50, 200, 300, 3), np.uint8), gi.Rng(0, indices=range(50)))
    assert_ranges(shares_of(x, 60_000).reshape(6, -1), [(0.9, 1.0)] * 2 + [(0.1, 0.15)] * 4)


@pytest.mark.parametrize("distorted", [False, True])
def test_dinov3_gram_teacher_sees_global_crops(distorted: bool) -> None:
    """Without distortions unless requested; shares of the area and chances are those of the configuration."""
    n = 300
    train = gi.presets.dinov3_train(32, 16, 2, gram_size=48, gram_distortions=distorted, flip=0.5)
    x = train(np.full((n, 60, 60, 3), 90, np.uint8), gi.Rng(0, indices=np.arange(n)))
    assert x.sizes.tolist() == [[32, 32]] * (2 * n) + [[48, 48]] * (2 * n) + [[16, 16]] * (2 * n)
    shares, texts = shares_of(x, 3600).reshape(6, -1), descriptions(x)
    np.testing.assert_allclose(shares[:2], shares[2:4])
    assert not np.array_equal(*abs(shares[:2]))
    assert_ranges(shares, [(0.32, 1.0)] * 4 + [(0.05, 0.32)] * 2)
    assert (shares < 0).mean() == pytest.approx(0.5, abs=0.05)
    for op, chances in (("grayscale", (0.2, 0.2)), ("gaussian blur", (1.0, 0.1)), ("solarize", (0.0, 0.2))):
        found = has(texts, op).reshape(6, -1)
        np.testing.assert_allclose(found[:2].mean(1), chances, atol=0.08)
        np.testing.assert_array_equal(found[2:4], found[:2] & distorted)


def test_simclr_views_are_those_of_the_preset() -> None:
    rng = gi.Rng(3, indices=np.arange(4))
    both = gi.presets.simclr_train(20)(gi.open_batch(PHOTOS[:4], device="cpu"), rng).array()
    single = gi.presets.simclr(20)(gi.open_batch(PHOTOS[:4] * 2, device="cpu"), rng.views(2)).array()
    np.testing.assert_array_equal(both, single)
    assert not np.array_equal(both[:4], both[4:])


@pytest.mark.parametrize("policy", ["skip", "fill"])
def test_bad_samples_of_views_are_left_out_or_marked(policy: str) -> None:
    loader = cpu(Source(9, corrupt={1, 5}), gi.presets.simclr_train(8), batch_size=2, on_error=policy)
    with pytest.warns(RuntimeWarning, match="2 samples could not be decoded"):
        found = [i for batch in loader for i in batch.indices[batch.valid].tolist()]
    assert sorted(set(found)) == [0, 2, 3, 4, 6, 7, 8]
    loader = cpu(Source(8), lambda x, rng: gi.resize(x, 8).take([0, 1, 2]), batch_size=4)
    with pytest.raises(ValueError, match="given 4 images and returned 3"):
        next(iter(loader))


def corners(image: Any, height: int, width: int) -> list[Any]:
    """Top left, top right, bottom left, bottom right, middle: rounded half to even, as torchvision's center_crop."""
    rows, columns = image.shape[0] - height, image.shape[1] - width
    starts = [(0, 0), (0, columns), (rows, 0), (rows, columns), (round(rows / 2), round(columns / 2))]
    return [image[top : top + height, left : left + width] for top, left in starts]


def by_view(crops: list[list[Any]]) -> list[Any]:
    """The first crops of all images, then the second ones, and so on, as torchvision's tuple has them."""
    return [part for view in zip(*crops, strict=True) for part in view]


def test_five_and_ten_crops_of_files() -> None:
    files = [FILES[0], FILES[2], FILES[4]]
    whole = list(gi.decode_batch(files, device="cpu"))
    expected = by_view([corners(image, 31, 24) for image in whole])
    assert_same(list(gi.five_crop(gi.open_batch(files, device="cpu"), (31, 24))), expected)
    for vertical in (False, True):
        both = [(image, np.flip(image, 0 if vertical else 1)) for image in whole]
        expected = by_view([[part for image in pair for part in corners(image, 20, 20)] for pair in both])
        assert_same(list(gi.ten_crop(gi.open_batch(files, device="cpu"), 20, vertical)), expected)
    size = np.array([(31, 5), (6, 24), (9, 9)])
    expected = by_view([corners(image, h, w) for image, (h, w) in zip(whole, size, strict=True)])
    assert_same(list(gi.five_crop(whole, size)), expected)
    clips = gi.resize(clips_of([0, 3]), (20, 30))
    frames = [[corners(frame, 8, 9) for frame in clip] for clip in clips.array(layout="NTHWC")]
    expected = by_view([[np.stack([frame[k] for frame in clip]) for k in range(5)] for clip in frames])
    np.testing.assert_array_equal(gi.five_crop(clips, (8, 9)).array(layout="NTHWC"), expected)
    with pytest.raises(ValueError, match=r"image 1: its size \(7, 4\) is smaller than \(5, 5\)"):
        gi.ten_crop([np.zeros((5, 5, 3), np.uint8), np.zeros((7, 4, 3), np.uint8)], 5)


@pytest.mark.parametrize(("frames", "count"), [(1, 1), (1, 3), (5, 2), (5, 3), (5, 5), (4, 7), (16, 8)])
def test_frames_are_spread_evenly(frames: int, count: int) -> None:
    clips = np.arange(3 * frames, dtype=np.uint8).reshape(-1, 1, 1, 1)
    found = gi.uniform_temporal_subsample(clips, count, frames=frames).array().reshape(3, count)
    expected = np.floor(np.linspace(0, frames - 1, count) + 1e-9).astype(int)
    np.testing.assert_array_equal(found, expected + frames * np.arange(3)[:, None])


CLIPS = [made("h264"), made("hevc"), b"no video", made("av1")]


def clips_of(rows: Any, **options: Any) -> gi.Batch:
    """A clip of three frames of some of the videos; each begins where its video's number says."""
    start = 10 * np.asarray(rows, np.int64) + 5
    options = {"on_error": "fill", "device": "cpu", **options}
    return gi.open_clips([CLIPS[i] for i in rows], 3, 2, start=start, **options)


CLIP_CHAINS: dict[str, Any] = {name: CHAINS[name] for name in ("one pass", "two segments", "nothing")} | {
    "some frames": lambda x, rng: gi.horizontal_flip(x, where=np.arange(len(x)) % 2 == 0)
}


@pytest.mark.parametrize("color", ["rgb", "gray"])
@pytest.mark.parametrize("chain", CLIP_CHAINS.values(), ids=CLIP_CHAINS)
def test_views_of_clips_are_clips_opened_for_each(chain: Any, color: str) -> None:
    rows = np.random.default_rng().integers(0, len(CLIPS), 11)
    rng = gi.Rng(int(rows[0]), indices=np.arange(11))
    views = chain(clips_of(range(len(CLIPS)), color=color).take(rows), rng.split("a"))
    each = chain(clips_of(rows, color=color), rng.split("a"))
    assert (views.frames, views.sizes.tolist()) == (3, each.sizes.tolist())
    for k, (one, other) in enumerate(zip(views, each, strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=f"frame {k % 3} of view {k // 3} of video {rows[k // 3]}")
    assert views.status == each.status
    assert sorted(views.errors) == np.flatnonzero(rows == 2).tolist()


def test_each_clip_is_decoded_once_and_fails_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    av, plain = library("av"), library("av").open
    monkeypatch.setattr(av, "open", lambda *given, **options: opened.append(given) or plain(*given, **options))
    counts = []
    for rows in ([3, 2, 0], [3, 2, 0, 3, 2, 3]):
        x = clips_of(range(len(CLIPS)))
        opened.clear()
        views = gi.random_resized_crop(x.take(rows), 16, rng=0)
        views.array()
        x.take(rows).compute()  # whole frames
        counts.append(len(opened))
    assert counts[0] == counts[1] >= 4
    assert [(k, one.index, one.noun) for k, one in sorted(views.errors.items())] == [(1, 1, "clip"), (4, 4, "clip")]
    assert sorted(x.errors) == [2]


def test_damaged_clip_fails_in_all_views() -> None:
    data, bad = damaged()
    options: dict[str, Any] = {"start": [bad - 4, bad - 2], "device": "cpu"}
    x = gi.open_clips([data, data], 4, **options, on_error="fill")
    views = gi.resize(x.take([1, 0, 1, 1]), (9, 9))
    pixels = views.array(layout="NTHWC")
    assert (sorted(views.errors), sorted(x.errors)) == ([0, 2, 3], [1])
    assert [bool(clip.any()) for clip in pixels] == [False, True, False, False]
    with pytest.raises(gi.DecodeError, match=r"^1 of 2 clips could not be decoded:\n  clip 1 "):
        gi.open_clips([data, data], 4, **options).take([1, 0, 1]).compute()


@pytest.mark.parametrize("kept", [(1, [0]), (2, [0, 2]), (5, [0, 0, 1, 1, 2])])
def test_frames_of_clips_and_of_their_views(kept: tuple[int, list[int]]) -> None:
    """Other frames are not decoded; failures are those of the clips."""
    count, numbers = kept
    for rows in ([0, 1, 2], [1, 1, 2, 0]):
        x = clips_of(range(len(CLIPS))).take(rows)
        whole = gi.resize(x, (np.arange(len(x)) // 3 + 9, 11)).take(np.arange(len(rows)))
        for batch in (whole, whole.compute()):
            few = gi.uniform_temporal_subsample(batch, count)
            assert few.frames == count
            expected = [whole[3 * k + frame] for k in range(len(rows)) for frame in numbers]
            assert_same([image[:, ::-1] for image in gi.horizontal_flip(few)], expected)
        assert sorted(few.errors) == sorted(whole.errors) == [rows.index(2)]
    with pytest.raises(ValueError, match=r"frames is 4, but the batch has 4 clips of 3 frames"):
        gi.uniform_temporal_subsample(x, 2, frames=4)


def test_a_gpu_decodes_each_image_once() -> None:
    """On the fake GPU, whose decoder says what it was given; bad images are those of all their views."""
    needs("numba_cuda")
    rows = [2, 0, 1, 2, 0, 2]
    with installed() as gpu:
        x = gi.open_batch([*small_files([(20, 28), (40, 30)]), CUT], device="cuda:0", on_error="fill")
        views = gi.resize(x.take(rows), (8, 8))
        gpu.use(views.array())
        assert len(gpu.order.of("decode")) == 2
    assert sorted(views.errors) == [0, 3, 5]
    assert sorted(x.errors) == [2]
