"""torchvision's transforms v2 on images that Pillow decodes, in a DataLoader, as in its reference training scripts."""

import io
from functools import partial
from typing import Any

import torch
from PIL import Image

from bench.peers import base
from bench.peers.base import Epoch
from bench.peers.torch_loader import TorchPeer
from bench.torchvision_import import define_operators

_is_partial = define_operators()
from torchvision.transforms import v2 as v2  # noqa: E402


def transforms(work: str) -> Any:
    if work == "decode":
        return v2.PILToTensor()
    # The faster of the two for each, in CPU time: 1.3 against 2.0 ms an image for eval and 1.2 against 1.6 for
    # train; no difference with rotation and color.
    on_tensors = work in ("eval", "train")
    if work == "eval":
        steps = [v2.Resize(base.SHORTER, antialias=True), v2.CenterCrop(base.SIZE)]
    else:
        crop = v2.RandomResizedCrop(base.SIZE, scale=base.SCALE, ratio=base.RATIO, antialias=True)
        steps = [crop, v2.RandomHorizontalFlip()]
    if work == "train+rotate+color":
        steps.append(v2.RandomRotation(base.ANGLE, interpolation=v2.InterpolationMode.BILINEAR))
        steps.append(v2.ColorJitter(base.JITTER, base.JITTER, base.JITTER, base.HUE))
    steps.insert(0 if on_tensors else len(steps), v2.PILToTensor())
    return v2.Compose([*steps, v2.ToDtype(torch.float32, scale=True), v2.Normalize(base.MEAN, base.STD)])


def _sample(transform: Any, data: bytes) -> Any:
    return transform(Image.open(io.BytesIO(data)).convert("RGB"))


class Torchvision(TorchPeer):
    """torchvision in worker processes, without Pillow's draft mode, which gives other pixels."""

    name = "torchvision"
    distributions = ("torchvision", "torch", "pillow")
    notes = "DataLoader with Pillow; eval and train on tensors, the others on Pillow's images"
    if _is_partial:
        notes += "; its compiled part does not match this torch and was left out, no transform needs it"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        return self.loader(files, partial(_sample, transforms(work)), work)
