"""Policies: their tables and draws, their ops against published formulas, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._batch.batch import recording_of
from gpuimg._random import mixing, policies, policy_tables
from gpuimg._random.policies import apply_ops
from gpuimg._random.policy_tables import OP_NAMES
from gpuimg.kernels import ops as op_table

from .. import references
from ..compare import FORMULA, GEOMETRY, assert_close, assert_nearest, assert_same
from ..references import to_unit
from ..samples import image, kinds
from .distributions import (
    COUNT,
    SMALLEST,
    assert_evenly_spread,
    assert_share,
    assert_uniform,
    chi_square,
    kolmogorov_smirnov,
    rng,
)

IDENTITY, SHEAR_X, SHEAR_Y, TRANSLATE_X, TRANSLATE_Y, ROTATE = range(6)
BRIGHTNESS, COLOR, CONTRAST, SHARPNESS, POSTERIZE, SOLARIZE, AUTOCONTRAST, EQUALIZE, INVERT = range(6, 15)
CODES = {
    op_table.BRIGHTNESS.code: BRIGHTNESS,
    op_table.SATURATION.code: COLOR,
    op_table.CONTRAST.code: CONTRAST,
    op_table.SHARPNESS.code: SHARPNESS,
    op_table.POSTERIZE.code: POSTERIZE,
    op_table.SOLARIZE.code: SOLARIZE,
    op_table.AUTOCONTRAST.code: AUTOCONTRAST,
    op_table.EQUALIZE.code: EQUALIZE,
    op_table.INVERT.code: INVERT,
}
SIZES = [(7, 9), (31, 32), (33, 31), (12, 40), (8, 8), (40, 7)]

POLICIES: dict[str, Callable[..., gi.Batch]] = {
    "rand_augment": gi.rand_augment,
    "trivial_augment": gi.trivial_augment,
    "auto_augment imagenet": lambda x, **options: gi.auto_augment(x, "imagenet", **options),
    "auto_augment cifar10": lambda x, **options: gi.auto_augment(x, "cifar10", **options),
    "auto_augment svhn": lambda x, **options: gi.auto_augment(x, "svhn", **options),
    "augmix": gi.augmix,
}
#: With blurs, and with translations by fractions of a pixel.
ALL_POLICIES = POLICIES | {
    f"timm {text}": partial(gi.timm_augment, policy=text)
    for text in ("rand-m9-mstd0.5-inc1", "rand-m9-n3-t3aw-p1", "augmix-m5-w2-d2", "3a", "v0r-mstd1")
}


def blanks(height: int = 40, width: int = 50, n: int = COUNT) -> NDArray[np.uint8]:
    """Many images that are only recorded on."""
    return np.zeros((n, height, width, 3), np.uint8)


def pictures(n: int, dtype: str = "float32", channels: int = 3) -> list[NDArray[Any]]:
    generator = np.random.default_rng(0)
    return [image(generator, *SIZES[i % len(SIZES)], channels, dtype) for i in range(n)]


def recorded(plan: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The op of each image in a segment of a policy, and its magnitude; nothing moved and no color is the identity."""
    matrix = plan.grid.frames[0].matrix
    entry = plan.entries[-1]  # before it, what is painted around a moved image
    ops = np.array([CODES.get(code, IDENTITY) for code in entry.codes.tolist()])
    first, second = entry.params[:, 0].astype(np.float64), entry.params[:, 1].astype(np.float64)
    factor = (ops >= BRIGHTNESS) & (ops <= SHARPNESS)
    magnitude = np.where(factor, first - 1.0, np.where(ops == SOLARIZE, first, 0.0))
    magnitude = np.where(ops == POSTERIZE, np.log2(np.where(ops == POSTERIZE, second + 1.0, 1.0)), magnitude)
    turned = np.abs(matrix[:, 0, 0] - 1.0) > 1e-12
    for op, chosen, value in (
        (ROTATE, turned, np.rad2deg(np.arctan2(-matrix[:, 0, 1], matrix[:, 0, 0]))),
        (SHEAR_X, ~turned & (matrix[:, 0, 1] != 0.0), matrix[:, 0, 1]),
        (SHEAR_Y, ~turned & (matrix[:, 1, 0] != 0.0), matrix[:, 1, 0]),
        (TRANSLATE_X, ~turned & (matrix[:, 0, 1] == 0.0) & (matrix[:, 0, 2] != 0.0), -matrix[:, 0, 2]),
        (TRANSLATE_Y, ~turned & (matrix[:, 1, 0] == 0.0) & (matrix[:, 1, 2] != 0.0), -matrix[:, 1, 2]),
    ):
        assert not np.any(chosen & (ops != IDENTITY))
        ops, magnitude = np.where(chosen, op, ops), np.where(chosen, value, magnitude)
    return ops, magnitude


