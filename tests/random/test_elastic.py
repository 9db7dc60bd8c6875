"""Elastic deformation against its formula in NumPy, how it varies, and what masks, boxes and points make of it."""

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from .. import references
from ..libraries import library

cv2 = library("cv2")


def centers(height: int, width: int) -> NDArray[np.float64]:
    """Positions (H, W, 2) of pixels."""
    return np.stack(np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5), -1)


def test_displacements_vary_as_torchvisions() -> None:
    """Their deviation, and how alike those of near pixels are, next to noise of all pixels that is blurred."""
    sigma, alpha, n = 4.0, 40.0, 400
    ramp = np.tile(centers(60, 60).astype(np.float32) / 100, (n, 1, 1, 1))
    ramp = np.concatenate([ramp, ramp[..., :1]], -1)
    moved = gi.elastic(ramp, alpha, sigma, seed=np.arange(n) * 7919).array("float32")[..., :2]
    ours = ((moved - ramp[..., :2]) * 100)[:, 12:-12, 12:-12]
    noise = np.random.default_rng().uniform(-1, 1, (n, 60, 60)).astype(np.float32)
    blurred = np.stack([cv2.GaussianBlur(each, (33, 33), sigma) for each in noise])[:, 12:-12, 12:-12] * alpha / 2
    assert abs(ours.mean()) < 0.05
    assert ours.std() == pytest.approx(blurred.std(), rel=0.05)
    for step in (2, 4, 8):
        theirs = np.mean(blurred[:, :, step:] * blurred[:, :, :-step]) / blurred.var()
        for axis in (0, 1):
            alike = np.mean(ours[:, :, step:, axis] * ours[:, :, :-step, axis]) / ours[..., axis].var()
            assert alike == pytest.approx(theirs, abs=0.06)
    assert abs(np.mean(ours[..., 0] * ours[..., 1]) / ours.var()) < 0.05
    by_place = (ours**2).mean((0, 3))  # no place is special
    assert by_place.std() < 0.15 * by_place.mean()


def test_points_stay_on_what_they_mark() -> None:
    """On the pixels, and on those of images whose values are their own positions."""
    ramp = np.tile(centers(50, 60).astype(np.float32) / 100, (2, 1, 1, 1))
    x = gi.resize(gi.crop(np.concatenate([ramp, ramp[..., :1]], -1), 2, 3, 44, 50), (60, 52), "bilinear")
    x = gi.elastic(x, 70, 5, fill=None, seed=[11, 12])
    x = gi.horizontal_flip(gi.rotate(x, 20, "bilinear", expand=True))
    x = gi.elastic(x, (40, 0), 8, fill=None, seed=[13, 14], where=[True, False])
    points = np.random.default_rng().uniform((12, 12), (44, 38), (2, 40, 2))
    moved = gi.transform_points(x, points)
    for picture, there, wanted in zip(x, moved, points, strict=True):
        at = cv2.remap(picture, there[None].astype(np.float32) - 0.5, None, cv2.INTER_LINEAR)[0, :, :2] * 100
        np.testing.assert_allclose(at, wanted, atol=0.1)
    alone = gi.elastic(np.zeros((1, 50, 60, 3), np.uint8), 80, 4, seed=9)
    moved = gi.transform_points(alone, points[:1])
    np.testing.assert_allclose(references.displaced(moved, 9, (80, 80), 4), points[:1], atol=1e-4)


def test_boxes_are_around_all_their_points() -> None:
    x = gi.elastic(np.zeros((1, 80, 90, 3), np.uint8), 90, 6, seed=21)
    box = np.array([20.0, 15.0, 60.0, 50.0])
    share = np.linspace(0, 1, 60)
    inside = np.stack(np.meshgrid(20 + 40 * share, 15 + 35 * share), -1).reshape(1, -1, 2)
    points = gi.transform_points(x, inside)[0]
    (found,), (kept,) = gi.transform_boxes(x, box[None, None])
    np.testing.assert_allclose(found[0], [*points.min(0), *points.max(0)], atol=0.05)
    (corners,), (also,) = gi.transform_boxes(x, box[[0, 1, 2, 1, 2, 3, 0, 3]][None, None], format="xyxyxyxy")
    np.testing.assert_allclose(corners[0].reshape(4, 2), points[[0, 59, -1, -60]], atol=1e-4)
    assert np.all([kept, also])


def test_boxes_are_cut_by_crops_on_both_sides() -> None:
    x = gi.crop(gi.elastic(gi.crop(np.zeros((1, 80, 90, 3), np.uint8), 0, 0, 60, 60), 1e-6, seed=1), 10, 10, 40, 40)
    boxes, kept = gi.transform_boxes(x, [[(5, 5, 90, 80), (0, 0, 9, 9), (61, 61, 80, 80), (20, 30, 25, 33)]])
    np.testing.assert_allclose(boxes[0][[0, 3]], [(0, 0, 40, 40), (10, 20, 15, 23)], atol=1e-3)
    assert kept[0].tolist() == [True, False, False, True]


def test_points_of_folded_images_are_refused() -> None:
    x = gi.elastic(np.zeros((2, 40, 40, 3), np.uint8), 900, 1.5, seed=[3, 4], where=[False, True])
    assert gi.transform_points(x, [np.array([(7.0, 8.0)]), np.zeros((0, 2))])[0].tolist() == [[7.0, 8.0]]
    grid = centers(40, 40).reshape(1, -1, 2)
    with pytest.raises(ValueError, match="points of image 1 have no unique position: its elastic displacement"):
        gi.transform_points(x, np.repeat(grid, 2, 0))
