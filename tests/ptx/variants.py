"""The CUDA kernels as parameters of tests, and their PTX, compiled without a GPU.

PTX is that of the file that a build left in ``kernels/_lib``, else as the installed numba-cuda makes it.
"""

import functools
import hashlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from buildtools import cuda as build
from gpuimg.kernels import cuda as kernels
from gpuimg.kernels import disk, ops
from gpuimg.kernels.cuda import shipped
from gpuimg.kernels.layout import DTYPES


@numba.njit
def dim(r, g, b, y, x, value):  # type: ignore[no-untyped-def]
    """A user's function."""
    return r * value, g * value + x * np.float32(0.001), b * value + y * np.float32(0.001)


USERS = [
    kernels.transform_kernel((dim,), "uint8", DTYPES["float16"].kind, ops.PLAIN),
    kernels.statistics_kernel((dim,), "uint8", ops.PLAIN),
]


def parameters(chosen: list[kernels.Kernel]) -> list[Any]:
    """Kernels as parameters of a test; all but the first of a function and a build are slow."""
    seen = set()
    made = []
    for kernel in chosen:
        assert isinstance(kernel.code, kernels.DeviceCode)
        kind = kernel.code.name, kernel.code.arguments[-1:]
        made.append(pytest.param(kernel, marks=[pytest.mark.slow] if kind in seen else [], id=kernel.name))
        seen.add(kind)
    return made


_BUILDER = hashlib.sha256(Path(build.__file__).read_bytes()).hexdigest()
_USERS_KEPT = 4  # texts with functions of users that stay on disk, of each variant


@functools.cache
def ptx_of(kernel: kernels.Kernel, capability: tuple[int, int] = (9, 0)) -> str:
    """PTX of a kernel: as it ships, or with functions of users as the runtime compiles it.

    What ships is read from the file that a build left, else made as a build does. It is cached on disk, as machine code
    is: several tests read it, in several processes.
    """
    from gpuimg.kernels.cuda.compiler import retargeted

    return retargeted(runtimes_ptx(kernel, (9, 0)) if kernel.users else _shipped_ptx(kernel), capability)


def runtimes_ptx(kernel: kernels.Kernel, capability: tuple[int, int]) -> str:
    """PTX of a kernel as the runtime compiles what does not ship."""
    compiler = kernels.load_compiler()
    return _cached(kernel, capability, lambda: compiler.compile_ptx(kernel, capability))


@functools.cache
def _shipped_ptx(kernel: kernels.Kernel) -> str:
    opened = shipped.shipped_file()
    if isinstance(opened, str):
        return _cached(kernel, _BUILDER, lambda: build.ptx_of(kernel))
    number = opened.best((99, 0))
    assert number is not None
    return opened.code(number)[kernel.name].rstrip(b"\0").decode()


def _cached(kernel: kernels.Kernel, made_for: Any, make: Callable[[], str]) -> str:
    """A text on disk, made where it is not there."""
    from cuda.bindings import nvjitlink

    from gpuimg.kernels.cuda import compiler

    if not compiler.is_stored(kernel):
        return make()
    name = f"{compiler.key_of(kernel, version('numba-cuda'), nvjitlink.version(), made_for)}.ptx"
    found: str | None = disk.read(name, bytes.decode)
    if found is None:
        found = make()
        disk.store(name, found.encode(), _USERS_KEPT if kernel.users else 0)
    return found
