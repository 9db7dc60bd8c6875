"""Chains: every op at its place, statistics of the image at that point, pixels resampled once."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi
from gpuimg._plan.plan import Evolving

from .. import references
from ..compare import FORMULA, GEOMETRY, assert_close
from ..references import to_unit
from ..samples import file_of, gray, image, images, kinds, rows

TWO, THREE = gray([50, 60]), gray([1, 2, 3])
FILLED = gi.pad(gi.adjust_brightness(gi.pad(gray([100]), (1, 0, 0, 0), fill=10), 2), (1, 0, 0, 0), fill=30)
FILLED = gi.pad(gi.invert(FILLED), (1, 0, 0, 0), fill=7)
#: A chain, and its only row.
ROWS: dict[str, list[tuple[gi.Batch, list[int]]]] = {
    "a fill is not changed by what came before it": [
        (gi.pad(gi.adjust_brightness(TWO, 2), (1, 0, 0, 0), fill=30), [30, 100, 120]),
        (gi.adjust_brightness(gi.pad(TWO, (1, 0, 0, 0), fill=30), 2), [60, 100, 120]),
        (gi.affine(gi.adjust_brightness(TWO, 2), 0, (1, 0), 1, 0, fill=30), [30, 100]),
        (gi.adjust_brightness(gi.affine(TWO, 0, (1, 0), 1, 0, fill=30), 2), [60, 100]),
        (gi.horizontal_flip(FILLED), [55, 235, 225, 7]),
        (gi.crop(FILLED, 0, 1, 1, 2), [225, 235]),
        (gi.normalize(gi.pad(gi.normalize(gray([255]), 0, 1), (1, 0, 0, 0), fill=-2), -2, 1), [0, 3]),
    ],
    "a crop over the border is black at its place": [
        (gi.invert(gi.crop(TWO, 0, -1, 1, 4)), [255, 205, 195, 255]),
        (gi.pad(gi.crop(TWO, 0, 5, 1, 2), (1, 0, 1, 0), fill=9), [9, 0, 0, 9]),
    ],
    "an edge repeats what is seen, not the pixels beyond it": [
        (gi.pad(gi.erase(THREE, 0, 0, 1, 1, 9), (2, 0, 0, 0), padding_mode="edge"), [9, 9, 9, 2, 3]),
        (gi.pad(gi.resize(gray([0, 100]), (1, 1)), (2, 0, 0, 0), padding_mode="edge"), [50, 50, 50]),
        (gi.pad(gi.affine(THREE, 0, (1, 0), 1, 0), (2, 0, 1, 0), padding_mode="edge"), [0, 0, 0, 1, 2, 2]),
        (gi.pad(gi.pad(THREE, (1, 0, 0, 0), fill=9), (2, 0, 2, 0), padding_mode="edge"), [9, 9, 9, 1, 2, 3, 3, 3]),
        # A second crop does not bring back what the first one cut off.
        (gi.crop(gi.pad(gi.crop(THREE, 0, 1, 1, 2), (2, 0, 2, 0), padding_mode="edge"), 0, 0, 1, 5), [2, 2, 2, 3, 3]),
        # Cropped out of the image altogether, and then towards it.
        (gi.pad(gi.crop(THREE, 0, 3, 1, 1), (2, 0, 1, 0), padding_mode="edge"), [0, 0, 0, 0]),
    ],
    "a fill counts in later statistics only": [
        (gi.autocontrast(gi.pad(gray([100, 200]), (1, 0, 0, 0), fill=50)), [0, 85, 255]),
        (gi.pad(gi.autocontrast(gray([100, 200])), (1, 0, 0, 0), fill=50), [50, 0, 255]),
    ],
    "erase moves with the image": [
        (gi.horizontal_flip(gi.erase(gray([1, 2, 3, 4]), 0, 0, 1, 1, 9)), [4, 3, 2, 9]),
        (gi.erase(gi.horizontal_flip(gray([1, 2, 3, 4])), 0, 0, 1, 1, 9), [9, 3, 2, 1]),
        (gi.crop(gi.erase(gray([1, 2, 3, 4]), 0, 1, 1, 2, 9), 0, 2, 1, 2), [9, 4]),
        (gi.erase(gi.crop(gray([1, 2, 3, 4]), 0, 2, 1, 2), 0, 1, 1, 5, 9), [3, 9]),
    ],
    "each op is clamped before the next": [
        (gi.adjust_brightness(gi.adjust_brightness(gray([100, 200]), 2), 0.5), [100, 128]),
        # The mean is that of the clamped values.
        (gi.adjust_contrast(gi.adjust_brightness(gray([100, 200]), 2), 0), [228, 228]),
    ],
}


@pytest.mark.parametrize("law", ROWS)
def test_chains_by_hand(law: str) -> None:
    for batch, expected in ROWS[law]:
        assert rows(batch)[0] == expected


@numba.njit
def ramp(r: Any, g: Any, b: Any, y: Any, x: Any, value: Any) -> Any:
    return r + value * x, g + value * y, b


def test_coordinates_are_those_at_its_place() -> None:
    x = np.zeros((1, 3, 4, 3), np.float32)
    columns = gi.pointwise(x, ramp, 1.0)
    assert gi.horizontal_flip(columns).array()[0, 0, :, 0].tolist() == [3, 2, 1, 0]
    assert gi.crop(columns, 1, 2, 2, 2).array()[0, :, :, 0].tolist() == [[2, 3], [2, 3]]
    assert gi.crop(columns, 1, 2, 2, 2).array()[0, :, :, 1].tolist() == [[1, 1], [2, 2]]
    assert gi.pointwise(gi.crop(x, 1, 2, 2, 2), ramp, 1.0).array()[0, :, :, 0].tolist() == [[0, 1], [0, 1]]
    assert gi.rotate(gi.crop(columns, 0, 0, 3, 3), 90).array()[0, ..., 0].tolist() == [[2] * 3, [1] * 3, [0] * 3]
    # Between pixels the coordinate is a fraction.
    np.testing.assert_allclose(gi.resize(columns, (3, 8)).array()[0, 0, :, 0], np.arange(8) / 2 - 0.25, atol=1e-6)


STATISTICAL = {
    "contrast": (lambda x: gi.adjust_contrast(x, 1.7), lambda x: references.adjust_contrast(x, 1.7)),
    "autocontrast": (gi.autocontrast, references.autocontrast),
    "equalize": (gi.equalize, references.equalize),
}
MOVES = {
    "crop": (lambda x: gi.crop(x, 2, 3, 5, 4), lambda x: references.crop(x, 2, 3, 5, 4)),
    "crop over the border": (lambda x: gi.crop(x, -2, 3, 9, 90), lambda x: references.crop(x, -2, 3, 9, 90)),
    "pad": (lambda x: gi.pad(x, 2, padding_mode="edge"), lambda x: references.pad(x, 2, 2, 2, 2, mode="edge")),
    "flip": (gi.horizontal_flip, lambda x: x[:, ::-1]),
    "quarter turn": (lambda x: gi.rotate(x, 90, expand=True), lambda x: np.rot90(x)),
    "shrink": (lambda x: gi.resize(x, (6, 7), "nearest"), lambda x: references.resize(x, 6, 7, "nearest")),
    "two crops": (lambda x: gi.crop(gi.crop(x, 1, 1, 8, 8), 2, 2, 4, 4), lambda x: references.crop(x, 3, 3, 4, 4)),
}


def dark_to_the_right(dtype: str, channels: int) -> list[NDArray[Any]]:
    """Images whose parts differ in mean and range; 13 x 11 and larger, so that each move is possible."""
    rng = np.random.default_rng(3)
    pictures = []
    for height, width in [(13, 11), (16, 31), (33, 14)]:
        picture = image(rng, height, width, channels, "float32") * np.linspace(1, 0.2, width, dtype=np.float32)[:, None]
        picture = picture * np.float32(0.7) + np.float32(0.1)
        pictures.append((picture * 255).astype(np.uint8) if dtype == "uint8" else picture)
    return pictures


@kinds
@pytest.mark.parametrize("statistic", STATISTICAL.values(), ids=STATISTICAL)
@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_statistics_are_of_their_place_in_the_geometry(statistic: Any, move: Any, dtype: str, channels: int) -> None:
    pictures = dark_to_the_right(dtype, channels)
    for one, other in ((statistic, move), (move, statistic)):
        expected = [other[1](one[1](to_unit(picture))) for picture in pictures]
        assert_close(other[0](one[0](pictures)).compute("float32"), expected, FORMULA)


def test_decoded_region_holds_the_statistics() -> None:
    picture = np.zeros((32, 64, 3), np.uint8)
    picture[:, :32] = 200
    x = gi.open_batch([file_of(picture, "PNG")], device="cpu")
    assert np.all(gi.crop(gi.adjust_contrast(x, 0), 0, 0, 4, 4).array() == 100)
    assert np.all(gi.crop(gi.adjust_contrast(x, 0), 0, 60, 4, 4).array() == 100)


@kinds
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_filters_do_not_read_around_crops(interpolation: str, dtype: str, channels: int) -> None:
    pictures = [p for p in images(np.random.default_rng(5), dtype, channels) if min(p.shape[:2]) > 12]
    below = [p.shape[0] - 10 for p in pictures]
    changes: list[Callable[[Any], gi.Batch]] = [
        lambda x: gi.resize(x, (3, 4), interpolation),
        lambda x: gi.resize(x, (20, 30), interpolation),
        lambda x: gi.rotate(x, 30, interpolation, fill=None),
        lambda x: gi.horizontal_flip(gi.resize(gi.pad(x, 2, padding_mode="edge"), (5, 5), interpolation)),
    ]
    for change in changes:
        expected = list(change([p[3:10, 2:12] for p in pictures]).compute("float32"))
        for cut in (
            gi.crop(pictures, 3, 2, 7, 10),
            gi.pad(pictures, (-2, -3, [12 - p.shape[1] for p in pictures], [10 - p.shape[0] for p in pictures])),
            gi.vertical_flip(gi.crop(gi.vertical_flip(pictures), below, 2, 7, 10)),
        ):
            assert_close(change(cut).compute("float32"), expected, GEOMETRY)


def test_smoothest_filter_of_a_chain() -> None:
    x = np.random.default_rng(8).random((1, 9, 9, 1), np.float32)
    smooth = gi.rotate(gi.resize(x, (9, 9), "bilinear"), 10, "nearest", fill=None)
    np.testing.assert_array_equal(smooth.array(), gi.rotate(x, 10, "bilinear", fill=None).array())


@pytest.mark.parametrize("stale", [{"__post_init__": lambda self: None}, {"size": cached_property(len)}])
def test_what_evolve_copies_has_nothing_that_follows_from_its_fields(stale: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="would keep its value when"):
        type("Stale", (type("Before", (), stale), Evolving), {})
    assert {one.__name__ for one in Evolving.__subclasses__()} >= {"Entry", "Grid", "Plan", "Recording"}
