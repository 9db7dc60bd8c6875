"""The parts that check: ``python -m bench.gpu.checks NAME``, each in a process of its own.

``GPU_PHOTOS`` is the number of photos. What is needed to look for a cause without the GPU is stored in
``GPU_DIFFERENCES``: files, the pixels of both sides, and what each kernel for JPEGs left in memory.
"""

import contextlib
import ctypes
import importlib.metadata
import io
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, JpegImagePlugin

import gpuimg as gi
from bench import common as machine
from bench.gpu import REHEARSAL
from bench.gpu.common import Kernels, Lane, attempt, decoder, device, photos, show
from gpuimg._batch.batch import recording_of
from gpuimg._runtimes import self_test as gpuimgs_test

_BEGIN = time.perf_counter()
_COUNT, _REPEATS = (2, 2) if REHEARSAL else (64, 30)
_STORED = 3  # differing images of a check
EQUAL, ANY = 0, 255  # differences that are right; any: those that differ most are only stored

_MODULES = (
    "numpy numba numba.cuda cuda.bindings.nvvm cuda.bindings.nvjitlink cupy nvidia.nvimgcodec av cv2 torch torchvision "
    "kornia jax ml_dtypes PIL hypothesis pytest xdist"
)
_PACKAGES = "gpuimg numpy numba llvmlite cupy cuda nvidia torch jax ml_dtypes pytest hypothesis opencv pillow av"
_LIBRARIES = "libcuda.so.1 libnvcuvid.so.1 libnvjpeg.so.13 libnvjpeg.so.12 libnvrtc.so.13 libnvrtc.so.12 libnvvm.so.4"
_COMMANDS = (
    "nvidia-smi", "nvidia-smi -q -d CLOCK,PCIE,MEMORY", "uname -r", "free -g", "ldconfig -p", "ncu --version",
    "find / -xdev ( -name libnvcuvid.so* -o -name libnvjpeg.so* -o -name libnvvm.so* -o -name libnvrtc.so* )",
)  # fmt: skip

Function = Callable[[gi.Batch], gi.Batch]
train = gi.presets.imagenet_train(16 if REHEARSAL else 224)


# -- the machine -------------------------------------------------------------------------------------------------------


def facts() -> None:
    """The machine, its packages and the libraries that decoders and compilers load."""
    packages = {one.metadata["Name"].lower(): one.version for one in importlib.metadata.distributions()}
    of = {"package": gi.__file__, "commit": machine.commit(), "python": platform.python_version()}
    cores = {"usable_cores": len(os.sched_getaffinity(0)), "processor": machine.processor()}
    versions = {name: packages[name] for name in sorted(packages) if name.startswith(tuple(_PACKAGES.split()))}
    show("machine", **of, **cores, versions=versions)
    found = {name: _loads(name) for name in _LIBRARIES.split()}
    missing = found["libnvcuvid.so.1"] != "loads"
    problem = "libnvcuvid.so.1 is missing: no NVDEC, no hardware engine for nvJPEG; is it a container without video?"
    show("libraries", **found, **({"problem": problem} if missing else {}))
    for name in _MODULES.split():
        attempt(name, lambda name=name: {"is": importlib.import_module(name).__file__})  # type: ignore[misc]
    for command in _COMMANDS:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(command.split(), capture_output=True, text=True, timeout=12, check=False)
            print(f"$ {command}\n{done.stdout[:6000]}", file=sys.stderr, flush=True)


def _loads(name: str) -> str:
    try:
        ctypes.CDLL(name)
    except OSError as error:
        return str(error)
    return "loads"


