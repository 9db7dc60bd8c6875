"""What peers share whose results are torch's, on a GPU or, for a try, on the CPU."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch

from bench.peers import base
from bench.peers.base import Epoch, Peer


class OnTorch(Peer):
    """Files to tensors on a device, tensors to results."""

    device = "cuda"

    @abstractmethod
    def decoded(self, batch: list[bytes]) -> list[Any]:
        """(3, H, W) uint8 images on the device."""

    @abstractmethod
    def preprocessing(self, work: str) -> Callable[[list[Any]], Any]:
        """A function of such images that gives one tensor."""

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A step of the preprocessing, as it is run."""
        return function

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """One batch after another."""
        preprocess = (lambda images: images) if work == "decode" else self.preprocessing(work)

        def epoch() -> Iterator[Any]:
            for batch in base.batches(files, self.batch):
                result = preprocess(self.decoded(batch))
                if self.device == "cuda":
                    torch.cuda.synchronize()
                yield result

        return epoch

    def copied(self, result: Any, work: str) -> Any:
        """A batch, from the device."""
        if work == "decode":
            return [image.permute(1, 2, 0).cpu().numpy() for image in result]
        return result.cpu().numpy()


class Compiled(OnTorch):
    """The same under ``torch.compile``; to be named before the peer that it is mixed into."""

    backend = "inductor"

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Compiled for sizes that change from image to image."""
        found: Callable[..., Any] = torch.compile(function, dynamic=True, backend=self.backend)
        return found
