"""``gpuimg info``: versions, devices and decoders of this installation, and missing packages.

Versions are read from package metadata, without importing the packages.
"""

import json
import os
import platform
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from importlib import metadata
from typing import Any

from .._checks.text import counted
from .._decoding import nvimgcodec, png
from .._decoding.options import DecodeOptions
from .._runtimes import probe
from .._runtimes.devices import gpu_index, on_cpu
from .._threads.threads import allowed, threads
from .._version import __version__, install_hint
from ..kernels import native
from ..kernels.cuda import shipped
from .options import add_json

# Distribution names of each package.
_PACKAGES = {
    "numpy": ("numpy",),
    "numba": ("numba",),
    "Pillow": ("pillow",),
    "pillow-heif": ("pillow-heif",),
    "pillow-jxl": ("pillow-jxl-plugin",),
    "PyAV": ("av",),
    "deflate": ("deflate",),
    "isal": ("isal",),
    "nvImageCodec": ("nvidia-nvimgcodec-cu12", "nvidia-nvimgcodec-cu13"),
    "CuPy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"),
    "numba-cuda": ("numba-cuda",),
    "torch": ("torch",),
    "jax": ("jax",),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
}
_WIDTH = 14

EXAMPLE = "gpuimg info --json"


def add_options(command: ArgumentParser) -> None:
    """Add the options."""
    command.description = (
        "Show versions, devices, decoders, and missing packages. The exit status is 1 if nothing can run, or if an "
        "environment variable demands what cannot be had here."
    )
    add_json(command)


def run(options: Namespace) -> int:
    """Print the information."""
    found = facts()
    print(json.dumps(found, indent=1) if options.json else report(found), flush=True)
    return int(native.missing() is not None or bool(found["wrong"]))


def describe_device(name: str) -> str:
    """Return the GPU's name, or the number of threads on the CPU."""
    if on_cpu(name):
        return counted(threads(), "thread")
    return probe.device_names()[int(name.partition(":")[2] or 0)]


def versions() -> dict[str, list[str]]:
    """Return ``"version (distribution)"`` for each package, several if several of its distributions are installed."""
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
    """Return the default device and the reason for it."""
    problem = probe.gpu_problem()
    requested = os.environ.get("GPUIMG_DEVICE")
    if requested:
        return requested, "GPUIMG_DEVICE" if _error_of(_check_device) is None else "GPUIMG_DEVICE, which is wrong"
    if problem is None:
        return "cuda", "a GPU and CuPy work together"
    return "cpu", problem.reason


def _check_device() -> None:
    """Raise an error if ``GPUIMG_DEVICE`` is not a device of this machine."""
    gpu_index(os.environ.get("GPUIMG_DEVICE") or "cpu", "GPUIMG_DEVICE")


def _error_of(check: Callable[[], object]) -> str | None:
    """Return the message of the error that a function raises."""
    try:
        check()
    except (ValueError, RuntimeError, ImportError) as error:
        return str(error)
    return None


def wrong_settings() -> list[str]:
    """Return what environment variables demand and cannot be had here: unknown values, a device that does not work."""
    checks: tuple[Callable[[], object], ...] = (_check_device, DecodeOptions, allowed, nvimgcodec.hardware_share)
    return [error for error in map(_error_of, checks) if error is not None]


def announce_warming() -> None:
    """Print why nothing is measured yet."""
    compiles = "" if native.LEVEL else "; the first run compiles the kernels"
    print(f"warming up{compiles} ...", file=sys.stderr)


def decoders(gpu: bool) -> dict[str, str]:
    """Return the decoder of each kind of image file; with ``gpu``, including those on the GPU."""
    found = versions()
    formats = "other JPEG, interlaced PNG, WebP, AVIF, GIF, TIFF, BMP, PNM, JPEG 2000"
    more = ", HEIC" * bool(found["pillow-heif"]) + ", JPEG XL" * bool(found["pillow-jxl"])
    rows = {
        "JPEG on a CPU": "gpuimg (baseline, progressive)",
        "PNG": f"gpuimg, inflated by {_inflater(found)}",
        "other files": f"Pillow {', '.join(found['Pillow'])} ({formats}{more})",
    }
    if gpu:
        found_there = nvimgcodec.decoders()
        kinds = ", ".join(name for name in found_there if name != nvimgcodec.OF_OTHERS)
        ours, theirs = "gpuimg (baseline) and the CPU, with the CPU's pixels", f"nvImageCodec ({kinds})"
        theirs += f', whose rounding and chroma differ from libjpeg\'s. With decoder="gpuimg": {ours}'
        reason = _error_of(nvimgcodec.library) or "nvImageCodec has no decoder here"
        rows["JPEG on a GPU"] = theirs if kinds else f"{ours}, because {reason}"
        if nvimgcodec.OF_OTHERS in found_there:
            rows["JPEG 2000 and TIFF on a GPU"] = f"nvImageCodec ({nvimgcodec.OF_OTHERS}), else the CPU"
        if decoder := os.environ.get("GPUIMG_DECODER"):
            rows["JPEG on a GPU"] += f". GPUIMG_DECODER is {decoder}"
    return rows


