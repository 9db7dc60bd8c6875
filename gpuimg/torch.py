"""For code that wants a ``torch.utils.data`` dataset: a loader's batches as tensors.

>>> import gpuimg.torch  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._batch.batch import Batch
from ._batch.frameworks import as_tensor
from ._loading.loader import Loader, load

try:
    from torch.utils import data
except ImportError as error:
    raise ImportError('gpuimg.torch needs torch: pip install "gpuimg[torch]"') from error


class IterableDataset(data.IterableDataset[Any]):  # type: ignore[misc]  # torch is not type-checked here
    """Batches of :func:`gpuimg.load` as ``(images, labels)`` tensors, which share the loader's memory.

    A :class:`gpuimg.Loader` can be iterated over without this; it is for trainers that insist on a ``DataLoader``:
    ``DataLoader(dataset, batch_size=None)``, because the batches are made already.

    Parameters
    ----------
    source, preprocess, **options
        Of :func:`gpuimg.load`; ``layout`` is ``"NCHW"`` by default. Several ``DataLoader`` workers divide the shard
        among them; they are not needed, as the loader has threads, and a GPU does not work in forked ones.

    Raises
    ------
    ValueError, TypeError
        As :func:`gpuimg.load`, at the call.

    Notes
    -----
    With ``persistent_workers`` each loop of the ``DataLoader`` is the next epoch; workers started anew for each loop
    begin with the same one again, so call :meth:`set_epoch` before it.

    Examples
    --------
    >>> dataset = gpuimg.torch.IterableDataset(source, train, batch_size=64)  # doctest: +SKIP
    >>> for images, labels in torch.utils.data.DataLoader(dataset, batch_size=None): ...  # doctest: +SKIP
    """

    def __init__(self, source: Any, preprocess: Any = None, **options: Any) -> None:
        super().__init__()
        self._arguments = source, preprocess
        self._options = {"layout": "NCHW", **options}
        self._loader = load(source, preprocess, **self._options)
        self._of_worker: Loader | None = None

    def __len__(self) -> int:
        """Batches of a loop."""
        return len(self._loader)

    def set_epoch(self, epoch: int) -> None:
        """Begin the next loop with this epoch."""
        beginning = {"epoch": epoch, "levels": [], "taken": 0, "given": 0}
        self._loader.load_state_dict({**self._loader.state_dict(), **beginning})

    def state_dict(self) -> dict[str, Any]:
        """As :meth:`gpuimg.Loader.state_dict`."""
        return self._loader.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """As :meth:`gpuimg.Loader.load_state_dict`."""
        self._loader.load_state_dict(state)

    def __getstate__(self) -> dict[str, Any]:
        return {"arguments": self._arguments, "options": self._options, "state": self._loader.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        (source, preprocess), options = state["arguments"], state["options"]
        self.__init__(source, preprocess, **options)  # type: ignore[misc]
        self._loader.load_state_dict(state["state"])

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        loader = self._loader
        worker = data.get_worker_info()
        if worker is not None and worker.num_workers > 1:
            if self._of_worker is None:
                rank, world = loader.shard
                shard = rank * worker.num_workers + worker.id, world * worker.num_workers
                self._of_worker = load(*self._arguments, **{**self._options, "shard": shard})
                self._of_worker.load_state_dict(loader.state_dict())
            loader = self._of_worker
        return ((_tensors(batch.images), _tensors(batch.labels)) for batch in loader)


def _tensors(value: Any) -> Any:
    if isinstance(value, Batch):  # images of different sizes
        return [as_tensor(image) for image in value]
    return as_tensor(value) if hasattr(value, "__dlpack__") else value
