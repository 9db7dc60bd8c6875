"""Key points with visibility, against the pixels that the images show and the rules of COCO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpuimg as gi

LEFT_RIGHT = [0, 2, 1, 4, 3]
CORNERS = [(0, 0), (30, 0), (30, 30), (0, 30)]


def drawn(rng: np.random.Generator, objects: int, height: int, width: int) -> Any:
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
    keypoints = np.stack([drawn(rng, 2, height, width) for _ in range(n)])
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
    keypoints = [drawn(rng, int(rng.integers(4)), 40, 70).astype(np.float32) for _ in range(30)]
    chosen = rng.random(30) < 0.5
    x = gi.horizontal_flip(np.zeros((30, 40, 70, 3), np.uint8), where=chosen)
    found = gi.transform_keypoints(x, keypoints, pixel_indices=True, flip_indices=LEFT_RIGHT)
    for before, after, flipped in zip(keypoints, found, chosen, strict=True):
        expected = before[:, LEFT_RIGHT] * (-1, 1, 1) + (69, 0, 0) if flipped else before
        assert (after.shape, after.dtype) == (before.shape, np.float32)
        np.testing.assert_allclose(after, np.where(expected[..., 2:] > 0, expected, 0), atol=1e-5)


@pytest.mark.parametrize(
    ("move", "mirrors"),
    [
        (lambda x: gi.horizontal_flip(gi.vertical_flip(x)), False),
        (lambda x: gi.vertical_flip(gi.gaussian_blur(gi.rotate(x, 30), 3)), True),
        (lambda x: gi.vertical_flip(gi.gaussian_blur(gi.horizontal_flip(x), 3)), False),
        (lambda x: gi.perspective(x, CORNERS, [(30, 1), (2, 0), (0, 28), (29, 30)]), True),
        (lambda x: gi.perspective(x, CORNERS, [(2, 1), (30, 0), (28, 28), (0, 30)]), False),
    ],
)  # fmt: skip
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
