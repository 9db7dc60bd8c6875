"""Presets on real photos, and the random functions that only they use."""

import copy
import pickle
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg import presets

from ..compare import assert_same
from ..random.distributions import descriptions, has, rng, shares_of
from ..samples import PHOTOS

SIZE = 96
MANY = 1000

NAMES = ("imagenet_train", "deit3_train", "clip_train", "siglip_train", "simclr", "ssd_train", "timm_train")
RANDOM: dict[str, Callable[..., Any]] = {name: getattr(presets, name) for name in NAMES}
ALL: dict[str, Callable[..., Any]] = {**RANDOM, "imagenet_eval": presets.imagenet_eval}
every_preset = pytest.mark.parametrize("name", sorted(ALL))
every_random_preset = pytest.mark.parametrize("name", sorted(RANDOM))


@pytest.fixture(scope="module")
def photos() -> list[NDArray[Any]]:
    return list(gi.decode_batch(PHOTOS, device="cpu"))


@every_preset
def test_shape_and_dtype(name: str, photos: list[NDArray[Any]]) -> None:
    x = ALL[name](SIZE)(photos, rng(5, len(photos)))
    assert set(ALL[name]()(photos[:2], 0).sizes.ravel()) == {300 if name == "ssd_train" else 224}
    normalised = name != "simclr"
    assert isinstance(x, gi.Batch)
    assert (x.normalized, x.dtype) == (normalised, "float32" if normalised else "uint8")
    y = x.array("float32", "NCHW")
    assert y.shape == (len(photos), 3, SIZE, SIZE)
    assert np.isfinite(y).all()
    assert (-3 < y.min() < 0) and (1 <= y.max() < 3) if normalised else (y.min() >= 0 and y.max() <= 1)
    assert ALL[name](SIZE)(gi.pad(photos, 0).take([]), rng(5, 0)).array("float32", "NCHW").shape == (0, 3, SIZE, SIZE)
    assert y.reshape(len(photos), -1).std(1).min() > 0.01  # something is to be seen in every one


#: Many options of timm's recipe.
RECIPE = partial(presets.timm_train, auto_augment="rand-m9-mstd0.5-inc1", interpolation="random", re_prob=0.5,
                 re_mode="pixel", re_count=3)  # fmt: skip


@pytest.mark.parametrize("name", [*RANDOM, "recipe"])
@pytest.mark.parametrize("step", [1, 5])
def test_pickles_and_split_into_batches_change_nothing(name: str, step: int, photos: list[NDArray[Any]]) -> None:
    preprocess = (ALL | {"recipe": RECIPE})[name](SIZE)
    whole = preprocess(photos, rng(5, len(photos))).array("float32")
    for start in range(0, len(photos), step):
        part = range(start, min(start + step, len(photos)))
        again = pickle.loads(pickle.dumps(preprocess))
        alone = again([photos[i] for i in part], gi.Rng(5, indices=part)).array("float32")
        assert_same(list(alone), list(whole[part.start : part.stop]))


@every_random_preset
def test_a_seed_draws_as_its_generator(name: str, photos: list[NDArray[Any]]) -> None:
    """An int must not start every function of the preset at the same draw."""
    split = gi.Rng(9, indices=range(len(photos))).split(name)
    assert_same(*(list(ALL[name](SIZE)(photos, given).array("float32")) for given in (9, split)))


def test_eval_is_the_calls_it_stands_for(photos: list[NDArray[Any]]) -> None:
    x = gi.center_crop(gi.resize(photos, 110), (96, 96))
    expected = (x.array("float32") - np.array(gi.IMAGENET_MEAN)) / np.array(gi.IMAGENET_STD)
    np.testing.assert_allclose(presets.imagenet_eval(96, 110)(photos).array(), expected, atol=2e-5)


GRAY = np.full((MANY, 24, 30, 3), 90, np.uint8)
HALF = pytest.approx(0.5, abs=0.06)


def test_simclr_draws_with_the_papers_probabilities() -> None:
    texts = descriptions(presets.simclr(20)(GRAY, rng(5, MANY)))
    jittered, blurred = has(texts, "brightness"), has(texts, "gaussian blur 3 x 3 pixels")
    assert np.array_equal(jittered, has(texts, "hue"))
    shares = [jittered, has(texts, "grayscale"), blurred, has(texts, "flip left"), jittered & blurred]
    np.testing.assert_allclose(np.mean(shares, 1), (0.8, 0.2, 0.5, 0.5, 0.4), atol=0.06)
    assert has(descriptions(presets.simclr()(GRAY[:9], 1)), "gaussian blur 23 x 23 pixels").any()


def test_deit3_draws_one_of_three() -> None:
    texts = descriptions(presets.deit3_train(20)(GRAY, rng(5, MANY)))
    three = np.stack([has(texts, op) for op in ("grayscale", "solarize", "gaussian blur")])
    assert (three.sum(0) == 1).all()
    np.testing.assert_allclose(three.mean(1), 1 / 3, atol=0.06)
    assert has(texts, "sampled once, bicubic").all()
    assert has(texts, "brightness").all()
    assert not has(texts, "hue").any()


