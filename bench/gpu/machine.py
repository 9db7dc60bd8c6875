"""The machine of the measurements."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from bench.gpu.child import Context

_DISTRIBUTIONS = (
    "gpuimg", "numpy", "numba", "numba-cuda", "cuda-core", "cuda-bindings", "cupy-cuda13x", "cupy-cuda12x",
    "nvidia-nvimgcodec-cu13", "nvidia-nvimgcodec-cu12", "nvidia-nvjpeg", "nvidia-nvjpeg-cu12", "torch", "torchvision",
    "torchcodec", "jax", "jaxlib", "ml_dtypes", "nvidia-dali-cuda130", "nvidia-dali-cuda120", "pillow", "hypothesis",
    "pytest",
)  # fmt: skip
_HARDWARE = 3  # NVJPEG_BACKEND_HARDWARE
_SMI = "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit,mig.mode.current,persistence_mode"


def run(context: Context) -> None:
    """Record versions first, and then what may fail."""
    from bench import common
    from gpuimg._runtimes import probe
    from gpuimg._threads.threads import threads

    context.record("versions", {"python": platform.python_version(), **_versions()})
    context.record("processor", common.processor())
    context.record("cores", {"all": os.cpu_count(), "usable": len(os.sched_getaffinity(0)), "gpuimg uses": threads()})
    context.record("memory_gib", round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1))
    context.record("gpus", probe.device_names())
    context.record("driver supports CUDA", probe.driver_cuda())
    problem = probe.gpu_problem()
    context.record("gpu problem", None if problem is None else problem.reason)
    if not context.on_gpu:
        return
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        context.record("nvidia-smi", _smi())
    context.record("decoders", list(_decoders()))
    context.record("cuda", _cuda())
    context.record("hardware JPEG engines", _engines())


def _versions() -> dict[str, str]:
    found = {}
    for name in _DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _smi() -> dict[str, str]:
    command = ["nvidia-smi", f"--query-gpu={_SMI}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return dict(zip(_SMI.split(","), (word.strip() for word in done.stdout.splitlines()[0].split(",")), strict=False))


def _decoders() -> Any:
    from gpuimg._decoding import nvimgcodec

    return nvimgcodec.decoders()


def _cuda() -> dict[str, Any]:
    import cupy

    runtime = cupy.cuda.runtime
    device = cupy.cuda.Device(0)
    free, total = runtime.memGetInfo()
    return {
        "runtime": runtime.runtimeGetVersion(),
        "driver": runtime.driverGetVersion(),
        "compute capability": device.compute_capability,
        "multiprocessors": device.attributes.get("MultiProcessorCount"),
        "l2_mib": round(device.attributes.get("L2CacheSize", 0) / 2**20, 1),
        "memory_free_gib": round(free / 2**30, 1),
        "memory_total_gib": round(total / 2**30, 1),
    }


def _engines() -> str:
    """Return the hardware engines from nvJPEG, whose library is in a package next to nvImageCodec's."""
    import nvidia

    found = [path for folder in nvidia.__path__ for path in Path(folder).rglob("libnvjpeg.so.*")]
    if not found:
        return "unknown: no libnvjpeg in the installed packages"
    nvjpeg = ctypes.CDLL(str(found[0]))
    handle = ctypes.c_void_p()
    status = nvjpeg.nvjpegCreateEx(_HARDWARE, None, None, ctypes.c_uint(0), ctypes.byref(handle))
    if status:
        return f"none: nvjpegCreateEx gives status {status}"
    engines, cores = ctypes.c_uint(0), ctypes.c_uint(0)
    status = nvjpeg.nvjpegGetHardwareDecoderInfo(handle, ctypes.byref(engines), ctypes.byref(cores))
    nvjpeg.nvjpegDestroy(handle)
    return f"{engines.value} engines of {cores.value} cores" if status == 0 else f"unknown: status {status}"


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Describe the machine."""
    problem = results.get("gpu problem")
    problems = [f"gpuimg finds no GPU it can use: {problem}"] if problem else []
    if "decoders" in results and not any("hardware" in name for name in results["decoders"]):
        problems.append(f"no hardware JPEG engine: {results['decoders']}")
    return problems, [f"{key}: {_flat(value)}" for key, value in results.items() if key != "gpu problem"]


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {part}" for key, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
