"""timm's transforms for training and evaluation, against timm where it is installed."""

from __future__ import annotations

import math
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from gpuimg import presets
from gpuimg._batch.batch import recording_of
from gpuimg.kernels import layout, ops

from ..compare import assert_same
from ..random.distributions import SMALLEST, assert_share, chi_square, kolmogorov_smirnov, rng, same_distribution
from . import installed_timm

PHOTOS = sorted((Path(__file__).parents[2] / "examples" / "photos").glob("*.jpg"))
MANY = 6000
BICUBIC = Image.Resampling.BICUBIC


def theirs(images: list[NDArray[Any]], **options: Any) -> list[NDArray[Any]]:
    transform = installed_timm.module("timm.data").create_transform(**options)
    return [transform(Image.fromarray(image)).numpy() for image in images]


def cuts() -> list[NDArray[np.uint8]]:
    """A photo and cuts of awkward sizes."""
    with Image.open(PHOTOS[0]) as opened:
        whole = np.asarray(opened.convert("RGB").resize((401, 300), BICUBIC))
    return [whole, whole[:120, :90], whole[50:181], whole[:, 100:144], whole[:64, :64], whole[:33, :300]]


@pytest.mark.parametrize(
    "config",
    [
        {"input_size": (3, 96, 96), "interpolation": "bicubic", "crop_pct": 0.9},
        {"input_size": (3, 64, 64), "crop_pct": 1.0, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)},
        {"input_size": (3, 64, 96), "interpolation": "bicubic"},
        {"input_size": (3, 97, 64), "crop_pct": 0.7},
        {"input_size": (3, 65, 65), "crop_mode": "squash", "interpolation": "lanczos"},
        {"input_size": (3, 80, 60), "crop_mode": "squash", "crop_pct": 0.95},
        {"input_size": (3, 65, 65), "crop_mode": "border", "crop_pct": 0.9, "interpolation": "bicubic"},
        {"input_size": (3, 80, 61), "crop_mode": "border", "crop_pct": 1.0},
        *({"input_size": (3, 64, 64), "interpolation": "nearest", "crop_mode": m} for m in ("center", "border")),
    ],
)
def test_evaluation_is_timms(config: dict[str, Any]) -> None:
    found = gi.models.timm_eval(config)(cuts()).array(layout="NCHW")
    assert np.count_nonzero(found != np.stack(theirs(cuts(), **config))) == 0


SQUARE = {"input_size": (3, 64, 64), "interpolation": "bicubic"}
CERTAIN = {"scale": (1.0, 1.0), "ratio": (1.0, 1.0), "hflip": 0.0, "color_jitter": None}


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, 0),
        ({"hflip": 1.0, "vflip": 1.0}, 0),
        ({"grayscale_prob": 1.0}, 1),
        ({"re_prob": 0.0, "color_jitter": 0.0}, 0),
        ({"auto_augment": "rand-m0-p1-tweights-n0"}, 0),
        ({"train_crop_mode": "rkrc"}, 1e-4),
    ],
)
def test_training_is_timms_where_nothing_is_random(options: dict[str, Any], most: int) -> None:
    """Within levels of 255."""
    images = [image[:side, :side] for image, side in zip(cuts(), (300, 90, 131, 44, 64, 33), strict=True)]
    given = CERTAIN | options
    found = presets.timm_train(SQUARE, **given, exact="pillow")(images, 0).array(layout="NCHW")
    expected = np.stack(theirs(images, **SQUARE, is_training=True, **given))
    levels = np.abs(found - expected) * np.array(gi.IMAGENET_STD)[:, None, None] * 255
    assert levels.max() <= most * 1.001


@pytest.mark.parametrize("given", [{}, {"scale": (0.5, 0.6), "ratio": (0.5, 2.0)}])
@pytest.mark.parametrize("shape", [(97, 64), (40, 200)])
def test_sides_that_nearly_keep_the_ratio(shape: tuple[int, int], given: dict[str, Any]) -> None:
    """The sizes of resizes as timm draws them."""
    draw = installed_timm.module("timm.data.transforms").ResizeKeepRatio.get_params
    random.seed(3)
    scale, ratio = given.get("scale", (0.8, 1.0)), given.get("ratio", (0.9, 1 / 0.9))
    image = Image.new("RGB", shape[::-1])
    expected = np.array([draw(image, (500, 400), 0.0, 0.5, scale, True, 0.5, ratio) for _ in range(MANY)])
    train = presets.timm_train({"input_size": (3, 500, 400)}, train_crop_mode="rkrr", **given)
    x = train(np.zeros((MANY, *shape, 3), np.uint8), rng(5, MANY))
    assert x.sizes.tolist() == [[500, 400]] * MANY
    found = recording_of(x).segments[0].sizes
    for k in range(2):
        assert same_distribution(found[:, k], expected[:, k]) > SMALLEST
        assert found[:, k].max() == pytest.approx(expected[:, k].max(), rel=0.01)


