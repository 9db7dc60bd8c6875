"""timm's transforms for training and evaluation, against timm where it is installed."""

import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy import stats

import gpuimg as gi
from gpuimg import presets

from ..libraries import cases, library
from ..random import distributions
from ..random.distributions import SMALLEST, assert_evenly_spread, assert_share, descriptions, has, numbers, rng
from ..samples import PHOTOS

MANY = 2000
BICUBIC = Image.Resampling.BICUBIC


def theirs(images: list[NDArray[Any]], **options: Any) -> list[NDArray[Any]]:
    transform = library("timm.data").create_transform(**options)
    return [transform(Image.fromarray(image)).numpy() for image in images]


def cuts() -> list[NDArray[np.uint8]]:
    """A photo and cuts of awkward sizes."""
    whole = np.asarray(Image.open(PHOTOS[0]).convert("RGB").resize((401, 300), BICUBIC))
    return [whole, whole[:120, :90], whole[50:181], whole[:, 100:144], whole[:64, :64], whole[:33, :300]]


@cases("timm", "config", [
    {"input_size": (3, 96, 96), "interpolation": "bicubic", "crop_pct": 0.9},
    {"input_size": (3, 64, 64), "crop_pct": 1.0, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)},
    {"input_size": (3, 64, 96), "interpolation": "bicubic"}, {"input_size": (3, 97, 64), "crop_pct": 0.7},
    {"input_size": (3, 65, 65), "crop_mode": "squash", "interpolation": "lanczos"},
    {"input_size": (3, 80, 60), "crop_mode": "squash", "crop_pct": 0.95},
    {"input_size": (3, 65, 65), "crop_mode": "border", "crop_pct": 0.9, "interpolation": "bicubic"},
    {"input_size": (3, 80, 61), "crop_mode": "border", "crop_pct": 1.0},
    *({"input_size": (3, 64, 64), "interpolation": "nearest", "crop_mode": m} for m in ("center", "border")),
])  # fmt: skip
def test_evaluation_is_timms(config: dict[str, Any]) -> None:
    found = gi.models.timm_eval(config)(cuts()).array(layout="NCHW")
    assert np.count_nonzero(found != np.stack(theirs(cuts(), **config))) == 0


SQUARE = {"input_size": (3, 64, 64), "interpolation": "bicubic"}
CERTAIN = {"scale": (1.0, 1.0), "ratio": (1.0, 1.0), "hflip": 0.0, "color_jitter": None}


@cases("timm", "options, most", [
    ({}, 0), ({"hflip": 1.0, "vflip": 1.0}, 0), ({"grayscale_prob": 1.0}, 1),
    ({"re_prob": 0.0, "color_jitter": 0.0}, 0), ({"auto_augment": "rand-m0-p1-tweights-n0"}, 0),
    ({"train_crop_mode": "rkrc"}, 1e-4),
])  # fmt: skip
def test_training_is_timms_where_nothing_is_random(options: dict[str, Any], most: int) -> None:
    """Within levels of 255."""
    images = [image[:side, :side] for image, side in zip(cuts(), (300, 90, 131, 44, 64, 33), strict=True)]
    given = CERTAIN | options
    found = presets.timm_train(SQUARE, **given, exact="pillow")(images, 0).array(layout="NCHW")
    expected = np.stack(theirs(images, **SQUARE, is_training=True, **given))
    levels = np.abs(found - expected) * np.array(gi.IMAGENET_STD)[:, None, None] * 255
    assert levels.max() <= most * 1.001


@cases("timm", "given", [{}, {"scale": (0.5, 0.6), "ratio": (0.5, 2.0)}])
@cases("timm", "shape", [(97, 64), (40, 200)])
def test_sides_that_nearly_keep_the_ratio(shape: tuple[int, int], given: dict[str, Any]) -> None:
    draw = library("timm.data.transforms").ResizeKeepRatio.get_params
    random.seed(3)
    scale, ratio = given.get("scale", (0.8, 1.0)), given.get("ratio", (0.9, 1 / 0.9))
    image = Image.new("RGB", shape[::-1])
    expected = np.array([draw(image, (500, 400), 0.0, 0.5, scale, True, 0.5, ratio) for _ in range(MANY)])
    train = presets.timm_train({"input_size": (3, 500, 400)}, train_crop_mode="rkrr", **given)
    x = train(np.zeros((MANY, *shape, 3), np.uint8), rng(5, MANY))
    assert x.sizes.tolist() == [[500, 400]] * MANY
    found = numbers(descriptions(x), r"resize to (\d+) x (\d+)\nsampled once")
    for k in range(2):
        assert distributions.same_distribution(found[:, k], expected[:, k]) > SMALLEST
        assert found[:, k].max() == pytest.approx(expected[:, k].max(), rel=0.01)


