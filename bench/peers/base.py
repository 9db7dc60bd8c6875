"""The interface of a peer, and the works that all of them run."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

_T = TypeVar("_T")

SIZE = 224  # height and width of all results except those of decode
SHORTER = 256  # the shorter side before the center crop of eval
SCALE = (0.08, 1.0)  # area of a random crop
RATIO = (3 / 4, 4 / 3)  # its width over its height
ANGLE = 180.0  # a rotation is by anything from -ANGLE to ANGLE degrees, bilinear, black around it
JITTER = 0.4  # of brightness, contrast and saturation
HUE = 0.1  # of a full turn
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)

WORKS = {
    "decode": "whole images, uint8 RGB, in their original sizes",
    "eval": "shorter side to 256, center crop 224, normalize, NCHW float32",
    "train": "random resized crop to 224, flip, normalize, NCHW float32",
    "train+rotate+color": "train with rotation by any angle and jitter of brightness, contrast, saturation and hue",
}

DECODES_ONLY = dict.fromkeys([work for work in WORKS if work != "decode"], "it decodes only")

# One pass over all files: gives the batches in order. Calling it again is the next epoch.
Epoch = Callable[[], Iterator[Any]]


class Peer(ABC):
    """One library, set up for a number of threads (or worker processes) and a batch size.

    A module of this package imports its library at the top, as a user's script would. If the library is missing, the
    import fails with the reason.
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
        """Prepare a work on these files, as before the first epoch of a training run."""

    def first(self, work: str, files: list[bytes]) -> Any:
        """Return results of the first batch for the check: images in their original sizes, or (N, 3, 224, 224)."""
        # To the end of the epoch: some peers do not like to be stopped in between.
        results = [self.copied(result, work) for result in self.start(work, files[: self.batch])()]
        return results[0]

    def copied(self, result: Any, work: str) -> Any:
        return [np.array(image) for image in result] if work == "decode" else np.array(result)


def batches(files: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for at in range(0, len(files), size):
        yield files[at : at + size]


def made(
    work: str, files: list[bytes], plain: dict[str, Callable[[bytes], Any]],
    random: dict[str, Callable[[bytes, np.random.Generator], Any]],
) -> Callable[[tuple[int, int]], Any]:  # fmt: skip
    """Return a function of an epoch and a file's number, by those of a file and, for random works, of a generator."""
    if work in plain:
        return lambda place: plain[work](files[place[1]])
    return lambda place: random[work](files[place[1]], np.random.default_rng(place))


def joined(work: str) -> Callable[[list[Any]], Any]:
    """Return what makes a batch of images, which have various sizes only if they are decoded whole."""
    return (lambda images: images) if work == "decode" else np.stack


def in_threads(
    peer: Peer, work: str, files: list[bytes], plain: dict[str, Callable[[bytes], Any]],
    random: dict[str, Callable[[bytes, np.random.Generator], Any]],
) -> Epoch:  # fmt: skip
    """Return epochs in a pool of threads; see :func:`made`."""
    number, one, collated = itertools.count(), made(work, files, plain, random), joined(work)

    def epoch() -> Iterator[Any]:
        here = next(number)
        with ThreadPoolExecutor(peer.threads) as pool:
            for batch in batches(range(len(files)), peer.batch):
                yield collated(list(pool.map(one, ((here, i) for i in batch))))

    return epoch


_FACTOR = np.array([1 / (255 * s) for s in STD], np.float32)
_OFFSET = np.array([m / s for m, s in zip(MEAN, STD, strict=True)], np.float32)


def normalized(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Convert (H, W, 3) uint8 to normalized (3, H, W) float32, for peers without such a function."""
    result = np.empty((3, *pixels.shape[:2]), np.float32)
    for channel in range(3):  # contiguous planes; one broadcast expression over (H, W, 3) takes three times as long
        np.multiply(pixels[..., channel], _FACTOR[channel], out=result[channel])
        result[channel] -= _OFFSET[channel]
    return result


def random_box(rng: np.random.Generator, height: int, width: int) -> tuple[int, int, int, int]:
    """Draw top, left, height and width of a random resized crop, for peers without such a function."""
    for _ in range(10):
        area = height * width * rng.uniform(*SCALE)
        aspect = np.exp(rng.uniform(*np.log(RATIO)))
        w, h = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1)), h, w
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side
