"""``torch.utils.data.IterableDataset`` of a loader's batches, for trainers that require a ``DataLoader``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import torch
from torch.utils import data

from .._checks.arguments import flag
from .._checks.types import Samples
from .._loading.load import LoadOptions, load
from .._loading.pipeline import LoadedBatch
from .._loading.settings import UserFunction
from ..sources.stream import Stream
from .tensors import Images, Labels, refuse_collation, tensor_of, with_layout


class Tensors(NamedTuple):
    """One batch: images and labels."""

    images: Images
    labels: Labels


class ValidTensors(NamedTuple):
    """One batch: images, labels, and a mask (N,) bool that is False for samples to be ignored."""

    images: Images
    labels: Labels
    valid: torch.Tensor


class IterableDataset(data.IterableDataset[Any]):  # type: ignore[misc]  # torch is not type-checked here
    """Batches of :func:`gpuimg.load` as ``(images, labels)`` tensors, which share the loader's memory.

    :func:`gpuimg.torch.load` can be iterated over directly; this class is for trainers that require a ``DataLoader``:
    ``DataLoader(dataset, batch_size=None)``, as the items are batches already. It must have no worker processes
    (``num_workers=0``, the default): the loader has threads, which work ahead of the loop.

    Parameters
    ----------
    source, preprocess, **options
        Arguments of :func:`gpuimg.load`; ``layout`` is ``"NCHW"`` by default, ``"NTCHW"`` for ``clips``.
    with_valid : bool
        Return ``(images, labels, valid)``, where ``valid`` (N,) bool is that of :class:`gpuimg.LoadedBatch`: False for
        samples that are repeated to pad all ranks to the same number, and for those that could not be decoded under
        ``on_error="fill"``. An evaluation on several ranks must ignore these.

    Raises
    ------
    ValueError, TypeError
        As :func:`gpuimg.load`, at the call. TypeError from a ``DataLoader`` without ``batch_size=None``, at its first
        batch, as it would collate batches into larger ones.
    RuntimeError, TypeError
        From a ``DataLoader`` with workers, at its first batch.

    Warns
    -----
    RuntimeWarning
        If ``drop_last`` leaves no batch at all.

    Notes
    -----
    Each loop of the ``DataLoader`` is the next epoch. :meth:`set_epoch` is needed only to repeat or leave out epochs.

    Examples
    --------
    >>> dataset = gpuimg.torch.IterableDataset(source, train, batch_size=64)  # doctest: +SKIP
    >>> for images, labels in torch.utils.data.DataLoader(dataset, batch_size=None): ...  # doctest: +SKIP
    """

    def __init__(
        self,
        source: Samples | Stream,
        preprocess: UserFunction | None = None,
        *,
        with_valid: bool = False,
        **options: Unpack[LoadOptions],
    ) -> None:
        super().__init__()
        self._as_tensors = _valid_tensors if flag(with_valid, "with_valid") else _tensors
        self._loader = load(source, preprocess, **with_layout(options))
        drops = options.get("drop_last") and options.get("epochs", 1) is not None and not isinstance(source, Stream)
        if drops and not len(self):
            message = f"drop_last leaves no full batch of {self._loader!r}: a loop over this dataset has no batches"
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def __len__(self) -> int:
        """Number of batches of a loop."""
        return len(self._loader)

    def __repr__(self) -> str:
        return f"<gpuimg.torch.IterableDataset: {self._loader!r}>"

    def set_epoch(self, epoch: int) -> None:
        """Begin the next loop with this epoch, see :meth:`gpuimg.Loader.set_epoch`."""
        self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the loop, see :meth:`gpuimg.Loader.state_dict`."""
        return self._loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Resume at a position, see :meth:`gpuimg.Loader.load_state_dict`."""
        self._loader.load_state_dict(state)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return map(self._as_tensors, self._loader)


def _tensors(batch: LoadedBatch) -> Tensors:
    return Tensors(tensor_of(batch.images), tensor_of(batch.labels))


def _valid_tensors(batch: LoadedBatch) -> ValidTensors:
    return ValidTensors(*_tensors(batch), torch.from_numpy(batch.valid))


refuse_collation(Tensors, ValidTensors)
