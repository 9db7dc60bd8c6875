"""Presets on real photos, and the random functions that only they use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg import presets
from gpuimg._batch.batch import recording_of
from gpuimg._batch.pictures import displayed
from gpuimg._cli import preview
from gpuimg.kernels import layout, ops

from ..compare import assert_same

PATHS = sorted((Path(__file__).parents[2] / "examples" / "photos").glob("*.jpg"))
SIZE = 96
MANY = 4000

RANDOM: dict[str, Callable[..., Any]] = {
    "imagenet_train": presets.imagenet_train,
    "deit3_train": presets.deit3_train,
    "clip_train": presets.clip_train,
    "siglip_train": presets.siglip_train,
    "simclr": presets.simclr,
    "ssd_train": presets.ssd_train,
    "timm_train": presets.timm_train,
}
ALL: dict[str, Callable[..., Any]] = {**RANDOM, "imagenet_eval": presets.imagenet_eval}
VIEWS = {"simclr_train", "dino_train", "dinov3_train"}  # tests/random/test_views.py
every_preset = pytest.mark.parametrize("name", sorted(ALL))
every_random_preset = pytest.mark.parametrize("name", sorted(RANDOM))


@pytest.fixture(scope="module")
def photos() -> list[NDArray[Any]]:
    return list(gi.decode_batch(PATHS, device="cpu"))


def rng(indices: Any, seed: int = 5, epoch: int = 2) -> gi.Rng:
    return gi.Rng(seed, epoch=epoch, indices=indices)


def share(mask: Any) -> float:
    return float(np.mean(mask))


def test_every_preset_is_here() -> None:
    assert set(preview.PRESETS) == set(ALL) | VIEWS


@every_preset
def test_shape_and_dtype(name: str, photos: list[NDArray[Any]]) -> None:
    x = ALL[name](SIZE)(photos, rng(range(len(photos))))
    normalised = name != "simclr"
    assert isinstance(x, gi.Batch)
    assert (x.normalized, x.dtype) == (normalised, "float32" if normalised else "uint8")
    y = x.array("float32", "NCHW")
    assert y.shape == (len(photos), 3, SIZE, SIZE)
    assert np.isfinite(y).all()
    assert (-3 < y.min() < 0) and (1 <= y.max() < 3) if normalised else (y.min() >= 0 and y.max() <= 1)
    assert y.reshape(len(photos), -1).std(1).min() > 0.01  # something is to be seen in every one


@every_preset
def test_default_sizes_are_the_published_ones(name: str, photos: list[NDArray[Any]]) -> None:
    side = 300 if name == "ssd_train" else 224
    assert ALL[name]()(photos[:2], 0).sizes.tolist() == [[side, side]] * 2


@every_preset
def test_files_are_taken_as_arrays_are(name: str, photos: list[NDArray[Any]]) -> None:
    """Of files only the crop may be decoded."""
    files = ALL[name](SIZE)(gi.open_batch(PATHS, device="cpu"), rng(range(len(PATHS)))).array("float32")
    arrays = ALL[name](SIZE)(photos, rng(range(len(PATHS)))).array("float32")
    assert np.mean(np.abs(files - arrays) > 0.1) < 0.01


@every_random_preset
def test_repeatable_and_different_from_epoch_to_epoch(name: str, photos: list[NDArray[Any]]) -> None:
    preprocess = ALL[name](SIZE)
    # Squares: of wide photos a crop of nearly all pixels is always the center.
    photos = [photo[: min(photo.shape[:2]), : min(photo.shape[:2])] for photo in photos]
    first = preprocess(photos, rng(range(len(photos)))).array("float32")
    assert_same(list(preprocess(photos, rng(range(len(photos)))).array("float32")), list(first))
    other = preprocess(photos, rng(range(len(photos)), epoch=3)).array("float32")
    assert share(np.any(other != first, (1, 2, 3))) > 0.9
    other = preprocess(photos, rng(range(len(photos)), seed=6)).array("float32")
    assert share(np.any(other != first, (1, 2, 3))) > 0.9


@every_random_preset
@pytest.mark.parametrize("step", [1, 5])
def test_another_split_into_batches_gives_the_same_bytes(name: str, step: int, photos: list[NDArray[Any]]) -> None:
    preprocess = ALL[name](SIZE)
    whole = preprocess(photos, rng(range(len(photos)))).array("float32")
    for start in range(0, len(photos), step):
        part = range(start, min(start + step, len(photos)))
        alone = preprocess([photos[i] for i in part], rng(part)).array("float32")
        assert_same(list(alone), list(whole[part.start : part.stop]))


@every_random_preset
def test_a_seed_draws_as_its_generator(name: str, photos: list[NDArray[Any]]) -> None:
    """An int must not start every function of the preset at the same draw."""
    drawn = ALL[name](SIZE)(photos, 9).array("float32")
    assert_same(
        list(drawn), list(ALL[name](SIZE)(photos, gi.Rng(9, indices=range(len(photos))).split(name)).array("float32"))
    )


@every_preset
def test_no_images(name: str) -> None:
    assert ALL[name](8)(np.zeros((0, 9, 9, 3), np.uint8), rng(np.zeros(0, int))).array("float32").size == 0


@every_random_preset
def test_a_generator_for_other_images_is_refused(name: str, photos: list[NDArray[Any]]) -> None:
    with pytest.raises(ValueError, match="rng is for 3 samples, but the batch has 12 images"):
        ALL[name](8)(photos, rng(range(3)))
    with pytest.raises(TypeError, match=r"rng must be a gpuimg\.Rng or an int seed, not None"):
        ALL[name](8)(photos, None)


def test_eval_is_the_calls_it_stands_for(photos: list[NDArray[Any]]) -> None:
    x = gi.center_crop(gi.resize(photos, 110), (96, 96))
    expected = (x.array("float32") - np.array(gi.IMAGENET_MEAN)) / np.array(gi.IMAGENET_STD)
    np.testing.assert_allclose(presets.imagenet_eval(96, 110)(photos).array(), expected, atol=2e-5)


# -- what they draw ----------------------------------------------------------------------------------------------------


def chosen(x: gi.Batch, *codes: int) -> NDArray[np.bool_]:
    """(N,): images to which one of these ops is applied, in any segment."""
    found = [np.isin(entry.codes, codes) for plan in recording_of(x).segments for entry in plan.entries]
    applied: NDArray[np.bool_] = np.any(found, axis=0)
    return applied


def blurred(x: gi.Batch) -> NDArray[np.bool_]:
    filters = [plan.grid.filter for plan in recording_of(x).segments]
    found: NDArray[np.bool_] = np.any([one == layout.GAUSSIAN for one in filters], axis=0)
    return found


def flipped(x: gi.Batch) -> NDArray[np.bool_]:
    mirrored: NDArray[np.bool_] = np.linalg.det(recording_of(x).segments[0].grid.frames[0].matrix[:, :2, :2]) < 0
    return mirrored


@pytest.fixture(scope="module")
def gray() -> NDArray[np.uint8]:
    return np.full((MANY, 24, 30, 3), 90, np.uint8)


def test_simclr_draws_with_the_papers_probabilities(gray: NDArray[np.uint8]) -> None:
    x = presets.simclr(20)(gray, rng(range(MANY)))
    jittered = chosen(x, ops.BRIGHTNESS.code)
    assert np.array_equal(jittered, chosen(x, ops.HUE.code))
    assert share(jittered) == pytest.approx(0.8, abs=0.03)
    assert share(chosen(x, ops.GRAYSCALE.code)) == pytest.approx(0.2, abs=0.03)
    assert share(blurred(x)) == pytest.approx(0.5, abs=0.03)
    assert share(flipped(x)) == pytest.approx(0.5, abs=0.03)
    assert share(jittered & blurred(x)) == pytest.approx(0.4, abs=0.03)  # independent of each other
    kernel = recording_of(presets.simclr()(gray[:2], 0)).segments[-1].grid.kernel
    assert kernel is not None
    assert kernel.tolist() == [[23, 23]] * 2


def test_deit3_draws_one_of_three(gray: NDArray[np.uint8]) -> None:
    x = presets.deit3_train(20)(gray, rng(range(MANY)))
    three = np.stack([chosen(x, ops.GRAYSCALE.code), chosen(x, ops.SOLARIZE.code), blurred(x)])
    assert (three.sum(0) == 1).all()
    np.testing.assert_allclose(three.mean(1), 1 / 3, atol=0.03)
    assert set(np.unique(recording_of(x).segments[0].grid.filter)) <= {layout.CUBIC_RENORMALIZED}
    assert chosen(x, ops.BRIGHTNESS.code).all()
    assert not chosen(x, ops.HUE.code).any()


@pytest.mark.parametrize(("name", "mean", "std"), [
    ("clip_train", gi.models.CLIP_MEAN, gi.models.CLIP_STD), ("siglip_train", (0.5,) * 3, (0.5,) * 3)
])  # fmt: skip
def test_open_clips_recipes_are_the_calls_they_stand_for(
    name: str, mean: Any, std: Any, photos: list[NDArray[Any]]
) -> None:
    x = gi.random_resized_crop(
        photos, 96, (0.9, 1.0), interpolation="bicubic", exact="pillow", rng=gi.Rng(4, indices=range(len(photos)))
    )
    found = ALL[name](96, exact="pillow")(photos, gi.Rng(4, indices=range(len(photos))))
    np.testing.assert_array_equal(found.array(), gi.normalize(x, mean, std).array())
    blank = np.zeros((MANY, 90, 90, 3), np.uint8)
    for scale in ((0.9, 1.0), (0.2, 0.3)):
        matrix = recording_of(ALL[name](20, scale)(blank, 0)).plan.grid.frames[0].matrix
        shares = np.linalg.det(matrix[:, :2, :2]) * 20**2 / 90**2
        assert [shares.min(), shares.max()] == pytest.approx(scale, abs=0.015)
    matrix = recording_of(ALL[name](20)(blank, 0)).plan.grid.frames[0].matrix
    assert np.linalg.det(matrix[:, :2, :2]).min() * 20**2 / 90**2 == pytest.approx(0.9, abs=0.015)


def test_ssd_distorts_each_color_half_of_the_time(gray: NDArray[np.uint8]) -> None:
    x = presets.ssd_train(20)(gray, rng(range(MANY)))
    for code in (ops.BRIGHTNESS.code, ops.CONTRAST.code, ops.SATURATION.code, ops.HUE.code, ops.PAINT.code):
        assert share(chosen(x, code)) == pytest.approx(0.5, abs=0.03)
    assert share(flipped(x)) == pytest.approx(0.5, abs=0.03)


def test_ssd_crops_around_boxes_which_follow(photos: list[NDArray[Any]]) -> None:
    boxes = [np.array([(0.3, 0.3, 0.7, 0.7)]) * np.tile(p.shape[1::-1], 2) for p in photos]
    x = presets.ssd_train(100)(photos, rng(range(12)), boxes)
    moved, kept = gi.transform_boxes(x, boxes, centers=True)
    assert all(k.all() for k in kept)  # every crop has the centre of its only box
    for box in moved:
        assert (box >= 0).all()
        assert (box <= 100).all()
        assert (box[:, 2:] > box[:, :2]).all()
    without = presets.ssd_train(100)(photos, rng(range(12)))
    assert not np.array_equal(without.array(), x.array())


# -- random functions --------------------------------------------------------------------------------------------------


def test_zoom_out_sides_and_places() -> None:
    sizes = gi.random_zoom_out(np.zeros((MANY, 10, 20, 3), np.uint8), 7, (2.0, 3.0), 0.5, rng=1).sizes
    out = np.any(sizes != (10, 20), 1)
    assert share(out) == pytest.approx(0.5, abs=0.03)
    assert (sizes[out] >= (20, 40)).all()
    assert (sizes[out] <= (30, 60)).all()
    assert sizes[out, 1].mean() == pytest.approx(49.5, abs=0.6)
    assert np.array_equal(sizes[:, 0], sizes[:, 1] // 2)  # the same factor for both sides


def test_zoom_out_keeps_the_image_and_fills_the_rest() -> None:
    image = np.random.default_rng(0).integers(50, 200, (40, 6, 9, 3), np.uint8)
    x = gi.random_zoom_out(image, (1, 2, 3), (1.0, 4.0), 1.0, rng=3)
    corners = set()
    for picture, original in zip(x.compute(), image, strict=True):
        inside = np.any(picture != (1, 2, 3), 2)
        rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
        corners.add((int(rows[0]), int(columns[0])))
        np.testing.assert_array_equal(picture[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1], original)
    assert len(corners) > 20


def test_zoom_out_never_and_at_its_limits() -> None:
    image = np.zeros((3, 6, 9, 3), np.uint8)
    assert gi.random_zoom_out(image, p=0.0, rng=0).changes_nothing
    assert gi.random_zoom_out(image, side_range=(1.0, 1.0), p=1.0, rng=0).sizes.tolist() == [[6, 9]] * 3
    with pytest.raises(ValueError, match=r"side_range must be \(low, high\) with 1 <= low <= high, not"):
        gi.random_zoom_out(image, side_range=(0.5, 2.0), rng=0)
    with pytest.raises(ValueError, match=r"p must be a number from 0 to 1, not 1\.5"):
        gi.random_zoom_out(image, p=1.5, rng=0)


def test_photometric_distort_is_the_calls_it_stands_for() -> None:
    image = np.random.default_rng(0).random((64, 5, 6, 3), np.float32)
    x = gi.random_photometric_distort(image, rng=gi.Rng(4, indices=range(64)))
    r = gi.Rng(4, indices=range(64))
    chance = [r.bernoulli(0.5) for _ in range(4)]
    ranges = [(0.875, 1.125), (0.5, 1.5), (0.5, 1.5), (-0.05, 0.05)]
    brightness, contrast, saturation, hue = (r.uniform(*each) for each in ranges)
    before, mixed, order = r.bernoulli(0.5), r.bernoulli(0.5), r.permutation(3)
    for i, result in enumerate(x.array()):
        y = image[i : i + 1]
        if chance[0][i]:
            y = gi.adjust_brightness(y, brightness[i]).array()
        if chance[1][i] and before[i]:
            y = gi.adjust_contrast(y, contrast[i]).array()
        if chance[2][i]:
            y = gi.adjust_saturation(y, saturation[i]).array()
        if chance[3][i]:
            y = gi.adjust_hue(y, hue[i]).array()
        if chance[1][i] and not before[i]:
            y = gi.adjust_contrast(y, contrast[i]).array()
        y = y[..., order[i]] if mixed[i] else y
        np.testing.assert_allclose(result, y[0], atol=1e-5)


def test_photometric_distort_never_and_refused() -> None:
    image = np.random.default_rng(0).integers(0, 256, (3, 5, 6, 3), np.uint8)
    np.testing.assert_array_equal(gi.random_photometric_distort(image, p=0.0, rng=0).array(), image)
    wrong: dict[str, Any] = {"brightness": (-1, 1), "contrast": (2, 1), "hue": (-0.6, 0.0), "saturation": 0.5}
    for name, limits in wrong.items():
        with pytest.raises(ValueError, match=rf"{name} must be \(low, high\)"):
            gi.random_photometric_distort(image, **{name: limits}, rng=0)


def test_color_jitter_leaves_images_out_with_its_probability() -> None:
    image = np.random.default_rng(0).integers(0, 256, (300, 4, 4, 3), np.uint8)
    never = gi.color_jitter(image, 0.4, 0.4, 0.4, 0.1, 0.0, rng=0).array()
    np.testing.assert_array_equal(never, image)
    always = gi.color_jitter(image, 0.4, 0.4, 0.4, 0.1, rng=0).array()
    some = gi.color_jitter(image, 0.4, 0.4, 0.4, 0.1, 0.5, rng=0).array()
    same = np.all(some == image, (1, 2, 3))
    assert share(same) == pytest.approx(0.5, abs=0.1)
    np.testing.assert_array_equal(some[~same], always[~same])  # the draws do not depend on the probability


# -- preview's parts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_what_is_displayed_is_not_normalised(dtype: str) -> None:
    image = np.random.default_rng(0).integers(0, 256, (2, 168, 168, 3), np.uint8)
    x = gi.normalize(image if dtype == "uint8" else image / np.float32(255), gi.IMAGENET_MEAN, gi.IMAGENET_STD)
    np.testing.assert_array_equal(displayed(x, 168), image)
    # Where it is not known how it was normalised, the picture is stretched to all levels.
    stretched = displayed(gi.resize(x.array(), (168, 168)), 168)
    assert [(p.min(), p.max()) for p in stretched] == [(0, 255)] * 2
    assert all(
        np.corrcoef(p[..., 1].ravel(), q[..., 1].ravel())[0, 1] > 0.99 for p, q in zip(stretched, image, strict=True)
    )


def test_displayed_pictures_fit_a_cell_and_have_three_channels() -> None:
    for height, width, expected in ((300, 100, (168, 56)), (1, 1, (168, 168)), (10, 20, (84, 168)), (1, 999, (1, 168))):
        (picture,) = displayed(gi.invert(np.zeros((1, height, width, 1), np.uint8)), 168)
        assert picture.shape == (*expected, 3)
        assert (picture == 255).all()