# -- one op ------------------------------------------------------------------------------------------------------------


def moved_from(height: int, width: int, op: int, magnitude: float) -> tuple[Any, Any]:
    """Return the source positions of an op's pixels, as torchvision's ``_AutoAugmentBase`` calls its functions."""
    if op == ROTATE:
        return references.rotation(height, width, magnitude)
    shear = math.degrees(math.atan(magnitude))
    return {
        SHEAR_X: lambda: references.affinity(height, width, 0, (0, 0), 1, (shear, 0), (0, 0)),
        SHEAR_Y: lambda: references.affinity(height, width, 0, (0, 0), 1, (0, shear), (0, 0)),
        TRANSLATE_X: lambda: references.affinity(height, width, 0, (magnitude, 0), 1, (0, 0)),
        TRANSLATE_Y: lambda: references.affinity(height, width, 0, (0, magnitude), 1, (0, 0)),
    }[op]()


def colored(picture: NDArray[Any], op: int, magnitude: float) -> NDArray[np.float64]:
    x = to_unit(picture)
    if op == POSTERIZE and picture.dtype == np.uint8:
        return to_unit(references.posterize_bytes(picture, int(magnitude)))
    result: NDArray[np.float64] = {
        IDENTITY: lambda: x,
        BRIGHTNESS: lambda: references.adjust_brightness(x, 1 + magnitude),
        COLOR: lambda: references.adjust_saturation(x, 1 + magnitude),
        CONTRAST: lambda: references.adjust_contrast(x, 1 + magnitude),
        SHARPNESS: lambda: references.adjust_sharpness(x, 1 + magnitude),
        POSTERIZE: lambda: references.posterize(x, int(magnitude)),
        SOLARIZE: lambda: references.solarize(x, magnitude),
        AUTOCONTRAST: lambda: references.autocontrast(x),
        EQUALIZE: lambda: references.equalize(x),
        INVERT: lambda: references.invert(x),
    }[op]()
    return result


RANGE = {
    SHEAR_X: (-0.99, 0.99), SHEAR_Y: (-0.99, 0.99), TRANSLATE_X: (-32, 32), TRANSLATE_Y: (-32, 32),
    ROTATE: (-135, 135), BRIGHTNESS: (-0.99, 0.99), COLOR: (-0.99, 0.99), CONTRAST: (-0.99, 0.99),
    SHARPNESS: (-0.99, 0.99), POSTERIZE: (2, 8), SOLARIZE: (0, 1),
}  # fmt: skip


@kinds
def test_color_ops_are_the_formulas(dtype: str, channels: int) -> None:
    """All of them in one batch, each image with its own."""
    ops = np.tile([IDENTITY, *range(BRIGHTNESS, INVERT + 1)], 12)
    images = pictures(len(ops), dtype, channels)
    generator = np.random.default_rng(1)
    magnitude = np.array([generator.uniform(*RANGE.get(op, (0, 1))) for op in ops.tolist()])
    magnitude = np.where(ops == POSTERIZE, np.round(magnitude), magnitude).astype(np.float32).astype(np.float64)
    x = apply_ops(gi.pad(images, 0), ops, magnitude, "nearest", 0)
    expected = [colored(p, op, m) for p, op, m in zip(images, ops.tolist(), magnitude, strict=True)]
    assert_close(x.compute("float32"), expected, FORMULA)


