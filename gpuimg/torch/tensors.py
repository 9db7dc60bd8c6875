"""Batches of tensors, and the conversion of a loader's batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, Self, TypeAlias

import torch
from torch.utils.data._utils.collate import (
    default_collate_fn_map,  # its documentation names this map for registering types
)

from .._batch.batch import Batch
from .._batch.frameworks import as_tensor
from .._batch.tokens import RESULTS
from .._loading.pipeline import LoadedBatch
from .._loading.samples import collate

#: One tensor for images of one size, else a list of tensors.
Images: TypeAlias = "torch.Tensor | Any"
#: A tensor if the labels are numbers or arrays of one shape; a dict of these for dicts; else the labels of the source.
Labels: TypeAlias = "torch.Tensor | Any"


class TensorBatch(tuple[Images, Labels]):
    """One batch of :func:`gpuimg.torch.load`, a pair: ``images, labels = batch``.

    Attributes
    ----------
    images : torch.Tensor
        (N, C, H, W), (N, T, C, H, W) for clips, or as ``layout`` says; a list of tensors if the images differ in
        size. Dicts and the results of :meth:`gpuimg.Batch.padded`, ``ragged`` and ``tokens`` have tensors in place of
        arrays.
    labels : torch.Tensor, list or dict
        As in :class:`gpuimg.LoadedBatch`, with tensors in place of arrays. Labels that are dicts with the same keys, or
        a dict of arrays that ``preprocess`` returns, are one dict: of tensors for numbers and arrays of one shape, of
        lists for other values.
    indices : (N,) torch.Tensor, int64
        The samples' indices in the source.
    valid : (N,) torch.Tensor, bool
        False for samples to be ignored, see :class:`gpuimg.LoadedBatch`.

    Notes
    -----
    A library that creates the tuple again from its two items, as for another precision, loses ``indices`` and
    ``valid``: they are None then. Lightning's and Accelerate's move to a device keeps them.
    """

    indices: torch.Tensor
    valid: torch.Tensor

    def __new__(cls, items: Iterable[Any], indices: Any = None, valid: Any = None) -> Self:
        """Create a batch of the pair (images, labels)."""
        self = super().__new__(cls, items)
        self.indices, self.valid = indices, valid
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self), self.indices, self.valid

    @property
    def images(self) -> Images:
        """The first item."""
        return self[0]

    @property
    def labels(self) -> Labels:
        """The second item."""
        return self[1]

    @property
    def views(self) -> list[torch.Tensor]:
        """The versions of the samples that ``preprocess`` returned, a tensor of N images for each."""
        n = len(self.indices)
        if isinstance(self.images, torch.Tensor):
            return list(self.images.split(n))
        return [torch.stack(self.images[k : k + n]) for k in range(0, len(self.images), n)]

    def to(self, device: torch.device | str | int, *, non_blocking: bool = False) -> TensorBatch:
        """Return the batch with all tensors on a device.

        Parameters
        ----------
        device : torch.device, str or int
        non_blocking : bool
            As of ``torch.Tensor.to``.
        """
        return self._with_all(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> TensorBatch:
        """Return the batch with all tensors in pinned memory."""
        return self._with_all(lambda tensor: tensor.pin_memory())

    def _with_all(self, function: Callable[[torch.Tensor], torch.Tensor]) -> TensorBatch:
        images, labels, indices, valid = (of_tensors(one, function) for one in (*self, self.indices, self.valid))
        return TensorBatch((images, labels), indices, valid)


def of_tensors(value: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    """Call a function with a tensor, or with each tensor of a list or dict; return other values unchanged."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: of_tensors(one, function) for key, one in value.items()}
    if isinstance(value, RESULTS):
        return type(value)(*(of_tensors(one, function) for one in value))
    return [of_tensors(one, function) for one in value] if isinstance(value, list) else value


def tensor_of(value: Any) -> Any:
    """Return an array as a tensor, images of different sizes as a list of tensors, and other values unchanged.

    The same applies to the values of a dict. Of dicts with the same keys, one for each sample, one dict is made.
    """
    if isinstance(value, Mapping):
        return {key: tensor_of(one) for key, one in value.items()}
    if isinstance(value, list):
        known = [one for one in value if one is not None]  # None: the sample could not be read
        if known and all(isinstance(one, Mapping) and one.keys() == known[0].keys() for one in known):
            return {key: tensor_of(_column(value, known, key)) for key in known[0]}
    if isinstance(value, Batch):
        return [as_tensor(image) for image in value]
    if isinstance(value, RESULTS):
        return type(value)(*map(tensor_of, value))
    return as_tensor(value) if hasattr(value, "__dlpack__") and not isinstance(value, torch.Tensor) else value


def _column(labels: list[Any], known: list[Any], key: Any) -> Any:
    missing = [label is None for label in labels]
    return collate([None if label is None else label[key] for label in labels], missing, [one[key] for one in known])


def with_layout(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a loader with torch's order of axes as the default."""
    return {"layout": "NCHW" if options.get("clips") is None else "NTCHW", **options}


def tensors_of(batch: LoadedBatch) -> TensorBatch:
    """Return a loader's batch as tensors of the same memory."""
    images, labels, indices, valid = map(tensor_of, batch)
    return TensorBatch((images, labels), indices, valid)


def refuse_collation(*kinds: type) -> None:
    """Reject collation by torch, which would stack batches, or fail at the last one, which is smaller."""
    default_collate_fn_map.update(dict.fromkeys(kinds, _refuse))


def _refuse(_: list[Any], **__: Any) -> NoReturn:
    raise TypeError(
        "the dataset yields batches, but this DataLoader would collate them again, as its batch_size is not None; use "
        "DataLoader(dataset, batch_size=None)"
    )


refuse_collation(TensorBatch)
