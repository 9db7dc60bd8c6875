"""A program that type checkers must pass, under their strictest rules: what users write, with its types."""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

import gpuimg
from gpuimg.typing import Array, Images, Interpolation, LoadOptions, PerImage


class InterpolationMode(Enum):
    """As torchvision's."""

    BILINEAR = "bilinear"


def train(images: gpuimg.Batch, rng: gpuimg.Rng) -> gpuimg.Batch:
    x = gpuimg.random_resized_crop(images, 224, scale=(0.35, 1.0), interpolation="bicubic", rng=rng)
    x = gpuimg.random_horizontal_flip(x, np.full(len(x), 0.5), rng=rng)
    x = gpuimg.color_jitter(x, 0.4, (0.6, 1.4), [0.6, 1.4], None, rng=rng)
    return gpuimg.normalize(x, gpuimg.IMAGENET_MEAN, gpuimg.IMAGENET_STD)


def mixed(images: gpuimg.Batch, rng: gpuimg.Rng, labels: NDArray[np.int64]) -> tuple[gpuimg.Batch, NDArray[Any]]:
    mix = gpuimg.mixup(train(images, rng), alpha=0.2, rng=rng)
    return mix.images, mix.labels(labels, num_classes=10)


def turned(images: Images, angle: PerImage, interpolation: Interpolation = "nearest") -> gpuimg.Batch:
    return gpuimg.rotate(images, angle, interpolation, expand=True, center=(3, 4), fill=(1, 2, 3), where=[True, False])


def loader(root: Path, **options: Unpack[LoadOptions]) -> gpuimg.Loader:
    return gpuimg.load(gpuimg.folder(root), train, **options)


def batches(one: gpuimg.Loader) -> Iterator[tuple[Array, NDArray[Any]]]:
    with one:
        for batch in one:
            count: int = batch.images.shape[0]
            valid: int = int(batch.valid.sum())
            labels: NDArray[Any] = batch.labels
            assert (count, valid) == (len(labels), len(batch.indices))
            yield batch.images, labels


class Photos:
    """A source of one's own."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[str, int]:
        return self.paths[index], index


def sources(files: list[bytes]) -> None:
    pairs = [(file, label) for label, file in enumerate(files)]
    for batch in gpuimg.load(pairs, batch_size=2, shuffle=True, on_error="skip", shard=(0, 2), layout="NCHW"):
        if isinstance(batch.images, gpuimg.Batch):  # without a function they are
            print(batch.images.sizes, gpuimg.resize(batch.images, 224).errors)
    gpuimg.load(Photos(["a.jpg"]), lambda batch, rng: gpuimg.random_crop(batch, 8, rng=rng), batch_size=8, epochs=None)
    gpuimg.load(pairs, gpuimg.presets.imagenet_eval(), batch_size=8, dtype=np.float16, device=f"cuda:{len(files)}")
    gpuimg.load(pairs, mixed, batch_size=8, dtype="bfloat16")
    gpuimg.load(gpuimg.tar("shard-{000..146}.tar", index_cache="shards.index"), lambda batch: batch, batch_size=8)


def arrays(x: gpuimg.Batch) -> None:
    pixels: NDArray[Any] = x.array("float32", "NCHW")
    x.array(np.dtype("uint8"), "NHWC", out=pixels)
    several: list[Array] = x.arrays(layout="NCTHW")
    some: gpuimg.Batch = x[2:5]
    one: NDArray[Any] = x[0]
    each: list[Array] = list(x.take([1, 0]).compute("float16"))
    print(several, some, one.mean(), each, np.asarray(x).shape, x.sizes[0], x.status)


def functions(images: list[NDArray[np.uint8]], boxes: list[NDArray[np.float32]]) -> None:
    x = gpuimg.resize(images, 256, InterpolationMode.BILINEAR)
    x = gpuimg.resize(x, None, max_size=300)
    x = gpuimg.resize(x, (np.array([20, 30]), 40))
    x = gpuimg.resize(np.zeros((2, 4, 4, 3), np.uint8), np.array([(1, 2), (3, 4)]), antialias=False)
    x = gpuimg.pad(x, (1, 2, 3, 4), fill=np.array([1, 2]), padding_mode="reflect")
    x = gpuimg.perspective(x, [(0, 0), (4, 0), (4, 4), (0, 4)], np.zeros((2, 4, 2)))
    x = gpuimg.gaussian_blur(x, (3, 5), 1.5)
    x = gpuimg.adjust_hue(x, np.float32(0.1), where=np.array([True, False]))
    x = turned(x, [10.0, -20.0])
    moved, kept = gpuimg.transform_boxes(x, boxes, format="cxcywh")
    points = gpuimg.transform_points(x, [[(1.0, 2.0)], [(3.0, 4.0), (5.0, 6.0)]])
    masks = gpuimg.transform_masks(x, [image[..., 0] for image in images])
    valid = gpuimg.sanitize_bounding_boxes([[(0, 0, 10, 10)]], (40, 20))[1]
    print(moved[0].tolist(), kept[0].any(), points[0].shape, masks[0].dtype, valid[0])
    steps: list[Callable[[Images], gpuimg.Batch]] = [gpuimg.invert, gpuimg.horizontal_flip, gpuimg.equalize]
    for step in steps:
        x = step(x)
    random = gpuimg.Rng(0, epoch=3, indices=[1, 2])
    x = gpuimg.solarize(x, random.uniform(0.5, 1.0), where=random.bernoulli(0.5))
    print(gpuimg.describe(x, 0), gpuimg.apply_plan(x, images).channels)
