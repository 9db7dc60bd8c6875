"""Whether a GPU can be used, and if not, why not and what to do."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import lru_cache
from typing import NamedTuple


class Problem(NamedTuple):
    """Why the GPU is not used."""

    reason: str
    gpu_present: bool


@lru_cache(maxsize=1)
def driver_devices() -> int:
    """GPUs the CUDA driver sees; 0 without a driver."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


@lru_cache(maxsize=1)
def gpu_problem() -> Problem | None:
    """None if the CUDA runtime can be used."""
    if driver_devices() == 0:
        return Problem("no CUDA driver or no GPU (libcuda.so.1 finds no device)", False)
    for module, what in (("cupy", "CuPy"), ("numba.cuda", "numba-cuda"), ("nvidia.nvimgcodec", "nvImageCodec")):
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            return Problem(f'{what} is not installed; pip install "gpuimg[cuda12]" or "gpuimg[cuda13]"', True)
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
        cupy.zeros(1)
    except Exception as error:
        return Problem(f"CuPy does not work: {error}", True)
    return None
