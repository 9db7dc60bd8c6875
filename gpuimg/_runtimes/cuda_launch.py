"""Launching kernels: their machine code in the GPU's memory, their arguments packed as it reads them.

A kernel is defined once (see :mod:`gpuimg.kernels.cuda.kernel`) and launched on CuPy's current device::

    launch(kernel, stream.ptr, (blocks, images), array, number)

Arrays are flat CuPy arrays of the signature's dtypes. Numba takes no part: its dispatcher would prepare each
array again, which takes longer than the rest of the Python code of a small batch.
"""

import ctypes
import struct
import sys
import threading
from collections.abc import Iterable
from functools import cache
from typing import Any

import cupy
import numpy as np

from .._version import install_hint
from ..kernels.cuda import Image, Kernel, shipped
from .probe import compiling_extra

_ARRAY = "QQqqQqq"  # what Numba's kernels take: two owners, the size and item size, the address, the shape and stride
_FORMATS = {"int32": "i", "int64": "q", "uint32": "I", "uint64": "Q", "float32": "f", "float64": "d"}
# CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION.
_NOT_FOR_THIS_DRIVER = 200, 209, 218, 222
_BUFFER, _BUFFER_SIZE, _END = 1, 2, 0  # CU_LAUNCH_PARAM_BUFFER_POINTER and so on


class Arguments:
    """Layout of a kernel's arguments: a C structure in which an array is seven fields."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._dtypes = [np.dtype(kind[:-2]) if kind.endswith("[]") else None for kind in kernel.arguments]
        self.layout = struct.Struct("".join(_FORMATS.get(kind, _ARRAY) for kind in kernel.arguments))

    def pack_into(self, buffer: Any, arguments: tuple[Any, ...]) -> None:
        """Write arguments as the kernel reads them."""
        if len(arguments) != len(self._dtypes):
            raise TypeError(f"kernel {self._kernel.name} takes {len(self._dtypes)} arguments, not {len(arguments)}")
        words: list[Any] = []
        for argument, dtype in zip(arguments, self._dtypes, strict=True):
            if dtype is None:
                words.append(argument)
                continue
            if argument.dtype != dtype:
                raise TypeError(f"kernel {self._kernel.name} takes an array of {dtype}, not {argument.dtype}")
            size, step = argument.size, dtype.itemsize
            words += (0, 0, size, step, argument.data.ptr, size, step)
        self.layout.pack_into(buffer, 0, *words)


class _Buffers(threading.local):
    """A thread's memory for the arguments of one kernel, which the driver copies when it is called."""

    def __init__(self, size: int) -> None:
        self.packed = ctypes.create_string_buffer(size)
        self._size = ctypes.c_size_t(size)
        address, length = ctypes.addressof(self.packed), ctypes.addressof(self._size)
        self._extra = (ctypes.c_void_p * 5)(_BUFFER, address, _BUFFER_SIZE, length, _END)
        self.extra = ctypes.addressof(self._extra)


class Loaded:
    """A kernel in the memory of CuPy's current device."""

    def __init__(self, kernel: Kernel) -> None:
        self._module = cupy.cuda.function.Module()
        made_for = capability_of(cupy.cuda.Device()), cupy.cuda.runtime.driverGetVersion() // 1000
        if (kernel.users or shipped.lack(made_for[0])) and not kernel.is_cached(*made_for):
            _announce_compiling()
        self.function = self._module.get_function(self._load(kernel.images(*made_for))).ptr
        self._block = kernel.block
        self._arguments = Arguments(kernel)
        self._buffers = _Buffers(self._arguments.layout.size)

    def _load(self, images: Iterable[Image]) -> str:
        """Load the first image that the driver takes; return the kernel's name in it."""
        refused: Any = None
        for image in images:
            try:
                self._module.load(image.code)
                return image.entry
            except cupy.cuda.driver.CUDADriverError as error:
                if error.status not in _NOT_FOR_THIS_DRIVER:
                    raise
                refused = error
        raise refused

    def launch(self, stream: int, grid: tuple[int, int], arguments: tuple[Any, ...]) -> None:
        """Enqueue it on a stream, known by its address."""
        buffers = self._buffers
        self._arguments.pack_into(buffers.packed, arguments)
        cupy.cuda.driver.launchKernel(
            self.function, grid[0], grid[1], 1, self._block, 1, 1, 0, stream, 0, buffers.extra
        )


@cache
def _announce_compiling() -> None:
    """Report, once, what the first batch waits for."""
    print(
        "gpuimg compiles CUDA kernels, once for this machine; `gpuimg warm --all` does so in advance", file=sys.stderr
    )


# By the keys of kernels, for the process's life: the GPU may still run what nothing refers to any more.
_loaded: dict[tuple[str, int], Loaded] = {}
_loading = threading.Lock()


def loaded(kernel: Kernel) -> Loaded:
    """A kernel, loaded at its first use on CuPy's current device.

    Raises
    ------
    ImportError
        Where it has to be compiled, and what compiles is not installed.
    """
    device = cupy.cuda.Device().id
    try:
        found = _loaded.get((kernel.key, device))
        # Not under the lock: another kernel need not wait until this one is compiled.
        new = Loaded(kernel) if found is None else found
    except ImportError as error:
        raise ImportError(f"{error}; {install_hint(compiling_extra())}") from error
    if found is None:
        with _loading:
            found = _loaded.setdefault((kernel.key, device), new)
    return found


def launch(kernel: Kernel, stream: int, grid: tuple[int, int], *arguments: Any) -> None:
    """Enqueue a kernel on a stream of CuPy's current device, known by its address.

    ``grid`` is the number of blocks in x and y; their threads are the kernel's ``block``.
    """
    loaded(kernel).launch(stream, grid, arguments)


def capability_of(device: Any) -> tuple[int, int]:
    """Compute capability of a CuPy device, which writes it without a point."""
    digits = device.compute_capability
    return int(digits[:-1]), int(digits[-1])