def test_ssd_distorts_each_color_half_of_the_time() -> None:
    texts = descriptions(presets.ssd_train(20)(GRAY, rng(5, MANY)))
    ops = ("brightness", "contrast", "saturation", "hue", "(pad|crop and pad)", "flip left")
    assert [has(texts, op).mean() for op in ops] == [HALF] * 6


@pytest.mark.parametrize(("name", "mean", "std"), [
    ("clip_train", gi.models.CLIP_MEAN, gi.models.CLIP_STD), ("siglip_train", (0.5,) * 3, (0.5,) * 3)
])  # fmt: skip
def test_open_clips_recipes(name: str, mean: Any, std: Any, photos: list[NDArray[Any]]) -> None:
    own = gi.Rng(4, indices=range(len(photos)))
    x = gi.random_resized_crop(photos, 96, (0.9, 1.0), interpolation="bicubic", exact="pillow", rng=own)
    found = ALL[name](96, exact="pillow")(photos, gi.Rng(4, indices=range(len(photos))))
    np.testing.assert_array_equal(found.array(), gi.normalize(x, mean, std).array())
    blank = np.zeros((MANY, 90, 90, 3), np.uint8)
    for given, scale in (((), (0.9, 1.0)), (((0.2, 0.3),), (0.2, 0.3))):
        shares = shares_of(ALL[name](20, *given)(blank, 0), 90**2)
        assert [shares.min(), shares.max()] == pytest.approx(scale, abs=0.015)


def test_ssd_crops_around_boxes_which_follow(photos: list[NDArray[Any]]) -> None:
    boxes = [np.array([(0.3, 0.3, 0.7, 0.7)]) * np.tile(p.shape[1::-1], 2) for p in photos]
    x = presets.ssd_train(100)(photos, rng(5, 12), boxes)
    moved, kept = gi.transform_boxes(x, boxes, centers=True)
    assert all(k.all() for k in kept)  # every crop has the centre of its only box
    for box in moved:
        assert (box >= 0).all()
        assert (box <= 100).all()
        assert (box[:, 2:] > box[:, :2]).all()
    without = presets.ssd_train(100)(photos, rng(5, 12))
    assert not np.array_equal(without.array(), x.array())


def test_zoom_out_draws_a_canvas_and_a_place() -> None:
    image = np.random.default_rng().integers(50, 200, (MANY, 6, 12, 3), np.uint8)
    x = gi.random_zoom_out(image, (1, 2, 3), (2.0, 3.0), 0.5, rng=3)
    out = np.any(x.sizes != (6, 12), 1)
    assert out.mean() == HALF
    assert (x.sizes[out] >= (12, 24)).all()
    assert (x.sizes[out] <= (18, 36)).all()
    assert x.sizes[out, 1].mean() == pytest.approx(29.5, abs=0.6)
    assert np.array_equal(x.sizes[:, 0], x.sizes[:, 1] // 2)  # the same factor for both sides
    corners = set()
    for picture, original in zip(x.compute(), image, strict=True):
        rows, columns = np.nonzero(np.any(picture != (1, 2, 3), 2))
        corners.add((rows[0], columns[0]))
        np.testing.assert_array_equal(picture[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1], original)
    assert len(corners) > 50
    for function in (gi.random_zoom_out, gi.random_photometric_distort):
        np.testing.assert_array_equal(function(image[:3], p=0.0, rng=0).array(), image[:3])


def test_color_jitter_by_its_probability() -> None:
    image = np.random.default_rng(0).integers(0, 256, (300, 4, 4, 3), np.uint8)
    never, always, some = (gi.color_jitter(image, 0.4, 0.4, 0.4, 0.1, p, rng=0).array() for p in (0.0, 1.0, 0.5))
    np.testing.assert_array_equal(never, image)
    same = np.all(some == image, (1, 2, 3))
    assert same.mean() == pytest.approx(0.5, abs=0.1)
    np.testing.assert_array_equal(some[~same], always[~same])  # the draws do not depend on the probability


@pytest.mark.parametrize("call", [
    "gpuimg.presets.imagenet_train(64, exact='torch')", "gpuimg.presets.dino_train(local_views=2)",
    "gpuimg.presets.ssd_train()", "gpuimg.presets.timm_train({'input_size': (3, 32, 32)}, re_prob=0.25)",
    "gpuimg.models.siglip(384)", "gpuimg.models.internvl()",
])  # fmt: skip
def test_functions_are_shown_as_the_call_that_returned_them(call: str) -> None:
    """In other processes, too; a wrong call names it."""
    made = eval(call, {"gpuimg": gi})
    assert [repr(one) for one in (made, pickle.loads(pickle.dumps(made)), copy.deepcopy(made))] == [call] * 3
    with pytest.raises(TypeError, match=rf"^{re.escape(call)} is a function of images and rng: missing .* 'images'"):
        made()
    with pytest.raises(TypeError, match=r"^images must be a Batch"):  # of the function itself
        made(3, 0)
