"""For code that wants a ``torch.utils.data`` dataset: a loader's batches as tensors.

>>> import gpuimg.torch  # doctest: +SKIP
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias, Unpack

from ._batch.batch import Batch
from ._batch.frameworks import as_tensor
from ._checks.arguments import flag, whole_number
from ._checks.types import Samples
from ._loading.load import load
from ._loading.loader import Loader
from ._loading.options import LoadOptions
from ._loading.pipeline import LoadedBatch
from ._loading.settings import UserFunction
from ._version import install_hint
from .sources.stream import Stream

try:
    import torch
    from torch.utils import data
    from torch.utils.data._utils.collate import default_collate_fn_map  # where its documentation says to register types
except ImportError as error:
    raise ImportError(f"gpuimg.torch needs torch; {install_hint('torch')}") from error


#: Images of one size are one tensor, others a list of tensors, which type checkers cannot know.
Images: TypeAlias = "torch.Tensor | Any"
#: A tensor where the labels are numbers or arrays of one shape, else whatever the source has.
Labels: TypeAlias = "torch.Tensor | Any"


class Tensors(NamedTuple):
    """One batch: images and labels."""

    images: Images
    labels: Labels


class ValidTensors(NamedTuple):
    """One batch: images, labels, and which samples are to be counted, (N,) bool."""

    images: Images
    labels: Labels
    valid: torch.Tensor


class IterableDataset(data.IterableDataset[Any]):  # type: ignore[misc]  # torch is not type-checked here
    """Batches of :func:`gpuimg.load` as ``(images, labels)`` tensors, which share the loader's memory.

    A :class:`gpuimg.Loader` can be iterated over without this; it is for trainers that insist on a ``DataLoader``:
    ``DataLoader(dataset, batch_size=None)``, because the batches are made already.

    Parameters
    ----------
    source, preprocess, **options
        Of :func:`gpuimg.load`; ``layout`` is ``"NCHW"`` by default.
    with_valid : bool
        Give ``(images, labels, valid)``, where ``valid`` (N,) bool is that of :class:`gpuimg.LoadedBatch`: False for
        samples that come a second time to give every rank the same number, and for those that could not be decoded
        under ``on_error="fill"``. An evaluation on several ranks must leave these out.

    Raises
    ------
    ValueError, TypeError
        As :func:`gpuimg.load`, at the call. TypeError from a ``DataLoader`` without ``batch_size=None``, at its first
        batch: it would make batches of batches.

    Warns
    -----
    RuntimeWarning
        Where ``drop_last`` leaves no batch at all.

    Notes
    -----
    Several ``DataLoader`` workers take turns at the batches of the rank: these are the same, as many and in the same
    order, as with one or none, so that ``len`` is true and a state goes on with any number of workers. Under
    ``on_error="skip"`` a worker takes the next samples of its own batches for those it skips, so that the batches, but
    not how many they are, depend on the number of workers. ``max_failures`` and the fraction it may be are of each
    worker's samples. Workers are not needed, as the loader has threads, and a GPU does not work in forked ones.

    With ``persistent_workers`` each loop of the ``DataLoader`` is the next epoch; workers started anew for each loop
    begin with the same one again, so call :meth:`set_epoch` before it.

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
        self._build(source, preprocess, flag(with_valid, "with_valid"), {"layout": "NCHW", **options})
        if options.get("epochs", 1) is not None and not len(self):
            message = f"drop_last leaves nothing of {self._loader!r}: a loop over this dataset has no batches"
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def _build(self, source: Any, preprocess: Any, with_valid: bool, options: dict[str, Any]) -> None:
        self._arguments = source, preprocess, with_valid, options
        self._loader = load(source, preprocess, **options)
        self._of_worker: Loader | None = None
        self._as_tensors = _valid_tensors if with_valid else _tensors

    def __len__(self) -> int:
        """Batches of a loop, all workers of a ``DataLoader`` together."""
        return len(self._loader)

    def __repr__(self) -> str:
        return f"<gpuimg.torch.IterableDataset: {self._loader!r}>"

    def set_epoch(self, epoch: int) -> None:
        """Begin the next loop with this epoch.

        Parameters
        ----------
        epoch : int
            Counted from 0.
        """
        beginning = {"epoch": whole_number(epoch, "epoch", 0), "levels": [], "taken": 0, "given": 0}
        self.load_state_dict({**self._loader.state_dict(), **beginning})

    def state_dict(self) -> dict[str, Any]:
        """As :meth:`gpuimg.Loader.state_dict`: where a loop in this process stands.

        The dataset in the main process knows nothing of what workers of a ``DataLoader`` gave. In one of them the state
        is behind the turn of all workers that its last batch is of; a loader with states of its own
        (``torchdata.stateful_dataloader``) asks each for it and gives it back to the same.
        """
        return self._here().state_dict()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """As :meth:`gpuimg.Loader.load_state_dict`; in the main process for all workers that begin afterwards."""
        self._loader.load_state_dict(state)
        self._of_worker = None

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments, "state": self._loader.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._build(*state["arguments"])
        self._loader.load_state_dict(state["state"])

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return (self._as_tensors(batch) for batch in self._here())

    def _here(self) -> Loader:
        """The loader of this process: of one of several workers, that of its turns."""
        worker = data.get_worker_info()
        if worker is None or worker.num_workers == 1:
            return self._loader
        if self._of_worker is None:
            self._of_worker = self._loader._dealt(worker.id, worker.num_workers)
        return self._of_worker


def _tensors(batch: LoadedBatch) -> Tensors:
    return Tensors(_tensor(batch.images), _tensor(batch.labels))


def _valid_tensors(batch: LoadedBatch) -> ValidTensors:
    return ValidTensors(*_tensors(batch), torch.from_numpy(batch.valid))


def _tensor(value: Any) -> Any:
    if isinstance(value, Batch):  # images of different sizes
        return [as_tensor(image) for image in value]
    return as_tensor(value) if hasattr(value, "__dlpack__") else value


def _refuse(_: list[Any], **__: Any) -> NoReturn:
    """Instead of torch's collation, which would stack batches or fail at the last one, which is smaller."""
    raise TypeError(
        "the dataset gives batches, but this DataLoader makes batches of them, as its batch_size is not None; use "
        "DataLoader(dataset, batch_size=None)"
    )


default_collate_fn_map.update({Tensors: _refuse, ValidTensors: _refuse})
