"""Geometry against published formulas, other libraries, and examples that pin the conventions."""

from __future__ import annotations

import math
import mmap
from fractions import Fraction
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi
from gpuimg._data.images import check_reach

from .. import references
from ..compare import GEOMETRY, assert_bytes, assert_close, assert_nearest, assert_same
from ..references import to_bytes, to_unit
from ..samples import PER_KIND, gray, images, kinds, rows

filters = pytest.mark.parametrize(
    ("interpolation", "antialias"), [("bilinear", True), ("bilinear", False), ("bicubic", True), ("bicubic", False)]
)


def extent(image: NDArray[Any]) -> tuple[int, int]:
    """Height and width."""
    height, width, _ = image.shape
    return height, width


def step(image: NDArray[Any]) -> float:
    """Return the unit of colors: 1/255 for uint8 images."""
    return 1.0 / 255.0 if image.dtype == np.uint8 else 1.0


# -- resize ------------------------------------------------------------------------------------------------------------


@kinds
@filters
def test_resize(dtype: str, channels: int, interpolation: str, antialias: bool) -> None:
    rng = np.random.default_rng(1)
    pictures = images(rng, dtype, channels)
    sizes = rng.integers(1, 50, (PER_KIND, 2))
    x = gi.resize(pictures, sizes, interpolation, antialias=antialias)
    expected = [
        references.resize(to_unit(image), height, width, interpolation, antialias)
        for image, (height, width) in zip(pictures, sizes, strict=True)
    ]
    assert_close(x.compute("float32"), bounded(pictures, expected), GEOMETRY)
    assert_bytes(x.compute("uint8"), map(to_bytes, expected))


def test_a_filter_follows_a_quarter_turn() -> None:
    picture = np.random.default_rng(2).random((1, 40, 60, 3), np.float32)
    turned = gi.rotate(picture, 90, "nearest", expand=True)
    expected = gi.resize(np.rot90(picture, 1, (1, 2)).copy(), (50, 7)).array()
    np.testing.assert_allclose(gi.resize(turned, (50, 7)).array(), expected, atol=1e-5)


@kinds
def test_resize_nearest(dtype: str, channels: int) -> None:
    rng = np.random.default_rng(2)
    pictures = images(rng, dtype, channels)
    sizes = rng.integers(1, 50, (PER_KIND, 2))
    results = gi.resize(pictures, sizes, "nearest").compute("float32")
    expected = [references.resize(to_unit(p), h, w, "nearest") for p, (h, w) in zip(pictures, sizes, strict=True)]
    ties = [references.resize_near_tie(to_unit(p), h, w) for p, (h, w) in zip(pictures, sizes, strict=True)]
    assert_nearest(results, expected, ties)


@kinds
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"])
def test_resize_as_pillow(dtype: str, channels: int, interpolation: str) -> None:
    rng = np.random.default_rng(3)
    pictures = images(rng, dtype, channels)
    sizes = rng.integers(1, 50, (PER_KIND, 2))
    method = Image.Resampling[interpolation.upper()]
    results = gi.resize(pictures, sizes, interpolation).compute("float32")
    expected = []
    for image, (height, width) in zip(pictures, sizes, strict=True):
        planes = [Image.fromarray(plane.astype(np.float32)) for plane in np.moveaxis(to_unit(image), 2, 0)]
        expected.append(np.stack([np.asarray(plane.resize((int(width), int(height)), method)) for plane in planes], 2))
    if interpolation == "nearest":
        ties = [references.resize_near_tie(to_unit(p), h, w) for p, (h, w) in zip(pictures, sizes, strict=True)]
        assert_nearest(results, expected, ties, share=1.0)  # at ties Pillow goes by the rounding of its running sum
    elif interpolation == "box":  # at ties by the rounding of float64
        ties = [references.box_near_tie(to_unit(p), h, w) for p, (h, w) in zip(pictures, sizes, strict=True)]
        for result, one, tie in zip(results, bounded(pictures, expected), ties, strict=True):
            assert np.abs(result - one)[~tie].max(initial=0.0) <= GEOMETRY
    else:
        assert_close(results, bounded(pictures, expected), GEOMETRY)


@kinds
@pytest.mark.parametrize(
    ("interpolation", "antialias"),
    [("bilinear", True), ("bilinear", False), ("bicubic", True), ("bicubic", False), ("nearest", False)],
)
def test_resize_as_torch(dtype: str, channels: int, interpolation: str, antialias: bool) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    pictures = images(rng, dtype, channels)
    # From width 2: torch 2.13 on the CPU gives other values than Pillow for antialiased results one pixel wide.
    sizes = rng.integers(2, 50, (PER_KIND, 2))
    mode = "nearest-exact" if interpolation == "nearest" else interpolation
    results = gi.resize(pictures, sizes, interpolation, antialias=antialias).compute("float32", "NCHW")
    expected = []
    for image, size in zip(pictures, sizes, strict=True):
        tensor = torch.from_numpy(np.moveaxis(to_unit(image), 2, 0)[None].astype(np.float32))
        out = torch.nn.functional.interpolate(tensor, size=tuple(size.tolist()), mode=mode, antialias=antialias)
        expected.append(out[0].numpy())
    if interpolation == "nearest":
        ties = [references.resize_near_tie(to_unit(p), h, w) for p, (h, w) in zip(pictures, sizes, strict=True)]
        # At ties torch goes by the rounding of float32.
        ours, theirs = ([image.transpose(1, 2, 0) for image in side] for side in (results, expected))
        assert_nearest(ours, theirs, ties, share=1.0)
    else:
        assert_close(results, bounded(pictures, expected), GEOMETRY)


