"""Libraries of several levels, and the manifest that the loader reads."""

import hashlib
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from .levels import LEVELS, PARTS, linker
from .link import link

_ROOT = str(Path(__file__).resolve().parents[1])
_SECONDS = 80  # of CPU time that a level takes on a Zen 4


def build(levels: Sequence[str], out: Path, cuda: bool, symbols: bool = False) -> None:
    """Build libraries and their manifest, on all cores, and CUDA kernels; ``symbols`` keeps the names of functions."""
    for level in levels:
        linker(LEVELS[level].triple)  # raises at once where there is none
    # The compiler's own processes run Numba, whatever lies in kernels/_lib; equal hashes make equal builds.
    os.environ |= {"GPUIMG_NATIVE": "jit", "PYTHONHASHSEED": "0"}
    sys.path.insert(0, _ROOT)  # which processes inherit; not so a front end's finder of the build backend
    from gpuimg.kernels import native

    sources = native.source_digest()  # before they are compiled: what is edited meanwhile is another version
    parts = [(level, part) for level in levels for part in range(PARTS)]
    cores = min(len(os.sched_getaffinity(0)), len(parts))
    print(
        f"compiling gpuimg's inner loops for {', '.join(levels)}: about {_SECONDS * len(levels) // cores} s on this "
        f"machine's cores",
        flush=True,
    )
    start, context = time.monotonic(), multiprocessing.get_context("spawn")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(cores, context, max_tasks_per_child=1) as pool:
        objects = [Path(folder, f"{level}-{part}.o") for level, part in parts]
        if cuda:
            from . import cuda as kernels

            pool.submit(kernels.toolchain).result()  # raises at once where something is missing
            compiled = pool.submit(kernels.build, out)
        seconds = sum(pool.map(_compile, *zip(*parts, strict=True), objects))
        libraries = {}
        for number, level in enumerate(levels):
            path = out / native.library_name(level)
            link(objects[number * PARTS : (number + 1) * PARTS], path, LEVELS[level].triple, symbols)
            libraries[level] = hashlib.sha256(path.read_bytes()).hexdigest()
        if cuda:
            compiled.result()
    (out / native.MANIFEST).write_text(json.dumps({"sources": sources, "libraries": libraries}, indent=1) + "\n")
    print(f"compiled in {time.monotonic() - start:.0f} s, {seconds:.0f} s of CPU time", flush=True)


def _compile(level: str, part: int, path: Path) -> float:
    """Compile a part of the loops in a process that does nothing else; return its CPU time in seconds."""
    try:
        from .library import compile_part
    except ModuleNotFoundError as error:
        raise RuntimeError(
            f"compiling gpuimg's loops needs {error.name}: pip install -r buildtools/requirements.txt"
        ) from error
    compile_part(LEVELS[level], path, part, PARTS)
    return time.process_time()
