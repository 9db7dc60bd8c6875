"""A CUDA kernel as the runtime launches it: its arguments and blocks, and where its machine code comes from.

A new kernel is one line of this package's ``__init__``, and is then shipped, compiled, cached and launched like the
others::

    DOUBLE = Kernel("double", DeviceCode("doubling", "double"), ("float32[]", "int32"), block=256)

    launch(DOUBLE, stream, (blocks, images), array, 5)  # of gpuimg._runtimes.cuda_launch

``double`` is a Python function in the module ``doubling``, of device code. Arguments are one-dimensional arrays and
numbers of 32 or 64 bits. Nothing here imports Numba: machine code is read from the file that a wheel brings or from the
cache on disk, and only what is in neither is compiled (:mod:`.compiler`).

A cached file is named by the sources that it is made of, the capability and CUDA's major version, and does not depend
on Python's version. It can be made without a GPU, by ``gpuimg warm``, and carried to a machine that has no compiler.
"""

import hashlib
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .. import disk
from ..native import with_numba
from .shipped import Capability, lack, shipped_image
from .sources import digest

_OLDEST, _NEWEST = 12, 15  # major versions of CUDA, whose names are looked for: a driver loads older ones, too
_USERS_KEPT = 32  # kernels with functions of users that stay on disk, of each variant
_OPTIONS = "NUMBA_OPT", "NUMBA_CUDA_DEBUGINFO", "NUMBA_FORCE_CUDA_CC"  # variables that change the machine code

_images: "dict[str, Image]" = {}  # by the names of their files
_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
_guard = threading.Lock()


class Image(NamedTuple):
    """Code that a driver loads: a cubin, or PTX, which the driver assembles; and the kernel's name in it."""

    entry: str
    code: bytes


@dataclass(frozen=True)
class DeviceCode:
    """A kernel's function in a module of device code; with arguments the name is of a function that returns it."""

    module: str
    name: str
    arguments: tuple[Any, ...] = ()

    def __call__(self, package: str) -> Any:
        """Import the function from a package, such as this one."""
        found = getattr(import_module(f"{package}.{self.module}"), self.name)
        return found(*self.arguments) if self.arguments else found


class Kernel:
    """A kernel: its function of device code, the types of its arguments, and the threads of its blocks.

    Parameters
    ----------
    name : str
        Of no other kernel but those with functions of users.
    code : function
        Returns the Python function, see :class:`DeviceCode`; called where the kernel is compiled.
    arguments : tuple of str
        NumPy's names of their types; flat arrays end in ``[]``.
    block : int
        Threads of a block.
    blocks : int
        Blocks that are to run on a multiprocessor at the same time, which limits their registers.
    users : tuple
        Functions of users in it. It is cached on disk if its checksum covers all that they do, else in memory.
    """

    all: ClassVar[list["Kernel"]] = []  # but those with functions of the users'
    compile_count: ClassVar[int] = 0  # compiled in this process rather than read from disk

    def __init__(
        self,
        name: str,
        code: Callable[[str], Any],
        arguments: tuple[str, ...],
        block: int,
        blocks: int = 1,
        *,
        users: tuple[Any, ...] = (),
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.block = block
        self.bounds = block, blocks
        self.users = users
        self.code = code
        if not users:
            Kernel.all.append(self)

    @cached_property
    def key(self) -> str:
        """Name of the kernel in this process: kernels with equal keys are the same."""
        return str(self._compiler((0, 0)).key_of(self)) if self.users else self.name

    def file_name(self, capability: Capability, toolkit: int) -> str:
        """Name of the cached file for a compute capability, made by a CUDA of this major version.

        For some functions of users there is never one.
        """
        if self.users or not isinstance(self.code, DeviceCode):
            return f"{self._compiler(capability).key_of(self, capability, toolkit)}.cubin"
        options = [os.environ.get(name) for name in _OPTIONS]
        made_for = capability, toolkit, self.arguments, self.bounds, self.code.name, self.code.arguments, options
        number = hashlib.sha256(repr(made_for).encode()).hexdigest()[:12]
        return f"{self.name}-{number}-{digest(self.code.module)[:24]}.cubin"

    def _file_names(self, capability: Capability, driver: int) -> list[str]:
        return [self.file_name(capability, toolkit) for toolkit in range(driver, _OLDEST - 1, -1)]

    def is_cached(self, capability: Capability, driver: int) -> bool:
        """Return True where a file has machine code that a driver for CUDA of this major version loads."""
        return any(map(disk.has, self._file_names(capability, driver)))

    def image(self, capability: Capability) -> Image:
        """Machine code for a compute capability, the first of :meth:`images`."""
        return next(self.images(capability))

    def images(self, capability: Capability, driver: int = _NEWEST) -> Iterator[Image]:
        """Machine code for a compute capability: shipped, from memory or disk, and compiled; needs no GPU.

        Each is to be tried if the driver, for CUDA of this major version, does not load the one before.

        Raises
        ------
        ImportError
            Where it has to be compiled, and numba-cuda is not installed or does not work.
        """
        shipped = None if self.users else shipped_image(self, capability)
        if shipped is not None:
            yield Image(*shipped)
        names = self._file_names(capability, driver)
        refused = None
        for _ in range(2):
            with _lock(names[0]):
                found = _images.get(names[0])
                if found is None or found is refused:
                    cached = () if refused else (disk.read(name, _unpacked) for name in names)
                    found = next(filter(None, cached), None) or self._compiled(capability)
                    _images[names[0]] = found
            yield found
            refused = found

    def _compiled(self, capability: Capability) -> Image:
        compiler = self._compiler(capability)
        made: Image = compiler.compiled(self, capability)
        Kernel.compile_count += 1
        if compiler.is_stored(self):
            name = self.file_name(capability, compiler.toolkit())
            disk.store(name, made.entry.encode() + b"\0" + made.code, _USERS_KEPT if self.users else 0)
        return made

    def _compiler(self, capability: Capability) -> Any:
        """Return the compiler module, needed if no machine code for this capability came with the package."""
        try:
            return load_compiler()
        except ImportError as error:
            reason = "it calls functions of yours" if self.users else lack(capability) or "this driver refuses that"
            raise ImportError(
                f"kernel {self.name} is not among those that come compiled: {reason}; to compile it, {error}"
            ) from error


def load_compiler() -> Any:
    """Import the module that compiles kernels; raise ImportError with the reason where it does not work."""
    try:
        return with_numba("cuda.compiler")
    except Exception as error:  # of any kind: numba-cuda bounds the versions of few packages that it uses
        try:
            versions = f"numba-cuda {version('numba-cuda')} does not work here, with NumPy {np.__version__}"
        except PackageNotFoundError:
            raise ImportError("numba-cuda is needed, and not installed") from error
        raise ImportError(f"{versions}: {type(error).__name__}: {error}") from error


def _lock(name: str) -> threading.Lock:
    """The lock of a name: two threads that need the same kernel compile it once, others do not wait."""
    with _guard:
        return _locks[name]


def _unpacked(content: bytes) -> Image:
    entry, _, code = content.partition(b"\0")
    return Image(entry.decode(), code)