@pytest.mark.parametrize("mode", ["rkrc", "rkrr"])
def test_crops_and_pads_are_timms(mode: Any) -> None:
    shape, size = (97, 64), (64, 52)
    ranges = {"scale": (0.7, 1.0), "ratio": (0.5, 2.0)}
    train = presets.timm_train({"input_size": (3, *size)}, train_crop_mode=mode, **ranges, hflip=0)
    x = train(np.zeros((MANY, *shape, 3), np.uint8), rng(6, MANY))
    spare = recording_of(x).segments[0].sizes - np.array(size)
    corner = recording_of(x).segments[1].grid.frames[0].matrix[:, [1, 0], 2]
    assert (spare < 0).any(0).all()
    assert (spare > 0).any(0).all()
    if mode == "rkrc":
        central = [[round(s / 2) if s >= 0 else -(-s // 2) for s in row] for row in spare.tolist()]
        assert corner.tolist() == central
        return
    assert np.all((np.minimum(spare, 0) <= corner) & (corner <= np.maximum(spare, 0)))
    for k in range(2):
        for each in np.unique(spare[:, k]).tolist():
            chosen = spare[:, k] == each
            if each and chosen.sum() > 40 * (abs(each) + 1):
                counts = np.bincount(np.abs(corner[chosen, k]).astype(int), minlength=abs(each) + 1)
                assert chi_square(counts) > SMALLEST


def test_erased_rectangles_are_timms() -> None:
    module = installed_timm.module("timm.data.random_erasing")
    erase = module.RandomErasing(0.6, mode="const", max_count=3, device="cpu")
    random.seed(4)
    expected = []
    for _ in range(2000):
        image = module.torch.ones(1, 40, 60)
        erase(image)
        expected.append(1.0 - image.mean().item())
    x = gi.normalize(np.full((2000, 40, 60, 1), 255, np.uint8), 0.0, 1.0)
    x = gi.random_erasing(x, 0.6, (0.02, 1 / 3), (0.3, 1 / 0.3), count=3, rng=rng(7, 2000))
    found = 1.0 - x.array().mean((1, 2, 3))
    assert_share(found > 0, 0.6)
    assert same_distribution(np.round(found, 5), np.round(expected, 5)) > SMALLEST


def applied(x: gi.Batch) -> set[int]:
    """Codes of the ops that any image has."""
    return {code for plan in recording_of(x).segments for entry in plan.entries for code in entry.codes.tolist()}


BLANKS = np.full((400, 40, 50, 3), 90, np.uint8)


def test_color_jitter_is_for_images_without_a_policy() -> None:
    def jittered(**options: Any) -> bool:
        return ops.HUE.code in applied(presets.timm_train(16, **options)(BLANKS, 3))

    strengths = (0.3, 0.3, 0.3, 0.2)
    assert jittered(color_jitter=strengths)
    assert jittered(color_jitter=strengths, auto_augment="3a")
    assert jittered(color_jitter=strengths, auto_augment="rand-t3a")
    assert not jittered(color_jitter=strengths, auto_augment="rand-m9")
    assert not jittered()
    assert not jittered(color_jitter=None)
    drawn = presets.timm_train(16, color_jitter_prob=0.25)(np.zeros((MANY, 4, 4, 3), np.uint8), rng(1, MANY))
    jitters = [entry.codes == ops.CONTRAST.code for entry in recording_of(drawn).plan.entries]
    assert_share(np.any(jitters, axis=0), 0.25)


def test_steps_of_a_whole_recipe() -> None:
    x = presets.timm_train(
        {"input_size": (3, 24, 24), "interpolation": "bicubic", "mean": (0.5, 0.4, 0.3), "crop_pct": 0.9},
        auto_augment="rand-m9-inc1", grayscale_prob=0.3, gaussian_blur_prob=0.4, re_prob=0.5, re_mode="rand",
        re_count=2,
    )(np.zeros((MANY, 40, 50, 3), np.uint8), rng(2, MANY))  # fmt: skip
    plans = recording_of(x).segments
    assert len(plans) == 3
    painted = [entry for entry in plans[0].entries if np.any(entry.codes == ops.PAINT.code)]
    outside = painted[0].params[painted[0].codes == ops.PAINT.code][:, ops.COLOR]
    np.testing.assert_allclose(outside, np.tile(np.round([127.5, 102, 76.5]) / 255, (len(outside), 1)), atol=1e-6)
    # A chain has the smoothest of its filters: of images that the policy moves, that of affine maps.
    assert {*plans[0].grid.filter.tolist()} == {layout.CUBIC_RENORMALIZED, layout.CUBIC_CLAMPED}
    assert plans[-1].grid.kernel is not None
    assert plans[-1].grid.kernel[0].tolist() == [23, 23]
    assert_share(plans[-1].grid.filter == layout.GAUSSIAN, 0.4)
    (gray,) = [entry for entry in plans[1].entries if np.any(entry.codes == ops.GRAYSCALE.code)]
    assert_share(gray.codes == ops.GRAYSCALE.code, 0.3)
    normalized, *erased = plans[-1].entries
    assert np.all(normalized.codes == ops.NORMALIZE.code)
    assert [np.mean(entry.codes == ops.PAINT.code) for entry in erased] == pytest.approx([0.5, 0.25], abs=0.03)
    colors = erased[0].params[erased[0].codes == ops.PAINT.code][:, ops.COLOR]
    normal = lambda x: np.array([0.5 * math.erfc(-v / math.sqrt(2.0)) for v in x])  # noqa: E731
    assert kolmogorov_smirnov(colors, normal) > SMALLEST


def test_interpolation_is_drawn_for_each_image() -> None:
    x = presets.timm_train(16, interpolation="random")(np.zeros((MANY, 30, 30, 3), np.uint8), rng(4, MANY))
    filters = recording_of(x).plan.grid.filter
    assert {*filters.tolist()} == {layout.LINEAR, layout.CUBIC_RENORMALIZED}
    assert_share(filters == layout.LINEAR, 0.5)
    config = {"input_size": (3, 16, 16), "interpolation": "bicubic"}
    x = presets.timm_train(config)(BLANKS, 0)
    assert {*recording_of(x).plan.grid.filter.tolist()} == {layout.CUBIC_RENORMALIZED}


@pytest.mark.parametrize("text", ["rand-m9-mstd0.5-inc1", "augmix-m5-w2-d2", "3a", "rand-t3aw-n3-m9-mstd1-p1"])
def test_floats_are_bytes_of_another_unit(text: str) -> None:
    """Levels of posterize and equalize differ where a value is at their edge."""
    images = [cut[:64, :60] for cut in cuts()[:3]]
    one = gi.timm_augment(images, text, rng=3).compute("float32")
    other = gi.timm_augment([i / np.float32(255) for i in images], text, rng=3).compute("float32")
    for a, b in zip(one, other, strict=True):
        assert np.mean(np.abs(a - b) > 1 / 255) < 0.02


def test_a_recipe_can_be_pickled_and_split_into_batches() -> None:
    train = presets.timm_train(
        32, auto_augment="rand-m9-mstd0.5-inc1", interpolation="random", re_prob=0.5, re_mode="pixel", re_count=3
    )
    images = [np.asarray(Image.open(path).convert("RGB").resize((60, 50))) for path in PHOTOS]
    n = len(images)
    whole = train(images, gi.Rng(3, epoch=2, indices=range(n))).array("float32")
    again = pickle.loads(pickle.dumps(train))
    for start in range(0, n, 5):
        part = range(start, min(start + 5, n))
        alone = again([images[i] for i in part], gi.Rng(3, epoch=2, indices=part)).array("float32")
        assert_same(list(alone), list(whole[part.start : part.stop]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"train_crop_mode": "rrr"}, r"train_crop_mode must be one of 'rrc', 'rkrc', 'rkrr', not 'rrr'"),
        ({"re_mode": "noise"}, "re_mode must be one of 'const', 'rand', 'pixel', not 'noise'"),
        ({"color_jitter": (0.1, 0.2)}, r"color_jitter must be one number, or 3 or 4 of them, not \(0.1, 0.2\)"),
        ({"config": {"hflip": 0.3}}, "hflip must be an argument of timm_train, not in config"),
        (
            {"config": {"input_size": (3, 0, 4)}},
            "must be a whole number of at least 1, not 0",
        ),
    ],
)
def test_wrong_arguments_of_the_recipe(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        presets.timm_train(**given)
