"""Noise, masks of random places, and channels in another order: against formulas in float64, and what is drawn."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import gpuimg as gi

from .. import references
from ..compare import FORMULA, assert_close
from ..references import to_unit
from ..samples import image, images, kinds
from .distributions import SMALLEST, kolmogorov_smirnov


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
