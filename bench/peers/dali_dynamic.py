"""NVIDIA DALI in its imperative (dynamic) mode, as in its guide: plain calls, with the thread pool set once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import nvidia.dali.experimental.dynamic as ndd
from nvidia.dali import types

from bench.peers import base
from bench.peers.base import Epoch, Peer

_MEAN = [255 * m for m in base.MEAN]
_STD = [255 * s for s in base.STD]


def _uniform(low: float, high: float, count: int) -> Any:
    return ndd.random.uniform(range=[low, high], batch_size=count)


def _normalized(images: Any, **options: Any) -> Any:
    return ndd.crop_mirror_normalize(images, dtype=ndd.float32, output_layout="CHW", mean=_MEAN, std=_STD, **options)


def _preprocessed(encoded: Any, work: str, count: int) -> Any:
    if work in ("decode", "eval"):
        images = ndd.decoders.image(encoded, device="cpu", output_type=types.RGB)
        if work == "decode":
            return images
        images = ndd.resize(images, resize_shorter=base.SHORTER, interp_type=types.INTERP_TRIANGULAR)
        # An odd margin is rounded down, as by the others; by default it is rounded up, and every pixel is another.
        return _normalized(images, crop=(base.SIZE, base.SIZE), rounding="truncate")
    images = ndd.decoders.image_random_crop(
        encoded,
        device="cpu",
        output_type=types.RGB,
        random_area=list(base.SCALE),
        random_aspect_ratio=list(base.RATIO),
        num_attempts=10,
    )
    images = ndd.resize(images, size=[base.SIZE, base.SIZE], interp_type=types.INTERP_TRIANGULAR)
    mirror = ndd.random.coin_flip(batch_size=count)
    if work == "train":
        return _normalized(images, mirror=mirror)
    images = ndd.flip(images, horizontal=mirror)
    angle = _uniform(-base.ANGLE, base.ANGLE, count)
    images = ndd.rotate(images, angle=angle, interp_type=types.INTERP_LINEAR, keep_size=True, fill_value=0)
    low, high = 1 - base.JITTER, 1 + base.JITTER
    images = ndd.color_twist(
        images,
        brightness=_uniform(low, high, count),
        contrast=_uniform(low, high, count),
        saturation=_uniform(low, high, count),
        hue=_uniform(-360 * base.HUE, 360 * base.HUE, count),
    )
    return _normalized(images)


class DaliDynamic(Peer):
    """DALI's dynamic mode on the CPU."""

    name = "DALI (dynamic)"
    distributions = ("nvidia-dali-cuda120", "nvidia-dali-cuda130")
    lacks: ClassVar[dict[str, str]] = {"randaugment": "nvidia.dali.auto_aug is written for pipelines"}
    notes = "bytes given without a copy; eager evaluation (the default); contrast and hue of other formulas"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Create calls for one batch after another; DALI evaluates them on its own threads."""
        ndd.set_num_threads(self.threads)
        arrays = [np.frombuffer(data, np.uint8) for data in files]

        def epoch() -> Iterator[Any]:
            for at in range(0, len(arrays), self.batch):
                batch = ndd.as_batch(arrays[at : at + self.batch])
                result = _preprocessed(batch, work, batch.batch_size).evaluate()
                yield result if work == "decode" else ndd.as_tensor(result)

        return epoch

    def copied(self, result: Any, work: str) -> Any:
        """Copy a batch to NumPy arrays."""
        return super().copied(result.tensors if work == "decode" else result, work)