@pytest.mark.parametrize("mode", ["rkrc", "rkrr"])
def test_crops_and_pads_are_timms(mode: Any) -> None:
    shape, size = (97, 64), (64, 52)
    ranges = {"scale": (0.7, 1.0), "ratio": (0.5, 2.0)}
    train = presets.timm_train({"input_size": (3, *size)}, train_crop_mode=mode, **ranges, hflip=0, color_jitter=None)
    x = train(np.zeros((MANY, *shape, 3), np.uint8), rng(6, MANY))
    spare = numbers(descriptions(x), r"resize to (\d+) x (\d+)\nsampled").astype(int) - size
    corner = -np.rint(gi.transform_points(x, np.zeros((MANY, 1, 2)))[:, 0, ::-1]).astype(int)
    assert (spare < 0).any(0).all()
    assert (spare > 0).any(0).all()
    if mode == "rkrc":
        assert corner.tolist() == [[round(s / 2) if s >= 0 else -(-s // 2) for s in row] for row in spare.tolist()]
        return
    assert np.all((np.minimum(spare, 0) <= corner) & (corner <= np.maximum(spare, 0)))
    for k in range(2):
        for each in np.unique(spare[:, k]).tolist():
            chosen = spare[:, k] == each
            if each and chosen.sum() > 40 * (abs(each) + 1):
                assert_evenly_spread(np.abs(corner[chosen, k]), 0, abs(each))


def test_erased_rectangles_are_timms() -> None:
    module = library("timm.data.random_erasing")
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
    assert distributions.same_distribution(np.round(found, 5), np.round(expected, 5)) > SMALLEST


def drawn(*given: Any, n: int = MANY, shape: tuple[int, int] = (40, 50), **options: Any) -> list[str]:
    """What the recipe draws for gray images."""
    return descriptions(presets.timm_train(*given, **options)(np.full((n, *shape, 3), 90, np.uint8), rng(2, n)))


@pytest.mark.parametrize(
    ("policy", "strengths", "jittered"),
    [(None, (0.3,) * 3 + (0.2,), True), ("3a", (0.3,) * 3 + (0.2,), True), ("rand-t3a", (0.3,) * 3 + (0.2,), True),
     ("rand-m9", (0.3,) * 3 + (0.2,), False), (None, 0.4, False), (None, None, False)],
)  # fmt: skip
def test_color_jitter_without_a_policy(policy: Any, strengths: Any, jittered: bool) -> None:
    texts = drawn(16, n=99, auto_augment=policy, color_jitter=strengths)
    assert has(texts, "hue").any() == jittered


def test_steps_of_a_whole_recipe() -> None:
    texts = drawn(
        {"input_size": (3, 24, 24), "interpolation": "bicubic", "mean": (0.5, 0.4, 0.3), "crop_pct": 0.9},
        auto_augment="rand-m9-inc1", grayscale_prob=0.3, gaussian_blur_prob=0.4, re_prob=0.5, re_mode="rand",
        re_count=2,
    )  # fmt: skip
    for line, share in (("grayscale", 0.3), ("gaussian blur 23 x 23 pixels", 0.4), ("erase", 0.5)):
        assert_share(has(texts, line), share)
    assert has(texts, "sampled once, bicubic").all()
    assert has(texts, "normalize with mean 0.5, 0.4, 0.3, std 0.229, 0.224, 0.225").all()
    outside = numbers(texts, r"fill around the image with (\d+), (\d+), (\d+)")
    np.testing.assert_array_equal(outside, np.tile((128, 102, 76), (len(outside), 1)))
    colors = numbers(texts, r"(?<!\d )erase .*, color (\S+), (\S+), (\S+)")
    assert len(colors) / MANY == pytest.approx(0.75, abs=0.06)  # one or two
    assert distributions.kolmogorov_smirnov(colors, stats.norm.cdf) > SMALLEST


def test_interpolation_is_drawn_for_each_image() -> None:
    texts = drawn(16, interpolation="random", color_jitter_prob=0.25)
    linear = has(texts, "sampled once, bilinear")
    assert_share(linear, 0.5)
    assert np.array_equal(linear, ~has(texts, "sampled once, bicubic"))
    assert_share(has(texts, "contrast"), 0.25)
