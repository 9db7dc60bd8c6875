"""Policies: their tables, and their pixels against the public functions called with what the generator draws."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._random import policy_tables
from gpuimg._random.policy_tables import OP_NAMES

from ..compare import FORMULA, assert_close
from ..libraries import cases, library
from ..samples import pictures
from .distributions import rng

IDENTITY, SHEAR_X, SHEAR_Y, TRANSLATE_X, TRANSLATE_Y, ROTATE = range(6)
BRIGHTNESS, COLOR, CONTRAST, SHARPNESS, POSTERIZE, SOLARIZE, AUTOCONTRAST, EQUALIZE, INVERT = range(6, 15)
SIZES = [(7, 9), (31, 32), (33, 31), (12, 40), (8, 8), (40, 7)] * 10


@cases("torchvision", "policy", ["imagenet", "cifar10", "svhn"])
def test_auto_augment_tables_are_torchvisions(policy: str) -> None:
    theirs = library("torchvision.transforms.autoaugment")
    expected = theirs.AutoAugment(theirs.AutoAugmentPolicy(policy)).policies
    found = policy_tables.AUTO_AUGMENT_POLICIES[policy].tolist()
    rows = [tuple((OP_NAMES[int(op)], p, int(strength)) for op, p, strength in row) for row in found]
    assert rows == [tuple((op, p, strength or 0) for op, p, strength in row) for row in expected]


def by_hand(x: gi.Batch, op: int, magnitude: float, interpolation: str, fill: Any) -> gi.Batch:
    """An op on a batch of one, by the public functions."""
    degrees = math.degrees(math.atan(magnitude))
    made = {
        IDENTITY: lambda: x,
        SHEAR_X: lambda: gi.affine(x, 0, (0, 0), 1, (degrees, 0), interpolation, fill, (0, 0)),
        SHEAR_Y: lambda: gi.affine(x, 0, (0, 0), 1, (0, degrees), interpolation, fill, (0, 0)),
        TRANSLATE_X: lambda: gi.affine(x, 0, (int(magnitude), 0), 1, 0, interpolation, fill),
        TRANSLATE_Y: lambda: gi.affine(x, 0, (0, int(magnitude)), 1, 0, interpolation, fill),
        ROTATE: lambda: gi.rotate(x, magnitude, interpolation, fill=fill),
        BRIGHTNESS: lambda: gi.adjust_brightness(x, 1 + magnitude),
        COLOR: lambda: gi.adjust_saturation(x, 1 + magnitude),
        CONTRAST: lambda: gi.adjust_contrast(x, 1 + magnitude),
        SHARPNESS: lambda: gi.adjust_sharpness(x, 1 + magnitude),
        POSTERIZE: lambda: gi.posterize(x, int(magnitude)),
        SOLARIZE: lambda: gi.solarize(x, magnitude * (255 if x.dtype == "uint8" else 1)),
        AUTOCONTRAST: lambda: gi.autocontrast(x),
        EQUALIZE: lambda: gi.equalize(x),
        INVERT: lambda: gi.invert(x),
    }[op]()
    return gi.gaussian_blur(made, 1, 1.0)  # changes no pixel and starts a segment


# Largest shear, rotation and change of a factor; largest shifts in x and y of a width and a height; bits at strengths 0
# and 1.
WIDE = (0.99, 135.0, 0.99, lambda width, height: (32.0, 32.0), (8, 2))
USUAL = (0.3, 30.0, 0.9, lambda width, height: (150 / 331 * width, 150 / 331 * height), (8, 4))
MIXED = (0.3, 30.0, 0.9, lambda width, height: (width / 3, height / 3), (4, 0))


def value_of(space: Any, op: int, strength: float, sign: float, picture: NDArray[Any]) -> float:
    """The magnitude that torchvision's ``_AUGMENTATION_SPACE`` gives an op."""
    shear, turn, factor, shifts, (most, least) = space
    if op == POSTERIZE:
        return float(most - round((most - least) * strength))
    if op == SOLARIZE:
        return 1.0 - strength
    shift = shifts(picture.shape[1], picture.shape[0])
    largest = {SHEAR_X: shear, SHEAR_Y: shear, TRANSLATE_X: shift[0], TRANSLATE_Y: shift[1], ROTATE: turn}
    return sign * strength * float(largest.get(op, factor if BRIGHTNESS <= op <= SHARPNESS else 0.0))


Step = tuple[NDArray[np.int64], Any, NDArray[np.float64]]


def signs(draws: gi.Rng) -> NDArray[np.float64]:
    return np.where(draws.bernoulli(0.5), -1.0, 1.0)


