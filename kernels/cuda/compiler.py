"""CUDA kernels compiled for a compute capability by numba-cuda, without a GPU.

What runs is what the tests count and execute: PTX by libNVVM, assembled by nvJitLink, without optimization at link
time, which makes other code (half as many instructions again, and more registers).
"""

import hashlib
import itertools
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numba
import numpy as np
from numba import cuda, types
from numba.cuda.core import config
from numba.cuda.descriptor import cuda_target

from ..compiled import fingerprint, is_cacheable
from .kernel import Image, Kernel
from .shipped import Capability

# Imports all of numba-cuda: where a part of it cannot be imported, the import of this module says so, and not a kernel.
cuda_target.typing_context.refresh()

COMPILED_FOR = (9, 0)  # one text serves all capabilities: it differs in its target only

_numbers = itertools.count()
_functions: WeakKeyDictionary[Kernel, Any] = WeakKeyDictionary()
_made_of: WeakKeyDictionary[Kernel, str] = WeakKeyDictionary()
_texts: WeakKeyDictionary[Kernel, str] = WeakKeyDictionary()


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
    """A kernel's name, its types and what its code is made of; and everything else that its machine code depends on.

    For kernels with functions of users: what these use of NumPy and Numba may change with their versions.
    """
    made_of = _made_of.get(kernel)
    if made_of is None:
        made_of = fingerprint(function_of(kernel))[:24] if is_stored(kernel) else str(next(_numbers))
        made_of = _made_of.setdefault(kernel, made_of)
    options = config.OPT, config.CUDA_DEBUGINFO_DEFAULT, config.FORCE_CUDA_CC
    versions = sys.version, numba.__version__, np.__version__, *options
    made_for = hashlib.sha256(repr((*versions, *others, kernel.arguments, kernel.bounds)).encode()).hexdigest()[:12]
    return f"{kernel.name}-{made_for}-{made_of}"


# -- compiling ---------------------------------------------------------------------------------------------------------


def compiled(kernel: Kernel, capability: Capability) -> Image:
    """Machine code for a compute capability, assembled from the text that serves all of them; needs no GPU."""
    text = _texts.get(kernel)
    if text is None:
        text = _texts.setdefault(kernel, compile_ptx(kernel, COMPILED_FOR))
    return assembled(text, capability)[0]


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
    target = max((one for one in supported() if one <= capability), default=capability)
    text = retargeted(ptx, target).encode()
    if target[0] != capability[0] or target not in supported() or _nvjitlink() is None:
        return Image(entry, text + b"\0"), ""
    code, said = linked(text, "sm_{}{}".format(*target))
    return Image(entry, code), said


def retargeted(ptx: str, capability: Capability) -> str:
    """The same PTX for another capability."""
    return re.sub(r"(?m)^\.target sm_\d+", ".target sm_{}{}".format(*capability), ptx, count=1)


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


def toolkit() -> int:
    """Major version of this toolkit: the drivers of an older one may not load what it makes."""
    from cuda.bindings import nvrtc

    return int(nvrtc.nvrtcVersion()[1])


def supported() -> list[Capability]:
    """Compute capabilities that this toolkit compiles for."""
    from numba.cuda.cudadrv import nvrtc

    return list(nvrtc.get_supported_ccs())