@kinds
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_ops_that_move_pixels_are_the_formulas(dtype: str, channels: int, interpolation: str) -> None:
    ops = np.tile(range(SHEAR_X, ROTATE + 1), 24)
    images = pictures(len(ops), dtype, channels)
    generator = np.random.default_rng(2)
    magnitude = np.array([generator.uniform(*RANGE[op]) for op in ops.tolist()])
    fill = generator.integers(0, 256, (len(ops), 1)) / (1 if dtype == "uint8" else 255)
    x = apply_ops(gi.pad(images, 0), ops, magnitude, interpolation, fill).compute("float32")
    places = [
        moved_from(p.shape[0], p.shape[1], op, m)
        for p, op, m in zip(images, ops.tolist(), magnitude.tolist(), strict=True)
    ]
    colors = (fill[:, 0] / (255 if dtype == "uint8" else 1)).tolist()
    expected = [
        references.sample(to_unit(p), *place, interpolation, f)
        for p, place, f in zip(images, places, colors, strict=True)
    ]
    if interpolation == "nearest":
        assert_nearest(x, expected, [references.near_tie(*place) for place in places], share=0.005)
    else:
        assert_close(x, expected, GEOMETRY)


def test_shear_leaves_the_top_left_corner_where_it_is() -> None:
    """Literal: half a pixel a row, from the upper edge; rows 1 and 3 are shifted by 1 and 2 whole pixels."""
    x = np.tile(np.arange(1, 9, dtype=np.uint8), (4, 1))[None, :, :, None]
    sheared = apply_ops(gi.pad(x, 0), np.array([SHEAR_X]), np.array([2 / 3]), "nearest", 0).array()[0, :, :, 0]
    # Row y is read (y + 0.5) * 2/3 further to the right: 1/3, 1, 5/3 and 7/3 pixels.
    assert sheared.tolist() == [
        [1, 2, 3, 4, 5, 6, 7, 8],
        [2, 3, 4, 5, 6, 7, 8, 0],
        [3, 4, 5, 6, 7, 8, 0, 0],
        [3, 4, 5, 6, 7, 8, 0, 0],
    ]


def test_directions() -> None:
    """A positive translation moves right or down, a positive rotation is counter-clockwise."""
    x = np.zeros((4, 5, 5, 1), np.uint8)
    x[:, 2, 3] = 9
    ops, magnitude = np.array([TRANSLATE_X, TRANSLATE_Y, ROTATE, TRANSLATE_X]), np.array([1, -2, 90, 0])
    y = apply_ops(gi.pad(x, 0), ops, magnitude, "nearest", 0).array()[..., 0]
    assert [np.argwhere(picture).tolist() for picture in y] == [[[2, 4]], [[0, 3]], [[1, 2]], [[2, 3]]]


# -- tables ------------------------------------------------------------------------------------------------------------


def named(policy: str, row: int) -> list[tuple[str, float, int]]:
    return [
        (OP_NAMES[int(op)], p, int(bin_)) for op, p, bin_ in policy_tables.AUTO_AUGMENT_POLICIES[policy][row].tolist()
    ]


def test_auto_augment_tables() -> None:
    for table in policy_tables.AUTO_AUGMENT_POLICIES.values():
        assert table.shape == (25, 2, 3)
    # From torchvision's _auto_augment.py.
    assert named("imagenet", 0) == [("Posterize", 0.4, 8), ("Rotate", 0.6, 9)]
    assert named("imagenet", 9) == [("Equalize", 0.6, 0), ("Posterize", 0.4, 6)]
    assert named("imagenet", 15) == [("Rotate", 0.8, 8), ("Color", 1.0, 2)]
    assert named("imagenet", 24) == [("Equalize", 0.8, 0), ("Equalize", 0.6, 0)]
    assert named("cifar10", 0) == [("Invert", 0.1, 0), ("Contrast", 0.2, 6)]
    assert named("cifar10", 12) == [("TranslateY", 0.4, 3), ("Sharpness", 0.2, 6)]
    assert named("cifar10", 24) == [("TranslateY", 0.7, 9), ("AutoContrast", 0.9, 0)]
    assert named("svhn", 0) == [("ShearX", 0.9, 4), ("Invert", 0.2, 0)]
    assert named("svhn", 15) == [("Invert", 0.8, 0), ("TranslateY", 0.0, 2)]
    assert named("svhn", 24) == [("ShearX", 0.7, 2), ("Invert", 0.1, 0)]


