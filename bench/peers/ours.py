"""gpuimg: the functions on one batch after another, and the loader, which works ahead."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import gpuimg as gi
from bench.peers import base
from bench.peers.base import Epoch, Peer


def _train(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    x = gi.random_resized_crop(x, base.SIZE, base.SCALE, base.RATIO, rng=rng)
    return gi.random_horizontal_flip(x, rng=rng)


def _rotate_color(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    x = gi.random_rotation(_train(x, rng), base.ANGLE, interpolation="bilinear", rng=rng)
    x = gi.color_jitter(x, base.JITTER, base.JITTER, base.JITTER, base.HUE, rng=rng)
    return gi.normalize(x, gi.IMAGENET_MEAN, gi.IMAGENET_STD)


def _rand_augment(x: gi.Batch, rng: gi.Rng) -> gi.Batch:
    x = gi.rand_augment(_train(x, rng), base.NUM_OPS, base.MAGNITUDE, rng=rng)
    return gi.normalize(x, gi.IMAGENET_MEAN, gi.IMAGENET_STD)


PREPROCESS: dict[str, Callable[[Any, Any], gi.Batch]] = {
    "eval": gi.presets.imagenet_eval(base.SIZE, base.SHORTER),
    "train": gi.presets.imagenet_train(base.SIZE),
    "train+rotate+color": _rotate_color,
    "randaugment": _rand_augment,
}


class Indexing(Peer):
    """A peer with a seek index, built before timing, in a separate folder."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def built(self, files: list[bytes]) -> gi.SeekIndex:
        """Return the index of some files."""
        self.close()
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name, "index")
        gi.build_index([(data, 0) for data in files], path, every=8)
        return gi.SeekIndex(path)

    def close(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            self._folder.cleanup()


def waited_for(epoch: Epoch) -> Epoch:
    """Return epochs on a GPU each of whose batches is complete."""
    import cupy

    def waiting() -> Iterator[Any]:
        for result in epoch():
            cupy.cuda.get_current_stream().synchronize()
            yield result

    return waiting


class Functions(Peer):
    """gpuimg's functions, one batch at a time, with results in reused memory."""

    name = "gpuimg"
    distributions: ClassVar[tuple[str, ...]] = ("gpuimg",)
    notes = "one batch after another, nothing made ahead; results in an array that is used again"
    device = "cpu"

    def opened(self, batch: list[bytes], at: int) -> gi.Batch:
        """Open files as a batch; the first of them is sample ``at``."""
        return gi.open_batch(batch, device=self.device)

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Create chains of functions; decoding whole images needs new memory, because sizes differ."""
        if work == "decode":
            return lambda: (gi.decode_batch(batch, device=self.device) for batch in base.batches(files, self.batch))
        out = self._memory()
        number = itertools.count()

        def epoch() -> Iterator[Any]:
            at, epoch = 0, next(number)
            for batch in base.batches(files, self.batch):
                rng = gi.Rng(0, epoch=epoch, indices=range(at, at + len(batch)))
                x = PREPROCESS[work](self.opened(batch, at), rng)
                yield x.array("float32", "NCHW", out=out[: len(batch)])
                at += len(batch)

        return epoch

    def _memory(self) -> Any:
        return np.zeros((self.batch, 3, base.SIZE, base.SIZE), np.float32)


class Planes(Functions):
    """The same with ``draft="planes"``, which gives other pixels."""

    name = "gpuimg, planes"
    lacks: ClassVar[dict[str, str]] = {"decode": "whole images are not resampled"}
    notes = 'the same with draft="planes": not the same pixels'

    def opened(self, batch: list[bytes], at: int) -> gi.Batch:
        """Open files whose luma and chroma are resampled at their own sizes."""
        return gi.open_batch(batch, device=self.device, draft="planes")


class Indexed(Indexing, Functions):
    """The same with a seek index, built before timing."""

    name = "gpuimg, index"
    lacks: ClassVar[dict[str, str]] = {"decode": "whole images need no index"}
    notes = "a seek index of 8 MCUs a segment in a file, whose entries are read for each batch"
    draft: float | None = None

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Build the index first."""
        self._index = self.built(files)
        return super().start(work, files)

    def opened(self, batch: list[bytes], at: int) -> gi.Batch:
        """Open files with their entries."""
        numbers = range(at, at + len(batch))
        return gi.open_batch(batch, device=self.device, index=self._index, indices=numbers, draft=self.draft)


class Drafted(Indexed):
    """The same with ``draft=1.5``, which gives other pixels."""

    name = "gpuimg, index, draft"
    notes = "the same with draft=1.5: not the same pixels"
    draft = 1.5


class FunctionsOnGpu(Functions):
    """The same on a GPU."""

    name = "gpuimg on the GPU"
    distributions: ClassVar[tuple[str, ...]] = ("gpuimg", "nvidia-nvimgcodec-cu12", "nvidia-nvimgcodec-cu13")
    device = "cuda"

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Create chains of functions that wait for each batch, because a launch alone is no result."""
        return waited_for(super().start(work, files))

    def copied(self, result: Any, work: str) -> Any:
        """Copy a batch from the GPU."""
        import cupy

        return [cupy.asnumpy(image) for image in result] if work == "decode" else cupy.asnumpy(result)

    def _memory(self) -> Any:
        import cupy

        return cupy.zeros((self.batch, 3, base.SIZE, base.SIZE), np.float32)


class Loader(Peer):
    """gpuimg's loader, which computes batches ahead of the loop."""

    name = "gpuimg.load"
    distributions = Functions.distributions
    lacks: ClassVar[dict[str, str]] = {"decode": "batches of a loader are arrays of one size"}
    notes = "batches ahead, made with all the threads (the defaults)"
    device = "cpu"
    options: ClassVar[dict[str, Any]] = {}

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Create one loader for all epochs: its next loop is the next epoch."""
        source = [(data, 0) for data in files]
        loader = gi.load(
            source, PREPROCESS[work], batch_size=self.batch, device=self.device, dtype="float32", layout="NCHW",
            shuffle=False, index=self.index_of(files), **self.options,
        )  # fmt: skip
        return lambda: (batch.images for batch in loader)

    def index_of(self, files: list[bytes]) -> gi.SeekIndex | None:
        """Return the files' seek index, if the peer uses one."""
        return None


class LoaderOnGpu(Loader):
    """The same on a GPU."""

    name = "gpuimg.load on the GPU"
    distributions = FunctionsOnGpu.distributions
    notes = "batches ahead (the defaults); baseline files decoded by its own kernels; each batch is waited for"
    device = "cuda"
    copied = FunctionsOnGpu.copied

    def start(self, work: str, files: list[bytes]) -> Epoch:
        """Create a loader whose batches are waited for, because a launch alone is no result."""
        return waited_for(super().start(work, files))


class IndexedLoaderOnGpu(Indexing, LoaderOnGpu):
    """The same with a seek index, built before timing."""

    name = "gpuimg.load, index, on the GPU"
    notes = "a seek index of 8 MCUs a segment"

    def index_of(self, files: list[bytes]) -> gi.SeekIndex | None:
        """Build the index."""
        return self.built(files)


class NvImageCodecLoaderOnGpu(LoaderOnGpu):
    """The same with nvImageCodec's decoders."""

    name = "gpuimg.load, nvImageCodec, on the GPU"
    notes = 'decoder="nvimagecodec"'
    options: ClassVar[dict[str, Any]] = {"decoder": "nvimagecodec"}
