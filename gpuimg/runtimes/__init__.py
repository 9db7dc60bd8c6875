"""The one place that knows about devices: allocate, take in arrays, decode, run a plan."""

from __future__ import annotations

import os
import re
import warnings
from contextlib import AbstractContextManager
from functools import cache, lru_cache
from typing import Any, Protocol

import numpy as np

from ..pixels import Files, Pixels
from ..plan import Plan

_DLPACK_CPU = 1


class Runtime(Protocol):
    """What a device can do. It exists twice, for CPU and CUDA."""

    name: str

    def empty(self, elements: int, dtype: str) -> Any:
        """An uninitialised flat array."""

    def from_arrays(self, arrays: Any) -> Pixels:
        """A list of (H, W, C) arrays, or one (N, H, W, C) array, as pixels."""

    def from_dlpack(self, array: Any) -> Any:
        """Another library's array in this device's memory, as this device's library knows arrays."""

    def decode(self, files: Files) -> Pixels:
        """All images of a batch, whole."""

    def run(
        self, source: Files | Pixels, stages: tuple[Plan, ...], out: Any, offsets: Any, kind: int, planar: bool
    ) -> int:
        """Run plans, each on the results of the one before, into the flat ``out``; gives the kernel launches."""

    def mix(self, one: Pixels, other: Pixels, weight: Any, partner: Any, rectangle: Any, out: Any) -> None:
        """Mix float32 images of the same sizes into the flat ``out``, see :func:`gpuimg.blend`."""

    def owns(self, array: Any) -> bool:
        """Whether an array is in this device's memory."""

    def lane(self) -> AbstractContextManager[Any]:
        """Where a thread of a pipeline works beside its consumer: on a GPU a stream of its own."""

    def mark(self) -> Any:
        """The end of what this thread has enqueued so far."""

    def follow(self, mark: Any, stream: int | None) -> None:
        """What the caller enqueues from now on, on a stream or its current one, comes after a mark."""

    def slots(self, stream: int | None) -> Slots:
        """Memory for results that are read on a stream, or their reader's current one."""


class Slots(Protocol):
    """Memory for results that is used again once nothing refers to a result in it any more."""

    def take(self, elements: int, dtype: str) -> Any:
        """An uninitialised flat array."""


@cache
def _cuda(index: int) -> Runtime:
    from .cuda import CudaRuntime

    return CudaRuntime(index)


@lru_cache(maxsize=1)
def _cpu() -> Runtime:
    from .cpu import CpuRuntime

    return CpuRuntime()


@lru_cache(maxsize=1)
def default_device() -> str:
    """``"cuda"`` if a GPU, CuPy and nvImageCodec work together, else ``"cpu"``; ``GPUIMG_DEVICE`` overrides it."""
    from .probe import gpu_problem

    problem = gpu_problem()
    if problem is None:
        return "cuda"
    if problem.gpu_present:
        warnings.warn(f"this machine has a GPU, but gpuimg runs on the CPU: {problem.reason}", stacklevel=4)
    return "cpu"


def runtime_for(device: str | None) -> Runtime:
    """The runtime of a device name.

    Raises
    ------
    ValueError
        For another name.
    RuntimeError
        Where the device does not work, with the reason.
    """
    name = device if device is not None else os.environ.get("GPUIMG_DEVICE") or default_device()
    if name == "cpu":
        return _cpu()
    match = re.fullmatch(r"cuda(?::(\d+))?", name) if isinstance(name, str) else None
    if not match:
        raise ValueError(f'device must be "cpu", "cuda" or "cuda:1" (any index), not {name!r}')
    from .probe import gpu_problem

    problem = gpu_problem()
    if problem is not None:
        raise RuntimeError(f"device {name!r} does not work here: {problem.reason}")
    return _cuda(int(match[1] or 0))


def native(array: Any) -> Any:
    """An array as NumPy's or CuPy's, sharing its memory: those themselves, and anything that speaks DLPack."""
    if isinstance(array, np.ndarray) or hasattr(array, "__cuda_array_interface__"):
        ours = isinstance(array, np.ndarray) or type(array).__module__.partition(".")[0] == "cupy"
        return array if ours else _cuda(array.__dlpack_device__()[1]).from_dlpack(array)
    if hasattr(array, "__dlpack__") and array.__dlpack_device__()[0] == _DLPACK_CPU:
        return _cpu().from_dlpack(array)
    return array


def runtime_of(array: Any) -> Runtime:
    """The runtime in whose memory an array is."""
    return _cuda(array.device.id) if hasattr(array, "__cuda_array_interface__") else _cpu()
