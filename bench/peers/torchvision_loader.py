"""torchvision's transforms v2 on images that torchcodec decodes, in a DataLoader, as in its reference scripts."""

from functools import partial
from typing import Any

import torch
from torchcodec.decoders import decode_jpeg
from torchvision.transforms import v2

from bench.peers import base
from bench.peers.base import Epoch
from bench.peers.torch_loader import TorchPeer


def transforms(work: str) -> Any:
    if work == "decode":
        return v2.Identity()
    if work == "eval":
        steps = [v2.Resize(base.SHORTER, antialias=True), v2.CenterCrop(base.SIZE)]
    else:
        crop = v2.RandomResizedCrop(base.SIZE, scale=base.SCALE, ratio=base.RATIO, antialias=True)
        steps = [crop, v2.RandomHorizontalFlip()]
    if work == "train+rotate+color":
        steps.insert(0, v2.ToPILImage())  # as on tensors it takes longer, unlike all else
        steps.append(v2.RandomRotation(base.ANGLE, interpolation=v2.InterpolationMode.BILINEAR))
        steps.append(v2.ColorJitter(base.JITTER, base.JITTER, base.JITTER, base.HUE))
        steps.append(v2.PILToTensor())
    return v2.Compose([*steps, v2.ToDtype(torch.float32, scale=True), v2.Normalize(base.MEAN, base.STD)])


def _sample(transform: Any, data: bytes) -> Any:
    return transform(decode_jpeg(data))


class Torchvision(TorchPeer):
    """torchvision in worker processes."""

    name = "torchvision"
    distributions = ("torchvision", "torchcodec", "torch")
    notes = "DataLoader with torchcodec's decoder; rotation and color on Pillow's images"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        return self.loader(files, partial(_sample, transforms(work)), work)
