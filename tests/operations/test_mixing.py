"""Mixing images and labels against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from ..compare import assert_close, assert_same
from ..random.distributions import COUNT, SMALLEST, kolmogorov_smirnov, rng
from ..references import to_unit
from ..samples import image, kinds

FLOAT = 2e-6  # a few roundings of float32 at 1


def pictures(n: int = 6, dtype: str = "uint8", channels: int = 3, seed: int = 0) -> NDArray[Any]:
    generator = np.random.default_rng(seed)
    return np.stack([image(generator, 13, 17, channels, dtype) for _ in range(n)])


@kinds
def test_mixup(dtype: str, channels: int) -> None:
    x, other = pictures(dtype=dtype, channels=channels), pictures(dtype="float32", channels=channels, seed=1)
    own, drawn = to_unit(x), rng(1, 6).beta(0.7, 0.7)
    share = drawn[:, None, None, None]
    for partner, numbers, others in (
        (None, [5, 0, 1, 2, 3, 4], own),  # the image before
        ([3, 3, 2, 0, 5, 1], [3, 3, 2, 0, 5, 1], own),
        (gi.invert(other), list(range(6)), 1 - to_unit(other)),
    ):
        mix = gi.mixup(x, alpha=0.7, rng=rng(1, 6), **({} if partner is None else {"partner": partner}))
        np.testing.assert_array_equal(mix.weight, drawn)
        assert (mix.partner.tolist(), mix.images.dtype) == (numbers, "float32")
        assert_close(mix.images, own * share + others[numbers] * (1 - share), FLOAT)


@pytest.mark.parametrize(
    ("alpha", "cdf"),
    [(1.0, lambda x: x), (2.0, lambda x: x * x * (3 - 2 * x)), (0.5, lambda x: 2 / math.pi * np.arcsin(np.sqrt(x)))],
)
def test_weights_follow_a_beta_distribution(alpha: float, cdf: Any) -> None:
    # What cutmix draws is checked by its rectangles, below.
    x = np.zeros((COUNT, 1, 1, 1), np.uint8)
    assert kolmogorov_smirnov(gi.mixup(x, alpha=alpha, rng=rng(4, COUNT)).weight, cdf) > SMALLEST


def test_labels() -> None:
    x = pictures(3)
    mix = gi.mixup(x, rng=6)
    w = mix.weight
    expected = [[w[0], 1 - w[0], 0, 0], [1 - w[1], 0, 0, w[1]], [0, w[2], 0, 1 - w[2]]]
    for given in ([0, 3, 1], np.array([0, 3, 1], np.uint8), np.eye(4, dtype=np.float32)[[0, 3, 1]]):
        labels = mix.labels(given, num_classes=4)
        assert labels.dtype == np.float32
        np.testing.assert_allclose(labels, expected, atol=1e-6)
    two = gi.mixup(x[:2], rng=7, partner=gi.invert(pictures(2)))
    labels = two.labels([0, 1], 3, partner_labels=[2, 1])
    np.testing.assert_allclose(labels, [[two.weight[0], 0, 1 - two.weight[0]], [0, 1, 0]], atol=1e-6)


def rectangle(height: int, width: int, drawn: float, x: float, y: float) -> tuple[int, int, int, int]:
    """torchvision's, for one image."""
    center_x, center_y = int(x * width), int(y * height)
    half_w, half_h = (int(0.5 * math.sqrt(1 - drawn) * side) for side in (width, height))
    corner = max(center_x - half_w, 0), max(center_y - half_h, 0)
    return *corner, min(center_x + half_w, width), min(center_y + half_h, height)


@kinds
def test_cutmix_pastes_torchvisions_rectangle(dtype: str, channels: int) -> None:
    n = 60
    x = pictures(n, dtype, channels)
    mix = gi.cutmix(x, alpha=0.9, rng=rng(8, n))
    draws = rng(8, n)
    drawn, unit = draws.beta(0.9, 0.9), draws.units(2)
    own = to_unit(x)
    expected = own.copy()
    for i in range(n):
        x0, y0, x1, y1 = rectangle(13, 17, drawn[i], unit[i, 0], unit[i, 1])
        expected[i, y0:y1, x0:x1] = own[i - 1, y0:y1, x0:x1]
        assert mix.weight[i] == pytest.approx(1 - (x1 - x0) * (y1 - y0) / (13 * 17))
    assert_close(mix.images, expected, 1e-6)


@kinds
def test_blend(dtype: str, channels: int) -> None:
    x, other = pictures(5, dtype, channels), pictures(4, dtype, channels, seed=1)
    weight, partner = np.array([0, 0.25, 0.5, 0.9, 1]), np.array([3, 0, 0, 2, 1])
    box = np.array([(0, 0, 0, 0), (2, 3, 9, 7), (0, 0, 17, 13), (16, 12, 17, 13), (5, 5, 3, 9)])
    share = weight[:, None, None, None]
    expected = to_unit(x) * share + to_unit(other)[partner] * (1 - share)
    assert_close(gi.blend(x, other, weight, partner=partner), expected, FLOAT)
    for i, (x0, y0, x1, y1) in enumerate(box.tolist()):
        expected[i, y0:y1, x0:x1] = to_unit(other)[partner[i], y0:y1, x0:x1]
    assert_close(gi.blend(x, other, weight, partner=partner, rectangle=box), expected, FLOAT)


def test_a_rectangle_is_cut_at_the_border() -> None:
    x = np.zeros((3, 3, 4, 1), np.float32)
    mixed = gi.blend(x, x + 1, 1, rectangle=[(-2, -1, 1, 2), (3, 2, 99, 99), (-5, 0, -1, 3)]).array()[..., 0]
    assert mixed[0].tolist() == [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert mixed[1].tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert not mixed[2].any()


def test_images_mix_with_their_own_size() -> None:
    generator = np.random.default_rng()
    images = [image(generator, *size, 3, "float32") for size in ((4, 5), (7, 3), (4, 5), (7, 3))]
    mix = gi.mixup(images, rng=0, partner=[2, 3, 0, 1])
    each = zip(images, mix.weight, mix.partner, strict=True)
    assert_close(mix.images, [w * own + (1 - w) * images[k] for own, w, k in each], FLOAT)


def test_mixing_does_not_depend_on_the_batch() -> None:
    x = pictures()
    for function in (gi.mixup, gi.cutmix):
        whole = function(x, rng=rng(11, 6), partner=[1, 0, 3, 2, 5, 4])
        part = function(x[4:], rng=gi.Rng(11, indices=[4, 5]), partner=[1, 0])
        assert_same(list(part.images), list(whole.images)[4:])
        np.testing.assert_array_equal(part.weight, whole.weight[4:])


def test_no_images() -> None:
    nothing = np.zeros((0, 4, 4, 3), np.uint8)
    for function in (gi.mixup, gi.cutmix):
        mix = function(nothing, rng=0)
        assert len(mix.images) == len(mix.partner) == len(mix.weight) == 0
        assert mix.labels(np.zeros(0, np.int64), 5).shape == (0, 5)
        assert function(gi.normalize(pictures(), 0.5, 0.25), rng=1).images.normalized
