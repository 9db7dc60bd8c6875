"""``torch.utils.data.Dataset`` of single decoded samples, for samplers and collation of others."""

from __future__ import annotations

import operator
import os
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from multiprocessing import context, reduction
from typing import Any, Self

import numpy as np
from torch.utils import data

from .._batch.batch import Batch
from .._batch.opening import open_batch
from .._batch.recording import Recording
from .._batch.tokens import RESULTS
from .._checks.arguments import whole_number
from .._checks.types import Device, DType, Ints, Layout, Samples
from .._decoding.options import DecodeOptions
from .._io.file_bytes import source_name
from .._io.native_read import ChunkReader
from .._io.open_file import need_posix
from .._loading.opened import on_device, open_samples
from .._loading.samples import Sample, collate, read_samples
from .._loading.settings import UserFunction, adapted, check_choices, check_columns, check_keys, check_source
from .._random.rng import Rng
from .._runtimes.devices import runtime_for
from ..errors import DecodeError, Failure, ImageError
from .tensors import tensor_of


class Dataset(data.Dataset[Any]):  # type: ignore[misc]  # torch is not type-checked here
    """Decoded and augmented samples as tensors, for trainers that require a data set and collate its items.

    A ``DataLoader`` requests all samples of a batch at once, so they are decoded together, on all cores. Nothing is
    done ahead of the loop unless the ``DataLoader`` has workers; :func:`gpuimg.torch.load` is faster.

    Parameters
    ----------
    source, preprocess
        As in :func:`gpuimg.load`.
    keys : (str, str), optional
        Items are dicts with these keys for image and label, such as ``("pixel_values", "labels")`` for transformers;
        by default pairs.
    seed : int
        Seed of the random draws, 0 to 2**64 - 1.
    device, dtype, layout, image, label
        As in :func:`gpuimg.load`; ``layout`` is ``"NCHW"`` by default.

    Raises
    ------
    ValueError, TypeError
        As :func:`gpuimg.load`, at the call.
    DecodeError
        For samples that cannot be read or decoded, when they are requested.

    Notes
    -----
    A data set does not know the epoch. Therefore requests are counted, those of all workers of a ``DataLoader``
    together: when a sample is requested for the k-th time, it has the pixels of epoch k - 1 of :func:`gpuimg.load`.
    After :meth:`set_epoch`, which transformers and Accelerate call, it has those of that epoch.

    Examples
    --------
    >>> dataset = gpuimg.torch.Dataset(source, train, keys=("pixel_values", "labels"))  # doctest: +SKIP
    >>> transformers.Trainer(model, arguments, train_dataset=dataset).train()  # doctest: +SKIP
    """

    def __init__(
        self,
        source: Samples,
        preprocess: UserFunction | None = None,
        *,
        keys: tuple[str, str] | None = None,
        seed: int = 0,
        device: Device | None = None,
        dtype: DType | None = None,
        layout: Layout = "NCHW",
        image: str = "image",
        label: str | None = "label",
    ) -> None:
        check_source(source)
        check_choices(layout, dtype, "raise", of_clips=False)
        Rng(seed, indices=[])  # checks the seed
        self._source, self._preprocess = source, preprocess
        self._keys, self._columns = check_keys(keys), check_columns(image, label)
        self._seed, self._device, self._dtype, self._layout = int(seed), device, dtype, layout
        self._requests = _SharedRequests()
        adapted(preprocess)  # checks it

    def __len__(self) -> int:
        """Number of samples."""
        return len(self._source)

    def __repr__(self) -> str:
        return f"<gpuimg.torch.Dataset of {self._source!r}>"

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of all samples requested from here on, in running workers too.

        Parameters
        ----------
        epoch : int
            Epoch number, counted from 0.
        """
        self._requests.set_epoch(whole_number(epoch, "epoch", 0, (1 << 32) - 2))

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return several samples, decoded together."""
        n = len(self)
        try:
            numbers = [operator.index(index) for index in indices]
        except TypeError:
            raise TypeError(f"indices of samples must be integers, not {indices!r}") from None
        outside = [number for number in numbers if not -n <= number < n]
        if outside:
            raise IndexError(f"sample {outside[0]} of {n}")
        wanted = np.array(numbers, np.int64) % n
        epoch = self._requests.epoch()
        epochs = np.array(self._requests.count(wanted.tolist()) if epoch is None else [epoch] * len(wanted))
        items: list[Any] = [None] * len(wanted)
        for epoch in np.unique(epochs).tolist():
            places = np.flatnonzero(epochs == epoch)
            for place, item in zip(places.tolist(), self._items(wanted[places], epoch), strict=True):
                items[place] = item
        return items

    def _items(self, indices: Ints, epoch: int) -> list[Any]:
        """Return samples of one epoch."""
        samples = read_samples(self._source, indices.tolist(), [True] * len(indices), self._columns, ChunkReader())
        unread = [sample for sample in samples if sample.error is not None]
        if unread:
            failures = tuple(Failure(sample.index, sample.name, sample.reason) for sample in unread)
            raise DecodeError(failures, len(samples)) from unread[0].error
        labels: Any = [sample.label for sample in samples]
        labels = collate(labels, [False] * len(samples), labels)
        preprocess = adapted(self._preprocess)
        try:
            images: Any = self._opened(samples)
            if preprocess is not None:
                images, labels = preprocess(images, Rng(self._seed, epoch=epoch, indices=indices), labels)
            decoded = self._decoded(images, len(samples))
        except DecodeError as error:
            found = []
            for k, source, reason in error.failures:
                sample = samples[k]
                # Of a file that ``preprocess`` opened, such as a mask.
                other = "" if source == source_name(sample.data) else f"{source}: "
                found.append(Failure(sample.index, sample.name, other + reason))
            raise DecodeError(tuple(found), len(samples)) from None
        except ImageError as error:
            if len(samples) == 1:
                raise DecodeError((Failure(samples[0].index, samples[0].name, error.reason),), 1) from error
            for k in range(len(samples)):  # names the sample
                self._items(indices[k : k + 1], epoch)
            raise
        if isinstance(decoded, Mapping):
            decoded = [_row(decoded, k) for k in range(len(samples))]
        if labels is None:
            labels = [None] * len(samples)
        if isinstance(labels, Mapping):
            labels = [_row(labels, k) for k in range(len(samples))]
        labels = [tensor_of(label) for label in labels] if isinstance(labels, list) else tensor_of(labels)
        pairs = zip(decoded, labels, strict=True)
        return [pair if self._keys is None else dict(zip(self._keys, pair, strict=True)) for pair in pairs]

    def _opened(self, samples: list[Sample]) -> Batch:
        if not any(sample.is_array for sample in samples):
            return open_batch([sample.data for sample in samples], device=self._device)
        runtime = runtime_for(self._device)
        return Batch(Recording.start(runtime, on_device(open_samples(samples, DecodeOptions()), runtime)))

    def _decoded(self, images: Any, count: int) -> Any:
        """Return what ``preprocess`` returned for a number of samples as tensors, one item or row for each."""
        if isinstance(images, Mapping):
            return {key: self._decoded(one, count) for key, one in images.items()}
        if isinstance(images, RESULTS):
            raise TypeError("padded(), ragged() and tokens() are for gpuimg.torch.load, not for single samples")
        if len(images) != count:
            raise ValueError(f"preprocess was given {count} images and returned {len(images)}")
        return tensor_of(images.compute(self._dtype, self._layout) if isinstance(images, Batch) else images)


