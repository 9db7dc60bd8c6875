"""Objects of other images, against NumPy pixel by pixel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from tests.fakecuda import installed

from ..compare import assert_close
from ..random.distributions import assert_share
from ..references import to_unit
from ..samples import image, kinds

SIZE = (24, 31)


def scene(n: int) -> Any:
    """Masks of overlapping rectangles, with labels of any kind; one image has none."""
    rng = np.random.default_rng()
    masks = np.zeros((n, *SIZE), np.int64)
    for i in range(1, n):
        for label in rng.choice(np.arange(-50, 9000), rng.integers(1, 6), replace=False):
            y, x = rng.integers(0, (18, 24))
            masks[i, y : y + rng.integers(1, 12), x : x + rng.integers(1, 14)] = label
    return masks


@kinds
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_pixels_masks_objects_and_boxes(dtype: str, channels: int, share: float) -> None:
    images = np.stack([image(np.random.default_rng(), *SIZE, channels, dtype) for _ in range(7)])
    masks = scene(7)
    y = gi.copy_paste(images, masks, share, 4, rng=int(np.random.default_rng().integers(1 << 31)))
    assert (y.masks.dtype, y.images.dtype) == (np.int32, "float32")
    expected = []
    for i, boxes in enumerate(y.boxes()):
        j = (i - 1) % 7
        numbers, found = y.masks[i], y.objects[i].tolist()
        pasted = [label for k, label in found if k == j]
        covered = np.isin(masks[j], pasted) & (masks[j] != 0)
        expected.append(np.where(covered[..., None], to_unit(images[j]), to_unit(images[i])))
        own = np.where(covered, 0, masks[i])
        for label in np.unique(own[own != 0]).tolist():
            assert ([i, label] in found) == ((own == label).sum() >= 4)
        for number, ((k, label), box) in enumerate(zip(found, boxes, strict=True), 1):
            visible = (own if k == i else np.where(covered, masks[j], 0)) == label
            np.testing.assert_array_equal(numbers == number, visible)
            rows, columns = np.nonzero(visible)
            assert box.tolist() == [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert numbers.max(initial=0) <= len(found)
        if share != 0.5:
            assert len(pasted) == share * len(np.unique(masks[j][masks[j] != 0]))
    assert_close(y.images, expected, 2e-7)


def test_each_object_has_its_own_draw() -> None:
    masks = np.tile(np.arange(1, 31).repeat(2).reshape(1, 6, 10), (80, 1, 1))
    y = gi.copy_paste(np.zeros((80, 6, 10, 1), np.uint8), masks, 0.3, rng=5)
    pasted = np.array([[[(i - 1) % 80, k] in y.objects[i].tolist() for k in range(1, 31)] for i in range(80)])
    assert_share(pasted.ravel(), 0.3)
    assert 0 < np.abs(np.corrcoef(pasted.T.astype(float)) - np.eye(30)).max() < 0.6
    many = masks.copy()
    many[7] = np.arange(60).reshape(6, 10) + 1  # more objects in another image change nothing
    again = gi.copy_paste(np.zeros((80, 6, 10, 1), np.uint8), many, 0.3, rng=5)
    assert again.objects[20].tolist() == y.objects[20].tolist()


def test_partners_shares_and_areas_of_each_image() -> None:
    x = np.arange(3, dtype=np.uint8).reshape(3, 1, 1, 1) * np.full((1, 1, 6, 1), 50, np.uint8)
    masks = [np.array([row]) for row in ([1, 1, 1, 0, 0, 2], [3, 0, 0, 0, 0, 3], [0, 4, 4, 4, 0, 0])]
    y = gi.copy_paste(x, masks, [1, 0, 1], [1, 1, 2], rng=0, partner=[2, 0, 1])
    found = y.images.array("uint8")[:, 0, :, 0].tolist()
    assert found == [[0, 100, 100, 100, 0, 0], [50] * 6, [50, 100, 100, 100, 100, 50]]
    assert [each.tolist() for each in y.objects] == [[[0, 1], [0, 2], [2, 4]], [[1, 3]], [[2, 4], [1, 3]]]
    assert y.masks.tolist() == [[[1, 3, 3, 3, 0, 2]], [[1, 0, 0, 0, 0, 1]], [[2, 1, 1, 1, 0, 2]]]
    assert gi.copy_paste(gi.normalize(x, 0.5, 0.25), masks, rng=0).images.normalized
    empty = gi.copy_paste(x[:0], [], rng=0)
    assert (len(empty.images), empty.objects, empty.boxes()) == (0, [], [])


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_order_of_work_on_a_gpu(share: float) -> None:
    with installed() as gpu, gpu.stream():
        x = gpu.cupy.zeros((3, *SIZE, 3), np.uint8)
        gpu.use(gi.copy_paste(x, scene(3), share, rng=1).images.array())
        assert not gpu.problems
