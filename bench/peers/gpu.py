"""A peer on an NVIDIA GPU, as are DALI's mixed mode and gpuimg's: results stay there, and each batch is waited for.

torchvision's random crops draw one set of parameters for a call, so transforms are called image by image, which photos
of different sizes need anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from bench.peers import base
from bench.peers.base import Epoch, Peer
from bench.peers.torchvision_loader import augmentations, normalization, v2


class TorchvisionGpu(Peer):
    """nvJPEG through torchvision, transforms v2 on the GPU."""

    name = "torchvision (GPU)"
    distributions = ("torchvision", "torch")
    notes = "decode_jpeg on a batch, transforms image by image"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Process one batch after another."""
        from torchvision.io import ImageReadMode, decode_jpeg

        transform = v2.Compose([*augmentations(work), *normalization()])

        def epoch() -> Iterator[Any]:
            for batch in base.batches(files, self.batch):
                encoded = [torch.frombuffer(bytearray(data), dtype=torch.uint8) for data in batch]
                images: Any = decode_jpeg(encoded, mode=ImageReadMode.RGB, device="cuda")
                if work != "decode":
                    images = torch.stack([transform(image) for image in images])
                torch.cuda.synchronize()
                yield images

        return epoch

    def copied(self, result: Any, work: str) -> Any:
        """Copy a batch from the GPU."""
        if work == "decode":
            return [image.permute(1, 2, 0).cpu().numpy() for image in result]
        return result.cpu().numpy()
