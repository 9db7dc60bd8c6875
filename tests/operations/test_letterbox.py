"""Letterboxing against OpenCV and ultralytics' rules, and the boxes, masks and points in it."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from ..samples import pictures

SIZES = [(30, 40), (33, 33), (1, 300), (300, 1), (7, 9), (640, 427)]


def by_ultralytics(
    image: NDArray[np.uint8], size: tuple[int, int], *, scale_up: bool, center: bool, fill: int
) -> NDArray[np.uint8]:
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
    """Of 550 sizes; white images show to the level where each lies."""
    rng, options = np.random.default_rng(), {"scale_up": scale_up, "center": center}
    for canvas in [(63, 64), (33, 128), (1, 1), *map(tuple, rng.integers(1, 90, (7, 2)).tolist())]:
        images = pictures([*SIZES, *rng.integers(1, 90, (49, 2)).tolist()])
        white = [np.full_like(image, 255) for image in images]
        for given, fill, most in ((images, 114, 1), (white, 0, 0)):
            for image, result in zip(given, gi.letterbox(given, canvas, fill, **options).array(), strict=True):
                expected = by_ultralytics(image, canvas, fill=fill, **options)
                assert result.shape == expected.shape
                assert np.abs(result.astype(int) - expected).max() <= most


def test_fills_sizes_and_choice_of_each_image() -> None:
    images = np.full((3, 10, 20, 3), 200, np.uint8)
    x = gi.letterbox(images, ([20, 8, 9], 20), [[1], [2], [3]], where=[True, True, False])
    assert x.sizes.tolist() == [[20, 20], [8, 20], [10, 20]]
    first, second, third = x
    assert first[:, 3, 0].tolist() == [1] * 5 + [200] * 10 + [1] * 5
    assert second[4, :, 2].tolist() == [2] * 2 + [200] * 16 + [2] * 2
    np.testing.assert_array_equal(third, images[2])
    gray = gi.letterbox(np.ones((1, 1, 2, 1), np.float32), 4).array()
    assert gray[0, :, 0, 0].tolist() == [np.float32(114 / 255), 1.0, 1.0, np.float32(114 / 255)]
    assert len(gi.letterbox(np.zeros((0, 4, 4, 3), np.uint8), 8)) == 0
