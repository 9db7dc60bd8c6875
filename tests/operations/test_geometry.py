"""Geometry against published formulas, other libraries, and examples that pin the conventions, and what it reads."""

import math
import mmap
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import gpuimg as gi

from .. import references
from ..compare import FORMULA, GEOMETRY, assert_bytes, assert_close, assert_nearest, assert_same
from ..libraries import library
from ..processes import python
from ..references import to_bytes, to_unit
from ..samples import PER_KIND, gray, images, kinds, pictures, rows
from .calls import CALLS

cv2 = library("cv2")


def check(x: gi.Batch, pictures: list[NDArray[Any]], expected: list[NDArray[Any]], ties: Any = None) -> None:
    """Results as floats and as bytes; resampled images of bytes stay within [0, 1], where a filter overshoots."""
    if ties is not None:
        assert_nearest(x.compute("float32"), expected, ties)
        return
    bounded = [np.clip(e, 0, 1) if p.dtype == np.uint8 else e for p, e in zip(pictures, expected, strict=True)]
    assert_close(x.compute("float32"), bounded, GEOMETRY)
    assert_bytes(x.compute("uint8"), map(to_bytes, expected))


def drawn(dtype: str, channels: int) -> tuple[list[NDArray[Any]], NDArray[Any]]:
    """Images, and a new size for each of them."""
    rng = np.random.default_rng()
    return images(rng, dtype, channels), rng.integers(1, 50, (PER_KIND, 2))


def test_a_filter_follows_a_quarter_turn() -> None:
    picture = np.random.default_rng().random((1, 40, 60, 3), np.float32)
    turned = gi.rotate(picture, 90, "nearest", expand=True)
    expected = gi.resize(np.rot90(picture, 1, (1, 2)).copy(), (50, 7)).array()
    np.testing.assert_allclose(gi.resize(turned, (50, 7)).array(), expected, atol=1e-5)


@kinds
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"])
def test_resize_as_pillow(dtype: str, channels: int, interpolation: str) -> None:
    pictures, sizes = drawn(dtype, channels)
    near_tie = {"nearest": references.resize_near_tie, "box": references.box_near_tie}.get(interpolation)
    results = gi.resize(pictures, sizes, interpolation).compute("float32")
    for result, picture, size in zip(results, map(to_unit, pictures), sizes.tolist(), strict=True):
        expected = references.resize(picture, *size, interpolation)
        bounded = np.clip(expected, 0, 1) if dtype == "uint8" else expected
        # At ties Pillow goes by the rounding of float64.
        tie = near_tie(picture, *size) if near_tie else np.zeros(result.shape[:2], bool)
        assert result.shape == bounded.shape
        assert np.abs(result - bounded)[~tie].max(initial=0.0) <= GEOMETRY


@given(height=st.integers(1, 300), width=st.integers(1, 300), longer=st.integers(1, 5000))
def test_resize_to_a_longer_side(height: int, width: int, longer: int) -> None:
    """torchvision's ``size=None``: exact whole numbers, where its float division may fall short of them."""
    x = gi.resize(np.broadcast_to(np.uint8(0), (1, height, width, 1)), None, max_size=longer)
    shorter = max(int(Fraction(longer * min(height, width), max(height, width))), 1)
    assert x.sizes.tolist() == [[longer, shorter] if height > width else [shorter, longer]]


@given(height=st.integers(1, 99), width=st.integers(1, 99), size=st.integers(1, 70), more=st.integers(0, 40))
def test_resize_to_a_shorter_side(height: int, width: int, size: int, more: int) -> None:
    x = gi.resize(np.zeros((1, height, width, 1), np.uint8), size, max_size=(most := size + more if more else None))
    assert x.sizes.tolist() == [np.maximum(references.short_side(height, width, size, most), 1).tolist()]