@kinds
@pytest.mark.parametrize(
    ("interpolation", "flag"), [("bilinear", cv2.INTER_LINEAR), ("bicubic", cv2.INTER_CUBIC)], ids=["linear", "cubic"]
)
def test_resize_without_antialias_as_opencv(dtype: str, channels: int, interpolation: str, flag: int) -> None:
    rng = np.random.default_rng(5)
    pictures = images(rng, dtype, channels)
    sizes = rng.integers(1, 50, (PER_KIND, 2))
    results = gi.resize(pictures, sizes, interpolation, antialias=False).compute("float32")
    expected = [
        cv2.resize(to_unit(image).astype(np.float32), (int(width), int(height)), interpolation=flag)
        for image, (height, width) in zip(pictures, sizes, strict=True)
    ]
    shaped = [e.reshape(*size, channels) for e, size in zip(expected, sizes, strict=True)]
    assert_close(results, bounded(pictures, shaped), GEOMETRY)


@given(height=st.integers(1, 300), width=st.integers(1, 300), longer=st.integers(1, 5000))
def test_resize_to_a_longer_side(height: int, width: int, longer: int) -> None:
    """torchvision's ``size=None``: exact whole numbers, where its float division may fall short of them."""
    x = gi.resize(np.broadcast_to(np.uint8(0), (1, height, width, 1)), None, max_size=longer)
    shorter = max(int(Fraction(longer * min(height, width), max(height, width))), 1)
    assert x.sizes.tolist() == [[longer, shorter] if height > width else [shorter, longer]]


def test_resize_to_longer_sides_of_each_image() -> None:
    images = [np.zeros((30, 40, 3), np.uint8), np.zeros((40, 30, 3), np.uint8), np.zeros((7, 7, 3), np.uint8)]
    assert gi.resize(images, None, max_size=[20, 20, 9]).sizes.tolist() == [[15, 20], [20, 15], [9, 9]]


@pytest.mark.parametrize(("height", "width"), [(30, 40), (40, 30), (33, 33), (1, 64), (7, 5), (99, 100)])
@pytest.mark.parametrize(("size", "max_size"), [(1, None), (15, None), (64, None), (15, 16), (8, 9), (64, 90)])
def test_resize_to_a_shorter_side(height: int, width: int, size: int, max_size: int | None) -> None:
    x = gi.resize(np.zeros((1, height, width, 1), np.uint8), size, max_size=max_size)
    expected = np.maximum(references.short_side(height, width, size, max_size), 1)
    assert x.sizes.tolist() == [expected.tolist()]


def test_forms_of_size() -> None:
    x = np.zeros((2, 8, 6, 1), np.uint8)
    assert gi.resize(x, (4, 5)).sizes.tolist() == [[4, 5], [4, 5]]
    assert gi.resize(x, ([4, 2], 5)).sizes.tolist() == [[4, 5], [2, 5]]
    assert gi.resize(x, np.array([[4, 5], [6, 7]])).sizes.tolist() == [[4, 5], [6, 7]]
    assert gi.resize(x, [3]).sizes.tolist() == [[4, 3], [4, 3]]
    assert gi.resize(x, np.int32(3)).sizes.tolist() == [[4, 3], [4, 3]]
    assert gi.resize(x, (3,), max_size=5).sizes.tolist() == [[4, 3], [4, 3]]
    assert gi.resized_crop(x, 0, 0, 4, 2, [3]).sizes.tolist() == [[6, 3], [6, 3]]


def test_lists_of_rows_are_refused_whatever_the_number_of_images() -> None:
    """For two images [[4, 5], [6, 7]] could be rows of (height, width), or heights and widths."""
    for n in (1, 2, 3):
        x = np.zeros((n, 8, 6, 1), np.uint8)
        for call in (gi.resize, gi.center_crop):
            with pytest.raises(ValueError, match=rf"as a list must hold two numbers, .* array of shape \({n}, 2\)"):
                call(x, [[4, 5], [6, 7]])
        with pytest.raises(ValueError, match=rf"padding as a list must hold .* \({n}, 2\) or \({n}, 4\)"):
            gi.pad(x, [[1, 2], [3, 4]])


def test_resize_by_hand() -> None:
    assert rows(gi.resize(gray([0, 100]), (1, 4))) == [[0, 25, 75, 100]]
    assert rows(gi.resize(gray([0, 100]), (1, 4), "nearest")) == [[0, 0, 100, 100]]
    # Shrinking by two: weights 1 3 3 1 over eight; at the border 3 3 1 over seven.
    assert rows(gi.resize(gray([0, 80, 160, 240, 0, 0]), (1, 3))) == [[57, 160, 34]]
    assert rows(gi.resize(gray([0, 80, 160, 240, 0, 0]), (1, 3), antialias=False)) == [[40, 200, 0]]


def test_resize_rounds_half_to_even() -> None:
    assert rows(gi.resize(gray([0, 1]), (1, 1), antialias=False)) == [[0]]
    assert rows(gi.resize(gray([1, 2]), (1, 1), antialias=False)) == [[2]]
    assert rows(gi.resize(gray([2, 3]), (1, 1), antialias=False)) == [[2]]


@pytest.mark.parametrize("scale", [0.25, 0.5, 0.9])
def test_images_that_are_not_resized_keep_the_filter_they_had(scale: float) -> None:
    """Also of an affine that shrank them: a resize of others must not blur them."""
    pictures = images(np.random.default_rng(), "uint8", 3)
    x = gi.affine(pictures, 10, (1, 2), scale, 0, "bilinear")
    where = np.arange(PER_KIND) % 2 == 0
    resized = gi.resize(x, (9, 7), where=where).compute()
    for image, before, chosen in zip(resized, x.compute(), where, strict=True):
        assert image.shape == ((9, 7, 3) if chosen else before.shape)
        assert chosen or np.array_equal(image, before)


