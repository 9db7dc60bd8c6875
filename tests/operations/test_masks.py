"""A mask for each object: against the pixels that the images show, torchvision, and slices of NumPy."""

import struct
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gpuimg as gi

from ..decoding.pngs import encode, packed_rows
from ..decoding.tiffs import tiff
from ..libraries import cases, library
from ..samples import file_of
from .calls import MOVES


def objects_of(rng: np.random.Generator, count: int, height: int, width: int) -> NDArray[np.bool_]:
    """Ellipses and rectangles that overlap, some of them of a few pixels."""
    stack = np.zeros((count, height, width), np.uint8)
    for mask in stack:
        center, size = rng.integers(0, (width, height)), rng.integers(1, (width // 2, height // 2))
        if rng.integers(2):
            cv2.ellipse(mask, tuple(map(int, center)), tuple(map(int, size)), float(rng.uniform(0, 180)), 0, 360, 1, -1)
        else:
            cv2.rectangle(mask, tuple(map(int, center)), tuple(map(int, center + size)), 1, -1)
    return stack.astype(bool)


def around(mask: NDArray[Any]) -> list[int]:
    rows, columns = np.nonzero(mask)
    return [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] if len(rows) else [0, 0, 0, 0]


def moved_at_random(x: Any, seed: int, samples: Any, interpolation: Any) -> gi.Batch:
    """Crops, flips, pads, warps and an elastic displacement."""
    rng = gi.Rng(seed, indices=samples)
    x = gi.random_resized_crop(x, (45, 70), interpolation=interpolation, rng=rng)
    x = gi.random_horizontal_flip(gi.pad(x, (3, 0, 5, 9)), rng=rng)
    x = gi.random_affine(x, 30, (0.1, 0.1), (0.7, 1.4), 15, interpolation, rng=rng)
    x = gi.random_perspective(x, 0.3, 0.5, interpolation, rng=rng)
    x = gi.elastic(x, 8.0, 4.0, interpolation, seed=seed + np.asarray(samples))
    return gi.random_vertical_flip(gi.random_crop(x, (40, 52), rng=rng), rng=rng)


def test_masks_are_the_pixels_of_1000_objects() -> None:
    """Each object is also an image, white on black, that the same calls with the same draws move.

    Positions are rounded to float32, to about 2e-5 pixels here: of 2 million, those halfway between pixels differ.
    """
    rng = np.random.default_rng()
    checked = visible = different = 0
    while checked < 1000:
        seed, sizes = int(rng.integers(1 << 30)), rng.integers(30, 90, (12, 2)).tolist()
        stacks = [objects_of(rng, int(rng.choice([0, 1, 5, 24, 25, 50])), *size) for size in sizes]
        x = moved_at_random([np.zeros((*size, 3), np.uint8) for size in sizes], seed, np.arange(12), "nearest")
        found = gi.transform_masks(x, stacks)
        assert [part.shape for part in found] == [(len(stack), 40, 52) for stack in stacks]
        owner = np.repeat(np.arange(12), [len(stack) for stack in stacks])
        if not len(owner):
            continue
        pictures = [np.uint8(255) * mask[..., None] for stack in stacks for mask in stack]
        shown = moved_at_random(pictures, seed, owner, "nearest").array()[..., 0] > 127
        boxes, kept = gi.masks_to_boxes(found)
        each = (np.concatenate(part) for part in (found, boxes, kept))
        for mask, box, seen, picture in zip(*each, shown, strict=True):
            different += int(np.sum(mask != picture))
            assert box.tolist() == around(mask)
            assert seen == mask.any()
            visible += bool(seen)
        checked += len(owner)
    assert visible > 500
    assert different <= 1e-4 * checked * 40 * 52


@pytest.mark.parametrize(("dtype", "count"), [("bool", 1), ("uint8", 24), ("int16", 61), ("int64", 24)])
def test_masks_by_slices_of_numpy(dtype: str, count: int) -> None:
    masks = np.random.default_rng().integers(0, 2, (2, count, 7, 9)).astype(dtype)
    x = np.zeros((2, 7, 9, 3), np.uint8)
    for moved, expected in (
        (gi.horizontal_flip(x), masks[..., ::-1]),
        (gi.crop(x, 2, 1, 4, 5), masks[..., 2:6, 1:6]),
        (gi.pad(x, (1, 2, 3, 4)), np.pad(masks, ((0, 0), (0, 0), (2, 4), (1, 3)))),
        (gi.pad(x, 3, padding_mode="reflect"), np.pad(masks, ((0, 0), (0, 0), (3, 3), (3, 3)), "reflect")),
        (gi.rotate(x, 90, expand=True), np.rot90(masks, axes=(2, 3))),
        (gi.resize(x, (14, 27), "bicubic"), masks.repeat(2, 2).repeat(3, 3)),
    ):
        for given in (masks, list(masks)):
            found = gi.transform_masks(moved, given)
            assert isinstance(found, type(given))
            np.testing.assert_array_equal(found, expected)
            assert found[0].dtype == dtype
    filled = gi.transform_masks(gi.pad(x, 2), masks, fill=1)
    np.testing.assert_array_equal(filled, np.pad(masks, ((0, 0), (0, 0), (2, 2), (2, 2)), constant_values=1))
    same = gi.transform_masks(gi.invert(x), masks)
    assert not np.shares_memory(same, masks)


@cases("torchvision", "name", [name for name in MOVES if not name.startswith("resize")])
def test_masks_are_torchvisions(name: str) -> None:
    """Equal after crops, flips and pads; after warps but for single pixels halfway between two."""
    torch, tensors = library("torch"), library("torchvision.tv_tensors")
    v2 = library("torchvision.transforms.v2.functional")
    ours, theirs = MOVES[name]
    masks = objects_of(np.random.default_rng(), 400, 50, 60)
    found = gi.transform_masks(ours(np.zeros((1, 50, 60, 3), np.uint8)), [masks])[0]
    expected = theirs(v2, tensors.Mask(torch.from_numpy(masks.astype(np.uint8)))).numpy()
    assert found.shape == expected.shape
    is_warp = "rotate" in name or name in ("affine", "perspective")
    assert np.mean(found != expected) <= (0.004 if is_warp else 0)


def test_boxes_around_masks() -> None:
    rng = np.random.default_rng()
    masks = np.stack([objects_of(rng, 8, 30, 40) for _ in range(30)])
    boxes, kept = gi.masks_to_boxes(masks)
    assert (boxes.shape, boxes.dtype, kept.shape) == ((30, 8, 4), np.float32, (30, 8))
    np.testing.assert_array_equal(boxes, [[around(mask) for mask in stack] for stack in masks])
    np.testing.assert_array_equal(kept, masks.any((2, 3)))
    assert [part.shape for part in gi.masks_to_boxes([np.zeros((0, 4, 5), bool)])[0]] == [(0, 4)]
    assert gi.masks_to_boxes([]) == ([], [])


def test_label_files_are_their_labels_and_indices(tmp_path: Path) -> None:
    """PNG files of gray, of a palette, of 1 and of 16 bits, as paths and as bytes; Pillow's images; a batch."""
    rng = np.random.default_rng()
    labels = rng.integers(0, 2, (6, 20, 30), np.uint8) * rng.integers(1, 256, (6, 1, 1), np.uint8)
    x = gi.horizontal_flip(gi.crop(np.zeros((6, 20, 30, 3), np.uint8), 3, 4, 10, 20))
    expected = labels[:, 3:13, 4:24][:, :, ::-1]
    palette = [Image.fromarray(one).convert("P") for one in labels]
    for one, mask in zip(palette, labels, strict=True):
        one.putpalette(rng.integers(0, 256, 768, np.uint8).tobytes())
        one.putdata(mask.ravel().tolist())
    for images in ([Image.fromarray(one) for one in labels], palette):
        for k, one in enumerate(images):
            one.save(tmp_path / f"{k}.png")
        paths = [tmp_path / f"{k}.png" for k in range(6)]
        for given in (paths, list(map(str, paths)), [path.read_bytes() for path in paths], images):
            np.testing.assert_array_equal(gi.transform_masks(x, given), expected)
    np.testing.assert_array_equal(gi.transform_masks(x, gi.invert(gi.invert(labels[..., None]))), expected)
    deep, bits = labels.astype(np.uint16) * 257, labels > 0
    for array in (deep, bits):
        files = [file_of(Image.fromarray(one), "PNG") for one in array]
        np.testing.assert_array_equal(gi.transform_masks(x, files), array[:, 3:13, 4:24][:, :, ::-1])
    with pytest.raises(ValueError, match=r"masks\[1\]: a file of labels must have one channel"):
        gi.transform_masks(x, [paths[0], file_of(np.zeros((20, 30, 3), np.uint8), "PNG"), *paths[2:]])
    with pytest.raises(gi.ImageError, match=r"image 0: masks\[0\] \(nowhere.png\): No such file"):
        gi.transform_masks(x, ["nowhere.png"] * 6)


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 10, 16])
@pytest.mark.parametrize("form", ["png", "palette", "tiff", "pnm", "bmp", "gray bmp", "jpeg2k"])
def test_label_files_of_any_depth(form: str, bits: int) -> None:
    """Values as stored, not scaled to 255 or to 16 bits."""
    labels = np.random.default_rng().integers(0, 1 << bits, (40, 40, 1)).astype(np.uint16 if bits > 8 else np.uint8)
    if form == "png" and bits != 10:
        data = encode(labels, "gray", bits)
    elif form == "palette" and bits <= 8:
        data = encode(labels, form, bits, palette=bytes(range(256)) * 3 if bits == 8 else bytes(range(3 << bits)))
    elif form == "tiff":
        tags = {256: 40, 257: 40, 258: bits, 259: 1, 262: 1, 277: 1, 278: 1}
        data = tiff(packed_rows(labels, bits, "<"), tags)
    elif form == "pnm":
        data = b"P5 40 40 %d\n" % ((1 << bits) - 1) + labels.astype(">u2" if bits > 8 else "u1").tobytes()
    elif form.endswith("bmp") and bits in (1, 4, 8):
        colors = np.arange(256)[:, None] * ([1, 1, 1, 0] if form == "gray bmp" else [1, 2, 3, 0])
        rows = np.frombuffer(b"".join(packed_rows(labels, bits)), np.uint8).reshape(40, -1)
        rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 4)))[::-1]
        head = struct.pack("<2sIIIIiiHHIIiiII", b"BM", 0, 0, 54 + (4 << bits), 40, 40, 40, 1, bits, 0, 0, 0, 0, 0, 0)
        data = head + colors[: 1 << bits].astype(np.uint8).tobytes() + rows.tobytes()
    elif form == "jpeg2k" and bits in (8, 16):
        data = cv2.imencode(".jp2", labels, [cv2.IMWRITE_JPEG2000_COMPRESSION_X1000, 1000])[1].tobytes()
    else:
        return
    found = gi.transform_masks(gi.crop(np.zeros((1, 40, 40, 3), np.uint8), 0, 0, 40, 40), [data])
    np.testing.assert_array_equal(np.asarray(found)[0], labels[..., 0])


