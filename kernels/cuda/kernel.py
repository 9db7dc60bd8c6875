"""CUDA kernels as machine code: compiled for a compute capability without a GPU, kept on disk like the CPU's loops.

A new kernel is one line, and is then compiled, kept, warmed and launched like the others::

    DOUBLE = Kernel("double", double, types.void(types.float32[::1], types.int32), block=256)

    launch(DOUBLE, stream, (blocks, images), array, 5)  # of gpuimg._runtimes.cuda_launch

``function`` is a Python function of device code. Arguments are one-dimensional arrays and numbers of 32 or 64 bits.
``gpuimg warm --all`` compiles every kernel in :attr:`Kernel.all`, so the module that defines one must be imported by
this package.

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
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import llvmlite
import numba
import numba_cuda
import numpy as np
from numba import cuda
from numba.cuda.core import config

from ..compiled import fingerprint, is_cacheable, read, store

Capability = tuple[int, int]

_ENDING = ".cubin"
_USERS_KEPT = 32  # kernels with functions of users that stay on disk, of each variant
_numbers = itertools.count()


class Image(NamedTuple):
    """What a driver loads: a kernel's name in it, and a cubin (or PTX, where this toolkit knows no such GPU)."""

    entry: str
    code: bytes


class Kernel:
    """A kernel function, the types of its arguments, and the threads of its blocks.

    ``blocks`` of them are to run on a multiprocessor at the same time, which limits their registers. A kernel with
    functions of the users' is kept on disk if all that they do can be told, else in memory.
    """

    all: ClassVar[list[Kernel]] = []  # but those with functions of the users'
    made: ClassVar[int] = 0  # compiled in this process rather than read from disk

    def __init__(
        self, name: str, function: Any, signature: Any, block: int, blocks: int = 1, *, users: tuple[Any, ...] = ()
    ) -> None:
        self.name = name
        self.function = function
        self.signature = signature
        self.block = block
        self.bounds = block, blocks
        self._users = users
        if not users:
            Kernel.all.append(self)

    @cached_property
    def is_kept(self) -> bool:
        """Whether it stays on disk."""
        return all(map(is_cacheable, self._users))

    @cached_property
    def key(self) -> str:
        """What it is made of, but for what compiles it: kernels with equal keys are the same."""
        return self._name((str(self.signature), self.bounds))

    @cached_property
    def _made_of(self) -> str:
        return fingerprint(self.function)[:24] if self.is_kept else str(next(_numbers))

    def _name(self, types: tuple[Any, ...]) -> str:
        return f"{self.name}-{hashlib.sha256(repr(types).encode()).hexdigest()[:12]}-{self._made_of}"

    def image(self, capability: Capability) -> Image:
        """Machine code for a compute capability, from memory, from disk, or compiled; needs no GPU."""
        name = self._name((*toolchain(), capability, str(self.signature), self.bounds)) + _ENDING
        with _lock(name):
            found = _images.get(name)
            if found is None and self.is_kept:
                found = read(name, _unpacked)
            if found is None:
                found = self._compiled(capability, name)
            _images[name] = found
            return found

    def _compiled(self, capability: Capability, name: str) -> Image:
        image = assembled(compile_ptx(self.function, self.signature, capability, self.bounds), capability)[0]
        Kernel.made += 1
        if self.is_kept:
            store(name, image.entry.encode() + b"\0" + image.code, _USERS_KEPT if self._users else 0)
        return image


_images: dict[str, Image] = {}
_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
_guard = threading.Lock()


def _lock(name: str) -> threading.Lock:
    """The lock of what has a name: two threads that need the same compile it once, others do not wait."""
    with _guard:
        return _locks[name]


def _unpacked(content: bytes) -> Image:
    entry, _, code = content.partition(b"\0")
    return Image(entry.decode(), code)


# -- compiling ---------------------------------------------------------------------------------------------------------


def compile_ptx(
    function: Any, signature: Any, capability: Capability, block: int | tuple[int, int] | None = None
) -> str:
    """PTX of a kernel for a compute capability; needs no GPU.

    ``block`` is how many threads its blocks have at most, or that and how many are to run at a time.
    """
    with _told_capability(capability):
        ptx, _ = cuda.compile_ptx(function, signature, fastmath=True, launch_bounds=block, cc=capability)
    return str(ptx)


@contextmanager
def _told_capability(capability: Capability) -> Iterator[None]:
    """Answer Numba, which asks the current GPU for its capability even when it is told one.

    Under Numba's own lock, so that nothing else is compiled meanwhile.
    """
    from numba.cuda import dispatcher  # which Numba's simulator has not, nor the others below
    from numba.cuda.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        asked = dispatcher.get_current_device
        dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
        try:
            yield
        finally:
            dispatcher.get_current_device = asked


def assembled(ptx: str, capability: Capability) -> tuple[Image, str]:
    """PTX as machine code for a compute capability, and what the assembler says of it.

    Code for a GPU runs on those of the same generation whose number is not lower. Where this toolkit knows none, or has
    no assembler, it stays PTX, which the driver assembles.
    """
    entry = ptx.partition(".entry ")[2].partition("(")[0].strip()
    known = [one for one in supported() if one[0] == capability[0] and one <= capability]
    if not known or _nvjitlink() is None:
        return Image(entry, ptx.encode() + b"\0"), ""
    code, said = _link(ptx.encode(), f"sm_{known[-1][0]}{known[-1][1]}")
    return Image(entry, code), said


@cache
def _nvjitlink() -> Any:
    """NVIDIA's linker, which is the assembler too; None where it is not installed."""
    with suppress(Exception):  # its library may be missing or too old, for each of which it raises something else
        from cuda.bindings import nvjitlink

        nvjitlink.version()
        return nvjitlink
    return None


def _link(ptx: bytes, architecture: str) -> tuple[bytes, str]:
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
    """What machine code depends on besides the kernel."""
    from cuda.bindings import nvvm

    linker = _nvjitlink()
    versions = (sys.version, numba.__version__, numba_cuda.__version__, llvmlite.__version__, np.__version__)
    libraries = (nvvm.version(), nvvm.ir_version(), linker and linker.version(), supported()[-1])
    return (*versions, *libraries, config.OPT, config.CUDA_DEBUGINFO_DEFAULT, config.FORCE_CUDA_CC)


def supported() -> list[Capability]:
    """Compute capabilities that this toolkit compiles for."""
    from numba.cuda.cudadrv import nvrtc

    return list(nvrtc.get_supported_ccs())
