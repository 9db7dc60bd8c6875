"""Boxes, points, key points and masks: against NumPy formulas, torchvision's numbers, OpenCV, and pixels."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from .. import references
from ..libraries import cases, library
from ..samples import file_of
from .calls import CALLS, MOVES, MOVING

cv2 = library("cv2")

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
    if "interpolation" in call.fixed or name in ("resize", "resized_crop", "perspective", "remap smooth"):
        nearest = nearest._replace(fixed=nearest.fixed | {"interpolation": "nearest"})
    each = each | ({"fill": 1e6} if "fill" in each else {})  # of which the smallest share shows
    pictures = nearest.run(labels[..., None].astype(np.float32), each).compute()
    assert len(masks) == len(pictures) == 8
    for mask, picture in zip(masks, pictures, strict=True):
        assert mask.dtype == dtype
        picture[picture == 1e6] = 0
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


@cases("torchvision", "name", MOVES)
def test_targets_are_torchvisions(name: str) -> None:
    """Visible boxes, rotated boxes, and points, where one of the two meanings of their numbers is torchvision's."""
    torch, tensors = library("torch"), library("torchvision.tv_tensors")
    v2 = library("torchvision.transforms.v2.functional")
    ours, theirs = MOVES[name]
    x, rng = ours(blank(1, 50, 60)), np.random.default_rng()

    def expected(kind: str, values: NDArray[Any], **options: Any) -> NDArray[Any]:
        given = getattr(tensors, kind)(torch.from_numpy(values), canvas_size=(50, 60), **options)
        return np.asarray(theirs(v2, given))

    boxes, rotated = boxes_of(rng, 1, 90, 50, 60)[0], rotated_boxes(rng, 30)
    (moved,), (kept,) = gi.transform_boxes(x, [boxes])
    np.testing.assert_allclose(moved[kept], expected("BoundingBoxes", boxes, format="XYXY")[kept], atol=1e-5)
    assert kept.sum() > 5
    moved = gi.transform_boxes(x, [rotated], format="cxcywhr", clip=False)[0][0]
    same(moved, expected("BoundingBoxes", rotated, format="CXCYWHR", clamping_mode=None))
    points = rng.uniform(0, (60, 50), (30, 2))
    for pixel_indices in (False, True):
        moved = gi.transform_points(x, [points], pixel_indices=pixel_indices)[0]
        agrees = name in ("crop", "center_crop", "pad") or pixel_indices == name.endswith("flip")
        assert np.allclose(moved, expected("KeyPoints", points), atol=1e-5) == agrees


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
        if name not in ("rotate", "rotate expand", "affine", "perspective", "remap smooth") or (
            inside and name.startswith("rotate")
        ):
            np.testing.assert_allclose(shown, box, atol=2.1 if name.startswith("rotate") else 0.51)
            checked += 1
    assert checked > 5 or name in ("affine", "perspective", "remap smooth")


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


def test_no_images() -> None:
    x = gi.rotate(np.zeros((0, 5, 6, 3), np.uint8), 30)
    assert gi.transform_masks(x, np.zeros((0, 5, 6), np.int32)).shape == (0, 5, 6)
    assert gi.transform_masks(x, np.zeros((0, 2, 5, 6), np.int32)).shape == (0, 2, 5, 6)
    assert gi.transform_masks(x, []).shape == (0, 5, 6)
    assert gi.transform_boxes(x, []) == ([], [])
    assert gi.transform_boxes(x, np.zeros((0, 3, 4)))[0].shape == (0, 3, 4)
    assert gi.transform_points(x, np.zeros((0, 3, 2))).shape == (0, 3, 2)
    assert len(gi.random_iou_crop(x, [], rng=0)) == 0


def test_images_that_could_not_be_read() -> None:
    x = gi.open_batch([file_of(blank(1, 30, 40)[0]), b"not an image"], device="cpu", on_error="fill")
    boxes = np.tile([(0.0, 0, 20, 10)], (2, 1, 1))
    x = gi.resize(gi.random_iou_crop(x, boxes, rng=1), (8, 8))
    assert gi.transform_boxes(x, boxes)[1].tolist() == [[True], [False]]
    masks = gi.transform_masks(x, np.full((2, 30, 40), 5, np.uint8))
    assert masks[0].tolist() == np.full((8, 8), 5).tolist()
    assert not masks[1].any()


UPRIGHT = ["xyxy", "xywh", "cxcywh"]
ROTATED = ["xyxyxyxy", "xywhr", "cxcywhr"]