SUMS = {
    "imagenet": (
        [0.0, 0.6, 0.0, 0.0, 0.0, 3.6, 0.0, 3.8, 2.0, 0.4, 2.8, 3.6, 1.2, 11.2, 1.8],
        [0, 185, 0, 0, 0, 788, 0, 632, 624, 245, 300, 859, 0, 0, 0],
    ),
    "cifar10": (
        [0.0, 0.0, 0.7, 0.8, 3.4, 0.7, 2.3, 2.9, 0.8, 2.8, 0.3, 1.9, 5.0, 4.7, 0.2],
        [0, 0, 133, 212, 1371, 6, 521, 725, 145, 414, 84, 705, 0, 0, 0],
    ),
    "svhn": (
        [0.0, 4.2, 6.1, 0.9, 2.0, 3.4, 0.0, 0.0, 0.3, 0.0, 0.0, 2.2, 2.3, 3.9, 7.6],
        [0, 869, 1251, 114, 652, 354, 0, 0, 87, 0, 0, 552, 0, 0, 0],
    ),
}


@pytest.mark.parametrize(
    ("policy", "chances", "bins"),
    [(policy, *sums) for policy, sums in SUMS.items()],
)
def test_auto_augment_sums(policy: str, chances: list[float], bins: list[int]) -> None:
    """Of probabilities and bins over each op, in the order of OP_NAMES: a slip in any row shows."""
    table = policy_tables.AUTO_AUGMENT_POLICIES[policy].reshape(-1, 3)
    ops = table[:, 0].astype(int)
    np.testing.assert_allclose(np.bincount(ops, table[:, 1], 15), chances)
    np.testing.assert_allclose(np.bincount(ops, table[:, 2] * (1 + np.arange(50)), 15), bins)


def ends(function: Callable[[int], gi.Batch], segment: int = 0) -> list[dict[str, set[float]]]:
    """Magnitudes by op, of the lowest bin and of the highest."""
    found = []
    for magnitude in (0, 30):
        ops, values = recorded(recording_of(function(magnitude)).segments[segment])
        found.append({OP_NAMES[op]: set(np.round(values[ops == op], 4).tolist()) for op in np.unique(ops).tolist()})
    return found


def test_rand_augment_magnitudes() -> None:
    low, high = ends(lambda magnitude: gi.rand_augment(blanks(n=600), 1, magnitude, rng=rng(1, 600)))
    still: dict[str, set[float]] = {"AutoContrast": {0.0}, "Equalize": {0.0}}
    assert low == still | {
        "Identity": {0.0}, "Brightness": {0.0}, "Color": {0.0}, "Contrast": {0.0}, "Sharpness": {0.0},
        "Posterize": {8.0}, "Solarize": {1.0},
    }  # fmt: skip
    # 40 x 50 pixels: 150 / 331 of them are 18.13 and 22.66; bits and thresholds have no sign.
    assert high == still | {
        "Identity": {0.0}, "ShearX": {-0.3, 0.3}, "ShearY": {-0.3, 0.3}, "TranslateX": {-22.0, 22.0},
        "TranslateY": {-18.0, 18.0}, "Rotate": {-30.0, 30.0}, "Brightness": {-0.9, 0.9}, "Color": {-0.9, 0.9},
        "Contrast": {-0.9, 0.9}, "Sharpness": {-0.9, 0.9}, "Posterize": {4.0}, "Solarize": {0.0},
    }  # fmt: skip


def test_rand_augment_magnitude_nine_of_31() -> None:
    ops, values = recorded(recording_of(gi.rand_augment(blanks(n=600), rng=rng(1, 600))).segments[0])
    assert set(np.round(values[ops == ROTATE], 4).tolist()) == {-9.0, 9.0}
    assert set(np.round(values[ops == BRIGHTNESS], 4).tolist()) == {-0.27, 0.27}
    assert set(np.round(values[ops == TRANSLATE_X], 4).tolist()) == {-6.0, 6.0}
    assert set(np.round(values[ops == POSTERIZE], 4).tolist()) == {7.0}  # 8 - 9 / 7.5 = 6.8
    assert set(np.round(values[ops == SOLARIZE], 4).tolist()) == {0.7}


def test_trivial_augment_magnitudes() -> None:
    ops, values = recorded(recording_of(gi.trivial_augment(blanks(), rng=rng(2))).plan)
    for op, low, high in (
        (SHEAR_X, -0.99, 0.99), (SHEAR_Y, -0.99, 0.99), (TRANSLATE_X, -32, 32), (TRANSLATE_Y, -32, 32),
        (ROTATE, -135, 135), (BRIGHTNESS, -0.99, 0.99), (COLOR, -0.99, 0.99), (CONTRAST, -0.99, 0.99),
        (SHARPNESS, -0.99, 0.99), (POSTERIZE, 2, 8), (SOLARIZE, 0, 1),
    ):  # fmt: skip
        drawn = values[ops == op]
        assert [drawn.min(), drawn.max()] == pytest.approx([low, high], abs=2e-6), OP_NAMES[op]