def rand_steps(draws: gi.Rng, num_ops: int, magnitude: int, bins: int) -> Iterator[Step]:
    for _ in range(num_ops):
        yield draws.choice(14), np.full(len(draws), magnitude / (bins - 1)), signs(draws)


def trivial_steps(draws: gi.Rng, bins: int = 31) -> Iterator[Step]:
    yield draws.choice(14), draws.integers(0, bins) / (bins - 1), signs(draws)


def auto_steps(draws: gi.Rng, policy: str) -> Iterator[Step]:
    table = policy_tables.AUTO_AUGMENT_POLICIES[policy]
    chosen = table[draws.choice(25)]
    for k in range(2):
        applied = draws.bernoulli(chosen[:, k, 1])
        yield np.where(applied, chosen[:, k, 0], IDENTITY).astype(int), chosen[:, k, 2] / 9, signs(draws)


DRAWN: dict[str, tuple[Callable[..., gi.Batch], Callable[..., Iterator[Step]], tuple[Any, ...], Any]] = {
    "rand_augment": (gi.rand_augment, rand_steps, (2, 9, 31), USUAL),
    "rand_augment of other bins": (gi.rand_augment, rand_steps, (3, 12, 25), USUAL),
    "rand_augment highest": (gi.rand_augment, rand_steps, (1, 30, 31), USUAL),
    "rand_augment without ops": (gi.rand_augment, rand_steps, (0, 9, 31), USUAL),
    "trivial_augment": (gi.trivial_augment, trivial_steps, (), WIDE),
    "imagenet": (gi.auto_augment, auto_steps, ("imagenet",), USUAL),
    "cifar10": (gi.auto_augment, auto_steps, ("cifar10",), USUAL),
    "svhn": (gi.auto_augment, auto_steps, ("svhn",), USUAL),
}


@pytest.mark.parametrize(
    ("dtype", "channels", "interpolation"),
    [("uint8", 3, "nearest"), ("float32", 3, "bilinear"), ("uint8", 1, "bilinear")],
)
@pytest.mark.parametrize("name", DRAWN)
def test_a_policy_is_the_ops_drawn(name: str, dtype: str, channels: int, interpolation: str) -> None:
    function, steps, given, space = DRAWN[name]
    n = 60
    images, fill = pictures(SIZES[:n], dtype, channels), 77 if dtype == "uint8" else 0.3
    x = function(images, *given, interpolation=interpolation, fill=fill, rng=rng(10, n))
    chain = [gi.pad([picture], 0) for picture in images]
    for ops, strengths, sign in steps(rng(10, n), *given):
        for i, picture in enumerate(images):
            value = value_of(space, int(ops[i]), float(strengths[i]), float(sign[i]), picture)
            chain[i] = by_hand(chain[i], int(ops[i]), value, interpolation, fill)
    assert_close(x.compute("float32"), [single.compute("float32")[0] for single in chain], FORMULA)


@pytest.mark.parametrize(
    ("severity", "width", "depth", "alpha", "all_ops"),
    [(7, 3, -1, 0.8, True), (10, 2, 4, 1.0, False), (1, 1, 1, 0.5, True)],
)
def test_augmix_is_a_mixture_of_its_chains(severity: int, width: int, depth: int, alpha: float, all_ops: bool) -> None:
    images = pictures(SIZES[:24], "float32")
    n = len(images)
    x = gi.augmix(images, severity, width, depth, alpha, all_ops, fill=0.2, rng=rng(11, n))
    draws = rng(11, n)
    kept = draws.beta(alpha, alpha)
    gammas = np.stack([draws.gamma(alpha) for _ in range(width)])
    weights = (1 - kept) * gammas / gammas.sum(0)
    mixed = [picture.astype(np.float64) * w for picture, w in zip(images, kept, strict=True)]
    space = np.array([op for op in range(SHEAR_X, INVERT) if all_ops or not BRIGHTNESS <= op <= SHARPNESS])
    for k in range(width):
        depths = np.full(n, depth) if depth > 0 else draws.integers(1, 4)
        chain = [gi.pad([picture], 0) for picture in images]
        for step in range(max(depths)):
            ops, strengths, sign = space[draws.choice(len(space))], draws.integers(0, severity) / 9, signs(draws)
            for i in np.flatnonzero(step < depths).tolist():
                value = value_of(MIXED, int(ops[i]), float(strengths[i]), float(sign[i]), images[i])
                chain[i] = by_hand(chain[i], int(ops[i]), value, "bilinear", 0.2)
        for i in range(n):
            mixed[i] = mixed[i] + weights[k, i] * chain[i].compute()[0]
    assert x.dtype == "float32"
    assert_close(x, mixed, FORMULA)
