"""Formats of boxes, rotated boxes under geometry, cutting and leaving out: against torchvision's numbers and OpenCV."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

UPRIGHT = ["xyxy", "xywh", "cxcywh"]
ROTATED = ["xyxyxyxy", "xywhr", "cxcywhr"]
BOXES = [(30.0, 25.0, 20.0, 8.0, 30.0), (12.0, 14.0, 6.0, 10.0, -100.0)]

#: What torchvision 0.28 makes of these boxes, in a canvas of 50 x 60.
CORNERS = [
    (19.339745962, 26.535898385, 36.660254038, 16.535898385, 40.660254038, 23.464101615, 23.339745962, 33.464101615),
    (17.444983298, 11.913817629, 16.403094232, 17.822664147, 6.555016702, 16.086182371, 7.596905768, 10.177335853),
]
MOVED: dict[str, tuple[Callable[[Any], gi.Batch], list[tuple[float, ...]]]] = {
    "horizontal_flip": (gi.horizontal_flip, [(30, 25, 20, 8, -30), (48, 14, 6, 10, 100)]),
    "vertical_flip": (gi.vertical_flip, [(30, 25, 20, 8, 150), (12, 36, 6, 10, 280)]),
    "rotate": (lambda x: gi.rotate(x, 25), [(30, 25, 20, 8, 55), (9.037659, 22.637743, 6, 10, -75)]),
    "resize": (
        lambda x: gi.resize(x, (25, 90)),
        [(45, 12.5, 31.694742, 4.535574, 10.893395), (18, 7, 3.041032, 16.184402, -93.363727)],
    ),
    "crop": (lambda x: gi.crop(x, 5, 8, 40, 45), [(22, 20, 20, 8, 30), (4, 9, 6, 10, -100)]),
    "affine": (
        lambda x: gi.affine(x, 10, (3, 2), 1.2, 12),
        [(33, 27, 27.344919, 8.7805, 17.214159), (16.783429, 10.73695, 7.471422, 12.998663, -110.381076)],
    ),
}


def blank() -> gi.Batch:
    return gi.pad(np.zeros((1, 50, 60, 3), np.uint8), 0)


def drawn(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Rotated boxes, some of which lie outside a canvas of 50 x 60 in part or as a whole."""
    center, size = rng.uniform((-15, -15), (75, 65), (count, 2)), rng.uniform(1, 40, (count, 2))
    return np.concatenate([center, size, rng.uniform(-180, 180, (count, 1))], 1)


def same(boxes: Any, expected: Any) -> None:
    """Rotated boxes, whose angles are equal up to whole turns."""
    one, other = np.array(boxes, np.float64), np.array(expected, np.float64)
    np.testing.assert_allclose(one[..., :4], other[..., :4], atol=2e-6)
    np.testing.assert_allclose((one[..., 4] - other[..., 4] + 180) % 360 - 180, 0, atol=2e-6)


def test_upright_formats() -> None:
    boxes = [[(10, 20, 30, 60), (0, 5, 7, 6.5)]]
    every: dict[str, Any] = {
        "xyxy": boxes,
        "xywh": [[(10, 20, 20, 40), (0, 5, 7, 1.5)]],
        "cxcywh": [[(20, 40, 20, 40), (3.5, 5.75, 7, 1.5)]],
    }
    for old, given in every.items():
        for new, expected in every.items():
            found = gi.convert_bounding_box_format(given, old, new)
            assert [one.tolist() for one in found] == [[list(map(float, box)) for box in expected[0]]]
    ragged = [np.zeros((2, 4), np.float32), np.zeros((0, 4), np.float32)]
    parts = gi.convert_bounding_box_format(ragged, "xyxy", "xywh")
    assert [(one.shape, one.dtype) for one in parts] == [((2, 4), np.float32), ((0, 4), np.float32)]


def test_rotated_formats_are_torchvisions_and_opencvs() -> None:
    found = gi.convert_bounding_box_format([BOXES], "cxcywhr", "xyxyxyxy")[0]
    np.testing.assert_allclose(found, CORNERS, atol=1e-8)
    first = gi.convert_bounding_box_format([BOXES], "cxcywhr", "xywhr")[0]
    np.testing.assert_allclose(first[:, :2], np.array(CORNERS)[:, :2], atol=1e-8)
    boxes = drawn(np.random.default_rng(), 200)
    found = gi.convert_bounding_box_format([boxes], "cxcywhr", "xyxyxyxy")[0].reshape(-1, 4, 2)
    for (x, y, w, h, angle), corners in zip(boxes.tolist(), found, strict=True):
        expected = cv2.boxPoints(((x, y), (w, h), -angle))  # OpenCV's angle is clockwise
        away = np.linalg.norm(corners[:, None] - expected, axis=2)
        assert max(away.min(0).max(), away.min(1).max()) < 1e-3


@pytest.mark.parametrize("formats", [UPRIGHT, ROTATED], ids=["upright", "rotated"])
def test_there_and_back(formats: list[str]) -> None:
    rng = np.random.default_rng()
    boxes = drawn(rng, 50).reshape(5, 10, 5)
    start = "cxcywhr" if formats is ROTATED else "cxcywh"
    boxes = boxes if formats is ROTATED else boxes[..., :4]
    for old in formats:
        given = gi.convert_bounding_box_format(boxes, start, old)
        for new in formats:
            back = gi.convert_bounding_box_format(gi.convert_bounding_box_format(given, old, new), new, old)
            assert back.shape == given.shape
            np.testing.assert_allclose(back, given, atol=1e-9)


@pytest.mark.parametrize("name", MOVED)
def test_rotated_boxes_move_as_torchvisions(name: str) -> None:
    function, expected = MOVED[name]
    moved, kept = gi.transform_boxes(function(blank()), [BOXES], format="cxcywhr", clip=False)
    same(moved[0], expected)
    assert kept[0].all()


@pytest.mark.parametrize("name", [*MOVED, "perspective"])
def test_corners_move_as_points(name: str) -> None:
    square = [(0, 0), (60, 0), (60, 50), (0, 50)]
    end = [(3, 5), (50, 2), (55, 45), (0, 49)]
    function = MOVED[name][0] if name in MOVED else lambda x: gi.perspective(x, square, end)
    x = gi.resize(function(blank()), (40, 31))
    moved, _ = gi.transform_boxes(x, [CORNERS], format="xyxyxyxy")
    points = gi.transform_points(x, [np.array(CORNERS).reshape(-1, 2)])[0].reshape(-1, 4, 2)
    # A mirror exchanges the first two corners and the last two.
    mirrored = points[:, [1, 0, 3, 2]].reshape(-1, 8)
    np.testing.assert_allclose(moved[0], mirrored if "flip" in name else points.reshape(-1, 8), atol=1e-9)


def test_visible_rotated_boxes() -> None:
    boxes = np.array([[(30.0, 25, 20, 8, 45), (5, 5, 4, 4, 10), (30, 10, 70, 2, 0)]])
    moved, kept = gi.transform_boxes(gi.crop(blank(), 10, 20, 30, 30), boxes, format="cxcywhr")
    assert kept.tolist() == [[True, False, True]]
    same(moved[0, 0], (10, 15, 20, 8, 45))
    same(moved[0, 2], (15, 0.5, 30, 1, 0))
    moved, kept = gi.transform_boxes(blank(), [[(-5.0, 20, 30, 4, 0), (90, 90, 1, 1, 0)]], format="cxcywhr")
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
    boxes = drawn(np.random.default_rng(), 400)
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
