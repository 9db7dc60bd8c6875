"""Peers on an NVIDIA GPU, written after their documentation: **none of them has been run yet**.

DALI's mixed mode is beside its CPU mode, gpuimg's beside its own. All give their results on the GPU, and each batch is
waited for, as a kernel that was only launched has done nothing. torchvision's and Kornia's random crops draw one set
of parameters a call, so they are called image by image, which is what photos of different sizes need anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import torch

from bench.peers import base
from bench.peers.base import Epoch, Peer
from bench.peers.on_torch import Compiled, OnTorch
from bench.peers.torchvision_loader import augmentations, normalization, v2


class _WithTransforms(OnTorch):
    """torchvision's transforms, image by image."""

    def preprocessing(self, work: str) -> Callable[[list[Any]], Any]:
        """Those of the work."""
        transform = self.compiled(self.composed([*augmentations(work), *normalization()]))
        return lambda images: torch.stack([transform(image) for image in images])

    def composed(self, steps: list[Any]) -> Any:
        """One function of several transforms."""
        return v2.Compose(steps)


class TorchvisionGpu(_WithTransforms):
    """nvJPEG through torchvision, transforms v2 on the GPU."""

    name = "torchvision (GPU)"
    distributions = ("torchvision", "torch")
    notes = "decode_jpeg on a batch, transforms image by image"

    def decoded(self, batch: list[bytes]) -> list[Any]:
        """Decoded by one call."""
        from torchvision.io import ImageReadMode, decode_jpeg

        encoded = [torch.frombuffer(bytearray(data), dtype=torch.uint8) for data in batch]
        images: list[Any] = decode_jpeg(encoded, mode=ImageReadMode.RGB, device="cuda")
        return images


class TorchcodecGpu(_WithTransforms):
    """nvJPEG through torchcodec, torchvision's transforms v2 on the GPU."""

    name = "torchcodec (GPU)"
    distributions = ("torchcodec", "torchvision", "torch")
    notes = "decode_jpeg on a batch, torchvision's transforms image by image"

    def __init__(self, threads: int, batch: int) -> None:
        from torchcodec.decoders import decode_jpeg

        super().__init__(threads, batch)
        self._decode = decode_jpeg

    def decoded(self, batch: list[bytes]) -> list[Any]:
        """Decoded by one call, which its documentation recommends on a GPU."""
        images: list[Any] = self._decode(batch, device="cuda")
        return images


class KorniaGpu(TorchcodecGpu):
    """Kornia on what torchcodec decodes: it has no decoder for a GPU."""

    name = "Kornia (GPU)"
    distributions = ("kornia", "torchcodec", "torch")
    lacks: ClassVar[dict[str, str]] = {"decode": "it has no decoder for a GPU"}
    notes = "decoded by torchcodec; crops image by image, without antialiasing; all else on the batch"

    def preprocessing(self, work: str) -> Callable[[list[Any]], Any]:
        """Crops to one size, then one sequence for the batch, each image with parameters of its own."""
        import kornia.augmentation as augmentation
        from kornia.augmentation.auto import RandAugment
        from kornia.geometry.transform import resize

        size = (base.SIZE, base.SIZE)
        if work == "eval":
            crop = augmentation.CenterCrop(size)
            steps = []
        else:
            crop = augmentation.RandomResizedCrop(size, scale=base.SCALE, ratio=base.RATIO)
            steps = [augmentation.RandomHorizontalFlip(p=0.5)]
        if work == "train+rotate+color":
            steps.append(augmentation.RandomRotation(base.ANGLE, p=1.0))
            steps.append(augmentation.ColorJitter(base.JITTER, base.JITTER, base.JITTER, base.HUE, p=1.0))
        elif work == "randaugment":
            steps.append(RandAugment(base.NUM_OPS, base.MAGNITUDE))
        normalize = augmentation.Normalize(list(base.MEAN), list(base.STD))
        rest = self.compiled(torch.nn.Sequential(*steps, normalize))

        def one(image: Any) -> Any:
            pixels = image[None].float() / 255
            return crop(resize(pixels, base.SHORTER, side="short", antialias=True) if work == "eval" else pixels)

        return lambda images: rest(torch.cat([one(image) for image in images]))


