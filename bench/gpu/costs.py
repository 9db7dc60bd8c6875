"""What it costs besides the GPU: the first batch, Python's time for an image, and memory over a thousand batches."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gpuimg as gi
from bench.gpu.chains import CHAINS, DTYPE, LAYOUT
from bench.gpu.child import Context
from bench.gpu.harness import ROOT
from bench.gpu.measure import resident_mib, synchronize
from gpuimg._batch.batch import recording_of
from gpuimg._plan.compile import compile_plan

BATCH = 64
BATCHES = 1000
TRIES = 3
_SAMPLES = 20
_FIRST_S = 3.0  # for a first batch with kept kernels
_PYTHON_US = 20.0  # an image
_SETTLED = 0.25  # of the batches: caches and pools have filled by then
_LEAST_S = 6.0
_GROWTH_MIB = 32.0  # over the other three quarters, above which memory is not called flat

_FRESH = """
import json, sys, time
begin = time.perf_counter()
import gpuimg as gi
imported = time.perf_counter()
from pathlib import Path
device, files = sys.argv[1], [Path(name).read_bytes() for name in sys.argv[2:]]
train = gi.presets.imagenet_train(224)
def batch():
    result = train(gi.open_batch(files, device=device), 0).array("float16", "NCHW")
    if device != "cpu":
        import cupy
        cupy.cuda.Device(0).synchronize()
start = time.perf_counter()
batch()
first = time.perf_counter()
batch()
second = time.perf_counter()
print(json.dumps({"import_s": imported - begin, "first_batch_s": first - start, "second_batch_s": second - first}))
"""


def run(context: Context) -> None:
    """Fresh processes first."""
    files = context.photos("S", 256)
    try:
        _fresh(context, files[:BATCH])
    except subprocess.TimeoutExpired as error:
        context.record("fresh process", {"error": str(error)[-300:]})
    _recording(context, files[:BATCH])
    if context.left() > _LEAST_S:
        _memory(context, files)


def _fresh(context: Context, files: list[bytes]) -> None:
    """Time to the first batch with empty caches, and with those that the first process filled."""
    tries: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as name:
        paths = []
        for i, data in enumerate(files):
            paths.append(Path(name) / f"{i}.jpg")
            paths[-1].write_bytes(data)
        variables = ("CUPY_CACHE_DIR", "CUDA_CACHE_PATH", "NUMBA_CACHE_DIR")
        caches = {variable: str(Path(name) / variable) for variable in variables}
        command = [sys.executable, "-c", _FRESH, context.device, *map(str, paths)]
        for _ in range(2 if context.smoke else 1 + TRIES):
            if tries and context.left() < _LEAST_S:
                return
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=os.environ | caches,
                capture_output=True,
                text=True,
                timeout=max(context.left(), _LEAST_S),
                check=False,
            )
            if done.returncode:
                context.record("fresh process", {"error": done.stderr.strip()[-500:]})
                return
            tries.append(json.loads(done.stdout.splitlines()[-1]))
            context.record("fresh process", _fresh_result(tries))


def _fresh_result(tries: list[dict[str, float]]) -> dict[str, Any]:
    warm = tries[1:]
    return {
        "cold": tries[0],
        "warm": {key: statistics.median(each[key] for each in warm) for key in tries[0]} if warm else {},
        "tries": len(warm),
    }


def _recording(context: Context, files: list[bytes]) -> None:
    """Microseconds of the host for one image: headers, recording, compiling the plan, and all but decoding."""
    found: dict[str, Any] = {}
    rounds = 3 if context.smoke else 20
    rng = gi.Rng(0, indices=range(len(files)))
    encoded = gi.open_batch(files, device=context.device)
    decoded = gi.decode_batch(files, device=context.device)
    found["open_batch"] = _microseconds(lambda: gi.open_batch(files, device=context.device), len(files), rounds)
    for name, chain in CHAINS.items():
        batch = chain(encoded, rng)
        found[f"{name}, recorded"] = _microseconds(lambda c=chain: c(encoded, rng), len(files), rounds)  # type: ignore[misc]
        found[f"{name}, plan compiled"] = _microseconds(
            lambda b=batch: [compile_plan(plan) for plan in recording_of(b).segments],  # type: ignore[misc]
            len(files),
            rounds,
        )
        if context.on_gpu:  # asynchronous there: what is timed is the host's part
            found[f"{name}, recorded and launched"] = _microseconds(
                lambda c=chain: c(decoded, rng).array(DTYPE, LAYOUT),  # type: ignore[misc]
                len(files),
                rounds,
                lambda: synchronize(context.device),
            )
    context.record("host_us_per_image", {"batch": len(files), "rounds": rounds, **found})


def _microseconds(
    run: Callable[[], object], images: int, rounds: int, between: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """Median and least time of a call for one image; what comes between the calls is not counted."""
    taken = []
    for _ in range(rounds + 1):
        begin = time.perf_counter()
        run()
        taken.append(1e6 * (time.perf_counter() - begin) / images)
        between()
    return {"median": round(float(np.median(taken[1:])), 2), "least": round(min(taken[1:]), 2)}


def _memory(context: Context, files: list[bytes]) -> None:
    """Host and device memory while the loader goes through a thousand batches."""
    source = [(data, i) for i, data in enumerate(files)]
    batches = 8 if context.smoke else BATCHES
    loader = gi.load(
        source, CHAINS["train+rotate+color"], batch_size=min(BATCH, len(files)), device=context.device, dtype=DTYPE,
        layout=LAYOUT, shuffle=True, epochs=None,
    )  # fmt: skip
    samples: list[dict[str, float]] = []
    begin = time.perf_counter()
    done = 0
    with loader:
        for done, _ in enumerate(loader, 1):
            if done % max(batches // _SAMPLES, 1) == 0:
                samples.append({"batches": done, **_memory_now(context.device)})
                context.record("memory", {"samples": samples, "seconds": round(time.perf_counter() - begin, 1)})
            if done >= batches or context.left() < _LEAST_S / 2:
                break
    context.record("memory", {"samples": samples, "batches": done, **_growth(samples)})


def _memory_now(device: str) -> dict[str, float]:
    found = {"host_mib": round(resident_mib(), 1)}
    if device != "cpu":
        import cupy

        pool, (free, total) = cupy.get_default_memory_pool(), cupy.cuda.runtime.memGetInfo()
        found["pool_used_mib"] = round(pool.used_bytes() / 2**20, 1)
        found["pool_total_mib"] = round(pool.total_bytes() / 2**20, 1)
        found["device_mib"] = round((total - free) / 2**20, 1)
    return found


def _growth(samples: list[dict[str, float]]) -> dict[str, Any]:
    """How much more memory at the end than after the first quarter."""
    if len(samples) < 4:
        return {"growth_mib": {}}
    settled = samples[int(_SETTLED * len(samples))]
    keys = [key for key in samples[-1] if key != "batches"]
    return {"growth_mib": {key.removesuffix("_mib"): round(samples[-1][key] - settled[key], 1) for key in keys}}


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Seconds, microseconds and mebibytes."""
    problems, lines = [], []
    fresh = results.get("fresh process", {})
    if "error" in fresh:
        problems.append(f"a fresh process fails: {fresh['error']}")
    for name in ("cold", "warm"):
        if fresh.get(name):
            words = ", ".join(
                f"{key.removesuffix('_s').replace('_', ' ')} {value:.2f} s" for key, value in fresh[name].items()
            )
            lines.append(f"fresh process, {name} caches: {words} (n = {1 if name == 'cold' else fresh['tries']})")
    host = results.get("host_us_per_image", {})
    if host:
        lines += ["", f"| host, batch {host['batch']} | us / image | least | n |", "|---|---|---|---|"]
        lines += [
            f"| {name} | {row['median']} | {row['least']} | {host['rounds']} |"
            for name, row in host.items()
            if isinstance(row, dict)
        ] + [""]  # fmt: skip
    memory = results.get("memory", {})
    if "batches" in memory:
        growth = memory.get("growth_mib", {})
        said = ", ".join(f"{name} {value:+.1f} MiB" for name, value in growth.items())
        lines.append(
            f"memory from a quarter of {memory['batches']} batches to their end: {said or 'too few batches to tell'}"
        )
        grown = [name for name, value in growth.items() if value > _GROWTH_MIB]
        problems += [f"memory grows over {memory['batches']} batches: {said}"] if grown else []
    return problems, lines


