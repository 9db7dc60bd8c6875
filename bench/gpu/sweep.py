"""Sizes of the JPEG kernels' blocks of threads, of what a thread decodes, and of what is decoded at a time: measured.

The kernels are independent, so that one process tries one size of each. Sizes are constants of the code: a process sets
its own before the kernels are imported.

    python -m bench.gpu.sweep 2 FILE...            times with the sizes of the third variant
    python -m bench.gpu.sweep 2 --compile 9.0      compiles that variant's kernels
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu.child import Context
from bench.gpu.harness import ROOT

#: Constants of gpuimg.kernels.jpeg.upload; the first are the product's, whatever they are.
VARIANTS: list[dict[str, int]] = [
    {},
    {"THREADS": 32, "BLOCKS_AT_ONCE": 8, "PIXELS_AT_ONCE": 128},
    {"THREADS": 128, "BLOCKS_AT_ONCE": 16, "PIXELS_AT_ONCE": 512},
    {"THREADS": 256, "BLOCKS_AT_ONCE": 64, "PIXELS_AT_ONCE": 1024},
]
SIZE_OF = {"huffman": "THREADS", "inverse_dct": "BLOCKS_AT_ONCE", "colors": "PIXELS_AT_ONCE"}
EVERY = (8, 4, 16, 32)  # MCUs of a segment, which one thread decodes
AT_A_TIME = (1 << 20, 1 << 18, 1 << 22)  # blocks of coefficients
_IMAGES = 256
_ROUNDS = 5
_LEAST_S = 4.0
_WORTH = 1.05  # a gain for which a constant is changed


def run(context: Context) -> None:
    """The product's own sizes first."""
    if not context.on_gpu:
        context.record("skipped", "needs a GPU")
        return
    files = context.photos("S", _IMAGES)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{i}.jpg" for i in range(len(files))]
        for path, data in zip(paths, files, strict=True):
            path.write_bytes(data)
        for k in range(1 if context.smoke else len(VARIANTS)):
            if context.left() > _LEAST_S:
                rows.append(_in_a_process(k, paths, context))
                context.record("variants", rows)
    context.record(
        "every",
        {
            str(every): _tried(files, every=every)
            for every in EVERY[: 1 if context.smoke else None]
            if context.left() > _LEAST_S
        },
    )
    found = {str(most): _tried(files, most_blocks=most) for most in AT_A_TIME if context.left() > _LEAST_S}
    context.record("blocks at a time", found)


def _in_a_process(k: int, paths: list[Path], context: Context) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.gpu.sweep", str(k), *map(str, paths)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=max(context.left(), _LEAST_S)
        )
    except subprocess.TimeoutExpired:
        return {"variant": k, "error": "out of time"}
    if done.returncode:
        return {"variant": k, "error": done.stderr.strip()[-300:]}
    return {"variant": k, **json.loads(done.stdout.splitlines()[-1])}


def _tried(files: list[bytes], **sizes: int) -> dict[str, Any]:
    try:
        return kernel_times(files, **sizes)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def set_sizes(k: int) -> dict[str, int]:
    """Set a variant's constants; gives all of them. Before anything else of gpuimg is imported."""
    from gpuimg.kernels.jpeg import upload

    if any(name.startswith("gpuimg.kernels.cuda") for name in sys.modules):
        raise RuntimeError("the kernels were imported before their sizes were set")
    for name, value in VARIANTS[k].items():
        setattr(upload, name, value)
    return {name: getattr(upload, name) for name in SIZE_OF.values()}


def variant_command(k: int, capability: str) -> list[str]:
    """A process that compiles a variant's kernels."""
    return [sys.executable, "-m", "bench.gpu.sweep", str(k), "--compile", capability]


def compile_variant(capability: str) -> dict[str, int]:
    """Compile the JPEG kernels, and the CPU's loops that lay out what they read."""
    from bench.gpu.hooks import uploaded
    from bench.gpu.jpeg import with_index
    from gpuimg._cli.warm import capability_of
    from gpuimg.kernels import cuda as kernels

    for name in SIZE_OF:
        kernels.jpeg.KERNELS[name].image(capability_of(capability))
    photo = sorted((ROOT / "examples" / "photos").glob("*.jpg"))[0].read_bytes()
    with with_index([photo]) as index:
        upload = uploaded([photo], index)[0]
        upload.write(np.zeros(upload.words, np.int32))
    return {"made": kernels.Kernel.made}