class TorchvisionCompiled(Compiled, TorchvisionGpu):
    """torchvision's transforms under torch.compile."""

    name = "torchvision (GPU, compiled)"
    notes = "decode_jpeg on a batch, transforms image by image under torch.compile, compiled in the first epoch"


class KorniaCompiled(Compiled, KorniaGpu):
    """Kornia under torch.compile, but for the crops."""

    name = "Kornia (GPU, compiled)"
    notes = "as Kornia (GPU), with all after the crops under torch.compile, compiled in the first epoch"


class CvCudaCompose(TorchcodecGpu):
    """CV-CUDA's runner of torchvision's transforms, on what torchcodec decodes."""

    name = "CV-CUDA (Compose)"
    distributions = ("cvcuda-cu12", "torchcodec", "torchvision")
    notes = "decoded by torchcodec; torchvision's transforms in cvcuda.tv.Compose, image by image"

    def composed(self, steps: list[Any]) -> Any:
        """One chain of CV-CUDA's functions."""
        import cvcuda.tv

        return cvcuda.tv.Compose(steps)


class CvCuda(Peer):
    """CV-CUDA's torchvision-like functions on what nvImageCodec decodes, as in its samples."""

    name = "CV-CUDA"
    distributions = ("cvcuda-cu12", "cvcuda-cu13")
    lacks: ClassVar[dict[str, str]] = {"randaugment": "it has no RandAugment"}
    notes = "decoded by nvImageCodec; functions image by image, normalised as a batch"

    def __init__(self, threads: int, batch: int) -> None:
        import cvcuda
        import cvcuda.tv
        from nvidia import nvimgcodec

        super().__init__(threads, batch)
        self._cvcuda = cvcuda
        self._decoder = nvimgcodec.Decoder(max_num_cpu_threads=threads)
        self._rng = np.random.default_rng(0)

    def _one(self, image: Any, work: str) -> Any:
        tv, rng, size = self._cvcuda.tv, self._rng, [base.SIZE, base.SIZE]
        if work == "eval":
            return tv.center_crop(tv.resize(image, base.SHORTER), base.SIZE)
        image = tv.resized_crop(image, *base.random_box(rng, *image.shape[:2]), size)
        if rng.random() < 0.5:
            image = tv.horizontal_flip(image)
        if work == "train+rotate+color":
            image = tv.rotate(image, rng.uniform(-base.ANGLE, base.ANGLE), "bilinear")
            for adjust in (tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation):
                image = adjust(image, rng.uniform(1 - base.JITTER, 1 + base.JITTER))
            image = tv.adjust_hue(image, rng.uniform(-base.HUE, base.HUE))
        return image

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """One batch after another."""
        cvcuda = self._cvcuda

        def epoch() -> Iterator[Any]:
            for batch in base.batches(files, self.batch):
                images = [cvcuda.as_tensor(image, "HWC") for image in self._decoder.decode(batch)]
                if work != "decode":
                    stacked = cvcuda.stack([self._one(image, work) for image in images])
                    scaled = cvcuda.tv.to_dtype(stacked, np.float32, scale=True)
                    normal = cvcuda.tv.normalize(scaled, list(base.MEAN), list(base.STD))
                    images = cvcuda.reformat(normal, cvcuda.TensorLayout.NCHW)
                cvcuda.Stream.current.sync()
                yield images

        return epoch

    def copied(self, result: Any, work: str) -> Any:
        """A batch, from the GPU."""
        import cupy

        if work == "decode":
            return [cupy.asnumpy(cupy.asarray(image.cuda())) for image in result]
        return cupy.asnumpy(cupy.asarray(result.cuda()))