def _row(columns: Any, k: int) -> Any:
    """Return the label of one sample, of a dict of the labels of all."""
    return {key: _row(one, k) for key, one in columns.items()} if isinstance(columns, Mapping) else columns[k]


class _SharedRequests:
    """Number of requests of each sample, of all workers together: a file of uint32, after the epoch plus 1.

    A ``DataLoader`` does not tell its workers the epoch. So that no epoch repeats the random draws of another, requests
    are counted in a file without a name, which the processes share however they are started: a process that
    multiprocessing starts gets the same file, other pickles a new one.
    """

    def __init__(self, inherited: Any = None) -> None:
        need_posix("gpuimg.torch.Dataset counts the requests of a DataLoader's workers")
        if inherited is None:
            self._descriptor, path = tempfile.mkstemp()
            os.unlink(path)
        else:
            self._descriptor = inherited.detach()
        weakref.finalize(self, os.close, self._descriptor)

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is None:
            return _SharedRequests, ()
        return _SharedRequests, (reduction.DupFd(self._descriptor),)

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def count(self, indices: Sequence[int]) -> list[int]:
        """Count requests of samples, and return how often each was requested before."""
        import fcntl

        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)  # against other processes
        try:
            before = []
            for index in indices:
                before.append(self._at(1 + index))
                self._set(1 + index, before[-1] + 1)
            return before
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def epoch(self) -> int | None:
        """Return the epoch that was set, if any."""
        epoch = self._at(0)
        return epoch - 1 if epoch else None

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of all samples from here on."""
        self._set(0, epoch + 1)

    def _at(self, place: int) -> int:
        return int.from_bytes(os.pread(self._descriptor, 4, 4 * place), "little")  # nothing past the end of the file

    def _set(self, place: int, value: int) -> None:
        os.pwrite(self._descriptor, value.to_bytes(4, "little"), 4 * place)
