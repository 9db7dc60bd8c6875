"""Mosaics against NumPy, and what they do to boxes, labels and masks."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

import gpuimg as gi
from tests.random.test_views import clips_of

from ..compare import assert_close
from ..random.distributions import assert_evenly_spread, assert_uniform
from ..samples import kinds, pictures

SIZES = [(30, 40), (12, 50), (64, 9), (33, 33), (20, 21)]


def laid_by_hand(parts: list[Any], corner: Any, size: tuple[int, int], fill: Any) -> Any:
    """Four images around a point, pixel by pixel."""
    x, y = (int(v) for v in corner)
    canvas = np.empty((*size, *parts[0].shape[2:]), parts[0].dtype)
    canvas[:] = fill
    for k, part in enumerate(parts):
        height, width = part.shape[:2]
        left, top = (x - width if k % 2 == 0 else x), (y - height if k < 2 else y)
        for row in range(max(top, 0), min(top + height, size[0])):
            inside = slice(max(left, 0), min(left + width, size[1]))
            canvas[row, inside] = part[row - top, inside.start - left : inside.stop - left]
    return canvas


@kinds
@pytest.mark.parametrize("center", [(0.25, 0.75), (0.0, 1.0)])
def test_mosaics_are_four_images_around_a_point(dtype: str, channels: int, center: tuple[float, float]) -> None:
    images = pictures(SIZES, dtype, channels)
    white = 255.0 if dtype == "uint8" else 1.0
    y = gi.mosaic(images, (48, 70), center, 0.4 * white, rng=int(np.random.default_rng().integers(1 << 31)))
    scales = [min(24 / height, 35 / width) for height, width in SIZES]
    new = [(round(h * s), round(w * s)) for (h, w), s in zip(SIZES, scales, strict=True)]
    small = list(gi.resize(images, np.array(new)).compute("float32"))
    expected = [
        laid_by_hand([small[k] for k in shown], corner, (48, 70), 0.4)
        for shown, corner in zip(y.shown.tolist(), y.corners, strict=True)
    ]
    assert_close(y.images, expected, 2e-6)
    assert all(sorted(shown) == sorted((i - k) % 5 for k in range(4)) for i, shown in enumerate(y.shown.tolist()))


def test_what_is_drawn() -> None:
    n = 600
    for axis, size in enumerate([(2, 2000), (2000, 2)]):
        y = gi.mosaic(np.zeros((n, 1, 1, 1), np.uint8), size, (0.3, 0.6), rng=3)
        assert_uniform(np.clip(y.corners[:, axis] / 2000, 0.3, 0.6), 0.3, 0.6)
        own = np.argmax(y.shown == np.arange(n)[:, None], 1)
        assert_evenly_spread(own.astype(float), 0, 3)


def test_targets_lie_on_what_they_mark() -> None:
    """Each object is a rectangle of a unique color: its pixels lie where its box and its label are."""
    images, masks, boxes, labels = [], [], [], []
    rng = np.random.default_rng()
    for i, (height, width) in enumerate(((60, 80), (70, 64), (64, 64), (90, 50))):
        mask = np.zeros((height, width), np.int32)
        own = []
        for k in range(2):
            x0, y0 = rng.integers(1, (width // 2 - 12, height - 22)).tolist()
            x0 += k * width // 2
            own.append((x0, y0, x0 + 10, y0 + 20))
            mask[y0 : y0 + 20, x0 : x0 + 10] = 10 * i + k + 1
        images.append((mask[..., None] * 5).astype(np.uint8))
        masks.append(mask)
        boxes.append(np.array(own, float))
        labels.append(np.array([10 * i + 1, 10 * i + 2]))
    y = gi.mosaic(images, 128, rng=int(rng.integers(1 << 31)))
    moved, kept = y.boxes(boxes)
    found, there = y.labels(labels), y.masks(masks, fill=-1)
    assert there.shape == (4, 128, 128)
    for i in range(4):
        assert found[i].tolist() == [10 * k + j for k in y.shown[i].tolist() for j in (1, 2)]
        pixels = y.images[i][..., 0] * 51
        for box, label, seen in zip(moved[i], found[i].tolist(), kept[i], strict=True):
            rows, columns = np.nonzero(there[i] == label)
            assert bool(len(rows)) == bool(seen) or min(box[2] - box[0], box[3] - box[1]) < 1
            if len(rows) and seen:
                around = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
                np.testing.assert_allclose(box, around, atol=1.01)
        for label in found[i].tolist():  # away from the border, where colors of two things are mixed
            alone = np.pad((there[i] == label).astype(np.uint8), 2)
            inside = cv2.erode(alone, np.ones((5, 5)))[2:-2, 2:-2] > 0
            np.testing.assert_allclose(pixels[inside], label, atol=1e-3)


def test_masks_of_objects() -> None:
    rng = np.random.default_rng()
    maps = [np.zeros(size, np.int32) for size in SIZES]
    labels = [100 * i + np.arange(count) + 1 for i, count in enumerate((3, 0, 1, 30, 2))]
    for own, names in zip(maps, labels, strict=True):
        for name in names:
            top, left = rng.integers(0, own.shape)
            own[top : top + rng.integers(1, 20), left : left + rng.integers(1, 20)] = name
    stacks = [own == names[:, None, None] for own, names in zip(maps, labels, strict=True)]
    y = gi.mosaic(pictures(SIZES), (48, 70), (0.1, 0.9), rng=int(rng.integers(1 << 31)))
    found, shown = y.masks(stacks), y.masks(maps)
    for i, (masks, kept) in enumerate(zip(found, y.labels(labels), strict=True)):
        assert len(kept) == sum(len(stacks[k]) for k in y.shown[i].tolist())
        np.testing.assert_array_equal(masks, shown[i] == kept[:, None, None])
        assert masks.any((1, 2)).tolist() == gi.masks_to_boxes(found)[1][i].tolist()


def test_given_partners_and_clips() -> None:
    images = pictures(SIZES)
    partner = [(1, 1, 2), (0, 3, 4), (0, 0, 0), (4, 4, 4), (2, 2, 2)]
    y = gi.mosaic(images, 40, rng=1, partner=partner)
    assert [sorted(shown) for shown in y.shown.tolist()] == [sorted((i, *own)) for i, own in enumerate(partner)]
    videos = gi.resize(clips_of([0, 1, 3]), (20, 24)).compute()
    clips = gi.mosaic(videos, 32, rng=2)
    assert (clips.images.frames, clips.shown.shape, len(clips.tiles)) == (3, (3, 4), 36)
    frames = [gi.mosaic(videos.array()[t::3], 32, rng=2).images for t in range(3)]
    for k, picture in enumerate(clips.images):
        np.testing.assert_allclose(picture, frames[k % 3][k // 3], atol=2e-6)


def test_mosaic_does_not_depend_on_the_batch() -> None:
    images = pictures(SIZES)
    whole = gi.mosaic(images, 50, rng=gi.Rng(4, indices=range(5)))
    alone = gi.mosaic(images[1:5], 50, rng=gi.Rng(4, indices=range(1, 5)))
    np.testing.assert_array_equal(whole.images[4], alone.images[3])
    np.testing.assert_array_equal(whole.corners[1:], alone.corners)
    assert len(gi.mosaic(np.zeros((0, 4, 4, 3), np.uint8), 8, rng=0).images) == 0
    one = gi.mosaic(np.full((1, 4, 4, 3), 99, np.uint8), 8, (0.5, 0.5), rng=0)
    np.testing.assert_array_equal(one.images.array("uint8"), 99)
