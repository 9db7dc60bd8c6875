"""Windows, CLAHE, tables and positions against OpenCV and formulas, and what follows them."""

import itertools
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

import gpuimg as gi

from ..compare import assert_same
from ..libraries import library
from ..robustness.guard_pages import Flush
from ..samples import pictures
from .calls import CALLS

Image = NDArray[Any]

_KINDS = {"erode": cv2.MORPH_ERODE, "dilate": cv2.MORPH_DILATE, "open": cv2.MORPH_OPEN, "close": cv2.MORPH_CLOSE}
_SHAPES = {"rectangle": cv2.MORPH_RECT, "cross": cv2.MORPH_CROSS, "ellipse": cv2.MORPH_ELLIPSE}
_BORDERS = {"constant": cv2.BORDER_CONSTANT, "edge": cv2.BORDER_REPLICATE, "reflect": cv2.BORDER_REFLECT_101,
            "symmetric": cv2.BORDER_REFLECT}  # fmt: skip


def images_of(rng: np.random.Generator, count: int, channels: int, dtype: str = "uint8") -> list[Image]:
    """Noise, flat images and slopes; a fifth have one row or one column."""
    found: list[Image] = []
    for k in range(count):
        height, width = rng.integers(1, 60, 2)
        height, width = (1, width) if k % 10 == 3 else (height, 1) if k % 10 == 7 else (height, width)
        slope = np.add.outer(np.arange(height) * 1.5, np.arange(width))[..., None] + rng.normal(
            0, 9, (height, width, channels)
        )
        flat, noise = (
            np.full((height, width, channels), rng.integers(256)),
            rng.integers(0, 256, (height, width, channels)),
        )
        levels = np.clip((slope, flat, noise)[k % 3], 0, 255).astype(np.uint8)
        found.append(levels if dtype == "uint8" else levels.astype(np.float32) / 255)
    return found


def clahe(image: Image, limit: float, tiles: tuple[int, int]) -> Any:
    equalizer = cv2.createCLAHE(limit, tiles)
    if image.shape[2] == 1:
        return equalizer.apply(image[..., 0])
    parts = cv2.cvtColor(image, cv2.COLOR_RGB2YCrCb)
    parts[..., 0] = equalizer.apply(np.ascontiguousarray(parts[..., 0]))
    return cv2.cvtColor(parts, cv2.COLOR_YCrCb2RGB)


#: A batch of some function, and OpenCV's result for one of its images; parameters are drawn for each image.
Compared = tuple[gi.Batch, Callable[[Image, int], Any]]


def medians(images: list[Image], rng: np.random.Generator) -> Compared:
    sizes = rng.choice((3, 5, 7), len(images))
    return gi.median_blur(images, sizes), lambda image, k: cv2.medianBlur(image, int(sizes[k]))


def morphologies(images: list[Image], rng: np.random.Generator) -> Compared:
    kind, shape = str(rng.choice(list(_KINDS))), str(rng.choice(list(_SHAPES)))
    sizes = rng.integers(1, 32, (len(images), 2))
    return gi.morphology(images, kind, sizes, shape), lambda image, k: cv2.morphologyEx(
        image, _KINDS[kind], cv2.getStructuringElement(_SHAPES[shape], sizes[k].tolist())
    )


def filters(images: list[Image], rng: np.random.Generator) -> Compared:
    mode = str(rng.choice(list(_BORDERS)))
    kernels = [rng.normal(0, 0.3, rng.integers(1, 11, 2)).astype(np.float32) for _ in images]
    if mode == "constant":  # OpenCV's filter2D has no color
        return gi.filter2d(images, kernels, mode, 9), lambda image, k, depth=-1: cv2.filter2D(
            cv2.copyMakeBorder(image, 10, 10, 10, 10, cv2.BORDER_CONSTANT, value=(9, 9, 9)), depth, kernels[k]
        )[10 : 10 + image.shape[0], 10 : 10 + image.shape[1]]
    return gi.filter2d(images, kernels, mode), lambda image, k, depth=-1: cv2.filter2D(
        image, depth, kernels[k], borderType=_BORDERS[mode]
    )


def contrasts(images: list[Image], rng: np.random.Generator) -> Compared:
    limits, tiles = rng.choice((0.0, 0.5, 1.0, 2.3, 4.0, 40.0), len(images)), rng.integers(1, 10, (len(images), 2))
    return gi.clahe(images, limits, tiles), lambda image, k: clahe(image, float(limits[k]), tuple(tiles[k].tolist()))


