"""``gpuimg warm``: compile kernels in advance; GPU kernels can be compiled without a GPU."""

import io
import json
import re
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import presets
from .._batch.batch import Batch
from .._batch.opening import decode_batch, open_batch
from .._io.native_read import prepare
from .._loading.sharding import shuffled
from .._ops.pixels import normalize
from .._random.mixing import blend
from .._random.rng import Rng
from .._runtimes import probe
from .._version import install_hint
from ..kernels import native
from .options import UserError, add_json
from .preview import PRESET, preset

EXAMPLE = "gpuimg warm --preset deit3_train"

_IMAGES = 4  # images per batch; with the seeds below, enough to draw each branch of a random preset
_SEEDS = range(8)


def add_options(command: ArgumentParser) -> None:
    """Add the options."""
    which = command.add_mutually_exclusive_group()
    which.add_argument("--preset", metavar="NAME", help=f"what this preset needs on the CPU (default: {PRESET})")
    which.add_argument("--all", action="store_true", help="all loops")
    command.add_argument(
        "--capability",
        metavar="8.0,9.0",
        help="all kernels of GPUs of these compute capabilities, present or not (default: those present); the files "
        "can be copied to a machine without a compiler",
    )
    add_json(command)


def run(options: Namespace) -> int:
    """Compile, and print what was compiled."""
    name = None if options.all else options.preset or PRESET
    if name is not None:
        preset(name, None)  # raises for an unknown name
    try:
        capabilities = [capability_of(one) for one in (options.capability or "").split(",") if one]
    except ValueError as error:
        raise UserError(str(error)) from error
    if not capabilities and probe.gpu_problem() is None:
        capabilities = sorted(set(probe.capabilities()))
    compiled, seconds, folder = (0, 0.0, None) if native.LEVEL else warm(name)
    report: dict[str, Any] = {"for": name or "everything", "compiled": compiled, "seconds": seconds}
    report["folder"] = None if folder is None else str(folder)
    if native.LEVEL and not options.json:
        print(f"compiled   nothing: this installation comes with loops for {native.LEVEL}", flush=True)
    elif not options.json:
        print(f"compiled   {compiled} loops for {report['for']} in {seconds:.1f} s; the others were in the cache")
        print(f"cached in  {folder or 'nowhere: no folder is writable, see the warning above'}", flush=True)
    report["gpus"] = []
    for major, minor in capabilities:
        compiled, seconds = warm_gpu((major, minor))
        report["gpus"].append({"capability": f"{major}.{minor}", "compiled": compiled, "seconds": seconds})
        if not options.json:
            print(f"compiled   {compiled} kernels for GPUs of compute capability {major}.{minor} in {seconds:.1f} s")
    if options.json:
        print(json.dumps(report, indent=1))
    return 0


def warm(preset: str | None) -> tuple[int, float, Path | None]:
    """Compile the loops of a preset, or all for None; return their number, seconds, and the cache folder."""
    from ..kernels import compiled, disk  # the former imports Numba: only when it is used

    start = time.perf_counter()
    before = compiled.NativeFunction.compile_count
    if preset is None:
        compiled.import_all()
        compiled.compile_together(compiled.names())
    files = [_file("JPEG")] * _IMAGES
    shuffled(np.arange(2), 2, 0, 0)
    prepare()
    if preset is None:
        photo = decode_batch([*files, _file("PNG")], device="cpu", color="gray")
        blend(normalize(photo, 0.5, 0.5), photo, 0.5)
        Rng(0, indices=[0]).uniform(0.0, 1.0)
        _convert_frames()
        for function in compiled.NativeFunction.all:
            _ = function.address
    else:
        for batch in _batches(preset):
            batch.array("float32", "NCHW")
    return compiled.NativeFunction.compile_count - before, time.perf_counter() - start, disk.folder()


def _convert_frames() -> None:
    """Compile the conversion of video frames, of 8 bits and of more, to RGB and gray."""
    from ..kernels import yuv
    from ..kernels.cpu.yuv import gray_of_frame, rgb_of_frame

    layout, region = np.ones(3, np.int64), np.array([0, 0, 1, 1])
    axes, matrix = yuv.axes(8, (1, 1), (0, 0)), yuv.matrix(1, False, 8)
    for kind in (np.uint8, np.uint16):
        plane, out = np.zeros(4, kind), np.zeros(99, np.uint8)
        rgb_of_frame(plane, plane, plane, layout, axes, region, matrix, np.zeros(24, np.float32), out, out[:3].copy())
        gray_of_frame(plane, layout[0], region, matrix, out[:1].copy())


def _batches(preset: str) -> Iterator[Batch]:
    """Yield recorded batches of a preset that together use all its operations."""
    function = getattr(presets, preset)(32)
    for seed in _SEEDS:
        yield function(open_batch([_file("JPEG")] * _IMAGES, device="cpu"), Rng(seed, indices=np.arange(_IMAGES)))


def capability_of(name: str) -> tuple[int, int]:
    """Parse a compute capability, one of those that the installed toolkit supports."""
    from ..kernels.cuda import load_compiler, shipped

    match = re.fullmatch(r"(\d+)\.(\d)", name)
    if match is None:
        raise ValueError(f"a compute capability is written like 9.0, not {name!r}")
    found = int(match[1]), int(match[2])
    if shipped.lack(found) is None:
        return found
    try:
        supported = load_compiler().supported
    except ImportError as error:
        raise ImportError(f"{error}; {install_hint(probe.compiling_extra())}") from error

    if found not in supported():
        known = ", ".join(f"{major}.{minor}" for major, minor in supported())
        raise ValueError(f"a compute capability must be one of {known}, not {name!r}")
    return found


def warm_gpu(capability: tuple[int, int]) -> tuple[int, float]:
    """Compile all GPU kernels; return the number of those that were not cached, and seconds."""
    from ..kernels import cuda as kernels

    start = time.perf_counter()
    before = kernels.Kernel.compile_count
    for kernel in kernels.every_kernel():
        kernel.image(capability)
    return kernels.Kernel.compile_count - before, time.perf_counter() - start


def _file(form: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (48, 40), "gray").save(file, form)
    return file.getvalue()
