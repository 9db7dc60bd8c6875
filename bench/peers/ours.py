"""gpuimg: the loader, which works ahead, and its functions on one batch after another."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

import gpuimg as gi
from bench.peers import base
from bench.peers.base import Epoch, Peer


def rotate_color(x: Any, rng: gi.Rng) -> gi.Batch:
    x = gi.random_resized_crop(x, base.SIZE, base.SCALE, base.RATIO, rng=rng)
    x = gi.random_rotation(gi.random_horizontal_flip(x, rng=rng), base.ANGLE, interpolation="bilinear", rng=rng)
    x = gi.color_jitter(x, base.JITTER, base.JITTER, base.JITTER, base.HUE, rng=rng)
    return gi.normalize(x, gi.IMAGENET_MEAN, gi.IMAGENET_STD)


PREPROCESS: dict[str, Callable[..., gi.Batch]] = {
    "eval": gi.presets.imagenet_eval(base.SIZE, base.SHORTER),
    "train": gi.presets.imagenet_train(base.SIZE),
    "train+rotate+color": rotate_color,
}


class Loader(Peer):
    """gpuimg's loader, which computes batches ahead of the loop."""

    name = "gpuimg"
    distributions: ClassVar[tuple[str, ...]] = ("gpuimg",)
    notes = "`gpuimg.load` with the defaults: batches are made ahead, with all the threads"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        result: dict[str, Any] = {} if work == "decode" else {"dtype": "float32", "layout": "NCHW"}
        source = [(data, 0) for data in files]
        loader = gi.load(source, PREPROCESS.get(work), batch_size=self.batch, device="cpu", **result)
        return lambda: (batch.images for batch in loader)


class Calls(Peer):
    """gpuimg's functions, one batch at a time, with results in reused memory."""

    name = "gpuimg (calls)"
    distributions = Loader.distributions
    notes = "one batch after another, nothing made ahead; results in an array that is used again"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Create chains of functions; decoding whole images needs new memory, because sizes differ."""
        if work == "decode":
            return lambda: (gi.decode_batch(batch, device="cpu") for batch in base.batches(files, self.batch))
        out = np.zeros((self.batch, 3, base.SIZE, base.SIZE), np.float32)
        number = itertools.count()

        def epoch() -> Iterator[Any]:
            at, epoch = 0, next(number)
            for batch in base.batches(files, self.batch):
                rng = gi.Rng(0, epoch=epoch, indices=range(at, at + len(batch)))
                x = PREPROCESS[work](gi.open_batch(batch, device="cpu"), rng)
                yield x.array("float32", "NCHW", out=out[: len(batch)])
                at += len(batch)

        return epoch