@pytest.mark.parametrize("antialias", [True, False])
def test_bicubic_stays_within_bytes_and_overshoots_in_float(antialias: bool) -> None:
    edge = gray([0, 0, 255, 255])
    of_bytes = gi.resize(edge, (1, 16), "bicubic", antialias=antialias).array("float32")
    of_floats = gi.resize((edge / 255).astype(np.float32), (1, 16), "bicubic", antialias=antialias).array("float32")
    assert of_floats.max() > 1.01
    assert of_floats.min() < -0.01
    assert_close(of_bytes, np.clip(of_floats, 0, 1), GEOMETRY)
    # Torch and Pillow clamp before what comes after, and so does a chain.
    after = gi.normalize(gi.resize(edge, (1, 16), "bicubic", antialias=antialias), 0.5, 0.5).array()
    assert_close(after, 2 * np.clip(of_floats, 0, 1) - 1, GEOMETRY)
    # A blur ends a segment; its results are still of bytes. Those of normalize are not.
    blurred = gi.resize(gi.gaussian_blur(edge, 1, 1.0), (1, 16), "bicubic", antialias=antialias)
    assert_close(blurred.array("float32"), np.clip(of_floats, 0, 1), GEOMETRY)
    normalized = gi.gaussian_blur(gi.normalize(edge, 0.5, 0.5), 1, 1.0)
    assert gi.resize(normalized, (1, 16), "bicubic", antialias=antialias).array().max() > 1.02


# -- cutting -----------------------------------------------------------------------------------------------------------


@kinds
def test_crop(dtype: str, channels: int) -> None:
    rng = np.random.default_rng(6)
    pictures = images(rng, dtype, channels)
    top, left = rng.integers(-20, 40, (2, PER_KIND))
    height, width = rng.integers(1, 50, (2, PER_KIND))
    results = gi.crop(pictures, top, left, height, width).compute()
    expected = [
        references.crop(image, *window).astype(dtype)
        for image, *window in zip(pictures, top, left, height, width, strict=True)
    ]
    assert_same(results, expected)


