"""Decode and augment batches of indices from Grain. Call gpuimg after Grain's `batch`, not before.

python examples/grain_batch.py [FOLDER]
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg

try:
    import grain
except ImportError:
    sys.exit("this example needs Grain: pip install grain")

SIZE = 64


def batches(source: Any, epoch: int) -> Any:
    """Return an epoch of a gpuimg source as an iterable of Grain."""
    train = gpuimg.presets.imagenet_train(SIZE)

    def make(ids: Any) -> dict[str, Any]:
        files, labels = zip(*(source[int(i)] for i in ids), strict=True)
        x = gpuimg.open_batch(files)
        images = train(x, gpuimg.Rng(0, epoch=epoch, indices=ids)).array("float16", "NCHW")
        return {"id": ids, "image": images, "label": np.array(labels)}

    indices = grain.MapDataset.range(len(source)).shuffle(seed=epoch)
    made = indices.batch(4, batch_fn=np.array).map(make)
    return made.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=2))  # threads suffice


def main() -> None:
    parser = argparse.ArgumentParser(description="Decode and augment the batches of Grain.")
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "photos")
    photos = sorted(parser.parse_args().folder.glob("*.jpg"))
    source = gpuimg.file_list(photos, range(len(photos)))

    images: dict[int, Any] = {}
    for batch in batches(source, epoch=0):  # your training loop
        images.update(zip(batch["id"].tolist(), batch["image"], strict=True))
    pixels = np.stack([images[k] for k in range(len(photos))])
    print(f"{len(images)} photos, SHA-256 of the pixels {hashlib.sha256(pixels.tobytes()).hexdigest()}")


if __name__ == "__main__":
    main()
