"""PyTorch's DataLoader over encoded files, for the peers that run in it."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader

from bench.peers.base import Epoch, Peer

Sample = Callable[[bytes], Any]  # one file to one image


class Photos:
    """A map-style data set; forked worker processes share its bytes."""

    def __init__(self, files: list[bytes], sample: Sample) -> None:
        self._files, self._sample = files, sample

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Any:
        return self._sample(self._files[index])


class TorchPeer(Peer):
    """A peer whose samples are tensors."""

    def loader(self, files: list[bytes], sample: Sample, work: str) -> Epoch:
        """Return the epochs of persistent workers, with the default prefetching of two batches each."""
        # Tensors are sent between processes as files, one for each image of another size: by name, lest
        # 64 images a batch exhaust the descriptors. The default does for batches in one piece.
        torch.multiprocessing.set_sharing_strategy("file_system" if work == "decode" else "file_descriptor")
        loader: Any = DataLoader(
            Photos(files, sample),  # type: ignore[arg-type]
            batch_size=self.batch, num_workers=self.threads, persistent_workers=True,
            collate_fn=list if work == "decode" else None,
        )  # fmt: skip
        return lambda: iter(loader)

    def copied(self, result: Any, work: str) -> Any:
        return [image.permute(1, 2, 0).numpy().copy() for image in result] if work == "decode" else result.numpy()
