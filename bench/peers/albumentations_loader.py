"""AlbumentationsX, the successor of Albumentations, on images that OpenCV decodes, in a DataLoader."""

from functools import partial
from typing import Any

import albumentations as A  # noqa: N812 - as its documentation writes it
import cv2
import numpy as np
from albumentations.pytorch import ToTensorV2

from bench.peers import base
from bench.peers.base import Epoch
from bench.peers.torch_loader import TorchPeer

# Its interpolation is bilinear without antialiasing, unless areas are averaged where an image is made smaller: the
# nearest it has to the antialiased resizing of the others.
_RESIZE = {"interpolation": cv2.INTER_LINEAR, "area_for_downscale": "image"}


def transforms(work: str) -> Any:
    if work == "decode":
        return A.Compose([ToTensorV2()], telemetry=False)
    if work == "eval":
        steps = [A.SmallestMaxSize(base.SHORTER, **_RESIZE), A.CenterCrop(base.SIZE, base.SIZE)]
    else:
        crop = A.RandomResizedCrop((base.SIZE, base.SIZE), scale=base.SCALE, ratio=base.RATIO, **_RESIZE)
        steps = [crop, A.HorizontalFlip(p=0.5)]
    if work == "train+rotate+color":
        factor = (1 - base.JITTER, 1 + base.JITTER)
        steps.append(A.Rotate((-base.ANGLE, base.ANGLE), interpolation=cv2.INTER_LINEAR, p=1.0))
        steps.append(A.ColorJitter(factor, factor, factor, (-base.HUE, base.HUE), p=1.0))
    return A.Compose([*steps, A.Normalize(base.MEAN, base.STD), ToTensorV2()], telemetry=False)


def _sample(transform: Any, data: bytes) -> Any:
    # Workers are processes; threads of OpenCV in each would be more than the others have.
    cv2.setNumThreads(0)
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
    return transform(image=image)["image"]


class Albumentations(TorchPeer):
    """AlbumentationsX in worker processes."""

    name = "AlbumentationsX"
    distributions = ("albumentationsx", "opencv-python-headless", "torch")
    notes = "DataLoader with OpenCV; smaller by averaging areas, larger bilinear"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        return self.loader(files, partial(_sample, transforms(work)), work)