def probe() -> None:
    """What works at all: the driver, CuPy, its compiler, and nvImageCodec's decoders."""
    from gpuimg._runtimes.probe import device_names, gpu_problem

    problem = gpu_problem()
    show("usable", **({"problem": f"no usable GPU: {problem.reason}"} if problem else {}))
    if problem:
        return
    import cupy

    runtime, gpu = cupy.cuda.runtime, cupy.cuda.Device(0)
    facts: dict[str, Callable[[], Any]] = {
        "GPU": device_names,
        "compute capability": lambda: gpu.compute_capability,
        "multiprocessors": lambda: gpu.attributes["MultiProcessorCount"],
        "CUDA of runtime and driver": lambda: [runtime.runtimeGetVersion(), runtime.driverGetVersion()],
        "free and total GiB": lambda: [round(size / 2**30, 1) for size in runtime.memGetInfo()],
        "NVRTC compiles": lambda: (cupy.zeros(2) + 1).get().tolist(),
        "nvImageCodec's hardware decoder": lambda: str(decoder(1.0)),
        "nvImageCodec's CUDA decoder": lambda: str(decoder(0.0)),
    }
    for what, fact in facts.items():
        attempt(what, lambda fact=fact: {"is": fact()})  # type: ignore[misc]


def kernels() -> None:
    """Load every kernel: does the driver take its machine code, and with how many registers, and bytes of spills."""
    import cupy

    from gpuimg._runtimes.cuda_launch import loaded
    from gpuimg.kernels import cuda, native
    from gpuimg.kernels.cuda import shipped

    cupy.zeros(1)
    show("which", loops=native.describe(), kernels=shipped.description())
    refused, used, attribute = {}, {}, getattr(cupy.cuda.driver, "funcGetAttribute", None)
    for kernel in cuda.every_kernel():
        try:
            function = loaded(kernel).function
            used[kernel.name] = [attribute(k, function) for k in (4, 3)] if attribute else None
        except Exception as error:
            refused[kernel.name] = f"{type(error).__name__}: {error}"[:200]
    show("kernels", registers_and_spills=used, **({"problem": refused} if refused else {}))


def self_test() -> None:
    """What gpuimg itself compares at the first use of a GPU."""
    from gpuimg._runtimes.devices import runtime_for

    jpegs, functions = gpuimgs_test.differing(runtime_for("cuda"))
    show("self-test", **({"problem": f"differs: {jpegs} {functions}"} if jpegs or functions else {}))


# -- comparing ---------------------------------------------------------------------------------------------------------


def sampling(data: bytes) -> str:
    """The sampling of a JPEG, to count differences by."""
    if not data.startswith(b"\xff\xd8"):
        return "recoded"
    with Image.open(io.BytesIO(data)) as image:
        return {0: "4:4:4", 1: "4:2:2", 2: "4:2:0"}.get(JpegImagePlugin.get_sampling(image), "gray or other")


def store(name: str, **arrays: Any) -> None:
    folder = Path(os.environ.get("GPU_DIFFERENCES", tempfile.gettempdir()))
    np.savez_compressed(folder / f"{sys.argv[1]}-{name.replace(' ', '_')}", **arrays)


def compared(way: str, found: Iterable[Any], expected: Iterable[Any], files: list[bytes], most: int) -> dict[str, Any]:
    """Count images by the sampling of their files, and those that differ by more; store those that differ most."""
    rows: dict[str, dict[str, Any]] = {}
    worst: list[tuple[float, int, Any, Any]] = []
    for k, (one, other, data) in enumerate(zip(found, expected, files, strict=True)):
        row = rows.setdefault(sampling(data), {"images": 0, "missing": 0, "differ": 0, "max": 0.0, "over_3": []})
        row["images"] += 1
        if one is None:
            row["missing"] += 1
            continue
        a, e = np.asarray(one.get() if hasattr(one, "get") else one), np.asarray(other)
        d = np.abs(a.astype(np.float64) - e) if a.shape == e.shape else np.full(1, np.inf)
        row["max"] = max(row["max"], float(d.max()))
        row["over_3"].append(float((d > 3).mean()))
        row["differ"] += bool(d.max() > most)
        if d.max() > (most if most < ANY else 0):
            worst.append((-float(d.mean()), k, a, e))
    worst.sort(key=lambda one: one[:2])
    for _, k, a, e in worst[:_STORED]:
        store(f"{way}-{k}", jpeg=np.frombuffer(files[k], np.uint8), found=a, expected=e)
    for row in rows.values():
        row["over_3"] = round(float(np.mean(row["over_3"] or 0)), 5)
    wrong = [name for name, row in rows.items() if row["differ"] or row["missing"]]
    first = worst[0][1] if worst else None
    bad = {"first": first, "problem": f"differs or is missing: {', '.join(wrong)}"} if wrong else {}
    return {"by_sampling": rows, **bad}


