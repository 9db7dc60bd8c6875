"""What this installation has and what it lacks, in words: the text of ``gpuimg info``.

Versions are read from the packages' metadata: nothing heavy is imported to print them.
"""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from .._checks.text import counted
from .._decoding import nvimgcodec
from .._runtimes import probe
from .._runtimes.devices import on_cpu
from .._threads.threads import allowed, threads
from .._version import install_hint
from ..kernels.cuda import shipped

# What is installed under which names; the first one found counts.
_PACKAGES = {
    "numpy": ("numpy",),
    "numba": ("numba",),
    "Pillow": ("pillow",),
    "pillow-heif": ("pillow-heif",),
    "PyAV": ("av",),
    "nvImageCodec": ("nvidia-nvimgcodec-cu12", "nvidia-nvimgcodec-cu13"),
    "CuPy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"),
    "numba-cuda": ("numba-cuda",),
    "torch": ("torch",),
    "jax": ("jax",),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
}
_WIDTH = 14


def describe_device(name: str) -> str:
    """The GPU's name, or the number of threads on the CPU."""
    if on_cpu(name):
        return counted(threads(), "thread")
    return probe.device_names()[int(name.partition(":")[2] or 0)]


def versions() -> dict[str, list[str]]:
    """``"version (distribution)"`` of each package of interest; several where it is installed under several names."""
    found: dict[str, list[str]] = {}
    for package, names in _PACKAGES.items():
        found[package] = []
        for name in names:
            try:
                version = metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
            found[package].append(version if name == package.lower() else f"{version} ({name})")
    return found


def default_device() -> tuple[str, str]:
    """The device used by default, and why."""
    problem = probe.gpu_problem()
    asked = os.environ.get("GPUIMG_DEVICE")
    if asked:
        return asked, "GPUIMG_DEVICE"
    if problem is None:
        return "cuda", "a GPU, CuPy and nvImageCodec work together"
    return "cpu", problem.reason


def loops() -> tuple[str | None, str]:
    """The level that the installed loops are compiled for, or None and why Numba compiles them; and this in words."""
    from ..kernels import native

    return (native.LEVEL, native.describe())


def decoders(gpu: bool) -> dict[str, str]:
    """What decodes which files; with ``gpu`` also those that it decodes itself."""
    found = versions()
    formats = "progressive and other JPEG, PNG, WebP, AVIF, GIF, TIFF, BMP, PNM, JPEG 2000"
    heic = ", HEIC" if found["pillow-heif"] else ""
    rows = {"baseline JPEG": "gpuimg", "other files": f"Pillow {', '.join(found['Pillow'])} ({formats}{heic})"}
    rows["videos"] = f"PyAV {', '.join(found['PyAV'])}" if found["PyAV"] else f"none: {install_hint('video')}"
    if gpu:
        kinds = ", ".join(nvimgcodec.decoders())
        rows["JPEG on a GPU"] = f"nvImageCodec ({kinds})" if kinds else "none in nvImageCodec: decoded on the CPU"
    return rows


def missing() -> list[str]:
    """What could be here and is not, each with the line that gets it."""
    found = versions()
    problem = probe.gpu_problem()
    lines = []
    if len(found["nvImageCodec"]) > 1:
        lines.append(
            "nvImageCodec is installed twice, and the two share files; make a fresh environment with one of them: "
            f"{install_hint(probe.extra())}"
        )
    if problem is not None and problem.gpu_present:
        lines.append(f"the GPU is not used: {problem.reason}")
    absent = (package for package in ("torch", "jax") if not found[package])
    lines += [f"gpuimg.to_{package} needs {package}; {install_hint(package)}" for package in absent]
    return lines


def facts() -> dict[str, Any]:
    """Everything, for a program to read."""
    device, reason = default_device()
    cuda = probe.driver_cuda()
    return {
        "gpuimg": metadata.version("gpuimg"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions(),
        "cpu": {"threads": threads(), "reason": allowed().reason},
        "loops": loops()[1],
        "gpus": probe.device_names(),
        "cuda": None if cuda is None else f"{cuda[0]}.{cuda[1]}",
        "cuda_kernels": shipped.description(),
        "default": {"device": device, "reason": reason},
        "decoders": decoders(gpu=probe.gpu_problem() is None),
        "missing": missing(),
    }


def report() -> str:
    """Everything, as lines of text."""
    found = facts()
    default, cuda = found["default"], found["cuda"]
    rows = [("gpuimg", found["gpuimg"]), ("Python", f"{found['python']}, {found['platform']}")]
    rows += [(package, ", ".join(of) or "not installed") for package, of in found["packages"].items()]
    rows += [("", ""), ("cpu", f"{describe_device('cpu')} ({found['cpu']['reason']})")]
    rows += [("loops", found["loops"])]
    rows += [(f"cuda:{index}", name) for index, name in enumerate(found["gpus"])] or [("cuda", "no GPU")]
    rows += [("CUDA driver", f"up to CUDA {cuda}" if cuda else "none")]
    rows += [("CUDA kernels", found["cuda_kernels"])]
    rows += [("default", f"{default['device']}: {default['reason']}")]
    rows += [("", ""), *found["decoders"].items()]
    lines = [f"{name:{_WIDTH}}{value}".rstrip() for name, value in rows]
    wanted = found["missing"]
    return "\n".join([*lines, "", "missing" + ("" if wanted else "       nothing"), *(f"  {line}" for line in wanted)])