# -- draws -------------------------------------------------------------------------------------------------------------


def assert_ops_uniform(ops: NDArray[np.int64]) -> None:
    assert chi_square(np.bincount(ops, minlength=14)) > SMALLEST


def test_rand_augment_ops_and_signs() -> None:
    x = gi.rand_augment(blanks(), 3, rng=rng(3))
    found = [recorded(plan) for plan in recording_of(x).segments]
    assert len(found) == 3
    for ops, values in found:
        assert_ops_uniform(ops)
        signed = (ops >= SHEAR_X) & (ops <= SHARPNESS)
        assert_share(values[signed] > 0, 0.5)
        for op in range(SHEAR_X, SHARPNESS + 1):
            assert_share(values[ops == op] > 0, 0.5)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        pairs = np.bincount(found[one][0] * 14 + found[other][0], minlength=196)
        assert chi_square(pairs) > SMALLEST


def test_trivial_augment_ops_bins_and_signs() -> None:
    ops, values = recorded(recording_of(gi.trivial_augment(blanks(), rng=rng(4))).plan)
    # The lowest of 31 bins moves nothing, which shows as the identity; so it does where it moves by less than 1.
    moved = np.where((np.arange(14) >= SHEAR_X) & (np.arange(14) <= ROTATE), 30 / 31, 1.0)
    shares = moved / 14
    shares[IDENTITY] += 5 / 31 / 14
    assert chi_square(np.bincount(ops, minlength=14), shares) > SMALLEST
    for op in (BRIGHTNESS, COLOR, CONTRAST, SHARPNESS):
        bins = values[ops == op] / 0.99 * 30
        np.testing.assert_allclose(bins, np.round(bins), atol=1e-4)
        assert_evenly_spread(np.abs(np.round(bins)), 0, 30)
        assert_share(bins[np.round(bins) != 0] > 0, 0.5)
    turns = values[ops == ROTATE] / 135 * 30
    assert_evenly_spread(np.abs(np.round(turns)), 1, 30)
    assert_share(turns > 0, 0.5)


@pytest.mark.parametrize("policy", ["imagenet", "cifar10", "svhn"])
def test_auto_augment_draws(policy: str) -> None:
    x = gi.auto_augment(blanks(), policy, rng=rng(5))
    found = [recorded(plan) for plan in recording_of(x).segments]
    table = policy_tables.AUTO_AUGMENT_POLICIES[policy]
    # Pairs of ops: one of 25 rows, each of its ops with its own probability.
    chances = np.zeros((15, 15))
    for (first, p, _), (second, q, _) in table.tolist():
        for op, chance in ((int(first), p), (IDENTITY, 1 - p)):
            for other, its in ((int(second), q), (IDENTITY, 1 - q)):
                chances[op, other] += chance * its / 25
    counts = np.bincount(found[0][0] * 15 + found[1][0], minlength=225)
    likely = chances.ravel() * COUNT >= 5
    assert not counts[chances.ravel() == 0].any()
    rest = [~likely & (chances.ravel() > 0)]
    observed = [*counts[likely], *[counts[r].sum() for r in rest if r.any()]]
    assert chi_square(observed, [*chances.ravel()[likely], *[chances.ravel()[r].sum() for r in rest if r.any()]]) > (
        SMALLEST
    )
    for k, (ops, values) in enumerate(found):
        signed = (ops >= SHEAR_X) & (ops <= SHARPNESS) & (np.abs(values) > 1e-6)
        assert_share(values[signed] > 0, 0.5)
        top = {ROTATE: 30.0, SHEAR_X: 0.3, SHEAR_Y: 0.3, BRIGHTNESS: 0.9, COLOR: 0.9, CONTRAST: 0.9, SHARPNESS: 0.9}
        for op, largest in top.items():
            bins = {round(b, 3) for b in np.abs(values[ops == op] / largest * 9).tolist()}
            assert bins <= set(table[table[:, k, 0] == op][:, k, 2].tolist())