@kinds
def test_crop_at_the_top_left_corner(dtype: str, channels: int) -> None:
    """The same positions as before and fewer of them: no batch in which every crop is such a one may stay whole."""
    picture = max(images(np.random.default_rng(5), dtype, channels), key=lambda image: min(image.shape[:2]))
    height, width = (length // 2 + 1 for length in picture.shape[:2])
    corner = picture[:height, :width]
    cropped = gi.crop([picture], 0, 0, height, width)
    assert not cropped.changes_nothing
    assert np.array_equal(cropped.array()[0], corner)
    blurred, expected = (gi.gaussian_blur(one, 3).array()[0] for one in (cropped, [corner.copy()]))
    assert np.array_equal(blurred, expected)


@kinds
def test_center_crop(dtype: str, channels: int) -> None:
    rng = np.random.default_rng(7)
    pictures = images(rng, dtype, channels)
    height, width = rng.integers(1, 50, (2, PER_KIND))
    results = gi.center_crop(pictures, (height, width)).compute()
    expected = [
        references.center_crop(image, *size).astype(dtype)
        for image, *size in zip(pictures, height.tolist(), width.tolist(), strict=True)
    ]
    assert_same(results, expected)


def test_center_crop_takes_one_number() -> None:
    x = gray([1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12])
    assert rows(gi.center_crop(x, 1)) == [[7]]  # a margin of 3 in x: the corner is 1.5, to even
    assert rows(gi.center_crop(x, (3, 2))) == [[2, 3], [6, 7], [10, 11]]
    assert rows(gi.center_crop(gray([5]), (2, 3))) == [[0, 5, 0], [0, 0, 0]]
    for one in ([1], (1,), np.int64(1)):
        assert rows(gi.center_crop(x, one)) == [[7]]


@kinds
@filters
@pytest.mark.parametrize("reach", [0, 7])
def test_resized_crop(reach: int, dtype: str, channels: int, interpolation: str, antialias: bool) -> None:
    rng = np.random.default_rng(8)
    pictures = images(rng, dtype, channels)
    sides = np.array([image.shape[:2] for image in pictures])
    size = rng.integers(1, sides + 1) + reach
    corner = rng.integers(-reach, sides - size + reach + 1)
    (top, left), (height, width) = corner.T, size.T
    new = rng.integers(1, 40, (PER_KIND, 2))
    x = gi.resized_crop(pictures, top, left, height, width, new, interpolation, antialias)
    expected = [
        references.resize(references.crop(to_unit(image), *window), h, w, interpolation, antialias)
        for image, window, (h, w) in zip(pictures, np.hstack([corner, size]), new, strict=True)
    ]
    assert_close(x.compute("float32"), bounded(pictures, expected), GEOMETRY)
    assert_bytes(x.compute("uint8"), map(to_bytes, expected))


@kinds
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_pad(dtype: str, channels: int, mode: str) -> None:
    rng = np.random.default_rng(9)
    pictures = images(rng, dtype, channels)
    sides = np.array([image.shape[:2] for image in pictures])
    # Some sides cut a little off.
    left, right = rng.integers(-((sides[:, 1] - 1) // 3), 9, (2, PER_KIND))
    top, bottom = rng.integers(-((sides[:, 0] - 1) // 3), 9, (2, PER_KIND))
    fill = rng.integers(0, 256, (PER_KIND, channels)).astype(dtype)
    results = gi.pad(pictures, (left, top, right, bottom), fill, mode).compute()
    expected = [
        references.pad(image, left[i], top[i], right[i], bottom[i], fill[i], mode).astype(dtype)
        for i, image in enumerate(pictures)
    ]
    if dtype == "uint8":
        assert_same(results, expected)
    else:
        assert_close(results, expected, 1e-4)  # of fills up to 255


def test_mirrored_borders() -> None:
    x = gray([1, 2, 3])
    for mode in ("reflect", "symmetric"):
        expected = np.pad([1, 2, 3], (7, 4), mode=mode).tolist()
        assert rows(gi.pad(x, (7, 0, 4, 0), padding_mode=mode)) == [expected]
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
    pictures = images(np.random.default_rng(10), dtype, channels)
    assert_same(gi.horizontal_flip(pictures).compute(), [image[:, ::-1] for image in pictures])
    assert_same(gi.vertical_flip(pictures).compute(), [image[::-1] for image in pictures])


# -- warps -------------------------------------------------------------------------------------------------------------


def bounded(pictures: list[NDArray[Any]], expected: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Resampled images of bytes stay within [0, 1], where a filter overshoots."""
    return [np.clip(e, 0, 1) if p.dtype == np.uint8 else e for p, e in zip(pictures, expected, strict=True)]


def check_warp(
    x: gi.Batch, pictures: list[NDArray[Any]], grids: list[Any], interpolation: str, fills: Any | None
) -> None:
    """A warped batch against images sampled at the positions of ``grids``."""
    colors = [None] * len(pictures) if fills is None else [f * step(p) for f, p in zip(fills, pictures, strict=True)]
    expected = [
        references.sample(to_unit(image), xs, ys, interpolation, color)
        for image, (xs, ys), color in zip(pictures, grids, colors, strict=True)
    ]
    if interpolation == "nearest":
        assert_nearest(x.compute("float32"), expected, [references.near_tie(*grid) for grid in grids])
    else:
        assert_close(x.compute("float32"), bounded(pictures, expected), GEOMETRY)
        assert_bytes(x.compute("uint8"), map(to_bytes, expected))


def colors(rng: np.random.Generator, dtype: str, channels: int) -> NDArray[Any]:
    """A fill for every image, in the unit of the images."""
    return rng.random((PER_KIND, channels)) * (255 if dtype == "uint8" else 1)


@kinds
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("expand", [False, True])
def test_rotate(dtype: str, channels: int, interpolation: str, expand: bool) -> None:
    rng = np.random.default_rng(11)
    pictures = images(rng, dtype, channels)
    angle = rng.uniform(-400, 400, PER_KIND)
    fill = colors(rng, dtype, channels)
    x = gi.rotate(pictures, angle, interpolation, expand, fill=fill)
    grids = [references.rotation(*extent(p), a, expand=expand) for p, a in zip(pictures, angle, strict=True)]
    check_warp(x, pictures, grids, interpolation, fill)


@kinds
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
def test_rotate_about_a_center_with_the_edge_repeated(dtype: str, channels: int, interpolation: str) -> None:
    rng = np.random.default_rng(12)
    pictures = images(rng, dtype, channels)
    angle = rng.uniform(-400, 400, PER_KIND)
    center = rng.uniform(-10, 50, (PER_KIND, 2))
    x = gi.rotate(pictures, angle, interpolation, center=center, fill=None)
    grids = [
        references.rotation(*extent(p), a, center=tuple(c)) for p, a, c in zip(pictures, angle, center, strict=True)
    ]
    check_warp(x, pictures, grids, interpolation, None)


def draw_affine(rng: np.random.Generator) -> tuple[NDArray[Any], ...]:
    """Angles, shifts, scales and shears."""
    return (
        rng.uniform(-200, 200, PER_KIND),
        rng.uniform(-8, 8, (PER_KIND, 2)),
        rng.uniform(0.5, 2.0, PER_KIND),
        rng.uniform(-40, 40, (PER_KIND, 2)),
    )


@kinds
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("centered", [True, False])
def test_affine(dtype: str, channels: int, interpolation: str, centered: bool) -> None:
    rng = np.random.default_rng(13)
    pictures = images(rng, dtype, channels)
    angle, translate, scale, shear = draw_affine(rng)
    center = None if centered else rng.uniform(0, 40, (PER_KIND, 2))
    fill = colors(rng, dtype, channels)
    x = gi.affine(pictures, angle, translate, scale, shear, interpolation, fill, center)
    grids = [
        references.affinity(
            *extent(pictures[i]), angle[i], translate[i], scale[i], shear[i], None if center is None else center[i]
        )
        for i in range(PER_KIND)
    ]
    check_warp(x, pictures, grids, interpolation, fill)


def draw_points(rng: np.random.Generator, pictures: list[NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The corners of each image, and where they move: each within a quarter of the image."""
    sides = np.array([image.shape[1::-1] for image in pictures])
    unit = np.array([(0, 0), (1, 0), (1, 1), (0, 1)])
    start = unit * sides[:, None, :]
    return start, start + rng.uniform(-0.25, 0.25, (len(pictures), 4, 2)) * sides[:, None, :]


@kinds
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_perspective(dtype: str, channels: int, interpolation: str) -> None:
    rng = np.random.default_rng(14)
    pictures = images(rng, dtype, channels)
    start, end = draw_points(rng, pictures)
    fill = colors(rng, dtype, channels)
    x = gi.perspective(pictures, start, end, interpolation, fill)
    grids = [references.perspective(*extent(p), s, e) for p, s, e in zip(pictures, start, end, strict=True)]
    check_warp(x, pictures, grids, interpolation, fill)


def check_as_opencv(x: gi.Batch, pictures: list[NDArray[Any]], warped: list[Any]) -> None:
    expected = [w.reshape(p.shape) for p, w in zip(pictures, warped, strict=True)]
    assert_close(x.compute("float32"), bounded(pictures, expected), GEOMETRY)
    assert_bytes(x.compute("uint8"), map(to_bytes, expected))


@kinds
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_rotate_as_opencv(dtype: str, channels: int, interpolation: str) -> None:
    rng = np.random.default_rng(15)
    pictures = images(rng, dtype, channels)
    angle = rng.uniform(-180, 180, PER_KIND)
    fill = None if interpolation == "bicubic" else colors(rng, dtype, channels)
    x = gi.rotate(pictures, angle, interpolation, fill=fill)
    warped = []
    for i, image in enumerate(pictures):
        height, width, _ = image.shape
        matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), angle[i], 1.0)
        warped.append(
            cv2.warpAffine(
                to_unit(image).astype(np.float32),
                matrix,
                (width, height),
                flags=cv2.INTER_LINEAR if interpolation == "bilinear" else cv2.INTER_CUBIC,
                borderMode=cv2.BORDER_REPLICATE if fill is None else cv2.BORDER_CONSTANT,
                borderValue=None if fill is None else (fill[i] * step(image)).tolist(),
            )
        )
    check_as_opencv(x, pictures, warped)


@kinds
def test_affine_as_opencv(dtype: str, channels: int) -> None:
    rng = np.random.default_rng(16)
    pictures = images(rng, dtype, channels)
    angle, translate, scale, _ = draw_affine(rng)
    x = gi.affine(pictures, angle, translate, scale, 0.0, "bilinear")
    warped = []
    for i, image in enumerate(pictures):
        height, width, _ = image.shape
        matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), -angle[i], scale[i])
        matrix[:, 2] += translate[i]
        warped.append(cv2.warpAffine(to_unit(image).astype(np.float32), matrix, (width, height)))
    check_as_opencv(x, pictures, warped)


@kinds
def test_perspective_as_opencv(dtype: str, channels: int) -> None:
    rng = np.random.default_rng(17)
    pictures = images(rng, dtype, channels)
    start, end = draw_points(rng, pictures)
    x = gi.perspective(pictures, start, end)
    warped = []
    for i, image in enumerate(pictures):
        height, width, _ = image.shape
        # OpenCV counts from the centre of the first pixel.
        matrix = cv2.getPerspectiveTransform(np.float32(start[i] - 0.5), np.float32(end[i] - 0.5))
        warped.append(cv2.warpPerspective(to_unit(image).astype(np.float32), matrix, (width, height)))
    check_as_opencv(x, pictures, warped)


# -- conventions -------------------------------------------------------------------------------------------------------

CORNER = gray([1, 2, 3], [4, 5, 6], [7, 8, 9])


def test_rotate_turns_counter_clockwise() -> None:
    assert rows(gi.rotate(CORNER, 90)) == [[3, 6, 9], [2, 5, 8], [1, 4, 7]]
    x = np.zeros((1, 11, 11, 1), np.uint8)
    x[0, 5, 8] = 255
    assert np.argwhere(gi.rotate(x, 90).array()[0, ..., 0]).tolist() == [[2, 5]]


def test_affine_turns_clockwise() -> None:
    assert rows(gi.affine(CORNER, 90, (0, 0), 1.0, 0)) == [[7, 4, 1], [8, 5, 2], [9, 6, 3]]


def test_affine_shifts_right_and_down_after_turning() -> None:
    assert rows(gi.affine(CORNER, 0, (1, 0), 1.0, 0)) == [[0, 1, 2], [0, 4, 5], [0, 7, 8]]
    assert rows(gi.affine(CORNER, 0, (0, 1), 1.0, 0)) == [[0, 0, 0], [1, 2, 3], [4, 5, 6]]
    assert rows(gi.affine(CORNER, 90, (1, 0), 1.0, 0)) == [[0, 7, 4], [0, 8, 5], [0, 9, 6]]


def test_affine_scale_above_one_enlarges() -> None:
    x = gray([0, 0, 0, 0], [0, 9, 9, 0], [0, 9, 9, 0], [0, 0, 0, 0])
    assert np.all(gi.affine(x, 0, (0, 0), 2.0, 0).array() == 9)


def test_affine_shear_of_one_number_is_along_x() -> None:
    # 45 degrees move a row by its distance from the middle; torchvision's sign.
    assert rows(gi.affine(CORNER, 0, (0, 0), 1.0, 45)) == [[0, 1, 2], [4, 5, 6], [8, 9, 0]]
    assert rows(gi.affine(CORNER, 0, (0, 0), 1.0, (45, 0))) == [[0, 1, 2], [4, 5, 6], [8, 9, 0]]
    assert rows(gi.affine(CORNER, 0, (0, 0), 1.0, (0, 45))) == [[0, 2, 6], [1, 5, 9], [4, 8, 0]]


def test_rotate_center_is_x_and_y_from_the_corner() -> None:
    # Half a turn about the middle of the right edge: the image lies outside, its last column next to the edge.
    assert rows(gi.rotate(CORNER, 180, center=(3.0, 1.5), fill=0)) == [[0, 0, 0]] * 3
    assert rows(gi.rotate(CORNER, 180, center=(2.0, 1.5), fill=0)) == [[0, 9, 8], [0, 6, 5], [0, 3, 2]]


def test_rotate_expand() -> None:
    x = gray([1, 2, 3], [4, 5, 6])
    assert rows(gi.rotate(x, 90, expand=True)) == [[3, 6], [2, 5], [1, 4]]
    assert rows(gi.rotate(x, -90, expand=True)) == [[4, 1], [5, 2], [6, 3]]
    assert rows(gi.rotate(x, 90, expand=True, center=(0, 0))) == [[3, 6], [2, 5], [1, 4]]
    assert gi.rotate(np.zeros((2, 10, 20, 1), np.uint8), [45, 0], expand=True).sizes.tolist() == [[22, 22], [10, 20]]


def test_fill_is_blended_by_the_share_outside() -> None:
    # Shifted by half a pixel: the first pixel is half fill, half image. torchvision's blend would give 75.
    x = np.full((1, 1, 3, 1), 100, np.uint8)
    assert rows(gi.affine(x, 0, (0.5, 0), 1.0, 0, "bilinear", fill=200)) == [[150, 100, 100]]
    same = gi.rotate(np.full((1, 9, 14, 3), 200, np.uint8), 33.0, "bilinear", fill=200)
    assert np.all(same.array() == 200)


def test_fill_none_repeats_the_edge() -> None:
    assert rows(gi.affine(gray([1, 2, 3]), 0, (2, 0), 1.0, 0, fill=None)) == [[1, 1, 1]]
    assert rows(gi.affine(gray([1, 2, 3]), 0, (2, 0), 1.0, 0, "bicubic", fill=None)) == [[1, 1, 1]]


def test_forms_of_fill() -> None:
    x = np.zeros((2, 1, 1, 3), np.uint8)

    def filled(fill: Any) -> list[Any]:
        result: list[Any] = gi.pad(x, (1, 0, 0, 0), fill).array()[:, 0, 0].tolist()
        return result

    assert filled(7) == [[7, 7, 7], [7, 7, 7]]
    assert filled((1, 2, 3)) == [[1, 2, 3], [1, 2, 3]]
    assert filled([8, 9]) == [[8, 8, 8], [9, 9, 9]]
    assert filled([[1, 2, 3], [4, 5, 6]]) == [[1, 2, 3], [4, 5, 6]]
    assert filled([[8], [9]]) == [[8, 8, 8], [9, 9, 9]]
    assert gi.pad(np.zeros((1, 1, 1, 1), np.float32), (1, 0, 0, 0), 0.25).array().ravel().tolist() == [0.25, 0.0]


def test_fill_of_three_images_and_three_channels_is_one_for_each_channel() -> None:
    x = np.zeros((3, 1, 1, 3), np.uint8)
    assert gi.pad(x, (1, 0, 0, 0), [1, 2, 3]).array()[:, 0, 0].tolist() == [[1, 2, 3]] * 3


def test_perspective_moves_points_from_start_to_end() -> None:
    # The top left quarter to the whole: enlarged by two.
    whole = [(0, 0), (4, 0), (4, 4), (0, 4)]
    quarter = [(0, 0), (2, 0), (2, 2), (0, 2)]
    x = np.arange(16, dtype=np.uint8).reshape(1, 4, 4, 1)
    assert rows(gi.perspective(x, quarter, whole, "nearest")) == [
        [0, 0, 1, 1],
        [0, 0, 1, 1],
        [4, 4, 5, 5],
        [4, 4, 5, 5],
    ]


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_perspective_up_to_the_horizon(interpolation: str) -> None:
    # The middle row of the result lies at infinity; nothing there is an index.
    square = np.array([(0, 0), (9, 0), (9, 9), (0, 9)])
    horizon = np.array([[1.0, 0.0, -4.5], [0.0, 1.0, 5.0], [0.0, 1.0, -4.5]])
    source = np.array([(p[0] / p[2], p[1] / p[2]) for p in (horizon @ [x, y, 1.0] for x, y in square)])
    x = np.random.default_rng(0).random((1, 9, 9, 3), np.float32)
    for fill in (0.5, None):
        y = gi.perspective(x, source, square, interpolation, fill).array()
        assert y.min() >= 0.0
        assert y.max() <= 1.0
        if fill is not None:
            assert np.all(y[0, 4] == fill)


def test_a_shift_far_away_shows_fill_or_edge() -> None:
    x = gray([1, 2], [3, 4])
    assert rows(gi.affine(x, 0, (1e6, 0), 1.0, 0, "bilinear", fill=9)) == [[9, 9], [9, 9]]
    assert rows(gi.affine(x, 0, (1e6, 0), 1.0, 0, "bilinear", fill=None)) == [[1, 1], [3, 3]]
    assert rows(gi.crop(x, -1000, 5000, 1, 2)) == [[0, 0]]


# -- bad arguments -----------------------------------------------------------------------------------------------------

SQUARE = [(0, 0), (4, 0), (4, 4), (0, 4)]
LINE = [(0, 0), (1, 1), (2, 2), (0, 4)]
IMAGES = np.zeros((2, 6, 5, 3), np.uint8)
resize: Any = gi.resize  # called with types that a checker refuses


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: gi.resize(x, 0), r"size must be a whole number from 1 to 16777216, not 0"),
        (lambda x: gi.resize(x, (0, 3)), r"size height must be a whole number from 1 to 16777216, not 0"),
        (lambda x: gi.resize(x, (3, -1)), r"size width must be a whole number from 1 to 16777216, not -1"),
        (lambda x: gi.resize(x, (3, [2, 0])), r"size width\[1\] must be"),
        (lambda x: gi.resize(x, (2.5, 3)), "size height must be a whole number .*not 2.5"),
        (lambda x: gi.resize(x, (1, 2, 3)), r"size must be \(height, width\), not \(1, 2, 3\)"),
        (
            lambda x: gi.resize(x, ([1, 2, 3], 4)),
            r"size height .* shape \(2,\) with one for each image, not of shape \(3,\)",
        ),
        (lambda x: gi.resize(x, np.ones((3, 2))), r"size as an array must have shape \(2, 2\), not \(3, 2\)"),
        (lambda x: gi.resize(x, np.nan), "size must be a whole number .*not nan"),
        (lambda x: gi.resize(x, 1 << 25), "size must be a whole number .*not 33554432"),
        (lambda x: gi.resize(x, 4, "lanczos", antialias=False), "must be .*not 'lanczos'; resizes with antialias=True"),
        (lambda x: gi.resize(x, 4, "magic"), 'interpolation must be .*, "box" or "hamming", not \'magic\''),
        (lambda x: gi.rotate(x, 4, "lanczos"), "interpolation must be \"nearest\", .*not 'lanczos'; resizes"),
        (lambda x: resize(x, 4, ["bilinear"]), "interpolation must be"),
        (lambda x: gi.resize(x, 4, max_size=4), "max_size must be above size=4, not 4"),
        (lambda x: resize(x, 4, max_size=5.5), "max_size must be a whole number .*not 5.5"),
        (lambda x: gi.resize(x, None), "size may be None only with max_size, the new length of the longer side"),
        (lambda x: gi.resize(x, None, max_size=0), "max_size must be a whole number from 1 .*not 0"),
        (
            lambda x: gi.resize(x, (4, 4), max_size=5),
            r"max_size needs an int size, the shorter side, or None, not \(4, 4\)",
        ),
        (lambda x: gi.crop(x, 0, 0, 0, 2), "height must be a whole number from 1 .*not 0"),
        (lambda x: gi.crop(x, 0.5, 0, 2, 2), "top must be a whole number .*not 0.5"),
        (lambda x: gi.crop(x, 0, np.inf, 2, 2), "left must be a whole number .*not inf"),
        (lambda x: gi.crop(x, [0, 1, 2], 0, 2, 2), r"top .*not of shape \(3,\)"),
        (
            lambda x: gi.crop(x, 1 << 30, 0, 2, 2),
            "top must be a whole number from -16777216 to 16777216, not 1073741824",
        ),
        (lambda x: gi.center_crop(x, 0), "output_size must be a whole number from 1 .*not 0"),
        (lambda x: gi.center_crop(x, (1, 2, 3)), r"output_size must be \(height, width\), not \(1, 2, 3\)"),
        (lambda x: gi.resized_crop(x, 0, 0, 2, 0, 4), "^width must be .*not 0"),
        (lambda x: gi.resized_crop(x, 0, 0, 2, 2, 0), "size must be .*not 0"),
        (lambda x: gi.pad(x, (1, 2, 3)), r"padding must be one number, .*not \(1, 2, 3\)"),
        (lambda x: gi.pad(x, 1.5), "padding must be a whole number .*not 1.5"),
        (lambda x: gi.pad(x, (1.5, 0)), "padding x must be a whole number .*not 1.5"),
        (lambda x: gi.pad(x, (1, 0, 2, 1.5)), "padding bottom must be a whole number .*not 1.5"),
        (lambda x: gi.pad(x, np.ones((4, 2))), r"padding as an array must have shape \(2, 2\) or \(2, 4\), not \(4, 2"),
        (lambda x: gi.pad(x, -3), r"image 0: padding -3 leaves no pixel of its size \(6, 5\)"),
        (lambda x: gi.pad(x, 1, padding_mode="wrap"), 'padding_mode must be "constant", .* "symmetric", not .wrap'),
        (lambda x: gi.pad(x, (-9, 0, 9, 0), padding_mode="reflect"), r"leaves no pixel of its size \(6, 5\)"),
        (lambda x: gi.pad(x, 1, fill=(1, 2, 3, 4)), r"fill must be one number, .*not of shape \(4,\)"),
        (lambda x: gi.pad(x, 1, fill=np.nan), "fill must be finite, not nan"),
        (lambda x: gi.rotate(x, np.nan), "angle must be a finite number, not nan"),
        (lambda x: gi.rotate(x, [1, np.inf]), r"angle\[1\] must be a finite number, not inf"),
        (lambda x: gi.rotate(x, [1, 2, 3]), r"angle .*shape \(2,\) with one for each image, not of shape \(3,\)"),
        (lambda x: gi.rotate(x, [[1], [2, 3]]), r"angle must be .*not \[\[1\], \[2, 3\]\]"),
        (lambda x: gi.rotate(x, 1, center=3), r"center must be \(x, y\), not 3"),
        (lambda x: gi.rotate(x, 1, center=(3, np.nan)), "center y must be a finite number, not nan"),
        (lambda x: gi.rotate(x, 1, "cubic"), "interpolation must be .*not 'cubic'"),
        (lambda x: gi.rotate(x, 1, fill=[[1, 2], [3, 4]]), r"fill must be .*not of shape \(2, 2\)"),
        (lambda x: gi.affine(x, 0, 0, 1, 0), r"translate must be \(x, y\), not 0"),
        (lambda x: gi.affine(x, 0, (0, 0), 0, 0), "scale must be .*not 0"),
        (lambda x: gi.affine(x, 0, (0, 0), -1, 0), "scale must be .*not -1"),
        (lambda x: gi.affine(x, 0, (0, 0), 1, 90), r"shear x must be .* from -89 to 89, not 90"),
        (lambda x: gi.affine(x, 0, (0, 0), 1, (1, 2, 3)), r"shear must be \(x, y\), not \(1, 2, 3\)"),
        (lambda x: gi.perspective(x, SQUARE[:3], SQUARE), r"startpoints must have shape \(4, 2\) .*not \(3, 2\)"),
        (
            lambda x: gi.perspective(x, SQUARE, [SQUARE] * 3),
            r"endpoints must have shape .*\(2, 4, 2\), not \(3, 4, 2\)",
        ),
        (lambda x: gi.perspective(x, SQUARE, np.full((4, 2), np.nan)), "endpoints must be finite"),
        (
            lambda x: gi.perspective(x, LINE, SQUARE),
            r"startpoints must be four points of which no three lie on a line, not \[\[",
        ),
        (
            lambda x: gi.perspective(x, SQUARE, LINE),
            r"endpoints must be four points of which no three lie on a line, not \[\[",
        ),
        (
            lambda x: gi.perspective(x, [SQUARE, LINE], SQUARE),
            r"startpoints must be four points of which no three lie on a line, not \[\[",
        ),
    ],
)
def test_bad_values(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(IMAGES)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: gi.resize(x, "8"), "size must be a number .*not '8'"),
        (lambda x: resize(x, 4, max_size="8"), "max_size must be a number .*not '8'"),
        (lambda x: gi.crop(x, None, 0, 1, 1), "top must be a number .*not None"),
        (lambda x: gi.pad(x, "ab"), "padding must be a number .*not 'ab'"),
        (lambda x: gi.pad(x, 1, fill="red"), "fill must be a number .*not 'red'"),
        (lambda x: gi.pad(x, 1, fill=None), "fill must be a number .*not None"),
        (lambda x: gi.rotate(x, 1 + 2j), r"angle must be a number .*not \(1\+2j\)"),
        (lambda x: gi.rotate(x, 1, center=("a", 2)), "center x must be a number .*not 'a'"),
        (lambda x: gi.affine(x, 0, (0, 0), "1", 0), "scale must be a number .*not '1'"),
        (lambda x: gi.perspective(x, "square", SQUARE), "startpoints must be a number .*not 'square'"),
    ],
)
def test_bad_types(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(IMAGES)


# -- sizes -------------------------------------------------------------------------------------------------------------


def zeros(*shape: int) -> Any:
    """Memory that is not there until it is written to."""
    return np.frombuffer(mmap.mmap(-1, math.prod(shape)), np.uint8).reshape(shape)


@pytest.mark.parametrize("channels", [1, 3])
def test_more_than_32_bits_reach_is_refused(channels: int) -> None:
    """Kernels count elements in int32, from the corner of what they read: parts of larger images can be read."""
    height, width = 40000, 65536 // channels
    images = zeros(2, height, width, channels)
    images[1, -40:, -40:] = 200
    limit = r"image 0 is too large: [\d,]+ rows of [\d,]+ values are needed at once, and at most 2,147,483,647"
    with pytest.raises(ValueError, match=limit):
        gi.resize(images, (10, 10), interpolation="nearest").array()
    corner = gi.resized_crop(images, height - 40, width - 40, 40, 40, (4, 4), interpolation="nearest").array("uint8")
    assert corner[1].min() == corner[1].max() == 200
    assert not corner[0].any()


def test_reach_at_its_limit() -> None:
    regions = np.array([[5, 10, 9, 10 + (1 << 15)], [0, 0, 1, 1]])
    check_reach(regions, np.array([(1 << 16) - 1, (1 << 31) - 1]))
    check_reach(regions[:0], np.zeros(0, np.int64))
    for strides, image in (((1 << 16, 1), 0), ((1, 1 << 31), 1)):
        with pytest.raises(ValueError, match=f"image {image} is too large"):
            check_reach(regions, np.array(strides))


# -- an interpolation for each image -----------------------------------------------------------------------------------

CORNERS = [(0, 0), (9, 0), (9, 9), (0, 9)]
OF_EACH: dict[str, Any] = {
    "resize": lambda x, how: gi.resize(x, (20, 14), how),
    "resize exactly": lambda x, how: gi.resize(x, (20, 14), how, exact="pillow"),
    "resized_crop": lambda x, how: gi.resized_crop(x, 3, 2, 25, 20, (11, 12), how),
    "rotate": lambda x, how: gi.rotate(x, 17, how),
    "affine": lambda x, how: gi.affine(x, 9, (1.5, 0.5), 1.1, 3, how),
    "perspective": lambda x, how: gi.perspective(x, CORNERS, [(0, 0), (9, 1), (9, 9), (1, 9)], how),
    "random_resized_crop": lambda x, how: gi.random_resized_crop(x, 9, interpolation=how, rng=3),
}


@pytest.mark.parametrize("name", OF_EACH)
def test_an_interpolation_for_each_image(name: str) -> None:
    images = np.random.default_rng().integers(0, 256, (6, 31, 33, 3), np.uint8)
    how = np.array(["bicubic", "bilinear", "bilinear", "bicubic", "bilinear", "bicubic"])
    found = OF_EACH[name](images, how).array("float32")
    each = {one: OF_EACH[name](images, one).array("float32") for one in ("bilinear", "bicubic")}
    assert not np.array_equal(each["bilinear"], each["bicubic"])
    np.testing.assert_array_equal(found, [each[one][i] for i, one in enumerate(how.tolist())])


def test_elastic_interpolation_for_each_image() -> None:
    images = np.random.default_rng().integers(0, 256, (2, 31, 33, 3), np.uint8)
    found = gi.elastic(images, interpolation=np.array(["nearest", "bilinear"]), seed=1).array()
    for i, how in enumerate(("nearest", "bilinear")):
        np.testing.assert_array_equal(found[i], gi.elastic(images, interpolation=how, seed=1).array()[i])


def test_interpolations_of_another_number_are_refused() -> None:
    images = np.zeros((3, 8, 8, 3), np.uint8)
    message = (
        r"interpolation must be one name, or an array of shape \(3,\) with one for each image, not of shape \(2,\)"
    )
    with pytest.raises(ValueError, match=message):
        gi.rotate(images, 4, np.array(["nearest", "bilinear"]))
    with pytest.raises(ValueError, match=r"interpolation must be .*not 'lanczos'"):
        gi.rotate(images, 4, np.array(["nearest", "bilinear", "lanczos"]))
    with pytest.raises(ValueError, match=r"interpolation must be one of .*not 'nearest'"):
        gi.resize(images, 4, np.array(["nearest", "bilinear", "lanczos"]), exact="pillow")