def samples(images: list[Image], rng: np.random.Generator) -> Compared:
    mode, nearest = str(rng.choice(list(_BORDERS))), bool(rng.integers(2))
    grids = [np.float32(rng.uniform(-2, 3, (*rng.integers(1, 50, 2), 2)) * image.shape[1::-1]) for image in images]
    how = "nearest" if nearest else "bilinear"
    return gi.remap(images, grids, how, mode, 9), lambda image, k: cv2.remap(
        image, grids[k], None, cv2.INTER_NEAREST if nearest else cv2.INTER_LINEAR, borderMode=_BORDERS[mode],
        borderValue=(9, 9, 9),
    )  # fmt: skip


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("function", [medians, morphologies, filters, contrasts, samples])
def test_bytes_are_opencvs(function: Any, channels: int) -> None:
    """At the ends of rows OpenCV rounds each product of a filter: sums within 0.001 of a half may be the next level."""
    rng, different = np.random.default_rng(), 0
    for _ in range(4):
        images = images_of(rng, 15, channels)
        batch, reference = function(images, rng)
        for k, (image, one) in enumerate(zip(images, batch, strict=True)):
            apart = np.abs(one.astype(int) - reference(image, k).reshape(*one.shape))
            if function is filters and apart.any():
                exact = reference(image, k, cv2.CV_64F).reshape(*one.shape)
                assert np.abs(exact[apart > 0] % 1 - 0.5).max() < 0.001
            assert apart.max() <= (function is filters)
            different += int(apart.sum())
    assert different <= (function is filters)


def test_long_kernels_are_opencvs_up_to_a_level() -> None:
    """OpenCV sums those by a Fourier transform, we in two passes where they are products."""
    rng = np.random.default_rng()
    images = images_of(rng, 20, 3)
    column, row = rng.random(13), rng.random(31)
    for kernel in (
        np.outer(column, row) / (column.sum() * row.sum()),
        rng.normal(0, 0.05, (21, 12)).astype(np.float32),
    ):
        for image, one in zip(images, gi.filter2d(images, kernel), strict=True):
            expected = cv2.filter2D(image, -1, kernel.astype(np.float32)).reshape(image.shape)
            assert np.abs(one.astype(int) - expected).max() <= 1


def test_floats_are_not_rounded() -> None:
    """Also of 16 bits, of other than 1 or 3 channels, and after normalize."""
    rng = np.random.default_rng()
    images = images_of(rng, 12, 3, "float32")
    for image, one in zip(images, gi.median_blur(images, 5), strict=True):
        np.testing.assert_array_equal(one, cv2.medianBlur(image, 5).reshape(image.shape))
    for image, one in zip(images, gi.morphology(images, "close", (4, 7)), strict=True):
        expected = cv2.morphologyEx(image, cv2.MORPH_CLOSE, np.ones((7, 4), np.uint8))
        np.testing.assert_array_equal(one, expected.reshape(image.shape))
    kernel = rng.normal(0, 0.4, (3, 5))
    shifted = gi.normalize(images, 0.5, 0.25)
    for mean, (image, one) in (
        (m, pair)
        for m, x in ((0.0, images), (0.5, shifted))
        for pair in zip(images, gi.filter2d(x, kernel), strict=True)
    ):
        given = (image.astype(np.float64) - mean) / (0.25 if mean else 1.0)
        expected = cv2.filter2D(given, -1, kernel).reshape(image.shape)
        np.testing.assert_allclose(one, expected if mean else np.clip(expected, 0, 1), atol=1e-5)
    deep = rng.integers(0, 1 << 16, (2, 20, 30, 3)).astype(np.uint16)
    table = rng.integers(0, 1 << 16, 1 << 16)
    np.testing.assert_array_equal(gi.lookup_table(deep, table).array(), table[deep])
    np.testing.assert_array_equal(gi.median_blur(deep, 3).array(), np.stack([cv2.medianBlur(one, 3) for one in deep]))
    many = rng.integers(0, 256, (1, 20, 30, 5), np.uint8)
    np.testing.assert_array_equal(gi.median_blur(many, 5).array()[0], cv2.medianBlur(many[0], 5))


