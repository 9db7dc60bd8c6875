"""Masks, boxes and points against NumPy formulas, torchvision's numbers, and the pixels that the images show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from .calls import CALLS, RESIZING

#: Every function that moves pixels.
MOVING = [*RESIZING, "horizontal_flip", "vertical_flip", "rotate", "affine", "perspective", "elastic"]
BORDERS = ("pad edge", "pad reflect", "pad symmetric")


def blank(n: int = 1, height: int = 40, width: int = 60) -> NDArray[np.uint8]:
    return np.zeros((n, height, width, 3), np.uint8)


def boxes_of(rng: np.random.Generator, n: int, count: int, height: int, width: int) -> NDArray[np.float64]:
    """Random boxes with whole coordinates, at least 2 x 2."""
    start = rng.integers(0, (width - 2, height - 2), (n, count, 2))
    stop = rng.integers(start + 2, np.broadcast_to((width + 1, height + 1), start.shape))
    return np.concatenate([start, stop], 2).astype(np.float64)


@pytest.mark.parametrize("name", [name for name in MOVING if name != "letterbox"])  # which is always bilinear
@pytest.mark.parametrize("dtype", ["uint8", "int64", "bool"])
def test_masks_move_as_nearest_images(name: str, dtype: str) -> None:
    rng = np.random.default_rng()
    labels = rng.integers(0, 2 if dtype == "bool" else 120, (8, 31, 40)).astype(dtype)
    call = CALLS[name]
    each = call.each(rng, 8, 1.0)
    masks = gi.transform_masks(call.run(np.zeros((8, 31, 40, 3), np.uint8), each), labels)
    nearest = call._replace(fixed={k: v for k, v in call.fixed.items() if k != "antialias"})
    if "interpolation" in call.fixed or name in ("resize", "resized_crop", "perspective"):
        nearest = nearest._replace(fixed=nearest.fixed | {"interpolation": "nearest"})
    each = each | ({"fill": 0} if "fill" in each else {})
    pictures = nearest.run(labels[..., None].astype(np.float32), each).compute()
    assert len(masks) == len(pictures) == 8
    for mask, picture in zip(masks, pictures, strict=True):
        assert mask.dtype == dtype
        # An edge of a fill may blend a pixel of the picture; never one of the mask.
        whole = picture[..., 0] == np.round(picture[..., 0])
        assert whole.mean() > 0.99
        np.testing.assert_array_equal(mask[whole], picture[..., 0][whole].astype(dtype))


@pytest.mark.parametrize(("dtype", "fill"), [("uint8", 255), ("int32", -1), ("int64", 1 << 24), ("bool", True)])
def test_masks_hold_labels_and_the_fill_only(dtype: str, fill: int) -> None:
    rng = np.random.default_rng()
    some = {"bool": [0, 1], "uint8": [3, 200]}.get(dtype, [3, (1 << 24) - 1])
    labels = rng.choice(np.array(some, dtype), (8, 90, 90))
    x = gi.rotate(np.zeros((8, 90, 90, 1), np.uint8), rng.uniform(20, 70, 8), "bilinear", fill=99)
    masks = gi.transform_masks(gi.affine(x, rng.uniform(-20, 20, 8), (3, 4), 0.7, 5, fill=50), labels, fill=fill)
    assert set(np.unique(masks).tolist()) == {*some, fill}
    assert np.all(masks[:, 0, 0] == fill)


def test_masks_know_no_color() -> None:
    mask = np.random.default_rng().integers(0, 256, (2, 30, 40), np.uint8)
    x = gi.erase(gi.crop(np.zeros((2, 30, 40, 3), np.uint8), 3, 4, 20, 30), 1, 2, 5, 6, 9)
    x = gi.gaussian_blur(gi.rgb_to_grayscale(gi.adjust_contrast(gi.equalize(x), 0.0)), 3)
    x = gi.adjust_sharpness(gi.adjust_sharpness(gi.pad(gi.vertical_flip(x), 1, 9), 0.5), 2.0)
    expected = np.pad(mask[:, 3:23, 4:34], ((0, 0), (1, 1), (1, 1)))[:, ::-1, ::-1]
    np.testing.assert_array_equal(gi.transform_masks(gi.normalize(gi.horizontal_flip(x), 0.5, 0.5), mask), expected)


def test_boxes_by_formula() -> None:
    boxes = boxes_of(np.random.default_rng(), 3, 5, 40, 60)
    x0, y0, x1, y1 = np.moveaxis(boxes, 2, 0)
    left, right = np.clip([x0 - 11, x1 - 11], 0, 30)
    top, bottom = np.clip([y0 - 7, y1 - 7], 0, 20)
    x = blank(3)
    for moved, expected in (
        (gi.horizontal_flip(x), (60 - x1, y0, 60 - x0, y1)),
        (gi.vertical_flip(x), (x0, 40 - y1, x1, 40 - y0)),
        (gi.resize(x, (20, 45)), (x0 * 0.75, y0 * 0.5, x1 * 0.75, y1 * 0.5)),
        (gi.pad(x, (1, 2, 3, 4)), (x0 + 1, y0 + 2, x1 + 1, y1 + 2)),
        (gi.crop(x, 7, 11, 20, 30), (left, top, right, bottom)),
        (gi.rotate(x, 90, expand=True), (y0, 60 - x1, y1, 60 - x0)),
        (gi.horizontal_flip(x, where=np.zeros(3, bool)), (x0, y0, x1, y1)),
    ):
        result, kept = gi.transform_boxes(moved, boxes)
        np.testing.assert_array_equal(result, np.stack(expected, 2))
        np.testing.assert_array_equal(kept, np.all(result[..., 2:] > result[..., :2], 2))


# torchvision 0.28, float64, an image of 40 x 60 pixels and the boxes (4, 6, 20, 15) and (30, 2, 50, 31).
TORCHVISION: list[tuple[Callable[[Any], gi.Batch], list[list[float]]]] = [
    (lambda x: gi.rotate(x, 30), [[0.4833395, 12.8756443, 18.839746, 28.669873], [21, 0, 52.8205081, 29.5262794]]),
    (
        lambda x: gi.affine(x, 20, (3, -4), 1.25, (10.0, 5.0)),
        [[4.6936805, 0, 29.8571227, 7.1656444], [25.9463941, 0, 60, 34.7860631]],
    ),
    (
        lambda x: gi.perspective(x, [(0, 0), (60, 0), (60, 40), (0, 40)], [(2, 1), (55, 3), (58, 39), (4, 36)]),
        [[5.7512778, 6.3132123, 20.2147579, 14.7591347], [28.2684159, 3.7321331, 48.1497358, 30.3165244]],
    ),
    (lambda x: gi.resized_crop(x, 3, 10, 20, 30, (40, 45)), [[0, 6, 15, 24], [30, 0, 45, 40]]),
    (
        lambda x: gi.rotate(gi.crop(x, 3, 10, 20, 30), -15),
        [[0, 0, 11.9821042, 10.6377564], [17.2414387, 1.634837, 30, 20]],
    ),
]


@pytest.mark.parametrize(("move", "expected"), TORCHVISION, ids=["rotate", "affine", "perspective", "crop", "cut"])
def test_boxes_as_torchvision(move: Callable[[Any], gi.Batch], expected: list[list[float]]) -> None:
    boxes, kept = gi.transform_boxes(move(blank()), [[(4, 6, 20, 15), (30, 2, 50, 31)]])
    np.testing.assert_allclose(boxes[0], expected, atol=1e-5)
    assert kept[0].tolist() == [True, True]


@pytest.mark.parametrize("name", [name for name in MOVING if name not in BORDERS])  # whose masks go on where boxes end
def test_boxes_are_where_the_pixels_are(name: str) -> None:
    rng = np.random.default_rng(8)
    n, height, width = 40, 50, 60
    boxes = boxes_of(rng, n, 1, height, width)
    marked = np.zeros((n, height, width), bool)
    for mask, (x0, y0, x1, y1) in zip(marked, boxes[:, 0].astype(int), strict=True):
        mask[y0:y1, x0:x1] = True
    x = CALLS[name].run(np.zeros((n, height, width, 1), np.uint8), CALLS[name].each(rng, n, 1.0))
    moved, kept = gi.transform_boxes(x, boxes)
    checked = 0
    for mask, box, seen in zip(gi.transform_masks(x, marked), moved[:, 0], kept[:, 0], strict=True):
        rows, columns = np.nonzero(mask)
        assert seen or not len(rows)
        if not len(rows):
            continue
        shown = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
        # All pixels whose centers it holds; at corners of a turned box fewer, where those are sharp.
        assert np.all(shown[:2] >= box[:2] - 0.51)
        assert np.all(shown[2:] <= box[2:] + 0.51)
        inside = np.all(box[2:] - box[:2] > 12) and np.all((box[:2] > 0) & (box[2:] < mask.shape[::-1]))
        if name not in ("rotate", "rotate expand", "affine", "perspective") or (inside and name.startswith("rotate")):
            np.testing.assert_allclose(shown, box, atol=2.1 if name.startswith("rotate") else 0.51)
            checked += 1
    assert checked > 5 or name in ("affine", "perspective")


def test_boxes_keep_their_form() -> None:
    x = gi.horizontal_flip(blank(3))
    ragged: list[Any] = [np.array([(0, 0, 6, 4), (1, 2, 3, 4)], np.float32), np.zeros((0, 4), np.float32), []]
    boxes, kept = gi.transform_boxes(x, ragged)
    assert [b.tolist() for b in boxes] == [[[54, 0, 60, 4], [57, 2, 59, 4]], [], []]
    assert [k.tolist() for k in kept] == [[True, True], [], []]
    assert [b.shape for b in boxes] == [(2, 4), (0, 4), (0, 4)]
    for given, dtype in ((np.zeros((3, 0, 4)), "float64"), (np.zeros((3, 2, 4), np.float32), "float32")):
        assert (gi.transform_boxes(x, given)[0].shape, gi.transform_boxes(x, given)[0].dtype) == (given.shape, dtype)
    assert gi.transform_boxes(x, np.zeros((3, 2, 4), np.int64))[0].dtype == np.float64


def test_kept_is_what_is_seen() -> None:
    cut = gi.crop(blank(), 0, 20, 40, 20)
    boxes = [[(0, 0, 19, 40), (41, 10, 60, 30), (10, 10, 25, 30), (20, 10, 20, 30)]]
    # The crop shows columns 20 to 40; rotating it brings black into view, not the columns next to it.
    turned, smaller = gi.rotate(cut, 30, "bilinear"), gi.crop(gi.resize(blank(), (20, 30)), 0, 10, 20, 10)
    for x in (turned, gi.pad(cut, 20, padding_mode="edge"), gi.pad(smaller, 20), gi.pad(gi.gaussian_blur(cut, 3), 20)):
        assert gi.transform_boxes(x, boxes)[1][0].tolist() == [False, False, True, False]


def test_options_of_boxes() -> None:
    small = gi.resize(blank(2), (20, 30))
    _, kept = gi.transform_boxes(small, np.tile([(0.0, 0, 10, 4)], (2, 1, 1)), min_area=[9.99, 10.0])
    assert kept.tolist() == [[True], [False]]
    cut = gi.crop(blank(), 10, 10, 10, 10)
    boxes, kept = gi.transform_boxes(cut, [[(5, 5, 15, 15), (0, 0, 3, 3)]], clip=False)
    assert (boxes[0].tolist(), kept[0].tolist()) == ([[-5, -5, 5, 5], [-10, -10, -7, -7]], [True, False])
    around = [[(5, 5, 14, 15), (5, 5, 16, 16), (10, 0, 20, 24)]]
    assert gi.transform_boxes(gi.pad(cut, 30), around)[1][0].tolist() == [True, True, True]
    assert gi.transform_boxes(gi.pad(cut, 30), around, centers=True)[1][0].tolist() == [False, True, True]


def test_box_across_the_horizon() -> None:
    x = gi.perspective(blank(1, 40, 50), [(0, 0), (50, 0), (50, 40), (0, 40)], [(0, 0), (50, 0), (120, 400), (20, 20)])
    boxes, kept = gi.transform_boxes(x, [[(0, 0, 50, 40)]])
    assert (boxes[0].tolist(), kept[0].tolist()) == ([[0, 0, 50, 40]], [True])


@pytest.mark.parametrize("name", ["rotate", "affine", "perspective", "resize plain", "horizontal_flip", "crop"])
def test_points_are_where_the_pixels_are(name: str) -> None:
    # An image whose values are its coordinates, sampled bilinearly, says where each result pixel came from.
    rng = np.random.default_rng(10)
    n, height, width = 6, 30, 40
    picture = np.zeros((height, width, 3), np.float32)
    picture[..., 0], picture[..., 1] = np.arange(width) + 0.5, np.arange(height)[:, None] + 0.5
    call = CALLS[name]
    options: dict[str, Any] = {"interpolation": "bilinear"} if "interpolation" in call.fixed else {}
    each = call.each(rng, n, 1.0) | ({"fill": None} if name in ("rotate", "affine", "perspective") else {})
    x = call._replace(fixed=call.fixed | options).run(np.stack([picture] * n), each)
    results = [result[..., :2].astype(np.float64) for result in x.compute()]
    # Away from the border, where the values are those of its outermost pixels.
    inner = [np.all((source > 1.0) & (source < (width - 1.0, height - 1.0)), -1) for source in results]
    moved = gi.transform_points(x, [source[here] for source, here in zip(results, inner, strict=True)])
    for found, here in zip(moved, inner, strict=True):
        np.testing.assert_allclose(found, np.argwhere(here)[:, ::-1] + 0.5, atol=1e-3)
    assert sum(map(len, moved)) > 300


# torchvision 0.28, float64: keypoints (4, 6) and (30, 2) of an image of 40 x 60 pixels, and which pixel_indices agrees.
KEYPOINTS: list[tuple[Callable[[Any], gi.Batch], list[list[float]], tuple[bool, ...]]] = [
    (gi.horizontal_flip, [[55.0, 6.0], [29.0, 2.0]], (True,)),
    (gi.horizontal_flip, [[56.0, 6.0], [30.0, 2.0]], (False,)),  # not torchvision's
    (gi.vertical_flip, [[4.0, 33.0], [30.0, 37.0]], (True,)),
    (lambda x: gi.resize(x, (20, 45)), [[3.0, 3.0], [22.5, 1.0]], (False,)),
    (lambda x: gi.rotate(x, 30), [[0.48333950, 20.87564435], [21.0, 4.41154273]], (False,)),
    (lambda x: gi.crop(x, 1, 3, 30, 40), [[1.0, 5.0], [27.0, 1.0]], (False, True)),
    (lambda x: gi.pad(x, (1, 2, 3, 4)), [[5.0, 8.0], [31.0, 4.0]], (False, True)),
    # Through all segments; not torchvision's.
    (
        lambda x: gi.vertical_flip(gi.resize(gi.gaussian_blur(gi.crop(x, 2, 3, 30, 40), 3), (60, 20))),
        [[0.5, 52.0], [13.5, 60.0]],
        (False,),
    ),
]


@pytest.mark.parametrize(("move", "expected", "equal"), KEYPOINTS)
def test_points_equal_torchvisions_keypoints_as_documented(
    move: Callable[[Any], gi.Batch], expected: list[list[float]], equal: tuple[bool, ...]
) -> None:
    points = np.array([[(4.0, 6.0), (30.0, 2.0)]])
    for setting in (False, True):
        moved = gi.transform_points(move(blank()), points, pixel_indices=setting)[0]
        assert np.allclose(moved, expected, atol=1e-6) == (setting in equal)


def torchvision_iou_crop(height: int, width: int, boxes: Any, rounds: Any, options: Any, trials: int) -> Any:
    """``RandomIoUCrop.make_params`` of torchvision 0.28 on given numbers; the window or None for "as it is"."""
    for unit in rounds:
        wanted = options[int(unit[0] * len(options))]
        if wanted >= 1.0:
            return None
        for r in unit[1 : 1 + 4 * trials].reshape(trials, 4):
            new_w, new_h = int(width * (0.3 + 0.7 * r[0])), int(height * (0.3 + 0.7 * r[1]))
            left, top = int((width - new_w) * r[2]), int((height - new_h) * r[3])
            if not 0.5 <= new_w / new_h <= 2.0 or new_w == 0 or new_h == 0:
                continue
            right, bottom = left + new_w, top + new_h
            overlaps = []
            for x0, y0, x1, y1 in boxes:
                if left < 0.5 * (x0 + x1) < right and top < 0.5 * (y0 + y1) < bottom:
                    shared = max(0, min(right, x1) - max(left, x0)) * max(0, min(bottom, y1) - max(top, y0))
                    overlaps.append(shared / ((x1 - x0) * (y1 - y0) + new_w * new_h - shared))
            if max(overlaps, default=-1) >= wanted:
                return top, left, new_h, new_w
    return None


@pytest.mark.parametrize("options", [None, [0.7], [0.0, 0.5]])
def test_random_iou_crop_as_torchvision(options: Any) -> None:
    rng = np.random.default_rng(11)
    n = 60
    sizes = rng.integers(20, 90, (n, 2))
    boxes = [boxes_of(rng, 1, int(rng.integers(0, 6)), h, w)[0] for h, w in sizes]
    pictures = [np.zeros((h, w, 1), np.uint8) for h, w in sizes]
    x = gi.random_iou_crop(pictures, boxes, rng=gi.Rng(5, indices=np.arange(n)), sampler_options=options, trials=7)
    own = gi.Rng(5, indices=np.arange(n)).fork()
    rounds = np.stack([own.units(29) for _ in range(50)], 1)
    corners = gi.transform_points(x, [np.zeros((1, 2))] * n)
    moved, kept = gi.transform_boxes(x, boxes, centers=True)
    cropped = 0
    for i, size in enumerate(sizes.tolist()):
        wanted = options or [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
        found = torchvision_iou_crop(*size, boxes[i], rounds[i], wanted, 7)
        top, left, *new = found or (0, 0, *size)
        assert (x.sizes[i].tolist(), corners[i].tolist()) == (new, [[-left, -top]])
        assert np.all(moved[i][:, 2:] <= new[::-1])
        assert found is None or kept[i].any()
        cropped += found is not None
    assert cropped > 5


def test_iou_crop_does_not_depend_on_the_batch() -> None:
    rng = np.random.default_rng(12)
    boxes = boxes_of(rng, 12, 3, 40, 60)
    whole = gi.Rng(3, indices=np.arange(12))
    x = gi.random_iou_crop(blank(12), boxes, rng=whole)
    again = gi.random_iou_crop(blank(12), boxes, rng=whole)
    assert x.sizes.tolist() != again.sizes.tolist()
    after = whole.uniform()
    for i in range(12):
        one = gi.Rng(3, indices=[i])
        assert gi.random_iou_crop(blank(1), boxes[i : i + 1], rng=one).sizes.tolist() == x.sizes[i : i + 1].tolist()
        assert gi.random_iou_crop(blank(1), boxes[i : i + 1], rng=one).sizes.tolist() == again.sizes[i : i + 1].tolist()
        assert one.uniform()[0] == after[i]


def test_no_images() -> None:
    x = gi.rotate(np.zeros((0, 5, 6, 3), np.uint8), 30)
    assert gi.transform_masks(x, np.zeros((0, 5, 6), np.int32)).shape == (0, 0, 0)
    assert gi.transform_masks(x, []).shape == (0, 0, 0)
    assert gi.transform_boxes(x, []) == ([], [])
    assert gi.transform_boxes(x, np.zeros((0, 3, 4)))[0].shape == (0, 3, 4)
    assert gi.transform_points(x, np.zeros((0, 3, 2))).shape == (0, 3, 2)
    assert len(gi.random_iou_crop(x, [], rng=0)) == 0


def test_images_that_could_not_be_read(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (40, 30)).save(tmp_path / "good.jpg")
    x = gi.open_batch([tmp_path / "good.jpg", b"not an image"], device="cpu", on_error="fill")
    boxes = np.tile([(0.0, 0, 20, 10)], (2, 1, 1))
    x = gi.resize(gi.random_iou_crop(x, boxes, rng=1), (8, 8))
    assert gi.transform_boxes(x, boxes)[1].tolist() == [[True], [False]]
    masks = gi.transform_masks(x, np.full((2, 30, 40), 5, np.uint8))
    assert masks[0].tolist() == np.full((8, 8), 5).tolist()
    assert not masks[1].any()
