"""NVIDIA DALI in pipeline and in dynamic mode, as in its ImageNet examples (ResNet-50 and EfficientNet)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import nvidia.dali.experimental.dynamic as ndd
from nvidia.dali import fn, pipeline_def, types

from bench.peers import base
from bench.peers.base import Epoch, Peer

_MEAN = [255 * m for m in base.MEAN]
_STD = [255 * s for s in base.STD]


def _coded(files: list[bytes], size: int) -> list[list[Any]]:
    return [[np.frombuffer(data, np.uint8) for data in batch] for batch in base.batches(files, size)]


class _Steps:
    """The steps of a work as DALI's operators: functions of its pipelines, or of dynamic mode.

    ``drawn`` are arguments of random numbers: the number that dynamic mode wants to be told.
    """

    def __init__(self, ops: Any, device: str, **drawn: int) -> None:
        self._ops, self._device, self._drawn = ops, device, drawn

    def __call__(self, encoded: Any, work: str) -> Any:
        images = self._decoded(encoded, work)
        return images if work == "decode" else self._preprocessed(images, work)

    def _decoded(self, encoded: Any, work: str) -> Any:
        """Decode whole images, or random crops: DALI draws the region, and decodes only it."""
        # The hardware decoder's share is that of DALI's examples; without such hardware it means nothing.
        hardware = {"hw_decoder_load": 0.65} if self._device == "mixed" else {}
        common = {"device": self._device, "output_type": types.RGB, **hardware}
        if work in ("decode", "eval"):
            return self._ops.decoders.image(encoded, **common)
        return self._ops.decoders.image_random_crop(
            encoded, random_area=list(base.SCALE), random_aspect_ratio=list(base.RATIO), num_attempts=10, **common
        )

    def _uniform(self, low: float, high: float) -> Any:
        return self._ops.random.uniform(range=[low, high], **self._drawn)

    def _colored(self, images: Any) -> Any:
        """Apply rotation and color. DALI's formulas differ: contrast relative to half of the range, hue in YIQ."""
        # The grid stays 224x224, as for the others; by default it would grow to hold the rotated image.
        angle = self._uniform(-base.ANGLE, base.ANGLE)
        images = self._ops.rotate(images, angle=angle, interp_type=types.INTERP_LINEAR, keep_size=True, fill_value=0)
        factor = 1 - base.JITTER, 1 + base.JITTER
        return self._ops.color_twist(
            images, brightness=self._uniform(*factor), contrast=self._uniform(*factor),
            saturation=self._uniform(*factor), hue=self._uniform(-360 * base.HUE, 360 * base.HUE),
        )  # fmt: skip

    def _preprocessed(self, images: Any, work: str) -> Any:
        """Apply everything after decoding. Triangular interpolation is bilinear with antialiasing."""
        ops, triangular = self._ops, types.INTERP_TRIANGULAR
        normalize = {"dtype": types.FLOAT, "output_layout": "CHW", "mean": _MEAN, "std": _STD}
        if work == "eval":
            images = ops.resize(images, resize_shorter=base.SHORTER, interp_type=triangular)
            # An odd margin is rounded down, as by the others; by default it is rounded up, and every pixel is another.
            return ops.crop_mirror_normalize(images, crop=(base.SIZE, base.SIZE), rounding="truncate", **normalize)
        images = ops.resize(images, size=[base.SIZE, base.SIZE], interp_type=triangular)
        mirror = ops.random.coin_flip(**self._drawn)
        if work == "train":
            return ops.crop_mirror_normalize(images, mirror=mirror, **normalize)
        return ops.crop_mirror_normalize(self._colored(ops.flip(images, horizontal=mirror)), **normalize)


class DaliPipeline(Peer):
    """DALI's pipeline on the CPU."""

    name = "DALI (pipeline)"
    distributions = ("nvidia-dali-cuda120", "nvidia-dali-cuda130")
    notes = "bytes given without a copy; prefetch depth 2 (the default); contrast and hue of other formulas"
    decoder = "cpu"
    device_id: int | None = None

    def start(self, work: str, files: list[bytes]) -> Epoch:
        # Each epoch is a new iteration over this list.
        source = _coded(files, self.batch)
        steps = _Steps(fn, self.decoder)

        @pipeline_def(batch_size=self.batch, num_threads=self.threads, device_id=self.device_id)
        def definition() -> Any:
            encoded = fn.external_source(source=source, batch=True, cycle="raise", no_copy=True)
            return steps(encoded, work)

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


class DaliDynamic(Peer):
    """DALI's dynamic mode on the CPU, whose loop is captured: its calls become a pipeline in the first step."""

    name = "DALI (dynamic)"
    distributions = DaliPipeline.distributions
    notes = "captured; arrays of the files' bytes are made beforehand"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        steps, context = _Steps(ndd, "cpu", batch_size=self.batch), ndd.EvalContext(num_threads=self.threads)
        source = ndd.ExternalSource([ndd.as_batch(batch) for batch in _coded(files, self.batch)], cycle="raise")

        def epoch() -> Iterator[Any]:
            with context:
                for encoded in source.captured(self.batch, context):
                    yield steps(encoded, work).evaluate()

        return epoch

    def copied(self, result: Any, work: str) -> Any:
        images = [np.array(image) for image in result.tensors]
        return images if work == "decode" else np.stack(images)
