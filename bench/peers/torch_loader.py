"""PyTorch's DataLoader over encoded files, for the peers that run in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader

Sample = Callable[[bytes], Any]  # one file to one tensor


class _Photos:
    """A map-style data set; forked worker processes share its bytes."""

    def __init__(self, files: list[bytes], sample: Sample) -> None:
        self._files = files
        self._sample = sample

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Any:
        return self._sample(self._files[index])


def data_loader(files: list[bytes], sample: Sample, work: str, threads: int, batch: int) -> Any:
    """Return a DataLoader with persistent workers and the default prefetching of two batches each."""
    # Tensors are sent between processes as files, one for each image of another size: by name, lest
    # 64 images a batch exhaust the descriptors. The default does for batches in one piece.
    torch.multiprocessing.set_sharing_strategy("file_system" if work == "decode" else "file_descriptor")
    return DataLoader(
        _Photos(files, sample),
        batch_size=batch,
        num_workers=threads,
        persistent_workers=True,
        collate_fn=list if work == "decode" else None,
    )