def test_tables() -> None:
    rng = np.random.default_rng()
    images = rng.integers(0, 256, (3, 9, 8, 3), np.uint8)
    for shape in ((256,), (256, 3), (3, 256, 1), (3, 256, 3)):
        table = rng.integers(0, 256, shape)
        each = np.broadcast_to(table[:, None] if table.ndim == 1 else table, (3, 256, 3))
        expected = np.take_along_axis(each, images.reshape(3, -1, 3).astype(np.int64), 1).reshape(images.shape)
        np.testing.assert_array_equal(gi.lookup_table(images, table).array(), expected)
    values, entries = rng.random((1, 7, 6, 3)).astype(np.float32), rng.random(5)
    found = gi.lookup_table(values, entries).array()
    np.testing.assert_array_equal(found, entries.astype(np.float32)[np.rint(values * 4).astype(int)])


def test_positions_are_those_of_grid_sample() -> None:
    torch = library("torch")
    rng = np.random.default_rng()
    images = rng.random((2, 21, 34, 3)).astype(np.float32)
    grid = rng.uniform(-8, 40, (2, 15, 12, 2)).astype(np.float32)
    share = torch.from_numpy((grid + 0.5) / (34 / 2, 21 / 2) - 1).float()
    for ours, theirs in (("constant", "zeros"), ("edge", "border"), ("symmetric", "reflection")):
        given = torch.from_numpy(images).permute(0, 3, 1, 2)
        expected = torch.nn.functional.grid_sample(given, share, padding_mode=theirs, align_corners=False)
        found = gi.remap(images, grid, padding_mode=ours).array("float32", "NCHW")
        np.testing.assert_allclose(found, expected.numpy(), atol=2e-5)


GRIDS = {
    "grid": lambda size: gi.grid_distortion(size, [1.0, 1.6, 0.7, 1.0], [0.8, 1.0, 1.4]),
    "lens": lambda size: gi.optical_distortion(size, -0.2, 2.0, -3.0),
    "spline": lambda size: gi.thin_plate_spline(
        size, [(0, 0), (1, 0), (0, 1), (1, 1), (0.4, 0.5)], [(0, 0.1), (1, 0), (0, 1), (0.9, 1), (0.5, 0.5)]),
}  # fmt: skip


@pytest.mark.parametrize("name", GRIDS)
def test_points_follow_positions(name: str) -> None:
    """A bright dot of the image is where its point moves, and the position there is that of the point."""
    rng, size = np.random.default_rng(), (60, 80)
    points = rng.uniform(12, (68, 48), (20, 1, 2))
    rows, columns = np.mgrid[:60, :80] + 0.5
    dots = [np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / 3)[..., None].astype(np.float32) for ((x, y),) in points]
    grid = GRIDS[name](size)
    moved = gi.remap(dots, grid)
    for dot, (given,), ((x, y),) in zip(moved, points, gi.transform_points(moved, points), strict=True):
        share = dot[..., 0] / dot.sum()
        assert np.hypot((share * columns).sum() - x, (share * rows).sum() - y) < 1.0
        there = [ndimage.map_coordinates(grid[..., k], [[y - 0.5], [x - 0.5]], order=1)[0] + 0.5 for k in (0, 1)]
        np.testing.assert_allclose(there, given, atol=1e-3)


def test_grids_of_no_distortion() -> None:
    rows, columns = np.mgrid[:9, :7]
    corners = np.array([(0, 0), (1, 0), (0, 1), (1, 1)])
    for grid in (
        gi.grid_distortion((9, 7), [2, 2], [1]), gi.optical_distortion((9, 7), 0.0, 3.0),
        gi.thin_plate_spline((9, 7), corners, corners),
    ):  # fmt: skip
        np.testing.assert_allclose(grid, np.stack([columns, rows], -1), atol=1e-5)
    sizes = np.array([(9, 7), (5, 8)])
    assert [one.shape for one in gi.optical_distortion(sizes, [0.1, 0.2])] == [(9, 7, 2), (5, 8, 2)]
    assert gi.grid_distortion(sizes[[0, 0]], [1], [1]).shape == (2, 9, 7, 2)


def test_lens_is_opencvs() -> None:
    camera = np.array([[80, 0, 42], [0, 60, 27], [0, 0, 1]], np.float32)
    x, y = cv2.initUndistortRectifyMap(camera, np.float32([0.3, 0.3, 0, 0, 0]), None, camera, (80, 60), cv2.CV_32FC1)
    np.testing.assert_allclose(gi.optical_distortion((60, 80), 0.3, 2.5, -2.5), np.stack([x, y], -1), atol=1e-4)


