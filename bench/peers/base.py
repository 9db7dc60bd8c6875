"""What a peer is, and the works that all of them are given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

SIZE = 224  # height and width of all results but those of decode
SHORTER = 256  # the shorter side before the centre crop of eval
SCALE = (0.08, 1.0)  # area of a random crop
RATIO = (3 / 4, 4 / 3)  # its width over its height
ANGLE = 180.0  # a rotation is by anything from -ANGLE to ANGLE degrees, bilinear, black around it
JITTER = 0.4  # of brightness, contrast and saturation
HUE = 0.1  # of a full turn
NUM_OPS, MAGNITUDE = 2, 9  # of RandAugment
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)

WORKS = {
    "decode": "whole images, uint8 RGB, each of its own size",
    "eval": "shorter side to 256, centre crop 224, normalise, NCHW float32",
    "train": "random resized crop to 224, flip, normalise, NCHW float32",
    "train+rotate+color": "train with rotation by any angle and jitter of brightness, contrast, saturation and hue",
    "randaugment": "train with RandAugment(2, 9)",
}

DECODES_ONLY = dict.fromkeys([work for work in WORKS if work != "decode"], "it decodes only")

# One pass over all files: gives the batches in order. Calling it again is the next epoch.
Epoch = Callable[[], Iterator[Any]]


class Peer(ABC):
    """One library, set up for so many threads (or worker processes) and batches of so many images.

    A module of this package imports its library at its top: importing it is what a user's script waits for, and
    where the library is missing, the import says so.
    """

    name: ClassVar[str]
    distributions: ClassVar[tuple[str, ...]]  # what a user installs; the first one's version is the peer's
    lacks: ClassVar[dict[str, str]] = {}  # works, and why not
    notes: ClassVar[str] = ""  # what is done differently or left out

    def __init__(self, threads: int, batch: int) -> None:
        self.threads = threads
        self.batch = batch

    @abstractmethod
    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Get ready for a work on these files, as before the first epoch of a training."""

    def first(self, work: str, files: list[bytes]) -> Any:
        """Results of the first batch, for the check: images of their own sizes, or (N, 3, 224, 224)."""
        # To the end of the epoch: some peers do not like to be stopped in between.
        results = [self.copied(result, work) for result in self.start(work, files[: self.batch])()]
        return results[0]

    def copied(self, result: Any, work: str) -> Any:
        """A batch as NumPy arrays of its own memory."""
        return [np.array(image) for image in result] if work == "decode" else np.array(result)

    def close(self) -> None:  # noqa: B027 - most have none
        """Ask worker processes to end."""


def batches(files: list[bytes], size: int) -> Iterator[list[bytes]]:
    """The files, so many at a time."""
    for at in range(0, len(files), size):
        yield files[at : at + size]


_FACTOR = np.array([1 / (255 * s) for s in STD], np.float32)
_OFFSET = np.array([m / s for m, s in zip(MEAN, STD, strict=True)], np.float32)


def normalized(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(H, W, 3) uint8 to normalised (3, H, W) float32: for peers that leave it to NumPy."""
    result = np.empty((3, *pixels.shape[:2]), np.float32)
    for channel in range(3):  # contiguous planes; one broadcast expression over (H, W, 3) takes three times as long
        np.multiply(pixels[..., channel], _FACTOR[channel], out=result[channel])
        result[channel] -= _OFFSET[channel]
    return result


def random_box(rng: np.random.Generator, height: int, width: int) -> tuple[int, int, int, int]:
    """Top, left, height and width of a random resized crop: for peers that leave the draw to the user."""
    for _ in range(10):
        area = height * width * rng.uniform(*SCALE)
        aspect = np.exp(rng.uniform(*np.log(RATIO)))
        w, h = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1)), h, w
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side
