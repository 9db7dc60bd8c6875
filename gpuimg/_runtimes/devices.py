"""Runtimes by device name and by array; the only module that compares device names."""

import os
import re
import warnings
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from .._decoding import nvimgcodec
from .._decoding.options import GPUIMG, NVIMAGECODEC, DecodeOptions
from .protocol import Runtime, UnusableDeviceError

_DLPACK_CPU = 1
_CPU = "cpu"


def on_cpu(device: str) -> bool:
    """Return True for the name of the CPU device."""
    return device == _CPU


@cache
def _cuda(index: int) -> Runtime:
    try:
        from .cuda import CudaRuntime
        from .self_test import prove

        runtime = CudaRuntime(index)
        prove(runtime)
    except UnusableDeviceError:
        raise
    except Exception as error:  # of the driver, of CuPy, of a compiler
        reason = f"{type(error).__name__}: {error}"
        raise UnusableDeviceError(f"device 'cuda:{index}' does not work here: {reason}") from error
    return runtime


@lru_cache(maxsize=1)
def _cpu() -> Runtime:
    from .cpu import CpuRuntime

    return CpuRuntime()


@lru_cache(maxsize=1)
def default_device() -> str:
    """Return ``"cuda"`` if a GPU and CuPy work together, else ``"cpu"``."""
    from .probe import Problem, gpu_problem

    problem = gpu_problem()
    if problem is None:
        try:
            _cuda(0)
        except UnusableDeviceError as error:
            problem = Problem(str(error), True)
        else:
            return "cuda"
    if problem.gpu_present:
        warnings.warn(f"this machine has a GPU, but gpuimg runs on the CPU: {problem.reason}", stacklevel=4)
    return _CPU


def runtime_for(device: str | None) -> Runtime:
    """Return the runtime of a device name; None means ``GPUIMG_DEVICE`` or the default device.

    Raises ValueError for an unknown name, and RuntimeError with the reason if the device does not work, whatever was
    raised when it was first used.
    """
    given = "GPUIMG_DEVICE" if device is None else "device"
    name = device if device is not None else os.environ.get("GPUIMG_DEVICE") or default_device()
    index = gpu_index(name, given)
    return _cpu() if index is None else _cuda(index)


def gpu_index(name: str, given: str) -> int | None:
    """Return the index of a GPU by a device name, which was given as ``given``; None for the CPU.

    Raises ValueError for an unknown name and for a GPU that does not exist, and RuntimeError if no GPU works here,
    without using one.
    """
    if name == _CPU:
        return None
    match = re.fullmatch(r"cuda(?::(\d+))?", name) if isinstance(name, str) else None
    if not match:
        raise ValueError(f'{given} must be "cpu", "cuda" or "cuda:1" (any index), not {name!r}')
    from .probe import driver_devices, gpu_problem

    index = int(match[1] or 0)
    problem = gpu_problem(index)
    if problem is not None:
        raise RuntimeError(f"{given} {name!r} does not work here: {problem.reason}")
    if index >= driver_devices():
        raise ValueError(f'{given} "cuda:{index}" does not exist: this machine has {driver_devices()} GPU(s)')
    return index


def check_decoder(options: DecodeOptions, *runtimes: Runtime) -> None:
    """Raise an error if a decoder is to decode on a GPU, but is not installed or gives wrong pixels."""
    problem = next((runtime.jpeg_problem for runtime in runtimes if runtime.jpeg_problem), None)
    if options.decoder == GPUIMG and problem is not None:
        raise RuntimeError(f'decoder="gpuimg" does not work here: {problem}')
    if options.decoder == NVIMAGECODEC and not all(runtime.on_host for runtime in runtimes):
        nvimgcodec.library()


def is_on_host(array: Any) -> bool:
    """Return True for an array, of any library with DLPack, in the memory of the host."""
    return hasattr(array, "__dlpack__") and array.__dlpack_device__()[0] == _DLPACK_CPU


def native(array: Any) -> Any:
    """Return an array that shares memory: NumPy's and CuPy's unchanged, others by DLPack."""
    if isinstance(array, np.ndarray) or hasattr(array, "__cuda_array_interface__"):
        ours = isinstance(array, np.ndarray) or type(array).__module__.partition(".")[0] == "cupy"
        if not ours and not hasattr(array, "__dlpack__"):  # Numba's
            raise TypeError(f"a GPU's array must support DLPack; pass cupy.asarray(array) of {type(array).__name__}")
        return array if ours else _cuda(array.__dlpack_device__()[1]).from_dlpack(array)
    if is_on_host(array):
        return _cpu().from_dlpack(array)
    return array


def runtime_of(array: Any) -> Runtime:
    """Return the runtime that owns an array's memory."""
    return _cuda(array.device.id) if hasattr(array, "__cuda_array_interface__") else _cpu()


def on_devices(arrays: Sequence[Any]) -> tuple[list[Any], list[Runtime]]:
    """Return arrays as those of the devices' libraries, see :func:`native`, and the runtimes that own their memory."""
    shared = [native(array) for array in arrays]
    return shared, [runtime_of(array) for array in shared]


def to_host(array: Any) -> Any:
    """Return an array on any device as a NumPy array; wait for a GPU."""
    return runtime_of(array).to_host(array)