def rotated_boxes(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Rotated boxes, some of which lie outside a canvas of 50 x 60 in part or as a whole."""
    center, size = rng.uniform((-15, -15), (75, 65), (count, 2)), rng.uniform(1, 40, (count, 2))
    return np.concatenate([center, size, rng.uniform(-180, 180, (count, 1))], 1)


def same(boxes: Any, expected: Any) -> None:
    """Rotated boxes, whose angles are equal up to whole turns."""
    one, other = np.array(boxes, np.float64), np.array(expected, np.float64)
    np.testing.assert_allclose(one[..., :4], other[..., :4], atol=1e-5)
    np.testing.assert_allclose((one[..., 4] - other[..., 4] + 180) % 360 - 180, 0, atol=1e-5)


def test_sheared_rotated_boxes_are_rectangles_around_what_becomes_of_them() -> None:
    rng = np.random.default_rng()
    for shear in ((30, 0), (-25, 10), (0, -40)):
        boxes = rotated_boxes(rng, 200)
        boxes[:, 4] %= 90  # where the angle of a side jumps by a whole turn, torchvision's rectangle is smaller
        x = gi.affine(blank(1, 50, 60), 20, (3, -4), 0.8, shear)
        moved = gi.transform_boxes(x, [boxes], format="cxcywhr", clip=False)[0][0]
        corners = gi.convert_bounding_box_format([boxes], "cxcywhr", "xyxyxyxy")[0].reshape(-1, 2)
        corners = np.asarray(gi.transform_points(x, [corners])[0]).reshape(-1, 4, 2)
        same(moved, [references.rectangle_around(each) for each in corners])


@pytest.mark.parametrize("formats", [UPRIGHT, ROTATED], ids=["upright", "rotated"])
def test_formats_are_torchvisions(formats: list[str]) -> None:
    torch, tensors = library("torch"), library("torchvision.tv_tensors")
    v2 = library("torchvision.transforms.v2.functional")
    boxes = rotated_boxes(np.random.default_rng(), 50)[:, : 4 + (formats is ROTATED)]
    given = tensors.BoundingBoxes(torch.from_numpy(boxes), format=formats[-1].upper(), canvas_size=(50, 60))
    every = {name: v2.convert_bounding_box_format(given, new_format=name.upper()).numpy() for name in formats}
    for old, new in itertools.product(formats, formats):
        found = gi.convert_bounding_box_format([every[old]], old, new)[0]
        same(found, every[new]) if new.endswith("r") else np.testing.assert_allclose(found, every[new], atol=1e-5)
    ragged = [np.zeros((2, 4), np.float32), np.zeros((0, 4), np.float32)]
    parts = gi.convert_bounding_box_format(ragged, "xyxy", "xywh")
    assert [(one.shape, one.dtype) for one in parts] == [((2, 4), np.float32), ((0, 4), np.float32)]


def test_visible_rotated_boxes() -> None:
    boxes = np.array([[(30.0, 25, 20, 8, 45), (5, 5, 4, 4, 10), (30, 10, 70, 2, 0)]])
    moved, kept = gi.transform_boxes(gi.crop(blank(1, 50, 60), 10, 20, 30, 30), boxes, format="cxcywhr")
    assert kept.tolist() == [[True, False, True]]
    same(moved[0, 0], (10, 15, 20, 8, 45))
    same(moved[0, 2], (15, 0.5, 30, 1, 0))
    moved, kept = gi.transform_boxes(
        gi.pad(blank(1, 50, 60), 0), [[(-5.0, 20, 30, 4, 0), (90, 90, 1, 1, 0)]], format="cxcywhr"
    )
    same(moved[0][0], (5, 20, 10, 4, 0))
    assert kept[0].tolist() == [True, False]


def test_upright_boxes_are_cut() -> None:
    boxes = np.array([[(-5, 10, 30, 60), (70, 5, 80, 7)], [(1, 2, 3, 4), (0, 0, 99, 99)]], np.float32)
    found = gi.clamp_bounding_boxes(boxes, (40, 20))
    assert found.tolist() == [[[0, 10, 20, 40], [20, 5, 20, 7]], [[1, 2, 3, 4], [0, 0, 20, 40]]]
    each = gi.clamp_bounding_boxes(boxes, np.array([(40, 20), (9, 7)]))
    assert each[1].tolist() == [[1, 2, 3, 4], [0, 0, 7, 9]]
    x = gi.resize(np.zeros((2, 5, 5, 3), np.uint8), (40, 20))
    np.testing.assert_array_equal(gi.clamp_bounding_boxes(boxes, x), found)
    assert gi.clamp_bounding_boxes([[(10, 10, 10, 30)]], (20, 60), format="cxcywh")[0].tolist() == [[10, 10, 10, 20]]


def test_rotated_boxes_are_cut_to_what_is_inside() -> None:
    """As torchvision; the result holds OpenCV's intersection with the image, touches each side, and keeps the angle."""
    two = gi.clamp_bounding_boxes([[(5, 25, 20, 8, 30), (58, 48, 12, 10, -60)]], (50, 60), format="cxcywhr")[0]
    same(two, [(5.830127, 24.520726, 18.082904, 8, 30), (57.183013, 46.584936, 8.732051, 10, -60)])
    boxes = rotated_boxes(np.random.default_rng(), 400)
    found = gi.clamp_bounding_boxes([boxes], (50, 60), format="cxcywhr")[0]
    corners = [gi.convert_bounding_box_format([b], "cxcywhr", "xyxyxyxy")[0].reshape(-1, 4, 2) for b in (boxes, found)]
    image = np.array([(0, 0), (60, 0), (60, 50), (0, 50)], np.float32)
    outside = 0
    for old, new, one, other in zip(boxes, found, *corners, strict=True):
        area, part = cv2.intersectConvexConvex(one.astype(np.float32), image)
        if area < 1e-2:
            outside += 1
            assert new[2] * new[3] < 1
            continue
        assert abs((new[4] - old[4] + 180) % 360 - 180) < 1e-6
        points = part.reshape(-1, 2).astype(np.float64) - other[0]
        for axis in (other[1] - other[0], other[3] - other[0]):
            length = np.linalg.norm(axis)
            along = points @ axis / length
            assert max(abs(along.min()), abs(along.max() - length)) < 1e-2
    assert outside < 200


def test_small_and_protruding_boxes_are_left_out() -> None:
    own = [(10, 20, 30, 60), (0, 5, 7, 6.5), (0, 0, 60, 50), (-1, 0, 5, 5), (3, 3, 3.5, 40), (5, 5, 4, 9), (1, 1, 2, 2)]
    kept, valid = gi.sanitize_bounding_boxes([own, []], (50, 60))
    assert valid[0].tolist() == [False, True, True, False, False, False, True]
    assert kept[0].tolist() == [[0, 5, 7, 6.5], [0, 0, 60, 50], [1, 1, 2, 2]]
    assert (kept[1].shape, valid[1].tolist()) == ((0, 4), [])
    _, valid = gi.sanitize_bounding_boxes([own], (50, 60), min_size=1.5, min_area=11)
    assert valid[0].tolist() == [False, False, True, False, False, False, False]
    _, valid = gi.sanitize_bounding_boxes(np.array([own]), (60, 60), format="xyxy", min_size=0, min_area=0)
    assert valid.tolist() == [[True, True, True, False, True, False, True]]
    rotated = [(30, 25, 20, 8, 30), (5, 25, 20, 8, 30), (30, 25, 0.5, 30, 10), (30, 25, 3, 3, 45)]
    kept, valid = gi.sanitize_bounding_boxes([rotated], (50, 60), format="cxcywhr")
    assert valid[0].tolist() == [True, False, False, True]
    assert kept[0].tolist() == [list(map(float, rotated[0])), list(map(float, rotated[3]))]


def test_points_are_moved_inside_or_left_out() -> None:
    points = [[(0, 0), (59.9, 3), (60, 3), (-1, 52)]]
    assert gi.clamp_keypoints(points, (50, 60))[0].tolist() == [[0, 0], [59, 3], [59, 3], [0, 49]]
    kept, valid = gi.sanitize_keypoints(points, (50, 60))
    assert (valid[0].tolist(), kept[0].tolist()) == ([True, True, False, False], [[0, 0], [59.9, 3]])


LEFT_RIGHT = [0, 2, 1, 4, 3]
SQUARE = [(0, 0), (30, 0), (30, 30), (0, 30)]


def keypoints_of(rng: np.random.Generator, objects: int, height: int, width: int) -> Any:
    """Points of whole coordinates and any visibility."""
    points = rng.integers(0, (width, height), (objects, 5, 2))
    return np.concatenate([points, rng.integers(0, 3, (objects, 5, 1))], 2).astype(np.float64)


def random_geometry(x: Any, seed: int) -> gi.Batch:
    """A chain whose crops remove points for good, with two segments."""
    x = gi.random_resized_crop(x, (50, 60), rng=seed)
    x = gi.random_horizontal_flip(x, rng=seed)
    x = gi.random_affine(x, 40, (0.2, 0.2), (0.7, 1.3), 10, rng=seed)
    x = gi.gaussian_blur(gi.pad(x, 5), 3)
    return gi.random_vertical_flip(gi.random_crop(x, (45, 50), rng=seed), rng=seed)


def test_visible_points_have_their_pixels() -> None:
    rng = np.random.default_rng()
    n, height, width = 80, 40, 70
    keypoints = np.stack([keypoints_of(rng, 2, height, width) for _ in range(n)])
    x = random_geometry(np.zeros((n, height, width, 3), np.uint8), int(rng.integers(1 << 30)))
    numbers = np.tile(np.arange(height * width, dtype=np.int32).reshape(height, width), (n, 1, 1))
    shown = gi.transform_masks(x, numbers, fill=-1)
    moved = gi.transform_keypoints(x, keypoints, pixel_indices=True)
    assert moved.shape == keypoints.shape
    outside = checked = 0
    for mask, before, after in zip(shown, keypoints.reshape(n, -1, 3), moved.reshape(n, -1, 3), strict=True):
        rows, columns = np.divmod(mask, width)
        for (x0, y0, label), (x1, y1, seen) in zip(before.tolist(), after.tolist(), strict=True):
            near = np.argwhere((mask >= 0) & (np.abs(rows - y0) <= 1) & (np.abs(columns - x0) <= 1))
            if seen:
                assert seen == label
                assert np.abs(near - (y1, x1)).sum(1).min(initial=9) < 3  # at a border the next pixel
                checked += 1
            else:
                assert (x1, y1) == (0, 0)
                if label and np.any(mask == y0 * width + x0):
                    places = np.argwhere(mask == y0 * width + x0)
                    (top, left), (bottom, right) = places.min(0), places.max(0)
                    around = np.pad(mask, 1, constant_values=-1)[top : bottom + 3, left : right + 3]
                    assert around.min() < 0  # its center lies outside, and so does a neighbor
                outside += label > 0
    assert min(outside, checked) > 80


def test_flipped_points_exchange_their_places() -> None:
    """As ``_flip_coco_person_keypoints`` of torchvision's detection reference."""
    rng = np.random.default_rng()
    keypoints = [keypoints_of(rng, int(rng.integers(4)), 40, 70).astype(np.float32) for _ in range(30)]
    chosen = rng.random(30) < 0.5
    x = gi.horizontal_flip(np.zeros((30, 40, 70, 3), np.uint8), where=chosen)
    found = gi.transform_keypoints(x, keypoints, pixel_indices=True, flip_indices=LEFT_RIGHT)
    for before, after, flipped in zip(keypoints, found, chosen, strict=True):
        expected = before[:, LEFT_RIGHT] * (-1, 1, 1) + (69, 0, 0) if flipped else before
        assert (after.shape, after.dtype) == (before.shape, np.float32)
        np.testing.assert_allclose(after, np.where(expected[..., 2:] > 0, expected, 0), atol=1e-5)


@pytest.mark.parametrize(("move", "mirrors"), [
    (lambda x: gi.horizontal_flip(gi.vertical_flip(x)), False),
    (lambda x: gi.vertical_flip(gi.gaussian_blur(gi.rotate(x, 30), 3)), True),
    (lambda x: gi.vertical_flip(gi.gaussian_blur(gi.horizontal_flip(x), 3)), False),
    (lambda x: gi.perspective(x, SQUARE, [(30, 1), (2, 0), (0, 28), (29, 30)]), True),
    (lambda x: gi.perspective(x, SQUARE, [(2, 1), (30, 0), (28, 28), (0, 30)]), False),
])  # fmt: skip
def test_which_images_are_mirrored(move: Callable[[Any], gi.Batch], mirrors: bool) -> None:
    x = move(np.zeros((1, 30, 30, 3), np.uint8))
    given = np.array([[[(14, 15, 2), (15, 15, 1)]]], float)
    plain = gi.transform_keypoints(x, given)
    found = gi.transform_keypoints(x, given, flip_indices=[1, 0])
    np.testing.assert_array_equal(found, plain[:, :, ::-1] if mirrors else plain)


def test_the_border_is_inside() -> None:
    corners = [[[(0, 0, 2), (20, 0, 2), (20, 10, 2), (0, 10, 2), (20.01, 5, 2), (-0.01, 5, 1)]]]
    x = gi.resize(gi.horizontal_flip(np.zeros((1, 10, 20, 3), np.uint8)), (7, 9))
    assert gi.transform_keypoints(x, corners)[0][0, :, 2].tolist() == [2, 2, 2, 2, 0, 0]


def test_forms() -> None:
    x = gi.horizontal_flip(np.zeros((3, 10, 20, 3), np.uint8))
    found = gi.transform_keypoints(x, [[], np.zeros((2, 4, 3)), np.zeros((0, 4, 3))], flip_indices=[0, 1, 3, 2])
    assert [part.shape for part in found] == [(0, 4, 3), (2, 4, 3), (0, 4, 3)]
    assert [part.shape for part in gi.transform_keypoints(x, [[], [], []], flip_indices=[1, 0])] == [(0, 0, 3)] * 3
    assert gi.transform_keypoints(x, np.zeros((3, 0, 4, 3), np.float32)).shape == (3, 0, 4, 3)
    assert gi.transform_keypoints(x[:0], np.zeros((0, 2, 4, 3)), flip_indices=[0, 1, 2, 3]).shape == (0, 2, 4, 3)
