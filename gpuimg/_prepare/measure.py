"""Training throughput on some of the images, before and after preparation."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from .. import presets
from .._batch.opening import open_batch
from .._io.native_read import ChunkReader
from .._loading.samples import Columns, read_samples
from .._random.rng import Rng
from .manifest import Line
from .report import TrainRate
from .writing import shard_name

_IMAGES = 64  # images measured
_BATCH = 32  # images per batch
_ROUNDS = 5  # measured rounds, after one that is not counted


def train_rate(source: Any, columns: Columns, folder: str, lines: Iterable[Line], written: int) -> TrainRate | None:
    """Measure images/s before and after; None if there is no image, or one cannot be read any more."""
    some = list(
        islice(islice((line for line in lines if "output" in line), 0, None, max(written // _IMAGES, 1)), _IMAGES)
    )
    numbers = [line["sample"] for line in some]
    samples = read_samples(source, numbers, [True] * len(numbers), columns, ChunkReader())
    if not some or any(sample.error is not None for sample in samples):
        return None
    before = [bytes(sample.data) for sample in samples]
    after = [_content(folder, line) for line in some]
    seconds = np.array([[_seconds(before, k), _seconds(after, k)] for k in range(_ROUNDS + 1)][1:])
    rates = np.rint(len(some) / np.median(seconds, 0)).astype(int).tolist()
    return TrainRate(len(some), *rates)


def _content(folder: str, line: Line) -> bytes:
    """Read the file bytes of a result."""
    in_shard = "shard" in line
    with open(os.path.join(folder, shard_name(line["shard"]) if in_shard else line["output"]), "rb") as file:
        file.seek(line["offset"] if in_shard else 0)
        return file.read(line["bytes"])


def _seconds(files: list[bytes], epoch: int) -> float:
    """Measure one pass of ``presets.imagenet_train`` over the files."""
    train = presets.imagenet_train()
    start = time.perf_counter()
    for at in range(0, len(files), _BATCH):
        batch = open_batch(files[at : at + _BATCH], device="cpu", on_error="fill")
        train(batch, Rng(0, epoch=epoch, indices=range(at, at + len(batch)))).array("float16", "NCHW")
    return time.perf_counter() - start
