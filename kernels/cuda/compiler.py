"""CUDA kernels compiled for a compute capability by numba-cuda, without a GPU, and cached on disk like the CPU's loops.

What runs is what the tests count and execute: PTX by libNVVM, assembled by nvJitLink, without optimization at link
time, which makes other code (half as many instructions again, and more registers).
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import llvmlite
import numba
import numba_cuda
import numpy as np
from numba import cuda, types
from numba.cuda.core import config

from ..compiled import fingerprint, is_cacheable, read, store
from .kernel import Image, Kernel
from .shipped import Capability

_ENDING = ".cubin"
_USERS_KEPT = 32  # kernels with functions of users that stay on disk, of each variant
_numbers = itertools.count()
_functions: WeakKeyDictionary[Kernel, Any] = WeakKeyDictionary()
_made_of: WeakKeyDictionary[Kernel, str] = WeakKeyDictionary()
_images: dict[str, Image] = {}
_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
_guard = threading.Lock()


def _lock(name: str) -> threading.Lock:
    """The lock of what has a name: two threads that need the same compile it once, others do not wait."""
    with _guard:
        return _locks[name]


# -- names -------------------------------------------------------------------------------------------------------------


def function_of(kernel: Kernel) -> Any:
    """A kernel's Python function."""
    if kernel not in _functions:
        _functions[kernel] = kernel.code(__package__)
    return _functions[kernel]


def signature_of(kernel: Kernel) -> Any:
    """A kernel's arguments as Numba's types."""
    return types.void(*map(_type_of, kernel.arguments))


def _type_of(argument: str) -> Any:
    kind = getattr(types, argument.removesuffix("[]"))
    return kind[::1] if argument.endswith("[]") else kind


def is_stored(kernel: Kernel) -> bool:
    """Return True if a kernel is cached on disk."""
    return all(map(is_cacheable, kernel.users))


def key_of(kernel: Kernel, *others: Any) -> str:
    """A kernel's name, its types and what its code is made of; and everything else that its machine code depends on."""
    made_of = _made_of.get(kernel)
    if made_of is None:
        made_of = fingerprint(function_of(kernel))[:24] if is_stored(kernel) else str(next(_numbers))
        made_of = _made_of.setdefault(kernel, made_of)
    made_for = hashlib.sha256(repr((*others, kernel.arguments, kernel.bounds)).encode()).hexdigest()[:12]
    return f"{kernel.name}-{made_for}-{made_of}"


# -- compiling ---------------------------------------------------------------------------------------------------------


def image(kernel: Kernel, capability: Capability) -> Image:
    """Machine code for a compute capability, from memory, from disk, or compiled; needs no GPU."""
    name = key_of(kernel, *toolchain(), capability) + _ENDING
    with _lock(name):
        found = _images.get(name)
        if found is None and is_stored(kernel):
            found = read(name, _unpacked)
        if found is None:
            found = _compiled(kernel, capability, name)
        _images[name] = found
        return found


def _compiled(kernel: Kernel, capability: Capability, name: str) -> Image:
    made = assembled(compile_ptx(kernel, capability), capability)[0]
    type(kernel).compile_count += 1  # of the package that launches, which may be another instance than this one
    if is_stored(kernel):
        store(name, made.entry.encode() + b"\0" + made.code, _USERS_KEPT if kernel.users else 0)
    return made


def _unpacked(content: bytes) -> Image:
    entry, _, code = content.partition(b"\0")
    return Image(entry.decode(), code)


def compile_ptx(kernel: Kernel, capability: Capability) -> str:
    """PTX of a kernel for a compute capability; needs no GPU."""
    with pretended_gpu(capability):
        ptx, _ = cuda.compile_ptx(
            function_of(kernel), signature_of(kernel), fastmath=True, launch_bounds=kernel.bounds, cc=capability
        )
    return str(ptx)


@contextmanager
def pretended_gpu(capability: Capability) -> Iterator[None]:
    """Let Numba, which queries the current GPU even where it is given a capability, find one of this capability.

    Under Numba's own lock, so that nothing else is compiled meanwhile.
    """
    from numba.cuda import dispatcher  # which Numba's simulator has not, nor the others below
    from numba.cuda.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        before = dispatcher.get_current_device
        dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
        try:
            yield
        finally:
            dispatcher.get_current_device = before


def assembled(ptx: str, capability: Capability) -> tuple[Image, str]:
    """PTX as machine code for a compute capability, and what the assembler says of it.

    Code for a GPU runs on those of the same generation whose number is not lower. Where this toolkit knows none, or has
    no assembler, it stays PTX, which the driver assembles.
    """
    entry = ptx.partition(".entry ")[2].partition("(")[0].strip()
    known = [one for one in supported() if one[0] == capability[0] and one <= capability]
    if not known or _nvjitlink() is None:
        return Image(entry, ptx.encode() + b"\0"), ""
    code, said = linked(ptx.encode(), f"sm_{known[-1][0]}{known[-1][1]}")
    return Image(entry, code), said


@cache
def _nvjitlink() -> Any:
    """NVIDIA's linker, which is the assembler too; None where it is not installed."""
    with suppress(Exception):  # its library may be missing or too old, for each of which it raises something else
        from cuda.bindings import nvjitlink

        nvjitlink.version()
        return nvjitlink
    return None


def linked(ptx: bytes, architecture: str) -> tuple[bytes, str]:
    """PTX as machine code for an architecture, as ``sm_90``, and what nvJitLink says of it."""
    linker = _nvjitlink()
    options = [f"-arch={architecture}", "-verbose"]
    handle = linker.create(len(options), options)
    try:
        linker.add_data(handle, linker.InputType.PTX, ptx, len(ptx), "kernel")
        linker.complete(handle)
        code = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, code)
        said = bytearray(linker.get_info_log_size(handle))
        linker.get_info_log(handle, said)
    except linker.nvJitLinkError as error:
        said = bytearray(linker.get_error_log_size(handle))
        linker.get_error_log(handle, said)
        reason = said.rstrip(b"\0").decode().strip()
        raise RuntimeError(f"nvJitLink cannot assemble a kernel for {architecture}: {reason}") from error
    finally:
        linker.destroy(handle)
    return bytes(code), said.decode()


@cache
def toolchain() -> tuple[Any, ...]:
    """Return the versions and options that machine code depends on besides the kernel."""
    from cuda.bindings import nvvm

    linker = _nvjitlink()
    versions = (sys.version, numba.__version__, numba_cuda.__version__, llvmlite.__version__, np.__version__)
    libraries = (nvvm.version(), nvvm.ir_version(), linker and linker.version(), supported()[-1])
    return (*versions, *libraries, config.OPT, config.CUDA_DEBUGINFO_DEFAULT, config.FORCE_CUDA_CC)


def supported() -> list[Capability]:
    """Compute capabilities that this toolkit compiles for."""
    from numba.cuda.cudadrv import nvrtc

    return list(nvrtc.get_supported_ccs())