SIZES = [(30, 41), (57, 33), (40, 40)]


def colored(x: gi.Batch) -> gi.Batch:
    return gi.normalize(gi.erase(gi.adjust_brightness(x, 1.3), 1, 2, 9, 9, 40), 0.4, 0.2)


@pytest.mark.parametrize(
    ("dtype", "channels"), [("uint8", 1), ("uint16", 1), ("float32", 1), ("float32", 2), ("uint8", 3)]
)
def test_other_images_move_as_if_called_with_the_same_draws(dtype: str, channels: int) -> None:
    rng = np.random.default_rng()
    white = 1.0 if dtype == "float32" else np.iinfo(dtype).max
    others = [(rng.random((*size, channels)) * white).astype(dtype) for size in SIZES]
    seed = int(rng.integers(1 << 30))
    x = moved_at_random([np.zeros((*size, 3), np.uint8) for size in SIZES], seed, [4, 5, 6], "bilinear")
    expected = moved_at_random(others, seed, [4, 5, 6], "bilinear").array()
    for images in (x, colored(x), gi.gaussian_blur(colored(x), 5, 2.0)):
        found = gi.transform_images(images, others)
        assert (found.dtype, found.channels, found.normalized) == (dtype, channels, False)
        np.testing.assert_allclose(found.array(), expected, rtol=0, atol=1e-5 if white == 1 else 0.6)


def test_other_images_by_nearest_neighbor_and_their_fill() -> None:
    x = gi.rotate(gi.resize([np.zeros((*size, 3), np.uint8) for size in SIZES], (50, 60)), [10.0, 20.0, 45.0])
    depth = [np.random.default_rng().integers(1000, 60000, (*size, 1), np.uint16) for size in SIZES]
    found = gi.transform_images(x, depth, interpolation="nearest", fill=7)
    labels = gi.transform_masks(x, [one[..., 0].astype(np.int64) for one in depth], fill=7)
    np.testing.assert_array_equal(found.array()[..., 0], labels)


def test_other_images_of_an_unread_one() -> None:
    unread = gi.resize(gi.open_batch([b""], on_error="fill"), (4, 5))
    assert gi.transform_images(unread, np.ones((1, 8, 9, 1), np.uint8)).array().shape == (1, 4, 5, 1)