def advice(results: dict[str, Any]) -> list[str]:
    """Whether kernels are kept, whether Python limits, and whether memory stays."""
    said = []
    fresh = results.get("fresh process", {})
    if fresh.get("cold") and fresh.get("warm"):
        cold, warm = fresh["cold"]["first_batch_s"], fresh["warm"]["first_batch_s"]
        said.append(
            f"a new process waits {warm:.1f} s for its first batch with kept kernels, {cold:.1f} s without: "
            + ("say so in the docs" if warm < _FIRST_S else "find what it still compiles or loads")
        )
    host = {name: row["median"] for name, row in results.get("host_us_per_image", {}).items() if isinstance(row, dict)}
    launched = [us for name, us in host.items() if name.endswith("recorded and launched")]
    if launched and "open_batch" in host:
        us = host["open_batch"] + max(launched)
        said.append(
            f"Python takes at least {us:.0f} us an image, so at most {1e6 / us:,.0f} images/s a process, decoding not "
            "counted: " + ("leave it" if us <= _PYTHON_US else "take it out of Python before any kernel is made faster")
        )
    growth = results.get("memory", {}).get("growth_mib", {})
    if growth:
        grown = [name for name, value in growth.items() if value > _GROWTH_MIB]
        said.append(f"find who keeps memory: {', '.join(grown)} grows" if grown else "memory stays: nothing to do")
    return said
