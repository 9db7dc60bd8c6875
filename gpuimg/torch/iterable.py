"""``torch.utils.data.IterableDataset`` of a loader's batches, for trainers that require a ``DataLoader``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import torch
from torch.utils import data

from .._checks.arguments import flag
from .._checks.types import Samples
from .._loading.load import load
from .._loading.loader import Loader
from .._loading.options import LoadOptions
from .._loading.pipeline import LoadedBatch
from .._loading.settings import UserFunction
from ..sources.stream import Stream
from .shared import SharedLoops
from .tensors import Images, Labels, refuse_collation, tensor_of, with_layout

_ENDLESS = 1 << 32  # epochs between the first ones of two endless loops


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
    ``DataLoader(dataset, batch_size=None)``, as the items are batches already.

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

    Warns
    -----
    RuntimeWarning
        If ``drop_last`` leaves no batch at all.

    Notes
    -----
    Several ``DataLoader`` workers take turns at the batches of the rank. The batches and their order are the same as
    with one worker or none, so ``len`` is correct and a state can be resumed with any number of workers. Under
    ``on_error="skip"`` a worker replaces skipped samples with the next samples of its batches, so the content of the
    batches, but not their number, depends on the number of workers. ``max_failures`` applies to each worker's samples
    separately. Workers are not needed, as the loader has threads, and a GPU cannot be used in forked ones.

    Each loop of the ``DataLoader`` is the next epoch, with or without ``persistent_workers``: all workers count the
    loops in a file without a name. :meth:`set_epoch` is needed only to repeat or leave out epochs.

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
        self._build(source, preprocess, flag(with_valid, "with_valid"), with_layout(options))
        self._loops = SharedLoops()
        self._loops.reset(self._loader.state_dict())
        if options.get("epochs", 1) is not None and not len(self):
            message = f"drop_last leaves no full batch of {self._loader!r}: a loop over this dataset has no batches"
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def _build(self, source: Any, preprocess: Any, with_valid: bool, options: dict[str, Any]) -> None:
        self._arguments = source, preprocess, with_valid, options
        self._loader = load(source, preprocess, **options)
        self._epochs = options.get("epochs", 1)
        self._of_worker: Loader | None = None  # in a worker
        self._restored = False  # in a worker: the next loop begins with a state of this worker
        self._as_tensors = _valid_tensors if with_valid else _tensors

    def __len__(self) -> int:
        """Number of batches of a loop, all workers of a ``DataLoader`` together."""
        return len(self._loader)

    def __repr__(self) -> str:
        return f"<gpuimg.torch.IterableDataset: {self._loader!r}>"

    def set_epoch(self, epoch: int) -> None:
        """Begin the next loop with this epoch, see :meth:`gpuimg.Loader.set_epoch`."""
        self._loader.set_epoch(epoch)
        self._loops.reset(self._loader.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Return the position of a loop in this process, as :meth:`gpuimg.Loader.state_dict`.

        The dataset in the main process does not know the progress of ``DataLoader`` workers. In a worker, the state is
        the position after the current batches of all workers. A stateful loader (``torchdata.stateful_dataloader``)
        saves the state of each worker and restores it in the same one.
        """
        return self._here().state_dict()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Resume as :meth:`gpuimg.Loader.load_state_dict`; in the main process, for all workers."""
        if data.get_worker_info() is not None:  # by a stateful loader
            self._here().load_state_dict(state)
            self._restored = True
            return
        self._loader.load_state_dict(state)
        self._loops.reset(self._loader.state_dict())

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments, "state": self._loader.state_dict(), "loops": self._loops}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._build(*state["arguments"])
        self._loader.load_state_dict(state["state"])
        self._loops = state["loops"]
        if not self._loops.has_state:  # a copy, not that of a worker
            self._loops.reset(state["state"])

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        worker, loader = data.get_worker_info(), self._here()
        if worker is not None:
            state, loops = self._loops.begin(worker.seed - worker.id, worker.id)
            if not self._restored:
                loader.load_state_dict(state)
                if loops:  # an endless loop may have reached any epoch
                    epochs = _ENDLESS if self._epochs is None else self._epochs
                    loader.set_epoch((int(state["epoch"]) // epochs + loops) * epochs)
            self._restored = False
        return (self._as_tensors(batch) for batch in loader)

    def _here(self) -> Loader:
        """Return the loader of this process; in one of several workers, the loader of its batches."""
        worker = data.get_worker_info()
        if worker is None or worker.num_workers == 1:
            return self._loader
        if self._of_worker is None:
            self._of_worker = self._loader._for_worker(worker.id, worker.num_workers)
        return self._of_worker


def _tensors(batch: LoadedBatch) -> Tensors:
    return Tensors(tensor_of(batch.images), tensor_of(batch.labels))


def _valid_tensors(batch: LoadedBatch) -> ValidTensors:
    return ValidTensors(*_tensors(batch), torch.from_numpy(batch.valid))


refuse_collation(Tensors, ValidTensors)
