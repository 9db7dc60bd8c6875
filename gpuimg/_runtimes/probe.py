"""Probe for a usable GPU; if there is none, report why and what to do.

Run as a file it needs nothing but Python and prints the extra to install here: cpu, cuda12 or cuda13.
"""

import ctypes
import hashlib
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple


class Problem(NamedTuple):
    """Why the GPU is not used."""

    reason: str
    gpu_present: bool


@lru_cache(maxsize=1)
def _driver() -> Any:
    """The CUDA driver library, initialised; None without one."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return cuda if cuda.cuInit(0) == 0 else None


@lru_cache(maxsize=1)
def driver_devices() -> int:
    """GPUs the CUDA driver sees; 0 without a driver."""
    cuda = _driver()
    count = ctypes.c_int(0)
    if cuda is None or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def device_names() -> list[str]:
    """Names of the GPUs, in the order of their indices."""
    text = ctypes.create_string_buffer(256)
    names = []
    for index in range(driver_devices()):
        device = ctypes.c_int(0)
        known = _driver().cuDeviceGet(ctypes.byref(device), index) == 0
        known = known and _driver().cuDeviceGetName(text, len(text), device) == 0
        names.append(text.value.decode(errors="replace") if known else "unknown GPU")
    return names


def capabilities() -> list[tuple[int, int]]:
    """Compute capabilities of the GPUs, in the order of their indices; 0.0 for an unknown one."""
    found = []
    for index in range(driver_devices()):
        device, major, minor = ctypes.c_int(0), ctypes.c_int(0), ctypes.c_int(0)
        known = _driver().cuDeviceGet(ctypes.byref(device), index) == 0
        for number, value in ((75, major), (76, minor)):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
            known = known and _driver().cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0
        found.append((major.value, minor.value) if known else (0, 0))
    return found


def driver_cuda() -> tuple[int, int] | None:
    """The newest CUDA version the driver supports, as ``nvidia-smi`` prints it; None without a driver."""
    cuda = _driver()
    version = ctypes.c_int(0)
    if cuda is None or cuda.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return version.value // 1000, version.value % 1000 // 10


@contextmanager
def beside_captures() -> Iterator[None]:
    """Let this thread allocate memory and query events while another captures a CUDA graph; CuPy has no such call."""
    mode, cuda = ctypes.c_int(2), _driver()  # CU_STREAM_CAPTURE_MODE_RELAXED; then the one before
    if cuda is not None:
        cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    try:
        yield
    finally:
        if cuda is not None:
            cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


def extra() -> str:
    """The extra to install on this machine: ``"cpu"``, ``"cuda12"`` or ``"cuda13"``."""
    version = driver_cuda()
    if driver_devices() == 0 or version is None or version[0] < 12:
        return "cpu"
    return "cuda13" if version[0] >= 13 else "cuda12"


def compiling_extra() -> str:
    """The extra with what compiles CUDA kernels here: functions of users, and what did not come compiled."""
    return "jit-cuda13" if extra() == "cuda13" else "jit-cuda12"


@cache
def gpu_problem(index: int = 0) -> Problem | None:
    """None if the CUDA runtime can be used on a GPU."""
    if driver_devices() == 0:
        return Problem("no CUDA driver or no GPU (libcuda.so.1 finds no device)", False)
    if extra() == "cpu":
        return Problem(f"the CUDA driver is too old: it supports CUDA {driver_cuda()}, at least 12 is needed", True)
    if not is_installed("cupy"):
        from .._version import install_hint  # here: as a program this file is not part of a package

        return Problem(f"CuPy is not installed; {install_hint(extra())}", True)
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
        cupy.zeros(1)
    except Exception as error:
        return Problem(f"CuPy does not work: {error}", True)
    return _kernel_problem(index)


def _kernel_problem(index: int) -> Problem | None:
    """None if machine code of the kernels for a GPU came with the package, is cached, or can be compiled."""
    found, driver = capabilities(), (driver_cuda() or (12, 0))[0]
    if index >= len(found):  # the runtime says that there is no such GPU
        return None
    from .._version import install_hint
    from ..kernels import cuda as kernels
    from ..kernels.cuda import shipped

    lack = shipped.lack(found[index])
    try:
        if lack is not None and not all(one.is_cached(found[index], driver) for one in kernels.every_kernel()):
            kernels.load_compiler()
    except Exception as error:
        reason = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        return Problem(f"CUDA kernels must be compiled ({lack}): {reason}; {install_hint(compiling_extra())}", True)
    return None


def proof(index: int) -> str:
    """Name of the file which says that a GPU, with this driver and these kernels, gives the CPU's results."""
    from ..kernels import native

    driver = [str(driver_cuda())]
    with suppress(OSError):
        driver += [Path("/proc/driver/nvidia/version").read_text()]
    made_for = hashlib.sha256(repr((device_names()[index : index + 1], driver)).encode()).hexdigest()
    return f"proof-{made_for[:12]}-{native.source_digest()[:24]}.txt"


def is_untested() -> bool:
    """Return True if the user wants no self-test of GPUs."""
    return os.environ.get("GPUIMG_SELFTEST") == "0"


def self_test_result(index: int) -> str:
    """Describe what is known of a GPU."""
    from ..kernels import disk

    if disk.has(proof(index)):
        return "gives the CPU's results"
    return "is not tested: GPUIMG_SELFTEST is 0" if is_untested() else "is tested at its first use"


def has_nvrtc() -> bool:
    """Return True if CuPy, where it works, finds NVRTC."""
    with suppress(Exception):  # it is not found, or cannot be loaded
        from cuda import pathfinder

        pathfinder.load_nvidia_dynamic_lib("nvrtc")
        return True
    return False


def is_installed(module: str) -> bool:
    """Return True if a module can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # no parent package; blocked in sys.modules
        return False


if __name__ == "__main__":
    print(extra())
