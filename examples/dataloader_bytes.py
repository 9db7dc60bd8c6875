"""Read files in DataLoader workers, and decode one batch ahead in the main process, with all cores or on the GPU.

python examples/dataloader_bytes.py [FOLDER]

For code that already has a Dataset, a DataLoader and a sampler. File bytes are cheap to send between processes.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg

try:
    import torch
except ImportError:
    sys.exit('this example needs torch: pip install ".[torch]"')

SIZE = 64


class Files(torch.utils.data.Dataset[Any]):  # type: ignore[misc]  # torch is not type-checked here
    """Undecoded files, with their indices."""

    def __init__(self, photos: list[Path]) -> None:
        self.photos = photos

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, i: int) -> tuple[int, bytes]:
        return i, self.photos[i].read_bytes()


def decoded(batches: Any, epoch: int) -> Iterator[tuple[Any, Any]]:
    """Yield the indices and pixels of each list of samples."""
    train = gpuimg.presets.imagenet_train(SIZE)
    for samples in batches:
        ids, files = zip(*samples, strict=True)
        x = train(gpuimg.open_batch(files), gpuimg.Rng(0, epoch=epoch, indices=ids))
        yield torch.tensor(ids), gpuimg.to_torch(x, dtype="float16")


def main() -> None:
    parser = argparse.ArgumentParser(description="Decode and augment what a DataLoader reads.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "photos")
    photos = sorted(parser.parse_args().folder.glob("*.jpg"))
    loader = torch.utils.data.DataLoader(Files(photos), batch_size=4, shuffle=True, num_workers=2, collate_fn=list)

    images: dict[int, Any] = {}
    reading = iter(loader)  # its workers start here, before gpuimg has threads
    with gpuimg.prefetch(decoded(reading, epoch=0), depth=2) as batches:
        for ids, batch in batches:  # your training loop
            images.update(zip(ids.tolist(), batch, strict=True))
    pixels = np.stack([images[k].cpu().numpy() for k in range(len(photos))])
    print(f"{len(images)} photos, SHA-256 of the pixels {hashlib.sha256(pixels.tobytes()).hexdigest()}")


if __name__ == "__main__":
    main()