def kernel_times(files: list[bytes], every: int = EVERY[0], most_blocks: int | None = None) -> dict[str, Any]:
    """Microseconds of the GPU for each of the kernels, and for all: whole images, decoded again and again."""
    import cupy

    from bench.gpu.hooks import JpegKernels, uploaded
    from bench.gpu.jpeg import with_index
    from bench.gpu.measure import KernelTimes, Spin

    with with_index(files, every) as index:
        upload, total, images = uploaded(files, index, most_blocks)
        host = np.zeros(upload.words, np.int32)
        upload.write(host)
    kernels, stream = JpegKernels(), cupy.cuda.Stream(non_blocking=True)
    taken: dict[str, list[float]] = {}
    with stream:
        out, words = cupy.empty(total, cupy.uint8), cupy.asarray(host)
        status = cupy.zeros(len(images), cupy.int32)
        times = KernelTimes(Spin())
        with times.watching():
            for k in range(_ROUNDS + 1):
                kernels.launch(upload, words, out, status, stream)
                found = times.taken()
                for name, each in found.items() if k else ():
                    taken.setdefault(name, []).append(sum(each))
    median = {name: round(1e3 * float(np.median(each)), 1) for name, each in taken.items()}
    return {"us": median, "all_us": round(sum(median.values()), 1), "images": len(upload.taken), "rounds": _ROUNDS}


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Times by size."""
    problems, lines = [], []
    for row in results.get("variants", []):
        if "error" in row:
            problems.append(f"variant {row['variant']}: {row['error']}")
            continue
        lines.append(
            ", ".join(f"{name} with {row['sizes'][SIZE_OF[name]]}: {us:,.0f} us" for name, us in row["us"].items())
            + f" ({row['images']} images, n = {row['rounds']})"
        )
    for axis in ("every", "blocks at a time"):
        for value, row in results.get(axis, {}).items():
            problems += [f"{axis} {value}: {row['error']}"] if "error" in row else []
            lines += [] if "error" in row else [f"{axis} {value}: {row['all_us']:,.0f} us"]
    return problems, lines


def advice(results: dict[str, Any]) -> list[str]:
    """Which constants to change."""
    rows = [row for row in results.get("variants", []) if "error" not in row]
    said = []
    if len(rows) > 1 and rows[0]["variant"] == 0:
        for name, constant in SIZE_OF.items():
            best = min(rows, key=lambda row, name=name: row["us"].get(name, float("inf")))  # type: ignore[misc]
            now = rows[0]["us"].get(name, 0.0)
            gain = now / max(best["us"].get(name, 0.0), 1e-9)
            said.append(
                f"set {constant} = {best['sizes'][constant]}: {name} is {gain:.2f} times as fast"
                if gain > _WORTH
                else f"leave {constant} = {rows[0]['sizes'][constant]}: nothing tried is {_WORTH} times as fast"
            )
    for axis, what in (("every", "segments of every"), ("blocks at a time", "MOST_BLOCKS =")):
        times = {value: row["all_us"] for value, row in results.get(axis, {}).items() if row.get("all_us")}
        if len(times) > 1:
            first, best_value = next(iter(times)), min(times, key=lambda value: times[value])
            gain = times[first] / times[best_value]
            said.append(
                f"{what} {best_value}: the kernels are {gain:.2f} times as fast as with {first}; weigh it against the "
                "index's size"
                if gain > _WORTH
                else f"{what} {first} stays: nothing tried is {_WORTH} times as fast"
            )
    return said


def main(arguments: list[str]) -> dict[str, Any]:
    """Compile or time one variant."""
    sizes = set_sizes(int(arguments[0]))
    if arguments[1] == "--compile":
        return compile_variant(arguments[2])
    return {"sizes": sizes, **kernel_times([Path(name).read_bytes() for name in arguments[1:]])}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
