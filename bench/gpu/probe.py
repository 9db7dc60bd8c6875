"""A probe of a few seconds: each dependency is checked separately, and failures are described.

Parts that need a broken dependency are not run. A check that ends its process also counts as broken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gpuimg as gi
from bench.gpu.child import Context
from bench.gpu.harness import BROKEN
from bench.gpu.measure import mean_difference, to_host

FAR = 4.0  # mean difference in levels that decoders' rounding does not give
_CHAR = 400

_ADD = """
extern "C" __global__ void add(int* x) {
    atomicAdd(x, 7);
}
"""

DO = {
    "allocate": "`gpuimg info` says what is missing; is the driver as new as the CUDA of the cupy package?",
    "nvrtc": "CuPy compiles with NVRTC and needs CUDA's headers: pip install 'cupy-cuda12x[ctk]' (or 13x)",
    "kernel": "gpuimg's own kernels do not run: `gpuimg warm --all` says whether they compile; if they do, "
    "GPUIMG_REQUIRE_GPU=1 python -m pytest tests/test_gpu.py -x",
    "nvimgcodec": "images are decoded on the CPU then: is nvidia-nvjpeg installed, for the same CUDA?",
    "torch": "results do not reach torch: take `batch.array()` and torch.as_tensor meanwhile",
    "jax": "results do not reach JAX: take `batch.array()` on the CPU meanwhile",
}


class AbsentError(Exception):
    """A dependency of a check is not installed."""


def run(context: Context) -> None:
    """Run one check after another; results are written first, so that one that ends the process is identified."""
    if not context.on_gpu:
        context.record("skipped", "needs a GPU")
        return
    checks: dict[str, dict[str, str]] = {}
    for name, check in CHECKS.items():
        checks[name] = {"status": BROKEN, "why": f"the process ended in it; {DO[name]}"}
        context.record("checks", checks)
        checks[name] = _outcome(name, check, context)
        context.record("checks", checks)


def _outcome(name: str, check: Callable[[Context], None], context: Context) -> dict[str, str]:
    try:
        check(context)
    except AbsentError as error:
        return {"status": "absent", "why": str(error)}
    except Exception as error:
        return {"status": BROKEN, "why": f"{type(error).__name__}: {error}"[:_CHAR] + f"; {DO[name]}"}
    return {"status": "ok", "why": ""}


def _allocate(context: Context) -> None:
    import cupy

    with cupy.cuda.Stream(non_blocking=True) as stream:
        sent = np.arange(1 << 16, dtype=np.uint8)
        array = cupy.empty(sent.shape, cupy.uint8)
        array.set(sent)
        stream.synchronize()
    _expect(bool((to_host(array) == sent).all()), "bytes come back from the GPU changed")


def _nvrtc(context: Context) -> None:
    import cupy

    x = cupy.zeros(1, cupy.int32)
    cupy.RawKernel(_ADD, "add")((1,), (32,), (x,))
    _expect(int(to_host(x)[0]) == 7 * 32, f"32 threads added 7 each, that gave {int(to_host(x)[0])}")


def _kernel(context: Context) -> None:
    import cupy

    image = np.random.default_rng(0).integers(0, 256, (40, 56, 3), np.uint8)
    ours = gi.resize([cupy.asarray(image)], (24, 20)).compute("float32")[0]
    good = np.isclose(to_host(ours), gi.resize([image], (24, 20)).compute("float32")[0], rtol=0, atol=1e-3).all()
    _expect(bool(good), "a resized image is not the CPU's")


def _decoded(context: Context) -> None:
    from bench.gpu.decoders import gpuimg_decoder, one_batch

    files = context.photos("S", 1)[:1]
    (image,) = one_batch(gpuimg_decoder(), files)
    _expect(image is not None, "a photo does not decode")
    difference = mean_difference(image, gi.decode_batch(files, device="cpu")[0])
    _expect(difference <= FAR, f"a photo's mean difference from the CPU's is {difference:.1f} levels")


def _torch(context: Context) -> None:
    try:
        import torch
    except ImportError as error:
        raise AbsentError(str(error)) from error
    if not torch.cuda.is_available():
        raise AbsentError("this torch has no CUDA, or finds no GPU")
    batch = _batch(context)
    _expect(np.array_equal(gi.to_torch(batch).cpu().numpy(), to_host(batch.array())), "torch sees other values")


def _jax(context: Context) -> None:
    try:
        import jax
    except ImportError as error:
        raise AbsentError(str(error)) from error
    if jax.default_backend() != "gpu":
        raise AbsentError("this jax has no GPU backend")
    batch = _batch(context)
    _expect(np.array_equal(np.asarray(gi.to_jax(batch)), to_host(batch.array())), "JAX sees other values")


def _batch(context: Context) -> gi.Batch:
    return gi.resize(gi.open_batch(context.photos("S", 4), device=context.device), (32, 32))


def _expect(good: bool, otherwise: str) -> None:
    if not good:
        raise AssertionError(otherwise)


CHECKS: dict[str, Callable[[Context], None]] = {
    "allocate": _allocate,
    "nvrtc": _nvrtc,
    "kernel": _kernel,
    "nvimgcodec": _decoded,
    "torch": _torch,
    "jax": _jax,
}


def claims(results: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the broken and the working dependencies."""
    checks = results.get("checks", {})
    problems = [f"{name} is broken: {check['why']}" for name, check in checks.items() if check["status"] == BROKEN]
    return problems, [f"{name}: {check['status']} {check['why']}".rstrip() for name, check in checks.items()]
