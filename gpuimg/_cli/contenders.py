"""Comparison programs of ``gpuimg bench``: the operations of ``imagenet_train`` with Pillow and torchvision.

Each is a generator that loads a data set and yields the number of images of each batch. Closing it ends its threads or
processes.
"""

import io
import signal
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._io.native_read import ChunkReader
from .._loading.samples import Columns, read_samples
from .._ops.pixels import IMAGENET_MEAN, IMAGENET_STD
from .._random.draws import resized_crop_boxes
from .._random.rng import Rng

if TYPE_CHECKING:
    from PIL import Image

_SIZE = 224
_SCALE, _RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
_SCALED = np.array([255 * std for std in IMAGENET_STD], np.float32)
_SHIFT = np.array([mean / std for mean, std in zip(IMAGENET_MEAN, IMAGENET_STD, strict=True)], np.float32)


class Files:
    """File bytes of the samples of a source; None for one that cannot be read."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> bytes | None:
        (sample,) = read_samples(self._source, [index], [True], Columns(label=None), ChunkReader())
        return None if sample.error is not None else bytes(sample.data)


def _orders(count: int) -> Iterator[int]:
    """Yield indices of samples without end, shuffled in each epoch."""
    rng = np.random.default_rng()
    while True:
        yield from rng.permutation(count).tolist()


# -- Pillow ------------------------------------------------------------------------------------------------------------


def pillow(files: Files, batch_size: int, threads: int) -> Iterator[int]:
    """Load with Pillow and NumPy in threads, two batches ahead."""
    pool = ThreadPoolExecutor(threads)
    try:
        jobs = (pool.submit(_preprocessed, files, index, k) for k, index in enumerate(_orders(len(files))))
        ahead = deque(islice(jobs, 2 * batch_size))
        while True:
            batch = []
            for job in islice(jobs, batch_size):
                ahead.append(job)
                batch.append(ahead.popleft().result())
            np.stack(batch)
            yield batch_size
    finally:
        pool.shutdown(cancel_futures=True)


def _preprocessed(files: Files, index: int, draw: int) -> NDArray[np.float32]:
    """Load and preprocess one image; zeros if it is bad."""
    from PIL import Image

    image = _decoded(files[index])
    if image is None:
        return np.zeros((3, _SIZE, _SIZE), np.float32)
    size = np.array([[image.height, image.width]])
    ((top, left, height, width),) = resized_crop_boxes(
        size, Rng(0, epoch=0, indices=[draw]), np.array([_SCALE]), _RATIO
    ).tolist()
    image = image.resize((_SIZE, _SIZE), Image.Resampling.BILINEAR, box=(left, top, left + width, top + height))
    if draw % 2:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    found = np.asarray(image, np.float32) / _SCALED - _SHIFT
    return found.transpose(2, 0, 1).astype(np.float32, copy=False)  # for the types of NumPy 2.5, float64 until here


def _decoded(data: bytes | None) -> "Image.Image | None":
    from PIL import Image

    if data is None:
        return None
    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.convert("RGB")
    except Exception:  # whatever a plugin raises
        return None


# -- torchvision -------------------------------------------------------------------------------------------------------


def torchvision_problem() -> str | None:
    """Return why torchvision cannot run, None if it can."""
    try:
        with _interrupts_delayed():
            from torchvision.transforms import v2  # noqa: F401  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except (ImportError, RuntimeError) as error:  # a build for a different version of torch
        return f"cannot be imported: {error}"
    return None


@contextmanager
def _interrupts_delayed() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end: callbacks that run while torch is imported would swallow it."""
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if interrupts:
            raise KeyboardInterrupt


class _Transformed:
    """Map-style data set for torch's ``DataLoader``."""

    def __init__(self, files: Files) -> None:
        import torch
        from torchvision.transforms import v2  # type: ignore[import-not-found, import-untyped, unused-ignore]

        self._files = files
        self._empty = torch.zeros(3, _SIZE, _SIZE)
        self._transform = v2.Compose([
            v2.RandomResizedCrop(_SIZE, _SCALE, _RATIO), v2.RandomHorizontalFlip(),
            v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(IMAGENET_MEAN, IMAGENET_STD),
        ])  # fmt: skip

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Any:
        image = _decoded(self._files[index])
        return self._empty if image is None else self._transform(image)


def torchvision(files: Files, batch_size: int, workers: int) -> Iterator[int]:
    """Load with Pillow and torchvision's transforms in the worker processes of torch's ``DataLoader``."""
    from torch.utils.data import DataLoader

    loader = DataLoader(
        _Transformed(files),
        batch_size,
        shuffle=True,
        num_workers=workers,
        multiprocessing_context="spawn",
        persistent_workers=True,
    )  # type: ignore[call-arg, unused-ignore]
    while True:
        for images in loader:
            yield len(images)