def _video_decoder() -> str:
    found = versions()["PyAV"]
    return f"PyAV {', '.join(found)}" if found else f"none; {install_hint('video')}"


def _inflater(found: dict[str, list[str]]) -> str:
    """Return the library that PNG files are inflated by, or Python's and what is faster; none is imported."""
    for package in png.FASTER:
        if found[package]:
            return f"{package} {', '.join(found[package])}"
    return f"Python's zlib; for more speed, {install_hint('png')}"


def missing() -> list[str]:
    """Return missing or broken packages, each with the command that installs them."""
    found = versions()
    problem = probe.gpu_problem()
    lines = [] if native.missing() is None else [native.describe()]
    if len(found["nvImageCodec"]) > 1:
        lines.append(
            "nvImageCodec is installed twice, and the two share files; make a fresh environment with one of them: "
            f"{install_hint(probe.extra())}"
        )
    if problem is not None and problem.gpu_present:
        lines.append(f"the GPU is not used: {problem.reason}")
    if problem is None and not probe.has_nvrtc():
        lines.append(
            "NVRTC, CuPy's compiler, is needed on a GPU for alpha, 16 bits, other than 1 or 3 channels, strided "
            f"arrays, and rotated files that nvImageCodec decodes; {install_hint(probe.extra())}"
        )
    absent = (package for package in ("torch", "jax") if not found[package])
    lines += [f"gpuimg.to_{package} needs {package}; {install_hint(package)}" for package in absent]
    return lines


def _threads() -> dict[str, Any]:
    try:
        return allowed()._asdict()
    except ValueError as error:
        return {"reason": str(error)}


def facts() -> dict[str, Any]:
    """Return all information as JSON types."""
    device, reason = default_device()
    cuda = probe.driver_cuda()
    return {
        "gpuimg": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions(),
        "cpu": _threads(),
        "loops": native.describe(),
        "gpus": probe.device_names(),
        "cuda": None if cuda is None else f"{cuda[0]}.{cuda[1]}",
        "cuda_kernels": shipped.description(),
        "self_test": [probe.self_test_result(index) for index in range(probe.driver_devices())],
        "default": {"device": device, "reason": reason},
        "decoders": decoders(gpu=probe.gpu_problem() is None) | {"videos": _video_decoder()},
        "missing": missing(),
        "wrong": wrong_settings(),
    }


def report(found: dict[str, Any]) -> str:
    """Return all information as lines of text."""
    default, cuda = found["default"], found["cuda"]
    rows = [("gpuimg", found["gpuimg"]), ("Python", f"{found['python']}, {found['platform']}")]
    rows += [(package, ", ".join(of) or "not installed") for package, of in found["packages"].items()]
    cpu = found["cpu"]
    rows += [("", ""), ("cpu", f"{counted(cpu['threads'], 'thread')} ({cpu['reason']})" if "threads" in cpu else "")]
    rows += [("loops", found["loops"])]
    rows += [(f"cuda:{index}", name) for index, name in enumerate(found["gpus"])] or [("cuda", "no GPU")]
    rows += [("self-test", f"cuda:{index} {said}") for index, said in enumerate(found["self_test"])]
    rows += [("CUDA driver", f"up to CUDA {cuda}" if cuda else "none")]
    rows += [("CUDA kernels", found["cuda_kernels"])]
    rows += [("default", f"{default['device']}: {default['reason']}")]
    rows += [("", ""), *found["decoders"].items()]
    lines = [f"{name:{_WIDTH}}{value}".rstrip() for name, value in rows]
    lacking, wrong = found["missing"], found["wrong"]
    lines += ["", "missing" + ("" if lacking else "       nothing"), *(f"  {line}" for line in lacking)]
    return "\n".join([*lines, *(["wrong", *(f"  {line}" for line in wrong)] if wrong else [])])
