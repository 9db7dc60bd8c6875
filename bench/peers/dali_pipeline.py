"""NVIDIA DALI in pipeline mode, as in its ImageNet examples (ResNet-50 and EfficientNet)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from nvidia.dali import fn, pipeline_def, types

from bench.peers import base
from bench.peers.base import Epoch, Peer

_MEAN = [255 * m for m in base.MEAN]
_STD = [255 * s for s in base.STD]


def _decoded(encoded: Any, device: str, work: str) -> Any:
    """Decode whole images, or random crops: DALI draws the region, and decodes only it."""
    # The hardware decoder's share is that of DALI's examples; without such hardware it means nothing.
    hardware = {"hw_decoder_load": 0.65} if device == "mixed" else {}
    if work in ("decode", "eval"):
        return fn.decoders.image(encoded, device=device, output_type=types.RGB, **hardware)
    return fn.decoders.image_random_crop(
        encoded, device=device, output_type=types.RGB, random_area=list(base.SCALE),
        random_aspect_ratio=list(base.RATIO), num_attempts=10, **hardware,
    )  # fmt: skip


def _colored(images: Any) -> Any:
    """Apply rotation and color. DALI's formulas differ: contrast relative to half of the range, hue in YIQ."""
    # The grid stays 224x224, as for the others; by default it would grow to hold the rotated image.
    angle = fn.random.uniform(range=[-base.ANGLE, base.ANGLE])
    images = fn.rotate(images, angle=angle, interp_type=types.INTERP_LINEAR, keep_size=True, fill_value=0)
    factor = [1 - base.JITTER, 1 + base.JITTER]
    return fn.color_twist(
        images,
        brightness=fn.random.uniform(range=factor),
        contrast=fn.random.uniform(range=factor),
        saturation=fn.random.uniform(range=factor),
        hue=fn.random.uniform(range=[-360 * base.HUE, 360 * base.HUE]),
    )


def _preprocessed(images: Any, work: str) -> Any:
    """Apply everything after decoding. Triangular interpolation is bilinear with antialiasing."""
    normalize = {"dtype": types.FLOAT, "output_layout": "CHW", "mean": _MEAN, "std": _STD}
    if work == "eval":
        images = fn.resize(images, resize_shorter=base.SHORTER, interp_type=types.INTERP_TRIANGULAR)
        # An odd margin is rounded down, as by the others; by default it is rounded up, and every pixel is another.
        return fn.crop_mirror_normalize(images, crop=(base.SIZE, base.SIZE), rounding="truncate", **normalize)
    images = fn.resize(images, size=[base.SIZE, base.SIZE], interp_type=types.INTERP_TRIANGULAR)
    if work == "train":
        return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), **normalize)
    return fn.crop_mirror_normalize(_colored(fn.flip(images, horizontal=fn.random.coin_flip())), **normalize)


class DaliPipeline(Peer):
    """DALI's pipeline on the CPU."""

    name = "DALI (pipeline)"
    distributions = ("nvidia-dali-cuda120", "nvidia-dali-cuda130")
    notes = "bytes given without a copy; prefetch depth 2 (the default); contrast and hue of other formulas"
    decoder = "cpu"
    device_id: int | None = None

    def start(self, work: str, files: list[bytes]) -> Epoch:
        # Each epoch is a new iteration over this list.
        source = [[np.frombuffer(data, np.uint8) for data in batch] for batch in base.batches(files, self.batch)]

        @pipeline_def(batch_size=self.batch, num_threads=self.threads, device_id=self.device_id)
        def definition() -> Any:
            encoded = fn.external_source(source=source, batch=True, cycle="raise", no_copy=True)
            images = _decoded(encoded, self.decoder, work)
            return images if work == "decode" else _preprocessed(images, work)

        pipeline = definition()
        pipeline.build()

        def epoch() -> Iterator[Any]:
            while True:
                try:
                    (result,) = pipeline.run()
                except StopIteration:
                    pipeline.reset()
                    return
                # Images of different sizes stay a list; all else is one tensor, without a copy.
                yield result if work == "decode" else result.as_tensor()

        return epoch


class DaliMixed(DaliPipeline):
    """DALI's pipeline with decoding by GPU and CPU, and all else on the GPU, where the results stay."""

    name = "DALI (mixed)"
    notes = "hw_decoder_load 0.65; results on the GPU"
    decoder = "mixed"
    device_id = 0

    def copied(self, result: Any, work: str) -> Any:
        return super().copied(result.as_cpu(), work)