class Recorded:
    """Stand-ins that record the calls AugMix makes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        self.weights: list[NDArray[np.float64]] = []
        monkeypatch.setattr(policies, "apply_ops", self.apply_ops)
        monkeypatch.setattr(mixing, "blend", self.blend)

    def apply_ops(self, batch: gi.Batch, ops: Any, magnitudes: Any, *rest: Any) -> gi.Batch:
        self.steps.append((ops, magnitudes))
        return batch

    def blend(self, one: gi.Batch, other: gi.Batch, weight: Any) -> gi.Batch:
        self.weights.append(weight)
        return one


def test_augmix_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Recorded(monkeypatch)
    gi.augmix(blanks(28, 1), 10, rng=rng(6))
    assert len(seen.steps) == 9
    assert_chosen = [1.0, 2 / 3, 1 / 3]
    for k, (ops, values) in enumerate(seen.steps):
        applied = ops != IDENTITY
        share = assert_chosen[k % 3]
        assert applied.all() if share == 1.0 else chi_square(np.bincount(applied), [1 - share, share]) > SMALLEST
        assert chi_square(np.bincount(ops[applied], minlength=14)[1:]) > SMALLEST
        for op, largest in ((ROTATE, 30.0), (SHEAR_X, 0.3), (BRIGHTNESS, 0.9), (TRANSLATE_Y, 9)):  # of 28 / 3 pixels
            bins = values[ops == op] / largest * 9
            assert_evenly_spread(np.round(np.abs(bins), 6), 0, 9)
            assert_share(bins[np.abs(bins) > 0] > 0, 0.5)
        # 4 bits less one for every 2.25 bins.
        assert set(values[ops == POSTERIZE].tolist()) == {0.0, 1.0, 2.0, 3.0, 4.0}
        assert (values[ops == SOLARIZE].min(), values[ops == SOLARIZE].max()) == (0.0, 1.0)


def test_augmix_severity_depth_and_color(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Recorded(monkeypatch)
    gi.augmix(blanks(1, 1, 4000), 3, 2, 4, all_ops=False, rng=rng(7, 4000))
    assert len(seen.steps) == 8
    for ops, values in seen.steps:
        assert set(ops.tolist()) == set(range(1, 14)) - {BRIGHTNESS, COLOR, CONTRAST, SHARPNESS}
        assert set(np.round(np.abs(values[ops == ROTATE]), 4).tolist()) == {0.0, 3.3333, 6.6667}


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_augmix_weights(monkeypatch: pytest.MonkeyPatch, alpha: float) -> None:
    seen = Recorded(monkeypatch)
    gi.augmix(blanks(1, 1), alpha=alpha, mixture_width=2, rng=rng(8))
    first, second = seen.weights
    kept, chains = first * second, np.stack([(1 - first) * second, 1 - second])
    # Beta(alpha, alpha) for the image; of the rest, each of two chains has as much.
    share = chains[0] / np.maximum(chains.sum(0), 1e-300)
    if alpha == 1.0:
        assert_uniform(kept, 0, 1)
        assert_uniform(share, 0, 1)
    else:
        for values in (kept, share):
            assert kolmogorov_smirnov(values, lambda x: 2 / math.pi * np.arcsin(np.sqrt(np.clip(x, 0, 1)))) > SMALLEST
    assert abs(np.corrcoef(kept, share)[0, 1]) < 5 / math.sqrt(COUNT)


# -- whole policies ----------------------------------------------------------------------------------------------------


def by_hand(x: gi.Batch, op: int, magnitude: float, interpolation: str, fill: Any) -> gi.Batch:
    """An op on a batch of one, by the public functions."""
    degrees = math.degrees(math.atan(magnitude))
    threshold = magnitude / recording_of(x).unit
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
        SOLARIZE: lambda: gi.solarize(x, threshold),
        AUTOCONTRAST: lambda: gi.autocontrast(x),
        EQUALIZE: lambda: gi.equalize(x),
        INVERT: lambda: gi.invert(x),
    }[op]()
    return gi.Batch(recording_of(made).new_segment())


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("name", [name for name in POLICIES if name != "augmix"])
def test_a_policy_is_its_ops_one_by_one_image_by_image(name: str, dtype: str, interpolation: str) -> None:
    images = pictures(60, dtype)
    fill = 77 if dtype == "uint8" else 0.3
    x = POLICIES[name](images, interpolation=interpolation, fill=fill, rng=rng(9, 60))
    steps = [recorded(plan) for plan in recording_of(x).segments]
    expected = []
    for i, picture in enumerate(images):
        single = gi.pad([picture], 0)
        for ops, values in steps:
            # Recovered from float32: bits and pixels are whole, thresholds were nudged for bytes.
            value = float(values[i])
            value = round(value) if ops[i] in (POSTERIZE, TRANSLATE_X, TRANSLATE_Y) else value
            if ops[i] == SOLARIZE:
                value = min(max(value + (1e-6 if dtype == "uint8" else 0.0), 0.0), 1.0)
            single = by_hand(single, int(ops[i]), value, interpolation, fill)
        expected.append(single.compute("float32")[0])
    assert_close(x.compute("float32"), expected, FORMULA)


def test_rand_augment_is_what_its_generator_drew() -> None:
    """The ops from the draws themselves, and the magnitude from its definition."""
    images = pictures(100, "uint8")
    x = gi.rand_augment(images, 2, 12, 25, fill=9, rng=rng(10, 100))
    draws = rng(10, 100)
    chain = [gi.pad([picture], 0) for picture in images]
    for _ in range(2):
        which, sign = draws.choice(14), np.where(draws.bernoulli(0.5), -1.0, 1.0)
        for i, picture in enumerate(images):
            height, width = picture.shape[:2]
            half = {SHEAR_X: 0.15, SHEAR_Y: 0.15, TRANSLATE_X: 75 / 331 * width, TRANSLATE_Y: 75 / 331 * height,
                    ROTATE: 15.0, BRIGHTNESS: 0.45, COLOR: 0.45, CONTRAST: 0.45, SHARPNESS: 0.45}  # fmt: skip
            op = int(which[i])
            value = {POSTERIZE: 6.0, SOLARIZE: 0.5}.get(op, sign[i] * half.get(op, 0.0))
            chain[i] = by_hand(chain[i], op, value, "nearest", 9)
    assert_close(x.compute("float32"), [single.compute("float32")[0] for single in chain], FORMULA)


def test_augmix_is_a_mixture_of_its_chains() -> None:
    images = pictures(24)
    n = len(images)
    x = gi.augmix(images, 7, alpha=0.8, fill=0.2, rng=rng(11, n))
    draws = rng(11, n)
    kept = draws.beta(0.8, 0.8)
    gammas = np.stack([draws.gamma(0.8) for _ in range(3)])
    weights = (1 - kept) * gammas / gammas.sum(0)
    mixed = [picture.astype(np.float64) * w for picture, w in zip(images, kept, strict=True)]
    for k in range(3):
        depth = draws.integers(1, 4)
        chain = [gi.pad([picture], 0) for picture in images]
        for step in range(3):
            which, share = draws.choice(13) + 1, draws.integers(0, 7) / 9
            sign = np.where(draws.bernoulli(0.5), -1.0, 1.0)
            for i in np.flatnonzero(step < depth).tolist():
                height, width = images[i].shape[:2]
                full = {SHEAR_X: 0.3, SHEAR_Y: 0.3, TRANSLATE_X: width / 3, TRANSLATE_Y: height / 3, ROTATE: 30.0,
                        BRIGHTNESS: 0.9, COLOR: 0.9, CONTRAST: 0.9, SHARPNESS: 0.9}  # fmt: skip
                op = int(which[i])
                value = {POSTERIZE: round(4 - 4 * share[i]), SOLARIZE: 1 - share[i]}.get(
                    op, sign[i] * share[i] * full.get(op, 0.0)
                )
                chain[i] = by_hand(chain[i], op, value, "bilinear", 0.2)
        for i in range(n):
            mixed[i] = mixed[i] + weights[k, i] * chain[i].compute()[0]
    assert_close(x, mixed, FORMULA)


def test_augmix_keeps_what_all_chains_keep() -> None:
    """Severity 1 is the lowest bin: a constant image has nothing but bits to lose."""
    x = np.zeros((40, 9, 9, 3), np.uint8)
    mixed = gi.augmix(x, 1, rng=rng(12, 40))
    assert mixed.dtype == "float32"
    assert not mixed.array().any()


def test_no_ops_keep_the_image() -> None:
    images = pictures(6, "uint8")
    assert_same(list(gi.rand_augment(images, 0, rng=0)), images)


# -- batches and cost --------------------------------------------------------------------------------------------------


def test_rand_augment_launches() -> None:
    x = pictures(1, "uint8")[0]
    images = np.stack([np.roll(x, i, 0) for i in range(256)])
    for seed in range(8):
        batch = gi.rand_augment(images, 2, 9, rng=rng(seed, 256))
        batch.array()
        assert batch.launches <= 4
    one = gi.rand_augment(images, 1, 9, rng=rng(0, 256))
    one.array()
    assert one.launches <= 2


@pytest.mark.parametrize("name", ALL_POLICIES)
def test_an_image_does_not_depend_on_its_batch(name: str) -> None:
    """In batches of other sizes, in another order, among other images, and twice in one batch."""
    n = 64 if "augmix" in name else 128
    images = pictures(n, "uint8")

    def results(part: NDArray[Any]) -> list[NDArray[Any]]:
        drawn = gi.Rng(13, epoch=2, indices=part)
        return list(ALL_POLICIES[name]([images[i] for i in part], rng=drawn).compute())

    whole = results(np.arange(n))
    for size in (1, 7):
        parts = np.split(np.arange(n), range(size, n, size))
        assert_same([one for part in parts for one in results(part)], whole)
    order = np.random.default_rng(4).permutation(n)[[*range(20), 0, 0]]
    assert_same(results(order), [whole[i] for i in order])
    assert sum(np.any(one != other) for one, other in zip(whole, images, strict=True)) > n / 3


@pytest.mark.parametrize("name", ALL_POLICIES)
def test_another_seed_or_epoch_gives_another_result(name: str) -> None:
    images = pictures(24, "uint8")

    def results(seed: int, epoch: int) -> list[NDArray[Any]]:
        return list(ALL_POLICIES[name](images, rng=gi.Rng(seed, epoch=epoch, indices=np.arange(24))).compute())

    usual = results(15, 0)
    assert_same(results(15, 0), usual)
    for other in (results(16, 0), results(15, 1)):
        assert sum(np.any(a != b) for a, b in zip(usual, other, strict=True)) > 12


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL_POLICIES)
def test_other_interpolations_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="interpolation must be"):
        ALL_POLICIES[name](pictures(3, "uint8"), interpolation="lanczos", rng=0)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("rand_augment", {"num_ops": -1}, "num_ops must be a whole number of at least 0, not -1"),
        ("rand_augment", {"num_ops": 1.5}, "num_ops must be a whole number of at least 0, not 1.5"),
        ("rand_augment", {"num_ops": True}, "num_ops must be a whole number of at least 0, not True"),
        ("rand_augment", {"magnitude": 31}, "magnitude must be a whole number from 0 to 30, not 31"),
        ("rand_augment", {"magnitude": -1}, "magnitude must be a whole number from 0 to 30, not -1"),
        (
            "rand_augment",
            {"magnitude": 9, "num_magnitude_bins": 9},
            "magnitude must be .* from 0 to 8, not 9",
        ),
        ("rand_augment", {"num_magnitude_bins": 1}, "num_magnitude_bins must be a whole number of at least 2, not 1"),
        ("rand_augment", {"fill": (1, 2)}, "fill must be one number"),
        ("trivial_augment", {"num_magnitude_bins": 0}, "num_magnitude_bins must be a whole number of at least 2"),
        ("auto_augment", {"policy": "mnist"}, 'policy must be "imagenet", "cifar10" or "svhn", not \'mnist\''),
        ("auto_augment", {"policy": None}, 'policy must be "imagenet", "cifar10" or "svhn", not None'),
        ("augmix", {"severity": 0}, "severity must be a whole number from 1 to 10, not 0"),
        ("augmix", {"severity": 11}, "severity must be a whole number from 1 to 10, not 11"),
        ("augmix", {"mixture_width": 0}, "mixture_width must be a whole number of at least 1, not 0"),
        ("augmix", {"chain_depth": 0}, "chain_depth must be a whole number of at least 1, not 0"),
        ("augmix", {"alpha": 0.0}, "alpha must be one number of at least 1e-06, not 0.0"),
        ("augmix", {"alpha": math.nan}, "alpha must be one number of at least 1e-06, not nan"),
    ],
)
def test_bad_arguments_are_refused(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(gi, name)(pictures(3, "uint8"), **given, rng=0)