def against_cpu(way: str, files: list[bytes], most: int, function: Function = lambda x: x, **how: Any) -> Any:
    """Compare results of a function on the GPU with the CPU's."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        x = function(gi.open_batch(files, device="cuda", **{"decoder": "gpuimg", **how}))
        result = list(x.compute("uint8"))
    y = function(gi.open_batch(files, device="cpu", color=how.get("color", "rgb")))
    found = compared(way, result, y.compute("uint8"), files, most)
    timings = recording_of(x).timings
    if on_host := timings.jpegs_on_cpu + timings.unwritten:
        found["problem"] = f"the CPU decoded {on_host} images"
    return {**found, "warnings": [str(one.message)[:300] for one in told]}


# -- JPEGs -------------------------------------------------------------------------------------------------------------


def ours() -> None:
    """gpuimg's kernels for JPEGs: every pixel is the CPU's, of whole images, crops, in gray, and of recoded files."""
    files = photos(_COUNT)
    recoded = list(map(gi.recode_jpeg, files))
    for way, some, how in (("whole", files, {}), ("recoded", recoded, {}), ("gray", files, {"color": "gray"})):
        first = attempt(way, against_cpu, way, some, EQUAL, **how).get("first")
        if first is not None:
            attempt(f"{way}, stages", stages, f"{way}-{first}", some[first])
    attempt("crops", against_cpu, "crops", files, EQUAL, lambda x: gi.crop(x, 5, 3, 8, 8))


def stages(way: str, data: bytes) -> dict[str, Any]:
    """Decode a file by gpuimg's kernels, one after another, and store what each leaves in memory."""
    import cupy

    from gpuimg._runtimes.cuda_launch import launch
    from gpuimg.kernels import cuda
    from gpuimg.kernels.jpeg import upload

    one = Kernels([data])
    kept = {"upload": one.host}
    for part in one.upload.parts:
        coefficients = cupy.zeros(int(part["blocks"]) * upload.COEFFICIENTS, cupy.int16)
        planes = cupy.zeros(int(part["blocks"]) * upload.SAMPLES // 4, cupy.int32)
        tables = one.decoder._tables(one.stream) if part["recoded"] else None
        left = {"find": one.words, "inverse_dct": planes, "reduced_dct": planes, "colors": one.out}
        memory = one.words, coefficients, planes, planes.view(cupy.uint8), one.out, one.status, tables
        for name, grid, arguments in one.upload.launches(part, *memory):
            launch(cuda.JPEG[name], one.stream.ptr, grid, *arguments)
            kept[name], kept[f"{name}, status"] = left.get(name, coefficients).get(), one.status.get()
    store(f"{way}-stages", jpeg=np.frombuffer(data, np.uint8), **kept)
    return {"stored": [*kept]}


def nvimagecodec(share: float, as_batch: bool = False) -> None:
    """One of nvImageCodec's decoders: its differences, whether they are the same each time, and whether it waits."""
    files = photos(_COUNT)
    lane = Lane(files, share, as_batch=as_batch)
    first = lane.pixels()
    attempt("pixels", compared, "pixels", first, gi.open_batch(files, device="cpu").compute("uint8"), files, ANY)
    attempt("again", _again, lane, first)
    attempt("order of the stream", _order, lane)


def _again(lane: Lane, first: list[Any]) -> dict[str, Any]:
    counts = {"unwritten": 0, "changed": 0, "missing": 0}
    for _ in range(_REPEATS):
        for one, other in zip(lane.pixels(), first, strict=True):
            counts["missing"] += one is None
            counts["unwritten"] += one is not None and bool((one.reshape(-1)[-16:] == 0xAA).all())
            counts["changed"] += one is not None and other is not None and not np.array_equal(one, other)
    return {**counts, **({"problem": "not the same in every call"} if any(counts.values()) else {})}


def _order(lane: Lane) -> dict[str, Any]:
    """Count images that hold what the stream wrote before the decoder's turn, and so came before it."""
    with lane.stream:
        for _ in range(2 if REHEARSAL else 3000):  # some 30 ms
            lane.memory.data.memset_async(7, lane.memory.nbytes)
    lane.decode()
    early = sum(bool((view.get() == 7).mean() > 0.9) for view in lane.views)
    return {"images_written_before_earlier_work_of_the_stream": early}


def both() -> None:
    """nvImageCodec as gpuimg calls it, also for small files."""
    files = photos(_COUNT)
    small = [data for name, data in gpuimgs_test.files().items() if name != "recoded"]
    for way, some, color in (
        ("photos", files, "rgb"),
        ("gray", files, "gray"),
        ("small", small, "rgb"),
        ("one", files[:1], "rgb"),
    ):
        attempt(way, against_cpu, way, some, ANY, decoder="nvimagecodec", color=color)


def others() -> None:
    """JPEG 2000 files without loss, by nvImageCodec where it has nvJPEG2000: every pixel is the CPU's."""
    pixels = np.asarray(gi.resize(gi.open_batch(photos(_COUNT), device="cpu"), (120, 160)).array(dtype="uint8"))
    deep = pixels[..., 0].astype(np.uint16) * 257 - np.arange(160, dtype=np.uint16) % 7
    options: dict[str, dict[str, Any]] = {"8 bits": {}, "16 bits": {"color": "gray", "depth": "native"}}
    for (way, how), values in zip(options.items(), (pixels, deep), strict=True):
        attempt(way, _others, list(map(_jpeg2k, values)), **how)


def _jpeg2k(values: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(values).save(file, "JPEG2000", no_jp2=True)
    return file.getvalue()


def _others(files: list[bytes], **options: Any) -> dict[str, Any]:
    from gpuimg._decoding import nvimgcodec as own

    x, y = (gi.decode_batch(files, device=name, **options) for name in ("cuda", "cpu"))
    differ = sum(not np.array_equal(one.get(), other) for one, other in zip(x, y, strict=True))
    return {"differ": differ, "decoders": list(own.decoders()), **({"problem": "other pixels"} if differ else {})}


def first_batch() -> None:
    """A user's first batch, with the self-test, from the start of the process."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        x = gi.open_batch(photos(4), **({"device": "cuda"} if REHEARSAL else {}))
        result: Any = train(x, gi.Rng(0, indices=range(4))).array("float16", "NCHW")
        result.tolist()
    found = {"s": round(time.perf_counter() - _BEGIN, 2), "warnings": [str(one.message)[:400] for one in told]}
    show("first batch", device=x.device, **found, **({"problem": "not on the GPU"} if x.device == "cpu" else {}))


def small() -> None:
    """Little work, for NVIDIA's tools: train batches of a few photos, as they are and recoded."""
    files = photos(4)
    for some in (files, list(map(gi.recode_jpeg, files))):
        x = gi.open_batch(some, device="cuda", decoder="gpuimg")
        train(x, gi.Rng(0, indices=range(len(x)))).array("float16", "NCHW").get()
    show("done", images=len(files))


CHECKS: dict[str, Callable[[], None]] = {
    "facts": facts, "probe": probe, "kernels": kernels, "self-test": self_test, "ours": ours,
    "nvimagecodec-cuda": partial(nvimagecodec, 0.0), "nvimagecodec-hardware": partial(nvimagecodec, 1.0),
    "nvimagecodec-batches": partial(nvimagecodec, 1.0, True), "both": both, "others": others,
    "first-batch": first_batch, "small": small,
}  # fmt: skip


def main() -> None:
    name = sys.argv[1]
    if name != "first-batch":
        os.environ.setdefault("GPUIMG_SELFTEST", "0")  # which is a check of its own
    with device() if name != "facts" else contextlib.nullcontext():
        try:
            CHECKS[name]()
        except Exception as error:
            show(name, problem=f"{type(error).__name__}: {error}"[:600])
            raise
    show("ended", s=round(time.perf_counter() - _BEGIN, 1))


if __name__ == "__main__":
    main()
