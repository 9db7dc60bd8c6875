"""Compiling: all kernels that the parts need, for this GPU, by several processes, into the cache on disk.

python -m bench.gpu.warm 9.0 0 16    compiles the first sixteenth of them
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from bench.gpu.child import Context
from bench.gpu.harness import ROOT

_LAST = 300  # characters of an error
_CPU_LOOPS = "from gpuimg._cli.warm import warm; import json; print(json.dumps({'made': warm(None)[0]}))"


def run(context: Context) -> None:
    """Run one process for each core."""
    if not context.on_gpu:
        context.record("skipped", "needs a GPU")
        return
    capability = capability_here()
    context.record("capability", capability)
    done: dict[str, Any] = {}
    begin = time.perf_counter()
    with ThreadPoolExecutor(max(len(os.sched_getaffinity(0)), 2)) as pool:
        futures = {
            name: pool.submit(_compiled, command, context) for name, command in tasks(capability, context).items()
        }
        for name, future in futures.items():
            done[name] = _result(future)
            context.record("processes", done)
    context.record("seconds", round(time.perf_counter() - begin, 1))


def capability_here() -> str:
    """Return the GPU's compute capability, in the form of ``gpuimg warm --capability``."""
    import cupy

    from gpuimg._runtimes.cuda_launch import capability_of

    return "{}.{}".format(*capability_of(cupy.cuda.Device(0)))


def tasks(capability: str, context: Context) -> dict[str, list[str]]:
    """Return processes and their commands, the longest first; a test of this code compiles one kernel."""
    this = [sys.executable, "-m", "bench.gpu.warm", capability]
    if context.smoke:
        return {"a kernel": [*this, "3", "1000"]}
    parts = max(len(os.sched_getaffinity(0)), 2)
    found = {"loops of the CPU": [sys.executable, "-c", _CPU_LOOPS]}
    found |= {f"kernels {k} of {parts}": [*this, str(k), str(parts)] for k in range(parts)}
    return found


def _compiled(command: list[str], context: Context) -> dict[str, Any]:
    begin = time.perf_counter()
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=max(context.left(), 5.0)
        )
    except subprocess.TimeoutExpired:
        return {"late": True}
    seconds = round(time.perf_counter() - begin, 1)
    if done.returncode:
        return {"error": done.stderr.strip()[-_LAST:], "seconds": seconds}
    return {**json.loads(done.stdout.splitlines()[-1]), "seconds": seconds}


def _result(future: Future[dict[str, Any]]) -> dict[str, Any]:
    try:
        return future.result()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:_LAST]}


def compile_part(capability: str, part: int, parts: int) -> dict[str, int]:
    """Compile every kernel whose number has this remainder."""
    from gpuimg._cli.warm import capability_of
    from gpuimg.kernels import cuda as kernels

    for kernel in kernels.every_kernel()[part::parts]:
        kernel.image(capability_of(capability))
    return {"made": kernels.Kernel.compile_count}


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the number of compiled kernels."""
    processes = results.get("processes", {})
    problems = [f"{name}: {row['error']}" for name, row in processes.items() if "error" in row]
    made = sum(row.get("made", 0) for row in processes.values())
    lines = [f"{made} kernels and loops compiled by {len(processes)} processes"] if processes else []
    return problems, [*lines, f"took {results['seconds']} s"] if "seconds" in results else lines


if __name__ == "__main__":
    print(json.dumps(compile_part(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