def test_forms_of_size() -> None:
    x = np.zeros((2, 8, 6, 1), np.uint8)
    for batch, sizes in (
        (gi.resize(x, (4, 5)), [[4, 5], [4, 5]]), (gi.resize(x, ([4, 2], 5)), [[4, 5], [2, 5]]),
        (gi.resize(x, np.array([[4, 5], [6, 7]])), [[4, 5], [6, 7]]), (gi.resize(x, [3]), [[4, 3], [4, 3]]),
        (gi.resize(x, np.int32(3)), [[4, 3], [4, 3]]), (gi.resize(x, (3,), max_size=5), [[4, 3], [4, 3]]),
        (gi.resize(x, None, max_size=[20, 8]), [[20, 15], [8, 6]]),
        (gi.resized_crop(x, 0, 0, 4, 2, [3]), [[6, 3], [6, 3]]),
    ):  # fmt: skip
        assert batch.sizes.tolist() == sizes


def test_forms_of_pairs() -> None:
    x = np.random.default_rng().integers(0, 256, (2, 33, 31, 3), np.uint8)
    for one, other in (
        (gi.affine(x, 10, (0, 0), 1, [20], "bilinear"), gi.affine(x, 10, (0, 0), 1, (20, 20), "bilinear")),
        (gi.gaussian_blur(x, [3]), gi.gaussian_blur(x, (3, 3))),
        (gi.gaussian_blur(x, np.array([(3, 1), (1, 5)])), gi.gaussian_blur(x, ([3, 1], [1, 5]))),
        (gi.gaussian_blur(x, 5, (1.5,)), gi.gaussian_blur(x, 5, (1.5, 1.5))),
        (gi.center_crop(x, [9]), gi.center_crop(x, (9, 9))),
        (gi.random_crop(x, (8,), rng=1), gi.random_crop(x, (8, 8), rng=1)),
    ):
        assert_same(list(one.compute()), list(other.compute()))


@pytest.mark.parametrize("antialias", [True, False])
def test_bicubic_overshoots_in_float_only(antialias: bool) -> None:
    edge = gray([0, 0, 255, 255])

    def resized(x: Any) -> gi.Batch:
        return gi.resize(x, (1, 16), "bicubic", antialias=antialias)

    of_floats = resized((edge / 255).astype(np.float32)).array("float32")
    assert of_floats.max() > 1.01
    assert of_floats.min() < -0.01
    # Torch and Pillow clamp before what comes after, and so does a chain. A blur ends a segment; its results are still
    # of bytes. Those of normalize are not.
    for x in (resized(edge), resized(gi.gaussian_blur(edge, 1, 1.0))):
        assert_close(x.array("float32"), np.clip(of_floats, 0, 1), GEOMETRY)
    assert_close(gi.normalize(resized(edge), 0.5, 0.5).array(), 2 * np.clip(of_floats, 0, 1) - 1, GEOMETRY)
    assert resized(gi.gaussian_blur(gi.normalize(edge, 0.5, 0.5), 1, 1.0)).array().max() > 1.02


@pytest.mark.parametrize("scale", [0.25, 0.9])
def test_resize_of_others_does_not_blur(scale: float) -> None:
    """An affine that shrank an image keeps its filter."""
    pictures = images(np.random.default_rng(), "uint8", 3)
    x = gi.affine(pictures, 10, (1, 2), scale, 0, "bilinear")
    where = np.arange(PER_KIND) % 2 == 0
    resized = gi.resize(x, (9, 7), where=where).compute()
    for image, before, chosen in zip(resized, x.compute(), where, strict=True):
        assert image.shape == ((9, 7, 3) if chosen else before.shape)
        assert chosen or np.array_equal(image, before)


@kinds
def test_crops(dtype: str, channels: int) -> None:
    pictures, sizes = drawn(dtype, channels)
    corners = np.random.default_rng().integers(-20, 40, (PER_KIND, 2))
    each = list(zip(pictures, corners, sizes.tolist(), strict=True))
    expected = [references.crop(p, *corner, *size).astype(dtype) for p, corner, size in each]
    assert_same(gi.crop(pictures, *corners.T, *sizes.T).compute(), expected)
    expected = [references.center_crop(p, *size).astype(dtype) for p, _, size in each]
    assert_same(gi.center_crop(pictures, sizes).compute(), expected)


