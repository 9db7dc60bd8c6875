"""Mixing images and labels, mosaics, and objects of other images, against NumPy pixel by pixel."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gpuimg as gi

from .. import references
from ..compare import assert_close
from ..libraries import library
from ..random.distributions import assert_evenly_spread, assert_share, assert_uniform, rng
from ..references import to_unit
from ..samples import image, kinds, pictures
from ..video.videos import made

cv2 = library("cv2")

FLOAT = 2e-6  # a few roundings of float32 at 1


def stacked(n: int = 6, dtype: str = "uint8", channels: int = 3, seed: int = 0) -> NDArray[Any]:
    generator = np.random.default_rng(seed)
    return np.stack([image(generator, 13, 17, channels, dtype) for _ in range(n)])


@kinds
def test_mixup(dtype: str, channels: int) -> None:
    x, other = stacked(dtype=dtype, channels=channels), stacked(dtype="float32", channels=channels, seed=1)
    own, drawn = to_unit(x), rng(1, 6).beta(0.7, 0.7)
    share = drawn[:, None, None, None]
    for partner, numbers, others in (
        (None, [5, 0, 1, 2, 3, 4], own),  # the image before
        ([3, 3, 2, 0, 5, 1], [3, 3, 2, 0, 5, 1], own),
        (gi.invert(other), list(range(6)), 1 - to_unit(other)),
    ):
        mix = gi.mixup(x, alpha=0.7, rng=rng(1, 6), **({} if partner is None else {"partner": partner}))
        np.testing.assert_array_equal(mix.weight, drawn)
        assert (mix.partner.tolist(), mix.images.dtype) == (numbers, "float32")
        assert_close(mix.images, own * share + others[numbers] * (1 - share), FLOAT)


def test_labels() -> None:
    x = stacked(3)
    mix = gi.mixup(x, rng=6)
    w = mix.weight
    expected = [[w[0], 1 - w[0], 0, 0], [1 - w[1], 0, 0, w[1]], [0, w[2], 0, 1 - w[2]]]
    for given in ([0, 3, 1], np.array([0, 3, 1], np.uint8), np.eye(4, dtype=np.float32)[[0, 3, 1]]):
        labels = mix.labels(given, num_classes=4)
        assert labels.dtype == np.float32
        np.testing.assert_allclose(labels, expected, atol=1e-6)
    two = gi.mixup(x[:2], rng=7, partner=gi.invert(stacked(2)))
    labels = two.labels([0, 1], 3, partner_labels=[2, 1])
    np.testing.assert_allclose(labels, [[two.weight[0], 0, 1 - two.weight[0]], [0, 1, 0]], atol=1e-6)


def rectangle(height: int, width: int, drawn: float, x: float, y: float) -> tuple[int, int, int, int]:
    """torchvision's, for one image."""
    center_x, center_y = int(x * width), int(y * height)
    half_w, half_h = (int(0.5 * math.sqrt(1 - drawn) * side) for side in (width, height))
    corner = max(center_x - half_w, 0), max(center_y - half_h, 0)
    return *corner, min(center_x + half_w, width), min(center_y + half_h, height)


@kinds
def test_cutmix_pastes_torchvisions_rectangle(dtype: str, channels: int) -> None:
    n = 60
    x = stacked(n, dtype, channels)
    mix = gi.cutmix(x, alpha=0.9, rng=rng(8, n))
    draws = rng(8, n)
    drawn, unit = draws.beta(0.9, 0.9), draws.units(2)
    own = to_unit(x)
    expected = own.copy()
    for i in range(n):
        x0, y0, x1, y1 = rectangle(13, 17, drawn[i], unit[i, 0], unit[i, 1])
        expected[i, y0:y1, x0:x1] = own[i - 1, y0:y1, x0:x1]
        assert mix.weight[i] == pytest.approx(1 - (x1 - x0) * (y1 - y0) / (13 * 17))
    assert_close(mix.images, expected, 1e-6)


@kinds
def test_blend(dtype: str, channels: int) -> None:
    x, other = stacked(5, dtype, channels), stacked(4, dtype, channels, seed=1)
    weight, partner = np.array([0, 0.25, 0.5, 0.9, 1]), np.array([3, 0, 0, 2, 1])
    # Parts beyond the border are cut off.
    box = np.array([(-5, 0, -1, 3), (-2, -1, 9, 7), (0, 0, 17, 13), (16, 12, 99, 99), (5, 5, 3, 9)])
    share = weight[:, None, None, None]
    expected = to_unit(x) * share + to_unit(other)[partner] * (1 - share)
    assert_close(gi.blend(x, other, weight, partner=partner), expected, FLOAT)
    for i, (x0, y0, x1, y1) in enumerate(np.maximum(box, 0).tolist()):
        expected[i, y0:y1, x0:x1] = to_unit(other)[partner[i], y0:y1, x0:x1]
    assert_close(gi.blend(x, other, weight, partner=partner, rectangle=box), expected, FLOAT)


