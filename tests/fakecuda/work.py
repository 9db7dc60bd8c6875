"""Work for the fake GPU: files, sources, chains and loops that its tests share."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import gpuimg as gi
from gpuimg._batch.tokens import Tokens

from . import UNWRITTEN, FakeGpu, file

SIZES = [(40, 56), (31, 33), (1, 19), (64, 64)]


def told(fate: str) -> Any:
    return pytest.warns(UserWarning, match="did not write") if fate in UNWRITTEN else nullcontext()


def files(sizes: Any = SIZES, kinds: tuple[str, ...] = ("good",)) -> list[bytes]:
    return [file(height, width, kinds[k % len(kinds)]) for k, (height, width) in enumerate(sizes)]


def turned_files(orientations: list[int], fate: str = "good") -> list[bytes]:
    return [file(40, 56, fate, orientation) for orientation in orientations]


def opened(sizes: Any = SIZES, kinds: tuple[str, ...] = ("good",), **options: Any) -> gi.Batch:
    return gi.open_batch(files(sizes, kinds), device="cuda:0", **options)


def two_statistics(x: Any) -> gi.Batch:
    """Statistics over two grids, some images with none."""
    x = gi.adjust_contrast(gi.resize(x, (20, 30)), 0.5)
    return gi.equalize(gi.resize(x, (16, 16)), where=np.arange(len(x)) % 2 == 0)


class Source:
    """Files of many sizes, some turned, some left to the CPU, some bad."""

    def __init__(self, n: int, bad: str | None = None) -> None:
        self.n = n
        self.bad = bad

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple[bytes, int]:
        fate = {2: "png", 5: "none"}.get(i % 9, "good")
        fate = self.bad if self.bad is not None and i % 7 == 3 else fate
        size = 16 + 5 * i % 23, 20 + 11 * i % 17
        return file(*size, fate, orientation=(1, 6, 1, 3)[i % 4]), i


def small(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    return gi.horizontal_flip(gi.resize(x, (12, 12)), where=rng.units(1)[:, 0] < 0.5)


def blurred(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    return gi.adjust_contrast(gi.gaussian_blur(gi.resize(x, (12, 12)), 3, 1.0), 0.5)


def ragged(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    return gi.resize(x, 12)


def mixed(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    return gi.mixup(gi.resize(x, (12, 12)), rng=rng).images


def growing(x: gi.Batch, rng: gi.Rng, labels: Any) -> tuple[gi.Batch, Any]:
    return gi.resize(x, (8 + 7 * int(labels[0]) % 19, 10)), labels


def float_mixed(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    """Use an intermediate result for further operations."""
    return gi.normalize(gi.cutmix(gi.resize(x, (12, 12)), rng=rng).images, 0.5, 0.5)


def alternating(x: gi.Batch, rng: gi.Rng, labels: Any) -> tuple[gi.Batch, Any]:
    """Whole images, decoded after another batch's large intermediate results."""
    return (gi.gaussian_blur(gi.resize(x, (60, 60)), 3, 1.0) if labels[0] % 8 else x), labels


def tokens(x: gi.Batch, rng: gi.Rng) -> Tokens:
    side = 4 + 4 * rng.integers(0, 3)
    return gi.resize(x, (side, side)).tokens(4, pad="longest")


_FUNCTIONS = small, blurred, ragged, mixed, float_mixed, growing, alternating, tokens
PREPROCESS: dict[str, Any] = {"nothing": None} | {one.__name__: one for one in _FUNCTIONS}


def arrays_of(batch: Any) -> list[Any]:
    images = batch.images
    if isinstance(images, Tokens):
        return [images.values]
    return list(images) if isinstance(images, gi.Batch) else [images]


def load(source: Any, preprocess: Any = small, **options: Any) -> gi.Loader:
    return gi.load(source, preprocess, **{"device": "cuda:0", "batch_size": 4, "readers": 1, **options})


def epoch(gpu: FakeGpu, loader: Any, held: int = 0) -> int:
    """Run a loop whose consumer reads each batch and keeps the last few; return the number of batches."""
    kept: list[Any] = []
    count = 0
    for count, batch in enumerate(loader, 1):  # noqa: B007
        gpu.use_all(arrays_of(batch))
        kept = [*kept, batch][-held:] if held else []
        del batch
    return count


def waits_of_loaders(gpu: FakeGpu, stream: tuple[int, int]) -> list[Any]:
    """Waits of a loader's threads that a stream with endless work would not let end."""
    loaders = [op for op in gpu.order.of("host wait", "stream wait") if op.thread.startswith("gpuimg-")]
    host = [op for op in loaders if op.kind == "host wait" and stream in op.told["pending"]]
    return host + [op for op in loaders if op.kind == "stream wait" and op.told["recorded"].stream == stream]


def waits_for(gpu: FakeGpu, stream: tuple[int, int], kind: str) -> list[Any]:
    """Waits of a loader's threads for an event on a stream, by the host or on a stream of theirs."""
    waits = [op for op in gpu.order.of(kind) if op.thread.startswith("gpuimg-")]
    return [op for op in waits if op.told["recorded"] is not None and op.told["recorded"].stream == stream]
