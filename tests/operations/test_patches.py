"""Resampling where x and y both depend on row and column, at the edges of what its vectors may read."""

import textwrap
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from .. import references, samples
from ..compare import FORMULA
from ..processes import python

SOURCES = [(1, 1), (1, 9), (6, 1), (2, 3), (5, 4), (33, 47), (90, 201)]
RESULTS = [(1, 1), (2, 3), (4, 4), (7, 5), (13, 230), (9, 301)]


def antialiased(image: NDArray[Any], xs: NDArray[Any], ys: NDArray[Any], support: tuple[float, float]) -> NDArray[Any]:
    """Pixels at positions in units of the source, weighted by all of it."""
    values = references.to_unit(image)
    parts = []
    for positions, n, reach in ((ys, image.shape[0], support[0]), (xs, image.shape[1], support[1])):
        inside = np.clip(positions, 0, n).reshape(-1, 1)
        weights = np.maximum(1.0 - np.abs(np.arange(n) + 0.5 - inside) / reach, 0.0)
        parts.append(weights / weights.sum(1, keepdims=True))
    summed = np.einsum("pi,pj,ijc->pc", parts[0], parts[1], values, optimize=True)
    return np.asarray(summed.reshape(*xs.shape, image.shape[2]))


def turned(image: NDArray[Any], size: tuple[int, int], angle: float) -> NDArray[Any]:
    """An image resized, then turned, in one resampling."""
    xs, ys = references.rotation(*size, angle)
    scale = image.shape[0] / size[0], image.shape[1] / size[1]
    support = max(scale[0], 1.0), max(scale[1], 1.0)
    return antialiased(image, (xs + 0.5) * scale[1], (ys + 0.5) * scale[0], support)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng()


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_size_of_patch(rng: np.random.Generator, dtype: str, channels: int) -> None:
    """One tap to hundreds, results narrower than a vector, wider than a tile, images of one pixel."""
    for source in SOURCES:
        image = samples.image(rng, *source, channels, dtype)
        for size in RESULTS:
            angle = float(rng.uniform(5, 175))
            result = gi.rotate(gi.resize([image], size), angle, "bilinear", fill=None).array("float32")[0]
            # Positions are float32: the larger the distance between the taps of a pixel, the more rounding matters.
            expected = turned(image, size, angle)
            np.testing.assert_allclose(result, expected, atol=10 * FORMULA, err_msg=f"{source} {size}")


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_neighbors_in_memory_are_not_seen(rng: np.random.Generator, interpolation: str) -> None:
    """An image between images that are no numbers, used in place."""
    arrays = np.full((3, 21, 35, 3), np.nan, np.float32)
    arrays[1] = rng.random((21, 35, 3))
    alone = gi.rotate(gi.resize(arrays[1:2], (9, 10)), 30, interpolation, fill=None).array()
    among = gi.rotate(gi.resize(arrays, (9, 10)), 30, interpolation, fill=None).array()
    assert np.isfinite(alone).all()
    np.testing.assert_array_equal(among[1], alone[0])


def test_nan_spreads_as_far_as_the_filter(rng: np.random.Generator) -> None:
    image = rng.random((1, 40, 50, 3)).astype(np.float32)
    clean = gi.rotate(image, 20, "bilinear", fill=None).array()[0]
    image[0, 20, 25, 1] = np.nan
    found = gi.rotate(image, 20, "bilinear", fill=None).array()[0]
    xs, ys = references.rotation(40, 50, 20)
    near = (np.abs(xs - 25) < 2) & (np.abs(ys - 20) < 2)
    assert np.isnan(found[near]).any()
    np.testing.assert_array_equal(found[~near], clean[~near])


_AT_THE_END_OF_MEMORY = """
    import itertools
    import numpy as np
    import gpuimg as gi
    from tests.robustness.guard_pages import flush
    shapes = itertools.product((np.uint8, np.float32), (1, 3), ((1, 1), (3, 2), (9, 11), (16, 21)))
    for dtype, channels, (height, width) in shapes:
        pixels = np.ones((1, height, width, channels), dtype).tobytes()
        # Vectors of uint8 may read 15 bytes after an image, where they are there.
        for at_end, after in ((False, 0), (True, 0), (True, 14), (True, 15))[: 4 if dtype == np.uint8 else 2]:
            memory = flush(pixels + bytes(after), at_end=at_end)[: len(pixels)]
            image = memory.view(dtype).reshape(1, height, width, channels)
            for scale, interpolation in itertools.product((0.2, 0.5, 1.0, 2.0), ("nearest", "bilinear")):
                target = max(round(height * scale), 1), max(round(width * scale), 1)
                x = gi.rotate(gi.resize(image, target), 30, interpolation, fill=None)
                assert np.abs(x.array(image.dtype.name) - 1.0).max() < 1e-6
                for rule in ("pillow", "torch") if dtype == np.uint8 else ():
                    assert np.all(gi.resize(image, target, "bicubic", exact=rule).array() == 1)
    print("unharmed")
"""


@pytest.mark.slow
def test_nothing_outside_the_image_is_read() -> None:
    """Images at either end of a page whose neighbors end the process that reads them."""
    code = textwrap.dedent(_AT_THE_END_OF_MEMORY)
    assert python("-c", code) == "unharmed\n"
