"""torchvision's JPEG decoder on CUDA, its random crop of each image, and Kornia's compiled augmentation of a batch."""

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from kornia import augmentation
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import v2

from bench.peers import base
from bench.peers.base import Epoch, Peer


class TorchvisionCuda(Peer):
    """torchvision and Kornia on the GPU."""

    name = "torchvision and Kornia (CUDA)"
    distributions: ClassVar[tuple[str, ...]] = ("torchvision", "kornia", "torch")
    lacks: ClassVar[dict[str, str]] = {"decode": "it is for batches of one size", "eval": "it is for training"}

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Prepare a work; crops are drawn and resized image by image, as their sizes differ."""
        crop = v2.RandomResizedCrop(base.SIZE, scale=base.SCALE, ratio=base.RATIO, antialias=True)
        steps: list[Any] = [augmentation.RandomHorizontalFlip()]
        if work == "train+rotate+color":
            color = base.JITTER, base.JITTER, base.JITTER, base.HUE
            steps += [augmentation.RandomRotation(base.ANGLE), augmentation.ColorJitter(*color, p=1.0)]
        steps.append(augmentation.Normalize(torch.tensor(base.MEAN), torch.tensor(base.STD)))
        augmented = torch.compile(augmentation.AugmentationSequential(*steps))
        coded = [torch.frombuffer(bytearray(data), dtype=torch.uint8) for data in files]

        def epoch() -> Iterator[Any]:
            for at in range(0, len(coded), self.batch):
                images = decode_jpeg(coded[at : at + self.batch], mode=ImageReadMode.RGB, device="cuda")
                yield augmented(torch.stack([crop(image) for image in images]).float() / 255)
            torch.cuda.synchronize()

        return epoch
