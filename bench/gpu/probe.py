"""The machine and its GPU, and a check of CuPy: what works at all. Takes a few seconds.

    python -m bench.gpu.probe

Run it first: a check that fails says what to do. One that ends the process is the last that is named on stderr.
"""

import contextlib
import ctypes
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from bench import common as machine
from bench.gpu.common import arguments, attempt, show

_DISTRIBUTIONS = (
    "gpuimg", "numpy", "numba", "numba-cuda", "cupy-cuda13x", "cupy-cuda12x", "nvidia-nvimgcodec-cu13",
    "nvidia-nvimgcodec-cu12", "nvidia-nvjpeg", "nvidia-nvjpeg-cu12", "torch", "torchvision", "jax",
    "nvidia-dali-cuda130", "nvidia-dali-cuda120", "pillow", "av",
)  # fmt: skip
_SMI = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit,mig.mode.current,persistence_mode"
_HARDWARE = 3  # NVJPEG_BACKEND_HARDWARE

_ADD = """
extern "C" __global__ void add(int* x) {
    atomicAdd(x, 7);
}
"""


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def about_gpu() -> dict[str, Any]:
    import cupy

    from gpuimg._decoding import nvimgcodec
    from gpuimg.kernels import native
    from gpuimg.kernels.cuda import shipped

    runtime, device = cupy.cuda.runtime, cupy.cuda.Device(0)
    found: dict[str, Any] = {
        "runtime": runtime.runtimeGetVersion(),
        "driver": runtime.driverGetVersion(),
        "compute capability": device.compute_capability,
        "multiprocessors": device.attributes.get("MultiProcessorCount"),
        "memory_free_and_total_gib": [round(size / 2**30, 1) for size in runtime.memGetInfo()],
        "loops": native.describe(),
        "kernels": shipped.description(),
        "nvImageCodec's decoders": list(nvimgcodec.decoders()),
        "hardware JPEG engines": engines(),
    }
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["nvidia-smi", f"--query-gpu={_SMI}", "--format=csv,noheader"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        found["nvidia-smi"] = done.stdout.splitlines()[0]
    return found


def engines() -> str:
    """Return the hardware engines that nvJPEG reports; its library is in a package next to nvImageCodec's."""
    try:
        import nvidia
    except ImportError:
        return "unknown: no package of NVIDIA's"
    found = [path for folder in nvidia.__path__ for path in Path(folder).rglob("libnvjpeg.so.*")]
    if not found:
        return "unknown: no libnvjpeg in the installed packages"
    nvjpeg = ctypes.CDLL(str(found[0]))
    handle = ctypes.c_void_p()
    status = nvjpeg.nvjpegCreateEx(_HARDWARE, None, None, ctypes.c_uint(0), ctypes.byref(handle))
    if status:
        return f"none: nvjpegCreateEx gives status {status}"
    count, cores = ctypes.c_uint(0), ctypes.c_uint(0)
    status = nvjpeg.nvjpegGetHardwareDecoderInfo(handle, ctypes.byref(count), ctypes.byref(cores))
    nvjpeg.nvjpegDestroy(handle)
    return f"{count.value} engines of {cores.value} cores" if status == 0 else f"unknown: status {status}"


def allocate() -> bool:
    """Copy bytes to the GPU and back."""
    import cupy

    with cupy.cuda.Stream(non_blocking=True) as stream:
        sent = np.arange(1 << 16, dtype=np.uint8)
        array = cupy.empty(sent.shape, cupy.uint8)
        array.set(sent)
        stream.synchronize()
    return bool((array.get() == sent).all())


def nvrtc() -> bool:
    """Compile a kernel, as the scripts do, and run it."""
    import cupy

    x = cupy.zeros(1, cupy.int32)
    cupy.RawKernel(_ADD, "add")((1,), (32,), (x,))
    return int(x.get()[0]) == 7 * 32


#: Checks, and what to do about a failure.
CHECKS: dict[Callable[[], bool], str] = {
    allocate: "`gpuimg info` says what is missing; is the driver as new as the CUDA of the cupy package?",
    nvrtc: "CuPy compiles with NVRTC and needs CUDA's headers: pip install 'cupy-cuda12x[ctk]' (or 13x)",
}


def passed(check: Callable[[], bool], remedy: str) -> dict[str, Any]:
    return {} if check() else {"problem": f"other values than expected; {remedy}"}


def main() -> None:
    """Describe the machine, then check one dependency after another."""
    arguments(__doc__, 60)
    cores = {"cores": os.cpu_count(), "usable": len(os.sched_getaffinity(0))}
    of = {"package": str(Path(gi.__file__).parent), "commit": machine.commit()}
    show("machine", versions=versions(), processor=machine.processor(), **of, **cores)
    show("gpu", **about_gpu())
    for check, remedy in CHECKS.items():
        print(f"probe: {check.__name__}", file=sys.stderr, flush=True)
        attempt(check.__name__, partial(passed, check, remedy), f"; {remedy}")


if __name__ == "__main__":
    main()
