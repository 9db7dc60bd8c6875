"""Noise, masks of random places, and channels in another order: against formulas in float64, and what is drawn."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import gpuimg as gi

from .. import references
from ..compare import FORMULA, assert_close
from ..operations.calls import CALLS
from ..references import to_unit
from ..samples import image, images, kinds
from .distributions import SMALLEST, chi_square, kolmogorov_smirnov


@pytest.mark.parametrize(("counter", "key", "expected"), [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
])  # fmt: skip
def test_the_reference_gives_random123s_answers(counter: Any, key: Any, expected: Any) -> None:
    assert tuple(references.philox(np.array(counter), np.array(key)).tolist()) == expected


def test_noise_is_normal_and_independent() -> None:
    grays = np.full((4, 64, 61, 3), 0.5, np.float32)
    seeds = [0, 1, 2**24, 2**48 - 1]
    found = (gi.gaussian_noise(grays, 0.25, 0.5, False, seed=seeds).array() - 0.75) / 0.5
    for values in found.transpose(0, 3, 1, 2).reshape(-1, 64 * 61):
        assert kolmogorov_smirnov(values, stats.norm.cdf) > SMALLEST / 12
    limit = 5 / math.sqrt(64 * 60)
    planes = found.transpose(0, 3, 1, 2).reshape(12, -1)
    assert np.abs(np.corrcoef(planes) - np.eye(12)).max() < limit
    for one, other in ((found[:, 1:], found[:, :-1]), (found[:, :, 1:], found[:, :, :-1])):
        assert abs(np.mean(one * other)) < 5 / math.sqrt(one.size)


@pytest.mark.parametrize("mean", [0.3, 3.0, 7.9, 8.1, 40.0, 900.0])
def test_shot_noise_is_poissons_and_independent(mean: float) -> None:
    grays = np.full((1, 90, 80, 3), 0.02, np.float32)
    photons = mean / grays[0, 0, 0, 0]
    counts = gi.shot_noise(grays, photons, seed=5).array()[0].astype(np.float64) * photons
    assert np.abs(counts - np.rint(counts)).max() < 1e-3
    planes = np.rint(counts).reshape(-1, 3).T
    law = stats.poisson(mean)
    levels = np.unique(law.ppf(np.linspace(0.01, 0.99, 12)))
    for plane in planes:
        observed = np.histogram(plane, [-1, *(levels + 0.5), 1e9])[0]
        assert chi_square(observed, np.diff([0, *law.cdf(levels), 1])) > SMALLEST / 18
    assert np.abs(np.corrcoef(planes) - np.eye(3)).max() < 5 / math.sqrt(planes.shape[1])
    # What a number has below it is the probability of a word, so each is where the distribution has it.
    uniforms = references.noise(90, 80, 5)[0] + 2.0**-25
    assert np.mean(planes.T.reshape(90, 80, 3) != law.ppf(uniforms)) < 0.001


def test_shot_noise_of_black_white_and_odd_values() -> None:
    x = np.array([0.0, 1.0, 3.0, -2.0, np.nan], np.float32).reshape(1, 1, 5, 1)
    found = gi.shot_noise(x, 2.0**20, seed=1).array().ravel()
    np.testing.assert_allclose(found, [0, 1, 1, 0, 0], atol=0.01)
    assert found.max() <= 1.0
    assert gi.shot_noise(np.full((1, 2000, 2000, 3), 0.5, np.float32), 16.2, seed=2).array().min() >= 0.0


@kinds
def test_rain_is_its_formula(dtype: str, channels: int) -> None:
    rng, white = np.random.default_rng(), 255.0 if dtype == "uint8" else 1.0
    pictures = images(rng, dtype, channels, 26)
    each = CALLS["rain"].each(rng, 26, white)
    found = gi.rain(pictures, **each).compute("float32")
    for k, (picture, result) in enumerate(zip(pictures, found, strict=True)):
        amount, length, width, angle, opacity, color, seed = (values[k] for values in each.values())
        cover, close = references.rain(*picture.shape[:2], amount, length, width, angle, int(seed))
        share = (cover * opacity)[..., None]
        expected = to_unit(picture) * (1 - share) + color / white * share
        wrong = np.any(np.abs(result - expected) > 1e-4, 2) & ~close
        assert not wrong.any(), (k, int(wrong.sum()), wrong.size)


def test_fog_and_rain_cover_what_they_say() -> None:
    black = np.zeros((40, 300, 200, 1), np.float32)
    fog = gi.fog(black, 0.3, 8.0, seed=range(40)).array()
    assert abs(fog.mean() - 0.3) < 0.01
    assert np.abs(np.diff(fog, axis=1)).max() < 0.3 * 2  # a cell of the finest lattice is one pixel high
    fields = fog.reshape(40, -1)
    assert np.abs(np.corrcoef(fields) - np.eye(40)).max() < 0.3
    rain = gi.rain(black, 0.5, 12.0, 1.5, np.linspace(-90, 90, 40), opacity=1.0, seed=range(40)).array()
    assert abs(rain.mean() * 16 - 0.5) < 0.02


def test_what_is_described() -> None:
    x = gi.pad(np.zeros((1, 20, 30, 3), np.uint8), 0)
    x = gi.salt_and_pepper(gi.shot_noise(x, 90, seed=2**24 + 3), 0.2, 0.25, seed=4)
    x = gi.fog(x, 0.4, 50, (255, 0, 9), seed=5)
    x = gi.rain(x, 0.3, 12, 2, -30, 200, 0.5, seed=6)
    x = gi.rgb_shift(gi.shadow(x, [(0, 0), (9, 0), (3, 8)], 0.3), (10, 0, -20))
    assert gi.describe(x, 0).splitlines()[1:-1] == [
        "shot noise 90 photons, seed 16777219",
        "salt and pepper 0.2 of the pixels, 0.25 of them white, seed 4",
        "fog density 0.4, scale 50 pixels, color 255, 0, 9, seed 5",
        "rain amount 0.3, streaks of 12 x 2 pixels, -30 degrees, color 200, opacity 0.5, seed 6",
        "shadow 0.3 in (0, 0), (9, 0), (3, 8) (x, y)",
        "color matrix (1, 0, 0, 10), (0, 1, 0, 0), (0, 0, 1, -20)",
    ]


def test_geometry_moves_the_noise_with_the_image() -> None:
    gray = np.full((1, 40, 40, 3), 0.5, np.float32)
    noisy = gi.gaussian_noise(gray, 0.0, 0.1, seed=4)
    before = noisy.array()
    np.testing.assert_array_equal(gi.horizontal_flip(noisy).array(), before[:, :, ::-1])
    small = gi.resize(noisy, (10, 10)).array()
    np.testing.assert_allclose(small[0], references.resize(before[0].astype(float), 10, 10), atol=1e-5)
    # Drawn after the resize it is not averaged.
    assert gi.gaussian_noise(gi.resize(gray, (10, 10)), 0.0, 0.1, seed=4).array().std() > 2 * small.std()


@kinds
def test_erased_with_noise(dtype: str, channels: int) -> None:
    picture = image(np.random.default_rng(1), 12, 15, channels, dtype)
    uniforms, normals = (v[..., :channels] for v in references.noise(12, 15, 77))
    inside = np.zeros((12, 15, 1), bool)
    inside[2:9, 4:15] = True
    erased = gi.erase([picture], 2, 4, 7, 20, "random", seed=77)
    assert_close(erased.compute("float32"), [np.where(inside, uniforms, to_unit(picture))], 2e-6)
    # After normalize it is torchvision's standard normal noise, whatever the mean and deviation there.
    erased = gi.erase(gi.normalize([picture], 0.5, 0.25), 2, 4, 7, 20, "random", seed=77)
    assert_close(erased.compute(), [np.where(inside, normals, (to_unit(picture) - 0.5) / 0.25)], 1e-5)


@kinds
def test_grid_mask_is_its_formula(dtype: str, channels: int) -> None:
    generator = np.random.default_rng()
    pictures = images(generator, dtype, channels, 26)
    cell, share = generator.uniform(2, 15, 26), generator.uniform(0, 1, 26)
    angle, offset = generator.uniform(-180, 180, 26), generator.random((26, 2))
    white = 255 if dtype == "uint8" else 1
    color = generator.random((26, channels)) * white
    found = gi.grid_mask(pictures, cell, share, angle, offset, color).compute("float32")
    wrong = pixels = 0
    for k, (picture, result) in enumerate(zip(pictures, found, strict=True)):
        hidden = references.grid_mask(picture.shape[0], picture.shape[1], cell[k], share[k], angle[k], tuple(offset[k]))
        expected = np.where(hidden[..., None], color[k] / white, to_unit(picture))
        wrong += int(np.any(np.abs(result - expected) > FORMULA, 2).sum())
        pixels += hidden.size
    assert wrong <= 0.001 * pixels  # on the edges of squares, which float32 does not place better