@pytest.mark.parametrize("later", [
    lambda x: gi.rgb_to_grayscale(x, 1), lambda x: gi.normalize(gi.adjust_contrast(x, 0.6), 0.5, 0.25),
    lambda x: gi.resize(gi.horizontal_flip(x), (9, 40)), lambda x: gi.resize(x, (9, 40), exact="pillow"),
    lambda x: gi.equalize(gi.gaussian_blur(gi.adjust_sharpness(x, 2.0), 3)), lambda x: gi.jpeg(x, 50),
    lambda x: gi.crop(x, 3, 4, 9, 14), lambda x: gi.resized_crop(gi.horizontal_flip(x), 3, 4, 9, 14, (8, 8)),
    lambda x: gi.gaussian_blur(gi.crop(x, 3, 4, 9, 14), 3), lambda x: gi.median_blur(gi.crop(x, 3, 4, 9, 14), 3),
    lambda x: gi.resized_crop(x, 3, 4, 9, 14, (8, 8), exact="pillow"),
])  # fmt: skip
@pytest.mark.parametrize("op", [
    lambda x, **where: gi.median_blur(x, 3, **where), lambda x, **where: gi.clahe(x, 3.0, 3, **where),
    lambda x, **where: gi.remap(x, np.random.default_rng(0).uniform(-3, 30, (25, 22, 2)), **where),
])  # fmt: skip
def test_what_follows_has_the_results(op: Any, later: Any) -> None:
    """Also where some images stay as they are, and these are bytes, or float32 with exactly their values."""
    images = pictures([(25, 22)] * 3)
    for before in (
        lambda x: x,
        lambda x: gi.adjust_brightness(x, 1),
        lambda x: gi.crop(x, 2, 3, 25, 22),
        lambda x: gi.resize(gi.rotate(x, 20), (25, 22), exact="torch"),
    ):
        for where in (True, np.array([True, False, True]), np.array([False, False, True])):
            whole = op(before(images), where=where)
            found, expected = later(whole), later(whole.compute())
            if found.dtype == "uint8":
                assert_same(list(found.compute()), list(expected.compute()))
            np.testing.assert_allclose(found.array("float32", "NCHW"), expected.array("float32", "NCHW"), atol=1e-5)


def test_what_is_described_and_replayed() -> None:
    images = pictures([(20, 24)] * 2)
    x = gi.clahe(gi.remap(gi.morphology(images, "open", 3), np.zeros((5, 6, 2))), 2.0, where=[True, False])
    assert gi.describe(x, 0).splitlines()[1:-1] == [
        "erode with a rectangle of 3 x 3 pixels",
        "segment 2, on the result so far:", "dilate with a rectangle of 3 x 3 pixels",
        "segment 3, on the result so far:", "remap from given positions, bilinear",
        "segment 4, on the result so far:", "clahe 8 x 8 tiles, at most 1 pixel of a level",
    ]  # fmt: skip
    assert "clahe" not in gi.describe(x, 1)
    assert_same(list(gi.apply_plan(x, images).compute()), list(x.compute()))


@pytest.mark.parametrize("name", [
    "median_blur", "morphology open rectangle", "morphology dilate ellipse", "filter2d", "box_blur", "clahe",
    "lookup_table", "remap", "remap nearest",
])  # fmt: skip
def test_nothing_outside_is_touched(name: str) -> None:
    """Images and results lie before or behind pages that end the process when they are read or written."""
    rng = np.random.default_rng()
    for dtype, channels, kind, at_end in itertools.product(
        ("uint8", "float32"), (1, 3), ("uint8", "float32"), (True, False)
    ):
        shape = (2, *rng.integers(1, 40, 2).tolist(), channels)
        given = Flush(int(np.prod(shape)) * np.dtype(dtype).itemsize, 0x3E, at_end=at_end)
        x = CALLS[name].run(given.bytes.view(dtype).reshape(shape), CALLS[name].each(rng, 2, 1.0))
        results = (2, *x.sizes[0].tolist(), channels)
        out = Flush(int(np.prod(results)) * np.dtype(kind).itemsize, 0, at_end=at_end)
        x.array(kind, out=out.bytes.view(kind).reshape(results))
        assert not out.broken()
