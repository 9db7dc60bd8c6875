"""``gpuimg.torch.load``: a loader of tensors, on the device of the training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Unpack

import torch

from .._checks.arguments import flag
from .._checks.keywords import LOAD_HINTS, REMOVED, explained
from .._checks.types import Samples
from .._data.images import numpy_dtype
from .._loading.load import SharedOptions
from .._loading.load import load as load_arrays
from .._loading.loader import Loader as PlainLoader
from .._loading.loader import changed
from .._loading.pipeline import FinishedBatch, LoadedBatch
from .._loading.settings import UserFunction, check_keys
from .._runtimes.devices import on_cpu, runtime_for
from .._runtimes.protocol import ResultMemory
from ..sources.stream import Stream
from .tensors import TensorBatch, of_tensors, tensor_of, tensors_of, with_layout


class Sampler:
    """The order of a loader's samples, with the part of a ``DistributedSampler`` that training programs use."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        """Number of samples of an epoch that this rank delivers, padding included."""
        return self._loader.samples

    def set_epoch(self, epoch: int) -> None:
        """Begin the next loop with this epoch, see :meth:`gpuimg.Loader.set_epoch`."""
        self._loader.set_epoch(epoch)


class Loader(PlainLoader):
    """Iterable of :class:`TensorBatch`, returned by :func:`gpuimg.torch.load`.

    It has all methods of :class:`gpuimg.Loader`: ``len`` is the number of batches; ``set_epoch``, ``state_dict``,
    ``load_state_dict``, ``stats`` and ``close``.
    """

    batch_sampler = None  # Lightning reads it of a loader that has a sampler
    _device: torch.device | None = None  # to which tensors are moved
    _keys: tuple[str, str] | None = None

    @property
    def dataset(self) -> Any:
        """The source: ``len(loader.dataset)`` is its number of samples."""
        return self.source

    @property
    def sampler(self) -> Sampler:
        """Has the number of this rank's samples, ``len(loader.sampler)``, and ``set_epoch``."""
        return Sampler(self)

    def __iter__(self) -> Iterator[TensorBatch]:  # type: ignore[override]  # other batches
        return super().__iter__()  # type: ignore[return-value]

    def __next__(self) -> TensorBatch:  # type: ignore[override]
        return super().__next__()  # type: ignore[return-value]

    def _deliver(self, finished: FinishedBatch) -> Any:
        batch = tensors_of(super()._deliver(finished))
        if self._device is not None:
            batch = batch.to(self._device)  # those that are not there yet, such as labels of images made there
            if self._device.type == "cuda":  # copied on another stream: used on this one from here on
                stream = torch.cuda.current_stream(self._device)
                for value in (*batch, batch.indices, batch.valid):
                    of_tensors(value, lambda tensor: tensor.record_stream(stream))
        return batch if self._keys is None else dict(zip(self._keys, batch, strict=True))


@explained(LOAD_HINTS | REMOVED)
def load(
    source: Samples | Stream,
    preprocess: UserFunction | None = None,
    *,
    device: torch.device | str | int | None = None,
    pin_memory: bool = False,
    keys: tuple[str, str] | None = None,
    **options: Unpack[SharedOptions],
) -> Loader:
    """Read, decode and augment batches ahead of a loop, as tensors: ``for images, labels in gpuimg.torch.load(...)``.

    Parameters
    ----------
    source, preprocess, **options
        Arguments of :func:`gpuimg.load`; ``layout`` is ``"NCHW"`` by default, ``"NTCHW"`` for ``clips``.
    device : torch.device, str or int, optional
        Device of the tensors. A GPU on which gpuimg works computes the batches itself. For any other the CPU computes
        them, in pinned memory, and they are copied ahead of the loop, on a separate stream; ``devices=["cpu"]``
        chooses that for every device. By default tensors are where gpuimg computes, and share the loader's memory.
    pin_memory : bool
        Compute batches on the CPU in pinned memory, for programs that copy them with
        ``tensor.to(device, non_blocking=True)``. No effect without a GPU, and not needed with ``device``.
    keys : (str, str), optional
        Yield dicts with these keys for images and labels, such as ``("pixel_values", "labels")`` for transformers.

    Returns
    -------
    Loader
        Iterate over it for :class:`TensorBatch`. ``loader.dataset`` is the source, and ``loader.sampler`` has the
        length and ``set_epoch`` of a ``DistributedSampler``.

    Raises
    ------
    ValueError, TypeError, DecodeError, ImportError
        As :func:`gpuimg.load`.
    RuntimeError
        For a device that torch does not have.

    Notes
    -----
    It is an iterable of batches, not a ``DataLoader``: pass it to a trainer in the place of one. Each loop is the next
    epoch, also without ``set_epoch``. Every process gets its share of the samples, so no ``DistributedSampler`` is
    needed; an evaluation ignores samples that are not ``batch.valid``.

    Copies to a GPU have not run on one yet.

    Examples
    --------
    >>> loader = gpuimg.torch.load(source, train, batch_size=64, shuffle=True, device="cuda")  # doctest: +SKIP
    >>> for images, labels in loader: ...  # doctest: +SKIP
    """
    pin_memory = flag(pin_memory, "pin_memory")
    keys = check_keys(keys)
    try:
        target = None if device is None else torch.empty(0, device=device).device
    except (AssertionError, RuntimeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise RuntimeError(f"device={device!r} does not work in this installation of torch: {reason}") from None
    arguments = with_layout(options)
    if target is not None and "devices" not in options:
        arguments["device"] = _computing(target)
    if target is not None and target.type == "cuda":
        arguments.setdefault("stream", torch.cuda.current_stream(target))
    arrays = load_arrays(source, preprocess, **arguments)
    on_host = all(map(on_cpu, arrays.devices))
    pinned = pin_memory or (target is not None and target.type == "cuda")
    memory: ResultMemory | None = PinnedMemory() if on_host and pinned and torch.cuda.is_available() else None
    place = CopyAhead(target) if on_host and target is not None and target.type != "cpu" else None
    loader = changed(arrays, Loader, memory=memory, place=place)
    loader._device, loader._keys = target, keys
    return loader


def _computing(target: torch.device) -> str:
    """Return the device that computes batches for a device of torch: the GPU itself if gpuimg works on it."""
    if target.type == "cuda":
        try:
            return runtime_for(f"cuda:{target.index}").name
        except RuntimeError:  # no CuPy, for example: the CPU computes, and batches are copied
            pass
    return "cpu"


class PinnedMemory:
    """Memory for results in pinned memory, whose reuse torch's allocator manages."""

    def empty_for_results(self, elements: int, dtype: str) -> Any:
        """Return an uninitialized flat array."""
        kind = numpy_dtype(dtype)
        return torch.empty(elements * kind.itemsize, dtype=torch.uint8, pin_memory=True).numpy().view(kind)


class CopyAhead:
    """Copies batches from the host to a device, on the thread that computed them and a separate stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = None

    def __call__(self, batch: LoadedBatch) -> LoadedBatch:
        """Return the batch on the device."""
        if self._device.type != "cuda":
            return LoadedBatch(*map(self._copied, batch))
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)
        with torch.cuda.stream(self._stream):
            copied = LoadedBatch(*map(self._copied, batch))
            event = torch.cuda.Event()
            event.record(self._stream)
        event.synchronize()  # the memory of the batch on the host may be reused from here on
        return copied

    def _copied(self, value: Any) -> Any:
        return of_tensors(tensor_of(value), lambda tensor: tensor.to(self._device, non_blocking=True))