def test_images_mix_with_their_own_size() -> None:
    generator = np.random.default_rng()
    images = [image(generator, *size, 3, "float32") for size in ((4, 5), (7, 3), (4, 5), (7, 3))]
    mix = gi.mixup(images, rng=0, partner=[2, 3, 0, 1])
    each = zip(images, mix.weight, mix.partner, strict=True)
    assert_close(mix.images, [w * own + (1 - w) * images[k] for own, w, k in each], FLOAT)


def test_no_images() -> None:
    for function in (gi.mixup, gi.cutmix):
        mix = function(np.zeros((0, 4, 4, 3), np.uint8), rng=0)
        assert len(mix.images) == len(mix.partner) == len(mix.weight) == 0
        assert mix.labels(np.zeros(0, np.int64), 5).shape == (0, 5)
        assert function(gi.normalize(stacked(), 0.5, 0.25), rng=1).images.normalized


SIZES = [(30, 40), (12, 50), (64, 9), (33, 33), (20, 21)]


def laid_by_hand(parts: list[Any], corner: Any, size: tuple[int, int], fill: Any) -> Any:
    (x, y), (height, width) = corner.tolist(), size
    each = []
    for k, part in enumerate(parts):
        top, h = (len(part) - y, y) if k < 2 else (0, height - y)
        left, w = (part.shape[1] - x, x) if k % 2 == 0 else (0, width - x)
        each.append(references.crop(part, top, left, h, w, fill))
    return np.concatenate([np.concatenate(each[:2], 1), np.concatenate(each[2:], 1)])


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
    """Each object is a rectangle of a unique color: its pixels lie where its mask, its box and its label are."""
    rng = np.random.default_rng()
    maps = [np.zeros(size, np.int32) for size in SIZES]
    labels = np.split(np.arange(1, 37), np.cumsum((3, 0, 1, 30)))
    for own, numbers in zip(maps, labels, strict=True):
        for name in numbers:
            top, left = rng.integers(0, own.shape)
            own[top : top + rng.integers(4, 20), left : left + rng.integers(4, 20)] = name
    stacks = [own == names[:, None, None] for own, names in zip(maps, labels, strict=True)]
    images = [(own[..., None] * 7).astype(np.uint8) for own in maps]
    y = gi.mosaic(images, (96, 140), (0.1, 0.9), rng=int(rng.integers(1 << 31)))
    found, shown, names = y.masks(stacks), y.masks(maps), y.labels(labels)
    boxes = gi.masks_to_boxes(stacks)[0]
    (moved, kept), (around, seen) = y.boxes(boxes), gi.masks_to_boxes(found)
    # Others are partly covered.
    whole = y.labels([np.prod(b[:, 2:] - b[:, :2], 1) == s.sum((1, 2)) for b, s in zip(boxes, stacks, strict=True)])
    off: list[float] = []
    for i in range(5):
        assert len(names[i]) == sum(len(stacks[k]) for k in y.shown[i].tolist())
        np.testing.assert_array_equal(found[i], shown[i] == names[i][:, None, None])
        thin = np.any(moved[i][:, 2:] - moved[i][:, :2] < 1, 1)
        assert np.all((seen[i] == kept[i]) | thin | ~whole[i])
        clear = seen[i] & kept[i] & whole[i]
        np.testing.assert_allclose(moved[i][clear], around[i][clear], atol=1.01)
        for name, mask in zip(names[i], found[i], strict=True):  # away from the border, where colors are mixed
            inside = cv2.erode(np.pad(mask.astype(np.uint8), 2), np.ones((5, 5)))[2:-2, 2:-2] > 0
            off += np.abs(y.images[i][..., 0][inside] * 255 - name * 7).tolist()
    assert np.mean(np.array(off) < 1e-3) > 0.9  # parts thinner than a pixel of the result are mixed in


def test_given_partners_and_clips() -> None:
    images = pictures(SIZES)
    partner = [(1, 1, 2), (0, 3, 4), (0, 0, 0), (4, 4, 4), (2, 2, 2)]
    y = gi.mosaic(images, 40, rng=1, partner=partner)
    assert [sorted(shown) for shown in y.shown.tolist()] == [sorted((i, *own)) for i, own in enumerate(partner)]
    videos = gi.open_clips([made("h264")] * 3, 3, 2, start=[5, 15, 25], device="cpu")
    videos = gi.resize(videos, (20, 24)).compute()
    clips = gi.mosaic(videos, 32, rng=2)
    assert (clips.images.frames, clips.shown.shape, len(clips.tiles)) == (3, (3, 4), 36)
    frames = [gi.mosaic(videos.array()[t::3], 32, rng=2).images for t in range(3)]
    for k, picture in enumerate(clips.images):
        np.testing.assert_allclose(picture, frames[k % 3][k // 3], atol=2e-6)
    one = gi.mosaic(np.full((1, 4, 4, 3), 99, np.uint8), 8, (0.5, 0.5), rng=0)
    np.testing.assert_array_equal(one.images.array("uint8"), 99)


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
