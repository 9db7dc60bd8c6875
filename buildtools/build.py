"""Libraries of several levels, and the manifest that the loader reads."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from .cuda import build as build_kernels
from .cuda import toolchain
from .levels import LEVELS


def build(levels: Sequence[str], out: Path, cuda: bool) -> None:
    """Build libraries and their manifest, each in a separate process, and CUDA kernels."""
    # The compiler's own processes run Numba, whatever lies in kernels/_lib; equal hashes make equal builds.
    os.environ |= {"GPUIMG_NATIVE": "jit", "PYTHONHASHSEED": "0"}
    from gpuimg.kernels import native

    sources = native.source_digest()  # before they are compiled: what is edited meanwhile is another version
    with ProcessPoolExecutor(
        len(os.sched_getaffinity(0)), multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        if cuda:
            pool.submit(toolchain).result()  # raises at once where something is missing
        kernels = pool.submit(build_kernels, out) if cuda else None
        sums = dict(zip(levels, pool.map(_build, levels, [out] * len(levels)), strict=True))
        if kernels is not None:
            kernels.result()
    manifest = {
        "sources": sources,
        "libraries": {level: digest for level, digest in sums.items() if level in LEVELS},
    }
    (out / native.MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def _build(level: str, out: Path) -> str:
    from gpuimg.kernels.lang import set_compiler_process
    from gpuimg.kernels.native import library_name

    from .library import build_library

    set_compiler_process()
    start, path = time.process_time(), out / (library_name(level) if level in LEVELS else f"gpuimg-{level}.o")
    build_library(level, path)
    content = path.read_bytes()
    print(f"{path}: {len(content)} bytes, {time.process_time() - start:.0f} s of CPU", flush=True)
    return hashlib.sha256(content).hexdigest()