@kinds
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("reach", [0, 7])
def test_resized_crop(reach: int, dtype: str, channels: int, interpolation: str, antialias: bool) -> None:
    rng = np.random.default_rng()
    pictures = images(rng, dtype, channels)
    sides = np.array([image.shape[:2] for image in pictures])
    size = rng.integers(1, sides + 1) + reach
    windows = np.hstack([rng.integers(-reach, sides - size + reach + 1), size])
    new = rng.integers(1, 40, (PER_KIND, 2))
    x = gi.resized_crop(pictures, *windows.T, new, interpolation, antialias)
    each = zip(pictures, windows, new, strict=True)
    resized = [references.resize(references.crop(to_unit(p), *w), *n, interpolation, antialias) for p, w, n in each]
    check(x, pictures, resized)


@kinds
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_pad(dtype: str, channels: int, mode: str) -> None:
    rng = np.random.default_rng()
    pictures = images(rng, dtype, channels)
    sides = np.array([image.shape[:2] for image in pictures])
    # Some sides cut a little off.
    left, right = rng.integers(-((sides[:, 1] - 1) // 3), 9, (2, PER_KIND))
    top, bottom = rng.integers(-((sides[:, 0] - 1) // 3), 9, (2, PER_KIND))
    fill = rng.integers(0, 256 if dtype == "uint8" else 2, (PER_KIND, channels)).astype(dtype)
    results = gi.pad(pictures, (left, top, right, bottom), fill, mode).compute()
    each = zip(pictures, left, top, right, bottom, fill, strict=True)
    assert_same(results, [references.pad(*one, mode).astype(dtype) for one in each])


def test_mirrored_borders() -> None:
    x = gray([1, 2, 3])
    for mode in ("reflect", "symmetric"):
        assert rows(gi.pad(gray([5]), (2, 1), padding_mode=mode)) == [[5] * 5] * 3
        # Geometry afterwards sees the border; a fill or color before it is part of the image.
        y = gi.pad(gi.erase(x, 0, 0, 1, 1, 9), (2, 0, 2, 0), padding_mode=mode)
        assert rows(gi.crop(gi.horizontal_flip(y), 0, 1, 1, 4)) == [np.pad([9, 2, 3], 2, mode=mode)[::-1][1:5].tolist()]
        small = gi.resize(gi.pad(x, (3, 0, 3, 0), padding_mode=mode), (1, 3)).array("float32")[0, 0, :, 0] * 255
        padded = np.pad([1.0, 2.0, 3.0], 3, mode=mode)[None, :, None]
        np.testing.assert_allclose(small, references.resize(padded, 1, 3)[0, :, 0], atol=1e-4)


def test_forms_of_padding() -> None:
    x = gray([7])
    assert rows(gi.pad(x, 1)) == [[0, 0, 0], [0, 7, 0], [0, 0, 0]]
    assert rows(gi.pad(x, (1, 0), fill=9)) == [[9, 7, 9]]
    assert rows(gi.pad(x, (1, 0, 2, 1), fill=9)) == [[9, 7, 9, 9], [9, 9, 9, 9]]
    assert rows(gi.pad(gray([1, 2, 3]), (-1, 0, 0, 0))) == [[2, 3]]
    assert rows(gi.pad(x, [1])) == rows(gi.pad(x, (1,))) == rows(gi.pad(x, 1))
    two = np.full((2, 1, 1, 1), 7, np.uint8)
    for sides in (np.array([(1, 0), (0, 1)]), np.array([(1, 0, 1, 0), (0, 1, 0, 1)])):  # x and y, or all four
        assert [image[..., 0].tolist() for image in gi.pad(two, sides)] == [[[0, 7, 0]], [[0], [7], [0]]]
    assert [image[0, :, 0].tolist() for image in gi.pad(two, ([0, 2], 0, 1, 0), fill=[8, 9])] == [[7, 8], [9, 9, 7, 9]]


@kinds
def test_flips(dtype: str, channels: int) -> None:
    pictures = images(np.random.default_rng(), dtype, channels)
    assert_same(gi.horizontal_flip(pictures).compute(), [image[:, ::-1] for image in pictures])
    assert_same(gi.vertical_flip(pictures).compute(), [image[::-1] for image in pictures])


def check_warp(x: gi.Batch, pictures: list[Any], grids: list[Any], interpolation: str, fills: Any) -> None:
    """A warped batch against images sampled at the positions of ``grids``."""
    units = list(map(to_unit, pictures))
    colors = [None] * len(units) if fills is None else fills / (255 if pictures[0].dtype == np.uint8 else 1)
    each = zip(units, grids, colors, strict=True)
    expected = [references.sample(image, xs, ys, interpolation, color) for image, (xs, ys), color in each]
    check(x, pictures, expected, [references.near_tie(*g) for g in grids] if interpolation == "nearest" else None)


def colors(rng: np.random.Generator, dtype: str, channels: int) -> NDArray[Any]:
    """A fill for every image, in the unit of the images, and not halfway between two bytes.

    Results are rounded to 1/1024 of a level before they are rounded to bytes, and a fill may cover most of an image.
    """
    levels = rng.integers(1, 255, (PER_KIND, channels)) + rng.uniform(-0.49, 0.49, (PER_KIND, channels))
    return levels if dtype == "uint8" else levels / 255.0


@kinds
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("how", ["same size", "expand", "center"])
def test_rotate(dtype: str, channels: int, interpolation: str, how: str) -> None:
    rng = np.random.default_rng()
    pictures = images(rng, dtype, channels)
    # Not nearly a quarter turn, of which all positions may be halfway between pixels.
    angle = 90 * rng.integers(-4, 4, PER_KIND) + rng.uniform(1, 89, PER_KIND)
    center = rng.uniform(-10, 50, (PER_KIND, 2))
    # Bicubic has no fill; about a center the edge is repeated.
    fill = None if how == "center" or interpolation == "bicubic" else colors(rng, dtype, channels)
    options: dict[str, Any] = {"expand": True} if how == "expand" else {"center": center} if how == "center" else {}
    x = gi.rotate(pictures, angle, interpolation, fill=fill, **options)
    each = [{**options, **({"center": tuple(c)} if how == "center" else {})} for c in center]
    grids = [references.rotation(*p.shape[:2], a, **o) for p, a, o in zip(pictures, angle, each, strict=True)]
    check_warp(x, pictures, grids, interpolation, fill)


@kinds
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("centered", [True, False])
def test_affine(dtype: str, channels: int, interpolation: str, centered: bool) -> None:
    rng = np.random.default_rng()
    pictures = images(rng, dtype, channels)
    # Angles, shifts, scales and shears.
    ranges = ((-200, 200, PER_KIND), (-8, 8, (PER_KIND, 2)), (0.5, 2.0, PER_KIND), (-40, 40, (PER_KIND, 2)))
    values, fill = [rng.uniform(*one) for one in ranges], colors(rng, dtype, channels)
    center = None if centered else rng.uniform(0, 40, (PER_KIND, 2))
    x = gi.affine(pictures, *values, interpolation, fill, center)
    each = zip(pictures, *values, [None] * PER_KIND if center is None else center, strict=True)
    grids = [references.affinity(*p.shape[:2], *one) for p, *one in each]
    check_warp(x, pictures, grids, interpolation, fill)


@kinds
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_perspective(dtype: str, channels: int, interpolation: str) -> None:
    rng = np.random.default_rng()
    pictures = images(rng, dtype, channels)
    # The corners of each image, and where they move: each within a quarter of the image.
    sides = np.array([image.shape[1::-1] for image in pictures])[:, None, :]
    start = np.array([(0, 0), (1, 0), (1, 1), (0, 1)]) * sides
    end, fill = start + rng.uniform(-0.25, 0.25, start.shape) * sides, colors(rng, dtype, channels)
    x = gi.perspective(pictures, start, end, interpolation, fill)
    grids = [references.perspective(*p.shape[:2], s, e) for p, s, e in zip(pictures, start, end, strict=True)]
    check_warp(x, pictures, grids, interpolation, fill)


CORNER = gray([1, 2, 3], [4, 5, 6], [7, 8, 9])
QUARTERS = gray([1, 2, 9, 9], [3, 4, 9, 9], [9] * 4, [9] * 4)
SQUARE = [(0, 0), (4, 0), (4, 4), (0, 4)]
QUARTER = [(0, 0), (2, 0), (2, 2), (0, 2)]


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (gi.rotate(CORNER, 90), [[3, 6, 9], [2, 5, 8], [1, 4, 7]]),  # counter-clockwise
        (gi.affine(CORNER, 90, (0, 0), 1.0, 0), [[7, 4, 1], [8, 5, 2], [9, 6, 3]]),  # clockwise
        # Right and down, after turning.
        (gi.affine(CORNER, 0, (1, 0), 1.0, 0), [[0, 1, 2], [0, 4, 5], [0, 7, 8]]),
        (gi.affine(CORNER, 0, (0, 1), 1.0, 0), [[0, 0, 0], [1, 2, 3], [4, 5, 6]]),
        (gi.affine(CORNER, 90, (1, 0), 1.0, 0), [[0, 7, 4], [0, 8, 5], [0, 9, 6]]),
        (gi.affine(gray([0] * 4, [0, 9, 9, 0], [0, 9, 9, 0], [0] * 4), 0, (0, 0), 2.0, 0), [[9] * 4] * 4),
        # 45 degrees move a row by its distance from the middle, one number those along x; torchvision's sign.
        (gi.affine(CORNER, 0, (0, 0), 1.0, 45), [[0, 1, 2], [4, 5, 6], [8, 9, 0]]),
        (gi.affine(CORNER, 0, (0, 0), 1.0, (0, 45)), [[0, 2, 6], [1, 5, 9], [4, 8, 0]]),
        # Half a turn about the middle of the right edge: the image lies outside, its last column next to the edge.
        (gi.rotate(CORNER, 180, center=(3.0, 1.5), fill=0), [[0, 0, 0]] * 3),
        (gi.rotate(CORNER, 180, center=(2.0, 1.5), fill=0), [[0, 9, 8], [0, 6, 5], [0, 3, 2]]),
        (gi.rotate(CORNER[:, :2], -90, expand=True), [[4, 1], [5, 2], [6, 3]]),
        (gi.rotate(CORNER[:, :2], 90, expand=True, center=(0, 0)), [[3, 6], [2, 5], [1, 4]]),
        # Shifted by half a pixel: the first pixel is half fill, half image. torchvision's blend would give 75.
        (gi.affine(gray([100] * 3), 0, (0.5, 0), 1.0, 0, "bilinear", fill=200), [[150, 100, 100]]),
        (gi.affine(CORNER[:, :1], 0, (2, 0), 1.0, 0, "bicubic", fill=None), [[1, 1, 1]]),
        (gi.affine(CORNER[:, :2, :2], 0, (1e6, 0), 1.0, 0, "bilinear", fill=None), [[1, 1], [4, 4]]),
        (gi.crop(CORNER, -1000, 5000, 1, 2), [[0, 0]]),
        (gi.crop(CORNER, 0, 0, 2, 2), [[1, 2], [4, 5]]),  # the same positions, and fewer of them
        (gi.center_crop(gray([1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]), [1]), [[7]]),  # the corner is 1.5, to even
        (gi.center_crop(gray([5]), (2, 3)), [[0, 5, 0], [0, 0, 0]]),
        *((gi.resize(gray([k, k + 1]), (1, 1), antialias=False), [[mean]]) for k, mean in ((0, 0), (1, 2), (2, 2))),
        # The top left quarter to the whole.
        (gi.perspective(QUARTERS, QUARTER, SQUARE, "nearest"), [[1, 1, 2, 2]] * 2 + [[3, 3, 4, 4]] * 2),
    ],
)
def test_warps_by_hand(batch: gi.Batch, expected: list[list[int]]) -> None:
    assert rows(batch) == expected


def test_forms_of_fill() -> None:
    for fill, expected in (
        (7, [[7, 7, 7], [7, 7, 7]]), ((1, 2, 3), [[1, 2, 3], [1, 2, 3]]), (np.array([8, 9]), [[8, 8, 8], [9, 9, 9]]),
        (np.array([[1, 2, 3]]), [[1, 2, 3], [1, 2, 3]]), ([[1, 2, 3], [4, 5, 6]], [[1, 2, 3], [4, 5, 6]]),
        ([[8], [9]], [[8, 8, 8], [9, 9, 9]]),
    ):  # fmt: skip
        assert gi.pad(np.zeros((2, 1, 1, 3), np.uint8), (1, 0, 0, 0), fill).array()[:, 0, 0].tolist() == expected
    assert gi.pad(np.zeros((1, 1, 1, 1), np.float32), (1, 0, 0, 0), 0.25).array().ravel().tolist() == [0.25, 0.0]


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_perspective_up_to_the_horizon(interpolation: str) -> None:
    # The middle row of the result lies at infinity; nothing there is an index.
    square = np.array([(0, 0), (9, 0), (9, 9), (0, 9)])
    horizon = np.array([[1.0, 0.0, -4.5], [0.0, 1.0, 5.0], [0.0, 1.0, -4.5]])
    source = np.array([(p[0] / p[2], p[1] / p[2]) for p in (horizon @ [x, y, 1.0] for x, y in square)])
    x = np.random.default_rng().random((1, 9, 9, 3), np.float32)
    for fill in (0.5, None):
        y = gi.perspective(x, source, square, interpolation, fill).array()
        assert y.min() >= 0.0
        assert y.max() <= 1.0
        assert fill is None or np.all(y[0, 4] == fill)


@pytest.mark.parametrize("channels", [1, 3])
def test_more_than_32_bits_reach_is_refused(channels: int) -> None:
    """Kernels count elements in int32, from the corner of what they read: parts of larger images can be read."""
    height, width = 40000, 65536 // channels
    shape = (2, height, width, channels)
    images = np.frombuffer(mmap.mmap(-1, math.prod(shape)), np.uint8).reshape(shape)  # pages exist once written
    images[1, -40:, -40:] = 200
    limit = r"image 0 is too large: [\d,]+ rows of [\d,]+ values are needed at once, and at most 2,147,483,647"
    with pytest.raises(ValueError, match=limit):
        gi.resize(images, (10, 10), interpolation="nearest").array()
    corner = gi.resized_crop(images, height - 40, width - 40, 40, 40, (4, 4), interpolation="nearest").array("uint8")
    assert corner[1].min() == corner[1].max() == 200
    assert not corner[0].any()


@pytest.mark.parametrize(("name", "options"), [
    *((name, {}) for name in ("resize", "resized_crop", "rotate", "affine", "perspective", "elastic")),
    ("resize", {"exact": "pillow"}),
])  # fmt: skip
def test_an_interpolation_for_each_image(name: str, options: dict[str, Any]) -> None:
    rng, call = np.random.default_rng(), CALLS[name]._replace(fixed=options)
    images, each = rng.integers(0, 256, (4, 31, 33, 3), np.uint8), call.each(rng, 4, 255.0)
    two = ["nearest", "bilinear"] if name == "elastic" else ["bicubic", "bilinear"]
    how = [two[0], two[1], two[1], two[0]]
    alone = {one: list(call.run(images, each, interpolation=one).compute("float32")) for one in two}
    found = list(call.run(images, each, interpolation=np.array(how)).compute("float32"))
    assert_same(found, [alone[one][i] for i, one in enumerate(how)])


def by_ultralytics(image: Any, size: tuple[int, int], *, scale_up: bool, center: bool, fill: int) -> Any:
    """``LetterBox`` of ultralytics 8.4 in plain Python, with OpenCV's resize and border."""
    height, width = image.shape[:2]
    r = min(size[0] / height, size[1] / width)
    if not scale_up:
        r = min(r, 1.0)
    new = max(round(width * r), 1), max(round(height * r), 1)
    dw, dh = float(size[1] - new[0]), float(size[0] - new[1])
    if center:
        dw, dh = dw / 2, dh / 2
    top, left = (round(dh - 0.1), round(dw - 0.1)) if center else (0, 0)
    if (width, height) != new:
        image = np.asarray(cv2.resize(image, new, interpolation=cv2.INTER_LINEAR), np.uint8)
    border = top, round(dh + 0.1), left, round(dw + 0.1)
    return np.asarray(cv2.copyMakeBorder(image, *border, cv2.BORDER_CONSTANT, value=(fill,) * 3), np.uint8)


@pytest.mark.parametrize("scale_up", [True, False])
@pytest.mark.parametrize("center", [True, False])
def test_pixels_and_places_are_ultralytics(scale_up: bool, center: bool) -> None:
    """Of 530 sizes; white images show to the level where each lies."""
    rng, options = np.random.default_rng(), {"scale_up": scale_up, "center": center}
    for canvas in [(63, 64), (33, 128), (1, 1), *map(tuple, rng.integers(1, 90, (7, 2)).tolist())]:
        images = pictures([(1, 300), (300, 1), (7, 9), (640, 427), *rng.integers(1, 90, (49, 2)).tolist()])
        white = [np.full_like(image, 255) for image in images]
        for batch, fill, most in ((images, 114, 1), (white, 0, 0)):
            for image, result in zip(batch, gi.letterbox(batch, canvas, fill, **options).array(), strict=True):
                expected = by_ultralytics(image, canvas, fill=fill, **options)
                assert result.shape == expected.shape
                assert np.abs(result.astype(int) - expected).max() <= most


def test_default_border_of_a_letterbox() -> None:
    gray = gi.letterbox(np.ones((1, 1, 2, 1), np.float32), 4).array()
    assert gray[0, :, 0, 0].tolist() == [np.float32(114 / 255), 1.0, 1.0, np.float32(114 / 255)]


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


def resized_and_turned(image: NDArray[Any], size: tuple[int, int], angle: float) -> NDArray[Any]:
    """An image resized, then turned, in one resampling."""
    xs, ys = references.rotation(*size, angle)
    scale = image.shape[0] / size[0], image.shape[1] / size[1]
    support = max(scale[0], 1.0), max(scale[1], 1.0)
    return antialiased(image, (xs + 0.5) * scale[1], (ys + 0.5) * scale[0], support)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_size_of_patch(dtype: str, channels: int) -> None:
    """One tap to hundreds, results narrower than a vector, wider than a tile, images of one pixel."""
    rng = np.random.default_rng()
    for source in SOURCES:
        (picture,) = pictures([source], dtype, channels)
        for size in RESULTS:
            angle = float(rng.uniform(5, 175))
            result = gi.rotate(gi.resize([picture], size), angle, "bilinear", fill=None).array("float32")[0]
            # Positions are float32: the larger the distance between the taps of a pixel, the more rounding matters.
            expected = resized_and_turned(picture, size, angle)
            np.testing.assert_allclose(result, expected, atol=10 * FORMULA, err_msg=f"{source} {size}")


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_neighbors_in_memory_are_not_seen(interpolation: str) -> None:
    """An image between images that are no numbers, used in place."""
    arrays = np.full((3, 21, 35, 3), np.nan, np.float32)
    arrays[1] = np.random.default_rng().random((21, 35, 3))
    alone = gi.rotate(gi.resize(arrays[1:2], (9, 10)), 30, interpolation, fill=None).array()
    among = gi.rotate(gi.resize(arrays, (9, 10)), 30, interpolation, fill=None).array()
    assert np.isfinite(alone).all()
    np.testing.assert_array_equal(among[1], alone[0])


def test_nan_spreads_as_far_as_the_filter() -> None:
    image = np.random.default_rng().random((1, 40, 50, 3), np.float32)
    clean = gi.rotate(image, 20, "bilinear", fill=None).array()[0]
    image[0, 20, 25, 1] = np.nan
    found = gi.rotate(image, 20, "bilinear", fill=None).array()[0]
    xs, ys = references.rotation(40, 50, 20)
    near = (np.abs(xs - 25) < 2) & (np.abs(ys - 20) < 2)
    assert np.isnan(found[near]).any()
    np.testing.assert_array_equal(found[~near], clean[~near])


AT_THE_END_OF_MEMORY = """
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
    assert python("-c", AT_THE_END_OF_MEMORY) == "unharmed\n"
